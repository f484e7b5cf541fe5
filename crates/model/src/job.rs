//! Jobs: the parameters of a case as typed values, one type per benchmark or family. Only these types and the parsers of
//! command lines and plans know parameters by name.

pub mod disk;
pub mod memory;

pub use memory::{ArrayLayout, MemorySite, MemoryStream, PointerChase};

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::text::shown;

/// Whose amount of work is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scaling {
    /// Each thread's: the work grows with the threads.
    Weak,
    /// All threads' together: the work is divided.
    Strong,
}

/// The scaling that a case names; weak if it names none.
///
/// # Errors
/// Another word, in one line.
pub fn scaling(case: &Case) -> Result<Scaling, String> {
    match case.word("scaling") {
        None | Some("weak") => Ok(Scaling::Weak),
        Some("strong") => Ok(Scaling::Strong),
        Some(other) => Err(format!("scaling must be weak or strong: '{}' is neither", shown(other))),
    }
}

/// The meaning of a word parameter, from a table of words; the default if the case does not have the parameter.
fn meaning<T: Copy>(case: &Case, key: &str, known: &[(&str, T)], default: T) -> Result<T, String> {
    let Some(given) = case.word(key) else { return Ok(default) };
    let found = known.iter().find(|(name, _)| *name == given);
    found.map(|(_, value)| *value).ok_or_else(|| unknown_word(key, given, known))
}

/// The error for a word that is not in its table.
fn unknown_word<T>(key: &str, given: &str, known: &[(&str, T)]) -> String {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    format!("{key} must be one of {}: '{}' is not", names.join(", "), shown(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_is_weak_unless_it_is_strong() {
        let case = Case::of("disk.io");
        assert_eq!(scaling(&case), Ok(Scaling::Weak));
        assert_eq!(scaling(&case.clone().with_word("scaling", "strong")), Ok(Scaling::Strong));
        assert!(scaling(&case.with_word("scaling", "amdahl")).is_err());
    }
}
