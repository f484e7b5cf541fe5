macro_rules! step {
    ($lanes:tt $i:literal $next:literal [$($mnemonic:literal $operations:literal $first:ident $($more:ident)+;)+]) => {
        concat!($(
            $mnemonic, " ", operand!($lanes $i $next $first), $(", ", operand!($lanes $i $next $more),)+ "\n",
        )+)
    };
}

macro_rules! turn {
    ($lanes:tt $even:tt $odd:tt; $($i:literal $j:literal $k:literal),+) => {
        concat!($(step!($lanes $i $j $even), step!($lanes $j $k $odd),)+)
    };
}

macro_rules! parts {
    ([$all:expr, $_:expr] [$($mnemonic:literal $operations:literal $($operand:ident)+;)+]) => {
        const { &[$(InstructionCount { mnemonic: $mnemonic, count: $all, operations: $operations },)+] }
    };
    ([$_:expr, $half:expr] [$($mnemonic:literal $operations:literal $($operand:ident)+;)+]
        [$($other:literal $others:literal $($operands:ident)+;)+]) => {
        const {
            &[
                $(InstructionCount { mnemonic: $mnemonic, count: $half, operations: $operations },)+
                $(InstructionCount { mnemonic: $other, count: $half, operations: $others },)+
            ]
        }
    };
}
