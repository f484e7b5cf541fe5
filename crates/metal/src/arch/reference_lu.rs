//! Portable functions of the factorisation.

use crate::isa::Isa;
use crate::lu::narrow::{Narrow, above, step, substitute, subtract};

/// Products are rounded before sums: without the instruction a fused one is a slow function.
pub(crate) static NARROW: Narrow = Narrow {
    isa: Isa::Portable,
    above: above::<false, 4>,
    step: step::<false, 4>,
    substitute: substitute::<false>,
    subtract: subtract::<false, 4>,
};
