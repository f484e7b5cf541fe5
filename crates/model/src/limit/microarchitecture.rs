//! Per-cycle capabilities of cores, from the rows of `data/microarchitectures.toml` (compiled in),
//! and the identification of a processor's row.
//!
//! Family and model, or Arm's part, select the row. Hypervisors may show other numbers, so on x86
//! features and caches must not contradict the row: see [`Core::of`].

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
