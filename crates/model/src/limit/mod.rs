//! Limits: physical bounds of results with formula, inputs and source; an unknown one has a reason.
//! Limits are computed after all cases, as one may need the measurements of another.

pub mod channels;
pub mod common_core;
pub mod credits;
pub mod device;
pub mod formula;
pub mod frame;
pub mod microarchitecture;
pub mod user;

use serde::{Deserialize, Serialize};

use plimsoll_machine::Machine;
pub use plimsoll_stats::median;
use plimsoll_units::quantity::{Quantity, Unit};

use crate::case::Case;
use crate::sample::{Outcome, OwnCondition, Sample};

/// Side of the figure on which the limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitKind {
    /// The figure cannot be above it.
    Ceiling,
    /// The figure cannot be below it (a latency).
    Floor,
}

/// Origin of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitSource {
    /// Computed from the machine's structure and the run's measurements.
    Derived,
    /// Configured, as reported by the component that enforces it: a server's cap, a shaper.
    Documented,
    /// Concluded from observations, without a statement of the component itself.
    Inferred,
    /// Promised by the vendor or provider.
    Rated,
    /// Given by the user.
    User,
    /// Unknown; `reason` explains why.
    Unknown,
}

/// Thing that a limit belongs to, if that is more than the machine need have, or only a part of the
/// measured operation: results are not rated by such a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitScope {
    /// Processor sockets with all memory channels filled: a guest may have less.
    Socket,
    /// Copies within one machine, which is no link.
    Loopback,
    /// A part of the operation, such as the entry to the kernel; the rest has no known limit.
    Part,
}

impl LimitScope {
    /// Returns the scope's name in tables: `full sockets`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "full sockets",
            Self::Loopback => "loopback",
            Self::Part => "a part",
        }
    }
}

/// Input of a limit's formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Name in the formula.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Unit, as text (`Hz`, `1/cycle`, …).
    pub unit: String,
    /// Origin of the value.
    pub from: String,
}

impl Input {
    /// Creates an input with its `unit` (`Hz`) and the origin of its value, `from`.
    pub fn new(name: &str, value: f64, unit: &str, from: &str) -> Self {
        Self { name: name.to_owned(), value, unit: unit.to_owned(), from: from.to_owned() }
    }
}

/// Dependence of the limit on the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varies {
    /// Equal for all samples.
    Not,
    /// Proportional to the sample's clock or its reciprocal.
    WithClock,
    /// Depends on more than one clock: several kinds of core, or the time that credits last.
    Otherwise,
}

/// Bound of one metric of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Value in the metric's unit; `None` if unknown.
    pub value: Option<f64>,
    /// Ceiling or floor.
    pub kind: LimitKind,
    /// Formula in words and symbols.
    pub formula: String,
    /// Inputs of the formula.
    pub inputs: Vec<Input>,
    /// Origin.
    pub source: LimitSource,
    /// Why it is unknown, or a note about it.
    pub reason: Option<String>,
    /// Thing that it limits, if the machine need not have all of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<LimitScope>,
    /// Why it does not hold, if a verified figure is past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted: Option<String>,
    /// Fact that the limit rests on, which a verified figure past the limit refutes.
    #[serde(skip)]
    pub fact: Option<LimitFact>,
    /// Explanation, as a sentence, of a figure past a limit without a fact.
    #[serde(skip)]
    pub passed_by: Option<&'static str>,
    /// Whether it is a promise instead of a physical bound, so that a figure past it is credible.
    #[serde(skip)]
    pub is_promise: bool,
    /// Ratio to `value` that short figures can reach if the limit holds for means (a quota).
    #[serde(skip)]
    pub burst: Option<f64>,
    /// Limit of each sample, if it varies with the sample's conditions (the clock); else empty.
    #[serde(skip)]
    pub per_sample: Vec<f64>,
}

/// A fact that a limit rests on and that a verified figure past the limit refutes.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitFact {
    /// The fact, as a subject.
    pub text: String,
    /// Other explanation of such a figure, and what to do, in a sentence.
    pub otherwise: &'static str,
    /// Factor by which the limit grows if the fact changes during a case; `None` if it cannot.
    pub changes: Option<f64>,
}

impl Limit {
    /// Creates a limit without a value; `reason` is why it is unknown.
    pub fn unknown(kind: LimitKind, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into());
        Self { value: None, reason, ..Self::fixed(kind, LimitSource::Unknown, 0.0, "", Vec::new()) }
    }

    /// Creates a limit of `value` (in the metric's unit) for all samples, by `formula` of `inputs`.
    pub fn fixed(
        kind: LimitKind,
        source: LimitSource,
        value: f64,
        formula: &str,
        inputs: Vec<Input>,
    ) -> Self {
        Self {
            value: Some(value),
            kind,
            formula: formula.to_owned(),
            inputs,
            source,
            reason: None,
            scope: None,
            refuted: None,
            fact: None,
            passed_by: None,
            is_promise: false,
            burst: None,
            per_sample: Vec::new(),
        }
    }

    /// Creates a derived limit with a value for each sample, at least one, by `formula` of
    /// `inputs`; the limit of all is their median.
    pub fn of_samples(kind: LimitKind, per_sample: Vec<f64>, formula: &str, inputs: Vec<Input>) -> Self {
        let value = median(per_sample.clone()).unwrap_or(f64::NAN);
        Self { per_sample, ..Self::fixed(kind, LimitSource::Derived, value, formula, inputs) }
    }

    /// Multiplies the limit by `pairs`, the number of pairs of machines measured at the same time.
    pub fn of_pairs(mut self, pairs: f64) -> Self {
        if let Some(value) = &mut self.value {
            *value *= pairs;
            self.per_sample.iter_mut().for_each(|value| *value *= pairs);
            self.formula = format!("pairs × {}", self.formula);
            let from = "pairs of machines that measured at once";
            self.inputs.push(Input::new(SUMMED_PAIRS.name, pairs, "1", from));
        }
        self
    }

    /// Sets the fact about the CPU on which the limit depends; a figure past the limit refutes it.
    pub fn resting_on(self, fact: impl Into<String>) -> Self {
        let otherwise = "the CPU is not what it says; run plimsoll machine --save FILE.tar.gz and report it";
        self.resting_on_or(fact, otherwise)
    }

    /// Sets the fact on which the limit depends; `otherwise` explains a figure past the limit.
    pub fn resting_on_or(self, fact: impl Into<String>, otherwise: &'static str) -> Self {
        Self { fact: Some(LimitFact { text: fact.into(), otherwise, changes: None }), ..self }
    }

    /// Sets a fact about the host's placement of guest CPUs on which the limit depends. If the host
    /// moves the CPUs, which it may do during a run, the limit is `times` as high.
    pub fn resting_on_placement(self, fact: impl Into<String>, times: f64) -> Self {
        let otherwise = "the host has moved CPUs since, and the limit counts a core for each";
        Self { fact: Some(LimitFact { text: fact.into(), otherwise, changes: Some(times) }), ..self }
    }

    /// Appends `why` to [`Limit::reason`], after a semicolon if there is one already.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        let reasons: Vec<String> = self.reason.into_iter().chain([why.into()]).collect();
        self.reason = Some(reasons.join("; "));
        self
    }

    /// Sets the sentence `why`, which explains a figure past the limit.
    pub fn passed_by(self, why: &'static str) -> Self {
        Self { passed_by: Some(why), ..self }
    }

    /// Marks the limit as a promise, such as a rating, that a credible figure may exceed.
    pub fn promised(self) -> Self {
        Self { is_promise: true, ..self }
    }

    /// Returns `measured` ÷ `limit`, inverted for floors: 1 is at the limit, above 1 is past it.
    pub fn share(&self, measured: f64, limit: f64) -> f64 {
        match self.kind {
            LimitKind::Ceiling => measured / limit,
            LimitKind::Floor => limit / measured,
        }
    }

    /// Returns whether CPU credits determine the limit.
    pub fn is_by_credits(&self) -> bool {
        self.inputs.iter().any(|input| input.name == credits::LASTS)
    }

    /// Returns how the limit depends on a sample's clock, by the inputs with the unit Hz.
    pub fn varies(&self) -> Varies {
        match self.inputs.iter().filter(|input| input.unit == Unit::Hertz.name()).count() {
            0 if !self.is_by_credits() => Varies::Not,
            1 if !self.is_by_credits() => Varies::WithClock,
            _ => Varies::Otherwise,
        }
    }

    /// Returns the limit's value with `unit`, the metric's; `None` if the limit is unknown.
    pub fn quantity(&self, unit: Unit) -> Option<Quantity> {
        self.value.map(|value| Quantity { value, unit })
    }

    /// Returns whether both limits have equal values, kind, source and formula; notes may differ.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let shown = |limit: &Self| (limit.value, limit.kind, limit.source);
        shown(self) == shown(other) && self.formula == other.formula && self.per_sample == other.per_sample
    }
}

/// Finished cases of the whole run, for limits that depend on them.
pub type LimitEvidence<'a> = &'a [Outcome];

/// Inputs of a limit's derivation.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Machine.
    pub machine: &'a Machine,
    /// Case.
    pub case: &'a Case,
    /// Name of the metric.
    pub metric: &'a str,
    /// Samples of the case.
    pub samples: &'a [Sample],
    /// Measurements of the rest of the run.
    pub evidence: LimitEvidence<'a>,
}

impl Question<'_> {
    /// Returns the median of the condition `row` over the samples; `None` if none has it.
    pub fn condition(&self, row: &OwnCondition) -> Option<f64> {
        median(self.samples.iter().filter_map(|s| s.conditions.more.get(row)).collect())
    }

    /// Returns each sample's core clock and their median, in Hz. Fails if a sample has no clock.
    pub fn clocks(&self) -> Result<(Vec<f64>, f64), String> {
        let each: Option<Vec<f64>> = self.samples.iter().map(|sample| sample.conditions.clock_hz).collect();
        let each = each.ok_or("the core clock could not be measured")?;
        let median = median(each.clone()).ok_or("there is no sample with a clock")?;
        Ok((each, median))
    }
}

/// Number of pairs of machines over which the figure is summed.
pub const SUMMED_PAIRS: OwnCondition = OwnCondition::new("pairs");

/// Sorts `limits` of one metric: the tightest first, unknown ones last.
pub fn tightest_first(limits: &mut [Limit]) {
    let key = |limit: &Limit| match (limit.value, limit.kind) {
        (None, _) => f64::INFINITY,
        (Some(value), LimitKind::Ceiling) => value,
        (Some(value), LimitKind::Floor) => -value,
    };
    limits.sort_by(|a, b| key(a).total_cmp(&key(b)));
}
