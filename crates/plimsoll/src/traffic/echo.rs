//! The far end's half of a round trip over TCP: whole messages go back as they came.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::Duration;

use super::{Cpus, Lost, Seen, Shared, account, nanos, thread_cpu};
use crate::wire::{Channel, Echo, Message, RESULTS, Received, Report, WireError};

/// A read that waits looks up this often.
const WAITING: Duration = Duration::from_millis(50);

struct Done {
    bytes: u64,
    cpu: Duration,
}

/// Echoes on all streams until the near end says what it has sent and all of that has gone back.
///
/// It only answers what comes, so it says nothing meanwhile, and bears silence while `work` lasts.
///
/// # Errors
/// The near end or a stream failed.
pub fn serve(
    channel: &mut Channel,
    work: &Echo,
    sockets: &[TcpStream],
    cpus: &Cpus,
    ledger: &account::Ledger,
) -> Result<(), Lost> {
    let shared = Shared::new(sockets.len()).map_err(Lost::Here)?;
    let before = ledger.look();
    let done = std::thread::scope(|scope| {
        let shared = &shared;
        let spawn = |(number, socket)| {
            Builder::new().name(format!("echo-{number}")).spawn_scoped(scope, move || {
                let _pinned = cpus.pin(number);
                let done = echo(socket, number, work.message, shared);
                shared.receivers_done.fetch_add(1, Ordering::Release);
                shared.wake();
                done
            })
        };
        let threads: io::Result<Vec<_>> = sockets.iter().enumerate().map(spawn).collect();
        let watched = threads.map_err(Lost::Thread).and_then(|threads| {
            watch(channel, shared, Duration::from_nanos(work.longest))?;
            Ok(threads)
        });
        shared.stop.store(true, Ordering::Relaxed);
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<Done>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread ended unexpectedly")))
        };
        watched?.into_iter().map(join).collect::<io::Result<Vec<Done>>>().map_err(Lost::Stream)
    })?;
    let received = Received {
        bytes: done.iter().map(|d| d.bytes).sum(),
        cpu_nanos: nanos(done.iter().map(|d| d.cpu).sum()),
        ..Received::default()
    };
    let report = Report { sent: None, received: Some(received), account: before.until(&ledger.look()) };
    Ok(channel.send(&Message::Done(Box::new(report)))?)
}

/// Waits until the near end has said what it sent and all threads are done.
fn watch(channel: &mut Channel, shared: &Shared, longest: Duration) -> Result<(), Lost> {
    channel.send(&Message::Ready)?;
    let mut vigil = super::Vigil::quiet(channel, shared, longest + RESULTS);
    while shared.receivers_done.load(Ordering::Acquire) < shared.totals.len() {
        match vigil.next()? {
            Seen::Local => {}
            Seen::Message(Message::Sent(totals)) if totals.len() == shared.totals.len() => {
                shared.settle(&totals)
            }
            Seen::Message(_) => return Err(WireError::OutOfTurn.into()),
        }
    }
    Ok(())
}

fn echo(mut socket: &TcpStream, stream: usize, message: u32, shared: &Shared) -> io::Result<Done> {
    socket.set_read_timeout(Some(WAITING))?;
    socket.set_write_timeout(Some(RESULTS))?;
    let mut buffer = vec![0; message as usize];
    let cpu = thread_cpu();
    let (mut bytes, mut held) = (0u64, 0);
    loop {
        let sent = shared.totals.get(stream).map_or(0, |total| total.load(Ordering::Acquire));
        if bytes >= sent || shared.stop.load(Ordering::Relaxed) {
            return Ok(Done { bytes, cpu: thread_cpu().saturating_sub(cpu) });
        }
        match socket.read(buffer.get_mut(held..).unwrap_or_default()) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => held += n,
            Err(e) if e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::WouldBlock => continue,
            Err(e) => return Err(e),
        }
        if held == buffer.len() {
            socket.write_all(&buffer)?;
            bytes += held as u64;
            held = 0;
        }
    }
}
