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
    const fn name(self) -> &'static str {
        match self {
            What::Size => "size",
            What::Duration => "duration",
            What::Rate => "rate",
            What::Count => "count",
            What::Share => "share",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            What::Size => "4K (4096 bytes), 4kB (4000 bytes), 1M or 4096",
            What::Duration => "200ms, 1s, 10m, 1h or 50us",
            What::Rate => "100M, 1.5G or 1e8 (per second)",
            What::Count => "1000 or 1e12",
            What::Share => "1% or 0.01",
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is not the value it should be. `Display` is one line with a right example; `text` in it is cut and
/// escaped, for it came from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing was given.
    #[error("the {what} is empty: write {}", .what.example())]
    Empty {
        /// What was being read.
        what: What,
    },
    /// It starts with a minus sign.
    #[error("'{text}' is negative, which a {what} cannot be: write {}", .what.example())]
    Negative {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// It does not start with a decimal number.
    #[error("'{text}' is not a {what}: write {}", .what.example())]
    NotANumber {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// The number is followed by something unknown.
    #[error("'{text}' is not a {what}: '{suffix}' is no unit of it; write {}", .what.example())]
    UnknownSuffix {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
        /// The part that is not understood.
        suffix: String,
    },
    /// `KB` means 1000 to some and 1024 to others.
    #[error("'{text}' could mean 1000 or 1024 bytes each: write 4K (4096 bytes) or 4kB (4000 bytes)")]
    Ambiguous {
        /// What was given.
        text: String,
    },
    /// A duration without its unit.
    #[error("'{text}' has no unit: write {}", What::Duration.example())]
    NoUnit {
        /// What was given.
        text: String,
    },
    /// It does not fit, or is out of the range of its kind.
    #[error("'{text}' is too large for a {what}: write {}", .what.example())]
    TooLarge {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// Zero where it makes no sense.
    #[error("'{text}' is zero, which a {what} cannot be: write {}", .what.example())]
    Zero {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
    },
    /// It has a fraction of the smallest unit (half a byte, half a count, a part of a nanosecond).
    #[error("'{text}' is not a whole number of {unit}: write {}", .what.example())]
    NotWhole {
        /// What was being read.
        what: What,
        /// What was given.
        text: String,
        /// The smallest unit.
        unit: &'static str,
    },
}
