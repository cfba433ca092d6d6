//! Keeps the memory of this process at hand while it waits.
//!
//! A process that sleeps between two moments finds its memory further away each time: caches forget it, and some virtual
//! machines take back what maps its pages. Measured on one of those, a page that was left alone for a second cost 40 µs
//! when it was touched again, and a small exchange over HTTP, after 0.1 s of rest, 3 ms and not 0.04 ms. So a thread of its
//! own touches the pages every few milliseconds: it pays for them where nobody waits.

use std::{
    fs::{self, File},
    io,
    ops::{Range, RangeInclusive},
    os::{fd::AsRawFd, unix::fs::FileExt},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nix::{
    libc::{c_int, c_void, iovec, pwritev},
    sys::signal::SigSet,
};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::clock;

/// How long pages are left alone: half of a tick, within these bounds. At the lower one a processor is kept busy for some
/// 15 % of the time.
const EVERY_MS: RangeInclusive<u64> = 2..=16;
/// How many times they are touched until it is looked up anew which there are.
const ROUNDS: usize = 24;
/// How many pages are touched in one go, in which the kernel lets nobody else have the processor.
const BATCH: usize = 8;
/// Larger mappings are reserved rather than used.
const LARGEST: usize = 64 << 20;
/// The bit of an entry of /proc/pid/pagemap that says that the page is there (`proc_pid_pagemap(5)`).
const PRESENT: u64 = 1 << 63;

/// How the thread stands to others that want the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the caller's scheduling class. A process ends when the last of its threads has, which is no sooner than that
    /// thread gets a processor: where the end counts no thread may stand behind others.
    Equal,
    /// An ordinary thread, behind all in the real-time class.
    Ordinary,
}

/// Keeps the memory of this process at hand until it is dropped.
#[derive(Debug)]
pub struct Warm {
    over: Arc<AtomicBool>,
}

impl Warm {
    /// Begins, for a drill whose ticks are of this length. Where it can't be done nothing is: what comes late is measured.
    #[must_use]
    pub fn keep(standing: Standing, tick_ns: u64) -> Option<Warm> {
        let every = Duration::from_millis((tick_ns / 2_000_000).clamp(*EVERY_MS.start(), *EVERY_MS.end()));
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        thread::Builder::new().name("warm".to_owned()).spawn(move || keep_until(standing, every, &seen)).ok()?;
        Some(Warm { over })
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn keep_until(standing: Standing, every: Duration, over: &AtomicBool) {
    // Signals are for the threads that act on them, and those come before this one.
    let _ = SigSet::all().thread_block();
    if standing == Standing::Ordinary {
        clock::leave_realtime();
    }
    let Ok(touch) = Touch::new() else { return };
    while !over.load(Ordering::Relaxed) {
        let Ok(pages) = present_pages() else { return };
        for _ in 0..ROUNDS {
            touch.all(&pages);
            clock::block_for(every);
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// The addresses of all pages of this process that can be read and are in memory. To touch others would bring them there.
fn present_pages() -> io::Result<Vec<usize>> {
    let page = rustix::param::page_size();
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut pages = Vec::new();
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let Some(range) = readable(line).filter(|range| range.len() <= LARGEST) else { continue };
        let mut entries = vec![0; range.len() / page * size_of::<u64>()];
        if pagemap.read_exact_at(&mut entries, (range.start / page * size_of::<u64>()) as u64).is_err() {
            // It was there a moment ago.
            continue;
        }
        let (entries, _) = entries.as_chunks();
        let is_present = |entry: &[u8; 8]| u64::from_ne_bytes(*entry) & PRESENT != 0;
        let present = entries.iter().enumerate().filter(|(_, entry)| is_present(entry));
        pages.extend(present.map(|(number, _)| range.start + number * page));
    }
    Ok(pages)
}

/// The addresses of a mapping, from a line of /proc/pid/maps (`proc_pid_maps(5)`), if it can be read and is no device's or
/// the kernel's own.
fn readable(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let name = fields.nth(3).unwrap_or_default();
    let is_ordinary = permissions.starts_with('r') && !name.starts_with("[v") && !name.starts_with("/dev/");
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    is_ordinary.then_some(range)
}

/// Touches pages by having the kernel copy a byte of each to a file that nobody reads.
#[derive(Debug)]
struct Touch {
    file: File,
}

impl Touch {
    fn new() -> io::Result<Touch> {
        Ok(Touch { file: memfd_create("touched", MemfdFlags::CLOEXEC)?.into() })
    }

    fn all(&self, pages: &[usize]) {
        for mut batch in pages.chunks(BATCH) {
            // Where a page is gone by now the kernel stops: it is left out, and the rest is touched.
            while let Some((_, after)) = batch.get(self.some(batch)..).and_then(<[usize]>::split_first) {
                batch = after;
            }
            // An equal of the same class would wait until all is touched (sched_yield(2)).
            thread::yield_now();
        }
    }

    /// Touches pages from the first one on, and tells how many.
    #[expect(unsafe_code, reason = "no safe function takes an address that may be gone")]
    fn some(&self, pages: &[usize]) -> usize {
        let bytes: Vec<iovec> = pages.iter().map(|&page| iovec { iov_base: page as *mut c_void, iov_len: 1 }).collect();
        // SAFETY: the vector is alive for as long as the call, and its length is no more than it has. What it points to is
        // read by the kernel only, which copies bytes that other threads may be writing, and answers EFAULT, or less than
        // was asked for, where an address is none (writev(2)).
        let written = unsafe { pwritev(self.file.as_raw_fd(), bytes.as_ptr(), bytes.len() as c_int, 0) };
        usize::try_from(written).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_can_be_read() {
        for (line, wanted) in [
            (
                "55d0c0000000-55d0c0002000 r-xp 00000000 fe:00 1234 /usr/bin/termdrill",
                Some(0x55d0_c000_0000..0x55d0_c000_2000),
            ),
            ("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ", Some(0x7f00_0000_0000..0x7f00_0002_1000)),
            ("7f0000021000-7f0004000000 ---p 00000000 00:00 0 ", None),
            ("7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]", None),
            ("7ffd00002000-7ffd00006000 r--p 00000000 00:00 0                          [vvar]", None),
            ("7ffd00002000-7ffd00006000 rw-s 00000000 00:00 5 /dev/dri/card0", None),
            ("nonsense", None),
        ] {
            assert_eq!(readable(line), wanted, "{line}");
        }
    }

    #[test]
    fn every_page_that_is_there_is_touched_and_none_that_is_not() {
        let page = rustix::param::page_size();
        let memory = vec![1_u8; 64 * page];
        let within = memory.as_ptr() as usize..memory.as_ptr() as usize + memory.len();
        let pages: Vec<usize> = present_pages().unwrap().into_iter().filter(|page| within.contains(page)).collect();
        assert!(pages.len() >= 63, "{} of 64", pages.len());

        let touch = Touch::new().unwrap();
        assert_eq!(touch.some(&pages), pages.len());
        assert_eq!(touch.some(&[pages[0], pages[1], 0, pages[2]]), 2);
        assert_eq!(touch.some(&[0, pages[0]]), 0);
        // What is gone holds nobody up.
        let holes: Vec<usize> = pages.iter().flat_map(|&page| [0, page, 0]).collect();
        touch.all(&holes);
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        let warm = Warm::keep(Standing::Equal, 2_000_000).unwrap();
        let over = Arc::clone(&warm.over);
        drop(warm);
        assert!(over.load(Ordering::Relaxed));
        // The thread holds the other one of these for as long as it is there.
        while Arc::strong_count(&over) > 1 {
            thread::yield_now();
        }
    }
}
