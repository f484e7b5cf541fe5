//! What a fabric needs of whatever carries its parcels: MPI, or channels in the tests.

use super::exercise::{Exercise, Timed};

/// A parcel that arrived.
#[derive(Debug, PartialEq)]
pub struct Parcel {
    /// Rank of its sender.
    pub from: usize,
    /// Its bytes, or how many there were if more than `LARGEST`.
    pub bytes: Result<Vec<u8>, usize>,
}

/// Largest parcel: a run document of thousands of cases.
pub(super) const LARGEST: usize = 256 << 20;

/// One rank's end.
pub trait Link {
    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// Hands a parcel over, without waiting for its receiver.
    ///
    /// # Errors
    /// No such rank can be.
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), String>;

    /// The next parcel that is already here.
    fn receive(&mut self) -> Option<Parcel>;

    /// Does an exercise with the ranks that it names, this one first, and waits for its end.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn exercise(&mut self, _: &Exercise) -> Result<Timed, String> {
        Err("what carries the run's messages is not MPI".to_owned())
    }

    /// Takes part in an exercise that another rank has begun, if one has; that rank.
    fn attend(&mut self) -> Option<usize> {
        None
    }

    /// Whether something that was handed over is not taken yet, and waits for this end to look after it.
    fn busy(&self) -> bool;

    /// Ends all ranks, this one as well.
    fn abort(&mut self, code: u8) -> !;
}

/// Links between threads of this process.
#[cfg(test)]
pub(super) mod local {
    use super::{Link, Parcel};
    use crossbeam_channel::{Receiver, Sender, unbounded};

    /// A link of one thread to all.
    pub(crate) struct Thread {
        rank: usize,
        to: Vec<Sender<(usize, Vec<u8>)>>,
        inbox: Receiver<(usize, Vec<u8>)>,
        /// It cannot be left before this ends.
        pub(crate) until: Option<Receiver<()>>,
    }

    impl Drop for Thread {
        fn drop(&mut self) {
            if let Some(until) = &self.until {
                let _ = until.recv();
            }
        }
    }

    /// A world of so many threads.
    pub(crate) fn world(size: usize) -> Vec<Thread> {
        let (to, inboxes): (Vec<_>, Vec<_>) = (0..size).map(|_| unbounded()).unzip();
        let thread = |(rank, inbox)| Thread { rank, to: to.clone(), inbox, until: None };
        inboxes.into_iter().enumerate().map(thread).collect()
    }

    impl Link for Thread {
        fn rank(&self) -> usize {
            self.rank
        }

        fn size(&self) -> usize {
            self.to.len()
        }

        fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), String> {
            self.to[to].send((self.rank, bytes.to_vec())).map_err(|e| e.to_string())
        }

        fn receive(&mut self) -> Option<Parcel> {
            self.inbox.try_recv().ok().map(|(from, bytes)| Parcel { from, bytes: Ok(bytes) })
        }

        fn busy(&self) -> bool {
            false
        }

        fn abort(&mut self, code: u8) -> ! {
            unreachable!("a test ends with {code}")
        }
    }
}
