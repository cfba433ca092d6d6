//! The chromedriver that all tests share, and the browsers that it has started.

use std::{
    io::{BufRead, BufReader},
    ops::Deref,
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use tempfile::TempDir;

use crate::{support::skipped, webdriver::Session};

/// Runs chromedriver until its standard input ends, which it does with these tests, whatever ends them. The browsers end
/// with chromedriver; their profiles are removed until nothing is written there any more.
const GUARDED: &str = r#"
chromedriver --port=0 2>/dev/null &
driver=$!
while read -r _; do :; done
kill -KILL "$driver"
wait "$driver" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  rm -rf "$1" 2>/dev/null
  sleep 0.1
  [ -e "$1" ] || exit
done
"#;

/// A running chromedriver.
struct Driver {
    url: String,
    profiles: String,
    count: AtomicU32,
    /// Browsers that no test uses now.
    idle: Mutex<Vec<Session>>,
    /// Ends with this process, and chromedriver with it.
    _lifeline: ChildStdin,
}

/// The driver, or why there is none.
fn driver() -> &'static Result<Driver, String> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(start)
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts chromedriver")]
fn start() -> Result<Driver, String> {
    for program in ["chromedriver", "chromium"] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            return Err(format!("there is no {program} here (Debian has it in chromium and chromium-driver)"));
        }
    }
    let profiles = TempDir::new().map_err(|error| error.to_string())?.keep().to_string_lossy().into_owned();
    let mut child = Command::new("/bin/sh")
        .args(["-c", GUARDED, "chromedriver", &profiles])
        // What else browsers write is removed with their profiles.
        .envs([("HOME", &profiles), ("TMPDIR", &profiles)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    let lifeline = child.stdin.take().ok_or("no standard input")?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("successfully on port ")?;
        port.trim_end_matches('.').parse::<u16>().ok()
    });
    // What else it says is read, so that it never waits for a reader.
    thread::spawn(move || lines.for_each(drop));
    Ok(Driver {
        url: format!("http://127.0.0.1:{}", port.ok_or("chromedriver does not say where it listens")?),
        profiles,
        count: AtomicU32::new(0),
        idle: Mutex::default(),
        _lifeline: lifeline,
    })
}

/// A browser with one window, for one test. After a test that passes the next one may have it.
pub(crate) struct Browser {
    session: Option<Session>,
    driver: &'static Driver,
}

impl Browser {
    /// A browser, or a note that says why the test is skipped.
    pub(crate) fn take() -> Option<Browser> {
        match driver() {
            Ok(driver) => {
                let idle = driver.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
                let session = idle.unwrap_or_else(|| {
                    let number = driver.count.fetch_add(1, Ordering::Relaxed);
                    let profile = format!("{}/{number}", driver.profiles);
                    Session::start(&driver.url, &profile).unwrap_or_else(|error| panic!("no browser starts: {error}"))
                });
                Some(Browser { session: Some(session), driver })
            }
            Err(why) => {
                skipped(why);
                None
            }
        }
    }
}

impl Deref for Browser {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if thread::panicking() {
            session.end();
            return;
        }
        session.start_anew();
        self.driver.idle.lock().unwrap().push(session);
    }
}
