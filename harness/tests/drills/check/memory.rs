//! A command that eats all memory: there is a report, and neither termdrill nor anything else dies of it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use harness::check::record::{SeatRecord, Verdict};
use rustix::process::geteuid;
use scenarios::Status;

use super::{REPORT, record, server, told, words};
use crate::{
    support::{PATIENCE, Rig, eventually, skipped},
    without_root,
};

/// How much the cgroup may have that termdrill runs in.
const LIMIT: u64 = 300 << 20;

/// A cgroup below our own with a limit, of the version that is here. It is removed when this is dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Option<Cgroup> {
        if !geteuid().is_root() {
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let place = |fits: &dyn Fn(&str, &str) -> bool| -> Option<PathBuf> {
            let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            mounts.find(|mount| fits(mount[2], mount[3])).map(|mount| mount[1].into())
        };
        let of_one = own
            .lines()
            .find_map(|line| line.split_once(":memory:"))
            .zip(place(&|kind, options| kind == "cgroup" && options.split(',').any(|option| option == "memory")));
        let of_two = own.lines().find_map(|line| line.strip_prefix("0::")).zip(place(&|kind, _| kind == "cgroup2"));
        let (folder, limit) = match (of_one, of_two) {
            (Some(((_, own), place)), _) => (place.join(own.trim_start_matches('/')), "memory.limit_in_bytes"),
            (None, Some((own, place))) => (place.join(own.trim_start_matches('/')), "memory.max"),
            (None, None) => return None,
        };
        let cgroup = Cgroup(folder.join(format!("termdrill-test-{}-{name}", std::process::id())));
        fs::create_dir(&cgroup.0).ok()?;
        fs::write(cgroup.0.join(limit), LIMIT.to_string()).ok()?;
        Some(cgroup)
    }

    /// Words before a command, which enters it first.
    fn wrapper(&self) -> [String; 4] {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh".to_owned(), "-c".to_owned(), enter, "sh".to_owned()]
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It is busy for a moment after the last process in it has ended.
        eventually(PATIENCE, || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

fn check(name: &str, habits: &str, options: &[&str], command: &[String]) -> Option<SeatRecord> {
    let Some(cgroup) = Cgroup::new(name) else {
        skipped("no cgroup with a limit can be made here");
        return None;
    };
    let rig = Rig::new();
    let wrapper = cgroup.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let options = [&["--as", "process"], options].concat();
    let mut asked = rig.wrapped(&without_root::words(&wrapper), &words(&options, command));
    let running = rig.start(asked.env(server::HABITS, habits));
    // At the latest two seconds after its start it has begun to eat, and it takes another one or two.
    let ended = running.wait_for(Duration::from_secs(4) + REPORT).unwrap_or_else(|| panic!("{name}: no report"));
    rig.assert_nothing_left(&Default::default(), name);
    let seat = record(&ended).seats.remove(0);
    let ran_out = seat.observed.memory.as_ref().unwrap_or_else(|| panic!("{name}: {}", told(&seat)));
    assert!(ran_out.cgroup && ran_out.by_command && ran_out.total_bytes == LIMIT, "{ran_out:?}");
    // Where the look comes too late, the kernel has ended it, and nothing was left.
    assert!(ran_out.held_bytes > LIMIT / 2 && ran_out.left_bytes < LIMIT / 4, "{ran_out:?}");
    assert_eq!(seat.observed.exit, Some(Status::SIGKILL));
    Some(seat)
}

#[test]
fn one_that_eats_all_memory_before_it_is_ready_is_told_of() {
    // It reads a line without an end.
    let command = ["tail", "/dev/zero"].map(str::to_owned);
    let Some(seat) = check("boot", "", &[], &command) else { return };
    assert_eq!(seat.judgement.verdict, Verdict::Inconclusive);
    let reasons = seat.judgement.reasons.join(" ");
    assert!(reasons.contains("it used up the memory, and was killed: "), "{reasons}");
    assert!(reasons.contains("of the 314 MB that this cgroup may have were left"), "{reasons}");
}

#[test]
fn a_server_that_eats_all_memory_fails() {
    let command = server::command();
    // Before the signal, and while it drains.
    let before = ["--signal-at", "60s"];
    let Some(seat) = check("before", "eats=700", &before, &command) else { return };
    assert_eq!(seat.judgement.verdict, Verdict::Fail, "{}", told(&seat));
    assert!(seat.judgement.reasons.iter().any(|reason| reason.starts_with("It used up the memory")), "{}", told(&seat));
    assert!(seat.explanation.text.starts_with("SIGTERM was not sent; "), "{}", told(&seat));

    let after = ["--signal-at", "100ms", "--grace", "30s"];
    let seat = check("after", "eats=1500 ignore=yes", &after, &command).unwrap();
    assert_eq!(seat.judgement.verdict, Verdict::Fail, "{}", told(&seat));
    assert!(seat.judgement.reasons.iter().any(|reason| reason.starts_with("It used up the memory")), "{}", told(&seat));
    assert!(seat.explanation.text.starts_with("SIGTERM was sent; "), "{}", told(&seat));
    assert!(seat.observed.sigkill.is_none(), "long before the end of the grace period");
}

/// Where a look at the memory comes too late, the kernel chooses: the command, and none of ours.
#[test]
fn the_command_is_the_first_that_the_kernel_would_kill() {
    let score = |pid: i32| fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("oom_score_adj"));
    let own = score(std::process::id().cast_signed()).unwrap();
    for seat in ["pid1", "process"] {
        let rig = Rig::new();
        let command = server::command();
        let options = ["--as", seat, "--signal-at", "100s"];
        let running = rig.start(rig.command(&words(&options, &command)).env(server::HABITS, "linger=0"));
        let scores = || -> Vec<String> {
            rig.processes().into_iter().filter_map(|pid| score(pid).ok()).map(|text| text.trim().to_owned()).collect()
        };
        // termdrill's two, and the command.
        let expected = |scores: &[String]| {
            let exposed = scores.iter().filter(|score| *score == "1000").count();
            scores.len() == 3 && exposed == 1 && scores.iter().filter(|score| **score == own.trim()).count() == 2
        };
        let done = eventually(PATIENCE, || expected(&scores()) || running.has_ended(Duration::ZERO));
        if running.has_ended(Duration::ZERO) {
            skipped("no PID namespace can be had here");
            continue;
        }
        assert!(done, "{seat}: {:?}, ours {own}", scores());
    }
}
