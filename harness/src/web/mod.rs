//! `termdrill serve`: a page on which drills are changed, watched and run for real.
//!
//! What the server answers, all of it JSON but the page itself:
//!
//! | request | answer |
//! |---|---|
//! | `GET /`, `/NAME` | the page and its files |
//! | `GET /api/fields` | every field of a scenario, the presets, and what this server allows |
//! | `POST /api/model` with `scenario` | what should happen: `scenario`, `effect`, `notes`, `events`, `outcome`, `view` |
//! | `GET /api/runs` | `current`, the `queue`, and the newest stored `runs` |
//! | `POST /api/runs` with `scenario`, `clock`, `speed` | 202 with the `id` of a run that was put at the end of the queue |
//! | `GET /api/runs/{id}` | all that is known of a run by now, by its id or the name under which it is stored |
//! | `GET /api/runs/{id}/events` | the run as it goes on: server-sent events, from its start |
//! | `POST /api/runs/{id}/cancel` | the run is stopped, or taken out of the queue |
//!
//! The events of a run are `state` (`state`, `ahead`), `expected` (`events`, `outcome`, `view`), `attempt` (`attempt`, `speed`,
//! `clock`, and `why` it is another one), `observed` (an event with `at_us`, `late_us`, `pid`), and last `done` (`state`,
//! `run`, `verdict`, `reasons`, `error`).
//!
//! What goes wrong is answered by `{"error", "hint"}`, and for a scenario that is none by `problems` as well, each with
//! `field` and `message`. `view` is a [`scenarios::View`].
//!
//! The server starts processes, so it is careful about who asks: see [`guard`].

mod api;
mod assets;
mod document;
mod drilling;
mod error;
mod events;
mod fields;
pub mod guard;
mod listen;
mod model;
mod run;
mod runs;
mod serve;

use std::path::PathBuf;

use scenarios::Scenario;
use serde_json::Value;

use crate::{
    record::Record,
    runs::{State, Stored},
};

pub use serve::{ServeArgs, serve};

/// What a server answers about the fields, with these scenarios as presets: for a report, which has no server.
///
/// # Errors
/// None that these types can cause.
pub(crate) fn fields_of(scenarios: &[&Scenario]) -> serde_json::Result<Value> {
    serde_json::to_value(fields::of_report(scenarios))
}

/// What a server answers about the run `name` that came to `record`.
///
/// # Errors
/// None that these types can cause.
pub(crate) fn document_of(name: &str, record: &Record) -> serde_json::Result<Value> {
    let state = State::Finished(record.verdict);
    let stored = Stored { path: PathBuf::new(), state, record: record.clone() };
    document::of_stored(name, &stored, |document| serde_json::to_value(document))
}
