//! A plan: what is to be measured and how carefully, resolved and checked before anything runs.
//!
//! [`mod@file`] reads plan files; `resolve` puts file, flags and defaults together and expands
//! the lists into cases.

pub mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::case::{Key, Value};

/// Cases that share their lists: the product of the lists is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Names of benchmarks.
    pub benchmarks: Vec<String>,
    /// Parameter → the values asked for. A parameter that is absent takes the benchmark's defaults.
    pub lists: BTreeMap<&'static str, Vec<Value>>,
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

/// How many samples, how long, how exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Exactly this many samples; `None`: 6 to 30, until `precision` is reached.
    pub samples: Option<u32>,
    /// Seconds of one sample.
    pub sample_time: f64,
    /// Half-width of the interval, as a share of the median, at which sampling stops.
    pub precision: f64,
}

/// What is to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name, as shown and stored.
    pub name: String,
    /// Its groups, in order.
    pub groups: Vec<Group>,
    /// How each case is sampled.
    pub sampling: Sampling,
    /// Seconds for the whole run.
    pub budget: Option<f64>,
    /// Directory for test files.
    pub dir: PathBuf,
    /// Seed of all that is random.
    pub seed: u64,
}
