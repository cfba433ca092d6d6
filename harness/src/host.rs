//! What is looked up on this machine before the model can speak: its shell, and entrypoints that only a look tells of.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
};

use scenarios::{
    CustomBehaviour, Effect, Entrypoint, EventKind, HandlerInstalled, Host, OnSigterm, Scenario, ShellBehaviour, Span,
    Status, Tick, WorkerId,
};

use crate::{
    drill::{self, Clock, Extent, Remains, Setup, StopPipe, settle},
    entry::{self, SH},
    failure::{self, Failure},
    foreign, process,
    record::{Lateness, Observed, Part},
    shell::{self, Shell},
};

/// The hidden command of this program that prints its own pid.
pub const PRINT_PID: &str = "print-pid";

/// What `/bin/sh -c 'WORKER'` does on this machine. It differs between shells, so a command that prints its pid is run
/// the same way: the shell's own pid tells that it became the command.
///
/// # Errors
/// There is no usable `/bin/sh`.
pub fn shell_behaviour() -> anyhow::Result<ShellBehaviour> {
    let line = entry::quoted(&[std::env::current_exe()?.into_os_string(), PRINT_PID.into()])?;
    let failed = |why: String| {
        Failure::unable(format!("what {SH} does with a command can't be looked up: {why}"))
            .hint(format!("scenarios with the entrypoint shell need a {SH}"))
    };
    let (pid, output) =
        process::output(&[OsStr::new(SH), OsStr::new("-c"), &line]).map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed("it is not there".to_owned()),
            _ => failed(error.to_string()),
        })?;
    match output.trim().parse::<u32>() {
        Ok(printed) if printed == pid => Ok(ShellBehaviour::BecomesWorker),
        Ok(_) => Ok(ShellBehaviour::Stays),
        Err(_) => Err(failed(format!("it printed {output:?} instead of a pid")).into()),
    }
}

/// The same as far as it matters: a scenario that no shell is in the way of does not have it looked up.
///
/// # Errors
/// As [`shell_behaviour`].
pub fn shell_behaviour_for(scenario: &Scenario) -> anyhow::Result<ShellBehaviour> {
    match scenario.entrypoint {
        Entrypoint::Shell => shell_behaviour(),
        // No other form asks.
        _ => Ok(ShellBehaviour::Stays),
    }
}

/// What is known of this machine before any drill, as far as `scenario` needs it.
///
/// # Errors
/// As [`shell_behaviour`]; and a custom entrypoint without `expected_effect`, which only `run` can measure.
pub fn look(scenario: &Scenario) -> anyhow::Result<Host> {
    if let (Entrypoint::Custom(command), None) = (&scenario.entrypoint, scenario.expected_effect) {
        return Err(unknown_effect(command).into());
    }
    let host = shell_for([scenario])?.host(scenario);
    if let Some(custom) = host.custom {
        failure::warn(shell::remark(custom).trim_end_matches('.'));
    }
    Ok(host)
}

/// What `/bin/sh` does here, as far as one of these scenarios needs it; what none of them needs is not looked at, and taken to
/// be as usual. Where it can't be seen what it does about SIGTERM, a person is told and the same is done.
///
/// # Errors
/// As [`shell_behaviour`].
pub fn shell_for<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> anyhow::Result<Shell> {
    let mut behaviour = None;
    let mut stays = false;
    for scenario in scenarios {
        if scenario.entrypoint == Entrypoint::Shell && behaviour.is_none() {
            behaviour = Some(shell_behaviour()?);
        }
        stays |= shell::stays(scenario, behaviour.unwrap_or(ShellBehaviour::Stays));
    }
    let mut shell = Shell::usual(behaviour.unwrap_or(ShellBehaviour::Stays));
    if stays {
        match shell::seen_by_another() {
            Ok(seen) => shell.on_sigterm = seen,
            Err(error) => failure::warn(&format!(
                "what {SH} does about SIGTERM could not be looked at, and is taken to be as usual: {error:#}"
            )),
        }
    }
    Ok(shell)
}

/// What is wrong with a custom entrypoint of which nobody said what it does, where nothing is run.
#[must_use]
pub fn unknown_effect(command: &[String]) -> Failure {
    let effects = Effect::NAMED.map(|(name, _)| name).join(", ");
    Failure::bad_input(format!("the model can't know what {command:?} does with SIGTERM"))
        .hint(format!("say it with expected_effect ({effects}), or use `run`, which measures it"))
}

/// The directory of a measurement within that of its run.
pub const MEASUREMENT: &str = "measurement";
const BUSY_MEASUREMENT: &str = "measurement-busy";

/// How fast a custom entrypoint is measured: model seconds in one real second.
pub const MEASURING_SPEED: f64 = 4.0;

/// The same with a foreign worker, which has two real seconds to boot.
const FOREIGN_MEASURING_SPEED: f64 = 1.0;

/// The drill that measures the scenario's custom entrypoint: one worker of the same posture, and one SIGTERM.
#[must_use]
pub fn measuring_drill(scenario: &Scenario) -> Scenario {
    let booted = Tick::START + scenario.startup_s <= scenario.signal_at();
    // A handler that is not there when the signal comes is no handler.
    let late = scenario.handler_installed == HandlerInstalled::AfterBoot && !booted;
    Scenario {
        initial_workers: 1,
        startup_s: Span::seconds(2),
        fail_worker_1: false,
        signal_at_s: Span::seconds(4),
        grace_period_s: Span::seconds(1),
        on_sigterm: if late { OnSigterm::Default } else { scenario.on_sigterm },
        handler_installed: HandlerInstalled::AtStart,
        boot_replacement: false,
        ..scenario.clone()
    }
}

/// Measures what a custom entrypoint does, and tells with what: an idle worker.
///
/// Such a worker is done with its drain at once, and may be even before a process that leaves without waiting for it. So a worker
/// with something to do has the last word where a drain ends in a status that is no success, or behind a process of which
/// no rule says that it waits (`waits`).
///
/// # Errors
/// Why there is no measurement; the outer result is the machine's fault.
pub async fn measure(
    setup: &Setup<'_>,
    stop: &StopPipe,
    waits: bool,
) -> anyhow::Result<Result<(CustomBehaviour, &'static str), Unmeasured>> {
    let idle = measure_once(setup, stop, Extent::Measurement).await?;
    let in_doubt = |found: &CustomBehaviour| {
        found.effect == Effect::Drained && found.top_stays && !(waits && found.status == Status::SUCCESS)
    };
    if !idle.as_ref().is_ok_and(in_doubt) {
        return Ok(idle.map(|found| (found, "an idle worker")));
    }
    let busy = measure_once(setup, stop, Extent::BusyMeasurement).await?;
    Ok(busy.map(|found| (found, "a busy worker")))
}

/// Why a custom entrypoint was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmeasured {
    /// A person has stopped it.
    Stopped,
    /// The machine is too slow to tell what comes of SIGTERM.
    TooLate,
    /// The worker behind it never got ready, or the drill can't be run: this is why.
    Unusable(String),
}

/// How often an entrypoint is measured, each time at half the speed, until all that concerns the signal was in time.
const MEASUREMENTS: i32 = 3;

/// Measures with an idle or a busy worker, at a lower speed where the machine was late.
async fn measure_once(
    setup: &Setup<'_>,
    stop: &StopPipe,
    extent: Extent,
) -> anyhow::Result<Result<CustomBehaviour, Unmeasured>> {
    for times in 0..MEASUREMENTS {
        let measured = measure_at(setup, stop, extent, 0.5_f64.powi(times)).await?;
        if measured != Err(Unmeasured::TooLate) {
            return Ok(measured);
        }
    }
    Ok(Err(Unmeasured::TooLate))
}

/// The same, at `share` of the usual speed.
async fn measure_at(
    setup: &Setup<'_>,
    stop: &StopPipe,
    extent: Extent,
    share: f64,
) -> anyhow::Result<Result<CustomBehaviour, Unmeasured>> {
    let idle = measuring_drill(setup.scenario);
    let scenario = match extent {
        // What arrives a second before the signal is in flight then, and done before the deadline.
        Extent::BusyMeasurement => {
            Scenario { grace_period_s: Span::seconds(2), invocation_s: Span::seconds(2), ..idle }
        }
        _ => idle,
    };
    // Its scripts, store and log stay beside those of the run, as evidence.
    let directory = setup.directory.join(if extent == Extent::Measurement { MEASUREMENT } else { BUSY_MEASUREMENT });
    fs::create_dir_all(&directory).map_err(|error| Failure::of_io("make", &directory, &error))?;
    let setup = Setup {
        scenario: &scenario,
        clock: match setup.clock {
            // Some runtimes take their time to boot, and what is measured is not how long.
            Clock::Scaled { .. } if setup.foreign => Clock::Scaled { speed: FOREIGN_MEASURING_SPEED * share },
            Clock::Scaled { .. } => Clock::Scaled { speed: MEASURING_SPEED * share },
            Clock::Stepped => Clock::Stepped,
        },
        extent,
        fault: None,
        store: &directory.join("store.sqlite"),
        log: &|worker| drill::worker_log(&directory, worker),
        directory: &directory,
        ..*setup
    };
    let mut done = drill::run(&setup, stop, &mut |_| ()).await?;
    if done.remains.stopped {
        return Ok(Err(Unmeasured::Stopped));
    }
    if was_late(&done.remains) {
        return Ok(Err(Unmeasured::TooLate));
    }
    let worker_end = done.evidence.as_ref().and_then(|evidence| evidence.end(evidence.worker_pid?)?.status);
    // Before Linux 6.15 the status of a process that is not our child is not told; what it was doing tells then.
    let cut = |kind| matches!(kind, EventKind::InvocationKilled { .. });
    let was_cut = || done.remains.events.iter().any(|observed| cut(observed.event.kind));
    if worker_end.map_or_else(was_cut, |status| status != Status::SUCCESS) {
        settle::leave_out_begun_drains(&mut done.remains.events, &mut done.remains.remarks);
    }
    if let Some(problem) = done.remains.problems.first() {
        return Ok(Err(Unmeasured::Unusable(problem.clone())));
    }
    let top = done.tops.get(&WorkerId::FIRST).copied();
    Ok(behaviour(&done.remains.events, top).map_err(Unmeasured::Unusable))
}

/// Whether a worker got ready too late to be told, or what came of the signals too late to be told by the time of it.
fn was_late(remains: &Remains) -> bool {
    let place = |kind: fn(EventKind) -> bool| remains.events.iter().position(|observed| kind(observed.event.kind));
    let ready = place(|kind| matches!(kind, EventKind::WorkerReady { .. }));
    let told = place(|kind| matches!(kind, EventKind::SigtermSent { .. }));
    let of_signals = |late: &Lateness| matches!(late.part, Part::Signal | Part::Kill);
    ready.is_some() && ready > told
        || remains.lateness.summary().iter().filter(|late| of_signals(late)).any(|late| !late.within_bounds())
}

/// Reads the behaviour from what was observed of the idle worker and the pid of its top.
fn behaviour(events: &[Observed], top: Option<i32>) -> Result<CustomBehaviour, String> {
    let ready = events.iter().find(|observed| matches!(observed.event.kind, EventKind::WorkerReady { .. }));
    let Some(ready) = ready else {
        let ended = events.iter().find_map(|observed| match observed.event.kind {
            EventKind::WorkerFailed { status, .. } | EventKind::WorkerExited { status, .. } => Some(status),
            _ => None,
        });
        return Err(match ended {
            Some(status) => format!("it ended before the worker was ready: {status}"),
            None => "the worker behind it did not get ready".to_owned(),
        });
    };
    let top_stays = ready.pid != top;
    let mut found = CustomBehaviour { top_stays, ..CustomBehaviour::of_init(Effect::Ignored) };
    let mut killed = false;
    for observed in events {
        match (observed.event.kind, found.effect) {
            (EventKind::SigkillSent { .. }, _) => killed = true,
            (EventKind::ReadinessWithdrawn { .. }, _) if !killed => {
                found = CustomBehaviour { top_stays, ..CustomBehaviour::of_init(Effect::Drained) };
            }
            (EventKind::WorkerOrphaned { .. }, _) if killed => break,
            (EventKind::WorkerExited { .. }, _) if killed => {
                found.dies_with_top = top_stays;
                break;
            }
            (EventKind::WorkerExited { status, .. }, Effect::Drained) => {
                found.status = status;
                break;
            }
            (EventKind::WorkerOrphaned { status, .. }, told) => {
                let drains_alone = told == Effect::Drained;
                found = CustomBehaviour { effect: Effect::Orphaned, status, drains_alone, ..found };
                break;
            }
            (EventKind::WorkerExited { status, .. }, _) => {
                found = CustomBehaviour { effect: Effect::Terminated, status, ..found };
                break;
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The command that starts a worker: the foreign one, or this program.
///
/// # Errors
/// It can't be found out where this program is.
pub fn worker_command(foreign: Option<&foreign::Command>) -> std::io::Result<Vec<OsString>> {
    match foreign {
        Some(command) => Ok(command.words().iter().map(OsString::from).collect()),
        None => Ok(vec![std::env::current_exe()?.into_os_string(), "worker".into()]),
    }
}

#[cfg(test)]
mod tests {
    use scenarios::Event;

    use super::*;

    const W: WorkerId = WorkerId::FIRST;

    fn observed(kinds: &[EventKind]) -> Vec<Observed> {
        let one =
            |&kind| Observed { event: Event { t: Tick(40), kind }, at_us: 0, late_us: 0, pid: Some(9), note: None };
        kinds.iter().map(one).collect()
    }

    #[test]
    fn a_behaviour_is_read_from_what_happened_before_sigkill() {
        let ready = EventKind::WorkerReady { worker: W };
        let sent = EventKind::SigtermSent { worker: W };
        let exited = |status| EventKind::WorkerExited { worker: W, status };
        let rows = [
            (vec![ready, sent, EventKind::ReadinessWithdrawn { worker: W }, exited(Status::SUCCESS)], Effect::Drained),
            (vec![ready, sent, exited(Status::CODE_143)], Effect::Terminated),
            (vec![ready, sent, EventKind::WorkerOrphaned { worker: W, status: Status::SIGTERM }], Effect::Orphaned),
            (vec![ready, sent, EventKind::SigkillSent { worker: W }, exited(Status::SIGKILL)], Effect::Ignored),
        ];
        for (kinds, effect) in rows {
            let found = behaviour(&observed(&kinds), Some(7)).unwrap();
            assert_eq!((found.effect, found.top_stays), (effect, true), "{kinds:?}");
        }
        let withdrawn = EventKind::ReadinessWithdrawn { worker: W };
        let drained = behaviour(&observed(&[ready, sent, withdrawn, exited(Status::CODE_143)]), Some(7)).unwrap();
        assert_eq!((drained.effect, drained.status), (Effect::Drained, Status::CODE_143));
        let kill = EventKind::SigkillSent { worker: W };
        for (end, dies) in
            [(exited(Status::SIGKILL), true), (EventKind::WorkerOrphaned { worker: W, status: Status::SIGKILL }, false)]
        {
            let found = behaviour(&observed(&[ready, sent, kill, end]), Some(7)).unwrap();
            assert_eq!((found.effect, found.dies_with_top), (Effect::Ignored, dies), "{end:?}");
        }
        let orphaned = EventKind::WorkerOrphaned { worker: W, status: Status::CODE_143 };
        for (kinds, drains_alone) in
            [(&[ready, sent, withdrawn, orphaned][..], true), (&[ready, sent, orphaned], false)]
        {
            let found = behaviour(&observed(kinds), Some(7)).unwrap();
            let seen = (found.effect, found.status, found.drains_alone);
            assert_eq!(seen, (Effect::Orphaned, Status::CODE_143, drains_alone));
        }
        let becomes = behaviour(&observed(&[ready, sent, exited(Status::CODE_143)]), Some(9)).unwrap();
        assert_eq!((becomes.status, becomes.top_stays), (Status::CODE_143, false));
    }

    #[test]
    fn an_entrypoint_that_never_gets_a_worker_ready_can_not_be_measured() {
        let failed = EventKind::WorkerFailed { worker: W, status: Status::Code(1) };
        assert!(behaviour(&observed(&[failed]), Some(7)).unwrap_err().contains("exit code 1"));
        assert!(behaviour(&[], None).unwrap_err().contains("did not get ready"));
    }
}
