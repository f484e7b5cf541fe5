//! Per-cycle capabilities of cores (`data/microarchitectures.toml`), and identification of the row.

mod evidence;
mod identify;
mod memory;
mod table;

pub use identify::{Core, Identity};
pub use memory::SocketMemory;

/// Reason why a fact about a chip is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownChip(pub String);

#[cfg(test)]
mod tests;
