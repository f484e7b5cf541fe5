//! Both ends' behaviour without processes: a far end in a thread, strangers at its door, and transfers by hand.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::far_end::{FarEndError, Orders, Ready, serve};
use super::near_end::connect;
use super::protocol::{Fnv, Header, MAX_MESSAGE, Op, Report, Token, WELCOME, first_byte, read_exact_by};
use super::*;
use crate::case::Value;

/// A far end in a thread of this process.
struct Served {
    address: SocketAddr,
    token: Token,
    orders: PipeWriter,
    thread: JoinHandle<Result<(), FarEndError>>,
}

fn pipes() -> (PipeReader, PipeWriter) {
    std::io::pipe().unwrap()
}

fn served() -> Served {
    let (input, mut orders) = pipes();
    let (mut answers, output) = pipes();
    let token = Token::random();
    let line = serde_json::to_string(&Orders { token: token.to_hex(), cpu: None }).unwrap();
    writeln!(orders, "{line}").unwrap();
    let thread = std::thread::spawn(move || serve(input, output));
    let mut line = String::new();
    let mut byte = [0];
    while !line.ends_with('\n') {
        answers.read_exact(&mut byte).unwrap();
        line.push(char::from(byte[0]));
    }
    let Ready::Port(port) = serde_json::from_str(&line).unwrap() else { panic!("no port: {line}") };
    Served { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), token, orders, thread }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Whether the other side closes without having sent a byte.
fn closed_without_a_word(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    match stream.read(&mut byte) {
        Ok(n) => n == 0,
        Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Sends `count` messages of `size` bytes, the last marked, and returns what was sent.
fn send(stream: &mut TcpStream, op: Op, size: u32, count: u64) -> Vec<u8> {
    let mut sent = Vec::new();
    for number in 0..count {
        sent.push(first_byte(number, number + 1 == count));
        sent.extend((1..size).map(|i| (i % 251) as u8));
    }
    stream.write_all(&Header { op, message: size }.encode()).unwrap();
    stream.write_all(&sent).unwrap();
    sent
}

fn report(stream: &mut TcpStream) -> Report {
    let mut bytes = [0; Report::SIZE];
    read_exact_by(stream, &mut bytes, soon()).unwrap();
    Report::decode(&bytes)
}

#[test]
fn a_wrong_token_gets_no_answer_and_the_right_one_is_still_let_in() {
    let far = served();
    let mut stranger = TcpStream::connect(far.address).unwrap();
    stranger.write_all(Token::random().bytes()).unwrap();
    assert!(closed_without_a_word(&mut stranger));
    assert!(connect(far.address, &far.token).is_ok());
}

#[test]
fn other_protocols_get_no_answer() {
    let far = served();
    for hello in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaa",
        &[0xff; 16],
    ] {
        let mut stranger = TcpStream::connect(far.address).unwrap();
        stranger.write_all(hello).unwrap();
        assert!(closed_without_a_word(&mut stranger), "{hello:?}");
    }
    assert!(connect(far.address, &far.token).is_ok());
}

#[test]
fn a_silent_crowd_holds_nobody_up() {
    let far = served();
    // More than may wait at the door, and one that sends a byte and stops.
    let mut crowd: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(far.address).unwrap()).collect();
    crowd[39].write_all(&[0]).unwrap();
    let mut near = connect(far.address, &far.token).unwrap();
    send(&mut near, Op::Stream, 10, 3);
    assert_eq!(report(&mut near).bytes, 30);
    // The door is shut behind the one who knew the token.
    assert!(closed_without_a_word(&mut crowd[39]));
    assert!(TcpStream::connect(far.address).is_err());
}

#[test]
fn a_token_may_come_in_pieces() {
    let far = served();
    let mut near = TcpStream::connect(far.address).unwrap();
    near.set_nodelay(true).unwrap();
    for byte in far.token.bytes() {
        near.write_all(&[*byte]).unwrap();
    }
    let mut welcome = [0; WELCOME.len()];
    read_exact_by(&mut near, &mut welcome, soon()).unwrap();
    assert_eq!(welcome, WELCOME);
}

#[test]
fn transfers_follow_each_other_and_are_counted_and_hashed() {
    let far = served();
    let mut near = connect(far.address, &far.token).unwrap();
    for (size, count) in [(1, 1), (1, 1000), (1000, 37), (MAX_MESSAGE, 2)] {
        send(&mut near, Op::Stream, size, count);
        let seen = report(&mut near);
        assert_eq!((seen.bytes, seen.hash), (u64::from(size) * count, 0));
        assert!(seen.nanos > 0 && seen.cpu_nanos > 0);
    }
    let sent = send(&mut near, Op::Checked, 1000, 50);
    assert_eq!(report(&mut near).hash, Fnv::EMPTY.with(&sent).0);
    drop(near);
    assert!(far.thread.join().unwrap().is_ok(), "closing between transfers is how a session ends");
}

#[test]
fn echoes_are_what_was_sent() {
    let far = served();
    let mut near = connect(far.address, &far.token).unwrap();
    let sent = send(&mut near, Op::Echo, 100, 5);
    let mut echo = vec![0; sent.len()];
    read_exact_by(&mut near, &mut echo, soon()).unwrap();
    assert_eq!(echo, sent);
    assert_eq!(report(&mut near).bytes, 500);
}

#[test]
fn an_unknown_transfer_or_surplus_bytes_end_the_session() {
    for after in [&[9u8, 0, 0, 0, 1][..], &[1, 0xff, 0xff, 0xff, 0xff], &[1, 0, 0, 0, 1, 1, 1]] {
        let far = served();
        let mut near = connect(far.address, &far.token).unwrap();
        near.write_all(after).unwrap();
        assert!(matches!(far.thread.join().unwrap(), Err(FarEndError::Io { .. })), "{after:?}");
    }
}

#[test]
fn it_ends_when_its_parent_is_gone() {
    let far = served();
    let near = connect(far.address, &far.token).unwrap();
    drop(far.orders);
    assert!(far.thread.join().unwrap().is_ok());
    drop(near);
}

#[test]
fn wrong_orders_are_refused() {
    for orders in
        ["", "\n", "{}\n", "{\"token\":\"00\",\"cpu\":null}\n", "{\"token\":1}\n", &"x".repeat(100_000)]
    {
        let ended = serve(std::io::Cursor::new(orders.to_owned().into_bytes()), std::io::sink());
        assert!(matches!(ended, Err(FarEndError::Orders)), "{orders:.20}");
    }
}

#[test]
fn a_far_end_that_is_none_is_a_far_end_failure() {
    // `true` ignores its arguments and says nothing; `cat` answers the orders with themselves.
    for program in ["/bin/true", "/bin/cat"] {
        let error = FarEnd::start(std::path::Path::new(program), None).unwrap_err();
        assert_eq!(error.cause, crate::sample::Cause::FarEnd, "{error}");
        assert_eq!(error.reason.lines().count(), 1);
    }
    let error = FarEnd::start(std::path::Path::new("/nonexistent"), None).unwrap_err();
    assert_eq!(error.cause, crate::sample::Cause::Environment);
}

#[test]
fn lists_become_cases_and_what_is_not_measured_yet_is_refused() {
    use crate::bench::Benchmark;
    let machine = Machine::discover(&crate::machine::Root::live());
    let ids = |benchmark: &dyn Benchmark, group: &Group| {
        let candidates = benchmark.cases(&machine, group)?;
        Ok::<_, String>(candidates.iter().map(|c| c.case.to_string()).collect::<Vec<_>>())
    };
    let group = Group::default();
    assert_eq!(ids(&Tcp, &group).unwrap(), ["network.tcp/message=64K/streams=1/direction=up"]);
    assert_eq!(ids(&Latency, &group).unwrap(), ["network.latency/protocol=tcp/message=1/streams=1"]);
    let two = Group::default().with("message", vec![Value::Size(1), Value::Size(1 << 20)]);
    assert_eq!(ids(&Tcp, &two).unwrap().len(), 2);
    for (key, value) in [
        ("message", Value::Size(0)),
        ("message", Value::Size((1 << 20) + 1)),
        ("streams", Value::Count(2)),
        ("direction", Value::Word("down".to_owned())),
    ] {
        let error = ids(&Tcp, &Group::default().with(key, vec![value])).unwrap_err();
        assert!(error.starts_with(key) && error.contains("write "), "{error}");
    }
    let udp = Group::default().with("protocol", vec![Value::Word("udp".to_owned())]);
    assert!(ids(&Latency, &udp).is_err());
}
