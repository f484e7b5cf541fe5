//! What a case works on: a test file in a directory, or a block device that is measured itself.

pub(crate) mod blkid;
pub(crate) mod case_files;
pub mod claim;
pub mod dir;
pub mod file;
pub mod filesystem;
pub mod fill;
pub(crate) mod lend;
pub mod raw;
pub mod target;
pub(crate) mod trim;
