//! Accepts and authenticates connections in one loop that never waits for a single one. A
//! connection has [`HANDSHAKE`] for its first message, then [`REQUEST`] for its first frame, which
//! proves that it is no replay. A refused connection gets no answer.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::session::{OpenSession, lacks};
use super::sessions::Sessions;
use super::{SPARE, ServeError, Server, ServerEvent, Settings, failed};
use crate::traffic::socket::set_options;
use crate::traffic::{is_out_of_descriptors, unless_nothing_yet, wait_for};
use crate::wire::handshake::{LENGTH, respond};
use crate::wire::{Channel, HANDSHAKE, Hex128, Join, Message, REQUEST};

const MAX_PENDING: usize = 16;
/// Connections accepted before the waiting ones are checked again.
const AT_ONCE: usize = 64;
const RESERVED_DESCRIPTORS: usize = 4;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const NOTICE_TIME: Duration = Duration::from_secs(10);

/// Silence after which the kernel closes the connection of a client that is gone.
const DEAD_CLIENT_TIMEOUT: Duration = Duration::from_secs(24);

/// A connection whose client has not been authenticated yet.
struct PendingClient {
    stage: PendingStage,
    client: SocketAddr,
    deadline: Instant,
}

enum PendingStage {
    Greeting { stream: TcpStream, shown: [u8; LENGTH], length: usize },
    Answered(Box<Channel>),
}

pub(super) struct Door<'env> {
    server: &'env Server,
    sessions: &'env Sessions,
    notify: &'env (dyn Fn(ServerEvent) + Sync),
    waiting: Vec<PendingClient>,
    /// Released if no other descriptor is left, so that connections can be accepted and answered.
    reserve: Vec<File>,
    rests: Option<Instant>,
    turned: u64,
    notified_at: Instant,
}

impl<'env> Door<'env> {
    pub(super) fn new(
        server: &'env Server,
        sessions: &'env Sessions,
        notify: &'env (dyn Fn(ServerEvent) + Sync),
        first: File,
    ) -> Self {
        Door {
            server,
            sessions,
            notify,
            waiting: Vec::new(),
            reserve: vec![first],
            rests: None,
            turned: 0,
            notified_at: Instant::now(),
        }
    }

    /// Accepts and authenticates connections until `until` is readable or closed, and starts a
    /// thread of `scope` for each session. Fails only if the wait for connections fails.
    pub(super) fn accept_loop<'s>(
        &mut self,
        scope: &'s Scope<'s, 'env>,
        until: BorrowedFd<'_>,
    ) -> Result<(), ServeError> {
        loop {
            if self.wait(until).map_err(failed("wait for clients"))? {
                return Ok(());
            }
            self.look_at_all(scope);
            while self.reserve.len() < RESERVED_DESCRIPTORS
                && let Ok(spare) = File::open(SPARE)
            {
                self.reserve.push(spare);
            }
            self.take_in();
            self.server.datagrams.iter().for_each(|port| self.sessions.expected.process_datagrams(port));
            let now = Instant::now();
            let before = self.waiting.len();
            self.waiting.retain(|pending| pending.deadline > now);
            self.turned += (before - self.waiting.len()) as u64;
            if self.turned > 0 && now.duration_since(self.notified_at) >= NOTICE_TIME {
                (self.notify)(ServerEvent::Turned(std::mem::take(&mut self.turned)));
                self.notified_at = now;
            }
        }
    }

    fn wait(&self, until: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fds = vec![PollFd::new(&until, PollFlags::IN)];
        let rest = self.rests.map(|until| until.saturating_duration_since(Instant::now()));
        let listeners = if rest.is_none() { self.server.listeners.as_slice() } else { &[] };
        fds.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(self.server.datagrams.iter().map(|port| PollFd::new(port, PollFlags::IN)));
        fds.extend(self.waiting.iter().map(|pending| match &pending.stage {
            PendingStage::Greeting { stream, .. } => PollFd::new(stream, PollFlags::IN),
            PendingStage::Answered(channel) => PollFd::new(channel.stream(), PollFlags::IN),
        }));
        let next = self.waiting.iter().map(|s| s.deadline.saturating_duration_since(Instant::now()));
        let notice = (self.turned > 0).then_some(NOTICE_TIME);
        let longest = next.chain(notice).chain(rest).min().map(|left| left.max(Duration::from_millis(1)));
        let longest = longest.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut fds, longest.as_ref()) {
            Ok(_) => Ok(fds.first().is_some_and(|fd| !fd.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn look_at_all<'s>(&mut self, scope: &'s Scope<'s, 'env>) {
        for pending in std::mem::take(&mut self.waiting) {
            let PendingClient { stage, client, deadline } = pending;
            let answered = matches!(stage, PendingStage::Answered(_));
            match stage.read_available(&self.server.settings) {
                Some((stage, None)) => {
                    let anew = !answered && matches!(stage, PendingStage::Answered(_));
                    let deadline = if anew { Instant::now() + REQUEST } else { deadline };
                    self.waiting.push(PendingClient { stage, client, deadline });
                }
                Some((PendingStage::Answered(channel), Some(Message::Open { other_session }))) => {
                    self.open(scope, *channel, client, other_session);
                }
                Some((PendingStage::Answered(channel), Some(Message::Join(join)))) => {
                    self.join(*channel, client, &join);
                }
                _ => self.turned += 1,
            }
        }
    }

    fn open<'s>(
        &mut self,
        scope: &'s Scope<'s, 'env>,
        mut channel: Channel,
        client: SocketAddr,
        other_session: Option<Hex128>,
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
        let Some(lease) = self.sessions.open(client, other_session, control) else {
            let _ = channel.send(&Message::Busy { seconds: 5 });
            return;
        };
        enable_keepalive(channel.stream());
        let (notify, sessions) = (self.notify, self.sessions);
        let mut session = OpenSession { channel, client, sessions, lease, udp: Vec::new() };
        let (given, taken) = crossbeam_channel::bounded::<OpenSession<'env>>(1);
        let thread = Builder::new().name("session".to_owned()).spawn_scoped(scope, move || {
            let Ok(session) = taken.recv() else { return };
            notify(ServerEvent::Began(client));
            let (transfers, why) = session.serve();
            notify(ServerEvent::Ended(client, transfers, why));
        });
        match thread {
            Ok(_) => drop(given.send(session)),
            Err(e) => {
                let _ = session.channel.send(&Message::Refused(lacks(&e)));
                let why = format!("cannot start a thread for the connection: {e}; see ulimit -u");
                notify(ServerEvent::Ended(client, 0, Some(why)));
            }
        }
    }

    fn join(&mut self, mut channel: Channel, client: SocketAddr, join: &Join) {
        let ready = channel.stream().set_nonblocking(false).is_ok();
        let allowed = join.sockets.congestion.as_deref().is_none_or(may_use);
        let mut refused = String::from("it allows no stream of this number");
        let ipv4 = client.is_ipv4();
        let joined = ready
            && allowed
            && self.sessions.join(client.ip(), join, || {
                if let Err(e) = set_options(channel.stream(), &join.sockets, ipv4) {
                    refused = e.to_string();
                    return None;
                }
                channel.stream().try_clone().map_err(|e| refused = lacks(&e)).ok()
            });
        let answer = match joined {
            true => Message::Joined,
            false if !self.sessions.has(&join.session, client.ip()) => {
                Message::NoSession { server: self.sessions.server }
            }
            false if !allowed => Message::Refused(
                "its congestion control is not in net.ipv4.tcp_allowed_congestion_control".to_owned(),
            ),
            false => Message::Refused(refused),
        };
        let _ = channel.send(&answer);
    }

    fn take_in(&mut self) {
        if self.rests.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.rests = None;
        for listener in &self.server.listeners {
            for _ in 0..AT_ONCE {
                match listener.accept() {
                    Ok((stream, client)) => self.let_stand(stream, client),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if is_out_of_descriptors(&e) => {
                        self.take_in_on_reserve(listener);
                        break;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    fn let_stand(&mut self, stream: TcpStream, mut client: SocketAddr) {
        if let v4 @ IpAddr::V4(_) = client.ip().to_canonical() {
            client = SocketAddr::new(v4, client.port());
        }
        let allow = &self.server.settings.allow;
        let allowed = allow.is_empty() || allow.iter().any(|net| net.contains(client.ip()));
        if !allowed || stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            self.turned += 1;
            return;
        }
        if self.waiting.len() >= MAX_PENDING {
            self.waiting.remove(0);
            self.turned += 1;
        }
        let stage = PendingStage::Greeting { stream, shown: [0; LENGTH], length: 0 };
        self.waiting.push(PendingClient { stage, client, deadline: Instant::now() + HANDSHAKE });
    }

    /// Accepts a connection although no file descriptor is free: closes a reserved one, else the
    /// oldest unauthenticated connection. Left unaccepted, it would wake the accept loop forever.
    fn take_in_on_reserve(&mut self, listener: &TcpListener) {
        // Linux allocates the descriptor first: the error does not show that a connection waits.
        if !wait_for(listener, PollFlags::IN, Duration::ZERO).unwrap_or(false) {
            return;
        }
        if self.reserve.pop().is_none() && !self.waiting.is_empty() {
            self.waiting.remove(0);
            self.turned += 1;
        }
        match listener.accept() {
            Ok((stream, client)) => self.let_stand(stream, client),
            // Another thread took the descriptor.
            Err(e) if is_out_of_descriptors(&e) => self.rests = Some(Instant::now() + ACCEPT_PAUSE),
            Err(_) => {}
        }
    }
}

/// Makes the kernel close `stream` [`DEAD_CLIENT_TIMEOUT`] after the client's host or link failed.
fn enable_keepalive(stream: &TcpStream) {
    let (probes, probe_interval) = (3, DEAD_CLIENT_TIMEOUT / 6);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, DEAD_CLIENT_TIMEOUT / 2);
    let _ = sockopt::set_tcp_keepintvl(stream, probe_interval);
    let _ = sockopt::set_tcp_keepcnt(stream, probes);
    let _ = sockopt::set_tcp_user_timeout(stream, DEAD_CLIENT_TIMEOUT.as_millis() as u32);
}

/// Returns whether unprivileged processes may use the TCP congestion control `name`, such as `bbr`.
fn may_use(name: &str) -> bool {
    let allowed = plimsoll_machine::Root::live().text("proc/sys/net/ipv4/tcp_allowed_congestion_control");
    allowed.is_ok_and(|names| names.split_whitespace().any(|allowed| allowed == name))
}

impl PendingStage {
    /// Reads what the client has sent, without waiting, and answers its handshake. Returns the next
    /// stage and, once complete, the client's first request; `None` if the client is refused.
    fn read_available(self, settings: &Settings) -> Option<(Self, Option<Message>)> {
        let (mut stream, mut shown, length) = match self {
            Self::Greeting { stream, shown, length } => (stream, shown, length),
            Self::Answered(mut channel) => {
                let request = channel.try_receive().ok()?;
                return Some((Self::Answered(channel), request));
            }
        };
        let length = match unless_nothing_yet(stream.read(&mut shown[length..])).ok()? {
            Some(0) => return None,
            count => length + count.unwrap_or(0),
        };
        if length < LENGTH {
            return Some((Self::Greeting { stream, shown, length }, None));
        }
        let answer = respond(&settings.key, &shown).ok()?;
        // A new connection has room for a message this short.
        stream.write_all(&answer.message).ok()?;
        let channel = Channel::new(stream, answer.transport.ok()?);
        Self::Answered(Box::new(channel)).read_available(settings)
    }
}
