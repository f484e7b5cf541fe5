//! Errors of typed values. Each message is one line with the problem and a right example.

/// Kind of value that is parsed. `Display` writes what it must be, with examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadQuantity {
    /// Bytes: `4K`.
    Size,
    /// Time: `200ms`.
    Duration,
    /// Rate per second with SI prefixes: `100M`.
    Rate,
    /// Whole number: `1e12`.
    Count,
    /// Share from 0 to 1: `1%`.
    Share,
}

impl ReadQuantity {
    const fn right(self) -> &'static str {
        match self {
            ReadQuantity::Size => "a size such as 4K (4096 bytes), 4kB (4000 bytes) or 1M",
            ReadQuantity::Duration => "a time such as 50us, 200ms, 10m, 1h or 30d",
            ReadQuantity::Rate => "a rate per second such as 1000, 100M or 1.5G",
            ReadQuantity::Count => "a whole number such as 32",
            ReadQuantity::Share => "a share such as 1% or 0.01",
        }
    }
}

impl std::fmt::Display for ReadQuantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.right())
    }
}

/// Reason why a text is not a valid value. `Display` follows the name of the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is empty.
    #[error("must be {what}: it is empty")]
    Empty {
        /// Expected kind.
        what: ReadQuantity,
    },
    /// The text starts with a minus sign.
    #[error("must be {what}: '{text}' is negative")]
    Negative {
        /// Expected kind.
        what: ReadQuantity,
        /// Typed text.
        text: String,
    },
    /// The text does not start with a decimal number.
    #[error("must be {what}: '{text}' is not a {}", .what.number())]
    NotANumber {
        /// Expected kind.
        what: ReadQuantity,
        /// Typed text.
        text: String,
    },
    /// The number is followed by an unknown suffix.
    #[error("must be {what}: '{text}' {}", .what.stray(suffix))]
    UnknownSuffix {
        /// Expected kind.
        what: ReadQuantity,
        /// Typed text.
        text: String,
        /// Unknown suffix.
        suffix: String,
    },
    /// `KB`: may mean 1000 or 1024 bytes.
    #[error("must be {}: '{text}' could mean 1000 or 1024 bytes each", ReadQuantity::Size)]
    Ambiguous {
        /// Typed text.
        text: String,
    },
    /// A duration without a unit.
    #[error("must be {}: '{text}' has no unit", ReadQuantity::Duration)]
    NoUnit {
        /// Typed text.
        text: String,
    },
    /// A share of 1 or more without `%`.
    #[error("must be {}: '{text}' has no %: write {text}% or {part}", ReadQuantity::Share)]
    NoPercent {
        /// Typed text.
        text: String,
        /// Share that is probably meant, as a part of 1.
        part: String,
    },
    /// The value does not fit in its type or is above the range of its kind.
    #[error("must be {what}: '{text}' is too large")]
    TooLarge {
        /// Expected kind.
        what: ReadQuantity,
        /// Typed text.
        text: String,
    },
    /// A rate of zero.
    #[error("must be {what}: '{text}' is zero")]
    Zero {
        /// Expected kind.
        what: ReadQuantity,
        /// Typed text.
        text: String,
    },
    /// The value has a fraction of the smallest unit (byte, count or nanosecond).
    #[error("must be {what}: '{text}' is not a whole number{unit}")]
    NotWhole {
        /// Expected kind.
        what: ReadQuantity,
        /// Typed text.
        text: String,
        /// ` of` and the smallest unit; empty for a count.
        unit: &'static str,
    },
}

impl ReadQuantity {
    const fn number(self) -> &'static str {
        match self {
            ReadQuantity::Count => "whole number",
            _ => "number",
        }
    }

    fn stray(self, suffix: &str) -> String {
        match self {
            ReadQuantity::Count => format!("is not a {}", self.number()),
            ReadQuantity::Rate if suffix.contains(['b', 'B']) => format!(
                "is not (unknown unit '{suffix}': write a number without it: transfers per second for a disk, bit/s for a network)"
            ),
            _ => format!("is not (unknown unit '{suffix}')"),
        }
    }
}
