//! Actual parameters and findings of a case, each declared as a [`CaseFact`].

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A fact about a case with a value of type `T`.
#[derive(Debug)]
pub struct CaseFact<T> {
    /// Name in the run document; that of the parameter for the actual value of a parameter.
    pub name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> CaseFact<T> {
    /// Declares the fact `name` of run documents.
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }
}

impl<T> Clone for CaseFact<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CaseFact<T> {}

/// Facts of a case by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Achieved(BTreeMap<String, Value>);

impl Achieved {
    /// Stores the value of a fact; replaces an earlier value.
    pub fn set<T: Serialize>(&mut self, fact: &CaseFact<T>, value: impl Into<T>) {
        // The values of all rows can be serialised.
        self.0.insert(fact.name.to_owned(), serde_json::to_value(value.into()).unwrap_or_default());
    }

    /// Stores the value of a fact; does nothing for `None`.
    pub fn set_some<T: Serialize>(&mut self, fact: &CaseFact<T>, value: Option<impl Into<T>>) {
        value.into_iter().for_each(|value| self.set(fact, value));
    }

    /// Returns the value of a fact; `None` if missing or, in a document, of another type.
    pub fn get<T: DeserializeOwned>(&self, fact: &CaseFact<T>) -> Option<T> {
        T::deserialize(self.0.get(fact.name)?).ok()
    }

    /// Returns the word that was actually used for parameter `key`; `None` if not recorded.
    pub fn word_of_parameter(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    /// Removes a fact and returns its value; `None` if missing or of another type.
    pub fn take<T: DeserializeOwned>(&mut self, fact: &CaseFact<T>) -> Option<T> {
        T::deserialize(self.0.remove(fact.name)?).ok()
    }

    /// Returns whether there are no facts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(any(test, feature = "testing"))]
impl Achieved {
    /// Stores any value that a document could contain under `name`, for tests.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Returns the names of the facts.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: CaseFact<u64> = CaseFact::new("size");
    const DEEPEST: CaseFact<Option<u64>> = CaseFact::new("deepest");

    #[test]
    fn a_fact_comes_back_as_it_was_told() {
        let mut reported = Achieved::default();
        reported.set(&SIZE, 4096_u64);
        reported.set(&DEEPEST, None);
        assert_eq!(serde_json::to_string(&reported).unwrap(), r#"{"deepest":null,"size":4096}"#);
        assert_eq!((reported.get(&SIZE), reported.get(&DEEPEST)), (Some(4096), Some(None)));
        assert_eq!((reported.take(&SIZE), reported.get(&SIZE)), (Some(4096), None));
    }

    #[test]
    fn a_value_of_another_type_is_none() {
        let mut reported = Achieved::default();
        for value in [Value::from("4K"), Value::Null, Value::from(-1), Value::from(0.5)] {
            reported.put("size", value);
            assert_eq!(reported.get(&SIZE), None);
        }
    }
}
