//! The door: all connections that have not shown yet that they know the key, in one loop that never waits for one.
//!
//! A stranger has [`HANDSHAKE`] for its first message, and [`REQUEST`] for its first frame after the answer: only that
//! proves that it is no replay. When as many as [`CROWD`] stand there and one more comes, the oldest goes, so that a
//! silent crowd shuts nobody out. Who is refused gets no word.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::rooms::Rooms;
use super::session::Session;
use super::{Happening, ServeError, Server, Settings, failed};
use crate::traffic::socket::set_up;
use crate::wire::handshake::{LENGTH, respond};
use crate::wire::{Channel, HANDSHAKE, Hex128, Join, Message, REQUEST};

/// Strangers that may stand at the door.
const CROWD: usize = 16;
/// Connections taken in before those at the door are looked at again.
const AT_ONCE: usize = 64;
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
    settings: &'env Settings,
    rooms: &'env Rooms,
    tell: &'env (dyn Fn(Happening) + Sync),
    waiting: Vec<Stranger>,
    /// Given up for a moment when no other descriptor is left, to take a connection in and close it.
    spare: Option<File>,
    turned: u64,
    told: Instant,
}

impl<'env> Door<'env> {
    pub(super) fn new(
        server: &'env Server,
        rooms: &'env Rooms,
        tell: &'env (dyn Fn(Happening) + Sync),
        spare: File,
    ) -> Self {
        Door {
            listeners: &server.listeners,
            settings: &server.settings,
            rooms,
            tell,
            waiting: Vec::new(),
            spare: Some(spare),
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
            self.take_in();
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
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(self.waiting.iter().map(|stranger| PollFd::new(stranger.stream(), PollFlags::IN)));
        let next = self.waiting.iter().map(|s| s.deadline.saturating_duration_since(Instant::now())).min();
        let told = (self.turned > 0).then_some(TELL);
        // At least a millisecond, so that a deadline just ahead is passed and not spun at.
        let longest = next.into_iter().chain(told).min().map(|left| left.max(Duration::from_millis(1)));
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
        let control = channel.stream().try_clone().ok();
        let Some(lease) = self.rooms.open(peer, beside, control) else {
            // One that does not take even this is closed all the same.
            let _ = channel.send(&Message::Busy { seconds: 5 });
            return;
        };
        end_when_gone(channel.stream());
        let (tell, rooms) = (self.tell, self.rooms);
        let session = Session { channel, peer, rooms, lease, udp: Vec::new() };
        let thread = Builder::new().name("session".to_owned()).spawn_scoped(scope, move || {
            tell(Happening::Began(peer));
            let ended = session.serve();
            tell(Happening::Ended(peer, ended.transfers, ended.why));
        });
        if let Err(e) = thread {
            // The connection went with the thread that was not made.
            (self.tell)(Happening::Ended(peer, 0, Some(format!("no thread for it: {e}; see ulimit -u"))));
        }
    }

    fn join(&mut self, mut channel: Channel, peer: SocketAddr, join: &Join) {
        let ready = channel.stream().set_nonblocking(false).is_ok();
        let allowed = join.sockets.congestion.as_deref().is_none_or(may_use);
        let mut refused = String::from("there is no such session or stream");
        let ipv4 = peer.is_ipv4();
        let joined = ready
            && allowed
            && self.rooms.join(peer, join, || {
                if let Err(e) = set_up(channel.stream(), &join.sockets, ipv4) {
                    refused = e.to_string();
                    return None;
                }
                channel.stream().try_clone().ok()
            });
        let answer = match joined {
            true => Message::Joined,
            false if !allowed => Message::Refused(
                "its congestion control is none of net.ipv4.tcp_allowed_congestion_control".to_owned(),
            ),
            false => Message::Refused(refused),
        };
        // A stream that breaks now will be found broken by its session.
        let _ = channel.send(&answer);
    }

    fn take_in(&mut self) {
        for listener in self.listeners {
            for _ in 0..AT_ONCE {
                match listener.accept() {
                    Ok((stream, peer)) => self.let_stand(stream, peer),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if no_descriptor(&e) => {
                        self.close_one(listener);
                        break;
                    }
                    // The other has gone before it was taken in.
                    Err(_) => {}
                }
            }
        }
    }

    fn let_stand(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
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

    /// No descriptor is left: takes the next connection with the spare one, and closes it, or it would wake the loop
    /// for ever.
    fn close_one(&mut self, listener: &TcpListener) {
        self.spare = None;
        drop(listener.accept());
        self.turned += 1;
        self.spare = File::open("/dev/null").ok();
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

fn no_descriptor(error: &io::Error) -> bool {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(Errno::MFILE) || is(Errno::NFILE)
}

/// Whether this machine lets everybody use the congestion control of that name.
fn may_use(name: &str) -> bool {
    let allowed = crate::machine::Root::live().text("proc/sys/net/ipv4/tcp_allowed_congestion_control");
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
