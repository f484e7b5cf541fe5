//! Figures of a disk: held to the link of the disk that the file names, and not believed where the device moved less than
//! the figure counts, or where there is no disk.

mod place;

use plimsoll_machine::disk::{DiskKind, Link};
use plimsoll_machine::{Disk, Machine};
use plimsoll_reference::stated::{Counted, DiskUse, Figure, Like};
use plimsoll_units::quantity::{Quantity, Unit, percent, significant};

use crate::ask::{Held, ask_of};
use crate::{Cause, Place};
use place::{Behind, Nothing};

/// Bytes of the largest request of a disk, unless this machine's may be larger: the kernel's own default is 1.25 MiB, 4 MiB since
/// 6.16 (`BLK_DEF_MAX_SECTORS_CAP`). What this machine's disk has now, it need not have had.
const LARGEST_REQUEST: f64 = (4 << 20) as f64;
/// The least that the jobs of a file must have moved, for the disk's own counts to say something.
const LEAST_MOVED: f64 = (4 << 20) as f64;
/// How long before its end a tool may have counted last (fio's DISK_UTIL_MSEC).
const LAG: f64 = 0.25;
/// The least run whose counts say something.
const LEAST_SECONDS: f64 = 1.0;
/// The share of a job's bytes that the disk must have moved at least.
const LEAST_SHARE: f64 = 0.5;
/// A block device does not answer sooner: submission, interrupt and the crossings of PCI Express alone take as long (the quickest
/// drives sold, Intel Optane P5800X, are specified with 5 µs).
const SOONEST: f64 = 2e-6;
/// More random transfers per second than a rotating disk makes, even if it reorders a deep queue: four per turn at 15,000 rpm.
const MOST_MOVES: f64 = 1000.0;

pub(crate) fn held(figure: &Figure, used: &DiskUse, place: &Place<'_>) -> Held {
    if let Some(client) = &used.client {
        let counts = Shown { figure, used, place, behind: None }.by_counts();
        let why = format!(
            "its job ran on {client}: check it there, or name that machine's saved file with --machine"
        );
        let held = Held { sure: counts, ..Held::unknown(why) };
        if !place.is_named || held.sure.is_some() {
            return held;
        }
    }
    let behind = place::behind(used, place);
    let mut held = match &behind {
        Ok(Behind { machine, .. }) => ask_of(figure, machine, |like: &Like| vec![like.clone()]),
        Err(Nothing { why, .. }) => Held::unknown(why.clone()),
    };
    let shown = Shown { figure, used, place, behind: behind.as_ref().ok() };
    held.sure = match &behind {
        Err(Nothing { is: Some(cause), why }) => Some((*cause, why.clone())),
        _ => shown.by_counts(),
    };
    held.likely = likely(used, behind.as_ref().ok());
    held.possible =
        "a cache of the host or the controller, data that the device compresses, bits and bytes confused";
    held.note = shown.loop_note();
    held.doubt = shown.doubt();
    held.incomplete = behind.as_ref().ok().and_then(|behind| behind.incomplete.clone());
    held
}

/// A figure, and what is known of the disks behind it.
struct Shown<'a> {
    figure: &'a Figure,
    used: &'a DiskUse,
    place: &'a Place<'a>,
    behind: Option<&'a Behind>,
}

impl Shown<'_> {
    fn by_counts(&self) -> Option<(Cause, String)> {
        let Self { used, place: Place { machine, .. }, .. } = self;
        self.cached().or_else(|| compressed(used, machine)).or_else(|| self.unwritten())
    }

    /// Seconds that the link of the disks needs for one transfer; 0 where that is not known, or made up by a hypervisor.
    fn crossing(&self) -> f64 {
        let Some(behind) =
            self.behind.filter(|_| self.place.machine.virtualisation.is_virtual == Some(false))
        else {
            return 0.0;
        };
        let speeds: Option<f64> =
            behind.disks().iter().map(|disk| disk.link.as_ref().map(Link::coded_bit_per_s)).sum();
        let speed = speeds.filter(|speed| *speed > 0.0).map(|speed| speed / 8.0);
        speed.zip(self.used.block).map_or(0.0, |(speed, block)| block / speed)
    }

    /// That the page cache answered, as the disk's own counts or a latency show.
    fn cached(&self) -> Option<(Cause, String)> {
        let Self { figure, used, place: Place { machine, .. }, .. } = self;
        // Persistent memory may be read without the page cache though the file is open without O_DIRECT (DAX).
        if used.cached != Some(true) || used.counted.iter().any(Counted::is_memory) {
            return None;
        }
        if let Some(Short::Sure(text)) = short(figure, used, machine) {
            return Some((Cause::PageCache, format!("buffered (direct=0): {text}")));
        }
        // A rate includes the wait for the disk, a latency does not.
        let waits = used.writes && used.syncs && figure.unit != Unit::Second;
        let took = sooner(used, self.crossing())
            .filter(|_| !waits && Counts::of(used, machine).is_none_or(|_| is_short(used)))?;
        Some((Cause::PageCache, format!("buffered (direct=0), and {took}")))
    }

    /// That a direct read reached no disk.
    fn unwritten(&self) -> Option<(Cause, String)> {
        let Self { figure, used, place, .. } = self;
        if !used.reads_directly || used.counted.iter().any(Counted::is_memory) {
            return None;
        }
        // Without the tool's counts the user must have named the machine, whose disks are known to be no memory.
        if used.counted.is_empty() && !(place.is_named && self.has_disks()) {
            return None;
        }
        let shown = match short(figure, used, place.machine) {
            Some(Short::Sure(text)) => text,
            _ => sooner(used, self.crossing())?,
        };
        let text = format!(
            "direct=1, but {shown}: reads of what was never written (a hole, or space that is only allocated) ask no disk"
        );
        Some((Cause::Unwritten, text))
    }

    /// Whether the disks are known, and none is memory.
    fn has_disks(&self) -> bool {
        let disks = self.behind.map_or(&[][..], Behind::disks);
        !disks.is_empty() && disks.iter().all(|disk| !matches!(disk.kind, DiskKind::Ram | DiskKind::Zram))
    }

    /// Why the figure cannot be judged though it is within the limit.
    fn doubt(&self) -> Option<String> {
        let Self { figure, used, place, .. } = self;
        if used.cached == Some(true)
            && let Some(Short::Open(why)) = short(figure, used, place.machine)
        {
            return Some(why);
        }
        self.too_many_turns().or_else(|| self.answered_by_memory()).or_else(|| {
            let took = sooner(used, self.crossing()).filter(|_| used.cached == Some(false))?;
            Some(format!("{took}, and its file does not show what answered: memory, a cache, or space that was never written"))
        })
    }

    /// That a rotating disk would have to move its heads too often.
    fn too_many_turns(&self) -> Option<String> {
        let disks = self.behind?.disks();
        let rotates = |disk: &Disk| disk.rotational == Some(true);
        let Self { figure, used, .. } = self;
        if disks.is_empty() || !disks.iter().all(rotates) || used.random.is_none() && !used.syncs_each {
            return None;
        }
        let rate = match figure.unit {
            Unit::IoPerSecond => figure.value,
            Unit::BytePerSecond => figure.value / used.block?,
            _ => return None,
        };
        let each = rate / disks.len() as f64;
        (each > MOST_MOVES).then(|| {
            let kind = if used.syncs_each { "writes that wait for the disk" } else { "transfers at random places" };
            format!(
                "{} {kind} a second: a rotating disk needs half a turn for one on average (2 ms at 15,000 rpm, 4.2 ms at 7200), \
                 so a cache of the disk, the controller or the kernel answered, or only a small part of the disk was used",
                significant(each, 3)
            )
        })
    }

    /// That the page cache may hold all of it, and nothing was counted at the disks.
    fn answered_by_memory(&self) -> Option<String> {
        let Self { used, place: Place { machine, .. }, .. } = self;
        let waits = used.writes && used.syncs;
        if used.cached != Some(true) || waits || Counts::of(used, machine).is_some() {
            return None;
        }
        let memory = machine.memory.total_bytes.map(|bytes| bytes as f64);
        // A block that is written again replaces the earlier one in the page cache.
        let own = used.writes.then_some(used.own);
        let bytes =
            own.map_or(used.file_bytes, |own| Some(used.file_bytes.map_or(own, |file| own.min(file))));
        match bytes.zip(memory) {
            Some((bytes, memory)) if bytes > memory => None,
            Some((bytes, memory)) if bytes > 0.0 => Some(format!(
                "buffered, and the file does not show what the disk did: the page cache may have answered ({}, {} of memory)",
                shown(bytes),
                percent(bytes / memory, 1)
            )),
            _ => Some(
                "buffered, and the file does not show what the disk did: the page cache may have answered"
                    .to_owned(),
            ),
        }
    }

    fn loop_note(&self) -> Option<String> {
        let layer = self.behind?.looped.as_ref()?;
        Some(format!("{layer} is a loop device: the page cache of the file behind it may have answered"))
    }
}

/// That a transfer took less than a disk needs, whose link needs `crossing` seconds for it.
fn sooner(used: &DiskUse, crossing: f64) -> Option<String> {
    let least = SOONEST + crossing;
    let lone = used.lone_seconds.filter(|seconds| *seconds > 0.0 && *seconds < least)?;
    let lone = Quantity::new(lone, Unit::Second);
    let link = match crossing * 10.0 > SOONEST {
        true => format!(" (its link alone needs {})", Quantity::new(crossing, Unit::Second)),
        false => String::new(),
    };
    Some(format!("a transfer took {lone} on average: too fast for a disk{link}"))
}

/// That the disks were asked for less than the jobs count.
enum Short {
    /// Whichever job the disks' counts are of.
    Sure(String),
    /// Something else explains it.
    Open(String),
}

/// Whether the jobs are too short for the tool's counts.
fn is_short(used: &DiskUse) -> bool {
    used.seconds.is_none_or(|seconds| seconds < LEAST_SECONDS)
}

/// Whether the disks did too little for the figure. Their counts are those of all jobs, and lack the end of the run.
fn short(figure: &Figure, used: &DiskUse, machine: &Machine) -> Option<Short> {
    let Counts { disks, bytes, requests } = Counts::of(used, machine)?;
    let verb = if used.writes { "wrote" } else { "read" };
    let waits = used.writes && used.syncs;
    let late = used.seconds.map_or(1.0, |seconds| (LAG / seconds).min(1.0));
    let lacks = |counted: f64, own: f64| counted + own * late < own * LEAST_SHARE;
    let moved = shown(bytes);
    if used.own >= LEAST_MOVED && !is_short(used) && !waits {
        if lacks(bytes, used.own) {
            let own = shown(used.own);
            return Some(Short::Sure(format!("it {verb} {own}, and {disks} moved at most {moved}")));
        }
        // What is at random places and not in the page cache takes a request each. Neighbouring pages are written as one.
        let each = !used.writes || figure.unit == Unit::IoPerSecond;
        if let Some(random) = used.random.filter(|random| each && lacks(requests, *random)) {
            let (own, asked) = (significant(random, 3), significant(requests, 3));
            return Some(Short::Sure(format!(
                "it {verb} {own} times at random places, and {disks} got {asked} requests"
            )));
        }
    }
    let few = bytes < used.moved * LEAST_SHARE;
    few.then(|| {
        let why = match () {
            () if is_short(used) => "its run is too short for these counts, which may lack the last 250 ms",
            () if waits => "what it waited for at the end may not be counted",
            () => "the counts are of all jobs, and do not say whose transfers the page cache answered",
        };
        let all = shown(used.moved);
        Short::Open(format!("the jobs {verb} {all}, and {disks} moved at most {moved}, but {why}"))
    })
}

/// That less was moved than counted because the data could be compressed.
fn compressed(used: &DiskUse, machine: &Machine) -> Option<(Cause, String)> {
    let option = used.compressible.as_ref()?;
    let Counts { disks, bytes, .. } = Counts::of(used, machine)?;
    let late = used.seconds.map_or(1.0, |seconds| (LAG / seconds).min(1.0));
    let few = bytes + used.own * late < used.own * LEAST_SHARE;
    let less = used.own >= LEAST_MOVED && bytes > 0.0 && few && !is_short(used);
    (less && used.cached == Some(false)).then(|| {
        let text = format!(
            "{option}: it moved {}, and {disks} at most {}: the rest was compressed away",
            shown(used.own),
            shown(bytes)
        );
        (Cause::Compressed, text)
    })
}

/// What the kernel counted at the disks in a figure's direction.
struct Counts {
    /// The disks by name.
    disks: String,
    /// The most bytes that they moved.
    bytes: f64,
    /// Requests, those merged into others included.
    requests: f64,
}

impl Counts {
    /// What was counted; `None` where the kernel does not count all.
    fn of(used: &DiskUse, machine: &Machine) -> Option<Self> {
        // An NVMe device of several paths counts nothing itself, and persistent memory may be read without requests.
        let blind = |disk: &Counted| disk.is_memory() || disk.silent && disk.name.starts_with("nvme");
        if used.counted.is_empty() || used.counted.iter().any(blind) {
            return None;
        }
        let request = |name: &str| {
            let own = machine.disks.iter().find(|disk| disk.name == name)?.max_request_bytes?;
            Some(own as f64)
        };
        let most = |disk: &Counted| {
            disk.bytes
                .unwrap_or_else(|| disk.requests * request(&disk.name).unwrap_or(0.0).max(LARGEST_REQUEST))
        };
        let names: Vec<&str> = used.counted.iter().map(|disk| disk.name.as_str()).take(4).collect();
        Some(Self {
            disks: names.join(", "),
            bytes: used.counted.iter().map(most).sum(),
            requests: used.counted.iter().map(|disk| disk.asked).sum(),
        })
    }
}

/// What is the matter where the figure is past the limit.
fn likely(used: &DiskUse, behind: Option<&Behind>) -> Option<(Cause, String)> {
    if used.cached == Some(true) {
        let text = "past the disk's link, and buffered (direct=0): the page cache answered".to_owned();
        return Some((Cause::PageCache, text));
    }
    if let Some(layer) = behind.and_then(|behind| behind.looped.as_ref()) {
        let text = format!(
            "past the disk's link, and {layer} is a loop device: the page cache of the file behind it answered"
        );
        return Some((Cause::PageCache, text));
    }
    if let Some(option) = behind.and_then(|behind| behind.compresses.as_ref()) {
        let text = format!(
            "past the disk's link, and the file system is mounted with {option}: less was moved than counted"
        );
        return Some((Cause::Compressed, text));
    }
    let option = used.compressible.as_ref()?;
    let text = format!("past the disk's link, and {option}: less was moved than counted");
    Some((Cause::Compressed, text))
}

fn shown(bytes: f64) -> Quantity {
    Quantity::new(bytes, Unit::Byte)
}
