//! A drill in an inner process, as its outer one hears of it: a line of JSON for everything that happens.
//!
//! The inner process is that of `termdrill run`, and stores the run in the same way; only what it shows are
//! [`Message`]s. Screens that show a drill while it goes on start it here.

use std::{collections::VecDeque, io::Write, os::fd::OwnedFd, path::PathBuf, pin::Pin, process::ChildStdin};

use scenarios::{Expectation, Outcome, Scenario, Signal, Status};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;

use crate::{
    failure::Failure,
    isolation::{Isolation, NO_PROC, STOP, start_inside_heard},
    process::{Heard, Live},
    readable,
    record::{Attempt, Observed, Record, Verdict},
    run::{INNER, Job},
};

/// What happens in a drill, in the order in which it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The run is stored here, from its beginning on.
    Stored(#[serde(with = "crate::os_path::exact")] PathBuf),
    /// What the model expects.
    Expected(Expectation),
    /// An attempt begins.
    Began {
        /// Its number, from 1 on.
        attempt: usize,
        /// Model seconds in one real second; none on a stepped clock.
        speed: Option<f64>,
    },
    /// Something was observed in the attempt that goes on.
    Observed(Observed),
    /// The attempt has ended: all of it, in trace order and settled with the result store.
    Ended(Box<Attempt>),
    /// Another attempt is made, and why.
    Repeated(String),
    /// The drill is decided; nothing follows.
    Decided {
        /// What it came to.
        verdict: Verdict,
        /// Why, in whole sentences.
        reasons: Vec<String>,
    },
    /// The drill can't be run; nothing follows.
    Failed {
        /// What is wrong.
        what: String,
        /// What to do about it.
        next_step: Option<String>,
        /// The exit status that goes with it.
        exit_code: u8,
    },
}

impl Message {
    /// The message that tells of an error.
    #[must_use]
    pub fn of_error(error: &anyhow::Error) -> Message {
        let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
        Message::Failed {
            what: format!("{error:#}"),
            next_step: failure.and_then(|failure| failure.next_step.clone()),
            exit_code: failure.map_or(crate::failure::UNABLE, |failure| failure.exit_code),
        }
    }
}

/// Everything that was heard of a drill so far, put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Where it is stored, once that is known.
    pub stored_in: Option<PathBuf>,
    /// What is known of it. The verdict is that nothing is proved until the drill is decided.
    pub record: Record,
    /// The number and the speed of the attempt that goes on or was the last one; none before the first.
    pub attempt: Option<(usize, Option<f64>)>,
    /// What was observed in that attempt, in the order in which it became known.
    pub observed: Vec<Observed>,
    /// Why that attempt is another one.
    pub repeated: Option<String>,
    /// Whether the drill is decided.
    pub decided: bool,
    /// Why it can't be run.
    pub failure: Option<Failure>,
}

impl Progress {
    /// Of a drill of `scenario` of which nothing was heard.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Progress {
        let expected = Expectation { events: Vec::new(), outcome: Outcome::of(scenario, &[]) };
        let (attempts, reasons) = (Vec::new(), Vec::new());
        let record = Record { scenario: scenario.clone(), expected, attempts, verdict: Verdict::Inconclusive, reasons };
        Progress {
            stored_in: None,
            record,
            attempt: None,
            observed: Vec::new(),
            repeated: None,
            decided: false,
            failure: None,
        }
    }

    /// Adds what happened next.
    pub fn hear(&mut self, message: Message) {
        match message {
            Message::Stored(run) => self.stored_in = Some(run),
            Message::Expected(expected) => self.record.expected = expected,
            Message::Began { attempt, speed } => {
                self.attempt = Some((attempt, speed));
                self.observed.clear();
            }
            Message::Observed(observed) => self.observed.push(observed),
            Message::Ended(attempt) => self.record.attempts.push(*attempt),
            Message::Repeated(why) => self.repeated = Some(why),
            Message::Decided { verdict, reasons } => {
                (self.record.verdict, self.record.reasons, self.decided) = (verdict, reasons, true);
            }
            Message::Failed { what, next_step, exit_code } => {
                self.failure = Some(Failure { what, next_step, exit_code });
            }
        }
    }
}

/// When the scaled clock of an attempt began, as well as that can be told from what is heard of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Origin(Option<u64>);

impl Origin {
    /// Something was heard at `now_ns` of CLOCK_MONOTONIC that happened `at_us` after the clock began, in microseconds; what
    /// happened before has a negative one.
    pub fn hear(&mut self, at_us: i64, now_ns: u64) {
        let origin_ns = now_ns.saturating_add_signed(at_us.saturating_mul(-1_000));
        // What arrived soonest tells best.
        self.0 = Some(self.0.map_or(origin_ns, |known| known.min(origin_ns)));
    }

    /// The same as a moment of CLOCK_MONOTONIC, in nanoseconds; none before anything was heard.
    #[must_use]
    pub fn ns(self) -> Option<u64> {
        self.0
    }
}

/// A drill that goes on in an inner process. Dropping it ends the drill: the pipe to the process closes.
pub struct Drilling {
    job: serde_json::Value,
    isolation: Isolation,
    inner: Inner,
    lines: VecDeque<Vec<u8>>,
    over: bool,
}

struct Inner {
    process: Option<Live>,
    control: Option<ChildStdin>,
    stdout: AsyncFd<OwnedFd>,
    stderr: OwnedFd,
    ended: Pin<Box<dyn Future<Output = ()>>>,
    has_ended: bool,
    /// What was read and is no whole line yet.
    rest: Vec<u8>,
}

impl Inner {
    fn start(job: &serde_json::Value, isolation: &mut Isolation) -> anyhow::Result<Inner> {
        let Heard { process, control, stdout, stderr } = start_inside_heard(&[INNER], isolation, job)?;
        let ended = Box::pin(process.watch()?);
        Ok(Inner {
            process: Some(process),
            control: Some(control),
            stdout: readable::register(stdout)?,
            stderr,
            ended,
            has_ended: false,
            rest: Vec::new(),
        })
    }

    /// Reads all that is there, and tells whether there can be more.
    fn read(&mut self, lines: &mut VecDeque<Vec<u8>>) -> bool {
        let mut portion = [0; 16 * 1024];
        loop {
            match rustix::io::read(&self.stdout, &mut portion) {
                Ok(0) => return false,
                Ok(count) => self.rest.extend_from_slice(&portion[..count]),
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
            while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let after = self.rest.split_off(end + 1);
                lines.push_back(std::mem::replace(&mut self.rest, after));
            }
        }
    }

    /// What it said on standard error; a process that is well says nothing there.
    fn complaint(&self) -> String {
        let mut text = vec![0; 4096];
        let length = rustix::io::read(&self.stderr, &mut text).unwrap_or(0);
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    }
}

impl Drilling {
    /// Starts the drill of `job`; a runtime must be at hand.
    ///
    /// # Errors
    /// No process can be started.
    pub fn start(job: &Job, isolation: &Isolation) -> anyhow::Result<Drilling> {
        let (job, mut isolation) = (serde_json::to_value(job)?, isolation.clone());
        let inner = Inner::start(&job, &mut isolation)?;
        Ok(Drilling { job, isolation, inner, lines: VecDeque::new(), over: false })
    }

    /// What happens next; nothing once the process has ended. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The process was killed, or says what nobody understands.
    pub async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.over {
                return Ok(None);
            }
            if self.inner.has_ended {
                self.finish()?;
                continue;
            }
            let inner = &mut self.inner;
            tokio::select! {
                biased;
                ready = inner.stdout.readable() => {
                    let mut ready = ready?;
                    ready.clear_ready();
                    if !inner.read(&mut self.lines) {
                        inner.ended.as_mut().await;
                        inner.has_ended = true;
                    }
                }
                // Its output may be held open by what it left, where there is no namespace.
                () = inner.ended.as_mut() => {
                    inner.read(&mut self.lines);
                    inner.has_ended = true;
                }
            }
        }
    }

    /// Tells the drill to stop and to clean up. What it came to is still to be heard.
    pub fn stop(&mut self) {
        if let Some(control) = &mut self.inner.control {
            // Where the pipe is closed it has ended already.
            let _ = control.write_all(STOP);
        }
    }

    /// Kills the drill and everything in it, where it does not stop.
    pub fn kill(&mut self) {
        if let Some(process) = &self.inner.process {
            // It may have ended before.
            let _ = process.signal(Signal::KILL);
        }
    }

    /// The process has ended and all that it said is known.
    fn finish(&mut self) -> anyhow::Result<()> {
        let ended = self.inner.process.take().map(Live::reap);
        self.over = true;
        match ended {
            Some(Ok(ended)) if ended.status == Status::Code(NO_PROC) && self.isolation == Isolation::Namespace => {
                self.isolation = Isolation::without_proc();
                self.inner = Inner::start(&self.job, &mut self.isolation)?;
                self.over = false;
                Ok(())
            }
            Some(Ok(ended)) => match ended.status {
                // Whatever it had to say stands in its messages.
                Status::Code(0..=3) => Ok(()),
                status => {
                    let mut what = format!(
                        "the process that runs the drill ended: {status}; everything in the drill was killed with it"
                    );
                    let complaint = self.inner.complaint();
                    if !complaint.is_empty() {
                        what.push_str(&format!(" ({complaint})"));
                    }
                    Err(Failure::unable(what).into())
                }
            },
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{Event, EventKind, Host, ShellBehaviour, Tick, WorkerId, expect};

    use super::*;
    use crate::report::json;

    #[test]
    fn the_soonest_that_is_heard_tells_when_the_clock_began() {
        let mut origin = Origin::default();
        assert_eq!(origin.ns(), None);
        for (at_us, now_ns, known) in [
            (-4_000, 10_000_000, 14_000_000),
            (1_000, 14_500_000, 13_500_000),
            (2_000, 19_000_000, 13_500_000),
            (i64::MAX, 20_000_000, 0),
        ] {
            origin.hear(at_us, now_ns);
            assert_eq!(origin.ns(), Some(known));
        }
    }

    #[test]
    fn what_is_told_arrives_and_adds_up() {
        let scenario = Scenario::new("told", "Told");
        let expected = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None });
        let event = Event { t: Tick(0), kind: EventKind::WorkerStarted { worker: WorkerId(1) } };
        let observed = Observed { event, at_us: -3, late_us: 0, pid: Some(2), note: None };
        let told = [
            Message::Stored("runs/1".into()),
            Message::Expected(expected.clone()),
            Message::Began { attempt: 1, speed: Some(60.0) },
            Message::Observed(observed.clone()),
            Message::Repeated("The machine was too slow.".to_owned()),
            Message::Began { attempt: 2, speed: Some(30.0) },
            Message::Observed(observed.clone()),
            Message::Decided { verdict: Verdict::Matched, reasons: Vec::new() },
        ];
        let mut progress = Progress::new(&scenario);
        for message in told {
            let line = json::line(&message).unwrap();
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            let heard: Message = serde_json::from_slice(&line).unwrap();
            assert_eq!(heard, message);
            progress.hear(heard);
        }
        assert_eq!(progress.record.expected, expected);
        assert_eq!(progress.observed, [observed], "those of an earlier attempt are gone");
        assert_eq!((progress.attempt, progress.decided), (Some((2, Some(30.0))), true));
        let failure = anyhow::Error::new(Failure::unable("no").hint("yes"));
        progress.hear(Message::of_error(&failure));
        assert_eq!(progress.failure, Some(Failure::unable("no").hint("yes")));
    }
}
