//! Threads of one transfer: one team of senders and one of receivers, with one thread per stream.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use super::{LostTransfer, PinnedCpus, SharedTransfer};
use crate::wire::RESULTS;

/// Handles of the threads, in stream order.
pub type TeamThreads<'s, T> = Vec<ScopedJoinHandle<'s, io::Result<T>>>;

/// Threads with one task, such as sending, one per stream.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTeam<'a> {
    /// Name of the threads, before their numbers.
    pub name: &'static str,
    /// Counter of the threads that have ended.
    pub done: &'a AtomicUsize,
    /// State of the transfer.
    pub shared: &'a SharedTransfer,
    /// CPUs to which the threads are pinned.
    pub cpus: &'a PinnedCpus,
    /// Number of the first thread at this end.
    pub first: usize,
}

impl<'env> ThreadTeam<'env> {
    /// Starts a pinned thread per closure in `works`; returns when all run. An error sets `stop`.
    pub fn start<'s, T, W>(
        self,
        scope: &'s Scope<'s, 'env>,
        works: impl Iterator<Item = W>,
    ) -> Result<TeamThreads<'s, T>, LostTransfer>
    where
        T: Send + 's,
        W: FnOnce() -> io::Result<T> + Send + 's,
    {
        let (ready, readies) = crossbeam_channel::unbounded::<()>();
        let start = |(number, work): (usize, W)| {
            let ready = ready.clone();
            Builder::new().name(format!("{}-{number}", self.name)).spawn_scoped(scope, move || {
                self.cpus.pin(self.first + number);
                let _ = ready.send(());
                let done = work().inspect_err(|_| self.shared.stop.store(true, Ordering::Relaxed));
                self.done.fetch_add(1, Ordering::Release);
                self.shared.wake();
                done
            })
        };
        let threads = works.enumerate().map(start).collect::<io::Result<TeamThreads<'s, T>>>();
        let threads = threads.inspect_err(|_| self.shared.stop.store(true, Ordering::Relaxed));
        let threads = threads.map_err(LostTransfer::Thread)?;
        for _ in &threads {
            let _ = readies.recv_timeout(RESULTS);
        }
        Ok(threads)
    }
}

/// Waits until the threads end. Returns their results in stream order, or the first failure.
pub fn joined<T>(threads: TeamThreads<'_, T>) -> Result<Vec<T>, LostTransfer> {
    let ended = || Err(io::Error::other("its thread ended unexpectedly"));
    let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| ended()));
    joined.map(|ended| ended.map_err(LostTransfer::from_socket_error)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_stops_all_and_is_the_reason() {
        let (shared, cpus) = (SharedTransfer::new(3).unwrap(), PinnedCpus::default());
        let done = std::thread::scope(|scope| {
            let (done, shared) = (&shared.senders_done, &shared);
            let team = ThreadTeam { name: "test", done, shared, cpus: &cpus, first: 0 };
            let works = (0..3).map(|number| {
                move || match number {
                    1 => Err(io::Error::other("one")),
                    _ => {
                        while !shared.stop.load(Ordering::Relaxed) {
                            std::thread::yield_now();
                        }
                        Ok(number)
                    }
                }
            });
            joined(team.start(scope, works)?)
        });
        assert_eq!(done.unwrap_err().to_string(), "a stream failed: one");
        assert_eq!(shared.senders_done.load(Ordering::Acquire), 3);
    }
}
