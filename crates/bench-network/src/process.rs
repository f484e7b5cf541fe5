//! Process of the private server: started, given its key through a pipe, killed and reaped.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use plimsoll_bench_api::prelude::*;
use plimsoll_server::serve::{PrivateOrder, PrivateReply};
use plimsoll_server::traffic::{PinnedCpus, describe_io_error, is_out_of_descriptors, wait_for};
use plimsoll_server::wire::{HANDSHAKE, SharedKey};
use plimsoll_units::text::shown;

const MAX_LINE: u64 = 4096;

#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServerProcess {
    pub(super) fn start(program: &Path, key: &SharedKey, cpus: &PinnedCpus) -> Result<Self, CannotMeasure> {
        Self::spawn(program, key, cpus).map_err(|e| {
            let (why, remedy) = match is_out_of_descriptors(&e) {
                true => (describe_io_error(&e, "this process"), ""),
                false => (e.to_string(), "; see `ulimit -u`"),
            };
            CannotMeasure::environment(format!("cannot start the private server: {why}{remedy}"))
        })
    }

    fn spawn(program: &Path, key: &SharedKey, cpus: &PinnedCpus) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.arg0("plimsoll").arg("private-server").spawn()?;
        let mut process = ServerProcess { child };
        let orders = serde_json::to_string(&PrivateOrder { key: key.clone(), cpus: cpus.0.clone() })?;
        // Stays open: its end shows the child that the parent is gone.
        if let Some(pipe) = &mut process.child.stdin {
            let _ = writeln!(pipe, "{orders}");
        }
        Ok(process)
    }

    /// Waits for the server's address. Fails if the server reports an error or starts too slowly.
    pub(super) fn address(&mut self) -> Result<SocketAddr, CannotMeasure> {
        match serde_json::from_str(&self.first_line().unwrap_or_default()) {
            Ok(PrivateReply::Port(port)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            Ok(PrivateReply::Error(why)) => Err(CannotMeasure::server_failed(shown(&why))),
            Err(_) => Err(CannotMeasure::server_failed(format!(
                "the private server did not start within {} s{}: check that the loopback interface is up",
                HANDSHAKE.as_secs(),
                self.end()
            ))),
        }
    }

    fn first_line(&mut self) -> Option<String> {
        let output = self.child.stdout.take()?;
        // The line is written at once: when the first byte has arrived, all of it has.
        wait_for(&output, PollFlags::IN, HANDSHAKE).ok().filter(|is_ready| *is_ready)?;
        let mut line = String::new();
        BufReader::new(io::Read::take(output, MAX_LINE)).read_line(&mut line).ok()?;
        Some(line)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how the process ended, as `: it was killed (signal 9)`; empty if it still runs.
    pub(super) fn end(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_millis(200);
        // A connection breaks shortly before the process can be reaped.
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::yield_now();
        }
        let Ok(Some(status)) = self.child.try_wait() else { return String::new() };
        match (status.signal(), status.code()) {
            (Some(signal), _) => format!(": it was killed (signal {signal})"),
            (None, code) => format!(": it ended (exit {})", code.unwrap_or_default()),
        }
    }
}
