use std::ops::Range;

use crate::isa::Isa;
use crate::lu::narrow::{
    KnownColumn, Largest, LowerColumns, Narrow, WIDEST, solve_above_diagonal, step, substitute, subtract,
};

macro_rules! narrow {
    ($row:ident, $isa:expr, $height:literal, $features:literal, $above:ident, $step:ident, $substitute:ident, $subtract:ident) => {
        pub(crate) static $row: Narrow =
            Narrow { isa: $isa, above: $above, step: $step, substitute: $substitute, subtract: $subtract };

        #[target_feature(enable = $features)]
        unsafe fn $above(panel: LowerColumns, column: usize) -> [f64; WIDEST] {
            // SAFETY: granted by the caller.
            unsafe { solve_above_diagonal::<true, $height>(panel, column) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $step(panel: LowerColumns, column: &KnownColumn, strips: Range<usize>) -> Option<Largest> {
            // SAFETY: granted by the caller.
            unsafe { step::<true, $height>(panel, column, strips) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $substitute(lower: &[f64], right: &mut [f64], order: usize) {
            // SAFETY: granted by the caller.
            unsafe { substitute::<true>(lower, right, order) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $subtract(strip: &[f64], factors: &[f64], result: &mut [f64]) {
            // SAFETY: granted by the caller.
            unsafe { subtract::<true, $height>(strip, factors, result) }
        }
    };
}

narrow!(AVX2, Isa::Avx2, 12, "avx2,fma", above_avx2, step_avx2, substitute_avx2, subtract_avx2);
narrow!(AVX512, Isa::Avx512, 24, "avx512f", above_avx512, step_avx512, substitute_avx512, subtract_avx512);
