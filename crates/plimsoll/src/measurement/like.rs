//! Figures of the same transfers in another metric: a rate times the block is a throughput, and of as many transfers as are
//! always under way each takes their number ÷ the rate (Little's law).

use crate::case::Case;

/// `value` of the metric `from` as a figure of the metric `to`; `None` where the two are not of the same transfers.
pub fn converted(case: &Case, value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    let known = matches!(case.benchmark(), "disk.io" | "disk.fsync" | "network.latency");
    let per_second = known.then(|| Metric::of(case, from)?.per_second(value)).flatten()?;
    Metric::of(case, to)?.of_rate(per_second).filter(|figure| figure.is_finite() && *figure > 0.0)
}

/// What a metric says of transfers.
enum Metric {
    /// How many a second, times this.
    Rate(f64),
    /// How long one takes, with so many under way.
    Time(f64),
}

impl Metric {
    fn of(case: &Case, name: &str) -> Option<Self> {
        let block = case.number("block").map(|block| block as f64);
        let block = block.or_else(|| case.mix("block").map(crate::quantity::Mix::mean));
        let streams = case.number("streams").unwrap_or(1) as f64;
        let under_way = case.threads() as f64 * case.number("depth").unwrap_or(1) as f64;
        match name {
            "rate" => Some(Self::Rate(1.0)),
            "throughput" => block.map(Self::Rate),
            "latency" => Some(Self::Time(under_way)),
            "rtt" => Some(Self::Time(streams)),
            _ => None,
        }
    }

    fn per_second(&self, value: f64) -> Option<f64> {
        let rate = match self {
            Self::Rate(each) => value / each,
            Self::Time(under_way) => under_way / value,
        };
        rate.is_finite().then_some(rate)
    }

    fn of_rate(&self, per_second: f64) -> Option<f64> {
        Some(match self {
            Self::Rate(each) => per_second * each,
            Self::Time(under_way) => under_way / per_second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_the_same_transfers_are_one_figure() {
        let case: Case = "disk.io/op=read/pattern=random/block=4K/depth=2/threads=4".parse().unwrap();
        assert_eq!(converted(&case, 1000.0, "rate", "throughput"), Some(4_096_000.0));
        assert_eq!(converted(&case, 4_096_000.0, "throughput", "rate"), Some(1000.0));
        assert_eq!(converted(&case, 1000.0, "rate", "latency"), Some(0.008));
        assert_eq!(converted(&case, 0.008, "latency", "throughput"), Some(4_096_000.0));
        let echo: Case = "network.latency/protocol=tcp/message=64/streams=1".parse().unwrap();
        assert_eq!(converted(&echo, 50e-6, "rtt", "rate"), Some(20_000.0));
    }

    #[test]
    fn other_metrics_are_not_converted() {
        let case: Case = "disk.io/op=read/pattern=random/block=4K/depth=1".parse().unwrap();
        assert_eq!(converted(&case, 5.0, "cpu", "rate"), None);
        assert_eq!(converted(&case, 5.0, "rate", "busy"), None);
        assert_eq!(converted(&case, 0.0, "latency", "rate"), None);
        let peak: Case = "cpu.peak/op=fma/type=f64".parse().unwrap();
        assert_eq!(converted(&peak, 5.0, "rate", "latency"), None);
        assert_eq!(converted(&peak, 5.0, "rate", "rate"), Some(5.0));
    }
}
