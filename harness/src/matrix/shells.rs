//! What the shells of this machine do with a command in the last place: looked at once, kept for the run.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ffi::OsString,
    fs::{self, File},
    path::Path,
};

use scenarios::prediction::LookedUp;

use super::{
    environment,
    forms::Row,
    programs::{self, SHELLS},
};
use crate::{
    entry::{self, SH},
    host::PRINT_PID,
    process::{self, Launch, Seat},
};

/// What was looked up, by the words that start each shell.
#[derive(Clone, Debug, Default)]
pub struct Shells(BTreeMap<String, LookedUp>);

impl Shells {
    /// Looks at `sh` and at every shell that a row starts with. One that can't be looked at stays unknown.
    pub async fn of_rows(rows: &[Row], directory: &Path) -> Shells {
        let usual = [vec!["sh"], vec![SH]];
        let of_rows = rows.iter().filter_map(Row::shell).map(<[&str]>::to_vec);
        Shells::look_up(usual.into_iter().chain(of_rows), directory).await
    }

    /// Looks at `sh` and at every shell that a command names, and at nothing else: to look is to run it.
    pub async fn of_command(command: &[String], directory: &Path) -> Shells {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let is_shell = |word: &str| {
            let name = word.rsplit('/').next().unwrap_or(word);
            name == "sh" || SHELLS.iter().any(|(_, shell)| *shell == [name])
        };
        let alone = words.iter().filter(|word| is_shell(word)).map(|word| vec![*word]);
        let applets = words.windows(2).filter(|pair| pair[0] == "busybox" && matches!(pair[1], "sh" | "ash"));
        let found = alone.chain(applets.map(<[&str]>::to_vec));
        Shells::look_up([vec!["sh"]].into_iter().chain(found), directory).await
    }

    async fn look_up<'a>(shells: impl Iterator<Item = Vec<&'a str>>, directory: &Path) -> Shells {
        let mut known = Shells::default();
        for words in shells {
            if let Entry::Vacant(vacant) = known.0.entry(words.join(" "))
                && let Ok(looked_up) = look_up(&words, directory).await
            {
                vacant.insert(looked_up);
            }
        }
        known
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
