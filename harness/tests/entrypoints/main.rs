//! The matrix of this machine, run for real: the measured facts as literals, predictions graded, and nothing left.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod kernel;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use serde_json::Value;
use worker::clock;

/// Matrices are played one after the other: most of a cell is waiting, and two of them at once are twice as late.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Exit status, standard output and standard error of a run. `mark` stands in the environment of everything that it
/// starts.
fn run(mark: &str, arguments: &[&str]) -> (i32, String, String) {
    run_in(mark, 80, arguments)
}

/// The same on a screen with so many columns.
fn run_in(mark: &str, columns: usize, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.arg("entrypoints").args(arguments).stdin(Stdio::null());
    command.env("MARK_OF_A_TEST", own(mark)).env("COLUMNS", columns.to_string()).env("LC_ALL", "C.UTF-8");
    output(&mut command)
}

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn output(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The mark as it stands in the environment: runs of this test side by side don't see each other.
fn own(mark: &str) -> String {
    format!("{mark}-{}", std::process::id())
}

/// The processes that have `mark` in their environment.
fn marked(mark: &str) -> Vec<PathBuf> {
    let wanted = format!("MARK_OF_A_TEST={}", own(mark));
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let has_mark = |path: &std::path::Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    processes.map(|process| process.path()).filter(|path| has_mark(path)).collect()
}

/// One run as a document, and what it comes to cell by cell, in the words of the table.
struct Matrix {
    document: Value,
    /// By form, program, seat and posture.
    cells: BTreeMap<(String, String, bool, String), String>,
}

fn matrix(mark: &str, arguments: &[&str]) -> Matrix {
    let (code, json, errors) = run(mark, &[&["--json"], arguments].concat());
    let document: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("exit {code}: {json}{errors}"));
    let wrong = document["cells"].as_array().unwrap().iter().filter(|cell| cell["grade"] == "wrong");
    let wrong: Vec<String> = wrong.map(Value::to_string).collect();
    assert_eq!((code, errors.as_str(), &wrong[..]), (0, "", &[][..]), "{document}");
    assert_eq!(marked(mark), Vec::<PathBuf>::new(), "processes are left");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let cells = document["cells"].as_array().unwrap().iter().map(|cell| {
        let name =
            (text(&cell["form"]), text(&cell["program"]), cell["pid1"].as_bool().unwrap(), text(&cell["posture"]));
        (name, class(&cell["seen"]))
    });
    let cells = cells.collect();
    Matrix { document, cells }
}

/// The class of a cell, spelt from the document alone: a second statement of what the table's words mean.
fn class(seen: &Value) -> String {
    let Some(seen) = seen.get("observed") else { return seen.to_string() };
    let ended = &seen["top"]["ended"];
    let status = match (&ended["code"], &ended["signal"]) {
        (Value::Number(code), _) => format!("exit {code}"),
        (_, Value::String(signal)) if signal == "SIGTERM" => "sig 15".to_owned(),
        _ => seen["top"].to_string(),
    };
    match seen["worker"].as_str().unwrap() {
        "drained" | "died" => status,
        "drained_alone" => format!("alone, {status}"),
        "cut" => format!("cut, {status}"),
        "orphaned" => format!("orphan, {status}"),
        "stuck" if seen["outlives_sigkill"] == true => "stuck, orphan after KILL".to_owned(),
        "stuck" => "stuck".to_owned(),
        other => panic!("{other}"),
    }
}

/// A row of the facts: form, programs, then PID 1 and not PID 1 with a handler, without, and with SIG_IGN.
type Fact = (&'static str, &'static [&'static str], [&'static str; 3], [&'static str; 3]);

const DASH_LEAVES: [&str; 3] = ["orphan, sig 15"; 3];
const OUTLIVES: &str = "stuck, orphan after KILL";

/// Debian 12. A top that stays and is killed in the end leaves its worker behind where no namespace takes it along.
const FACTS: &[Fact] = &[
    ("exec", &[""], ["exit 0", "stuck", "stuck"], ["exit 0", "sig 15", "stuck"]),
    ("c", &["bash", "ash", "zsh", "mksh"], ["exit 0", "stuck", "stuck"], ["exit 0", "sig 15", "stuck"]),
    ("c-exec", &["dash", "bash", "ash", "zsh", "mksh"], ["exit 0", "stuck", "stuck"], ["exit 0", "sig 15", "stuck"]),
    (
        "script-exec",
        &["dash", "bash", "ash", "zsh", "mksh"],
        ["exit 0", "stuck", "stuck"],
        ["exit 0", "sig 15", "stuck"],
    ),
    ("c", &["dash"], ["stuck"; 3], DASH_LEAVES),
    ("c-then", &["dash", "bash", "ash", "zsh"], ["stuck"; 3], DASH_LEAVES),
    ("c-and", &["bash", "ash", "zsh"], ["exit 0", "stuck", "stuck"], ["exit 0", "sig 15", "stuck"]),
    ("c-and", &["dash"], ["stuck"; 3], DASH_LEAVES),
    ("script", &["dash", "bash", "ash"], ["stuck"; 3], DASH_LEAVES),
    ("script-wait", &["dash", "bash", "ash"], ["stuck"; 3], DASH_LEAVES),
    ("trap", &["dash", "bash", "ash"], ["exit 0", "exit 143", "stuck"], ["exit 0", "exit 143", OUTLIVES]),
    (
        "trap-once",
        &["dash", "bash", "ash"],
        ["cut, exit 143", "exit 143", "cut, exit 143"],
        ["alone, exit 143", "exit 143", "orphan, exit 143"],
    ),
    ("trap-foreground", &["dash", "bash", "ash", "mksh"], ["stuck"; 3], [OUTLIVES; 3]),
    ("init", &["tini", "dumb-init", "catatonit"], ["exit 0", "exit 143", "stuck"], ["exit 0", "exit 143", OUTLIVES]),
    ("init-shell", &["tini", "dumb-init -c", "catatonit"], ["cut, exit 143"; 3], ["orphan, exit 143"; 3]),
    (
        "init-shell",
        &["tini -g", "dumb-init", "catatonit -g"],
        ["cut, exit 143", "exit 143", "cut, exit 143"],
        ["alone, exit 143", "exit 143", "orphan, exit 143"],
    ),
    ("wrapper", &["npm start"], ["cut, exit 1"; 3], DASH_LEAVES),
    ("wrapper", &["sudo"], ["exit 0", "exit 0", "stuck"], ["exit 0", "sig 15", OUTLIVES]),
    ("wrapper", &["timeout"], ["exit 0", "exit 143", "stuck"], ["exit 0", "sig 15", OUTLIVES]),
];

/// The machines that the facts were measured on had dash for a shell; npm, init-shell and the like use it.
fn sh_is_dash(matrix: &Matrix) -> bool {
    matrix.document["sh"] == "dash"
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// With root the kernel's own record is held against every cell.
#[test]
fn the_measured_facts_come_out_again_and_every_prediction_is_right() {
    let _turn = ONE_AT_A_TIME.lock();
    let traced: &[&str] = if is_root() { &["--kernel-trace"] } else { &[] };
    let matrix = matrix("facts", traced);
    let mut checked = 0;
    for (form, programs, pid1, ordinary) in FACTS {
        for program in *programs {
            for (seat, expected) in [(true, pid1), (false, ordinary)] {
                for (posture, expected) in ["drain", "default", "ignore"].into_iter().zip(expected) {
                    let name = ((*form).to_owned(), (*program).to_owned(), seat, posture.to_owned());
                    match matrix.cells.get(&name) {
                        None => println!("skipped, {program:?} is not installed: {name:?}"),
                        Some(class) if class.contains("unusable") => println!("skipped, unusable: {name:?}"),
                        Some(_) if *form == "wrapper" && *program == "npm start" && !sh_is_dash(&matrix) => {
                            println!("skipped, sh is not dash: {name:?}");
                        }
                        Some(class) => {
                            assert_eq!(class, expected, "{name:?}");
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{checked} facts came out again");
    // dash and the worker alone are everywhere.
    assert!(checked >= 60, "only {checked} facts could be checked");
    let cells = matrix.document["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["grade"] == "right" || cell["grade"] == "unusable"));
    assert_eq!(
        matrix.document["right"].as_u64().unwrap() as usize,
        cells.iter().filter(|c| c["grade"] == "right").count()
    );
    work_in_flight(cells);
    match kernel::says_the_same(&matrix.document) {
        Some((agree, explained)) => println!("{agree} cells agree with the kernel's record, {explained} are explained"),
        None => println!("skipped, the kernel's record: {}", matrix.document["kernel"]),
    }
}

/// Programs that wait two seconds before they kill: the work is done by then.
const PATIENT: [&str; 4] = ["script -c exec", "su -c", "su -c exec", "runuser -u"];

/// What drained has its result in the store, what was killed has none, and what was left alone finished.
fn work_in_flight(cells: &[Value]) {
    for cell in cells {
        let Some(seen) = cell["seen"].get("observed") else { continue };
        if seen["top"].get("gone").is_some() {
            continue;
        }
        let worker = seen["worker"].as_str().unwrap();
        let at_once = seen["worker_ended_ms"].as_u64().is_some_and(|ms| ms < 1_100);
        let expected = match worker {
            "died" => false,
            // The work takes longer than that from the signal on.
            "cut" if at_once => false,
            "cut" if PATIENT.contains(&cell["program"].as_str().unwrap()) => true,
            // It was noticed late, or is one of another patient program.
            "cut" => continue,
            _ => true,
        };
        assert_eq!(seen["committed"], expected, "{cell}");
    }
}

#[test]
fn three_runs_give_the_same_matrix() {
    let _turn = ONE_AT_A_TIME.lock();
    let part = ["--form", "trap-once", "--form", "init-shell", "--form", "c", "--form", "script"];
    let first = matrix("same-1", &part).cells;
    assert!(first.len() >= 18);
    for mark in ["same-2", "same-3"] {
        assert_eq!(matrix(mark, &part).cells, first);
    }
}

/// However it ends, everything that it started ends with it, the kernel's tracing included.
#[test]
fn a_run_that_is_killed_leaves_nothing() {
    let _turn = ONE_AT_A_TIME.lock();
    for signal in ["KILL", "TERM", "INT"] {
        let mark = format!("killed-{signal}");
        let forms = ["--shell", "dash", "--form", "c", "--form", "trap-once", "--form", "script-exec"];
        let mut outer = start(&mark, &[&forms[..], &["--kernel-trace"]].concat());
        // Cells are being played: the outer and the inner process, and for each cell one and its command.
        until(|| marked(&mark).len() >= 20, "too few processes were started");
        let traces = kernel::traces(&mark);
        if traces.is_empty() {
            println!("skipped, the end of tracing: there is none here");
        }
        send(signal, outer.id());
        assert!(!outer.wait().unwrap().success());
        until(|| marked(&mark).is_empty(), "processes are left");
        // The process that held it is gone, so that nobody holds it. Where the outer one was killed, and the machine is busy,
        // there may have been no time to remove it: it is a leftover then.
        if signal == "KILL" {
            harness::evidence::kernel::remove_leftovers();
        }
        assert!(traces.iter().all(|instance| !instance.exists()), "{traces:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn start(mark: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.arg("entrypoints").args(arguments).env("MARK_OF_A_TEST", own(mark));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a person's Ctrl-C, or worse")]
fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap().success());
}

/// Looks again and again until it is so, for a minute at most.
fn until(mut is_so: impl FnMut() -> bool, otherwise: &str) {
    let deadline_ns = clock::now_ns() + 60_000_000_000;
    while !is_so() {
        assert!(clock::now_ns() < deadline_ns, "{otherwise}");
        clock::block_for(Duration::from_millis(5));
    }
}

/// A scenario may say what its entrypoint does; where that is not so, its run tells what was measured and predicted.
#[test]
fn a_wrong_declaration_is_contradicted_by_measurement_and_rules() {
    let _turn = ONE_AT_A_TIME.lock();
    let state = tempfile::tempdir().unwrap();
    let run = |settings: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
        command.args(["run", "env-wrapper", "--json", "--speed", "30", "--attempts", "1"]).args(settings);
        let json = output(command.env("XDG_STATE_HOME", state.path())).1;
        serde_json::from_str::<Value>(&json).unwrap().to_string()
    };
    let wrong = run(&["--set", "expected_effect=ignored"]);
    assert!(wrong.contains("An idle worker showed another effect: drained."), "{wrong}");
    assert!(wrong.contains("The rules for command lines predict another effect: drained."), "{wrong}");
    assert!(!run(&[]).contains("another effect"));
}

#[test]
fn filters_leave_what_was_asked_for() {
    let _turn = ONE_AT_A_TIME.lock();
    let one = matrix("filter", &["--shell", "dash", "--form", "c-exec", "--posture", "drain", "--pid1", "true"]);
    let names: Vec<_> = one.cells.keys().cloned().collect();
    assert_eq!(names, [("c-exec".to_owned(), "dash".to_owned(), true, "drain".to_owned())]);
    let two = matrix("filter-2", &["--form", "exec", "--form", "c-exec", "--shell", "dash", "--posture", "ignore"]);
    let forms: BTreeSet<&str> = two.cells.keys().map(|(form, ..)| form.as_str()).collect();
    assert_eq!(forms, BTreeSet::from(["c-exec"]));

    let (code, _, errors) = run("none", &["--form", "exec", "--shell", "dash"]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("no form is left"), "{errors}");
    let (code, _, errors) = run("bad", &["--form", "sidecar"]);
    assert_eq!(code, 2);
    assert!(errors.contains("trap-once"), "{errors}");
}

#[test]
fn the_table_is_read_at_a_glance() {
    let _turn = ONE_AT_A_TIME.lock();
    let arguments = ["--form", "exec", "--form", "c-exec", "--form", "trap-foreground", "--shell", "dash"];
    let (code, table, errors) = run("table", &arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let row = |start: &str| table.lines().skip_while(|line| *line != start).nth(1).unwrap_or_default().to_owned();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(words(&row("-c 'exec app'")), "dash exit 0 stuck stuck exit 0 sig 15 stuck");
    assert_eq!(words(&row("trap, app in foreground")), "dash stuck stuck stuck stuck+ stuck+ stuck+");
    assert!(table.contains("12 cells: 12 predicted right, 0 wrong"), "{table}");

    // On a narrow screen each seat has a line of its own.
    let (code, narrow, _) = run_in("table-40", 40, &arguments);
    assert_eq!(code, 0, "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    assert_eq!(words(narrow.lines().next().unwrap()), "handler none SIG_IGN");
    let below = narrow.lines().skip_while(|line| *line != "-c 'exec app'").skip(1).take(3);
    let below: Vec<String> = below.map(words).collect();
    assert_eq!(below, ["dash", "PID 1 exit 0 stuck stuck", "not PID 1 exit 0 sig 15 stuck"]);

    let (_, detailed, _) = run("table-v", &["--form", "c", "--shell", "dash", "--pid1", "false", "-v"]);
    assert!(detailed.contains("dash>app; top killed by SIGTERM after"), "{detailed}");
    assert!(detailed.lines().all(|line| line.chars().count() <= 80), "{detailed}");
}
