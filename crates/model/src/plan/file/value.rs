use std::time::Duration;

use plimsoll_units::quantity;
use toml::de::DeValue;

use super::{MAX_LIST, PlanMistake, PlanValue};
use crate::plan::SamplingOptions;

const MAX_NOTE: usize = 2000;

/// Stores `value` in the field of `how` that is called `key`; returns false for other keys.
pub(super) fn how(how: &mut SamplingOptions, key: &str, value: &PlanValue<'_>) -> Result<bool, PlanMistake> {
    match key {
        "samples" => how.samples = Some(bounded("samples", value, 1_000_000)?),
        "sample-time" => how.sample_time = Some(duration(key, value)?),
        "precision" => how.precision = Some(share(key, value)?),
        "budget" => how.budget = Some(duration(key, value)?),
        "against" if value.get_ref().as_array().is_some_and(|list| list.is_empty()) => {
            how.against = Some(Vec::new());
        }
        "against" => how.against = Some(texts(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the elements of a list, or a single value as a list; fails if empty or above 10,000.
pub(super) fn items<'a, 'i>(value: &'a PlanValue<'i>) -> Result<Vec<&'a PlanValue<'i>>, PlanMistake> {
    let items: Vec<_> = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    match items.len() {
        0 => Err(PlanMistake::value("a list must not be empty: leave the key out for its default")),
        n if n > MAX_LIST => Err(PlanMistake::value("a list must have at most 10000 values")),
        _ => Ok(items),
    }
}

/// Returns a string, or a decimal number or switch as text (`true` is `on`); else an error.
pub(super) fn text(value: &PlanValue<'_>) -> Result<String, PlanMistake> {
    match value.get_ref() {
        DeValue::String(s) => Ok(s.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Ok(n.as_str().replace('_', "")),
        DeValue::Float(x) => Ok(x.as_str().replace('_', "")),
        DeValue::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
        _ => Err(PlanMistake::value("a value must be a string or a decimal number")),
    }
}

pub(super) fn texts(value: &PlanValue<'_>) -> Result<Vec<String>, PlanMistake> {
    let one = |item: &&PlanValue<'_>| text(item).map_err(|wrong| wrong.at(item.span(), item.span()));
    items(value)?.iter().map(one).collect()
}

/// Reads a name; fails unless it has 1 to 100 letters, digits, `-`, `_`, `.` or blanks.
pub(super) fn name(value: &PlanValue<'_>) -> Result<String, PlanMistake> {
    let name = text(value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    let is_name = (1..=100).contains(&name.len()) && name.chars().all(plain);
    let why = "a name must have 1 to 100 letters, digits, '-', '_', '.' or blanks";
    is_name.then_some(name).ok_or_else(|| PlanMistake::value(why))
}

/// Reads a note and collapses white space; fails if it is empty or above 2000 bytes.
pub(super) fn note(value: &PlanValue<'_>) -> Result<String, PlanMistake> {
    let DeValue::String(note) = value.get_ref() else {
        return Err(PlanMistake::value("a note must be a string"));
    };
    let words = note.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.len() {
        1..=MAX_NOTE => Ok(plimsoll_units::text::shown_within(&words, MAX_NOTE)),
        _ => Err(PlanMistake::value("a note must have 1 to 2000 bytes")),
    }
}

pub(super) fn count(key: &str, value: &PlanValue<'_>) -> Result<u64, PlanMistake> {
    quantity::parse_count(&text(value)?).map_err(|e| PlanMistake::value(format!("{key} {e}")))
}

/// Reads a whole number; fails, with `key` in the error, unless it is from 1 to `most`.
pub(super) fn bounded(key: &str, value: &PlanValue<'_>, most: u32) -> Result<u32, PlanMistake> {
    let text = text(value)?;
    let shown = plimsoll_units::text::shown_within(&text, 40);
    let wrong =
        |why: &str| PlanMistake::value(format!("{key} must be between 1 and {most}: '{shown}' is {why}"));
    let n = quantity::parse_count(&text).map_err(|_| wrong("not a whole number"))?;
    let n = u32::try_from(n).ok().filter(|n| (1..=most).contains(n));
    n.ok_or_else(|| wrong("not"))
}

pub(super) fn share(key: &str, value: &PlanValue<'_>) -> Result<f64, PlanMistake> {
    match quantity::parse_share(&text(value)?) {
        Ok(share) if share > 0.0 => Ok(share),
        Ok(_) => Err(PlanMistake::value(format!("{key} must be above 0, such as \"1%\""))),
        Err(e) => Err(PlanMistake::value(format!("{key} {e}"))),
    }
}

pub(super) fn duration(key: &str, value: &PlanValue<'_>) -> Result<Duration, PlanMistake> {
    let wrong = |why: String| PlanMistake::value(format!("{key} {why}"));
    let duration = quantity::parse_duration(&text(value)?).map_err(|e| wrong(e.to_string()))?;
    let wrong = || wrong("must be above 0, such as \"200ms\"".to_owned());
    (!duration.is_zero()).then_some(duration).ok_or_else(wrong)
}
