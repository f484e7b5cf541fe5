//! All sessions of a server, with their joined streams and the queue.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Instant;

use super::Settings;
use super::queue::SessionQueue;
use crate::traffic::locked;
use crate::traffic::udp::ports::Expected;
use crate::wire::{Hex128, Join};

#[derive(Debug)]
struct SessionState {
    client: IpAddr,
    /// Group of sessions that share a turn in the queue.
    group: Hex128,
    streams: BTreeMap<u16, TcpStream>,
    control: TcpStream,
}

/// All sessions of a server.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) settings: Settings,
    pub(super) server: Hex128,
    sessions: Mutex<HashMap<Hex128, SessionState>>,
    pub(super) expected: Expected,
    queue: Mutex<SessionQueue>,
}

/// Guard of a session; dropping it removes the session, even if its thread panics.
#[derive(Debug)]
pub(super) struct SessionGuard<'a> {
    sessions: &'a Sessions,
    pub(super) session: Hex128,
    group: Hex128,
}

#[derive(Debug)]
pub(super) struct MeasuringTurn<'a> {
    sessions: &'a Sessions,
    group: Hex128,
}

impl Sessions {
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        Ok(Sessions {
            settings: settings.clone(),
            server: Hex128::random()?,
            sessions: Mutex::default(),
            expected: Expected::default(),
            queue: Mutex::default(),
        })
    }

    /// Opens a session for `client` with the control connection `control`; `None` if the server is
    /// full. The session measures in the same turns as `other_session` of the same IP address.
    pub(super) fn open(
        &self,
        client: SocketAddr,
        other_session: Option<Hex128>,
        control: TcpStream,
    ) -> Option<SessionGuard<'_>> {
        let mut sessions = locked(&self.sessions);
        if sessions.len() >= self.settings.caps.max_sessions {
            return None;
        }
        // A session needs an id that cannot be guessed.
        let session = Hex128::random().ok()?;
        let client = client.ip();
        let other = other_session.and_then(|other| sessions.get(&other)).filter(|room| room.client == client);
        let group = other.map_or(session, |room| room.group);
        sessions.insert(session, SessionState { client, group, streams: BTreeMap::new(), control });
        Some(SessionGuard { sessions: self, session, group })
    }

    pub(super) fn has(&self, session: &Hex128, client: IpAddr) -> bool {
        locked(&self.sessions).get(session).is_some_and(|room| room.client == client)
    }

    /// Adds the stream that `admit` returns to the session in `join`. False if `admit` returns
    /// `None`, or if session, client address or stream number are wrong.
    pub(super) fn join(
        &self,
        client: IpAddr,
        join: &Join,
        admit: impl FnOnce() -> Option<TcpStream>,
    ) -> bool {
        let mut sessions = locked(&self.sessions);
        let room = sessions.get_mut(&join.session).filter(|room| room.client == client);
        let Some(room) = room.filter(|_| join.stream < self.settings.caps.max_streams) else { return false };
        admit().map(|stream| room.streams.insert(join.stream, stream)).is_some()
    }

    pub(super) fn close(&self) {
        for room in locked(&self.sessions).values() {
            let _ = room.control.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl<'a> SessionGuard<'a> {
    /// Returns handles of the streams 0 to `count` − 1; `None` unless each of them has joined.
    pub(super) fn streams(&self, count: u16) -> io::Result<Option<Vec<TcpStream>>> {
        let sessions = locked(&self.sessions.sessions);
        let Some(room) = sessions.get(&self.session) else { return Ok(None) };
        (0..count).map(|n| room.streams.get(&n).map(TcpStream::try_clone)).map(Option::transpose).collect()
    }

    /// Returns permission to measure until it is dropped; `Err` is the seconds to wait for a retry.
    pub(super) fn take_turn(&self) -> Result<MeasuringTurn<'a>, u32> {
        let Settings { parallel, caps, .. } = &self.sessions.settings;
        if !parallel {
            locked(&self.sessions.queue).begin(self.group, Instant::now(), caps.max_duration)?;
        }
        Ok(MeasuringTurn { sessions: self.sessions, group: self.group })
    }
}

impl Drop for SessionGuard<'_> {
    fn drop(&mut self) {
        locked(&self.sessions.sessions).remove(&self.session);
        if self.group == self.session {
            locked(&self.sessions.queue).leave(self.group);
        }
    }
}

impl Drop for MeasuringTurn<'_> {
    fn drop(&mut self) {
        locked(&self.sessions.queue).end(self.group, Instant::now());
    }
}
