//! Monitors the links on the path to an address. The kernel counts the losses; a thread times them
//! by its messages (rtnetlink group `RTMGRP_LINK`).

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netdevice, recv, socket_with};
use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::route::{self, LOOPBACK};
use plimsoll_machine::Root;

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
    links: Vec<WatchedLink>,
    outages: Arc<Mutex<Vec<Outages>>>,
    thread: Option<(Arc<OwnedFd>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct WatchedLink {
    interface: String,
    level: usize,
    carries_all: bool,
    before: Carrier,
}

#[derive(Clone, Copy, Debug, Default)]
struct Outages {
    index: u32,
    count: u32,
    ended: Duration,
    began: Option<Instant>,
}

impl Outages {
    fn note(&mut self, carrier: Carrier, now: Instant) {
        match (carrier.is_up, self.began) {
            (false, None) => {
                self.count += 1;
                self.began = Some(now);
            }
            (true, Some(began)) => {
                self.ended += now.saturating_duration_since(began);
                self.began = None;
            }
            _ => {}
        }
    }

    fn lasted(&self, now: Instant) -> Duration {
        self.ended + self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }
}

impl LinkWatch {
    /// Starts to monitor `interface` and those below it (of a VLAN, a bond, or a bridge).
    pub fn start(root: &Root, interface: &str) -> Self {
        if interface == LOOPBACK {
            return Self::default();
        }
        let links = links(root, interface);
        let index = |link: &WatchedLink| index_of(&link.interface).unwrap_or_default();
        let began = |link: &WatchedLink| (!link.before.is_up).then(Instant::now);
        let outages = |link| Outages { index: index(link), began: began(link), ..Outages::default() };
        let outages = Arc::new(Mutex::new(links.iter().map(outages).collect()));
        // Without the thread, the kernel's counts remain.
        let thread = spawn(&outages).ok();
        LinkWatch { links, outages, thread }
    }

    /// Starts to monitor the interface of the route to `address`, if any, and those below it.
    pub fn start_on_route(address: SocketAddr) -> Self {
        route::outgoing_interface(address).map(|name| Self::start(&Root::live(), &name)).unwrap_or_default()
    }

    /// Returns links that were lost since the start or are down; of stacked interfaces the lowest.
    pub fn losses(&self) -> Vec<LinkLoss> {
        let outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = Instant::now();
        let lost = self.links.iter().zip(&outages).filter_map(|(link, outages)| {
            let carrier = Carrier::of_interface(&link.interface)?;
            Some((link.level, link.loss(outages, carrier, now))).filter(|(_, loss)| loss.times > 0)
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
        let Some((stop, thread)) = self.thread.take() else { return };
        // A full counter has woken the thread already.
        let _ = rustix::io::write(&*stop, &1u64.to_ne_bytes());
        let _ = thread.join();
    }
}

impl WatchedLink {
    fn loss(&self, outages: &Outages, carrier: Carrier, now: Instant) -> LinkLoss {
        let changes = carrier.changes.wrapping_sub(self.before.changes);
        let is_down_since = u32::from(self.before.is_up && !carrier.is_up);
        LinkLoss {
            interface: self.interface.clone(),
            carries_all: self.carries_all,
            times: changes.div_ceil(2).max(outages.count).max(is_down_since),
            nanos: super::nanos(outages.lasted(now)),
            is_up: carrier.is_up,
        }
    }
}

fn index_of(interface: &str) -> Option<u32> {
    let any = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
    netdevice::name_to_index(&any, interface).ok()
}

fn links(root: &Root, interface: &str) -> Vec<WatchedLink> {
    let mut found: Vec<(usize, bool, String)> = vec![(0, true, interface.to_owned())];
    let mut next = 0;
    while let Some((level, carries_all, name)) = found.get(next).cloned() {
        next += 1;
        let files = match level < MAX_LEVELS {
            true => root.names(format!("sys/class/net/{name}")).unwrap_or_default(),
            false => Vec::new(),
        };
        let lower: Vec<&str> = files.iter().filter_map(|file| file.strip_prefix("lower_")).collect();
        let room = MAX_LINKS.saturating_sub(found.len());
        let is_one = carries_all && lower.len() == 1;
        found.extend(lower.into_iter().take(room).map(|name| (level + 1, is_one, name.to_owned())));
    }
    let link = |(level, carries_all, interface): (usize, bool, String)| {
        Some(WatchedLink { before: Carrier::of_interface(&interface)?, interface, level, carries_all })
    };
    found.into_iter().filter_map(link).collect()
}

fn spawn(outages: &Arc<Mutex<Vec<Outages>>>) -> io::Result<(Arc<OwnedFd>, JoinHandle<()>)> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, LINK_MESSAGES))?;
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let (outages, stopped) = (Arc::clone(outages), Arc::clone(&stop));
    let thread = Builder::new().name("links".to_owned()).spawn(move || watch(&socket, &stopped, &outages))?;
    Ok((stop, thread))
}

fn watch(socket: &OwnedFd, stop: &OwnedFd, outages: &Mutex<Vec<Outages>>) {
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
        let mut outages = outages.lock().unwrap_or_else(PoisonError::into_inner);
        let of_link = outages.iter_mut().filter(|one| one.index == index);
        of_link.for_each(|one| one.note(carrier, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Carrier = Carrier { is_up: true, changes: 4 };

    fn link(before: Carrier) -> WatchedLink {
        WatchedLink { interface: "eth0".to_owned(), level: 0, carries_all: true, before }
    }

    #[test]
    fn outages_are_counted_and_timed() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let down = Carrier { is_up: false, changes: 5 };
        let mut outages = Outages::default();
        for (carrier, ms) in [(UP, 0), (down, 100), (down, 150), (UP, 400), (UP, 450), (down, 1000)] {
            outages.note(carrier, at(ms));
        }
        assert_eq!((outages.count, outages.lasted(at(1200))), (2, Duration::from_millis(500)));
        let loss = link(UP).loss(&outages, Carrier { is_up: false, changes: 7 }, at(1200));
        assert_eq!((loss.times, loss.nanos, loss.is_up), (2, 500_000_000, false));
    }

    #[test]
    fn a_loss_without_a_message_is_known_by_the_kernels_count() {
        let now = Instant::now();
        let loss = |changes, is_up| {
            let loss = link(UP).loss(&Outages::default(), Carrier { is_up, changes }, now);
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
            let links = links(&Root::live(), interface);
            links.iter().map(|link| link.interface.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("lo"), ["lo"]);
        assert_eq!(names("no-such-interface"), Vec::<String>::new());
        assert_eq!(LinkWatch::start(&Root::live(), "lo").losses(), []);
    }
}
