//! What the shells of this machine do with a command in the last place: looked at once, kept for the run.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ffi::OsString,
    fs::{self, File},
    path::Path,
};

use anyhow::Context;
use scenarios::prediction::LookedUp;

use super::{environment, forms::Row, programs};
use crate::{
    entry,
    host::PRINT_PID,
    process::{self, Launch, Seat},
};

/// What was looked up, by the words that start each shell.
#[derive(Clone, Debug, Default)]
pub struct Shells(BTreeMap<String, LookedUp>);

impl Shells {
    /// Looks at `sh` and at every shell that a row starts with.
    ///
    /// # Errors
    /// A script can't be written, or a shell can't be started.
    pub async fn look_up(rows: &[Row], directory: &Path) -> anyhow::Result<Shells> {
        let mut shells = Shells::default();
        for words in [&["sh"][..], &["/bin/sh"]].into_iter().chain(rows.iter().filter_map(Row::shell)) {
            let key = words.join(" ");
            if let Entry::Vacant(vacant) = shells.0.entry(key) {
                let looked_up = look_up(words, directory).await;
                let looked_up = looked_up.with_context(|| format!("{} can't be looked at", words.join(" ")))?;
                vacant.insert(looked_up);
            }
        }
        Ok(shells)
    }

    /// What is known of the shell that these words start.
    #[must_use]
    pub fn get(&self, words: &[&str]) -> Option<LookedUp> {
        self.0.get(&words.join(" ")).cloned()
    }
}

/// Runs commands that print their pid: the shell's own pid tells that it became the command.
async fn look_up(words: &[&str], directory: &Path) -> anyhow::Result<LookedUp> {
    let own = std::env::current_exe()?.into_os_string();
    let print = entry::quoted(&[own, PRINT_PID.into()])?.to_string_lossy().into_owned();
    let script = directory.join("last.sh");
    fs::write(&script, format!("true\n{print}\n"))?;
    let program = words.last().copied().unwrap_or_default();
    let name = match words {
        ["busybox", applet] => (*applet).to_owned(),
        _ => programs::real_name(program).unwrap_or_else(|| program.to_owned()),
    };
    let becomes = async |arguments: &[&str]| becomes(&[words, arguments].concat(), directory).await;
    Ok(LookedUp {
        name,
        becomes_only: becomes(&["-c", &print]).await?,
        becomes_after_and: becomes(&["-c", &format!("true && {print}")]).await?,
        becomes_after_next: becomes(&["-c", &format!("true; {print}")]).await?,
        becomes_last_of_script: becomes(&[&script.to_string_lossy()]).await?,
    })
}

/// Whether a command ends up as the program that prints its pid.
async fn becomes(argv: &[&str], directory: &Path) -> anyhow::Result<bool> {
    let output = directory.join("printed");
    let launch = Launch {
        argv: argv.iter().map(OsString::from).collect(),
        env: environment::with(directory, &[]),
        log: File::create(&output)?,
        seat: Seat::Ordinary,
    };
    let shell = process::spawn(launch).await?;
    shell.watch()?.await;
    let pid = shell.pid();
    drop(shell.reap());
    // Some shells have something to say about their history or home first.
    Ok(fs::read_to_string(&output)?.lines().any(|line| line.trim().parse() == Ok(pid)))
}
