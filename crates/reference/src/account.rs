//! Checks whether a tool's figure contradicts its work and time, as a misread column or unit does.

use plimsoll_units::quantity::{Quantity, Unit, significant};

/// Tolerated ratio between a figure and its work and time: set-up, rounding.
const ACCOUNT_TOLERANCE: f64 = 1.1;

/// Slack in seconds for process start and end, and for the clock's resolution.
const MOMENT: f64 = 1e-3;

/// Bounds of the time that the timed part of a tool took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    least: f64,
    most: f64,
}

impl Seconds {
    /// Time of a tool that prints none: at most the lifetime of its process.
    pub const OF_ITS_LIFE: Self = Self { least: 0.0, most: f64::INFINITY };

    /// Returns a time that is known exactly: both bounds are `seconds`.
    pub fn of(seconds: f64) -> Self {
        Self { least: seconds, most: seconds }
    }

    /// Parses a printed time in s; the bounds are half of the last digit away: `1.2` is 1.2 ± 0.05.
    pub fn printed(word: &str) -> Result<Self, String> {
        let shown = || format!("its time is '{}'", plimsoll_units::text::shown_within(word, 40));
        let value: f64 = word.parse().map_err(|_| shown())?;
        let (digits, power) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
        let power: i32 = power.parse().map_err(|_| shown())?;
        let half = 0.5 * 10_f64.powi(power.saturating_sub(i32::try_from(decimals).unwrap_or(i32::MAX)));
        Ok(Self { least: (value - half).max(0.0), most: value + half })
    }

    /// Returns the bounds of a time that was rounded up or down to whole `seconds`: ± 1 s.
    pub fn whole(seconds: f64) -> Self {
        Self { least: (seconds - 1.0).max(0.0), most: seconds + 1.0 }
    }

    /// Returns the bounds of the time from `begin` to `end`, both read from one clock.
    pub fn between(begin: Self, end: Self) -> Self {
        Self { least: (end.least - begin.most).max(0.0), most: end.most - begin.least }
    }

    /// Multiplies both bounds by the factor `times`, such as 1e-3 for milliseconds.
    #[must_use]
    pub fn scale(self, times: f64) -> Self {
        Self { least: self.least * times, most: self.most * times }
    }

    /// Multiplies the lower bound by `share` (0 to 1): at least this share of the time was work.
    #[must_use]
    pub fn scale_lower_bound(self, share: f64) -> Self {
        Self { least: self.least * share, ..self }
    }

    /// Returns half of the distance between the bounds, relative to their mean: 0.1 for 10 ± 1 s.
    pub fn rounding(self) -> f64 {
        (self.most - self.least) / (self.most + self.least)
    }

    /// Returns the mean of both bounds in s.
    pub fn value(self) -> f64 {
        f64::midpoint(self.least, self.most)
    }
}

/// Work and time behind a figure of a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// Work done: bytes, bits or operations for a rate, successive operations for a time. If only
    /// one pass of many is known, this pass, with [`Seconds::OF_ITS_LIFE`].
    pub amount: f64,
    /// Time that the work took.
    pub seconds: Seconds,
}

impl Account {
    /// Creates the account of `amount` of work (bytes for B/s, else a count), which took `seconds`.
    pub fn of(amount: f64, seconds: Seconds) -> Self {
        Self { amount, seconds }
    }

    /// Returns why `figure`, a rate or (in `Unit::Second`) a time per piece of work, contradicts
    /// this work and time, or the `life` of the process in seconds; `None` if it does not.
    pub fn contradicts(&self, figure: f64, unit: Unit, life: f64) -> Option<String> {
        let Seconds { least, most } = self.seconds;
        if !self.amount.is_finite() || least > most || least.is_nan() || most.is_nan() {
            return Some("its amount of work or its time is not a number".to_owned());
        }
        if least > life * ACCOUNT_TOLERANCE + MOMENT {
            return Some(format!(
                "its own time contradicts its run time: it says {} and ended after {}",
                time(least),
                time(life)
            ));
        }
        let takes = if unit == Unit::Second { self.amount * figure } else { self.amount / figure };
        if takes > (life * ACCOUNT_TOLERANCE + MOMENT).min(most * ACCOUNT_TOLERANCE) {
            return Some(self.describe("at least", figure, unit, most.min(life)));
        }
        (takes * ACCOUNT_TOLERANCE < least).then(|| self.describe("at most", figure, unit, least))
    }

    fn describe(&self, bound: &str, figure: f64, unit: Unit, seconds: f64) -> String {
        format!(
            "its figure of {} contradicts its own run time: it {} {bound} {} in {}",
            Quantity::new(figure, unit).human(3),
            if matches!(unit, Unit::BytePerSecond | Unit::BitPerSecond) { "moved" } else { "made" },
            amount(self.amount, unit),
            time(seconds)
        )
    }
}

fn time(seconds: f64) -> String {
    Quantity::new(seconds, Unit::Second).human(3)
}

fn amount(amount: f64, unit: Unit) -> String {
    match unit {
        Unit::BytePerSecond => Quantity::new(amount, Unit::Byte).human(3),
        Unit::BitPerSecond => format!("{} bits", significant(amount, 3)),
        Unit::FlopPerSecond => format!("{} floating-point operations", significant(amount, 3)),
        _ => format!("{} operations", significant(amount, 3)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Unit = Unit::BytePerSecond;

    #[test]
    fn a_printed_time_is_known_to_half_of_its_last_digit() {
        let near = |s: Seconds, least: f64, most: f64| {
            assert!((s.least - least).abs() < 1e-12 && (s.most - most).abs() < 1e-12, "{s:?}");
        };
        near(Seconds::printed("0.06").unwrap(), 0.055, 0.065);
        near(Seconds::printed("1.536977e+00").unwrap(), 1.536_976_5, 1.536_977_5);
        near(Seconds::printed("242").unwrap(), 241.5, 242.5);
        near(Seconds::printed("0.00").unwrap(), 0.0, 0.005);
        assert!(Seconds::printed("x").is_err() && Seconds::printed("").is_err());
        let begun = Seconds::printed("0.0").unwrap();
        near(Seconds::between(begun, Seconds::printed("10.0").unwrap()), 9.9, 10.05);
    }

    #[test]
    fn the_reason_names_the_work_and_the_time() {
        let account = Account::of(8e6, Seconds::of(0.1));
        let why = account.contradicts(800e6, RATE, 1.0).unwrap();
        let wanted =
            "its figure of 800 MB/s contradicts its own run time: it moved at most 8000000 B in 100 ms";
        assert_eq!(why, wanted);
        let slow = Account::of(8e6, Seconds::OF_ITS_LIFE).contradicts(8e6, RATE, 0.1).unwrap();
        assert!(slow.contains("it moved at least 8000000 B in 100 ms"), "{slow}");
        let long = Account::of(8e6, Seconds::of(2.0)).contradicts(4e6, RATE, 1.0).unwrap();
        assert!(long.contains("it says 2.00 s and ended after 1.00 s"), "{long}");
        let echoes = Account::of(100.0, Seconds::OF_ITS_LIFE).contradicts(0.1, Unit::Second, 1.0).unwrap();
        let wanted = "100 ms contradicts its own run time: it made at least 100 operations in 1.00 s";
        assert!(echoes.contains(wanted), "{echoes}");
    }

    proptest! {
        #[test]
        fn an_honest_figure_is_never_refused(
            amount in 1.0_f64..1e15, micros in 1_u64..10_000_000_000, decimals in 2_usize..9, idle in 0.0_f64..100.0,
        ) {
            let seconds = micros as f64 * 1e-6;
            let printed = Seconds::printed(&format!("{seconds:.decimals$}")).unwrap();
            let life = seconds + idle;
            for known in [printed, Seconds::of(seconds), Seconds::OF_ITS_LIFE, printed.scale_lower_bound(0.5)] {
                let account = Account::of(amount, known);
                prop_assert_eq!(account.contradicts(amount / seconds, RATE, life), None);
                prop_assert_eq!(account.contradicts(seconds / amount, Unit::Second, life), None);
            }
        }

        /// If only the lifetime is known, only figures that are too slow are refused.
        #[test]
        fn a_figure_that_is_off_is_refused(
            amount in 1.0_f64..1e15, seconds in 0.02_f64..1e4, off in 1.2_f64..1e6, idle in 0.0_f64..0.01,
        ) {
            let life = seconds * (1.0 + idle);
            for factor in [off, 1.0 / off] {
                let account = Account::of(amount, Seconds::of(seconds));
                prop_assert!(account.contradicts(amount / seconds * factor, RATE, life).is_some());
                prop_assert!(account.contradicts(seconds / amount * factor, Unit::Second, life).is_some());
            }
            let account = Account::of(amount, Seconds::OF_ITS_LIFE);
            prop_assert!(account.contradicts(amount / seconds / off, RATE, life).is_some());
            prop_assert!(account.contradicts(seconds / amount * off, Unit::Second, life).is_some());
        }

        #[test]
        fn any_numbers_are_survived(amount: f64, seconds: f64, figure: f64, life: f64) {
            for unit in [RATE, Unit::Second, Unit::BitPerSecond, Unit::FlopPerSecond] {
                if let Some(why) = Account::of(amount, Seconds::of(seconds)).contradicts(figure, unit, life) {
                    prop_assert!(!why.contains('\n') && why.len() < 300);
                }
            }
        }
    }
}
