//! The boot: from a process that listens to a worker that is ready.

use crate::{
    pace::Pace,
    settings::{Posture, Settings},
    sigterm::{self, Arrival, Handler},
};

/// How a boot can end before the worker is ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootError {
    /// It was told to.
    #[error("the boot fails, as it was told to")]
    Failed,
    /// The end of it can't be waited for, or the handler not be installed.
    #[error("the boot fails: {0}")]
    Io(#[from] std::io::Error),
}

/// Boots until the ready tick, then installs the handler that is to be installed after the boot, if one is.
pub(crate) async fn finish(
    settings: &Settings,
    pace: &Pace,
    posture: Posture,
    arrival: &Arrival,
) -> Result<Option<Handler>, BootError> {
    pace.waiter()?.until(settings.ready_tick).await?;
    if settings.fail_boot {
        return Err(BootError::Failed);
    }
    Ok(sigterm::after_boot(posture, arrival)?)
}
