use crate::isa::Isa;
use crate::lu::narrow::{Narrow, solve_above_diagonal, step, substitute, subtract};

/// Rounds products before sums: without the instruction, a fused operation is a slow function call.
pub(crate) static NARROW: Narrow = Narrow {
    isa: Isa::Portable,
    above: solve_above_diagonal::<false, 4>,
    step: step::<false, 4>,
    substitute: substitute::<false>,
    subtract: subtract::<false, 4>,
};
