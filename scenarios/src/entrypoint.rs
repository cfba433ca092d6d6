//! How a worker's command line is wrapped before a platform runs it.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What `{worker}` stands for in a custom entrypoint.
pub const WORKER_PLACEHOLDER: &str = "{worker}";

/// The form of a worker's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Entrypoint {
    /// The worker itself.
    #[default]
    Exec,
    /// `/bin/sh -c 'WORKER'`.
    Shell,
    /// `/bin/sh -c 'exec WORKER'`.
    ShellExec,
    /// A script that runs WORKER, not exec'd, and then `exit $?`.
    Script,
    /// A script whose last line is `exec WORKER`.
    ScriptExec,
    /// A script that starts WORKER in the background, passes SIGTERM on by a trap, waits until WORKER has really ended
    /// and exits with its status.
    ScriptTrap,
    /// Any other command: `{worker}` alone stands for the worker's argv, inside a longer string for its quoted
    /// command line.
    Custom(Vec<String>),
}

impl Entrypoint {
    /// The forms that have a name, with it.
    pub const NAMED: [(&'static str, Entrypoint); 6] = [
        ("exec", Entrypoint::Exec),
        ("shell", Entrypoint::Shell),
        ("shell_exec", Entrypoint::ShellExec),
        ("script", Entrypoint::Script),
        ("script_exec", Entrypoint::ScriptExec),
        ("script_trap", Entrypoint::ScriptTrap),
    ];

    /// The form of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Entrypoint> {
        Entrypoint::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, form)| form)
    }

    /// The name of the form, or `None` for a custom command.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        Entrypoint::NAMED.iter().find(|(_, form)| form == self).map(|(name, _)| *name)
    }

    /// A custom command, checked: not empty, no empty program, no NUL byte, and `{worker}` in it exactly once.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow "entrypoint".
    pub fn custom(command: Vec<String>) -> Result<Entrypoint, String> {
        let placeholders: usize = command.iter().map(|word| word.matches(WORKER_PLACEHOLDER).count()).sum();
        if command.first().is_none_or(String::is_empty) {
            Err("a list must start with a program".to_owned())
        } else if command.iter().any(|word| word.contains('\0')) {
            Err("a word of a list can't hold a NUL byte".to_owned())
        } else if placeholders != 1 {
            Err(format!("a list must name {WORKER_PLACEHOLDER} exactly once, this one does {placeholders} times"))
        } else {
            Ok(Entrypoint::Custom(command))
        }
    }
}

impl Serialize for Entrypoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Entrypoint::Custom(command) => command.serialize(serializer),
            named => named.name().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Entrypoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entrypoint, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Name(String),
            Command(Vec<String>),
        }
        match Written::deserialize(deserializer)? {
            Written::Name(name) => Entrypoint::from_name(&name)
                .ok_or_else(|| de::Error::custom(format!("{name:?} is not the name of an entrypoint form"))),
            Written::Command(command) => Entrypoint::custom(command).map_err(de::Error::custom),
        }
    }
}

/// What a shell does with a `-c` command line that is one simple command. It differs between shells, so it is looked
/// up on the machine at hand and never assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellBehaviour {
    /// It forks and waits: the worker is its child.
    Stays,
    /// It execs: the worker takes its place.
    BecomesWorker,
}
