//! Notices at once when a rank ends: each holds a connection to rank 0 as long as it runs.
//!
//! Rank 0 listens, and tells the others where, with a key of this run, by MPI. Who connects names its rank; both ends prove
//! that they have the key. That keeps out who reaches the port, not who reads or changes what passes between the machines:
//! nothing is secret or signed, as MPI's own messages are not. A connection that ends without a goodbye is a process that
//! ended: the kernel tells that at once, whatever MPI is at. Both ends say each second that they are here, so that a machine
//! that stands still or is cut off is noticed too. Where no connection comes about, MPI's messages do that alone.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_metal::tcp::TcpInfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sha2::{Digest, Sha256};

use super::between::Place;
use super::watch::{Standing, Watch};
use crate::machine::Root;
use crate::traffic::{raise_descriptors, route};
use crate::wire::Key;

/// How often either end says that it is here, and looks who else is.
const TICK: Duration = Duration::from_secs(1);
/// How long an address of rank 0 may take to answer.
pub(super) const REACH: Duration = Duration::from_secs(2);
/// Addresses of rank 0 that are tried.
const ADDRESSES: usize = 16;
/// How long somebody who has connected may take to say who it is.
const KNOCKING: Duration = Duration::from_secs(5);
/// "I am here", and with its first time "we are connected".
const HERE: u8 = 1;
/// "I end as I should."
const BYE: u8 = 0;
/// What is known of a rank whose connection ends without that.
const ENDED: &str = "its process ended";
/// Bytes of a proof: of SHA-256.
const PROOF: usize = 32;
/// A rank, big-endian, and its proof.
const KNOCK: usize = size_of::<u32>() + PROOF;

/// The connections of this rank, in a thread of their own.
#[derive(Debug)]
pub(super) struct Pulse {
    /// The thread ends with this.
    until: UnixStream,
    thread: JoinHandle<()>,
    watch: Arc<Watch>,
}

impl Pulse {
    /// Rank 0 of a world of so many: listens, and where.
    ///
    /// # Errors
    /// No port or no thread can be had.
    pub(super) fn lead(size: usize, watch: &Arc<Watch>) -> io::Result<(Self, Place)> {
        let any = |ip: IpAddr| TcpListener::bind(SocketAddr::new(ip, 0));
        // Without IPv6 there is no such family, or no such address.
        let listener = any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))?;
        listener.set_nonblocking(true)?;
        let mut addresses = route::own(&Root::live());
        addresses.truncate(ADDRESSES - 1);
        // Of ranks that share a network stack.
        addresses.push(Ipv4Addr::LOCALHOST.into());
        let key = Key::random()?;
        let place = Place { addresses, port: listener.local_addr()?.port(), key: key.to_hex() };
        let door = Door { listener, key, strangers: Vec::new(), most: room(size), rests: false };
        let watched = watch.clone();
        let tender =
            move || Some(Tender { watch: watched, partners: 1..size, door: Some(door), ties: Vec::new() });
        Ok((Self::tended(tender, watch)?, place))
    }

    /// A rank after 0, which finds rank 0 there if one of its addresses answers within this time.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn follow(
        rank: usize,
        place: Place,
        within: Duration,
        watch: &Arc<Watch>,
    ) -> io::Result<Self> {
        let watched = watch.clone();
        let tender = move || {
            let Some(stream) = reached(rank, &place, within) else {
                watched.settle();
                return None;
            };
            let mut tie = watched.tie(0).then_some(Tie { rank: 0, stream })?;
            // From this byte on rank 0 takes the end of the connection for that of this process.
            tie.say(HERE);
            Some(Tender { watch: watched, partners: 0..1, door: None, ties: vec![tie] })
        };
        Self::tended(tender, watch)
    }

    fn tended(
        make: impl FnOnce() -> Option<Tender> + Send + 'static,
        watch: &Arc<Watch>,
    ) -> io::Result<Self> {
        let (until, ends) = UnixStream::pair()?;
        let tend = move || {
            if let Some(tender) = make() {
                tender.tend(&ends);
            }
        };
        let thread = std::thread::Builder::new().name("pulse".to_owned()).spawn(tend)?;
        Ok(Self { until, thread, watch: watch.clone() })
    }

    /// Takes leave of those that are connected.
    pub(super) fn end(self) {
        drop(self.until);
        // One that still connects has nobody to tell.
        if self.watch.settle() {
            // A thread that panicked told nobody, who then see this process end.
            let _ = self.thread.join();
        }
    }
}

/// How many connections a world of so many ranks may have: one for each, if there are descriptors. Half of them are for
/// all else that a process opens.
fn room(size: usize) -> usize {
    raise_descriptors().map_or(size, |most| size.min(usize::try_from(most / 2).unwrap_or(size)))
}

/// A rank as it is sent.
fn number(rank: usize) -> [u8; 4] {
    u32::try_from(rank).unwrap_or(u32::MAX).to_be_bytes()
}

/// What only those who have the key can say first, and from which nobody learns it.
fn proof(who: &str, rank: usize, key: &Key) -> [u8; PROOF] {
    Sha256::new().chain_update(who).chain_update(number(rank)).chain_update(key.bytes()).finalize().into()
}

/// What a rank says first.
fn knock(rank: usize, key: &Key) -> [u8; KNOCK] {
    let mut said = [0; KNOCK];
    let (place, proved) = said.split_at_mut(size_of::<u32>());
    place.copy_from_slice(&number(rank));
    proved.copy_from_slice(&proof("rank", rank, key));
    said
}

/// Which of these ranks said that.
fn knocked(said: &[u8], partners: &Range<usize>, key: &Key) -> Option<usize> {
    let rank = usize::try_from(u32::from_be_bytes(*said.first_chunk()?)).ok()?;
    (partners.contains(&rank) && said == knock(rank, key)).then_some(rank)
}

/// What rank 0 answers to it.
fn answer(rank: usize, key: &Key) -> [u8; PROOF] {
    proof("rank 0", rank, key)
}

/// Rank 0, at the first of its addresses where it answers within this time.
fn reached(rank: usize, place: &Place, within: Duration) -> Option<TcpStream> {
    let key = Key::from_hex(&place.key, "rank 0's word").ok()?;
    let tried = |address: &IpAddr| {
        let address = SocketAddr::new(*address, place.port);
        let mut stream = TcpStream::connect_timeout(&address, within).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(within)).ok()?;
        stream.write_all(&knock(rank, &key)).ok()?;
        let mut heard = [0; PROOF];
        stream.read_exact(&mut heard).ok()?;
        stream.set_nonblocking(true).ok()?;
        (heard == answer(rank, &key)).then_some(stream)
    };
    place.addresses.iter().take(ADDRESSES).find_map(tried)
}

/// Where rank 0 listens.
struct Door {
    listener: TcpListener,
    key: Key,
    strangers: Vec<Stranger>,
    /// Connections that may be.
    most: usize,
    /// Nobody can be let in until the next tick.
    rests: bool,
}

/// Somebody who has connected.
struct Stranger {
    stream: TcpStream,
    /// What it has said: a knock, and one byte when it has our answer.
    said: [u8; KNOCK + 1],
    length: usize,
    deadline: Instant,
    /// The rank that it is, once it has proved that.
    rank: Option<usize>,
}

/// What becomes of a stranger.
enum Fate {
    Waits,
    Dropped,
    Tied(usize),
}

impl Stranger {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let deadline = Instant::now() + KNOCKING;
        Ok(Self { stream, said: [0; KNOCK + 1], length: 0, deadline, rank: None })
    }

    fn look(&mut self, key: &Key, partners: &Range<usize>) -> Fate {
        loop {
            match self.stream.read(&mut self.said[self.length..]) {
                Ok(0) => return Fate::Dropped,
                Ok(more) => self.length += more,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // One that has proved itself is judged as all ranks are.
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let late = self.rank.is_none() && Instant::now() > self.deadline;
                    return if late { Fate::Dropped } else { Fate::Waits };
                }
                Err(_) => return Fate::Dropped,
            }
            if self.length >= KNOCK && self.rank.is_none() {
                self.rank = knocked(&self.said[..KNOCK], partners, key);
                // So little is taken whole by a connection on which nothing was sent.
                let answered = self.rank.map(|rank| self.stream.write_all(&answer(rank, key)));
                if !matches!(answered, Some(Ok(()))) {
                    return Fate::Dropped;
                }
            }
            if self.length > KNOCK {
                let tied = self.rank.filter(|_| self.said[KNOCK] == HERE);
                return tied.map_or(Fate::Dropped, Fate::Tied);
            }
        }
    }
}

/// A connection that stands for the process at its other end.
struct Tie {
    rank: usize,
    stream: TcpStream,
}

impl Tie {
    /// Takes in what was said. Whether the connection goes on.
    fn look(&mut self, watch: &Watch) -> bool {
        let mut said = [0; 64];
        loop {
            match self.stream.read(&mut said) {
                Ok(0) => watch.lose(self.rank, ENDED),
                Ok(length) if said[..length].contains(&BYE) => watch.part(self.rank),
                Ok(_) => {
                    watch.heard(self.rank);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::ConnectionReset => watch.lose(self.rank, ENDED),
                Err(e) => watch.lose(self.rank, &format!("its connection failed: {e}")),
            }
            return false;
        }
    }

    /// Whether the other end's kernel takes what is said each second; its process may stand still all the same.
    fn answers(&self) -> Option<bool> {
        let acknowledged = TcpInfo::of(&self.stream).ok()?.last_ack_ms;
        Some(Duration::from_millis(acknowledged.into()) <= 3 * TICK)
    }

    /// What cannot be said, nobody waits for: that the other end is gone, the next look tells.
    fn say(&mut self, byte: u8) {
        let _ = self.stream.write(&[byte]);
    }
}

/// Who looks after the connections.
struct Tender {
    watch: Arc<Watch>,
    /// Ranks to listen to.
    partners: Range<usize>,
    door: Option<Door>,
    ties: Vec<Tie>,
}

/// Why the tender woke.
struct Woken {
    ends: bool,
    /// Which connections have ended.
    ended: Vec<bool>,
}

impl Tender {
    fn tend(mut self, ends: &UnixStream) {
        let mut next = Instant::now() + TICK;
        // A system on which nothing can be waited for leaves MPI's messages.
        while let Some(woken) = self.sleep(ends, next) {
            self.watch.awake();
            if woken.ends {
                return self.take_leave();
            }
            let mut ended = woken.ended.into_iter();
            let watch = &self.watch;
            self.ties.retain_mut(|tie| !ended.next().unwrap_or(false) || tie.look(watch));
            self.let_in();
            if Instant::now() >= next {
                self.tick();
                next = Instant::now() + TICK;
            }
        }
    }

    /// Sleeps until a connection ends, somebody knocks, or it is time. What is said on a connection wakes nobody.
    fn sleep(&self, ends: &UnixStream, next: Instant) -> Option<Woken> {
        let strangers = self.door.iter().flat_map(|door| &door.strangers);
        let mut fds = vec![PollFd::new(ends, PollFlags::IN)];
        fds.extend(self.ties.iter().map(|tie| PollFd::new(&tie.stream, PollFlags::RDHUP)));
        fds.extend(strangers.map(|stranger| PollFd::new(&stranger.stream, PollFlags::IN)));
        let door = self.door.iter().filter(|door| !door.rests);
        fds.extend(door.map(|door| PollFd::new(&door.listener, PollFlags::IN)));
        let left = Timespec::try_from(next.saturating_duration_since(Instant::now())).ok()?;
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        let mut happened = fds.iter().map(|fd| !fd.revents().is_empty());
        let ends = happened.next()?;
        Some(Woken { ends, ended: happened.take(self.ties.len()).collect() })
    }

    /// Lets ranks in, and keeps others out.
    fn let_in(&mut self) {
        let Some(door) = &mut self.door else { return };
        while !door.rests {
            match door.listener.accept() {
                Ok((stream, _)) if door.strangers.len() + self.ties.len() < door.most => {
                    door.strangers.extend(Stranger::new(stream));
                }
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // No descriptor is left: it is not asked for without pause.
                Err(_) => door.rests = true,
            }
        }
        for mut stranger in std::mem::take(&mut door.strangers) {
            match stranger.look(&door.key, &self.partners) {
                Fate::Waits => door.strangers.push(stranger),
                Fate::Dropped => {}
                Fate::Tied(rank) if self.watch.tie(rank) => {
                    self.ties.push(Tie { rank, stream: stranger.stream });
                }
                Fate::Tied(_) => {}
            }
        }
    }

    fn tick(&mut self) {
        let watch = &self.watch;
        self.ties.iter_mut().for_each(|tie| tie.say(HERE));
        self.ties.iter().for_each(|tie| watch.reached(tie.rank, tie.answers()));
        self.ties.retain_mut(|tie| tie.look(watch));
        watch.check(self.partners.clone(), Standing::Tied);
        if let Some(door) = &mut self.door {
            door.rests = false;
        }
    }

    /// Says goodbye to all that take the end of the connection for that of this process.
    fn take_leave(self) {
        let strangers = self.door.into_iter().flat_map(|door| door.strangers);
        let proved = strangers.filter_map(|s| Some(Tie { rank: s.rank?, stream: s.stream }));
        for mut tie in self.ties.into_iter().chain(proved) {
            // What was not read when it closes would have the other end told of a failure.
            tie.look(&self.watch);
            tie.say(BYE);
        }
    }
}

#[cfg(test)]
mod tests;
