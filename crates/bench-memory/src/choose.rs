//! Choice of the fastest kernel: all are tried for a lap, and those close to the best are repeated.
//! The best lap of a kernel counts, because disturbances only slow it down.

use plimsoll_metal::isa::Isa;
use plimsoll_metal::stream::{self, LoadedStream, StreamOp};

pub(super) use plimsoll_model::job::memory::BEST_VARIANT;

use plimsoll_model::case::nearest;
use plimsoll_model::plan::Group;

/// Distance to the best, as a share, up to which a kernel stays for the next round.
const ROUND_DISTANCES: [f64; 4] = [0.25, 0.10, 0.05, 0.03];
const MIN_KEPT_KERNELS: usize = 3;
/// Further rounds for kernels within [`AGAIN_NEAR`] while trials took at most [`AGAIN_SECONDS`]:
/// one lap on shared memory decides by chance between kernels a few per cent apart.
const EXTRA_ROUNDS: usize = 6;
const AGAIN_NEAR: f64 = 0.03;
const AGAIN_SECONDS: f64 = 1.5;

/// Returns each of `works` with the names of its kernels that `group` requests: `best`, for `all`
/// those `available` here, or a name that is `built`. Else fails, with the nearest `known` name.
pub(super) fn variants<W: Copy>(
    group: &Group,
    works: &[W],
    built: impl Fn(W) -> Vec<String>,
    available: impl Fn(W) -> Vec<String>,
    known: impl Fn() -> Vec<String>,
) -> Result<Vec<(W, String)>, String> {
    let asked = group.words("variant", &[BEST_VARIANT]);
    let mut unmatched = asked.clone();
    let mut found = Vec::new();
    for work in works {
        for word in &asked {
            let names = match word.as_str() {
                BEST_VARIANT => vec![word.clone()],
                "all" => available(*work),
                name => built(*work).into_iter().filter(|other| other == name).collect(),
            };
            unmatched.retain(|other| names.is_empty() || other != word);
            found.extend(names.into_iter().map(|name| (*work, name)));
        }
    }
    unmatched.first().map_or(Ok(found), |word| Err(unknown_variant(word, &known())))
}

fn unknown_variant(word: &str, names: &[String]) -> String {
    let near = nearest(word, names.iter().map(String::as_str)).filter(|near| *near != word);
    format!(
        "variant must be best, all or a kernel of these operations (--variant all --list shows them): '{}' is not{}",
        plimsoll_units::text::shown(word),
        near.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
    )
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen<K = LoadedStream> {
    pub(super) kernel: K,
    pub(super) pass_seconds: f64,
}

/// Returns the kernels of `op` called `variant` that this CPU can run. For `best` these are all
/// kernels, but portable kernels only if there is no faster kind.
pub(super) fn named(op: StreamOp, variant: &str) -> Vec<LoadedStream> {
    let all: Vec<LoadedStream> = stream::available(op).collect();
    let better = |kernel: &LoadedStream| kernel.kernel().isa != Isa::Portable;
    match variant {
        BEST_VARIANT if all.iter().any(better) => all.into_iter().filter(better).collect(),
        BEST_VARIANT => all,
        name => all.into_iter().filter(|kernel| kernel.variant() == name).collect(),
    }
}

/// Returns the fastest of `kernels`, `None` if there are none, by several calls of `lap`, which
/// runs `passes` passes of a kernel over its data and returns the seconds per pass.
pub(super) fn quickest<K: Copy, E>(
    kernels: Vec<K>,
    passes: f64,
    mut lap: impl FnMut(K) -> Result<f64, E>,
) -> Result<Option<Chosen<K>>, E> {
    let mut left: Vec<Chosen<K>> =
        kernels.into_iter().map(|kernel| Chosen { kernel, pass_seconds: f64::INFINITY }).collect();
    let mut spent = 0.0;
    for (round, near) in ROUND_DISTANCES.into_iter().chain([AGAIN_NEAR; EXTRA_ROUNDS]).enumerate() {
        if round >= ROUND_DISTANCES.len() && spent > AGAIN_SECONDS {
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
        left.truncate(close.max(MIN_KEPT_KERNELS));
    }
    Ok(left.into_iter().next())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const COUNTS: std::ops::Range<usize> = 1..70;

    #[test]
    fn a_disturbed_first_lap_does_not_cost_the_best_its_place() {
        for best in COUNTS {
            let mut laps = BTreeMap::<usize, u32>::new();
            let chosen = quickest((1..=70).collect(), 1.0, |kernel| {
                let lap = laps.entry(kernel).or_default();
                *lap += 1;
                let seconds = if kernel == best { 1.0 } else { 1.04 };
                Ok::<f64, ()>(if kernel == best && *lap == 1 { seconds * 1.2 } else { seconds })
            });
            assert_eq!(chosen, Ok(Some(Chosen { kernel: best, pass_seconds: 1.0 })));
        }
    }

    #[test]
    fn kernels_far_behind_are_tried_once() {
        for count in COUNTS {
            let mut laps = 0;
            let mut pace = 1.0;
            quickest((0..count).collect(), 1.0, |_| {
                laps += 1;
                pace *= 1.5;
                Ok::<f64, ()>(pace)
            })
            .unwrap();
            assert_eq!(laps, count + 3 * MIN_KEPT_KERNELS.min(count));
        }
    }

    #[test]
    fn kernels_near_the_best_are_tried_again_while_it_takes_little_time() {
        let laps = |count: usize, pass_seconds: f64, passes: f64| {
            let mut laps = BTreeMap::<usize, usize>::new();
            quickest((0..count).collect(), passes, |kernel| {
                *laps.entry(kernel).or_default() += 1;
                Ok::<f64, ()>(pass_seconds)
            })
            .unwrap();
            laps
        };
        let most = ROUND_DISTANCES.len() + EXTRA_ROUNDS;
        for count in COUNTS {
            assert!(laps(count, 1e-3, 2.0).values().all(|laps| *laps == most));
            assert!(laps(count, 1e-3, 2000.0).values().all(|laps| *laps == ROUND_DISTANCES.len()));
        }
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
        let none = quickest(Vec::<usize>::new(), 1.0, |_| Ok::<f64, ()>(1.0));
        assert_eq!(none, Ok(None));
    }
}
