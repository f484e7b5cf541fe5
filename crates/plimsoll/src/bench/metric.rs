//! What a benchmark says of its metrics and of its cases in words: rows from which the table, charts, findings and the
//! comparison are made, so that none of these knows a benchmark or a metric by name.

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::quantity::Unit;

/// Whether more or less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl Better {
    /// The word of the run document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

/// What a metric is for. The headline is the first of a case's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs are judged by it, in its direction.
    Judged,
    /// It tells how a figure came about: how full a queue or a device was, what a time is made of, what a search found. More of
    /// it is neither better nor worse, whatever the document's `better` says; it is told and never judged.
    Told,
}

/// How the row of a case says a metric that is not its headline: words before and after the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Also {
    /// Before the figure; may be empty.
    pub before: &'static str,
    /// After it; may be empty.
    pub after: &'static str,
    /// When, and in which form.
    pub form: Form,
}

/// When a further metric is said in the row of its case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Always, with its unit.
    Always,
    /// Where it is another figure than the headline.
    UnlikeHeadline,
    /// As a share in per cent, where it is more than none.
    ShareAboveZero,
}

/// What a metric says of transfers. Of transfers that are all alike a rate times the block is a throughput, and of as many as are
/// always under way each takes their number ÷ the rate (Little's law): one figure is another in another metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfTransfers {
    /// How many a second, times this.
    Rate(f64),
    /// How long one takes, with so many under way.
    Time(f64),
}

impl OfTransfers {
    /// Transfers a second, of a value of the metric.
    fn per_second(self, value: f64) -> f64 {
        match self {
            Self::Rate(each) => value / each,
            Self::Time(under_way) => under_way / value,
        }
    }

    /// The value of the metric, of so many transfers a second.
    fn of_rate(self, per_second: f64) -> f64 {
        match self {
            Self::Rate(each) => per_second * each,
            Self::Time(under_way) => under_way / per_second,
        }
    }
}

/// A metric that a benchmark reports: a row of its table, and all that reports know of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name in the run document.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its direction.
    pub better: Better,
    /// Whether it is judged.
    pub role: Role,
    /// How the row of its case says it where it is not the headline; `None` leaves it to the documents.
    pub also: Option<Also>,
    /// Whether charts draw it where it is not the headline.
    pub drawn: bool,
    /// What it says of transfers that are all alike; `None` where it follows from no other metric.
    pub transfers: Option<OfTransfers>,
}

impl Metric {
    /// A metric that is judged, and that only documents have where it is not the headline.
    pub const fn new(name: &'static str, unit: Unit, better: Better) -> Self {
        Self { name, unit, better, role: Role::Judged, also: None, drawn: false, transfers: None }
    }

    /// The same, told and never judged.
    pub const fn told(self) -> Self {
        Self { role: Role::Told, ..self }
    }

    /// The same, said in the row of its case between these words.
    pub const fn said(self, before: &'static str, after: &'static str) -> Self {
        Self { also: Some(Also { before, after, form: Form::Always }), ..self }
    }

    /// The same, said in the row of its case after this word, in this form.
    pub const fn said_as(self, before: &'static str, form: Form) -> Self {
        Self { also: Some(Also { before, after: "", form }), ..self }
    }

    /// The same, which says this of transfers.
    pub const fn of_transfers(self, transfers: OfTransfers) -> Self {
        Self { transfers: Some(transfers), ..self }
    }

    /// The same, drawn also where it is not the headline.
    pub const fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }
}

/// The row of a metric of a case; `None` where this program has no such metric, as in documents of another version.
pub fn metric(case: &Case, name: &str) -> Option<Metric> {
    let metrics = super::find(case.benchmark())?.metrics(case);
    metrics.into_iter().find(|metric| metric.name == name)
}

/// `value` of the metric `from` of a case as a figure of its metric `to`; `None` where the two are not of the same transfers.
pub fn converted(case: &Case, value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    let transfers = |name| metric(case, name)?.transfers;
    let per_second = transfers(from)?.per_second(value);
    let figure = transfers(to)?.of_rate(per_second);
    (per_second.is_finite() && figure.is_finite() && figure > 0.0).then_some(figure)
}

/// Whether a metric of a case is told and never judged.
pub fn is_told(case: &Case, name: &str) -> bool {
    metric(case, name).is_some_and(|metric| metric.role == Role::Told)
}

/// A part of a case in words. What these leave out is added as `name value`.
#[derive(Clone, Copy, Debug)]
pub enum Say {
    /// This word.
    Word(&'static str),
    /// The value of a parameter alone, where it is not the usual one.
    Value(&'static str),
    /// The value after the parameter's name.
    Named(&'static str),
    /// What stands for the value of a parameter, (value, words): the value itself where nothing does.
    Instead(&'static str, &'static [(&'static str, &'static str)]),
    /// What the benchmark says of the value of a parameter, if anything.
    Case(&'static str, fn(&Case) -> Option<String>),
    /// The number of threads, where there are several.
    Times,
}

/// The order of the blocks: the long word would not leave room for the rest.
pub const PATTERN: Say = Say::Instead("pattern", &[("sequential", "seq.")]);

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
