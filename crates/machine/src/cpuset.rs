//! Sets of CPU (or NUMA node) numbers in the kernel's list format `0-3,8,10-11` (Linux
//! `Documentation/admin-guide/kernel-parameters.rst`, "cpu lists"), without `N-M:used/group`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::str::FromStr;

/// Upper limit (exclusive) of CPU numbers: the largest `CONFIG_NR_CPUS` of x86-64.
pub const MAX_CPUS: usize = 8192;

/// A set of CPU numbers below [`MAX_CPUS`]; as text and in JSON `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<usize>);

/// Reason why a CPU list was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// A part is neither a number nor a range.
    #[error("CPU list: \"{0}\" is not a number or a range such as 0-3")]
    NotANumber(String),
    /// The end of a range is before its start.
    #[error("CPU list: the range {0}-{1} runs backwards")]
    Backwards(usize, usize),
    /// The number is not below [`MAX_CPUS`].
    #[error("CPU list: {0} is past the last possible CPU, {last}", last = MAX_CPUS - 1)]
    TooLarge(usize),
}

impl CpuSet {
    /// Returns the set of one CPU; empty if `cpu` is not below [`MAX_CPUS`].
    pub fn single(cpu: usize) -> Self {
        [cpu].into_iter().collect()
    }

    /// Returns the numbers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns the lowest number; `None` if the set is empty.
    pub fn first(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// Adds `cpu`; a number that is not below [`MAX_CPUS`] is ignored.
    pub fn insert(&mut self, cpu: usize) {
        if cpu < MAX_CPUS {
            self.0.insert(cpu);
        }
    }

    /// Returns the CPUs that are in both sets.
    pub fn common(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns whether the sets have a CPU in common.
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        Self(cpus.into_iter().filter(|&cpu| cpu < MAX_CPUS).collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let text = text.trim();
        let mut set = BTreeSet::new();
        if text.is_empty() {
            return Ok(Self(set));
        }
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first, part)?, number(last, part)?);
            if last < first {
                return Err(CpuListError::Backwards(first, last));
            }
            set.extend(first..=last);
        }
        Ok(Self(set))
    }
}

fn number(digits: &str, part: &str) -> Result<usize, CpuListError> {
    let digits = digits.trim();
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let refused = || CpuListError::NotANumber(plimsoll_units::text::shown_within(part, 32));
    let value = if plain { digits.parse().map_err(|_| refused())? } else { return Err(refused()) };
    if value < MAX_CPUS { Ok(value) } else { Err(CpuListError::TooLarge(value)) }
}

impl Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuListError;
    fn try_from(text: String) -> Result<Self, CpuListError> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> Result<Vec<usize>, CpuListError> {
        text.parse::<CpuSet>().map(|s| s.iter().collect())
    }

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(set("0-3,8,10-11\n"), Ok(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(set(" \n"), Ok(vec![]));
        assert_eq!(set("7"), Ok(vec![7]));
        assert_eq!(set("3,1-3"), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn garbage_is_refused_with_its_cause() {
        for text in ["a", "1-", "-1", "1,,2", "0-3:1/2", "+1", "1--2", "0x1", "\0", "99999999999999999999999"]
        {
            assert!(matches!(set(text), Err(CpuListError::NotANumber(_))), "{text:?}");
        }
        assert_eq!(set("3-1"), Err(CpuListError::Backwards(3, 1)));
        assert_eq!(set("0-8192"), Err(CpuListError::TooLarge(8192)));
        assert_eq!(set("0-8191").map(|all| all.len()), Ok(MAX_CPUS));
    }

    proptest! {
        #[test]
        fn text_and_json_round_trip(cpus in prop::collection::btree_set(0..MAX_CPUS, 0..200)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(set.len(), cpus.len());
            let text = set.to_string();
            prop_assert_eq!(text.parse::<CpuSet>(), Ok(set.clone()));
            let json = serde_json::to_string(&set).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let back: CpuSet = serde_json::from_str(&json).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(back, set);
        }

        #[test]
        fn any_text_is_a_bounded_set_or_an_error(text in "[0-9,\\- \\n:a]{0,30}|\\p{Any}{0,20}") {
            if let Ok(set) = text.parse::<CpuSet>() {
                prop_assert!(set.iter().all(|cpu| cpu < MAX_CPUS));
            }
        }
    }
}
