//! Drills on the stepped clock, which no load disturbs, and what they tell of where the signal went.

use std::fs;

use harness::evidence::{Cause, Disposition, Evidence, Explanation, Kernel, ProcessFacts, kernel};
use scenarios::{OnSigterm, Status};
use serde::Deserialize;

use crate::{ONE_AT_A_TIME, is_root, output, skipped, termdrill, text};

#[derive(Deserialize)]
pub(crate) struct Document {
    verdict: String,
    pub(crate) reasons: Vec<String>,
    evidence: Evidence,
    pub(crate) explanation: Explanation,
}

pub(crate) fn drill(settings: &[&str], options: &[&str]) -> Document {
    let _turn = ONE_AT_A_TIME.lock();
    let state = tempfile::tempdir().unwrap();
    let mut arguments = vec!["run", "handler-grace-20", "--clock", "stepped", "--json"];
    settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
    arguments.extend(options);
    let done = output(termdrill(&arguments).env("XDG_STATE_HOME", state.path()));
    let document: Document = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{settings:?}: {error}: {}{}", text(&done.stdout), text(&done.stderr)));
    assert_eq!(document.verdict, "matched", "{settings:?}: {}", text(&done.stdout));
    document
}

impl Document {
    pub(crate) fn top(&self) -> &ProcessFacts {
        self.evidence.before.as_ref().unwrap().top().unwrap()
    }

    fn worker(&self) -> &ProcessFacts {
        self.evidence.process(self.evidence.worker_pid.unwrap()).unwrap()
    }

    pub(crate) fn status(&self, process: &ProcessFacts) -> Option<Status> {
        self.evidence.end(process.pid).unwrap().status
    }
}

/// What `/bin/sh` really is.
fn shell() -> String {
    fs::canonicalize("/bin/sh").unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

/// Linux 6.15 tells how processes ended that are not our children.
fn kernel_tells_of_grandchildren() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// The causes of a form, by posture (drain, default, ignore): as PID 1, and as an ordinary process.
type Causes = ([Cause; 3], [Cause; 3]);

#[test]
fn every_form_seat_and_posture_is_explained() {
    let worker = ([Cause::Drained, Cause::Dropped, Cause::Ignored], [Cause::Drained, Cause::Died, Cause::Ignored]);
    let shell = ([Cause::Dropped; 3], [Cause::Orphaned; 3]);
    let trap = ([Cause::Drained, Cause::Died, Cause::Ignored], [Cause::Drained, Cause::Died, Cause::Ignored]);
    check("exec", worker);
    check("shell_exec", worker);
    check("script_exec", worker);
    check("script", shell);
    check("script_trap", trap);
    // What `-c` with one command does is the shell's business: its tree says which of the two it is.
    let stays = drill(&["entrypoint=shell"], &[]).top().program() == self::shell();
    check("shell", if stays { shell } else { worker });
}

fn check(form: &str, causes: Causes) {
    // With root every cell has the kernel's word for it too.
    let options: &[&str] = if is_root() { &["--kernel-trace"] } else { &[] };
    for (pid1, causes) in [(true, causes.0), (false, causes.1)] {
        for (posture, cause) in OnSigterm::ALL.into_iter().zip(causes) {
            let cell = format!("{form}, {posture:?}, PID 1: {pid1}");
            let settings = [
                format!("entrypoint={form}"),
                format!("pid_namespace={pid1}"),
                format!("on_sigterm={}", posture.name()),
            ];
            let found = drill(&settings.each_ref().map(String::as_str), options);
            assert_eq!(found.explanation.cause, cause, "{cell}: {}", found.explanation.text);
            check_evidence(&found, posture, pid1, &cell);
            check_words(&found, &cell);
            check_kernel(&found, &cell);
        }
    }
}

fn check_evidence(found: &Document, posture: OnSigterm, pid1: bool, cell: &str) {
    let (top, worker) = (found.top(), found.worker());
    assert_eq!(top.is_init(), pid1, "{cell}");
    let shown = match posture {
        OnSigterm::Drain => Disposition::Caught,
        OnSigterm::Default => Disposition::Default,
        OnSigterm::Ignore => Disposition::Ignored,
    };
    assert_eq!(worker.sigterm, shown, "{cell}");
    assert!(worker.argv.ends_with(&["worker".to_owned()]), "{cell}: {:?}", worker.argv);
    assert_eq!((worker.group, worker.session), (top.pid, top.pid), "{cell}");
    if kernel_tells_of_grandchildren() {
        assert!(found.evidence.ends.iter().all(|end| end.status.is_some()), "{cell}: {:?}", found.evidence.ends);
    }
    let from = found.evidence.received.and_then(|received| received.from_pid);
    let expected = match found.explanation.cause {
        Cause::Drained if top.pid != worker.pid => Some(top.namespace_pid),
        // From outside of its namespace, or from the harness, which is PID 1 of the drill's.
        Cause::Drained => Some(i32::from(!pid1)),
        _ => None,
    };
    if is_root() || from != Some(std::process::id().cast_signed()) {
        assert_eq!(from, expected, "{cell}");
    }
    let status = found.status(worker);
    match found.explanation.cause {
        Cause::Drained => assert_eq!(status.unwrap_or(Status::SUCCESS), Status::SUCCESS, "{cell}"),
        Cause::Died => assert_eq!(status.unwrap_or(Status::SIGTERM), Status::SIGTERM, "{cell}"),
        Cause::Dropped => assert_eq!(status.unwrap_or(Status::SIGKILL), Status::SIGKILL, "{cell}"),
        _ => {}
    }
    // Whoever lives on is seen at the end, and nobody else.
    let left: Vec<i32> = found.evidence.at_end.as_ref().unwrap().alive().map(|process| process.pid).collect();
    let unseen: Vec<i32> = found.evidence.ends.iter().filter(|end| end.at_us.is_none()).map(|end| end.pid).collect();
    assert_eq!(left, unseen, "{cell}");
}

fn check_words(found: &Document, cell: &str) {
    let (top, worker, text) = (found.top(), found.worker(), &found.explanation.text);
    let by_shell = found.evidence.shell.is_some();
    let named = match (by_shell, top.pid == worker.pid) {
        (true, true) => format!("/bin/sh is {} here and exec'd the worker", shell()),
        (true, false) => format!("/bin/sh, which is {} here", shell()),
        (false, _) => "went to the worker itself".to_owned(),
    };
    assert!(text.contains(&named) || shell() == "sh", "{cell}: no {named:?} in: {text}");
    let short = text.split(" The kernel's record").next().unwrap();
    assert!(short.len() <= 400, "{cell}: {} characters: {text}", short.len());
    let is_fine = matches!(found.explanation.cause, Cause::Drained);
    assert_eq!(found.explanation.change.is_none(), is_fine, "{cell}: {:?}", found.explanation.change);
}

fn check_kernel(found: &Document, cell: &str) {
    match &found.evidence.kernel {
        None => {}
        Some(Kernel::Unavailable { why }) => skipped(&format!("{cell}: the kernel's record, since {why}")),
        Some(Kernel::Records(records)) => {
            assert!(found.explanation.text.ends_with("as the masks say."), "{cell}: {}", found.explanation.text);
            assert!(records.iter().any(|record| record.pid == found.top().pid), "{cell}");
        }
    }
}

#[test]
fn the_kernels_record_is_no_must_and_leaves_no_tracing_on() {
    let found = drill(&[], &["--kernel-trace"]);
    match found.evidence.kernel.unwrap() {
        Kernel::Unavailable { why } => {
            assert!(
                found.explanation.text.contains(&format!("unavailable, since {why}")),
                "{}",
                found.explanation.text
            );
            if is_root() {
                skipped(&why);
            }
        }
        Kernel::Records(records) => assert!(!records.is_empty()),
    }
    // Of a drill that goes on somewhere else none is removed; those that are killed here leave some for a while.
    let _turn = ONE_AT_A_TIME.lock();
    assert_eq!(kernel::remove_leftovers(), Vec::<String>::new());
}

#[test]
fn a_stored_run_tells_the_same_again() {
    let _turn = ONE_AT_A_TIME.lock();
    let state = tempfile::tempdir().unwrap();
    let mut run = termdrill(&["run", "script-without-exec", "--clock", "stepped"]);
    let shown = text(&output(run.env("XDG_STATE_HOME", state.path())).stdout);
    let lines: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("signal ")).collect();
    let told = lines.iter().take_while(|line| !line.starts_with("verdict")).count();
    assert!((2..=8).contains(&told), "{shown}");
    let mut replay = termdrill(&["replay", "latest"]);
    let again = text(&output(replay.env("XDG_STATE_HOME", state.path())).stdout);
    assert!(again.ends_with(&lines.join("\n")) || again.contains(&lines[..told].join("\n")), "{again}");
    let latest = state.path().join("termdrill/runs/latest/evidence.json");
    let stored: serde_json::Value = serde_json::from_slice(&fs::read(latest).unwrap()).unwrap();
    assert_eq!(stored["explanation"]["cause"], "dropped");
}
