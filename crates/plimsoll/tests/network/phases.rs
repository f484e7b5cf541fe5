//! A server that disappears after some phase of the protocol: the client reports it in one line.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use plimsoll_bench_network::{Address, ServerLocation, ServerSession};
use plimsoll_model::sample::{CannotMeasure, FailureCause};
use plimsoll_server::wire::handshake::{LENGTH, respond};
use plimsoll_server::wire::{
    Channel, Direction, Hex128, Message, OrderedAmount, Shaping, SharedKey, Sockets, TcpOrder, Welcome,
};

/// Phases after which it may end: it accepts, shakes hands, welcomes the client, shakes hands for a
/// stream, lets it join, receives the order, is ready, goes, and has sent its part.
const PHASES: usize = 9;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn shaken(mut stream: TcpStream, key: &SharedKey) -> Channel {
    let mut first = [0; LENGTH];
    stream.read_exact(&mut first).unwrap();
    let answer = respond(key, &first).unwrap();
    std::io::Write::write_all(&mut stream, &answer.message).unwrap();
    Channel::new(stream, answer.transport.unwrap())
}

/// Plays the server for a number of phases, and then closes all that is open.
fn play(listener: &TcpListener, key: &SharedKey, phases: usize) -> Option<()> {
    let mut left = 1..phases;
    let mut next = || left.next().map(|_| ());
    let (stream, _) = listener.accept().ok()?;
    next()?;
    let mut control = shaken(stream, key);
    next()?;
    control.receive(soon()).ok()?;
    let welcome = Welcome {
        session: Hex128::random().unwrap(),
        server: Hex128::random().unwrap(),
        max_streams: 1,
        max_nanos: 60_000_000_000,
        max_rate: 1 << 40,
        shaping: Shaping::default(),
        carrier: None,
    };
    control.send(&Message::Welcome(welcome)).ok()?;
    next()?;
    let mut joined = shaken(listener.accept().ok()?.0, key);
    next()?;
    joined.receive(soon()).ok()?;
    joined.send(&Message::Joined).ok()?;
    let mut stream = joined.into_stream();
    next()?;
    control.receive(soon()).ok()?;
    next()?;
    control.send(&Message::Ready).ok()?;
    next()?;
    while control.receive(soon()).ok()? != Message::Go {}
    next()?;
    // Whichever end sends, the data is not used, and the server reports that its own part is 0.
    control.send(&Message::Sent(vec![0])).ok()?;
    let _ = stream.read(&mut [0; 1000]).ok()?;
    Some(())
}

fn near_end(address: SocketAddr, key: &SharedKey, direction: Direction) -> Result<(), CannotMeasure> {
    let address = Address::parse(&address.to_string()).unwrap();
    let mut far = ServerSession::open(&ServerLocation::Server { address, key: key.clone() }, None)?;
    far.join(1, &Sockets::default())?;
    let work = TcpOrder::new(1, 1000, direction, OrderedAmount::Nanos(50_000_000_000));
    far.transfer(&work, &[7; 1000], &Default::default()).map(|_| ())
}

#[test]
fn a_far_end_that_is_gone_in_any_phase_is_a_far_end_failure_in_one_line() {
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        // Down, this end has nothing to send that the last phase could wait for.
        for phases in 1..=PHASES - usize::from(direction == Direction::Down) {
            let (listener, key) = (TcpListener::bind("127.0.0.1:0").unwrap(), SharedKey::random().unwrap());
            let address = listener.local_addr().unwrap();
            let error = std::thread::scope(|scope| {
                scope.spawn(|| {
                    play(&listener, &key, phases);
                    drop(listener);
                });
                near_end(address, &key, direction).unwrap_err()
            });
            assert_eq!(error.cause, FailureCause::ServerFailed, "{direction:?} {phases}: {error}");
            let named = error.reason.contains(&address.to_string());
            assert!(named && error.reason.lines().count() == 1, "{direction:?} {phases}: {error}");
        }
    }
}
