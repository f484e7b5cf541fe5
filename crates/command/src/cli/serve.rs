//! `plimsoll serve`, as typed.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plimsoll_server::serve::Net;
use plimsoll_server::wire::{MAX_STREAMS, PORT};
use plimsoll_units::quantity;
use plimsoll_units::text::shown_within;

use super::values::{whole, within};

fn net(text: &str) -> Result<Net, String> {
    Net::parse(text).ok_or_else(|| {
        let shown = shown_within(text, 40);
        format!("must be an address or a prefix, such as 192.0.2.0/24: '{shown}' is not")
    })
}

/// Parses `ADDRESS` or `ADDRESS%INTERFACE` to an address with port 0.
fn address(text: &str) -> Result<SocketAddr, String> {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    let found = address.parse::<IpAddr>().ok().and_then(|_| (text, 0).to_socket_addrs().ok()?.next());
    let shown = shown_within(text, 60);
    match found {
        Some(SocketAddr::V6(v6)) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => Err(format!(
            "must be {shown}%INTERFACE, with an interface of this machine (see `ip link`): each link has an address {shown} of its own"
        )),
        Some(found) => Ok(found),
        None => Err(format!(
            "must be an IP address of this machine, such as 192.0.2.1: '{shown}' is not an address"
        )),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let shown = shown_within(text, 40);
    let wrong = || format!("must be between 1 and 1e15 bit/s, such as 10G: '{shown}' is not");
    quantity::parse_rate(text).ok().filter(|rate| (1.0..=1e15).contains(rate)).ok_or_else(wrong)
}

fn longest(text: &str) -> Result<Duration, String> {
    let time = quantity::parse_duration(text).map_err(|e| e.to_string())?;
    let sensible = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
    within(time, sensible, "must be between 100ms and 24h, such as 60s")
}

/// Flags of `plimsoll serve`.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Local addresses to listen on [default: all, IPv4 and IPv6]
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',', value_parser = address)]
    pub bind: Vec<SocketAddr>,
    /// TCP and UDP port to listen on
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = whole::<u16, 0, 65_535>)]
    pub port: u16,
    /// File with the key that clients must have, made by plimsoll key new FILE [default: make a new
    /// key and print it]
    #[arg(long, alias = "key-file", value_name = "FILE", conflicts_with = "open")]
    pub key: Option<PathBuf>,
    /// Serve every client, without a key
    #[arg(long)]
    pub open: bool,
    /// Serve only clients with this address or prefix, such as 192.0.2.0/24; may be repeated
    /// [default: any address]
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = net)]
    pub allow: Vec<Net>,
    /// Let clients measure at the same time [default: one after another]
    #[arg(long)]
    pub parallel: bool,
    /// Slow each client down to this rate, in bit/s, such as 10G; the run of the client warns of it
    #[arg(long, value_name = "RATE", default_value = "100G", value_parser = rate, allow_hyphen_values = true)]
    pub max_rate: f64,
    /// Longest time of one transfer, from 100ms to 24h
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = longest, allow_hyphen_values = true)]
    pub max_duration: Duration,
    /// Most parallel streams (--streams) of a client's case; more are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u16, 1, { MAX_STREAMS as u32 }>)]
    pub max_streams: u16,
    /// Most sessions (connected clients, waiting ones included; a client with --load has two) at
    /// the same time; further ones get the answer busy
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = whole::<u16, 1, 4096>)]
    pub max_sessions: u16,
    /// Serve even if started as root [default: refuse]
    #[arg(long)]
    pub allow_root: bool,
}
