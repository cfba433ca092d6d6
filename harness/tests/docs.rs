//! The examples in docs/ that a program reads are read.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::Path};

use harness::check::{config, settings::Ready};

/// The first block of a page in this language.
fn block(page: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (_, after) = text.split_once(&format!("```{language}\n")).unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_configuration_file_for_ci_is_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("termdrill.toml"), block("ci.md", "toml")).unwrap();
    let file = config::read(None, folder.path()).unwrap();
    assert_eq!(file.command, ["node", "server.js"]);
    let settings = file.options.settings(file.command).unwrap();
    assert_eq!((settings.grace_ms, settings.ready), (30_000, Ready::Http("/healthz".to_owned())));
    assert_eq!((settings.slow_requests.len(), settings.seats.len()), (1, 1));
}
