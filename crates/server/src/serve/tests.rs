//! A server in a thread of this process: unauthenticated connections, sessions, transfers by hand.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;
use crate::traffic::account::CounterSource;
use crate::traffic::tcp::{TcpMeans, TcpOutcome, transfer};
use crate::traffic::{Fnv, LostTransfer, TransferEnd};
use crate::wire::fixture::message_of_version;
use crate::wire::handshake::{HandshakeError, Initiator, LENGTH};
use crate::wire::{
    Channel, Direction, Hex128, Join, Message, OrderedAmount, Receiving, SILENCE, Sending, Sockets, TcpOrder,
    Welcome, WireError,
};

struct Served {
    address: SocketAddr,
    key: SharedKey,
    reported: Arc<Mutex<Vec<ServerEvent>>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop = None;
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

fn settings(key: &SharedKey) -> Settings {
    let (caps, cpus) = (Caps::default(), PinnedCpus::default());
    Settings { key: key.clone(), caps, allow: Vec::new(), parallel: false, cpus }
}

fn served_with(change: impl FnOnce(&mut Settings)) -> Served {
    let key = SharedKey::random().unwrap();
    let mut settings = settings(&key);
    change(&mut settings);
    let server = Server::bind(&["127.0.0.1:0".parse().unwrap()], settings).unwrap();
    let (stop, stopped) = UnixStream::pair().unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let (address, teller) = (server.addresses()[0], Arc::clone(&reported));
    let thread = std::thread::spawn(move || server.run(&stopped, &|h| teller.lock().unwrap().push(h)));
    Served { address, key, reported, stop: Some(stop), thread: Some(thread) }
}

fn served() -> Served {
    served_with(|_| ())
}

/// Waits until `holds` returns true, at most two minutes; `what` names it in the panic.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about within two minutes");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

impl Served {
    fn connect(&self) -> Channel {
        Channel::connect(TcpStream::connect(self.address).unwrap(), &self.key).unwrap()
    }

    fn open(&self) -> (Channel, Welcome) {
        let mut channel = self.connect();
        let Message::Welcome(welcome) = channel.ask(&Message::Open { other_session: None }).unwrap() else {
            panic!("no welcome")
        };
        (channel, welcome)
    }

    fn join(&self, session: Hex128, stream: u16) -> TcpStream {
        let mut channel = self.connect();
        let join = Join { session, stream, sockets: Sockets::default() };
        assert_eq!(channel.ask(&Message::Join(join)).unwrap(), Message::Joined);
        channel.into_stream()
    }

    fn ready(&self, streams: u16) -> Near {
        let (channel, welcome) = self.open();
        let streams = (0..streams).map(|n| self.join(welcome.session, n)).collect();
        Near { channel, streams }
    }

    fn ended(&self) -> Vec<(u64, Option<String>)> {
        let ended = |event: &ServerEvent| match event {
            ServerEvent::Ended(_, transfers, why) => Some((*transfers, why.clone())),
            _ => None,
        };
        self.reported.lock().unwrap().iter().filter_map(ended).collect()
    }
}

struct Near {
    channel: Channel,
    streams: Vec<TcpStream>,
}

const MESSAGE: &[u8] = &[0x5a; 1000];

fn work(streams: u16) -> TcpOrder {
    TcpOrder::new(streams, 1000, Direction::Up, OrderedAmount::Messages(300))
}

impl Near {
    fn transfer(&mut self, work: &TcpOrder) -> Result<TcpOutcome, LostTransfer> {
        assert_eq!(self.channel.ask(&Message::Tcp(work.clone())).unwrap(), Message::Ready);
        let (cpus, ledger) = (&PinnedCpus::default(), &CounterSource::new(None));
        let (end, longest, sockets) = (TransferEnd::Client, Duration::from_secs(60), &self.streams[..]);
        let means = TcpMeans { end, sockets, cpus, content: MESSAGE, most: 1e15, longest, ledger };
        transfer(&mut self.channel, work, &means)
    }
}

fn closed_without_a_word(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.read(&mut byte).map_or_else(|e| e.kind() == ErrorKind::ConnectionReset, |n| n == 0)
}

#[test]
fn a_wrong_key_gets_no_answer_and_the_right_one_is_still_let_in() {
    let far = served();
    let mut pending = TcpStream::connect(far.address).unwrap();
    pending.write_all(&Initiator::new(&SharedKey::random().unwrap()).unwrap().1).unwrap();
    assert!(closed_without_a_word(&mut pending));
    let refused = Channel::connect(TcpStream::connect(far.address).unwrap(), &SharedKey::open()).unwrap_err();
    assert!(matches!(refused, WireError::Handshake(HandshakeError::Refused)), "{refused}");
    far.open();
}

#[test]
fn other_protocols_get_no_answer() {
    let far = served();
    for hello in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-x\r\n"]
    {
        let mut pending = TcpStream::connect(far.address).unwrap();
        pending.write_all(hello).unwrap();
        pending.write_all(&[0xff; LENGTH]).unwrap();
        assert!(closed_without_a_word(&mut pending), "{hello:?}");
    }
    far.open();
}

#[test]
fn another_version_is_told_which_is_needed() {
    let far = served();
    let mut old = TcpStream::connect(far.address).unwrap();
    old.write_all(&message_of_version(&far.key, 1)).unwrap();
    let mut answer = [0; LENGTH];
    old.read_exact(&mut answer).unwrap();
    assert!(closed_without_a_word(&mut old));
}

#[test]
fn a_silent_crowd_holds_nobody_up() {
    let far = served();
    // More connections than allowed unauthenticated, and one that sends a byte and stops.
    let mut crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(far.address).unwrap()).collect();
    crowd[99].write_all(&[0]).unwrap();
    let mut near = far.ready(2);
    let outcome = near.transfer(&work(2)).unwrap();
    assert_eq!(outcome.there.unwrap().received.unwrap().bytes, 300_000);
    assert!(closed_without_a_word(&mut crowd[0]), "the oldest went first");
}

#[test]
fn a_replayed_first_message_leads_nowhere() {
    let far = served();
    let (_, first) = Initiator::new(&far.key).unwrap();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(far.address).unwrap();
        stream.write_all(&first).unwrap();
        let mut answer = [0; LENGTH];
        stream.read_exact(&mut answer).unwrap();
        // Without the keys of this answer no frame can be sealed.
        stream.write_all(&[0, 0, 0, 20]).unwrap();
        stream.write_all(&[7; 20]).unwrap();
        assert!(closed_without_a_word(&mut stream));
    }
    assert!(far.reported.lock().unwrap().iter().all(|h| !matches!(h, ServerEvent::Began(_))));
}

#[test]
fn a_first_message_may_come_in_pieces() {
    let far = served();
    let (near, first) = Initiator::new(&far.key).unwrap();
    let mut stream = TcpStream::connect(far.address).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in first {
        stream.write_all(&[byte]).unwrap();
    }
    let mut answer = [0; LENGTH];
    stream.read_exact(&mut answer).unwrap();
    near.finish(&answer).unwrap();
}

#[test]
fn transfers_follow_each_other_in_all_directions() {
    let far = served();
    let mut near = far.ready(3);
    for direction in [Direction::Up, Direction::Down, Direction::Both, Direction::Up] {
        let outcome = near.transfer(&TcpOrder { direction, ..work(3) }).unwrap();
        let there = outcome.there.unwrap();
        let pairs = [(outcome.here.sent, there.received), (there.sent, outcome.here.received)];
        let wanted = [direction != Direction::Down, direction != Direction::Up];
        for ((sent, received), wanted) in pairs.into_iter().zip(wanted) {
            assert_eq!((sent.is_some(), received.is_some()), (wanted, wanted), "{direction:?}");
            if let (Some(sent), Some(received)) = (sent, received) {
                assert_eq!((sent.bytes, received.bytes), (300_000, 300_000));
                assert!(received.counted > 0 && received.nanos > 0 && sent.mss > 0);
            }
        }
    }
    drop(near);
    until("the end", || !far.ended().is_empty());
    assert_eq!(far.ended(), [(4, None)], "closing is how a session ends");
}

#[test]
fn the_ways_to_send_and_receive_carry_the_same_bytes() {
    let far = served();
    let mut near = far.ready(2);
    for sending in [Sending::Copy, Sending::ZeroCopy] {
        let outcome = near.transfer(&TcpOrder { sending, receiving: Receiving::Hash, ..work(2) }).unwrap();
        let expected = (0..150).fold(Fnv::EMPTY, |hash, _| hash.append(MESSAGE)).0;
        assert_eq!(outcome.there.unwrap().received.unwrap().hashes, [expected, expected]);
        let outcome = near.transfer(&TcpOrder { sending, receiving: Receiving::Discard, ..work(2) }).unwrap();
        assert_eq!(outcome.there.unwrap().received.unwrap().bytes, 300_000);
    }
}

#[test]
fn a_time_is_kept_and_what_is_omitted_is_not_counted() {
    let far = served();
    let mut near = far.ready(1);
    let timed = TcpOrder { amount: OrderedAmount::Nanos(50_000_000), omit: 50_000_000, ..work(1) };
    let outcome = near.transfer(&timed).unwrap();
    let (sent, received) = (outcome.here.sent.unwrap(), outcome.there.unwrap().received.unwrap());
    assert!(sent.nanos >= 100_000_000, "both times were sent: {sent:?}");
    assert!(received.counted < received.bytes && received.bytes == sent.bytes);
}

#[test]
fn what_the_caps_forbid_is_refused_and_the_session_goes_on() {
    let far = served_with(|s| {
        s.caps.max_duration = Duration::from_secs(1);
        s.caps.max_streams = 2;
    });
    let (mut channel, welcome) = far.open();
    assert_eq!((welcome.max_streams, welcome.max_nanos), (2, 1_000_000_000));
    let refused = |channel: &mut Channel, tcp: TcpOrder| match channel.ask(&Message::Tcp(tcp)).unwrap() {
        Message::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(&mut channel, TcpOrder { amount: OrderedAmount::Nanos(1_000_000_001), ..work(1) });
    assert!(why.contains("--max-duration"), "{why}");
    let why = refused(&mut channel, work(1));
    assert!(why.contains("not all streams"), "{why}");
    let why = refused(&mut channel, TcpOrder { amount: OrderedAmount::Messages(1), ..work(2) });
    assert!(why.contains("divided"), "{why}");
    let join = |session, stream, congestion: Option<&str>| {
        let sockets = Sockets { congestion: congestion.map(str::to_owned), ..Sockets::default() };
        far.connect().ask(&Message::Join(Join { session, stream, sockets })).unwrap()
    };
    // A stream beyond the limit, and one with a congestion control that needs a privilege.
    for answer in [join(welcome.session, 2, None), join(welcome.session, 0, Some("no-such"))] {
        assert!(matches!(answer, Message::Refused(_)), "{answer:?}");
    }
    let unknown = join(Hex128::random().unwrap(), 0, None);
    assert_eq!(unknown, Message::NoSession { server: welcome.server });
    let streams = vec![far.join(welcome.session, 0)];
    assert!(Near { channel, streams }.transfer(&work(1)).is_ok());
}

#[test]
fn a_rate_cap_holds_in_both_directions() {
    let far = served_with(|s| s.caps.max_rate = 40e6);
    let mut near = far.ready(1);
    for direction in [Direction::Up, Direction::Down] {
        let outcome =
            near.transfer(&TcpOrder { direction, amount: OrderedAmount::Messages(4000), ..work(1) }).unwrap();
        let there = outcome.there.unwrap();
        let seen = outcome.here.received.or(there.received).unwrap();
        // 4 MB at 5 MB/s; some of it may be in buffers ahead.
        assert!(seen.nanos > 100_000_000, "{seen:?}");
    }
}

#[test]
fn messages_out_of_turn_end_the_session_and_no_other() {
    let far = served();
    let mut good = far.ready(1);
    for wrong in [Message::Go, Message::Joined, Message::Sent(vec![1]), Message::Open { other_session: None }]
    {
        let (mut channel, _) = far.open();
        channel.send(&wrong).unwrap();
        let ended = channel.receive(Instant::now() + Duration::from_secs(30));
        assert!(matches!(ended, Err(WireError::Closed)), "{wrong:?}: {ended:?}");
    }
    good.transfer(&work(1)).unwrap();
    until("four ends", || far.ended().len() == 4);
    let wrong = |why: &str| why.starts_with("it sent a message out of turn");
    assert!(far.ended().iter().all(|(_, why)| why.as_deref().is_some_and(wrong)));
}

#[test]
fn a_second_client_is_told_to_wait_and_served_when_the_first_has_gone() {
    let far = served();
    let (mut first, mut second) = (far.ready(1), far.ready(1));
    assert_eq!(first.channel.ask(&Message::Tcp(work(1))).unwrap(), Message::Ready);
    let answer = second.channel.ask(&Message::Tcp(work(1))).unwrap();
    assert!(matches!(answer, Message::Busy { seconds: 1..=5 }), "{answer:?}");
    drop(first);
    until("the second's turn", || match second.channel.ask(&Message::Tcp(work(1))).unwrap() {
        Message::Busy { .. } => false,
        other => other == Message::Ready,
    });
}

#[test]
fn a_session_beside_another_shares_its_turn() {
    let far = served();
    let (mut first, welcome) = far.open();
    let stream = far.join(welcome.session, 0);
    assert_eq!(first.ask(&Message::Tcp(work(1))).unwrap(), Message::Ready);
    let mut channel = far.connect();
    let opened = channel.ask(&Message::Open { other_session: Some(welcome.session) }).unwrap();
    let Message::Welcome(other_session) = opened else { panic!("{opened:?}") };
    let streams = vec![far.join(other_session.session, 0)];
    Near { channel, streams }.transfer(&work(1)).unwrap();
    drop((first, stream));
}

#[test]
fn sessions_are_as_many_as_allowed() {
    let far = served_with(|s| s.caps.max_sessions = 2);
    let one = far.open();
    let _two = far.open();
    let third = far.connect().ask(&Message::Open { other_session: None }).unwrap();
    assert!(matches!(third, Message::Busy { .. }));
    drop(one);
    until("a place", || {
        matches!(far.connect().ask(&Message::Open { other_session: None }), Ok(Message::Welcome(_)))
    });
}

#[test]
fn a_client_that_vanishes_in_a_transfer_frees_its_turn() {
    let far = served();
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let mut gone = far.ready(1);
        let endless = TcpOrder { direction, amount: OrderedAmount::Nanos(30_000_000_000), ..work(1) };
        // The turn of the earlier client ends when the server notices that it is gone.
        until("a turn", || gone.channel.ask(&Message::Tcp(endless.clone())).unwrap() == Message::Ready);
        gone.channel.send(&Message::Go).unwrap();
        drop(gone);
        let mut next = far.ready(1);
        until("the next one's turn", || next.channel.ask(&Message::Tcp(work(1))).unwrap() == Message::Ready);
        drop(next);
    }
}

#[test]
fn a_client_that_falls_silent_in_a_transfer_is_given_up() {
    let far = served();
    let mut silent = far.ready(1);
    let endless =
        TcpOrder { direction: Direction::Down, amount: OrderedAmount::Nanos(30_000_000_000), ..work(1) };
    assert_eq!(silent.channel.ask(&Message::Tcp(endless)).unwrap(), Message::Ready);
    silent.channel.send(&Message::Go).unwrap();
    // It keeps its connections open, but neither reads nor sends.
    until("the end", || !far.ended().is_empty());
    assert_eq!(far.ended(), [(0, Some("it was silent for too long".to_owned()))]);
    let deadline = Instant::now() + Duration::from_secs(30);
    let stated = std::iter::from_fn(|| silent.channel.receive(deadline).ok());
    let why = stated.filter(|message| !matches!(message, Message::Alive)).collect::<Vec<_>>();
    assert!(matches!(&why[..], [Message::Refused(why)] if why.contains("it heard nothing")), "{why:?}");
}

#[test]
fn a_client_that_takes_long_to_begin_is_waited_for() {
    let far = served();
    let mut slow = far.ready(1);
    let both = TcpOrder { direction: Direction::Both, ..work(1) };
    assert_eq!(slow.channel.ask(&Message::Tcp(both.clone())).unwrap(), Message::Ready);
    let begun = Instant::now();
    until("the time of a silence", || begun.elapsed() > 2 * SILENCE);
    assert!(far.ended().is_empty());
    slow.channel.send(&Message::Go).unwrap();
    until("an end by silence after the word to begin", || !far.ended().is_empty());
    assert_eq!(far.ended(), [(0, Some("it was silent for too long".to_owned()))]);
}

#[test]
fn only_allowed_addresses_are_served() {
    let net = Net::parse("192.0.2.0/24").unwrap();
    let far = served_with(|s| s.allow = vec![net]);
    assert!(closed_without_a_word(&mut TcpStream::connect(far.address).unwrap()));
    let contains = |net: &str, ip: &str| Net::parse(net).unwrap().contains(ip.parse().unwrap());
    assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
    assert!(contains("10.0.0.1", "::ffff:10.0.0.1") && contains("0.0.0.0/0", "8.8.8.8"));
    assert!(!contains("0.0.0.0/0", "2001:db8::1") && contains("::/0", "8.8.8.8"));
    assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
    for wrong in ["", "10.0.0.0/33", "::/129", "host", "10.0.0.0/-1", "10.0.0/8"] {
        assert_eq!(Net::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_port_that_is_taken_and_an_address_that_is_not_ours_are_named() {
    let far = served();
    let settings = || settings(&SharedKey::open());
    let error = Server::bind(&[far.address], settings()).unwrap_err().to_string();
    assert!(error.contains(&far.address.to_string()) && error.contains("--port"), "{error}");
    // Documentation address (RFC 5737).
    let error = Server::bind(&["192.0.2.1:0".parse().unwrap()], settings()).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1:0") && error.contains("--bind"), "{error}");
    assert!(!Server::bind_any(0, settings()).unwrap().addresses().is_empty());
}
