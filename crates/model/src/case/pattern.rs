//! Patterns of cases: leading components of benchmark names (`network.udp`), or globs on case ids.

use globset::{GlobBuilder, GlobMatcher};

/// A set of cases.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A benchmark, or all benchmarks whose names start with these dotted components.
    Name(String),
    /// Glob on case ids; `*` also matches `/`.
    Glob(GlobMatcher),
}

impl Pattern {
    /// Parses a name (`cpu.peak`) or, with any of `* ? [ { / =`, a glob; errors are safe to print.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.contains(['*', '?', '[', '{', '/', '=']) {
            return Ok(Self::Name(text.to_owned()));
        }
        glob(text).map(Self::Glob)
    }

    /// Returns whether the pattern matches the case with this id.
    pub fn matches(&self, id: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.is_match(id),
            Self::Name(_) => self.may_match(id.split('/').next().unwrap_or_default()),
        }
    }

    /// Returns whether the pattern may match a case of this benchmark; always true for a glob.
    pub fn may_match(&self, benchmark: &str) -> bool {
        match self {
            Self::Glob(_) => true,
            Self::Name(name) => {
                let rest = benchmark.strip_prefix(name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
        }
    }
}

/// Parses a glob on case ids; `*` also matches `/`. The error is safe to print.
pub fn glob(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|e| plimsoll_units::text::shown(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn names_are_whole_components_and_globs_see_the_whole_id() {
        let id = "memory.bandwidth/op=read/threads=2".parse::<Case>().unwrap().id();
        let fits = |text: &str| Pattern::parse(text).unwrap().matches(id.as_str());
        assert!(fits("memory") && fits("memory.bandwidth") && fits("memory.*") && fits("*/op=read/*"));
        assert!(!fits("mem") && !fits("memory.band") && !fits("bandwidth") && !fits("*/op=write/*"));
        assert!(Pattern::parse("a[").is_err());
    }
}
