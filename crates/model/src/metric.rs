//! Descriptions of metrics by their benchmarks, from which tables, charts and findings are made.

use serde::{Deserialize, Serialize};

use plimsoll_units::quantity::Unit;

/// Direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
}

impl Better {
    /// Returns the name in the run document: `higher` or `lower`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }

    /// Returns `change`, a difference or logarithm, as a gain: negative if the figure became worse.
    pub fn gain(self, change: f64) -> f64 {
        if self == Self::Higher { change } else { -change }
    }

    /// Returns `value` ÷ `reference`, inverted if lower is better: above 1, `value` is better.
    pub fn ratio(self, value: f64, reference: f64) -> f64 {
        if self == Self::Higher { value / reference } else { reference / value }
    }
}

/// Purpose of a metric. The headline is the first metric of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs are compared by it, in its direction.
    Judged,
    /// Explains a figure, such as the utilisation of a queue; never compared.
    Informative,
}

/// Presentation of a metric in its case's row if it is not the headline: words around the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Also {
    /// Words before the figure; may be empty.
    pub before: &'static str,
    /// Words after the figure; may be empty.
    pub after: &'static str,
    /// Condition and format.
    pub form: Form,
}

/// When and how a further metric is shown in its case's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Always, with its unit.
    Always,
    /// If it differs from the headline.
    UnlikeHeadline,
    /// As a percentage, if above zero.
    ShareAboveZero,
}

/// Relation of a metric to the rate of uniform transfers, such as Little's law for a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfTransfers {
    /// Transfers per second, times this factor.
    Rate(f64),
    /// Seconds per transfer, with this number in flight.
    Time(f64),
}

impl OfTransfers {
    /// Converts a `value` of the metric to transfers per second.
    pub fn per_second(self, value: f64) -> f64 {
        match self {
            Self::Rate(each) => value / each,
            Self::Time(under_way) => under_way / value,
        }
    }

    /// Converts transfers per second to a value of the metric: the inverse of `per_second`.
    pub fn of_rate(self, per_second: f64) -> f64 {
        match self {
            Self::Rate(each) => per_second * each,
            Self::Time(under_way) => under_way / per_second,
        }
    }
}

/// A metric that a benchmark reports, with all that reports need to present it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name in the run document.
    pub name: &'static str,
    /// Description in one line, for docs.
    pub about: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Direction.
    pub better: Better,
    /// Whether runs are compared by it.
    pub role: Role,
    /// Presentation in its case's row if it is not the headline; `None`: only in documents.
    pub also: Option<Also>,
    /// Whether charts show it if it is not the headline.
    pub drawn: bool,
    /// Whether `plimsoll doctor` shows its noise floor if it is not the headline.
    pub floor: bool,
    /// Relation to the rate of uniform transfers; `None` if it does not follow from another metric.
    pub transfers: Option<OfTransfers>,
    /// Share of its limit that every healthy machine reaches; `None` if machines differ.
    pub reaches: Option<f64>,
}

impl Metric {
    /// Creates a metric by which runs are compared; unless a case's first, only documents show it.
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

    /// Sets the description, one line for the documentation.
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Sets the share (0 to 1) of the metric's limit that every healthy machine reaches.
    pub const fn reaching(self, share: f64) -> Self {
        Self { reaches: Some(share), ..self }
    }

    /// Makes the metric informative: runs are not compared by it.
    pub const fn informative(self) -> Self {
        Self { role: Role::Informative, ..self }
    }

    /// Makes tables show the metric, after the headline, as `before` VALUE `after`.
    pub const fn shown_between(self, before: &'static str, after: &'static str) -> Self {
        Self { also: Some(Also { before, after, form: Form::Always }), ..self }
    }

    /// Makes tables show the metric after the word `before`, when and as `form` defines.
    pub const fn shown_after(self, before: &'static str, form: Form) -> Self {
        Self { also: Some(Also { before, after: "", form }), ..self }
    }

    /// Sets how values of the metric convert to transfers per second.
    pub const fn of_transfers(self, transfers: OfTransfers) -> Self {
        Self { transfers: Some(transfers), ..self }
    }

    /// Makes charts show the metric even if it is not its benchmark's first (the headline).
    pub const fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }

    /// Makes `plimsoll doctor` show the metric's noise floor even if it is not the headline.
    pub const fn with_floor(self) -> Self {
        Self { floor: true, ..self }
    }
}

/// Axes of the curve of a search or sweep: two figures of its points with units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Figure on the x axis.
    pub x: &'static str,
    /// Unit of `x`; empty for counts.
    pub x_unit: &'static str,
    /// Whether the x axis is logarithmic.
    pub log: bool,
    /// Figure on the y axis.
    pub y: &'static str,
    /// Unit of `y`.
    pub y_unit: &'static str,
}

/// Role of a case in a roofline chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Roofline {
    /// None.
    No,
    /// Computes, with the operations per byte moved to or from memory; `None` in registers.
    Computes(Option<f64>),
    /// Streams bytes through memory.
    Moves {
        /// Operations per byte; `None` if it computes nothing.
        intensity: Option<f64>,
        /// Bytes of all threads' arrays, if the largest of them determine memory bandwidth.
        area: Option<u64>,
    },
}
