//! The disk benchmarks as a part of a report.

use crate::device::{DeviceDemand, io_limit};
use crate::fsync::DiskFsync;
use crate::io::DiskIo;
use crate::null::DiskNull;
use crate::saturation::DiskSaturation;
use plimsoll_bench_api::prelude::*;
use plimsoll_machine::{DiskKind, Storage};
use plimsoll_model::job::disk::{CacheMode, DiskTransfers, FsyncLoad};

/// The disk benchmarks.
pub static SUBSYSTEM: Subsystem = Subsystem {
    name: "disk",
    benchmarks: &[&DiskIo, &DiskFsync, &DiskSaturation, &DiskNull],
    title: "Disk",
    synonyms: &["storage", "io", "file"],
    about: "Read, write, fsync, queue depth (like fio)",
    context: |machine, first| machine.storage.as_ref().map(|s| context(s, first)).unwrap_or_default(),
    asked_first: &["op", "pattern", "block", "depth", "threads", "dir"],
    help: &[
        (
            "scaling",
            "with --volume or --count: weak (each thread does that amount) or strong (the threads divide it) [default: weak]",
        ),
        (
            "op",
            "read, write, append, mixed (see --read-share), copy (to another file) or trim [default: three loads: random reads of 4K, sequential reads of 1M, sequential writes of 1M; an option such as --block 8K applies to all three]",
        ),
        ("size", "size of the test file [default: up to 1G, less on a slow or nearly full disk]"),
        (
            "layout",
            "private (each thread uses its part of the file) or shared (each thread uses all of the file) [default: private]",
        ),
        (
            "rate",
            "target rate of all threads together, in transfers per second, such as 500: an open loop, free of coordinated omission [default: as fast as possible]",
        ),
        (
            "block",
            "block size, or with --only disk.io a mix: 4K@60+64K@40 is 60 % of 4K and 40 % of 64K; a size that is not a multiple of 512 goes through the page cache [default: 4K,1M; disk.fsync: 4K]",
        ),
        (
            "volume",
            "end a sample after this many bytes, such as 1G, per thread (with --scaling strong: in total), instead of after --sample-time",
        ),
        (
            "count",
            "end a sample after this many transfers per thread (with --scaling strong: in total), instead of after --sample-time",
        ),
    ],
    cpus: |_, _| Vec::new(),
    on_files: true,
    setting: |measurement, machine| io_limit::setting(measurement, machine, demand(&measurement.case)?),
    has_percentiles: true,
    is_alone: crate::device::alone::is_alone,
    ..Subsystem::USUAL
};

fn demand(case: &Case) -> Option<DeviceDemand> {
    if case.benchmark() == DiskFsync.name() {
        return Some(FsyncLoad::of(case).ok()?.into());
    }
    DeviceDemand::of(&DiskTransfers::of(case).ok()?)
}

fn is_direct(case: &Case) -> bool {
    let of_transfers = [DiskIo.name(), DiskSaturation.name()].contains(&case.benchmark());
    of_transfers && DiskTransfers::of(case).is_ok_and(|job| job.cache == CacheMode::Direct)
}

fn context(storage: &Storage, first: &Measurement) -> Vec<String> {
    let mut parts = vec![storage.path.clone()];
    parts.extend(storage.file_system.as_ref().map(|fs| fs.fs_type.clone()));
    parts.extend(storage.layers.iter().map(|layer| layer.name.clone()));
    parts.extend(storage.disks.iter().map(|disk| {
        let kind = serde_json::to_value(disk.kind).ok();
        let kind = kind.as_ref().and_then(|k| k.as_str()).unwrap_or("disk");
        let cache = matches!(disk.kind, DiskKind::Virtio | DiskKind::Xen).then_some("(host may cache)");
        let words = [Some(disk.name.as_str()), disk.model.as_deref(), Some(kind), cache];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }));
    parts.extend(is_direct(&first.case).then(|| "direct I/O".to_owned()));
    parts
}
