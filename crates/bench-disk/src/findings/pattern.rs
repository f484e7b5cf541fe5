//! Finding: random transfers reach only a share of the sequential rate.

use serde_json::json;

use crate::io::DiskIo;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::{BlockOrder, DiskTransfers};
use plimsoll_model::measurement::MetricResult;
use plimsoll_model::metric::Role;
use plimsoll_units::quantity::percent;

/// Share of the sequential rate from which on random access is fast enough for most programs.
const FAR: f64 = 0.8;

struct PatternPair<'a> {
    job: DiskTransfers,
    random: &'a Measurement,
    sequential: &'a Measurement,
    metric: [&'a MetricResult; 2],
    ratio: f64,
    /// Largest ratio within both confidence intervals.
    most: f64,
}

/// Returns, for each operation of `disk.io`, a finding on the random case furthest below its
/// sequential counterpart, if it reaches clearly less than 80 %.
pub(crate) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let mut furthest: Vec<PatternPair<'_>> = Vec::new();
    for pair in select(run, DiskIo.name()).filter_map(|random| pair(random, run)) {
        let op = |pair: &PatternPair<'_>| pair.job.operation.word();
        match furthest.iter_mut().find(|known| op(known) == op(&pair)) {
            Some(known) if known.ratio <= pair.ratio => {}
            Some(known) => *known = pair,
            None => furthest.push(pair),
        }
    }
    furthest.iter().filter(|pair| pair.most < FAR).map(describe).collect()
}

fn pair<'a>(random: &'a Measurement, run: &'a [Measurement]) -> Option<PatternPair<'a>> {
    let job = DiskTransfers::of(&random.case).ok().filter(|job| job.order == BlockOrder::Random)?;
    let wanted = random.case.clone().with_word("pattern", "sequential");
    let same = |m: &&Measurement| m.case == wanted && m.node == random.node && m.repeat == random.repeat;
    let sequential = select(run, DiskIo.name()).find(same)?;
    let metric = [rate(random)?, rate(sequential)?];
    let ratio = metric[0].summary.median / metric[1].summary.median;
    let most = match metric.map(|m| m.summary.ci95) {
        [Some([_, high]), Some([low, _])] if low > 0.0 => high / low,
        _ => ratio,
    };
    (ratio.is_finite() && ratio > 0.0).then_some(PatternPair { job, random, sequential, metric, ratio, most })
}

/// Returns the first metric for which higher is better and that is not only informative (the
/// headline may be a latency); `None` if there is none.
fn rate(measurement: &Measurement) -> Option<&MetricResult> {
    let rows = DiskIo.metrics(&measurement.case);
    let is_judged = |name: &str| !rows.iter().any(|row| row.role == Role::Informative && row.name == name);
    measurement.headline()?;
    measurement.metrics.iter().find(|m| m.better == Better::Higher && is_judged(&m.name))
}

fn describe(pair: &PatternPair<'_>) -> PlainFinding {
    let figure = |m: &MetricResult| Quantity::new(m.summary.median, m.unit).to_string();
    let [random, sequential] = pair.metric.map(figure);
    let (op, blocks) = (pair.job.operation.word(), &pair.job.blocks);
    let text = format!(
        "disk: random {op} of {blocks} reaches {} of the sequential rate: {random}, sequential {sequential}",
        percent(pair.ratio, 2)
    );
    let (random, sequential) = (pair.random.case.id(), pair.sequential.case.id());
    let evidence =
        json!({ "random": random, "sequential": sequential, "ratio": pair.ratio, "at_most": pair.most });
    PlainFinding { topic: Topic::Order, code: "pattern", text, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::measurement::Status;
    use plimsoll_model::view::testing::measured;
    use plimsoll_units::quantity::Unit;

    fn io(op: &str, pattern: &str, block: &str, rate: f64) -> Measurement {
        let id = format!("disk.io/op={op}/pattern={pattern}/block={block}/depth=8/threads=1");
        let samples: Vec<f64> = (0..9).map(|i| rate * (1.0 + 0.01 * f64::from(i - 4))).collect();
        measured(&id, Unit::IoPerSecond, Better::Higher, &samples)
    }

    #[test]
    fn each_operation_is_told_once_with_its_furthest_pair() {
        let found = find(&[
            io("write", "random", "4K", 21e3),
            io("write", "sequential", "4K", 100e3),
            io("write", "random", "16K", 40e3),
            io("write", "sequential", "16K", 50e3),
            io("read", "random", "4K", 50e3),
            io("read", "sequential", "4K", 100e3),
        ]);
        let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
        let expected = [
            "disk: random write of 4K reaches 21 % of the sequential rate: 21.0 kIOPS, sequential 100 kIOPS",
            "disk: random read of 4K reaches 50 % of the sequential rate: 50.0 kIOPS, sequential 100 kIOPS",
        ];
        assert_eq!(texts, expected);
        assert!((found[0].evidence["ratio"].as_f64().unwrap() - 0.21).abs() < 1e-12);
        assert!(found[0].evidence["sequential"].as_str().unwrap().contains("pattern=sequential"));
    }

    #[test]
    fn it_is_silent_where_they_are_near_or_differ_in_more() {
        let near = [io("read", "random", "4K", 90e3), io("read", "sequential", "4K", 100e3)];
        assert!(find(&near).is_empty());
        let other = [io("read", "random", "4K", 9e3), io("read", "sequential", "1M", 100e3)];
        assert!(find(&other).is_empty());
        let mut elsewhere = [io("read", "random", "4K", 9e3), io("read", "sequential", "4K", 100e3)];
        elsewhere[1].node = "there".to_owned();
        assert!(find(&elsewhere).is_empty());
        let mut invalid = [io("read", "random", "4K", 9e3), io("read", "sequential", "4K", 100e3)];
        invalid[1].status = Status::Invalid;
        assert!(find(&invalid).is_empty());
    }

    #[test]
    fn an_interval_that_reaches_near_is_silent() {
        let mut pair = [io("read", "random", "4K", 70e3), io("read", "sequential", "4K", 100e3)];
        assert_eq!(find(&pair).len(), 1);
        pair[0].metrics[0].summary.ci95 = Some([50e3, 95e3]);
        assert!(find(&pair).is_empty());
    }
}
