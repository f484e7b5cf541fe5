//! Storage of transfers: a test file in a directory, or a block device.

mod blkid;
mod block_device;
mod claim;
mod dir;
#[cfg(test)]
pub(crate) mod fixture;
pub mod raw;
mod regular_file;

pub use block_device::RawError;
pub use dir::DirFacts;
pub(crate) use dir::check_dir;
pub(crate) use raw::RawDevice;
pub(crate) use regular_file::{AllocationEffect, TestFile, direct_refused, hint};
