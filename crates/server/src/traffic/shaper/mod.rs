//! Rate limits that the kernel applies to an interface (linux/rtnetlink.h): queueing disciplines
//! and policers. Only limits that all packets pass are reported: of the root, below a root that
//! only delays (`netem`), and of the default class (`htb`) without filters.

pub(super) mod read;

use rustix::fd::OwnedFd;

use super::netlink;
use super::route::lower_interfaces;
use crate::wire::Shaping;
use read::{Class, Discipline, MessageReader, ShaperKind};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;
/// `TC_H_ROOT`: the parent of an interface's first discipline.
const ROOT: u32 = u32::MAX;
/// Parents of filters for incoming and outgoing packets (`TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`).
const COMING: u32 = 0xffff_fff2;
const LEAVING: u32 = 0xffff_fff3;
/// Part of a handle that identifies the discipline (`TC_H_MAJ_MASK`).
const MAJOR: u32 = 0xffff_0000;
const MAX_INTERFACE_DEPTH: usize = 4;
const LEVELS: usize = 8;

/// Returns the kernel's rate limits of `interface` and those below it, bit/s; none if unknown.
pub fn read_shaping(interface: &str) -> Shaping {
    let mut all = Shaping::default();
    let mut name = interface.to_owned();
    for _ in 0..MAX_INTERFACE_DEPTH {
        let own = of_one(&name).unwrap_or_default();
        all = Shaping {
            out: least(all.out, own.out),
            each_out: least(all.each_out, own.each_out),
            into: least(all.into, own.into),
        };
        let Ok([lower]) = <[String; 1]>::try_from(lower_interfaces(&name)) else { break };
        name = lower;
    }
    all
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

fn of_one(interface: &str) -> Option<Shaping> {
    let (socket, index) = netlink::open_for(interface)?;
    let disciplines = dump(&socket, RTM_GETQDISC, index, 0, read::discipline)?;
    let mut known = KnownInterface { disciplines, ..KnownInterface::default() };
    if let Some(root) = known.root().filter(|root| matches!(root.kind, ShaperKind::Classes(_))).copied() {
        known.classes = dump(&socket, RTM_GETTCLASS, index, 0, read::class)?;
        known.sorted = !dump(&socket, RTM_GETTFILTER, index, root.handle, read::filter)?.is_empty();
    }
    if known.disciplines.iter().any(|one| one.kind == ShaperKind::Ingress) {
        let filters = |parent| dump(&socket, RTM_GETTFILTER, index, parent, read::filter);
        known.coming = filters(COMING).unwrap_or_default();
        known.leaving = filters(LEAVING).unwrap_or_default();
    }
    Some(known.shaping())
}

fn dump<T>(socket: &OwnedFd, what: u16, index: u32, parent: u32, one: MessageReader<T>) -> Option<Vec<T>> {
    netlink::dump(socket, what, &[0, index, 0, parent, 0], read::of_interface(index, one))
}

#[derive(Debug, Default)]
struct KnownInterface {
    disciplines: Vec<Discipline>,
    classes: Vec<Class>,
    sorted: bool,
    /// Rates of the policers of incoming and of outgoing packets, bit/s.
    coming: Vec<Option<u64>>,
    leaving: Vec<Option<u64>>,
}

impl KnownInterface {
    fn root(&self) -> Option<&Discipline> {
        self.disciplines.iter().find(|one| one.parent == ROOT)
    }

    fn shaping(&self) -> Shaping {
        let of_root = self.root().map(|root| self.passed(root)).unwrap_or_default();
        Shaping {
            out: least(of_root.out, self.leaving.iter().flatten().min().copied()),
            each_out: of_root.each_out,
            into: self.coming.iter().flatten().min().copied(),
        }
    }

    fn passed(&self, root: &Discipline) -> Shaping {
        let is_below = |one: &&Discipline| one.parent != ROOT && one.parent & MAJOR == root.handle & MAJOR;
        let mut below = self.disciplines.iter().filter(is_below).map(|one| one.kind);
        let (out, each_out) = match root.kind {
            ShaperKind::Bucket(rate) => (Some(rate), None),
            ShaperKind::Each(rate) => (None, Some(rate)),
            ShaperKind::Delay(own) => match below.next() {
                Some(ShaperKind::Bucket(rate)) => (least(own, Some(rate)), None),
                _ => (own, None),
            },
            ShaperKind::Classes(default) => (self.class_rate(root, default), None),
            // The highest rate of the queues: the kernel chooses a connection's queue.
            ShaperKind::Queues => {
                let each = |kind| if let ShaperKind::Each(rate) = kind { Some(rate) } else { None };
                let all: Option<Vec<u64>> = below.map(each).collect();
                (None, all.and_then(|all| all.into_iter().max()))
            }
            ShaperKind::Ingress | ShaperKind::Other => (None, None),
        };
        Shaping { out, each_out, into: None }
    }

    /// Returns the rate limit, bit/s, of class `default` of `root`, or the highest of all classes
    /// if filters select among them. `None` without a default class or if a class has no limit.
    fn class_rate(&self, root: &Discipline, default: u32) -> Option<u64> {
        let default = self.classes.iter().find(|one| one.handle == root.handle & MAJOR | default)?;
        if !self.sorted {
            return self.ceiling(default);
        }
        let is_leaf = |one: &&Class| self.classes.iter().all(|other| other.parent != one.handle);
        let all: Option<Vec<u64>> =
            self.classes.iter().filter(is_leaf).map(|one| self.ceiling(one)).collect();
        all?.into_iter().max()
    }

    /// Returns the limit of `class`, bit/s: the lowest of the ceilings of the class and its parents
    /// and of the rate of the outermost one, which cannot borrow; `None` without a limit.
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

#[cfg(test)]
mod tests;
