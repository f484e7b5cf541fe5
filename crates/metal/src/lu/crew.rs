//! What one thread shares out of its task: others that have nothing more urgent do parts of it.
//!
//! A task is a sequence of phases, and a phase is cut into a fixed number of parts. Its leader opens a phase, does the parts
//! that nobody else does, and goes on when all are done. Whoever helps comes when it likes and is never waited for, unless
//! it has begun a part. So a thread that the system holds up delays no more than the part in its hands.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Most parts of a phase. On 16 CPUs 8 were slower (docs/performance.md); more were not tried.
pub(super) const MOST_PARTS: usize = 16;
/// Looks at what is awaited before the CPU is offered to others.
const LOOKS: u32 = 256;

/// What a phase does with some of its parts.
type Work<'run> = dyn Fn(Range<usize>) + Sync + 'run;

/// What the tasks of one leader have in common: one of them at a time.
#[derive(Debug)]
pub(super) struct Crew {
    /// One more than twice the number of the task while it is being done, two more when it is over.
    state: Line<AtomicU64>,
    /// Phases opened so far.
    phase: Line<AtomicU64>,
    /// What the open phase does.
    work: Line<UnsafeCell<Option<Erased>>>,
    /// Parts of it that are not done.
    left: Line<AtomicUsize>,
    /// Those who help.
    helpers: Line<AtomicUsize>,
    /// For each part, the phase in which somebody last took it.
    taken: Vec<Line<AtomicU64>>,
}

/// Something on cache lines of its own (two: the prefetcher fetches pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// A [`Work`] whose lifetime is kept by [`Crew::share`] instead of the compiler.
#[derive(Clone, Copy)]
struct Erased(*const Work<'static>);

impl std::fmt::Debug for Erased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("work")
    }
}

// SAFETY: `work` is what needs care; the rest is atomic. The leader writes it only in `share`, before it opens a phase and
// when all parts of the one before are done. Others read it only between taking a part of the open phase and saying that
// the part is done: `phase` and `left` order both after the one write and before the next. What it points to is Sync.
unsafe impl Sync for Crew {}
// SAFETY: as above: nothing belongs to a thread.
unsafe impl Send for Crew {}

impl Crew {
    /// For a team of so many threads, each of which has a CPU of its own or not: threads that share CPUs would keep each other
    /// from work while they wait.
    pub(super) fn new(threads: usize, alone: bool) -> Self {
        let parts = if alone { threads.clamp(1, MOST_PARTS).next_power_of_two() } else { 1 };
        Self {
            state: Line::default(),
            phase: Line::default(),
            work: Line(UnsafeCell::new(None)),
            left: Line::default(),
            helpers: Line::default(),
            taken: (0..parts).map(|_| Line::default()).collect(),
        }
    }

    /// Parts of a phase.
    pub(super) fn parts(&self) -> usize {
        self.taken.len()
    }

    /// The part with which a helper begins when so many have come before: far from the leader's and from theirs.
    pub(super) fn first_of(&self, before: usize) -> usize {
        let bits = self.parts().trailing_zeros();
        let order = (before + 1) % self.parts();
        if bits == 0 { 0 } else { order.reverse_bits() >> (usize::BITS - bits) }
    }

    /// The leader begins the task of this number, which is higher than that of the one before.
    pub(super) fn open(&self, task: u64) {
        self.state.0.store(2 * task + 1, Ordering::Release);
    }

    /// The task is over: nobody helps any longer.
    pub(super) fn close(&self) {
        let state = self.state.0.load(Ordering::Relaxed);
        self.state.0.store(state.next_multiple_of(2), Ordering::Release);
    }

    /// Whether somebody helps: a phase that is short is not worth sharing before.
    pub(super) fn is_helped(&self) -> bool {
        self.helpers.0.load(Ordering::Relaxed) > 0
    }

    /// The leader has `work` done for every part once, here or by those who help, and goes on when all are done. What is not
    /// `worth` it is not shared: it is done here for all parts at once.
    pub(super) fn share(&self, worth: bool, work: &Work<'_>) {
        if !worth || self.parts() < 2 {
            return work(0..self.parts());
        }
        let pointer: *const Work<'_> = work;
        // SAFETY: only the lifetime changes. It is dereferenced only by those who took a part of this phase, before they say
        // that it is done, and this returns when all are.
        let erased = Erased(unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(pointer) });
        // SAFETY: all parts of the phase before are done, so nobody reads it until the next one is opened.
        unsafe { *self.work.0.get() = Some(erased) };
        self.left.0.store(self.parts(), Ordering::Relaxed);
        let phase = self.phase.0.load(Ordering::Relaxed) + 1;
        self.phase.0.store(phase, Ordering::Release);
        let _phase = Phase { crew: self, phase };
        self.parts_of(phase, 0);
    }

    /// Does parts of the leader's task of this number until it is over. Begins each phase with part `first`: what it needs is often in
    /// this CPU's caches already.
    pub(super) fn help(&self, task: u64, first: usize) {
        let _helping = Helping::new(&self.helpers.0);
        let mut done = 0;
        loop {
            patiently(|| {
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

    /// Takes a part of a phase, unless somebody has. Every part of every phase is taken before the next phase is opened: so this
    /// succeeds only while `phase` is open and has the part left.
    fn take(&self, phase: u64, part: usize) -> Option<Done<'_>> {
        let before = phase.wrapping_sub(1);
        let taken = &self.taken[part].0;
        // A look first: an exchange that fails takes the line from others, too.
        if taken.load(Ordering::Relaxed) != before {
            return None;
        }
        let taken = taken.compare_exchange(before, phase, Ordering::Relaxed, Ordering::Relaxed);
        // Not `then_some`: what is made and dropped says that a part is done.
        taken.is_ok().then(|| Done(&self.left.0))
    }

    /// Does the parts of a phase that nobody has taken, from part `first` on.
    fn parts_of(&self, phase: u64, first: usize) {
        let count = self.parts();
        for part in (first..first + count).map(|part| part % count) {
            if let Some(_done) = self.take(phase, part) {
                // SAFETY: the part is taken, and not yet said to be done: see `Sync`.
                if let Some(Erased(work)) = unsafe { *self.work.0.get() } {
                    // SAFETY: as above: `share` has not returned.
                    unsafe { (*work)(part..part + 1) };
                }
            }
        }
    }
}

/// An open phase, as its leader holds it. It ends when it is dropped: what is left is taken, by a panic without being done, and
/// whoever does a part is waited for, because what the phase does is gone then.
struct Phase<'run> {
    crew: &'run Crew,
    phase: u64,
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        (0..self.crew.parts()).for_each(|part| drop(self.crew.take(self.phase, part)));
        patiently(|| self.crew.left.0.load(Ordering::Acquire) == 0);
    }
}

/// Says that a part is done when it is dropped, also by a panic: whoever waits must not wait for ever.
struct Done<'run>(&'run AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Counts one who helps for as long as it does.
struct Helping<'run>(&'run AtomicUsize);

impl<'run> Helping<'run> {
    fn new(helpers: &'run AtomicUsize) -> Self {
        helpers.fetch_add(1, Ordering::Relaxed);
        Self(helpers)
    }
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until `met`; now and then others may have the CPU meanwhile.
fn patiently(met: impl Fn() -> bool) {
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

/// `these` of so many equal `parts` of `whole`, without what is before `from`. `from` moves no bound, it only cuts off: so a part is
/// the same in one phase and the next, and what a thread has of it in its caches is needed again.
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

    // SAFETY: only the one thread that does a part touches it.
    unsafe impl Sync for Plain {}

    /// Runs `lead` as the leader of task 1 while so many others help with it.
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
            // What one phase wrote, the next one reads: plain numbers, as in the factorisation.
            let done: Vec<Plain> = (0..crew.parts()).map(|_| Plain(UnsafeCell::new(0))).collect();
            helped(&crew, helpers, || {
                for phase in 0..2000 {
                    crew.share(phase % 7 != 3, &|these| {
                        for part in these {
                            // SAFETY: a part is one thread's in each phase, and phases follow one another.
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
        // Over: both return at once.
        crew.help(3, 0);
        crew.help(2, 1);
        std::thread::scope(|scope| {
            // Not yet open.
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
                        patiently(|| begun.load(Ordering::Acquire));
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
        assert_eq!(
            [Crew::new(8, false).parts(), Crew::new(8, true).parts(), Crew::new(300, true).parts()],
            [1, 8, 16]
        );
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
