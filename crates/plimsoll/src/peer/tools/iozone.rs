//! IOzone: one record at a time on a file of its own beside ours, in KiB a second.
//!
//! Its answer is a line of thirteen columns for each size of file and record, of which only those that were asked for
//! are filled; with `-R` it also prints a table a test (rows are file sizes, columns record sizes). Both are read. The
//! last four tests (fwrite, frewrite, fread, freread) go through the C library's buffers: no counterpart here. Beside
//! several threads its throughput mode stands, a process and a file each, of which it prints the sum.

use super::super::{Ask, Invocation, Match, Package, Pairing, Peer, Reading, Tool};
use super::{only, words};
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Iozone;

const KIB: u64 = 1024;
/// Its largest record.
const LARGEST: u64 = 16 << 20;
/// Seconds that it sleeps in each pass of several processes, whatever they move (3.489: 8.1 s for two passes, 14.2 for three).
const SLEEPS: f64 = 4.5;
/// Blocks up to this size are judged by their rate, larger ones by bytes (as our headline is).
const SMALL: u64 = 64 << 10;

/// The titles of its reports with `-R`, in the order of its columns.
const REPORTS: [&str; 13] = [
    "Writer report",
    "Re-writer report",
    "Reader report",
    "Re-Reader report",
    "Random read report",
    "Random write report",
    "Backward read report",
    "Record rewrite report",
    "Stride read report",
    "Fwrite report",
    "Re-Fwrite report",
    "Fread report",
    "Re-Fread report",
];

/// A test of its, and which of our cases it is.
struct Test {
    op: &'static str,
    pattern: &'static str,
    /// What `-i` takes.
    number: &'static str,
    /// Which column holds the figure.
    column: usize,
    /// What it calls the processes of its throughput mode, where that has the test.
    processes: Option<&'static str>,
}

const TESTS: &[Test] = &[
    Test { op: "read", pattern: "sequential", number: "1", column: 2, processes: Some("readers") },
    Test { op: "write", pattern: "sequential", number: "0", column: 1, processes: Some("rewriters") },
    Test { op: "read", pattern: "random", number: "2", column: 4, processes: Some("random readers") },
    Test { op: "write", pattern: "random", number: "2", column: 5, processes: Some("random writers") },
    Test { op: "read", pattern: "backward", number: "3", column: 6, processes: Some("reverse readers") },
    Test { op: "write", pattern: "same", number: "4", column: 7, processes: None },
    Test { op: "read", pattern: "strided", number: "5", column: 8, processes: Some("stride readers") },
];

fn test(case: &Case) -> Option<&'static Test> {
    (case.benchmark() == "disk.io").then_some(())?;
    (case.number("depth").unwrap_or(1) == 1).then_some(())?;
    only(case, &["op", "pattern", "block", "depth", "threads", "engine", "cache", "size"]).then_some(())?;
    case.word("cache").is_none_or(|cache| cache == "direct").then_some(())?;
    case.number("block").filter(|block| *block > 0 && block.is_multiple_of(KIB) && *block <= LARGEST)?;
    let (op, pattern) = (case.word("op")?, case.word("pattern")?);
    let test = TESTS.iter().find(|test| (test.op, test.pattern) == (op, pattern))?;
    (case.threads() == 1 || test.processes.is_some()).then_some(test)
}

/// Bytes of the file of each of its processes: enough records for a figure, little of the disk, and no more than the
/// case itself moves where that is told.
fn file_bytes(case: &Case, block: u64) -> u64 {
    const RECORDS: u64 = 2048;
    const LEAST_RECORDS: u64 = 4;
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 128 << 20;
    let moved = case.number("volume").or(case.number("count").map(|count| count.saturating_mul(block)));
    let all = (block * RECORDS).min(moved.unwrap_or(MOST)).clamp(LEAST, MOST);
    (all / case.threads().max(1) as u64).max(block * LEAST_RECORDS).next_multiple_of(block)
}

/// What it is.
const TOOL: Tool = Tool {
    name: "iozone",
    checks: "disk throughput, one record at a time",
    programs: &["iozone"],
    package: Package::DebianNonFree("iozone3"),
    version_arguments: &["-v"],
    version_after: "Version $Revision: ",
    ..Tool::NONE
};

impl Peer for Iozone {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn declines(&self, case: &Case) -> Option<&'static str> {
        (case.subsystem() == "disk").then_some(
            "it reads or writes one record of whole KiB, 16 MiB at most, at a time past the page cache: sequential, random, \
             backward, strided reads; sequential, random, and of one thread same-place writes",
        )
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        let test = test(case)?;
        let (block, threads) = (case.number("block")?, case.threads() as u64);
        let (definition, note) = match case.word("engine") {
            Some("psync") if threads == 1 => {
                (Match::Exact, "bytes per second, one block at a time, on a file of its own")
            }
            Some("psync") => (Match::Related, "the sum of what its processes saw, on files of their own"),
            _ => (Match::Related, "one pread or pwrite at a time, no io_uring"),
        };
        // A million bytes a millisecond and a tenth of one for each record, for the two to four passes that it makes.
        let passes = if test.number == "2" { 3.0 } else { 2.0 };
        let moved = (file_bytes(case, block) * threads) as f64 * (passes + 1.0);
        let sleeps = if threads > 1 { passes * SLEEPS } else { 0.0 };
        let seconds = 0.5 + moved / 1e9 + moved / block as f64 * 1e-4 + sleeps;
        let metric = if block <= SMALL { "rate" } else { "throughput" };
        Some(Pairing { metric, definition, note, seconds, pairs: Pairing::PAIRS })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let test = test(ask.case).ok_or("it has no such test")?;
        let block = ask.case.number("block").ok_or("the case has no block")?;
        let threads = ask.case.threads() as u64;
        let bytes = file_bytes(ask.case, block);
        let (record, size) = (format!("{}k", block / KIB), format!("{}k", bytes / KIB));
        let mut arguments = words(&["-I", "-e", "-r", &record, "-s", &size, "-i", "0"]);
        if test.number != "0" {
            arguments.extend(words(&["-i", test.number]));
        }
        // Of several processes each makes a file of a name of its own where it stands.
        arguments.extend(match threads {
            1 => words(&["-f", "iozone.tmp"]),
            n => words(&["-t", &n.to_string()]),
        });
        // A second pass of reads says nothing new and sleeps as long as the first; writes over filled blocks are its second.
        if threads > 1 && test.number != "0" {
            arguments.push("-+n".to_owned());
        }
        Ok(Invocation {
            program: "iozone",
            arguments,
            cpus: ask.offer.cpus.clone(),
            disk_bytes: bytes.saturating_mul(threads),
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        let test = test(case).ok_or("it has no such test")?;
        if !text.contains("\niozone test complete.") {
            return Err("its test is not complete".to_owned());
        }
        let block = case.number("block").ok_or("the case has no block")?;
        let record = block / KIB;
        let figure = match (case.threads(), test.processes) {
            (1, _) | (_, None) => {
                in_lines(text, record, test.column).or_else(|| in_report(text, record, test.column))
            }
            (threads, Some(processes)) => of_all(text, record, threads, processes),
        };
        let wanted = || format!("its output has no {} {} of records of {record} kB", test.pattern, test.op);
        let figure = figure.ok_or_else(wanted)?;
        let each = if block <= SMALL { block as f64 } else { 1.0 };
        let mut reading = Reading::of(figure.kib_per_second * KIB as f64 / each)?;
        reading.achieved.insert("size".to_owned(), (figure.file_kib * KIB).to_string());
        reading.achieved.insert("block".to_owned(), (record * KIB).to_string());
        if !text.contains("O_DIRECT feature enabled") {
            reading.differs.push("it went through the page cache".to_owned());
        }
        Ok(reading)
    }
}

/// One figure of its, with the size of the file.
struct Figure {
    file_kib: u64,
    kib_per_second: f64,
}

/// The sum of its processes: `Children see throughput for  2 readers  =  77886.72 kB/sec`.
fn of_all(text: &str, record: u64, threads: usize, processes: &str) -> Option<Figure> {
    let number = |label| super::number_after(text, label).ok();
    (number("Record Size ")? as u64 == record).then_some(())?;
    let mut sums = text.lines().filter_map(|line| line.trim().strip_prefix("Children see throughput for"));
    let kib_per_second = sums.find_map(|rest| {
        let (who, sum) = rest.split_once('=')?;
        let mut who = who.split_whitespace();
        (who.next()?.parse() == Ok(threads) && who.eq(processes.split(' '))).then_some(())?;
        sum.trim().strip_suffix(" kB/sec")?.parse().ok()
    })?;
    Some(Figure { file_kib: number("File size set to ")? as u64, kib_per_second })
}

/// That column in the last line of such records: the largest file. Columns that were not asked for are blank, so where a
/// line is not full, a figure's column follows from where it ends: its lines are printed in fields of 16, 8, and then 9
/// characters.
fn in_lines(text: &str, record: u64, column: usize) -> Option<Figure> {
    const FIRST_ENDS: usize = 33;
    const WIDTH: usize = 9;
    text.lines().find(|line| line.trim_start().starts_with("kB  reclen"))?;
    let mut rows = text.lines().filter(|line| line.starts_with(' ')).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok());
        let file_kib = number(0)?;
        (number(1)? == record).then_some(())?;
        let word = if words.len() == 2 + REPORTS.len() {
            words.get(2 + column).copied()?
        } else {
            let end = FIRST_ENDS + column * WIDTH;
            line.get(end - WIDTH..end)?.trim()
        };
        Some(Figure { file_kib, kib_per_second: word.parse().ok()? })
    });
    rows.next_back()
}

/// The figure of the largest file in a report of `-R`: `"4"  "8" …` above, `"1024"   47339  85304 …` below.
fn in_report(text: &str, record: u64, column: usize) -> Option<Figure> {
    let (_, after) = text.split_once(&format!("\"{}\"", REPORTS.get(column)?))?;
    let mut lines = after.lines().skip(1).take_while(|line| line.trim_start().starts_with('"'));
    let quoted = |word: &str| word.trim_matches('"').parse::<u64>().ok();
    let at = lines.next()?.split_whitespace().position(|word| quoted(word) == Some(record))?;
    let rows = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        Some(Figure { file_kib: quoted(words.next()?)?, kib_per_second: words.nth(at)?.parse().ok()? })
    });
    rows.last()
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const AUTO: &str = include_str!("../../../tests/fixtures/peers/iozone-3.489-auto.txt");
    const MATRIX: &str = include_str!("../../../tests/fixtures/peers/iozone-3.489-matrix.txt");
    const RANDOM: &str = include_str!("../../../tests/fixtures/peers/iozone-3.489-random-4k.txt");

    #[test]
    fn all_thirteen_columns_are_read_from_lines() {
        let text = golden::body(AUTO);
        let all: Vec<f64> =
            (0..REPORTS.len()).map(|c| in_lines(&text, 16, c).unwrap().kib_per_second).collect();
        assert_eq!(
            all,
            [
                197911.0, 146274.0, 170823.0, 204954.0, 128160.0, 146757.0, 127996.0, 186723.0, 146275.0,
                512253.0, 991290.0, 9943171.0, 7173805.0
            ]
        );
        assert_eq!(in_lines(&text, 16, 0).unwrap().file_kib, 4096);
        assert!(in_lines(&text, 3, 0).is_none());
    }

    #[test]
    fn a_matrix_of_reports_is_read_as_its_lines_are() {
        let text = golden::body(MATRIX);
        let reports = text.split_once("Excel output").map_or(text.as_str(), |(_, reports)| reports);
        for (column, title) in REPORTS.iter().enumerate() {
            for record in [4, 64, 1024] {
                let lines = in_lines(&text, record, column).unwrap();
                let report = in_report(reports, record, column).expect(title);
                assert_eq!(lines.kib_per_second, report.kib_per_second, "{title} {record}");
                assert_eq!((lines.file_kib, report.file_kib), (4096, 4096));
            }
        }
    }

    #[test]
    fn processes_share_the_disk_and_large_records_are_declined() {
        let case = |block: u64, threads| {
            let case = Case::of("disk.io").with_word("op", "read").with_word("pattern", "random");
            case.with_size("block", block).with_count("threads", threads)
        };
        assert!(test(&case(1024, 128)).is_some() && test(&case(16 << 20, 4)).is_some());
        assert!(test(&case(100 << 20, 1)).is_none() && test(&case(512, 1)).is_none());
        assert!(test(&case(4096, 2).with_word("op", "write").with_word("pattern", "same")).is_none());
        for (block, threads) in [(1 << 10, 128), (4 << 10, 1), (1 << 20, 4), (16 << 20, 128)] {
            let each = file_bytes(&case(block, threads), block);
            assert!(each.is_multiple_of(block) && each >= 4 * block, "{block} {threads}: {each}");
            assert!(each * threads <= (128 << 20).max(4 * block * threads), "{block} {threads}: {each}");
        }
        let little = case(1 << 20, 1).with_size("volume", 10 << 20);
        assert_eq!(file_bytes(&little, 1 << 20), 10 << 20, "no more than the case itself moves");
        assert_eq!(file_bytes(&case(1024, 1).with_count("count", 1000), 1024), 1 << 20);
    }

    #[test]
    fn columns_that_were_not_asked_for_are_blank() {
        let text = golden::body(RANDOM);
        assert!(in_lines(&text, 4, 2).is_none() && in_lines(&text, 4, 9).is_none());
        assert!(in_lines(&text, 4, 4).is_some());
    }
}
