//! Formulas in limits files: numbers, inputs, `+ - * / ^`, parentheses, `min(a, b)`, `max(a, b)`.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum length in bytes, and nesting depth, of a formula.
const MOST_BYTES: usize = 1000;
const MAX_FORMULA_DEPTH: usize = 32;

/// Evaluates a formula, `2 * clock`; fails unless it uses all `inputs` and is finite and above 0.
pub fn evaluate(text: &str, inputs: &BTreeMap<String, f64>) -> Result<f64, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("longer than {MOST_BYTES} bytes"));
    }
    let mut parser = Parser { rest: text, inputs, used: BTreeSet::new(), depth: 0 };
    let value = parser.sum()?;
    parser.skip();
    if !parser.rest.is_empty() {
        return Err(format!("nothing is expected at '{}'", shown(parser.rest)));
    }
    if let Some(unused) = inputs.keys().find(|name| !parser.used.contains(*name)) {
        return Err(format!("the input '{}' is not in it", shown(unused)));
    }
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(format!("it gives {value}, which is not a finite number above zero"))
    }
}

fn shown(text: &str) -> String {
    plimsoll_units::text::shown_within(text, 40)
}

struct Parser<'a> {
    rest: &'a str,
    inputs: &'a BTreeMap<String, f64>,
    used: BTreeSet<String>,
    depth: usize,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, signs: &[char]) -> Option<char> {
        self.skip();
        let next = self.rest.chars().next().filter(|next| signs.contains(next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-', '−']) {
            let other = self.product()?;
            value = if sign == '+' { value + other } else { value - other };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.power()?;
        while let Some(sign) = self.take(&['*', '×', '/', '÷']) {
            let other = self.power()?;
            value = if matches!(sign, '*' | '×') { value * other } else { value / other };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        if self.take(&['^']).is_some() { Ok(base.powf(self.nested(Self::power)?)) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.take(&['-', '−']).is_some() {
            return Ok(-self.nested(Self::power)?);
        }
        if self.take(&['(']).is_some() {
            let value = self.nested(Self::sum)?;
            return self.closed(value);
        }
        self.skip();
        let word = self.rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).next();
        match word.unwrap_or_default() {
            "" if self.rest.is_empty() => Err("a number or a name is expected at its end".to_owned()),
            "" => Err(format!("a number or a name is expected at '{}'", shown(self.rest))),
            word if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => self.number(),
            word => {
                self.rest = &self.rest[word.len()..];
                self.named(word)
            }
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let exponent_sign = |i: usize| self.rest[..i].ends_with(['e', 'E']);
        let end = self.rest.char_indices().find(|(i, c)| {
            let part = c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            !(part || matches!(c, '+' | '-') && exponent_sign(*i))
        });
        let (text, rest) = self.rest.split_at(end.map_or(self.rest.len(), |(i, _)| i));
        self.rest = rest;
        text.replace('_', "").parse().map_err(|_| format!("'{}' is not a number", shown(text)))
    }

    fn named(&mut self, word: &str) -> Result<f64, String> {
        if let Some(value) = self.inputs.get(word) {
            self.used.insert(word.to_owned());
            return Ok(*value);
        }
        let pick: fn(f64, f64) -> f64 = match word {
            "min" => f64::min,
            "max" => f64::max,
            _ => return Err(format!("'{}' is not among the inputs", shown(word))),
        };
        if self.take(&['(']).is_none() {
            return Err(format!("'{word}' wants brackets"));
        }
        let mut value = self.nested(Self::sum)?;
        while self.take(&[',']).is_some() {
            value = pick(value, self.nested(Self::sum)?);
        }
        self.closed(value)
    }

    fn closed(&mut self, value: f64) -> Result<f64, String> {
        self.take(&[')']).map(|_| value).ok_or_else(|| "a bracket is not closed".to_owned())
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<f64, String>) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_FORMULA_DEPTH {
            return Err(format!("nested more than {MAX_FORMULA_DEPTH} deep"));
        }
        let value = inner(self);
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str, inputs: &[(&str, f64)]) -> Result<f64, String> {
        evaluate(text, &inputs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn formulas_have_their_usual_meaning() {
        let cases: [(&str, f64); 10] = [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) × 3", 9.0),
            ("16e9 * 4 / 8 * 128 / 130", 16e9 * 4.0 / 8.0 * 128.0 / 130.0),
            ("2 ^ 3 ^ 2 ÷ 2", 256.0),
            ("10 - 2 − 3", 5.0),
            ("--3", 3.0),
            ("min(3, 4, 2) + max(1, 5)", 7.0),
            ("4_750e-3", 4.75),
            ("1.5e+3", 1500.0),
            (" .5 ", 0.5),
        ];
        for (text, value) in cases {
            assert_eq!(of(text, &[]), Ok(value), "{text}");
        }
        assert_eq!(of("channels * 8 * transfers", &[("channels", 2.0), ("transfers", 4.8e9)]), Ok(76.8e9));
    }

    #[test]
    fn mistakes_are_named() {
        type Inputs<'a> = &'a [(&'a str, f64)];
        let cases: [(&str, Inputs<'_>, &str); 13] = [
            ("", &[], "expected at its end"),
            ("1 +", &[], "expected at its end"),
            ("1 2", &[], "nothing is expected at '2'"),
            ("(1", &[], "bracket is not closed"),
            ("rate", &[], "'rate' is not among the inputs"),
            ("1", &[("rate", 1.0)], "input 'rate' is not in it"),
            ("1 / 0", &[], "not a finite number"),
            ("1 - 1", &[], "it gives 0"),
            ("1e999", &[], "inf"),
            ("1x", &[], "'1x' is not a number"),
            ("min 3", &[], "wants brackets"),
            ("$(rm)", &[], "expected at '$(rm)'"),
            ("0 ^ -1", &[], "inf"),
        ];
        for (text, inputs, why) in cases {
            let error = of(text, inputs).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(of(&"(".repeat(900), &[]).unwrap_err().contains("nested more than"));
        assert!(of(&"-".repeat(900), &[]).unwrap_err().contains("nested more than"));
        assert!(of(&"1".repeat(1001), &[]).unwrap_err().contains("longer than"));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_number_or_an_error_of_one_line(text in "\\PC{0,40}|[-0-9a-c+*/^()., e]{0,40}") {
            if let Err(why) = of(&text, &[("a", 1.5)]) {
                prop_assert!(!why.contains('\n'), "{why}");
            }
        }
    }
}
