//! Completions: whole transfers are counted, partial ones are continued. A lone transfer without a
//! device takes about 40 ns, so fields are read in place: a copy of data just written in smaller
//! pieces waits for the store buffer.

use super::tally::{Parts, Traffic};
use super::{LoadError, Loop, TallyMode, remaining_request};
use crate::engine::Engine;
use plimsoll_metal::uring::{Completion, Request, RequestKind, WaitEnd};
use plimsoll_model::job::disk::DiskOperation;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) whole: Whole,
    /// Whether it is finished, so that it counts and its data can be verified.
    pub(super) finished: bool,
    /// Start of a partly completed transfer, with its submission time so far.
    pub(super) begun: Option<Begun>,
    pub(super) intended_ns: u64,
    /// Completion of the first half of a copy, in ns.
    pub(super) first_half_ns: u64,
    pub(super) entered: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    pub(super) op: RequestKind,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: usize,
}

impl Whole {
    pub(super) fn request(self, slot: usize) -> Request {
        let Whole { op, file, offset, len } = self;
        Request { slot, op, file, offset, start: 0, len }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    submitted_ns: u64,
    submit_ns: u64,
    accepted_ns: u64,
}

enum Settled {
    Whole { at_ns: u64 },
    Part,
    All,
}

impl<E: Engine> Loop<E> {
    /// Waits for a completion, at most for `patience`, and processes all. Returns the last finished
    /// transfer's completion time, in ns of the engine's clock; `None` if none finished.
    pub(super) fn reap(&mut self, patience: WaitEnd, counting: TallyMode) -> Result<Option<u64>, LoadError> {
        let mut settled = self.engine.wait(patience).map_err(LoadError::from);
        let mut at = None;
        for nth in 0.. {
            match self.settle(nth, counting) {
                Ok(Settled::Whole { at_ns }) => at = Some(at_ns),
                Ok(Settled::Part) => {}
                Ok(Settled::All) => break,
                Err(error) => settled = settled.and(Err(error)),
            }
        }
        for request in self.again.drain(..) {
            match self.engine.push(request) {
                Ok(()) => self.in_flight += 1,
                Err(error) => settled = settled.and(Err(error.into())),
            }
        }
        settled.map(|()| at)
    }

    /// Processes completion number `nth` of the last wait: continues a partial transfer, or ends it
    /// and counts it if `counting`.
    #[inline]
    fn settle(&mut self, nth: usize, counting: TallyMode) -> Result<Settled, LoadError> {
        let Some(completion) = self.engine.done().get(nth) else { return Ok(Settled::All) };
        self.in_flight -= 1;
        let Completion { submitted_ns, accepted_ns, completed_ns, .. } = *completion;
        let index = completion.request.slot;
        let slot = &mut self.slots[index];
        let whole = slot.begun.is_none() && !self.halves && completion.outcome == Ok(completion.request.len);
        let begun = if whole {
            Begun { submitted_ns, accepted_ns, submit_ns: accepted_ns.saturating_sub(submitted_ns) }
        } else {
            let completion = *completion;
            match self.go_on(&completion)? {
                Some(begun) => begun,
                None => return Ok(Settled::Part),
            }
        };
        let slot = &mut self.slots[index];
        slot.finished = true;
        self.unflushed += u64::from(slot.whole.op.is_write());
        self.idle.push(index);
        if self.manner.ledger.is_some() {
            self.check(index)?;
        }
        if counting == TallyMode::Yes {
            self.count(index, &begun, completed_ns);
        }
        Ok(Settled::Whole { at_ns: completed_ns })
    }

    /// Continues a partial transfer, or a copy (its read is done) with its write, and returns
    /// `None`. If nothing is left to do, returns the times of the transfer's start.
    #[cold]
    fn go_on(&mut self, completion: &Completion) -> Result<Option<Begun>, LoadError> {
        let Request { slot, op, .. } = completion.request;
        let rest = remaining_request(completion).map_err(LoadError::Fault)?;
        let of_slot = &mut self.slots[slot];
        let Completion { submitted_ns, accepted_ns, .. } = *completion;
        let submit_ns = accepted_ns.saturating_sub(submitted_ns);
        let begun = match of_slot.begun.take() {
            Some(before) => Begun { submit_ns: before.submit_ns + submit_ns, ..before },
            None => Begun { submitted_ns, submit_ns, accepted_ns },
        };
        let more = match rest {
            None if self.halves && op == RequestKind::Read => {
                of_slot.first_half_ns = completion.completed_ns;
                let write = Whole { op: self.source.write, file: 1, ..of_slot.whole };
                of_slot.whole = write;
                Some(write.request(slot))
            }
            rest => rest,
        };
        let Some(more) = more else { return Ok(Some(begun)) };
        of_slot.begun = Some(begun);
        self.again.push(more);
        Ok(None)
    }

    fn count(&mut self, index: usize, begun: &Begun, completed_ns: u64) {
        let slot = &mut self.slots[index];
        let Whole { op, len, .. } = slot.whole;
        let from_ns = if self.manner.schedule.is_some() { slot.intended_ns } else { begun.submitted_ns };
        let latency_ns = completed_ns.saturating_sub(from_ns);
        let tally = &mut self.tally;
        tally.transfers += 1;
        tally.bytes += len as u64;
        let complete_ns = completed_ns.saturating_sub(begun.accepted_ns);
        tally.record_times(Parts { latency_ns, submit_ns: begun.submit_ns, complete_ns });
        let one_way = |traffic: &mut Traffic, ns| {
            traffic.transfers += 1;
            traffic.bytes += len as u64;
            traffic.latency.iter_mut().for_each(|times| times.record(ns, 1));
        };
        match (op, self.source.operation) {
            (RequestKind::Read, _) => one_way(&mut tally.read, latency_ns),
            (op, DiskOperation::Copy) if op.is_write() => {
                let read_ns = slot.first_half_ns.saturating_sub(from_ns);
                one_way(&mut tally.read, read_ns);
                one_way(&mut tally.written, latency_ns.saturating_sub(read_ns));
            }
            (op, _) if op.is_write() => one_way(&mut tally.written, latency_ns),
            _ => {}
        }
    }
}
