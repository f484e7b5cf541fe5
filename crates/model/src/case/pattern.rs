//! Case patterns: leading components of ids (`network.udp`, `cpu.peak/op=fma`), or globs on ids.

/// A glob on case ids: `*`, `?`, `[a-z]` and `{a,b}`; `*` and `?` also match `/`.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseGlob {
    /// The glob as written.
    pub text: String,
}

/// Stands for `/` in globs and ids, because the matcher's `*` ends at a `/`.
const SLASH: &str = "\x1f";

impl CaseGlob {
    /// Checks the syntax of a glob; the error is safe to print.
    pub fn parse(text: &str) -> Result<Self, String> {
        fast_glob::validate(text).map_err(|e| plimsoll_units::text::shown(&e.to_string()))?;
        Ok(Self { text: text.to_owned() })
    }

    /// Returns whether the glob matches the whole case id (`cpu.peak/op=fma`).
    pub fn matches(&self, id: &str) -> bool {
        fast_glob::glob_match(self.text.replace('/', SLASH), id.replace('/', SLASH))
    }
}

/// A set of cases.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Leading components of case ids: of a benchmark's dotted name, or all of it and parameters.
    Name(String),
    /// Glob on case ids.
    Glob(CaseGlob),
}

impl Pattern {
    /// Parses leading components of ids (`cpu.peak`) or, with any of `* ? [ {`, a glob.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.contains(['*', '?', '[', '{']) {
            return Ok(Self::Name(text.to_owned()));
        }
        CaseGlob::parse(text).map(Self::Glob)
    }

    /// Returns whether the pattern matches the case with this id.
    pub fn matches(&self, id: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(id),
            Self::Name(name) => {
                let rest = id.strip_prefix(name.as_str());
                let separators: &[char] = if name.contains('/') { &['/'] } else { &['.', '/'] };
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(separators))
            }
        }
    }

    /// Returns whether the pattern may match a case of `benchmark`; always true for a glob.
    pub fn may_match(&self, benchmark: &str) -> bool {
        match self {
            Self::Glob(_) => true,
            Self::Name(name) => match name.split_once('/') {
                Some((name, _)) => name == benchmark,
                None => self.matches(benchmark),
            },
        }
    }
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
        assert!(fits("memory.bandwidth/op=read") && fits("memory.bandwidth/op=read/threads=2"));
        assert!(!fits("memory.bandwidth/op=re") && !fits("memory/op=read") && !fits("op=read"));
        let may = |text: &str| Pattern::parse(text).unwrap().may_match("memory.bandwidth");
        assert!(may("memory") && may("memory.bandwidth/op=copy") && !may("memory/op=copy") && !may("mem"));
        assert!(!fits("mem") && !fits("memory.band") && !fits("bandwidth") && !fits("*/op=write/*"));
        assert!(
            fits("*/op={read,write}/*") && fits("memory.*/threads=[1-4]") && !fits("*/op={copy,write}/*")
        );
        assert!(fits("*") && fits("memory.bandwidth/op=????/*") && !fits("*/threads=[!2]"));
        for wrong in ["a[", "a{b", "a/{b,[}"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
