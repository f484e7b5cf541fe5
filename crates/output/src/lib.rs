//! Presentation of results: terminal, HTML and export formats. Measures and decides nothing.
#![forbid(unsafe_code)]

pub mod report;
