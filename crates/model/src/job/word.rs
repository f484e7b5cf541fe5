//! Parameters whose values are words.

use crate::case::Case;

/// Values of a parameter, each with a word.
pub trait CaseWord: Copy + 'static {
    /// Name of the parameter.
    const KEY: &'static str = "op";
    /// All values with their words.
    const CASE_WORDS: &'static [(&'static str, Self)];

    /// Reads the parameter of a case; `None` if it is missing or another word.
    fn of(case: &Case) -> Option<Self> {
        let word = case.word(Self::KEY)?;
        Self::CASE_WORDS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    }
}
