//! What a core can do in one cycle: which row of `data/microarchitectures.toml` a processor is of, and how certain that is.
//!
//! The file is part of the program. Whatever is not in it is unknown, with the reason. A processor's numbers (family and
//! model, or Arm's part) name its row. Hypervisors write other numbers, so on x86 features and caches must not contradict
//! the row: see [`Core::of`].

mod evidence;
mod identify;
mod memory;
mod table;

pub use identify::{Core, Identity};
pub use memory::SocketMemory;

/// Why a fact about a chip is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub String);

#[cfg(test)]
mod tests;
