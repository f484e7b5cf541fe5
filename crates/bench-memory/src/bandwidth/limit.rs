use crate::{AnsweringLevel, BANDWIDTH_METRIC, BUS_BANDWIDTH};
use plimsoll_bench_api::prelude::*;
use plimsoll_machine::cpu::{Ability, Capability};
use plimsoll_model::job::MemoryStream;
use plimsoll_model::limit::common_core::limits_by_core_sharing;
use plimsoll_model::limit::microarchitecture::Core;
use plimsoll_model::limit::{channels, median};
use plimsoll_units::quantity::format::significant;

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    if ![BUS_BANDWIDTH, BANDWIDTH_METRIC].contains(&question.metric) {
        return Vec::new();
    }
    let stream = MemoryStream::of(question.case);
    let answers = stream.as_ref().map(|stream| crate::answers_stream(question.machine, stream));
    let ceilings = match answers.unwrap_or(AnsweringLevel::Unknown) {
        AnsweringLevel::Memory => channels(question),
        AnsweringLevel::Cache(level) => {
            limits_by_core_sharing(question, |question| cache_limit(question, level))
        }
        AnsweringLevel::CacheAndMemory(_) | AnsweringLevel::Unknown => {
            Err("caches answer in part at this size; use a larger --size".to_owned())
        }
    };
    ceilings.unwrap_or_else(|why| vec![Limit::unknown(LimitKind::Ceiling, why)])
}

/// Returns the limit, B/s, by loads from the caches of `level` at the clock of each sample; stores
/// add their share. A nearer cache supplies at most its own size.
fn cache_limit(question: &Question<'_>, level: u8) -> Result<Limit, String> {
    let Question { machine, case, .. } = question;
    let MemoryStream { op, site, .. } = MemoryStream::of(case)?;
    if op.loads() == 0 {
        return Err("the cache's store bandwidth (bytes a cycle) is not in our tables".to_owned());
    }
    let cpu = crate::first_cpu(machine, case);
    let width = width(machine, cpu, level)?;
    Core::of_one_kind(machine, &cpus_of_case(machine, case))?;
    let bytes = width.bytes;
    let missed = share_beyond_cache(machine, cpu, level, site.size)?;
    let cpus: CpuSet = cpus_of_case(machine, case).into_iter().collect();
    let cores = machine.cpu.cores_of(&cpus).unwrap_or(cpus.len()) as f64;
    let share = (op.loads() + op.stores()) as f64 / op.loads() as f64;
    let (clocks, clock) = question.clocks()?;
    let per_sample = clocks.iter().map(|hz| bytes * hz * cores * share / missed).collect();
    let mut inputs = vec![
        Input::new("bytes", bytes, "B/cycle", &width.from),
        Input::new("clock", clock, "Hz", "measured with each sample"),
        Input::new("cores", cores, "1", "distinct cores of the CPUs that the threads are pinned to"),
        Input::new("share", share, "1", "bytes moved ÷ bytes loaded, from the kernel's loads and stores"),
    ];
    let mut formula = "bytes × clock × cores × share".to_owned();
    if missed < 1.0 {
        inputs.push(Input::new("missed", missed, "1", "1 − the nearer cache ÷ size: the rest may be there"));
        formula.push_str(" ÷ missed");
    }
    let limit = Limit::of_samples(LimitKind::Ceiling, per_sample, &formula, inputs);
    let limit = limit.passed_by(channels::PASSED_BY);
    Ok(match width.core {
        // A nearer cache may supply data that is expected from a further level.
        Some(core) if level == 1 => {
            core.mark(limit).resting_on(format!("{bytes} B per cycle from the level 1 cache ({})", core.name))
        }
        Some(core) => core.mark(limit),
        // Other work may have slowed down the earlier measurement: a higher figure refutes it.
        None => {
            let reason = Some("measured capability of these cores".to_owned());
            Limit { source: LimitSource::Inferred, reason, ..limit }.resting_on(width.from)
        }
    })
}

struct CacheWidth {
    bytes: f64,
    from: String,
    /// Microarchitecture with the documented value; `None` if it was measured.
    core: Option<Core>,
}

/// Returns the documented bytes per cycle from the cache of `level`; if level 1 is not listed,
/// those measured before the run.
fn width(machine: &Machine, cpu: usize, level: u8) -> Result<CacheWidth, String> {
    let listed = listed(machine, cpu, level);
    match level {
        1 => listed.or_else(|why| measured(machine).ok_or(why)),
        _ => listed,
    }
}

fn listed(machine: &Machine, cpu: usize, level: u8) -> Result<CacheWidth, String> {
    let core = Core::of(machine, cpu)?;
    let bytes = match level {
        1 => core.number("l1_load_bytes"),
        2 => core.number("l2_load_bytes"),
        3 => core.number("l3_load_bytes"),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| {
        format!("how many bytes a cycle the level {level} cache of {} gives is not in our tables", core.name)
    })?;
    let from = format!("data/microarchitectures.toml, {}: {}", core.name, core.source);
    Ok(CacheWidth { bytes, from, core: Some(core) })
}

/// Returns the widest loads of level 1 that were measured; `None` if none were, or cores differ.
fn measured(machine: &Machine) -> Option<CacheWidth> {
    let loads = machine.cpu.capabilities.iter().filter(|one| one.ability == Ability::Loads);
    let bytes = |one: &Capability| Some(one.per_cycle()? * f64::from(one.bits) / 8.0);
    let widths = loads.filter_map(|one| Some((one, bytes(one)?)));
    let (one, bytes) = widths.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| machine.cpu.kinds.is_empty())?;
    let from = format!(
        "measured capability: {} loads of {} bits per cycle on CPU {} before the run",
        significant(one.measured, 4),
        one.bits,
        one.cpu
    );
    Some(CacheWidth { bytes, from, core: None })
}

/// Returns the share of `size` bytes beyond the caches nearer than `level`; fails below a half.
fn share_beyond_cache(machine: &Machine, cpu: usize, level: u8, size: u64) -> Result<f64, String> {
    let inner = crate::levels(machine, cpu).into_iter().rfind(|cache| cache.number < level);
    match inner {
        None if level > 1 => Err("the sizes of the nearer caches are unknown".to_owned()),
        None => Ok(1.0),
        Some(inner) if size >= inner.bytes.saturating_mul(2) => Ok(1.0 - inner.bytes as f64 / size as f64),
        Some(inner) => Err(format!(
            "the level {} cache ({}) answers a share of the loads; give a --size of at least {}",
            inner.number,
            format_size(inner.bytes),
            format_size(inner.bytes.saturating_mul(2))
        )),
    }
}

/// Returns the memory channels' limits, B/s; for [`BANDWIDTH_METRIC`] without write-allocates.
fn channels(question: &Question<'_>) -> Result<Vec<Limit>, String> {
    let carried = channels::channel_limits(question.machine, question.case)?;
    if question.metric != BANDWIDTH_METRIC {
        return Ok(carried);
    }
    let share =
        |sample: &Sample| Some(sample.values.get(BANDWIDTH_METRIC)? / sample.values.get(BUS_BANDWIDTH)?);
    let share = median(question.samples.iter().filter_map(share).collect());
    let share = share.filter(|share| share.is_finite()).ok_or("bus was not measured with program")?;
    let inputs =
        [Input::new("bytes counted ÷ bytes moved", share, "1", "from the kernel's loads and stores")];
    Ok(carried
        .into_iter()
        .map(|limit| channels::multiply_limit(limit, share, &inputs, "× (bytes counted ÷ bytes moved)"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{KIB, MIB, clocked, limits_of, machine, reason};
    use plimsoll_machine::cpu::CoreKind;
    use plimsoll_model::case::Case;

    fn ask(machine: &Machine, case: &Case, metric: &str, samples: &[Sample]) -> Limit {
        let mut limits = limits_of(limits, (machine, case, metric), samples);
        assert_eq!(limits.len(), 1, "{metric}");
        limits.remove(0)
    }

    fn moved(program: f64, bus: f64) -> Sample {
        let values = [("bandwidth".to_owned(), program), ("bus_bandwidth".to_owned(), bus)].into();
        Sample { values, ..Sample::default() }
    }

    fn copy(size: u64, threads: u64) -> Case {
        format!("memory.bandwidth/op=copy/size={size}/threads={threads}").parse().unwrap()
    }

    #[test]
    fn the_ceiling_is_the_sockets_channels_and_the_programs_share_of_them() {
        let zen4 = machine("firecracker-zen4");
        let samples = [moved(20e9, 30e9), moved(22e9, 33e9)];
        let bus = ask(&zen4, &copy(512 * MIB, 1), "bus_bandwidth", &samples);
        let got = (bus.value, bus.kind, bus.source);
        assert_eq!(got, (Some(921.6e9), LimitKind::Ceiling, LimitSource::Rated));
        let wanted =
            "of all sockets that the host may have with all channels filled; a virtual machine may get less";
        assert_eq!(bus.reason.as_deref(), Some(wanted));
        let product: f64 = bus.inputs.iter().map(|input| input.value).product();
        assert_eq!(bus.value, Some(product));
        let program = ask(&zen4, &copy(512 * MIB, 1), "bandwidth", &samples);
        assert_eq!(program.value.map(f64::round), Some(614.4e9));
        assert!(program.formula.ends_with("× (bytes counted ÷ bytes moved)"));
    }

    #[test]
    fn every_socket_with_a_thread_counts_once() {
        let mut xeon = machine("xeon-gold-6230-2s");
        xeon.memory.modules = None;
        let bus = |machine: &Machine, threads| {
            ask(machine, &copy(1 << 30, threads), "bus_bandwidth", &[moved(1.0, 1.0)]).value
        };
        let one = bus(&xeon, 10);
        assert_eq!(one, Some(6.0 * 8.0 * 2933e6));
        xeon.cpu.allowed = xeon.cpu.online.clone();
        assert_eq!(bus(&xeon, 40), one.map(|one| 2.0 * one));
        for cpu in &mut xeon.cpu.logical {
            cpu.package = None;
        }
        let unknown = ask(&xeon, &copy(1 << 30, 1), "bus_bandwidth", &[moved(1.0, 1.0)]);
        assert!(reason(unknown).contains("which socket"));
    }

    #[test]
    fn a_chip_without_a_row_says_why_nothing_is_known() {
        let mut machine = machine("firecracker-zen4");
        machine.cpu.model = Some(0x61);
        let text = reason(ask(&machine, &copy(512 * MIB, 1), "bus_bandwidth", &[moved(1.0, 1.0)]));
        assert!(text.contains("Firecracker hides the memory's channels"), "{text}");
        assert!(text.contains("--limits"), "{text}");
        machine.virtualisation.is_virtual = Some(false);
        let text = reason(ask(&machine, &copy(512 * MIB, 1), "bus_bandwidth", &[moved(1.0, 1.0)]));
        assert!(text.contains("SMBIOS"), "{text}");
    }

    #[test]
    fn memorys_ceiling_does_not_hold_for_what_fits_in_a_cache() {
        let machine = machine("firecracker-zen4");
        let text = reason(ask(&machine, &copy(64 * MIB, 2), "bandwidth", &[moved(1.0, 1.0)]));
        assert!(text.starts_with("caches answer in part"), "{text}");
    }

    #[test]
    fn the_first_level_gives_its_width_at_each_samples_clock() {
        let machine = machine("firecracker-zen4");
        let samples = [clocked(Some(2e9)), clocked(Some(4e9)), clocked(Some(3e9))];
        let of = |op: &str, threads: u64| {
            let id = format!("memory.bandwidth/op={op}/size=16K/threads={threads}");
            ask(&machine, &id.parse().unwrap(), "bandwidth", &samples)
        };
        let read = of("read", 1);
        let got = (read.value, read.source, read.kind);
        assert_eq!(got, (Some(64.0 * 3e9), LimitSource::Derived, LimitKind::Ceiling));
        assert_eq!(read.per_sample, vec![64.0 * 2e9, 64.0 * 4e9, 64.0 * 3e9]);
        assert_eq!(of("read", 2).value, Some(2.0 * 64.0 * 3e9));
        assert_eq!(of("copy", 1).value, Some(2.0 * 64.0 * 3e9));
        assert_eq!(of("triad", 1).value, Some(1.5 * 64.0 * 3e9));
        assert!(reason(of("write", 1)).contains("store bandwidth"));
    }

    #[test]
    fn cpus_that_shared_a_core_may_have_one_each_by_now() {
        let mut machine = machine("firecracker-zen4");
        machine.cpu.hidden_siblings = vec!["0-1".parse().unwrap()];
        let case = Case::of("memory.bandwidth").with_word("op", "read").with_count("threads", 2);
        for size in [16 * KIB, 256 * KIB] {
            let case = case.clone().with_size("size", size);
            let samples = [clocked(Some(3e9))];
            let found = limits_of(limits, (&machine, &case, BANDWIDTH_METRIC), &samples);
            let [one, each]: [Limit; 2] = found.try_into().expect("two limits");
            assert_eq!((one.source, each.source), (LimitSource::Inferred, LimitSource::Derived), "{size}");
            assert_eq!(each.value, one.value.map(|one| 2.0 * one), "{size}");
            let fact = one.fact.unwrap();
            assert!(fact.changes == Some(2.0) && fact.text.contains("CPUs 0-1"), "{size}");
        }
    }

    #[test]
    fn an_unknown_chip_is_held_to_the_loads_that_were_measured() {
        let mut machine = machine("firecracker-zen4");
        (machine.cpu.family, machine.cpu.model) = (Some(250), Some(0));
        machine.cpu.flags.remove("hypervisor");
        let (ability, isa) = (Ability::Loads, || "avx2".to_owned());
        let loads = |bits, measured| Capability { cpu: 0, ability, isa: isa(), bits, measured };
        machine.cpu.capabilities = vec![loads(128, 2.99), loads(256, 1.98), loads(512, 0.7)];
        let samples = [clocked(Some(3e9))];
        let case = Case::of("memory.bandwidth").with_word("op", "read").with_count("threads", 1);
        let first = ask(&machine, &case.clone().with_size("size", 16 * KIB), "bandwidth", &samples);
        assert_eq!((first.value, first.source), (Some(64.0 * 3e9), LimitSource::Inferred), "{first:?}");
        let from = &first.inputs[0].from;
        assert!(from.starts_with("measured capability: 1.980 loads of 256 bits"), "{from}");
        reason(ask(&machine, &case.clone().with_size("size", 512 * KIB), "bandwidth", &samples));
        let kind = |name: &str, cpus: &str| CoreKind { name: name.to_owned(), cpus: cpus.parse().unwrap() };
        machine.cpu.kinds = vec![kind("big", "0"), kind("small", "1")];
        reason(ask(&machine, &case.with_size("size", 16 * KIB), "bandwidth", &samples));
    }

    #[test]
    fn farther_levels_give_theirs_for_what_nearer_ones_have_no_room_for() {
        let mut machine = machine("firecracker-zen4");
        let samples = [clocked(Some(3e9))];
        let of = |machine: &Machine, size: u64| {
            let id = format!("memory.bandwidth/op=read/size={size}/threads=1");
            ask(machine, &id.parse().unwrap(), "bandwidth", &samples)
        };
        let second = of(&machine, 512 * KIB);
        assert_eq!(second.value, Some(32.0 * 3e9 / (1.0 - 32.0 / 512.0)));
        assert!(second.formula.ends_with("÷ missed"));
        assert_eq!(of(&machine, 16 * MIB).value, Some(32.0 * 3e9 / (1.0 - 1.0 / 16.0)));
        assert!(reason(of(&machine, 48 * KIB)).contains("answers a share"));
        assert!(reason(of(&machine, MIB + MIB / 2)).contains("at least 2M"));
        // Numbers of Zen 2 on a chip with AVX-512: set by a hypervisor, the chip is still Zen 4.
        machine.cpu.family = Some(0x17);
        machine.cpu.model = Some(0x31);
        let inferred = of(&machine, 16 * MIB);
        let wanted = (Some(32.0 * 3e9 / (1.0 - 1.0 / 16.0)), LimitSource::Inferred);
        assert_eq!((inferred.value, inferred.source), wanted);
        machine.cpu.flags.remove("hypervisor");
        machine.virtualisation.is_virtual = Some(false);
        assert!(reason(of(&machine, 16 * MIB)).contains("cannot have avx512"));
    }
}
