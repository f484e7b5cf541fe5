//! Processors: identity, instruction sets, affinity.

pub mod affinity;
pub mod capability;
pub mod cpuid;
pub mod isa;
pub mod numa;
pub mod one_core;
