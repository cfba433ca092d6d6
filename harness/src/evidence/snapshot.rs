//! Process trees at one moment, and what became of each process in them.

use std::{cell::Cell, collections::BTreeMap, pin::Pin, rc::Rc, time::Duration};

use scenarios::{Schedule, Signal, Status, Tick};
use serde::{Deserialize, Serialize};
use worker::clock;

use super::{Disposition, ProcessFacts, words::sets_signals_anew};
use crate::process::{self, Other};

/// A process tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was taken, in microseconds after the drill's start.
    pub at_us: i64,
    /// Its processes from the top down, each followed by what is below it. Processes whose parent is gone stand at
    /// depth 0 too.
    pub processes: Vec<Node>,
}

/// A process in its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// How many of its ancestors are in the tree.
    pub depth: usize,
    /// The process.
    #[serde(flatten)]
    pub process: ProcessFacts,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// Its number as the drill's PID namespace had it.
    pub pid: i32,
    /// Its status; `None` where the kernel does not tell it to anyone but the parent (before Linux 6.15).
    pub status: Option<Status>,
    /// When it was seen to have ended, in microseconds after the drill's start; `None` where it lived on until the
    /// clean-up after the drill. PID 1 of a namespace is seen to end after those that it takes with it.
    pub at_us: Option<i64>,
    /// The same in model time.
    pub t: Option<Tick>,
}

impl Snapshot {
    /// The process at the top.
    #[must_use]
    pub fn top(&self) -> Option<&ProcessFacts> {
        self.processes.first().map(|node| &node.process)
    }

    /// The process with this number.
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<&ProcessFacts> {
        self.processes.iter().map(|node| &node.process).find(|process| process.pid == pid)
    }

    /// Its processes that are alive.
    pub fn alive(&self) -> impl Iterator<Item = &ProcessFacts> {
        self.processes.iter().map(|node| &node.process).filter(|process| process.is_alive())
    }

    /// See [`in_the_foreground`].
    ///
    /// # Errors
    /// That can't be told.
    pub(crate) fn in_the_foreground(&self, shell: &ProcessFacts) -> Result<Option<&ProcessFacts>, ()> {
        in_the_foreground(self.alive(), shell)
    }
}

/// What `shell` runs in the foreground, so that it runs no trap before that has ended; `None` where it runs nothing there. A
/// shell has what it starts in the background ignore SIGQUIT.
///
/// # Errors
/// That can't be told, since a child minds SIGQUIT itself.
pub(crate) fn in_the_foreground<'a>(
    alive: impl Iterator<Item = &'a ProcessFacts>,
    shell: &ProcessFacts,
) -> Result<Option<&'a ProcessFacts>, ()> {
    let mut unknown = false;
    for child in alive.filter(|process| process.parent == shell.pid) {
        match child.sigquit {
            Some(Disposition::Default) if !sets_signals_anew(child) => return Ok(Some(child)),
            // Nobody ignored it before: bash does so for itself, and not for what it starts.
            Some(Disposition::Ignored) if shell.sigquit != Some(Disposition::Ignored) || shell.program() == "bash" => {}
            // In their wait command these sit in sigsuspend(2), and in wait(2) only for what is in the foreground.
            _ if shell.waits_for_child && matches!(shell.program(), "dash" | "busybox") => return Ok(Some(child)),
            _ => unknown = true,
        }
    }
    if unknown { Err(()) } else { Ok(None) }
}

/// Reads the tree below each of `roots` in turn. What ends meanwhile is left out.
#[must_use]
pub fn tree(roots: impl IntoIterator<Item = i32>) -> Vec<Node> {
    tree_for(roots, Signal::TERM)
}

/// The same with what each does about another signal than SIGTERM.
fn tree_for(roots: impl IntoIterator<Item = i32>, signal: Signal) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for root in roots {
        let mut pending = vec![(0, root)];
        while let Some((depth, pid)) = pending.pop() {
            if nodes.iter().any(|node| node.process.pid == pid) {
                continue;
            }
            if let Ok(process) = ProcessFacts::read_for(pid, signal) {
                let mut below = process::children(pid);
                // Pushed last, seen first: the tree is in the order of the numbers.
                below.sort_unstable_by_key(|&pid| std::cmp::Reverse(pid));
                pending.extend(below.into_iter().map(|child| (depth + 1, child)));
                nodes.push(Node { depth, process });
            }
        }
    }
    nodes
}

/// Notes when a process ends, and is done then.
pub type EndNoted = Pin<Box<dyn Future<Output = ()>>>;

/// The processes of one worker: each is held by a pidfd of its own from when it was first seen.
#[derive(Debug)]
pub struct Watch {
    /// The signal that dispositions are read for.
    signal: Signal,
    known: Vec<Known>,
    schedule: Schedule,
    origin_ns: u64,
    /// The moment at hand in model time, in nanoseconds, where time is stepped and not that of the real clock.
    stepped_ns: Rc<Cell<Option<u64>>>,
}

/// How long a process is waited for that is on its way out.
const DYING: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Known {
    process: Other,
    ended: Rc<Cell<Option<Ended>>>,
}

/// When a process was seen to have ended: on the real clock, and on the one that model time is read from.
#[derive(Clone, Copy, Debug)]
struct Ended {
    real_ns: u64,
    model_ns: u64,
}

impl Ended {
    fn now(stepped_ns: &Cell<Option<u64>>) -> Ended {
        let real_ns = clock::now_ns();
        Ended { real_ns, model_ns: stepped_ns.get().unwrap_or(real_ns) }
    }
}

impl Watch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(schedule: Schedule) -> Watch {
        Watch::for_signal(schedule, Signal::TERM)
    }

    /// The same where another signal than SIGTERM is of interest.
    #[must_use]
    pub fn for_signal(schedule: Schedule, signal: Signal) -> Watch {
        Watch { signal, known: Vec::new(), schedule, origin_ns: schedule.origin_ns, stepped_ns: Rc::default() }
    }

    /// The drill starts, at `origin_ns` of CLOCK_MONOTONIC.
    pub fn begin(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    /// On a stepped clock: the moment at hand in model time, in nanoseconds.
    pub fn keep_time(&self, stepped_ns: Option<u64>) {
        self.stepped_ns.set(stepped_ns);
    }

    /// Looks at the tree below `top`, and at what was known before and has lost its parent. `spawn` is given a future
    /// for each process that is new, which is to be polled until it is done.
    pub fn look(&mut self, top: Option<i32>, mut spawn: impl FnMut(EndNoted)) -> Snapshot {
        self.note_ends();
        // A number that was held and is not any more may have gone to another process since.
        let top = top.filter(|&top| self.holds(top) || self.known.iter().all(|known| known.process.pid() != top));
        let alive = self.known.iter().filter(|known| known.ended.get().is_none());
        let roots: Vec<i32> = top.into_iter().chain(alive.map(|known| known.process.pid())).collect();
        let at_us = self.micros(clock::now_ns());
        let processes = tree_for(roots, self.signal);
        for node in processes.iter().filter(|node| node.process.is_alive()) {
            self.hold(node.process.pid, &mut spawn);
        }
        Snapshot { at_us, processes }
    }

    /// Notes the ends of those whose future has not had its turn yet.
    fn note_ends(&self) {
        for known in self.known.iter().filter(|known| known.ended.get().is_none() && known.process.has_ended()) {
            known.ended.set(Some(Ended::now(&self.stepped_ns)));
        }
    }

    /// Waits for those that are on their way out, such as one that is killed with its parent, and notes their ends.
    pub fn wait_for_dying(&self) {
        for known in self.known.iter().filter(|known| known.ended.get().is_none()) {
            if !known.process.has_ended() && process::is_dying(known.process.pid()) {
                known.process.wait_at_most(DYING);
            }
        }
        self.note_ends();
    }

    fn holds(&self, pid: i32) -> bool {
        self.known.iter().any(|known| known.process.pid() == pid && known.ended.get().is_none())
    }

    /// Takes hold of a process, unless it is held already.
    fn hold(&mut self, pid: i32, spawn: &mut impl FnMut(EndNoted)) {
        if self.holds(pid) {
            return;
        }
        let Some(process) = Other::open(pid) else { return };
        let ended = Rc::new(Cell::new(None));
        if let Ok(ends) = process.watch() {
            let (ended, stepped_ns) = (Rc::clone(&ended), Rc::clone(&self.stepped_ns));
            spawn(Box::pin(async move {
                ends.await;
                if ended.get().is_none() {
                    ended.set(Some(Ended::now(&stepped_ns)));
                }
            }));
        }
        self.known.push(Known { process, ended });
    }

    /// How each of them ended, after all were reaped, in the order in which they did. `reaped` has what we learnt as
    /// their parent.
    #[must_use]
    pub fn ends(&self, reaped: &BTreeMap<i32, Status>) -> Vec<ProcessEnd> {
        let mut known: Vec<&Known> = self.known.iter().collect();
        known.sort_by_key(|known| known.ended.get().map_or(u64::MAX, |ended| ended.real_ns));
        known
            .into_iter()
            .map(|known| {
                let (pid, ended) = (known.process.pid(), known.ended.get());
                ProcessEnd {
                    pid,
                    status: known.process.status().or_else(|| reaped.get(&pid).copied()),
                    at_us: ended.map(|ended| self.micros(ended.real_ns)),
                    t: ended.map(|ended| self.schedule.tick_at(ended.model_ns)),
                }
            })
            .collect()
    }

    /// A moment in microseconds after the start of the drill; negative before it.
    #[must_use]
    pub fn micros(&self, at_ns: u64) -> i64 {
        i64::try_from((i128::from(at_ns) - i128::from(self.origin_ns)) / 1000).unwrap_or(i64::MAX)
    }
}
