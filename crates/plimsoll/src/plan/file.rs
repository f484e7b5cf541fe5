//! Plan files: TOML with named groups of cases whose lists multiply.
//!
//! Every mistake is told with line, column and the nearest valid key, before anything is measured. A plan can
//! name benchmarks, parameters and how to sample; it cannot name programs or give consent to anything.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::case::{KEYS, Key, Value, nearest};
use crate::plan::Group;
use crate::quantity;

/// Largest plan file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Most values in one list.
const MAX_LIST: usize = 10_000;

/// A plan file's content; what it leaves out is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanFile {
    /// Name, if it has one.
    pub name: Option<String>,
    /// Exactly this many samples.
    pub samples: Option<u32>,
    /// Time of one sample.
    pub sample_time: Option<Duration>,
    /// Half-width at which sampling stops.
    pub precision: Option<f64>,
    /// Time for the whole run.
    pub budget: Option<Duration>,
    /// Seed.
    pub seed: Option<u64>,
    /// Groups, in order.
    pub groups: Vec<Group>,
}

/// What is wrong with a plan file.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum FileError {
    /// It cannot be read at all.
    #[error("plan {file}: {why}")]
    Unreadable {
        /// Its path, made harmless.
        file: String,
        /// Why, and what to do.
        why: String,
    },
    /// Something in it is wrong.
    #[error("plan {file}, line {line}, column {column}: {why}")]
    Wrong {
        /// Its path, made harmless.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong, and what would be right.
        why: String,
    },
}

const TOP_KEYS: &[&str] = &["name", "samples", "sample-time", "precision", "budget", "seed", "group"];

/// Reads a plan file.
///
/// # Errors
/// [`FileError`], one line.
pub fn read(path: &Path) -> Result<PlanFile, FileError> {
    let file = crate::text::shown_bytes(path.as_os_str().as_encoded_bytes());
    let unreadable = |why: String| FileError::Unreadable { file: file.clone(), why };
    let text = crate::text::read_small(path, MAX_BYTES).map_err(unreadable)?;
    parse(&file, &text)
}

/// Parses the text of a plan file; `file` is only named in errors.
///
/// # Errors
/// [`FileError::Wrong`], with line and column.
pub fn parse(file: &str, text: &str) -> Result<PlanFile, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let at = |span: Range<usize>, why: String| {
        let (line, column) = crate::text::position(text, span.start);
        FileError::Wrong { file: file.to_owned(), line, column, why: why.replace('\n', " ") }
    };
    let table =
        DeTable::parse(text).map_err(|e| at(e.span().unwrap_or(0..0), crate::text::shown(e.message())))?;
    let mut plan = PlanFile::default();
    for (key, value) in table.get_ref() {
        top(&mut plan, key.get_ref(), value).map_err(|wrong| {
            at(wrong.span.unwrap_or(if wrong.in_key { key.span() } else { value.span() }), wrong.why)
        })?;
    }
    if plan.groups.is_empty() {
        return Err(at(
            0..0,
            "no [[group]]; a plan needs at least one, with benchmark = [\"cpu.peak\"]".to_owned(),
        ));
    }
    Ok(plan)
}

/// A mistake and where it is; without a span, the key or the value that was being read.
struct Wrong {
    span: Option<Range<usize>>,
    in_key: bool,
    why: String,
}

impl Wrong {
    fn value(why: impl Into<String>) -> Self {
        Self { span: None, in_key: false, why: why.into() }
    }

    fn key(name: &str, candidates: &[&'static str]) -> Self {
        let name = crate::text::shown(name);
        let hint = match nearest(&name, candidates.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("valid keys are {}", candidates.join(", ")),
        };
        Self { span: None, in_key: true, why: format!("unknown key '{name}'; {hint}") }
    }

    fn at(mut self, key: Range<usize>, value: Range<usize>) -> Self {
        self.span = self.span.or(Some(if self.in_key { key } else { value }));
        self
    }
}

type Node<'i> = Spanned<DeValue<'i>>;

fn top(plan: &mut PlanFile, key: &str, value: &Node<'_>) -> Result<(), Wrong> {
    match key {
        "name" => {
            let name = text(value)?;
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
            if name.is_empty() || name.len() > 100 || !name.chars().all(plain) {
                return Err(Wrong::value("a name has 1 to 100 letters, digits, '-', '_', '.' or blanks"));
            }
            plan.name = Some(name);
        }
        "samples" => {
            let n = count(value)?;
            let n = u32::try_from(n).ok().filter(|n| (1..=1_000_000).contains(n));
            plan.samples = Some(n.ok_or_else(|| Wrong::value("samples is between 1 and 1000000"))?);
        }
        "sample-time" => plan.sample_time = Some(duration(value)?),
        "precision" => {
            let share = quantity::parse_share(&text(value)?).map_err(|e| Wrong::value(e.to_string()))?;
            plan.precision = Some(share);
        }
        "budget" => plan.budget = Some(duration(value)?),
        "seed" => plan.seed = Some(count(value)?),
        "group" => {
            let DeValue::Array(groups) = value.get_ref() else {
                return Err(Wrong::value("write [[group]] with double brackets"));
            };
            for node in groups.iter() {
                let group = group(node).map_err(|w| w.at(node.span(), node.span()))?;
                plan.groups.push(group);
            }
        }
        _ => return Err(Wrong::key(key, TOP_KEYS)),
    }
    Ok(())
}

fn group(node: &Node<'_>) -> Result<Group, Wrong> {
    let DeValue::Table(table) = node.get_ref() else {
        return Err(Wrong::value("a group is a table: write [[group]]"));
    };
    let mut group = Group::default();
    for (key, value) in table {
        let place = |w: Wrong| w.at(key.span(), value.span());
        if key.get_ref() == "benchmark" {
            for item in items(value).map_err(place)? {
                group.benchmarks.push(text(item).map_err(|w| w.at(key.span(), item.span()))?);
            }
            continue;
        }
        let Ok(known) = Key::find(key.get_ref()) else {
            let names: Vec<&'static str> =
                std::iter::once("benchmark").chain(KEYS.iter().map(|k| k.name)).collect();
            return Err(place(Wrong::key(key.get_ref(), &names)));
        };
        let values = items(value).map_err(place)?;
        let values: Result<Vec<Value>, Wrong> =
            values.iter().map(|v| parameter(known, v).map_err(|w| w.at(key.span(), v.span()))).collect();
        group.lists.insert(known.name, values?);
    }
    if group.benchmarks.is_empty() {
        return Err(Wrong::value("a group names what it measures: benchmark = [\"cpu.peak\"]"));
    }
    Ok(group)
}

/// The elements of a list; a single value is a list of one.
fn items<'a, 'i>(value: &'a Node<'i>) -> Result<Vec<&'a Node<'i>>, Wrong> {
    let items: Vec<_> = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    match items.len() {
        0 => Err(Wrong::value("an empty list measures nothing; leave the key out for its default")),
        n if n > MAX_LIST => Err(Wrong::value("a list has at most 10000 values")),
        _ => Ok(items),
    }
}

fn parameter(key: &Key, value: &Node<'_>) -> Result<Value, Wrong> {
    key.parse(&text(value)?).map_err(|e| Wrong::value(e.to_string()))
}

/// A string, or a number as its text.
fn text(value: &Node<'_>) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::String(s) => Ok(s.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Ok(n.as_str().replace('_', "")),
        DeValue::Float(x) => Ok(x.as_str().replace('_', "")),
        _ => Err(Wrong::value("neither a string nor a decimal number")),
    }
}

fn count(value: &Node<'_>) -> Result<u64, Wrong> {
    quantity::parse_count(&text(value)?).map_err(|e| Wrong::value(e.to_string()))
}

fn duration(value: &Node<'_>) -> Result<Duration, Wrong> {
    let duration = quantity::parse_duration(&text(value)?).map_err(|e| Wrong::value(e.to_string()))?;
    if duration.is_zero() { Err(Wrong::value("a time above zero, such as \"200ms\"")) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse("p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_plan_is_read() {
        let plan = parse(
            "p",
            "name = \"mine\"\nsamples = 5\nsample-time = \"50ms\"\nprecision = \"2%\"\n\n[[group]]\nbenchmark = \"disk.io\"\nblock = [\"4K\", 1048576]\ndepth = 1\n",
        )
        .unwrap();
        assert_eq!(plan.name.as_deref(), Some("mine"));
        assert_eq!((plan.samples, plan.precision), (Some(5), Some(0.02)));
        assert_eq!(plan.sample_time, Some(Duration::from_millis(50)));
        let group = &plan.groups[0];
        assert_eq!(group.benchmarks, ["disk.io"]);
        assert_eq!(group.numbers("block", &[]), [4096, 1 << 20]);
        assert_eq!(group.numbers("depth", &[]), [1]);
    }

    #[test]
    fn an_unknown_key_is_told_with_its_place_and_the_nearest() {
        assert_eq!(
            error("samples = 3\n[[group]]\nbenchmark = \"cpu.peak\"\n  thread = 2\n"),
            "plan p.toml, line 4, column 3: unknown key 'thread'; did you mean 'threads'?"
        );
        assert_eq!(
            error("sampels = 3\n"),
            "plan p.toml, line 1, column 1: unknown key 'sampels'; did you mean 'samples'?"
        );
    }

    #[test]
    fn bad_values_are_told_with_their_place() {
        let block = "[[group]]\nbenchmark = \"disk.io\"\nblock = [\"4K\", \"1e999\"]\n";
        assert!(error(block).starts_with("plan p.toml, line 3, column 16: block: "), "{}", error(block));
        assert!(error("samples = 0\n").starts_with("plan p.toml, line 1, column 11: "));
        assert!(error("samples = -1\n").starts_with("plan p.toml, line 1, column 11: "));
        assert!(error("[[group]\n").starts_with("plan p.toml, line 1, "));
        assert!(error("").contains("no [[group]]"));
    }

    #[test]
    fn a_byte_order_mark_and_crlf_are_no_trouble() {
        let plan = parse("p", "\u{feff}samples = 2\r\n[[group]]\r\nbenchmark = \"null\"\r\n").unwrap();
        assert_eq!(plan.samples, Some(2));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_plan_or_one_line(text in "([a-z]{1,8}|\\[\\[group\\]\\]|=|\"|\\n|[0-9\\[\\]{},.]|\\PC){0,30}") {
            if let Err(e) = parse("p", &text) {
                prop_assert!(!e.to_string().contains('\n'));
            }
        }
    }
}
