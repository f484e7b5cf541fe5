//! How far apart the CPUs of a case are, where a hypervisor may move them while it is measured.
//!
//! Two CPUs of a guest may share a core now, a last-level cache a minute later, and then stand on different chiplets: what they
//! compute together halves in the first, and what they get from memory doubles in the last. The guest is not told; but how
//! long one CPU takes to see what its neighbour wrote tells it (`cpu.core-to-core`).

use std::fmt;
use std::time::Duration;

use plimsoll_metal::handover::{Exchange, Pair};

use plimsoll_machine::Machine;
use plimsoll_model::sample::Conditions;
use plimsoll_model::warning::{Warn, Warning};
use plimsoll_stats::median;
use plimsoll_units::quantity::{Quantity, Unit};

/// What one look at a pair takes beside its half millisecond of warming up: some bursts between distant CPUs.
const PAIR_LOOK_TIME: Duration = Duration::from_micros(500);
/// Pairs that are looked at: a look is to stay short beside a sample.
const MOST_PAIRS: usize = 8;

/// Where the CPUs of a case must stay for its figures to be of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// On cores of their own, or on the threads of one: on that depends what they compute.
    OnCores,
    /// Beside the same cache: on that depends what they get from memory.
    AtCaches,
}

impl Stay {
    /// Whether two looks are of different places.
    #[must_use]
    pub fn has_moved(self, one: Look, other: Look) -> bool {
        const ANOTHER_CACHE: f64 = 1.5;
        match self {
            Self::OnCores => one.is_of_one_core() != other.is_of_one_core(),
            Self::AtCaches => one.seconds.max(other.seconds) > ANOTHER_CACHE * one.seconds.min(other.seconds),
        }
    }
}

/// How far apart CPUs are: the time from one to the next, and the clock then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Seconds from one CPU to the next.
    pub seconds: f64,
    /// Clock of their cores, in Hz; `None` where it is unknown.
    pub clock_hz: Option<f64>,
}

impl Look {
    /// That of a sample or a case; `None` where nobody looked.
    #[must_use]
    pub fn of(conditions: &Conditions) -> Option<Self> {
        conditions.core_to_core.map(|seconds| Self { seconds, clock_hz: conditions.clock_hz })
    }

    /// The medians of several; `None` where nobody looked.
    #[must_use]
    pub fn median<'a>(of: impl Iterator<Item = &'a Conditions>) -> Option<Self> {
        let looks: Vec<Self> = of.filter_map(Self::of).collect();
        let seconds = median(looks.iter().map(|look| look.seconds).collect())?;
        Some(Self { seconds, clock_hz: median(looks.iter().filter_map(|look| look.clock_hz).collect()) })
    }

    /// Whether the CPUs are threads of one core. Such threads were seen to take 40 to 62 cycles here, also while another guest
    /// was busy on their core, and those of neighbouring cores 105.
    #[must_use]
    pub fn is_of_one_core(self) -> bool {
        const SAME_CORE_CYCLES: f64 = 75.0;
        /// The same at 5 GHz: the clock is higher nowhere, so that no two cores are taken for one.
        const SAME_CORE_SECONDS: f64 = 15e-9;
        self.seconds < self.clock_hz.map_or(SAME_CORE_SECONDS, |hz| SAME_CORE_CYCLES / hz)
    }
}

/// Neighbours among the CPUs of a case.
pub struct Apart {
    stay: Stay,
    pairs: Vec<Pair>,
    /// Whether the CPUs are shown as cores of their own.
    shown_apart: bool,
    /// The nearest and the farthest look.
    seen: Option<[Look; 2]>,
}

impl Apart {
    /// Threads for the pairs; none on bare metal, where CPUs stay in their places.
    pub fn of(machine: &Machine, stay: Stay, cpus: &[usize]) -> Self {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        let virtually = machine.virtualisation.is_virtual == Some(true);
        let neighbours = cpus.windows(2).filter(|_| virtually).take(MOST_PAIRS);
        let pairs = neighbours.filter_map(|pair| Pair::new([pair[0], pair[1]]).ok()).collect();
        let shown_apart = machine.cpu.cores_of(&cpus.iter().copied().collect()) == Some(cpus.len());
        Self { stay, pairs, shown_apart, seen: None }
    }

    /// The mean time from one CPU to its neighbour now, in seconds; `clock_hz` is that of the sample before. A pair that was
    /// kept waiting is left out from then on: the CPUs are busy, and it would wait again.
    pub fn look(&mut self, clock_hz: Option<f64>) -> Option<f64> {
        let mut times = Vec::with_capacity(self.pairs.len());
        self.pairs.retain_mut(|pair| {
            let bounced = pair.bounce(Exchange::CompareAndSwap, PAIR_LOOK_TIME).ok();
            // The quickest burst: what interrupts one only makes it longer.
            let time = bounced.and_then(|bounced| bounced.one_way.into_iter().reduce(f64::min));
            times.extend(time);
            time.is_some()
        });
        let seconds = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)?;
        self.see(Look { seconds, clock_hz });
        Some(seconds)
    }

    fn see(&mut self, look: Look) {
        let [near, far] = self.seen.unwrap_or([look; 2]);
        let nearer = |a: Look, b: Look| if a.seconds <= b.seconds { [a, b] } else { [b, a] };
        self.seen = Some([nearer(near, look)[0], nearer(far, look)[1]]);
    }

    /// Where the CPUs were moved while the case was measured, or were one core all the time.
    pub fn warning(&self) -> Option<Elsewhere> {
        let [near, far] = self.seen?;
        let together = self.stay == Stay::OnCores && self.shown_apart && far.is_of_one_core();
        if self.stay.has_moved(near, far) {
            Some(Elsewhere::Moved { least: near.seconds, most: far.seconds })
        } else {
            together.then_some(Elsewhere::OnOneCore { most: far.seconds })
        }
    }
}

/// That the hypervisor had the CPUs elsewhere than it shows. Times are from one CPU to the next, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Elsewhere {
    /// It moved them while the case was measured.
    Moved {
        /// The shortest time.
        least: f64,
        /// The longest time.
        most: f64,
    },
    /// They were threads of one core.
    OnOneCore {
        /// The longest time.
        most: f64,
    },
}

impl Elsewhere {
    const MOVED: &str = Warning::CPUS_MOVED;
    const ON_ONE_CORE: &str = "cpus-on-one-core";
    /// Codes of both.
    pub const WARNING_CODES: [&str; 2] = [Self::MOVED, Self::ON_ONE_CORE];
}

impl Warn for Elsewhere {
    fn code(&self) -> &'static str {
        match self {
            Self::Moved { .. } => Self::MOVED,
            Self::OnOneCore { .. } => Self::ON_ONE_CORE,
        }
    }
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |seconds: f64| Quantity::new(seconds, Unit::Second);
        match self {
            Self::Moved { least, most } => write!(
                f,
                "CPUs moved: the hypervisor moved the vCPUs during the case (core-to-core latency changed from {} to {}), \
                 so its samples are not comparable; measure again, or on a dedicated host",
                time(*least),
                time(*most)
            ),
            Self::OnOneCore { most } => write!(
                f,
                "CPUs on one core: the hypervisor shows a core for each CPU, but ran them on one core (at most {} from one to the \
                 next, as between threads of a core); the limit counts a core for each; measure again, or on a dedicated host",
                time(*most)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::{Root, Virtualisation};

    fn machine(is_virtual: Option<bool>) -> Machine {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        Machine { virtualisation: Virtualisation { is_virtual, ..machine.virtualisation.clone() }, ..machine }
    }

    #[test]
    fn neighbours_of_a_guest_are_looked_at_and_told_apart() {
        let allowed: Vec<usize> = Machine::discover(&Root::live()).cpu.allowed.iter().take(2).collect();
        let mut apart = Apart::of(&machine(Some(true)), Stay::AtCaches, &allowed);
        // One CPU has no neighbour; two give a time unless something else holds one of them.
        assert_eq!(apart.pairs.len(), allowed.len() - 1);
        if let Some(seconds) = apart.look(None) {
            assert!(seconds > 0.0 && apart.seen == Some([Look { seconds, clock_hz: None }; 2]));
            assert_eq!(apart.warning(), None, "one place is no move");
        }
        assert!(Apart::of(&machine(Some(false)), Stay::AtCaches, &allowed).pairs.is_empty());
        assert!(Apart::of(&machine(Some(true)), Stay::AtCaches, &[0, 0]).pairs.is_empty());
    }

    fn seen(stay: Stay, times: &[f64], clock_hz: Option<f64>) -> Option<Elsewhere> {
        let mut apart = Apart { stay, pairs: Vec::new(), shown_apart: true, seen: None };
        times.iter().for_each(|seconds| apart.see(Look { seconds: *seconds, clock_hz }));
        apart.warning()
    }

    #[test]
    fn a_move_is_told_with_both_times() {
        assert_eq!(seen(Stay::AtCaches, &[50e-9, 60e-9], None), None);
        // What is computed does not depend on the caches, but on the core.
        assert_eq!(seen(Stay::OnCores, &[27e-9, 110e-9], None), None);
        assert!(matches!(seen(Stay::OnCores, &[10e-9, 27e-9], None), Some(Elsewhere::Moved { .. })));
        let told = seen(Stay::AtCaches, &[130e-9, 60e-9, 50e-9], None).expect("moved").to_string();
        assert!(told.contains("50") && told.contains("130"), "{told}");
    }

    #[test]
    fn threads_of_one_core_are_known_by_cycles() {
        let one_core = |times: &[f64], hz| {
            matches!(seen(Stay::OnCores, times, Some(hz)), Some(Elsewhere::OnOneCore { .. }))
        };
        // Seen on one core of a busy host, and between cores of a fast and of a slow chip.
        assert!(one_core(&[15.6e-9, 15.9e-9], 3.9e9));
        assert!(one_core(&[10e-9, 15.6e-9], 3.9e9) && one_core(&[25e-9], 2.5e9));
        assert!(!one_core(&[17e-9], 5.5e9) && !one_core(&[27e-9], 3.9e9) && !one_core(&[42e-9], 2.5e9));
        assert!(matches!(seen(Stay::OnCores, &[15.6e-9, 27e-9], Some(3.9e9)), Some(Elsewhere::Moved { .. })));
        assert_eq!(seen(Stay::AtCaches, &[15.6e-9], Some(3.9e9)), None, "memory does not depend on it");
    }
}
