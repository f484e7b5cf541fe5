//! Network server and traffic code: everything that an unauthenticated peer can reach.
#![forbid(unsafe_code)]

pub mod serve;
pub mod traffic;
pub mod wire;
