//! What was typed (`cli`), and what it means: a plan and its cases, with all mistakes found (`resolve`). Nothing runs here.
#![forbid(unsafe_code)]

pub mod cli;
pub mod resolve;
