//! What a case turned out to use or find, beside what was asked for.
//!
//! Each is a [`Fact`]: a row of the folder that tells it, with the type of its value. Who tells one and who reads it use the
//! row, so that both mean the same and nobody writes a name that is not declared.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A row: something that a case tells of itself, as a `T`.
#[derive(Debug)]
pub struct Fact<T> {
    /// Its name in the run document: that of the parameter where it is what a parameter really was.
    pub name: &'static str,
    /// What it tells, with its unit.
    pub about: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> Fact<T> {
    /// A row.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, value: PhantomData }
    }
}

impl<T> Clone for Fact<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Fact<T> {}

/// Facts of a case by their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Achieved(BTreeMap<String, Value>);

impl Achieved {
    /// Tells a fact; what was told of it before is forgotten.
    pub fn set<T: Serialize>(&mut self, fact: &Fact<T>, value: impl Into<T>) {
        // No row has a value that is no JSON.
        self.0.insert(fact.name.to_owned(), serde_json::to_value(value.into()).unwrap_or_default());
    }

    /// Tells a fact that is not always known.
    pub fn set_some<T: Serialize>(&mut self, fact: &Fact<T>, value: Option<impl Into<T>>) {
        if let Some(value) = value {
            self.set(fact, value);
        }
    }

    /// What was told; `None` where nothing was, or, in another version's document, something of another type.
    pub fn get<T: DeserializeOwned>(&self, fact: &Fact<T>) -> Option<T> {
        T::deserialize(self.0.get(fact.name)?).ok()
    }

    /// The word that a parameter turned out to be, where that is told.
    pub fn word_of_parameter(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    /// Takes a fact back.
    pub fn take<T: DeserializeOwned>(&mut self, fact: &Fact<T>) -> Option<T> {
        T::deserialize(self.0.remove(fact.name)?).ok()
    }

    /// Tells what others tell as well; theirs holds where both do.
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether nothing is told.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(any(test, feature = "testing"))]
impl Achieved {
    /// Tests write what a document could hold.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The names of what is told.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Fact<u64> = Fact::new("size", "bytes");
    const DEEPEST: Fact<Option<u64>> = Fact::new("deepest", "a depth");

    #[test]
    fn a_fact_comes_back_as_it_was_told() {
        let mut told = Achieved::default();
        told.set(&SIZE, 4096_u64);
        told.set(&DEEPEST, None);
        assert_eq!(serde_json::to_string(&told).unwrap(), r#"{"deepest":null,"size":4096}"#);
        assert_eq!((told.get(&SIZE), told.get(&DEEPEST)), (Some(4096), Some(None)));
        assert_eq!((told.take(&SIZE), told.get(&SIZE)), (Some(4096), None));
    }

    #[test]
    fn a_value_of_another_type_is_none() {
        let mut told = Achieved::default();
        for value in [Value::from("4K"), Value::Null, Value::from(-1), Value::from(0.5)] {
            told.put("size", value);
            assert_eq!(told.get(&SIZE), None);
        }
    }
}
