//! The user that the command runs as, where that is not ours.

use std::{ffi::OsString, path::PathBuf};

use nix::unistd::{self, Gid, Uid};
use rustix::process::getuid;

use crate::{failure::Failure, matrix::programs};

/// Who the command runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The number of the group: the user's own one, or the one that was given.
    pub gid: u32,
    /// The name and the home directory, where the machine knows the user. The supplementary groups are that user's then, and
    /// none otherwise.
    pub known: Option<(String, PathBuf)>,
}

/// A user or group as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given<'a> {
    Number(u32),
    Name(&'a str),
}

impl User {
    /// The user that `text` means: a name, a number, or either with a group behind a colon, such as `app`, `1000` or
    /// `1000:1000`.
    ///
    /// # Errors
    /// We can't become somebody else, or there is no such user or group.
    pub fn look_up(text: &str) -> Result<User, Failure> {
        if !getuid().is_root() {
            return Err(Failure::bad_input("--user: only root can run a command as somebody else")
                .hint("run termdrill as root, or leave --user out"));
        }
        if programs::find("setpriv").is_none() {
            return Err(Failure::unable("--user needs the program setpriv").hint("install util-linux"));
        }
        let (user, group) = parse(text).ok_or_else(|| {
            Failure::bad_input(format!("--user: {text:?} is no user")).hint("NAME, UID, UID:GID or NAME:GROUP")
        })?;
        let entry = match user {
            Given::Number(uid) => unistd::User::from_uid(Uid::from_raw(uid)),
            Given::Name(name) => unistd::User::from_name(name),
        }
        .map_err(|errno| Failure::unable(format!("--user: users can't be looked up: {}", errno.desc())))?;
        let gid = group.map(group_number).transpose()?;
        match (entry, user, gid) {
            (Some(entry), _, gid) => Ok(User {
                uid: entry.uid.as_raw(),
                gid: gid.unwrap_or(entry.gid.as_raw()),
                known: Some((entry.name, entry.dir)),
            }),
            (None, Given::Number(uid), Some(gid)) => Ok(User { uid, gid, known: None }),
            (None, Given::Number(uid), None) => {
                Err(Failure::bad_input(format!("--user: this machine knows no user {uid}, and so no group of it"))
                    .hint(format!("say which group: --user {uid}:GID")))
            }
            (None, Given::Name(name), _) => Err(Failure::bad_input(format!("--user: there is no user {name:?}"))
                .hint("a user of this machine (getent passwd), or UID:GID")),
        }
    }

    /// What becomes of a command that is run as this user. setpriv(1) is in util-linux everywhere, and becomes the command:
    /// no process stays in front of it.
    #[must_use]
    pub fn argv(&self, command: &[String]) -> Vec<OsString> {
        let groups = if self.known.is_some() { "--init-groups" } else { "--clear-groups" };
        let options = ["setpriv", "--reuid", &self.uid.to_string(), "--regid", &self.gid.to_string(), groups, "--"]
            .map(OsString::from);
        options.into_iter().chain(command.iter().map(OsString::from)).collect()
    }

    /// The variables that tell a program who it runs as, as service managers set them (systemd.exec(5)).
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let Some((name, home)) = &self.known else { return Vec::new() };
        vec![("HOME".into(), home.into()), ("USER".into(), name.into()), ("LOGNAME".into(), name.into())]
    }
}

fn parse(text: &str) -> Option<(Given<'_>, Option<Given<'_>>)> {
    fn given(text: &str) -> Option<Given<'_>> {
        match text.parse() {
            // The largest one stands for no change (setreuid(2)).
            Ok(u32::MAX) => None,
            Ok(number) => Some(Given::Number(number)),
            Err(_) => Some(Given::Name(text)).filter(|_| !text.is_empty() && !text.contains('\0')),
        }
    }
    match text.split_once(':') {
        None => Some((given(text)?, None)),
        Some((user, group)) => Some((given(user)?, Some(given(group)?))),
    }
}

fn group_number(group: Given<'_>) -> Result<u32, Failure> {
    match group {
        Given::Number(gid) => Ok(gid),
        Given::Name(name) => match unistd::Group::from_name(name) {
            Ok(Some(group)) => Ok(Gid::as_raw(group.gid)),
            Ok(None) => Err(Failure::bad_input(format!("--user: there is no group {name:?}"))),
            Err(errno) => Err(Failure::unable(format!("--user: groups can't be looked up: {}", errno.desc()))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_names_or_numbers() {
        use Given::{Name, Number};
        for (text, meant) in [
            ("app", Some((Name("app"), None))),
            ("1000", Some((Number(1000), None))),
            ("0:0", Some((Number(0), Some(Number(0))))),
            ("app:www-data", Some((Name("app"), Some(Name("www-data"))))),
            ("1000:staff", Some((Number(1000), Some(Name("staff"))))),
            ("", None),
            (":", None),
            ("app:", None),
            (":app", None),
            ("4294967295", None),
            // Too large for a number, so it can only be a name, which nobody has.
            ("4294967296", Some((Name("4294967296"), None))),
            ("-1", Some((Name("-1"), None))),
        ] {
            assert_eq!(parse(text), meant, "{text}");
        }
    }

    #[test]
    fn one_that_the_machine_does_not_know_has_no_other_groups() {
        let stranger = User { uid: 70_000, gid: 70_001, known: None };
        let argv = ["setpriv", "--reuid", "70000", "--regid", "70001", "--clear-groups", "--", "id"];
        assert_eq!(stranger.argv(&["id".to_owned()]), argv.map(OsString::from));
        assert!(stranger.environment().is_empty());
    }
}
