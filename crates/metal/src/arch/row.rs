//! Rows and functions of the tables of kernels, and of the clock chains, for all architectures.

/// A kernel whose operations are counted by `parts!` of the architecture.
macro_rules! row {
    ($name:expr, $function:expr; $accumulators:expr, $steps:expr, $chains:literal; $isa:ident $bytes:expr,
        $op:ident $element:ident $recurrence:ident $needs:expr, $($step:tt)+) => {
        ComputeKernel {
            name: $name,
            op: Op::$op,
            element: Element::$element,
            isa: Isa::$isa,
            needs: $needs,
            lanes: ($bytes / Element::$element.summed_by(Op::$op).bytes()) as u32,
            accumulators: $accumulators,
            steps: $steps,
            chains: $chains,
            recurrence: Recurrence::$recurrence,
            parts: parts!([$accumulators * $steps, $accumulators * $steps / 2] $($step)+),
            function: $function,
        }
    };
}

/// Rows of one kernel with each number of chains.
macro_rules! chained_rows {
    ($name:ident $row:tt $step:tt $($chains:literal)+) => {
        [$(chained_rows!(@ $name $chains $row $step),)+]
    };
    (@ $name:ident $chains:literal ($($row:tt)+) ($($step:tt)+)) => {
        row!(concat!(stringify!($name), "_chains_", $chains), $name::<$chains>; $chains, steps($chains), true;
            $($row)+, $($step)+)
    };
}

/// Row, if `$all` is given, of a kernel with that number of chains and the name of its full width.
macro_rules! full_row {
    ($name:ident $row:tt $step:tt) => {
        []
    };
    ($name:ident ($($row:tt)+) ($($step:tt)+) $all:literal) => {
        [row!(without_width(stringify!($name)), $name::<$all>; $all, steps($all), false; $($row)+, $($step)+)]
    };
}

/// Function that runs the loop in `$turn` on `$chains` accumulators and two constants in registers.
/// An instruction in `$load` and `$store` moves register `i` from and to its row.
macro_rules! looped {
    ($(#[$about:meta])+ $name:ident [$($generic:tt)*] ($memory:ident: $type:ty) $rows:expr, $chains:expr,
        $feature:literal $begin:literal [$($load:tt)+] [$($before:tt)*] [$($turn:tt)+] [$($store:tt)*]
        $end:literal ($($register:tt)+) [$($operand:tt)*]) => {
        $(#[$about])+
        #[inline(never)]
        #[target_feature(enable = $feature)]
        unsafe fn $name $($generic)*(turns: u64, $memory: $type) {
            // SAFETY: the caller grants set and rows without gaps; all registers are named.
            unsafe {
                core::arch::asm!(
                    $begin,
                    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    ".if \\i - 2 < {chains}",
                    $($load)+,
                    ".endif",
                    ".endr",
                    $($before)*
                    ".p2align 6",
                    "2:",
                    $($turn)+
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    ".if \\i - 2 < {chains}",
                    $($store)*
                    ".endif",
                    ".endr",
                    $end,
                    rows = in(reg) $rows,
                    turns = inout(reg) turns => _,
                    chains = const $chains,
                    $($operand)*
                    $(out($register) _,)+
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! density {
    ($add:ident $adds:literal $multiply:ident $multiplications:literal) => {
        Density {
            names: [stringify!($add), stringify!($multiply)],
            add: $add,
            adds: $adds,
            multiply: $multiply,
            multiplications: $multiplications,
        }
    };
}

/// The chains alone, of an architecture's instructions, and interleaved by its `woven!`.
macro_rules! chains {
    (($sum:literal $product:literal $count:literal $again:literal) $($lanes:ident $isa:ident $weight:ident $op:ident $element:ident $steps:tt
        ($dense:ident $middle:ident $sparse:ident) ($dense_multiply:ident $middle_multiply:ident $sparse_multiply:ident);)+) => {
        pub(crate) const SCALAR_CHAINS: Option<&Density> = Some(&SCALAR_DENSITY);

        static SCALAR_DENSITY: Density = density!(chain_add 64 chain_multiply 25);

        chains!(@alone chain_add $sum 64 $count $again);
        chains!(@alone chain_multiply $product 25 $count $again);

        pub(crate) static WOVEN_KERNELS: &[Woven] = &[$(
            Woven {
                isa: Isa::$isa,
                weight: Weight::$weight,
                operands: (Op::$op, Element::$element),
                densities: [
                    density!($dense 13 $dense_multiply 5),
                    density!($middle 36 $middle_multiply 14),
                    density!($sparse 108 $sparse_multiply 41),
                ],
            },
        )+];
        $(
            woven!($lanes $steps $dense $sum 1 1);
            woven!($lanes $steps $middle $sum 3 0);
            woven!($lanes $steps $sparse $sum 9 0);
            woven!($lanes $steps $dense_multiply $product 0 5);
            woven!($lanes $steps $middle_multiply $product 1 2);
            woven!($lanes $steps $sparse_multiply $product 3 5);
        )+
    };
    (@alone $name:ident $link:literal $links:literal $count:literal $again:literal) => {
        /// Runs `turns` iterations of a chain of integer instructions. Safety: `turns` > 0.
        #[inline(never)]
        unsafe fn $name(turns: u64, _: *const u8) {
            // SAFETY: baseline integer instructions on declared registers, without memory or stack.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    concat!(".rept ", $links),
                    $link,
                    ".endr",
                    $count,
                    $again,
                    sum = inout(reg) 1_u64 => _,
                    step = in(reg) 3_u64,
                    turns = inout(reg) turns => _,
                    options(nomem, nostack),
                );
            }
        }
    };
}
