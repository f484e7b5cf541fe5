//! Which kernel is best: all are tried for a lap, those that come near again, until a few are left, and these some more.
//!
//! A kernel's best lap counts, because whatever disturbs only makes slower; and what was far behind in its first lap is
//! not tried again, so that many kernels cost little more than a few.

use plimsoll_metal::isa::Isa;
use plimsoll_metal::stream::{self, LoadedStream, StreamOp};

/// How far behind the best a kernel may be to be tried in the next round, as a share.
const NEAR: [f64; 4] = [0.25, 0.10, 0.05, 0.03];
/// Kernels that are always tried again, however far behind.
const ALWAYS: usize = 3;
/// Then the few are tried so often again, in turn, while all trials took no longer than this. Between kernels some per cent
/// apart a single lap of memory that others use too decides by chance, and another one in the next run.
const AGAIN: usize = 6;
const AGAIN_NEAR: f64 = 0.03;
const AGAIN_SECONDS: f64 = 1.5;

/// A kernel, and what its quickest pass took.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) kernel: LoadedStream,
    pub(super) pass_seconds: f64,
}

/// The kernels that a name stands for: `best` for all that this CPU can run, the portable one only without better.
pub(super) fn named(op: StreamOp, variant: &str) -> Vec<LoadedStream> {
    let all: Vec<LoadedStream> = stream::available(op).collect();
    let better = |kernel: &LoadedStream| kernel.kernel().isa != Isa::Portable;
    match variant {
        "best" if all.iter().any(better) => all.into_iter().filter(better).collect(),
        "best" => all,
        name => all.into_iter().filter(|kernel| kernel.variant() == name).collect(),
    }
}

/// The quickest of `kernels`; `lap` says what a pass of one took, where a lap has so many `passes`, or a part of one. `None` without kernels.
pub(super) fn quickest<E>(
    kernels: Vec<LoadedStream>,
    passes: f64,
    mut lap: impl FnMut(LoadedStream) -> Result<f64, E>,
) -> Result<Option<Chosen>, E> {
    let mut left: Vec<Chosen> =
        kernels.into_iter().map(|kernel| Chosen { kernel, pass_seconds: f64::INFINITY }).collect();
    let mut spent = 0.0;
    for (round, near) in NEAR.into_iter().chain([AGAIN_NEAR; AGAIN]).enumerate() {
        if round >= NEAR.len() && spent > AGAIN_SECONDS {
            break;
        }
        for one in &mut left {
            let seconds = lap(one.kernel)?;
            spent += seconds * passes;
            one.pass_seconds = one.pass_seconds.min(seconds);
        }
        left.sort_by(|a, b| a.pass_seconds.total_cmp(&b.pass_seconds));
        let bound = left.first().map_or(0.0, |best| best.pass_seconds * (1.0 + near));
        let close = left.iter().filter(|one| one.pass_seconds <= bound).count();
        left.truncate(close.max(ALWAYS));
    }
    Ok(left.into_iter().next())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_disturbed_first_lap_does_not_cost_the_best_its_place() {
        let kernels = named(StreamOp::Copy, "best");
        let Some(best) = kernels.last().map(LoadedStream::variant) else { return };
        let mut laps = 0_u32;
        let chosen = quickest(kernels, 1.0, |kernel| {
            laps += 1;
            let seconds = if kernel.variant() == best { 1.0 } else { 1.04 };
            // Every third lap is disturbed.
            Ok::<f64, ()>(if laps.is_multiple_of(3) { seconds * 1.2 } else { seconds })
        });
        assert_eq!(chosen.unwrap().unwrap().kernel.variant(), best);
    }

    #[test]
    fn what_is_far_behind_is_tried_once() {
        let kernels = named(StreamOp::Copy, "best");
        let count = kernels.len();
        let mut laps = 0;
        let mut pace = 1.0;
        quickest(kernels, 1.0, |_| {
            laps += 1;
            pace *= 1.5;
            Ok::<f64, ()>(pace)
        })
        .unwrap();
        assert_eq!(laps, count + 3 * ALWAYS.min(count));
    }

    #[test]
    fn those_near_the_best_are_tried_again_while_it_takes_little_time() {
        let laps = |pass_seconds: f64, passes: f64| {
            let mut laps = BTreeMap::<String, usize>::new();
            quickest(named(StreamOp::Copy, "best"), passes, |kernel| {
                *laps.entry(kernel.variant()).or_default() += 1;
                Ok::<f64, ()>(pass_seconds)
            })
            .unwrap();
            laps
        };
        // Equal kernels all stay.
        assert!(laps(1e-3, 2.0).values().all(|laps| *laps == NEAR.len() + AGAIN));
        assert!(laps(1e-3, 2000.0).values().all(|laps| *laps == NEAR.len()));
    }

    #[test]
    fn best_is_the_portable_kernel_only_without_better() {
        for op in StreamOp::ALL {
            let best = named(op, "best");
            assert!(best.len() == 1 || best.iter().all(|kernel| kernel.kernel().isa != Isa::Portable));
            assert_eq!(named(op, "portable").len(), 1);
            assert!(named(op, "magic").is_empty());
            for kernel in best {
                assert_eq!(named(op, &kernel.variant()).len(), 1, "{}", kernel.variant());
            }
        }
        let none = quickest(Vec::new(), 1.0, |_| Ok::<f64, ()>(1.0)).unwrap();
        assert!(none.is_none());
    }
}
