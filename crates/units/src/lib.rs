//! Parsing and formatting of quantities, sanitising of text from outside, grouping of values.
#![forbid(unsafe_code)]

pub mod group;
pub mod json;
pub mod quantity;
pub mod text;
