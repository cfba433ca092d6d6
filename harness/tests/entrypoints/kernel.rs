//! The kernel's own record beside the matrix, and nothing left of its tracing.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{ONE_AT_A_TIME, is_root, marked, matrix, output, run, send, start, until};

/// Every signal that was seen to do something is in the kernel's record, and where that is not what masks said, it is
/// known why.
/// Gives in how many cells they say the same, and in how many it is known why not; `None` where the kernel was not asked.
pub(crate) fn says_the_same(document: &Value) -> Option<(usize, usize)> {
    let kernel = &document["kernel"];
    let compared = kernel.get("compared")?;
    assert_eq!((&compared["unexplained"], &compared["missing"]), (&0.into(), &0.into()), "{compared}");
    let cells = document["cells"].as_array().unwrap();
    let (mut agree, mut explained) = (0, 0);
    let mut npm = 0;
    for cell in cells {
        let sent = cell["seen"].get("observed").is_some_and(|seen| seen["top"].get("gone").is_none());
        let kernel = &cell["kernel"];
        assert_eq!(kernel.is_object(), sent, "{cell}");
        if !sent {
            continue;
        }
        assert!(kernel["records"].as_array().unwrap().iter().any(by_the_harness), "{cell}");
        match kernel["agreement"].as_str().unwrap() {
            "agrees" => agree += 1,
            "explained" => explained += 1,
            other => panic!("{other}: {cell}"),
        }
        // What masks are known to hide is seen to be hidden wherever it is.
        let of = |program: &str| {
            let differences = kernel["differences"].as_array().unwrap();
            differences.iter().find(|difference| difference["program"] == program).map(|one| one["why"].clone())
        };
        let init = cell["program"].as_str().unwrap().split(' ').next().unwrap();
        if cell["kind"] == "init" {
            assert_eq!(of(init), Some("taken_by_call".into()), "{cell}");
        }
        if cell["form"] == "exec" {
            assert_eq!(kernel["agreement"], "agrees", "{cell}");
        }
        if cell["program"] == "npm start" {
            assert_eq!(of("node"), Some("sent_to_itself".into()), "{cell}");
            npm += 1;
        }
    }
    let observed = |cell: &&Value| cell["program"] == "npm start" && cell["seen"].get("observed").is_some();
    assert_eq!(npm, cells.iter().filter(observed).count(), "npm start stays, so it was sent the signal in each");
    assert_eq!((&compared["agree"], &compared["explained"]), (&agree.into(), &explained.into()));
    Some((agree, explained))
}

fn by_the_harness(record: &Value) -> bool {
    record["signal"] == "SIGTERM" && record["step"]["sent"]["by"] == "the harness"
}

/// What can't be had is said, and is no reason to stop.
#[test]
fn the_kernels_record_is_no_must() {
    let _turn = ONE_AT_A_TIME.lock();
    let arguments = ["--form", "exec", "--posture", "drain", "--kernel-trace"];
    let (code, text, errors) = if is_root() {
        // In a PID namespace whose numbers are not the kernel's.
        let program = env!("CARGO_BIN_EXE_termdrill");
        let mut command = Command::new("unshare");
        command.args(["-pf", "--mount-proc", program, "entrypoints"]).args(arguments);
        output(command.stdin(Stdio::null()).env("COLUMNS", "80"))
    } else {
        run("no-trace", &arguments)
    };
    assert_eq!((code, errors.as_str()), (0, ""), "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The kernel's own record is unavailable, since "), "{text}");
    assert!(text.contains("2 cells: 2 predicted right, 0 wrong"), "{text}");
}

/// Of a run that could not clean up the next one does.
#[test]
fn a_trace_that_was_left_behind_is_removed_by_the_next_start() {
    let _turn = ONE_AT_A_TIME.lock();
    let one = ["--form", "exec", "--posture", "drain", "--pid1", "false"];
    let traced = matrix("can-trace", &[&one[..], &["--kernel-trace"]].concat());
    if traced.document["kernel"].get("compared").is_none() {
        println!("skipped, the end of tracing: {}", traced.document["kernel"]);
        return;
    }
    let mark = "leftover";
    let mut outer = start(mark, &["--form", "exec", "--kernel-trace"]);
    until(|| !traces(mark).is_empty(), "no trace was begun");
    let traces = traces(mark);
    // Neither of the two can do anything about it.
    let inner = harness::process::children(outer.id().cast_signed());
    send("STOP", outer.id());
    inner.iter().for_each(|pid| send("KILL", pid.cast_unsigned()));
    send("KILL", outer.id());
    outer.wait().unwrap();
    until(|| marked(mark).is_empty(), "processes are left");
    run("next", &one);
    assert!(traces.iter().all(|instance| !instance.exists()), "{traces:?}");
}

/// The trace instances that marked processes hold.
pub(crate) fn traces(mark: &str) -> Vec<PathBuf> {
    let files = marked(mark).into_iter().flat_map(|process| fs::read_dir(process.join("fd")).into_iter().flatten());
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| target.ends_with("trace_pipe")).filter_map(|pipe| Some(pipe.parent()?.to_owned())).collect()
}
