//! Storage of transfers: a test file in a directory, or a block device.

pub(crate) mod blkid;
pub mod block_device;
pub mod cache;
pub(crate) mod claim;
pub(crate) mod dir;
pub(crate) mod filesystem;
pub mod raw;
pub(crate) mod regular_file;
