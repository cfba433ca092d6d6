//! A lane: an inner process that drills one item after another, as it is given them.

use std::{
    fs::{self, File},
    os::{fd::OwnedFd, linux::net::SocketAddrExt, unix::net},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::item::{Cpu, Item, Judged, Task};
use crate::{
    cli::ClockChoice,
    drill::{Extent, Setup, StopPipe},
    failure::Failure,
    host,
    isolation::{self, Isolation},
    judge::{self, Manner, Watch},
    record::{Reactions, Record, Verdict},
    runs::RunDir,
    runtime, scratch,
};

/// The hidden command of this program that runs a lane for its outer process.
pub const LANE: &str = "lane";

/// What a lane has to know from the beginning.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lane {
    /// The name of the abstract socket from which it gets its tasks, a line each, and to which its results go.
    pub socket: String,
    /// A directory for it alone.
    #[serde(with = "crate::os_path::exact")]
    pub directory: PathBuf,
    /// The scratch directory that this lies in, if it lies in one: removed here where the outer process is gone.
    #[serde(with = "crate::os_path::exact_option")]
    pub scratch: Option<PathBuf>,
    /// Whether anything in it runs on a scaled clock.
    pub scaled: bool,
    /// Whether it is the only one.
    pub alone: bool,
    /// Where runs are kept whole that did not match, and the first few; none are kept where there is no such place.
    #[serde(with = "crate::os_path::exact_option")]
    pub kept: Option<PathBuf>,
    /// Drills with a number below this are kept whatever came of them.
    pub kept_below: usize,
}

/// Runs a lane until it is given nothing more, or is told to stop.
///
/// # Errors
/// The outer process can't be reached, or the machine can't run any drill.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|lane: Lane, isolation, control| {
        runtime::keep_time(if lane.scaled { ClockChoice::Scaled } else { ClockChoice::Stepped });
        runtime::block_on(work(&lane, &isolation, control))?
    })
}

async fn work(lane: &Lane, isolation: &Isolation, control: OwnedFd) -> anyhow::Result<ExitCode> {
    let stop = StopPipe::new(control)?;
    let socket = net::UnixStream::connect_addr(&net::SocketAddr::from_abstract_name(&lane.socket)?)
        .context("the process that gives out the drills can't be reached")?;
    socket.set_nonblocking(true)?;
    let (tasks, mut results) = UnixStream::from_std(socket)?.into_split();
    let mut tasks = BufReader::new(tasks).lines();
    if let Some(scratch) = &lane.scratch {
        scratch::adopt(scratch);
    }
    fs::create_dir_all(&lane.directory).map_err(|error| Failure::of_io("make", &lane.directory, &error))?;
    // Where the outer process was killed there is nobody left to tell.
    let mut keeper = Keeper { directory: lane.kept.clone(), below: lane.kept_below, room: KEPT_BY_LANE };
    while let Ok(Some(line)) = tasks.next_line().await {
        let task: Task = serde_json::from_str(&line)?;
        let judged = match drill(lane, isolation, &task, &stop).await {
            Ok((judged, record)) => {
                keeper.keep(&task.item, &record)?;
                judged
            }
            Err(error) => Judged::failed(&task.item, format!("{error:#}.")),
        };
        let mut line = serde_json::to_vec(&judged)?;
        line.push(b'\n');
        if results.write_all(&line).await.is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many drills are kept whatever came of them.
const FIRST_KEPT: usize = 3;

/// The number below which the drills of a plan, or of a shard of it, are kept whatever came of them.
#[must_use]
pub fn kept_below(items: &[Item]) -> usize {
    items.get(FIRST_KEPT).map_or(usize::MAX, |item| item.number)
}

/// Where the logs of workers go.
const NO_LOG: &str = "/dev/null";
/// How many drills a lane keeps at most: where everything diverges, the first ones tell enough.
const KEPT_BY_LANE: usize = 20;

/// Keeps runs whole.
struct Keeper {
    directory: Option<PathBuf>,
    below: usize,
    room: usize,
}

impl Keeper {
    fn keep(&mut self, item: &Item, record: &Record) -> Result<(), Failure> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let wanted = record.verdict != Verdict::Matched || item.number < self.below;
        let path = directory.join(format!("{}-{}", item.number + 1, item.scenario.name));
        // While a scenario is shrunk, its smaller ones have the same number.
        if !wanted || self.room == 0 || path.exists() {
            return Ok(());
        }
        self.room -= 1;
        RunDir::store_whole(&path, record)
    }
}

async fn drill(lane: &Lane, isolation: &Isolation, task: &Task, stop: &StopPipe) -> anyhow::Result<(Judged, Record)> {
    let worker = host::worker_command(task.worker.as_ref())?;
    let mut attempts = Attempts { lane, reactions: Reactions::default() };
    let before = Cpu::so_far();
    scratch::clear(&lane.directory)?;
    let setup = Setup {
        scenario: &task.item.scenario,
        clock: task.item.clock.at(task.speed),
        fault: None,
        extent: Extent::Whole,
        worker: &worker,
        foreign: task.worker.is_some(),
        directory: &lane.directory,
        store: &lane.directory.join(STORE),
        log: &|_| {
            let open = File::options().append(true).open(NO_LOG);
            open.map_err(|error| Failure::of_io("open", Path::new(NO_LOG), &error))
        },
        isolation,
        kernel_trace: false,
        told_status: None,
        alone: lane.alone,
    };
    let clock: ClockChoice = task.item.clock;
    let manner = Manner { clock, speed: task.speed, attempts: task.attempts };
    let record = judge::judge(&setup, task.shell, manner, stop, &mut attempts).await?;
    let cpu = Cpu::so_far().since(before);
    let judged = Judged { reactions: attempts.reactions, cpu: Some(cpu), ..Judged::of(&task.item, &record) };
    Ok((judged, record))
}

const STORE: &str = "store.sqlite";

/// Makes room for the store of each attempt: what is kept of an item is its result.
struct Attempts<'a> {
    lane: &'a Lane,
    reactions: Reactions,
}

impl Watch for Attempts<'_> {
    fn begin(&mut self, number: usize, _: Option<f64>) -> anyhow::Result<()> {
        if number > 1 {
            scratch::clear(&self.lane.directory)?;
        }
        Ok(())
    }

    fn reacted(&mut self, reactions: Reactions) {
        self.reactions = reactions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn of_every_shard_the_first_few_are_kept() {
        let record = samples::matched();
        for (shard, parts) in [(0, 1), (3, 4), (9, 10)] {
            let item = |place: usize| Item {
                number: place * parts + shard,
                scenario: record.scenario.clone(),
                clock: ClockChoice::Stepped,
            };
            for planned in [0, 1, 3, 4, 9] {
                let items: Vec<Item> = (0..planned).map(item).collect();
                let folder = tempfile::tempdir().unwrap();
                let directory = Some(folder.path().join("runs"));
                let mut keeper = Keeper { directory, below: kept_below(&items), room: KEPT_BY_LANE };
                for item in &items {
                    keeper.keep(item, &record).unwrap();
                }
                let kept = crate::validate::results::kept(folder.path()).unwrap();
                let numbers: Vec<usize> = kept.into_iter().map(|kept| kept.number).collect();
                let first: Vec<usize> = items.iter().take(FIRST_KEPT).map(|item| item.number).collect();
                assert_eq!(numbers, first, "{planned} in shard {shard} of {parts}");
            }
        }
    }
}
