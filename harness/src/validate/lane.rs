//! A lane: an inner process that drills one item after another, as it is given them.

use std::{
    fs::{self, File},
    os::{fd::OwnedFd, linux::net::SocketAddrExt, unix::net},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use scenarios::Expectation;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    runtime,
    task::LocalSet,
};
use worker::clock;

use super::item::{Cpu, Judged, Task};
use crate::{
    cli::ClockChoice,
    drill::{Extent, Setup, StopPipe},
    failure::Failure,
    host,
    isolation::{self, Isolation},
    judge::{self, Manner, Watch},
    record::{Attempt, Observed, Reactions},
};

/// The hidden command of this program that runs a lane for its outer process.
pub const LANE: &str = "lane";

/// What a lane has to know from the beginning.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lane {
    /// The name of the abstract socket from which it gets its tasks, a line each, and to which its results go.
    pub socket: String,
    /// A directory for it alone.
    pub directory: PathBuf,
    /// Whether anything in it runs on a scaled clock.
    pub scaled: bool,
}

/// Runs a lane until it is given nothing more, or is told to stop.
///
/// # Errors
/// The outer process can't be reached, or the machine can't run any drill.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|lane: Lane, isolation, control| {
        clock::sharpen();
        if lane.scaled {
            clock::prefer_realtime();
        }
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, work(&lane, &isolation, control))
    })
}

async fn work(lane: &Lane, isolation: &Isolation, control: OwnedFd) -> anyhow::Result<ExitCode> {
    let stop = StopPipe::new(control)?;
    let socket = net::UnixStream::connect_addr(&net::SocketAddr::from_abstract_name(&lane.socket)?)
        .context("the process that gives out the drills can't be reached")?;
    socket.set_nonblocking(true)?;
    let (tasks, mut results) = UnixStream::from_std(socket)?.into_split();
    let mut tasks = BufReader::new(tasks).lines();
    fs::create_dir_all(&lane.directory).map_err(|error| Failure::of_io("make", &lane.directory, &error))?;
    // Where the outer process was killed there is nobody left to tell.
    while let Ok(Some(line)) = tasks.next_line().await {
        let task: Task = serde_json::from_str(&line)?;
        let judged = match drill(lane, isolation, &task, &stop).await {
            Ok(judged) => judged,
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

async fn drill(lane: &Lane, isolation: &Isolation, task: &Task, stop: &StopPipe) -> anyhow::Result<Judged> {
    let worker = host::worker_command()?;
    let mut attempts = Attempts { lane, reactions: Reactions::default() };
    let before = Cpu::so_far();
    attempts.clean_up()?;
    let setup = Setup {
        scenario: &task.item.scenario,
        clock: task.item.clock.at(task.speed),
        fault: None,
        extent: Extent::Whole,
        worker: &worker,
        directory: &lane.directory,
        store: &lane.directory.join(STORE),
        log: &|_| File::options().append(true).open("/dev/null"),
        isolation,
        kernel_trace: false,
    };
    let clock: ClockChoice = task.item.clock;
    let manner = Manner { clock, speed: task.speed, attempts: task.attempts };
    let record = judge::judge(&setup, task.shell, manner, stop, &mut attempts).await?;
    let cpu = Cpu::so_far().since(before);
    Ok(Judged { reactions: attempts.reactions, cpu: Some(cpu), ..Judged::of(&task.item, &record) })
}

const STORE: &str = "store.sqlite";

/// Makes room for the store of each attempt: what is kept of an item is its result.
struct Attempts<'a> {
    lane: &'a Lane,
    reactions: Reactions,
}

impl Attempts<'_> {
    fn clean_up(&self) -> Result<(), Failure> {
        let directory = &self.lane.directory;
        let unusable = |error: &std::io::Error| Failure::of_io("clear", directory, error);
        for entry in fs::read_dir(directory).map_err(|error| unusable(&error))? {
            let path = entry.map_err(|error| unusable(&error))?.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|error| unusable(&error))?;
        }
        Ok(())
    }
}

impl Watch for Attempts<'_> {
    fn expected(&mut self, _: &Expectation) -> anyhow::Result<()> {
        Ok(())
    }

    fn begin(&mut self, number: usize, _: Option<f64>) -> anyhow::Result<()> {
        if number > 1 {
            self.clean_up()?;
        }
        Ok(())
    }

    fn observed(&mut self, _: &Observed) {}

    fn end(&mut self, _: &Attempt) -> anyhow::Result<()> {
        Ok(())
    }

    fn reacted(&mut self, reactions: Reactions) {
        self.reactions = reactions;
    }

    fn repeat(&mut self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }
}
