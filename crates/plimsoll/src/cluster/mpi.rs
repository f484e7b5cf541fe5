//! The MPI world as a link. All calls are made by the thread that joined it, which is all that MPI promises.

use std::io;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};

use super::fabric::SILENCE;
use super::link::{LARGEST, Link, Parcel};

/// Between two looks at whether a parcel was taken.
const LOOK: Duration = Duration::from_millis(1);

/// Exit code of a world whose rank 0 is gone: the environment failed.
const ABANDONED: i32 = 4;

/// A joined world.
pub(super) struct World {
    world: SimpleCommunicator,
    // Leaves the world when it is dropped, so after the communicator.
    _universe: Universe,
}

impl World {
    /// Joins the world that the launcher made.
    pub(super) fn join() -> io::Result<Self> {
        let joined = mpi::initialize_with_threading(Threading::Serialized);
        let (universe, _) = joined.ok_or_else(|| io::Error::other("MPI was joined before"))?;
        Ok(Self { world: universe.world(), _universe: universe })
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
        let deadline = Instant::now() + SILENCE;
        mpi::request::scope(|scope| {
            let mut request = self.world.process_at_rank(rank).immediate_send(scope, bytes);
            while let Err(still) = request.test() {
                // MPI cannot take back what was begun: a receiver that takes nothing ends the run. Short messages are
                // taken by MPI itself, so this is a long one, to a rank 0 that is gone.
                if Instant::now() > deadline {
                    self.world.abort(ABANDONED);
                }
                request = still;
                std::thread::sleep(LOOK);
            }
        });
        Ok(())
    }

    fn receive(&mut self) -> Option<Parcel> {
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

    fn abort(&mut self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}
