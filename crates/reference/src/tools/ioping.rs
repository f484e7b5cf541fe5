//! ioping: latency of single reads on the case's own file. `-B` prints one line (manual, "Raw
//! statistics"): requests, their time in ns, requests/s, bytes/s, minimum, mean, maximum and
//! deviation in ns, then count and time of the whole run.

use crate::tools::prelude::*;
use plimsoll_model::job::disk::{
    BlockOrder, BlockSizes, CacheMode, DiskEngine, DiskOperation, DiskTransfers,
};

const NUMBERS: usize = 10;
const MEAN: usize = 5;

const IOPING_KEYS: &[&str] = &["op", "pattern", "block", "depth", "threads", "engine", "cache", "size"];

/// Returns the transfers and their block size in bytes if they are direct reads, one at a time.
fn single_read(case: &Case) -> Option<(DiskTransfers, u64)> {
    let known = case.params().iter().all(|(name, _)| IOPING_KEYS.contains(name));
    (case.benchmark() == "disk.io" && known).then_some(())?;
    let job = DiskTransfers::of(case).ok().filter(DiskTransfers::has_one_in_flight)?;
    let order = matches!(job.order, BlockOrder::Random | BlockOrder::Sequential);
    let direct_read = (job.operation, job.cache) == (DiskOperation::Read, CacheMode::Direct);
    let BlockSizes::One(block @ 1..) = job.blocks else { return None };
    (order && direct_read).then_some((job, block))
}

pub(super) const IOPING: RefTool = RefTool {
    name: "ioping",
    checks: "latency of single disk reads",
    package: Package::Debian("ioping"),
    version: ("-v", "ioping "),
    explains: &["disk"],
    declines: |_| "it does one read at a time, sequential or random, past the page cache",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let (job, _) = single_read(case)?;
    let (definition, note) = match job.engine {
        DiskEngine::Psync => (Match::Exact, "mean of single reads of the same file"),
        _ => (Match::Related, "one pread at a time, no io_uring"),
    };
    Some(Pairing::new("latency", definition, note, 1.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let file = ask.test_file()?;
    let bytes = ask.offer.file_bytes.ok_or("the size of the test file is not known")?;
    let (job, block) = single_read(&ask.case).ok_or("the case is no single read")?;
    let working = bytes / block * block;
    let mut arguments = words(&format!("-D -B -i 0 -w {}s -s {block} -S {working}", ask.seconds));
    if job.order == BlockOrder::Sequential {
        arguments.push("-L".to_owned());
    }
    arguments.push(file.to_owned());
    Ok(ask.call(arguments))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let mut rows = whole_lines(text)
        .map(|line| line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>());
    let row = rows.find_map(|row| row.ok().filter(|row| row.len() == NUMBERS));
    let row = row.ok_or("its output has no line of ten numbers")?;
    let (requests, time, bytes) = (row[0], row[1], row[3]);
    if requests < 1.0 {
        return Err("it finished no request".to_owned());
    }
    let account = Account::of(requests, Seconds::of(time * 1e-9));
    let mut reading = ToolFigure::of(row[MEAN] * 1e-9, account)?;
    let block = bytes * time * 1e-9 / requests;
    let wanted = single_read(case).map_or(block, |(_, wanted)| wanted as f64);
    reading.compare(&fact::BLOCK_BYTES, block.round(), wanted, 0.01);
    Ok(reading)
}
