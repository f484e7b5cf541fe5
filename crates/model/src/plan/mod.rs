//! A plan: cases and sampling, resolved and checked before anything runs.

pub mod built_in;
mod exclude;
pub mod file;
pub mod scale;
pub mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::{Case, Key, Value, find_word};

pub use exclude::Exclude;

/// Sampling of the cases of a group or plan; `None` falls back to the plan or the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingOptions {
    /// Exact number of samples.
    pub samples: Option<u32>,
    /// Exact number of samples of a time series; a scaled plan takes fewer.
    pub series: Option<u32>,
    /// Time of one sample.
    pub sample_time: Option<Duration>,
    /// Warm-up time before the first sample.
    pub warm_up: Option<Duration>,
    /// Relative half-width of the confidence interval at which sampling stops.
    pub precision: Option<f64>,
    /// Time for all cases.
    pub budget: Option<Duration>,
    /// Names of the reference tools of each case; an empty list disables them.
    pub against: Option<Vec<String>>,
}

/// Cases that share their lists: the product of the lists is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Name.
    pub name: Option<String>,
    /// Note: how its figures are counted.
    pub note: Option<String>,
    /// Names of benchmarks.
    pub benchmarks: Vec<String>,
    /// Values by parameter; a missing parameter has the benchmark's defaults.
    pub lists: BTreeMap<&'static str, Vec<Value>>,
    /// Excluded cases of the product.
    pub exclude: Vec<Exclude>,
    /// Sampling, if it differs from the plan's.
    pub how: SamplingOptions,
    /// Options, as `name=value`, of the reference tool's job that the group was made of.
    pub job: Vec<String>,
    /// Positions in the plan's text.
    pub places: PlanPositions,
    /// Budget of the whole run in seconds, which limits default sizes.
    pub budget: Option<f64>,
}

impl Group {
    /// Returns the words for parameter `key`; `defaults` if the group lacks the parameter.
    pub fn words(&self, key: &str, defaults: &[&str]) -> Vec<String> {
        let defaults = defaults.iter().map(|w| (*w).to_owned()).collect();
        self.list(key, defaults, |value| value.word().map(str::to_owned))
    }

    /// Returns the words for `key`, by default `usual`; all of `every` if the word `all` is there.
    pub fn words_of(&self, key: &str, usual: &[&str], every: &[&str]) -> Vec<String> {
        let words = self.words(key, usual);
        match words.iter().any(|word| word.eq_ignore_ascii_case("all")) {
            true => every.iter().map(|word| (*word).to_owned()).collect(),
            false => words,
        }
    }

    /// Returns the sizes (bytes) or counts for `key`; `defaults` if the group lacks the parameter.
    pub fn numbers(&self, key: &str, defaults: &[u64]) -> Vec<u64> {
        self.list(key, defaults.to_vec(), Value::number)
    }

    /// Returns the sizes (bytes) or counts for `key`; `None` if the group lacks the parameter.
    pub fn asked_numbers(&self, key: &str) -> Option<Vec<u64>> {
        self.asked(key).then(|| self.numbers(key, &[]))
    }

    /// Returns the group's words for `key`, each with its value in `known`; all `known` ones if the
    /// group lacks `key`. Fails for another word.
    pub fn values<T: Copy>(
        &self,
        key: &str,
        known: &[(&'static str, T)],
    ) -> Result<Vec<(&'static str, T)>, String> {
        let all: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        self.words_of(key, &all, &all).iter().map(|word| find_word(key, word, known)).collect()
    }

    /// Returns each of `cases` with each value that the group has for parameter `key`, the first
    /// case first; `cases` unchanged if the group has none.
    pub fn each_of(&self, cases: Vec<Case>, key: &str) -> Vec<Case> {
        match self.lists.get(key).filter(|values| !values.is_empty()) {
            Some(values) => Case::with_each(cases, key, values.clone()),
            None => cases,
        }
    }

    /// Returns whether the group has a list for parameter `key`.
    pub fn asked(&self, key: &str) -> bool {
        self.lists.contains_key(key)
    }

    /// Returns whether the group has `key` from the command line instead of a plan file.
    pub fn typed(&self, key: &str) -> bool {
        self.asked(key) && !self.places.keys.contains_key(key)
    }

    fn list<T>(&self, key: &str, defaults: Vec<T>, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        self.lists.get(key).map_or(defaults, |values| values.iter().filter_map(read).collect())
    }

    /// Sets the list of values for parameter `key`; an unknown name is ignored.
    #[must_use]
    pub fn with(mut self, key: &str, values: Vec<Value>) -> Self {
        if let Ok(key) = Key::find(key) {
            self.lists.insert(key.name, values);
        }
        self
    }
}

/// Resolved sampling of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Exact number of samples; `None`: 6 to 30, until `precision` is reached.
    pub samples: Option<u32>,
    /// Seconds per sample.
    pub sample_time: f64,
    /// Seconds of warm-up; `None`: derived from the sample time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<f64>,
    /// Half-width of the confidence interval, relative to the median, at which sampling stops.
    pub precision: f64,
}

/// A resolved plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name, as shown and stored.
    pub name: String,
    /// Groups, in order; each with one benchmark.
    pub groups: Vec<Group>,
    /// Default sampling of its groups.
    pub sampling: Sampling,
    /// Number of repetitions of the whole plan, at least 1.
    pub repeat: u32,
    /// Factor of volumes, work and file sizes.
    pub scale: f64,
    /// Time for the whole run in seconds.
    pub budget: Option<f64>,
    /// Directory of test files.
    pub dir: PathBuf,
    /// Seed of all random choices.
    pub seed: u64,
    /// The plan as a file, from which all of this follows.
    pub file: file::PlanFile,
}

/// Positions of a key and its values: (line, column in characters), both from 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyPosition {
    /// Position of the key.
    pub key: (usize, usize),
    /// Positions of its values, in order.
    pub values: Vec<(usize, usize)>,
}

/// Positions of a group and its keys; empty if the group is not from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanPositions {
    /// File name, sanitised.
    pub file: String,
    /// Position (line, column) of the group's table.
    pub group: (usize, usize),
    /// Positions of its keys.
    pub keys: BTreeMap<String, KeyPosition>,
    /// By key: option of a foreign job file that the key comes from, with file and line.
    pub descriptions: BTreeMap<String, String>,
    /// Section of a foreign job file that the group comes from, with file and line.
    pub group_label: Option<String>,
}

impl PlanPositions {
    /// Returns whether the group comes from a file.
    pub fn known(&self) -> bool {
        !self.file.is_empty()
    }

    /// Returns the option (else section) of another tool's job file that `key` is from, if any.
    pub fn description(&self, key: &str) -> Option<&str> {
        self.descriptions.get(key).or(self.group_label.as_ref()).map(String::as_str)
    }

    /// Returns (line, column) of value `index` of `key`, else of the key, else of the group.
    pub fn of(&self, key: &str, index: Option<usize>) -> (usize, usize) {
        let place = self.keys.get(key);
        let value = place.zip(index).and_then(|(place, index)| place.values.get(index)).copied();
        value.or(place.map(|place| place.key)).unwrap_or(self.group)
    }
}
