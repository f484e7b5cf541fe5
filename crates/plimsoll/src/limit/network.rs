//! Limits of network figures. Over loopback there is no link: what bounds it is how fast a CPU copies, and only a copy
//! measured in the first-level cache is a bound that cannot be passed.
//!
//! Why not the copy bandwidth of main memory: the sender copies every byte from the program to the kernel, the
//! receiver from the kernel to the program, on two CPUs at once, and what is under way is a few megabytes that stay in
//! the caches. The figure may therefore rightly be above half the memory's copy bandwidth. But each byte is copied at
//! least once by the one sending thread, and no copy is faster than from first-level cache to first-level cache.

use super::{Input, Kind, Limit, Question, Source};
use crate::case::Case;
use crate::machine::cpu::{Cache, CacheKind};

/// Limits of `network.tcp`.
pub fn tcp(question: &Question<'_>) -> Vec<Limit> {
    let bits_per_message = question.case.number("message").map(|bytes| bytes as f64 * 8.0);
    match (question.metric, bits_per_message) {
        ("goodput", _) => vec![copying(question, 1.0, "")],
        ("messages", Some(bits)) => vec![copying(question, bits, " ÷ message")],
        _ => Vec::new(),
    }
}

/// Limits of `network.latency`.
pub fn latency(question: &Question<'_>) -> Vec<Limit> {
    let kind = match question.metric {
        "rtt" => Kind::Floor,
        "rate" | "goodput" => Kind::Ceiling,
        _ => return Vec::new(),
    };
    vec![Limit::unknown(kind, "no physical link: over loopback a round trip is system calls and wake-ups")]
}

/// The ceiling of one stream by the sender's copy, `per` bits to the unit of the metric.
fn copying(question: &Question<'_>, per: f64, suffix: &str) -> Limit {
    let Some(first_level) = first_level_bytes(&question.machine.cpu.caches) else {
        return Limit::unknown(
            Kind::Ceiling,
            "no physical link; and the size of the first-level cache is unknown",
        );
    };
    let fits = |case: &Case| {
        let within = case.number("size").is_some_and(|bytes| bytes <= first_level);
        case.word("op") == Some("copy") && case.threads() == 1 && within
    };
    let Some(copied) = question.evidence.highest("memory.bandwidth", "program", fits) else {
        let half = crate::quantity::format_size(first_level / 2);
        return Limit::unknown(
            Kind::Ceiling,
            format!(
                "no physical link; for the bound by copying also run memory.bandwidth --op copy --threads 1 --size {half}"
            ),
        );
    };
    let inputs = vec![Input {
        name: "copy".to_owned(),
        value: copied,
        unit: "B/s".to_owned(),
        from: "memory.bandwidth of this run: one thread, op copy, in the first-level cache".to_owned(),
    }];
    let formula = format!("copy ÷ 2 (a copy reads and writes) × 8 bit{suffix}");
    let mut limit = Limit::fixed(Kind::Ceiling, Source::Derived, copied / 2.0 * 8.0 / per, &formula, inputs);
    limit.reason = Some("no physical link: each byte is copied by the one sending CPU".to_owned());
    limit
}

/// The largest first-level data cache.
fn first_level_bytes(caches: &[Cache]) -> Option<u64> {
    let holds_data = |cache: &&Cache| cache.level == 1 && cache.kind != CacheKind::Instruction;
    caches.iter().filter(holds_data).filter_map(|cache| cache.size_bytes).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Evidence;
    use crate::machine::{CpuSet, Machine, Root};
    use crate::sample::{Facts, Outcome, Sample};

    fn machine(first_level: Option<u64>) -> Machine {
        let mut machine = Machine::discover(&Root::live());
        machine.cpu.caches = vec![Cache {
            level: 1,
            kind: CacheKind::Data,
            size_bytes: first_level,
            line_bytes: Some(64),
            ways: Some(8),
            instances: vec![CpuSet::default()],
            sharing_unknown: CpuSet::default(),
        }];
        machine
    }

    fn copied(size: u64, threads: u64, program: f64) -> Outcome {
        let case = Case::of("memory.bandwidth").with_word("op", "copy").with_size("size", size);
        let sample = Sample { values: [("program".to_owned(), program)].into(), ..Sample::default() };
        Outcome {
            case: case.with_count("threads", threads),
            samples: vec![sample],
            facts: Facts::default(),
            ended: None,
        }
    }

    fn limit(machine: &Machine, metric: &str, outcomes: &[Outcome]) -> Limit {
        let case = Case::of("network.tcp").with_size("message", 1 << 16);
        let evidence = Evidence { outcomes };
        let question = Question { machine, case: &case, metric, samples: &[], evidence };
        tcp(&question).remove(0)
    }

    #[test]
    fn a_copy_in_the_first_level_cache_bounds_a_stream() {
        let machine = machine(Some(32 << 10));
        let outcomes = [copied(16 << 10, 1, 100e9), copied(1 << 30, 1, 900e9), copied(16 << 10, 2, 200e9)];
        let found = limit(&machine, "goodput", &outcomes);
        assert_eq!((found.value, found.source), (Some(400e9), Source::Derived));
        assert_eq!(found.inputs[0].value, 100e9);
        let messages = limit(&machine, "messages", &outcomes);
        assert_eq!(messages.value, Some(400e9 / 8.0 / 65536.0));
    }

    #[test]
    fn without_it_the_limit_is_unknown_and_says_what_to_run() {
        let found = limit(&machine(Some(32 << 10)), "goodput", &[copied(1 << 30, 1, 20e9)]);
        assert_eq!((found.value, found.source), (None, Source::Unknown));
        assert!(
            found.reason.unwrap().ends_with("also run memory.bandwidth --op copy --threads 1 --size 16K")
        );
        let found = limit(&machine(None), "goodput", &[]);
        assert!(found.reason.unwrap().contains("first-level cache is unknown"));
    }

    #[test]
    fn round_trips_have_unknown_limits_and_loss_has_none() {
        let machine = machine(None);
        let case = Case::of("network.latency");
        let ask = |metric| {
            latency(&Question {
                machine: &machine,
                case: &case,
                metric,
                samples: &[],
                evidence: Evidence::default(),
            })
        };
        assert_eq!(ask("rtt")[0].kind, Kind::Floor);
        assert_eq!(ask("rate")[0].kind, Kind::Ceiling);
        assert!(ask("rtt")[0].reason.as_ref().unwrap().starts_with("no physical link"));
        assert!(ask("loss").is_empty());
    }
}
