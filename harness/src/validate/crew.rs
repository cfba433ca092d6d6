//! A crew of lanes: drills side by side, each lane in an inner process of its own.

use std::{
    collections::VecDeque,
    io::Write,
    os::{linux::net::SocketAddrExt, unix::net},
    path::{Path, PathBuf},
    process::ChildStdin,
};

use anyhow::Context;
use scenarios::ShellBehaviour;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
};

use super::{
    item::{Item, Judged, Task},
    lane::{LANE, Lane},
};
use crate::{
    cli::ClockChoice,
    foreign,
    isolation::{Isolation, NO_PROC, STOP, start_inside},
    process::Live,
    readable,
};

/// How fast the scaled drills of a crew go, as this machine bears it: the fastest speed at which it is conclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    speed: f64,
    highest: f64,
}

impl Pace {
    /// Begins at `speed`, model seconds in one real second, and never exceeds it.
    #[must_use]
    pub fn from(speed: f64) -> Pace {
        Pace { speed, highest: speed }
    }

    /// The speed of the next drill.
    #[must_use]
    pub fn speed(self) -> f64 {
        self.speed
    }

    /// Learns from a drill that began at some speed: what was late takes more off than what was in time puts on, so that
    /// few drills have to be repeated.
    pub fn learn(&mut self, judged: &Judged) {
        let Some(asked) = judged.speed_asked else { return };
        if judged.in_time_at_first {
            self.speed = (self.speed * 1.02).min(self.highest);
        } else {
            self.speed = self.speed.min(asked * 0.75).max(1.0);
        }
    }
}

/// Where a crew works.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Each lane has a directory of its own in here.
    pub work: &'a Path,
    /// The scratch directory that this is, or lies in, if it does.
    pub scratch: Option<&'a Path>,
    /// Where runs are kept whole that did not match, and the first few; none are kept where there is no such place.
    pub kept: Option<&'a Path>,
    /// Drills with a number below this are kept whatever came of them.
    pub kept_below: usize,
}

/// Lanes that are at work.
pub struct Crew {
    isolation: Isolation,
    work: PathBuf,
    scratch: Option<PathBuf>,
    kept: Option<PathBuf>,
    kept_below: usize,
    scaled: bool,
    shell: ShellBehaviour,
    attempts: usize,
    /// The speed of scaled drills.
    pub pace: Pace,
    /// The foreign worker to drill, if it is not our own.
    pub worker: Option<foreign::Command>,
    lanes: Vec<Worklane>,
    waiting: VecDeque<Item>,
    news: UnboundedReceiver<(usize, News)>,
    tell: UnboundedSender<(usize, News)>,
    tasks: JoinSet<()>,
}

struct Worklane {
    control: Option<ChildStdin>,
    process: Option<Live>,
    tasks: Option<UnboundedSender<Vec<u8>>>,
    item: Option<Item>,
    /// Whether it was started again since a /proc for its PID namespace can't be mounted here.
    without_proc: bool,
}

enum News {
    Ready(UnboundedSender<Vec<u8>>),
    Judged(Box<Judged>),
    Ended,
}

impl Crew {
    /// Starts `count` lanes.
    ///
    /// # Errors
    /// No process or socket can be had.
    pub fn start(
        count: usize,
        places: Places<'_>,
        isolation: Isolation,
        shell: ShellBehaviour,
        scaled: bool,
        pace: Pace,
        attempts: usize,
    ) -> anyhow::Result<Crew> {
        let (tell, news) = unbounded_channel();
        let mut crew = Crew {
            isolation,
            work: places.work.to_owned(),
            scratch: places.scratch.map(Path::to_owned),
            kept: places.kept.map(Path::to_owned),
            kept_below: places.kept_below,
            scaled,
            shell,
            attempts,
            pace,
            worker: None,
            lanes: Vec::new(),
            waiting: VecDeque::new(),
            news,
            tell,
            tasks: JoinSet::new(),
        };
        for index in 0..count {
            let lane = crew.start_lane(index, count == 1)?;
            crew.lanes.push(lane);
        }
        Ok(crew)
    }

    fn start_lane(&mut self, index: usize, alone: bool) -> anyhow::Result<Worklane> {
        // The moment tells it apart from one of an earlier crew that is not closed yet.
        let socket = format!("termdrill-{}-{}-lane-{index}", std::process::id(), worker::clock::now_ns());
        let listener = net::UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(&socket)?)
            .context("no socket can be had for a lane")?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let directory = self.work.join(format!("lane-{}", index + 1));
        let (scratch, kept, scaled) = (self.scratch.clone(), self.kept.clone(), self.scaled);
        let lane = Lane { socket, directory, scratch, scaled, alone, kept, kept_below: self.kept_below };
        let (process, control) = start_inside(&[LANE], &mut self.isolation, &lane)?;
        let ended = process.watch()?;
        self.tasks.spawn_local(follow(index, listener, self.tell.clone()));
        let tell = self.tell.clone();
        self.tasks.spawn_local(async move {
            ended.await;
            let _ = tell.send((index, News::Ended));
        });
        Ok(Worklane { control: Some(control), process: Some(process), tasks: None, item: None, without_proc: false })
    }

    /// Adds work.
    pub fn add(&mut self, items: impl IntoIterator<Item = Item>) {
        self.waiting.extend(items);
        for index in 0..self.lanes.len() {
            self.employ(index);
        }
    }

    /// The next result, or nothing when all work is done.
    ///
    /// # Errors
    /// No lane is left to do the work.
    pub async fn next(&mut self) -> anyhow::Result<Option<Judged>> {
        loop {
            if self.waiting.is_empty() && self.lanes.iter().all(|lane| lane.item.is_none()) {
                return Ok(None);
            }
            let Some((index, news)) = self.news.recv().await else { return Ok(None) };
            match news {
                News::Ready(tasks) => {
                    self.lanes[index].tasks = Some(tasks);
                    self.employ(index);
                }
                News::Judged(judged) => {
                    self.lanes[index].item = None;
                    self.pace.learn(&judged);
                    self.employ(index);
                    return Ok(Some(*judged));
                }
                News::Ended => {
                    if let Some(judged) = self.lost(index)? {
                        return Ok(Some(judged));
                    }
                }
            }
        }
    }

    fn employ(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if lane.item.is_some() {
            return;
        }
        let (Some(tasks), Some(item)) = (&lane.tasks, self.waiting.front()) else { return };
        let task = Task {
            item: item.clone(),
            shell: self.shell,
            speed: self.pace.speed(),
            attempts: self.attempts,
            worker: self.worker.clone(),
        };
        if let Ok(line) = serde_json::to_vec(&task)
            && tasks.send(line).is_ok()
        {
            lane.item = self.waiting.pop_front();
        }
    }

    /// A lane ended before it was told to: what it had in hand is inconclusive.
    fn lost(&mut self, index: usize) -> anyhow::Result<Option<Judged>> {
        let lane = &mut self.lanes[index];
        lane.tasks = None;
        let status = lane.process.take().map(Live::reap);
        let how = match status {
            // It has done nothing then. Drills that need no PID namespace can be made without; the others say so.
            Some(Ok(ended)) if ended.status == scenarios::Status::Code(NO_PROC) && !lane.without_proc => {
                self.waiting.extend(lane.item.take());
                self.isolation = Isolation::without_proc();
                let lane = Worklane { without_proc: true, ..self.start_lane(index, self.lanes.len() == 1)? };
                self.lanes[index] = lane;
                return Ok(None);
            }
            Some(Ok(ended)) => ended.status.to_string(),
            _ => "unknown".to_owned(),
        };
        let item = lane.item.take();
        if self.lanes.iter().all(|lane| lane.process.is_none()) && !self.waiting.is_empty() {
            anyhow::bail!("no lane is left; the last one ended: {how}");
        }
        Ok(item.map(|item| Judged::failed(&item, format!("The process that drilled it ended: {how}."))))
    }

    /// Tells every lane to stop, and waits until each has ended.
    pub async fn stop(mut self) {
        for lane in &mut self.lanes {
            if let Some(control) = &mut lane.control {
                // Where the pipe is closed it has ended already.
                let _ = control.write_all(STOP);
            }
            lane.control = None;
        }
        for lane in &mut self.lanes {
            if let Some(process) = lane.process.take()
                && let Ok(ended) = process.watch()
            {
                ended.await;
                let _ = process.reap();
            }
        }
    }

    /// Whether the clock of an item is a real one; such items are mostly waiting.
    #[must_use]
    pub fn waits(clock: ClockChoice) -> bool {
        clock == ClockChoice::Scaled
    }
}

/// Passes tasks to a lane and its results on.
async fn follow(index: usize, listener: UnixListener, tell: UnboundedSender<(usize, News)>) {
    let Ok((stream, _)) = listener.accept().await else { return };
    drop(listener);
    let (read, mut write) = UnixStream::into_split(stream);
    let (tasks, mut given) = unbounded_channel::<Vec<u8>>();
    let _ = tell.send((index, News::Ready(tasks)));
    let mut results = BufReader::new(read).lines();
    loop {
        tokio::select! {
            task = given.recv() => {
                let Some(mut line) = task else { return };
                line.push(b'\n');
                if write.write_all(&line).await.is_err() {
                    return;
                }
            }
            result = results.next_line() => {
                let Ok(Some(line)) = result else { return };
                if let Ok(judged) = serde_json::from_str(&line) {
                    let _ = tell.send((index, News::Judged(Box::new(judged))));
                }
            }
        }
    }
}

/// A descriptor that tells when a person wants it all to stop.
///
/// # Errors
/// It can't be registered.
pub fn stop_wakeup(
    signals: &crate::isolation::Signals,
) -> anyhow::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    Ok(readable::register(signals.wakeups()?)?)
}
