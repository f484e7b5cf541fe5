//! How a row of the tables of NEON and SVE becomes the text of its loop.
//!
//! The macros name `operand!`, which each of the two has of its own.

/// The text of one accumulator's step.
macro_rules! step {
    ($lanes:tt $i:literal $next:literal [$($mnemonic:literal $operations:literal $first:ident $($more:ident)+;)+]) => {
        concat!($(
            $mnemonic, " ", operand!($lanes $i $next $first), $(", ", operand!($lanes $i $next $more),)+ "\n",
        )+)
    };
}

/// The steps of all accumulators, two by two.
macro_rules! turn {
    ($lanes:tt $even:tt $odd:tt; $($i:literal $j:literal $k:literal),+) => {
        concat!($(step!($lanes $i $j $even), step!($lanes $j $k $odd),)+)
    };
}

/// The parts of a row: the instructions of one step, twelve of each.
macro_rules! parts {
    ($even:tt) => {
        parts!($even $even)
    };
    ([$($mnemonic:literal $operations:literal $($operand:ident)+;)+]
        [$($other:literal $others:literal $($operands:ident)+;)+]) => {
        &[
            $(Part { mnemonic: $mnemonic, count: 12, operations: $operations },)+
            $(Part { mnemonic: $other, count: 12, operations: $others },)+
        ]
    };
}
