use plimsoll_units::text::shown;
use serde::{Deserialize, Serialize};

use crate::case::find_word;

/// Stride in blocks: IOzone's `-j` default; a prime favours no power-of-two stripe or bank.
pub const STRIDE_BLOCKS: u64 = 17;

/// Default exponent of a Zipf distribution: fio's.
const DEFAULT_ZIPF_EXPONENT: f64 = 1.2;

/// Order of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum BlockOrder {
    /// Ascending, wrapping to the first block.
    Sequential,
    /// Like [`BlockOrder::Sequential`], with separate positions for reads and writes of a mix.
    SequentialEach,
    /// All blocks once in random order, then again in another random order.
    Random,
    /// Every [`STRIDE_BLOCKS`]th block, then again from the second block on, until all are visited.
    Strided,
    /// Descending, wrapping to the last block.
    Backward,
    /// Always the first block.
    Same,
    /// Zipf distribution: the block of rank k has weight k^-θ; ranks are scattered over the file.
    Zipf(f64),
    /// Random within parts of the file, each with its share of the transfers.
    Zoned(FileZones),
}

impl BlockOrder {
    /// All orders with their names; `zipf` with its default exponent, without `zoned`.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("sequential", Self::Sequential),
        ("sequential-each", Self::SequentialEach),
        ("random", Self::Random),
        ("strided", Self::Strided),
        ("backward", Self::Backward),
        ("same", Self::Same),
        ("zipf", Self::Zipf(DEFAULT_ZIPF_EXPONENT)),
    ];

    /// Parses `random` …, `zipf:0.9` (exponent above 0, at most 5) or `zoned:80-20:20-80`.
    pub fn parse(word: &str) -> Result<Self, String> {
        if let Some(theta) = word.strip_prefix("zipf:") {
            let exponent = theta.parse().ok().filter(|theta: &f64| *theta > 0.0 && *theta <= 5.0);
            let what = "pattern zipf:EXPONENT must have an exponent above 0 and at most 5, such as zipf:0.9";
            return exponent.map(Self::Zipf).ok_or_else(|| format!("{what}: '{}' is not", shown(theta)));
        }
        if word.starts_with("zoned") {
            let zones = word.strip_prefix("zoned:").and_then(FileZones::parse);
            let what = "pattern zoned must have 1 to 8 parts TRANSFERS-FILE in hundredths that add up to 100 each, such as zoned:80-20:20-80";
            return zones.map(Self::Zoned).ok_or_else(|| format!("{what}: '{}' has not", shown(word)));
        }
        let found = find_word("pattern", word, Self::ALL).map(|(_, order)| order);
        found.map_err(|error| error + " (also zipf:EXPONENT and zoned:TRANSFERS-FILE:…)")
    }

    /// Returns the name of the order in ids without exponent or parts, such as `random`.
    pub fn word(self) -> &'static str {
        let same = |known: &Self| std::mem::discriminant(known) == std::mem::discriminant(&self);
        Self::ALL.iter().find(|(_, known)| same(known)).map_or("zoned", |(word, _)| word)
    }

    /// Returns whether offsets are random: each block once, Zipf or zoned.
    pub fn is_random(self) -> bool {
        matches!(self, Self::Random | Self::Zipf(_) | Self::Zoned(_))
    }
}

/// Consecutive parts of a file with their shares of the transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileZones {
    /// Shares of the transfers and of the file in per cent; unused parts are 0.
    parts: [(u8, u8); Self::MAX_PARTS],
}

impl FileZones {
    const MAX_PARTS: usize = 8;

    /// Parses `50-5:50-95`: % of the transfers and of the file; `None` unless both add up to 100.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = [(0, 0); Self::MAX_PARTS];
        let mut sums = (0_u32, 0_u32);
        for (index, part) in text.split(':').enumerate() {
            let (transfers, of_file) = part.split_once('-')?;
            let part: (u8, u8) = (transfers.parse().ok()?, of_file.parse().ok().filter(|share| *share > 0)?);
            *parts.get_mut(index)? = part;
            sums = (sums.0 + u32::from(part.0), sums.1 + u32::from(part.1));
        }
        (sums == (100, 100)).then_some(Self { parts })
    }

    /// Yields (share of the transfers, share of the file) of each part, in per cent.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.parts.into_iter().filter(|(_, of_file)| *of_file > 0);
        used.map(|(transfers, of_file)| (u64::from(transfers), u64::from(of_file)))
    }
}
