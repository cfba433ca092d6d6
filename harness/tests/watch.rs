//! `termdrill watch` in a real terminal, tmux(1): what is shown, keys, sizes, and that the terminal and the machine are
//! left as they were.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::print_stdout, reason = "what is skipped is told")]

use std::{
    collections::BTreeSet,
    fs, io,
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;
use worker::clock;

/// How long anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(120);
/// A variable by which every process that is started here is found again.
const MARK: &str = "WATCH_TEST_MARK";

/// A tmux server of its own with one window, in which a shell runs the program and then waits.
struct Screen {
    folder: TempDir,
    socket: String,
}

impl Screen {
    /// Starts `termdrill` with `arguments` on a screen of so many columns and rows; `None` where there is no tmux.
    fn start(arguments: &str, size: (u16, u16)) -> Option<Screen> {
        Screen::start_with("", arguments, size)
    }

    /// The same with these assignments before the command.
    fn start_with(environment: &str, arguments: &str, (width, height): (u16, u16)) -> Option<Screen> {
        static SCREENS: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        let number = SCREENS.fetch_add(1, Ordering::Relaxed);
        let socket = format!("termdrill-watch-{}-{number}", std::process::id());
        let screen = Screen { folder, socket };
        let script = format!(
            "stty -g > before; {environment} {} {arguments}; echo $? > status; stty -g > after; echo the-shell-again; exec sleep 1000",
            env!("CARGO_BIN_EXE_termdrill"),
        );
        let mut command = screen.command();
        command.args(["-f", "/dev/null", "new-session", "-d", "-x", &width.to_string(), "-y", &height.to_string()]);
        command.arg("-c").arg(screen.folder.path()).args(["sh", "-c", &script]);
        match output(&mut command) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                println!("skipped: there is no tmux");
                None
            }
            result => {
                let result = result.unwrap();
                assert!(result.status.success(), "{result:?}");
                Some(screen)
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("LC_ALL", "C.UTF-8").env("TERM", "screen-256color").env("HOME", self.folder.path());
        command.env("TMPDIR", self.folder.path()).env("TMUX_TMPDIR", self.folder.path());
        command.env("XDG_STATE_HOME", self.folder.path().join("state")).env(MARK, &self.socket);
        command.args(["-L", &self.socket]);
        command
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = output(self.command().args(arguments)).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Waits until the screen shows what is wanted.
    fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let until_ns = clock::now_ns() + u64::try_from(PATIENCE.as_nanos()).unwrap();
        loop {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            assert!(clock::now_ns() < until_ns, "the screen never shows {what}:\n{text}");
            clock::block_for(Duration::from_millis(20));
        }
    }

    fn shows(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Every living process of the program.
    fn processes(&self) -> BTreeSet<i32> {
        let pair = format!("{MARK}={}", self.socket);
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let words = |pid: i32, file: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let own = |pid: &i32| {
            words(*pid, "environ").split('\0').any(|word| word == pair)
                && words(*pid, "cmdline").contains("termdrill\0")
        };
        pids.filter(own).collect()
    }

    /// The process that was started from the shell.
    fn program(&self) -> i32 {
        let mut program = None;
        self.wait_until("the program runs", || {
            let words = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            program = self.processes().into_iter().find(|pid| words(pid).contains("\0watch\0"));
            program.is_some()
        });
        program.unwrap()
    }

    fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let until_ns = clock::now_ns() + u64::try_from(PATIENCE.as_nanos()).unwrap();
        while !condition() {
            assert!(clock::now_ns() < until_ns, "never: {what}\n{}", self.text());
            clock::block_for(Duration::from_millis(20));
        }
    }

    /// Checks that the shell is there again, with the terminal as it was before and no process left; gives the status.
    fn assert_left_in_order(&self) -> String {
        self.shows("the-shell-again");
        let read = |name: &str| fs::read_to_string(self.file(name)).unwrap();
        assert_eq!(read("before"), read("after"), "the settings of the terminal");
        let flags = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(flags.trim(), "0 1", "the alternate screen is left and the cursor is visible");
        self.wait_until("no process is left", || self.processes().is_empty());
        read("status").trim().to_owned()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place of this test that spawns")]
fn output(command: &mut Command) -> io::Result<Output> {
    command.output()
}

#[expect(clippy::disallowed_methods, reason = "the one place of this test that signals")]
fn send(pid: i32, signal: Signal) {
    let pidfd = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(pidfd, signal).unwrap();
}

#[test]
fn what_should_happen_is_played_paused_and_stepped() {
    let Some(screen) = Screen::start("watch ignored-signal --model --speed 0.1", (120, 40)) else { return };
    screen.shows("worker-1 is started");
    screen.press(&["Space"]);
    screen.shows("paused");
    screen.press(&["Home", "Space"]);
    screen.shows(" 0.0 s Ⅱ paused");
    for (key, shown) in [(".", " 0.1 s "), ("Right", " 1.1 s "), ("Left", " 0.1 s ")] {
        screen.press(&[key]);
        screen.shows(shown);
    }
    for _ in 0..31 {
        screen.press(&["Right"]);
    }
    let text = screen.shows("31.1 s Ⅱ paused");
    assert!(text.contains("SIGTERM is sent to worker-1") && text.contains("4 in flight"), "{text}");
    screen.press(&["?"]);
    screen.shows("this help");
    screen.press(&["?"]);
    screen.wait_for("no help", |text| !text.contains("this help"));
    screen.press(&["d"]);
    screen.shows("request-16 enters prepare");
    screen.press(&["+"]);
    screen.press(&["r"]);
    screen.shows("▶ 0.2×");
    screen.press(&["End"]);
    screen.shows("gate FAIL");
    screen.press(&["q"]);
    assert_eq!(screen.assert_left_in_order(), "0");
}

#[test]
fn it_fits_every_size() {
    let Some(screen) = Screen::start("watch ignored-signal --model --speed 200", (120, 40)) else { return };
    screen.shows("gate FAIL");
    for (width, height) in [(80, 24), (40, 24), (40, 10), (200, 60)] {
        screen.resize(width, height);
        // What tmux leaves of the old frame has lost the one or the other.
        screen.wait_for("its title up to the last column, and its foot in the last line", |text| {
            let lines: Vec<&str> = text.lines().collect();
            let is_whole = |line: &&str| line.ends_with("■ end model") && line.chars().count() == usize::from(width);
            lines.len() == usize::from(height)
                && lines.first().is_some_and(is_whole)
                && lines.last().is_some_and(|line| line.starts_with("q quit"))
        });
        let text = screen.shows("worker-1");
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
    }
    screen.resize(30, 8);
    screen.shows("too small");
    screen.press(&["Escape"]);
    assert_eq!(screen.assert_left_in_order(), "0");
}

#[test]
fn a_drill_is_watched_to_its_end_and_again() {
    let Some(screen) = Screen::start("watch handler-grace-10 --clock stepped", (120, 40)) else { return };
    let text = screen.wait_for("a verdict", |text| text.contains("✔ matched") || text.contains("? inconclusive"));
    if text.contains("PID namespace") && text.contains("? inconclusive") {
        println!("skipped: no PID namespace can be made here");
        return;
    }
    screen.shows("MATCHED");
    screen.press(&["q"]);
    assert_eq!(screen.assert_left_in_order(), "0");
    let text = screen.text();
    assert!(text.contains("verdict   ✔ MATCHED"), "what it came to stays on the terminal:\n{text}");
}

/// A real drill that takes a minute is left after it has begun: nothing of it goes on.
#[test]
fn leaving_a_drill_stops_it() {
    for how in ["q", "C-c", "signal"] {
        let Some(screen) = Screen::start("watch ignored-signal --speed 1", (100, 30)) else { return };
        screen.wait_for("the worker", |text| text.contains("worker-1 is started") || text.contains("inconclusive"));
        if screen.text().contains("inconclusive") {
            println!("skipped: no PID namespace can be made here");
            return;
        }
        assert!(screen.processes().len() >= 3, "the program, the drill and the worker: {:?}", screen.processes());
        let status = match how {
            "signal" => {
                send(screen.program(), Signal::TERM);
                // As the shell has it for a process that died of SIGTERM.
                "143"
            }
            key => {
                screen.press(&[key]);
                "3"
            }
        };
        assert_eq!(screen.assert_left_in_order(), status, "{how}\n{}", screen.text());
    }
}

/// The process that runs the drill is killed: the terminal is given back and a person is told.
#[test]
fn a_drill_that_is_killed_is_told_of() {
    let Some(screen) = Screen::start("watch ignored-signal --speed 1", (100, 30)) else { return };
    screen.wait_for("the worker", |text| text.contains("worker-1 is started") || text.contains("inconclusive"));
    if screen.text().contains("inconclusive") {
        println!("skipped: no PID namespace can be made here");
        return;
    }
    let words = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let drill = screen.processes().into_iter().find(|pid| words(pid).ends_with("\0drill\0")).unwrap();
    send(drill, Signal::KILL);
    assert_eq!(screen.assert_left_in_order(), "3");
    assert!(
        screen.text().contains("error: the process that runs the drill ended: killed by SIGKILL"),
        "{}",
        screen.text()
    );
}

/// The screen itself fails in the middle of a drill: the terminal is given back before the panic tells of itself, and the
/// drill ends with the program.
#[test]
fn a_panic_gives_the_terminal_back_and_leaves_nothing() {
    if !cfg!(debug_assertions) {
        println!("skipped: a release build has no way to make it panic");
        return;
    }
    for arguments in ["watch ignored-signal --model --speed 1", "watch ignored-signal --speed 1"] {
        let panics = Screen::start_with("TERMDRILL_TEST_PANIC=1", arguments, (100, 30));
        let Some(screen) = panics else { return };
        // As std::process::ExitCode has it for a main thread that panicked.
        assert_eq!(screen.assert_left_in_order(), "101", "{arguments}\n{}", screen.text());
        let text = screen.text();
        assert!(
            text.contains("the screen panics because a test asks for it"),
            "it is read on the shell's screen:\n{text}"
        );
        assert!(!text.contains("q quit"), "nothing of the screen is left:\n{text}");
    }
}

#[test]
fn without_a_screen_it_prints_lines() {
    for arguments in ["watch ignored-signal --model | cat", "watch no-such --model | cat"] {
        let Some(screen) = Screen::start(arguments, (100, 60)) else { return };
        let text = screen.shows("the-shell-again");
        let wanted = if arguments.contains("no-such") { "there is no scenario \"no-such\"" } else { "gate      FAIL" };
        assert!(text.contains(wanted), "{text}");
    }
    let Some(screen) = Screen::start("watch --replay latest", (100, 60)) else { return };
    assert!(screen.shows("the-shell-again").contains("no run is stored yet"));
    assert_eq!(screen.assert_left_in_order(), "2");
}

/// There is nowhere to store the run: that is told where the screen was, with the exit status of `run`.
#[test]
fn why_a_drill_can_not_be_run_is_told() {
    let nowhere = Screen::start_with("env -u HOME -u XDG_STATE_HOME", "watch ignored-signal", (100, 30));
    let Some(screen) = nowhere else { return };
    assert_eq!(screen.assert_left_in_order(), "2", "{}", screen.text());
    let text = screen.text();
    assert!(text.contains("error: ") && text.contains("HOME"), "{text}");
}
