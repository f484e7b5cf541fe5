//! A case: one benchmark with its parameters. Its id, which round-trips, is the key in history.

mod key;
mod pattern;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use plimsoll_units::quantity::{self, Mix};
use plimsoll_units::text::shown;

pub use key::{Axis, KEYS, Key, SWEEP, ScaledAmount, ValueKind};
pub use pattern::{CaseGlob, Pattern};

const MAX_ID: usize = 1024;

/// Value of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Size in bytes.
    Size(u64),
    /// Sizes in bytes, by weight.
    Mix(Mix),
    /// Whole number.
    Count(u64),
    /// Duration.
    Time(Duration),
    /// Rate per second, finite and not negative.
    Rate(f64),
    /// Non-empty name.
    Word(String),
}

impl Value {
    pub(crate) fn number(&self) -> Option<u64> {
        if let Value::Size(n) | Value::Count(n) = self { Some(*n) } else { None }
    }

    pub(crate) fn word(&self) -> Option<&str> {
        if let Value::Word(word) = self { Some(word) } else { None }
    }
}

/// Returns the candidate most similar to `typed` (Jaro-Winkler); `None` if none is above 0.75.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: String = typed.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|c| (strsim::jaro_winkler(&typed, c), c))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Size(n) => f.write_str(&quantity::format_size(*n)),
            Value::Mix(mix) => write!(f, "{mix}"),
            Value::Count(n) => write!(f, "{n}"),
            Value::Time(s) => f.write_str(&quantity::format_duration(*s)),
            Value::Rate(r) => write!(f, "{r}"),
            Value::Word(w) => w.bytes().try_for_each(|b| match b {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'+' | b'@' | b':' | b'-' => {
                    write!(f, "{}", b as char)
                }
                _ => write!(f, "%{b:02X}"),
            }),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Size(n) | Value::Count(n) => s.serialize_u64(*n),
            Value::Mix(mix) => s.collect_str(mix),
            Value::Time(t) => s.serialize_f64(t.as_secs_f64()),
            Value::Rate(x) => s.serialize_f64(*x),
            Value::Word(w) => s.serialize_str(w),
        }
    }
}

/// One benchmark with parameters, in the order in which the benchmark lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    benchmark: String,
    params: Vec<(&'static str, Value)>,
}

/// Value of a case's `server` for all pairs of machines, one at a time or in a matching.
pub const ALL_PAIRS: &str = "nodes";
/// Value of `server` for the pairs across the bisection, all at once.
pub const AT_ONCE: &str = "bisection";
/// Value of `server` for [`AT_ONCE`] in the opposite direction.
pub const AT_ONCE_BACK: &str = "bisection-back";

impl Case {
    /// Creates a case, a benchmark with parameters, of `benchmark` (`cpu.peak`) without parameters.
    pub fn of(benchmark: &str) -> Self {
        Self { benchmark: benchmark.to_owned(), params: Vec::new() }
    }

    /// Sets parameter `name` to `value`; ignored if [`KEYS`] has no such name.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        match self.params.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => self.params.extend(Key::find(name).ok().map(|key| (key.name, value))),
        }
        self
    }

    /// Sets a word parameter, such as `op` to `read`; see [`Case::with`].
    #[must_use]
    pub fn with_word(self, name: &str, word: &str) -> Self {
        self.with(name, Value::Word(word.to_owned()))
    }

    /// Sets a size parameter in bytes, such as `block`; see [`Case::with`].
    #[must_use]
    pub fn with_size(self, name: &str, bytes: u64) -> Self {
        self.with(name, Value::Size(bytes))
    }

    /// Sets a whole-number parameter, such as `threads`; see [`Case::with`].
    #[must_use]
    pub fn with_count(self, name: &str, count: u64) -> Self {
        self.with(name, Value::Count(count))
    }

    /// Sets all parameters that `other` has to the values in `other`.
    #[must_use]
    pub fn with_params_of(self, other: &Self) -> Self {
        other.params.iter().fold(self, |case, (name, value)| case.with(name, value.clone()))
    }

    /// Returns this case without the parameters `names`.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.params.retain(|(name, _)| !names.contains(name));
        self
    }

    /// Returns each of `cases` with parameter `name` set to each of `values`, the first case first.
    #[must_use]
    pub fn with_each(cases: Vec<Self>, name: &str, values: impl IntoIterator<Item = Value>) -> Vec<Self> {
        let values: Vec<Value> = values.into_iter().collect();
        let with = |case: Self| values.iter().map(move |value| case.clone().with(name, value.clone()));
        cases.into_iter().flat_map(with).collect()
    }

    /// Returns the name of the benchmark, such as `cpu.peak`.
    pub fn benchmark(&self) -> &str {
        &self.benchmark
    }

    /// Returns the name of the benchmark up to the dot, such as `cpu`.
    pub fn subsystem(&self) -> &str {
        self.benchmark.split('.').next().unwrap_or_default()
    }

    /// Returns all parameters as (name, value), in the order of the id.
    pub fn params(&self) -> &[(&'static str, Value)] {
        &self.params
    }

    /// Returns the value of parameter `name`; `None` if the case lacks it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.params.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Returns parameter `name`, bytes or a count; `None` if missing or of another kind.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.number()
    }

    /// Returns parameter `name` if it is a duration; else, or if missing, `None`.
    pub fn time(&self, name: &str) -> Option<Duration> {
        if let Value::Time(time) = self.get(name)? { Some(*time) } else { None }
    }

    /// Returns parameter `name` if it is a rate per second; else, or if missing, `None`.
    pub fn rate(&self, name: &str) -> Option<f64> {
        if let Value::Rate(rate) = self.get(name)? { Some(*rate) } else { None }
    }

    /// Returns parameter `name` if it is several sizes by weight; else, or if missing, `None`.
    pub fn mix(&self, name: &str) -> Option<&Mix> {
        if let Value::Mix(mix) = self.get(name)? { Some(mix) } else { None }
    }

    /// Returns parameter `name` if it is a word; else, or if missing, `None`.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.get(name)?.word()
    }

    /// Returns parameter `threads`; 1 if the case lacks it.
    pub fn threads(&self) -> usize {
        self.number("threads").and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
    }

    /// Returns the bytes of the working set (per thread) or test file; `None` if not specified.
    pub fn size(&self) -> Option<u64> {
        self.number("size")
    }

    /// Returns the NUMA node requested for the memory; `None` for any.
    pub fn node(&self) -> Option<u64> {
        self.number("node")
    }

    /// Returns the server's address or a word such as [`ALL_PAIRS`]; `None` without a server.
    pub fn server(&self) -> Option<&str> {
        self.word("server")
    }

    /// Returns whether the case measures pairs of a run's machines (`server` is [`ALL_PAIRS`] …).
    pub fn is_between_machines(&self) -> bool {
        matches!(self.server(), Some(ALL_PAIRS | AT_ONCE | AT_ONCE_BACK))
    }

    /// Returns whether `steady` is `on`: samples count only once the results have become steady.
    pub fn is_steady(&self) -> bool {
        self.word("steady") == Some("on")
    }

    /// Returns the share of time that busy threads wait for `cpus` CPUs: 0.5 with two per CPU.
    pub fn cpu_wait_share(&self, cpus: usize) -> f64 {
        1.0 - 1.0 / self.busy_threads().div_ceil(cpus.max(1)) as f64
    }

    /// Returns the number of busy threads on this machine, two per network stream without a server.
    pub fn busy_threads(&self) -> usize {
        let streams = self.number("streams").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let ends = if self.server().is_none() { 2 } else { 1 };
        self.threads().max(streams.saturating_mul(ends)).max(1)
    }

    /// Returns the id, such as `cpu.peak/op=fma/threads=2`, which is the key in history.
    pub fn id(&self) -> CaseId {
        CaseId(self.to_string())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.benchmark)?;
        self.params.iter().try_for_each(|(name, value)| write!(f, "/{name}={value}"))
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let bad = |why| {
            let id = shown(id);
            format!("'{id}' is not a case id: {why}; a right one is 'cpu.peak/op=fma/threads=2'")
        };
        if id.len() > MAX_ID {
            return Err(bad("longer than 1024 bytes"));
        }
        let mut parts = id.split('/');
        let benchmark = parts.next().unwrap_or_default();
        let named = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-';
        if benchmark.is_empty() || !benchmark.bytes().all(named) {
            return Err(bad("its benchmark is not a name"));
        }
        let mut case = Case::of(benchmark);
        for part in parts {
            let (name, text) = part.split_once('=').ok_or_else(|| bad("a part has no '='"))?;
            let key = Key::find(name)?;
            if case.get(key.name).is_some() {
                return Err(bad("a parameter occurs twice"));
            }
            let text = percent_decoded(text).ok_or_else(|| bad("a '%' is not followed by a byte in hex"))?;
            case.params.push((key.name, key.parse(&text)?));
        }
        Ok(case)
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || (rest.next()? as char).to_digit(16);
        bytes.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

/// Text form of a [`Case`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CaseId(String);

impl CaseId {
    /// Returns the id as text, such as `cpu.peak/op=fma`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    id: String,
    benchmark: Option<String>,
    params: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Written {
    fn contradicts(&self, case: &Case) -> Option<&'static str> {
        if self.benchmark.as_ref().is_some_and(|benchmark| *benchmark != case.benchmark) {
            return Some("benchmark");
        }
        let is_same = |params: &serde_json::Map<_, _>, (name, value): &(&str, Value)| {
            params.get(*name).is_some_and(|written| is_written(value, written))
        };
        let is_right = |params: &serde_json::Map<_, _>| {
            params.len() == case.params.len() && case.params.iter().all(|param| is_same(params, param))
        };
        (!self.params.as_ref().is_none_or(is_right)).then_some("params")
    }
}

fn is_written(value: &Value, written: &serde_json::Value) -> bool {
    serde_json::to_value(value).is_ok_and(|right| match (right.as_f64(), written.as_f64()) {
        (Some(right), Some(written)) => quantity::is_rounded(written, right),
        _ => right == *written,
    })
}

impl Serialize for Case {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let params = self
            .params
            .iter()
            .map(|(name, value)| Ok(((*name).to_owned(), serde_json::to_value(value)?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(serde::ser::Error::custom)?;
        let benchmark = Some(self.benchmark.clone());
        Written { id: self.to_string(), benchmark, params: Some(params) }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Case {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let read = Written::deserialize(d)?;
        let case: Self = read.id.parse().map_err(serde::de::Error::custom)?;
        let wrong = |what| serde::de::Error::custom(format_args!("{}: {what} contradicts its id", case.id()));
        read.contradicts(&case).map_or(Ok(()), |what| Err(wrong(what))).map(|()| case)
    }
}

/// Returns the entry of `known` with the word `given`; fails, naming parameter `key`, without it.
pub fn find_word<T: Copy>(
    key: &str,
    given: &str,
    known: &[(&'static str, T)],
) -> Result<(&'static str, T), String> {
    known.iter().find(|(name, _)| *name == given).copied().ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{key} must be one of {}: '{}' is not", names.join(", "), shown(given))
    })
}

#[cfg(test)]
mod tests;
