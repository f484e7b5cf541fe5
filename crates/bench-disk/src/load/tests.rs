use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rustix::io::Errno;

use super::fault::TransferFault;
use super::*;
use crate::load::{BlockWalk, WalkExtent};
use plimsoll_metal::uring::{Completion, RingError, monotonic_ns};
use plimsoll_model::job::disk::{
    ArrivalProcess, BlockOrder, BlockSizes, DiskOperation, Flush, SyncCall, WriteThrough,
};
use plimsoll_stats::Times;
use plimsoll_units::quantity::parse_sizes;

/// An engine on files in memory that modifies each transfer by its script.
#[derive(Default)]
struct Scripted {
    files: [Vec<u8>; 2],
    script: VecDeque<Act>,
    asked: Vec<Request>,
    buffers: Vec<Vec<u8>>,
    queued: Vec<Request>,
    flying: VecDeque<(Request, u64)>,
    done: Vec<Completion>,
    deepest: usize,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Whole,
    Part(usize),
    /// The whole transfer, with a report of one byte more.
    Excess,
    Fail(Errno),
}

impl Scripted {
    fn carry_out(&mut self, request: Request) -> Result<usize, Errno> {
        let Request { slot, op, file, offset, start, len } = request;
        self.asked.push(request);
        let act = self.script.pop_front().unwrap_or(Act::Whole);
        let moved = match act {
            Act::Whole | Act::Excess => len,
            Act::Part(bytes) => bytes.min(len),
            Act::Fail(errno) => return Err(errno),
        };
        let place = &mut self.files[file][offset as usize..offset as usize + moved];
        let buffer = &mut self.buffers[slot][start..start + moved];
        match op {
            RequestKind::Read => buffer.copy_from_slice(place),
            RequestKind::Write | RequestKind::WriteThrough | RequestKind::WriteSync => {
                place.copy_from_slice(buffer)
            }
            RequestKind::Trim => place.fill(0),
            RequestKind::DataSync | RequestKind::Sync => {}
        }
        Ok(moved + usize::from(matches!(act, Act::Excess)))
    }
}

impl Engine for Scripted {
    fn depth(&self) -> usize {
        self.buffers.len()
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns()
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
        self.deepest = self.flying.len().max(self.deepest);
        Ok(())
    }

    fn wait(&mut self, _: WaitEnd) -> Result<(), RingError> {
        self.submit()?;
        self.done.clear();
        for _ in 0..2 {
            let Some((request, submitted_ns)) = self.flying.pop_back() else { break };
            let outcome = self.carry_out(request);
            let completed_ns = monotonic_ns();
            let accepted_ns = submitted_ns;
            self.done.push(Completion { request, outcome, submitted_ns, accepted_ns, completed_ns });
        }
        Ok(())
    }

    fn done(&self) -> &[Completion] {
        &self.done
    }
}

const BLOCK: usize = 1024;

fn tally() -> TransferTally {
    TransferTally::of(DiskOperation::Copy)
}

impl Loop<Scripted> {
    fn done(&mut self, transfers: u64) -> Result<TransferTally, LoadError> {
        self.count(Portion::Transfers { transfers, cap_ns: CAP_NS }, tally())
    }

    fn interval(&mut self, ns: u64) -> Result<TransferTally, LoadError> {
        self.count(Portion::Time(ns), tally())
    }

    fn asked(&self, op: RequestKind) -> usize {
        self.engine.asked.iter().filter(|request| request.op == op).count()
    }
}

struct Case<'a> {
    operation: DiskOperation,
    through: WriteThrough,
    order: BlockOrder,
    blocks: BlockSizes,
    manner: LoadOptions,
    script: &'a [Act],
}

impl Default for Case<'_> {
    fn default() -> Self {
        Case {
            operation: DiskOperation::Read,
            through: WriteThrough::No,
            order: BlockOrder::Random,
            blocks: BlockSizes::One(BLOCK as u64),
            manner: LoadOptions::default(),
            script: &[],
        }
    }
}

fn rig_of(depth: usize, blocks: u64, case: Case<'_>) -> Loop<Scripted> {
    let mut bytes = vec![0; blocks as usize * BLOCK];
    TestData::new(1, "fill").fill(&mut bytes, 0);
    let other = vec![0; bytes.len()];
    let (unit, largest) = (case.blocks.unit(), case.blocks.largest());
    let extent = WalkExtent { start: 0, bytes: bytes.len() as u64, unit, largest };
    let (script, buffers) = (case.script.iter().copied().collect(), vec![vec![0; BLOCK]; depth]);
    let engine = Scripted { files: [bytes, other], script, buffers, ..Scripted::default() };
    let walk = BlockWalk::new(case.order, extent, 1);
    let source = TransferSource::new(case.operation, case.through, case.blocks, walk);
    Loop::new(engine, source, TestData::new(1, "case"), case.manner, tally())
}

fn rig(operation: DiskOperation, depth: usize, blocks: u64, script: &[Act]) -> Loop<Scripted> {
    rig_of(depth, blocks, Case { operation, script, ..Case::default() })
}

#[test]
fn a_given_amount_is_done_exactly_with_the_queue_full() {
    let mut rig = rig(DiskOperation::Read, 8, 100, &[]);
    let tally = rig.done(250).expect("run");
    assert_eq!((tally.transfers, tally.latency.count()), (250, 250));
    assert!(tally.to_ns > tally.from_ns && tally.latency.sum_ns() > 0);
    assert_eq!((tally.bytes, tally.read.transfers, tally.written.transfers), (250 * BLOCK as u64, 250, 0));
    assert_eq!(rig.engine.deepest, 8);
    assert_eq!(rig.in_flight, 0);
    let again = rig.done(3).expect("run");
    assert_eq!((again.transfers, again.latency.count()), (3, 3));
}

#[test]
fn intervals_follow_one_another_with_the_queue_full() {
    let mut rig = rig(DiskOperation::Read, 4, 100, &[]);
    let begun = monotonic_ns();
    let mut elapsed_ns = 0;
    for _ in 0..3 {
        let tally = rig.interval(1_000_000).expect("run");
        assert!(tally.elapsed() >= 1e-3);
        assert!(tally.transfers > 0 && tally.complete.sum_ns() > 0);
        assert_eq!(tally.latency.count(), tally.transfers);
        elapsed_ns += tally.to_ns - tally.from_ns;
        assert!(rig.unasked_ns().is_some());
        rig.keep_up().expect("run");
    }
    assert!(elapsed_ns <= monotonic_ns() - begun);
    assert_eq!(rig.engine.deepest, 4);
    rig.stop().expect("stop");
    assert_eq!((rig.in_flight, rig.idle.len(), rig.unasked_ns()), (0, 4, None));
    rig.keep_up().expect("nothing");
    assert_eq!(rig.in_flight, 0);
    assert!(rig.interval(0).expect("run").transfers > 0);
}

/// Time between intervals belongs to the second: nothing is omitted, and no burst counts twice.
#[test]
fn intervals_cover_the_time_without_a_gap() {
    let mut rig = rig(DiskOperation::Read, 2, 100, &[]);
    let first = rig.interval(2_000_000).expect("run");
    let between = (0..5).map(|_| rig.keep_up()).collect::<Result<Vec<_>, _>>().expect("run").len();
    let second = rig.interval(1).expect("run");
    assert_eq!(second.from_ns, first.to_ns, "it begins where the first one ended");
    assert!(second.transfers > between as u64, "what was done between two questions is counted");
    assert!(first.elapsed() >= 2e-3);
}

#[test]
fn short_and_interrupted_transfers_are_continued_and_counted_once() {
    let script =
        [Act::Part(512), Act::Fail(Errno::INTR), Act::Part(1), Act::Fail(Errno::AGAIN), Act::Part(100)];
    let mut rig = rig(DiskOperation::Read, 2, 10, &script);
    assert_eq!(rig.done(20).expect("run").transfers, 20);
    rig.verify().expect("check");
}

#[test]
fn a_failure_is_reported_with_place_and_cause() {
    let mut rig = rig(DiskOperation::Write, 1, 10, &[Act::Whole, Act::Part(512), Act::Fail(Errno::IO)]);
    let error = rig.done(5).expect_err("fails");
    let LoadError::Fault(TransferFault { request, what: FaultCause::Errno(Errno::IO) }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((request.start, request.len), (512, 512));
    let text = error.to_string();
    assert!(text.contains(&format!("write of 512 B at offset {}", request.offset)), "{text}");
    assert!(text.contains("dmesg"), "{text}");
}

#[test]
fn more_bytes_than_requested_are_an_error() {
    for operation in [DiskOperation::Read, DiskOperation::Write] {
        let error = rig(operation, 1, 10, &[Act::Excess]).done(1).expect_err("fails");
        let holds = matches!(error, LoadError::Fault(TransferFault { what: FaultCause::Excess(_), .. }));
        assert!(holds, "{error:?}");
    }
}

#[test]
fn the_end_of_the_file_is_no_transfer_of_nothing() {
    let error = rig(DiskOperation::Read, 1, 10, &[Act::Part(0)]).done(1).expect_err("fails");
    assert!(matches!(error, LoadError::Fault(TransferFault { what: FaultCause::Short(0), .. })), "{error:?}");
    // If direct I/O cannot continue at an unaligned offset, the cause is the short transfer.
    let script = [Act::Part(100), Act::Fail(Errno::INVAL)];
    let error = rig(DiskOperation::Read, 1, 10, &script).done(1).expect_err("fails");
    let holds = matches!(error, LoadError::Fault(TransferFault { what: FaultCause::Short(100), .. }));
    assert!(holds, "{error:?}");
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let request = Request { slot: 0, op: RequestKind::DataSync, file: 0, offset: 0, start: 0, len: 0 };
    for errno in [Errno::IO, Errno::INTR, Errno::AGAIN, Errno::NOSPC] {
        let outcome = Err(errno);
        let completion = Completion { request, outcome, submitted_ns: 0, accepted_ns: 0, completed_ns: 0 };
        let said = remaining_request(&completion);
        assert_eq!(said, Err(TransferFault { request, what: FaultCause::Errno(errno) }));
    }
}

#[test]
fn damage_is_found_in_what_was_read_and_in_what_was_written() {
    for operation in [DiskOperation::Read, DiskOperation::Write] {
        let mut rig = rig(operation, 4, 4, &[]);
        rig.done(8).expect("run");
        rig.verify().expect("check");
        rig.done(0).expect("run");
        // Only the last transfer of each slot is known: four more reads are all four blocks.
        let block = rig.slots[2].whole.offset;
        rig.engine.files[0][block as usize + 512] ^= 1;
        if operation == DiskOperation::Read {
            rig.done(4).expect("run");
        }
        let error = rig.verify().expect_err("damaged").to_string();
        assert!(error.starts_with(&format!("verify failed at offset {}: ", block + 512)), "{error}");
        assert!(error.contains("; read again: the same as at first; "), "{error}");
    }
}

#[test]
fn a_reading_that_was_wrong_once_does_not_accuse_what_is_stored() {
    let mut rig = rig(DiskOperation::Read, 1, 4, &[]);
    rig.done(4).expect("run");
    rig.engine.buffers[0][512] ^= 1;
    let error = rig.verify().expect_err("damaged").to_string();
    for says in ["; read again: what was written; ", "what is stored is right", "no write of plimsoll's"] {
        assert!(error.contains(says), "{error}");
    }
    assert!(!error.contains("lost, changed or misplaced"), "{error}");
}

#[test]
fn every_write_differs_from_what_was_there() {
    let mut rig = rig(DiskOperation::Write, 2, 8, &[]);
    let before = rig.engine.files[0].clone();
    rig.done(8).expect("run");
    for (old, new) in before.chunks_exact(512).zip(rig.engine.files[0].chunks_exact(512)) {
        assert_ne!(old, new);
    }
}

#[test]
fn a_copy_reads_here_and_writes_there_and_counts_once() {
    let script = [Act::Part(512), Act::Whole, Act::Fail(Errno::INTR), Act::Part(100)];
    let mut rig = rig(DiskOperation::Copy, 3, 20, &script);
    let tally = rig.done(20).expect("run");
    assert_eq!((tally.transfers, tally.bytes), (20, 20 * BLOCK as u64));
    assert_eq!((tally.read.bytes, tally.written.bytes), (tally.bytes, tally.bytes));
    let both = |times: &Option<Times>| times.as_ref().expect("apart").sum_ns();
    assert_eq!(both(&tally.read.latency) + both(&tally.written.latency), tally.latency.sum_ns());
    rig.verify().expect("check");
    assert_eq!(rig.engine.files[0], rig.engine.files[1]);
    rig.engine.files[1][512] ^= 1;
    let said = rig.verify().is_err();
    assert_eq!(said, rig.slots.iter().any(|slot| { slot.finished && slot.whole.offset == 0 }));
}

#[test]
fn the_second_halves_of_copies_go_out_as_the_first_ones_came_in() {
    let case = Case { operation: DiskOperation::Copy, order: BlockOrder::Sequential, ..Case::default() };
    let mut rig = rig_of(8, 16, case);
    rig.refill(8).expect("queue");
    rig.reap(WaitEnd::Endless, TallyMode::Yes).expect("run");
    let offsets = |all: &mut dyn Iterator<Item = &Request>| all.map(|request| request.offset).collect();
    let read: Vec<u64> = offsets(&mut rig.engine.done().iter().map(|completion| &completion.request));
    let written: Vec<u64> = offsets(&mut rig.engine.queued.iter());
    assert_eq!((written.len(), written), (2, read));
}

#[test]
fn mixed_loads_count_both_directions() {
    let mut rig = rig(DiskOperation::Mixed { read_share: 70 }, 4, 50, &[]);
    let tally = rig.done(500).expect("run");
    let [read, written] = [&tally.read, &tally.written];
    assert_eq!(read.transfers + written.transfers, 500);
    assert!((300..400).contains(&read.transfers), "{}", read.transfers);
    assert_eq!(read.latency.as_ref().map(Times::count), Some(read.transfers));
    rig.verify().expect("check");
    assert_eq!(TestData::new(1, "fill").first_misplaced(&rig.engine.files[0], 0), None);
}

#[test]
fn blocks_of_several_sizes_are_written_where_they_belong() {
    let blocks = parse_sizes("1K@1+512@1").unwrap();
    let case = Case { operation: DiskOperation::Write, blocks, ..Case::default() };
    let mut rig = rig_of(4, 20, case);
    let tally = rig.done(300).expect("run");
    assert!(tally.bytes > 300 * 512 && tally.bytes < 300 * 1024, "{}", tally.bytes);
    rig.verify().expect("check");
    assert_eq!(TestData::new(1, "fill").first_misplaced(&rig.engine.files[0], 0), None);
}

#[test]
fn writes_go_through_or_are_flushed_as_asked() {
    let writes = |through, flush| {
        let manner = LoadOptions { flush, ..LoadOptions::default() };
        let case = Case { operation: DiskOperation::Write, through, manner, ..Case::default() };
        let mut rig = rig_of(4, 50, case);
        let tally = rig.done(100).expect("run");
        assert_eq!(tally.transfers, 100);
        let flushed = rig.asked(RequestKind::DataSync) + rig.asked(RequestKind::Sync);
        (rig.asked(RequestKind::WriteThrough), flushed, tally.sync.count())
    };
    assert_eq!(writes(WriteThrough::Yes, Flush::Never), (100, 0, 0));
    assert_eq!(writes(WriteThrough::No, Flush::Never), (0, 0, 0));
    assert_eq!(writes(WriteThrough::No, Flush::AtEnd { call: SyncCall::DataSync }), (0, 1, 1));
    let (_, asked, counted) = writes(WriteThrough::No, Flush::Every { writes: 20, call: SyncCall::Sync });
    assert!((4..=5).contains(&asked) && asked as u64 == counted, "{asked}");
}

#[test]
fn a_flush_waits_for_what_is_in_flight() {
    let flush = Flush::Every { writes: 10, call: SyncCall::DataSync };
    let manner = LoadOptions { flush, ..LoadOptions::default() };
    let mut rig = rig_of(4, 50, Case { operation: DiskOperation::Write, manner, ..Case::default() });
    rig.interval(1).expect("run");
    rig.done(100).expect("run");
    let asked = &rig.engine.asked;
    let batches: Vec<usize> =
        asked.split(|request| request.op == RequestKind::DataSync).map(<[Request]>::len).collect();
    // Nothing was written after the last flush, which did not wait for a full batch.
    let [full @ .., _, 0] = batches.as_slice() else { panic!("{batches:?}") };
    assert!(full.len() > 5 && full.iter().all(|writes| (10..=10 + 4).contains(writes)), "{batches:?}");
}

#[test]
fn a_file_that_is_used_up_is_begun_anew_and_that_time_is_set_aside() {
    let renewals = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&renewals);
    let renew: Renew = Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let until = monotonic_ns() + 1_000_000;
        while monotonic_ns() < until {}
        Ok(())
    });
    let manner = LoadOptions { renew: Some(renew), ..LoadOptions::default() };
    let case =
        Case { operation: DiskOperation::Append, order: BlockOrder::Sequential, manner, ..Case::default() };
    let mut rig = rig_of(2, 10, case);
    let tally = rig.done(35).expect("run");
    assert_eq!((renewals.load(Ordering::Relaxed), tally.transfers), (3, 35));
    assert!(tally.excluded_ns >= 3_000_000 && tally.excluded_cpu_ns > 0);
    assert!(tally.elapsed() <= (tally.to_ns - tally.from_ns) as f64 * 1e-9 - 3e-3);
    rig.verify().expect("check");
}

#[test]
fn an_open_loop_begins_no_earlier_than_meant_and_counts_the_waiting() {
    let open = |depth, arrivals, rate| {
        let schedule = Some(StartSchedule::new(arrivals, rate, 1));
        let manner = LoadOptions { schedule, ..LoadOptions::default() };
        rig_of(depth, 50, Case { manner, ..Case::default() })
    };
    for arrivals in [ArrivalProcess::Even, ArrivalProcess::Poisson] {
        let mut rig = open(2, arrivals, 1e6);
        let tally = rig.done(100).expect("run");
        assert_eq!((tally.transfers, tally.latency.count()), (100, 100));
        assert!(rig.engine.deepest <= 2);
        assert!(tally.latency.sum_ns() >= tally.complete.sum_ns());
        assert!(rig.interval(1_000_000).expect("run").transfers > 0);
        rig.stop().expect("stop");
    }
    // A hundred even starts at ten per millisecond take ten milliseconds, however fast the device.
    assert!(open(8, ArrivalProcess::Even, 1e4).done(100).expect("run").elapsed() >= 9.9e-3);
}

#[test]
fn a_sample_past_its_cap_is_cut_and_says_so() {
    let mut rig = rig(DiskOperation::Read, 2, 50, &[]);
    let portion = Portion::Transfers { transfers: u64::MAX / 2, cap_ns: 2_000_000 };
    let tally = rig.count(portion, tally()).expect("run");
    assert!(tally.cut && tally.transfers > 0 && tally.elapsed() >= 2e-3);
    assert_eq!(tally.latency.count(), tally.transfers);
    assert!(!rig.done(10).expect("run").cut);
}

#[test]
fn a_limit_below_the_depth_holds() {
    let mut rig = rig(DiskOperation::Read, 8, 50, &[]);
    rig.set_limit(3);
    rig.interval(1).expect("run");
    rig.stop().expect("stop");
    rig.done(100).expect("run");
    assert_eq!(rig.engine.deepest, 3);
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
    #[test]
    fn no_transfer_is_lost_or_counted_twice(
        operation in 0_usize..4, depth in 1_usize..9, blocks in 9_u64..40, wanted in 1_u64..60,
        script in prop::collection::vec(act(), 0..80),
    ) {
        let operation = [DiskOperation::Read, DiskOperation::Write, DiskOperation::Copy, DiskOperation::Mixed { read_share: 50 }][operation];
        let mut rig = rig(operation, depth, blocks, &script);
        let tally = rig.done(wanted).expect("run");
        prop_assert_eq!((tally.transfers, tally.latency.count()), (wanted, wanted));
        prop_assert!(rig.engine.deepest <= depth);
        prop_assert_eq!((rig.in_flight, rig.idle.len()), (0, depth));
        rig.verify().expect("check");
        let noise = TestData::new(1, "fill");
        prop_assert_eq!(noise.first_misplaced(&rig.engine.files[0], 0), None);
    }
}
