//! All that strangers on a network can reach, small enough to audit: the wire protocol, the transfers and round trips as
//! both ends do them, and the server. Benchmarks are its clients; it knows nothing of what is measured, nor of limits.
#![forbid(unsafe_code)]

pub mod serve;
pub mod traffic;
pub mod wire;
