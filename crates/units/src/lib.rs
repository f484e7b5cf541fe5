//! Parsing and formatting of quantities, and sanitising of text from outside.
#![forbid(unsafe_code)]

pub mod quantity;
pub mod text;
