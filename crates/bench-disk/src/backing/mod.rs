//! Storage of transfers: a test file in a directory, or a block device.

pub(crate) mod blkid;
pub mod block_device;
pub mod cache;
pub mod claim;
pub mod dir;
pub mod filesystem;
pub mod raw;
pub mod regular_file;
