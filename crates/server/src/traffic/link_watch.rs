//! Monitors the links on the path to an address. The kernel counts the losses; a thread times them
//! by its messages (rtnetlink group `RTMGRP_LINK`).

use std::io::{self, PipeReader, PipeWriter};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, bind, recv};
use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::route::{self, LOOPBACK, lower_interfaces};
use super::{locked, netlink};

const LINK_MESSAGES: u32 = 1;
/// Most interfaces that are watched.
pub const MAX_LINKS: usize = 32;
/// Most levels of stacked interfaces that are followed.
const MAX_LEVELS: usize = 4;

/// Losses of the link of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkLoss {
    /// Name of the interface.
    pub interface: String,
    /// Whether every packet takes this link: that of the route, or the only one below it.
    pub carries_all: bool,
    /// Number of losses.
    pub times: u32,
    /// Total duration of the losses, ns; 0 if unknown.
    pub nanos: u64,
    /// Whether the link is up now.
    pub is_up: bool,
}

/// A monitor that runs until it is dropped.
#[derive(Debug, Default)]
pub struct LinkWatch {
    links: Arc<Mutex<Vec<WatchedLink>>>,
    /// Thread that watches; it ends when the pipe is closed.
    thread: Option<(PipeWriter, JoinHandle<()>)>,
}

#[derive(Clone, Debug, Default)]
struct WatchedLink {
    interface: String,
    index: u32,
    level: usize,
    carries_all: bool,
    before: Carrier,
    /// Outages that the thread saw, and the duration of those that are over.
    count: u32,
    ended: Duration,
    down_since: Option<Instant>,
}

impl LinkWatch {
    /// Starts to monitor `interface` and those below it (of a VLAN, a bond, or a bridge).
    pub fn start(interface: &str) -> Self {
        if interface == LOOPBACK {
            return Self::default();
        }
        let links = Arc::new(Mutex::new(links(interface)));
        // Without the thread, the kernel's counts remain.
        let thread = spawn(&links).ok();
        LinkWatch { links, thread }
    }

    /// Starts to monitor the interface of the route to `address`, if any, and those below it.
    pub fn start_on_route(address: SocketAddr) -> Self {
        route::outgoing_interface(address).map(|name| Self::start(&name)).unwrap_or_default()
    }

    /// Returns the links lost since the start, even if up again; of stacked interfaces the lowest.
    pub fn losses(&self) -> Vec<LinkLoss> {
        let links = locked(&self.links).clone();
        let now = Instant::now();
        let lost = links.iter().filter_map(|link| {
            let carrier = Carrier::of_interface(&link.interface)?;
            Some((link.level, link.loss(carrier, now))).filter(|(_, loss)| loss.times > 0)
        });
        let lost: Vec<(usize, LinkLoss)> = lost.collect();
        let carries_all = lost.iter().any(|(_, loss)| loss.carries_all);
        let lowest = lost.iter().map(|(level, _)| *level).max().unwrap_or_default();
        let named = lost.into_iter().filter(|(level, _)| *level == lowest);
        named.map(|(_, loss)| LinkLoss { carries_all, ..loss }).collect()
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        let Some((open, thread)) = self.thread.take() else { return };
        drop(open);
        let _ = thread.join();
    }
}

impl WatchedLink {
    fn note(&mut self, carrier: Carrier, now: Instant) {
        match (carrier.is_up, self.down_since) {
            (false, None) => {
                self.count += 1;
                self.down_since = Some(now);
            }
            (true, Some(since)) => {
                self.ended += now.saturating_duration_since(since);
                self.down_since = None;
            }
            _ => {}
        }
    }

    fn loss(&self, carrier: Carrier, now: Instant) -> LinkLoss {
        let changes = carrier.changes.wrapping_sub(self.before.changes);
        let is_down = u32::from(self.before.is_up && !carrier.is_up);
        let lasts = self.down_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        LinkLoss {
            interface: self.interface.clone(),
            carries_all: self.carries_all,
            times: changes.div_ceil(2).max(self.count).max(is_down),
            nanos: super::nanos(self.ended + lasts),
            is_up: carrier.is_up,
        }
    }
}

fn links(interface: &str) -> Vec<WatchedLink> {
    let first = WatchedLink { interface: interface.to_owned(), carries_all: true, ..WatchedLink::default() };
    let mut found = vec![first];
    let mut next = 0;
    while let Some(WatchedLink { level, carries_all, interface, .. }) = found.get(next).cloned() {
        next += 1;
        let lower = if level < MAX_LEVELS { lower_interfaces(&interface) } else { Vec::new() };
        let room = MAX_LINKS.saturating_sub(found.len());
        let carries_all = carries_all && lower.len() == 1;
        let below = WatchedLink { level: level + 1, carries_all, ..WatchedLink::default() };
        let named = |interface| WatchedLink { interface, ..below.clone() };
        found.extend(lower.into_iter().take(room).map(named));
    }
    let with_state = |link: WatchedLink| {
        let before = Carrier::of_interface(&link.interface)?;
        let index = netlink::open_for(&link.interface).map_or(0, |(_, index)| index);
        let down_since = (!before.is_up).then(Instant::now);
        Some(WatchedLink { before, index, down_since, ..link })
    };
    found.into_iter().filter_map(with_state).collect()
}

fn spawn(links: &Arc<Mutex<Vec<WatchedLink>>>) -> io::Result<(PipeWriter, JoinHandle<()>)> {
    let socket = netlink::open()?;
    bind(&socket, &SocketAddrNetlink::new(0, LINK_MESSAGES))?;
    let (stop, open) = io::pipe()?;
    let links = Arc::clone(links);
    let thread = Builder::new().name("links".to_owned()).spawn(move || watch(&socket, &stop, &links))?;
    Ok((open, thread))
}

fn watch(socket: &OwnedFd, stop: &PipeReader, links: &Mutex<Vec<WatchedLink>>) {
    let mut bytes = vec![0; 32 << 10];
    loop {
        let mut ready = [PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) if !ready[0].revents().is_empty() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let length = match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => length,
            // Messages that did not fit are lost; the next ones arrive.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => continue,
            Err(_) => return,
        };
        let Some((index, carrier)) = bytes.get(..length).and_then(Carrier::parse) else { continue };
        let mut links = locked(links);
        let named = links.iter_mut().filter(|link| link.index == index);
        named.for_each(|link| link.note(carrier, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Carrier = Carrier { is_up: true, changes: 4 };

    fn link() -> WatchedLink {
        WatchedLink { before: UP, ..WatchedLink::default() }
    }

    #[test]
    fn outages_are_counted_and_timed() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let down = Carrier { is_up: false, changes: 5 };
        let mut link = link();
        for (carrier, ms) in [(UP, 0), (down, 100), (down, 150), (UP, 400), (UP, 450), (down, 1000)] {
            link.note(carrier, at(ms));
        }
        let loss = link.loss(Carrier { is_up: false, changes: 7 }, at(1200));
        assert_eq!((loss.times, loss.nanos, loss.is_up), (2, 500_000_000, false));
    }

    #[test]
    fn a_loss_without_a_message_is_known_by_the_kernels_count() {
        let now = Instant::now();
        let loss = |changes, is_up| {
            let loss = link().loss(Carrier { is_up, changes }, now);
            (loss.times, loss.nanos)
        };
        assert_eq!(loss(4, true), (0, 0));
        assert_eq!(loss(6, true), (1, 0));
        assert_eq!(loss(7, false), (2, 0));
        // An interface that is set down without a change of its carrier.
        assert_eq!(loss(4, false), (1, 0));
    }

    #[test]
    fn interfaces_below_are_watched() {
        let names = |interface: &str| {
            let links = links(interface);
            links.iter().map(|link| link.interface.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("lo"), ["lo"]);
        assert_eq!(names("no-such-interface"), Vec::<String>::new());
        assert_eq!(LinkWatch::start("lo").losses(), []);
    }
}
