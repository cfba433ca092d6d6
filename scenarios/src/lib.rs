//! What should happen: the scenario language of termdrill, its catalogue and the model.
//!
//! Everything here is pure. A [`Scenario`] describes one drill, [`expect`] interprets it in integer ticks and gives
//! the [`Event`]s that must be seen, and an [`Outcome`] sums them up. The processes that a drill starts speak of what
//! they do in the same events, so that what was expected and what was observed can be compared line by line.
//!
//! ```
//! use scenarios::{Gate, Host, Scenario, ShellBehaviour, expect};
//!
//! let scenario = Scenario::parse(r#"{ "name": "deaf", "title": "Nobody listens", "invocation_s": 8 }"#)?;
//! let scenario = scenario.with_settings(["on_sigterm=drain", "rejection_allowance_percent=35"])?;
//! let host = Host { shell: ShellBehaviour::Stays, custom: None };
//! let expected = expect(&scenario, &host);
//! assert_eq!(expected.outcome.completed.len(), 13);
//! assert_eq!(expected.outcome.gate, Gate::Pass);
//! # Ok::<(), scenarios::ScenarioError>(())
//! ```
//!
//! - [`FIELDS`] is the language as a table; [`Scenario::parse`] and [`Scenario::with_settings`] read it and name
//!   everything that is wrong at once.
//! - [`catalogue`] holds scenarios that show one phenomenon each, and [`lesson`] what they are known to come to.
//! - [`prediction`] follows SIGTERM through any command line that its rules know.
//! - [`fate`](mod@fate) derives from posture, seat and entrypoint what SIGTERM does; [`model`] plays the drill.
//! - [`view`] lays a trace out for a screen, by tick.
//! - [`trace`] stores what happened, a line an event; [`wire`] is what a worker has to speak.

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
pub mod near;
pub mod outcome;
pub mod parse;
pub mod prediction;
pub mod problem;
pub mod random;
pub mod scenario;
pub mod status;
pub mod time;
pub mod trace;
pub mod view;
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
pub use view::{Frame, View};
