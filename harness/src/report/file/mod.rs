//! Reports in files, for tickets, pages and CI systems: what a file's name ends in says what is written into it.

mod html;
pub mod junit;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser, ValueParserFactory};
use serde::{Deserialize, Serialize};

pub(crate) use self::html::hash;
use super::{json, picture};
use crate::{
    failure::{Failure, plain_io},
    record::Record,
    validate::report::Document,
};

/// What is written into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A page that replays what happened, with everything in it.
    Html,
    /// A picture of the lanes.
    Svg,
    /// The document of `--json`.
    Json,
    /// Test results for CI systems.
    Junit,
}

impl Format {
    /// Each format with what the file's name ends in; of two that fit, the first one counts.
    const ENDINGS: [(&'static str, Format); 4] =
        [(".html", Format::Html), (".svg", Format::Svg), (".json", Format::Json), (".xml", Format::Junit)];
}

/// A file that a report is to be written into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportFile {
    /// Where it is.
    #[serde(with = "crate::os_path::exact")]
    pub path: PathBuf,
    /// What is written into it.
    pub format: Format,
}

/// A path need not be UTF-8.
impl ValueParserFactory for ReportFile {
    type Parser = ValueParser;
    fn value_parser() -> ValueParser {
        PathBufValueParser::new().try_map(ReportFile::at).into()
    }
}

impl ReportFile {
    /// The report at `path`.
    ///
    /// # Errors
    /// The name does not end as one of a report; in words for clap.
    pub fn at(path: PathBuf) -> Result<ReportFile, String> {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let known = Format::ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        match known {
            Some(&(_, format)) => Ok(ReportFile { path, format }),
            None => {
                let endings = Format::ENDINGS.map(|(ending, _)| ending);
                Err(format!("what to write is told by the end of the name: {}", endings.join(", ")))
            }
        }
    }

    /// Sees whether it can be written, before it takes any time to find out what to write. Nothing is left of that.
    ///
    /// # Errors
    /// Its directory is not there or can't be written to, or it is a directory itself.
    pub fn check(&self) -> Result<(), Failure> {
        let there =
            |path: &Path| if path.is_dir() { Err(io::Error::from(io::ErrorKind::IsADirectory)) } else { Ok(()) };
        there(&self.path).and_then(|()| self.beside().map(drop)).map_err(|error| self.unwritable(&error).as_bad_input())
    }

    /// Writes it, whole or not at all: beside it, and then in its place by rename(2).
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.beside().and_then(|mut file| {
            file.write_all(bytes)?;
            file.persist(self.target()).map_err(|error| error.error)
        });
        written.map(drop).map_err(|error| self.unwritable(&error))
    }

    /// A temporary file in the same directory, with the permissions of any new file.
    fn beside(&self) -> io::Result<tempfile::NamedTempFile> {
        use std::{fs::Permissions, os::unix::fs::PermissionsExt};
        let target = self.target();
        let directory = target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let mode = Permissions::from_mode(0o666);
        tempfile::Builder::new().prefix(".termdrill-").permissions(mode).tempfile_in(directory)
    }

    /// Where a link leads, so that the link stays one.
    fn target(&self) -> PathBuf {
        self.path.canonicalize().unwrap_or_else(|_| self.path.clone())
    }

    fn unwritable(&self, error: &io::Error) -> Failure {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "its directory is not there".to_owned(),
            _ => plain_io(error),
        };
        let failure = Failure::unable(format!("can't write the report {}: {why}", self.path.display()));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("free some space, or give --report a file where there is some")
            }
            _ => failure.hint("give --report a file in a directory that you may write to"),
        }
    }
}

/// Writes the reports on a run.
///
/// # Errors
/// What keeps one of them from being written.
pub fn write_run(files: &[ReportFile], record: &Record, stored_in: Option<&Path>) -> anyhow::Result<()> {
    for file in files {
        let bytes = match file.format {
            Format::Html => html::of_run(record, stored_in)?,
            Format::Svg => picture::of_run(record).into_bytes(),
            Format::Json => json::run(record, stored_in)?,
            Format::Junit => junit::of_run(record)?,
        };
        file.write(&bytes)?;
    }
    Ok(())
}

/// Writes the reports on a validation, of which `runs` were kept whole.
///
/// # Errors
/// What keeps one of them from being written, and [`check_validation`].
pub fn write_validation(files: &[ReportFile], document: &Document, runs: &[Kept]) -> anyhow::Result<()> {
    for file in files {
        let bytes = match file.format {
            Format::Html => html::of_validation(document, runs)?,
            Format::Svg => return Err(no_picture(file).into()),
            Format::Json => json::line(document)?,
            Format::Junit => crate::validate::report::junit(document)?,
        };
        file.write(&bytes)?;
    }
    Ok(())
}

/// A drill of a validation that was kept whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its place in the plan, from 0 on.
    pub number: usize,
    /// All that is known of it.
    pub record: Record,
}

/// Sees whether reports on a run can be written.
///
/// # Errors
/// See [`ReportFile::check`].
pub fn check_run(files: &[ReportFile]) -> Result<(), Failure> {
    files.iter().try_for_each(ReportFile::check)
}

/// Sees whether reports on a validation can be written.
///
/// # Errors
/// See [`ReportFile::check`]; a validation has no picture.
pub fn check_validation(files: &[ReportFile]) -> Result<(), Failure> {
    match files.iter().find(|file| file.format == Format::Svg) {
        Some(picture) => Err(no_picture(picture)),
        None => files.iter().try_for_each(ReportFile::check),
    }
}

fn no_picture(file: &ReportFile) -> Failure {
    Failure::bad_input(format!("{}: there is no picture of a whole validation", file.path.display()))
        .hint("a validation is reported as .html, .json or .xml; `termdrill run --report` makes pictures")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::report::samples;

    fn file(path: &Path) -> ReportFile {
        ReportFile::at(path.to_owned()).unwrap()
    }

    #[test]
    fn the_end_of_the_name_tells_the_format() {
        for (name, format) in [
            ("a.html", Format::Html),
            ("./a.b/c.SVG", Format::Svg),
            ("-.json", Format::Json),
            ("results.junit.xml", Format::Junit),
        ] {
            assert_eq!(ReportFile::at(name.into()).map(|file| file.format), Ok(format), "{name}");
        }
        for name in ["a.xsl", "html", "a.html.gz", ""] {
            let error = ReportFile::at(name.into()).unwrap_err();
            assert!(error.ends_with(".html, .svg, .json, .xml"), "{name}: {error}");
        }
    }

    #[test]
    fn what_can_not_be_written_is_found_out_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [("missing/a.svg", "its directory is not there"), ("folder.svg", "is a directory")];
        fs::create_dir(folder.path().join("folder.svg")).unwrap();
        for (name, why) in rows {
            let failure = file(&folder.path().join(name)).check().unwrap_err();
            assert!(failure.what.ends_with(why) && failure.what.contains(name), "{}", failure.what);
            assert_eq!(failure.exit_code, 2);
        }
        file(&folder.path().join("a.svg")).check().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of the check");
        let failure = check_validation(&[file(&folder.path().join("a.svg"))]).unwrap_err();
        assert!(failure.what.contains("no picture"), "{}", failure.what);
    }

    #[test]
    fn a_report_is_there_as_a_whole_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("real.json"), "old").unwrap();
        std::os::unix::fs::symlink("real.json", path("link.json")).unwrap();
        let files: Vec<ReportFile> =
            ["link.json", "a.svg", "a.html", "a.junit.xml"].iter().map(|name| file(&path(name))).collect();
        write_run(&files, &samples::diverged(), None).unwrap();
        assert!(path("link.json").is_symlink());
        let document: serde_json::Value = serde_json::from_slice(&fs::read(path("real.json")).unwrap()).unwrap();
        assert_eq!(document["verdict"], "diverged");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5, "no temporary file is left");
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        fs::write(path("usual"), "").unwrap();
        assert_eq!(mode("a.svg"), mode("usual"));
    }
}
