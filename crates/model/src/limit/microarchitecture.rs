//! Per-cycle capabilities of cores (`data/microarchitectures.toml`), and identification of the row.

mod evidence;
mod identify;
mod memory;
mod table;

pub use evidence::ABILITY_RATES;
pub use identify::{Core, Identity};
pub use memory::SocketMemory;

#[cfg(test)]
mod tests;
