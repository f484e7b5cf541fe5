//! Slots of an asynchronous engine: each has a page-aligned buffer and at most one request.

use std::ops::DerefMut;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::ticks::TickClock;
use crate::uring::{Completion, MAX_BLOCK, MAX_DEPTH, Request, RingError, WaitEnd, transfer_buffer};

#[derive(Debug, Clone, Copy)]
enum SlotState {
    Idle,
    Queued(Request),
    InFlight { request: Request, submitted_ns: u64, accepted_ns: u64 },
}

/// Files, buffers and requests of an engine.
#[derive(Debug)]
pub struct Slots<F> {
    /// `None` once leaked, because the kernel did not release it.
    region: Option<Buffer>,
    pub(super) files: Vec<F>,
    block: usize,
    stride: usize,
    states: Vec<SlotState>,
    pub(super) queued: Vec<usize>,
    pub(super) in_flight: usize,
    pub(super) clock: TickClock,
}

impl<F> Slots<F> {
    /// Creates `depth` slots for requests on `files`, with a buffer of `block` bytes each. Fails
    /// without files, or if `depth` or `block` is out of range.
    pub(super) fn new(files: Vec<F>, depth: usize, block: usize) -> Result<Self, RingError> {
        let geometry = RingError::Geometry { depth, block };
        if files.is_empty() || depth == 0 || depth > MAX_DEPTH || block == 0 || block > MAX_BLOCK {
            return Err(geometry);
        }
        let stride = block.next_multiple_of(rustix::param::page_size());
        Ok(Self {
            region: Some(transfer_buffer(stride.checked_mul(depth).ok_or(geometry)?)?),
            files,
            block,
            stride,
            states: vec![SlotState::Idle; depth],
            queued: Vec::with_capacity(depth),
            in_flight: 0,
            clock: TickClock::system(),
        })
    }

    /// Returns the current time of the clock that stamps completions, in ns.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the number of slots: the maximum number of requests in flight.
    pub fn depth(&self) -> usize {
        self.states.len()
    }

    /// Returns the size of each slot's buffer in bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the buffer of an idle slot; `None` if a request uses it or the slot does not exist.
    pub fn buffer(&self, slot: usize) -> Option<&[u8]> {
        let data = self.idle_address(slot)?;
        // SAFETY: `block` zeroed bytes inside the region; the kernel uses no idle slot.
        Some(unsafe { std::slice::from_raw_parts(data.as_ptr(), self.block) })
    }

    /// Returns the writable buffer of an idle slot; `None` as for [`Slots::buffer`].
    pub fn buffer_mut(&mut self, slot: usize) -> Option<&mut [u8]> {
        let data = self.idle_address(slot)?;
        // SAFETY: as in `buffer`; the exclusive borrow of `self` excludes other references.
        Some(unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), self.block) })
    }

    fn idle_address(&self, slot: usize) -> Option<NonNull<u8>> {
        matches!(self.states.get(slot)?, SlotState::Idle).then(|| self.address(slot, 0))?
    }

    /// Returns the address of byte `start` of a slot's buffer; `None` after [`Slots::leak`].
    fn address(&self, slot: usize, start: usize) -> Option<NonNull<u8>> {
        let base = self.region.as_ref()?.start;
        // SAFETY: callers have checked `slot` and `start`: inside the `depth` × `stride` bytes.
        Some(unsafe { base.add(slot * self.stride + start) })
    }

    pub(super) fn vectors(&self) -> Vec<libc::iovec> {
        let bases = (0..self.depth()).filter_map(|slot| self.address(slot, 0));
        bases.map(|base| libc::iovec { iov_base: base.as_ptr().cast(), iov_len: self.stride }).collect()
    }

    /// Queues a request in its slot, which [`Slots::checked`] must have found idle.
    pub(super) fn queue(&mut self, request: Request) {
        self.states[request.slot] = SlotState::Queued(request);
        self.queued.push(request.slot);
    }

    /// Returns the request queued in `slot`; `None` if the slot is idle or its request in flight.
    pub(super) fn waiting(&self, slot: usize) -> Option<Request> {
        match self.states[slot] {
            SlotState::Queued(request) => Some(request),
            _ => None,
        }
    }

    /// Marks the first `count` queued requests as in flight since `submitted_ns`, and accepted now.
    pub(super) fn accept(&mut self, count: usize, submitted_ns: u64) {
        let accepted_ns = self.clock.now_ns();
        for slot in self.queued.drain(..count) {
            if let SlotState::Queued(request) = self.states[slot] {
                self.states[slot] = SlotState::InFlight { request, submitted_ns, accepted_ns };
            }
        }
        self.in_flight += count;
    }

    pub(super) fn release(&mut self, slot: usize) {
        self.states[slot] = SlotState::Idle;
    }

    /// Makes slot `data` idle and returns the completion of its request in flight, with `outcome`
    /// (bytes transferred, or the error); `None` if no request is in flight.
    #[inline]
    pub(super) fn complete(
        &mut self,
        data: u64,
        completed_ns: u64,
        outcome: impl FnOnce(Request) -> Result<usize, Errno>,
    ) -> Option<Completion> {
        let state = self.states.get_mut(usize::try_from(data).ok()?)?;
        let SlotState::InFlight { request, submitted_ns, accepted_ns } = *state else { return None };
        *state = SlotState::Idle;
        self.in_flight -= 1;
        Some(Completion { request, outcome: outcome(request), submitted_ns, accepted_ns, completed_ns })
    }

    /// Never frees the buffers, because the kernel may still write to them.
    pub(super) fn leak(&mut self) {
        std::mem::forget(self.region.take());
    }
}

impl<F: AsFd> Slots<F> {
    /// Returns the address of the request's bytes and the descriptor of its file. Fails if the slot
    /// does not exist or is in use, or if the file or the bytes are out of range.
    pub(super) fn checked(&self, request: &Request) -> Result<(NonNull<u8>, RawFd), RingError> {
        let Request { slot, file, start, len, .. } = *request;
        if !matches!(self.states.get(slot), Some(SlotState::Idle)) {
            return Err(RingError::Slot { slot, depth: self.depth() });
        }
        let inside = start.checked_add(len).is_some_and(|end| end <= self.block);
        let data = inside.then(|| self.address(slot, start)).flatten().ok_or(self.out_of_range(request))?;
        let files = self.files.len();
        let chosen = self.files.get(file).ok_or(RingError::File { file, files })?;
        Ok((data, chosen.as_fd().as_raw_fd()))
    }

    pub(super) fn out_of_range(&self, request: &Request) -> RingError {
        RingError::Range { start: request.start, len: request.len, block: self.block }
    }
}

/// An engine that carries out the requests of its slots on files `F`.
pub trait SlotEngine<F>: DerefMut<Target = Slots<F>> {
    /// Queues a request for [`SlotEngine::submit`]. Fails if its slot does not exist or is in use,
    /// its file or bytes are out of range, or the engine has no such operation.
    fn push(&mut self, request: Request) -> Result<(), RingError>;

    /// Submits the queued requests; after an error refused ones stay queued.
    fn submit(&mut self) -> Result<(), RingError>;

    /// Submits the queue, waits up to `patience` for a completion if a request is in flight, and
    /// appends all completions to `done`. A failed request has its error in its completion.
    fn wait_within(&mut self, patience: WaitEnd, done: &mut Vec<Completion>) -> Result<(), RingError>;
}

/// Gives an engine its slots' functions and the choice of their clock.
macro_rules! has_slots {
    ($engine:ident) => {
        impl<F> $engine<F> {
            /// Sets the clock that gives the times in completions.
            #[must_use]
            pub fn stamped_by(mut self, clock: TickClock) -> Self {
                self.slots.clock = clock;
                self
            }
        }

        impl<F> std::ops::Deref for $engine<F> {
            type Target = Slots<F>;

            fn deref(&self) -> &Slots<F> {
                &self.slots
            }
        }

        impl<F> std::ops::DerefMut for $engine<F> {
            fn deref_mut(&mut self) -> &mut Slots<F> {
                &mut self.slots
            }
        }
    };
}
pub(super) use has_slots;
