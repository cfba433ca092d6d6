//! Drills written by hand.

use scenarios::{Signal, Status};

use super::{
    args::Options,
    fate::{Connection, Fate, Phase},
    record::{Boot, Observed, Request, Sending},
    settings::Settings,
};
use crate::evidence::{Disposition, Node, ProcessEnd, ProcessFacts, Snapshot, explain::samples::process};

/// What is asked for where nothing else is said.
pub(super) fn settings() -> Settings {
    Options::default().settings(vec!["./server".to_owned()]).unwrap()
}

/// The first process, as the drill numbers it. What is below has the numbers that follow.
pub(super) const TOP: i32 = 20;

/// A process from the top down: command line, program, disposition, how it ended, and when, in milliseconds after the
/// signal; `None` where it lived on until the clean-up.
pub(super) type Process = (&'static str, &'static str, Disposition, Status, Option<i64>);

/// A drill whose signal was sent to the top. The last process is the app.
pub(super) fn drill(pid1: bool, processes: &[Process]) -> Observed {
    let mut nodes = Vec::new();
    let mut ends = Vec::new();
    for (depth, &(argv, exe, sigterm, status, at_ms)) in processes.iter().enumerate() {
        let pid = TOP + i32::try_from(depth).unwrap();
        let namespace_pid = if pid1 { pid - TOP + 1 } else { pid };
        nodes.push(Node { depth, process: ProcessFacts { sigterm, ..process(pid, namespace_pid, argv, exe) } });
        ends.push(ProcessEnd { pid, status: Some(status), at_us: at_ms.map(|ms| ms * 1000), t: None });
    }
    let gone_us = |pid: i32| ends.iter().find(|end| end.pid == pid).and_then(|end| end.at_us);
    let app = TOP + i32::try_from(processes.len()).unwrap() - 1;
    let left: Vec<Node> = nodes.iter().filter(|node| gone_us(node.process.pid).is_none()).cloned().collect();
    let end_us = ends.iter().filter_map(|end| end.at_us).max().unwrap_or(0) + 10_000;
    Observed {
        port: 8080,
        boot: Boot { ready_after_us: Some(100_000), other_ports: Vec::new() },
        signal: Some(Sending { signal: Signal::TERM, at_us: 0, pids: vec![TOP] }),
        started_us: -2_100_000,
        deadline_us: 10_000_000,
        app_gone_us: gone_us(app),
        top_gone_us: gone_us(TOP),
        end_us,
        exit: Some(processes[0].3),
        top_pid: Some(TOP),
        app_pid: Some(app),
        at_end: Some(Snapshot { at_us: end_us, processes: left }),
        before: Some(Snapshot { at_us: -8_000, processes: nodes }),
        ends,
        ..Observed::default()
    }
}

impl Observed {
    /// The same with SIGKILL to the top, so many milliseconds after the signal.
    pub(super) fn sigkill(mut self, at_ms: i64) -> Observed {
        self.sigkill = Some(Sending { signal: Signal::KILL, at_us: at_ms * 1000, pids: vec![TOP] });
        self
    }

    /// The same with the port closed, so many milliseconds after the signal.
    pub(super) fn closed(mut self, at_ms: i64) -> Observed {
        self.listener_closed_us = Some(at_ms * 1000);
        self
    }

    /// The same with another request, sent and over so many milliseconds after the signal.
    pub(super) fn request(mut self, sent_ms: i64, over_ms: i64, fate: Fate, status: Option<u16>) -> Observed {
        let phase = match (sent_ms < 0, over_ms < 0) {
            (true, true) => Phase::Before,
            (true, false) => Phase::Across,
            _ => Phase::After,
        };
        self.requests.push(Request {
            number: self.requests.len() + 1,
            template: 0,
            sent_us: sent_ms * 1000,
            late_us: 100,
            first_byte_after_us: None,
            took_us: (over_ms - sent_ms).unsigned_abs() * 1000,
            connection: Connection::New,
            phase,
            fate,
            status,
            unframed_bytes: None,
            queue_full: false,
        });
        self
    }

    /// The same with so many requests before the signal that were completed, one each 100 ms.
    pub(super) fn served(mut self, number: i64) -> Observed {
        for count in (1..=number).rev() {
            self = self.request(-100 * count + 50, -100 * count + 52, Fate::Completed, Some(200));
        }
        self
    }
}
