//! Fixed amounts of samples (`--volume`, `--count`) and their division among threads (`--scaling`).

use plimsoll_model::case::Case;

pub use plimsoll_model::job::{Scaling, scaling};

/// Throughput of an average machine, for rough time estimates.
#[derive(Clone, Copy, Debug)]
pub struct AveragePace {
    /// Bytes per second.
    pub bytes: f64,
    /// Operations, messages or transfers per second.
    pub operations: f64,
}

/// Estimates the seconds of one sample at `pace`, from the case's parameter `work`, `volume` or
/// `count`; `None` for a timed case, which has none of these parameters.
pub fn estimate_seconds(case: &Case, pace: AveragePace) -> Option<f64> {
    let of = |key: &str| case.number(key).map(|number| number as f64);
    let threads = of("threads").or(of("streams")).unwrap_or(1.0);
    let each = of("block").or(of("message")).unwrap_or(1.0).max(1.0);
    let (operations, bytes) = match (of("work"), of("volume"), of("count")) {
        (Some(work), ..) => (work, 0.0),
        (_, Some(volume), _) => (volume / each, volume),
        (.., Some(count)) => (count, count * each),
        _ => return None,
    };
    let times = if scaling(case) == Ok(Scaling::Strong) { 1.0 } else { threads };
    Some(times * (operations / pace.operations).max(bytes / pace.bytes))
}

/// Returns the amount for thread `index` of `threads`: all of `total` with weak scaling, else an
/// equal part of it; the first threads take the remainder.
pub fn thread_amount(scaling: Scaling, total: u64, threads: u64, index: u64) -> u64 {
    match scaling {
        Scaling::Weak => total,
        Scaling::Strong => {
            let threads = threads.max(1);
            total / threads + u64::from(index < total % threads)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strong_shares_add_up_and_differ_by_one_at_most(total: u64, threads in 1_u64..300) {
            let shares: Vec<u64> = (0..threads).map(|i| thread_amount(Scaling::Strong, total, threads, i)).collect();
            prop_assert_eq!(shares.iter().map(|s| u128::from(*s)).sum::<u128>(), u128::from(total));
            prop_assert!(shares[0] - shares[shares.len() - 1] <= 1);
            prop_assert_eq!(thread_amount(Scaling::Weak, total, threads, 0), total);
        }
    }

    #[test]
    fn an_amount_takes_as_long_as_its_bytes_or_its_operations() {
        let pace = AveragePace { bytes: 1e9, operations: 1e5 };
        let of = |id: &str| estimate_seconds(&id.parse().unwrap(), pace);
        let disk = "disk.io/op=read/block";
        assert_eq!(of(&format!("{disk}=1000/threads=4/volume=10000000000/scaling=strong")), Some(100.0));
        assert_eq!(of(&format!("{disk}=1000000/threads=4/volume=10000000000/scaling=strong")), Some(10.0));
        assert_eq!(of(&format!("{disk}=1000000/threads=4/count=1000")), Some(4.0), "of each thread");
        assert_eq!(of("cpu.peak/op=add/threads=2/work=1000000/scaling=strong"), Some(10.0));
        assert_eq!(of("disk.io/op=read/block=4K/threads=4"), None);
    }
}
