use crate::arch::chain::{Density, Woven};
use crate::gemm::tile::RegisterTile;
use crate::isa::{Absence, Isa};
use crate::kernel::ComputeKernel;
use crate::lu::narrow::Narrow;
use crate::stream::StreamKernel;

pub(crate) use super::no_counter::*;

pub(crate) const READS_BEFORE_OVERWRITING: bool = true;

pub(crate) fn kernels() -> impl Iterator<Item = &'static [ComputeKernel]> {
    std::iter::empty()
}

pub(crate) fn chained() -> impl Iterator<Item = &'static [ComputeKernel]> {
    std::iter::empty()
}

pub(crate) static STREAM_KERNELS: [&[StreamKernel]; 0] = [];

pub(crate) static TILES_F64: [&RegisterTile<f64>; 0] = [];

pub(crate) static TILES_F32: [&RegisterTile<f32>; 0] = [];

pub(crate) static NARROW_KERNELS: [&Narrow; 0] = [];

pub(crate) fn prefetch<T>(_: *const T) {}

pub(crate) const SCALAR_CHAINS: Option<&Density> = None;

pub(crate) static WOVEN_KERNELS: &[Woven] = &[];

pub(crate) fn available(isa: Isa) -> Result<(), Absence> {
    Err(Absence::Architecture(isa))
}
