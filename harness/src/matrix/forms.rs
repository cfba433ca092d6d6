//! The rows of the matrix: forms of a command line, each with the programs that it can be written for.

use scenarios::{entrypoint::WORKER_PLACEHOLDER as APP, prediction::SCRIPT_PLACEHOLDER as SCRIPT};
use serde::{Deserialize, Serialize};

use super::programs::{self, INITS, SHELLS};
use crate::entry::TRAP;

/// What kind of program a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The worker alone.
    Exec,
    /// A shell.
    Shell,
    /// An init for containers.
    Init,
    /// Any other program that runs a program.
    Wrapper,
}

/// One row of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The form's name, as `--form` takes it.
    pub form: String,
    /// What kind of program it is about.
    pub kind: Kind,
    /// The program and its options, as a person knows it; empty for the worker alone.
    pub program: String,
    /// How the form is written.
    pub title: String,
    /// The command line, with `{worker}`, and `{script}` for the path of the script.
    pub command: Vec<String>,
    /// The script, with `{worker}`.
    pub script: Option<String>,
    /// What the script's file is called.
    pub script_name: String,
}

impl Row {
    /// The first of the programs that the row needs and that is not installed.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        let program = self.command.first().filter(|word| *word != APP)?;
        programs::find(program).is_none().then_some(program)
    }

    /// The words that start its shell, if it starts with one.
    #[must_use]
    pub fn shell(&self) -> Option<&'static [&'static str]> {
        let is_it =
            |(program, _): &&(&str, &'static [&'static str])| self.kind == Kind::Shell && *program == self.program;
        SHELLS.iter().find(is_it).map(|(_, words)| *words)
    }
}

/// A form that every POSIX shell takes.
struct ShellForm {
    name: &'static str,
    title: &'static str,
    text: &'static str,
    script: bool,
}

const fn command(name: &'static str, text: &'static str, title: &'static str) -> ShellForm {
    ShellForm { name, title, text, script: false }
}

const fn script(name: &'static str, title: &'static str, text: &'static str) -> ShellForm {
    ShellForm { name, title, text, script: true }
}

const SHELL_FORMS: [ShellForm; 12] = [
    command("c", APP, "-c 'app'"),
    command("c-exec", "exec {worker}", "-c 'exec app'"),
    command("c-then", "{worker}; true", "-c 'app; true'"),
    command("c-and", "true && {worker}", "-c 'setup && app'"),
    command("c-pipe", "{worker} | cat", "-c 'app | cat'"),
    command("c-wait", "{worker} & wait", "-c 'app & wait'"),
    script("script", "script, app last", "true\n{worker}\n"),
    script("script-exec", "script, exec app", "true\nexec {worker}\n"),
    script("script-wait", "script, app & wait", "{worker} &\nwait\n"),
    script("trap", "trap, waits until gone", TRAP),
    script("trap-once", "trap, waits once", TRAP_ONCE),
    script("trap-foreground", "trap, app in foreground", TRAP_FOREGROUND),
];

const TRAP_ONCE: &str = r#"{worker} &
worker=$!
trap 'kill -TERM "$worker"' TERM
wait "$worker"
exit "$?"
"#;

const TRAP_FOREGROUND: &str = r"trap 'exit 143' TERM
{worker}
exit $?
";

/// The wrappers: the program's name and the words after it.
const WRAPPERS: [(&str, &[&str]); 15] = [
    ("env", &["env", APP]),
    ("nohup", &["nohup", APP]),
    ("setsid", &["setsid", APP]),
    ("setsid -w", &["setsid", "-w", APP]),
    ("timeout", &["timeout", "100", APP]),
    ("xargs", &["xargs", APP]),
    ("script -c", &["script", "-qec", APP, "/dev/null"]),
    ("script -c exec", &["script", "-qec", "exec {worker}", "/dev/null"]),
    ("sudo", &["sudo", "-nE", APP]),
    ("su -c", &["su", "-s", "/bin/sh", "-c", APP, "root"]),
    ("su -c exec", &["su", "-s", "/bin/sh", "-c", "exec {worker}", "root"]),
    ("runuser -u", &["runuser", "-u", "root", "--", APP]),
    ("gosu", &["gosu", "root", APP]),
    ("npm start", &["npm", "--prefix", "{directory}", "start"]),
    ("npm start exec", &["npm", "--prefix", "{directory}", "start"]),
];

/// The names of the forms, in their order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let shell = SHELL_FORMS.iter().map(|form| form.name);
    ["exec"].into_iter().chain(shell).chain(["init", "init-shell", "wrapper"]).collect()
}

/// Every row there can be, in an order to read them in.
#[must_use]
pub fn rows() -> Vec<Row> {
    let row = |form: &str, kind, program: &str, title: &str, command: Vec<String>| Row {
        form: form.to_owned(),
        kind,
        program: program.to_owned(),
        title: title.to_owned(),
        command,
        script: None,
        script_name: String::new(),
    };
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let mut rows = vec![row("exec", Kind::Exec, "", "the worker alone", owned(&[APP]))];
    for form in &SHELL_FORMS {
        // fish has a language of its own; simple commands are written as everywhere.
        for (program, words) in SHELLS.iter().filter(|(program, _)| !(form.script && *program == "fish")) {
            let mut command = owned(words);
            if form.script {
                command.push(SCRIPT.to_owned());
            } else {
                command.extend(owned(&["-c", form.text]));
            }
            let mut row = row(form.name, Kind::Shell, program, form.title, command);
            if form.script {
                row.script = Some(form.text.to_owned());
                row.script_name = "entrypoint.sh".to_owned();
            }
            rows.push(row);
        }
    }
    for (form, title, after) in
        [("init", "-- app", &[APP][..]), ("init-shell", "-- sh -c 'app; true'", &["sh", "-c", "{worker}; true"])]
    {
        for (program, words) in INITS {
            let command = [owned(words), owned(&["--"]), owned(after)].concat();
            rows.push(row(form, Kind::Init, program, title, command));
        }
    }
    for (program, words) in WRAPPERS {
        let mut row = row("wrapper", Kind::Wrapper, program, "app", owned(words));
        if let Some(start) = match program {
            "npm start" => Some(APP),
            "npm start exec" => Some("exec {worker}"),
            _ => None,
        } {
            row.script = Some(start.to_owned());
            row.script_name = "package.json".to_owned();
        }
        rows.push(row);
    }
    rows
}
