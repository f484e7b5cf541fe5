use crate::LATENCY_METRIC;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::MemorySite;
use plimsoll_model::limit::microarchitecture::Core;

/// Least size of a random cycle, in sizes of the next nearer cache, that one cache answers alone;
/// the nearer one answers a share otherwise (with random replacement still exp(−4) = 2 % here).
const TIMES_NEARER: u64 = 4;

pub(crate) fn limits(question: &Question<'_>) -> Vec<Limit> {
    if question.metric != LATENCY_METRIC {
        return Vec::new();
    }
    vec![documented(question).unwrap_or_else(|why| Limit::unknown(LimitKind::Floor, why))]
}

/// Returns the documented load-to-use latency (s) at each sample's clock; fails beyond level 2.
fn documented(question: &Question<'_>) -> Result<Limit, String> {
    let Question { machine, case, .. } = question;
    let size = MemorySite::of(case).size;
    let cpu = crate::first_cpu(machine, case);
    let level = answering_level(machine, cpu, size)?;
    let core = Core::of(machine, cpu)?;
    let cycles = match level {
        1 => core.number("l1_latency"),
        _ => core.number("l2_latency"),
    };
    let cycles = cycles.ok_or_else(|| {
        format!("the level {level} latency of {} is not in data/microarchitectures.toml", core.name)
    })?;
    let (clocks, clock) = question.clocks()?;
    let per_sample = clocks.iter().map(|hz| cycles / hz).collect();
    let from = format!("data/microarchitectures.toml, {}: {}", core.name, core.source);
    let inputs = vec![
        Input::new("cycles", cycles, "cycles", &from),
        Input::new("clock", clock, "Hz", "measured inside each sample"),
    ];
    let limit = core.mark(Limit::of_samples(LimitKind::Floor, per_sample, "cycles ÷ clock", inputs));
    Ok(match level {
        1 => limit.resting_on(format!("{cycles} cycles for a load from the level 1 cache ({})", core.name)),
        _ => limit,
    })
}

/// Returns the cache level (1 or 2) that answers all loads in `size` bytes; fails if none does.
fn answering_level(machine: &Machine, cpu: usize, size: u64) -> Result<u8, String> {
    let levels = crate::levels(machine, cpu);
    if levels.is_empty() {
        return Err("the sizes of the caches are unknown".to_owned());
    }
    let Some(place) = levels.iter().position(|level| size <= level.bytes) else {
        return Err(
            "no vendor documents the latency of memory: it depends on the chip's fabric and on DRAM timings that \
             software cannot read"
                .to_owned(),
        );
    };
    let number = levels[place].number;
    match levels[..place].last() {
        _ if number > 2 => Err(format!(
            "the latency of the level {number} cache is not documented: it depends on the clock of the chip's fabric \
             and on the distance to the cache slice"
        )),
        Some(inner) if size < inner.bytes.saturating_mul(TIMES_NEARER) => Err(format!(
            "the level {} cache ({}) answers a share of the loads; give a --size of at least {}",
            inner.number,
            format_size(inner.bytes),
            format_size(inner.bytes.saturating_mul(TIMES_NEARER))
        )),
        // If the machine hides level 1, its size is unknown and it may answer a share.
        None if number == 2 => Err("the size of the level 1 cache is unknown".to_owned()),
        _ => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{KIB, MIB, clocked, limits_of, machine, reason};
    use plimsoll_model::case::Case;
    use plimsoll_model::sample::Sample;

    fn ask(machine: &Machine, case: &Case, samples: &[Sample]) -> Limit {
        let mut limits = limits_of(limits, (machine, case, LATENCY_METRIC), samples);
        assert_eq!(limits.len(), 1);
        limits.remove(0)
    }

    #[test]
    fn near_caches_have_their_documented_cycles_at_each_samples_clock() {
        let machine = machine("firecracker-zen4");
        let samples = [clocked(Some(2e9)), clocked(Some(4e9)), clocked(Some(3e9))];
        for (size, cycles) in [(16 * KIB, 4.0), (32 * KIB, 4.0), (512 * KIB, 14.0)] {
            let case = Case::of("memory.latency").with_size("size", size);
            let limit = ask(&machine, &case, &samples);
            assert_eq!((limit.kind, limit.source), (LimitKind::Floor, LimitSource::Derived));
            assert_eq!(limit.per_sample, vec![cycles / 2e9, cycles / 4e9, cycles / 3e9]);
            assert_eq!(limit.value, Some(cycles / 3e9));
        }
        let case = Case::of("memory.latency").with_size("size", 16 * KIB);
        let text = reason(ask(&machine, &case, &[clocked(Some(3e9)), clocked(None)]));
        assert!(text.contains("clock"), "{text}");
    }

    #[test]
    fn what_is_not_documented_is_unknown_with_its_reason() {
        let mut machine = machine("firecracker-zen4");
        let ask = |machine: &Machine, size| {
            let case = Case::of("memory.latency").with_size("size", size);
            reason(ask(machine, &case, &[clocked(Some(3e9))]))
        };
        assert!(ask(&machine, 16 * MIB).contains("level 3"));
        assert!(ask(&machine, 512 * MIB).contains("DRAM"));
        let between = ask(&machine, 48 * KIB);
        assert!(between.contains("answers a share") && between.contains("at least 128K"), "{between}");
        machine.cpu.model = Some(0xff);
        assert!(ask(&machine, 16 * KIB).contains("is not in data/microarchitectures.toml"));
        machine.cpu.caches.clear();
        assert!(ask(&machine, 16 * KIB).contains("caches are unknown"));
    }
}
