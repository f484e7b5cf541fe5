//! A server that follows the protocol up to some phase and then disappears: the client reports it
//! in one line, and nothing hangs.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use plimsoll_bench_network::{Address, ServerLocation, ServerSession};
use plimsoll_model::sample::{CannotMeasure, FailureCause};
use plimsoll_server::wire::handshake::{LENGTH, respond};
use plimsoll_server::wire::{
    Channel, Direction, Hex128, Message, OrderedAmount, Receiving, Sending, Shaping, SharedKey, Sockets,
    TcpOrder, Welcome, WireError,
};

/// Phase in which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Connected,
    Shaken,
    Welcomed,
    StreamShaken,
    Joined,
    Asked,
    Ready,
    Going,
    Sent,
}

const PHASES: [Phase; 9] = [
    Phase::Connected,
    Phase::Shaken,
    Phase::Welcomed,
    Phase::StreamShaken,
    Phase::Joined,
    Phase::Asked,
    Phase::Ready,
    Phase::Going,
    Phase::Sent,
];

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

/// Plays the server until the end of `last`, and then closes all that is open.
fn play(listener: &TcpListener, key: &SharedKey, last: Phase) -> Result<(), WireError> {
    let (stream, _) = listener.accept()?;
    if last == Phase::Connected {
        return Ok(());
    }
    let mut control = shaken(stream, key);
    if last == Phase::Shaken {
        return Ok(());
    }
    control.receive(soon())?;
    let welcome = Welcome {
        session: Hex128::random().unwrap(),
        server: Hex128::random().unwrap(),
        max_streams: 1,
        max_nanos: 60_000_000_000,
        max_rate: 1 << 40,
        shaping: Shaping::default(),
        carrier: None,
    };
    control.send(&Message::Welcome(welcome))?;
    if last == Phase::Welcomed {
        return Ok(());
    }
    let mut joined = shaken(listener.accept()?.0, key);
    if last == Phase::StreamShaken {
        return Ok(());
    }
    joined.receive(soon())?;
    joined.send(&Message::Joined)?;
    let mut stream = joined.into_stream();
    if last == Phase::Joined {
        return Ok(());
    }
    control.receive(soon())?;
    if last == Phase::Asked {
        return Ok(());
    }
    control.send(&Message::Ready)?;
    if last == Phase::Ready {
        return Ok(());
    }
    while control.receive(soon())? != Message::Go {}
    if last == Phase::Going {
        return Ok(());
    }
    // Whichever end sends, the data is not used, and the server reports that its own part is 0.
    control.send(&Message::Sent(vec![0]))?;
    let _ = stream.read(&mut [0; 1000])?;
    Ok(())
}

fn near_end(address: SocketAddr, key: &SharedKey, direction: Direction) -> Result<(), CannotMeasure> {
    let address = Address::parse(&address.to_string()).unwrap();
    let mut far = ServerSession::open(&ServerLocation::Server { address, key: key.clone() }, None)?;
    far.join(1, &Sockets::default(), None)?;
    let work = TcpOrder {
        streams: 1,
        message: 1000,
        direction,
        amount: OrderedAmount::Nanos(50_000_000_000),
        omit: 0,
        sending: Sending::Copy,
        receiving: Receiving::Copy,
        place: 0,
    };
    far.transfer(&work, &[7; 1000], &Default::default()).map(|_| ())
}

#[test]
fn a_far_end_that_is_gone_in_any_phase_is_a_far_end_failure_in_one_line() {
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        for last in PHASES {
            // Down, this end has nothing to send that the last phase could wait for.
            if direction == Direction::Down && last == Phase::Sent {
                continue;
            }
            let (listener, key) = (TcpListener::bind("127.0.0.1:0").unwrap(), SharedKey::random().unwrap());
            let address = listener.local_addr().unwrap();
            let error = std::thread::scope(|scope| {
                let far = scope.spawn(|| {
                    let played = play(&listener, &key, last);
                    drop(listener);
                    played
                });
                let error = near_end(address, &key, direction).unwrap_err();
                // Whether its last words were heard is nothing to this test.
                let _ = far.join().unwrap();
                error
            });
            assert_eq!(error.cause, FailureCause::ServerFailed, "{direction:?} {last:?}: {error}");
            let named = error.reason.contains(&address.to_string());
            assert!(named && error.reason.lines().count() == 1, "{direction:?} {last:?}: {error}");
        }
    }
}
