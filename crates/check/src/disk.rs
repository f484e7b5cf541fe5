//! Disk figures: limited by the disk's link; impossible if the disk moved less or there is no disk.

mod place;

use plimsoll_machine::disk::{DeviceLink, DiskKind};
use plimsoll_machine::{Disk, Machine};
use plimsoll_reference::stated::{DiskCounters, DiskUse, EquivalentCase, StatedFigure};
use plimsoll_units::quantity::{Quantity, Unit, percent, significant};

use crate::ask::{HeldFigure, ask};
use crate::{CheckedMachine, ImpossibleCause};
use place::DisksBehind;

/// Least assumed maximum request of a disk in bytes: the setting may have changed since. The
/// kernel's default is 1.25 MiB, 4 MiB since 6.16 (`BLK_DEF_MAX_SECTORS_CAP`).
const LARGEST_REQUEST: f64 = (4 << 20) as f64;
const LEAST_MOVED: f64 = (4 << 20) as f64;
/// Maximum time in s between a tool's last count and its end (fio's DISK_UTIL_MSEC).
const LAG: f64 = 0.25;
const LEAST_SECONDS: f64 = 1.0;
const LEAST_SHARE: f64 = 0.5;
/// Minimum latency of a block device in s: submission, interrupt and PCI Express take as long. The
/// fastest drives sold (Intel Optane P5800X) are specified with 5 µs.
const MIN_LATENCY_S: f64 = 2e-6;
/// Maximum random transfers/s of a rotating disk: four per rotation at 15,000 rpm, by reordering.
const MAX_SEEKS_PER_S: f64 = 1000.0;

pub(crate) fn held(figure: &StatedFigure, used: &DiskUse, place: &CheckedMachine<'_>) -> HeldFigure {
    if let Some(client) = &used.client {
        let counts = FigureOfDisks { figure, used, place, behind: None }.by_counts();
        let why = "check it there, or name that machine's saved file with --machine";
        let why = format!("its job ran on {client}: {why}");
        if !place.is_named || counts.is_some() {
            return HeldFigure { sure: counts, ..HeldFigure::unknown(why) };
        }
    }
    let (behind, mut held) = match place::behind(used, place) {
        Ok(behind) => {
            let held = ask(figure, &behind.machine, |like: &EquivalentCase| vec![like.clone()]);
            (Some(behind), held)
        }
        Err((cause, why)) => {
            let sure = cause.map(|cause| (cause, why.clone()));
            (None, HeldFigure { sure, ..HeldFigure::unknown(why) })
        }
    };
    let shown = FigureOfDisks { figure, used, place, behind: behind.as_ref() };
    held.sure = held.sure.or_else(|| shown.by_counts());
    held.likely = likely_cause(used, behind.as_ref());
    held.possible =
        "a cache of the host or the controller, data that the device compresses, bits and bytes confused";
    let looped = shown.behind.and_then(|behind| behind.looped.as_ref());
    held.note = looped.map(|layer| {
        format!("{layer} is a loop device: the page cache of the file behind it may have answered")
    });
    held.doubt = shown.doubt();
    held.incomplete = behind.and_then(|behind| behind.incomplete);
    held
}

struct FigureOfDisks<'a> {
    figure: &'a StatedFigure,
    used: &'a DiskUse,
    place: &'a CheckedMachine<'a>,
    behind: Option<&'a DisksBehind>,
}

impl FigureOfDisks<'_> {
    fn by_counts(&self) -> Option<(ImpossibleCause, String)> {
        let Self { used, place: CheckedMachine { machine, .. }, .. } = self;
        self.cached().or_else(|| compressed(used, machine)).or_else(|| self.unwritten())
    }

    /// Returns the seconds that one block takes on the links of the disks together; 0 if a link is
    /// unknown or the machine is a guest, whose links are fictitious.
    fn link_seconds(&self) -> f64 {
        let behind = self.behind.filter(|_| self.place.machine.virtualisation.is_virtual == Some(false));
        let speed = |disk: &Disk| disk.link.as_ref().map(DeviceLink::coded_bit_per_s);
        let speeds = behind.and_then(|behind| behind.disks().iter().map(speed).sum::<Option<f64>>());
        let speed = speeds.filter(|speed| *speed > 0.0).map(|speed| speed / 8.0);
        speed.zip(self.used.block).map_or(0.0, |(speed, block)| block / speed)
    }

    /// Returns cause and reason if the page cache answered a buffered job; else `None`.
    fn cached(&self) -> Option<(ImpossibleCause, String)> {
        let Self { figure, used, place: CheckedMachine { machine, .. }, .. } = self;
        // Persistent memory may be read without the page cache even without O_DIRECT (DAX).
        if used.cached != Some(true) || used.counted.iter().any(DiskCounters::is_memory) {
            return None;
        }
        if let Some(DiskShortfall::Sure(text)) = disk_shortfall(figure, used, machine) {
            return Some((ImpossibleCause::PageCache, format!("buffered (direct=0): {text}")));
        }
        // A rate includes the wait for the disk, a latency does not.
        let waits = used.writes && used.syncs && figure.unit != Unit::Second;
        let took = lone_transfer_too_fast(used, self.link_seconds())
            .filter(|_| !waits && DiskCounts::of(used, machine).is_none_or(|_| is_short(used)))?;
        Some((ImpossibleCause::PageCache, format!("buffered (direct=0), and {took}")))
    }

    /// Returns cause and reason if direct reads reached no disk, as in a hole; else `None`.
    fn unwritten(&self) -> Option<(ImpossibleCause, String)> {
        let Self { figure, used, place, .. } = self;
        if !used.reads_directly || used.counted.iter().any(DiskCounters::is_memory) {
            return None;
        }
        let disks = self.behind.map_or(&[][..], DisksBehind::disks);
        let are_in_memory = disks.iter().any(|disk| matches!(disk.kind, DiskKind::Ram | DiskKind::Zram));
        if used.counted.is_empty() && (!place.is_named || disks.is_empty() || are_in_memory) {
            return None;
        }
        let shown = match disk_shortfall(figure, used, place.machine) {
            Some(DiskShortfall::Sure(text)) => text,
            _ => lone_transfer_too_fast(used, self.link_seconds())?,
        };
        let text = format!(
            "direct=1, but {shown}: reads of what was never written (a hole, or space that is only allocated) ask no disk"
        );
        Some((ImpossibleCause::Unwritten, text))
    }

    fn doubt(&self) -> Option<String> {
        let Self { figure, used, place, .. } = self;
        if used.cached == Some(true)
            && let Some(DiskShortfall::Open(why)) = disk_shortfall(figure, used, place.machine)
        {
            return Some(why);
        }
        self.exceeds_seek_rate().or_else(|| self.answered_by_memory()).or_else(|| {
            let took = lone_transfer_too_fast(used, self.link_seconds()).filter(|_| used.cached == Some(false))?;
            Some(format!("{took}, and its file does not show what answered: memory, a cache, or space that was never written"))
        })
    }

    /// Returns a reason to doubt a transfer rate too high for rotating disks; else `None`.
    fn exceeds_seek_rate(&self) -> Option<String> {
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
        (each > MAX_SEEKS_PER_S).then(|| {
            let kind = if used.syncs_each { "writes that wait for the disk" } else { "transfers at random places" };
            format!(
                "{} {kind} a second: a rotating disk needs half a turn for one on average (2 ms at 15,000 rpm, 4.2 ms at 7200), \
                 so a cache of the disk, the controller or the kernel answered, or only a small part of the disk was used",
                significant(each, 3)
            )
        })
    }

    /// Returns a reason to doubt a buffered figure whose data may fit in memory; else `None`.
    fn answered_by_memory(&self) -> Option<String> {
        let Self { used, place: CheckedMachine { machine, .. }, .. } = self;
        let waits = used.writes && used.syncs;
        if used.cached != Some(true) || waits || DiskCounts::of(used, machine).is_some() {
            return None;
        }
        let own = used.writes.then_some(used.own);
        let bytes =
            own.map_or(used.file_bytes, |own| Some(used.file_bytes.map_or(own, |file| own.min(file))));
        let share = match bytes.zip(machine.memory.total_bytes.map(|bytes| bytes as f64)) {
            Some((bytes, memory)) if bytes > memory => return None,
            Some((bytes, memory)) if bytes > 0.0 => {
                format!(" ({}, {} of memory)", shown(bytes), percent(bytes / memory, 1))
            }
            _ => String::new(),
        };
        let why = "buffered, and the file does not show what the disk did: the page cache may have answered";
        Some(format!("{why}{share}"))
    }
}

/// Returns a phrase if a transfer alone in flight took less time than any disk needs: the minimum
/// latency plus `crossing`, the seconds on its link; else `None`.
fn lone_transfer_too_fast(used: &DiskUse, crossing: f64) -> Option<String> {
    let least = MIN_LATENCY_S + crossing;
    let lone = used.lone_seconds.filter(|seconds| *seconds > 0.0 && *seconds < least)?;
    let lone = Quantity::new(lone, Unit::Second);
    let link = match crossing * 10.0 > MIN_LATENCY_S {
        true => format!(" (its link alone needs {})", Quantity::new(crossing, Unit::Second)),
        false => String::new(),
    };
    Some(format!("a transfer took {lone} on average: too fast for a disk{link}"))
}

enum DiskShortfall {
    Sure(String),
    Open(String),
}

fn is_short(used: &DiskUse) -> bool {
    used.seconds.is_none_or(|seconds| seconds < LEAST_SECONDS)
}

/// Returns whether `counted` is under half of `own`, even if the counts lack the job's last 250 ms.
fn lacks(used: &DiskUse, counted: f64, own: f64) -> bool {
    let late = used.seconds.map_or(1.0, |seconds| (LAG / seconds).min(1.0));
    counted + own * late < own * LEAST_SHARE
}

/// Compares the counts of the disks, a sum over all jobs, with the bytes that the jobs report.
/// Returns a description if the disks moved too little; `None` if enough or not counted.
fn disk_shortfall(figure: &StatedFigure, used: &DiskUse, machine: &Machine) -> Option<DiskShortfall> {
    let DiskCounts { disks, bytes, requests } = DiskCounts::of(used, machine)?;
    let verb = if used.writes { "wrote" } else { "read" };
    let waits = used.writes && used.syncs;
    let moved = shown(bytes);
    if used.own >= LEAST_MOVED && !is_short(used) && !waits {
        if lacks(used, bytes, used.own) {
            let own = shown(used.own);
            return Some(DiskShortfall::Sure(format!("it {verb} {own}, and {disks} moved at most {moved}")));
        }
        // Each random transfer takes a request, but the page cache merges neighbouring writes.
        let each = !used.writes || figure.unit == Unit::IoPerSecond;
        if let Some(random) = used.random.filter(|random| each && lacks(used, requests, *random)) {
            let (own, asked) = (significant(random, 3), significant(requests, 3));
            return Some(DiskShortfall::Sure(format!(
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
        DiskShortfall::Open(format!("the jobs {verb} {all}, and {disks} moved at most {moved}, but {why}"))
    })
}

/// Returns cause and reason if compression made the disk move less than the job; else `None`.
fn compressed(used: &DiskUse, machine: &Machine) -> Option<(ImpossibleCause, String)> {
    let option = used.compressible.as_ref()?;
    let DiskCounts { disks, bytes, .. } = DiskCounts::of(used, machine)?;
    let less = used.own >= LEAST_MOVED && bytes > 0.0 && lacks(used, bytes, used.own) && !is_short(used);
    (less && used.cached == Some(false)).then(|| {
        let [own, bytes] = [used.own, bytes].map(shown);
        let text =
            format!("{option}: it moved {own}, and {disks} at most {bytes}: the rest was compressed away");
        (ImpossibleCause::Compressed, text)
    })
}

struct DiskCounts {
    disks: String,
    /// Upper bound of the bytes moved.
    bytes: f64,
    requests: f64,
}

impl DiskCounts {
    /// Sums the counts of the disks in `used`; `None` if the kernel does not count all transfers.
    fn of(used: &DiskUse, machine: &Machine) -> Option<Self> {
        // Multipath NVMe devices count nothing; persistent memory may be read without requests.
        let blind = |disk: &DiskCounters| disk.is_memory() || disk.silent && disk.name.starts_with("nvme");
        if used.counted.is_empty() || used.counted.iter().any(blind) {
            return None;
        }
        let request = |name: &str| machine.disks.iter().find(|disk| disk.name == name)?.max_request_bytes;
        let most = |disk: &DiskCounters| {
            let request = request(&disk.name).map_or(0.0, |bytes| bytes as f64).max(LARGEST_REQUEST);
            disk.bytes.unwrap_or(disk.requests * request)
        };
        let names: Vec<&str> = used.counted.iter().map(|disk| disk.name.as_str()).take(4).collect();
        Some(Self {
            disks: names.join(", "),
            bytes: used.counted.iter().map(most).sum(),
            requests: used.counted.iter().map(|disk| disk.asked).sum(),
        })
    }
}

/// Returns (cause, reason) for a figure above the limit of the disk's link: page cache (buffered,
/// or a loop device) or compression. `None` without a sign of these. `behind` are the disks that
/// hold the file, if known.
fn likely_cause(used: &DiskUse, behind: Option<&DisksBehind>) -> Option<(ImpossibleCause, String)> {
    let layer = behind.and_then(|behind| behind.looped.as_ref());
    let (cause, why) = match layer {
        _ if used.cached == Some(true) => {
            (ImpossibleCause::PageCache, "buffered (direct=0): the page cache answered".to_owned())
        }
        Some(layer) => {
            let why = format!("{layer} is a loop device: the page cache of the file behind it answered");
            (ImpossibleCause::PageCache, why)
        }
        None => {
            let mounted = behind.and_then(|behind| behind.compresses.as_ref());
            let mounted = mounted.map(|option| format!("the file system is mounted with {option}"));
            let option = mounted.or_else(|| used.compressible.clone())?;
            (ImpossibleCause::Compressed, format!("{option}: less was moved than counted"))
        }
    };
    Some((cause, format!("past the disk's link, and {why}")))
}

fn shown(bytes: f64) -> Quantity {
    Quantity::new(bytes, Unit::Byte)
}
