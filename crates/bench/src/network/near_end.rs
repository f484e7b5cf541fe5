//! The near end: opens a session with a far end (its own private one, or a server), joins streams to it, and asks for
//! transfers.
//!
//! Every wait has a deadline. When a private far end fails, the error says how it ended; dropping this ends its
//! process and collects it, whatever state it is in.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::process::Process;
use super::server::Address;
use crate::machine::Root;
use crate::sample::CannotMeasure;
use crate::traffic::account::Ledger;
use crate::traffic::socket::{self, dial};
use crate::traffic::tcp::{Means, Outcome, transfer};
use crate::traffic::{self, Cpus, End, Lost, is_out_of_descriptors, raise_descriptors, route, udp};
use crate::wire::handshake::HandshakeError;
use crate::wire::{
    Channel, Echoed, HANDSHAKE, Hex128, Join, Key, Message, RESULTS, Sockets, Tcp, Udp, Welcome, WireError,
};

/// How long this end waits in all while other clients measure.
const QUEUE: Duration = Duration::from_secs(90);

/// Where a far end is.
#[derive(Clone, Debug)]
pub enum Place {
    /// To be started for this run: `program far-end`, its threads on `cpus`.
    Private {
        /// The program.
        program: PathBuf,
        /// Its CPUs.
        cpus: Cpus,
    },
    /// A server.
    Server {
        /// Its name or address, and port.
        address: Address,
        /// Its key.
        key: Key,
    },
}

/// A session with a far end.
#[derive(Debug)]
pub struct FarEnd {
    channel: Channel,
    address: SocketAddr,
    key: Key,
    welcome: Welcome,
    streams: Vec<TcpStream>,
    process: Option<Process>,
    ledger: Ledger,
}

impl FarEnd {
    /// Opens a session, from the address `from` if given.
    ///
    /// # Errors
    /// The far end cannot be started or reached, refuses the key, or is busy for too long.
    pub fn open(place: &Place, from: Option<IpAddr>) -> Result<Self, CannotMeasure> {
        // Each stream is one.
        raise_descriptors();
        let (mut process, key, addresses) = match place {
            Place::Private { program, cpus } => {
                let key = Key::random().map_err(|e| CannotMeasure::environment(e.to_string()))?;
                let mut process = Process::start(program, &key, cpus)?;
                let address = process.address()?;
                (Some(process), key, vec![address])
            }
            Place::Server { address, key } => (None, key.clone(), address.resolve()?),
        };
        let opened = reach(&addresses, from).and_then(|(address, stream)| {
            let opened = open_session(stream, &key, None);
            opened.map(|(channel, welcome)| (address, channel, welcome)).map_err(|why| {
                let end = process.as_mut().map(Process::end).unwrap_or_default();
                CannotMeasure::far_end(format!(
                    "cannot open a session with the server at {address}{end}: {why}"
                ))
            })
        });
        let (address, channel, welcome) = opened?;
        let interface = route::interface(&Root::live(), address.ip());
        let ledger = Ledger::new(Root::live(), interface);
        Ok(FarEnd { channel, address, key, welcome, streams: Vec::new(), process, ledger })
    }

    /// Another session with the same far end, whose work may run beside this one's: a load, or what is measured
    /// under it.
    ///
    /// # Errors
    /// As [`FarEnd::open`].
    pub fn beside(&self, from: Option<IpAddr>) -> Result<Self, CannotMeasure> {
        let failed = |why: String| {
            CannotMeasure::far_end(format!("cannot open a second session with {}: {why}", self.address))
        };
        let (address, stream) = reach(&[self.address], from)?;
        let (channel, welcome) =
            open_session(stream, &self.key, Some(self.welcome.session)).map_err(failed)?;
        let interface = route::interface(&Root::live(), address.ip());
        let (key, ledger) = (self.key.clone(), Ledger::new(Root::live(), interface));
        Ok(FarEnd { channel, address, key, welcome, streams: Vec::new(), process: None, ledger })
    }

    /// A private far end's process id.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Where the far end listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it allows.
    pub const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The streams that have joined, in the order of their numbers.
    pub fn streams(&self) -> &[TcpStream] {
        &self.streams
    }

    /// Joins `count` streams to the session.
    ///
    /// # Errors
    /// The far end allows fewer, refuses an option, or is gone.
    pub fn join(&mut self, count: u16, sockets: &Sockets, from: Option<IpAddr>) -> Result<(), CannotMeasure> {
        if count > self.welcome.max_streams {
            return Err(CannotMeasure::far_end(format!(
                "--streams must be at most {} on the server at {}: {count} is not; or start the server with a higher --max-streams",
                self.welcome.max_streams, self.address
            )));
        }
        for stream in 0..count {
            match self.joined(stream, sockets, from) {
                Ok(socket) => self.streams.push(socket),
                Err(e) => return Err(self.lost("the opening of a stream", &e)),
            }
        }
        Ok(())
    }

    fn joined(&self, stream: u16, sockets: &Sockets, from: Option<IpAddr>) -> Result<TcpStream, Lost> {
        let socket = socket::made(self.address, from, sockets).map_err(Lost::Here)?;
        let socket = socket::reach(socket, self.address, HANDSHAKE).map_err(WireError::from)?;
        let mut channel = Channel::connect(socket, &self.key)?;
        let join = Join { session: self.welcome.session, stream, sockets: sockets.clone() };
        match channel.ask(&Message::Join(join))? {
            Message::Joined => {}
            Message::Refused(why) => return Err(Lost::Refused(crate::text::shown(&why))),
            _ => return Err(WireError::OutOfTurn.into()),
        }
        let stream = channel.into_stream();
        // The handshake wanted its small messages to leave at once.
        stream.set_nodelay(sockets.nodelay).map_err(Lost::Here)?;
        stream.set_read_timeout(None).map_err(Lost::Here)?;
        Ok(stream)
    }

    /// Asks for work, and waits in the queue while others measure; the far end is ready when this returns.
    ///
    /// # Errors
    /// It refuses, is busy for too long, or is gone.
    pub fn begin(&mut self, request: &Message) -> Result<(), CannotMeasure> {
        self.answer(request).and_then(|answer| match answer {
            Message::Ready => Ok(()),
            _ => Err(self.lost("a request", &WireError::OutOfTurn.into())),
        })
    }

    /// Asks for work, waits in the queue while others measure, and returns the first other answer.
    ///
    /// # Errors
    /// It refuses, is busy for too long, or is gone.
    pub fn answer(&mut self, request: &Message) -> Result<Message, CannotMeasure> {
        let patience = Instant::now() + QUEUE;
        loop {
            match self.channel.ask(request) {
                Ok(Message::Busy { seconds }) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_secs(u64::from(seconds.clamp(1, 5))));
                }
                Ok(Message::Busy { seconds }) => return Err(self.busy(seconds)),
                Ok(Message::Refused(why)) => {
                    let why = crate::text::shown_within(&why, 300);
                    return Err(self.refusal(&why));
                }
                Ok(message) => return Ok(message),
                Err(e) => return Err(self.lost("a request", &e.into())),
            }
        }
    }

    fn busy(&self, seconds: u32) -> CannotMeasure {
        CannotMeasure::far_end(format!(
            "the server at {} was busy with other clients for {} s: try again in {seconds} s, or start it with --parallel",
            self.address,
            QUEUE.as_secs()
        ))
    }

    /// Does one TCP transfer over all streams.
    ///
    /// # Errors
    /// The far end refuses, is busy for too long, or is lost.
    pub fn transfer(&mut self, work: &Tcp, message: &[u8], cpus: &Cpus) -> Result<Outcome, CannotMeasure> {
        self.begin(&Message::Tcp(work.clone()))?;
        let means = Means {
            end: End::Near,
            sockets: &self.streams,
            cpus,
            message,
            most: self.welcome.max_rate as f64,
            longest: Duration::from_nanos(self.welcome.max_nanos),
            ledger: &self.ledger,
        };
        let done = transfer(&mut self.channel, work, &means);
        done.map_err(|e| self.lost("a transfer", &e))
    }

    /// Opens a UDP socket at each end for each stream, connected to each other.
    ///
    /// # Errors
    /// The far end refuses, no datagram reaches it, or it is gone.
    pub fn open_udp(&mut self, streams: u16) -> Result<Vec<UdpSocket>, CannotMeasure> {
        let opened = match self.answer(&Message::UdpOpen { streams })? {
            Message::UdpToken(token) => udp::ports::join(&mut self.channel, &token, streams),
            _ => Err(WireError::OutOfTurn.into()),
        };
        opened.map_err(|e| self.lost("the opening of UDP sockets", &e))
    }

    /// Tells the far end that there were enough round trips, and waits for what it saw.
    ///
    /// # Errors
    /// It is gone or silent.
    pub fn finish_trips(&mut self) -> Result<Echoed, WireError> {
        let deadline = Instant::now() + RESULTS;
        self.channel.send(&Message::Enough)?;
        match self.channel.receive(deadline)? {
            Message::Echoed(echoed) => Ok(*echoed),
            _ => Err(WireError::OutOfTurn),
        }
    }

    /// Does one transfer of datagrams between the ports.
    ///
    /// # Errors
    /// The far end refuses, is busy for too long, or is lost.
    pub fn transfer_udp(
        &mut self,
        work: &Udp,
        sockets: &[UdpSocket],
        filler: &[u8],
        cpus: &Cpus,
    ) -> Result<udp::Outcome, CannotMeasure> {
        self.begin(&Message::Udp(work.clone()))?;
        let means = udp::Means {
            end: End::Near,
            sockets,
            cpus,
            filler,
            most: self.welcome.max_rate as f64,
            longest: Duration::from_nanos(self.welcome.max_nanos),
            ledger: &self.ledger,
        };
        let done = udp::transfer(&mut self.channel, work, &means);
        done.map_err(|e| self.lost("a transfer of datagrams", &e))
    }

    /// Why there is no figure, where the server refuses: one that this process started has the same limits.
    fn refusal(&self, why: &str) -> CannotMeasure {
        match self.process.is_some() {
            true => {
                CannotMeasure::environment(format!("the server that plimsoll started here refused: {why}"))
            }
            false => CannotMeasure::far_end(format!("the server at {} refused: {why}", self.address)),
        }
    }

    /// Why there is no figure, after something failed `during` something.
    pub fn lost(&mut self, during: &str, error: &Lost) -> CannotMeasure {
        let end = self.process.as_mut().map(Process::end).unwrap_or_default();
        let (what, remedy) = match error {
            Lost::Thread(_) | Lost::Here(_) => return CannotMeasure::environment(error.to_string()),
            Lost::Refused(why) => {
                return self.refusal(why);
            }
            Lost::NoDatagram { port } => {
                return CannotMeasure::far_end(format!(
                    "the server at {} answers over TCP, and {error}: a firewall or NAT between drops UDP; open UDP port {port} too, or forward it with the TCP port",
                    self.address
                ));
            }
            _ if self.process.is_some() => {
                ("the server", "run the case again, and see `dmesg` if it was killed")
            }
            _ => ("the server", "see whether it still runs, and its messages"),
        };
        CannotMeasure::far_end(format!(
            "{what} at {} was lost during {during}{end}: {error}; {remedy}",
            self.address
        ))
    }
}

/// Connects to the first address that answers.
fn reach(addresses: &[SocketAddr], from: Option<IpAddr>) -> Result<(SocketAddr, TcpStream), CannotMeasure> {
    let mut tried = Vec::new();
    let family = |a: &&SocketAddr| from.is_none_or(|from| from.is_ipv4() == a.is_ipv4());
    for address in addresses.iter().filter(family) {
        match dial(*address, from, &Sockets::default(), HANDSHAKE) {
            Ok(stream) => return Ok((*address, stream)),
            // That says nothing of the other end.
            Err(e) if is_out_of_descriptors(&e) => {
                return Err(CannotMeasure::environment(traffic::plain(&e, "this process")));
            }
            Err(e) if address.ip().is_loopback() && e.kind() == io::ErrorKind::NetworkUnreachable => {
                return Err(CannotMeasure::environment(format!(
                    "{address} cannot be reached: {e}; the loopback interface is down: ip link set lo up"
                )));
            }
            // Nor does an address that this machine does not have.
            Err(e) if from.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(CannotMeasure::environment(e.to_string()));
            }
            Err(e) => tried.push(format!("{address}: {}", plain(&e))),
        }
    }
    if tried.is_empty() {
        return Err(CannotMeasure::far_end(
            "the server has no address of the same IP version as --bind; use a --bind address of the server's IP version",
        ));
    }
    Err(CannotMeasure::far_end(format!(
        "cannot connect to the server ({}): check that `plimsoll serve` runs there and that its port is open",
        tried.join("; ")
    )))
}

fn open_session(stream: TcpStream, key: &Key, beside: Option<Hex128>) -> Result<(Channel, Welcome), String> {
    let refused = |e: WireError| {
        match e {
        WireError::Handshake(HandshakeError::Refused) if *key == Key::open() => {
            "it requires a key, or it is not a plimsoll server: give the key that plimsoll serve prints with --key FILE or PLIMSOLL_KEY"
                .to_owned()
        }
        WireError::Handshake(HandshakeError::Refused) => {
            "the key was refused, or it is not a plimsoll server: give the server's key with --key FILE or PLIMSOLL_KEY"
                .to_owned()
        }
        WireError::Silent => "it did not answer: it is not a plimsoll server, or is overloaded".to_owned(),
        other => other.to_string(),
    }
    };
    let mut channel = Channel::connect(stream, key).map_err(refused)?;
    match channel.ask(&Message::Open { beside }).map_err(|e| e.to_string())? {
        Message::Welcome(welcome) => Ok((channel, welcome)),
        Message::Busy { seconds } => {
            Err(format!("it has as many sessions as it allows (--max-sessions); try again in {seconds} s"))
        }
        Message::Refused(why) => Err(crate::text::shown_within(&why, 300)),
        _ => Err(WireError::OutOfTurn.to_string()),
    }
}

/// An error in words for people: what std says of timeouts is about system calls.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => error.to_string(),
    }
}
