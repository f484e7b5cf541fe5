//! Warnings: an enum whose text names the remedy.
//!
//! A warning never changes a figure; it says under which condition the figure holds.

use serde::{Deserialize, Serialize};

/// Something the reader must know beside a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warning {
    /// The interval did not become as narrow as asked.
    NotConverged {
        /// Half-width reached, as a share of the median.
        reached: f64,
        /// Half-width asked for.
        wanted: f64,
    },
    /// Too few samples for an interval.
    FewSamples {
        /// Samples taken.
        n: usize,
    },
    /// Something else used the CPUs, or they were taken away.
    Disturbed {
        /// Share of the time, as a median over the samples.
        share: f64,
        /// What became of that time.
        how: Loss,
    },
    /// An engine was asked for and another one did the work.
    EngineFellBack {
        /// Asked for.
        wanted: String,
        /// What ran.
        used: String,
        /// Why.
        why: String,
    },
    /// Pages asked for and pages given differ.
    PagesDiffer {
        /// Asked for.
        wanted: String,
        /// Given.
        got: String,
    },
    /// Fewer transfers were in flight than asked for.
    DepthNotReached {
        /// Asked for.
        wanted: u64,
        /// Mean in flight.
        got: f64,
    },
    /// More threads than CPUs.
    MoreThreadsThanCpus {
        /// Threads.
        threads: usize,
        /// Allowed CPUs.
        cpus: usize,
    },
    /// A CPU quota is below the number of threads.
    CpuQuota {
        /// CPUs' worth of time allowed.
        cpus: f64,
    },
    /// The file could not be as large as planned.
    SmallFile {
        /// Bytes of the file.
        bytes: u64,
        /// Why.
        why: String,
    },
    /// A case-specific remark with its own text and remedy.
    Other {
        /// Stable code.
        code: String,
        /// One sentence, remedy included.
        text: String,
    },
}

/// How time was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// It lay in slices that something interrupted; they are not in the figure.
    SetAside,
    /// The hypervisor gave the CPUs to others.
    Stolen,
    /// A CPU quota stopped the threads.
    Throttled,
    /// A thread was ready to run and had no CPU.
    Waited,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Loss::SetAside => {
                "of the time lay in interrupted slices and is set aside; stop other work or choose a quieter host"
            }
            Loss::Stolen => "of the CPU time went to others on this host (steal); choose a quieter host",
            Loss::Throttled => "of the time a CPU quota stopped it; raise the quota",
            Loss::Waited => "of the time a thread waited for a CPU; stop other work or choose a quieter host",
        })
    }
}

impl Warning {
    /// The stable code, as in the run document.
    pub fn code(&self) -> &str {
        match self {
            Warning::NotConverged { .. } => "not-converged",
            Warning::FewSamples { .. } => "few-samples",
            Warning::Disturbed { .. } => "disturbed",
            Warning::EngineFellBack { .. } => "engine-fell-back",
            Warning::PagesDiffer { .. } => "pages-differ",
            Warning::DepthNotReached { .. } => "depth-not-reached",
            Warning::MoreThreadsThanCpus { .. } => "more-threads-than-cpus",
            Warning::CpuQuota { .. } => "cpu-quota",
            Warning::SmallFile { .. } => "small-file",
            Warning::Other { code, .. } => code,
        }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |x: f64| format!("{:.1} %", x * 100.0);
        match self {
            Warning::NotConverged { reached, wanted } => write!(
                f,
                "not converged: ± {} where ± {} was asked; quieten the machine, or give --budget or --precision more room",
                percent(*reached),
                percent(*wanted)
            ),
            Warning::FewSamples { n } => {
                write!(f, "no interval from {n} of the 5 samples that it needs; take --samples 5 or more")
            }
            Warning::Disturbed { share, how } => write!(f, "disturbed: {} {how}", percent(*share)),
            Warning::EngineFellBack { wanted, used, why } => {
                write!(f, "{wanted} was asked for, {used} did the work: {why}")
            }
            Warning::PagesDiffer { wanted, got } => write!(
                f,
                "{wanted} pages were asked for, the kernel gave {got}; see /sys/kernel/mm/transparent_hugepage/enabled"
            ),
            Warning::DepthNotReached { wanted, got } => {
                write!(
                    f,
                    "queue depth {got:.1} was reached where {wanted} was asked; the device or one CPU is the limit"
                )
            }
            Warning::MoreThreadsThanCpus { threads, cpus } => {
                write!(f, "{threads} threads share {cpus} CPUs; the limit counts the CPUs")
            }
            Warning::CpuQuota { cpus } => write!(
                f,
                "a cgroup quota allows {cpus:.2} CPUs' worth of time; raise it to measure the machine itself"
            ),
            Warning::SmallFile { bytes, why } => write!(
                f,
                "the test file is {}: {why}; choose another --dir to use a larger one",
                crate::quantity::format_size(*bytes)
            ),
            Warning::Other { text, .. } => f.write_str(text),
        }
    }
}
