//! Consumers of the run: each writes one format and measures nothing.

pub mod machine;
