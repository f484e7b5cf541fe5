//! "cpu.peak op=fma type=f64 scales 1.98 × on 2 threads": how a rate grows with threads.

use serde_json::json;

use super::{Compared, compared, finding, headline, kind};
use crate::document::Finding;
use crate::measurement::Measurement;

/// A speed-up known worse than this is told with its interval.
const VAGUE: f64 = 0.05;

/// Speaks once for each kind of case that was measured at two thread counts or more, about the largest.
pub(super) fn find(measurements: &[Measurement]) -> Vec<Finding> {
    let all = compared(measurements);
    let is_largest = |one: &&Compared<'_>| {
        let alike = |other: &&Compared<'_>| std::ptr::eq(other.base, one.base);
        all.iter().filter(alike).all(|other| other.scaling.threads <= one.scaling.threads)
    };
    all.iter().filter(is_largest).map(sentence).collect()
}

fn sentence(found: &Compared<'_>) -> Finding {
    let Compared { base, this, scaling, between: [low, high] } = found;
    let vague = (high - low) / 2.0 > VAGUE * scaling.speed_up;
    let times = if vague {
        format!("{:.2} × ({low:.2} to {high:.2})", scaling.speed_up)
    } else {
        format!("{:.2} ×", scaling.speed_up)
    };
    let from = match scaling.base_threads {
        1 => format!("on {} threads", scaling.threads),
        n => format!("from {n} to {} threads", scaling.threads),
    };
    let rate = |m| headline(m).map(|metric| metric.summary.median);
    finding(
        "scaling",
        format!("{} scales {times} {from}", kind(this)),
        json!({
            "cases": [base.case.id(), this.case.id()],
            "rates": [rate(base), rate(this)],
            "speed_up": scaling.speed_up,
            "efficiency": scaling.efficiency,
            "between": [low, high],
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{measured, peak};
    use super::*;
    use crate::bench::Better;
    use crate::measurement::Status;
    use crate::quantity::Unit;

    fn texts(measurements: &[Measurement]) -> Vec<String> {
        find(measurements).into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn the_largest_thread_count_is_compared_with_one() {
        let found = find(&[peak(2, 198.0), peak(1, 100.0), peak(4, 300.0)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "cpu.peak op=fma type=f64 isa=avx2 scales 3.00 × on 4 threads");
        assert_eq!(found[0].evidence["efficiency"], 0.75);
        assert_eq!(found[0].evidence["cases"][0], "cpu.peak/op=fma/type=f64/isa=avx2/threads=1");
    }

    #[test]
    fn each_kind_speaks_for_itself_and_a_missing_single_thread_is_said() {
        let read = |threads: u32, rate: f64| {
            measured(
                &format!("memory.bandwidth/op=read/threads={threads}"),
                Unit::BytePerSecond,
                Better::Higher,
                &[rate],
            )
        };
        let found = texts(&[peak(1, 100.0), peak(2, 198.0), read(2, 20.0), read(8, 30.0)]);
        assert_eq!(
            found,
            [
                "cpu.peak op=fma type=f64 isa=avx2 scales 1.98 × on 2 threads",
                "memory.bandwidth op=read scales 1.50 × from 2 to 8 threads"
            ]
        );
    }

    #[test]
    fn a_vague_speed_up_is_told_with_its_interval() {
        let noisy: Vec<f64> = (0..10).map(|i| 100.0 + 10.0 * f64::from(i)).collect();
        let two = measured(
            "cpu.peak/op=fma/type=f64/isa=avx2/threads=2",
            Unit::FlopPerSecond,
            Better::Higher,
            &noisy,
        );
        let found = texts(&[peak(1, 100.0), two]);
        assert!(found[0].contains("scales 1.45 × (1."), "{found:?}");
    }

    #[test]
    fn it_is_silent_about_latencies_failures_and_single_points() {
        let chase = |threads: u32| {
            measured(&format!("memory.latency/threads={threads}"), Unit::Second, Better::Lower, &[1e-7])
        };
        let mut invalid = peak(2, 1e6);
        invalid.status = Status::Invalid;
        assert!(texts(&[chase(1), chase(2), peak(1, 100.0), invalid]).is_empty());
        let mut elsewhere = peak(2, 198.0);
        elsewhere.node = "there".to_owned();
        assert!(texts(&[peak(1, 100.0), elsewhere]).is_empty());
    }
}
