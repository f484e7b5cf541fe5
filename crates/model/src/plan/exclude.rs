use std::collections::BTreeMap;

use crate::case::{Case, CaseGlob, Value};

/// A rule that excludes cases.
#[derive(Clone, Debug, PartialEq)]
pub enum Exclude {
    /// Excludes cases whose id matches.
    Glob(CaseGlob),
    /// Excludes cases that have one of the listed values for every listed parameter.
    Where(BTreeMap<&'static str, Vec<Value>>),
}

impl Exclude {
    /// Returns whether this rule excludes the case.
    pub fn covers(&self, case: &Case) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(case.id().as_str()),
            Self::Where(lists) => {
                let one_of = |(key, values): (&&str, &Vec<Value>)| {
                    case.get(key).is_some_and(|value| values.contains(value))
                };
                !lists.is_empty() && lists.iter().all(one_of)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case::of("memory.block").with_word("op", "read").with_size("block", 8 << 20).with_count("threads", 8)
    }

    #[test]
    fn a_table_leaves_out_what_has_all_of_its_values() {
        let lists = |pairs: &[(&'static str, Vec<Value>)]| Exclude::Where(pairs.iter().cloned().collect());
        let eight = ("threads", vec![Value::Count(4), Value::Count(8)]);
        assert!(lists(std::slice::from_ref(&eight)).covers(&case()));
        assert!(lists(&[eight.clone(), ("block", vec![Value::Size(8 << 20)])]).covers(&case()));
        assert!(!lists(&[eight.clone(), ("block", vec![Value::Size(8)])]).covers(&case()));
        assert!(!lists(&[eight, ("depth", vec![Value::Count(1)])]).covers(&case()), "the case has no depth");
        assert!(!lists(&[]).covers(&case()), "nothing named leaves nothing out");
    }

    #[test]
    fn a_glob_is_one_on_ids() {
        let covers = |text: &str| Exclude::Glob(CaseGlob::parse(text).unwrap()).covers(&case());
        assert!(covers("*/block=8M/*") && !covers("disk.*"));
    }
}
