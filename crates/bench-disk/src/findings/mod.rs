//! What the figures of the disk benchmarks say of the device.

pub(crate) mod pattern;
pub(crate) mod queue;
