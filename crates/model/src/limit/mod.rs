//! Limits: the physical bound of a figure, with formula, inputs and source; and what is known of chips, devices and
//! instance types that limits are computed from.
//!
//! A limit that is not known is `unknown` with the reason; it is never guessed. Limits are computed when all
//! cases are done, because one may need what another measured. How a figure is bound its benchmark says
//! (`limit.rs` in its folder): here no benchmark and no metric is known.

pub mod channels;
pub mod common_core;
pub mod credits;
pub mod device;
pub mod formula;
pub mod frame;
pub mod microarchitecture;
pub mod user;
mod work;

use serde::{Deserialize, Serialize};

pub use channels::CHANNELS;

pub use crate::stats::median;

use crate::case::Case;
use crate::machine::Machine;
use crate::quantity::{Quantity, Unit};
use crate::sample::{Condition, Outcome, Sample};

/// Which side of the figure the limit is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The figure cannot be above it.
    Ceiling,
    /// The figure cannot be below it (a latency).
    Floor,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Computed from the machine's structure and what the run measured.
    Derived,
    /// What somebody set, as the one who holds to it says: a server's cap, a shaper.
    Documented,
    /// Concluded from what arrived, without anybody's word.
    Inferred,
    /// What the maker or provider promises.
    Rated,
    /// Given by the user.
    User,
    /// Not known; `reason` says why.
    Unknown,
}

/// One input of a limit's formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Its name in the formula.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit, as text (`Hz`, `1/cycle`, …).
    pub unit: String,
    /// Where the value comes from.
    pub from: String,
}

impl Input {
    /// An input of this name and unit.
    pub fn new(name: &str, value: f64, unit: &str, from: &str) -> Self {
        Self { name: name.to_owned(), value, unit: unit.to_owned(), from: from.to_owned() }
    }
}

/// What the limit of each sample varies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varies {
    /// All samples have the same one.
    Not,
    /// With the sample's own clock, in proportion to it or to its reciprocal.
    WithClock,
    /// With something else too: the clocks of several kinds of core, or the time that credits last.
    Otherwise,
}

/// The bound of one metric of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// In the metric's unit; `None` when unknown.
    pub value: Option<f64>,
    /// Ceiling or floor.
    pub kind: Kind,
    /// In words and symbols.
    pub formula: String,
    /// The formula's inputs.
    pub inputs: Vec<Input>,
    /// Where it comes from.
    pub source: Source,
    /// Why it is unknown, or what must be known about it.
    pub reason: Option<String>,
    /// Why it does not hold, where a verified figure is past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted: Option<String>,
    /// The fact of this program's tables that it rests on, in words. A verified figure past the limit refutes this fact;
    /// without one, such a figure is not to be believed.
    #[serde(skip)]
    pub fact: Option<Fact>,
    /// What is the matter where a figure is past it, rests on no fact and so cannot be true, as a sentence.
    #[serde(skip)]
    pub passed_by: Option<&'static str>,
    /// Whether it is what somebody promises and no physical bound: a figure past it says something of the promise and not of
    /// the figure.
    #[serde(skip)]
    pub is_promise: bool,
    /// How many times its value a figure can be for a short time, where it holds for the mean over longer ones (a quota).
    #[serde(skip)]
    pub burst: Option<f64>,
    /// The limit of each sample, where it varies with the sample's conditions (the clock); else empty.
    #[serde(skip)]
    pub per_sample: Vec<f64>,
}

/// A fact that a limit rests on, and that a verified figure past the limit refutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The fact, as a subject.
    pub text: String,
    /// What else than a wrong fact explains such a figure, and what to do, in a sentence.
    pub otherwise: &'static str,
    /// Where it can change while a case runs, how many times this limit there is then: samples well past the limit show the change, and
    /// the fact is not wrong.
    pub changes: Option<f64>,
}

impl Limit {
    /// An unknown limit.
    pub fn unknown(kind: Kind, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into());
        Self { value: None, reason, ..Self::fixed(kind, Source::Unknown, 0.0, "", Vec::new()) }
    }

    /// A limit with one value for all samples.
    pub fn fixed(kind: Kind, source: Source, value: f64, formula: &str, inputs: Vec<Input>) -> Self {
        Self {
            value: Some(value),
            kind,
            formula: formula.to_owned(),
            inputs,
            source,
            reason: None,
            refuted: None,
            fact: None,
            passed_by: None,
            is_promise: false,
            burst: None,
            per_sample: Vec::new(),
        }
    }

    /// Of so many pairs of machines, each of which has this one.
    pub fn of_pairs(mut self, pairs: f64) -> Self {
        if let Some(value) = &mut self.value {
            *value *= pairs;
            self.per_sample.iter_mut().for_each(|value| *value *= pairs);
            self.formula = format!("pairs × {}", self.formula);
            self.inputs.push(Input::new(PAIRS.name, pairs, "1", "pairs of machines that measured at once"));
        }
        self
    }

    /// The same limit, which rests on this fact of a table.
    pub fn resting_on(self, fact: impl Into<String>) -> Self {
        let otherwise = "the CPU is not what it says; run plimsoll machine --save FILE.tar.gz and report it";
        Self { fact: Some(Fact { text: fact.into(), otherwise, changes: None }), ..self }
    }

    /// The same limit, which rests on this fact; `otherwise` says what else explains a figure past it, and what to do.
    pub fn resting_on_or(self, fact: impl Into<String>, otherwise: &'static str) -> Self {
        Self { fact: Some(Fact { text: fact.into(), otherwise, changes: None }), ..self }
    }

    /// The same limit, which rests on where the host runs the CPUs of a guest: this fact may hold for a part of a run only. There is `times`
    /// this limit once they have moved.
    pub fn resting_on_a_place(self, fact: impl Into<String>, times: f64) -> Self {
        let otherwise = "the host has moved CPUs since, and the limit counts a core for each";
        Self { fact: Some(Fact { text: fact.into(), otherwise, changes: Some(times) }), ..self }
    }

    /// The same limit, with one more thing to say of it.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        let why = why.into();
        self.reason = Some(self.reason.map_or_else(|| why.clone(), |reason| format!("{reason}; {why}")));
        self
    }

    /// The same limit; a figure past it is not to be believed, because of this.
    pub fn passed_by(self, why: &'static str) -> Self {
        Self { passed_by: Some(why), ..self }
    }

    /// The same limit, which somebody promises.
    pub fn promised(self) -> Self {
        Self { is_promise: true, ..self }
    }

    /// How near `measured` is to the limit: 1 is best, for ceilings and floors alike.
    pub fn share(&self, measured: f64, limit: f64) -> f64 {
        match self.kind {
            Kind::Ceiling => measured / limit,
            Kind::Floor => limit / measured,
        }
    }

    /// Whether it is what an instance's CPU credits leave.
    pub fn is_by_credits(&self) -> bool {
        self.inputs.iter().any(|input| input.name == credits::LASTS)
    }

    /// What the limit of each sample varies with, as its inputs tell: a document holds these and no limit of a sample.
    pub fn varies(&self) -> Varies {
        let clocks = self.inputs.iter().filter(|input| input.unit == Unit::Hertz.name()).count();
        match clocks {
            _ if self.is_by_credits() => Varies::Otherwise,
            0 => Varies::Not,
            1 => Varies::WithClock,
            _ => Varies::Otherwise,
        }
    }

    /// The limit as a quantity in `unit`, where it is known.
    pub fn quantity(&self, unit: Unit) -> Option<Quantity> {
        self.value.map(|value| Quantity { value, unit })
    }
}

/// What the whole run measured, for limits that depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// Every case that is done so far.
    pub outcomes: &'a [Outcome],
}

impl Limit {
    /// Whether both are the same limit, whatever is said besides.
    pub fn is(&self, other: &Self) -> bool {
        let shown = |limit: &Self| (limit.value, limit.kind, limit.source);
        shown(self) == shown(other) && self.formula == other.formula && self.per_sample == other.per_sample
    }
}

/// All that a limit may depend on.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The case.
    pub case: &'a Case,
    /// The metric, by name.
    pub metric: &'a str,
    /// The case's own samples.
    pub samples: &'a [Sample],
    /// What the rest of the run measured.
    pub evidence: Evidence<'a>,
}

impl Question<'_> {
    /// A condition's median over the samples.
    pub fn condition(&self, row: &Condition) -> Option<f64> {
        median(self.samples.iter().filter_map(|s| s.conditions.more.get(row)).collect())
    }
}

/// How many pairs of machines, each with a way of its own, the figure is the sum of.
pub const PAIRS: Condition = Condition::new("pairs", "1", "pairs of machines that the figure is the sum of");

/// Brings limits of one metric into order: the tightest first, unknown ones last.
pub fn tightest_first(limits: &mut [Limit]) {
    let key = |limit: &Limit| match (limit.value, limit.kind) {
        (None, _) => f64::INFINITY,
        (Some(value), Kind::Ceiling) => value,
        (Some(value), Kind::Floor) => -value,
    };
    limits.sort_by(|a, b| key(a).total_cmp(&key(b)));
}
