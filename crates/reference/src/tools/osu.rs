//! The OSU micro-benchmarks `osu_latency`, `osu_bw`, `osu_allreduce`, `osu_barrier` define `mpi.*`.
//! A result line has bytes, then microseconds or MB/s (10⁶).

use plimsoll_bench_mpi::WINDOW;
use plimsoll_metal::kernel::Element;
use plimsoll_model::job::mpi::MpiMessages;

use crate::tools::prelude::*;

/// A program of the OSU micro-benchmarks.
struct Osu {
    program: &'static str,
    checks: &'static str,
    benchmark: &'static str,
    metric: &'static str,
    title: &'static str,
}

/// Returns a program; `title` has the words between `# OSU MPI` and `Test` in its heading.
const fn osu([program, checks, benchmark, metric, title]: [&'static str; 5]) -> Osu {
    Osu { program, checks, benchmark, metric, title }
}

const OSU_PROGRAMS: [Osu; 4] = [
    osu(["osu_latency", "MPI latency between machines", "mpi.latency", "latency", "Latency"]),
    osu(["osu_bw", "MPI bandwidth between machines", "mpi.bandwidth", "throughput", "Bandwidth"]),
    osu(["osu_allreduce", "MPI all-reduce over all machines", "mpi.allreduce", "time", "Allreduce Latency"]),
    osu(["osu_barrier", "MPI barrier over all machines", "mpi.barrier", "time", "Barrier Latency"]),
];

pub(super) const LATENCY: RefTool = tool::<0>();
pub(super) const BANDWIDTH: RefTool = tool::<1>();
pub(super) const ALLREDUCE: RefTool = tool::<2>();
pub(super) const BARRIER: RefTool = tool::<3>();

/// Returns the reference tool for the program at `INDEX` of [`OSU_PROGRAMS`].
const fn tool<const INDEX: usize>() -> RefTool {
    RefTool {
        name: OSU_PROGRAMS[INDEX].program,
        checks: OSU_PROGRAMS[INDEX].checks,
        package: Package::Source(
            "curl -L https://mvapich.cse.ohio-state.edu/download/mvapich/osu-micro-benchmarks-7.5.1.tar.gz | tar xz && cd osu-micro-benchmarks-7.5.1 && ./configure CC=mpicc CXX=mpicxx && make",
        ),
        // It needs MPI to print its version, which is above its results.
        version: ("", " Test v"),
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
        let bytes = MpiMessages::of(case).size.unwrap_or(1).max(1);
        let each = if self.is_bandwidth() { bytes * WINDOW as u64 } else { bytes };
        let times = (MOVED / each).clamp(10, 1000);
        (times, (times / 10).max(2))
    }

    fn pairing(&self, case: &Case) -> Option<Pairing> {
        (case.benchmark() == self.benchmark).then_some(())?;
        let (definition, note) = match MpiMessages::of(case).element {
            Some(Element::F64) => (Match::Related, "it sums numbers of 4 bytes"),
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
        let size = MpiMessages::of(&ask.case).size.map(|bytes| format!("-m {bytes}:{bytes}"));
        let arguments = words(&format!("-i {times} -x {before} {}", size.unwrap_or_default()));
        Ok(Invocation { arguments, ..Invocation::default() })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<ToolFigure, String> {
        let title = format!("# OSU MPI {} Test", self.title);
        if !text.lines().any(|line| line.starts_with(&title)) {
            return Err(format!("its output has no line '{title}'"));
        }
        let MpiMessages { size, element } = MpiMessages::of(case);
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
            if element.is_some() && summed != "MPI_FLOAT" {
                reading.differs.push(format!("it summed {}", shown_within(summed, 32)));
            }
        }
        Ok(reading)
    }

    /// Returns whether a line is the heading of this program: `# OSU MPI Bandwidth Test v5.8`.
    fn is_heading(&self, line: &str) -> bool {
        line.strip_prefix("# OSU MPI").is_some_and(|rest| {
            let rest = rest.trim_start_matches(|c: char| c == '-' || c.is_ascii_alphanumeric());
            rest.starts_with(&format!(" {} Test", self.title))
        })
    }

    /// Reads results of the OSU micro-benchmarks: a line per message size.
    fn read(&self, text: &str) -> Result<Stated, String> {
        let below = text.lines().skip_while(|line| !self.is_heading(line));
        let rows = below.take_while(|line| !line.starts_with("# OSU ") || self.is_heading(line));
        let figures = rows.filter_map(|line| self.figure(line)).collect();
        let stated = Stated { version: LATENCY.version(text), figures, ..Stated::default() };
        stated.unless_empty("it has no line of a size and a figure")
    }

    /// Parses the result in a line: message size (not for a barrier), then MB/s or µs; else `None`.
    fn figure(&self, line: &str) -> Option<StatedFigure> {
        let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let (name, value) = match numbers.as_slice() {
            [value, ..] if self.benchmark == "mpi.barrier" => (self.metric.to_owned(), *value),
            [value] => (self.metric.to_owned(), *value),
            [size, value, ..] => (format!("{} of {size} B", self.metric), *value),
            [] => return None,
        };
        let (value, unit, absurd) = match self.is_bandwidth() {
            true => (value * 1e6, Unit::BytePerSecond, None),
            false => (value * 1e-6, Unit::Second, BoundedEvent::Message.too_short(value * 1e-6)),
        };
        let no = "the file does not show whether its processes were on one machine".to_owned();
        let is_failed = line.split_whitespace().any(|word| word == "Fail");
        let void = is_failed.then(|| "its validation failed".to_owned());
        Some(StatedFigure { absurd, void, ..StatedFigure::new(&name, value, unit, Err(no)) })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::{Machine, Root};

    use super::super::golden;
    use super::*;

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
        let text = golden::body("osu-documented-allreduce.txt");
        assert_eq!((ALLREDUCE.parse)(&case, &text).unwrap().differs, Vec::<String>::new());
        let other = text.replace("MPI_FLOAT", "MPI_CHAR");
        assert_eq!((ALLREDUCE.parse)(&case, &other).unwrap().differs, ["it summed MPI_CHAR"]);
        assert!((LATENCY.parse)(&case, &text).unwrap_err().contains("OSU MPI Latency Test"));
    }

    #[test]
    fn each_program_reads_its_own_lines() {
        let [latency, bandwidth, _, barrier_program] = OSU_PROGRAMS;
        let is_of = |osu: &Osu, text: &str| text.lines().any(|line| osu.is_heading(line));
        let text = "# OSU MPI-CUDA Bandwidth Test v5.6.2\n# Size      Bandwidth (MB/s)\n1     2.34\n4194304   11702.55\n";
        assert!(is_of(&bandwidth, text) && !is_of(&latency, text));
        let figures = bandwidth.read(text).unwrap().figures;
        assert_eq!((figures.len(), figures[1].value), (2, 11_702.55e6));
        let barrier = "# OSU MPI Barrier Latency Test v5.8\n# Avg Latency(us)\n             8.32\n";
        assert!(is_of(&barrier_program, barrier) && !is_of(&latency, barrier));
        let full =
            "# OSU MPI Barrier Latency Test v5.8\n# Avg Latency(us)   Min Latency(us)\n 8.32 1.5 9.1 1000\n";
        for text in [barrier, full] {
            let figure = barrier_program.read(text).unwrap().figures.remove(0);
            assert!((figure.value - 8.32e-6).abs() < 1e-12 && figure.name == "time", "{figure:?}");
        }
        let checked = "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n1  0.95  Pass\n2  1.90  Fail\n";
        let other = "# OSU MPI Bi-Directional Bandwidth Test v7.5\n1  1.80\n";
        let figures = bandwidth.read(&format!("{checked}{other}")).unwrap().figures;
        assert_eq!(figures.iter().map(|figure| figure.void.is_some()).collect::<Vec<_>>(), [false, true]);
        assert!(!is_of(&bandwidth, "# OSU MPI Bi-Directional Bandwidth Test v5.8\n"));
    }
}
