//! The MPI world as a link. All calls are made by the thread that joined it, which is all that MPI promises.

mod exercise;

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};

use super::exercise::{Exercise, Timed};
use super::fabric::SILENCE;
use super::link::{LARGEST, Link, Parcel};
use exercise::Yard;

/// Between two looks at whether a parcel was taken.
const LOOK: Duration = Duration::from_millis(1);

/// Exit code of a world whose rank 0 is gone: the environment failed.
const ABANDONED: i32 = 4;

/// A joined world.
pub(super) struct World {
    world: SimpleCommunicator,
    /// What was ever sent. MPI reads a message until its receiver has it, which may be never, so none is given back; what is
    /// said to many, as the amounts of each case are, is kept once.
    sent: BTreeSet<&'static [u8]>,
    /// What was sent and is not taken yet.
    under_way: Vec<Request<'static, [u8], StaticScope>>,
    /// Where MPI itself is measured.
    yard: Yard,
    // Leaves the world when it is dropped, so after the communicator.
    _universe: Universe,
}

impl World {
    /// Joins the world that the launcher made.
    pub(super) fn join() -> io::Result<Self> {
        let joined = mpi::initialize_with_threading(Threading::Serialized);
        let (universe, _) = joined.ok_or_else(|| io::Error::other("MPI was joined before"))?;
        let world = universe.world();
        let yard = Yard::of(&world);
        Ok(Self { world, sent: BTreeSet::new(), under_way: Vec::new(), yard, _universe: universe })
    }

    /// Forgets what has been taken. A receiver that is gone takes nothing, and nobody waits for it here.
    fn advance(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        self.under_way = under_way.into_iter().filter_map(|request| request.test().err()).collect();
    }
}

impl Drop for World {
    /// Leaves when all has been taken; MPI cannot take back what was begun, so a receiver that takes nothing ends the world.
    fn drop(&mut self) {
        let deadline = Instant::now() + SILENCE;
        while !self.under_way.is_empty() {
            if Instant::now() > deadline {
                self.world.abort(ABANDONED);
            }
            std::thread::sleep(LOOK);
            self.advance();
        }
    }
}

impl Link for World {
    fn rank(&self) -> usize {
        usize::try_from(self.world.rank()).unwrap_or(0)
    }

    fn size(&self) -> usize {
        usize::try_from(self.world.size()).unwrap_or(1)
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), String> {
        let rank = i32::try_from(to).map_err(|e| e.to_string())?;
        let bytes = self.sent.get(bytes).copied().unwrap_or_else(|| Box::leak(Box::from(bytes)));
        self.sent.insert(bytes);
        self.under_way.push(self.world.process_at_rank(rank).immediate_send(StaticScope, bytes));
        self.advance();
        Ok(())
    }

    fn receive(&mut self) -> Option<Parcel> {
        self.advance();
        let (message, status) = self.world.any_process().immediate_matched_probe()?;
        let from = usize::try_from(status.source_rank()).ok()?;
        let length = usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(usize::MAX);
        if length > LARGEST {
            // MPI wants every message taken; this one is left where it is.
            std::mem::forget(message);
            return Some(Parcel { from, bytes: Err(length) });
        }
        let mut bytes = vec![0_u8; length];
        message.matched_receive_into(&mut bytes[..]);
        Some(Parcel { from, bytes: Ok(bytes) })
    }

    fn exercise(&mut self, exercise: &Exercise) -> Result<Timed, String> {
        self.yard.begin(exercise)
    }

    fn attend(&mut self) -> Option<usize> {
        self.yard.attend()
    }

    fn busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    fn abort(&mut self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}
