//! Our end of a worker's clock: what it was told, and what it has answered.

use std::{io, os::linux::net::SocketAddrExt, os::unix::net};

use scenarios::{Tick, WorkerId};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    sync::mpsc::UnboundedSender,
};
use worker::clock;

use crate::drill::Wake;

/// What comes from a worker's end of the clock.
#[derive(Debug)]
pub(in crate::drill) enum Said {
    /// It is there; its pid in our PID namespace.
    Connected(OwnedWriteHalf, Option<i32>),
    /// It is done with the tick that it was told.
    Done(Answer),
    /// It has ended, or left.
    Gone,
}

/// What a worker says when it is done with a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drill) struct Answer {
    tick: Tick,
    /// How many lines of answers and notices it has given away so far.
    told: u64,
    /// The next tick at which something is due.
    next: Option<Tick>,
}

/// Our end of a worker's clock.
#[derive(Debug, Default)]
pub(in crate::drill) struct Stepper {
    pub(super) writer: Option<OwnedWriteHalf>,
    pub(super) pid: Option<i32>,
    pub(super) gone: bool,
    /// The tick that it was told and has not answered.
    pub(super) asked: Option<Tick>,
    pub(super) told: u64,
    /// How many lines and notices have come in.
    pub(super) seen: u64,
    pub(super) next: Option<Tick>,
}

impl Stepper {
    /// Another line or notice has come in.
    pub(in crate::drill) fn see(&mut self) {
        self.seen += 1;
    }

    /// Takes in what the worker said.
    pub(in crate::drill) fn hear(&mut self, said: Said) {
        match said {
            Said::Connected(writer, pid) => {
                self.writer = Some(writer);
                self.pid = pid;
            }
            Said::Done(answer) => {
                if self.asked == Some(answer.tick) {
                    self.asked = None;
                }
                self.told = answer.told;
                self.next = answer.next;
            }
            Said::Gone => {
                self.gone = true;
                self.asked = None;
                self.next = None;
                self.writer = None;
            }
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.writer.is_some()
    }
}

/// Opens the clock of `worker` and gives its address; what comes from it goes to `wakes`.
pub(in crate::drill) fn open(
    name: &str,
    worker: WorkerId,
    wakes: UnboundedSender<(u64, Wake)>,
) -> io::Result<(String, impl Future<Output = ()> + use<>)> {
    let name = format!("termdrill-{name}-clock-{worker}");
    let listener = net::UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let listening = async move {
        // One connection is a worker's whole life.
        let Ok((stream, _)) = listener.accept().await else { return };
        listen(worker, stream, &wakes).await;
        let _ = wakes.send((clock::now_ns(), Wake::Clock(worker, Said::Gone)));
    };
    Ok((format!("@{name}"), listening))
}

async fn listen(worker: WorkerId, stream: UnixStream, wakes: &UnboundedSender<(u64, Wake)>) {
    let pid = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
    let (read, write) = stream.into_split();
    let tell = |said| {
        let _ = wakes.send((clock::now_ns(), Wake::Clock(worker, said)));
    };
    tell(Said::Connected(write, pid));
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // A worker that says anything else has not answered, and is given up as such.
        if let Some(answer) = Answer::read(&line) {
            tell(Said::Done(answer));
        }
    }
}

impl Answer {
    fn read(line: &str) -> Option<Answer> {
        let ["done", tick, told, next] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let next = match next {
            "-" => None,
            tick => Some(Tick(tick.parse().ok()?)),
        };
        Some(Answer { tick: Tick(tick.parse().ok()?), told: told.parse().ok()?, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_nothing_else() {
        let answer = |tick, told, next| Some(Answer { tick: Tick(tick), told, next });
        assert_eq!(Answer::read("done 310 12 377"), answer(310, 12, Some(Tick(377))));
        assert_eq!(Answer::read("done 310 12 -"), answer(310, 12, None));
        for bad in ["", "done", "done 1 2", "done x 2 -", "done 1 2 3 4", "gone 1 2 -"] {
            assert_eq!(Answer::read(bad), None, "{bad}");
        }
    }
}
