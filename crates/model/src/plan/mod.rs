//! A plan: what is to be measured and how carefully, resolved and checked before anything runs.
//!
//! [`mod@file`] reads plan files, [`write`](mod@write) makes them; `resolve` puts file, flags and defaults together and
//! expands the lists into cases.

pub mod built_in;
mod exclude;
pub mod file;
mod places;
pub mod scale;
pub mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::{Key, Value};

pub use exclude::Exclude;
pub use places::{Place, Places, Position};

/// How the cases of a group, or of a whole plan, are sampled; what is left out is decided elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct How {
    /// Exactly this many samples.
    pub samples: Option<u32>,
    /// Exactly this many samples, one after another in time; a scaled plan takes fewer.
    pub series: Option<u32>,
    /// Time of one sample.
    pub sample_time: Option<Duration>,
    /// Time before the first sample that is not counted.
    pub warm_up: Option<Duration>,
    /// Half-width at which sampling stops.
    pub precision: Option<f64>,
    /// Time for all cases.
    pub budget: Option<Duration>,
    /// Reference tools beside each case, by name; an empty list is none.
    pub against: Option<Vec<String>>,
}

/// Cases that share their lists: the product of the lists is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What the reader must know of it: how its figures are counted.
    pub note: Option<String>,
    /// Names of benchmarks.
    pub benchmarks: Vec<String>,
    /// Parameter → the values asked for. A parameter that is absent takes the benchmark's defaults.
    pub lists: BTreeMap<&'static str, Vec<Value>>,
    /// Cases of the product that are left out.
    pub exclude: Vec<Exclude>,
    /// How its cases are sampled, where that differs from the plan's.
    pub how: How,
    /// The options of the reference tool's job that it was made of, as `name=value`.
    pub job: Vec<String>,
    /// Where it stands in the plan's text.
    pub places: Places,
    /// Seconds for the whole run, where there is a bound: default sizes keep to it.
    pub budget: Option<f64>,
}

impl Group {
    /// The words asked for, or the defaults.
    pub fn words(&self, key: &str, defaults: &[&str]) -> Vec<String> {
        self.list(key, defaults.iter().map(|w| (*w).to_owned()).collect(), |v| match v {
            Value::Word(w) => Some(w.clone()),
            _ => None,
        })
    }

    /// The words asked for, or the usual ones; `all` stands for every one that there is.
    pub fn words_of(&self, key: &str, usual: &[&str], every: &[&str]) -> Vec<String> {
        let words = self.words(key, usual);
        match words.iter().any(|word| word.eq_ignore_ascii_case("all")) {
            true => every.iter().map(|word| (*word).to_owned()).collect(),
            false => words,
        }
    }

    /// The sizes or counts asked for, or the defaults.
    pub fn numbers(&self, key: &str, defaults: &[u64]) -> Vec<u64> {
        self.list(key, defaults.to_vec(), |v| match v {
            Value::Size(n) | Value::Count(n) => Some(*n),
            _ => None,
        })
    }

    /// The numbers asked for; `None` when the parameter was not named.
    pub fn asked_numbers(&self, key: &str) -> Option<Vec<u64>> {
        self.asked(key).then(|| self.numbers(key, &[]))
    }

    /// Whether the parameter was named.
    pub fn asked(&self, key: &str) -> bool {
        self.lists.contains_key(key)
    }

    /// Whether the parameter was typed, and not named in a plan file.
    pub fn typed(&self, key: &str) -> bool {
        self.asked(key) && !self.places.keys.contains_key(key)
    }

    fn list<T>(&self, key: &str, defaults: Vec<T>, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        self.lists.get(key).map_or(defaults, |values| values.iter().filter_map(read).collect())
    }

    /// Adds a list; unknown names are dropped, as [`Key::find`] has told before.
    #[must_use]
    pub fn with(mut self, key: &str, values: Vec<Value>) -> Self {
        if let Ok(key) = Key::find(key) {
            self.lists.insert(key.name, values);
        }
        self
    }
}

/// How many samples, how long, how exact: resolved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Exactly this many samples; `None`: 6 to 30, until `precision` is reached.
    pub samples: Option<u32>,
    /// Seconds of one sample.
    pub sample_time: f64,
    /// Seconds before the first sample; none: as the sample time has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<f64>,
    /// Half-width of the interval, as a share of the median, at which sampling stops.
    pub precision: f64,
}

/// What is to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name, as shown and stored.
    pub name: String,
    /// What the reader must know of the whole of it.
    pub note: Option<String>,
    /// Its groups, in order; each with one benchmark.
    pub groups: Vec<Group>,
    /// Names and globs of which a case must match one; empty: all are measured.
    pub only: Vec<String>,
    /// How each case is sampled whose group does not say.
    pub sampling: Sampling,
    /// Reference tools beside each case whose group does not say.
    pub against: Vec<String>,
    /// Within this share two figures are said to be the same.
    pub margin: Option<f64>,
    /// How often all of it is measured; 1 is once.
    pub repeat: u32,
    /// What volumes, work and file sizes are multiplied with.
    pub scale: f64,
    /// Seconds for the whole run.
    pub budget: Option<f64>,
    /// Directory for test files.
    pub dir: PathBuf,
    /// Seed of all that is random.
    pub seed: u64,
    /// The plan as a file, from which all of this follows.
    pub file: file::PlanFile,
}
