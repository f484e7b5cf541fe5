//! Lets idle threads do parts of another thread's task: a sequence of phases with a fixed number of
//! parts each. The leader opens a phase, does the parts that no helper takes, and waits for helpers
//! with a part: a preempted thread delays one part.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::team::OwnLines;

/// Largest number of parts per phase: 16 CPUs were slower with 8; more were not tried.
pub(super) const MOST_PARTS: usize = 16;
const LOOKS: u32 = 256;

type PhaseWork<'run> = dyn Fn(Range<usize>) + Sync + 'run;

#[derive(Debug, Default)]
pub(super) struct Crew {
    /// 2 × task number + 1 while the task runs, + 2 after its end.
    state: OwnLines<AtomicU64>,
    phase: OwnLines<AtomicU64>,
    work: OwnLines<UnsafeCell<Option<ErasedWork>>>,
    left: OwnLines<AtomicUsize>,
    helpers: OwnLines<AtomicUsize>,
    /// For each part, the last phase in which a thread took it.
    taken: Vec<OwnLines<AtomicU64>>,
}

/// A [`PhaseWork`] whose lifetime is ensured by [`Crew::share`].
#[derive(Clone, Copy, Debug)]
struct ErasedWork(*const PhaseWork<'static>);

// SAFETY: only `work` is not atomic. The leader writes it in `share`, before it opens a phase and
// when all parts of the previous one are done. Other threads read it between taking a part of the
// open phase and marking it done: `phase` and `left` order this after one write and before the
// next. The closure is `Sync`.
unsafe impl Sync for Crew {}
// SAFETY: as above; no field belongs to one thread.
unsafe impl Send for Crew {}

impl Crew {
    /// Makes a crew, which shares work in about `threads` parts (a power of two, at most 16), or in
    /// one part if threads share CPUs (not `alone`).
    pub(super) fn new(threads: usize, alone: bool) -> Self {
        let parts = if alone { threads.clamp(1, MOST_PARTS).next_power_of_two() } else { 1 };
        Self { taken: (0..parts).map(|_| OwnLines::default()).collect(), ..Self::default() }
    }

    pub(super) fn parts(&self) -> usize {
        self.taken.len()
    }

    /// Returns the part at which a helper starts after `before` earlier helpers: far from theirs.
    pub(super) fn first_of(&self, before: usize) -> usize {
        let bits = self.parts().trailing_zeros();
        let order = (before + 1) % self.parts();
        if bits == 0 { 0 } else { order.reverse_bits() >> (usize::BITS - bits) }
    }

    /// Opens task number `task` to helper threads; numbers must increase.
    pub(super) fn open(&self, task: u64) {
        self.state.0.store(2 * task + 1, Ordering::Release);
    }

    pub(super) fn close(&self) {
        let state = self.state.0.load(Ordering::Relaxed);
        self.state.0.store(state.next_multiple_of(2), Ordering::Release);
    }

    /// Returns whether a helper thread is present; short phases are shared only then.
    pub(super) fn is_helped(&self) -> bool {
        self.helpers.0.load(Ordering::Relaxed) > 0
    }

    /// Runs `work` once for every part, on this thread and its helpers, and waits for all. If not
    /// `worth` sharing, calls `work` once here with all parts.
    pub(super) fn share(&self, worth: bool, work: &PhaseWork<'_>) {
        if !worth || self.parts() < 2 {
            return work(0..self.parts());
        }
        let pointer: *const PhaseWork<'_> = work;
        // SAFETY: only the lifetime changes. Threads dereference it between taking a part and
        // marking it done, and this function returns after all parts are done.
        let erased = ErasedWork(unsafe {
            std::mem::transmute::<*const PhaseWork<'_>, *const PhaseWork<'static>>(pointer)
        });
        // SAFETY: the previous phase is done; no thread reads it until the next phase opens.
        unsafe { *self.work.0.get() = Some(erased) };
        self.left.0.store(self.parts(), Ordering::Relaxed);
        let phase = self.phase.0.load(Ordering::Relaxed) + 1;
        self.phase.0.store(phase, Ordering::Release);
        let _phase = Phase { crew: self, phase };
        self.parts_of(phase, 0);
    }

    /// Does free parts of task number `task`, waiting for more, until the task ends. Starts each
    /// phase at part `first`, whose data is often in this CPU's caches.
    pub(super) fn help(&self, task: u64, first: usize) {
        self.helpers.0.fetch_add(1, Ordering::Relaxed);
        let _helping = Decrement(&self.helpers.0);
        let mut done = 0;
        loop {
            spin_until(|| {
                self.state.0.load(Ordering::Acquire) != 2 * task + 1
                    || self.phase.0.load(Ordering::Acquire) != done
            });
            if self.state.0.load(Ordering::Acquire) != 2 * task + 1 {
                return;
            }
            done = self.phase.0.load(Ordering::Acquire);
            self.parts_of(done, first);
        }
    }

    /// Claims `part` of phase `phase`; `None` if a thread has claimed it or the phase is over.
    /// Dropping the result marks the part as done.
    fn take(&self, phase: u64, part: usize) -> Option<Decrement<'_>> {
        let before = phase.wrapping_sub(1);
        let taken = &self.taken[part].0;
        // A load first: a failing compare-exchange would take the cache line from other threads.
        if taken.load(Ordering::Relaxed) != before {
            return None;
        }
        let taken = taken.compare_exchange(before, phase, Ordering::Relaxed, Ordering::Relaxed);
        // Not `then_some`: dropping an unused `Decrement` would mark a part done.
        taken.is_ok().then(|| Decrement(&self.left.0))
    }

    fn parts_of(&self, phase: u64, first: usize) {
        let count = self.parts();
        for part in (first..first + count).map(|part| part % count) {
            if let Some(_done) = self.take(phase, part) {
                // SAFETY: the part is taken and not yet marked done: see `Sync`.
                if let Some(ErasedWork(work)) = unsafe { *self.work.0.get() } {
                    // SAFETY: as above: `share` has not returned.
                    unsafe { (*work)(part..part + 1) };
                }
            }
        }
    }
}

/// On drop, takes the remaining parts (undone after a panic) and waits for parts in progress.
struct Phase<'run> {
    crew: &'run Crew,
    phase: u64,
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        (0..self.crew.parts()).for_each(|part| drop(self.crew.take(self.phase, part)));
        spin_until(|| self.crew.left.0.load(Ordering::Acquire) == 0);
    }
}

/// Lowers a counter by one on drop (also after a panic).
struct Decrement<'run>(&'run AtomicUsize);

impl Drop for Decrement<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Spins until `met` returns true; yields the CPU after every [`LOOKS`] polls.
fn spin_until(met: impl Fn() -> bool) {
    let mut looks = 0_u32;
    while !met() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

/// Cuts `whole` into `parts` equal parts and returns the range that the parts `these` cover, less
/// indices below `from`. Equal bounds for any `from` keep a part's data in a thread's caches.
pub(super) fn part_of(whole: Range<usize>, these: Range<usize>, parts: usize, from: usize) -> Range<usize> {
    let at = |part: usize| (whole.start + whole.len() * part / parts.max(1)).max(from);
    at(these.start)..at(these.end)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use proptest::prelude::*;

    struct Plain(UnsafeCell<u64>);

    // SAFETY: only the thread that does a part touches it.
    unsafe impl Sync for Plain {}

    /// Runs `lead` as the leader of task 1 with `helpers` helper threads.
    fn helped(crew: &Crew, helpers: usize, lead: impl FnOnce()) {
        crew.open(1);
        std::thread::scope(|scope| {
            for before in 0..helpers {
                scope.spawn(move || crew.help(1, crew.first_of(before)));
            }
            lead();
            crew.close();
        });
    }

    #[test]
    fn every_part_of_every_phase_is_done_once_whoever_helps() {
        for (threads, helpers) in [(2, 1), (4, 3), (16, 3), (5, 7), (1, 2)] {
            let crew = Crew::new(threads, true);
            let done: Vec<Plain> = (0..crew.parts()).map(|_| Plain(UnsafeCell::new(0))).collect();
            helped(&crew, helpers, || {
                for phase in 0..2000 {
                    crew.share(phase % 7 != 3, &|these| {
                        for part in these {
                            // SAFETY: one thread does a part; phases do not overlap.
                            let done = unsafe { &mut *done[part].0.get() };
                            assert_eq!(*done, phase, "part {part}");
                            *done += 1;
                        }
                    });
                }
            });
            assert!(done.into_iter().all(|done| done.0.into_inner() == 2000));
            assert!(!crew.is_helped());
        }
    }

    #[test]
    fn one_who_comes_too_late_or_too_early_harms_nothing() {
        let crew = Crew::new(4, true);
        crew.open(3);
        crew.close();
        crew.help(3, 0);
        crew.help(2, 1);
        std::thread::scope(|scope| {
            let early = scope.spawn(|| crew.help(4, 0));
            crew.open(4);
            crew.share(true, &|_| ());
            crew.close();
            early.join().unwrap();
        });
    }

    #[test]
    fn a_leader_that_panics_waits_for_those_who_still_do_a_part() {
        let crew = Crew::new(2, true);
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        helped(&crew, 1, || {
            let shared = AssertUnwindSafe(|| {
                crew.share(true, &|these| {
                    if these.start == 0 {
                        spin_until(|| begun.load(Ordering::Acquire));
                        panic!("as planned");
                    }
                    begun.store(true, Ordering::Release);
                    (0..1000).for_each(|_| std::thread::yield_now());
                    ended.store(true, Ordering::Release);
                });
            });
            assert!(catch_unwind(shared).is_err());
            assert!(ended.load(Ordering::Acquire));
        });
    }

    #[test]
    fn threads_that_share_cpus_share_no_work() {
        let parts = [(8, false), (8, true), (300, true)].map(|(n, alone)| Crew::new(n, alone).parts());
        assert_eq!(parts, [1, 8, 16]);
    }

    #[test]
    fn helpers_begin_far_from_each_other() {
        let crew = Crew::new(8, true);
        let first: Vec<usize> = (0..8).map(|before| crew.first_of(before)).collect();
        assert_eq!(first, [4, 2, 6, 1, 5, 3, 7, 0]);
        assert_eq!(Crew::new(1, true).first_of(5), 0);
    }

    proptest! {
        #[test]
        fn parts_cover_what_is_left_of_a_range_once(start in 0_usize..50, length in 0_usize..90, parts in 1_usize..17, skip in 0_usize..99) {
            let whole = start..start + length;
            let from = (start + skip).min(whole.end);
            let mut next = from;
            for part in 0..parts {
                let these = part_of(whole.clone(), part..part + 1, parts, from);
                prop_assert_eq!(these.start, next);
                next = these.end;
            }
            prop_assert_eq!(next, whole.end);
            prop_assert_eq!(part_of(whole.clone(), 0..parts, parts, from), from..whole.end);
        }
    }
}
