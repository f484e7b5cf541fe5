//! In which order transfers visit the blocks of a file.

use serde::{Deserialize, Serialize};

use crate::job::unknown_word;
use crate::text::shown;

/// Blocks from one to the next of a strided walk: IOzone's `-j` default. A prime, so that no stripe or bank of a power
/// of two is favoured.
pub const STRIDE_BLOCKS: u64 = 17;

/// The exponent of a Zipf walk that names none: fio's.
const DEFAULT_ZIPF_EXPONENT: f64 = 1.2;

/// The order of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum BlockOrder {
    /// Ascending, from the first block again after the last.
    Sequential,
    /// As [`BlockOrder::Sequential`]; of a mix, reads and writes each on their own.
    SequentialEach,
    /// Every block once in random order, then all in another random order.
    Random,
    /// Every [`STRIDE_BLOCKS`]th block, then the same from the second block on, and so on until each was visited.
    Strided,
    /// Descending, from the last block again after the first.
    Backward,
    /// The first block again and again.
    Same,
    /// Few blocks often and many seldom: the block of rank k in proportion to k^-θ, ranks scattered over the file.
    Zipf(f64),
    /// Each part of the file has a share of the transfers, at random offsets in it.
    Zoned(FileZones),
}

impl BlockOrder {
    /// Every order without parts or an exponent of its own, with the word that names it.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("sequential", Self::Sequential),
        ("sequential-each", Self::SequentialEach),
        ("random", Self::Random),
        ("strided", Self::Strided),
        ("backward", Self::Backward),
        ("same", Self::Same),
        ("zipf", Self::Zipf(DEFAULT_ZIPF_EXPONENT)),
    ];

    /// Reads a pattern; `zipf:0.9` has an exponent of its own, above 0 and up to 5, `zoned:80-20:20-80` its parts.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn parse(word: &str) -> Result<Self, String> {
        if let Some(theta) = word.strip_prefix("zipf:") {
            let exponent = theta.parse().ok().filter(|theta: &f64| *theta > 0.0 && *theta <= 5.0);
            return exponent.map(Self::Zipf).ok_or_else(|| {
                format!(
                    "pattern zipf:EXPONENT must have an exponent above 0 and at most 5, such as zipf:0.9: '{}' is not",
                    shown(theta)
                )
            });
        }
        if word.starts_with("zoned") {
            let zones = word.strip_prefix("zoned:").and_then(FileZones::parse);
            return zones.map(Self::Zoned).ok_or_else(|| {
                format!(
                    "pattern zoned must have 1 to 8 parts TRANSFERS-FILE in hundredths that add up to 100 each, such as zoned:80-20:20-80: '{}' has not",
                    shown(word)
                )
            });
        }
        let found = Self::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, order)| *order).ok_or_else(|| unknown_word("pattern", word, Self::ALL))
    }

    /// The word that names it, without an exponent or parts.
    pub fn word(self) -> &'static str {
        let same = |known: &Self| std::mem::discriminant(known) == std::mem::discriminant(&self);
        Self::ALL.iter().find(|(_, known)| same(known)).map_or("zoned", |(word, _)| word)
    }

    /// Whether offsets are drawn at random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::Random | Self::Zipf(_) | Self::Zoned(_))
    }
}

/// Parts of a file, one behind the other, each with its share of the transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileZones {
    /// Shares of the transfers and of the file, both in hundredths; an unused part has nothing of both.
    parts: [(u8, u8); Self::MAX_PARTS],
}

impl FileZones {
    /// Most parts.
    const MAX_PARTS: usize = 8;

    /// Reads `50-5:30-15:20-80`: half of the transfers to the first twentieth, and so on.
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

    /// The parts: their shares of the transfers and of the file, both in hundredths.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.parts.into_iter().filter(|(_, of_file)| *of_file > 0);
        used.map(|(transfers, of_file)| (u64::from(transfers), u64::from(of_file)))
    }
}
