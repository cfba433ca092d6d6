//! The clock of a worker, stepped by the test: nothing happens between two ticks, however long the machine takes.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::{UnixListener, UnixStream},
    time::Duration,
};

use scenarios::wire::env;

use crate::rig::{Rig, Running};

/// The test's end of the clock. The worker gets ready at tick 5; an invocation takes 12 ticks.
pub(crate) struct Clock {
    write: UnixStream,
    read: BufReader<UnixStream>,
}

impl Clock {
    pub(crate) fn start(change: impl FnOnce(Rig) -> Rig) -> (Running, Clock) {
        let rig = change(Rig::new());
        let path = rig.folder.path().join("clock");
        let listener = UnixListener::bind(&path).unwrap();
        let running = rig.with(env::CLOCK, path.display()).start();
        let (write, _) = listener.accept().unwrap();
        write.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let read = BufReader::new(write.try_clone().unwrap());
        (running, Clock { write, read })
    }

    /// A worker that ends meanwhile hears no more of it, which its answer tells: there is none.
    pub(crate) fn tell(&mut self, line: &str) {
        match self.write.write_all(format!("{line}\n").as_bytes()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            told => told.unwrap(),
        }
    }

    /// The next answer, or none where the worker is gone.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.read.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            // It went with something unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    pub(crate) fn step(&mut self, tick: u32) -> String {
        self.tell(&tick.to_string());
        self.answer().expect("an answer")
    }

    /// A worker that has booted.
    pub(crate) fn ready() -> (Running, Clock) {
        Clock::ready_with(|rig| rig)
    }

    /// The same with a change to its environment.
    pub(crate) fn ready_with(change: impl FnOnce(Rig) -> Rig) -> (Running, Clock) {
        let (running, mut clock) = Clock::start(change);
        assert_eq!(clock.step(0), "done 0 0 5");
        assert_eq!(clock.step(5), "done 5 1 -");
        assert!(running.notification().starts_with("READY=1\n"));
        (running, clock)
    }
}
