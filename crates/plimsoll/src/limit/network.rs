//! Limits of network figures. Over loopback there is no link: what bounds it is how fast a CPU moves bytes.
//!
//! Why not half the copy bandwidth of main memory: the sender copies every byte from the program to the kernel, the
//! receiver from the kernel to the program, on two CPUs at once, and what is under way is a few megabytes that stay in
//! the caches; the figure may rightly be above it. What holds: the one sending thread must write every byte once, to
//! pages that the other CPU has read since, so not in its first-level cache. The traffic, reads and writes together,
//! of a copy within the second-level cache is therefore more than it can write. It is a loose bound, and a true one.

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
    let Some(second_level) = second_level_bytes(&question.machine.cpu.caches) else {
        return Limit::unknown(
            Kind::Ceiling,
            "no physical link; and the size of the second-level cache is unknown",
        );
    };
    let fits = |case: &Case| {
        let within = case.number("size").is_some_and(|bytes| bytes <= second_level);
        case.word("op") == Some("copy") && case.threads() == 1 && within
    };
    let Some(copied) = question.evidence.highest("memory.bandwidth", "program", fits) else {
        let half = crate::quantity::format_size(second_level / 2);
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
        from: "memory.bandwidth of this run: one thread, op copy, in the second-level cache".to_owned(),
    }];
    let formula = format!("copy (bytes read and written) × 8 bit{suffix}");
    let mut limit = Limit::fixed(Kind::Ceiling, Source::Derived, copied * 8.0 / per, &formula, inputs);
    limit.reason = Some("no physical link: the one sending CPU must write each byte".to_owned());
    limit
}

/// The smallest second-level cache, so that what fits in it is in one on every core.
fn second_level_bytes(caches: &[Cache]) -> Option<u64> {
    let holds_data = |cache: &&Cache| cache.level == 2 && cache.kind != CacheKind::Instruction;
    caches.iter().filter(holds_data).filter_map(|cache| cache.size_bytes).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Evidence;
    use crate::machine::{CpuSet, Machine, Root};
    use crate::sample::{Facts, Outcome, Sample};

    fn machine(second_level: Option<u64>) -> Machine {
        let mut machine = Machine::discover(&Root::live());
        machine.cpu.caches = vec![Cache {
            level: 2,
            kind: CacheKind::Unified,
            size_bytes: second_level,
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
            peers: Vec::new(),
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
    fn a_copy_in_the_second_level_cache_bounds_a_stream() {
        let machine = machine(Some(1 << 20));
        let outcomes = [copied(512 << 10, 1, 100e9), copied(1 << 30, 1, 900e9), copied(512 << 10, 2, 200e9)];
        let found = limit(&machine, "goodput", &outcomes);
        assert_eq!((found.value, found.source), (Some(800e9), Source::Derived));
        assert_eq!(found.inputs[0].value, 100e9);
        let messages = limit(&machine, "messages", &outcomes);
        assert_eq!(messages.value, Some(800e9 / 8.0 / 65536.0));
    }

    #[test]
    fn without_it_the_limit_is_unknown_and_says_what_to_run() {
        let found = limit(&machine(Some(1 << 20)), "goodput", &[copied(1 << 30, 1, 20e9)]);
        assert_eq!((found.value, found.source), (None, Source::Unknown));
        assert!(
            found.reason.unwrap().ends_with("also run memory.bandwidth --op copy --threads 1 --size 512K")
        );
        let found = limit(&machine(None), "goodput", &[]);
        assert!(found.reason.unwrap().contains("second-level cache is unknown"));
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
