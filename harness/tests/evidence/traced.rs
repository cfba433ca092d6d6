//! The kernel's record where several ask for it at once, and what is left of it however a drill ends.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use harness::{
    evidence::{
        Evidence, Kernel,
        kernel::{self, Step},
    },
    process::{children, descendants},
};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use worker::clock;

use crate::{ONE_AT_A_TIME, output, skipped, termdrill};

const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// Whether the kernel can be asked here.
fn can_be_asked(what: &str) -> bool {
    let state = tempfile::tempdir().unwrap();
    let arguments = ["run", "handler-grace-20", "--clock", "stepped", "--kernel-trace", "--json"];
    let done = output(termdrill(&arguments).env("XDG_STATE_HOME", state.path()));
    let found = record(&done.stdout);
    match found {
        Kernel::Records(_) => true,
        Kernel::Unavailable { why } => {
            skipped(&format!("{what}: {why}"));
            false
        }
    }
}

fn record(document: &[u8]) -> Kernel {
    let document: Value = serde_json::from_slice(document).unwrap();
    let evidence: Evidence = serde_json::from_value(document["evidence"].clone()).unwrap();
    evidence.kernel.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the program under test, several of them at once")]
fn start(arguments: &[&str], state: &Path) -> Child {
    let mut command = termdrill(arguments);
    command.env("XDG_STATE_HOME", state).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a person's Ctrl-C, or worse")]
fn send(pid: i32, signal: Signal) {
    let pidfd = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(pidfd, signal).unwrap();
}

/// Looks with tracefs where it is usually mounted: where it is not, as on a machine where nobody has traced anything, the drills
/// mount it for themselves alone, and so does this.
fn seen<T: Send>(look: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            if !Path::new(INSTANCES).is_dir() {
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
                mount("tracefs", "/sys/kernel/tracing", "tracefs", MountFlags::empty(), None).unwrap();
            }
            look()
        });
        looking.join().unwrap()
    })
}

/// Whether it is there.
fn is_there(instance: &Path) -> bool {
    seen(|| instance.is_dir())
}

/// Looks again and again until there is something, for twenty seconds at most.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline_ns = clock::now_ns() + 20_000_000_000;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::now_ns() < deadline_ns, "{what} never came");
        clock::block_for(Duration::from_millis(2));
    }
}

/// The trace instance that a process below this one holds.
fn held_by(outer: &Child) -> Option<PathBuf> {
    let below = descendants(outer.id().cast_signed());
    let files = below
        .iter()
        .flat_map(|process| fs::read_dir(format!("/proc/{}/fd", process.pid())).into_iter().flatten().flatten());
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    let mut pipes = targets.filter(|target| target.ends_with("trace_pipe") && target.starts_with("/sys/kernel/"));
    pipes.next()?.parent().map(Path::to_owned)
}

/// A run that goes on for long enough, and its instance, whose events are on.
fn traced_run(state: &Path) -> (Child, PathBuf) {
    let outer = start(&["run", "handler-grace-20", "--kernel-trace", "--speed", "2"], state);
    let instance = eventually("a held instance", || held_by(&outer));
    let enabled = || {
        let enabled = fs::read_to_string(instance.join("events/signal/enable")).ok()?;
        // Two of the events of the group.
        (enabled.trim() != "0").then_some(())
    };
    seen(|| eventually("the events", enabled));
    (outer, instance)
}

fn inner(outer: &Child) -> i32 {
    children(outer.id().cast_signed())[0]
}

#[test]
fn each_of_many_runs_side_by_side_has_its_own_record() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_be_asked("many traced runs side by side") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let arguments = ["run", "handler-grace-20", "--clock", "stepped", "--kernel-trace", "--json"];
    for _ in 0..4 {
        let runs: Vec<Child> = (0..10).map(|_| start(&arguments, state.path())).collect();
        for run in runs {
            let document = run.wait_with_output().unwrap().stdout;
            let Kernel::Records(records) = record(&document) else {
                panic!("{}", String::from_utf8_lossy(&document));
            };
            let by_harness = |step: &Step| matches!(step, Step::Sent { by, .. } if by == "the harness");
            let sent: Vec<_> = records.iter().filter(|record| by_harness(&record.step)).collect();
            assert_eq!(sent.len(), 1, "one SIGTERM and no SIGKILL: {records:?}");
        }
    }
}

/// It is held by whoever made it, whatever other runs remove when they start and end.
#[test]
fn nobody_removes_the_instance_of_a_run_that_goes_on() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_be_asked("an instance that is in use") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let (mut outer, instance) = traced_run(state.path());
    let other = output(
        termdrill(&["run", "handler-grace-20", "--clock", "stepped", "--kernel-trace", "--quiet"])
            .env("XDG_STATE_HOME", state.path()),
    );
    assert_eq!(other.status.code(), Some(0));
    assert!(!kernel::remove_leftovers_unseen().iter().any(|name| instance.ends_with(name)));
    assert!(is_there(&instance));
    send(outer.id().cast_signed(), Signal::INT);
    outer.wait().unwrap();
    assert!(!is_there(&instance));
}

#[test]
fn however_a_run_ends_its_tracing_ends_with_it() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_be_asked("the end of tracing") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let (mut outer, instance) = traced_run(state.path());
        send(outer.id().cast_signed(), signal);
        assert_eq!(outer.wait().unwrap().signal(), Some(signal.as_raw()));
        assert!(!is_there(&instance), "{signal:?}");
    }
    // The process that runs the drill is killed: the one that waits for it cleans up.
    let (mut outer, instance) = traced_run(state.path());
    send(inner(&outer), Signal::KILL);
    assert_eq!(outer.wait().unwrap().code(), Some(3));
    assert!(!is_there(&instance));
    // The one that waits is killed: the other one sees that, and ends by itself.
    let (mut outer, instance) = traced_run(state.path());
    send(outer.id().cast_signed(), Signal::KILL);
    outer.wait().unwrap();
    // Where it had no time for that nobody holds it any more, and the next start removes it.
    let removed = || !instance.exists() || kernel::remove_leftovers().iter().any(|name| instance.ends_with(name));
    seen(|| eventually("the end of the instance", || removed().then_some(())));
}

/// Both are killed at once: nobody is left to clean up, until the next run starts.
#[test]
fn what_a_killed_run_leaves_behind_is_removed_by_the_next_one() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_be_asked("the leftovers of a killed run") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let (mut outer, instance) = traced_run(state.path());
    // While this lock is held nobody removes anything.
    let lock = seen(|| File::open(INSTANCES).unwrap());
    lock.lock().unwrap();
    let inner = inner(&outer);
    send(outer.id().cast_signed(), Signal::STOP);
    send(inner, Signal::KILL);
    send(outer.id().cast_signed(), Signal::KILL);
    outer.wait().unwrap();
    eventually("the end of the one that held it", || {
        let held = fs::read_dir(format!("/proc/{inner}/fd")).is_ok_and(|mut files| files.next().is_some());
        (!held).then_some(())
    });
    assert!(is_there(&instance), "it was left behind");
    drop(lock);
    let next = output(
        termdrill(&["run", "handler-grace-20", "--clock", "stepped", "--quiet"]).env("XDG_STATE_HOME", state.path()),
    );
    assert_eq!(next.status.code(), Some(0));
    assert!(!is_there(&instance));
}

/// In a PID namespace whose numbers are not the kernel's own, its record can't be read.
#[test]
fn in_a_container_the_kernels_numbers_are_not_ours() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_be_asked("a PID namespace around termdrill") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_termdrill");
    let line = format!("exec {program} run handler-grace-20 --clock stepped --kernel-trace --json");
    let mut command = std::process::Command::new("unshare");
    command.args(["-pf", "--mount-proc", "sh", "-c", &line]).env("XDG_STATE_HOME", state.path());
    let Kernel::Unavailable { why } = record(&output(&mut command).stdout) else { panic!("it can't be right") };
    assert!(why.contains("as in a container"), "{why}");
}
