//! What it takes to be somebody without rights: an ordinary user, and one who may make no namespaces.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use crate::support::{Rig, TERMDRILL, skipped};

/// The user of nobody and nothing on most systems.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A user namespace of its own in which no further one may be made, and no capability to change that: the host's
/// settings stay as they are.
const FORBID: &str =
    "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
pub(crate) const WITHOUT_NAMESPACES: [&str; 6] = ["unshare", "-Ur", "sh", "-c", FORBID, "sh"];

/// An ordinary user where a part of /proc is hidden, as in a container: no further /proc can be mounted then
/// (mount_namespaces(7)).
const HIDE: &str =
    "mount -t tmpfs -o ro none /proc/scsi && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
pub(crate) const WITHOUT_PROC: [&str; 6] = ["unshare", "-m", "sh", "-c", HIDE, "sh"];

/// An ordinary user in a chroot(2), where nobody may make a user namespace, and where programs can become another user all
/// the same. The first word behind these is an empty directory, for the root.
const CHROOT: &str = "root=$1; shift; mount --rbind / \"$root\" && exec chroot --userspec=65534:65534 \"$root\" \"$@\"";
pub(crate) const IN_A_CHROOT: [&str; 6] = ["unshare", "--mount", "sh", "-c", CHROOT, "sh"];

/// Words before a command, with which it runs otherwise.
pub(crate) fn words<'a>(words: &'a [&'a str]) -> Vec<&'a OsStr> {
    words.iter().map(OsStr::new).collect()
}

/// Whether a command works here; says so where it doesn't.
pub(crate) fn is_there(wrapper: &[&str]) -> bool {
    let rig = Rig::new();
    let (first, rest) = wrapper.split_first().unwrap();
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|p| p.join(first).exists()));
    let works = found && rig.run_command(Command::new(first).args(rest).arg("true")).code == Some(0);
    if !works {
        skipped(&format!("{} does not work here", wrapper[..2.min(wrapper.len())].join(" ")));
    }
    works
}

/// A rig that a user without rights can use, the program included.
pub(crate) fn rig_of_nobody() -> Rig {
    let rig = Rig::new();
    let program = rig.path("termdrill");
    rig.put_program(TERMDRILL, &program);
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(&program);
    open(program.parent().unwrap());
    for folder in ["state", "tmp", "cwd"] {
        chown(rig.path(folder), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    rig.with_program(program)
}
