//! Registry of all subsystems and benchmarks, with look-up by name.

#![forbid(unsafe_code)]

pub use plimsoll_bench_api::*;
use plimsoll_machine::{CpuSet, Machine};
use plimsoll_model::case::{Case, Value, nearest};
use plimsoll_model::limit::{Limit, Question};
use plimsoll_model::plan::Group;
use plimsoll_model::sample::CannotMeasure;

pub mod label;
pub mod null;

/// All subsystems, in the order of lists and reports. A new one is a crate and a line here.
const SUBSYSTEMS: &[&Subsystem] = &[
    &plimsoll_bench_cpu::SUBSYSTEM,
    &plimsoll_bench_memory::SUBSYSTEM,
    &plimsoll_bench_disk::SUBSYSTEM,
    &plimsoll_bench_network::SUBSYSTEM,
    &plimsoll_bench_os::SUBSYSTEM,
    &plimsoll_bench_mpi::SUBSYSTEM,
];

/// Yields all benchmarks by subsystem; the last one, `null`, measures plimsoll itself.
pub fn benchmarks() -> impl Iterator<Item = &'static dyn Benchmark> {
    let of_subsystems = SUBSYSTEMS.iter().flat_map(|subsystem| subsystem.benchmarks);
    of_subsystems.copied().chain([&null::Null as &dyn Benchmark])
}

/// Returns the benchmark with this name, such as `disk.io`; `None` if there is none.
pub fn find(name: &str) -> Option<&'static dyn Benchmark> {
    benchmarks().find(|b| b.name() == name)
}

/// Returns the headline metric of a case; `None` if its benchmark is unknown.
pub fn headline(case: &Case) -> Option<Metric> {
    find(case.benchmark())?.metrics(case).first().copied()
}

/// Returns the benchmark name nearest to `typed`: `memory.bandwidth` for `memory.bandwith`. `None`
/// if no name is near, or `typed` is a name.
pub fn nearest_name(typed: &str) -> Option<String> {
    let (part, rest) = typed.split_once(['.', ':']).unwrap_or((typed, ""));
    let all = || benchmarks().map(|b| b.name());
    let of_part: Vec<&str> = all()
        .filter_map(|name| name.split_once('.'))
        .filter(|(known, _)| *known == part)
        .map(|(_, rest)| rest)
        .collect();
    let near = match of_part.is_empty() || rest.is_empty() {
        true => nearest(typed, all()).map(str::to_owned),
        false => nearest(rest, of_part).map(|rest| format!("{part}.{rest}")),
    };
    near.filter(|near| near != typed)
}

/// Returns the metric `name` of a case; `None` if the benchmark does not have it in this version.
pub fn metric(case: &Case, name: &str) -> Option<Metric> {
    let metrics = find(case.benchmark())?.metrics(case);
    metrics.into_iter().find(|metric| metric.name == name)
}

/// Converts `value` of metric `from` to metric `to` of the same transfers, such as operations/s to
/// bytes/s; `None` if they are not convertible.
pub fn converted(case: &Case, value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    let transfers = |name| metric(case, name)?.transfers;
    let per_second = transfers(from)?.per_second(value);
    let figure = transfers(to)?.of_rate(per_second);
    (per_second.is_finite() && figure.is_finite() && figure > 0.0).then_some(figure)
}

/// Returns whether metric `name` of a case is informative only, and never judged.
pub fn is_informative(case: &Case, name: &str) -> bool {
    metric(case, name).is_some_and(|metric| metric.role == Role::Informative)
}

/// Returns whether all machines of a run measure the case together (traffic between them, MPI).
pub fn spans_all_machines(case: &Case) -> bool {
    case.is_between_machines()
        || find(case.benchmark()).is_some_and(|benchmark| benchmark.descriptor().of_all_machines)
}

/// Returns the limits of the metric in `question`; see [`Subsystem::limits`].
pub fn limits(question: &Question<'_>) -> Vec<Limit> {
    subsystem_of(question.case).limits(question)
}

/// Returns the subsystem with this name, such as `disk`; `None` if there is none.
pub fn subsystem(name: &str) -> Option<&'static Subsystem> {
    SUBSYSTEMS.iter().copied().find(|part| part.name == name)
}

/// Returns the subsystem of a case; [`Subsystem::USUAL`] (defaults) if it is unknown.
pub fn subsystem_of(case: &Case) -> &'static Subsystem {
    subsystem(case.subsystem()).unwrap_or(&Subsystem::USUAL)
}

/// Yields the names of the subsystems that are commands, such as `disk`, in the order of the help.
pub fn commands() -> impl Iterator<Item = &'static str> {
    SUBSYSTEMS.iter().filter(|part| part.is_command).map(|part| part.name)
}

/// Returns whether the benchmark or subsystem called `name` uses test files.
pub fn uses_test_files(name: &str) -> bool {
    subsystem(name.split('.').next().unwrap_or_default()).is_some_and(|part| part.on_files)
}

/// Returns `case` with one thread, for a `machine` with one CPU; fails if it cannot be measured.
pub fn single_threaded(machine: &Machine, case: &Case) -> Result<Candidate, CannotMeasure> {
    let threads = ("threads", Value::Count(1));
    let takes_threads = find(case.benchmark()).is_some_and(|it| it.keys().contains(&"threads"));
    let given: &[_] = if takes_threads { &[threads] } else { &[] };
    with_values(machine, case, &["affinity", "threads"], given)
}

/// Returns whether the case checks results to prove that its threads' CPUs compute right.
pub fn proves_cpus(case: &Case) -> bool {
    find(case.benchmark()).is_some_and(|benchmark| benchmark.descriptor().proves_cpus)
}

/// Returns `case` with a thread on each of `cpus`, and with the benchmark's default amount of work
/// per sample if `has_usual_amount`. Fails if it cannot be measured there.
pub fn on_cpus(
    machine: &Machine,
    case: &Case,
    cpus: &CpuSet,
    has_usual_amount: bool,
) -> Result<Candidate, CannotMeasure> {
    let given = [("affinity", Value::Word(cpus.to_string())), ("threads", Value::Count(cpus.len() as u64))];
    let amount = if has_usual_amount { "count" } else { "affinity" };
    with_values(machine, case, &["affinity", "threads", amount], &given)
}

/// Returns `case` without the parameters named in `without`, and with the parameters `given`. Fails
/// if the benchmark does not make exactly one case of them, or this machine cannot measure it.
fn with_values(
    machine: &Machine,
    case: &Case,
    without: &[&str],
    given: &[(&'static str, Value)],
) -> Result<Candidate, CannotMeasure> {
    let none = || CannotMeasure::not_here(format!("{case} cannot be measured on other CPUs"));
    let benchmark = find(case.benchmark()).ok_or_else(none)?;
    let kept = case.params().iter().filter(|(key, _)| !without.contains(key));
    let values = kept.map(|(key, value)| (*key, value.clone())).chain(given.iter().cloned());
    let group = values.fold(Group::default(), |group, (key, value)| group.with(key, vec![value]));
    let mut found = benchmark.cases(machine, &group).map_err(CannotMeasure::not_here)?.into_iter();
    let candidate = found.next().filter(|_| found.next().is_none()).ok_or_else(none)?;
    candidate.feasible.clone().map(|()| candidate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use plimsoll_model::case::Key;
    use plimsoll_model::sample::Sample;
    use plimsoll_model::{fixture, limit};
    use plimsoll_units::quantity::Unit;

    #[test]
    fn metrics_of_the_same_transfers_are_one_figure() {
        let case: Case = "disk.io/op=read/pattern=random/block=4K/depth=2/threads=4".parse().unwrap();
        assert_eq!(converted(&case, 1000.0, "rate", "throughput"), Some(4_096_000.0));
        assert_eq!(converted(&case, 4_096_000.0, "throughput", "rate"), Some(1000.0));
        assert_eq!(converted(&case, 1000.0, "rate", "latency"), Some(0.008));
        assert_eq!(converted(&case, 0.008, "latency", "throughput"), Some(4_096_000.0));
        let echo: Case = "network.latency/protocol=tcp/message=64/streams=1".parse().unwrap();
        assert_eq!(converted(&echo, 50e-6, "rtt", "rate"), Some(20_000.0));
    }

    #[test]
    fn other_metrics_are_not_converted() {
        let case: Case = "disk.io/op=read/pattern=random/block=4K/depth=1".parse().unwrap();
        assert_eq!(converted(&case, 5.0, "cpu", "rate"), None);
        assert_eq!(converted(&case, 5.0, "rate", "busy"), None);
        assert_eq!(converted(&case, 0.0, "latency", "rate"), None);
        let peak: Case = "cpu.peak/op=fma/type=f64".parse().unwrap();
        assert_eq!(converted(&peak, 5.0, "rate", "latency"), None);
        assert_eq!(converted(&peak, 5.0, "rate", "rate"), Some(5.0));
    }

    /// A metric is a share or a count only if its benchmark declares it so, such as losses.
    #[test]
    fn every_parameter_and_metric_is_listed_and_every_headline_has_a_limit_or_the_reason_why_not() {
        let (machine, samples) = (&fixture::machine(), &[Sample::default()]);
        for benchmark in benchmarks() {
            for name in benchmark.keys() {
                assert!(Key::find(name).is_ok_and(|key| key.name == *name), "{name}");
            }
            let without = ["null", "disk.null", "cpu.integrity"].contains(&benchmark.name());
            for Candidate { case, .. } in benchmark.cases(machine, &Group::default()).unwrap() {
                let (case, metrics) = (&case, benchmark.metrics(&case));
                for Metric { name, unit, role, .. } in &metrics {
                    assert!(benchmark.all_metrics().iter().any(|row| row.name == *name), "{name}");
                    let reported = is_informative(case, name);
                    assert_eq!(reported, *role == Role::Informative);
                    let is_share = ["loss", "taken"].contains(name);
                    assert!(reported || *unit != Unit::One || is_share, "{name}");
                }
                let (metric, evidence) = (metrics[0].name, limit::LimitEvidence::default());
                let limits = limits(&Question { machine, case, metric, samples, evidence });
                assert_eq!(limits.is_empty(), without, "{case}");
                assert!(limits.iter().all(|limit| limit.value.is_some() || limit.reason.is_some()), "{case}");
            }
        }
    }

    #[test]
    fn help_is_that_of_the_benchmarks_and_all_is_every_operation() {
        let machine = fixture::machine();
        let key = Key::find("op").expect("a parameter");
        let mut seen = 0;
        for benchmark in benchmarks() {
            let help = benchmark.descriptor().help.iter().find(|(name, _)| *name == key.name);
            let Some((words, _)) = help.and_then(|(_, text)| text.split_once(" or all")) else { continue };
            let ops = |value: &str| {
                let group = Group::default().with(key.name, vec![key.parse(value).expect("a word")]);
                let cases = benchmark.cases(&machine, &group).unwrap_or_else(|why| panic!("{value}: {why}"));
                let named = cases.iter().filter_map(|one| one.case.word(key.name).map(str::to_owned));
                named.collect::<BTreeSet<_>>()
            };
            // Some words have a note in brackets.
            let listed = words.split(", ").filter_map(|word| word.split(" (").next());
            let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
            assert_eq!(ops("all"), listed, "{}", benchmark.name());
            seen += 1;
        }
        assert!(seen >= 6);
        let of = |part: &str, name: &str| help_of(subsystem(part).unwrap(), Key::find(name).unwrap());
        let block = "with --only cpu.crypto: bytes that one call encrypts or digests [default: 16K]";
        assert_eq!(of("cpu", "block"), block);
        assert!(of("cpu", "op").contains("; with --only cpu.crypto: aes-128-gcm, "), "{}", of("cpu", "op"));
        assert!(of("disk", "op").starts_with("read, write, append"), "{}", of("disk", "op"));
        assert_eq!(of("memory", "pages"), Key::find("pages").unwrap().help);
    }
}
