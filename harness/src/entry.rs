//! Entrypoint forms as command lines: what a platform would be told to run.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use scenarios::{Entrypoint, entrypoint::WORKER_PLACEHOLDER};

use crate::matrix::programs::SHELLS;

/// The shell that the forms speak of.
pub const SH: &str = "/bin/sh";

/// The command line of a form. `worker` is the worker's argv; scripts, where the form needs one, are written to
/// `directory` and read from there by the shell.
///
/// # Errors
/// When the script can't be written, or the worker's command line can't be quoted (it holds a NUL byte).
pub fn command(form: &Entrypoint, worker: &[OsString], directory: &Path) -> io::Result<Vec<OsString>> {
    let line = || quoted(worker);
    let shell = |line: OsString| vec![OsString::from(SH), OsString::from("-c"), line];
    let script = |body: OsString| -> io::Result<Vec<OsString>> {
        let path = directory.join("entrypoint.sh");
        fs::write(&path, body.as_bytes())
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(vec![OsString::from(SH), path.into_os_string()])
    };
    Ok(match form {
        Entrypoint::Exec => worker.to_vec(),
        Entrypoint::Shell => shell(line()?),
        Entrypoint::ShellExec => shell(joined(["exec ".as_ref(), &line()?])),
        Entrypoint::Script => script(joined(["#!/bin/sh\n".as_ref(), &line()?, "\nexit $?\n".as_ref()]))?,
        Entrypoint::ScriptExec => script(joined(["#!/bin/sh\nexec ".as_ref(), &line()?, "\n".as_ref()]))?,
        Entrypoint::ScriptTrap => {
            let (before, after) = TRAP.split_once(WORKER_PLACEHOLDER).unwrap_or_default();
            script(joined([before.as_ref(), &line()?, after.as_ref()]))?
        }
        Entrypoint::Custom(words) => {
            let mut argv = Vec::new();
            for word in words {
                match word.split_once(WORKER_PLACEHOLDER) {
                    None => argv.push(OsString::from(word)),
                    Some(("", "")) if is_text(&argv) => argv.push(line()?),
                    Some(("", "")) => argv.extend_from_slice(worker),
                    Some((before, after)) => argv.push(joined([before.as_ref(), &line()?, after.as_ref()])),
                }
            }
            argv
        }
    })
}

/// A script that passes SIGTERM on. A trap interrupts `wait`, which then reports something else than the worker's end,
/// so it waits again after each; 127 is what it gets for a worker that it has waited for already.
pub const TRAP: &str = r#"#!/bin/sh
{worker} &
worker=$!
trap 'kill -TERM "$worker" 2>/dev/null; again=yes' TERM
code=127
again=yes
while [ "$again" ]; do
  again=
  wait "$worker"
  last=$?
  [ "$last" -eq 127 ] || code=$last
done
exit "$code"
"#;

/// Whether what comes after these words is a text that a shell reads, and not words: the argument of an option -c, which may
/// come last in a group as in -qec, of a program that hands it to a shell. To `dumb-init -c` and `setsid -c` it is a switch.
#[must_use]
pub fn is_text(words: &[OsString]) -> bool {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let Some((last, before)) = words.split_last() else { return false };
    let last = text(last);
    let is_option = last == "--command" || (last.starts_with('-') && !last.starts_with("--") && last.ends_with('c'));
    is_option
        && before.iter().rev().map(text).find_map(|word| {
            let name = word.rsplit('/').next().unwrap_or(&word);
            match name {
                "su" | "runuser" | "script" | "flock" => Some(true),
                _ if SHELLS.iter().any(|(_, shell)| shell.contains(&name)) || name == "sh" || name == "rbash" => {
                    Some(name != "busybox")
                }
                "dumb-init" | "setsid" => Some(false),
                _ => None,
            }
        }) == Some(true)
}

/// A command line that a shell reads as these words.
///
/// # Errors
/// It holds a NUL byte.
pub fn quoted(argv: &[OsString]) -> io::Result<OsString> {
    let line = shlex::bytes::try_join(argv.iter().map(|word| word.as_bytes()));
    line.map(OsString::from_vec).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn joined<const N: usize>(parts: [&OsStr; N]) -> OsString {
    let mut whole = OsString::new();
    for part in parts {
        whole.push(part);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(form: &Entrypoint) -> Vec<String> {
        let worker = [OsString::from("/opt/my tools/termdrill"), OsString::from("worker")];
        let directory = tempfile::tempdir().unwrap();
        let argv = command(form, &worker, directory.path()).unwrap();
        argv.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_worker_with_a_space_in_its_path_is_quoted_where_a_shell_reads_it() {
        let custom = |words: &[&str]| Entrypoint::Custom(words.iter().map(|&word| word.to_owned()).collect());
        let line = "'/opt/my tools/termdrill' worker";
        assert_eq!(argv(&Entrypoint::Exec), ["/opt/my tools/termdrill", "worker"]);
        assert_eq!(argv(&Entrypoint::Shell), ["/bin/sh", "-c", line]);
        assert_eq!(argv(&Entrypoint::ShellExec), ["/bin/sh", "-c", &format!("exec {line}")]);
        assert_eq!(argv(&custom(&["tini", "--", "{worker}"])), ["tini", "--", "/opt/my tools/termdrill", "worker"]);
        assert_eq!(argv(&custom(&["sh", "-c", "{worker}; true"])), ["sh", "-c", &format!("{line}; true")]);
    }

    #[test]
    fn a_placeholder_alone_is_a_text_where_a_shell_reads_it_and_words_elsewhere() {
        let rows: [(&[&str], bool); 11] = [
            (&["sh", "-c"], true),
            (&["/bin/bash", "-lc"], true),
            (&["busybox", "ash", "-c"], true),
            (&["env", "A=1", "dash", "-e", "-c"], true),
            (&["dumb-init", "-c", "sh", "-c"], true),
            (&["su", "-s", "/bin/sh", "nobody", "-c"], true),
            (&["script", "-qec"], true),
            (&["dumb-init", "-c"], false),
            (&["setsid", "-c"], false),
            (&["taskset", "-c", "0"], false),
            (&["chain"], false),
        ];
        for (before, is_it) in rows {
            let words: Vec<OsString> = before.iter().map(OsString::from).collect();
            assert_eq!(is_text(&words), is_it, "{before:?}");
        }
    }
}
