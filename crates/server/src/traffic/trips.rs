//! Server side of round trips: echoes each message until the client has enough.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::account::CounterSource;
use super::team::{ThreadTeam, joined};
use super::{
    LostTransfer, PinnedCpus, SharedTransfer, Supervision, nanos, nothing_yet, thread_cpu_time, udp,
    unless_nothing_yet, wait_for,
};
use crate::wire::{Channel, Echoed, Message, RESULTS, Trip, TripsOrder, WaitMode, WireError};

const WAIT_LOOK_TIME: Duration = Duration::from_millis(20);
const CONNECTION: Duration = Duration::from_secs(2);

/// Echoes messages on all streams until the client sends `Enough`, then sends it the counts. By
/// `work.trip`, messages arrive on the UDP sockets, the joined TCP streams or new connections.
pub fn serve(
    channel: &mut Channel,
    work: &TripsOrder,
    (sockets, joined_streams): (&[UdpSocket], &[TcpStream]),
    cpus: &PinnedCpus,
    ledger: &CounterSource,
) -> Result<(), LostTransfer> {
    let streams = usize::from(work.streams);
    let shared = SharedTransfer::new(streams).map_err(LostTransfer::Here)?;
    let before = ledger.read();
    let (local, remote) = channel.addresses().map_err(LostTransfer::Here)?;
    let listener = (work.trip == Trip::Connect).then(|| listen(local)).transpose();
    let listener = listener.map_err(LostTransfer::Here)?;
    let echo = |number: usize| {
        let mut buffer = vec![0; work.message as usize + 1];
        let cpu = thread_cpu_time();
        let messages = match &listener {
            Some(listener) => by_connections(listener, remote.ip(), work, &mut buffer[1..], &shared.stop)?,
            None if work.trip == Trip::Udp => by_udp(&sockets[number], work, &mut buffer, &shared.stop)?,
            None => by_tcp(&joined_streams[number], work, &mut buffer[1..], &shared.stop)?,
        };
        Ok((messages, thread_cpu_time().saturating_sub(cpu)))
    };
    let done = std::thread::scope(|scope| {
        let (shared, echo) = (&shared, &echo);
        let works = (0..streams).map(|number| move || echo(number));
        let team = ThreadTeam { name: "echo", done: &shared.receivers_done, shared, cpus, first: 0 };
        let watched = team.start(scope, works).and_then(|threads| {
            watch(channel, work, listener.as_ref(), shared)?;
            Ok(threads)
        });
        shared.stop.store(true, Ordering::Relaxed);
        joined(watched?)
    })?;
    let echoed = Echoed {
        messages: done.iter().map(|(messages, _)| messages).sum(),
        cpu_nanos: nanos(done.iter().map(|(_, cpu)| *cpu).sum()),
        account: before.difference_to(&ledger.read()),
    };
    Ok(channel.send(&Message::Echoed(Box::new(echoed)))?)
}

fn listen(mut local: SocketAddr) -> io::Result<TcpListener> {
    local.set_port(0);
    let listener = TcpListener::bind(local)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn watch(
    channel: &mut Channel,
    work: &TripsOrder,
    listener: Option<&TcpListener>,
    shared: &SharedTransfer,
) -> Result<(), LostTransfer> {
    let ready = match listener {
        Some(listener) => {
            let port = listener.local_addr().map_err(LostTransfer::Here)?.port();
            Message::Port(port.try_into().map_err(|e| LostTransfer::Here(io::Error::other(e)))?)
        }
        None => Message::Ready,
    };
    channel.send(&ready)?;
    let mut supervision =
        Supervision::answering_only(channel, shared, Duration::from_nanos(work.longest) + RESULTS);
    while shared.receivers_done.load(Ordering::Acquire) == 0 {
        match supervision.await_next()? {
            None => {}
            Some(Message::Enough) => return Ok(()),
            Some(_) => return Err(WireError::OutOfTurn.into()),
        }
    }
    Ok(())
}

fn by_udp(socket: &UdpSocket, work: &TripsOrder, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<u64> {
    socket.set_nonblocking(work.waiting == WaitMode::Poll)?;
    socket.set_read_timeout(Some(WAIT_LOOK_TIME))?;
    socket.set_write_timeout(Some(WAIT_LOOK_TIME))?;
    let mut messages = 0;
    while !stop.load(Ordering::Relaxed) {
        let echoed = socket.recv(buffer).and_then(|count| match count == work.message as usize {
            true => socket.send(&buffer[..count]).map(|_| 1),
            // A datagram of another size is foreign, and is not answered.
            false => Ok(0),
        });
        match echoed {
            Ok(count) => messages += count,
            Err(e) if nothing_yet(&e) || udp::ports::is_gone(&e) => {}
            Err(e) => return Err(e),
        }
    }
    socket.set_nonblocking(false)?;
    Ok(messages)
}

fn by_tcp(stream: &TcpStream, work: &TripsOrder, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<u64> {
    stream.set_nonblocking(work.waiting == WaitMode::Poll)?;
    stream.set_read_timeout(Some(WAIT_LOOK_TIME))?;
    stream.set_write_timeout(Some(RESULTS))?;
    let mut messages = 0;
    while read_whole(stream, buffer, None, stop)? {
        write_whole(stream, buffer, stop)?;
        messages += 1;
    }
    stream.set_nonblocking(false)?;
    Ok(messages)
}

/// Fills `message`. Returns false if the stream ends, `deadline` passes or `stop` is true before.
fn read_whole(
    mut stream: &TcpStream,
    message: &mut [u8],
    deadline: Option<Instant>,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let mut held = 0;
    while held < message.len() {
        if stop.load(Ordering::Relaxed) || deadline.is_some_and(|end| Instant::now() >= end) {
            return Ok(false);
        }
        match unless_nothing_yet(stream.read(&mut message[held..]))? {
            Some(0) => return Ok(false),
            count => held += count.unwrap_or(0),
        }
    }
    Ok(true)
}

fn write_whole(mut stream: &TcpStream, message: &[u8], stop: &AtomicBool) -> io::Result<()> {
    let mut rest = message;
    while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(e) if nothing_yet(&e) => drop(wait_for(stream, PollFlags::OUT, WAIT_LOOK_TIME)?),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Echoes one message per connection from `remote` until `stop`. Returns the number of messages.
fn by_connections(
    listener: &TcpListener,
    remote: IpAddr,
    work: &TripsOrder,
    buffer: &mut [u8],
    stop: &AtomicBool,
) -> io::Result<u64> {
    let mut messages = 0;
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, from)) if from.ip().to_canonical() == remote.to_canonical() => {
                messages += u64::from(by_connection(&stream, work, buffer, stop).unwrap_or(false));
            }
            Ok(_) => {}
            Err(_) if work.waiting == WaitMode::Poll => {}
            Err(_) => drop(wait_for(listener, PollFlags::IN, WAIT_LOOK_TIME)?),
        }
    }
    Ok(messages)
}

fn by_connection(
    stream: &TcpStream,
    work: &TripsOrder,
    message: &mut [u8],
    stop: &AtomicBool,
) -> io::Result<bool> {
    let deadline = Instant::now() + CONNECTION;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(work.waiting == WaitMode::Poll)?;
    stream.set_read_timeout(Some(WAIT_LOOK_TIME))?;
    stream.set_write_timeout(Some(WAIT_LOOK_TIME))?;
    let has_arrived = read_whole(stream, message, Some(deadline), stop)?;
    if has_arrived {
        write_whole(stream, message, stop)?;
    }
    Ok(has_arrived)
}
