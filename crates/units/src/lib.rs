//! Numbers with units and text from outside: what reads them and what writes them for people. It knows nothing of
//! what is measured.
#![forbid(unsafe_code)]

pub mod quantity;
pub mod text;
