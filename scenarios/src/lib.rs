//! What should happen: the scenario language of termdrill, its catalogue and the model.
//!
//! Everything here is pure. A [`Scenario`] describes one drill, [`expect`] interprets it in integer ticks and gives
//! the [`Event`]s that must be seen, and an [`Outcome`] sums them up. The processes that a drill starts speak of what
//! they do in the same events, so that what was expected and what was observed can be compared line by line.

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod entrypoint;
pub mod event;
pub mod fate;
pub mod fault;
pub mod fields;
pub mod id;
pub mod lesson;
pub mod model;
mod near;
pub mod outcome;
pub mod parse;
pub mod problem;
pub mod scenario;
pub mod status;
pub mod time;
pub mod trace;
pub mod wire;

pub use entrypoint::{Entrypoint, ShellBehaviour};
pub use event::{Event, EventKind, Reason, Stage};
pub use fate::{CustomBehaviour, Effect, Host};
pub use fault::Fault;
pub use fields::{FIELDS, Field};
pub use id::{RequestId, WorkerId};
pub use model::{Expectation, expect};
pub use outcome::{Gate, Outcome, WorkerOutcome, WorkerState};
pub use problem::{Problem, ScenarioError};
pub use scenario::{HandlerInstalled, OnSigterm, Scenario};
pub use status::{Signal, Status};
pub use time::{Schedule, Span, Tick};
pub use trace::{Source, Trace};
