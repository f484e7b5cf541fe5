//! Conditions: what held while a figure was measured.
//!
//! What holds for every case is a field of [`Conditions`]. What one benchmark alone tells is a row of its folder, a
//! [`Condition`], and is read and written by that row: a name that nobody declared cannot be written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// Conditions during one sample, or over a whole case. Shares are between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Core clock held, measured, mean over the threads, in Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// Share of the time that the hypervisor gave to others (from /proc/stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Share of the time in slices that were interrupted and are not in the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<f64>,
    /// Share of the time that a cgroup quota throttled, as the mean over the CPUs of the case's threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// How long one CPU of the case took to see what its neighbour wrote, mean over the pairs, in seconds; told where a
    /// hypervisor may move CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_to_core: Option<f64>,
    /// The headline with all interruptions in it, in its unit: what another tool would show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<f64>,
    /// Why time is excluded.
    #[serde(flatten)]
    pub excluded_by: ExcludedBy,
    /// Pages that the kernel wrote to or read from swap meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_swapped: Option<f64>,
    /// The share of the probes of the clock beside which another thread used the vector units of the same core; of the
    /// processor where it is largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_units_shared: Option<f64>,
    /// The largest share of the time that a thread was ready to run and had no CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Power of all processor packages in W, as they count it themselves (RAPL); whoever used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_power: Option<f64>,
    /// Power of the memory modules in W, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_power: Option<f64>,
    /// What the benchmark tells besides.
    #[serde(default, flatten)]
    pub more: Numbers,
}

/// Time that is excluded, by its cause, as shares of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExcludedBy {
    /// A thread left its CPU.
    #[serde(rename = "excluded_switched", default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<f64>,
    /// The core clock is unknown: a probe failed, or two differ, and the cost of the slice does not show which it had.
    #[serde(rename = "excluded_clock", default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<f64>,
    /// Slices of a second common cost.
    #[serde(rename = "excluded_second_cost", default, skip_serializing_if = "Option::is_none")]
    pub second: Option<f64>,
    /// Slices that took longer although no thread left its CPU and the clock held.
    #[serde(rename = "excluded_gaps", default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<f64>,
    /// By how much the dearer of those took longer than their work does.
    #[serde(rename = "excluded_gaps_taken", default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<f64>,
    /// In laps of all threads that are excluded, the share of the time that the thread longest off its CPU was off it. A lap is
    /// excluded whole, so this is less than `excluded`.
    #[serde(rename = "excluded_off_cpu", default, skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<f64>,
    /// The share of the work that was done at a second common cost.
    #[serde(rename = "second_cost_work", default, skip_serializing_if = "Option::is_none")]
    pub second_work: Option<f64>,
    /// That cost, over the most common one.
    #[serde(rename = "second_cost", default, skip_serializing_if = "Option::is_none")]
    pub second_cost: Option<f64>,
}

impl ExcludedBy {
    /// The causes that a sliced measurement tells.
    pub fn of(causes: &plimsoll_metal::sliced::Causes) -> Self {
        let some = |share: f64| Some(share).filter(|share| *share > 0.0);
        Self {
            switched: some(causes.switched),
            clock: some(causes.clock),
            second: some(causes.second),
            gaps: some(causes.gaps),
            taken: some(causes.taken),
            off_cpu: None,
            second_work: some(causes.second_work),
            second_cost: causes.second_cost.and_then(some),
        }
    }

    /// Whether the time of any cause is told.
    pub fn is_known(&self) -> bool {
        [self.switched, self.clock, self.second, self.gaps].iter().any(Option::is_some)
    }

    /// Each cause by what `mean` makes of it.
    pub fn each(mean: impl Fn(fn(&Self) -> Option<f64>) -> Option<f64>) -> Self {
        Self {
            switched: mean(|by| by.switched),
            clock: mean(|by| by.clock),
            second: mean(|by| by.second),
            gaps: mean(|by| by.gaps),
            taken: mean(|by| by.taken),
            off_cpu: mean(|by| by.off_cpu),
            second_work: mean(|by| by.second_work),
            second_cost: mean(|by| by.second_cost),
        }
    }
}

impl Conditions {
    /// The share of the time that others took away from the figure of a case on so many CPUs. What a quota stops waits as well,
    /// and is a cause of its own, and so do threads that crowd the CPUs.
    pub fn disturbed(&self, case: &Case, cpus: usize) -> f64 {
        let waited = self.waited.unwrap_or(0.0) - case.crowding(cpus);
        self.steal.unwrap_or(0.0).max(waited - self.throttled.unwrap_or(0.0)).clamp(0.0, 1.0)
    }

    /// What is the same under all of these conditions, clock and lost time left out.
    pub fn alike(all: &[&Self]) -> Self {
        let same = |read: &dyn Fn(&Self) -> Option<f64>| {
            let first = read(all.first()?)?;
            all.iter().all(|other| read(other) == Some(first)).then_some(first)
        };
        let numbers: Vec<&Numbers> = all.iter().map(|conditions| &conditions.more).collect();
        Self {
            core_to_core: same(&|c| c.core_to_core),
            delivered: same(&|c| c.delivered),
            excluded_by: ExcludedBy::each(|read| same(&|c| read(&c.excluded_by))),
            pages_swapped: same(&|c| c.pages_swapped),
            vector_units_shared: same(&|c| c.vector_units_shared),
            waited: same(&|c| c.waited),
            package_power: same(&|c| c.package_power),
            memory_power: same(&|c| c.memory_power),
            more: Numbers::alike(&numbers),
            ..Self::default()
        }
    }
}

/// A condition of a benchmark's own: a row of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name in the run document. Of a family `{}` stands for the member.
    pub name: &'static str,
    /// The unit of its number: base SI, `1` for shares, counts and yes (1) or no (0).
    pub unit: &'static str,
    /// What it tells.
    pub about: &'static str,
}

impl Condition {
    /// A row.
    pub const fn new(name: &'static str, unit: &'static str, about: &'static str) -> Self {
        Self { name, unit, about }
    }

    fn of(&self, member: &str) -> String {
        self.name.replace("{}", member)
    }
}

/// Numbers under their rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    /// The number of a row.
    pub fn get(&self, row: &Condition) -> Option<f64> {
        self.0.get(row.name).copied()
    }

    /// The number of a member of a family.
    pub fn get_of(&self, row: &Condition, member: &str) -> Option<f64> {
        self.0.get(&row.of(member)).copied()
    }

    /// Tells the number of a row.
    pub fn set(&mut self, row: &Condition, value: f64) {
        self.0.insert(row.name.to_owned(), value);
    }

    /// Tells the number of a member of a family.
    pub fn set_of(&mut self, row: &Condition, member: &str, value: f64) {
        self.0.insert(row.of(member), value);
    }

    /// Tells what others tell as well; theirs holds where both do.
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// What all of these have alike.
    fn alike(all: &[&Self]) -> Self {
        let mut alike = all.first().map_or_else(Self::default, |first| (*first).clone());
        alike.0.retain(|name, value| all.iter().all(|other| other.0.get(name) == Some(value)));
        alike
    }

    /// Each of the numbers that any of these has, as what `mean` makes of them.
    pub fn each<'a>(
        all: impl Iterator<Item = &'a Self>,
        mean: impl Fn(&dyn Fn(&Self) -> Option<f64>) -> Option<f64>,
    ) -> Self {
        let names = all.flat_map(|numbers| numbers.0.keys());
        let mean = |name: &String| mean(&|numbers: &Self| numbers.0.get(name).copied());
        Self(names.filter_map(|name| Some((name.clone(), mean(name)?))).collect())
    }
}

impl FromIterator<(Condition, f64)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (Condition, f64)>>(rows: I) -> Self {
        Self(rows.into_iter().map(|(row, value)| (row.name.to_owned(), value)).collect())
    }
}

impl FromIterator<(Condition, Option<f64>)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (Condition, Option<f64>)>>(rows: I) -> Self {
        rows.into_iter().filter_map(|(row, value)| Some((row, value?))).collect()
    }
}

/// Tests write what a document could hold.
#[cfg(any(test, feature = "testing"))]
impl FromIterator<(String, f64)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(named: I) -> Self {
        Self(named.into_iter().collect())
    }
}

#[cfg(any(test, feature = "testing"))]
impl<const N: usize> From<[(String, f64); N]> for Numbers {
    fn from(named: [(String, f64); N]) -> Self {
        Self(named.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_back_as_they_were_written() {
        const OWN: Condition = Condition::new("own", "1", "a test");
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
        const CLOCK: Condition = Condition::new("clock_hz_{}", "Hz", "a test");
        let mut numbers = Numbers::default();
        numbers.set_of(&CLOCK, "cpu_core", 5e9);
        assert_eq!(
            (numbers.get_of(&CLOCK, "cpu_core"), numbers.get_of(&CLOCK, "cpu_atom")),
            (Some(5e9), None)
        );
        assert_eq!(serde_json::to_string(&numbers).unwrap(), r#"{"clock_hz_cpu_core":5000000000.0}"#);
    }
}
