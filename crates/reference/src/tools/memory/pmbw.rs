//! pmbw: scans and permutation walks in assembly, over the sizes (of all threads together) of a
//! fixed table, each once for about 1.5 s. It pins nothing, so it is bound from outside.

use crate::tools::prelude::*;
use plimsoll_metal::block::{BlockOp, BlockTraversal};

const ANSWER: &str = "stats.txt";

struct PmbwWalk {
    /// Start of the names of its kernels.
    lead: &'static str,
    /// Kernels with and without AVX.
    kernels: [&'static str; 2],
    /// How it differs from `memory.block`, as a phrase.
    difference: &'static str,
}

const READ: PmbwWalk = PmbwWalk {
    lead: "ScanRead",
    kernels: ["ScanRead256PtrUnrollLoop", "ScanRead128PtrUnrollLoop"],
    difference: "it copies nothing and knows no blocks: scans that read an area as large, 16 or 32 bytes a load",
};
const WRITE: PmbwWalk = PmbwWalk {
    lead: "ScanWrite",
    kernels: ["ScanWrite256PtrUnrollLoop", "ScanWrite128PtrUnrollLoop"],
    difference: "it knows no blocks: scans that write an area as large, 16 or 32 bytes a store",
};
const RANDOM: PmbwWalk = PmbwWalk {
    lead: "PermRead",
    kernels: ["PermRead64UnrollLoop"; 2],
    difference: "it knows no blocks: a walk over every 8 bytes of an area as large, each waits for the one before",
};

/// Returns pmbw's access pattern for `case`, if it has one; for copies of `memory.block`, reads.
fn walk(case: &Case) -> Option<PmbwWalk> {
    if let Ok(stream) = MemoryStream::of(case) {
        return match stream.op {
            StreamOp::Read => Some(READ),
            StreamOp::Write => Some(WRITE),
            _ => None,
        };
    }
    if let Some(chase) = PointerChase::of(case) {
        return (chase.chases == 1).then_some(RANDOM);
    }
    Some(match block_job(case).map(|job| (job.op, job.order))? {
        (_, BlockTraversal::Random) => RANDOM,
        (BlockOp::Write, _) => WRITE,
        _ => READ,
    })
}

fn block_job(case: &Case) -> Option<BlockJob> {
    BlockJob::of(case).ok().filter(|_| case.benchmark() == "memory.block")
}

/// Returns whether the time of an access is compared; otherwise bytes/s are.
fn is_time(case: &Case) -> bool {
    case.benchmark() == "memory.latency" || block_job(case).is_some_and(|job| job.is_small())
}

fn area(case: &Case) -> u64 {
    MemorySite::of(case).total()
}

/// Sizes in KiB up to 64 MiB; above, powers of two up to 1 TiB (its `areasize_list`).
const AREAS_KIB: [u64; 49] = [
    1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536,
    1792, 2048, 2304, 2560, 2816, 3072, 4096, 5120, 6144, 7168, 8192, 9216, 10240, 12288, 14336, 16384,
    20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536,
];

/// Returns the size in bytes, nearest to `bytes`, that pmbw measures.
fn nearest(bytes: u64) -> u64 {
    let areas = AREAS_KIB.iter().map(|kib| kib << 10).chain((27..=40).map(|power| 1 << power));
    areas.min_by_key(|area| area.abs_diff(bytes)).unwrap_or(bytes)
}

/// Least distance between the parts of two threads, in bytes.
const MIN_DISTANCE_BYTES: u64 = (4 << 20) + (16 << 10);
/// A thread's part is a multiple of an unrolled iteration: 16 accesses of at most 32 bytes.
const TURN: u64 = 16 * 32;
/// Loads of each thread in a walk, for any size: it starts with 1 GiB of 8 bytes each.
const LOADS: f64 = (1_u64 << 27) as f64;
const LOAD_SECONDS: f64 = 100e-9;

/// Returns the bytes that pmbw allocates for `area` bytes that `threads` share, each part rounded
/// up: a power of two.
fn allocated(area: u64, threads: u64) -> u64 {
    let part = area.div_ceil(threads.max(1)).next_multiple_of(TURN).max(MIN_DISTANCE_BYTES);
    part.saturating_mul(threads).next_power_of_two()
}

pub(crate) const PMBW: RefTool = RefTool {
    name: "pmbw",
    checks: "memory reads and writes, latency of a random walk",
    package: Package::Source("git clone https://github.com/bingmann/pmbw && cd pmbw && ./configure && make"),
    // It prints its version only with results.
    version: ("-h", "version="),
    explains: &["memory.bandwidth", "memory.latency", "memory.block"],
    declines: |_| "it has scans that read or write, and one walk at a time",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, machine: &Machine) -> Option<Pairing> {
    let walk = walk(case)?;
    let area = Some(area(case)).filter(|bytes| *bytes > 0)?;
    let beyond = area > machine.cpu.last_level_bytes().unwrap_or(u64::MAX);
    let (metric, definition, note) = match MemoryStream::of(case).map(|stream| stream.op) {
        Ok(StreamOp::Read) => ("bandwidth", Match::Exact, "the same bytes read, by loads of 16 or 32 bytes"),
        Ok(_) if beyond => ("bandwidth", Match::Related, "its stores do not go past the caches"),
        Ok(_) => ("bandwidth", Match::Exact, "the same bytes written, by stores of 16 or 32 bytes"),
        Err(_) if case.benchmark() == "memory.block" => {
            let metric = if is_time(case) { "latency" } else { "throughput" };
            (metric, Match::Related, walk.difference)
        }
        Err(_) => ("latency", Match::Related, "a walk over every 8 bytes, in pages as malloc gets them"),
    };
    let seconds = if walk.lead == RANDOM.lead && beyond { LOADS * LOAD_SECONDS } else { 3.0 };
    Some(Pairing::new(metric, definition, note, seconds))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let [with_avx, without] = walk(&ask.case).ok_or("it has no such kernel")?.kernels;
    let kernel = if ask.machine.cpu.has("avx") { with_avx } else { without };
    let area = nearest(area(&ask.case));
    let allocated = allocated(area, ask.case.threads() as u64);
    if ask.machine.memory.total_bytes.is_some_and(|memory| allocated > memory / 2) {
        let allocated = Quantity::new(allocated as f64, Unit::Byte);
        return Err(format!("it allocates {allocated} for this size, more than half of the memory"));
    }
    // It allocates half of this limit.
    let (limit, threads) = (2 * allocated, ask.case.threads());
    let scan = format!("-f {kernel} -s {area} -S {area} -p {threads} -P {threads} -M {limit} -o {ANSWER}");
    Ok(Invocation { output: Output::File(ANSWER), ..ask.call(words(&scan)) })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let operation = walk(case).ok_or("it has no such kernel")?.lead;
    let wanted = area(case);
    let results = whole_lines(text).filter(|line| line.starts_with("RESULT\t"));
    let mut ours = results.filter(|r| {
        let is_operation = value_of(r.split('\t'), "funcname").is_ok_and(|name| name.starts_with(operation));
        is_operation && field(r, "nthreads").is_ok_and(|n| n as usize == case.threads())
    });
    let measured = nearest(wanted);
    let result = ours.find(|r| field(r, "areasize").is_ok_and(|n| n as u64 == measured));
    let result = result.ok_or("it has no RESULT of this kernel, area and number of threads")?;
    let (key, work) = if is_time(case) { ("rate", "testaccess") } else { ("bandwidth", "testvol") };
    // The time of an access is divided by the number of threads.
    let each = if is_time(case) { field(result, "nthreads")?.max(1.0) } else { 1.0 };
    let account = Account::of(field(result, work)? / each, Seconds::of(field(result, "time")?));
    let mut reading = ToolFigure::of(field(result, key)? * each, account)?;
    let used = field(result, "areasize")?;
    reading.compare(&fact::WORKING_SET_BYTES, used, wanted as f64, 0.01);
    reading.record(&fact::THREAD_COUNT, field(result, "nthreads")?);
    Ok(reading)
}

fn field(line: &str, key: &str) -> Result<f64, String> {
    number(key, value_of(line.split('\t'), key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_its_areas_is_taken() {
        assert_eq!(nearest(1), 1024);
        for (mib, area) in [(27_u64, 28_u64), (70, 64), (97, 128), (120, 128), (1024, 1024)] {
            assert_eq!(nearest(mib << 20), area << 20, "{mib}");
        }
    }

    /// pmbw 0.6.3 allocates half of its limit's next power of two, and skips sizes that do not fit.
    #[test]
    fn each_area_fits_in_what_it_allocates() {
        let all: Vec<u64> = AREAS_KIB.iter().map(|kib| kib << 10).chain((27..=36).map(|n| 1 << n)).collect();
        for (area, threads) in all.iter().flat_map(|area| [1, 2, 3, 16, 96].map(|threads| (*area, threads))) {
            let limit = 2 * allocated(area, threads);
            let memory = limit.next_power_of_two() / 2;
            let part = area.div_ceil(threads).next_multiple_of(TURN);
            let needed = part.max(MIN_DISTANCE_BYTES) * threads;
            assert!((needed..2 * needed).contains(&memory), "{area} on {threads}: {memory} for {needed}");
        }
    }
}
