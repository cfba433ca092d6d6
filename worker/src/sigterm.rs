//! What the worker does about SIGTERM, installed at an exact moment.
//!
//! PID 1 of a PID namespace never gets a signal that arrives while its action is the default one: the kernel drops it
//! when it is sent, and a handler that is installed later doesn't hear of it (`pid_namespaces(7)`). So it matters
//! when the handler is installed, and nothing here is done lazily inside a future.

use std::{
    io,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nix::sys::signal::{SigHandler, Signal};
use scenarios::{HandlerInstalled, OnSigterm};
use signal_hook::{
    consts::SIGTERM,
    iterator::{backend::SignalDelivery, exfiltrator::WithOrigin},
};
use tokio::sync::watch;

use crate::settings::Posture;

/// The handler of a worker that drains; it stays in place until this is dropped.
pub(crate) struct Handler {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    wakeups: Option<tokio::net::UnixStream>,
}

/// Whether SIGTERM has come, and whether the worker has drawn its consequences from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrival {
    arrived: Arc<AtomicBool>,
    considered: Arc<watch::Sender<bool>>,
}

impl Arrival {
    /// The worker has drawn its consequences.
    pub(crate) fn consider(&self) {
        self.considered.send_replace(true);
    }

    /// Waits until the worker has drawn its consequences from a SIGTERM that has come; at once where none has.
    pub(crate) async fn considered(&self) {
        if self.arrived.load(Ordering::SeqCst) {
            // The sender is our own, so it can't go away.
            let _ = self.considered.subscribe().wait_for(|&considered| considered).await;
        }
    }
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// Its pid in this process's PID namespace (`si_pid`, `sigaction(2)`); 0 for one from outside.
    pub(crate) pid: i32,
}

/// Takes up `posture` as far as it is to be taken up first thing. The default one touches nothing: what was inherited
/// stays.
pub(crate) fn at_start(posture: Posture, arrival: &Arrival) -> io::Result<Option<Handler>> {
    match (posture.on_sigterm, posture.handler_installed) {
        (OnSigterm::Drain, HandlerInstalled::AtStart) => install_handler(arrival).map(Some),
        (OnSigterm::Ignore, _) => ignore().map(|()| None),
        (OnSigterm::Drain, HandlerInstalled::AfterBoot) | (OnSigterm::Default, _) => Ok(None),
    }
}

/// Takes up what of `posture` is to be taken up after the boot.
pub(crate) fn after_boot(posture: Posture, arrival: &Arrival) -> io::Result<Option<Handler>> {
    match (posture.on_sigterm, posture.handler_installed) {
        (OnSigterm::Drain, HandlerInstalled::AfterBoot) => install_handler(arrival).map(Some),
        _ => Ok(None),
    }
}

/// Installs the handler: from now on SIGTERM is noted, whether or not anybody waits for it yet.
fn install_handler(arrival: &Arrival) -> io::Result<Handler> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    write.set_nonblocking(true)?;
    let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), [SIGTERM])?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&arrival.arrived))?;
    Ok(Handler { delivery, wakeups: None })
}

/// Sets SIGTERM to SIG_IGN: the kernel drops it from now on.
#[expect(unsafe_code, reason = "no safe function sets a disposition")]
fn ignore() -> io::Result<()> {
    // SAFETY: signal(2) is unsafe because a handler may do what no handler may. SIG_IGN runs no code at all, and
    // nothing else in this process has set a disposition of SIGTERM that this could take away.
    unsafe { nix::sys::signal::signal(Signal::SIGTERM, SigHandler::SigIgn) }?;
    Ok(())
}

impl Handler {
    /// Waits for the next SIGTERM, or gives one that came before. Needs a tokio runtime with I/O enabled.
    pub(crate) async fn received(&mut self) -> io::Result<Sender> {
        if self.wakeups.is_none() {
            // A second descriptor of the same socket: the delivery keeps its own.
            self.wakeups = Some(tokio::net::UnixStream::from_std(self.delivery.get_read().try_clone()?)?);
        }
        loop {
            if let Some(origin) = self.delivery.pending().next() {
                return Ok(Sender { pid: origin.process.map_or(0, |process| process.pid) });
            }
            if let Some(wakeups) = &self.wakeups {
                wakeups.readable().await?;
                // Emptied before the signals are looked at, so that one in between is seen in the next round.
                let emptied = wakeups.try_read(&mut [0; 64]);
                emptied.map(|_| ()).or_else(|error| match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(()),
                    _ => Err(error),
                })?;
            }
        }
    }
}

/// The next SIGTERM of `handler`; without a handler, never.
pub(crate) async fn received(handler: &mut Option<Handler>) -> io::Result<Sender> {
    match handler {
        Some(handler) => handler.received().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The TERM bit of a mask in /proc/self/status (`proc_pid_status(5)`).
    fn term_bit(mask: &str) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{mask}:"))).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() & (1 << (SIGTERM - 1)) != 0
    }

    /// A variable that tells a test that it has the process to itself.
    const ALONE: &str = "SIGTERM_TEST_ALONE";

    /// A disposition belongs to the whole process, so this one is played in one of its own: this program once more.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the one place that starts these tests once more")]
    fn what_is_ignored_is_dropped_when_it_is_sent() {
        if std::env::var_os(ALONE).is_none() {
            let name = "sigterm::tests::what_is_ignored_is_dropped_when_it_is_sent";
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let played = again.args([name, "--exact", "--nocapture"]).env(ALONE, "yes").output().unwrap();
            let said = String::from_utf8_lossy(&played.stdout);
            assert!(played.status.success() && said.contains("1 passed"), "{played:?}");
            return;
        }
        assert!(!term_bit("SigIgn"));
        ignore().unwrap();
        assert!(term_bit("SigIgn") && !term_bit("SigCgt"));
        // It would end this process.
        signal_hook::low_level::raise(SIGTERM).unwrap();
    }

    #[test]
    fn a_handler_shows_in_the_masks_and_a_signal_is_heard_with_its_sender() {
        assert!(!term_bit("SigIgn") && !term_bit("SigCgt"));

        let mut handler = Some(install_handler(&Arrival::default()).unwrap());
        assert!(term_bit("SigCgt"));
        // Sent before anybody waits, twice.
        signal_hook::low_level::raise(SIGTERM).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
            for _ in 0..2 {
                assert_eq!(received(&mut handler).await.unwrap().pid, std::process::id().cast_signed());
            }
            tokio::select! {
                biased;
                _ = received(&mut handler) => panic!("there were two"),
                () = tokio::task::yield_now() => {}
            }
            signal_hook::low_level::raise(SIGTERM).unwrap();
            received(&mut handler).await.unwrap();
        });
    }
}
