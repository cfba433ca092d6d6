//! How a process ended that need not be a child of ours.

use std::os::fd::BorrowedFd;

use rustix::ioctl::{Updater, ioctl, opcode};
use scenarios::{Signal, Status};

/// `struct pidfd_info` of linux/pidfd.h, as far as its first version goes. The kernel fills as much as the number of
/// the request says that there is.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroupid: u64,
    /// pid, tgid, ppid, and four kinds of user and group ids.
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`: asks for the exit status, and in the answer says that it is there (Linux 6.15).
const INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO` is `_IOWR(0xFF, 11, struct pidfd_info)`.
const GET_INFO: rustix::ioctl::Opcode = opcode::read_write::<PidfdInfo>(0xff, 11);

/// How the process ended, from the time at which it was reaped on; `None` before that, and on kernels that don't tell.
pub(super) fn status(pidfd: BorrowedFd<'_>) -> Option<Status> {
    let info = info(pidfd, INFO_EXIT).ok()?;
    (info.mask & INFO_EXIT != 0).then(|| decode(info.exit_code))
}

/// What the kernel tells of the process, as far as `mask` asks for it and the kernel knows it; its answer's mask says what
/// that is.
#[expect(unsafe_code, reason = "no safe function asks a pidfd for the exit status")]
fn info(pidfd: BorrowedFd<'_>, mask: u64) -> rustix::io::Result<PidfdInfo> {
    let mut info = PidfdInfo { mask, ..PidfdInfo::default() };
    // SAFETY: the request is `PIDFD_GET_INFO`, whose number carries the size of `PidfdInfo`; the kernel reads and
    // writes no more than that (`copy_struct_to_user`), any bits are a valid value of its fields, and a descriptor
    // that is no pidfd gives an error.
    unsafe { ioctl(pidfd, Updater::<GET_INFO, PidfdInfo>::new(&mut info)) }?;
    Ok(info)
}

/// The encoding of wait(2): the signal in the lower seven bits, else the exit code in the second byte.
fn decode(status: i32) -> Status {
    match Signal::from_number(status & 0x7f) {
        Some(signal) => Status::Signal(signal),
        None => Status::Code(((status >> 8) & 0xff) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Launch, Other, Seat, spawn};

    /// As a grandchild's is told, once whoever is its parent has reaped it.
    #[test]
    fn the_status_is_told_once_the_process_was_reaped() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            for (line, expected) in [("exit 143", Status::CODE_143), ("kill -TERM $$", Status::SIGTERM)] {
                let launch = Launch {
                    argv: ["/bin/sh", "-c", line].map(Into::into).into(),
                    env: Vec::new(),
                    log: std::fs::File::options().write(true).open("/dev/null").unwrap(),
                    seat: Seat::Ordinary,
                };
                let child = spawn(launch).await.unwrap();
                let other = Other::open(child.pid()).unwrap();
                child.watch().unwrap().await;
                assert_eq!(other.status(), None, "nobody has reaped it");
                assert_eq!(child.reap().unwrap().status, expected);
                assert!(other.status().is_none_or(|status| status == expected), "or the kernel is too old to tell");
                if told_by_this_kernel() {
                    assert_eq!(other.status(), Some(expected));
                }
            }
        });
    }

    /// What is asked for is what comes back: the numbers of this process are known in another way too.
    #[test]
    fn the_kernel_fills_in_what_it_tells() {
        let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).unwrap();
        match info(std::os::fd::AsFd::as_fd(&own), INFO_PID) {
            Ok(info) => {
                let parent = std::os::unix::process::parent_id();
                assert_eq!(info.mask & INFO_PID, INFO_PID);
                assert_eq!(info.ids[..3], [std::process::id(), std::process::id(), parent], "pid, tgid, ppid");
            }
            Err(_) => assert!(!told_by_this_kernel()),
        }
    }

    /// Older kernels know no such request (ENOTTY), and neither does anything that is no pidfd.
    #[test]
    fn an_error_is_no_status() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(status(std::os::fd::AsFd::as_fd(&file)), None);
    }

    /// `PIDFD_INFO_PID`: its numbers, which come whether or not they are asked for (Linux 6.13).
    const INFO_PID: u64 = 1;

    /// Linux 6.15 and later tell.
    fn told_by_this_kernel() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(15))
    }

    #[test]
    fn an_exit_code_is_not_a_signal() {
        assert_eq!(size_of::<PidfdInfo>(), 64, "PIDFD_INFO_SIZE_VER0");
        assert_eq!(decode(0x8f00), Status::CODE_143);
        assert_eq!(decode(15), Status::SIGTERM);
        assert_eq!(decode(9 | 0x80), Status::SIGKILL);
        assert_eq!(decode(0), Status::SUCCESS);
    }
}
