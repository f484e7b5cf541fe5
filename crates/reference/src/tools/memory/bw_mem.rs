//! lmbench bw_mem: C loops over whole arrays, one process per thread. It prints 10⁶ bytes and 10⁶
//! bytes/s to standard error, and counts a copied byte once. `rd` and `wr` touch a quarter of the
//! words, so the variants that touch all are used.

use crate::tools::prelude::*;

pub(crate) const DIRECTORIES: &[&str] =
    &["/usr/lib/lmbench/bin/x86_64-linux-gnu", "/usr/lib/lmbench/bin/aarch64-linux-gnu"];

const MIN_WORKING_SET_BYTES: u64 = 512;

struct Operation {
    name: &'static str,
    arrays: u64,
    bytes: u64,
}

fn operation(case: &Case) -> Option<Operation> {
    let stream = MemoryStream::of(case).ok()?;
    let (name, arrays) = match stream.op {
        StreamOp::Read => ("frd", 1),
        StreamOp::Write => ("fwr", 1),
        StreamOp::Copy => ("fcp", 2),
        _ => return None,
    };
    Some(Operation { name, arrays, bytes: stream.site.size / arrays })
}

/// Returns the environment variables that shorten lmbench's calibration: measurements of at least
/// `microseconds`, and no correction for clock and loop, negligible for these loops.
pub(crate) fn environment(microseconds: u64) -> Vec<(&'static str, String)> {
    vec![("ENOUGH", microseconds.to_string()), ("LOOP_O", "0".to_owned()), ("TIMING_O", "0".to_owned())]
}

pub(crate) const BW_MEM: RefTool = RefTool {
    name: "bw_mem",
    checks: "memory read, write, copy (lmbench)",
    directories: DIRECTORIES,
    package: Package::DebianNonFree("lmbench"),
    explains: &["memory.bandwidth"],
    declines: |_| "it has read, write and copy",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let operation = operation(case).filter(|operation| operation.bytes > MIN_WORKING_SET_BYTES)?;
    let note = match operation.arrays {
        1 => "a loop in C, one number at a time: the compiler decides",
        _ => "bytes × 2: it counts a copied byte once; a loop in C, the compiler decides",
    };
    Some(Pairing::new("bandwidth", Match::Related, note, 1.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let Operation { name, bytes, .. } = operation(&ask.case).ok_or("it has no such operation")?;
    if bytes <= MIN_WORKING_SET_BYTES {
        return Err("its areas are larger than 512 bytes".to_owned());
    }
    let environment = environment((ask.seconds * 200_000.0) as u64);
    let arguments = words(&format!("-P {} -W 0 -N 1 {bytes} {name}", ask.case.threads()));
    Ok(Invocation { environment, output: Output::Stderr, ..ask.call(arguments) })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let Operation { arrays, bytes, .. } = operation(case).ok_or("it has no such operation")?;
    let pairs = whole_lines(text).filter_map(|line| line.split_once(' '));
    let mut pairs =
        pairs.filter_map(|(size, rate)| Some((size.parse::<f64>().ok()?, rate.parse::<f64>().ok()?)));
    let (size, rate) = pairs.next().ok_or("its output has no line 'SIZE RATE'")?;
    // Each process passes its arrays at least once; no time is printed.
    let pass = size * 1e6 * (arrays as usize * case.threads()) as f64;
    let mut reading = ToolFigure::of(rate * 1e6 * arrays as f64, Account::of(pass, Seconds::OF_ITS_LIFE))?;
    // The size is printed with two decimals, or three digits below that.
    let wanted = bytes as f64;
    reading.compare(&fact::WORKING_SET_BYTES, size * 1e6, wanted, 0.01 + 5e3 / wanted);
    Ok(reading)
}
