use serde::Deserialize;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(super) enum WorkFact {
    Number(f64),
    Widths(Widths),
}

impl WorkFact {
    /// Returns the number; `None` if it depends on the vector width.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Widths(_) => None,
        }
    }

    pub(super) fn widths(self) -> Widths {
        match self {
            Self::Widths(widths) => widths,
            Self::Number(number) => Widths {
                bits_128: Some(number),
                bits_256: Some(number),
                bits_512: Some(number),
                bits_8192: Some(number),
            },
        }
    }
}

/// Rates or times by vector width in bits.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Widths {
    #[serde(rename = "128")]
    pub(super) bits_128: Option<f64>,
    #[serde(rename = "256")]
    pub(super) bits_256: Option<f64>,
    #[serde(rename = "512")]
    pub(super) bits_512: Option<f64>,
    /// An AMX tile.
    #[serde(rename = "8192")]
    pub(super) bits_8192: Option<f64>,
}

impl Widths {
    pub(super) fn at(self, bits: u32) -> Option<f64> {
        match bits {
            128 => self.bits_128,
            256 => self.bits_256,
            512 => self.bits_512,
            8192 => self.bits_8192,
            _ => None,
        }
    }

    /// Converts cycles per instruction to instructions per cycle, for each width.
    pub(super) fn inverse(self) -> Self {
        let each = |cycles: Option<f64>| cycles.map(f64::recip);
        Self {
            bits_128: each(self.bits_128),
            bits_256: each(self.bits_256),
            bits_512: each(self.bits_512),
            bits_8192: each(self.bits_8192),
        }
    }
}
