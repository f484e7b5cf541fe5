//! What can be wrong with a typed value: every error says what is wrong and shows what is right, in one line.

/// What was being read; it names itself in errors and shows a right example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Bytes: `4K`.
    Size,
    /// Time: `200ms`.
    Duration,
    /// Per second, SI: `100M`.
    Rate,
    /// A whole number: `1e12`.
    Count,
    /// A part of one: `1%`.
    Share,
}

impl What {
    /// What it must be, with right examples.
    const fn right(self) -> &'static str {
        match self {
            What::Size => "a size such as 4K (4096 bytes), 4kB (4000 bytes) or 1M",
            What::Duration => "a time such as 50us, 200ms, 10m, 1h or 30d",
            What::Rate => "a rate per second such as 1000, 100M or 1.5G",
            What::Count => "a whole number such as 32",
            What::Share => "a share such as 1% or 0.01",
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.right())
    }
}

/// Why a text is not the value it should be. `Display` is what comes after the name of the option: `must be a size such as
/// 4K …: '4Q' is not (unknown unit 'Q')`. `text` in it is cut and escaped, for it came from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing was given.
    #[error("must be {what}: it is empty")]
    Empty {
        /// What was being read.
        what: What,
    },
    /// It starts with a minus sign.
    #[error("must be {what}: '{text}' is negative")]
    Negative {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// It does not start with a decimal number.
    #[error("must be {what}: '{text}' is not a {}", .what.number())]
    NotANumber {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// The number is followed by something unknown.
    #[error("must be {what}: '{text}' {}", .what.stray(suffix))]
    UnknownSuffix {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
        /// The part that is not understood.
        suffix: String,
    },
    /// `KB` means 1000 to some and 1024 to others.
    #[error("must be {}: '{text}' could mean 1000 or 1024 bytes each", What::Size)]
    Ambiguous {
        /// What was given.
        text: String,
    },
    /// A duration without its unit.
    #[error("must be {}: '{text}' has no unit", What::Duration)]
    NoUnit {
        /// What was given.
        text: String,
    },
    /// A share above one without the sign of per cent.
    #[error("must be {}: '{text}' has no %: write {text}% or {part}", What::Share)]
    NoPercent {
        /// What was given.
        text: String,
        /// The same as a part of one.
        part: String,
    },
    /// It does not fit, or is out of the range of its kind.
    #[error("must be {what}: '{text}' is too large")]
    TooLarge {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// Zero where it makes no sense.
    #[error("must be {what}: '{text}' is zero")]
    Zero {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// It has a fraction of the smallest unit (half a byte, half a count, a part of a nanosecond).
    #[error("must be {what}: '{text}' is not a whole number{unit}")]
    NotWhole {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
        /// ` of` the smallest unit, where it has one.
        unit: &'static str,
    },
}

impl What {
    /// The kind of number that it begins with.
    const fn number(self) -> &'static str {
        match self {
            What::Count => "whole number",
            _ => "number",
        }
    }

    /// What is wrong with a text that has this after its number.
    fn stray(self, suffix: &str) -> String {
        match self {
            What::Count => format!("is not a {}", self.number()),
            _ => format!("is not (unknown unit '{suffix}')"),
        }
    }
}
