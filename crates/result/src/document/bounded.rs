//! Lists of bounded length, so that a huge document is rejected before it fills the memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Deserializes a list of at most `MOST` entries. Fails if it is longer or an entry is invalid.
pub(super) fn at_most<'de, D, T, const MOST: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(Bounded::<T, MOST>(PhantomData))
}

struct Bounded<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Bounded<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = entries.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            all.push(entry);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Held(#[serde(deserialize_with = "at_most::<_, _, 3>")] Vec<u8>);

    #[test]
    fn a_list_that_is_too_long_is_refused() {
        assert_eq!(serde_json::from_str::<Held>("[1, 2, 3]").unwrap(), Held(vec![1, 2, 3]));
        let error = serde_json::from_str::<Held>("[1, 2, 3, 4]").unwrap_err().to_string();
        assert!(error.starts_with("invalid length 4, expected a list of at most 3 at line 1"), "{error}");
        assert!(serde_json::from_str::<Held>("[1, 2, 300]").is_err());
    }
}
