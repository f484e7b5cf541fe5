use std::collections::BTreeMap;

use globset::GlobMatcher;

use crate::case::{self, Case, Value};

/// A rule that excludes cases.
#[derive(Clone, Debug)]
pub enum Exclude {
    /// Excludes cases whose id matches.
    Glob {
        /// Glob as written.
        text: String,
        /// Compiled glob.
        matcher: GlobMatcher,
    },
    /// Excludes cases that have one of the listed values for every listed parameter.
    Where(BTreeMap<&'static str, Vec<Value>>),
}

impl PartialEq for Exclude {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Glob { text, .. }, Self::Glob { text: other, .. }) => text == other,
            (Self::Where(lists), Self::Where(other)) => lists == other,
            _ => false,
        }
    }
}

impl Exclude {
    /// Compiles a glob on case ids; fails if it is malformed.
    pub fn glob(text: &str) -> Result<Self, String> {
        Ok(Self::Glob { text: text.to_owned(), matcher: case::glob(text)? })
    }

    /// Returns whether this rule excludes the case.
    pub fn covers(&self, case: &Case) -> bool {
        match self {
            Self::Glob { matcher, .. } => matcher.is_match(case.id().as_str()),
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
        assert!(Exclude::glob("*/block=8M/*").unwrap().covers(&case()));
        assert!(!Exclude::glob("disk.*").unwrap().covers(&case()));
        assert!(Exclude::glob("[").is_err());
    }
}
