use crate::tools::prelude::*;

impl StatedFigure {
    /// Returns a figure in B/s that plimsoll measures as `memory.bandwidth` of `threads` threads.
    pub(super) fn of_memory(name: &str, rate: f64, (op, threads): (&str, f64), used: MemoryUse) -> Self {
        let case = Case::of("memory.bandwidth").with_word("op", op).with_count("threads", threads as u64);
        let figure = Self::like(name, rate, Unit::BytePerSecond, case, "bandwidth");
        Self { subject: Subject::Memory(used), ..figure }
    }

    /// Returns a figure in bit/s of a stream, or of datagrams if `used` has their size.
    pub(super) fn of_link(name: &str, rate: f64, message: Option<f64>, used: LinkUse) -> Self {
        let benchmark = if used.datagram.is_some() { "network.udp" } else { "network.tcp" };
        let case = Case::of(benchmark).with_count("streams", used.streams).with_word("direction", "up");
        let case = case.with_size("message", message.unwrap_or(1.0).max(1.0) as u64);
        let figure = Self::like(name, rate, Unit::BitPerSecond, case, "goodput");
        Self { subject: Subject::Link(used), ..figure }
    }
}
