//! The private server of a run over loopback: a second process, with its orders on standard input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};

use super::{Caps, ServeError, Server, Settings, failed};
use crate::traffic::PinnedCpus;
use crate::wire::{MAX_STREAMS, SharedKey};

const MAX_LINE: u64 = 4096;

/// Order for a private server, sent as the first line of its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateOrder {
    /// Key, hexadecimal; not in the argument list, which every user of the machine can read.
    pub key: SharedKey,
    /// CPUs of its threads, in turn.
    pub cpus: Vec<usize>,
}

/// Answer of a private server: its port, or the reason why it does not listen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivateReply {
    /// Port on 127.0.0.1.
    Port(u16),
    /// Reason, in one line.
    Error(String),
}

/// Reads a line of JSON, [`PrivateOrder`], from `input`, listens on a free port of 127.0.0.1,
/// writes a line, [`PrivateReply`], to `output`, and serves until `input` is readable or closed.
pub fn serve_private(input: &(impl AsFd + ?Sized), mut output: impl Write) -> Result<(), ServeError> {
    let copy = input.as_fd().try_clone_to_owned().map_err(failed("read its standard input"))?;
    let PrivateOrder { key, cpus } = read_orders(std::fs::File::from(copy)).ok_or(ServeError::Orders)?;
    let (max_rate, max_duration) = (1e15, Duration::from_secs(86_400));
    let caps = Caps { max_rate, max_duration, max_streams: MAX_STREAMS, max_sessions: 4 };
    let settings = Settings { key, caps, allow: Vec::new(), parallel: true, cpus: PinnedCpus(cpus) };
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let bound = Server::bind(&[address], settings);
    let reply = match &bound {
        Ok(server) => PrivateReply::Port(server.addresses().first().map_or(0, SocketAddr::port)),
        Err(error) => PrivateReply::Error(error.to_string()),
    };
    let line = serde_json::to_string(&reply).map_err(|e| failed("write its port")(e.into()))?;
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(failed("write its port"))?;
    bound?.run(input, &|_| ())
}

fn read_orders(input: impl Read) -> Option<PrivateOrder> {
    let mut line = String::new();
    BufReader::new(input.take(MAX_LINE)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
