//! Runs what was asked for, one after the other, each in an inner process of its own.

use std::sync::Arc;

use worker::clock;

use super::{error::HttpError, run::Run, runs::Runs};
use crate::{isolation::Isolation, run::Job, stream::Drilling};

/// Runs everything that is asked for, until the server ends.
pub(super) async fn run_all(runs: Arc<Runs>, isolation: Isolation) {
    while let Some(run) = runs.next().await {
        let error = drill(&run, &isolation).await.err();
        run.end(error.map(HttpError::from));
        runs.over();
    }
}

async fn drill(run: &Run, isolation: &Isolation) -> anyhow::Result<()> {
    let asked = &run.asked;
    let job = Job::told(&asked.scenario, asked.shell, asked.clock, asked.speed)?;
    let mut drilling = Drilling::start(&job, isolation)?;
    loop {
        tokio::select! {
            message = drilling.next() => match message? {
                Some(message) => run.hear(message, clock::now_ns()),
                None => return Ok(()),
            },
            with_force = run.cancelled() => match with_force {
                // What it came to is still to be heard.
                false => drilling.stop(),
                true => drilling.kill(),
            },
        }
    }
}
