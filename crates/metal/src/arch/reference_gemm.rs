use crate::gemm::Real;
use crate::gemm::pack::{pack_a, pack_b};
use crate::gemm::tile::{RegisterTile, TileOperands, Update};
use crate::isa::Isa;

pub(crate) static F64: RegisterTile<f64> = RegisterTile {
    name: "gemm_f64_portable",
    isa: Isa::Portable,
    rows: 4,
    columns: 4,
    pack_a: pack_a::<f64, 4>,
    pack_b: pack_b::<f64, 4>,
    function: portable::<f64, 4, 4>,
};

pub(crate) static F32: RegisterTile<f32> = RegisterTile {
    name: "gemm_f32_portable",
    isa: Isa::Portable,
    rows: 8,
    columns: 4,
    pack_a: pack_a::<f32, 8>,
    pack_b: pack_b::<f32, 4>,
    function: portable::<f32, 8, 4>,
};

/// Updates the tile of C at `c` by the product A·B of `operands`. Safety: see `TileFunction`.
unsafe fn portable<T, const ROWS: usize, const COLUMNS: usize>(
    operands: &TileOperands<T>,
    c: *mut T,
    c_stride: usize,
    update: Update,
) where
    T: Real + std::ops::Add<Output = T> + std::ops::Sub<Output = T> + std::ops::Mul<Output = T>,
{
    let TileOperands { depth, a, b, .. } = *operands;
    let mut sums = [[T::default(); ROWS]; COLUMNS];
    for step in 0..depth {
        // SAFETY: the caller grants `depth` columns of ROWS and rows of COLUMNS elements.
        let rows = unsafe { *a.wrapping_add(step * ROWS).cast::<[T; ROWS]>() };
        // SAFETY: as above.
        let columns = unsafe { *b.wrapping_add(step * COLUMNS).cast::<[T; COLUMNS]>() };
        for (sums, factor) in sums.iter_mut().zip(columns) {
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = *sum + row * factor;
            }
        }
    }
    for (column, sums) in sums.into_iter().enumerate() {
        // SAFETY: the caller grants a whole tile of C.
        let place = unsafe { &mut *c.wrapping_add(column * c_stride).cast::<[T; ROWS]>() };
        for (place, sum) in place.iter_mut().zip(sums) {
            *place = match update {
                Update::Set => sum,
                Update::Add => *place + sum,
                Update::Subtract => *place - sum,
            };
        }
    }
}
