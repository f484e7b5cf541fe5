//! Conditions under which a figure was measured; single benchmarks declare [`OwnCondition`]s.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// Conditions of one sample or a whole case. Shares are between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Measured core clock in Hz, mean over the threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// Stolen share of the time (/proc/stat): the hypervisor ran other guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Share of the time in interrupted slices, which is excluded from the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<f64>,
    /// Share of the time throttled by a cgroup quota, mean over the CPUs of the case's threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// Mean latency in seconds between neighbouring CPUs, if a hypervisor may move CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_to_core: Option<f64>,
    /// Headline including all interruptions, in its unit: what another tool would show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<f64>,
    /// Causes of excluded time.
    #[serde(flatten)]
    pub excluded_by: ExcludedBy,
    /// Pages written to or read from swap during the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_swapped: Option<f64>,
    /// Share of clock probes with another thread on the core's vector units, maximum over the CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_units_shared: Option<f64>,
    /// Largest share of the time that a thread was runnable without a CPU, unless it waited for
    /// another thread of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Power of all processor packages in W (RAPL), whatever used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_power: Option<f64>,
    /// Power of the memory modules in W, if it is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_power: Option<f64>,
    /// Further conditions of the benchmark.
    #[serde(default, flatten)]
    pub more: Numbers,
}

/// Excluded time by cause, as shares of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExcludedBy {
    /// A thread left its CPU.
    #[serde(rename = "excluded_switched", default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<f64>,
    /// Unknown core clock: a probe failed, or two differ and the slice's cost does not decide.
    #[serde(rename = "excluded_clock", default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<f64>,
    /// Slices with a second common cost.
    #[serde(rename = "excluded_second_cost", default, skip_serializing_if = "Option::is_none")]
    pub second: Option<f64>,
    /// Slices that took longer although no thread left its CPU and the clock was constant.
    #[serde(rename = "excluded_gaps", default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<f64>,
    /// Time by which the more expensive of these slices exceeded their work.
    #[serde(rename = "excluded_gaps_taken", default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<f64>,
    /// Time off the CPU of the longest absent thread in repetitions, which are excluded whole.
    #[serde(rename = "excluded_off_cpu", default, skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<f64>,
    /// Share of the work at a second common cost.
    #[serde(rename = "second_cost_work", default, skip_serializing_if = "Option::is_none")]
    pub second_work: Option<f64>,
    /// Ratio of the second common cost to the most common one.
    #[serde(rename = "second_cost", default, skip_serializing_if = "Option::is_none")]
    pub second_cost: Option<f64>,
}

impl ExcludedBy {
    /// Converts the shares of time excluded from slices of a measurement; 0 becomes `None`.
    pub fn of(causes: &plimsoll_metal::sliced::Causes) -> Self {
        let some = |share: f64| Some(share).filter(|share| *share > 0.0);
        Self {
            switched: some(causes.switched),
            clock: some(causes.clock),
            second: some(causes.second),
            gaps: some(causes.interrupted),
            taken: some(causes.taken),
            off_cpu: None,
            second_work: some(causes.second_work),
            second_cost: causes.second_cost.and_then(some),
        }
    }

    /// Returns whether the time excluded because of any cause is known.
    pub fn is_known(&self) -> bool {
        [self.switched, self.clock, self.second, self.gaps].iter().any(Option::is_some)
    }
}

impl Conditions {
    /// Returns the share (0 to 1) of the time that other processes or guests took from a case on
    /// `cpus` CPUs. Waits for a quota or for the case's own threads do not count.
    pub fn disturbed(&self, case: &Case, cpus: usize) -> f64 {
        let waited = self.waited.unwrap_or(0.0) - case.cpu_wait_share(cpus);
        self.steal.unwrap_or(0.0).max(waited - self.throttled.unwrap_or(0.0)).clamp(0.0, 1.0)
    }

    /// Returns for each condition the result of `mean`, which gets a function that reads it. `all`
    /// is only used to list the conditions of single benchmarks.
    pub fn each<'a>(
        all: impl Iterator<Item = &'a Self>,
        mean: impl Fn(&dyn Fn(&Self) -> Option<f64>) -> Option<f64>,
    ) -> Self {
        let names: BTreeSet<&String> = all.flat_map(|conditions| conditions.more.0.keys()).collect();
        let more = |name: &String| Some((name.clone(), mean(&|c| c.more.0.get(name).copied())?));
        Self {
            clock_hz: mean(&|c| c.clock_hz),
            steal: mean(&|c| c.steal),
            excluded: mean(&|c| c.excluded),
            throttled: mean(&|c| c.throttled),
            core_to_core: mean(&|c| c.core_to_core),
            delivered: mean(&|c| c.delivered),
            excluded_by: ExcludedBy {
                switched: mean(&|c| c.excluded_by.switched),
                clock: mean(&|c| c.excluded_by.clock),
                second: mean(&|c| c.excluded_by.second),
                gaps: mean(&|c| c.excluded_by.gaps),
                taken: mean(&|c| c.excluded_by.taken),
                off_cpu: mean(&|c| c.excluded_by.off_cpu),
                second_work: mean(&|c| c.excluded_by.second_work),
                second_cost: mean(&|c| c.excluded_by.second_cost),
            },
            pages_swapped: mean(&|c| c.pages_swapped),
            vector_units_shared: mean(&|c| c.vector_units_shared),
            waited: mean(&|c| c.waited),
            package_power: mean(&|c| c.package_power),
            memory_power: mean(&|c| c.memory_power),
            more: Numbers(names.into_iter().filter_map(more).collect()),
        }
    }

    /// Returns the conditions with equal values in `all`; clock, steal and lost time become `None`.
    pub fn common_to_all(all: &[&Self]) -> Self {
        let same = |read: &dyn Fn(&Self) -> Option<f64>| {
            let first = read(all.first()?)?;
            all.iter().all(|other| read(other) == Some(first)).then_some(first)
        };
        let common = Self::each(all.iter().copied(), same);
        Self { clock_hz: None, steal: None, excluded: None, throttled: None, ..common }
    }
}

/// A condition of a benchmark, in base SI units; yes is 1, no is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnCondition {
    /// Name in the run document; `{}` stands for the member of a family.
    pub name: &'static str,
}

impl OwnCondition {
    /// Declares the condition `name` of run documents.
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }

    fn of(&self, member: &str) -> String {
        self.name.replace("{}", member)
    }
}

/// Numbers by condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    /// Returns the value of condition `row`, in its unit; `None` if not recorded.
    pub fn get(&self, row: &OwnCondition) -> Option<f64> {
        self.0.get(row.name).copied()
    }

    /// Returns the value of `row` for a `member` of its family, such as a kind of core, if any.
    pub fn get_of(&self, row: &OwnCondition, member: &str) -> Option<f64> {
        self.0.get(&row.of(member)).copied()
    }

    /// Stores the value of condition `row`, in its unit.
    pub fn set(&mut self, row: &OwnCondition, value: f64) {
        self.0.insert(row.name.to_owned(), value);
    }

    /// Stores the value of `row` for a `member` of its family, such as a kind of core.
    pub fn set_of(&mut self, row: &OwnCondition, member: &str, value: f64) {
        self.0.insert(row.of(member), value);
    }

    /// Adds the values of `others`; they replace values with the same names.
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl FromIterator<(OwnCondition, f64)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (OwnCondition, f64)>>(rows: I) -> Self {
        Self(rows.into_iter().map(|(row, value)| (row.name.to_owned(), value)).collect())
    }
}

impl FromIterator<(OwnCondition, Option<f64>)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (OwnCondition, Option<f64>)>>(rows: I) -> Self {
        rows.into_iter().filter_map(|(row, value)| Some((row, value?))).collect()
    }
}

#[cfg(any(test, feature = "testing"))]
impl FromIterator<(String, f64)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(named: I) -> Self {
        Self(named.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_back_as_they_were_written() {
        const OWN: OwnCondition = OwnCondition::new("own");
        let mut conditions = Conditions { steal: Some(0.5), waited: Some(0.25), ..Conditions::default() };
        conditions.excluded_by.second_work = Some(0.125);
        conditions.more.set(&OWN, 2.0);
        let text = serde_json::to_string(&conditions).unwrap();
        assert_eq!(text, r#"{"steal":0.5,"second_cost_work":0.125,"waited":0.25,"own":2.0}"#);
        assert_eq!(serde_json::from_str::<Conditions>(&text).unwrap(), conditions);
        assert_eq!(serde_json::from_str::<Conditions>("{}").unwrap(), Conditions::default());
    }

    #[test]
    fn a_family_has_a_number_for_each_member() {
        const CLOCK: OwnCondition = OwnCondition::new("clock_hz_{}");
        let mut numbers = Numbers::default();
        numbers.set_of(&CLOCK, "cpu_core", 5e9);
        assert_eq!(["cpu_core", "cpu_atom"].map(|kind| numbers.get_of(&CLOCK, kind)), [Some(5e9), None]);
        assert_eq!(serde_json::to_string(&numbers).unwrap(), r#"{"clock_hz_cpu_core":5000000000.0}"#);
    }
}
