//! The scenario language, the catalogue and the model, seen from outside.

mod any;
mod naive;
mod oracle;
