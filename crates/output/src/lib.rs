//! What a person or a program sees of a run: terminal, pages and all formats. Nothing is measured or decided here.
#![forbid(unsafe_code)]

pub mod report;
