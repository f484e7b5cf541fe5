//! Worker processes: the same program re-executed, driven over its standard input and output. A
//! crash affects only the worker's own case; the parent stores, times out and prints.

mod child;
pub mod message;
mod parent;

pub use child::serve;
pub use parent::Workers;
