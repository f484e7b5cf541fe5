//! Labels of cases: `fma f64 avx512 ×2`. Parameters without a declared part come last, by name.

use plimsoll_units::quantity::{Quantity, Unit};

use crate::case::{ALL_PAIRS, AT_ONCE, AT_ONCE_BACK, Case, Key, Value};

/// A part of a label.
#[derive(Clone, Copy, Debug)]
pub enum LabelPart {
    /// This word.
    Word(&'static str),
    /// Value of a parameter, unless it is the usual one.
    Value(&'static str),
    /// Name and value of a parameter.
    Named(&'static str),
    /// Words for values of a parameter, (value, words); other values are unchanged.
    Instead(&'static str, &'static [(&'static str, &'static str)]),
    /// Text that the benchmark derives from a parameter, if any.
    Case(&'static str, fn(&Case) -> Option<String>),
    /// Number of threads, if above 1.
    Times,
    /// No text; sets the unit of requested rates, if they are not transfers.
    Rates(Unit),
}

/// Order of the blocks, abbreviated to leave room for the rest.
pub const PATTERN: LabelPart = LabelPart::Instead("pattern", &[("sequential", "seq.")]);

/// Returns the [`label`] with the subsystem in front: `memory read 512 MiB ×2`.
pub fn full(parts: &[LabelPart], case: &Case) -> String {
    let (subsystem, label) = (case.subsystem(), label(parts, case));
    if label.to_lowercase().starts_with(subsystem) { label } else { format!("{subsystem} {label}") }
}

/// Returns (name, value as text) of the parameters that [`label`] writes as `name value`.
pub fn named(parts: &[LabelPart], case: &Case) -> Vec<(&'static str, String)> {
    let is_named =
        |name: &str| parts.iter().any(|part| matches!(part, LabelPart::Named(known) if *known == name));
    let words = Words::of(parts, case);
    let added = added(parts, case);
    let stated = case.params().iter().filter(|(name, _)| is_named(name) || added.contains(name));
    stated.map(|(name, value)| (*name, words.value(value))).collect()
}

/// Returns the names of the parameters that [`label`] appends because `parts` lacks them.
pub fn added(parts: &[LabelPart], case: &Case) -> Vec<&'static str> {
    Words::of(parts, case).added().map(|(name, _)| *name).collect()
}

/// Returns a short name of `case`: `parts`, then other parameters without their usual value as
/// `name value`. Without `parts` it starts with the benchmark.
pub fn label(parts: &[LabelPart], case: &Case) -> String {
    let mut words = Words::of(parts, case);
    if parts.is_empty() {
        words.stated.insert(0, case.benchmark().to_owned());
    }
    let rest: Vec<String> =
        words.added().map(|(name, value)| format!("{name} {}", words.value(value))).collect();
    words.stated.extend(rest);
    if words.stated.is_empty() { case.benchmark().to_owned() } else { words.stated.join(" ") }
}

struct Words<'a> {
    case: &'a Case,
    rates: Unit,
    used: Vec<&'static str>,
    stated: Vec<String>,
}

impl<'a> Words<'a> {
    fn of(parts: &[LabelPart], case: &'a Case) -> Self {
        let mut words = Self { case, rates: Unit::IoPerSecond, used: Vec::new(), stated: Vec::new() };
        parts.iter().for_each(|part| words.part(*part));
        words.between();
        words
    }

    /// Returns the parameters that are not in the label yet and do not have their usual value.
    fn added(&self) -> impl Iterator<Item = &'a (&'static str, Value)> {
        let is_new =
            move |(name, value): &&(&'static str, Value)| !self.used.contains(name) && !is_usual(name, value);
        self.case.params().iter().filter(is_new)
    }

    fn value(&self, value: &Value) -> String {
        match value {
            Value::Rate(rate) => Quantity::new(*rate, self.rates).to_string(),
            other => human(other),
        }
    }

    fn part(&mut self, part: LabelPart) {
        let stated = match part {
            LabelPart::Word(word) => Some(word.to_owned()),
            LabelPart::Value(name) => self.take(name).filter(|value| usual(name) != Some(value.as_str())),
            LabelPart::Named(name) => self.take(name).map(|value| format!("{name} {value}")),
            LabelPart::Instead(name, of) => self.take(name).map(|value| {
                let known = of.iter().find(|(known, _)| *known == value);
                known.map_or(value, |(_, stated)| (*stated).to_owned())
            }),
            LabelPart::Case(name, describe) => self.take(name).and_then(|_| describe(self.case)),
            LabelPart::Times => self.take("threads").filter(|n| n != "1").map(|n| format!("×{n}")),
            LabelPart::Rates(unit) => {
                self.rates = unit;
                None
            }
        };
        self.stated.extend(stated);
    }

    /// Adds `between machines` to the label, or `bisection,` in front because labels are cut at the
    /// end, if parameter `server` requests that.
    fn between(&mut self) {
        if self.used.contains(&"server") {
            return;
        }
        match self.case.server() {
            Some(ALL_PAIRS) => self.stated.push("between machines".to_owned()),
            Some(AT_ONCE) => self.stated.insert(0, "bisection,".to_owned()),
            Some(AT_ONCE_BACK) => self.stated.insert(0, "bisection back,".to_owned()),
            _ => return,
        }
        self.used.push("server");
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        let value = human(self.case.get(name)?);
        self.used.push(name);
        Some(value)
    }
}

/// Returns whether `value` is the usual value of parameter `name`, which labels omit.
pub fn is_usual(name: &str, value: &Value) -> bool {
    usual(name) == Some(human(value).as_str())
}

/// Returns whether `value` means the same as leaving the parameter `name` out, such as `off`.
pub fn is_neutral_value(name: &str, value: &Value) -> bool {
    let stated = human(value);
    stated == "off" || Key::find(name).is_ok_and(|key| key.neutral_value == Some(stated.as_str()))
}

fn usual(name: &str) -> Option<&'static str> {
    Key::find(name).ok()?.usual
}

/// Formats a value with its unit: `64 MiB`; counts above a million as `2e9` if that is shorter.
pub fn human(value: &Value) -> String {
    match value {
        Value::Size(bytes) => Quantity::new(*bytes as f64, Unit::Byte).to_string(),
        Value::Word(word) => word.clone(),
        Value::Count(n) if *n >= 1_000_000 => {
            let short = format!("{n:e}");
            if short.len() < n.to_string().len() { short } else { n.to_string() }
        }
        other => other.to_string(),
    }
}
