//! What a benchmark says of its cases in words, and a case in them: `fma f64 avx512 ×2`, `random read 4 KiB depth 32`.
//!
//! What a benchmark's words leave out is added as `name value`, unless it is the usual value, so that two cases of
//! a run never read alike.

use crate::case::{AT_ONCE, AT_ONCE_BACK, Case, EACH, Key, Value};
use crate::quantity::{Quantity, Unit};

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
    /// No word: what a rate counts that a case asks for, where it is not transfers.
    Rates(Unit),
}

/// The order of the blocks: the long word would not leave room for the rest.
pub const PATTERN: Say = Say::Instead("pattern", &[("sequential", "seq.")]);

/// The case in words that say its subsystem, for where no heading does: `memory read 512 MiB ×2`.
pub fn full(parts: &[Say], case: &Case) -> String {
    let (subsystem, label) = (case.subsystem(), label(parts, case));
    match label.to_lowercase().starts_with(subsystem) {
        true => label,
        false => format!("{subsystem} {label}"),
    }
}

/// The parameters that a label says as `name value`.
pub fn named(parts: &[Say], case: &Case) -> Vec<(&'static str, String)> {
    let is_named = |name: &str| parts.iter().any(|part| matches!(part, Say::Named(known) if *known == name));
    let words = Words::of(parts, case);
    let added = added(parts, case);
    let said = case.params().iter().filter(|(name, _)| is_named(name) || added.contains(name));
    said.map(|(name, value)| (*name, words.value(value))).collect()
}

/// The parameters that a label adds to what these parts say.
pub fn added(parts: &[Say], case: &Case) -> Vec<&'static str> {
    Words::of(parts, case).added().map(|(name, _)| *name).collect()
}

/// The case in words; without parts, the benchmark's name.
pub fn label(parts: &[Say], case: &Case) -> String {
    let mut words = Words::of(parts, case);
    if parts.is_empty() {
        words.said.insert(0, case.benchmark().to_owned());
    }
    words.rest();
    match words.said.is_empty() {
        true => case.benchmark().to_owned(),
        false => words.said.join(" "),
    }
}

struct Words<'a> {
    case: &'a Case,
    rates: Unit,
    used: Vec<&'static str>,
    said: Vec<String>,
}

impl<'a> Words<'a> {
    /// What these parts say of the case.
    fn of(parts: &[Say], case: &'a Case) -> Self {
        let mut words = Self { case, rates: Unit::IoPerSecond, used: Vec::new(), said: Vec::new() };
        parts.iter().fold(&mut words, |words, part| words.part(*part));
        words.between();
        words
    }

    /// What was not said yet and is not usual.
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

    fn part(&mut self, part: Say) -> &mut Self {
        match part {
            Say::Word(word) => self.said.push(word.to_owned()),
            Say::Value(name) => {
                let value = self.take(name).filter(|value| usual(name) != Some(value.as_str()));
                self.said.extend(value);
            }
            Say::Named(name) => {
                let value = self.take(name).map(|value| format!("{name} {value}"));
                self.said.extend(value);
            }
            Say::Instead(name, of) => {
                let value = self.take(name);
                let instead = |value: String| {
                    of.iter().find(|(known, _)| *known == value).map_or(value, |(_, said)| (*said).to_owned())
                };
                self.said.extend(value.map(instead));
            }
            Say::Case(name, say) => {
                let said = self.take(name).and_then(|_| say(self.case));
                self.said.extend(said);
            }
            Say::Times => return self.times(),
            Say::Rates(unit) => self.rates = unit,
        }
        self
    }

    /// The number of threads, where there are several.
    fn times(&mut self) -> &mut Self {
        let threads = self.take("threads");
        if let Some(n) = threads.filter(|n| n != "1") {
            self.said.push(format!("×{n}"));
        }
        self
    }

    /// That it goes from each machine of the run to each other, or from one half of them to the other: that comes first, lest
    /// what is cut off makes it look like the former.
    fn between(&mut self) {
        if self.used.contains(&"server") {
            return;
        }
        match self.case.server() {
            Some(EACH) => self.said.push("between machines".to_owned()),
            Some(AT_ONCE) => self.said.insert(0, "bisection,".to_owned()),
            Some(AT_ONCE_BACK) => self.said.insert(0, "bisection back,".to_owned()),
            _ => return,
        }
        self.used.push("server");
    }

    fn rest(&mut self) {
        let rest: Vec<String> =
            self.added().map(|(name, value)| format!("{name} {}", self.value(value))).collect();
        self.said.extend(rest);
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        let value = human(self.case.get(name)?);
        self.used.push(name);
        Some(value)
    }
}

/// Whether the parameter is not said with this value.
pub fn is_usual(name: &str, value: &Value) -> bool {
    usual(name) == Some(human(value).as_str())
}

/// Whether a value means the same as leaving the parameter out.
pub fn is_unsaid(name: &str, value: &Value) -> bool {
    let said = human(value);
    said == "off" || Key::find(name).is_ok_and(|key| key.unsaid == Some(said.as_str()))
}

/// What goes without saying of a parameter.
fn usual(name: &str) -> Option<&'static str> {
    Key::find(name).ok()?.usual
}

/// A value with its unit: `64 MiB`; large counts short.
pub fn human(value: &Value) -> String {
    match value {
        Value::Size(bytes) => Quantity::new(*bytes as f64, Unit::Byte).to_string(),
        Value::Word(word) => word.clone(),
        // 1e12 and not all its noughts.
        Value::Count(n) if *n >= 1_000_000 => {
            let short = format!("{n:e}");
            if short.len() < n.to_string().len() { short } else { n.to_string() }
        }
        other => other.to_string(),
    }
}
