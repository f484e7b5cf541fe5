//! Two threads or processes that wake each other in turn, through a pipe, event counter or futex.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::futex;
use serde::{Deserialize, Serialize};

use super::call;
use crate::buffer::MappedRange;

/// Means by which one wakes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkKind {
    /// One pipe in each direction, a byte for each turn.
    Pipe,
    /// One eventfd(2) in each direction.
    EventFd,
    /// Two words of shared memory and futex(2).
    Futex,
}

/// Message from one end to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMessage {
    /// It is your turn.
    Turn,
    /// There will be no more turns.
    End,
}

const TURN_WORD: u32 = 1;
const END_WORD: u32 = 2;
/// Size of the shared words: two, each in a line of its own.
const SHARED_BYTES: usize = 4096;
const SECOND_WORD: usize = 256;

/// Two words that child processes share.
#[derive(Debug)]
struct SharedWords(MappedRange);

// SAFETY: the memory has only atomic words, and stays mapped until the last owner drops it.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    fn new() -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        Ok(Self(MappedRange::anonymous(SHARED_BYTES, access, flags)?))
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: index is 0 or 1, so the word is inside the mapping.
        let word = unsafe { self.0.start.cast::<AtomicU32>().add(index * SECOND_WORD) };
        // SAFETY: the mapping is zeroed, aligned, and lives as long as this value.
        unsafe { word.as_ref() }
    }
}

/// One end of a link: wakes the other end, and waits for it.
#[derive(Debug)]
pub struct LinkEnd(Transport);

#[derive(Debug)]
enum Transport {
    Descriptors { inward: OwnedFd, outward: OwnedFd, is_counter: bool },
    Words { words: Arc<SharedWords>, own: usize },
}

/// Creates both ends of a link by which two threads or processes wake each other in turn.
pub fn link(kind: LinkKind) -> io::Result<[LinkEnd; 2]> {
    let descriptors = |[(first_in, second_out), (second_in, first_out)]: [(OwnedFd, OwnedFd); 2],
                       is_counter| {
        let end = |inward, outward| LinkEnd(Transport::Descriptors { inward, outward, is_counter });
        [end(first_in, first_out), end(second_in, second_out)]
    };
    let ends = match kind {
        LinkKind::Pipe => {
            let pipe = || pipe_with(PipeFlags::CLOEXEC);
            descriptors([pipe()?, pipe()?], false)
        }
        LinkKind::EventFd => {
            let counter = || -> io::Result<_> {
                let one = eventfd(0, EventfdFlags::CLOEXEC)?;
                Ok((one.try_clone()?, one))
            };
            descriptors([counter()?, counter()?], true)
        }
        LinkKind::Futex => {
            let words = Arc::new(SharedWords::new()?);
            [0, 1].map(|own| LinkEnd(Transport::Words { words: Arc::clone(&words), own }))
        }
    };
    ends[0].check()?;
    Ok(ends)
}

impl LinkEnd {
    /// Tries every system call of send and receive, without effect; fails if a filter refuses one.
    fn check(&self) -> io::Result<()> {
        match &self.0 {
            Transport::Descriptors { inward, outward, is_counter } => {
                // Both leave nothing to read: no byte, and a counter that grows by 0.
                let nothing = if *is_counter { &[0_u8; 8][..] } else { &[] };
                call::write(outward, nothing)?;
                let mut polled = [PollFd::new(inward, PollFlags::IN)];
                poll(&mut polled, Some(&Timespec::default()))?;
                Ok(())
            }
            Transport::Words { words, own } => {
                let word = words.word(*own);
                futex::wake(word, futex::Flags::empty(), 1)?;
                match futex::wait(word, futex::Flags::empty(), TURN_WORD, None) {
                    Ok(()) | Err(rustix::io::Errno::AGAIN) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Sends `message` to the other end and wakes it.
    #[inline]
    pub fn send(&self, message: LinkMessage) -> io::Result<()> {
        let value = if message == LinkMessage::Turn { TURN_WORD } else { END_WORD };
        match &self.0 {
            Transport::Descriptors { outward, is_counter: false, .. } => {
                call::write(outward, &[value as u8])?;
            }
            Transport::Descriptors { outward, .. } => {
                call::write(outward, &u64::from(value).to_ne_bytes())?;
            }
            Transport::Words { words, own } => {
                let other = words.word(1 - own);
                other.store(value, Ordering::Release);
                futex::wake(other, futex::Flags::empty(), 1)?;
            }
        }
        Ok(())
    }

    /// Sleeps until the other end sends a message, and returns it; [`LinkMessage::End`] if the
    /// other end of a pipe is closed.
    #[inline]
    pub fn receive(&self) -> io::Result<LinkMessage> {
        let value = match &self.0 {
            Transport::Descriptors { inward, is_counter: false, .. } => {
                let mut byte = [0_u8];
                if call::read(inward, &mut byte)? == 0 { END_WORD } else { u32::from(byte[0]) }
            }
            Transport::Descriptors { inward, .. } => {
                let mut counter = [0_u8; 8];
                call::read(inward, &mut counter)?;
                if u64::from_ne_bytes(counter) == u64::from(TURN_WORD) { TURN_WORD } else { END_WORD }
            }
            Transport::Words { words, own } => {
                let word = words.word(*own);
                loop {
                    match word.load(Ordering::Acquire) {
                        0 => match futex::wait(word, futex::Flags::empty(), 0, None) {
                            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                            Err(error) => return Err(error.into()),
                        },
                        value => {
                            word.store(0, Ordering::Relaxed);
                            break value;
                        }
                    }
                }
            }
        };
        Ok(if value == TURN_WORD { LinkMessage::Turn } else { LinkMessage::End })
    }

    /// Answers each [`LinkMessage::Turn`] with a turn, until the end or a failure; makes only
    /// system calls, so that a forked child may run it.
    pub fn answer_turns(&self) {
        while let Ok(LinkMessage::Turn) = self.receive() {
            if self.send(LinkMessage::Turn).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_answered_until_the_end() {
        for kind in [LinkKind::Pipe, LinkKind::EventFd, LinkKind::Futex] {
            let [near, far] = link(kind).unwrap();
            std::thread::scope(|scope| {
                let follower = scope.spawn(move || far.answer_turns());
                for _ in 0..1000 {
                    near.send(LinkMessage::Turn).unwrap();
                    assert_eq!(near.receive().unwrap(), LinkMessage::Turn, "{kind:?}");
                }
                near.send(LinkMessage::End).unwrap();
                follower.join().unwrap();
            });
        }
    }

    #[test]
    fn a_closed_pipe_is_the_end() {
        let [near, far] = link(LinkKind::Pipe).unwrap();
        drop(near);
        assert_eq!(far.receive().unwrap(), LinkMessage::End);
    }
}
