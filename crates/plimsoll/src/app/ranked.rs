//! `plimsoll compare A B C …`: more than two runs, or prices: which is better, as far as noise lets that be known.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use super::named_runs::History;
use super::{Failure, printed, target, unwritten};
use crate::case::Pattern;
use crate::cli::Compare;
use crate::compare::Side;
use crate::compare::rank::{self, Prices, Wanted};
use crate::report::format::{Subject, writer};
use crate::report::html;
use crate::report::target::Target;
use crate::report::{Style, Wishes};
use crate::text::{read_small, shown_within};

/// Largest file of prices.
const MAX_PRICES: u64 = 1 << 16;
/// Signs that may be before an amount.
const CURRENCIES: [char; 4] = ['$', '€', '£', '¥'];

/// Whether a comparison is one of these.
pub(super) fn is_asked(typed: &Compare) -> bool {
    !typed.others.is_empty() || !typed.price.is_empty() || !typed.weights.is_empty()
}

/// Ranks and prints.
///
/// # Errors
/// A side that is not there, or a price or weight that cannot be read.
pub(super) fn rank(typed: &Compare) -> Result<ExitCode, Failure> {
    of_two_alone(typed)?;
    let write = writer(&typed.format, Subject::Ranking, |format| format.ranking);
    let write = write.map_err(|e| Failure::usage(e.to_string()))?;
    let weights = weights(&typed.weights)?;
    let target = typed.html.as_deref().map(target).transpose()?;
    let names: Vec<&str> =
        [&typed.a, &typed.b].into_iter().chain(&typed.others).map(String::as_str).collect();
    if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(Failure::usage(format!("{} is named twice", shown_within(twice.1, 120))));
    }
    if names.len() > rank::MOST {
        let all = names.len();
        return Err(Failure::usage(format!("compare takes at most {} sides: {all} are named", rank::MOST)));
    }
    let prices = prices(&typed.price, &names)?;
    let mut history = History::new(typed.store.as_deref());
    let sides = history.all(&names)?;
    let floors = history.floors(&sides.iter().collect::<Vec<&Side>>())?;
    let ranking = rank::rank(&sides, &floors, &Wanted { prices, weights, all: typed.all });
    let style = &Style::detect(Wishes::default());
    let mut text = Vec::new();
    write(&ranking, style, &mut text).map_err(|e| Failure::environment(e.to_string()))?;
    if !target.as_ref().is_some_and(Target::is_stdout) {
        printed(&String::from_utf8_lossy(&text))?;
    }
    if let Some(target) = target {
        let page = html::ranking(&ranking).map_err(|e| Failure::environment(e.to_string()))?;
        target.put(&page).map_err(|e| unwritten(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what is defined for two sides.
fn of_two_alone(typed: &Compare) -> Result<(), Failure> {
    let named = [
        (typed.fail_on.is_some(), "--fail-on"),
        (!typed.require.is_empty(), "--require"),
        (typed.strict, "--strict"),
    ];
    match named.into_iter().find(|(typed, _)| *typed) {
        Some((_, option)) => Err(Failure::usage(format!(
            "{option} is not supported on a ranking: compare two runs without --price and --weights"
        ))),
        None => Ok(()),
    }
}

/// NAME=VALUE, at the last sign: names may be paths.
fn pair(word: &str) -> Option<(&str, &str)> {
    word.rsplit_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

/// What was typed, or the lines of the file that was.
fn price_words(typed: &[String]) -> Result<Vec<String>, Failure> {
    let [only] = typed else { return Ok(typed.to_vec()) };
    if pair(only).is_some() && !Path::new(only).exists() {
        return Ok(typed.to_vec());
    }
    let text = read_small(Path::new(only), MAX_PRICES).map_err(|why| {
        Failure::usage(format!("--price {}: {why}; give NAME=PRICE or a file", shown_within(only, 80)))
    })?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    Ok(lines.filter(|line| !line.is_empty()).collect())
}

/// An amount and its unit: `$0.0416/h` is 0.0416 and `$/h`.
fn amount(text: &str) -> Option<(f64, String)> {
    let (text, per) = text.split_once('/').map_or((text, None), |(amount, per)| (amount, Some(per)));
    let text = text.trim();
    let sign = text.chars().next().filter(|first| CURRENCIES.contains(first));
    let value: f64 = text.trim_start_matches(CURRENCIES).trim().parse().ok()?;
    let sign = sign.map(String::from).unwrap_or_else(|| "price".to_owned());
    let unit = per.map_or_else(|| sign.clone(), |per| format!("{sign}/{}", shown_within(per.trim(), 12)));
    (value.is_finite() && value > 0.0).then_some((value, unit))
}

/// The price of each side.
fn prices(typed: &[String], names: &[&str]) -> Result<Option<Prices>, Failure> {
    if typed.is_empty() {
        return Ok(None);
    }
    let wrong = |word: &str, why: &str| Failure::usage(format!("--price {}: {why}", shown_within(word, 80)));
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    let mut units: Vec<String> = Vec::new();
    for word in price_words(typed)? {
        let (name, value) =
            pair(&word).ok_or_else(|| wrong(&word, "is not NAME=PRICE, such as A=0.0416/h"))?;
        let name = name.trim();
        if !names.contains(&name) {
            return Err(wrong(&word, &format!("no run is named so; they are {}", names.join(", "))));
        }
        let (value, unit) = amount(value.trim())
            .ok_or_else(|| wrong(&word, "must be a positive amount, such as 0.0416/h or $30/month"))?;
        if found.insert(name.to_owned(), value).is_some() {
            return Err(wrong(&word, "the run has two prices"));
        }
        units.push(unit);
    }
    units.dedup();
    let [unit] = units.as_slice() else {
        return Err(Failure::usage(format!(
            "--price: all prices must be for the same time: {}",
            units.join(", ")
        )));
    };
    let value = |name: &&str| {
        let missing = || Failure::usage(format!("--price: {} has none", shown_within(name, 80)));
        found.get(*name).copied().ok_or_else(missing)
    };
    Ok(Some(Prices { values: names.iter().map(value).collect::<Result<_, _>>()?, unit: unit.clone() }))
}

/// The weights by benchmark.
fn weights(typed: &[String]) -> Result<BTreeMap<String, f64>, Failure> {
    let read = |word: &String| {
        let wrong = || {
            let word = shown_within(word, 80);
            Failure::usage(format!(
                "--weights {word}: is not NAME=WEIGHT with a positive weight, such as disk.io=2"
            ))
        };
        let (name, weight) = pair(word).ok_or_else(wrong)?;
        let weight: f64 = weight.trim().parse().map_err(|_| wrong())?;
        Pattern::parse(name.trim()).map_err(|_| wrong())?;
        if weight.is_finite() && weight > 0.0 { Ok((name.trim().to_owned(), weight)) } else { Err(wrong()) }
    };
    typed.iter().map(read).collect()
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
        assert_eq!(
            read("a=0.0416/h,./b.json=0.09/h").unwrap(),
            Some(Prices { values: vec![0.0416, 0.09], unit: "price/h".to_owned() })
        );
        assert_eq!(read("./b.json=$30/month,a=$20/month").unwrap().unwrap().unit, "$/month");
        for (wrong, why) in [
            ("a=1/h", "./b.json has none"),
            ("a=1/h,./b.json=1/month", "the same time"),
            ("a=1/h,c=2/h", "no run is named so; they are a, ./b.json"),
            ("a=0/h,./b.json=1/h", "must be a positive amount"),
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
        assert!(
            prices(&["/nowhere".to_owned()], &["a", "b"])
                .unwrap_err()
                .line
                .contains("give NAME=PRICE or a file")
        );
    }

    #[test]
    fn weights_are_positive() {
        assert_eq!(weights(&words("disk.io=2,cpu=1")).unwrap().len(), 2);
        for wrong in ["disk.io", "disk.io=-1", "disk.io=x", "=1", "cpu=inf"] {
            assert!(weights(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
