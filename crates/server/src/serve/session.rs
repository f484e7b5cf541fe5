//! Session of one client: its requests, one after another, each checked against the limits.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use plimsoll_system::random::unique_number;
use plimsoll_units::text::{format_count, shown_within};

use super::Caps;
use super::sessions::{SessionGuard, Sessions};
use crate::traffic::account::CounterSource;
use crate::traffic::carrier::Carrier;
use crate::traffic::tcp::transfer;
use crate::traffic::{LostTransfer, PinnedCpus, TransferEnd, TransferMeans};
use crate::traffic::{describe_io_error, nanos, random_bytes, route, shaper, trips, udp};
use crate::wire::{
    Channel, Message, OrderedAmount, TcpOrder, Trip, TripsOrder, UdpOrder, Welcome, WireError,
};

/// Longest silence of the client between two requests: other tools may run on its machine.
const IDLE: Duration = Duration::from_secs(600);

const SILENT: &str = "it heard nothing from this machine for too long: the machine is overloaded, or the network between them is broken";

pub(super) struct OpenSession<'a> {
    pub(super) channel: Channel,
    pub(super) client: SocketAddr,
    pub(super) sessions: &'a Sessions,
    pub(super) lease: SessionGuard<'a>,
    pub(super) udp: Vec<UdpSocket>,
}

enum Unserved {
    Refused(String),
    /// Another client measures: seconds until the next try.
    Busy(u32),
    Lost(LostTransfer),
}

impl<E: Into<LostTransfer>> From<E> for Unserved {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

impl OpenSession<'_> {
    /// Serves requests until the session ends. Returns the number of requests served, and why the
    /// session ended; `None` if the client closed the connection.
    pub(super) fn serve(mut self) -> (u64, Option<String>) {
        let mut transfers = 0;
        let welcomed = self.welcome().map_err(LostTransfer::from);
        let served = welcomed.and_then(|()| self.serve_requests(&mut transfers));
        (transfers, served.err().map(|why| shown_within(&why.to_string(), 300)))
    }

    fn welcome(&mut self) -> Result<(), WireError> {
        let caps = &self.sessions.settings.caps;
        let interface = route::outgoing_interface(self.client);
        let interface = interface.as_deref();
        let welcome = Welcome {
            session: self.lease.session,
            server: self.sessions.server,
            max_streams: caps.max_streams,
            max_nanos: nanos(caps.max_duration),
            max_rate: caps.max_rate as u64,
            shaping: interface.map(shaper::read_shaping).unwrap_or_default(),
            carrier: interface.and_then(Carrier::of_interface),
        };
        self.channel.send(&Message::Welcome(welcome))
    }

    fn serve_requests(&mut self, transfers: &mut u64) -> Result<(), LostTransfer> {
        let ledger = CounterSource::on_route(self.client);
        loop {
            let request = match self.channel.receive_request(Instant::now() + IDLE) {
                // Sent when the transfer had just ended here, but not yet at the client.
                Ok(Message::Alive) => continue,
                Ok(request) => request,
                Err(WireError::Closed) => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            let served = match &request {
                Message::Tcp(work) => self.tcp(work, &ledger),
                Message::UdpOpen { streams } => self.open_udp(*streams),
                Message::Udp(work) => self.udp(work, &ledger),
                Message::Trips(work) => self.trips(work, &ledger),
                _ => Err(WireError::OutOfTurn.into()),
            };
            match served {
                Ok(()) => *transfers += 1,
                Err(Unserved::Refused(why)) => self.channel.send(&Message::Refused(why))?,
                Err(Unserved::Busy(seconds)) => self.channel.send(&Message::Busy { seconds })?,
                Err(Unserved::Lost(lost)) => {
                    let reported = match &lost {
                        LostTransfer::Here(e) | LostTransfer::Thread(e) => Some(Message::Refused(lacks(e))),
                        LostTransfer::Silent => Some(Message::Refused(SILENT.to_owned())),
                        LostTransfer::Unacknowledged { segment, sender: TransferEnd::Server } => {
                            Some(Message::Unacknowledged { segment: *segment })
                        }
                        _ => None,
                    };
                    if let Some(reported) = reported {
                        let _ = self.channel.send(&reported);
                    }
                    return Err(lost);
                }
            }
        }
    }

    fn tcp(&mut self, work: &TcpOrder, ledger: &CounterSource) -> Result<(), Unserved> {
        self.check_time(work.time())?;
        if let OrderedAmount::Messages(n) = work.amount
            && n < u64::from(work.streams)
        {
            let (messages, streams) = (format_count(n, "message"), format_count(work.streams, "stream"));
            return Err(Unserved::Refused(format!("{messages} cannot be divided among {streams}")));
        }
        let sockets = self.streams(work.streams)?;
        let _turn = self.lease.take_turn().map_err(Unserved::Busy)?;
        let cpus = self.sessions.settings.cpus.starting_at(usize::from(work.place));
        let message = random_bytes(work.message as usize, unique_number());
        let means = means(self.sessions, &sockets, &cpus, &message, ledger);
        transfer(&mut self.channel, work, &means)?;
        Ok(())
    }

    /// Opens a UDP socket per stream to a client that proves its address; answers the request.
    fn open_udp(&mut self, streams: u16) -> Result<(), Unserved> {
        self.check_streams(streams)?;
        self.udp.clear();
        let admitted = udp::ports::admit(&mut self.channel, &self.sessions.expected, streams)?;
        let answer = if admitted.is_some() { Message::Joined } else { Message::NoDatagram };
        self.udp = admitted.unwrap_or_default();
        Ok(self.channel.send(&answer)?)
    }

    fn udp(&mut self, work: &UdpOrder, ledger: &CounterSource) -> Result<(), Unserved> {
        self.check_time(work.time())?;
        self.check_ports(work.streams)?;
        let _turn = self.lease.take_turn().map_err(Unserved::Busy)?;
        let content = random_bytes(work.datagram as usize, unique_number());
        let cpus = &self.sessions.settings.cpus;
        udp::transfer(&mut self.channel, work, &means(self.sessions, &self.udp, cpus, &content, ledger))?;
        Ok(())
    }

    fn trips(&mut self, work: &TripsOrder, ledger: &CounterSource) -> Result<(), Unserved> {
        self.check_time(Some(Duration::from_nanos(work.longest)))?;
        let mut streams = Vec::new();
        match work.trip {
            Trip::Udp => self.check_ports(work.streams)?,
            Trip::Tcp => streams = self.streams(work.streams)?,
            Trip::Connect => self.check_streams(work.streams)?,
        }
        let _turn = self.lease.take_turn().map_err(Unserved::Busy)?;
        let cpus = self.sessions.settings.cpus.starting_at(usize::from(work.place));
        Ok(trips::serve(&mut self.channel, work, (&self.udp, &streams), &cpus, ledger)?)
    }

    fn check_ports(&self, streams: u16) -> Result<(), Unserved> {
        refuse_unless(self.udp.len() == usize::from(streams), || {
            format!(
                "each of {} needs a UDP socket, and {} are open on the server; use the same plimsoll version on both machines",
                format_count(streams, "stream"),
                self.udp.len()
            )
        })
    }

    fn check_streams(&self, streams: u16) -> Result<(), Unserved> {
        let most = self.sessions.settings.caps.max_streams;
        refuse_unless(streams <= most, || {
            format!(
                "the server allows {}, not {streams}; use fewer --streams, or start it with a higher --max-streams",
                format_count(most, "stream")
            )
        })
    }

    fn check_time(&self, time: Option<Duration>) -> Result<(), Unserved> {
        let (time, most) = (time.unwrap_or_default(), self.sessions.settings.caps.max_duration);
        refuse_unless(time <= most, || {
            format!(
                "the server allows transfers of {1} s, not {0} s; use a shorter --sample-time, or start it with a longer --max-duration",
                time.as_secs_f64(),
                most.as_secs_f64()
            )
        })
    }

    fn streams(&self, count: u16) -> Result<Vec<TcpStream>, Unserved> {
        let why = || format!("not all streams of this session have joined: it needs {count}");
        let streams = self.lease.streams(count).map_err(|e| Unserved::Refused(lacks(&e)))?;
        streams.ok_or_else(|| Unserved::Refused(why()))
    }
}

fn means<'a, S>(
    sessions: &Sessions,
    sockets: &'a [S],
    cpus: &'a PinnedCpus,
    content: &'a [u8],
    ledger: &'a CounterSource,
) -> TransferMeans<'a, S> {
    let Caps { max_rate: most, max_duration: longest, .. } = sessions.settings.caps;
    TransferMeans { end: TransferEnd::Server, sockets, cpus, content, most, longest, ledger }
}

fn refuse_unless(holds: bool, why: impl FnOnce() -> String) -> Result<(), Unserved> {
    if holds { Ok(()) } else { Err(Unserved::Refused(why())) }
}

pub(super) fn lacks(error: &io::Error) -> String {
    format!("it is out of resources: {}", describe_io_error(error, "the server"))
}
