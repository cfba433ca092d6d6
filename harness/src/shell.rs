//! What the shell of this machine does about SIGTERM in front of a worker: seen by sending it one.
//!
//! The usual shells die of it before a foreground child, and report a child that died of it as 128 + 15. mksh waits for
//! the child first, and ksh93 reports 15. So it is looked at, once for a run, and never assumed. Whoever only asks the model
//! has it looked at too, so that both expect the same.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{getpid, set_child_subreaper};
use scenarios::{
    CustomBehaviour, Effect, Entrypoint, Host, Scenario, ShellBehaviour, Signal, Status,
    fate::posture,
    prediction::{Manner, OnTerm, Report, Top, predict},
};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use worker::clock::{self, Timer};

use crate::{
    entry::{self, SH},
    matrix::programs,
    process::{self, Launch, Live, Other, Seat},
    report::{json, write_stdout},
    runtime,
    scratch::Scratch,
};

/// The hidden command of this program that stands for a worker without a handler.
const STAND_STILL: &str = "stand-still";
/// How long it stays at most if nobody ends it.
const STANDS_FOR: Duration = Duration::from_secs(20);
/// How long a look may take, and how often it is taken again.
const LOOK_NS: u64 = 10_000_000_000;
const AGAIN_NS: u64 = 500_000;

/// The hidden command of this program that looks at the shell and prints what was seen.
pub const LOOK: &str = "look-at-shell";

/// What a shell does about SIGTERM in front of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnSigterm {
    /// Whether it waits for a foreground child before it does anything, and does not die of it at once.
    pub waits: bool,
    /// The status of a script that passes it on ([`entry::TRAP`]) to a child which dies of it.
    pub passed_on: Status,
}

/// What the usual shells do.
pub const USUAL: OnSigterm = OnSigterm { waits: false, passed_on: Status::CODE_143 };

impl OnSigterm {
    /// What it comes to for a scenario with a shell in front of its worker; `None` where the rules of the language hold.
    #[must_use]
    pub fn behaviour(self, scenario: &Scenario) -> Option<CustomBehaviour> {
        let manner = match (&scenario.entrypoint, self.passed_on) {
            (Entrypoint::ScriptTrap, Status::CODE_143) => return None,
            (Entrypoint::ScriptTrap, status) => {
                let on_child_end = match status {
                    Status::Code(code) => Report::Plus(code.wrapping_sub(Signal::TERM.number().unsigned_abs() as u8)),
                    Status::Signal(_) => Report::Raises(143),
                };
                Manner { on_child_end, ..Manner::FORWARDING_TRAP }
            }
            _ if self.waits => Manner { on_term: OnTerm::Waits, ..Manner::WAITING_SHELL },
            _ => return None,
        };
        let reaction = predict(&[manner], scenario.pid_namespace, posture(scenario));
        let status = match reaction.top {
            Top::Ended(status) | Top::Gone(status) => status,
            Top::Stuck => Status::SIGKILL,
        };
        let effect = reaction.effect().unwrap_or(Effect::Ignored);
        let drains_alone = reaction.worker == scenarios::prediction::WorkerFate::DrainedAlone;
        Some(CustomBehaviour { status, drains_alone, ..CustomBehaviour::of_init(effect) })
    }
}

/// What is known of the machine's `/bin/sh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// What it does with a command line that is one command.
    pub behaviour: ShellBehaviour,
    /// What it does about SIGTERM in front of a worker.
    pub on_sigterm: OnSigterm,
}

impl Shell {
    /// One that does about SIGTERM what the usual shells do.
    #[must_use]
    pub const fn usual(behaviour: ShellBehaviour) -> Shell {
        Shell { behaviour, on_sigterm: USUAL }
    }

    /// What is known of a machine with this shell before `scenario` is drilled on it.
    #[must_use]
    pub fn host(self, scenario: &Scenario) -> Host {
        let custom = if stays(scenario, self.behaviour) { self.on_sigterm.behaviour(scenario) } else { None };
        Host { shell: self.behaviour, custom }
    }
}

/// What a person should know where `/bin/sh` is unlike other shells, as a whole sentence.
#[must_use]
pub fn remark(custom: CustomBehaviour) -> String {
    let (name, effect) = (name(), custom.effect.name());
    format!("/bin/sh, which is {name} here, is unlike other shells: the effect of SIGTERM is taken to be {effect}.")
}

/// Whether a shell stays in front of the worker of a scenario.
#[must_use]
pub fn stays(scenario: &Scenario, shell: ShellBehaviour) -> bool {
    match scenario.entrypoint {
        Entrypoint::Shell => shell == ShellBehaviour::Stays,
        Entrypoint::Script | Entrypoint::ScriptTrap => true,
        _ => false,
    }
}

/// What the file is called that `/bin/sh` is.
#[must_use]
pub fn name() -> String {
    programs::real_name(SH).unwrap_or_else(|| SH.to_owned())
}

/// What `/bin/sh` does here, looked at once for this process; scripts for that are written to `directory`.
///
/// # Errors
/// See [`look`].
pub async fn of_this_machine(directory: &Path) -> anyhow::Result<OnSigterm> {
    static SEEN: OnceCell<OnSigterm> = OnceCell::const_new();
    let own = std::env::current_exe().context("this program can't be found")?;
    SEEN.get_or_try_init(|| look(&[SH], &own, directory)).await.copied()
}

/// What `/bin/sh` does here, or why that can't be told. A process of its own looks: it starts threads, and whoever is still
/// to enter a user namespace may have none.
///
/// # Errors
/// See [`look`], or that process can't be started.
pub fn seen_by_another() -> anyhow::Result<OnSigterm> {
    let own = std::env::current_exe().context("this program can't be found")?;
    let (_, said) = process::output(&[own.as_os_str(), LOOK.as_ref()])?;
    let seen: Result<OnSigterm, String> = serde_json::from_str(&said).context("it was not looked at to the end")?;
    seen.map_err(anyhow::Error::msg)
}

/// The other process: looks, and prints what was seen or why it could not be, as one line of JSON.
///
/// # Errors
/// The output can't be written.
pub fn look_and_tell() -> anyhow::Result<ExitCode> {
    // What a shell leaves behind is ours to reap (PR_SET_CHILD_SUBREAPER(2const)).
    let seen = set_child_subreaper(Some(getpid())).map_err(anyhow::Error::from).and_then(|()| {
        let folder = Scratch::make()?;
        runtime::block_on(of_this_machine(folder.path()))?
    });
    write_stdout(&json::line(&seen.map_err(|error| format!("{error:#}")))?)?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at the shell that these words start, with scripts in `directory`. `own` is this program.
///
/// # Errors
/// It can't be started, or does neither this nor that in time.
pub async fn look(shell: &[&str], own: &Path, directory: &Path) -> anyhow::Result<OnSigterm> {
    let child = entry::quoted(&[own.into(), STAND_STILL.into(), std::process::id().to_string().into()])?;
    let child = child.to_string_lossy();
    let foreground = format!("{child}\nexit $?\n");
    let passes_on = entry::TRAP.replace(scenarios::entrypoint::WORKER_PLACEHOLDER, &child);
    let waits = signalled(shell, directory, "foreground.sh", &foreground, Until::AtRest).await?.is_none();
    let passed_on = signalled(shell, directory, "trap.sh", &passes_on, Until::Ended).await?;
    let passed_on = passed_on.context("a script that passes SIGTERM on does not end with its child")?;
    Ok(OnSigterm { waits, passed_on })
}

/// What a shell that was sent SIGTERM is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// That it has ended, or has taken the signal and waits for something again.
    AtRest,
    /// That it has ended.
    Ended,
}

/// Runs a script that starts the child, sends SIGTERM to its shell when both are at rest, and gives the status with which
/// the shell ends; `None` if it has come to rest again instead.
async fn signalled(
    shell: &[&str],
    directory: &Path,
    name: &str,
    text: &str,
    until: Until,
) -> anyhow::Result<Option<Status>> {
    let script = directory.join(name);
    fs::write(&script, text).context("a script can't be written")?;
    let argv = shell.iter().map(OsString::from).chain([script.clone().into_os_string()]).collect();
    let log = File::options().write(true).open("/dev/null")?;
    let launch = Launch { argv, env: std::env::vars_os().collect(), log, seat: Seat::Ordinary };
    let top = process::spawn(launch).await?;
    let mut timer = Timer::new()?;
    let (top, child, seen) = match until_at_rest(&top, &mut timer).await {
        Ok(child) => {
            let (top, seen) = answer(top, until, &mut timer).await;
            (top, Some(child), seen)
        }
        Err(error) => (Some(top), None, Err(error)),
    };
    clean_up(top, child).await?;
    let _ = fs::remove_file(script);
    seen
}

/// The child, once both wait for something.
async fn until_at_rest(top: &Live, timer: &mut Timer) -> anyhow::Result<Other> {
    let until_ns = clock::now_ns() + LOOK_NS;
    loop {
        if top.has_ended() {
            bail!("it ends before anything is sent to it");
        }
        let stands_still = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|&byte| byte == 0).any(|word| word == STAND_STILL.as_bytes()) && process::is_at_rest(*pid)
        };
        let child = process::children(top.pid()).into_iter().find(stands_still).and_then(Other::open);
        if let Some(child) = child.filter(|_| process::is_at_rest(top.pid())) {
            return Ok(child);
        }
        again(timer, until_ns).await?;
    }
}

/// Sends SIGTERM to the shell, and gives the status with which it ends, or itself if it has come to rest again. One that
/// dies of a signal is never at rest from the moment on at which that is sent: the kernel has put SIGKILL in its place.
async fn answer(mut top: Live, until: Until, timer: &mut Timer) -> (Option<Live>, anyhow::Result<Option<Status>>) {
    let until_ns = clock::now_ns() + LOOK_NS;
    if let Err(error) = top.signal(Signal::TERM) {
        return (Some(top), Err(error.into()));
    }
    loop {
        top = match top.reap() {
            Ok(ended) => return (None, Ok(Some(ended.status))),
            Err(top) => top,
        };
        if until == Until::AtRest && process::is_at_rest(top.pid()) {
            return (Some(top), Ok(None));
        }
        if let Err(error) = again(timer, until_ns).await {
            return (Some(top), Err(error));
        }
    }
}

/// Ends the shell, if it is there, and its child: as an orphan it may be ours to reap.
async fn clean_up(top: Option<Live>, child: Option<Other>) -> anyhow::Result<()> {
    let below = top.iter().flat_map(|top| process::descendants(top.pid()));
    let all: Vec<Other> = below.chain(child).collect();
    let mut top = top;
    while let Some(live) = top.take() {
        live.signal(Signal::KILL)?;
        live.watch()?.await;
        top = live.reap().err();
    }
    for process in all {
        process.kill();
        process.wait();
        process.reap();
    }
    Ok(())
}

async fn again(timer: &mut Timer, until_ns: u64) -> anyhow::Result<()> {
    let now_ns = clock::now_ns();
    if now_ns > until_ns {
        bail!("it comes to no rest");
    }
    Ok(timer.until(now_ns + AGAIN_NS).await?)
}

/// Stands still until it is ended, or `looker` has ended, who may have been killed: then nobody else would end it, nor the
/// shell that waits for it.
#[must_use]
pub fn stand_still(looker: i32) -> ExitCode {
    if let Some(looker) = Other::open(looker) {
        looker.wait_at_most(STANDS_FOR);
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use scenarios::OnSigterm as Posture;

    use super::*;

    fn scenario(entrypoint: Entrypoint, pid_namespace: bool, on_sigterm: Posture) -> Scenario {
        Scenario { entrypoint, pid_namespace, on_sigterm, ..Scenario::new("a", "a") }
    }

    #[test]
    fn the_usual_shells_follow_the_rules_of_the_language() {
        for (_, form) in Entrypoint::NAMED {
            for posture in Posture::ALL {
                assert_eq!(USUAL.behaviour(&scenario(form.clone(), true, posture)), None);
            }
        }
    }

    #[test]
    fn a_shell_that_waits_is_deaf_and_leaves_its_worker_to_sigkill() {
        let mksh = OnSigterm { waits: true, ..USUAL };
        for (form, pid_namespace) in
            [(Entrypoint::Script, true), (Entrypoint::Script, false), (Entrypoint::Shell, false)]
        {
            for posture in Posture::ALL {
                let found = mksh.behaviour(&scenario(form.clone(), pid_namespace, posture)).unwrap();
                assert_eq!((found.effect, found.top_stays), (Effect::Ignored, true), "{form:?} {posture:?}");
            }
        }
        assert_eq!(mksh.behaviour(&scenario(Entrypoint::ScriptTrap, false, Posture::Default)), None);
    }

    #[test]
    fn a_shell_that_reports_deaths_in_its_own_way_does_so_for_the_worker() {
        let ksh93 = OnSigterm { passed_on: Status::Code(15), ..USUAL };
        let found = |posture| ksh93.behaviour(&scenario(Entrypoint::ScriptTrap, true, posture)).unwrap();
        assert_eq!(
            (found(Posture::Default).effect, found(Posture::Default).status),
            (Effect::Terminated, Status::Code(15))
        );
        assert_eq!(found(Posture::Drain).effect, Effect::Drained);
        assert_eq!(found(Posture::Ignore).effect, Effect::Ignored);
        assert_eq!(ksh93.behaviour(&scenario(Entrypoint::Script, true, Posture::Drain)), None);
    }
}
