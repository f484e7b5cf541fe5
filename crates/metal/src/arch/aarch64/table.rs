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

/// The parts of a row: so many of the instructions of a step; or, where there are two, so many of each.
macro_rules! parts {
    ([$all:expr, $_:expr] [$($mnemonic:literal $operations:literal $($operand:ident)+;)+]) => {
        const { &[$(Part { mnemonic: $mnemonic, count: $all, operations: $operations },)+] }
    };
    ([$_:expr, $half:expr] [$($mnemonic:literal $operations:literal $($operand:ident)+;)+]
        [$($other:literal $others:literal $($operands:ident)+;)+]) => {
        const {
            &[
                $(Part { mnemonic: $mnemonic, count: $half, operations: $operations },)+
                $(Part { mnemonic: $other, count: $half, operations: $others },)+
            ]
        }
    };
}
