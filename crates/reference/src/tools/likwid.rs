//! likwid-bench: floating-point peak and memory bandwidth by hand-written kernels. Its size is the
//! sum of all streams and threads (1 kB = 1000 bytes); it pins its threads itself.

use crate::tools::prelude::*;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{Element, Op};

/// Estimated seconds of a reading: one second for the clock rate, more to initialise arrays.
const PEAK_SECONDS: f64 = 1.3;
const MEMORY_SECONDS: f64 = 1.6;

/// Bytes per thread in the peak kernels: half of the smallest first-level cache.
const PEAK_BYTES: usize = 16_000;

/// Returns the suffix of likwid's widest kernels that this machine supports; `None` without any.
fn widest(machine: &Machine) -> Option<&'static str> {
    let known = [("avx512f", "_avx512"), ("avx", "_avx"), ("sse2", "_sse")];
    known.into_iter().find(|(flag, _)| machine.cpu.has(flag)).map(|(_, suffix)| suffix)
}

fn peak_kernel(case: &Case) -> Option<String> {
    let CpuKernel { op, element, isa, chains, .. } = CpuKernel::of(case);
    // It has one loop per width, with a fixed number of chains.
    if op != Some(Op::FMA) || chains.is_some() {
        return None;
    }
    let single = match element? {
        Element::F64 => "",
        Element::F32 => "_sp",
        _ => return None,
    };
    // The SSE kernels have no fused multiply-add.
    let suffix = match isa? {
        Isa::Avx512 => "_avx512",
        Isa::Avx2 => "_avx",
        _ => return None,
    };
    Some(format!("peakflops{single}{suffix}_fma"))
}

/// Returns likwid's kernel with the same arrays and bytes per element; `None` if it has none.
fn memory_kernel(stream: &MemoryStream, machine: &Machine) -> Option<String> {
    let name = match stream.op {
        StreamOp::Read => "load",
        StreamOp::Write => "store",
        StreamOp::Copy => "copy",
        // a = b + s·c with three arrays is its "stream"; its "triad" has four.
        StreamOp::Triad => "stream",
        StreamOp::Update => "update",
        StreamOp::Scale | StreamOp::Add => return None,
    };
    let beyond = stream.site.size > machine.cpu.last_level_bytes().unwrap_or(u64::MAX);
    let past_cache = matches!(name, "store" | "copy" | "stream") && beyond;
    Some(format!("{name}{}{}", if past_cache { "_mem" } else { "" }, widest(machine)?))
}

fn kernel(case: &Case, machine: &Machine) -> Option<String> {
    match case.benchmark() {
        "cpu.peak" => peak_kernel(case),
        _ => memory_kernel(&MemoryStream::of(case).ok()?, machine),
    }
}

/// Returns how often to run the kernel to take slightly less than `seconds` on a fast core. Given a
/// time instead, likwid-bench repeats runs until one takes that long: four times the time.
fn iterations(case: &Case, machine: &Machine, seconds: f64) -> u64 {
    /// Bytes/s of a core, from memory and from caches.
    const MEMORY: f64 = 10e9;
    const CACHE: f64 = 100e9;
    /// Iterations/s of the peak kernels: 30 operations for each of 2000 numbers, 60 GFLOP/s.
    const PEAK: f64 = 500e3;
    const MIN_ITERATIONS: u64 = 4;
    let each = MemoryStream::of(case).ok().map(|MemoryStream { site: MemorySite { size, .. }, .. }| {
        let beyond = size > machine.cpu.last_level_bytes().unwrap_or(0);
        (if beyond { MEMORY } else { CACHE }) / size.max(1) as f64
    });
    ((seconds * each.unwrap_or(PEAK)).ceil() as u64).max(MIN_ITERATIONS)
}

pub(super) const LIKWID: RefTool = RefTool {
    name: "likwid-bench",
    checks: "f64 and f32 fma peak, memory bandwidth",
    package: Package::Debian("likwid"),
    version: ("-v", "Version "),
    results: ResultFormat::of_text("text output of likwid-bench", recognises, starts, read),
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, machine: &Machine) -> Option<Pairing> {
    kernel(case, machine)?;
    let (metric, seconds) = match case.benchmark() {
        "cpu.peak" => ("rate", PEAK_SECONDS),
        _ => ("bandwidth", MEMORY_SECONDS),
    };
    let note = "the kernel with the same arrays and instruction set";
    Some(Pairing::new(metric, Match::Exact, note, seconds))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let kernel = kernel(&ask.case, &ask.machine).ok_or("it has no such kernel")?;
    let threads = ask.case.threads();
    let bytes = match MemoryStream::of(&ask.case) {
        Ok(stream) => stream.site.total(),
        Err(_) => (PEAK_BYTES * threads) as u64,
    };
    // -W: each thread first touches its own part, as in plimsoll.
    let iterations = iterations(&ask.case, &ask.machine, ask.seconds);
    Ok(ask.call(words(&format!("-t {kernel} -W N:{bytes}B:{threads} -i {iterations}"))))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let (label, work) = match case.benchmark() {
        "cpu.peak" => ("MFlops/s:", "Number of Flops:"),
        _ => ("MByte/s:", "Data volume (Byte):"),
    };
    let figure = number_after(text, label)? * 1e6;
    let seconds = Seconds::printed(word_after(text, "Time:")?)?;
    let mut reading = ToolFigure::of(figure, Account::of(number_after(text, work)?, seconds))?;
    if let Some(used) = used_threads(text) {
        reading.compare(&fact::THREAD_COUNT, used as f64, case.threads() as f64, 0.0);
    }
    if let (Ok(bytes), Ok(stream)) = (number_after(text, "Size (Byte):"), MemoryStream::of(case)) {
        reading.compare(&fact::WORKING_SET_BYTES, bytes, stream.site.total() as f64, 0.01);
    }
    Ok(reading)
}

fn used_threads(text: &str) -> Option<usize> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Using "));
    let count = lines.find_map(|rest| rest.trim_end().strip_suffix("threads"))?;
    count.split_whitespace().next()?.parse().ok()
}

fn recognises(text: &str) -> bool {
    text.contains("LIKWID MICRO BENCHMARK")
}

fn starts(text: &str) -> Vec<usize> {
    line_starts(text, recognises)
}

fn read(text: &str) -> Result<Stated, String> {
    let kernel = word_after(text, "Test:")?.to_owned();
    let threads = used_threads(text).unwrap_or(1) as f64;
    let seconds = Seconds::printed(word_after(text, "Time:")?)?;
    let mut figures = Vec::new();
    if let Some(flops) = other_than_zero(text, "MFlops/s:") {
        let (name, like) = (format!("{kernel}: FLOP/s"), peak(&kernel, threads));
        let mut figure = StatedFigure::new(&name, flops * 1e6, Unit::FlopPerSecond, like);
        figure.account = other_than_zero(text, "Number of Flops:").map(|flops| Account::of(flops, seconds));
        figure.subject = Subject::Cores(CoreUse { threads, ..CoreUse::default() });
        figures.push(figure);
    }
    // A peak kernel uses a few bytes in the first-level cache.
    if let Some(rate) = other_than_zero(text, "MByte/s:").filter(|_| !kernel.starts_with("peakflops")) {
        let bytes = other_than_zero(text, "Size (Byte):");
        let each = bytes.map(|bytes| (bytes / threads) as u64);
        let case = Case::of("memory.bandwidth").with_word("op", op(&kernel));
        let case = each.map_or(case.clone(), |each| case.with_size("size", each));
        let case = case.with_count("threads", threads as u64);
        let name = format!("{kernel}: bandwidth");
        let mut figure = StatedFigure::like(&name, rate * 1e6, Unit::BytePerSecond, case, "bandwidth");
        figure.account =
            other_than_zero(text, "Data volume (Byte):").map(|bytes| Account::of(bytes, seconds));
        figure.subject = Subject::Memory(MemoryUse { footprint: bytes, array: bytes, may_be_cache: true });
        figures.push(figure);
    }
    Stated { figures, ..Stated::default() }.unless_empty("it has no figure")
}

/// Returns the number after `label`; `None` if it is 0: the kernel then has no such operation.
fn other_than_zero(text: &str, label: &str) -> Option<f64> {
    number_after(text, label).ok().filter(|number| *number != 0.0)
}

/// Returns plimsoll's operation with the kernel's loads and stores; a copy if unknown.
fn op(kernel: &str) -> &'static str {
    let first = kernel.split('_').next().unwrap_or_default();
    match first {
        "load" | "sum" | "ddot" => "read",
        "store" => "write",
        "stream" | "triad" => "triad",
        "update" | "daxpy" => "update",
        _ => "copy",
    }
}

/// Returns plimsoll's case for the peak of an FMA kernel. Fails for a kernel with other operations.
fn peak(kernel: &str, threads: f64) -> Result<EquivalentCase, String> {
    let no = || "plimsoll derives no limit for the operations of this kernel".to_owned();
    let rest = kernel.strip_prefix("peakflops").ok_or_else(no)?;
    let (single, rest) = rest.strip_prefix("_sp").map_or((false, rest), |rest| (true, rest));
    let isa = match rest {
        "_avx512_fma" => "avx512",
        "_avx_fma" => "avx2",
        _ => return Err(no()),
    };
    let case =
        Case::of("cpu.peak").with_word("op", "fma").with_word("type", if single { "f32" } else { "f64" });
    Ok(EquivalentCase::of(case.with_word("isa", isa).with_count("threads", threads as u64), "rate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak() -> Case {
        "cpu.peak/op=fma/type=f64/isa=avx512/threads=2".parse().unwrap()
    }

    #[test]
    fn only_the_same_kernel_is_paired() {
        assert_eq!(peak_kernel(&peak()).as_deref(), Some("peakflops_avx512_fma"));
        assert_eq!(peak_kernel(&peak().with_word("type", "f32")).as_deref(), Some("peakflops_sp_avx512_fma"));
        for (key, word) in [("op", "add"), ("type", "i8"), ("isa", "sse2"), ("isa", "neon")] {
            assert_eq!(peak_kernel(&peak().with_word(key, word)), None, "{key}={word}");
        }
    }
}
