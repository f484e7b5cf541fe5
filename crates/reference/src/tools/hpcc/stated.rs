//! Reads the summary of hpcc's hpccoutf.txt.

use super::{HPCC, summary};
use crate::stated::prelude::*;

/// Figures without a limit: key, factor, unit.
const OTHERS: [(&str, f64, Unit); 8] = [
    ("PTRANS_GBs", 1e9, Unit::BytePerSecond),
    ("MPIRandomAccess_GUPs", 1e9, Unit::PerSecond),
    ("StarRandomAccess_GUPs", 1e9, Unit::PerSecond),
    ("SingleRandomAccess_GUPs", 1e9, Unit::PerSecond),
    ("MPIFFT_Gflops", 1e9, Unit::FlopPerSecond),
    ("RandomlyOrderedRingBandwidth_GBytes", 1e9, Unit::BytePerSecond),
    ("RandomlyOrderedRingLatency_usec", 1e-6, Unit::Second),
    ("MaxPingPongLatency_usec", 1e-6, Unit::Second),
];

pub(super) fn recognises(text: &str) -> bool {
    text.contains("HPC Challenge Benchmark") || text.contains("Begin of Summary section.")
}

pub(super) fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| line.contains("HPC Challenge Benchmark version"))
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    // A part that did not run has -1.
    let number = |key: &str| summary(text, key).ok().filter(|number| *number != -1.0);
    let version = text.split_once("Benchmark version ").and_then(|(_, rest)| rest.split_whitespace().next());
    let mut stated = Stated::by(HPCC.name, version);
    let host = text.split_once("Hostname: '").and_then(|(_, rest)| rest.split('\'').next());
    stated.origin =
        StatedMachine { host: host.map(|host| shown_within(host, 64)), ..StatedMachine::default() };
    let failed = (number("Success") == Some(0.0)).then(|| "one of its checks failed (Success=0)".to_owned());
    stated.trouble.clone_from(&failed);
    stated.figures.extend(solved(&number));
    for key in ["StarDGEMM_Gflops", "SingleDGEMM_Gflops"] {
        let case = Case::of("cpu.gemm").with_word("type", "f64").with_count("threads", AS_MANY_AS_CPUS);
        stated.figures.extend(number(key).map(|rate| cores(key, rate * 1e9, case.clone(), &number)));
    }
    stated.figures.extend(streams(&number));
    for (key, factor, unit) in OTHERS {
        let Some(value) = number(key).map(|value| value * factor) else { continue };
        let no = Err("plimsoll derives no limit for it".to_owned());
        let absurd = BoundedEvent::Message.too_short(value).filter(|_| unit == Unit::Second);
        stated.figures.push(StatedFigure { absurd, ..StatedFigure::new(key, value, unit, no) });
    }
    stated.figures.retain(|figure| figure.value != 0.0);
    if let Some(why) = failed {
        stated.figures.iter_mut().for_each(|figure| figure.void = Some(why.clone()));
    }
    stated.unless_empty("its summary has no figure")
}

fn cores(key: &str, rate: f64, case: Case, number: &impl Fn(&str) -> Option<f64>) -> StatedFigure {
    let mut figure = StatedFigure::like(key, rate, Unit::FlopPerSecond, case, "rate");
    let threads = number("CommWorldProcs").unwrap_or(1.0);
    let working_set = number("HPL_N").filter(|_| key == "HPL_Tflops").map(|n| 8.0 * n * n);
    figure.subject = Subject::Cores(CoreUse { threads, working_set, ..CoreUse::default() });
    figure
}

fn solved(number: &impl Fn(&str) -> Option<f64>) -> Option<StatedFigure> {
    let rate = number("HPL_Tflops")? * 1e12;
    let case = Case::of("cpu.linpack").with_count("threads", AS_MANY_AS_CPUS);
    let mut figure = cores("HPL_Tflops", rate, case, number);
    let work = number("HPL_N").map(|n| 2.0 / 3.0 * n.powi(3) + 1.5 * n.powi(2));
    let time = number("HPL_time").filter(|time| *time > 0.0);
    figure.account = work.zip(time).map(|(work, time)| Account::of(work, Seconds::of(time)));
    Some(figure)
}

fn streams(number: &impl Fn(&str) -> Option<f64>) -> Vec<StatedFigure> {
    let array = number("STREAM_VectorSize").map(|elements| elements * 8.0);
    let processes = number("CommWorldProcs").unwrap_or(1.0);
    let mut figures = Vec::new();
    for (part, processes) in [("StarSTREAM", processes), ("SingleSTREAM", 1.0)] {
        for (kernel, op) in super::stream::STREAM_KERNELS {
            let key = format!("{part}_{kernel}");
            let Some(rate) = number(&key) else { continue };
            let case = Case::of("memory.bandwidth").with_word("op", op.name());
            let case = case.with_count("threads", processes as u64);
            let mut figure = StatedFigure::like(&key, rate * 1e9, Unit::BytePerSecond, case, "bandwidth");
            let array = array.map(|bytes| bytes * processes);
            let footprint = array.map(|bytes| bytes * 3.0);
            figure.subject = Subject::Memory(MemoryUse { footprint, array, may_be_cache: false });
            figures.push(figure);
        }
    }
    figures
}
