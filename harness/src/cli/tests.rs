use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definitions_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn a_run_as_it_is_usually_asked_for() {
    let cli = parse("termdrill run x --set a=1 --set b=2 -v").unwrap();
    let Command::Run(run) = cli.command else { panic!("not a run") };
    assert!(cli.display.verbose);
    assert_eq!((run.input.scenario.to_str().unwrap(), run.input.settings.len()), ("x", 2));
    assert_eq!((run.speed, run.attempts, run.fault), (10.0, 5, None));
    let cli = parse("termdrill run - --fault wrong_sum --speed 0.1 --attempts 1").unwrap();
    let Command::Run(run) = cli.command else { panic!("not a run") };
    assert_eq!((run.speed, run.attempts, run.fault), (0.1, 1, Some(Fault::WrongSum)));
}

#[test]
fn what_is_out_of_range_is_refused_with_what_is_allowed() {
    for (line, allowed) in [
        ("termdrill run x --speed 0", "a number from 0.1 to 200"),
        ("termdrill run x --speed 201", "a number from 0.1 to 200"),
        ("termdrill run x --speed nan", "a number from 0.1 to 200"),
        ("termdrill run x --attempts 0", "1..=5"),
        ("termdrill run x --fault none", "wrong_sum"),
        ("termdrill run x --quiet --json", "--json"),
        ("termdrill model x --shell fish", "becomes-worker"),
        ("termdrill list --color blue", "never"),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(allowed), "{line}: {error}");
    }
}

#[test]
fn help_texts() {
    for name in [
        "",
        "run",
        "inspect",
        "entrypoints",
        "model",
        "sweep",
        "list",
        "show",
        "runs",
        "replay",
        "selftest",
        "completions",
        "validate",
        "merge",
        "bench",
        "watch",
        "serve",
    ] {
        let mut command = Cli::command();
        command.build();
        let command = match name {
            "" => &mut command,
            name => command.find_subcommand_mut(name).unwrap(),
        };
        let (snapshot, help) = (format!("help-{name}"), command.clone().term_width(100).render_long_help());
        insta::assert_snapshot!(snapshot, help.to_string());
    }
}
