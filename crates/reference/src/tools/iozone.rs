//! IOzone: one record at a time on its own file, in KiB/s. Only the tables of `-R` are read: in the
//! default output, the columns depend on the version.

use crate::tools::prelude::*;
use plimsoll_model::job::disk::BlockOrder::{self, Backward, Random, Same, Sequential, Strided};
use plimsoll_model::job::disk::CacheMode::{self, Buffered, Direct};
use plimsoll_model::job::disk::DiskOperation::{self, Read, Write};
use plimsoll_model::job::disk::{BlockSizes, DiskEngine, DiskTransfers, TransferAmount};

const KIB: u64 = 1024;
const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Seconds of sleep per pass of several processes (3.489: 8.1 s for two, 14.2 s for three).
const SLEEPS: f64 = 4.5;

struct IozoneTest {
    operation: DiskOperation,
    order: BlockOrder,
    /// Direct, or through the page cache by the C library's streams.
    cache: CacheMode,
    number: &'static str,
    report: &'static str,
    /// Name of the processes in throughput mode; empty if that lacks the test.
    processes: &'static str,
    other: Option<Other>,
}

struct Other {
    name: &'static str,
    report: &'static str,
    note: &'static str,
}

/// Returns a test with iozone's `number` for it, the title of its report, and the name of its
/// processes in throughput mode, empty if it has no such mode.
const fn test(
    number: &'static str,
    (operation, order, cache): (DiskOperation, BlockOrder, CacheMode),
    report: &'static str,
    processes: &'static str,
) -> IozoneTest {
    IozoneTest { operation, order, cache, number, report, processes, other: None }
}

impl IozoneTest {
    const fn with(self, name: &'static str, report: &'static str, note: &'static str) -> Self {
        Self { other: Some(Other { name, report, note }), ..self }
    }
}

const TESTS: &[IozoneTest] = &[
    test("1", (Read, Sequential, Direct), "Reader report", "readers").with(
        "reread",
        "Re-Reader report",
        "the second pass over the same file",
    ),
    // A second pass of writes would also sleep; the readings for reads have the first one.
    test("0", (Write, Sequential, Direct), "Re-writer report", "initial writers").with(
        "write",
        "Writer report",
        "the first pass over a new file: it also makes the file longer and has its blocks allocated",
    ),
    test("2", (Read, Random, Direct), "Random read report", "random readers"),
    test("2", (Write, Random, Direct), "Random write report", "random writers"),
    test("3", (Read, Backward, Direct), "Backward read report", "reverse readers"),
    test("4", (Write, Same, Direct), "Record rewrite report", ""),
    test("5", (Read, Strided, Direct), "Stride read report", "stride readers"),
    test("6", (Write, Sequential, Buffered), "Re-Fwrite report", "").with(
        "fwrite",
        "Fwrite report",
        "the first pass over a new file, through the C library's stream and the page cache",
    ),
    test("7", (Read, Sequential, Buffered), "Fread report", "").with(
        "freread",
        "Re-Fread report",
        "the second pass over the same file; the C library's stream and the page cache are in the figure",
    ),
];

struct IozoneCase {
    test: &'static IozoneTest,
    job: DiskTransfers,
    block: u64,
}

impl IozoneCase {
    fn of(case: &Case) -> Option<Self> {
        (case.benchmark() == "disk.io").then_some(())?;
        has_only_parameters(case, "op pattern block depth threads engine cache size").then_some(())?;
        let job = DiskTransfers::of(case).ok().filter(|job| job.depth == 1)?;
        let BlockSizes::One(block) = job.blocks else { return None };
        (block > 0 && block.is_multiple_of(KIB) && block <= MAX_RECORD_BYTES).then_some(())?;
        let wanted = (job.operation, job.order, job.cache);
        let test = TESTS.iter().find(|test| (test.operation, test.order, test.cache) == wanted)?;
        (job.threads == 1 || !test.processes.is_empty()).then_some(Self { test, job, block })
    }

    /// Returns the bytes of a process's file: its part of 2048 records (1 to 128 MiB), 4 or more.
    fn file_bytes(&self) -> u64 {
        const RECORDS: u64 = 2048;
        const LEAST_RECORDS: u64 = 4;
        const MIN_FILE_BYTES: u64 = 1 << 20;
        const MAX_FILE_BYTES: u64 = 128 << 20;
        let block = self.block;
        let moved = self.job.amount.map_or(MAX_FILE_BYTES, |amount| match amount {
            TransferAmount::Bytes(bytes) => bytes,
            TransferAmount::Transfers(transfers) => transfers.saturating_mul(block),
        });
        let all = (block * RECORDS).min(moved).clamp(MIN_FILE_BYTES, MAX_FILE_BYTES);
        (all / self.job.threads.max(1)).max(block * LEAST_RECORDS).next_multiple_of(block)
    }
}

pub(super) const IOZONE: RefTool = RefTool {
    name: "iozone",
    checks: "disk throughput, one record at a time",
    package: Package::DebianNonFree("iozone3"),
    version: ("-v", "Version $Revision: "),
    explains: &["disk"],
    declines: |_| {
        "it reads or writes one record of whole KiB, 16 MiB at most, at a time past the page cache: sequential, random, \
         backward, strided reads; sequential, random, and of one thread same-place writes; of one thread fread and fwrite \
         through the page cache"
    },
    pairing,
    passes,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let found = IozoneCase::of(case)?;
    let IozoneCase { test, ref job, block } = found;
    let threads = job.threads;
    let (definition, note) = match job.engine {
        _ if test.cache == Buffered => {
            (Match::Related, "fread and fwrite: the C library's stream and the page cache are in the figure")
        }
        DiskEngine::Psync if threads == 1 => {
            (Match::Exact, "bytes per second, one block at a time, on a file of its own")
        }
        DiskEngine::Psync if (test.operation, test.order) == (Write, Sequential) => {
            (Match::Related, "the sum of what its processes saw when each made a file of its own")
        }
        DiskEngine::Psync => (Match::Related, "the sum of what its processes saw, on files of their own"),
        _ => (Match::Related, "one pread or pwrite at a time, no io_uring"),
    };
    // 1 GB/s and 0.1 ms per record, for two to four passes.
    let passes = if test.number == "2" { 3.0 } else { 2.0 };
    let moved = (found.file_bytes() * threads) as f64 * (passes + 1.0);
    let sleeps = if threads > 1 { passes * SLEEPS } else { 0.0 };
    let seconds = 0.5 + moved / 1e9 + moved / block as f64 * 1e-4 + sleeps;
    let metric = if job.is_small() { "rate" } else { "throughput" };
    Some(Pairing::new(metric, definition, note, seconds))
}

fn passes(case: &Case) -> Vec<Pass> {
    let found = IozoneCase::of(case).filter(|found| found.job.threads == 1);
    let found = found.and_then(|found| Some((found.test.other.as_ref()?, found.job)));
    let pass = |(other, job): (&Other, DiskTransfers)| {
        let exact = (job.operation, job.cache, job.engine) == (Read, Direct, DiskEngine::Psync);
        let definition = if exact { Match::Exact } else { Match::Related };
        Pass { name: other.name, definition, note: other.note }
    };
    found.map(pass).into_iter().collect()
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let found = IozoneCase::of(&ask.case).ok_or("it has no such test")?;
    let (bytes, threads) = (found.file_bytes(), found.job.threads);
    let IozoneCase { test, block, .. } = found;
    let (record, size) = (block / KIB, bytes / KIB);
    let direct = if test.cache == Direct { "-I" } else { "" };
    // Several processes share readings: one of sequential reads and writes, one of random ones.
    let number = match test.number {
        "0" if threads == 1 => String::new(),
        "0" => "-i 1".to_owned(),
        number => format!("-i {number}"),
    };
    // Several processes each make a file in the current directory.
    let files = if threads == 1 { "-f iozone.tmp".to_owned() } else { format!("-t {threads} -+n") };
    let line = format!("-R -e -r {record}k -s {size}k -i 0 {direct} {number} {files}");
    Ok(Invocation {
        disk_bytes: bytes.saturating_mul(threads),
        answers_others: threads > 1,
        ..ask.call(words(&line))
    })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let IozoneCase { test, job, block } = IozoneCase::of(case).ok_or("it has no such test")?;
    if !text.contains("\niozone test complete.") {
        return Err("its test is not complete".to_owned());
    }
    if let Some((_, unit)) = text.split_once("Output is in ")
        && !unit.to_ascii_lowercase().starts_with("kbytes/sec")
    {
        return Err("its output is not in kBytes/sec".to_owned());
    }
    let record = block / KIB;
    let other = test.other.as_ref().filter(|_| job.threads == 1);
    let other = other.map(|other| (other.name, in_report(text, record, other.report)));
    let figure = match job.threads {
        1 => in_report(text, record, test.report),
        threads => of_all(text, record, threads, test.processes),
    };
    let figure = figure.ok_or_else(|| {
        let (order, operation) = (test.order.word(), test.operation.word());
        format!("its output has no {order} {operation} of records of {record} kB")
    })?;
    let each = if job.is_small() { block as f64 } else { 1.0 };
    // All processes stop as soon as one of them is done.
    let read = |figure: &IozoneFigure| {
        let account = Account::of(figure.file_kib.saturating_mul(KIB) as f64 / each, Seconds::OF_ITS_LIFE);
        ToolFigure::of(figure.kib_per_second * KIB as f64 / each, account)
    };
    let mut reading = read(&figure)?;
    let other = other.and_then(|(name, figure)| Some((name, read(&figure?).ok()?)));
    reading.passes.extend(other.map(|(name, other)| (name, (other.value, other.account))));
    reading.record(&fact::WORKING_SET_BYTES, figure.file_kib.saturating_mul(KIB));
    reading.record(&fact::BLOCK_BYTES, record * KIB);
    if test.cache == Direct && !text.contains("O_DIRECT feature enabled") {
        reading.differs.push("it went through the page cache".to_owned());
    }
    Ok(reading)
}

struct IozoneFigure {
    file_kib: u64,
    kib_per_second: f64,
}

/// Parses the sum of all processes, `Children see throughput for  2 readers  =  77886.72 kB/sec`.
/// `record` is the record size in KiB, `processes` is `readers`. `None` without such a line.
fn of_all(text: &str, record: u64, threads: u64, processes: &str) -> Option<IozoneFigure> {
    let number = |label| number_after(text, label).ok();
    (number("Record Size ")? as u64 == record).then_some(())?;
    let mut sums = text.lines().filter_map(|line| line.trim().strip_prefix("Children see throughput for"));
    let kib_per_second = sums.find_map(|rest| {
        let (who, sum) = rest.split_once('=')?;
        let mut who = who.split_whitespace();
        (who.next()?.parse() == Ok(threads) && who.eq(processes.split(' '))).then_some(())?;
        sum.trim().strip_suffix(" kB/sec")?.parse().ok()
    })?;
    Some(IozoneFigure { file_kib: number("File size set to ")? as u64, kib_per_second })
}

/// Parses the only figure in the table `report` of `-R`: the column is headed by `record`, in KiB,
/// `"64"`; its row has the file size in KiB and KiB/s, `"4096"   1051862`.
fn in_report(text: &str, record: u64, report: &str) -> Option<IozoneFigure> {
    let (_, table) = text.split_once(&format!("\n\"{report}\"\n"))?;
    let rows = whole_lines(table).take_while(|line| line.trim_start().starts_with('"'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split_whitespace().collect()).collect();
    let [[of], [size, figure]] = rows.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] else { return None };
    let quoted = |word: &str| word.strip_prefix('"')?.strip_suffix('"')?.parse::<u64>().ok();
    let file_kib = quoted(size).filter(|_| quoted(of) == Some(record))?;
    Some(IozoneFigure { file_kib, kib_per_second: figure.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    #[test]
    fn every_test_alone_is_read_from_its_own_table() {
        let titles = ["Re-writer", "Reader", "Random read", "Backward read", "Record rewrite", "Stride read"];
        for (number, title) in titles.into_iter().enumerate() {
            let text = golden::body(&format!("iozone-3.489-i{number}.txt"));
            let report = format!("{title} report");
            assert_eq!(in_report(&text, 64, &report).map(|figure| figure.file_kib), Some(4096), "{report}");
            for other in TESTS.iter().map(|test| test.report).filter(|other| *other != report) {
                let elsewhere = in_report(&text, 64, other);
                assert!(elsewhere.is_none() || ["Re-writer report", "Random write report"].contains(&other));
            }
            assert!(in_report(&text, 4, &report).is_none(), "no such record");
        }
    }

    #[test]
    fn the_other_pass_of_the_same_answer_is_a_figure_of_its_own() {
        let of = |what: &str, block: &str, threads: u8| -> Case {
            let (op, cache) = what.split_once(' ').unwrap();
            let id = "disk.io/pattern=sequential/depth=1/engine=psync";
            format!("{id}/op={op}/cache={cache}/block={block}/threads={threads}").parse().unwrap()
        };
        for (tests, case, name, kib) in [
            ("i0", of("write direct", "64K", 1), "write", 515_744.0),
            ("i1", of("read direct", "64K", 1), "reread", 329_654.0),
            ("i0-i6-i7", of("write buffered", "64K", 1), "fwrite", 126_156.0),
            ("i0-i6-i7", of("read buffered", "64K", 1), "freread", 17_910_197.0),
        ] {
            let stated = passes(&case);
            assert_eq!(stated.iter().map(|pass| pass.name).collect::<Vec<_>>(), [name]);
            let text = golden::body(&format!("iozone-3.489-{tests}.txt"));
            let reading = parse(&case, &text).unwrap();
            let records = case.number("block").unwrap() as f64 / 1024.0;
            let found: Vec<_> = reading.passes.iter().map(|(name, (value, _))| (*name, *value)).collect();
            assert_eq!(found, [(name, kib / records)]);
        }
        assert_eq!(passes(&of("read direct", "4K", 2)), [], "several processes make one pass");
        let random: Case = "disk.io/op=read/pattern=random/block=64K/threads=1/cache=direct".parse().unwrap();
        assert_eq!(passes(&random), []);
    }

    #[test]
    fn several_processes_answer_for_both_directions_in_one_call() {
        let arguments = |what: &str, threads: u8| {
            let (op, pattern) = what.split_once(' ').unwrap();
            let id = format!(
                "disk.io/op={op}/pattern={pattern}/block=1M/threads={threads}/engine=psync/cache=direct"
            );
            golden::invoked(&IOZONE, &id, false).arguments
        };
        assert_eq!(arguments("read sequential", 2), arguments("write sequential", 2));
        assert_eq!(arguments("read random", 2), arguments("write random", 2));
        assert!(arguments("read random", 2).contains(&"-+n".to_owned()));
        assert_ne!(arguments("read sequential", 1), arguments("write sequential", 1));
    }

    #[test]
    fn columns_without_tables_are_no_figure() {
        let case = "disk.io/op=read/pattern=random/block=4K/depth=1/threads=1/engine=psync".parse().unwrap();
        let text = golden::body("iozone-3.489-random-4k.txt");
        let why = parse(&case, &text).unwrap_err();
        assert!(why.contains("no random read of records of 4 kB"), "{why}");
        let operations = text.replace("Output is in kBytes/sec", "Output is in ops/sec");
        assert!(parse(&case, &operations).unwrap_err().contains("not in kBytes/sec"));
    }

    #[test]
    fn processes_share_the_disk_and_large_records_are_declined() {
        let case = |block: u64, threads| {
            let case = Case::of("disk.io").with_word("op", "read").with_word("pattern", "random");
            case.with_size("block", block).with_count("threads", threads)
        };
        let found = |case: &Case| IozoneCase::of(case);
        assert!(found(&case(1024, 128)).is_some() && found(&case(16 << 20, 4)).is_some());
        assert!(found(&case(100 << 20, 1)).is_none() && found(&case(512, 1)).is_none());
        assert!(found(&case(4096, 2).with_word("op", "write").with_word("pattern", "same")).is_none());
        let file_bytes = |case: &Case| found(case).unwrap().file_bytes();
        for (block, threads) in [(1 << 10, 128), (4 << 10, 1), (1 << 20, 4), (16 << 20, 128)] {
            let each = file_bytes(&case(block, threads));
            assert!(each.is_multiple_of(block) && each >= 4 * block, "{block} {threads}: {each}");
            assert!(each * threads <= (128 << 20).max(4 * block * threads), "{block} {threads}: {each}");
        }
        let little = case(1 << 20, 1).with_size("volume", 10 << 20);
        assert_eq!(file_bytes(&little), 10 << 20, "no more than the case itself moves");
        assert_eq!(file_bytes(&case(1024, 1).with_count("count", 1000)), 1 << 20);
    }
}
