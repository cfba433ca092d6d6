//! `termdrill check` for an ordinary user, where namespaces are forbidden, and of a command that runs as somebody else.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use harness::check::{
    record::{Record, SeatRecord, Verdict},
    settings::Seat,
};
use rustix::process::{Signal, geteuid};

use super::{REPORT, can_be_pid1, record, server, told, was_too_slow, words};
use crate::{
    processes::{command_line, send},
    support::{Ended, PATIENCE, Rig, eventually, skipped},
    without_root::{self, AS_NOBODY, IN_A_CHROOT, NOBODY, WITHOUT_NAMESPACES, is_there, rig_of_nobody},
};

const SHORT: [&str; 6] = ["--signal-at", "300ms", "--grace", "4s", "--routing-lag", "200ms"];

/// Our own server where a user without rights can start it.
fn server_in(rig: &Rig) -> Vec<String> {
    let [program, arguments @ ..] = &server::command()[..] else { panic!("no program") };
    let copy = rig.path("server");
    rig.put_program(program, &copy);
    let mut command = vec![copy.display().to_string()];
    command.extend(arguments.iter().cloned());
    command
}

/// Checks our own server, with other words before termdrill.
fn check(rig: &Rig, wrapper: &[&str], options: &[&str], command: &[String]) -> Ended {
    let wrapper = without_root::words(wrapper);
    rig.run_command(rig.wrapped(&wrapper, &words(options, command)).env(server::HABITS, "linger=700"))
}

fn passes(seat: &SeatRecord) {
    if !was_too_slow(seat) {
        assert_eq!(seat.judgement.verdict, Verdict::Pass, "{}", told(seat));
        assert!(!seat.observed.requests.is_empty() && seat.observed.app_pid.is_some(), "{}", told(seat));
    }
}

#[test]
fn an_ordinary_user_can_check_in_both_seats() {
    let (rig, wrapper) = match geteuid().is_root() {
        true if !is_there(&AS_NOBODY) => return,
        true => (rig_of_nobody(), &AS_NOBODY[..]),
        false => (Rig::new(), &[][..]),
    };
    let command = server_in(&rig);
    let record = record(&check(&rig, wrapper, &SHORT, &command));
    rig.assert_nothing_left(&Default::default(), "an ordinary user's check");
    if can_be_pid1(&record) {
        assert_eq!(record.seats.len(), 2);
        record.seats.iter().for_each(passes);
        let own_number = |seat: &SeatRecord| {
            let before = seat.observed.before.as_ref().unwrap();
            before.process(seat.observed.top_pid.unwrap()).unwrap().namespace_pid
        };
        assert_eq!(own_number(&record.seats[0]), 1);
        assert_ne!(own_number(&record.seats[1]), 1);
    }
}

#[test]
fn without_namespaces_one_seat_is_checked_and_the_other_says_what_to_change() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    let rig = Rig::new();
    let record = record(&check(&rig, &WITHOUT_NAMESPACES, &SHORT, &server::command()));
    rig.assert_nothing_left(&Default::default(), "a check without namespaces");
    let [pid1, process] = &record.seats[..] else { panic!("two seats") };
    assert_eq!((pid1.seat, pid1.judgement.verdict), (Seat::Pid1, Verdict::Inconclusive));
    let reasons = pid1.judgement.reasons.join(" ");
    for said in ["no PID namespace can be made here", "run as root", "user.max_user_namespaces"] {
        assert!(reasons.contains(said), "{reasons}");
    }
    passes(process);
    assert_eq!(record.verdict, Verdict::Inconclusive);
}

#[test]
fn without_namespaces_what_a_command_leaves_is_cleaned_up() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    let rig = Rig::new();
    let line = shlex::try_join(server::command().iter().map(String::as_str)).unwrap();
    // Below a shell that dies of the signal, and in a session of its own.
    let command = ["sh".to_owned(), "-c".to_owned(), format!("setsid {line} & wait")];
    let options = ["--as", "process", "--signal-at", "300ms", "--grace", "700ms", "--routing-lag", "100ms"];
    let ended = check(&rig, &WITHOUT_NAMESPACES, &options, &command);
    rig.assert_nothing_left(&Default::default(), "an orphan without namespaces");
    let record = record(&ended);
    assert_eq!(record.verdict, Verdict::Fail, "{}", told(&record.seats[0]));
    assert_eq!(record.seats[0].observed.exit, Some(scenarios::Status::SIGTERM));
}

/// What an inner process started that is killed itself, and that nobody else would end.
#[test]
fn without_namespaces_what_is_left_by_an_inner_process_that_is_killed_is_cleaned_up() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    let rig = Rig::new();
    let command = ["sh", "-c", "sleep 1001 & exec sleep 1000"].map(str::to_owned);
    let options = ["--as", "process", "--ready-timeout", "100s"];
    let wrapper = without_root::words(&WITHOUT_NAMESPACES);
    let running = rig.start(&mut rig.wrapped(&wrapper, &words(&options, &command)));
    let inner = || rig.processes().into_iter().find(|&pid| command_line(pid).ends_with("check-drill"));
    let lives = |line: &str| rig.processes().into_iter().any(|pid| command_line(pid) == line);
    let started = || inner().is_some() && lives("sleep 1000") && lives("sleep 1001");
    assert!(eventually(PATIENCE, started), "{:?}", running.wait_for(Duration::ZERO));
    inner().into_iter().for_each(|inner| send(inner, Signal::KILL));
    rig.assert_nothing_left(&Default::default(), "an inner process that was killed");
    running.wait().assert_refused(3, "was killed by SIGKILL");
}

/// As with sudo: it became somebody else, whom an ordinary user may not kill.
#[test]
fn without_namespaces_a_command_that_may_not_be_killed_is_told_of_and_not_waited_for() {
    if !geteuid().is_root() || !is_there(&AS_NOBODY) {
        return skipped("only root can make a program that anybody runs as root");
    }
    let rig = rig_of_nobody();
    let root = rig.path("root");
    fs::create_dir(&root).unwrap();
    let wrapper = [&IN_A_CHROOT[..], &[root.to_str().unwrap()]].concat();
    if !is_there(&wrapper) {
        return;
    }
    let setpriv = rig.path("setpriv");
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join("setpriv")).find(|path| path.is_file()).unwrap();
    rig.put_program(found, &setpriv);
    fs::set_permissions(&setpriv, fs::Permissions::from_mode(0o4755)).unwrap();
    let becomes = [setpriv.to_str().unwrap(), "--reuid=0", "--regid=0", "--clear-groups"];
    let command: Vec<String> = becomes.iter().chain(&["sleep", "1002"]).map(|&word| word.to_owned()).collect();
    let options = ["--as", "process", "--ready-timeout", "500ms"];
    let running = rig.start(&mut rig.wrapped(&without_root::words(&wrapper), &words(&options, &command)));
    let ended = running.wait_for(Duration::from_millis(500) + REPORT);
    let left = rig.processes();
    left.iter().for_each(|&pid| send(pid, Signal::KILL));
    let ended = ended.expect("a report, although it can't be killed");
    let seat = record(&ended).seats.remove(0);
    // Where the file system takes no such program it ends by itself.
    if seat.observed.ended_early {
        return skipped(&seat.observed.output);
    }
    let own: Vec<i32> = left.into_iter().collect();
    assert_eq!(seat.observed.beyond, own, "{}", told(&seat));
    let reasons = seat.judgement.reasons.join(" ");
    assert!(reasons.contains(&format!("sleep (pid {}) may not be killed from here", own[0])), "{reasons}");
}

/// The first lines that the command wrote: who it is, and in which groups.
fn who(record: &Record) -> Vec<String> {
    record.seats.iter().map(|seat| seat.observed.output.lines().take(4).collect::<Vec<_>>().join(" ")).collect()
}

/// A command that says who it is, opens its error output once more, as programs do that log to /dev/stderr, and serves.
fn says_who_it_is(rig: &Rig) -> Vec<String> {
    let line = shlex::try_join(server_in(rig).iter().map(String::as_str)).unwrap();
    let says = "id -u; id -g; id -G; echo $USER >/dev/stderr";
    ["sh".to_owned(), "-c".to_owned(), format!("{says}; exec {line}")].to_vec()
}

#[test]
fn a_command_runs_as_the_user_that_is_asked_for() {
    if !geteuid().is_root() || !is_there(&AS_NOBODY) {
        return skipped("only root can run a command as somebody else");
    }
    let rig = rig_of_nobody();
    let command = says_who_it_is(&rig);
    // Groups of our own, which must not be left.
    let with_groups = ["setpriv", "--groups", "4,24"];
    for (user, is) in [
        ("nobody".to_owned(), format!("{NOBODY} {NOBODY} {NOBODY} nobody")),
        (format!("{NOBODY}"), format!("{NOBODY} {NOBODY} {NOBODY} nobody")),
        ("70000:70001".to_owned(), "70000 70001 70001".to_owned()),
    ] {
        let options = [&SHORT[..], &["--user", &user]].concat();
        let ended = check(&rig, &with_groups, &options, &command);
        rig.assert_nothing_left(&Default::default(), &user);
        let record = record(&ended);
        assert!(who(&record).iter().all(|who| who.starts_with(&is)), "{user}: {:?} {ended:?}", who(&record));
        if can_be_pid1(&record) {
            record.seats.iter().for_each(passes);
        }
    }
}

/// In a file of groups of its own, in which nobody is in two more.
#[test]
fn the_user_s_supplementary_groups_come_along() {
    let groups = "root:x:0:\nnogroup:x:65534:\ndrill:x:61001:nobody\nothers:x:61002:root\nmore:x:61003:nobody\n";
    let rig = rig_of_nobody_if_root();
    let (Some(rig), true) = (rig, is_there(&["unshare", "--mount"])) else {
        return skipped("only root can run a command as somebody else");
    };
    let file = rig.path("group");
    fs::write(&file, groups).unwrap();
    let mounted = format!("mount --bind {} /etc/group && exec \"$@\"", file.display());
    let command = says_who_it_is(&rig);
    let options = [&SHORT[..], &["--user", "nobody", "--as", "process"]].concat();
    let ended = check(&rig, &["unshare", "--mount", "sh", "-c", &mounted, "sh"], &options, &command);
    let record = record(&ended);
    let who = who(&record).remove(0);
    let mut ids: Vec<&str> = who.split(' ').collect();
    ids[2..].sort_unstable();
    assert_eq!(ids, ["65534", "65534", "61001", "61003", "65534", "nobody"], "{ended:?}");
}

fn rig_of_nobody_if_root() -> Option<Rig> {
    (geteuid().is_root() && is_there(&AS_NOBODY)).then(rig_of_nobody)
}

#[test]
fn a_user_that_there_is_not_is_refused() {
    let rig = Rig::new();
    let asked = |user| ["check", "--user", user, "--", "true"];
    if geteuid().is_root() {
        for (user, what) in [
            ("no-such-user", "there is no user \"no-such-user\""),
            ("3999999999", "--user 3999999999:GID"),
            ("nobody:no-such-group", "there is no group \"no-such-group\""),
            ("", "is no user"),
            ("4294967295:1", "is no user"),
        ] {
            rig.run(&asked(user)).assert_refused(2, what);
        }
        let missing = ["check", "--user", "nobody", "--", "no-such-program"];
        rig.run(&missing).assert_refused(2, "there is no program \"no-such-program\"");
    }
    // Root in a namespace of its own is nobody that could become somebody else.
    let (rig, wrapper) = match rig_of_nobody_if_root() {
        Some(rig) => (rig, without_root::words(&AS_NOBODY)),
        None => (rig, Vec::new()),
    };
    if geteuid().is_root() && wrapper.is_empty() {
        return;
    }
    let ended = rig.run_command(&mut rig.wrapped(&wrapper, &asked("nobody")));
    ended.assert_refused(2, "only root can run a command as somebody else");
}
