//! Drills a scenario until it is decided: looks at the machine, makes attempts, compares each with the model.

use std::fs;

use scenarios::{
    CustomBehaviour, Effect, Entrypoint, EventKind, Expectation, Host, Outcome, Scenario, Schedule, ShellBehaviour,
    Signal, Status, WorkerId, expect,
};
use worker::warm::{Standing, Warm};

use crate::{
    awake::{Awake, FAST},
    cli::ClockChoice,
    compare,
    drill::{self, Setup, StopPipe, settle},
    evidence::{Kernel, KernelTrace, explain},
    failure::Failure,
    host::{self, Unmeasured},
    isolation::Isolation,
    matrix,
    record::{Attempt, Difference, Observed, Reactions, Record, Verdict, last_seen},
    shell,
    verdict::{self, Next},
};

/// How many attempts are made on a stepped clock: what differs has to do so again.
const STEPPED_ATTEMPTS: usize = 2;

const STOPPED: &str = "The drill was stopped before its end.";

/// How attempts are made.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// What makes model time pass.
    pub clock: ClockChoice,
    /// The speed of the first attempt on a scaled clock.
    pub speed: f64,
    /// How many attempts to make at most.
    pub attempts: usize,
}

/// Who is told of a drill while it goes on; nobody has to listen to all of it.
pub trait Watch {
    /// What the model expects is known.
    ///
    /// # Errors
    /// What keeps it from being stored or shown; the drill is given up.
    fn expected(&mut self, _expected: &Expectation) -> anyhow::Result<()> {
        Ok(())
    }

    /// Attempt `number`, from 1 on, begins.
    ///
    /// # Errors
    /// As [`Watch::expected`].
    fn begin(&mut self, _number: usize, _speed: Option<f64>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Something was observed.
    fn observed(&mut self, _observed: &Observed) {}

    /// An attempt has ended.
    ///
    /// # Errors
    /// As [`Watch::expected`].
    fn end(&mut self, _attempt: &Attempt) -> anyhow::Result<()> {
        Ok(())
    }

    /// How soon the processes reacted to signals in the attempt that has ended.
    fn reacted(&mut self, _: Reactions) {}

    /// Another attempt will be made.
    ///
    /// # Errors
    /// As [`Watch::expected`].
    fn repeat(&mut self, _why: &str) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Drills the scenario of `setup`, whose clock is that of each attempt, until it is decided.
///
/// # Errors
/// The machine does not give what any drill needs, or what `watch` says.
pub async fn judge(
    setup: &Setup<'_>,
    shell: ShellBehaviour,
    manner: Manner,
    stop: &StopPipe,
    watch: &mut dyn Watch,
) -> anyhow::Result<Record> {
    let scenario = setup.scenario;
    match prepare(setup, shell, stop).await? {
        Ready::Yes { host, remarks } => {
            let mut record = undecided(scenario, expect(scenario, &host), remarks);
            watch.expected(&record.expected)?;
            attempt_until_decided(setup, manner, stop, watch, &mut record).await?;
            Ok(record)
        }
        Ready::No { why } => {
            // What an unknown list does is never guessed.
            let unknown = matches!(scenario.entrypoint, Entrypoint::Custom(_)) && scenario.expected_effect.is_none();
            let expected = match unknown {
                true => Expectation { events: Vec::new(), outcome: Outcome::of(scenario, &[]) },
                false => expect(scenario, &Host { shell, custom: None }),
            };
            let record = undecided(scenario, expected, vec![why]);
            watch.expected(&record.expected)?;
            Ok(record)
        }
    }
}

fn undecided(scenario: &Scenario, expected: Expectation, reasons: Vec<String>) -> Record {
    let scenario = scenario.clone();
    Record { scenario, expected, attempts: Vec::new(), verdict: Verdict::Inconclusive, reasons }
}

/// Whether the scenario can be drilled here.
enum Ready {
    /// It can; what is known of the machine, and what a person should know of how that was found out.
    Yes { host: Host, remarks: Vec<String> },
    /// It can't.
    No { why: String },
}

async fn prepare(setup: &Setup<'_>, shell: ShellBehaviour, stop: &StopPipe) -> anyhow::Result<Ready> {
    let scenario = setup.scenario;
    if let (true, Isolation::Bare { why }) = (scenario.pid_namespace, setup.isolation) {
        return Ok(Ready::No { why: format!("The scenario needs a PID namespace, and {why}.") });
    }
    let Entrypoint::Custom(command) = &scenario.entrypoint else {
        let (custom, remarks) = behind_a_shell(setup, shell).await;
        return Ok(Ready::Yes { host: Host { shell, custom }, remarks });
    };
    let idle = host::measuring_drill(scenario);
    let beside = setup.directory.join(host::MEASUREMENT);
    fs::create_dir_all(&beside).map_err(|error| Failure::of_io("make", &beside, &error))?;
    let predicted = matrix::predict(command, idle.on_sigterm, scenario.pid_namespace, &beside).await;
    let waits = predicted.is_some_and(|reaction| reaction.effect() == Some(Effect::Drained));
    let (measured, with) = match host::measure(setup, stop, waits).await? {
        Ok(found) => found,
        Err(why) => return Ok(Ready::No { why: unmeasured(command, &why) }),
    };
    // What the scenario says counts for the effect; what it can't say was measured.
    let effect = scenario.expected_effect.unwrap_or(measured.effect);
    let how = match scenario.expected_effect {
        Some(_) => "is said to be".to_owned(),
        None => format!("was measured with {with}:"),
    };
    let mut remarks = vec![format!(
        "The effect of SIGTERM on the entrypoint {command:?} {how} {}; its first process {}.",
        effect.name(),
        if measured.top_stays { "stays the worker's parent" } else { "becomes the worker" }
    )];
    // Both are there to be doubted: what is said, and what one idle worker has shown.
    if measured.effect == effect && measured.drains_alone {
        remarks.push("The worker was told as well: it drains alone, after its first process has left.".to_owned());
    }
    let others = [
        (format!("{}{} showed", with[..1].to_uppercase(), &with[1..]), Some(measured.effect)),
        ("The rules for command lines predict".to_owned(), predicted.and_then(|reaction| reaction.effect())),
    ];
    for (who, other) in others.into_iter().filter_map(|(who, other)| Some((who, other?))) {
        if other != effect {
            remarks.push(format!("{who} another effect: {}.", other.name()));
        }
    }
    Ok(Ready::Yes { host: Host { shell, custom: Some(as_declared(measured, effect)) }, remarks })
}

fn unmeasured(command: &[String], why: &Unmeasured) -> String {
    match why {
        Unmeasured::Stopped => STOPPED.to_owned(),
        Unmeasured::TooLate => format!(
            "What the entrypoint {command:?} does with SIGTERM could not be measured: the machine was too late, at a quarter of \
             the speed too."
        ),
        Unmeasured::Unusable(problem) => format!("The entrypoint {command:?} can't be used: {problem}."),
    }
}

/// What was measured, with the effect that counts: how the top ends belongs to the effect that it was seen with.
fn as_declared(measured: CustomBehaviour, effect: Effect) -> CustomBehaviour {
    match measured.effect == effect {
        true => measured,
        false => CustomBehaviour { status: CustomBehaviour::of_init(effect).status, effect, ..measured },
    }
}

/// What `/bin/sh` does in front of the worker where it is unlike other shells, and what a person should know of that.
async fn behind_a_shell(setup: &Setup<'_>, behaviour: ShellBehaviour) -> (Option<CustomBehaviour>, Vec<String>) {
    if !shell::stays(setup.scenario, behaviour) {
        return (None, Vec::new());
    }
    match shell::of_this_machine(setup.directory).await {
        Ok(seen) => {
            let custom = seen.behaviour(setup.scenario);
            (custom, custom.map(shell::remark).into_iter().collect())
        }
        Err(error) => (None, vec![format!("What /bin/sh does about SIGTERM could not be looked at: {error:#}.")]),
    }
}

async fn attempt_until_decided(
    setup: &Setup<'_>,
    manner: Manner,
    stop: &StopPipe,
    watch: &mut dyn Watch,
    record: &mut Record,
) -> anyhow::Result<()> {
    let mut speed = manner.speed;
    loop {
        let number = record.attempts.len() + 1;
        let told_status = status_of_told(record);
        let setup = Setup { clock: manner.clock.at(speed), told_status, ..*setup };
        watch.begin(number, setup.clock.speed())?;
        let (attempt, stopped) = attempt(&setup, stop, watch, &record.expected).await?;
        watch.end(&attempt)?;
        record.attempts.push(attempt);
        if stopped {
            record.reasons.push(STOPPED.to_owned());
            return Ok(());
        }
        let next = match manner.clock {
            ClockChoice::Scaled => {
                let lateness = record.attempts.last().map(|last| &*last.lateness).unwrap_or_default();
                verdict::next_speed(manner.speed, speed, lateness)
            }
            ClockChoice::Stepped => Some(speed).filter(|_| number < STEPPED_ATTEMPTS),
        };
        let next = next.filter(|_| number < manner.attempts);
        match verdict::decide(&record.attempts, next.is_some()) {
            Next::Done { verdict, reasons } => {
                record.verdict = verdict;
                record.reasons.extend(reasons);
                return Ok(());
            }
            Next::Repeat { why } => {
                watch.repeat(&why)?;
                speed = next.unwrap_or(speed);
            }
        }
    }
}

/// How the first process of the worker that is told to stop ends by that, as far as the model expects it to.
fn status_of_told(record: &Record) -> Option<Status> {
    let signal_at = record.scenario.signal_at();
    record.expected.events.iter().filter(|event| event.t == signal_at).find_map(|event| match event.kind {
        EventKind::WorkerExited { worker: WorkerId::FIRST, status }
        | EventKind::WorkerOrphaned { worker: WorkerId::FIRST, status } => Some(status),
        _ => None,
    })
}

/// One attempt, and whether it was stopped before its end.
async fn attempt(
    setup: &Setup<'_>,
    stop: &StopPipe,
    watch: &mut dyn Watch,
    expected: &Expectation,
) -> anyhow::Result<(Attempt, bool)> {
    let speed = setup.speed_if_alone();
    let _awake = speed.filter(|speed| *speed > FAST).and_then(|_| Awake::keep());
    let _warm = speed.and_then(|speed| Warm::keep(Standing::Ordinary, Schedule::new(0, speed).tick_ns));
    let trace = setup.kernel_trace.then(|| KernelTrace::start(setup.isolation, &[Signal::TERM, Signal::KILL]));
    let done = drill::run(setup, stop, &mut |observed| watch.observed(observed)).await?;
    watch.reacted(done.reactions);
    let mut remains = done.remains;
    if Effect::seen_in(&expected.events) == Some(Effect::Terminated) {
        settle::leave_out_begun_drains(&mut remains.events, &mut remains.remarks);
    }
    let mut evidence = done.evidence;
    if let (Some(evidence), Some(trace)) = (&mut evidence, trace) {
        evidence.kernel = Some(match trace {
            Ok(trace) => trace.finish(evidence.snapshots(), done.origin_ns),
            Err(why) => Kernel::Unavailable { why },
        });
    }
    let events: Vec<_> = remains.events.iter().map(|observed| observed.event).collect();
    let mut difference = compare::first_difference(&expected.events, &remains.events);
    if let Some(difference) = &mut difference {
        difference.why = why(difference, &remains.remarks);
    }
    // What has not happened may have been due when it was stopped or broke off, or still to come.
    let whole = !remains.stopped && remains.problems.is_empty();
    let difference = difference.filter(|difference| whole || difference.observed.is_some());
    let explanation = evidence.as_ref().and_then(|evidence| explain(setup.scenario, evidence, &remains.events));
    let attempt = Attempt {
        speed: setup.clock.speed(),
        wall_ms: done.wall_ms,
        cut_off_at: (!whole).then(|| last_seen(&remains.events)),
        outcome: Outcome::of(setup.scenario, &events),
        events: remains.events,
        lateness: remains.lateness.summary(),
        difference,
        problems: remains.problems,
        remarks: remains.remarks,
        evidence,
        explanation,
    };
    Ok((attempt, remains.stopped))
}

/// A remark on the very request that differs tells why.
fn why(difference: &Difference, remarks: &[String]) -> Option<String> {
    let observed = difference.observed.as_ref().map(|observed| observed.event);
    let request = difference.expected.or(observed)?.kind.request()?.to_string();
    remarks.iter().find(|remark| remark.split([' ', ':']).any(|word| word == request)).cloned()
}
