//! Code that depends on the instruction set. Only this file checks the target architecture; each
//! architecture folder has the same items, which the crate uses as `arch::native`.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[macro_use]
mod general;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[macro_use]
mod row;

pub(crate) mod chain;
#[cfg(not(target_arch = "x86_64"))]
mod no_counter;
pub(crate) mod reference;
pub(crate) mod reference_gemm;
pub(crate) mod reference_lu;
pub(crate) mod reference_stream;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod steps;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
pub(crate) mod native;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
pub(crate) mod native;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "other.rs"]
pub(crate) mod native;
