//! What real shells do about SIGTERM in front of a child, and a drill on a machine whose `/bin/sh` is one of the odd ones.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use harness::{
    matrix::programs,
    shell::{OnSigterm, USUAL, look},
};
use scenarios::Status;
use serde_json::{Value, json};
use worker::clock;

use crate::{ONE_AT_A_TIME, is_root, output, skipped, termdrill, text};

#[test]
fn each_shell_does_what_is_known_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_termdrill"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let mksh = OnSigterm { waits: true, ..USUAL };
    let ksh93 = OnSigterm { passed_on: Status::Code(15), ..USUAL };
    let rows: [(&[&str], OnSigterm); 8] = [
        (&["/bin/sh"], if programs::real_name("/bin/sh").is_some_and(|name| name == "mksh") { mksh } else { USUAL }),
        (&["dash"], USUAL),
        (&["bash"], USUAL),
        (&["busybox", "ash"], USUAL),
        (&["zsh"], USUAL),
        (&["yash"], USUAL),
        (&["mksh"], mksh),
        (&["ksh93"], ksh93),
    ];
    for (words, expected) in rows {
        if programs::find(words[0]).is_none() && !words[0].starts_with('/') {
            skipped(&format!("{words:?} is not installed"));
            continue;
        }
        let found = runtime.block_on(look(words, own, directory.path()));
        assert_eq!(found.unwrap_or_else(|error| panic!("{words:?}: {error:#}")), expected, "{words:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "scripts are left");
    let failed = runtime.block_on(look(&["true"], own, directory.path())).unwrap_err();
    assert!(failed.to_string().contains("ends before anything is sent"), "{failed:#}");
}

/// What is left of a look whose looker was killed: the child goes, and the shell that waits for it with it.
#[test]
fn nobody_stands_still_for_a_looker_that_is_gone() {
    let program = env!("CARGO_BIN_EXE_termdrill");
    let line = format!(
        "sleep 1000 & looker=$!; '{program}' stand-still $looker & child=$!; \
         until grep -qs stand-still /proc/$child/cmdline; do :; done; kill -KILL $looker; wait $child; echo \"ended $?\""
    );
    let began_ns = clock::now_ns();
    let done = output(Command::new("bash").args(["-c", &line]));
    assert_eq!(text(&done.stdout), "ended 1\n", "{}", text(&done.stderr));
    assert!(clock::now_ns() - began_ns < 15_000_000_000, "it stood for as long as it may");
}

/// Runs lines of bash where this file is the one that `/bin/sh` is: in a mount namespace of its own.
fn where_sh_is(path: &Path, state: &Path, lines: &str) -> Command {
    let sh = std::fs::canonicalize("/bin/sh").unwrap();
    // Started before the mount: the shell that mounts is another one.
    let line = format!("mount --bind '{}' '{}' || exit 9\n{lines}", path.display(), sh.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "bash", "-c", &line]).env("XDG_STATE_HOME", state);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).current_dir(state);
    command
}

/// The same scenario on the command line and on the page.
const EVERYWHERE: &str = r#"
"$PROGRAM" model ignored-signal $SETTINGS --json > model.json 2> model.told || exit 1
"$PROGRAM" watch ignored-signal $SETTINGS --model > watch.text 2> watch.told || exit 2
"$PROGRAM" sweep ignored-signal $SETTINGS --vary grace_period_s=10 --json > sweep.json 2> sweep.told || exit 3
"$PROGRAM" run ignored-signal $SETTINGS --clock stepped --json > run.json || exit 4
"$PROGRAM" serve --listen 127.0.0.1:0 > serve.text &
until read -r _ _ url _ < serve.text; do :; done
port=${url##*:} port=${port%/}
exec 3<> /dev/tcp/127.0.0.1/$port
printf 'POST /api/model HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' \
    "$port" "${#ASK}" "$ASK" >&3
cat <&3 > api.http
kill -TERM $!
wait $!
exit 0
"#;

/// The shells that do something else with a form than others, as far as they can take the place of `/bin/sh` here: with the
/// form, what SIGTERM then does to a worker with the default posture, and where the shell is.
fn odd_shells() -> Vec<(&'static str, &'static str, &'static str, PathBuf)> {
    if !is_root() {
        skipped("another /bin/sh: only root can put one in its place");
        return Vec::new();
    }
    let shells = [("mksh", "script", "ignored"), ("ksh93", "script_trap", "terminated")];
    let found = shells.into_iter().filter_map(|(shell, form, effect)| {
        let path = programs::find(shell).and_then(|path| path.canonicalize().ok());
        if path.is_none() {
            skipped(&format!("{shell} is not installed"));
        }
        Some((shell, form, effect, path?))
    });
    found.collect()
}

#[test]
fn whoever_asks_the_model_is_told_what_a_drill_with_the_odd_shell_is_held_against() {
    let _turn = ONE_AT_A_TIME.lock();
    for (shell, form, effect, path) in odd_shells() {
        let state = tempfile::tempdir().unwrap();
        let settings = format!("--set entrypoint={form} --set on_sigterm=default --set pid_namespace=false");
        let ask = json!({ "scenario": {
            "name": "ignored-signal", "title": "A", "entrypoint": form, "on_sigterm": "default", "pid_namespace": false,
        }});
        let mut command = where_sh_is(&path, state.path(), EVERYWHERE);
        command.env("PROGRAM", env!("CARGO_BIN_EXE_termdrill")).env("SETTINGS", settings).env("ASK", ask.to_string());
        let done = output(&mut command);
        assert_eq!(done.status.code(), Some(0), "{shell}: {}{}", text(&done.stdout), text(&done.stderr));
        let read = |name: &str| std::fs::read_to_string(state.path().join(name)).unwrap();
        let document = |text: &str| -> Value { serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}")) };

        let run = document(&read("run.json"));
        assert_eq!(run["verdict"], "matched", "{shell}: {run}");
        let expected = &run["expected"];
        let model = document(&read("model.json"));
        assert_eq!(
            (&model["events"], &model["outcome"]),
            (&expected["events"], &expected["outcome"]),
            "{shell}: model"
        );
        let api = document(read("api.http").split_once("\r\n\r\n").unwrap().1);
        assert_eq!((&api["events"], &api["effect"]), (&expected["events"], &json!(effect)), "{shell}: the page");
        let row = &document(&read("sweep.json"))["points"][0];
        for field in ["completed", "killed"] {
            let count = expected["outcome"][field].as_array().unwrap().len();
            assert_eq!(row[field], json!(count), "{shell}: {field} in {row}");
        }
        assert!(read("watch.text").contains("worker-1"), "{}", read("watch.text"));
        for told in ["model.told", "watch.told", "sweep.told"] {
            assert!(read(told).contains("is unlike other shells"), "{told}: {}", read(told));
        }
        assert!(api["notes"].to_string().contains("is unlike other shells"), "{}", api["notes"]);
    }
    // A person who says what the shell does means one that is as usual, and nothing is looked at.
    let said = termdrill(&["model", "script-without-exec", "--shell", "stays", "--json"]);
    assert_eq!(text(&output(&mut { said }).stderr), "");
}

/// In a mount namespace of its own another shell takes the place of the one that is there.
#[test]
fn a_drill_with_an_odd_shell_is_predicted_right() {
    let _turn = ONE_AT_A_TIME.lock();
    let sh = std::fs::canonicalize("/bin/sh").unwrap();
    for (shell, form, effect, path) in odd_shells() {
        for pid_namespace in [true, false] {
            let state = tempfile::tempdir().unwrap();
            let program = env!("CARGO_BIN_EXE_termdrill");
            let line = format!(
                "exec '{program}' run ignored-signal --set entrypoint={form} --set on_sigterm=default \
                 --set pid_namespace={pid_namespace} --clock stepped --json"
            );
            let done = output(&mut where_sh_is(&path, state.path(), &line));
            let document: Value = serde_json::from_slice(&done.stdout)
                .unwrap_or_else(|_| panic!("{shell}: {}{}", text(&done.stdout), text(&done.stderr)));
            assert_eq!(document["verdict"], "matched", "{shell} {form} {pid_namespace}: {document}");
            let reasons = document["reasons"].to_string();
            assert!(reasons.contains(&format!("the effect of SIGTERM is taken to be {effect}")), "{shell}: {reasons}");
        }
    }
    let state = tempfile::tempdir().unwrap();
    let mut usual = termdrill(&["run", "script-without-exec", "--clock", "stepped", "--json"]);
    let usual = text(&output(usual.env("XDG_STATE_HOME", state.path())).stdout);
    assert_eq!(usual.contains("is unlike other shells"), sh.ends_with("mksh"), "{usual}");
}
