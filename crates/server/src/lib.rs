//! Network server and traffic code: everything that an unauthenticated peer can reach, kept small
//! enough to audit. It knows neither metrics nor limits.
#![forbid(unsafe_code)]

pub mod serve;
pub mod traffic;
pub mod wire;
