//! The commands that start no drill. Each prints its result and gives the exit status.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, builder::PossibleValuesParser};
use scenarios::{Entrypoint, Host, Scenario, catalogue, expect};
use serde::Serialize;

use crate::{
    cli::{Cli, Display, ModelArgs},
    failure::Failure,
    input,
    report::{self, Output, Screen, file::ReportFile, write_stdout},
    runs::{self, Home},
    shell::Shell,
};

impl Display {
    /// The screen that text is laid out for.
    #[must_use]
    pub fn screen(self) -> Screen {
        Screen::detect(self.ascii, self.verbose, |name| std::env::var(name).ok())
    }

    /// Where text goes.
    #[must_use]
    pub fn output(self) -> Output {
        Output { colour: self.color.into() }
    }
}

/// A scenario in `list --json`.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    title: &'a str,
    why: Option<&'a str>,
}

/// Lists the catalogue.
///
/// # Errors
/// The output can't be written.
pub fn list(display: Display, json: bool) -> anyhow::Result<ExitCode> {
    let all = catalogue::all();
    if json {
        let entry = |s: &'static Scenario| Entry { name: &s.name, title: &s.title, why: s.why.as_deref() };
        write_stdout(&report::json::line(&all.iter().map(entry).collect::<Vec<_>>())?)?;
    } else {
        display.output().print(&report::scenario::list(display.screen(), all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows one scenario of the catalogue, with what the model expects; `look` looks at the machine.
///
/// # Errors
/// There is no such scenario, or the output can't be written.
pub fn show(
    display: Display,
    name: &str,
    json: bool,
    look: impl FnOnce(&Scenario) -> anyhow::Result<Host>,
) -> anyhow::Result<ExitCode> {
    let scenario = input::from_catalogue(name)?;
    if json {
        write_stdout(&report::json::pretty(scenario)?)?;
    } else {
        let expected = expect(scenario, &look(scenario)?);
        display.output().print(&report::scenario::show(display.screen(), scenario, &expected))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what the model expects. `probe` looks at the machine, and is not asked where a person says what the shell does.
///
/// # Errors
/// The input is no scenario, the machine can't be looked at, or the output can't be written.
pub fn model(
    display: Display,
    args: &ModelArgs,
    probe: impl FnOnce(&Scenario) -> anyhow::Result<Host>,
) -> anyhow::Result<ExitCode> {
    let scenario = input::load(&args.input.scenario, &args.input.settings, io::stdin().lock())?;
    let host = match (args.shell, &scenario.entrypoint) {
        // Nobody can say what a list of words does but the scenario and the machine.
        (None, _) | (_, Entrypoint::Custom(_)) => probe(&scenario)?,
        (Some(choice), _) => Shell::usual(choice.into()).host(&scenario),
    };
    let expected = expect(&scenario, &host);
    if args.json {
        write_stdout(&report::json::model(&scenario, &expected)?)?;
    } else {
        display.output().print(&report::model::text(display.screen(), &scenario, &expected))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the stored runs.
///
/// # Errors
/// There is no place for runs, it can't be read, or the output can't be written.
pub fn list_runs(display: Display, json: bool) -> anyhow::Result<ExitCode> {
    let runs = home()?.list()?;
    if json {
        write_stdout(&report::json::line(&runs)?)?;
    } else {
        display.output().print(&report::runs::list(display.screen(), &runs))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a stored run again, and writes reports on it.
///
/// # Errors
/// There is no such run, it can't be read, or the output can't be written.
pub fn replay(display: Display, run: &OsStr, json: bool, reports: &[ReportFile]) -> anyhow::Result<ExitCode> {
    report::file::check_run(reports)?;
    let path = find_run(run)?;
    let stored = runs::read(&path)?;
    report::file::write_run(reports, &stored.record, Some(&path))?;
    if json {
        write_stdout(&report::json::run(&stored.record, Some(&path))?)?;
    } else {
        display.output().print(&report::run::replay(display.screen(), &stored.record, Some(&path)))?;
    }
    Ok(ExitCode::from(stored.record.verdict.exit_code()))
}

/// The directory of the run that a person means.
///
/// # Errors
/// There is no such run, or more than one.
pub fn find_run(run: &OsStr) -> Result<PathBuf, Failure> {
    // What is no text is no name.
    let Some(run) = run.to_str() else { return Ok(run.into()) };
    match home() {
        Ok(home) => home.find(run),
        // A path needs no home.
        Err(_) if run.contains('/') => Ok(run.into()),
        Err(failure) => Err(failure),
    }
}

/// Prints completions for `shell`.
///
/// # Errors
/// The output can't be written.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut completed(), "termdrill", &mut script);
    write_stdout(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line as completions offer it: clap_complete does not know that something is hidden.
fn completed() -> clap::Command {
    fn public(command: &clap::Command) -> clap::Command {
        let mut public = clap::Command::new(command.get_name().to_owned())
            .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
            .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(public));
        if let Some(about) = command.get_about() {
            public = public.about(about.clone());
        }
        public
    }
    let names = catalogue::all().iter().map(|scenario| scenario.name.as_str());
    public(&Cli::command())
        .version(env!("CARGO_PKG_VERSION"))
        .mut_subcommand("show", |show| show.mut_arg("name", |name| name.value_parser(PossibleValuesParser::new(names))))
}

/// The place for runs that the environment tells.
///
/// # Errors
/// It tells none.
pub fn home() -> Result<Home, Failure> {
    Home::from_env(|name| -> Option<OsString> { std::env::var_os(name) })
}

/// Prints the pid of this process.
///
/// # Errors
/// The output can't be written.
pub fn print_pid() -> anyhow::Result<ExitCode> {
    write_stdout(format!("{}\n", std::process::id()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_offer_what_a_person_may_use() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut completed(), "termdrill", &mut script);
            let script = String::from_utf8(script).unwrap();
            for offered in ["selftest", "speed", "verbose"] {
                assert!(script.contains(offered), "{shell} lacks {offered}");
            }
            for own_use in ["--fault", "-l fault", "print-pid", "stand-still", "matrix"] {
                assert!(!script.contains(own_use), "{shell} offers {own_use}");
            }
        }
    }
}
