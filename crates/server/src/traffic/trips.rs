//! Server side of round trips: echoes each message until the client has enough.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::account::CounterSource;
use super::team::{ThreadTeam, joined};
use super::{
    LostTransfer, ObservedEvent, PinnedCpus, SharedTransfer, Supervision, nanos, nothing_yet, thread_cpu, udp,
};
use crate::wire::{Channel, Echoed, Message, RESULTS, Trip, TripsOrder, WaitMode, WireError};

const WAIT_LOOK_TIME: Duration = Duration::from_millis(20);
const CONNECTION: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Default)]
struct TripsDone {
    messages: u64,
    cpu: Duration,
}

enum MessageLine<'a> {
    Udp(&'a UdpSocket),
    Tcp(&'a TcpStream),
    Connect(&'a TcpListener, IpAddr),
}

/// Echoes messages on all streams until the client has enough, then sends it the counts. They
/// arrive on the connected UDP sockets, the joined streams, or a port of their own.
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
    let line = |number: usize| match work.trip {
        Trip::Udp => sockets.get(number).map(MessageLine::Udp),
        Trip::Tcp => joined_streams.get(number).map(MessageLine::Tcp),
        Trip::Connect => listener.as_ref().map(|l| MessageLine::Connect(l, remote.ip())),
    };
    let done = std::thread::scope(|scope| {
        let shared = &shared;
        let works = (0..streams).filter_map(line).map(|line| move || echo(&line, work, shared));
        let team = ThreadTeam { name: "echo", done: &shared.receivers_done, shared, cpus, first: 0 };
        let watched = team.start(scope, works).and_then(|threads| {
            watch(channel, work, listener.as_ref(), shared)?;
            Ok(threads)
        });
        shared.stop.store(true, Ordering::Relaxed);
        joined(watched?)
    })?;
    let echoed = Echoed {
        messages: done.iter().map(|d| d.messages).sum(),
        cpu_nanos: nanos(done.iter().map(|d| d.cpu).sum()),
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
            ObservedEvent::Local => {}
            ObservedEvent::Message(Message::Enough) => return Ok(()),
            ObservedEvent::Message(_) => return Err(WireError::OutOfTurn.into()),
        }
    }
    Ok(())
}

fn echo(line: &MessageLine<'_>, work: &TripsOrder, shared: &SharedTransfer) -> io::Result<TripsDone> {
    let mut buffer = vec![0; work.message as usize + 1];
    let cpu = thread_cpu();
    let messages = match line {
        MessageLine::Udp(socket) => by_udp(socket, work, &mut buffer, shared)?,
        MessageLine::Tcp(stream) => by_tcp(stream, work, &mut buffer[1..], shared)?,
        MessageLine::Connect(listener, remote) => {
            by_connections(listener, *remote, work, &mut buffer, shared)?
        }
    };
    Ok(TripsDone { messages, cpu: thread_cpu().saturating_sub(cpu) })
}

fn by_udp(
    socket: &UdpSocket,
    work: &TripsOrder,
    buffer: &mut [u8],
    shared: &SharedTransfer,
) -> io::Result<u64> {
    socket.set_nonblocking(work.waiting == WaitMode::Poll)?;
    socket.set_read_timeout(Some(WAIT_LOOK_TIME))?;
    socket.set_write_timeout(Some(WAIT_LOOK_TIME))?;
    let mut messages = 0;
    while !shared.stop.load(Ordering::Relaxed) {
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

fn by_tcp(
    mut stream: &TcpStream,
    work: &TripsOrder,
    buffer: &mut [u8],
    shared: &SharedTransfer,
) -> io::Result<u64> {
    stream.set_nonblocking(work.waiting == WaitMode::Poll)?;
    stream.set_read_timeout(Some(WAIT_LOOK_TIME))?;
    stream.set_write_timeout(Some(RESULTS))?;
    let (mut messages, mut held) = (0, 0);
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer[held..]) {
            Ok(0) => break,
            Ok(count) => held += count,
            Err(e) if nothing_yet(&e) => continue,
            Err(e) => return Err(e),
        }
        if held == buffer.len() {
            write_whole(stream, buffer, shared)?;
            messages += 1;
            held = 0;
        }
    }
    stream.set_nonblocking(false)?;
    Ok(messages)
}

fn write_whole(mut stream: &TcpStream, message: &[u8], shared: &SharedTransfer) -> io::Result<()> {
    let mut rest = message;
    while !rest.is_empty() && !shared.stop.load(Ordering::Relaxed) {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(e) if nothing_yet(&e) => wait_for(stream, PollFlags::OUT, WAIT_LOOK_TIME)?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn wait_for(socket: impl std::os::fd::AsFd, what: PollFlags, longest: Duration) -> io::Result<()> {
    let longest = Timespec::try_from(longest).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&socket, what)], Some(&longest)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Echoes one message per connection from `remote`. Returns the number of messages.
fn by_connections(
    listener: &TcpListener,
    remote: IpAddr,
    work: &TripsOrder,
    buffer: &mut [u8],
    shared: &SharedTransfer,
) -> io::Result<u64> {
    let mut messages = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        let stream = match listener.accept() {
            Ok((stream, from)) if from.ip().to_canonical() == remote.to_canonical() => stream,
            Ok(_) => continue,
            Err(_) if work.waiting == WaitMode::Poll => continue,
            Err(_) => {
                wait_for(listener, PollFlags::IN, WAIT_LOOK_TIME)?;
                continue;
            }
        };
        messages += u64::from(one(&stream, work, buffer, shared).unwrap_or(false));
    }
    Ok(messages)
}

fn one(
    mut stream: &TcpStream,
    work: &TripsOrder,
    buffer: &mut [u8],
    shared: &SharedTransfer,
) -> io::Result<bool> {
    let deadline = Instant::now() + CONNECTION;
    let message = &mut buffer[..work.message as usize];
    stream.set_nodelay(true)?;
    stream.set_nonblocking(work.waiting == WaitMode::Poll)?;
    stream.set_read_timeout(Some(WAIT_LOOK_TIME))?;
    stream.set_write_timeout(Some(WAIT_LOOK_TIME))?;
    let mut held = 0;
    while held < message.len() {
        if Instant::now() >= deadline || shared.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match stream.read(&mut message[held..]) {
            Ok(0) => return Ok(false),
            Ok(count) => held += count,
            Err(e) if nothing_yet(&e) => {}
            Err(e) => return Err(e),
        }
    }
    write_whole(stream, message, shared)?;
    Ok(true)
}
