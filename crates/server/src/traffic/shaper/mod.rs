//! What the kernel holds an interface to, asked by rtnetlink (linux/rtnetlink.h): queueing disciplines that shape what
//! leaves, and policers of what leaves or comes in.
//!
//! Only what all packets pass is told. They pass the root of the interface's queueing disciplines, what is below a root
//! that only delays (`netem`), and of a root of classes (`htb`) the default one, where no filter sends them elsewhere. A
//! bucket below a root that sorts packets (`prio`, `mq`) holds some of them alone, and tells nothing of the interface. What
//! leaves by an interface on top of one other (VLAN, a bond of one) passes that one as well.

pub(super) mod read;

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with, sockopt,
};

use plimsoll_machine::Root;

use crate::wire::Shaping;
use read::{Class, Discipline, Filter, Kind, Reply};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;
/// `TC_H_ROOT`: the parent of an interface's first discipline.
const ROOT: u32 = u32::MAX;
/// Where filters of what comes in and of what leaves are attached (`TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`).
const COMING: u32 = 0xffff_fff2;
const LEAVING: u32 = 0xffff_fff3;
/// The part of a handle that names the discipline (`TC_H_MAJ_MASK`).
const MAJOR: u32 = 0xffff_0000;
/// No kernel has more of them than fit in so many replies.
const REPLIES: usize = 64;
/// Interfaces on top of one another that are followed.
const MAX_INTERFACE_DEPTH: usize = 4;
/// Classes within one another that are followed: `htb` has eight levels.
const LEVELS: usize = 8;

/// What the kernel holds the interface to; nothing where it does not tell.
pub fn of(root: &Root, interface: &str) -> Shaping {
    let mut all = Shaping::default();
    let mut name = interface.to_owned();
    for _ in 0..MAX_INTERFACE_DEPTH {
        let own = of_one(&name).unwrap_or_default();
        all = Shaping {
            out: least(all.out, own.out),
            each_out: least(all.each_out, own.each_out),
            into: least(all.into, own.into),
        };
        let names = root.names(format!("sys/class/net/{name}")).unwrap_or_default();
        let mut lower = names.iter().filter_map(|file| file.strip_prefix("lower_"));
        match (lower.next(), lower.next()) {
            (Some(one), None) => name = one.to_owned(),
            _ => break,
        }
    }
    all
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

fn of_one(interface: &str) -> Option<Shaping> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
    let index = netdevice::name_to_index(&socket, interface).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1))).ok()?;
    let disciplines = dump(&socket, RTM_GETQDISC, index, 0, read::discipline)?;
    let mut known = Known { disciplines, ..Known::default() };
    if let Some(root) = known.root().filter(|root| matches!(root.kind, Kind::Classes(_))).copied() {
        known.classes = dump(&socket, RTM_GETTCLASS, index, 0, read::class)?;
        known.sorted = !dump(&socket, RTM_GETTFILTER, index, root.handle, read::filter)?.is_empty();
    }
    if known.disciplines.iter().any(|one| one.kind == Kind::Ingress) {
        let filters = |parent| dump(&socket, RTM_GETTFILTER, index, parent, read::filter);
        known.coming = filters(COMING).unwrap_or_default();
        known.leaving = filters(LEAVING).unwrap_or_default();
    }
    Some(known.shaping())
}

/// Asks for all of a kind, and reads those of the interface.
fn dump<T>(
    socket: &OwnedFd,
    what: u16,
    index: u32,
    parent: u32,
    one: fn(&[u8]) -> Option<T>,
) -> Option<Vec<T>> {
    send(socket, &read::request(what, index, parent), SendFlags::empty()).ok()?;
    let mut bytes = vec![0_u8; 64 << 10];
    let mut found = Vec::new();
    for _ in 0..REPLIES {
        let (length, _) = recv(socket, &mut bytes[..], RecvFlags::empty()).ok()?;
        if read::reply(bytes.get(..length)?, index, one, &mut found) == Reply::Last {
            return Some(found);
        }
    }
    None
}

/// All that is known of one interface.
#[derive(Debug, Default)]
struct Known {
    disciplines: Vec<Discipline>,
    classes: Vec<Class>,
    /// Whether filters at the root send packets to classes.
    sorted: bool,
    coming: Vec<Filter>,
    leaving: Vec<Filter>,
}

impl Known {
    fn root(&self) -> Option<&Discipline> {
        self.disciplines.iter().find(|one| one.parent == ROOT)
    }

    fn below<'a>(&'a self, root: &'a Discipline) -> impl Iterator<Item = &'a Discipline> {
        let is_below = |one: &&Discipline| one.parent != ROOT && one.parent & MAJOR == root.handle & MAJOR;
        self.disciplines.iter().filter(is_below)
    }

    fn shaping(&self) -> Shaping {
        let of_root = self.root().map(|root| self.passed(root)).unwrap_or_default();
        Shaping {
            out: least(of_root.out, policed(&self.leaving)),
            each_out: of_root.each_out,
            into: policed(&self.coming),
        }
    }

    /// What all packets pass at the root, and below one that only delays.
    fn passed(&self, root: &Discipline) -> Shaping {
        let out = |out| Shaping { out, ..Shaping::default() };
        match root.kind {
            Kind::Bucket(rate) => out(Some(rate)),
            Kind::Each(rate) => Shaping { each_out: Some(rate), ..Shaping::default() },
            Kind::Delay(own) => match self.below(root).next().map(|one| one.kind) {
                Some(Kind::Bucket(rate)) => out(least(own, Some(rate))),
                _ => out(own),
            },
            Kind::Classes(default) => out(self.class(root, default)),
            // The highest of its queues: which of them a connection takes is the kernel's choice.
            Kind::Queues => {
                let each = |one: &Discipline| if let Kind::Each(rate) = one.kind { Some(rate) } else { None };
                let all: Option<Vec<u64>> = self.below(root).map(each).collect();
                Shaping { each_out: all.and_then(|all| all.into_iter().max()), ..Shaping::default() }
            }
            Kind::Ingress | Kind::Other => Shaping::default(),
        }
    }

    /// The most that classes leave a packet: the default class's, or of all where filters choose one. Without a default
    /// class what no filter chooses is not held at all.
    fn class(&self, root: &Discipline, default: u32) -> Option<u64> {
        let default = self.classes.iter().find(|one| one.handle == root.handle & MAJOR | default)?;
        if !self.sorted {
            return self.ceiling(default);
        }
        let is_leaf = |one: &&Class| self.classes.iter().all(|other| other.parent != one.handle);
        let all: Option<Vec<u64>> =
            self.classes.iter().filter(is_leaf).map(|one| self.ceiling(one)).collect();
        all?.into_iter().max()
    }

    /// The lowest ceiling of the class and those that it is in. The outermost has nobody to borrow from: its own rate holds.
    fn ceiling(&self, class: &Class) -> Option<u64> {
        let (mut lowest, mut outermost) = (None, class);
        for _ in 0..LEVELS {
            lowest = least(lowest, outermost.ceiling);
            let Some(outer) = self.classes.iter().find(|one| one.handle == outermost.parent) else { break };
            outermost = outer;
        }
        least(lowest, outermost.rate)
    }
}

/// The lowest rate of the policers that all packets pass.
fn policed(filters: &[Filter]) -> Option<u64> {
    filters.iter().filter_map(|filter| filter.policed).min()
}

#[cfg(test)]
mod tests;
