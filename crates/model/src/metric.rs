//! What a benchmark says of its metrics: rows from which the table, charts, findings and the comparison are made, so that
//! none of these knows a metric by name.

use serde::{Deserialize, Serialize};

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
    /// It says how a figure came about: how full a queue or a device was, what a time is made of, what a search found. More of
    /// it is neither better nor worse, whatever the document's `better` says; it is never judged.
    Informative,
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
    pub fn per_second(self, value: f64) -> f64 {
        match self {
            Self::Rate(each) => value / each,
            Self::Time(under_way) => under_way / value,
        }
    }

    /// The value of the metric, of so many transfers a second.
    pub fn of_rate(self, per_second: f64) -> f64 {
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
    /// What it is, for docs; a line.
    pub about: &'static str,
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
    /// Whether `plimsoll doctor` shows how small a difference of it is real, where it is not the headline.
    pub floor: bool,
    /// What it says of transfers that are all alike; `None` where it follows from no other metric.
    pub transfers: Option<OfTransfers>,
    /// The share of its limit that every machine reaches on which nothing is wrong; `None` where machines differ in that, so that only
    /// other figures of its kind say what is usual.
    pub reaches: Option<f64>,
}

impl Metric {
    /// A metric that is judged, and that only documents have where it is not the headline.
    pub const fn new(name: &'static str, unit: Unit, better: Better) -> Self {
        Self {
            name,
            about: "",
            unit,
            better,
            role: Role::Judged,
            also: None,
            drawn: false,
            floor: false,
            transfers: None,
            reaches: None,
        }
    }

    /// The same, with what it is.
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// The same, which reaches this share of its limit on every machine on which nothing is wrong.
    pub const fn reaching(self, share: f64) -> Self {
        Self { reaches: Some(share), ..self }
    }

    /// The same, never judged.
    pub const fn informative(self) -> Self {
        Self { role: Role::Informative, ..self }
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

    /// The same, whose noise between runs the doctor shows also where it is not the headline.
    pub const fn with_floor(self) -> Self {
        Self { floor: true, ..self }
    }
}

/// What the curve of a search or sweep is drawn over, and what of: two figures of its points, with their units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The figure along the axis.
    pub x: &'static str,
    /// Its unit; empty for counts.
    pub x_unit: &'static str,
    /// Whether that axis is logarithmic.
    pub log: bool,
    /// The figure that is drawn.
    pub y: &'static str,
    /// Its unit.
    pub y_unit: &'static str,
}

/// Where a case is on a roofline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Roofline {
    /// Nowhere.
    No,
    /// It computes, with so many operations for each byte that it must move to or from memory at least; `None` where it
    /// computes in registers.
    Computes(Option<f64>),
    /// It moves a stream of bytes through memory.
    Moves {
        /// Operations for each byte; `None` where it computes nothing.
        intensity: Option<f64>,
        /// Bytes of the arrays of all threads, where the largest of them tell the bandwidth of memory itself.
        area: Option<u64>,
    },
}
