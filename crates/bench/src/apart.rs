//! How far apart the CPUs of a case are, where a hypervisor may move them while it is measured.
//!
//! Two CPUs of a guest may share a core now, a last-level cache a minute later, and then stand on different chiplets: what they
//! compute together halves in the first, and what they get from memory doubles in the last. The guest is not told; but how
//! long one CPU takes to see what its neighbour wrote tells it (`cpu.core-to-core`).

use std::fmt;
use std::time::Duration;

use plimsoll_metal::handover::{Exchange, Pair};

use super::subsystem_of;
use crate::case::Case;
use crate::machine::Machine;
use crate::quantity::{Quantity, Unit};
use crate::warning::Warn;

/// What one look at a pair takes beside its half millisecond of warming up: some bursts between distant CPUs.
const LOOK: Duration = Duration::from_micros(500);
/// Pairs that are looked at: a look is to stay short beside a sample.
const MOST_PAIRS: usize = 8;

/// Whether two times from one CPU to the next are of different caches, on which depends what CPUs get from memory.
pub(super) fn other_caches(one: f64, other: f64) -> bool {
    const ANOTHER_CACHE: f64 = 1.5;
    one.max(other) > ANOTHER_CACHE * one.min(other)
}

/// Whether one of two times is of the threads of a core and the other is not, on which depends what they compute: those see each
/// other in less than 15 ns (10 ns here, 27 within a cache and 110 beyond).
pub(super) fn other_cores(one: f64, other: f64) -> bool {
    const SAME_CORE: f64 = 15e-9;
    (one < SAME_CORE) != (other < SAME_CORE)
}

/// Neighbours among the CPUs of a case.
pub(crate) struct Apart {
    has_moved: fn(f64, f64) -> bool,
    pairs: Vec<Pair>,
    /// The least and the most that was seen, in seconds.
    seen: Option<[f64; 2]>,
}

impl Apart {
    /// Threads for the pairs; none on bare metal, where CPUs stay in their places.
    pub(crate) fn of(machine: &Machine, case: &Case, cpus: &[usize]) -> Self {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        let virtually = machine.virtualisation.is_virtual == Some(true);
        let neighbours = cpus.windows(2).filter(|_| virtually).take(MOST_PAIRS);
        let pairs = neighbours.filter_map(|pair| Pair::new([pair[0], pair[1]]).ok()).collect();
        Self { has_moved: subsystem_of(case).has_moved, pairs, seen: None }
    }

    /// The mean time from one CPU to its neighbour now, in seconds. A pair that was kept waiting is
    /// left out from then on: the CPUs are busy, and it would wait again.
    pub(crate) fn look(&mut self) -> Option<f64> {
        let mut times = Vec::with_capacity(self.pairs.len());
        self.pairs.retain_mut(|pair| {
            let bounced = pair.bounce(Exchange::CompareAndSwap, LOOK).ok();
            // The quickest burst: what interrupts one only makes it longer.
            let time = bounced.and_then(|bounced| bounced.one_way.into_iter().reduce(f64::min));
            times.extend(time);
            time.is_some()
        });
        let mean = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)?;
        let [least, most] = self.seen.unwrap_or([mean; 2]);
        self.seen = Some([least.min(mean), most.max(mean)]);
        Some(mean)
    }

    /// Told where the CPUs were moved while the case was measured.
    pub(crate) fn warning(&self) -> Option<CpusMoved> {
        let [least, most] = self.seen.filter(|[least, most]| (self.has_moved)(*least, *most))?;
        Some(CpusMoved { least, most })
    }
}

/// That the CPUs were moved while the case was measured: the least and the most time from one to the next, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpusMoved {
    least: f64,
    most: f64,
}

impl Warn for CpusMoved {
    fn code(&self) -> &'static str {
        "cpus-moved"
    }
}

impl fmt::Display for CpusMoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, most] = [self.least, self.most].map(|seconds| Quantity::new(seconds, Unit::Second));
        write!(
            f,
            "CPUs moved: the hypervisor moved them while it was measured ({least} and then {most} from one to the next), so \
             samples of different places are mixed; measure again, or on CPUs that stay (a dedicated host)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Root, Virtualisation};

    fn case() -> Case {
        Case::of("memory.bandwidth").with_count("threads", 2)
    }

    fn machine(is_virtual: Option<bool>) -> Machine {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        Machine { virtualisation: Virtualisation { is_virtual, ..machine.virtualisation.clone() }, ..machine }
    }

    #[test]
    fn neighbours_of_a_guest_are_looked_at_and_told_apart() {
        let allowed: Vec<usize> = Machine::discover(&Root::live()).cpu.allowed.iter().take(2).collect();
        let mut apart = Apart::of(&machine(Some(true)), &case(), &allowed);
        // One CPU has no neighbour; two give a time unless something else holds one of them.
        assert_eq!(apart.pairs.len(), allowed.len() - 1);
        if let Some(seconds) = apart.look() {
            assert!(seconds > 0.0 && apart.seen == Some([seconds; 2]));
            assert_eq!(apart.warning(), None, "one place is no move");
        }
        assert!(Apart::of(&machine(Some(false)), &case(), &allowed).pairs.is_empty());
        assert!(Apart::of(&machine(Some(true)), &case(), &[0, 0]).pairs.is_empty());
    }

    #[test]
    fn a_move_is_told_with_both_times() {
        let apart = |case: Case, seen| Apart {
            has_moved: subsystem_of(&case).has_moved,
            pairs: Vec::new(),
            seen: Some(seen),
        };
        assert_eq!(apart(case(), [50e-9, 60e-9]).warning(), None);
        // What is computed does not depend on the caches, but on the core.
        let peak = || Case::of("cpu.peak").with_word("op", "fma");
        assert_eq!(apart(peak(), [27e-9, 110e-9]).warning(), None);
        assert!(apart(peak(), [10e-9, 27e-9]).warning().is_some());
        let told = apart(case(), [50e-9, 130e-9]).warning().expect("moved").to_string();
        assert!(told.contains("50") && told.contains("130"), "{told}");
    }
}
