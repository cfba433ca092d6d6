//! Every claim of the catalogue, on real processes.

use scenarios::{ShellBehaviour, catalogue, lesson};
use serde_json::Value;

use crate::{
    pool::side_by_side,
    support::{Drilled, Rig, STEPPED, TERMDRILL},
};

/// What `/bin/sh -c` does with a single command here.
fn shell() -> ShellBehaviour {
    let rig = Rig::new();
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &shlex::try_join([TERMDRILL, "print-pid"]).unwrap()]);
    let shell = rig.start(&mut command);
    let pid = shell.pid();
    let printed: i32 = shell.wait().stdout.trim().parse().unwrap();
    if printed == pid { ShellBehaviour::BecomesWorker } else { ShellBehaviour::Stays }
}

#[test]
fn real_processes_keep_every_claim() {
    let shell = shell();
    let claims: Vec<_> = lesson::claims().filter(|claim| claim.holds_for(shell)).collect();
    assert_eq!(claims.len(), catalogue::all().len(), "every scenario has a claim for this shell");
    let rig = Rig::new();
    let problems = side_by_side(&claims, |claim| {
        let model: Value = serde_json::from_str(&rig.run(&["model", claim.scenario, "--json"]).stdout).unwrap();
        let real = rig.matched(&[claim.scenario, "--attempts", "4"]);
        let stepped = rig.matched(&[&[claim.scenario], &STEPPED[..]].concat());
        for drilled in [&real, &stepped] {
            for part in ["events", "outcome"] {
                assert_eq!(drilled.document["expected"][part], model[part], "{}", claim.scenario);
            }
        }
        let check = |drilled: &Drilled| {
            let (events, outcome) = drilled.observed();
            claim.check(&events, outcome)
        };
        check(&real).and(check(&stepped))
    });
    let problems: Vec<String> = problems.into_iter().filter_map(Result::err).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
