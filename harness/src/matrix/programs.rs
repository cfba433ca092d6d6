//! The programs that the matrix knows, and which of them are installed here.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The shells, each by the words that start it.
pub const SHELLS: [(&str, &[&str]); 8] = [
    ("dash", &["dash"]),
    ("bash", &["bash"]),
    ("ash", &["busybox", "ash"]),
    ("zsh", &["zsh"]),
    ("mksh", &["mksh"]),
    ("ksh", &["ksh"]),
    ("yash", &["yash"]),
    ("fish", &["fish"]),
];

/// The inits, each with the options that change what it does with a signal.
pub const INITS: [(&str, &[&str]); 7] = [
    ("tini", &["tini"]),
    ("tini -g", &["tini", "-g"]),
    ("dumb-init", &["dumb-init"]),
    ("dumb-init -c", &["dumb-init", "-c"]),
    ("catatonit", &["catatonit"]),
    ("catatonit -g", &["catatonit", "-g"]),
    ("docker-init", &["docker-init"]),
];

/// The directories that programs are looked for in: those of PATH, and those that an ordinary user's PATH may lack.
fn directories() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/libexec/docker"].map(PathBuf::from)).collect()
}

/// Where a program is, as execvp(3) would find it.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    directories().into_iter().map(|directory| directory.join(program)).find(|path| is_executable(path))
}

/// The file that a program really is: `/bin/sh` is a link to a shell with a name of its own.
#[must_use]
pub fn real_name(program: &str) -> Option<String> {
    let path = if program.contains('/') { PathBuf::from(program) } else { find(program)? };
    let path = fs::canonicalize(path).ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
