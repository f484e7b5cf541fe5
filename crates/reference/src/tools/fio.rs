//! fio: the same reads of the case's file, the same writes to a similar one, commits on a log. It
//! uses io_uring with registered files and fixed buffers; its latency includes submission. From a
//! job file it also gets options that do not change what is measured ([`CARRIED`]).

mod names;
mod report;
mod stated;

use plimsoll_model::job::disk::{
    ArrivalProcess, BlockOrder, BlockSizes, CacheMode, DiskEngine, DiskOperation, DiskTransfers, Flush,
    FsyncLoad, MAX_SMALL_BLOCK_BYTES, STRIDE_BLOCKS, SyncCall, WriteThrough,
};
use serde_json::Value;

use crate::tools::prelude::*;
use report::FioReport;

const LOG: u64 = FsyncLoad::SEGMENT_BYTES;

/// Parameters that fio supports, or that do not change a single transfer.
const FIO_KEYS: &str =
    "op read-share pattern block align depth size threads layout engine cache sync rate arrivals";

/// Options of a job file that fio gets unchanged: they change how it does the transfers, not which.
/// Their values are untrusted: words without a path.
const CARRIED: &str = "norandommap softrandommap random_generator randrepeat allrandrepeat randseed iodepth_batch \
    iodepth_batch_complete_max io_submit_mode rate_cycle nonvectored iomem_align refill_buffers scramble_buffers \
    fadvise_hint";

fn carried(job: &[String]) -> impl Iterator<Item = String> {
    const MAX_OPTION_CHARS: usize = 40;
    let plain = |value: &str| {
        (1..=MAX_OPTION_CHARS).contains(&value.len())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.,:-".contains(&byte))
    };
    job.iter().filter_map(move |option| {
        let (name, value) = option.split_once('=')?;
        (CARRIED.split(' ').any(|carried| carried == name) && plain(value))
            .then(|| format!("--{name}={value}"))
    })
}

struct FioJob {
    case: DiskTransfers,
    options: Vec<String>,
    differs: Option<&'static str>,
}

type NoFioJob = &'static str;

fn job(case: &Case) -> Result<FioJob, NoFioJob> {
    if !has_only_parameters(case, FIO_KEYS) {
        return Err("it has no search, no check and no rounds as these");
    }
    let case = DiskTransfers::of(case).map_err(|_| "it has no such operation or pattern")?;
    if case.cache == CacheMode::Buffered {
        return Err(
            "through the page cache the figure depends on what is cached: use --cache direct or cold",
        );
    }
    let prefix = if case.order.is_random() { "rand" } else { "" };
    let mut options = match case.operation {
        DiskOperation::Read | DiskOperation::Write => vec![format!("--rw={prefix}{}", case.operation.word())],
        DiskOperation::Mixed { read_share }
            if case.order.is_random() || case.order == BlockOrder::SequentialEach =>
        {
            vec![format!("--rw={prefix}rw"), format!("--rwmixread={read_share}")]
        }
        DiskOperation::Mixed { .. } => {
            return Err(
                "its sequential mix has a position each for reads and writes: use --pattern sequential-each",
            );
        }
        DiskOperation::Append => return Err("its file_append would let the shared file grow"),
        DiskOperation::Copy => return Err("it has no copy"),
        DiskOperation::Trim => return Err("it trims block devices only"),
    };
    let differs = pattern(&case, &mut options)?;
    options.push(blocks(&case.blocks)?);
    options.extend(case.align.map(|bytes| format!("--blockalign={bytes}")));
    options.extend(sync(&case)?);
    let differs = offered(&case, &mut options).or(differs);
    Ok(FioJob { case, options, differs })
}

/// Returns fio's option for the durability of writes, such as `--fsync=1`; `None` without need.
fn sync(case: &DiskTransfers) -> Result<Option<String>, NoFioJob> {
    Ok(match (case.through, case.flush) {
        (WriteThrough::Yes, _) => Some("--sync=dsync".to_owned()),
        (WriteThrough::Whole, _) => Some("--sync=sync".to_owned()),
        (_, Flush::Never) => None,
        (_, Flush::Every { writes, call: SyncCall::Sync }) => Some(format!("--fsync={writes}")),
        (_, Flush::Every { writes, call: SyncCall::DataSync }) => Some(format!("--fdatasync={writes}")),
        (_, Flush::AtEnd { .. }) => return Err("it does not time the sync at the end"),
    })
}

/// Adds `--rate_iops` if the case is open-loop; then returns how fio's latency differs.
fn offered(case: &DiskTransfers, options: &mut Vec<String>) -> Option<&'static str> {
    let open_loop = case.open_loop?;
    let each = (open_loop.per_second / case.threads as f64).round();
    let each = match case.operation {
        DiskOperation::Mixed { read_share } => {
            let reads = each * f64::from(read_share) / 100.0;
            format!("{},{}", reads.round(), each - reads.round())
        }
        _ => each.to_string(),
    };
    options.push(format!("--rate_iops={each}"));
    if open_loop.arrivals == ArrivalProcess::Poisson {
        options.push("--rate_process=poisson".to_owned());
    }
    Some("its latency counts from the submission, plimsoll's from the intended start")
}

/// Adds the options for the order of blocks; returns how fio's order differs, if it does.
fn pattern(case: &DiskTransfers, options: &mut Vec<String>) -> Result<Option<&'static str>, NoFioJob> {
    let fixed = || match case.blocks {
        BlockSizes::One(bytes) => Ok(bytes),
        BlockSizes::Mixed(_) => Err("its steps are of one block size"),
    };
    let mut step = |step: String| options.iter_mut().take(1).for_each(|rw| *rw += &step);
    match case.order {
        BlockOrder::Sequential | BlockOrder::SequentialEach | BlockOrder::Random => {}
        BlockOrder::Zoned(zones) => {
            let zones: Vec<String> =
                zones.parts().map(|(transfers, of_file)| format!("{transfers}/{of_file}")).collect();
            options.push(format!("--random_distribution=zoned:{}", zones.join(":")));
        }
        // From the end: the offset goes back by the block just read and the next one.
        BlockOrder::Backward => step(format!(":-{}", 2 * fixed()?)),
        BlockOrder::Strided => {
            step(format!(":{}", (STRIDE_BLOCKS - 1) * fixed()?));
            return Ok(Some("it reads the same blocks again after each pass, plimsoll the next ones"));
        }
        BlockOrder::Same => return Err("it repeats a block only where the file has no other"),
        BlockOrder::Zipf(exponent) => options.push(format!("--random_distribution=zipf:{exponent}")),
    }
    Ok(None)
}

/// Returns fio's option for block sizes. Fails if whole percents cannot express the mix.
fn blocks(blocks: &BlockSizes) -> Result<String, NoFioJob> {
    let mix = match blocks {
        BlockSizes::One(0) => return Err("it has no such blocks"),
        BlockSizes::One(block) => return Ok(format!("--bs={block}")),
        BlockSizes::Mixed(mix) => mix,
    };
    let total: u64 = mix.parts().iter().map(|part| u64::from(part.weight)).sum();
    let parts = mix.parts().iter().map(|part| {
        let hundredths = u64::from(part.weight) * 100;
        hundredths.is_multiple_of(total).then(|| format!("{}/{}", part.bytes, hundredths / total))
    });
    let parts: Option<Vec<String>> = parts.collect();
    Ok(format!("--bssplit={}", parts.ok_or("its shares of blocks are whole hundredths")?.join(":")))
}

fn metric(case: &DiskTransfers) -> &'static str {
    match (case.is_small(), case.has_one_in_flight()) {
        (true, true) => "latency",
        (true, false) => "rate",
        (false, _) => "throughput",
    }
}

/// Returns the options that select fio's engine for `engine`. Fails if fio has no such engine.
fn engine(engine: DiskEngine) -> Result<Vec<String>, NoFioJob> {
    let polls = match engine {
        DiskEngine::IoUring(polling) => match (polling.submission, polling.completion) {
            (false, false) => "",
            (true, false) => "--sqthread_poll=1",
            (false, true) => "--hipri=1",
            (true, true) => return Err(OTHER_ENGINE),
        },
        DiskEngine::Libaio => return Ok(words("--ioengine=libaio")),
        DiskEngine::Psync => return Ok(words("--ioengine=psync")),
        DiskEngine::Mmap | DiskEngine::Null | DiskEngine::NullCall => return Err(OTHER_ENGINE),
    };
    Ok(words(&format!("--ioengine=io_uring --registerfiles=1 --fixedbufs=1 {polls}")))
}

const OTHER_ENGINE: NoFioJob = "only the engines io_uring, libaio and psync are comparable";

/// Returns the option that aligns buffers, if the queue fills a huge page: a disk that takes 254
/// segments per request splits 1 MiB in 4 KiB pages into two.
fn buffers(case: &DiskTransfers) -> Option<String> {
    const ALIGNED: u64 = 4 << 20;
    const HUGE: u64 = 2 << 20;
    let block = case.blocks.largest();
    (block > MAX_SMALL_BLOCK_BYTES && block.saturating_mul(case.depth) >= HUGE)
        .then(|| format!("--iomem_align={ALIGNED}"))
}

const COMMON_OPTIONS: &str = "--time_based --group_reporting --thread --output-format=json";

/// Returns the fio call that repeatedly appends a block to a preallocated file and syncs it.
fn commits(ask: &InvocationInput) -> Result<Invocation, String> {
    let block = FsyncLoad::of(&ask.case)?.block;
    let file = "--name=plimsoll --filename=log --rw=write --ioengine=psync --fdatasync=1 --fallocate=keep";
    let (size, time) = (LOG / block * block, time(ask));
    let line = format!("{file} --bs={block} --size={size} {time} {COMMON_OPTIONS} --refill_buffers");
    Ok(Invocation { disk_bytes: LOG, ..ask.call(words(&line)) })
}

fn time(ask: &InvocationInput) -> String {
    format!("--runtime={}ms", (ask.seconds * 1000.0).ceil())
}

pub(super) const FIO: RefTool = RefTool {
    name: "fio",
    checks: "disk reads of the same file, writes to one like it, commits, names of files",
    package: Package::Debian("fio"),
    version: ("--version", "fio-"),
    results: ResultFormat {
        about: "JSON and JSON+ of 2.x and 3.x, also of fio --client",
        recognises: |text| text.contains("\"fio version\"") || stated::is_plain(text),
        continues: stated::continues,
        read: stated::read,
        ..ResultFormat::NONE
    },
    writes,
    explains: &["disk.io", "disk.fsync", "os.file"],
    declines,
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn writes(case: &Case) -> bool {
    case.benchmark() == "disk.io"
        && DiskTransfers::of(case).is_ok_and(|job| job.operation != DiskOperation::Read)
}

fn declines(case: &Case) -> &'static str {
    match case.benchmark() {
        "disk.fsync" => "its threads would share one log",
        "os.file" => "it creates, stats and deletes files, of several threads in one directory",
        _ => job(case).and_then(|job| engine(job.case.engine)).err().unwrap_or_default(),
    }
}

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let (metric, definition, note) = match case.benchmark() {
        "os.file" => return names::pairing(case),
        "disk.fsync" if FsyncLoad::of(case).ok()?.threads == 1 => {
            ("latency", Match::Exact, "write and fdatasync together, at the end of a log of its own")
        }
        "disk.io" => {
            let job = job(case).ok()?;
            engine(job.case.engine).ok()?;
            let definition = if job.differs.is_some() { Match::Related } else { Match::Exact };
            let note = match job.differs {
                Some(differs) => differs,
                None if writes(case) => {
                    "a file like ours, filled alike, the same block, depth and engine; its mean latency, submission \
                     included"
                }
                None => "the same file, block, depth and engine; its mean latency, submission included",
            };
            (metric(&job.case), definition, note)
        }
        _ => return None,
    };
    Some(Pairing::new(metric, definition, note, 1.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    match ask.case.benchmark() {
        "disk.fsync" => return commits(ask),
        "os.file" => return names::invocation(ask),
        _ => {}
    }
    let writes = writes(&ask.case);
    let (file, from, bytes) = if writes {
        let place = ask.offer.to_write()?;
        (place.file.to_str().ok_or("the test file's path is not UTF-8")?, place.offset, place.bytes)
    } else {
        (ask.test_file()?, 0, ask.offer.file_bytes.ok_or("the size of the test file is not known")?)
    };
    let FioJob { case, options, .. } = job(&ask.case)?;
    let block = case.blocks.largest();
    let region = bytes / case.parts() / block * block;
    let (depth, threads, time) = (case.depth, case.threads, time(ask));
    let file = format!("--filename={}", file.replace(':', "\\:"));
    let mut arguments = vec!["--name=plimsoll".to_owned(), file];
    arguments.extend(words(&format!("--size={region} --iodepth={depth} --numjobs={threads} {time}")));
    arguments.extend((from > 0).then(|| format!("--offset={from}")));
    arguments.extend((case.parts() > 1).then(|| format!("--offset_increment={region}")));
    // Reads use the case's own file, whose content is verified.
    arguments.extend((!writes).then(|| "--readonly".to_owned()));
    arguments.extend(options);
    arguments.extend(engine(case.engine)?);
    let cache = if case.cache == CacheMode::Cold { "--direct=0" } else { "--direct=1 --invalidate=0" };
    arguments.extend(words(&format!("--allow_file_create=0 {COMMON_OPTIONS} {cache} --randrepeat=0")));
    // Before the options of the job file: the last one counts.
    arguments.extend(buffers(&case));
    // Without a job file: no map of blocks, and data as incompressible as plimsoll's.
    match ask.offer.job.is_empty() {
        true => arguments.extend(words("--norandommap --refill_buffers")),
        false => arguments.extend(carried(&ask.offer.job)),
    }
    Ok(ask.call(arguments))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let report = json::documents::<FioReport>(text)?.pop().ok_or("its output is no JSON")?;
    let job = report.jobs.first().ok_or("its JSON has no job")?;
    if job.error != 0 {
        return Err(format!("its job failed with errno {}", job.error));
    }
    if case.benchmark() == "os.file" {
        return names::figure(job);
    }
    if case.benchmark() == "disk.fsync" {
        let synced = job.sync.as_ref().ok_or("its JSON has no sync")?;
        let both = job.write.clat_ns.as_ref().and_then(|times| times.mean).zip(synced.lat_ns.mean);
        let value = both.map(|(write, sync)| (write + sync) * 1e-9).ok_or("its JSON has no latency")?;
        let mut reading = ToolFigure::of(value, job.account("latency", 1.0))?;
        if job.write.transfers() * FsyncLoad::of(case)?.block as f64 > LOG as f64 {
            let why = "its log began again: commits over old blocks record no new length";
            reading.differs.push(why.to_owned());
        }
        return Ok(reading);
    }
    let case = DiskTransfers::of(case)?;
    let metric = metric(&case);
    let value = match metric {
        "latency" => job.latency_ns() * 1e-9,
        "rate" => sum(job.read.iops, job.write.iops)?,
        _ => sum(job.read.bw_bytes, job.write.bw_bytes)?,
    };
    let depth = case.depth;
    let mut reading = ToolFigure::of(value, job.account(metric, case.in_flight()))?;
    let reached = job.iodepth_level.get(&depth_bucket(depth)).copied().unwrap_or(0.0);
    reading.record(&fact::DEPTH_SHARE, format!("{reached:.0} % at {}", depth_bucket(depth)));
    // A synchronous engine has no queue depth.
    if reached < 90.0 && case.engine != DiskEngine::Psync {
        reading.differs.push(format!("its queue was {depth} deep only {reached:.0} % of the time"));
    }
    let engine = case.engine.word().split('+').next().unwrap_or_default().to_owned();
    let block = if let BlockSizes::One(bytes) = case.blocks { Some(bytes.to_string()) } else { None };
    for (key, option, wanted) in [
        ("block", "bs", block),
        ("threads", "numjobs", Some(case.threads.to_string())),
        ("engine", "ioengine", Some(engine)),
    ] {
        let used = job.options.get(option).and_then(Value::as_str);
        if let Some((_, wanted)) = used.zip(wanted).filter(|(used, wanted)| used != wanted) {
            reading.differs.push(format!("its {key} was not {wanted}"));
        }
    }
    Ok(reading)
}

/// Returns fio's bucket for a queue depth: the largest power of two up to `depth`, or `>=64`.
fn depth_bucket(depth: u64) -> String {
    match depth {
        0..=1 => "1".to_owned(),
        64.. => ">=64".to_owned(),
        d => (1u64 << d.ilog2()).to_string(),
    }
}

fn sum(read: Option<f64>, write: Option<f64>) -> Result<f64, String> {
    read.zip(write).map(|(read, write)| read + write).ok_or_else(|| "its JSON lacks a direction".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    fn case(id: &str) -> Case {
        format!("disk.io/{id}/size=64M/threads=1/engine=io_uring/cache=direct").parse().unwrap()
    }

    #[test]
    fn a_queue_that_was_not_deep_enough_is_told() {
        let deep = golden::body("fio-3.33-randread-32.json");
        let reading = parse(&case("op=read/pattern=random/block=4K/depth=8"), &deep).unwrap();
        assert_eq!(reading.differs.len(), 1);
    }

    #[test]
    fn the_metric_is_the_headline_of_the_case() {
        let metric = |id: &str| metric(&job(&case(id)).unwrap().case);
        assert_eq!(metric("op=read/pattern=random/block=4K/depth=1"), "latency");
        assert_eq!(metric("op=read/pattern=random/block=4K/depth=32"), "rate");
        assert_eq!(metric("op=read/pattern=sequential/block=1M/depth=8"), "throughput");
    }

    #[test]
    fn what_it_can_do_alike_is_asked_for() {
        for (id, wanted) in [
            ("write/pattern=sequential/block=1M", "--rw=write --bs=1048576"),
            ("read/pattern=zipf:0.9/block=4K", "--rw=randread --random_distribution=zipf:0.9 --bs=4096"),
            ("read/pattern=backward/block=4K", "--rw=read:-8192 --bs=4096"),
            (
                "mixed/read-share=30/pattern=random/block=4K@60+64K@40",
                "--rw=randrw --rwmixread=30 --bssplit=4096/60:65536/40",
            ),
            ("mixed/read-share=30/pattern=sequential-each/block=4K", "--rw=rw --rwmixread=30 --bs=4096"),
            (
                "read/pattern=zoned:80-20:20-80/block=4K",
                "--rw=randread --random_distribution=zoned:80/20:20/80 --bs=4096",
            ),
            ("write/pattern=random/block=4K/sync=each", "--rw=randwrite --bs=4096 --sync=dsync"),
            ("write/pattern=random/block=4K/sync=fsync:1", "--rw=randwrite --bs=4096 --fsync=1"),
            ("write/pattern=random/block=4K/sync=o_sync", "--rw=randwrite --bs=4096 --sync=sync"),
            ("write/pattern=random/block=4K/sync=every:32", "--rw=randwrite --bs=4096 --fdatasync=32"),
        ] {
            let job = job(&case(&format!("op={id}/depth=1"))).unwrap();
            assert_eq!(job.options.join(" "), wanted, "{id}");
            assert!(job.differs.is_none());
        }
        assert!(job(&case("op=read/pattern=strided/block=4K/depth=1")).unwrap().differs.is_some());
        let offered = job(&case("op=read/pattern=random/block=4K/depth=1/rate=100/arrivals=even")).unwrap();
        assert!(offered.differs.is_some() && offered.options.contains(&"--rate_iops=100".to_owned()));
    }

    #[test]
    fn buffers_of_large_blocks_begin_where_a_huge_page_can() {
        let of = |tail: &str| buffers(&job(&case(&format!("op=read/pattern=random/{tail}"))).unwrap().case);
        assert_eq!(of("block=64K/depth=64"), None);
        assert_eq!(of("block=1M/depth=1"), None);
        assert_eq!(of("block=1M/depth=2").as_deref(), Some("--iomem_align=4194304"));
    }

    /// Options of an untrusted job file name no programs, files or logs; a shell expands none.
    #[test]
    fn of_a_job_file_it_is_given_what_says_how_and_nothing_else() {
        let job = "rw=randread bs=4k norandommap=1 random_generator=lfsr iodepth_batch=16 exec_prerun=reboot \
            write_iolog=/etc/passwd filename=/dev/sda size=1t fadvise_hint=`reboot` randseed=$(x) mem=mmap:/x \
            iomem_align= refill_buffers";
        let job: Vec<String> = job.split(' ').map(str::to_owned).collect();
        let given: Vec<String> = carried(&job).collect();
        assert_eq!(given, ["--norandommap=1", "--random_generator=lfsr", "--iodepth_batch=16"]);
    }

    #[test]
    fn what_it_cannot_do_alike_is_declined_with_a_reason() {
        let machine = Machine::discover(&plimsoll_machine::Root::at("/nonexistent"));
        for id in [
            "op=copy/pattern=sequential/block=1M/depth=1",
            "op=trim/pattern=random/block=1M/depth=1",
            "op=append/pattern=sequential/block=4K/depth=1",
            "op=write/pattern=random/block=4K/depth=1/sync=end",
            "op=read/pattern=same/block=4K/depth=1",
        ] {
            let case = case(id);
            assert!(pairing(&case, &machine).is_none(), "{id}");
            assert!(!declines(&case).is_empty(), "{id}");
        }
    }
}
