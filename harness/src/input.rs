//! Where a scenario comes from: the catalogue, a file or standard input, and the settings that change it.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    path::Path,
};

use scenarios::{Scenario, catalogue, parse::MAX_BYTES};

use crate::failure::{Failure, plain_io};

/// What a scenario is called that stands on standard input.
const STDIN: &str = "-";

/// The scenario that `source` means, with `settings` applied. `-` is standard input; something with a slash or ending
/// in `.json` is a file; everything else is a name of the catalogue, or else a file that exists.
///
/// # Errors
/// What is wrong with the source, the text or a setting; all are the user's to mend.
pub fn load(source: impl AsRef<OsStr>, settings: &[String], stdin: impl Read) -> Result<Scenario, Failure> {
    let source = source.as_ref();
    // What is no text can be a path only.
    let scenario = match source.to_str() {
        None => from_file(Path::new(source))?,
        Some(STDIN) => {
            parse(&read_limited(stdin).map_err(|why| unreadable("standard input", &why))?, "standard input")?
        }
        Some(path) if is_path(path) => from_file(Path::new(path))?,
        Some(name) => match catalogue::get(name) {
            Some(scenario) => scenario.clone(),
            None if Path::new(name).exists() => from_file(Path::new(name))?,
            None => return Err(unknown(name)),
        },
    };
    scenario
        .with_settings(settings.iter().map(String::as_str))
        .map_err(|error| Failure::bad_input(joined("--set", &error.to_string())))
}

/// The scenario of the catalogue that has this name.
///
/// # Errors
/// There is none.
pub fn from_catalogue(name: &str) -> Result<&'static Scenario, Failure> {
    catalogue::get(name).ok_or_else(|| match is_path(name) || Path::new(name).is_file() {
        true => Failure::bad_input(format!("{name} is a file, and only scenarios of the catalogue can be shown"))
            .hint(format!("`termdrill model {name}` says what should happen in it")),
        false => unknown(name),
    })
}

fn is_path(source: &str) -> bool {
    source.contains('/') || source.ends_with(".json")
}

fn unknown(name: &str) -> Failure {
    let failure = Failure::bad_input(format!("there is no scenario {name:?}"));
    match catalogue::suggest(name) {
        Some(near) => failure.hint(format!("did you mean {near}? `termdrill list` shows all")),
        None => failure.hint("`termdrill list` shows the scenarios; a file is given by its path"),
    }
}

fn from_file(path: &Path) -> Result<Scenario, Failure> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|error| {
        let failure = unreadable(&shown, &plain_io(&error));
        match error.kind() {
            io::ErrorKind::NotFound => {
                failure.hint("give the path of a scenario file, or a name from `termdrill list`")
            }
            _ => failure,
        }
    })?;
    let metadata = file.metadata().map_err(|error| unreadable(&shown, &plain_io(&error)))?;
    if metadata.is_dir() {
        return Err(unreadable(&shown, "it is a directory"));
    }
    if metadata.len() > MAX_BYTES as u64 {
        return Err(unreadable(&shown, &too_long()));
    }
    parse(&read_limited(file).map_err(|why| unreadable(&shown, &why))?, &shown)
}

/// All of `input`, or why not; never more than the limit, however long it is.
fn read_limited(input: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    input.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| plain_io(&error))?;
    if bytes.len() > MAX_BYTES { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> String {
    format!("it is longer than a scenario can be ({} KiB)", MAX_BYTES >> 10)
}

fn unreadable(source: &str, why: &str) -> Failure {
    Failure::bad_input(format!("can't read {source}: {why}"))
}

fn parse(bytes: &[u8], source: &str) -> Result<Scenario, Failure> {
    Scenario::from_bytes(bytes).map_err(|error| {
        Failure::bad_input(joined(source, &error.to_string()))
            .hint("`termdrill show ignored-signal` shows every field and an example")
    })
}

/// One problem on the same line, several each on a line of its own.
pub(crate) fn joined(source: &str, problems: &str) -> String {
    if problems.contains('\n') {
        format!("{source}:\n  {}", problems.replace('\n', "\n  "))
    } else {
        format!("{source}: {problems}")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::ffi::OsStrExt};

    use super::*;

    fn load_plain(source: &str) -> Result<Scenario, Failure> {
        load(source, &[], io::empty())
    }

    fn error(source: &str) -> String {
        let failure = load_plain(source).unwrap_err();
        assert_eq!(failure.exit_code, 2);
        failure.what
    }

    #[test]
    fn a_name_is_looked_up() {
        assert_eq!(load_plain("ignored-signal").unwrap().name, "ignored-signal");
        let unknown = load_plain("ignored-signl").unwrap_err();
        assert_eq!(unknown.what, "there is no scenario \"ignored-signl\"");
        assert!(unknown.next_step.unwrap().contains("did you mean ignored-signal?"));
        assert!(load_plain("qqqqqq").unwrap_err().next_step.unwrap().contains("termdrill list"));
        assert!(error("").contains("no scenario"));
    }

    #[test]
    fn a_file_is_told_from_a_name_of_the_catalogue() {
        assert_eq!(from_catalogue("ignored-signal").unwrap().name, "ignored-signal");
        assert_eq!(from_catalogue("ignored-signl").unwrap_err().what, "there is no scenario \"ignored-signl\"");
        for file in ["mine.json", "./mine"] {
            let failure = from_catalogue(file).unwrap_err();
            assert_eq!(failure.exit_code, 2);
            assert!(failure.what.contains("is a file"), "{}", failure.what);
            assert!(failure.next_step.unwrap().contains(&format!("`termdrill model {file}`")));
        }
    }

    #[test]
    fn a_file_and_standard_input_are_read() {
        let text = r#"{"name": "mine", "title": "Mine", "grace_period_s": 3}"#;
        let folder = tempfile::tempdir().unwrap();
        for name in ["mine.json", "mine"] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            assert_eq!(load_plain(path.to_str().unwrap()).unwrap().name, "mine");
        }
        let odd = folder.path().join(OsStr::from_bytes(b"\xff.json"));
        fs::write(&odd, text).unwrap();
        assert_eq!(load(&odd, &[], io::empty()).unwrap().name, "mine");
        assert_eq!(load("-", &[], text.as_bytes()).unwrap().name, "mine");
    }

    #[test]
    fn settings_change_it_and_are_checked() {
        let set = |settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
            load("ignored-signal", &settings, io::empty())
        };
        assert_eq!(set(&["grace_period_s=19", "on_sigterm=drain"]).unwrap().grace_period_s.0, 190);
        let one = set(&["grace_period_s=25"]).unwrap_err();
        assert!(one.what.starts_with("--set: grace_period_s: 25 "), "{}", one.what);
        let two = set(&["grace_period_s=25", "slots=1"]).unwrap_err();
        assert_eq!(two.what.lines().count(), 4, "both, and the fields that there are: {}", two.what);
        assert_eq!(two.exit_code, 2);
    }

    #[test]
    fn what_is_no_scenario_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let big = File::create(path("big.json")).unwrap();
        big.set_len(100 << 20).unwrap();
        fs::write(path("empty.json"), "").unwrap();
        fs::write(path("binary.json"), [0x7f, b'E', b'L', b'F', 0xff, 0]).unwrap();
        fs::write(path("text.json"), "hello").unwrap();
        fs::write(path("list.json"), "[1]").unwrap();
        let rows = [
            ("big.json", "longer than a scenario can be (1024 KiB)"),
            ("empty.json", "empty"),
            ("binary.json", "not UTF-8"),
            ("text.json", "not JSON"),
            ("list.json", "must be a JSON object"),
            ("missing.json", "no such file or directory"),
            ("", "it is a directory"),
        ];
        for (name, why) in rows {
            let error = error(&path(name));
            assert!(error.contains(why), "{name}: {error}");
            assert!(error.contains(folder.path().to_str().unwrap()), "{name}: {error}");
        }
        assert!(error("/dev/zero").contains("longer than"), "endless");
        let endless = load("-", &[], io::repeat(b' ')).unwrap_err();
        assert!(endless.what.contains("standard input: it is longer"), "{}", endless.what);
    }
}
