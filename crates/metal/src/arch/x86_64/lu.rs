//! The functions of the factorisation beside multiplication, compiled for AVX2 and AVX-512.

use crate::isa::Isa;
use crate::lu::narrow::{Below, Narrow, factor, substitute, subtract};

macro_rules! narrow {
    ($row:ident, $isa:expr, $height:literal, $features:literal, $factor:ident, $substitute:ident, $subtract:ident) => {
        pub(crate) static $row: Narrow =
            Narrow { isa: $isa, factor: $factor, substitute: $substitute, subtract: $subtract };

        /// # Safety
        /// As [`factor`].
        #[target_feature(enable = $features)]
        unsafe fn $factor(panel: Below, pivots: &mut [u32]) -> Result<(), usize> {
            // SAFETY: granted by the caller.
            unsafe { factor::<true, $height>(panel, pivots) }
        }

        /// # Safety
        /// As [`substitute`].
        #[target_feature(enable = $features)]
        unsafe fn $substitute(lower: &[f64], right: &mut [f64], order: usize) {
            // SAFETY: granted by the caller.
            unsafe { substitute::<true>(lower, right, order) }
        }

        /// # Safety
        /// As [`subtract`].
        #[target_feature(enable = $features)]
        unsafe fn $subtract(strip: &[f64], factors: &[f64], result: &mut [f64]) {
            // SAFETY: granted by the caller.
            unsafe { subtract::<true, $height>(strip, factors, result) }
        }
    };
}

narrow!(AVX2, Isa::Avx2, 12, "avx2,fma", factor_avx2, substitute_avx2, subtract_avx2);
narrow!(AVX512, Isa::Avx512, 24, "avx512f", factor_avx512, substitute_avx512, subtract_avx512);
