//! Evidence written by hand.

use scenarios::{Event, EventKind, RequestId, Scenario, Span, Status, Tick, WorkerId};

use crate::{
    evidence::{Disposition, Evidence, Node, ProcessEnd, ProcessFacts, ProcessState, Received, Snapshot},
    record::Observed,
};

pub(in crate::evidence) const WORKER: WorkerId = WorkerId::FIRST;
/// The top, as the drill numbers it. What is below has the numbers that follow.
pub(in crate::evidence) const TOP: i32 = 20;

pub(crate) fn process(pid: i32, namespace_pid: i32, argv: &str, exe: &str) -> ProcessFacts {
    ProcessFacts {
        pid,
        namespace_pid,
        host_pid: None,
        host_threads: Vec::new(),
        parent: pid - 1,
        argv: argv.split(' ').map(str::to_owned).collect(),
        exe: Some(exe.to_owned()),
        state: ProcessState::Sleeping,
        sigterm: Disposition::Default,
        by_masks: None,
        pending: false,
        waits_for_child: false,
        sigquit: Some(Disposition::Default),
        group: TOP,
        session: TOP,
        kernel_thread: false,
    }
}

/// A case: SIGTERM at 30 s, SIGKILL at 40 s, and one request in flight that takes until 45 s.
pub(in crate::evidence) struct Case {
    pub(in crate::evidence) scenario: Scenario,
    pub(in crate::evidence) evidence: Evidence,
    pub(in crate::evidence) events: Vec<Observed>,
}

impl Case {
    /// From the top down, each with how it ended and when, in ticks; without a tick in the clean-up. The last is the
    /// worker. In a PID namespace the top is its PID 1.
    pub(in crate::evidence) fn new(pid1: bool, processes: &[(&str, &str, Disposition, Status, Option<u32>)]) -> Case {
        let mut nodes = Vec::new();
        let mut ends = Vec::new();
        for (depth, &(argv, exe, sigterm, status, t)) in processes.iter().enumerate() {
            let pid = TOP + i32::try_from(depth).unwrap();
            let namespace_pid = if pid1 { pid - TOP + 1 } else { pid };
            nodes.push(Node { depth, process: ProcessFacts { sigterm, ..process(pid, namespace_pid, argv, exe) } });
            let at_us = t.map(|t| i64::from(t) * 10_000 + 5_500);
            ends.push(ProcessEnd { pid, status: Some(status), at_us, t: t.map(Tick) });
        }
        // PID 1 is seen to end after those that it takes with it; outside of a namespace the order is that of the list.
        if pid1 {
            ends.reverse();
        }
        ends.sort_by_key(|end| end.t.map_or(u32::MAX, |t| t.0));
        let worker_pid = nodes.last().map(|node| node.process.pid);
        let before = Some(Snapshot { at_us: 0, processes: nodes });
        let evidence = Evidence { worker_pid, before, ends, ..Evidence::default() };
        let scenario = Scenario { invocation_s: Span::seconds(20), ..Scenario::new("case", "case") };
        let case = Case { scenario, evidence, events: Vec::new() };
        let admitted = EventKind::RequestAdmitted { request: RequestId(13), worker: WORKER, slot: 1 };
        case.event(250, admitted).event(300, EventKind::SigtermSent { worker: WORKER })
    }

    pub(in crate::evidence) fn event(mut self, t: u32, kind: EventKind) -> Case {
        let at_us = i64::from(t) * 10_000 + 5_000;
        self.events.push(Observed { event: Event { t: Tick(t), kind }, at_us, late_us: 0, pid: None, note: None });
        self
    }

    /// SIGKILL is sent to the top at 40 s.
    pub(in crate::evidence) fn sigkill(self) -> Case {
        self.event(400, EventKind::SigkillSent { worker: WORKER })
    }

    /// The request in flight is killed.
    pub(in crate::evidence) fn loses_it(self, t: u32) -> Case {
        self.event(t, EventKind::InvocationKilled { request: RequestId(13), worker: WORKER })
    }

    /// As a kernel before Linux 6.15 tells it: of none but the top it is known how it ended.
    pub(in crate::evidence) fn on_an_older_kernel(mut self) -> Case {
        self.evidence.ends.iter_mut().filter(|end| end.pid != TOP).for_each(|end| end.status = None);
        self
    }

    /// The worker's handler got it from this pid of its namespace.
    pub(in crate::evidence) fn received(mut self, from_pid: i32) -> Case {
        self.evidence.received = Some(Received { from_pid: Some(from_pid), at_us: 3_005_100 });
        self
    }
}
