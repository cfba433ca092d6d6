//! `termdrill watch`: lanes, decisions and evidence on a screen of the terminal, of a drill that goes on, a stored run, or
//! what the model expects.
//!
//! [`state`] and [`draw`] are pure: keys, time and what a drill tells go in, cells come out. Around them is one loop that
//! waits for whichever comes next.

pub mod draw;
pub mod keys;
pub mod player;
pub mod state;
mod terminal;

use std::{
    ffi::OsString,
    io::{IsTerminal, stdin, stdout},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use crossterm::event::Event;
use scenarios::{Host, Scenario, expect};
use tokio::{io::unix::AsyncFd, sync::mpsc::UnboundedReceiver};
use worker::clock::{self, Timer};

use self::{
    draw::Look,
    state::{Input, State},
    terminal::Taken,
};
use crate::{
    cli::{self, ClockChoice, Display, ModelArgs, RunArgs},
    commands,
    evidence::kernel,
    failure::Failure,
    host, input,
    isolation::{Signals, isolate},
    readable,
    run::{self, Job},
    runs, runtime,
    stream::{Drilling, Message},
    verdict::MAX_ATTEMPTS,
};

/// The arguments of `watch`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill watch ignored-signal
  termdrill watch handler-grace-10 --set grace_period_s=19 --speed 2
  termdrill watch --replay latest
  termdrill watch shell-form --model            what should happen; nothing is started

Keys: space play or pause, arrows move in time and choose a worker, e lays expected and observed over each
other, ? shows all, q quits. Without a terminal the lines of `run` or `replay` are printed instead.

Exit status: 0 matched, 1 diverged, 2 bad usage or input, 3 inconclusive")]
pub struct WatchArgs {
    /// A name as in `termdrill list`, a JSON file, or `-` for standard input: it is drilled, and can be watched.
    #[arg(value_name = "NAME|FILE|-", required_unless_present = "replay")]
    pub scenario: Option<OsString>,
    /// Change a field, such as `grace_period_s=19`; can be given several times.
    #[arg(long = "set", value_name = "FIELD=VALUE", action = clap::ArgAction::Append)]
    pub settings: Vec<String>,
    /// Model seconds in one real second, 0.1 to 200, of the drill or of what is replayed.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = cli::speed, allow_negative_numbers = true)]
    pub speed: f64,
    /// What makes model time pass in the drill.
    #[arg(long, value_name = "CLOCK", default_value = "scaled")]
    pub clock: ClockChoice,
    /// Watch a stored run again: `latest`, its name, the beginning of its name, or its directory.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["scenario", "settings", "clock", "model"])]
    pub replay: Option<OsString>,
    /// Watch what the model expects, without starting any process.
    #[arg(long, conflicts_with = "clock")]
    pub model: bool,
}

/// Shows the screen until a person leaves it.
///
/// # Errors
/// Bad input; a machine that can't run any drill; a terminal that can't be drawn on.
pub fn watch(display: Display, args: &WatchArgs) -> anyhow::Result<ExitCode> {
    if !is_screen() {
        return as_lines(display, args);
    }
    let (state, job) = begin(args)?;
    let look = Look { ascii: display.screen().ascii, colour: takes_colour(display) };
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    // Before there is any other thread.
    let isolation = isolate();
    let state = runtime::block_on(async {
        let drilling = job.as_ref().map(|job| Drilling::start(job, &isolation)).transpose()?;
        Loop { state, look, signals: &signals }.run(drilling).await
    })??;
    signals.end_by_what_was_received()?;
    finish(display, args, &state)
}

/// What is watched, and the drill that is to be started for it, if one is.
fn begin(args: &WatchArgs) -> anyhow::Result<(State, Option<Job>)> {
    if let Some(run) = &args.replay {
        let path = commands::find_run(run)?;
        let stored = runs::read(&path)?;
        return Ok((State::of_run(stored.record, path, args.speed), None));
    }
    let Some(source) = &args.scenario else { return Err(nothing_to_watch().into()) };
    let scenario = input::load(source, &args.settings, stdin().lock())?;
    if args.model {
        let expected = expect(&scenario, &host::look(&scenario)?);
        return Ok((State::of_model(scenario, &expected, args.speed), None));
    }
    let job = Job::told(&scenario, host::shell_behaviour_for(&scenario)?, args.clock, args.speed)?;
    kernel::remove_leftovers();
    Ok((State::of_drill(scenario, args.speed), Some(job)))
}

/// Clap asks for one of the two.
fn nothing_to_watch() -> Failure {
    Failure::bad_input("there is nothing to watch").hint("give a scenario, or --replay RUN")
}

/// Whether there is a screen to draw on: a terminal that knows more than lines (TERM in environ(7)).
fn is_screen() -> bool {
    let kind = std::env::var("TERM").unwrap_or_default();
    stdout().is_terminal() && !matches!(kind.as_str(), "" | "dumb")
}

fn takes_colour(display: Display) -> bool {
    match anstream::ColorChoice::from(display.color) {
        anstream::ColorChoice::Auto => anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never,
        choice => choice != anstream::ColorChoice::Never,
    }
}

/// The same as lines, where there is no screen.
fn as_lines(display: Display, args: &WatchArgs) -> anyhow::Result<ExitCode> {
    if let Some(run) = &args.replay {
        return commands::replay(display, run, false, &[]);
    }
    let Some(scenario) = args.scenario.clone() else { return Err(nothing_to_watch().into()) };
    let input = cli::Input { scenario, settings: args.settings.clone() };
    if args.model {
        let look = |scenario: &Scenario| -> anyhow::Result<Host> { host::look(scenario) };
        return commands::model(display, &ModelArgs { input, json: false, shell: None }, look);
    }
    let args = RunArgs {
        input,
        speed: args.speed,
        clock: args.clock,
        json: false,
        quiet: false,
        out: None,
        reports: Vec::new(),
        worker: None,
        attempts: MAX_ATTEMPTS as u8,
        kernel_trace: false,
        fault: None,
    };
    run::outer(display, &args)
}

/// What stays on the terminal once the screen is gone, and the exit status: that of the verdict.
fn finish(display: Display, args: &WatchArgs, state: &State) -> anyhow::Result<ExitCode> {
    if let Some(failure) = &state.failure {
        return Err(failure.clone().into());
    }
    let Some(record) = &state.record else { return Ok(ExitCode::SUCCESS) };
    if args.replay.is_none() {
        let stored = state.stored_in.as_deref();
        let screen = display.screen();
        let mut text = crate::report::run::heading(screen, &state.scenario);
        text.push_str(&crate::report::run::closing(screen, record, stored));
        display.output().print(&text)?;
    }
    Ok(ExitCode::from(record.verdict.exit_code()))
}

/// Panics once something is on the screen, where the environment asks for that: it is tested that the terminal is given back
/// even then. Not there in a release build.
fn panic_if_asked_to() {
    #[cfg(debug_assertions)]
    assert!(std::env::var_os("TERMDRILL_TEST_PANIC").is_none(), "the screen panics because a test asks for it");
}

/// How long a frame is shown at least while time moves, in nanoseconds: 30 a second.
const FRAME_NS: u64 = 33_000_000;

/// The one loop that everything comes together in.
struct Loop<'a> {
    state: State,
    look: Look,
    signals: &'a Signals,
}

/// What came next.
enum Next {
    /// Something happened at the terminal; none where it is gone.
    Terminal(Option<Event>),
    /// A drill told something; none where it is over.
    Message(Option<Message>),
    /// It is time for another frame.
    Frame,
    /// A signal asks us to end.
    Signal,
}

impl Loop<'_> {
    async fn run(mut self, mut drilling: Option<Drilling>) -> anyhow::Result<State> {
        let mut taken =
            Taken::take().map_err(|error| Failure::unable(format!("the terminal can't be used: {error}")))?;
        let shown = self.show(&mut taken, &mut drilling).await;
        // First the terminal, then what else has to be left in order: it may take a moment.
        drop(taken);
        if let Some(drilling) = drilling {
            self.stop(drilling).await;
        }
        shown.map(|()| self.state)
    }

    async fn show(&mut self, taken: &mut Taken, drilling: &mut Option<Drilling>) -> anyhow::Result<()> {
        let mut events = terminal::listen()?;
        let signal = readable::register(self.signals.wakeups()?)?;
        let mut timer = Timer::new()?;
        loop {
            let now_ns = clock::now_ns();
            self.state.update(Input::Time(now_ns));
            taken.draw(|frame| draw::draw(frame.buffer_mut(), &self.state, self.look))?;
            panic_if_asked_to();
            // Whatever comes within a frame is drawn together.
            let frame_ns = now_ns + FRAME_NS;
            loop {
                match self.next(&mut events, drilling, &signal, &mut timer, frame_ns).await? {
                    Next::Signal | Next::Terminal(None) => return Ok(()),
                    Next::Frame => break,
                    Next::Terminal(Some(Event::Key(key))) => {
                        if let Some(ask) = keys::ask(&key) {
                            self.state.update(Input::Ask(ask));
                            break;
                        }
                    }
                    // The next frame is drawn in the new size.
                    Next::Terminal(Some(_)) => break,
                    Next::Message(Some(message)) => {
                        self.state.update(Input::Message(message, clock::now_ns()));
                    }
                    Next::Message(None) => {
                        *drilling = None;
                        self.state.update(Input::Over);
                        if self.state.failure.is_some() {
                            return Ok(());
                        }
                        break;
                    }
                }
            }
            if self.state.leaving {
                return Ok(());
            }
        }
    }

    async fn next(
        &self,
        events: &mut UnboundedReceiver<Event>,
        drilling: &mut Option<Drilling>,
        signal: &AsyncFd<std::os::fd::OwnedFd>,
        timer: &mut Timer,
        frame_ns: u64,
    ) -> anyhow::Result<Next> {
        let moves = self.state.player.is_moving() || drilling.is_some();
        let message = async {
            match drilling {
                Some(drilling) => drilling.next().await,
                None => std::future::pending().await,
            }
        };
        Ok(tokio::select! {
            biased;
            _ = signal.readable() => Next::Signal,
            event = events.recv() => Next::Terminal(event),
            _ = timer.until(frame_ns), if moves => Next::Frame,
            message = message => Next::Message(message?),
        })
    }

    /// Stops the drill and waits until nothing of it is left; a signal cuts that short.
    async fn stop(&mut self, mut drilling: Drilling) {
        drilling.stop();
        let Ok(signal) = self.signals.wakeups().and_then(readable::register) else { return };
        let mut received = self.signals.has_received();
        loop {
            tokio::select! {
                biased;
                _ = signal.readable(), if !received => {
                    drilling.kill();
                    received = true;
                }
                message = drilling.next() => match message {
                    Ok(Some(message)) => self.state.update(Input::Message(message, clock::now_ns())),
                    // What it came to was heard, or never will be.
                    Ok(None) | Err(_) => break,
                },
            }
        }
        self.state.update(Input::Over);
    }
}
