//! Client: opens a session with a private or remote server, joins streams, requests transfers.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::lost_link::{LostLink, lost_links};
use crate::path::fault::{self, PathFault};
use crate::process::ServerProcess;
use crate::server::Address;
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::account::CounterSource;
use plimsoll_server::traffic::link_watch::LinkLoss;
use plimsoll_server::traffic::socket::{self, dial};
use plimsoll_server::traffic::tcp::{self, TcpOutcome};
use plimsoll_server::traffic::{self, is_out_of_descriptors, raise_descriptors, udp};
use plimsoll_server::traffic::{LostTransfer, PinnedCpus, TransferEnd, TransferMeans, TransferOutcome};
use plimsoll_server::wire::handshake::HandshakeError;
use plimsoll_server::wire::{Channel, Echoed, EndReport, Hex128, Join, RESULTS, WireError};
use plimsoll_server::wire::{HANDSHAKE, Message, SharedKey, Sockets, TcpOrder, UdpOrder, Welcome};
use plimsoll_units::text::{shown, shown_within};

/// Longest total wait while the server works for other clients.
const QUEUE: Duration = Duration::from_secs(90);

/// Segments that fit every path (RFC 1122 §3.3.3: packets of 576 bytes), if larger ones are lost.
const CONTROL: Sockets =
    Sockets { nodelay: true, window: None, congestion: None, mss: Some(536), dscp: None };
const HANDSHAKES: usize = 4;

/// Location of a server.
#[derive(Clone, Debug)]
pub enum ServerLocation {
    /// A private server process, `program private-server`, with its threads on `cpus`.
    Private {
        /// Path of the program.
        program: PathBuf,
        /// CPUs of its threads.
        cpus: PinnedCpus,
    },
    /// A running server.
    Server {
        /// Host and port.
        address: Address,
        /// Key of the server.
        key: SharedKey,
    },
}

/// A session with a server.
#[derive(Debug)]
pub struct ServerSession {
    channel: Channel,
    pub(super) address: SocketAddr,
    key: SharedKey,
    /// The server's answer to the opening of the session, with its limits.
    pub(super) welcome: Welcome,
    /// The joined streams, in order of their numbers.
    pub(super) streams: Vec<TcpStream>,
    process: Option<ServerProcess>,
    pub(super) from: Option<IpAddr>,
    ledger: CounterSource,
    server_links: Vec<LinkLoss>,
}

impl ServerSession {
    /// Opens a session with the server `place`, from the address `from` if given; a private server
    /// is started. Fails if the server does not start, is not reached, refuses the key, or is busy.
    pub fn open(place: &ServerLocation, from: Option<IpAddr>) -> Result<Self, CannotMeasure> {
        // Each stream needs a descriptor.
        raise_descriptors();
        let (process, key, addresses) = match place {
            ServerLocation::Private { program, cpus } => {
                let key = SharedKey::random().map_err(|e| CannotMeasure::environment(e.to_string()))?;
                let mut process = ServerProcess::start(program, &key, cpus)?;
                let address = process.address()?;
                (Some(process), key, vec![address])
            }
            ServerLocation::Server { address, key } => (None, key.clone(), address.resolve(from)?),
        };
        Self::connected(&addresses, from, key, process, None)
    }

    /// Opens a session with the first of `addresses` that answers, beside the session `other`.
    fn connected(
        addresses: &[SocketAddr],
        from: Option<IpAddr>,
        key: SharedKey,
        mut process: Option<ServerProcess>,
        other: Option<Hex128>,
    ) -> Result<Self, CannotMeasure> {
        let (address, stream) = connect_to_first(addresses, from)?;
        let (channel, welcome) = open_session(stream, &key, other).map_err(|why| {
            let what = other.map_or("a session with the server at", |_| "a second session with");
            let end = process.as_mut().map(ServerProcess::end).unwrap_or_default();
            CannotMeasure::server_failed(format!("cannot open {what} {address}{end}: {why}"))
        })?;
        let ledger = CounterSource::on_route(address);
        let (streams, server_links) = (Vec::new(), Vec::new());
        Ok(ServerSession { channel, address, key, welcome, streams, process, from, ledger, server_links })
    }

    /// Opens another session with the same server, to use both. Fails if another server answers.
    pub fn second_session(&self) -> Result<Self, CannotMeasure> {
        let first = Some(self.welcome.session);
        let second = Self::connected(&[self.address], self.from, self.key.clone(), None, first)?;
        match second.welcome.server == self.welcome.server {
            true => Ok(second),
            false => Err(PathFault::SeveralServers.of_server(self.address)),
        }
    }

    /// Ends this session's failed connection and opens a new session with the server.
    pub(super) fn reopen(&self) -> Result<Self, CannotMeasure> {
        // The server ends the session, and its turn in the queue, when this connection closes.
        let _ = self.channel.stream().shutdown(std::net::Shutdown::Both);
        self.second_session()
    }

    /// Starts the transfer of [`ServerSession::begin`]. Fails if the connection is lost.
    pub(super) fn go(&mut self) -> Result<(), CannotMeasure> {
        self.channel.send(&Message::Go).map_err(|e| self.lost("a request", &e.into()))
    }

    /// Returns the process ID of a private server; `None` for a remote one.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ServerProcess::pid)
    }

    /// Connects `count` further streams with the options `sockets`. Fails if the server allows
    /// fewer or the kernel refuses an option.
    pub fn join(&mut self, count: u16, sockets: &Sockets) -> Result<(), CannotMeasure> {
        if self.streams.len() + usize::from(count) > usize::from(self.welcome.max_streams) {
            return Err(CannotMeasure::server_failed(format!(
                "--streams must be at most {} on the server at {}: {count} is not; or start the server with a higher --max-streams",
                self.welcome.max_streams, self.address
            )));
        }
        let first = self.streams.len() as u16;
        for stream in first..first + count {
            let socket =
                self.joined(stream, sockets).map_err(|e| self.lost("the opening of a stream", &e))?;
            self.streams.push(socket);
        }
        Ok(())
    }

    fn joined(&self, stream: u16, sockets: &Sockets) -> Result<TcpStream, LostTransfer> {
        let socket = socket::create_socket(self.address, self.from, sockets).map_err(LostTransfer::Here)?;
        let socket = socket::connect_socket(socket, self.address, HANDSHAKE)?;
        let mut channel = Channel::connect(socket, &self.key).map_err(|e| match e {
            // A refusal, although the same key opened the session.
            WireError::Handshake(HandshakeError::Refused) if self.meets_several() => {
                LostTransfer::OtherServer
            }
            e => e.into(),
        })?;
        let join = Join { session: self.welcome.session, stream, sockets: sockets.clone() };
        match channel.ask(&Message::Join(join))? {
            Message::Joined => {}
            Message::NoSession { server } if server != self.welcome.server => {
                return Err(LostTransfer::OtherServer);
            }
            Message::NoSession { .. } => return Err(LostTransfer::NoSession),
            Message::Refused(why) => return Err(LostTransfer::Refused(shown(&why))),
            _ => return Err(WireError::OutOfTurn.into()),
        }
        let stream = channel.into_stream();
        // The handshake disabled Nagle's algorithm for its small messages.
        stream.set_nodelay(sockets.nodelay).map_err(LostTransfer::Here)?;
        stream.set_read_timeout(None).map_err(LostTransfer::Here)?;
        Ok(stream)
    }

    /// Requests a transfer. Returns when the server is ready; waits while it serves other clients.
    pub fn begin(&mut self, request: &Message) -> Result<(), CannotMeasure> {
        self.answer(request).and_then(|answer| match answer {
            Message::Ready => Ok(()),
            _ => Err(self.lost("a request", &WireError::OutOfTurn.into())),
        })
    }

    /// Sends a request and returns the server's answer; waits while other clients measure. Fails if
    /// the server refuses or stays busy.
    pub fn answer(&mut self, request: &Message) -> Result<Message, CannotMeasure> {
        let patience = Instant::now() + QUEUE;
        loop {
            match self.channel.ask(request) {
                Ok(Message::Busy { seconds }) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_secs(u64::from(seconds.clamp(1, 5))));
                }
                Ok(Message::Busy { seconds }) => {
                    return Err(CannotMeasure::server_failed(format!(
                        "the server at {} was busy with other clients for {} s: try again in {seconds} s, or start it with --parallel",
                        self.address,
                        QUEUE.as_secs()
                    )));
                }
                Ok(Message::Refused(why)) => return Err(self.refusal(&shown_within(&why, 300))),
                Ok(message) => return Ok(message),
                Err(e) => return Err(self.lost("a request", &e.into())),
            }
        }
    }

    /// Performs the TCP transfer `work` over all streams, with local threads on `cpus`. `message`
    /// is the content of each message that this end sends. Returns both ends' reports.
    pub fn transfer(
        &mut self,
        work: &TcpOrder,
        message: &[u8],
        cpus: &PinnedCpus,
    ) -> Result<TcpOutcome, CannotMeasure> {
        self.begin(&Message::Tcp(work.clone()))?;
        let means = means(&self.welcome, &self.streams, cpus, message, &self.ledger);
        let done = tcp::transfer(&mut self.channel, work, &means);
        self.finished("a transfer", done)
    }

    /// Opens `streams` UDP sockets at each end, connected in pairs. Returns those of this end.
    pub fn open_udp(&mut self, streams: u16) -> Result<Vec<UdpSocket>, CannotMeasure> {
        let opened = match self.answer(&Message::UdpOpen { streams })? {
            Message::UdpToken(token) => udp::ports::join(&mut self.channel, &token, streams),
            _ => Err(WireError::OutOfTurn.into()),
        };
        opened.map_err(|e| self.lost("the opening of UDP sockets", &e))
    }

    /// Ends the echoes of round trips. Returns the server's report on them.
    pub fn finish_trips(&mut self) -> Result<Echoed, WireError> {
        let deadline = Instant::now() + RESULTS;
        self.channel.send(&Message::Enough)?;
        match self.channel.receive(deadline)? {
            Message::Echoed(echoed) => {
                self.server_links.clone_from(&echoed.account.lost_links);
                Ok(*echoed)
            }
            _ => Err(WireError::OutOfTurn),
        }
    }

    /// Performs the transfer of datagrams `work` over `sockets`, with local threads on `cpus`.
    /// `filler` is their content after the header. Returns both ends' reports.
    pub fn transfer_udp(
        &mut self,
        work: &UdpOrder,
        sockets: &[UdpSocket],
        filler: &[u8],
        cpus: &PinnedCpus,
    ) -> Result<udp::UdpOutcome, CannotMeasure> {
        self.begin(&Message::Udp(work.clone()))?;
        let means = means(&self.welcome, sockets, cpus, filler, &self.ledger);
        let done = udp::transfer(&mut self.channel, work, &means);
        self.finished("a transfer of datagrams", done)
    }

    fn finished<S, R>(
        &mut self,
        during: &str,
        done: Result<TransferOutcome<EndReport<S, R>>, LostTransfer>,
    ) -> Result<TransferOutcome<EndReport<S, R>>, CannotMeasure> {
        let done = done.map_err(|e| self.lost(during, &e))?;
        if let Some(there) = &done.there {
            self.server_links.clone_from(&there.account.lost_links);
        }
        Ok(done)
    }

    pub(super) fn lost_links(&self) -> Vec<LostLink> {
        lost_links(self.ledger.lost_links(), &self.server_links)
    }

    /// Returns the error for the server's refusal `why`, a fault of this machine if it is private.
    fn refusal(&self, why: &str) -> CannotMeasure {
        if self.process.is_some() {
            let why = format!("the server that plimsoll started here refused: {why}");
            return CannotMeasure::environment(why);
        }
        CannotMeasure::server_failed(format!("the server at {} refused: {why}", self.address))
    }

    /// Returns the error for a lost transfer, with the fault of the path if probes show one.
    /// `during` names the step, such as `a transfer`.
    pub fn lost(&mut self, during: &str, error: &LostTransfer) -> CannotMeasure {
        if let Some(fault) = self.path_fault(error) {
            return fault.of_server(self.address);
        }
        let end = self.process.as_mut().map(ServerProcess::end).unwrap_or_default();
        let remedy = match error {
            LostTransfer::Thread(_) | LostTransfer::Here(_) => {
                return CannotMeasure::environment(error.to_string());
            }
            LostTransfer::Refused(why) => return self.refusal(why),
            LostTransfer::Dropped => return dropped_here(self.address),
            _ if self.process.is_some() => "run the case again, and see `dmesg` if it was killed",
            _ => "see whether it still runs, and its messages",
        };
        CannotMeasure::server_failed(format!(
            "the server at {} was lost during {during}{end}: {error}; {remedy}",
            self.address
        ))
    }

    fn path_fault(&mut self, error: &LostTransfer) -> Option<PathFault> {
        match error {
            _ if self.process.is_some() => None,
            LostTransfer::Thread(_) | LostTransfer::Here(_) => None,
            LostTransfer::Refused(_) | LostTransfer::Dropped | LostTransfer::Impossible(_) => None,
            LostTransfer::NoDatagram { port } => Some(PathFault::NoDatagram { port: *port }),
            LostTransfer::OtherServer => Some(PathFault::SeveralServers),
            LostTransfer::NoSession => Some(PathFault::SeveralAddresses),
            _ if self.lost_link().is_some() => self.lost_link(),
            LostTransfer::Unacknowledged { segment, sender } => {
                let (sender, segment) = (*sender, *segment);
                let unknown = PathFault::BlackHole { sender, segment, passes: None };
                let probed = fault::probe_segments(self, sender, segment);
                Some(probed.map_or(unknown, |hole| hole.unwrap_or(PathFault::Interrupted)))
            }
            LostTransfer::Silent | LostTransfer::Wire(WireError::Silent) => self.probe_after_loss(true),
            LostTransfer::Wire(_) | LostTransfer::Stream(_) => self.probe_after_loss(false),
            LostTransfer::TooLong(_) => None,
        }
    }

    /// Returns the first link of this machine that was lost since the session started, if any.
    pub(super) fn lost_link(&self) -> Option<PathFault> {
        lost_links(self.ledger.lost_links(), &[]).into_iter().next().map(PathFault::LinkLost)
    }

    /// Opens a new session to find the fault: server restarted, link lost, or, if `is_silent`
    /// (nothing arrived any more), an interruption that has ended. `None` if no fault is found.
    fn probe_after_loss(&self, is_silent: bool) -> Option<PathFault> {
        let (_, stream) = connect_to_first(&[self.address], self.from).ok()?;
        let (_, welcome) = open_session(stream, &self.key, None).ok()?;
        if welcome.server != self.welcome.server {
            return Some(PathFault::Restarted);
        }
        let carriers = self.welcome.carrier.zip(welcome.carrier);
        let changes = carriers.map_or(0, |(before, now)| now.changes.wrapping_sub(before.changes));
        let loss = LinkLoss { times: changes.div_ceil(2), is_up: true, ..LinkLoss::default() };
        match changes {
            0 => is_silent.then_some(PathFault::Interrupted),
            _ => Some(PathFault::LinkLost(LostLink { is_servers: true, loss })),
        }
    }

    /// Returns whether several servers answer: test connections disagree whether the key is right.
    fn meets_several(&self) -> bool {
        let knows = |_| {
            let (_, stream) = connect_to_first(&[self.address], self.from).ok()?;
            match Channel::connect(stream, &self.key) {
                Ok(_) => Some(true),
                Err(WireError::Handshake(HandshakeError::Refused)) => Some(false),
                Err(_) => None,
            }
        };
        let seen: Vec<bool> = (0..HANDSHAKES).filter_map(knows).collect();
        seen.contains(&true) && seen.contains(&false)
    }
}

pub(super) fn dropped_here(server: SocketAddr) -> CannotMeasure {
    CannotMeasure::environment(format!(
        "the firewall of this machine drops packets that plimsoll sends to {server} (EPERM): look at its rules for outgoing packets ('nft list ruleset', 'iptables -L OUTPUT -v'), or use another protocol"
    ))
}

fn means<'a, S>(
    server: &Welcome,
    sockets: &'a [S],
    cpus: &'a PinnedCpus,
    content: &'a [u8],
    ledger: &'a CounterSource,
) -> TransferMeans<'a, S> {
    let (most, longest) = (server.max_rate as f64, Duration::from_nanos(server.max_nanos));
    TransferMeans { end: TransferEnd::Client, sockets, cpus, content, most, longest, ledger }
}

/// Connects to the first of `addresses` that answers, from the address `from` if given.
fn connect_to_first(
    addresses: &[SocketAddr],
    from: Option<IpAddr>,
) -> Result<(SocketAddr, TcpStream), CannotMeasure> {
    let mut tried = Vec::new();
    for address in addresses {
        match dial(*address, from, &CONTROL, HANDSHAKE) {
            Ok(stream) => return Ok((*address, stream)),
            Err(e) if is_out_of_descriptors(&e) => {
                return Err(CannotMeasure::environment(traffic::describe_io_error(&e, "this process")));
            }
            Err(e) if address.ip().is_loopback() && e.kind() == io::ErrorKind::NetworkUnreachable => {
                return Err(CannotMeasure::environment(format!(
                    "{address} cannot be reached: {e}; the loopback interface is down: ip link set lo up"
                )));
            }
            // The source address is missing on this machine, which is no fault of the server.
            Err(e) if from.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(CannotMeasure::environment(e.to_string()));
            }
            Err(e) if e.kind() == io::ErrorKind::TimedOut => tried.push(format!("{address}: no answer")),
            Err(e) => tried.push(format!("{address}: {e}")),
        }
    }
    Err(CannotMeasure::server_failed(format!(
        "cannot connect to the server ({}): check that `plimsoll serve` runs there and that its port is open",
        tried.join("; ")
    )))
}

fn open_session(
    stream: TcpStream,
    key: &SharedKey,
    other_session: Option<Hex128>,
) -> Result<(Channel, Welcome), String> {
    let refused = |e: WireError| {
        match e {
        WireError::Handshake(HandshakeError::Refused) if *key == SharedKey::open() => {
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
    match channel.ask(&Message::Open { other_session }).map_err(|e| e.to_string())? {
        Message::Welcome(welcome) => Ok((channel, welcome)),
        Message::Busy { seconds } => {
            Err(format!("it has as many sessions as it allows (--max-sessions); try again in {seconds} s"))
        }
        Message::Refused(why) => Err(shown_within(&why, 300)),
        _ => Err(WireError::OutOfTurn.to_string()),
    }
}
