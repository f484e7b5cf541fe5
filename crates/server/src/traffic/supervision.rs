//! Supervision of the control connection during a transfer: messages, ended threads, and silence.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{LostTransfer, SharedTransfer, TransferEnd, process_cpu};
use crate::wire::{Channel, Message, PULSE, RESULTS, SILENCE, WireError};

/// Supervises one transfer: sends keep-alives, and detects if the other end is gone.
#[derive(Debug)]
pub struct Supervision<'a> {
    channel: &'a mut Channel,
    shared: &'a SharedTransfer,
    silent: Duration,
    looked: (Instant, Duration),
    notified_at: Instant,
    end: Instant,
    longest: Duration,
    patience: Duration,
    quiet: bool,
}

impl<'a> Supervision<'a> {
    /// Creates a supervision that fails after `longest`, or if the other end is silent for 1 s.
    pub fn new(channel: &'a mut Channel, shared: &'a SharedTransfer, longest: Duration) -> Self {
        let now = Instant::now();
        Supervision {
            channel,
            shared,
            silent: Duration::ZERO,
            looked: (now, process_cpu()),
            notified_at: now,
            end: now + longest,
            longest,
            patience: SILENCE,
            quiet: false,
        }
    }

    /// Creates a supervision without keep-alives and silence limit, for an end that only answers.
    pub fn answering_only(channel: &'a mut Channel, shared: &'a SharedTransfer, longest: Duration) -> Self {
        let supervision = Supervision::new(channel, shared, longest);
        Supervision { patience: longest, quiet: true, ..supervision }
    }

    /// Sets the longest silence of the other end, after which the transfer fails.
    pub const fn set_max_silence(&mut self, silence: Duration) {
        self.patience = silence;
    }

    /// Restarts the count of the other end's silence: a message or stream data has arrived.
    pub fn message_received(&mut self) {
        self.silent = Duration::ZERO;
        self.looked = (Instant::now(), process_cpu());
    }

    /// Adds the time since the last check to the other end's silence: at most [`PULSE`], or the CPU
    /// time of this process if that is longer, so that a suspended process counts no silence.
    fn add_silence(&mut self) {
        let now = (Instant::now(), process_cpu());
        let (passed, ran) = (now.0.duration_since(self.looked.0), now.1.saturating_sub(self.looked.1));
        self.silent += passed.min(PULSE.max(ran));
        self.looked = now;
    }

    /// Sends a message over the control connection.
    pub fn send(&mut self, message: &Message) -> Result<(), WireError> {
        self.channel.send(message)
    }

    /// Starts the transfer: the client sends `Go`, the server sends `Ready` and waits for `Go`.
    pub fn begin(&mut self, end: TransferEnd) -> Result<(), LostTransfer> {
        // The client starts its threads first, and nothing is sent to it until then.
        let patience = std::mem::replace(&mut self.patience, RESULTS);
        self.send(if end == TransferEnd::Client { &Message::Go } else { &Message::Ready })?;
        let mut has_begun = end == TransferEnd::Client;
        while !has_begun {
            has_begun = match self.await_next()? {
                None => false,
                Some(Message::Go) => true,
                Some(_) => return Err(WireError::OutOfTurn.into()),
            };
        }
        self.patience = patience;
        self.message_received();
        Ok(())
    }

    /// Returns the next message except `Alive`; `None` after 200 ms ([`PULSE`]) or a thread's end.
    /// Fails if transfer or silence last too long, the connection is lost or the other end refuses.
    pub fn await_next(&mut self) -> Result<Option<Message>, LostTransfer> {
        if let Some(message) = self.message()? {
            return Ok(Some(message));
        }
        let now = Instant::now();
        if now >= self.end {
            return Err(LostTransfer::TooLong(self.longest.as_secs()));
        }
        self.add_silence();
        if self.silent >= self.patience {
            return Err(LostTransfer::Silent);
        }
        if !self.quiet && now.duration_since(self.notified_at) >= PULSE {
            self.notified_at = now;
            self.channel.send(&Message::Alive)?;
        }
        self.wait(PULSE.min(self.end.duration_since(now)).max(Duration::from_millis(1)))?;
        self.message()
    }

    fn message(&mut self) -> Result<Option<Message>, LostTransfer> {
        while let Some(message) = self.channel.try_receive()? {
            self.message_received();
            match message {
                Message::Alive => {}
                Message::Refused(why) => {
                    return Err(LostTransfer::Refused(plimsoll_units::text::shown(&why)));
                }
                Message::Unacknowledged { segment } => {
                    return Err(LostTransfer::Unacknowledged { segment, sender: TransferEnd::Server });
                }
                other => return Ok(Some(other)),
            }
        }
        Ok(None)
    }

    fn wait(&self, longest: Duration) -> Result<(), LostTransfer> {
        let longest = Timespec::try_from(longest).map_err(|e| LostTransfer::Here(io::Error::other(e)))?;
        let mut fds = [
            PollFd::new(self.channel.stream(), PollFlags::IN),
            PollFd::new(&self.shared.wake, PollFlags::IN),
        ];
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(LostTransfer::Here(errno.into())),
        }
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixture::channels;

    #[test]
    fn time_without_a_cpu_is_no_silence_of_the_other() {
        let ((mut near, _far), shared) = (channels(), SharedTransfer::new(1).unwrap());
        let mut watch = Supervision::new(&mut near, &shared, RESULTS);
        for looks in 1..=u32::try_from(SILENCE.as_millis() / PULSE.as_millis()).unwrap() {
            watch.looked = (Instant::now().checked_sub(10 * SILENCE).unwrap(), process_cpu());
            watch.add_silence();
            assert!(watch.silent.abs_diff(looks * PULSE) < PULSE / 10, "{:?}", watch.silent);
        }
        assert!(matches!(watch.await_next(), Err(LostTransfer::Silent)));
        // If other threads had CPU time throughout, they may have sent.
        watch.message_received();
        watch.looked = (Instant::now().checked_sub(SILENCE).unwrap(), Duration::ZERO);
        let ran = process_cpu();
        watch.add_silence();
        assert!(watch.silent >= PULSE.max(ran.min(SILENCE)), "{:?} of {ran:?}", watch.silent);
        watch.message_received();
        assert!(matches!(watch.await_next(), Ok(None)));
    }
}
