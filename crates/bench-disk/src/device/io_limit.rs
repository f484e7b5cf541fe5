//! Rate limits of control groups on the device: `io.max` (version 2), `blkio.throttle` (version 1).

use std::collections::BTreeSet;

use crate::device::{DemandUnit, DeviceDemand, Shares};
use crate::metrics::LATENCY_METRIC;
use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::setting::{self, Setting};
use plimsoll_machine::cgroup::IoLimit;
use plimsoll_machine::{DeviceNumber, DiskKind, Medium, Storage};
use plimsoll_model::limit::median;

/// Share of the floor below which a latency shows that fewer transfers were in flight.
const REFUTED_FLOOR_SHARE: f64 = 0.95;

/// Returns the cgroup I/O limit of the headline metric of a measurement, in the metric's unit (B/s,
/// IO/s, or s for a latency); `None` without such a limit.
pub(crate) fn setting(measurement: &Measurement, machine: &Machine, demand: DeviceDemand) -> Option<Setting> {
    let (kind, unit) = (setting::SettingKind::IoLimit, measurement.headline()?.unit);
    let of_bytes = unit == Unit::BytePerSecond;
    let counted = if of_bytes { DemandUnit::Bytes } else { demand.transfer_unit()? };
    let value = ceiling(machine, demand, counted)?.value?;
    match unit {
        Unit::BytePerSecond | Unit::IoPerSecond => Some(Setting::of_rate(kind, Quantity { value, unit })),
        Unit::Second => {
            let bound = Quantity { value: least_latency(demand, value)?, unit };
            Some(Setting { kind, rate: Quantity { value, unit: Unit::IoPerSecond }, bound })
        }
        _ => None,
    }
}

/// Returns the tightest I/O limit of this process's cgroups for `demand`, in units of `counted` per
/// second; `None` without a limit, or if transfers stay in the page cache.
pub(crate) fn ceiling(machine: &Machine, demand: DeviceDemand, counted: DemandUnit) -> Option<Limit> {
    let storage = machine.storage.as_ref().filter(|_| demand.reaches_the_device)?;
    let block = demand.block?;
    let stages = stages(storage, machine);
    let limits = stages.iter().flat_map(|devices| {
        let limit = move |field| field_limit(field, machine, devices, demand.shares, counted, block);
        IO_LIMIT_FIELDS.iter().filter_map(limit)
    });
    limits.min_by(|a, b| a.value.unwrap_or(f64::INFINITY).total_cmp(&b.value.unwrap_or(f64::INFINITY)))
}

/// Returns the least mean latency in s by the limits of control groups on transfers per second;
/// `None` without any, if the queue is not always full, or if samples in `question` are faster (so
/// fewer were in flight).
pub(crate) fn floor(question: &Question<'_>, demand: DeviceDemand) -> Option<Limit> {
    let most = ceiling(question.machine, demand, demand.transfer_unit()?)?;
    let value = least_latency(demand, most.value?)?;
    let came =
        median(question.samples.iter().filter_map(|s| s.values.get(LATENCY_METRIC).copied()).collect());
    let holds = came.is_none_or(|came| came >= REFUTED_FLOOR_SHARE * value);
    let formula = format!("transfers in flight ÷ ({})", most.formula);
    let mut inputs = most.inputs;
    inputs.push(Input::new("transfers in flight", demand.in_flight, "1", "depth × threads of the case"));
    let floor = Limit::fixed(LimitKind::Floor, LimitSource::Documented, value, &formula, inputs);
    holds.then_some(Limit { reason: most.reason, ..floor })
}

/// Returns the mean seconds per transfer at `rate` transfers per second, by Little's law: transfers
/// in flight ÷ `rate`; `None` if the queue is not always full.
fn least_latency(demand: DeviceDemand, rate: f64) -> Option<f64> {
    (rate > 0.0 && demand.is_kept_full).then(|| demand.in_flight / rate)
}

/// Returns sets of device numbers (`8:0`): the file system's devices, each layer below, the disks.
/// Each transfer passes one device of each set. Ends at a loop device, whose file may be cached.
fn stages(storage: &Storage, machine: &Machine) -> BTreeSet<Vec<String>> {
    if storage.file_system.as_ref().is_some_and(|fs| fs.medium != Medium::Device) {
        return BTreeSet::new();
    }
    let all = |numbers: Vec<Option<DeviceNumber>>| -> Option<Vec<String>> {
        numbers.into_iter().map(|number| Some(number?.to_string())).collect()
    };
    let of_layer = |name: &str| machine.disks.iter().find(|disk| disk.name == name)?.number;
    let loops = storage.layers.iter().filter(|layer| layer.kind == DiskKind::Loop).count();
    let mut stages = vec![all(storage.top())];
    // Layers on several disks or files may be parallel.
    if storage.disks.len() == 1 && loops <= 1 {
        let until_loop = storage.layers.split_inclusive(|layer| layer.kind == DiskKind::Loop).next();
        stages.extend(until_loop.into_iter().flatten().map(|layer| all(vec![of_layer(&layer.name)])));
    }
    if loops == 0 {
        stages.push(all(storage.disks.iter().map(|disk| disk.number).collect()));
    }
    stages.into_iter().flatten().filter(|devices| !devices.is_empty()).collect()
}

/// Name of the limited figure, files, whether writes, whether transfers rather than bytes, value.
type IoLimitField = (&'static str, &'static str, bool, bool, fn(&IoLimit) -> Option<u64>);

const IO_LIMIT_FIELDS: [IoLimitField; 4] = [
    ("bytes read", "io.max rbps, blkio.throttle.read_bps_device", false, false, |limit| limit.read_bytes),
    ("bytes written", "io.max wbps, blkio.throttle.write_bps_device", true, false, |limit| limit.write_bytes),
    ("reads", "io.max riops, blkio.throttle.read_iops_device", false, true, |limit| limit.reads),
    ("writes", "io.max wiops, blkio.throttle.write_iops_device", true, true, |limit| limit.writes),
];

/// Returns the ceiling that a cgroup limit, summed over `devices` (`8:0`), sets on reads and writes
/// together, in units of `counted` per second, for transfers of `block` bytes. `None` if a device
/// has no such limit, or the case has no transfers in its direction.
fn field_limit(
    &(name, files, is_write, is_transfers, value): &IoLimitField,
    machine: &Machine,
    devices: &[String],
    shares: Shares,
    counted: DemandUnit,
    block: f64,
) -> Option<Limit> {
    let tightest = |device: &String| {
        let of_device = machine.cgroup.io.iter().filter(|limit| limit.device == *device);
        of_device.filter_map(value).min()
    };
    let value = devices.iter().map(tightest).sum::<Option<u64>>()? as f64;
    let names: Vec<&str> = devices.iter().map(|device| machine.device_name(device)).collect();
    let share = Some(if is_write { shares.write } else { shares.read }).filter(|share| *share > 0.0)?;
    let (unit, as_counted, suffix) = match (is_transfers, counted) {
        (true, DemandUnit::Bytes) => ("IO/s", block, " × block"),
        (true, DemandUnit::Transfers { .. }) => ("IO/s", 1.0, ""),
        (false, DemandUnit::Bytes) => ("B/s", 1.0, ""),
        (false, DemandUnit::Transfers { .. }) => ("B/s", 1.0 / block, " ÷ block"),
    };
    let name = format!("{name} of {}", names.join(" + "));
    let by_share = if share < 1.0 { " ÷ share of this direction" } else { "" };
    let formula = format!("{name}{suffix}{by_share}");
    let mut inputs = vec![Input::new(&name, value, unit, files)];
    inputs.extend((!suffix.is_empty()).then(|| Input::new("block", block, "B", "the case")));
    inputs.extend((share < 1.0).then(|| Input::new("share of this direction", share, "1", "the case")));
    let most = value * as_counted / share;
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Documented, most, &formula, inputs);
    Some(Limit { reason: Some("the control group's, not the device's".to_owned()), ..limit })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use plimsoll_machine::Root;
    use plimsoll_model::case::Case;
    use plimsoll_model::job::disk::DiskTransfers;

    const BYTES: u64 = 4_096_000;

    fn rate(case: &str, unit: Unit, device: &str) -> Option<f64> {
        let storage = Storage { number: "254:0".parse().ok(), ..Storage::default() };
        let mut machine = machine(storage, &[(device, 500)]);
        let (device, read_bytes) = (device.to_owned(), Some(BYTES));
        machine.cgroup.io.push(IoLimit { device, read_bytes, ..IoLimit::default() });
        let mut measurement = plimsoll_model::view::testing::peak(1, 1.0);
        measurement.case = case.parse().unwrap();
        measurement.metrics[0].unit = unit;
        (crate::SUBSYSTEM.setting)(&measurement, &machine).map(|setting| setting.bound.value)
    }

    #[test]
    fn a_latency_is_limited_by_the_transfers_in_flight() {
        let of = |case| rate(case, Unit::Second, "254:0");
        assert_eq!(of("disk.io/op=read/block=4K/depth=1/threads=1"), Some(0.002));
        assert_eq!(of("disk.io/op=read/block=4K/depth=8/threads=2"), Some(0.032));
        assert_eq!(of("disk.io/op=read/block=4K/depth=8/rate=100"), None, "an open loop has no full queue");
        assert_eq!(of("disk.io/op=write/block=4K/depth=1"), None);
        assert_eq!(of("disk.fsync/block=4K/threads=1"), None, "a commit reads nothing");
    }

    #[test]
    fn bytes_and_transfers_bound_each_other() {
        let of = |block: &str, unit| rate(&format!("disk.io/op=read/block={block}"), unit, "254:0");
        assert_eq!(of("1M", Unit::BytePerSecond), Some(BYTES as f64));
        assert_eq!(of("4K", Unit::BytePerSecond), Some(500.0 * 4096.0));
        assert_eq!(of("4K", Unit::IoPerSecond), Some(500.0));
        assert_eq!(of("1M", Unit::IoPerSecond), Some(BYTES as f64 / f64::from(1 << 20)));
        assert_eq!(of("4K", Unit::PerSecond), None);
    }

    #[test]
    fn what_does_not_pass_the_limit_is_not_limited() {
        let of = |case, device| rate(case, Unit::BytePerSecond, device);
        assert_eq!(of("disk.io/op=read/block=1M", "254:16"), None);
        assert_eq!(of("disk.io/op=write/block=1M", "254:0"), None);
        assert_eq!(of("disk.io/op=mixed/read-share=70/block=1M", "254:0"), Some(BYTES as f64 / 0.7));
        assert_eq!(of("disk.io/op=read/block=1M/cache=buffered", "254:0"), None);
    }

    fn machine(storage: Storage, limits: &[(&str, u64)]) -> Machine {
        let mut machine = Machine::discover(&Root::live());
        machine.storage = Some(storage);
        machine.cgroup.io.clear();
        for (device, reads) in limits {
            let (device, reads) = ((*device).to_owned(), Some(*reads));
            machine.cgroup.io.push(IoLimit { device, reads, ..IoLimit::default() });
        }
        machine
    }

    fn limits(machine: &Machine, case: &str, metric: &str) -> Vec<Limit> {
        let (case, evidence) = (case.parse().unwrap(), plimsoll_model::limit::LimitEvidence::default());
        crate::SUBSYSTEM.limits(&Question { machine, case: &case, metric, samples: &[], evidence })
    }

    #[test]
    fn a_row_has_the_limit_of_the_group_where_the_device_has_none() {
        let storage = Storage { number: "7:0".parse().ok(), ..Storage::default() };
        let machine = machine(storage, &[("7:0", 200)]);
        let case = "disk.io/op=read/pattern=random/block=4K/depth=8/threads=1/cache=direct";
        let only = |metric| {
            let limits = limits(&machine, case, metric);
            assert_eq!(limits.len(), 1, "{limits:?}");
            (limits[0].value, limits[0].kind, limits[0].source)
        };
        assert_eq!(only("rate"), (Some(200.0), LimitKind::Ceiling, LimitSource::Documented));
        assert_eq!(only("throughput"), (Some(200.0 * 4096.0), LimitKind::Ceiling, LimitSource::Documented));
        assert_eq!(only("latency"), (Some(0.04), LimitKind::Floor, LimitSource::Documented));
        let open = limits(&machine, "disk.io/op=read/block=4K/depth=8/rate=100/cache=direct", "latency");
        assert_eq!(open[0].source, LimitSource::Unknown, "an open loop has no full queue");
    }

    #[test]
    fn disks_that_share_the_transfers_limit_by_their_sum() {
        use plimsoll_machine::fixture::Fixture;
        let mut disks = Fixture::open("epyc-7543-nps4").unwrap().machine().disks;
        disks.truncate(2);
        for (disk, number) in disks.iter_mut().zip(["8:0", "8:16"]) {
            disk.number = number.parse().ok();
        }
        let storage = Storage { number: "9:0".parse().ok(), disks, ..Storage::default() };
        let of = |limits: &[(&str, u64)]| {
            let case: Case = "disk.io/op=read/block=4K/cache=direct".parse().unwrap();
            let demand = DeviceDemand::of(&DiskTransfers::of(&case).unwrap()).unwrap();
            let machine = machine(storage.clone(), limits);
            ceiling(&machine, demand, DemandUnit::Transfers { block: 4096.0 }).and_then(|limit| limit.value)
        };
        assert_eq!(of(&[("8:0", 100), ("8:16", 300)]), Some(400.0));
        assert_eq!(of(&[("8:0", 100)]), None, "the other disk may do the rest");
        assert_eq!(of(&[("8:0", 100), ("8:16", 300), ("9:0", 50)]), Some(50.0));
    }
}
