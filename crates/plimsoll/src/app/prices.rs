//! Parses prices and weights of a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use plimsoll_compare::{ComparedSide, Prices};
use plimsoll_model::case::Pattern;
use plimsoll_units::text::{read_small, shown_within};

use super::Failure;

const MAX_PRICES: u64 = 1 << 16;
const PRICES: RangeInclusive<f64> = 1e-9..=1e12;
/// Valid weights; a larger ratio would leave one benchmark alone in the score.
const WEIGHTS: RangeInclusive<f64> = 1e-6..=1e6;
const CURRENCIES: [char; 4] = ['$', '€', '£', '¥'];

/// Splits NAME=VALUE at the last `=`, as names may be paths; `None` if either is empty.
fn pair(word: &str) -> Option<(&str, &str)> {
    word.rsplit_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

fn without_comment(line: &str) -> &str {
    let begins = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let at = line.match_indices('#').map(|(at, _)| at).find(begins);
    at.map_or(line, |at| &line[..at]).trim()
}

/// Returns the NAME=PRICE words that were typed, or, if the only word is a file, its lines, each
/// after its place in the file.
fn price_words(typed: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let as_typed = || typed.iter().map(|word| (String::new(), word.clone())).collect();
    let [only] = typed else { return Ok(as_typed()) };
    if pair(only).is_some() && !Path::new(only).exists() {
        return Ok(as_typed());
    }
    let file = shown_within(only, 80);
    let text = read_small(Path::new(only), MAX_PRICES)
        .map_err(|why| Failure::usage(format!("--price {file}: {why}; give NAME=PRICE or a file")))?;
    let lines = (1..).zip(text.lines().map(without_comment)).filter(|(_, line)| !line.is_empty());
    let lines: Vec<_> =
        lines.map(|(number, line)| (format!("{file}, line {number}: "), line.to_owned())).collect();
    if lines.is_empty() {
        return Err(Failure::usage(format!("--price: no price is in {file}")));
    }
    Ok(lines)
}

/// Parses `$0.0416/h` to (0.0416, `$/h`), and 5 to (5, `price`); `None` if it is no valid price.
fn amount(text: &str) -> Option<(f64, String)> {
    let (text, per) = text.split_once('/').map_or((text, None), |(amount, per)| (amount, Some(per.trim())));
    let text = text.trim();
    let sign = text.chars().next().filter(|first| CURRENCIES.contains(first));
    let sign = sign.map_or_else(|| "price".to_owned(), String::from);
    let value: f64 = text.trim_start_matches(CURRENCIES).trim().parse().ok()?;
    let unit = per.map_or_else(|| sign.clone(), |per| format!("{sign}/{}", shown_within(per, 12)));
    (PRICES.contains(&value) && per != Some("")).then_some((value, unit))
}

/// Parses `--price` to a price per side, in the order of `names`; `None` if nothing was typed.
/// Fails unless each side has one price, all in the same unit.
pub(super) fn prices(typed: &[String], names: &[&str]) -> Result<Option<Prices>, Failure> {
    if typed.is_empty() {
        return Ok(None);
    }
    // Commas divide the option.
    let hint = match names.iter().any(|name| name.contains(',')) && typed.len() > 1 {
        true => "; the prices of names with a comma may be in a file, one a line",
        false => "",
    };
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    let mut units: BTreeSet<String> = BTreeSet::new();
    for (place, word) in price_words(typed)? {
        let wrong =
            |why: &str| Failure::usage(format!("--price {place}{}: {why}{hint}", shown_within(&word, 80)));
        let example = || format!("is not NAME=PRICE, such as {}=0.0416/h", names[0]);
        let (name, value) = pair(&word).ok_or_else(|| wrong(&example()))?;
        let name = name.trim();
        if !names.contains(&name) {
            return Err(wrong(&format!("no run is named so; they are {}", names.join(", "))));
        }
        let (value, unit) = amount(value.trim())
            .ok_or_else(|| wrong("must be an amount from 1e-9 to 1e12, such as 0.0416/h or '$30/month'"))?;
        if found.insert(name.to_owned(), value).is_some() {
            return Err(wrong("the run has two prices"));
        }
        units.insert(unit);
    }
    let units: Vec<String> = units.into_iter().collect();
    let [unit] = units.as_slice() else {
        return Err(Failure::usage(format!("--price must have one unit: {}", units.join(", "))));
    };
    let value = |name: &&str| {
        let missing = || {
            Failure::usage(format!(
                "--price: {} has none: write NAME=PRICE,NAME=PRICE, one for each run{hint}",
                shown_within(name, 80)
            ))
        };
        found.get(*name).copied().ok_or_else(missing)
    };
    Ok(Some(Prices { values: names.iter().map(value).collect::<Result<_, _>>()?, unit: unit.clone() }))
}

pub(super) fn weights(typed: &[String]) -> Result<BTreeMap<String, f64>, Failure> {
    let mut found = BTreeMap::new();
    for word in typed {
        let shown = shown_within(word, 80);
        let parsed = pair(word).and_then(|(name, weight)| {
            let weight = weight.trim().parse::<f64>().ok().filter(|weight| WEIGHTS.contains(weight))?;
            Pattern::parse(name.trim()).ok().map(|_| (name.trim(), weight))
        });
        let Some((name, weight)) = parsed else {
            return Err(Failure::usage(format!(
                "--weights {shown}: is not NAME=WEIGHT with a weight from 1e-6 to 1e6, such as disk.io=2"
            )));
        };
        if found.insert(name.to_owned(), weight).is_some() {
            return Err(Failure::usage(format!("--weights {shown}: the name has two weights")));
        }
    }
    Ok(found)
}

/// Fails if a case name pattern in `weights` matches no case of `sides`, or two match the same one.
pub(super) fn each_weighs_its_own(
    weights: &BTreeMap<String, f64>,
    sides: &[ComparedSide],
) -> Result<(), Failure> {
    let all = sides.iter().flat_map(|side| &side.runs).flat_map(|run| &run.measurements);
    let ids: BTreeSet<String> = all.map(|measurement| measurement.case.id().as_str().to_owned()).collect();
    let read = |name: &String| Some((shown_within(name, 80), Pattern::parse(name).ok()?));
    let patterns: Vec<(String, Pattern)> = weights.keys().filter_map(read).collect();
    let is_of_none = |pattern: &Pattern| !ids.iter().any(|id| pattern.matches(id));
    if let Some((name, _)) = patterns.iter().find(|(_, pattern)| is_of_none(pattern)) {
        return Err(Failure::usage(format!("--weights {name}: no side has a case of this name")));
    }
    for id in &ids {
        let mut named = patterns.iter().filter(|(_, pattern)| pattern.matches(id));
        if let (Some((a, _)), Some((b, _))) = (named.next(), named.next()) {
            let id = shown_within(id, 120);
            let line = format!("--weights {a} and {b} are mutually exclusive: both would count {id}");
            return Err(Failure::usage(line));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn prices_are_read_with_their_unit() {
        let read = |text: &str| prices(&words(text), &["a", "./b.json"]);
        let both = Prices { values: vec![0.0416, 0.09], unit: "price/h".to_owned() };
        assert_eq!(read("a=0.0416/h,./b.json=0.09/h").unwrap(), Some(both));
        assert_eq!(read("./b.json=$30/month,a=$20/month").unwrap().unwrap().unit, "$/month");
        for (wrong, why) in [
            ("a=1/h", "./b.json has none"),
            ("a=1/h,./b.json=1/month", "--price must have one unit: price/h, price/month"),
            ("a=€1/h,./b.json=$1/h", "must have one unit: $/h, €/h"),
            ("a=1/h,c=2/h", "no run is named so; they are a, ./b.json"),
            ("a=0/h,./b.json=1/h", "must be an amount from 1e-9 to 1e12"),
            ("a=1e-10/h,./b.json=1/h", "must be an amount"),
            ("a=1e13,./b.json=1", "must be an amount"),
            ("a=nan,./b.json=1", "must be an amount"),
            ("a=1/,./b.json=1/", "must be an amount"),
            ("a=1,a=2", "the run has two prices"),
            ("a=1,b", "is not NAME=PRICE"),
        ] {
            let line = read(wrong).unwrap_err().line;
            assert!(line.contains(why), "{wrong}: {line}");
        }
    }

    #[test]
    fn prices_may_be_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# list of today\na = 1/h\n\nb = 2/h # spot\n").unwrap();
        let typed = [file.path().display().to_string()];
        assert_eq!(prices(&typed, &["a", "b"]).unwrap().unwrap().values, [1.0, 2.0]);
        std::fs::write(file.path(), "a#1=1/h\n  # b=3/h\nb,c=2/h\t# spot\n").unwrap();
        assert_eq!(prices(&typed, &["a#1", "b,c"]).unwrap().unwrap().values, [1.0, 2.0]);
        std::fs::write(file.path(), "a=1/h\n\nb 2/h\n").unwrap();
        let line = prices(&typed, &["a", "b"]).unwrap_err().line;
        assert!(line.contains(", line 3: b 2/h: ") && line.contains("such as a="), "{line}");
        std::fs::write(file.path(), "# none yet\n").unwrap();
        let line = prices(&typed, &["a", "b"]).unwrap_err().line;
        assert!(line.contains("no price is in ") && line.contains(&typed[0]), "{line}");
        let line = prices(&words("a=1/h,b,c=2/h"), &["a", "b,c"]).unwrap_err().line;
        assert!(line.ends_with("may be in a file, one a line"), "{line}");
        let line = prices(&["/nowhere".to_owned()], &["a", "b"]).unwrap_err().line;
        assert!(line.contains("give NAME=PRICE or a file"), "{line}");
    }

    #[test]
    fn weights_are_numbers_of_sense_and_each_has_one_name() {
        assert_eq!(weights(&words("disk.io=2,cpu=1")).unwrap().len(), 2);
        for wrong in ["disk.io", "disk.io=-1", "disk.io=x", "=1", "cpu=inf", "cpu=1e-7", "cpu=1e7", "cpu=nan"]
        {
            assert!(weights(&words(wrong)).is_err(), "{wrong}");
        }
        let line = weights(&words("cpu=1,disk=2,cpu=3")).unwrap_err().line;
        assert!(line.contains("cpu=3: the name has two weights"), "{line}");
    }
}
