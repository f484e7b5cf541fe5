//! Watch over the control connection while threads move bytes: messages, the threads' endings, and silence.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{End, Lost, Shared, process_cpu};
use crate::wire::{Channel, Message, PULSE, RESULTS, SILENCE, WireError};

/// What there is to see.
#[derive(Debug)]
pub enum Seen {
    /// A message; `Alive` is dealt with.
    Message(Message),
    /// A thread of this end has ended, or a little time is over.
    Local,
}

/// Keeps watch during one transfer: says that this end is alive, and notices when the other is not.
#[derive(Debug)]
pub struct Supervision<'a> {
    channel: &'a mut Channel,
    shared: &'a Shared,
    /// How long the other end has been silent, without the time in which this process had no CPU.
    silent: Duration,
    /// When this end last looked, and the CPU time that its process had used by then.
    looked: (Instant, Duration),
    /// When this end last said that it is alive.
    told: Instant,
    /// When the transfer must be over.
    end: Instant,
    longest: Duration,
    patience: Duration,
    quiet: bool,
}

impl<'a> Supervision<'a> {
    /// Begins a watch that ends after `longest` at the latest.
    pub fn new(channel: &'a mut Channel, shared: &'a Shared, longest: Duration) -> Self {
        let now = Instant::now();
        Supervision {
            channel,
            shared,
            silent: Duration::ZERO,
            looked: (now, process_cpu()),
            told: now,
            end: now + longest,
            longest,
            patience: SILENCE,
            quiet: false,
        }
    }

    /// A watch that says nothing and bears silence to its end: this end only answers what comes.
    pub fn quiet(channel: &'a mut Channel, shared: &'a Shared, longest: Duration) -> Self {
        let supervision = Supervision::new(channel, shared, longest);
        Supervision { patience: longest, quiet: true, ..supervision }
    }

    /// Bears silence for longer: this end sends nothing that would go to nobody.
    pub const fn bear(&mut self, silence: Duration) {
        self.patience = silence;
    }

    /// The other end was heard of by other means: it has taken or given bytes.
    pub fn heard(&mut self) {
        self.silent = Duration::ZERO;
        self.looked = (Instant::now(), process_cpu());
    }

    /// Adds to the silence what has passed since the last look. A look is due each [`PULSE`]; what it is late counts as far as this process,
    /// whose threads may be sending, had a CPU.
    fn add_silence(&mut self) {
        let now = (Instant::now(), process_cpu());
        let (passed, ran) = (now.0.duration_since(self.looked.0), now.1.saturating_sub(self.looked.1));
        self.silent += passed.min(PULSE.max(ran));
        self.looked = now;
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection failed.
    pub fn send(&mut self, message: &Message) -> Result<(), WireError> {
        self.channel.send(message)
    }

    /// The word to begin: the near end gives it, the far end says that it is ready and waits for it.
    ///
    /// # Errors
    /// The other end is silent or gone, or says something else.
    pub fn begin(&mut self, end: End) -> Result<(), Lost> {
        // The near end starts its threads first, and nothing is sent to it until then.
        let patience = std::mem::replace(&mut self.patience, RESULTS);
        self.send(if end == End::Near { &Message::Go } else { &Message::Ready })?;
        if end == End::Far {
            self.await_go()?;
        }
        self.patience = patience;
        self.heard();
        Ok(())
    }

    fn await_go(&mut self) -> Result<(), Lost> {
        loop {
            match self.await_next()? {
                Seen::Local => {}
                Seen::Message(Message::Go) => return Ok(()),
                Seen::Message(_) => return Err(WireError::OutOfTurn.into()),
            }
        }
    }

    /// Waits for a message or a thread's ending, for [`PULSE`] at most.
    ///
    /// # Errors
    /// The other end is silent or gone, or the time is over.
    pub fn await_next(&mut self) -> Result<Seen, Lost> {
        if let Some(seen) = self.message()? {
            return Ok(seen);
        }
        let now = Instant::now();
        if now >= self.end {
            return Err(Lost::TooLong(self.longest.as_secs()));
        }
        self.add_silence();
        if self.silent >= self.patience {
            return Err(Lost::Silent);
        }
        if !self.quiet && now.duration_since(self.told) >= PULSE {
            self.told = now;
            self.channel.send(&Message::Alive)?;
        }
        self.wait(PULSE.min(self.end.duration_since(now)).max(Duration::from_millis(1)))?;
        Ok(self.message()?.unwrap_or(Seen::Local))
    }

    fn message(&mut self) -> Result<Option<Seen>, Lost> {
        while let Some(message) = self.channel.try_receive()? {
            self.heard();
            match message {
                Message::Alive => {}
                Message::Refused(why) => return Err(Lost::Refused(plimsoll_units::text::shown(&why))),
                Message::Unacknowledged { segment } => {
                    return Err(Lost::Unacknowledged { segment, sender: End::Far });
                }
                other => return Ok(Some(Seen::Message(other))),
            }
        }
        Ok(None)
    }

    fn wait(&self, longest: Duration) -> Result<(), Lost> {
        let longest = Timespec::try_from(longest).map_err(|e| Lost::Here(io::Error::other(e)))?;
        let mut fds = [
            PollFd::new(self.channel.stream(), PollFlags::IN),
            PollFd::new(self.shared.waker(), PollFlags::IN),
        ];
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Lost::Here(errno.into())),
        }
        // Nothing there is no failure: the descriptor does not block.
        let _ = rustix::io::read(self.shared.waker(), &mut [0; 8]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::channels;

    #[test]
    fn time_without_a_cpu_is_no_silence_of_the_other() {
        let ((mut near, _far), shared) = (channels(), Shared::new(1).unwrap());
        let mut watch = Supervision::new(&mut near, &shared, RESULTS);
        for looks in 1..=u32::try_from(SILENCE.as_millis() / PULSE.as_millis()).unwrap() {
            watch.looked = (Instant::now().checked_sub(10 * SILENCE).unwrap(), process_cpu());
            watch.add_silence();
            assert!(watch.silent.abs_diff(looks * PULSE) < PULSE / 10, "{:?}", watch.silent);
        }
        assert!(matches!(watch.await_next(), Err(Lost::Silent)));
        // Where other threads of it had a CPU all the time, they may have sent.
        watch.heard();
        watch.looked = (Instant::now().checked_sub(SILENCE).unwrap(), Duration::ZERO);
        let ran = process_cpu();
        watch.add_silence();
        assert!(watch.silent >= PULSE.max(ran.min(SILENCE)), "{:?} of {ran:?}", watch.silent);
        watch.heard();
        assert!(matches!(watch.await_next(), Ok(Seen::Local)));
    }
}
