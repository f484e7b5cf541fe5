//! The sessions that there are: their streams that have joined, and whose turn it is.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::queue::Queue;
use super::{Caps, Settings};
use crate::traffic::Cpus;
use crate::traffic::udp::ports::Expected;
use crate::wire::{Hex128, Join};

/// One session, as others see it.
#[derive(Debug)]
struct Room {
    peer: IpAddr,
    /// Whose turn its transfers take: its own, or that of the session it stands beside.
    group: Hex128,
    streams: BTreeMap<u16, TcpStream>,
    /// The control connection once more, to end the session with.
    control: TcpStream,
}

/// All sessions of a far end.
#[derive(Debug)]
pub struct Sessions {
    caps: Caps,
    parallel: bool,
    cpus: Cpus,
    server: Hex128,
    sessions: Mutex<HashMap<Hex128, Room>>,
    expected: Expected,
    queue: Mutex<Queue>,
}

/// A session's hold on its room; dropping it frees all, also when its thread panics.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    sessions: &'a Sessions,
    /// The session's name.
    pub(super) session: Hex128,
    group: Hex128,
}

/// A turn to measure; dropping it ends the turn.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    sessions: &'a Sessions,
    group: Hex128,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking session left is whole: every change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// None yet, of a server that gets a random name.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        Ok(Sessions {
            server: Hex128::random()?,
            caps: settings.caps.clone(),
            parallel: settings.parallel,
            cpus: settings.cpus.clone(),
            sessions: Mutex::default(),
            expected: Expected::default(),
            queue: Mutex::default(),
        })
    }

    /// The server's name.
    pub(super) const fn server(&self) -> Hex128 {
        self.server
    }

    /// What is allowed.
    pub(super) const fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The sessions that wait for datagrams.
    pub(super) const fn expected(&self) -> &Expected {
        &self.expected
    }

    /// Where transfers run.
    pub(super) const fn cpus(&self) -> &Cpus {
        &self.cpus
    }

    /// Opens a session, beside another one of the same address if asked; `None` when there are as many as may be.
    pub(super) fn open(
        &self,
        peer: SocketAddr,
        beside: Option<Hex128>,
        control: TcpStream,
    ) -> Option<Lease<'_>> {
        let mut sessions = locked(&self.sessions);
        if sessions.len() >= self.caps.max_sessions {
            return None;
        }
        // Without one that nobody can guess there is no session.
        let session = Hex128::random().ok()?;
        let other = beside.and_then(|other| sessions.get(&other)).filter(|room| room.peer == peer.ip());
        let group = other.map_or(session, |room| room.group);
        sessions.insert(session, Room { peer: peer.ip(), group, streams: BTreeMap::new(), control });
        Some(Lease { sessions: self, session, group })
    }

    /// Whether there is this session, and it is one of this address.
    pub(super) fn has(&self, session: &Hex128, peer: IpAddr) -> bool {
        locked(&self.sessions).get(session).is_some_and(|room| room.peer == peer)
    }

    /// Adds a stream to its session, after `admit` has said so to the near end; false when there is no such session
    /// of this address, or the stream is none of its.
    pub(super) fn join(
        &self,
        peer: SocketAddr,
        join: &Join,
        admit: impl FnOnce() -> Option<TcpStream>,
    ) -> bool {
        let mut sessions = locked(&self.sessions);
        let room = sessions.get_mut(&join.session).filter(|room| room.peer == peer.ip());
        let Some(room) = room.filter(|_| join.stream < self.caps.max_streams) else { return false };
        match admit() {
            Some(stream) => {
                // A stream that joins again takes the place of the one before.
                room.streams.insert(join.stream, stream);
                true
            }
            None => false,
        }
    }

    /// Ends all sessions: their threads see their connections close.
    pub(super) fn close(&self) {
        for room in locked(&self.sessions).values() {
            // One that has gone already is as it should be.
            let _ = room.control.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sessions that there are.
    pub fn sessions(&self) -> usize {
        locked(&self.sessions).len()
    }
}

impl<'a> Lease<'a> {
    /// The streams numbered below `count`, if all of them have joined.
    ///
    /// # Errors
    /// No descriptor is left for them.
    pub(super) fn streams(&self, count: u16) -> io::Result<Option<Vec<TcpStream>>> {
        let sessions = locked(&self.sessions.sessions);
        let Some(room) = sessions.get(&self.session) else { return Ok(None) };
        (0..count).map(|n| room.streams.get(&n).map(TcpStream::try_clone)).map(Option::transpose).collect()
    }

    /// Asks for a turn; or says in how many seconds to ask again.
    pub(super) fn turn(&self) -> Result<Turn<'a>, u32> {
        if !self.sessions.parallel {
            locked(&self.sessions.queue).begin(
                self.group,
                Instant::now(),
                self.sessions.caps.max_duration,
            )?;
        }
        Ok(Turn { sessions: self.sessions, group: self.group })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        locked(&self.sessions.sessions).remove(&self.session);
        if self.group == self.session {
            locked(&self.sessions.queue).leave(self.group);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        locked(&self.sessions.queue).end(self.group, Instant::now());
    }
}
