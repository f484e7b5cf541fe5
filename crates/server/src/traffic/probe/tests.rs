//! Round trips over paths that lose, delay, double and change messages, and over real sockets.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use super::path::{ConnectPath, IcmpPath, TcpPath, UdpPath};
use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Echo,
    Twice,
    Lose,
    Change,
    /// A foreign message arrives instead.
    Foreign,
    /// It arrives with the next one.
    Hold,
    /// It arrives after the timeout, before the wait for it ends.
    Slow,
}

struct Fated {
    is_stream: bool,
    fates: Vec<Fate>,
    turn: usize,
    coming: VecDeque<Vec<u8>>,
    held: Vec<Vec<u8>>,
}

impl Fated {
    fn new(fates: &[Fate]) -> Self {
        Fated { is_stream: false, fates: fates.to_vec(), turn: 0, coming: VecDeque::new(), held: Vec::new() }
    }
}

impl TripPath for Fated {
    fn is_stream(&self) -> bool {
        self.is_stream
    }

    fn set_wait(&mut self, _: WaitMode, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let fate = self.fates[self.turn % self.fates.len()];
        self.turn += 1;
        self.coming.extend(self.held.drain(..));
        match fate {
            Fate::Echo => self.coming.push_back(message.to_vec()),
            Fate::Twice => self.coming.extend([message.to_vec(), message.to_vec()]),
            Fate::Lose => {}
            Fate::Change => self.coming.push_back([&[message[0] ^ 0x80][..], &message[1..]].concat()),
            Fate::Foreign => self.coming.push_back(message.iter().map(|byte| byte ^ 0x80).collect()),
            Fate::Hold => self.held.push(message.to_vec()),
            Fate::Slow => {
                std::thread::sleep(2 * SOON);
                self.coming.push_back(message.to_vec());
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.coming.pop_front().map(|message| {
            buffer[..message.len()].copy_from_slice(&message);
            message.len()
        }))
    }
}

fn manner(trips: u64, timeout: Duration) -> RoundTripOptions {
    let until = OrderedAmount::Messages(trips);
    RoundTripOptions { wait: WaitMode::Block, timeout, interval: Duration::ZERO, until }
}

/// Makes round trips with messages of this size.
fn trips(path: &mut impl TripPath, size: usize, manner: RoundTripOptions) -> TripResults {
    round_trips(path, &mut Payload::new(vec![1; size]), 0, manner, &NEVER).unwrap()
}

const SOON: Duration = Duration::from_millis(20);
static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn every_fate_is_counted_as_what_it_is() {
    use Fate::{Change, Echo, Foreign, Hold, Lose, Slow, Twice};
    let mut path = Fated::new(&[Echo, Twice, Foreign, Lose, Change, Hold, Echo, Slow]);
    let trips = trips(&mut path, 100, manner(80, SOON));
    assert_eq!((trips.sent, trips.lost, trips.returned()), (80, 50, 30));
    // The second copy, the held and the slow one; the changed one; the foreign one.
    assert_eq!((trips.late, trips.wrong, trips.foreign), (30, 10, 10));
    assert_eq!(trips.times.count(), trips.returned());
    assert!(trips.total <= trips.elapsed);
}

#[test]
fn messages_leave_an_interval_apart_however_quick_the_echo() {
    let interval = Duration::from_millis(2);
    for wait in [WaitMode::Block, WaitMode::Poll] {
        let manner = RoundTripOptions { wait, interval, ..manner(5, Duration::from_secs(20)) };
        let mut path = Fated::new(&[Fate::Echo]);
        let paced = trips(&mut path, 100, manner);
        assert_eq!((paced.sent, paced.returned()), (5, 5));
        assert!(paced.elapsed >= interval * 4, "{:?}", paced.elapsed);
        assert!(paced.total < paced.elapsed, "the pauses are not in the times");
        // At least one, however short the time.
        let short = RoundTripOptions { until: OrderedAmount::Nanos(0), ..manner };
        assert_eq!(trips(&mut path, 100, short).sent, 1);
    }
}

#[test]
fn a_message_that_comes_back_changed_is_no_loss_of_the_other_end() {
    // TCP's default is one byte: any byte may be the number of an earlier message.
    for (size, is_stream) in [(1, true), (100, true), (100, false)] {
        let mut path = Fated { is_stream, ..Fated::new(&[Fate::Change]) };
        let trips = trips(&mut path, size, manner(1 << 40, SOON));
        assert!(trips.wrong > 0 && trips.returned() == 0, "{size} {is_stream}: {trips:?}");
    }
    // A lost message may also arrive late over a stream.
    let mut path = Fated { is_stream: true, ..Fated::new(&[Fate::Hold, Fate::Echo]) };
    let held = trips(&mut path, 1, manner(10, SOON));
    assert_eq!((held.sent, held.late, held.wrong), (10, 5, 0));
}

#[test]
fn where_nobody_answers_it_ends_with_an_error() {
    let mut path = Fated::new(&[Fate::Lose]);
    let error =
        round_trips(&mut path, &mut Payload::new(vec![1]), 0, manner(1 << 40, SOON), &NEVER).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn it_ends_when_it_is_told_to() {
    let stop = AtomicBool::new(true);
    let mut path = Fated::new(&[Fate::Echo]);
    let trips = round_trips(&mut path, &mut Payload::new(vec![1]), 0, manner(1 << 40, SOON), &stop).unwrap();
    assert_eq!(trips.sent, 0);
}

/// Checks that messages of these sizes come back in both ways to wait.
fn assert_all_come_back(mut path: impl TripPath, sizes: &[usize], trips: u64) {
    for (size, wait) in sizes.iter().flat_map(|size| [(*size, WaitMode::Block), (*size, WaitMode::Poll)]) {
        let manner = RoundTripOptions { wait, ..manner(trips, Duration::from_secs(20)) };
        let made = round_trips(&mut path, &mut Payload::new(vec![7; size]), 5, manner, &NEVER).unwrap();
        let counts = (made.sent, made.lost, made.late, made.wrong);
        assert_eq!(counts, (trips, 0, 0, 0), "{size} {wait:?}");
    }
}

#[test]
fn udp_messages_of_all_sizes_come_back_in_both_modes() {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = far.recv(&mut buffer) {
            far.send(&buffer[..n]).unwrap();
        }
    });
    assert_all_come_back(UdpPath(&near), &[1, 1024, 8192, 65_507], 20);
    near.send(&[]).unwrap();
}

#[test]
fn tcp_messages_of_all_sizes_come_back_in_both_modes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    std::thread::spawn(move || io::copy(&mut &far, &mut &far));
    // The echo server returns data in pieces: both directions are never full at once.
    assert_all_come_back(TcpPath::new(&near).unwrap(), &[1, 1024, 65_536, 1 << 20], 5);
}

#[test]
fn a_new_connection_for_each_message() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(40) {
            let mut stream = stream.unwrap();
            let mut message = [0; 100];
            stream.read_exact(&mut message).unwrap();
            stream.write_all(&message).unwrap();
        }
    });
    assert_all_come_back(ConnectPath::new(address), &[100], 20);
}

#[test]
fn nobody_at_a_port_is_an_error_and_no_loss() {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    near.connect(gone).unwrap();
    let manner = manner(10, Duration::from_secs(20));
    let error = round_trips(&mut UdpPath(&near), &mut Payload::new(vec![7]), 0, manner, &NEVER).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let mut path = ConnectPath::new(nobody);
    assert!(round_trips(&mut path, &mut Payload::new(vec![7]), 0, manner, &NEVER).is_err());
}

#[test]
fn the_kernel_answers_icmp_where_this_user_may_ask() {
    let mut path = match IcmpPath::new((Ipv4Addr::LOCALHOST, 0).into()) {
        Ok(path) => path,
        Err(e) => {
            assert_eq!(e.kind(), io::ErrorKind::PermissionDenied);
            return;
        }
    };
    for size in [1, 56, 1024] {
        let manner = manner(20, Duration::from_secs(5));
        let trips = trips(&mut path, size, manner);
        assert_eq!((trips.returned() + trips.lost, trips.wrong), (20, 0));
        assert!(trips.returned() > 0);
    }
}
