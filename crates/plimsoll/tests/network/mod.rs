//! The network benchmarks over loopback, against `plimsoll serve`, and over links in namespaces.

mod flaps;
mod links;
mod loopback;
mod middleboxes;
mod phases;
mod server;
mod spoofed;

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Owned, PROGRAM, signal, status};

/// Clock ticks that a server uses only for a transfer: to begin takes it some of them.
pub(crate) const AT_WORK: u64 = 50;

/// A running `plimsoll serve`; killed when dropped.
pub(crate) struct Serving {
    pub(crate) child: Owned,
    log: fs::File,
    /// Address that it listens on.
    pub(crate) address: String,
    /// One-time key.
    pub(crate) key: String,
}

impl Serving {
    /// Starts `command`, which runs a server, and reads what it announces.
    pub(crate) fn start(command: &mut Command) -> Self {
        let log = tempfile::tempfile().unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = lines.next().unwrap().unwrap();
        let address = listening.strip_prefix("listening on ").unwrap();
        let address = address.split([';', ',']).next().unwrap().to_owned();
        let client = lines.next().unwrap().unwrap();
        let key = client.split("PLIMSOLL_KEY=").nth(1).map(|rest| rest.split(' ').next().unwrap().to_owned());
        Serving { child: Owned(child), log, address, key: key.unwrap_or_default() }
    }

    /// On a loopback port of the kernel's choice, with these further flags.
    pub(crate) fn here(flags: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        Self::start(command.args(["serve", "--allow-root", "--bind", "127.0.0.1", "--port", "0"]).args(flags))
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// Ends it by a signal, and returns what it logged.
    pub(crate) fn log(mut self) -> String {
        signal(self.child.id(), Signal::TERM);
        assert_eq!(self.child.0.wait().unwrap().code(), Some(0));
        let mut log = String::new();
        self.log.rewind().unwrap();
        self.log.read_to_string(&mut log).unwrap();
        log
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Kibibytes of memory in use.
    pub(crate) fn resident(&self) -> u64 {
        status(self.child.id(), "VmRSS:").trim_end_matches(" kB").parse().unwrap()
    }
}
