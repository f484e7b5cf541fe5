//! Figures of a disk: held to the link of the disk that the file names, and not believed where the device moved less than
//! the figure counts, or where there is no disk.

mod place;

use crate::ask::{Held, ask_of};
use crate::machine::Machine;
use crate::quantity::{Quantity, Unit, percent, significant};
use crate::stated::{Counted, DiskUse, Figure, Like};
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

pub(crate) fn held(figure: &Figure, used: &DiskUse, place: &Place<'_>) -> Held {
    if let Some(client) = &used.client {
        let counts = by_counts(figure, used, place.machine);
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
    held.sure = match &behind {
        Err(Nothing { is: Some(cause), why }) => Some((*cause, why.clone())),
        _ => by_counts(figure, used, place.machine),
    };
    held.likely = likely(used, behind.as_ref().ok());
    held.possible =
        "a cache of the host or the controller, data that the device compresses, bits and bytes confused";
    held.note = note(used, behind.as_ref().ok(), place);
    if used.cached == Some(true)
        && let Some(Short::Open(why)) = short(figure, used, place.machine)
    {
        held.doubt = Some(why);
    }
    held
}

/// What the disks' counts or a latency show to be wrong.
fn by_counts(figure: &Figure, used: &DiskUse, machine: &Machine) -> Option<(Cause, String)> {
    cached(figure, used, machine)
        .or_else(|| compressed(used, machine))
        .or_else(|| unwritten(figure, used, machine))
}

/// That the page cache answered, as the disk's own counts or a latency show.
fn cached(figure: &Figure, used: &DiskUse, machine: &Machine) -> Option<(Cause, String)> {
    if used.cached != Some(true) {
        return None;
    }
    if let Some(Short::Sure(text)) = short(figure, used, machine) {
        return Some((Cause::PageCache, format!("buffered (direct=0): {text}")));
    }
    // A rate includes the wait for the disk, a latency does not.
    let waits = used.writes && used.syncs && figure.unit != Unit::Second;
    let took = sooner(used).filter(|_| !waits && Counts::of(used, machine).is_none_or(|_| is_short(used)))?;
    Some((Cause::PageCache, format!("buffered (direct=0), and {took}")))
}

/// That a direct read reached no disk.
fn unwritten(figure: &Figure, used: &DiskUse, machine: &Machine) -> Option<(Cause, String)> {
    if !used.reads_directly || used.counted.is_empty() || used.counted.iter().any(Counted::is_memory) {
        return None;
    }
    let shown = match short(figure, used, machine) {
        Some(Short::Sure(text)) => text,
        _ => sooner(used)?,
    };
    let text = format!(
        "direct=1, but {shown}: reads of what was never written (a hole, or space that is only allocated) ask no disk"
    );
    Some((Cause::Unwritten, text))
}

/// That a transfer took less than a disk needs.
fn sooner(used: &DiskUse) -> Option<String> {
    let lone = used.lone_seconds.filter(|seconds| *seconds > 0.0 && *seconds < SOONEST)?;
    let lone = Quantity::new(lone, Unit::Second);
    Some(format!("a transfer took {lone} on average: too fast for a disk"))
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
    let option = used.compressible.as_ref()?;
    let text = format!("past the disk's link, and {option}: less was moved than counted");
    Some((Cause::Compressed, text))
}

/// What is to be said of a figure within the limit.
fn note(used: &DiskUse, behind: Option<&Behind>, place: &Place<'_>) -> Option<String> {
    if let Some(layer) = behind.and_then(|behind| behind.looped.as_ref()) {
        return Some(format!(
            "{layer} is a loop device: the page cache of the file behind it may have answered"
        ));
    }
    (used.cached == Some(true) && Counts::of(used, place.machine).is_none()).then(|| {
        let memory = place.machine.memory.total_bytes.map(|bytes| bytes as f64);
        let small = used.file_bytes.zip(memory).filter(|(file, memory)| file < memory);
        let fits = small
            .map(|(file, memory)| format!(" ({}, {} of memory)", shown(file), percent(file / memory, 1)));
        format!("buffered: the page cache may have answered in part{}", fits.unwrap_or_default())
    })
}

fn shown(bytes: f64) -> Quantity {
    Quantity::new(bytes, Unit::Byte)
}
