//! One client's session: its requests, one after another, each checked against the caps.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::rooms::{Lease, Rooms};
use crate::machine::Root;
use crate::traffic::account::Ledger;
use crate::traffic::tcp::{Means, transfer};
use crate::traffic::{End, Lost, echo, nanos, route};
use crate::wire::{Amount, Channel, Echo, Message, Tcp, Welcome, WireError};

/// The client may be silent this long between two requests: other tools may have its machine.
const IDLE: Duration = Duration::from_secs(600);

/// What became of a session.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Transfers that went well.
    pub(super) transfers: u64,
    /// Why it ended, unless the client closed it.
    pub(super) why: Option<String>,
}

/// A session that has just been opened.
pub(super) struct Session<'a> {
    pub(super) channel: Channel,
    pub(super) peer: SocketAddr,
    pub(super) rooms: &'a Rooms,
    pub(super) lease: Lease<'a>,
}

/// Why a request is not carried out.
enum Refusal {
    /// In words; the session goes on.
    No(String),
    /// Another client measures.
    Busy(u32),
}

impl Session<'_> {
    /// Serves until the client closes the connection or breaks the rules.
    pub(super) fn serve(mut self) -> Ended {
        let mut ended = Ended::default();
        let why = match self.welcome() {
            Ok(()) => self.requests(&mut ended.transfers),
            Err(e) => e.into(),
        };
        ended.why = match why {
            Lost::Wire(WireError::Closed) => None,
            other => Some(crate::text::shown_within(&other.to_string(), 300)),
        };
        ended
    }

    fn welcome(&mut self) -> Result<(), WireError> {
        let caps = self.rooms.caps();
        let welcome = Welcome {
            session: self.lease.session,
            max_streams: caps.max_streams,
            max_nanos: nanos(caps.max_duration),
            max_rate: caps.max_rate as u64,
        };
        self.channel.send(&Message::Welcome(welcome))
    }

    fn requests(&mut self, transfers: &mut u64) -> Lost {
        let interface = route::interface(&Root::live(), self.peer.ip());
        let ledger = Ledger::new(Root::live(), interface);
        loop {
            let request = match self.channel.receive_request(Instant::now() + IDLE) {
                // Said when the transfer was just over here and not yet there.
                Ok(Message::Alive) => continue,
                Ok(request) => request,
                Err(e) => return e.into(),
            };
            match self.answer(&request, &ledger) {
                Ok(()) => *transfers += 1,
                Err(Ok(refusal)) => {
                    let said = match refusal {
                        Refusal::No(why) => Message::Refused(why),
                        Refusal::Busy(seconds) => Message::Busy { seconds },
                    };
                    if let Err(e) = self.channel.send(&said) {
                        return e.into();
                    }
                }
                Err(Err(lost)) => return lost,
            }
        }
    }

    /// Carries one request out, or says why not; `Err(Err)` ends the session.
    fn answer(&mut self, request: &Message, ledger: &Ledger) -> Result<(), Result<Refusal, Lost>> {
        match request {
            Message::Tcp(work) => self.tcp(work, ledger),
            Message::Echo(work) => self.echo(work, ledger),
            _ => Err(Err(WireError::OutOfTurn.into())),
        }
    }

    fn tcp(&mut self, work: &Tcp, ledger: &Ledger) -> Result<(), Result<Refusal, Lost>> {
        let no = |why| Err(Ok(Refusal::No(why)));
        if let Some(why) = work.time().and_then(|time| self.too_long(time)) {
            return no(why);
        }
        if let Amount::Messages(n) = work.amount
            && n < u64::from(work.streams)
        {
            return no(format!("{n} messages cannot be divided among {} streams", work.streams));
        }
        let sockets = self.streams(work.streams).map_err(Ok)?;
        let _turn = self.lease.turn().map_err(|seconds| Ok(Refusal::Busy(seconds)))?;
        let message = random_bytes(work.message);
        let caps = self.rooms.caps();
        let means = Means {
            end: End::Far,
            sockets: &sockets,
            cpus: self.rooms.cpus(),
            message: &message,
            most: caps.max_rate,
            longest: caps.max_duration,
            ledger,
        };
        transfer(&mut self.channel, work, &means).map(|_| ()).map_err(Err)
    }

    fn echo(&mut self, work: &Echo, ledger: &Ledger) -> Result<(), Result<Refusal, Lost>> {
        if let Some(why) = self.too_long(Duration::from_nanos(work.longest)) {
            return Err(Ok(Refusal::No(why)));
        }
        let sockets = self.streams(work.streams).map_err(Ok)?;
        let _turn = self.lease.turn().map_err(|seconds| Ok(Refusal::Busy(seconds)))?;
        echo::serve(&mut self.channel, work, &sockets, self.rooms.cpus(), ledger).map_err(Err)
    }

    fn too_long(&self, time: Duration) -> Option<String> {
        let most = self.rooms.caps().max_duration;
        (time > most).then(|| {
            format!(
                "{} s are more than the {} s that it allows a transfer; take a shorter --sample-time, or start it with a longer --max-duration",
                time.as_secs_f64(),
                most.as_secs_f64()
            )
        })
    }

    fn streams(&self, count: u16) -> Result<Vec<TcpStream>, Refusal> {
        self.lease.streams(count).ok_or_else(|| {
            Refusal::No(format!("{count} streams were asked for, and not all of them have joined"))
        })
    }
}

/// Bytes that nothing on the way can make smaller.
fn random_bytes(count: u32) -> Vec<u8> {
    let mut bytes = vec![0; count as usize];
    ChaCha8Rng::seed_from_u64(rand::random()).fill_bytes(&mut bytes);
    bytes
}
