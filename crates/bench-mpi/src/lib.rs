//! `mpi.latency`, `mpi.bandwidth`, `mpi.allreduce`, `mpi.barrier`: MPI between machines of a run,
//! measured by the installed OSU micro-benchmarks; this crate defines the cases.
#![forbid(unsafe_code)]

use plimsoll_bench_api::prelude::*;

/// Description of the subsystem.
pub static SUBSYSTEM: Subsystem = Subsystem {
    name: "mpi",
    benchmarks: &[&MPI_LATENCY, &MPI_BANDWIDTH, &ALLREDUCE, &BARRIER],
    title: "MPI between machines",
    is_command: false,
    uses_interfaces: true,
    ..Subsystem::USUAL
};

/// Messages in flight in `mpi.bandwidth`: the default of `osu_bw`.
pub const WINDOW: usize = 64;
const DEFAULT_MESSAGE_BYTES: u64 = 4 << 20;
/// Largest message allowed: a window of them is 1 GiB at the receiver.
const MAX_MESSAGE_BYTES: u64 = 16 << 20;

/// One of the MPI benchmarks.
#[derive(Debug)]
pub struct Mpi(Descriptor);

const OVER_MPI: Descriptor =
    Descriptor { by_default: false, of_all_machines: true, limits, ..Descriptor::USUAL };

/// Omits the server: ranks are on machines of the run anyway.
const BETWEEN_RANKS: LabelPart = LabelPart::Case("server", |_| None);

const TIME_METRICS: &[Metric] =
    &[Metric::new("time", Unit::Second, Better::Lower)
        .about("time of one call, until all ranks have returned")];

/// `mpi.latency`: half the round-trip time of a message between two ranks.
pub static MPI_LATENCY: Mpi = Mpi(Descriptor {
    name: "mpi.latency",
    about: "half a round trip of MPI_Send and MPI_Recv between machines, by the OSU micro-benchmarks",
    keys: &["message"],
    words: &[LabelPart::Word("MPI latency,"), LabelPart::Value("message"), BETWEEN_RANKS],
    metrics: &[
        Metric::new("latency", Unit::Second, Better::Lower).about("half a round trip between two ranks")
    ],
    ..OVER_MPI
});

/// `mpi.bandwidth`: bytes per second of windows of messages from one rank to another.
pub static MPI_BANDWIDTH: Mpi = Mpi(Descriptor {
    name: "mpi.bandwidth",
    about: "64 MPI_Isend at once and one answer between machines, by the OSU micro-benchmarks",
    keys: &["message"],
    words: &[LabelPart::Word("MPI bandwidth,"), LabelPart::Value("message"), BETWEEN_RANKS],
    metrics: &[Metric::new("throughput", Unit::BytePerSecond, Better::Higher)
        .about("bytes per second from one rank to another")],
    ..OVER_MPI
});

/// `mpi.allreduce`: a sum over all ranks, returned to all of them.
pub static ALLREDUCE: Mpi = Mpi(Descriptor {
    name: "mpi.allreduce",
    about: "MPI_Allreduce, a sum over all machines, by the OSU micro-benchmarks",
    keys: &["type", "message"],
    words: &[
        LabelPart::Word("MPI all-reduce,"),
        LabelPart::Value("type"),
        LabelPart::Value("message"),
        BETWEEN_RANKS,
    ],
    metrics: TIME_METRICS,
    ..OVER_MPI
});

/// `mpi.barrier`: a barrier over all ranks.
pub static BARRIER: Mpi = Mpi(Descriptor {
    name: "mpi.barrier",
    about: "MPI_Barrier over all machines, by the OSU micro-benchmarks",
    keys: &[],
    words: &[LabelPart::Word("MPI barrier"), BETWEEN_RANKS],
    metrics: TIME_METRICS,
    ..OVER_MPI
});

impl Mpi {
    /// Returns the message sizes in bytes that `group` requests, else powers of two up to 4 MiB;
    /// none if the benchmark has no messages. Fails unless multiples of `each` up to 16 MiB.
    fn sizes(&self, group: &Group, each: u64) -> Result<Vec<u64>, String> {
        if !self.keys().contains(&"message") {
            return Ok(Vec::new());
        }
        let Some(asked) = group.asked_numbers("message") else {
            let powers = (0..=DEFAULT_MESSAGE_BYTES.ilog2()).map(|power| 1 << power);
            return Ok(powers.filter(|bytes| *bytes >= each).collect());
        };
        let is_wrong =
            |bytes: &&u64| !(each..=MAX_MESSAGE_BYTES).contains(*bytes) || !bytes.is_multiple_of(each);
        match asked.iter().find(is_wrong) {
            Some(bytes) if each > 1 => {
                Err(format!("message must be a multiple of {each} and at most 16M: {bytes} is not"))
            }
            Some(bytes) => Err(format!("message must be between 1 and 16M: {bytes} is not")),
            None => Ok(asked),
        }
    }

    /// Returns a case and the bytes per number for each type that `group` sets; one without types.
    fn types(&self, group: &Group) -> Result<Vec<(Case, u64)>, String> {
        let empty = Case::of(self.name());
        if !self.keys().contains(&"type") {
            return Ok(vec![(empty, 1)]);
        }
        let typed = |word: &String| match word.as_str() {
            "f64" => Ok((empty.clone().with_word("type", word), 8)),
            "f32" => Ok((empty.clone().with_word("type", word), 4)),
            other => {
                Err(format!("type must be f64 or f32: '{}' is neither", plimsoll_units::text::shown(other)))
            }
        };
        group.words("type", &["f64"]).iter().map(typed).collect()
    }
}

/// Whether the case is measured between two machines, not by all machines of the run.
pub fn is_between_two(case: &Case) -> bool {
    [MPI_LATENCY.name(), MPI_BANDWIDTH.name()].contains(&case.benchmark())
}

fn limits(question: &Question<'_>) -> Vec<Limit> {
    let kind =
        if question.case.benchmark() == MPI_BANDWIDTH.name() { LimitKind::Ceiling } else { LimitKind::Floor };
    vec![Limit::unknown(kind, "the way that MPI's messages take is not known: give it by --limits")]
}

impl Benchmark for Mpi {
    fn descriptor(&self) -> &Descriptor {
        &self.0
    }

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut made = Vec::new();
        for (case, bytes) in self.types(group)? {
            let sizes = self.sizes(group, bytes)?;
            made.extend(sizes.iter().map(|size| case.clone().with_size("message", *size)));
            if sizes.is_empty() {
                made.push(case);
            }
        }
        Ok(made.into_iter().map(|case| Candidate::new(case, Err(alone()))).collect())
    }

    fn prepare(&self, _: &Case, _: &Parsed, _: &Context<'_>) -> PreparedCase {
        Err(alone())
    }
}

fn alone() -> CannotMeasure {
    CannotMeasure::not_here("requires several machines: name them with --hosts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::Root;
    use plimsoll_model::fixture::parse_group;
    use proptest::prelude::*;

    fn ids(benchmark: &Mpi, lists: &str) -> Result<Vec<String>, String> {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let cases = benchmark.cases(&machine, &parse_group(lists))?;
        assert!(cases.iter().all(|c| c.feasible.is_err()));
        Ok(cases.iter().map(|c| c.case.to_string()).collect())
    }

    #[test]
    fn sizes_run_from_one_byte_to_four_mebibytes() {
        let all = ids(&MPI_LATENCY, "").unwrap();
        assert_eq!(
            (all.len(), all[0].as_str(), all[22].as_str()),
            (23, "mpi.latency/message=1", "mpi.latency/message=4M")
        );
        let sums = ids(&ALLREDUCE, "").unwrap();
        assert_eq!((sums.len(), sums[0].as_str()), (20, "mpi.allreduce/type=f64/message=8"));
        assert_eq!(ids(&BARRIER, "").unwrap(), ["mpi.barrier"]);
        assert_eq!(ids(&ALLREDUCE, "type=f32").unwrap()[0], "mpi.allreduce/type=f32/message=4");
    }

    #[test]
    fn other_types_are_refused() {
        assert_eq!(ids(&ALLREDUCE, "type=f16").unwrap_err(), "type must be f64 or f32: 'f16' is neither");
    }

    proptest! {
        #[test]
        fn a_message_is_taken_if_it_is_in_range_and_holds_whole_numbers(bytes in 0..40_000_000_u64) {
            let message = format!("message={bytes}");
            let in_range = (1..=MAX_MESSAGE_BYTES).contains(&bytes);
            prop_assert_eq!(ids(&MPI_BANDWIDTH, &message).is_ok(), in_range);
            prop_assert_eq!(ids(&ALLREDUCE, &message).is_ok(), in_range && bytes % 8 == 0);
        }
    }
}
