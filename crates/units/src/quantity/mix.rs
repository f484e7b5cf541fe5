//! Mixes of sizes: `4K@60+64K@40` is 60 blocks of 4 KiB for every 40 of 64 KiB, in random order.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{format_size, parse_size};

const MOST_SIZES: usize = 16;

const MOST_WEIGHT: u32 = 1_000_000;

/// Two or more different sizes with their weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<MixPart>")]
pub struct Mix(Vec<MixPart>);

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixPart {
    /// Size in bytes.
    pub bytes: u64,
    /// Weight, relative to the other weights; at least 1.
    pub weight: u32,
}

/// A fixed size or a mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSizes {
    /// Fixed size in bytes.
    One(u64),
    /// Sizes by weight.
    Mixed(Mix),
}

impl Mix {
    /// Returns the sizes and weights in the order in which they were given.
    pub fn parts(&self) -> &[MixPart] {
        &self.0
    }

    /// Returns the weighted mean size in bytes.
    pub fn mean(&self) -> f64 {
        let weights: f64 = self.0.iter().map(|part| f64::from(part.weight)).sum();
        self.0.iter().map(|part| part.bytes as f64 * f64::from(part.weight)).sum::<f64>() / weights
    }
}

impl BlockSizes {
    fn sizes(&self) -> Vec<u64> {
        match self {
            Self::One(bytes) => vec![*bytes],
            Self::Mixed(mix) => mix.parts().iter().map(|part| part.bytes).collect(),
        }
    }

    /// Returns the size of the largest block in bytes.
    pub fn largest(&self) -> u64 {
        self.sizes().into_iter().max().unwrap_or(1)
    }

    /// Returns the size of the smallest block in bytes.
    pub fn smallest(&self) -> u64 {
        self.sizes().into_iter().min().unwrap_or_default()
    }

    /// Returns the mean block size in bytes, weighted by the shares of a mix.
    pub fn mean(&self) -> f64 {
        match self {
            Self::One(bytes) => *bytes as f64,
            Self::Mixed(mix) => mix.mean(),
        }
    }

    /// Returns the block sizes' greatest common divisor in bytes: the default alignment of offsets.
    pub fn unit(&self) -> u64 {
        self.sizes().into_iter().fold(0, common_divisor)
    }
}

/// Returns the greatest common divisor of two numbers; the other number if one is 0.
pub fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(bytes) => f.write_str(&format_size(*bytes)),
            Self::Mixed(mix) => mix.fmt(f),
        }
    }
}

impl TryFrom<Vec<MixPart>> for Mix {
    type Error = &'static str;

    /// Creates a mix; fails without 2 to 16 different sizes with weights from 1 to 1,000,000.
    fn try_from(parts: Vec<MixPart>) -> Result<Self, Self::Error> {
        let twice = |(i, part): (usize, &MixPart)| parts[..i].iter().any(|other| other.bytes == part.bytes);
        let fits = (2..=MOST_SIZES).contains(&parts.len())
            && parts.iter().all(|part| (1..=MOST_WEIGHT).contains(&part.weight))
            && !parts.iter().enumerate().any(twice);
        fits.then_some(Self(parts))
            .ok_or("does not have 2 to 16 different sizes with weights from 1 to 1000000")
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |part: &MixPart| format!("{}@{}", format_size(part.bytes), part.weight);
        f.write_str(&self.0.iter().map(shown).collect::<Vec<String>>().join("+"))
    }
}

/// Parses one size or a mix: `4K@60+64K@40`, `4k/60:64k/40` (fio's `bssplit`) or `4k:60/64k:40`.
/// Fails with a message in one line.
pub fn parse_sizes(text: &str) -> Result<BlockSizes, String> {
    let Some(first) = text.find(['@', '+', ':', '/']) else {
        return parse_size(text).map(BlockSizes::One).map_err(|e| e.to_string());
    };
    let (between, before_weight) = match text.as_bytes().get(first) {
        Some(b':') => ('/', ':'),
        Some(b'/') => (':', '/'),
        _ => ('+', '@'),
    };
    let wrong = |why: &str| {
        let shown = super::parse::shown(text);
        format!(
            "must be a size such as 4K, or a mix of sizes by weight such as 4K@60+64K@40: '{shown}' {why}"
        )
    };
    let part = |part: &str| {
        let (size, weight) =
            part.split_once(before_weight).ok_or_else(|| wrong("has a size without a weight"))?;
        let bytes = parse_size(size).map_err(|e| e.to_string())?;
        let number = weight.trim().trim_end_matches('%').parse().ok();
        let number = number.filter(|weight| (1..=MOST_WEIGHT).contains(weight));
        let shown = super::parse::shown(weight);
        let bad =
            || wrong(&format!("has the weight '{shown}', which is no whole number from 1 to {MOST_WEIGHT}"));
        Ok(MixPart { bytes, weight: number.ok_or_else(bad)? })
    };
    let parts = text.split(between).map(part).collect::<Result<Vec<MixPart>, String>>()?;
    match parts.as_slice() {
        [_] => Err(wrong("has a weight and only one size")),
        _ => Mix::try_from(parts).map(BlockSizes::Mixed).map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mix(text: &str) -> Mix {
        match parse_sizes(text) {
            Ok(BlockSizes::Mixed(mix)) => mix,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn three_spellings_are_one_mix() {
        for text in ["4K@60+64K@40", "4k/60:64k/40", "4k:60/64k:40", "4096@60%+65536@40%"] {
            let mix = mix(text);
            assert_eq!(mix.to_string(), "4K@60+64K@40", "{text}");
            assert_eq!(mix.mean(), 0.6 * 4096.0 + 0.4 * 65536.0);
        }
        assert_eq!(parse_sizes("64K"), Ok(BlockSizes::One(65536)));
    }

    #[test]
    fn what_is_no_mix_says_what_is_right() {
        let texts = "4K@ 4K@60 4K@0+8K@1 4K@1+4096@2 4K@1+8K @ + : / 4K@-1+8K@1 4K@1,5+8K@1";
        for text in texts.split(' ') {
            let error = parse_sizes(text).expect_err(text);
            assert!(!error.contains('\n') && error.starts_with("must be a size"), "{error}");
        }
        let one = parse_sizes("4K@60").unwrap_err();
        assert!(one.ends_with("'4K@60' has a weight and only one size"), "{one}");
    }

    proptest! {
        #[test]
        fn a_mix_round_trips(sizes in prop::collection::btree_map(1_u64..1 << 31, 1_u32..1000, 2..16)) {
            let parts: Vec<_> = sizes.into_iter().map(|(bytes, weight)| MixPart { bytes, weight }).collect();
            let mix = Mix::try_from(parts).expect("a mix");
            prop_assert_eq!(parse_sizes(&mix.to_string()), Ok(BlockSizes::Mixed(mix)));
        }

        #[test]
        fn any_text_gives_sizes_or_an_error_of_one_line(text in "\\PC{0,40}|[0-9Kk@+:/%]{0,30}|.{0,20}") {
            if let Err(error) = parse_sizes(&text) {
                prop_assert!(!error.contains('\n'), "{}", error);
            }
        }
    }
}
