//! The scenario language, the catalogue and the model, seen from outside.

#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod any;
mod lesson;
mod naive;
mod oracle;
mod parsing;
mod properties;
mod view;
