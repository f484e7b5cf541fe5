use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::bench::disk::engine::Kind;
use crate::bench::disk::pattern::Order;

/// An engine on a file in memory that does to each transfer what its script says, then what was asked.
struct Scripted {
    file: Rc<RefCell<Vec<u8>>>,
    script: VecDeque<Act>,
    buffers: Vec<Vec<u8>>,
    queued: Vec<Request>,
    flying: VecDeque<(Request, u64)>,
    deepest: Rc<RefCell<usize>>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Whole,
    Part(usize),
    Fail(Errno),
}

impl Scripted {
    fn new(depth: usize, block: usize, file: &Rc<RefCell<Vec<u8>>>, script: &[Act]) -> Self {
        Scripted {
            file: Rc::clone(file),
            script: script.iter().copied().collect(),
            buffers: vec![vec![0; block]; depth],
            queued: Vec::new(),
            flying: VecDeque::new(),
            deepest: Rc::default(),
        }
    }

    fn carry_out(&mut self, request: Request) -> Result<usize, Errno> {
        let Request { slot, op, offset, start, len } = request;
        let moved = match self.script.pop_front().unwrap_or(Act::Whole) {
            Act::Whole => len,
            Act::Part(bytes) => bytes.min(len),
            Act::Fail(errno) => return Err(errno),
        };
        let mut file = self.file.borrow_mut();
        let place = &mut file[offset as usize..offset as usize + moved];
        let buffer = &mut self.buffers[slot][start..start + moved];
        match op {
            Op::Read => buffer.copy_from_slice(place),
            Op::Write => place.copy_from_slice(buffer),
            Op::DataSync => {}
        }
        Ok(moved)
    }
}

impl Engine for Scripted {
    fn kind(&self) -> Kind {
        Kind::IoUring
    }

    fn depth(&self) -> usize {
        self.buffers.len()
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        self.buffers.get_mut(slot).map(Vec::as_mut_slice)
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        self.queued.push(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        let now = monotonic_ns();
        self.flying.extend(self.queued.drain(..).map(|request| (request, now)));
        let mut deepest = self.deepest.borrow_mut();
        *deepest = self.flying.len().max(*deepest);
        Ok(())
    }

    fn wait(&mut self, _: usize, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        // Out of order, and a few at a time.
        for _ in 0..2 {
            let Some((request, submitted_ns)) = self.flying.pop_back() else { break };
            let outcome = self.carry_out(request);
            let completed_ns = monotonic_ns();
            done.push(Completion { request, outcome, submitted_ns, accepted_ns: submitted_ns, completed_ns });
        }
        Ok(())
    }
}

const BLOCK: usize = 1024;

struct Rig {
    load: Load,
    file: Rc<RefCell<Vec<u8>>>,
    deepest: Rc<RefCell<usize>>,
}

impl Rig {
    fn done(&mut self, transfers: u64) -> Result<Tally, LoadError> {
        self.load.amount(transfers, Tally::empty()?)
    }

    fn interval(&mut self, ns: u64) -> Result<Tally, LoadError> {
        self.load.interval(ns, Tally::empty()?)
    }
}

fn rig(op: Op, depth: usize, blocks: u64, script: &[Act]) -> Rig {
    let mut bytes = vec![0; blocks as usize * BLOCK];
    Noise::new(1, "fill").fill(&mut bytes, 0);
    let file = Rc::new(RefCell::new(bytes));
    let engine = Scripted::new(depth, BLOCK, &file, script);
    let deepest = Rc::clone(&engine.deepest);
    let walk = Walk::new(Order::Random, blocks, 1);
    let load = Load::new(Box::new(engine), op, BLOCK, walk, Noise::new(1, "case")).expect("load");
    Rig { load, file, deepest }
}

#[test]
fn a_given_amount_is_done_exactly_with_the_queue_full() {
    let mut rig = rig(Op::Read, 8, 100, &[]);
    let tally = rig.done(250).expect("run");
    assert_eq!((tally.transfers, tally.latency.len()), (250, 250));
    assert!(tally.elapsed_ns > 0 && tally.latency_ns > 0);
    assert_eq!(*rig.deepest.borrow(), 8);
    assert_eq!(rig.load.in_flight, 0);
    let again = rig.done(3).expect("run");
    assert_eq!((again.transfers, again.latency.len()), (3, 3));
}

#[test]
fn intervals_follow_one_another_with_the_queue_full() {
    let mut rig = rig(Op::Read, 4, 100, &[]);
    let begun = monotonic_ns();
    let mut elapsed_ns = 0;
    for _ in 0..3 {
        let tally = rig.interval(1_000_000).expect("run");
        assert!(tally.elapsed_ns >= 1_000_000);
        assert!(tally.transfers > 0 && tally.depth() > 0.0);
        assert_eq!(tally.latency.len(), tally.transfers);
        elapsed_ns += tally.elapsed_ns;
        // The load stays up.
        assert!(rig.load.unasked_ns().is_some());
        rig.load.keep_up().expect("run");
    }
    assert!(elapsed_ns <= monotonic_ns() - begun);
    assert_eq!(*rig.deepest.borrow(), 4);
    rig.load.stop().expect("stop");
    assert_eq!((rig.load.in_flight, rig.load.idle.len(), rig.load.unasked_ns()), (0, 4, None));
    rig.load.keep_up().expect("nothing");
    assert_eq!(rig.load.in_flight, 0);
    // No time at all still counts something.
    assert!(rig.interval(0).expect("run").transfers > 0);
}

/// What is between two intervals belongs to the second one: nothing is left out, and no burst is met twice.
#[test]
fn intervals_cover_the_time_without_a_gap() {
    let mut rig = rig(Op::Read, 2, 100, &[]);
    let first = rig.interval(2_000_000).expect("run");
    let between = (0..5).map(|_| rig.load.keep_up()).collect::<Result<Vec<_>, _>>().expect("run").len();
    let opened = rig.load.opened.expect("up").at_ns;
    let second = rig.interval(1).expect("run");
    let closed = rig.load.opened.expect("up").at_ns;
    assert_eq!(second.elapsed_ns, closed - opened, "it begins where the first one ended");
    assert!(second.transfers > between as u64, "what was done between two questions is counted");
    assert!(first.elapsed_ns >= 2_000_000);
}

#[test]
fn short_and_interrupted_transfers_are_continued_and_counted_once() {
    let script =
        [Act::Part(512), Act::Fail(Errno::INTR), Act::Part(1), Act::Fail(Errno::AGAIN), Act::Part(100)];
    let mut rig = rig(Op::Read, 2, 10, &script);
    assert_eq!(rig.done(20).expect("run").transfers, 20);
    assert_eq!(rig.load.stranger().expect("check"), None);
}

#[test]
fn a_failure_is_reported_with_place_and_cause() {
    let mut rig = rig(Op::Write, 1, 10, &[Act::Whole, Act::Part(512), Act::Fail(Errno::IO)]);
    let error = rig.done(5).expect_err("fails");
    let LoadError::Fault(Fault { request, what: What::Errno(Errno::IO) }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((request.start, request.len), (512, 512));
    let text = error.to_string();
    assert!(text.contains(&format!("write of 512 B at offset {}", request.offset)), "{text}");
    assert!(text.contains("dmesg"), "{text}");
}

#[test]
fn the_end_of_the_file_is_no_transfer_of_nothing() {
    let error = rig(Op::Read, 1, 10, &[Act::Part(0)]).done(1).expect_err("fails");
    assert!(matches!(error, LoadError::Fault(Fault { what: What::Short { moved: 0 }, .. })), "{error:?}");
    // Where direct I/O cannot go on from an odd place, the cause is the short transfer, not the argument.
    let script = [Act::Part(100), Act::Fail(Errno::INVAL)];
    let error = rig(Op::Read, 1, 10, &script).done(1).expect_err("fails");
    assert!(matches!(error, LoadError::Fault(Fault { what: What::Short { moved: 100 }, .. })), "{error:?}");
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let request = Request { slot: 0, op: Op::DataSync, offset: 0, start: 0, len: 0 };
    for errno in [Errno::IO, Errno::INTR, Errno::AGAIN, Errno::NOSPC] {
        let outcome = Err(errno);
        let completion = Completion { request, outcome, submitted_ns: 0, accepted_ns: 0, completed_ns: 0 };
        assert_eq!(rest(&completion), Err(Fault { request, what: What::Errno(errno) }));
    }
}

#[test]
fn damage_is_found_in_what_was_read_and_in_what_was_written() {
    for op in [Op::Read, Op::Write] {
        let mut rig = rig(op, 4, 4, &[]);
        rig.done(8).expect("run");
        assert_eq!(rig.load.stranger().expect("check"), None);
        rig.done(0).expect("run");
        rig.file.borrow_mut()[2 * BLOCK + 512] ^= 1;
        if op == Op::Read {
            rig.done(4).expect("run");
        }
        assert_eq!(rig.load.stranger().expect("check"), Some(2 * BLOCK as u64 + 512));
    }
}

#[test]
fn every_write_differs_from_what_was_there() {
    let mut rig = rig(Op::Write, 2, 8, &[]);
    let before = rig.file.borrow().clone();
    rig.done(8).expect("run");
    let after = rig.file.borrow();
    for (old, new) in before.chunks_exact(512).zip(after.chunks_exact(512)) {
        assert_ne!(old, new);
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Whole),
        2 => (1..BLOCK).prop_map(Act::Part),
        1 => Just(Act::Fail(Errno::INTR)),
        1 => Just(Act::Fail(Errno::AGAIN)),
    ]
}

proptest! {
    /// However the transfers come back, short, interrupted, out of order: all are done, none is counted twice, and
    /// the data is right.
    #[test]
    fn no_transfer_is_lost_or_counted_twice(
        write: bool, depth in 1_usize..9, blocks in 9_u64..40, wanted in 1_u64..60,
        script in prop::collection::vec(act(), 0..80),
    ) {
        let mut rig = rig(if write { Op::Write } else { Op::Read }, depth, blocks, &script);
        let tally = rig.done(wanted).expect("run");
        prop_assert_eq!((tally.transfers, tally.latency.len()), (wanted, wanted));
        prop_assert!(*rig.deepest.borrow() <= depth);
        prop_assert_eq!((rig.load.in_flight, rig.load.idle.len()), (0, depth));
        prop_assert_eq!(rig.load.stranger().expect("check"), None);
        let noise = Noise::new(1, "fill");
        prop_assert_eq!(noise.stranger(&rig.file.borrow(), 0), None);
    }
}
