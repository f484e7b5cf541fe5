pub(super) mod cyclictest;
pub(super) mod lmbench;
pub(super) mod perf;
