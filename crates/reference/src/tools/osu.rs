//! The OSU micro-benchmarks `osu_latency`, `osu_bw`, `osu_allreduce`, `osu_barrier` define `mpi.*`.
//! A result line has bytes, then microseconds or MB/s (10⁶).

mod stated;

use plimsoll_bench_mpi::WINDOW;

use crate::tools::prelude::*;

/// A program of the OSU micro-benchmarks.
struct Osu {
    program: &'static [&'static str; 1],
    checks: &'static str,
    benchmark: &'static str,
    metric: &'static str,
    title: &'static str,
}

const OSU_PROGRAMS: [Osu; 4] = [
    Osu {
        program: &["osu_latency"],
        checks: "MPI latency between machines",
        benchmark: "mpi.latency",
        metric: "latency",
        title: "# OSU MPI Latency Test",
    },
    Osu {
        program: &["osu_bw"],
        checks: "MPI bandwidth between machines",
        benchmark: "mpi.bandwidth",
        metric: "throughput",
        title: "# OSU MPI Bandwidth Test",
    },
    Osu {
        program: &["osu_allreduce"],
        checks: "MPI all-reduce over all machines",
        benchmark: "mpi.allreduce",
        metric: "time",
        title: "# OSU MPI Allreduce Latency Test",
    },
    Osu {
        program: &["osu_barrier"],
        checks: "MPI barrier over all machines",
        benchmark: "mpi.barrier",
        metric: "time",
        title: "# OSU MPI Barrier Latency Test",
    },
];

pub(super) const LATENCY: RefTool = tool::<0>();
pub(super) const BANDWIDTH: RefTool = tool::<1>();
pub(super) const ALLREDUCE: RefTool = tool::<2>();
pub(super) const BARRIER: RefTool = tool::<3>();

/// Returns the reference tool for the program at `INDEX` of [`OSU_PROGRAMS`].
const fn tool<const INDEX: usize>() -> RefTool {
    RefTool {
        name: OSU_PROGRAMS[INDEX].program[0],
        checks: OSU_PROGRAMS[INDEX].checks,
        programs: OSU_PROGRAMS[INDEX].program,
        package: Package::Source(
            "curl -L https://mvapich.cse.ohio-state.edu/download/mvapich/osu-micro-benchmarks-7.5.1.tar.gz | tar xz && cd osu-micro-benchmarks-7.5.1 && ./configure CC=mpicc CXX=mpicxx && make",
        ),
        // It needs MPI to print its version, which is above its results.
        version_after: " Test v",
        pairing: |case, _| OSU_PROGRAMS[INDEX].pairing(case),
        invocation: |ask| OSU_PROGRAMS[INDEX].invocation(ask),
        parse: |case, text| OSU_PROGRAMS[INDEX].parse(case, text),
        results: ResultFormat {
            about: "its text output",
            recognises: |text| text.lines().any(|line| OSU_PROGRAMS[INDEX].is_heading(line)),
            starts: |text| line_starts(text, |line| OSU_PROGRAMS[INDEX].is_heading(line)),
            read: |text| OSU_PROGRAMS[INDEX].read(text),
            ..ResultFormat::NONE
        },
        ..RefTool::NONE
    }
}

impl Osu {
    /// Returns whether the program prints MB/s instead of microseconds.
    fn is_bandwidth(&self) -> bool {
        self.metric == "throughput"
    }

    /// Returns the timed iterations, which move about 64 MiB in all, and the warm-up iterations.
    fn times(&self, case: &Case) -> (u64, u64) {
        const MOVED: u64 = 64 << 20;
        let bytes = case.number("message").unwrap_or(1).max(1);
        let each = if self.is_bandwidth() { bytes * WINDOW as u64 } else { bytes };
        let times = (MOVED / each).clamp(10, 1000);
        (times, (times / 10).max(2))
    }

    fn pairing(&self, case: &Case) -> Option<Pairing> {
        (case.benchmark() == self.benchmark).then_some(())?;
        let (definition, note) = match case.word("type") {
            Some("f64") => (Match::Related, "it sums numbers of 4 bytes"),
            Some(_) => (Match::Exact, "mean over the machines"),
            None if self.is_bandwidth() => {
                (Match::Exact, "64 messages at once; its receives share one buffer")
            }
            None => (Match::Exact, "mean"),
        };
        Some(Pairing::new(self.metric, definition, note, 5.0))
    }

    fn invocation(&self, ask: &InvocationInput) -> Result<Invocation, String> {
        let (times, before) = self.times(&ask.case);
        let mut arguments = vec!["-i".to_owned(), times.to_string(), "-x".to_owned(), before.to_string()];
        if let Some(bytes) = ask.case.number("message") {
            arguments.extend(["-m".to_owned(), format!("{bytes}:{bytes}")]);
        }
        Ok(Invocation { program: self.program[0], arguments, ..Invocation::default() })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<ToolFigure, String> {
        if !text.lines().any(|line| line.starts_with(self.title)) {
            return Err(format!("its output has no line '{}'", self.title));
        }
        let size = case.number("message");
        let mut rows = whole_lines(text).filter(|line| !line.starts_with('#')).filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (size, words.as_slice()) {
                (Some(size), [bytes, figure, ..]) if bytes.parse() == Ok(size) => Some(*figure),
                (None, [figure]) => Some(*figure),
                _ => None,
            }
        });
        let value = number("figure", rows.next().ok_or("its output has no line for this size")?)?;
        let (times, _) = self.times(case);
        let bytes = size.unwrap_or(1) as f64 * WINDOW as f64;
        let account = |amount: f64| Account::of(amount * times as f64, Seconds::OF_ITS_LIFE);
        let mut reading = match self.is_bandwidth() {
            true => ToolFigure::of(value * 1e6, account(bytes))?,
            false => ToolFigure::of(value / 1e6, account(1.0))?,
        };
        if let Some(summed) = text.lines().find_map(|line| line.strip_prefix("# Datatype: ")) {
            let summed = summed.trim_end_matches('.');
            if case.word("type").is_some() && summed != "MPI_FLOAT" {
                reading.differs.push(format!("it summed {}", shown_within(summed, 32)));
            }
        }
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::{Machine, Root};

    use super::super::golden;
    use super::*;

    const SUMS: &str = include_str!("../../tests/fixtures/peers/osu-documented-allreduce.txt");

    fn words(tool: &RefTool, case: &str) -> String {
        golden::invoked(tool, case, false).arguments.join(" ")
    }

    #[test]
    fn it_is_asked_for_one_size_and_less_often_for_a_large_one() {
        assert_eq!(words(&LATENCY, "mpi.latency/message=8"), "-i 1000 -x 100 -m 8:8");
        assert_eq!(words(&LATENCY, "mpi.latency/message=4M"), "-i 16 -x 2 -m 4194304:4194304");
        assert_eq!(words(&BANDWIDTH, "mpi.bandwidth/message=4M"), "-i 10 -x 2 -m 4194304:4194304");
        assert_eq!(words(&BARRIER, "mpi.barrier"), "-i 1000 -x 100");
    }

    #[test]
    fn each_stands_beside_its_own_benchmark_and_is_itself() {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        for (tool, osu) in [LATENCY, BANDWIDTH, ALLREDUCE, BARRIER].iter().zip(OSU_PROGRAMS) {
            let case = Case::of(osu.benchmark);
            assert_eq!((tool.pairing)(&case, &machine).unwrap().definition, Match::Exact);
            assert_eq!((tool.pairing)(&Case::of("network.tcp"), &machine), None);
        }
    }

    #[test]
    fn another_type_of_number_is_told() {
        let case = "mpi.allreduce/type=f32/message=8".parse().unwrap();
        let text = golden::body(SUMS);
        assert_eq!((ALLREDUCE.parse)(&case, &text).unwrap().differs, Vec::<String>::new());
        let other = text.replace("MPI_FLOAT", "MPI_CHAR");
        assert_eq!((ALLREDUCE.parse)(&case, &other).unwrap().differs, ["it summed MPI_CHAR"]);
        assert!((LATENCY.parse)(&case, &text).unwrap_err().contains("OSU MPI Latency Test"));
    }
}
