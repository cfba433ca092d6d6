//! The first step of a command that is PID 1 of a PID namespace, as in a container: it gets a /proc with the numbers in
//! there, and becomes the command.
//!
//! Whoever mounts a /proc gets that of their own PID namespace (proc(5)), and we stay out of the new one: so this program
//! is started in there once more, and told through a socket on standard input what to become.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
    unistd::{dup2_stdin, execve},
};
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{Pid, WaitId, WaitIdOptions, waitid},
};

/// The hidden command of this program that is the step.
pub const STEP: &str = "as-pid1";

/// What the step says right before it becomes the command.
const READY: u8 = b'!';

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Where programs are looked up: in our PATH, and not in that of the command.
    pub(super) path: CString,
    pub(super) argv: Vec<CString>,
    pub(super) env: Vec<CString>,
}

impl Command {
    /// Has the step, which was started with the other end of `socket`, become this.
    ///
    /// # Errors
    /// What the kernel said of it; the step has ended then and is reaped.
    pub(super) fn tell(&self, mut socket: UnixStream, step: Pid) -> io::Result<()> {
        let mut answer = Vec::new();
        // A step that is gone says so by its silence.
        let _ = socket.write_all(&self.to_bytes()).and_then(|()| socket.shutdown(Shutdown::Write));
        let _ = socket.read_to_end(&mut answer);
        let failed = match answer.split_first() {
            Some((&READY, [])) => return Ok(()),
            Some((&READY, errno)) => {
                errno.try_into().ok().map(|errno| io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
            }
            _ => None,
        };
        let _ = waitid(WaitId::Pid(step), WaitIdOptions::EXITED);
        Err(failed.unwrap_or_else(|| io::Error::other("its first step ended early")))
    }

    /// Each part with a zero byte at its end, as no part has one.
    fn to_bytes(&self) -> Vec<u8> {
        let count = self.argv.len().to_string();
        let parts = self.argv.iter().chain(&self.env).map(CString::as_bytes_with_nul);
        [self.path.as_bytes_with_nul(), count.as_bytes(), &[0]].into_iter().chain(parts).flatten().copied().collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Command> {
        let mut parts = bytes.split_inclusive(|&byte| byte == 0).map(|part| CString::from_vec_with_nul(part.into()));
        let path = parts.next()?.ok()?;
        let count = parts.next()?.ok()?.to_str().ok()?.parse().ok()?;
        let mut argv = parts.collect::<Result<Vec<_>, _>>().ok()?;
        let env = (count <= argv.len()).then(|| argv.split_off(count))?;
        Some(Command { path, argv, env })
    }

    /// Becomes it, as posix_spawnp(3) would, and gives what the kernel said where that is not to be.
    fn become_it(&self) -> Errno {
        let (mut last, mut forbidden) = (Errno::ENOENT, false);
        for program in self.programs() {
            let Err(errno) = execve(&program, &self.argv, &self.env);
            match errno {
                Errno::EACCES => forbidden = true,
                Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE | Errno::ENODEV | Errno::ETIMEDOUT => {}
                _ => return errno,
            }
            last = errno;
        }
        if forbidden { Errno::EACCES } else { last }
    }

    /// Where it may be, in order.
    fn programs(&self) -> Vec<CString> {
        let Some(program) = self.argv.first() else { return Vec::new() };
        if program.as_bytes().contains(&b'/') {
            return vec![program.clone()];
        }
        let program = OsStr::from_bytes(program.as_bytes());
        let folders = std::env::split_paths(OsStr::from_bytes(self.path.as_bytes()));
        folders
            .map(|folder| if folder.as_os_str().is_empty() { ".".into() } else { folder })
            .filter_map(|folder| CString::new(folder.join(program).into_os_string().as_bytes()).ok())
            .collect()
    }
}

/// Our PATH, or what the C library takes for it where there is none (`confstr(3)`).
pub(super) fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())
}

/// The step, from its start on. It returns only where it could not become the command.
#[must_use]
pub fn step() -> ExitCode {
    // Whoever started it has heard why, or is gone.
    let _ = become_command();
    ExitCode::FAILURE
}

fn become_command() -> io::Result<()> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    // The command finds an empty input, and the socket is closed when it runs.
    dup2_stdin(File::open("/dev/null")?)?;
    let mut socket = UnixStream::from(input);
    let mut told = Vec::new();
    socket.read_to_end(&mut told)?;
    let command = Command::from_bytes(&told).ok_or(io::ErrorKind::InvalidData)?;
    // Where that is refused, it sees the numbers of the drill.
    let _ = mount_own_proc();
    // Rust has SIGPIPE be ignored, which a program would keep (signal(7)); what is caught is at its default there.
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::new(AtomicBool::new(false)))?;
    socket.write_all(&[READY])?;
    let errno = command.become_it() as i32;
    socket.write_all(&errno.to_ne_bytes())
}

/// In a mount namespace of its own. Without these flags the kernel refuses it in a user namespace (mount_namespaces(7)).
fn mount_own_proc() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(path: &str, argv: &[&str], env: &[&str]) -> Command {
        let c = |text: &&str| CString::new(*text).unwrap();
        Command { path: c(&path), argv: argv.iter().map(c).collect(), env: env.iter().map(c).collect() }
    }

    proptest! {
        #[test]
        fn what_is_told_is_what_is_heard(
            path in "[^\0]{0,20}",
            argv in prop::collection::vec("[^\0]{0,9}", 0..5),
            env in prop::collection::vec("[^\0]{1,9}", 0..5),
        ) {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            let env: Vec<&str> = env.iter().map(String::as_str).collect();
            let command = command(&path, &argv, &env);
            let bytes = command.to_bytes();
            prop_assert_eq!(Command::from_bytes(&bytes), Some(command));
            prop_assert_eq!(Command::from_bytes(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn a_program_is_looked_up_as_the_c_library_does() {
        let programs = |path: &str, program: &str| -> Vec<String> {
            command(path, &[program], &[]).programs().into_iter().map(|found| found.into_string().unwrap()).collect()
        };
        assert_eq!(programs("/a:/b", "x"), ["/a/x", "/b/x"]);
        assert_eq!(programs("/a::b", "x"), ["/a/x", "./x", "b/x"]);
        assert_eq!(programs("/a:/b", "./x"), ["./x"]);
        assert_eq!(programs("/a", "/usr/bin/x"), ["/usr/bin/x"]);
    }

    #[test]
    fn why_a_program_can_t_be_run_is_what_the_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("text"), "no program\n").unwrap();
        let fails = |path: &str, program: &str| command(path, &[program], &[]).become_it();
        assert_eq!(fails("/nowhere", "no-such-program"), Errno::ENOENT);
        assert_eq!(fails("", &path("no-such-program")), Errno::ENOENT);
        // One that may not be run is told of, wherever else there is none.
        assert_eq!(fails(&format!("{}:/nowhere", folder.path().display()), "text"), Errno::EACCES);
        let mut may_be_run = std::fs::metadata(path("text")).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut may_be_run, 0o755);
        std::fs::set_permissions(path("text"), may_be_run).unwrap();
        assert_eq!(fails("", &path("text")), Errno::ENOEXEC);
    }
}
