//! Vector instruction sets, and whether this processor has them. They are selected at run time.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arch::native;

/// An instruction set with kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Isa {
    /// Plain Rust, compiled for the baseline of the architecture.
    Portable,
    /// x86-64 baseline: 128-bit vectors, separate multiplication and addition.
    Sse2,
    /// AVX2 and FMA: 256-bit vectors, fused multiply-add.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: 512-bit vectors, fused multiply-add.
    Avx512,
    /// Advanced Matrix Extensions: dot products of tiles of 16 rows of 64 bytes.
    Amx,
    /// AArch64 Advanced SIMD: 128-bit vectors, fused multiply-add.
    Neon,
    /// AArch64 Scalable Vector Extension: vectors of the processor's length, fused multiply-add.
    Sve,
    /// AArch64 matrix multiplication: dot products of 2 × 8-byte matrices in 128-bit vectors.
    Mmla,
}

/// A processor feature beyond an instruction set, which some kernels need.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    /// Name in /proc/cpuinfo.
    pub name: &'static str,
    /// Whether processor and operating system have it.
    pub present: fn() -> bool,
}

impl Feature {
    /// Returns whether processor and operating system have the feature, and no test hides it.
    pub fn is_present(&self) -> bool {
        (self.present)() && !is_hidden(self.name)
    }
}

/// Returns whether the variable `PLIMSOLL_TEST_HIDDEN` (such as `fma,avx512f`) lists `feature`.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn is_hidden(feature: &str) -> bool {
    static HIDDEN: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("PLIMSOLL_TEST_HIDDEN").unwrap_or_default());
    HIDDEN.split(',').any(|hidden| hidden == feature)
}

#[cfg(not(any(test, feature = "testing")))]
pub(crate) const fn is_hidden(_feature: &str) -> bool {
    false
}

/// Reason why an instruction set or kernel cannot run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// Processor or operating system lacks a feature of the instruction set.
    #[error("{isa} is not supported by this CPU: needs {feature}")]
    Feature {
        /// Requested instruction set.
        isa: Isa,
        /// The first missing feature, as in /proc/cpuinfo.
        feature: &'static str,
    },
    /// Processor or operating system lacks a feature that one kernel needs beyond its set.
    #[error("{kernel} is not supported by this CPU: needs {feature}")]
    Kernel {
        /// Name of the kernel.
        kernel: &'static str,
        /// The missing feature, as in /proc/cpuinfo.
        feature: &'static str,
    },
    /// The instruction set belongs to another architecture.
    #[error("{0} is not an instruction set of this architecture ({arch})", arch = std::env::consts::ARCH)]
    Architecture(Isa),
}

impl Isa {
    /// Every instruction set, in ascending order of performance within an architecture.
    pub const ALL: [Self; 8] =
        [Self::Portable, Self::Sse2, Self::Avx2, Self::Avx512, Self::Amx, Self::Neon, Self::Sve, Self::Mmla];

    /// Returns whether the set has only matrix products (AMX, MMLA), and supplements a vector set.
    pub fn is_matrix(self) -> bool {
        matches!(self, Self::Amx | Self::Mmla)
    }

    /// Checks that this processor has the set; the error names the first missing feature.
    pub fn available(self) -> Result<(), Absence> {
        match self {
            Self::Portable => Ok(()),
            _ => native::available(self),
        }
    }

    /// Returns the best vector instruction set of this processor.
    #[must_use]
    pub fn best() -> Self {
        let vectors = Self::ALL.into_iter().rev().filter(|isa| !isa.is_matrix());
        vectors.into_iter().find(|isa| isa.available().is_ok()).unwrap_or(Self::Portable)
    }

    /// Returns the set's name in options and results, such as `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Sse2 => "sse2",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::Sve => "sve",
            Self::Mmla => "mmla",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{chained, kernels};

    #[test]
    fn the_best_is_available_and_nothing_better_is() {
        let best = Isa::best();
        assert_eq!(best.available(), Ok(()));
        let better = |isa: &Isa| *isa > best && !isa.is_matrix();
        assert!(Isa::ALL.into_iter().filter(better).all(|isa| isa.available().is_err()));
    }

    #[test]
    fn detection_agrees_with_the_kernel() {
        let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else { return };
        let needs: [(Isa, &str, &[&str]); 6] = [
            (Isa::Sse2, "flags", &["sse2"]),
            (Isa::Avx2, "flags", &["avx2", "fma"]),
            (Isa::Avx512, "flags", &["avx512f", "avx512dq", "avx512bw", "avx512vl"]),
            (Isa::Amx, "flags", &["amx_tile"]),
            (Isa::Neon, "Features", &["asimd"]),
            (Isa::Sve, "Features", &["sve"]),
        ];
        for (isa, label, features) in needs {
            // Under an emulator the list is that of the host, with another label.
            let Some(list) = cpuinfo.lines().find_map(|line| line.strip_prefix(label)) else { continue };
            let flags: Vec<&str> = list.split_whitespace().collect();
            let listed = features.iter().all(|feature| flags.contains(feature) && !is_hidden(feature));
            match isa.available() {
                Err(Absence::Architecture { .. }) => {}
                found => assert_eq!(found.is_ok(), listed, "{isa}: {found:?}"),
            }
        }
    }

    #[test]
    fn features_are_those_that_the_kernel_lists() {
        let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else { return };
        let list = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
        let Some(list) = list.filter(|_| Isa::Neon.available().is_err()) else { return };
        let flags: Vec<&str> = list.split_whitespace().collect();
        for feature in kernels().chain(chained()).filter_map(|kernel| kernel.needs) {
            assert_eq!((feature.present)(), flags.contains(&feature.name), "{feature:?}");
        }
    }

    #[test]
    fn an_absence_says_what_is_missing() {
        let text = Absence::Feature { isa: Isa::Avx512, feature: "avx512f" }.to_string();
        assert_eq!(text, "avx512 is not supported by this CPU: needs avx512f");
        let foreign = if Isa::Neon.available().is_ok() { Isa::Avx2 } else { Isa::Neon };
        let text = foreign.available().unwrap_err().to_string();
        assert!(text.contains("is not an instruction set of this architecture"), "{text}");
    }
}
