//! What is measured runs in a worker: the same program re-executed, driven over its standard input and output.
//!
//! A worker that dies costs its own case; only the parent stores, times out and prints.

mod child;
pub mod message;
mod parent;

pub use child::serve;
pub use parent::Workers;
