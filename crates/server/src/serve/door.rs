//! The door: all connections that have not shown yet that they know the key, in one loop that never waits for one.
//!
//! A stranger has [`HANDSHAKE`] for its first message, and [`REQUEST`] for its first frame after the answer: only that
//! proves that it is no replay. When as many as [`CROWD`] stand there and one more comes, the oldest goes, so that a
//! silent crowd shuts nobody out. Who is refused gets no word. Where no descriptor is left, some that were kept back take the
//! next connections in, so that who has the key hears why it is not served. Datagrams come to the door as well: a token
//! that a session waits for gives its stream a socket of its own.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::session::{Session, lacks};
use super::sessions::Sessions;
use super::{Happening, SPARE, ServeError, Server, Settings, failed};
use crate::traffic::is_out_of_descriptors;
use crate::traffic::socket::set_up;
use crate::wire::handshake::{LENGTH, respond};
use crate::wire::{Channel, HANDSHAKE, Hex128, Join, Message, REQUEST};

/// Strangers that may stand at the door.
const CROWD: usize = 16;
/// Connections taken in before those at the door are looked at again.
const AT_ONCE: usize = 64;
/// Descriptors that are kept back for the case that no other is left.
const RESERVED_DESCRIPTORS: usize = 4;
/// How long nobody is taken in when even these are gone.
const REST: Duration = Duration::from_millis(100);
/// How often it is told how many were turned away.
const TELL: Duration = Duration::from_secs(10);

/// A client that acknowledges nothing for this long is gone.
const GONE: Duration = Duration::from_secs(24);

/// A connection that has shown nothing yet.
struct Stranger {
    stage: Stage,
    peer: SocketAddr,
    deadline: Instant,
}

enum Stage {
    /// Its first message is on its way.
    Greeting { stream: TcpStream, shown: [u8; LENGTH], length: usize },
    /// It was answered; its first frame is on its way.
    Answered(Box<Channel>),
}

/// What a look at a stranger says.
enum Look {
    Wait(Stage),
    Refuse,
    Request(Box<Channel>, Message),
}

/// The door of one server.
pub(super) struct Door<'env> {
    listeners: &'env [TcpListener],
    datagrams: &'env [UdpSocket],
    settings: &'env Settings,
    sessions: &'env Sessions,
    tell: &'env (dyn Fn(Happening) + Sync),
    waiting: Vec<Stranger>,
    /// Given up when no other descriptor is left, to take connections in and tell them.
    reserve: Vec<File>,
    /// Nobody can be taken in until then.
    rests: Option<Instant>,
    turned: u64,
    told: Instant,
}

impl<'env> Door<'env> {
    pub(super) fn new(
        server: &'env Server,
        sessions: &'env Sessions,
        tell: &'env (dyn Fn(Happening) + Sync),
        first: File,
    ) -> Self {
        Door {
            listeners: &server.listeners,
            datagrams: &server.datagrams,
            settings: &server.settings,
            sessions,
            tell,
            waiting: Vec::new(),
            reserve: vec![first],
            rests: None,
            turned: 0,
            told: Instant::now(),
        }
    }

    /// Keeps the door until `until` can be read or ends.
    pub(super) fn keep<'s>(
        &mut self,
        scope: &'s Scope<'s, 'env>,
        until: BorrowedFd<'_>,
    ) -> Result<(), ServeError> {
        loop {
            if self.wait(until).map_err(failed("wait for clients"))? {
                return Ok(());
            }
            self.look_at_all(scope);
            self.keep_back();
            self.take_in();
            self.datagrams.iter().for_each(|port| self.sessions.expected().take_from(port));
            let now = Instant::now();
            let before = self.waiting.len();
            self.waiting.retain(|stranger| stranger.deadline > now);
            self.turned += (before - self.waiting.len()) as u64;
            self.report(now);
        }
    }

    fn report(&mut self, now: Instant) {
        if self.turned > 0 && now.duration_since(self.told) >= TELL {
            (self.tell)(Happening::Turned(std::mem::take(&mut self.turned)));
            self.told = now;
        }
    }

    /// Sleeps until somebody connects, sends, or is late; true when it is time to end.
    fn wait(&self, until: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fds = vec![PollFd::new(&until, PollFlags::IN)];
        let rest = self.rests.map(|until| until.saturating_duration_since(Instant::now()));
        let listeners = if rest.is_none() { self.listeners } else { &[] };
        fds.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(self.datagrams.iter().map(|port| PollFd::new(port, PollFlags::IN)));
        fds.extend(self.waiting.iter().map(|stranger| PollFd::new(stranger.stream(), PollFlags::IN)));
        let next = self.waiting.iter().map(|s| s.deadline.saturating_duration_since(Instant::now())).min();
        let told = (self.turned > 0).then_some(TELL);
        // At least a millisecond, so that a deadline just ahead is passed and not spun at.
        let longest =
            next.into_iter().chain(told).chain(rest).min().map(|left| left.max(Duration::from_millis(1)));
        let longest = longest.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut fds, longest.as_ref()) {
            Ok(_) => Ok(fds.first().is_some_and(|fd| !fd.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn look_at_all<'s>(&mut self, scope: &'s Scope<'s, 'env>) {
        for stranger in std::mem::take(&mut self.waiting) {
            let Stranger { stage, peer, deadline } = stranger;
            let answered = matches!(stage, Stage::Answered(_));
            match stage.look(self.settings) {
                Look::Wait(stage) => {
                    let anew = !answered && matches!(stage, Stage::Answered(_));
                    let deadline = if anew { Instant::now() + REQUEST } else { deadline };
                    self.waiting.push(Stranger { stage, peer, deadline });
                }
                Look::Refuse => self.turned += 1,
                Look::Request(channel, Message::Open { beside }) => self.open(scope, *channel, peer, beside),
                Look::Request(channel, Message::Join(join)) => self.join(*channel, peer, &join),
                Look::Request(..) => self.turned += 1,
            }
        }
    }

    fn open<'s>(
        &mut self,
        scope: &'s Scope<'s, 'env>,
        mut channel: Channel,
        peer: SocketAddr,
        beside: Option<Hex128>,
    ) {
        if channel.stream().set_nonblocking(false).is_err() {
            return;
        }
        let control = match channel.stream().try_clone() {
            Ok(control) => control,
            Err(e) => {
                let _ = channel.send(&Message::Refused(lacks(&e)));
                return;
            }
        };
        let Some(lease) = self.sessions.open(peer, beside, control) else {
            // One that does not take even this is closed all the same.
            let _ = channel.send(&Message::Busy { seconds: 5 });
            return;
        };
        end_when_gone(channel.stream());
        let (tell, sessions) = (self.tell, self.sessions);
        let session = Session { channel, peer, sessions, lease, udp: Vec::new() };
        // It is still here where no thread takes it.
        let held = Arc::new(Mutex::new(Some(session)));
        let taken = held.clone();
        let thread = Builder::new().name("session".to_owned()).spawn_scoped(scope, move || {
            let Some(session) = taken.lock().ok().and_then(|mut held| held.take()) else { return };
            tell(Happening::Began(peer));
            let ended = session.serve();
            tell(Happening::Ended(peer, ended.transfers, ended.why));
        });
        if let Err(e) = thread {
            if let Some(mut session) = held.lock().ok().and_then(|mut held| held.take()) {
                let _ = session.channel.send(&Message::Refused(lacks(&e)));
            }
            (self.tell)(Happening::Ended(
                peer,
                0,
                Some(format!("cannot start a thread for the connection: {e}; see ulimit -u")),
            ));
        }
    }

    fn join(&mut self, mut channel: Channel, peer: SocketAddr, join: &Join) {
        let ready = channel.stream().set_nonblocking(false).is_ok();
        let allowed = join.sockets.congestion.as_deref().is_none_or(may_use);
        let mut refused = String::from("it allows no stream of this number");
        let ipv4 = peer.is_ipv4();
        let joined = ready
            && allowed
            && self.sessions.join(peer, join, || {
                if let Err(e) = set_up(channel.stream(), &join.sockets, ipv4) {
                    refused = e.to_string();
                    return None;
                }
                channel.stream().try_clone().map_err(|e| refused = lacks(&e)).ok()
            });
        let answer = match joined {
            true => Message::Joined,
            false if !self.sessions.has(&join.session, peer.ip()) => {
                Message::NoSession { server: self.sessions.server() }
            }
            false if !allowed => Message::Refused(
                "its congestion control is not in net.ipv4.tcp_allowed_congestion_control".to_owned(),
            ),
            false => Message::Refused(refused),
        };
        // A stream that breaks now will be found broken by its session.
        let _ = channel.send(&answer);
    }

    /// Puts descriptors back that were given up.
    fn keep_back(&mut self) {
        while self.reserve.len() < RESERVED_DESCRIPTORS {
            let Ok(spare) = File::open(SPARE) else { break };
            self.reserve.push(spare);
        }
    }

    fn take_in(&mut self) {
        if self.rests.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.rests = None;
        for listener in self.listeners {
            for _ in 0..AT_ONCE {
                match listener.accept() {
                    Ok((stream, peer)) => self.let_stand(stream, peer),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if is_out_of_descriptors(&e) => {
                        self.take_in_on_reserve(listener);
                        break;
                    }
                    // The other has gone before it was taken in.
                    Err(_) => {}
                }
            }
        }
    }

    fn let_stand(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = canonical(peer);
        let Settings { allow, .. } = self.settings;
        let allowed = allow.is_empty() || allow.iter().any(|net| net.contains(peer.ip()));
        if !allowed || stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            self.turned += 1;
            return;
        }
        if self.waiting.len() >= CROWD {
            self.waiting.remove(0);
            self.turned += 1;
        }
        let stage = Stage::Greeting { stream, shown: [0; LENGTH], length: 0 };
        self.waiting.push(Stranger { stage, peer, deadline: Instant::now() + HANDSHAKE });
    }

    /// No descriptor is left: takes the next connection in with one that was kept back, or else in the place of the
    /// stranger that has stood here longest. A connection that nobody takes in would wake the loop for ever.
    fn take_in_on_reserve(&mut self, listener: &TcpListener) {
        // Linux looks for a descriptor first, so this says nothing of whether there is a connection.
        if !somebody_knocks(listener) {
            return;
        }
        if self.reserve.pop().is_none() && !self.waiting.is_empty() {
            self.waiting.remove(0);
            self.turned += 1;
        }
        match listener.accept() {
            Ok((stream, peer)) => self.let_stand(stream, peer),
            // Another thread was quicker.
            Err(e) if is_out_of_descriptors(&e) => self.rests = Some(Instant::now() + REST),
            Err(_) => {}
        }
    }
}

/// The same address with an IPv4 address as such, and the interface of a link-local one.
fn canonical(peer: SocketAddr) -> SocketAddr {
    match peer.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, peer.port()),
        IpAddr::V6(_) => peer,
    }
}

/// Lets the kernel end the connection of a client whose machine or link is gone without a word, about [`GONE`] later:
/// by probes while nothing is under way, by the age of what nobody acknowledges else.
fn end_when_gone(stream: &TcpStream) {
    let (probes, apart) = (3, GONE / 6);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, GONE / 2);
    let _ = sockopt::set_tcp_keepintvl(stream, apart);
    let _ = sockopt::set_tcp_keepcnt(stream, probes);
    let _ = sockopt::set_tcp_user_timeout(stream, GONE.as_millis() as u32);
}

fn somebody_knocks(listener: &TcpListener) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Whether this machine lets everybody use the congestion control of that name.
fn may_use(name: &str) -> bool {
    let allowed = plimsoll_machine::Root::live().text("proc/sys/net/ipv4/tcp_allowed_congestion_control");
    allowed.is_ok_and(|names| names.split_whitespace().any(|allowed| allowed == name))
}

impl Stranger {
    const fn stream(&self) -> &TcpStream {
        match &self.stage {
            Stage::Greeting { stream, .. } => stream,
            Stage::Answered(channel) => channel.stream(),
        }
    }
}

impl Stage {
    /// Reads what is there, as far as it goes without waiting.
    fn look(self, settings: &Settings) -> Look {
        match self {
            Stage::Greeting { stream, shown, length } => greeting(stream, shown, length, settings),
            Stage::Answered(mut channel) => match channel.try_receive() {
                Ok(Some(message)) => Look::Request(channel, message),
                Ok(None) => Look::Wait(Stage::Answered(channel)),
                Err(_) => Look::Refuse,
            },
        }
    }
}

fn greeting(mut stream: TcpStream, mut shown: [u8; LENGTH], length: usize, settings: &Settings) -> Look {
    let length = match stream.read(shown.get_mut(length..).unwrap_or_default()) {
        Ok(0) => return Look::Refuse,
        Ok(n) => length + n,
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => length,
        Err(_) => return Look::Refuse,
    };
    if length < LENGTH {
        return Look::Wait(Stage::Greeting { stream, shown, length });
    }
    let Ok(answer) = respond(&settings.key, &shown) else { return Look::Refuse };
    // A new connection has room for so little.
    let written = stream.write_all(&answer.message);
    match (written, answer.transport) {
        (Ok(()), Ok(transport)) => Stage::Answered(Box::new(Channel::new(stream, transport))).look(settings),
        _ => Look::Refuse,
    }
}
