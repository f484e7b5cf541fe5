use super::LIKWID;
use crate::stated::prelude::*;

pub(super) fn recognises(text: &str) -> bool {
    text.contains("LIKWID MICRO BENCHMARK")
}

pub(super) fn starts(text: &str) -> Vec<usize> {
    line_starts(text, recognises)
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let kernel = word_after(text, "Test:")?.to_owned();
    let threads = super::used_threads(text).unwrap_or(1) as f64;
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
    Stated { figures, ..Stated::by(LIKWID.name, None) }.unless_empty("it has no figure")
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
