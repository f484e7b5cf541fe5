//! Limits that the user gives (`--limits FILE`): what a data sheet or a provider promises, by case and metric.
//!
//! ```toml
//! [[limit]]
//! match = "memory.bandwidth/*"     # a glob on case ids
//! metric = "program"
//! unit = "B/s"
//! value = 76.8e9
//! kind = "ceiling"
//! source = "order form: 2 channels of DDR5-4800"
//! ```

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use super::{Input, Kind, Limit, Source};
use crate::bench::Metric;
use crate::case::Case;
use crate::quantity::Unit;

/// Largest limits file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The limits that a user gave.
#[derive(Clone, Debug, Default)]
pub struct UserLimits {
    given: Vec<Given>,
}

#[derive(Clone, Debug)]
struct Given {
    matches: GlobMatcher,
    row: Row,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    limit: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(rename = "match")]
    glob: String,
    metric: String,
    unit: Unit,
    value: f64,
    kind: Kind,
    source: String,
    #[serde(default)]
    note: Option<String>,
}

impl UserLimits {
    /// Reads a limits file.
    ///
    /// # Errors
    /// One line that says what is wrong, where it can with line and column.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = crate::text::shown_bytes(path.as_os_str().as_encoded_bytes());
        let text =
            crate::text::read_small(path, MAX_BYTES).map_err(|why| format!("--limits {file}: {why}"))?;
        Self::parse(&text).map_err(|why| format!("--limits {file}{why}"))
    }

    /// Parses the text of a limits file.
    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| {
            let at = e.span().map(|span| crate::text::position(text, span.start));
            let place =
                at.map(|(line, column)| format!(", line {line}, column {column}")).unwrap_or_default();
            format!("{place}: {}", crate::text::shown(e.message()))
        })?;
        let given = file
            .limit
            .into_iter()
            .enumerate()
            .map(|(i, row)| Given::new(row).map_err(|why| format!(", limit {}: {why}", i + 1)));
        Ok(Self { given: given.collect::<Result<_, _>>()? })
    }

    /// The limits given for this metric of this case.
    pub fn of(&self, case: &Case, metric: Metric) -> Vec<Limit> {
        let id = case.id();
        let fits = |g: &&Given| {
            g.row.metric == metric.name && g.row.unit == metric.unit && g.matches.is_match(id.as_str())
        };
        self.given.iter().filter(fits).map(|g| g.row.limit()).collect()
    }
}

impl Given {
    fn new(row: Row) -> Result<Self, String> {
        if !(row.value.is_finite() && row.value > 0.0) {
            return Err(format!("value {} is not a finite number above zero", row.value));
        }
        let glob = GlobBuilder::new(&row.glob).literal_separator(false).build();
        let matches =
            glob.map_err(|e| format!("match: {}", crate::text::shown(&e.to_string())))?.compile_matcher();
        Ok(Self { matches, row })
    }
}

impl Row {
    fn limit(&self) -> Limit {
        let input = Input {
            name: "value".to_owned(),
            value: self.value,
            unit: self.unit.name().to_owned(),
            from: crate::text::shown(&self.source),
        };
        let mut limit = Limit::fixed(self.kind, Source::User, self.value, "as given", vec![input]);
        limit.reason = self.note.as_deref().map(crate::text::shown);
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Better;

    const PROGRAM: Metric = Metric { name: "program", unit: Unit::BytePerSecond, better: Better::Higher };

    fn file(kind: &str, value: &str) -> String {
        format!(
            "[[limit]]\nmatch = \"memory.bandwidth/*\"\nmetric = \"program\"\nunit = \"B/s\"\nvalue = {value}\nkind = \"{kind}\"\nsource = \"data sheet\"\n"
        )
    }

    #[test]
    fn a_limit_is_for_the_cases_and_metric_that_it_names() {
        let limits = UserLimits::parse(&file("ceiling", "5e10")).unwrap();
        let case: Case = "memory.bandwidth/op=read".parse().unwrap();
        let found = limits.of(&case, PROGRAM);
        assert_eq!(
            (found[0].value, found[0].source, found[0].kind),
            (Some(5e10), Source::User, Kind::Ceiling)
        );
        assert!(limits.of(&case, Metric { name: "bus", ..PROGRAM }).is_empty());
        assert!(limits.of(&"memory.latency".parse().unwrap(), PROGRAM).is_empty());
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let error = |text: &str| UserLimits::parse(text).unwrap_err();
        assert!(
            error(&file("roof", "1")).starts_with(", line 6, column 8: "),
            "{}",
            error(&file("roof", "1"))
        );
        assert!(error(&file("ceiling", "-1")).contains("above zero"));
        assert!(error(&file("ceiling", "nan")).contains("above zero"));
        let unknown = format!("{}colour = 1\n", file("floor", "1"));
        assert!(error(&unknown).contains("line 8, column 1: unknown field"), "{}", error(&unknown));
    }
}
