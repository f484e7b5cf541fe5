//! Dense matrix multiplication C ← A·B, C ± A·B on a team of threads, in f64 and f32: Goto and van
//! de Geijn, "Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 3, 2008). A packed
//! block of A stays in level 2 while packed strips of B pass through level 1.

mod blocking;
mod matrix;
pub(crate) mod pack;
pub(crate) mod product;
mod share;
pub(crate) mod tile;

pub use blocking::{Blocking, CoreCaches};
pub use matrix::{ColumnMatrix, MatrixMut, MatrixView, ShapeError};
pub use product::{Gemm, GemmError, ProductShape};
pub use tile::Update;

use crate::arch::{native, reference_gemm};
use crate::buffer::BufferElement;
use crate::isa::{Absence, Isa};
use tile::RegisterTile;

/// Element type of a matrix.
pub trait Real: BufferElement + Default + Send + Sync + std::fmt::Debug + PartialEq + 'static {
    /// Rounds `value` to this type.
    fn from_f64(value: f64) -> Self;
    /// Converts to f64 without loss.
    fn to_f64(self) -> f64;
    #[doc(hidden)]
    fn tiles() -> Tiles<Self>;
}

/// Register tiles of an element type.
#[derive(Debug, Clone, Copy)]
pub struct Tiles<T: 'static> {
    portable: &'static RegisterTile<T>,
    native: &'static [&'static RegisterTile<T>],
}

impl Real for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn tiles() -> Tiles<Self> {
        Tiles { portable: &reference_gemm::F64, native: &native::TILES_F64 }
    }
}

impl Real for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn tiles() -> Tiles<Self> {
        Tiles { portable: &reference_gemm::F32, native: &native::TILES_F32 }
    }
}

/// Reason why an instruction set has no multiplication here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTile {
    /// The processor lacks the instruction set.
    #[error(transparent)]
    Absent(#[from] Absence),
    /// No tile is implemented for the instruction set.
    #[error("no matrix multiplication is written for {0}: choose one of {names}", names = choices())]
    Unwritten(Isa),
}

fn choices() -> String {
    isas().map(Isa::name).collect::<Vec<_>>().join(", ")
}

/// Returns the sets with a matrix multiplication for this architecture, best last, present or not.
pub fn isas() -> impl Iterator<Item = Isa> {
    let tiles = f64::tiles();
    std::iter::once(tiles.portable).chain(tiles.native.iter().copied()).map(|tile| tile.isa)
}

/// Returns the best instruction set with a matrix multiplication that this CPU has.
pub fn best_isa() -> Isa {
    isas().filter(|isa| isa.available().is_ok()).last().unwrap_or(Isa::Portable)
}

/// Returns the matrix-product kernel for `isa`; fails if this CPU lacks `isa` or no kernel exists.
pub(crate) fn tile_for<T: Real>(isa: Isa) -> Result<&'static RegisterTile<T>, NoTile> {
    isa.available()?;
    let tiles = T::tiles();
    let mut all = std::iter::once(tiles.portable).chain(tiles.native.iter().copied());
    all.find(|tile| tile.isa == isa).ok_or(NoTile::Unwritten(isa))
}

#[cfg(test)]
mod tests;
