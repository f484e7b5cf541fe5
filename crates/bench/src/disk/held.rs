//! The rate that a control group holds the transfers of a case to.

use crate::case::Case;
use crate::machine::cgroup::IoLimit;
use crate::machine::disk::DiskKind;
use crate::machine::mounts::DeviceNumber;
use crate::machine::storage::Medium;
use crate::machine::{Machine, Storage};
use crate::measurement::Measurement;
use crate::quantity::{Quantity, Unit};
use crate::setting::{Kind, Setting};

/// The tightest limit of this process's groups on what the case reads or writes. A group limits bytes and transfers; each bounds the other by
/// the size of a block.
pub(super) fn setting(measurement: &Measurement, machine: &Machine) -> Option<Setting> {
    let case = &measurement.case;
    let unit = measurement.headline()?.unit;
    let block = case.number("block")? as f64;
    let storage = machine.storage.as_ref().filter(|_| reaches_the_device(case))?;
    let (bytes, transfers) = machine
        .cgroup
        .io
        .iter()
        .filter(|limit| is_on(storage, limit))
        .map(|limit| of_way(case, limit))
        .fold((None, None), |all, one| (tighter(all.0, one.0), tighter(all.1, one.1)));
    let rate = match unit {
        Unit::BytePerSecond => tighter(bytes, transfers.map(|each| each * block)),
        Unit::IoPerSecond => tighter(transfers, bytes.map(|each| each / block)),
        _ => None,
    }?;
    Some(Setting { kind: Kind::IoLimit, rate: Quantity { value: rate, unit } })
}

/// Whether each transfer is one of the device.
fn reaches_the_device(case: &Case) -> bool {
    case.word("cache").is_none_or(|cache| cache == "direct")
}

/// Whether all transfers pass the device of a limit: the one below the file system, or the only disk below that. A file system that holds the
/// file of a loop device may answer from its cache.
fn is_on(storage: &Storage, limit: &IoLimit) -> bool {
    let on_disk = storage.file_system.as_ref().is_none_or(|fs| fs.medium == Medium::Device);
    let is_looped = storage.layers.iter().any(|layer| layer.kind == DiskKind::Loop);
    let only = match storage.disks.as_slice() {
        [disk] if !is_looped => disk.number,
        _ => None,
    };
    let is = |number: Option<DeviceNumber>| number.is_some_and(|number| number.to_string() == limit.device);
    on_disk && (is(storage.number) || is(only))
}

/// Bytes and transfers a second of the way that the case has. Both ways share neither.
fn of_way(case: &Case, limit: &IoLimit) -> (Option<f64>, Option<f64>) {
    let (bytes, transfers) = match case.word("op") {
        Some("read") => (limit.read_bytes, limit.reads),
        Some("write" | "append") => (limit.write_bytes, limit.writes),
        _ => (None, None),
    };
    (bytes.map(|n| n as f64), transfers.map(|n| n as f64))
}

fn tighter(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::machine::Root;

    const BYTES: u64 = 4_096_000;

    /// The limit of a case in a unit, on `254:0`, whose group may read [`BYTES`] or 500 times a second from a device, and writes at will.
    fn rate(case: &str, unit: Unit, device: &str) -> Option<f64> {
        let mut machine = Machine::discover(&Root::live());
        let number = "254:0".parse().ok();
        machine.storage = Some(Storage { number, ..Storage::default() });
        let of = |read_bytes, reads| IoLimit {
            device: device.to_owned(),
            read_bytes,
            reads,
            ..IoLimit::default()
        };
        machine.cgroup.io = vec![of(Some(BYTES), None), of(None, Some(500))];
        let mut measurement = crate::view::testing::peak(1, 1.0);
        measurement.case = case.parse().unwrap();
        measurement.metrics[0].unit = unit;
        setting(&measurement, &machine).map(|setting| setting.rate.value)
    }

    #[test]
    fn bytes_and_transfers_bound_each_other() {
        let of = |block: &str, unit| rate(&format!("disk.io/op=read/block={block}"), unit, "254:0");
        assert_eq!(of("1M", Unit::BytePerSecond), Some(BYTES as f64));
        assert_eq!(of("4K", Unit::BytePerSecond), Some(500.0 * 4096.0));
        assert_eq!(of("4K", Unit::IoPerSecond), Some(500.0));
        assert_eq!(of("1M", Unit::IoPerSecond), Some(BYTES as f64 / f64::from(1 << 20)));
        assert_eq!(of("4K", Unit::Second), None);
    }

    #[test]
    fn what_does_not_pass_the_limit_is_not_held() {
        let of = |case, device| rate(case, Unit::BytePerSecond, device);
        assert_eq!(of("disk.io/op=read/block=1M", "254:16"), None);
        assert_eq!(of("disk.io/op=write/block=1M", "254:0"), None);
        assert_eq!(of("disk.io/op=mixed/block=1M", "254:0"), None);
        assert_eq!(of("disk.io/op=read/block=1M/cache=buffered", "254:0"), None);
    }
}
