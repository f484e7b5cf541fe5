use crate::{LATENCY_PER_BYTE, THROUGHPUT_METRIC, working_set};
use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::{BlockOp, BlockTraversal};
use plimsoll_model::job::BlockJob;
use plimsoll_model::limit::channels;
use plimsoll_model::limit::common_core::limits_by_core_sharing;
use plimsoll_model::limit::microarchitecture::Core;

const LINE_BYTES: f64 = 64.0;

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    let kind = if question.metric == THROUGHPUT_METRIC { LimitKind::Ceiling } else { LimitKind::Floor };
    let job = match BlockJob::of(question.case) {
        Ok(job) => job,
        Err(why) => return vec![Limit::unknown(kind, why)],
    };
    let each = |found: Result<Vec<Limit>, String>| match found {
        Ok(limits) => limits.into_iter().map(Ok).collect(),
        Err(why) => vec![Err(why)],
    };
    let ports = limits_by_core_sharing(question, |question| port_limit(question, &job));
    let ceilings = [ports, channels(question, &job)].into_iter().flat_map(each);
    let as_asked = |limit: Result<Limit, String>| match (limit, question.metric) {
        (Ok(limit), THROUGHPUT_METRIC) => limit,
        (Ok(limit), metric) => floor(&job, limit, metric == LATENCY_PER_BYTE),
        (Err(why), _) => Limit::unknown(kind, why),
    };
    ceilings.map(as_asked).collect()
}

fn block_bytes(job: &BlockJob) -> Result<u64, String> {
    Some(job.block).filter(|block| *block > 0).ok_or("the case names no block".to_owned())
}

/// Converts `ceiling` (B/s) to the least seconds per block, or per byte of a block if `per_byte`.
fn floor(job: &BlockJob, ceiling: Limit, per_byte: bool) -> Limit {
    let bytes = if per_byte { job.op.regions() as u64 } else { job.bytes_per_block() };
    let (threads, bytes) = (job.site.threads.count as f64, bytes as f64);
    let time = |rate: f64| threads * bytes / rate;
    let what = if per_byte { "bytes moved for each byte" } else { "bytes of a block" };
    let mut inputs = vec![
        Input::new("threads", threads, "1", "the case"),
        Input::new("bytes", bytes, "B", &format!("the case: {what}, read and written")),
    ];
    inputs.extend(ceiling.inputs);
    Limit {
        value: ceiling.value.map(time),
        kind: LimitKind::Floor,
        formula: format!("threads × bytes ÷ ({})", ceiling.formula),
        inputs,
        per_sample: ceiling.per_sample.into_iter().map(time).collect(),
        ..ceiling
    }
}

/// Returns the limit, B/s, by the cores' load and store ports at the clock of each sample.
fn port_limit(question: &Question<'_>, job: &BlockJob) -> Result<Limit, String> {
    let Question { machine, case, .. } = question;
    let cpus = cpus_of_case(machine, case);
    let core = Core::of_all(machine, &cpus)?;
    let (name, per_cycle, unit) = per_cycle(job, &core)?;
    let (clocks, clock) = question.clocks()?;
    let cpus: CpuSet = cpus.into_iter().collect();
    let cores = machine.cpu.cores_of(&cpus).unwrap_or(cpus.len()) as f64;
    let (each, counted, counted_in) = match job.is_small() {
        true => (job.bytes_per_block() as f64, "bytes of a block", "B"),
        false => (job.op.regions() as f64, "loads and stores", "1"),
    };
    let formula = format!("{name} × {counted} × clock × cores");
    let from = format!("data/microarchitectures.toml, {}: {}", core.name, core.source);
    let inputs = vec![
        Input::new(name, per_cycle, unit, &from),
        Input::new(counted, each, counted_in, "the case: what is read and what is written both count"),
        Input::new("clock", clock, "Hz", "measured inside each sample"),
        Input::new("cores", cores, "1", &format!("of CPUs {cpus}")),
    ];
    let rate = per_cycle * each * cores;
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, rate * clock, &formula, inputs);
    let limit = Limit { per_sample: clocks.into_iter().map(|clock| rate * clock).collect(), ..limit };
    Ok(core.mark(limit).resting_on(format!("{per_cycle} {name} ({})", core.name)))
}

/// Returns (name, value, unit) of a core's work per cycle: in blocks up to 8 bytes, else in bytes.
fn per_cycle(job: &BlockJob, core: &Core) -> Result<(&'static str, f64, &'static str), String> {
    block_bytes(job)?;
    let found = match (job.op, job.is_small()) {
        (BlockOp::Read, true) => ("loads per cycle", core.number("loads"), "1/cycle"),
        (BlockOp::Write, true) => ("stores per cycle", core.number("stores"), "1/cycle"),
        (BlockOp::ReadWrite, true) => {
            let both = core.number("accesses").map(|both| both / 2.0);
            let least =
                core.number("loads").zip(core.number("stores")).zip(both).map(|((l, s), b)| l.min(s).min(b));
            ("copies per cycle", least, "1/cycle")
        }
        (BlockOp::Write, false) => return Err(format!("the store bandwidth of {} is unknown", core.name)),
        (_, false) => ("bytes loaded per cycle", core.number("l1_load_bytes"), "B/cycle"),
    };
    let (name, number, unit) = found;
    let number = number
        .ok_or_else(|| format!("the {name} of {} are not in data/microarchitectures.toml", core.name))?;
    Ok((name, number, unit))
}

/// Returns the limits in B/s of the memory channels. A random block smaller than a cache line costs
/// a whole line. Fails with the reason if a cache holds the working set, or if caches are unknown.
fn channels(question: &Question<'_>, job: &BlockJob) -> Result<Vec<Limit>, String> {
    let Question { machine, case, .. } = question;
    let total = job.site.total();
    let cpus = cpus_of_case(machine, case);
    let shown = machine.cpu.last_level_of(&cpus.iter().copied().collect());
    shown.ok_or("the sizes of the caches are unknown")?;
    if total < working_set::least(machine, &cpus, 1) {
        return Err(
            "the memory channels are not the limit: a cache answers at this size; use a larger --size"
                .to_owned(),
        );
    }
    let carried = channels::channel_limits(machine, case)?;
    let block = block_bytes(job)? as f64;
    if job.order != BlockTraversal::Random || block >= LINE_BYTES {
        return Ok(carried);
    }
    // A line that is still cached from a neighbouring block does not cross the bus again.
    let missed = 1.0 - working_set::caches(machine, &cpus) as f64 / total as f64;
    let inputs = [
        Input::new("block", block, "B", "the case"),
        Input::new("missed", missed, "1", "1 − last-level caches ÷ regions: the rest may still be cached"),
    ];
    let of_line = |limit| {
        channels::multiply_limit(limit, block / LINE_BYTES / missed, &inputs, "× block ÷ 64 ÷ missed")
    };
    Ok(carried.into_iter().map(of_line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{clocked, limits_of, machine};
    use plimsoll_machine::Machine;
    use plimsoll_model::case::Case;
    use plimsoll_model::limit::tightest_first;

    fn case(op: &str, order: &str, block: u64, size: u64, threads: u64) -> Case {
        let id = format!("memory.block/op={op}/pattern={order}/block={block}/size={size}/threads={threads}");
        id.parse().unwrap()
    }

    fn ask(machine: &Machine, case: &Case, metric: &str, clock_hz: Option<f64>) -> Vec<Limit> {
        let mut found = limits_of(limits, (machine, case, metric), &[clocked(clock_hz)]);
        tightest_first(&mut found);
        found
    }

    #[test]
    fn single_accesses_are_bound_by_the_ports_at_the_clock() {
        let machine = machine("firecracker-zen4");
        let tightest = |op: &str, block| {
            let found = ask(&machine, &case(op, "sequential", block, 1 << 14, 2), "throughput", Some(4e9));
            assert_eq!(found[0].per_sample, [found[0].value.unwrap()]);
            let product: f64 = found[0].inputs.iter().map(|input| input.value).product();
            assert_eq!(found[0].value, Some(product));
            found[0].value.unwrap()
        };
        assert_eq!(tightest("read", 1), 3.0 * 4e9 * 2.0);
        assert_eq!(tightest("read", 8), 8.0 * 3.0 * 4e9 * 2.0);
        assert_eq!(tightest("write", 8), 8.0 * 2.0 * 4e9 * 2.0);
        assert_eq!(tightest("read-write", 8), 16.0 * 1.5 * 4e9 * 2.0);
        assert_eq!(tightest("read", 8192), 64.0 * 4e9 * 2.0);
    }

    #[test]
    fn cpus_that_shared_a_core_may_have_one_each_by_now() {
        let mut machine = machine("firecracker-zen4");
        machine.cpu.hidden_siblings = vec!["0-1".parse().unwrap()];
        for metric in ["throughput", "latency"] {
            let found = ask(&machine, &case("read", "sequential", 8, 1 << 14, 2), metric, Some(4e9));
            let [one, each, Limit { value: None, .. }] = found.as_slice() else { panic!("{found:?}") };
            assert!(one.fact.as_ref().is_some_and(|fact| fact.changes.is_some()), "{metric}");
            assert!(each.fact.as_ref().is_some_and(|fact| fact.changes.is_none()), "{metric}");
            let (one, each) = (one.value.unwrap(), each.value.unwrap());
            let times = if metric == "throughput" { each / one } else { one / each };
            assert!((times - 2.0).abs() < 1e-12, "{metric}: {times}");
        }
    }

    #[test]
    fn a_latency_has_the_floor_that_the_throughput_leaves() {
        let machine = machine("firecracker-zen4");
        let case = case("read-write", "sequential", 8, 1 << 14, 2);
        let ceiling = ask(&machine, &case, "throughput", Some(4e9)).remove(0).value.unwrap();
        let floor = ask(&machine, &case, "latency", Some(4e9)).remove(0);
        assert_eq!(floor.kind, LimitKind::Floor);
        assert!((floor.value.unwrap() * ceiling / (2.0 * 16.0) - 1.0).abs() < 1e-12);
        let per_byte = ask(&machine, &case, "latency_per_byte", Some(4e9)).remove(0);
        assert!((per_byte.value.unwrap() * 8.0 / floor.value.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn memory_bounds_regions_beyond_the_caches_and_whole_lines_small_blocks_at_random() {
        let mut machine = machine("firecracker-zen4");
        machine.virtualisation.is_virtual = Some(false);
        let channels = |case: &Case| {
            let found = ask(&machine, case, "throughput", Some(4e9));
            found.into_iter().find(|limit| limit.source == LimitSource::Rated).and_then(|limit| limit.value)
        };
        assert_eq!(channels(&case("read", "sequential", 8, 1 << 30, 1)), Some(460.8e9));
        assert_eq!(channels(&case("read", "random", 64, 1 << 30, 1)), Some(460.8e9));
        let eighth = channels(&case("read", "random", 8, 1 << 30, 1)).unwrap();
        assert!((eighth * 8.0 * (1.0 - 33.0 / 1024.0) / 460.8e9 - 1.0).abs() < 1e-12, "{eighth}");
        let small = case("read", "random", 8, 1 << 30, 1);
        let tightest = ask(&machine, &small, "throughput", Some(4e9)).remove(0);
        assert_eq!(tightest.value, Some(eighth), "tighter than 96 GB/s of the ports");
        assert_eq!(channels(&case("read", "sequential", 8, 1 << 20, 1)), None, "a cache answers");
    }

    #[test]
    fn what_is_not_known_says_why() {
        let mut machine = machine("firecracker-zen4");
        let reasons = |machine: &Machine, case: &Case, clock| -> Vec<String> {
            let found = ask(machine, case, "throughput", clock);
            found.into_iter().filter(|l| l.value.is_none()).filter_map(|l| l.reason).collect()
        };
        let small = case("read", "sequential", 8, 1 << 14, 1);
        assert!(reasons(&machine, &small, None)[0].contains("clock"));
        let stores = case("write", "sequential", 8192, 1 << 14, 1);
        let unknown = reasons(&machine, &stores, Some(4e9));
        assert!(unknown.iter().any(|why| why.contains("store bandwidth of Zen 4")), "{unknown:?}");
        machine.cpu.model = Some(0xff);
        let unknown = reasons(&machine, &small, Some(4e9));
        let wanted = "is not in data/microarchitectures.toml";
        assert!(unknown.iter().any(|why| why.contains(wanted)), "{unknown:?}");
    }
}
