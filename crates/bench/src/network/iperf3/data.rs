//! The data streams of an iperf3 test.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::traffic::socket::source;
use crate::traffic::thread_cpu;
use crate::traffic::udp::flow;

/// What a client sends from a new UDP socket, so that the server learns its address. In the machine's byte order.
const HELLO: u32 = 0x3637_3839;
/// The answer to a hello: the current one and that of versions before 3.10.
const ANSWERS: [u32; 3] = [0x3938_3736, HELLO, 987_654_321];
/// A read or write that waits looks up this often.
const LOOK: Duration = Duration::from_millis(20);
/// How long the server may take to answer a hello.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one TCP stream moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
}

/// Opens a UDP stream: says hello until the server answers.
pub(super) fn hello(server: SocketAddr, from: Option<IpAddr>) -> io::Result<UdpSocket> {
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let socket = flow::open(source(from.unwrap_or(any), server))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE / 5))?;
    let deadline = Instant::now() + PATIENCE;
    // Said once only: the server would take a second hello for that of the next stream.
    socket.send(&HELLO.to_ne_bytes())?;
    while Instant::now() < deadline {
        let mut answer = [0; 64];
        match socket.recv(&mut answer) {
            Ok(4) if ANSWERS.iter().any(|a| answer[..4] == a.to_ne_bytes()) => return Ok(socket),
            // Data of a stream before it.
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// Writes messages until the time is over or so many are written.
pub(super) fn write(
    mut stream: &TcpStream,
    message: &[u8],
    until: flow::Until,
    stop: &AtomicBool,
) -> io::Result<Moved> {
    stream.set_write_timeout(Some(LOOK))?;
    let (started, cpu) = (Instant::now(), thread_cpu());
    let (mut bytes, mut held) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let over = match until {
            flow::Until::Elapsed(time) => started.elapsed() >= time,
            flow::Until::Datagrams(count) => bytes >= count.saturating_mul(message.len() as u64),
        };
        if over {
            break;
        }
        match stream.write(&message[held..]) {
            Ok(count) => {
                bytes += count as u64;
                held = (held + count) % message.len();
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Moved { bytes, elapsed: started.elapsed(), cpu: thread_cpu().saturating_sub(cpu) })
}

/// Reads until the time is over, then on without counting until told to stop, so that the server can end.
pub(super) fn read(mut stream: &TcpStream, time: Duration, stop: &AtomicBool) -> io::Result<Moved> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut buffer = vec![0; 128 << 10];
    let (started, cpu) = (Instant::now(), thread_cpu());
    let mut moved = Moved::default();
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let elapsed = started.elapsed();
                if elapsed <= time {
                    moved.bytes += count as u64;
                    moved.elapsed = elapsed;
                    moved.cpu = thread_cpu().saturating_sub(cpu);
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The server closes its end when the test is over.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) => return Err(e),
        }
    }
    Ok(moved)
}
