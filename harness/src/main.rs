//! termdrill: what really happens to the work in flight when a container is told to stop.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use harness::{
    bench, check,
    cli::{Cli, Command},
    commands, failure, host, inspect, matrix, process, report, run, selftest, shell, sweep, validate, watch, web,
};

fn main() -> ExitCode {
    // A worker has to take its posture on SIGTERM before anything else, the reading of a command line included.
    match std::env::args_os().nth(1) {
        Some(command) if command == "worker" => return worker::run(),
        Some(command) if command == process::STEP => return process::step(),
        _ => {}
    }
    let done = match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(told) => tell(&told),
    };
    done.unwrap_or_else(|error| {
        let (text, exit_code) = failure::explain(&error);
        // With stderr gone there is nobody left to tell.
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(exit_code)
    })
}

/// Prints what clap has to say: help and version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> anyhow::Result<ExitCode> {
    let printed = told.print().and_then(|()| io::stdout().flush());
    if !told.use_stderr() {
        report::quiet_if_closed(printed)?;
    }
    Ok(ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(failure::BAD_INPUT)))
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let display = cli.display;
    match cli.command {
        Command::List { json } => commands::list(display, json),
        Command::Show { name, json } => commands::show(display, &name, json, host::look),
        Command::Model(args) => commands::model(display, &args, host::look),
        Command::Run(args) => run::outer(display, &args),
        Command::Check(args) => check::outer(display, *args),
        Command::CheckDrill => check::inner(),
        Command::Inspect(args) => inspect::inspect(display, &args),
        Command::Validate(args) => validate::validate(display, &args),
        Command::Serve(args) => web::serve(&args),
        Command::Bench(args) => bench::bench(display, &args),
        Command::Merge(args) => validate::merge(display, &args),
        Command::Sweep(args) => sweep::outer(display, &args),
        Command::Runs { json } => commands::list_runs(display, json),
        Command::Replay { run, json, reports } => commands::replay(display, &run, json, &reports),
        Command::Watch(args) => watch::watch(display, &args),
        Command::Selftest(args) => selftest::run(display, &args),
        Command::Completions { shell } => commands::completions(shell),
        Command::Worker => Ok(worker::run()),
        Command::AsPid1 => Ok(process::step()),
        Command::Drill => run::inner(),
        Command::Entrypoints(args) => matrix::outer(display, &args),
        Command::Matrix => matrix::inner(),
        Command::Cell => matrix::play::inner(),
        Command::Lane => validate::lane::inner(),
        Command::SelftestDrill => selftest::inner(),
        Command::SweepAndDrill => sweep::inner(),
        Command::PrintPid => commands::print_pid(),
        Command::LookAtShell => shell::look_and_tell(),
        Command::StandStill { looker } => Ok(shell::stand_still(looker)),
    }
}
