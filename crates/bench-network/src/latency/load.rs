//! A TCP stream that fills the path while round trips are measured.

use std::time::Duration;

use crate::random_bytes;
use crate::session::ServerSession;
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::{PinnedCpus, nanos};
use plimsoll_server::wire::{Direction, OrderedAmount, Sockets, TcpOrder};

/// Length in bytes that the message of a load must have.
pub(super) const LOAD_MESSAGE_BYTES: u32 = 128 << 10;

#[derive(Debug)]
pub(super) struct NetworkLoad {
    session: ServerSession,
    direction: Direction,
    message: Vec<u8>,
    cpus: PinnedCpus,
}

impl NetworkLoad {
    /// Opens a second session with the server of `session`, for a TCP stream of random data (by
    /// `seed`) in `direction`, with its local threads on the last of `near`.
    pub(super) fn new(
        session: &ServerSession,
        direction: Direction,
        near: &PinnedCpus,
        seed: u64,
    ) -> Result<Self, CannotMeasure> {
        let mut session = session.second_session()?;
        session.join(1, &Sockets::default())?;
        // The last CPUs of the list: with enough CPUs, the load shares none with the round trips.
        let cpus = PinnedCpus(near.0.iter().rev().copied().collect());
        let message = random_bytes(LOAD_MESSAGE_BYTES as usize, seed);
        Ok(NetworkLoad { session, direction, message, cpus })
    }

    /// Loads the path for `time`. Returns the rate that arrived, bit/s, summed over the directions.
    pub(super) fn run(&mut self, time: Duration) -> Result<f64, CannotMeasure> {
        let amount = OrderedAmount::Nanos(nanos(time));
        let work = TcpOrder::new(1, LOAD_MESSAGE_BYTES, self.direction, amount);
        let done = self.session.transfer(&work, &self.message, &self.cpus)?;
        let there = done.there.and_then(|report| report.received);
        let received = [done.here.received, there].into_iter().flatten();
        Ok(received.map(|r| r.counted as f64 * 8.0 / (r.nanos.max(1) as f64 * 1e-9)).sum())
    }
}
