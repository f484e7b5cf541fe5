//! Detects whether two CPUs share a core: work that fills a core's multipliers takes twice as long
//! on two hardware threads of one core. Medians are robust against interruptions.

use std::time::{Duration, Instant};

use crate::capability::time;
use crate::kernel::LoadedKernel;
use crate::team::{Team, TeamError, TeamMember};

const SLICE_SECONDS: f64 = 25e-6;
const CPU_WORK_TIME: Duration = Duration::from_millis(2);
const TRIAL_TURNS: u64 = 1_000;

/// Median time of a slice on each of two CPUs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SiblingTrial {
    /// While the other CPU did nothing.
    pub alone: [f64; 2],
    /// While the other CPU did the same work.
    pub both: [f64; 2],
}

/// Times short runs of `kernel` on each of two CPUs alone, and on both at once, about 10 ms in all;
/// `cpus[first]` (0 or 1) works alone first, the other CPU alone last.
pub fn time_siblings(
    cpus: [usize; 2],
    first: usize,
    kernel: &LoadedKernel,
) -> Result<SiblingTrial, TeamError> {
    let shortest = Team::new(&cpus[..1])?.run(|_| {
        let mut kernel = kernel.clone();
        (0..5).map(|_| time(&mut kernel, TRIAL_TURNS)).fold(f64::INFINITY, f64::min)
    })?;
    let turns = |shortest: &f64| ((SLICE_SECONDS / shortest * TRIAL_TURNS as f64) as u64).max(1);
    let turns = shortest.first().map_or(1, turns);
    let work = |member: TeamMember<'_>| {
        let mut kernel = kernel.clone();
        member.barrier();
        middle(&mut kernel, turns)
    };
    let on = |cpus: &[usize]| -> Result<Vec<f64>, TeamError> { Team::new(cpus)?.run(work) };
    let mut found = SiblingTrial { alone: [0.0; 2], both: [0.0; 2] };
    let order = if first == 0 { [0, 1] } else { [1, 0] };
    for (step, place) in order.into_iter().enumerate() {
        found.alone[place] = on(&[cpus[place]])?.first().copied().unwrap_or(0.0);
        if step == 0 {
            found.both = <[f64; 2]>::try_from(on(&cpus)?).unwrap_or_default();
        }
    }
    Ok(found)
}

fn middle(kernel: &mut LoadedKernel, turns: u64) -> f64 {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(256);
    while begun.elapsed() < CPU_WORK_TIME {
        times.push(time(kernel, turns));
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::kernel::{Element, Op, find};

    #[test]
    fn each_is_timed_alone_and_with_the_other() {
        let cpus = crate::affinity::allowed().unwrap();
        let kernel = find(Op::FMA, Element::F64, Isa::best()).unwrap().load().unwrap();
        let other = cpus.get(1).copied().unwrap_or(cpus[0]);
        for first in [0, 1] {
            let found = time_siblings([cpus[0], other], first, &kernel).unwrap();
            assert!(found.alone.iter().chain(&found.both).all(|seconds| *seconds > 0.0), "{found:?}");
        }
    }
}
