//! Reads results of the OSU micro-benchmarks: a line per message size.

use super::Osu;
use crate::stated::prelude::*;

impl Osu {
    /// Returns whether a line is the heading of this program: `# OSU MPI Bandwidth Test v5.8`.
    pub(super) fn is_heading(&self, line: &str) -> bool {
        let name = self.title.trim_start_matches("# OSU MPI");
        line.strip_prefix("# OSU MPI").is_some_and(|rest| {
            let rest = rest.trim_start_matches(|c: char| c == '-' || c.is_ascii_alphanumeric());
            rest.starts_with(name)
        })
    }

    pub(super) fn read(&self, text: &str) -> Result<Stated, String> {
        let mut stated = Stated::by(self.program[0], super::LATENCY.version(text).as_deref());
        let below = text.lines().skip_while(|line| !self.is_heading(line));
        let rows = below.take_while(|line| !line.starts_with("# OSU ") || self.is_heading(line));
        stated.figures = rows.filter_map(|line| self.figure(line)).collect();
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
    use super::super::OSU_PROGRAMS;

    #[test]
    fn each_program_reads_its_own_lines() {
        let [latency, bandwidth, _, barrier_program] = OSU_PROGRAMS;
        let is_of = |osu: &super::Osu, text: &str| text.lines().any(|line| osu.is_heading(line));
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
        let validated =
            "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n1  0.95  Pass\n2  1.90  Fail\n";
        let other = "# OSU MPI Bi-Directional Bandwidth Test v7.5\n1  1.80\n";
        let figures = bandwidth.read(&format!("{validated}{other}")).unwrap().figures;
        assert_eq!(figures.iter().map(|figure| figure.void.is_some()).collect::<Vec<_>>(), [false, true]);
        assert!(!is_of(&bandwidth, "# OSU MPI Bi-Directional Bandwidth Test v5.8\n"));
    }
}
