//! Values that are impossible on any machine.

use crate::quantity::{Quantity, Unit};
use crate::stated::Figure;

/// Why the value of a figure is impossible whatever the machine; `None` if it is not.
pub(crate) fn contradiction(figure: &Figure) -> Option<String> {
    match figure.value {
        value if value.is_nan() => Some("the file has nan in place of a number".to_owned()),
        value if value < 0.0 => Some("the file has a negative value".to_owned()),
        value if value.is_infinite() => Some("the file has an infinite value".to_owned()),
        value if value > most(figure.unit) => {
            let most = Quantity::new(most(figure.unit), figure.unit);
            Some(format!("no machine or cluster has a value above {most}"))
        }
        _ => figure.absurd.clone(),
    }
}

/// More than anything that exists: the fastest computer of 2025 makes 2e18 FLOP/s, and the caches of the largest machine of one
/// system image move less than 1e15 B/s.
fn most(unit: Unit) -> f64 {
    match unit {
        Unit::BytePerSecond => 1e16,
        Unit::BitPerSecond => 1e17,
        Unit::IoPerSecond => 1e13,
        // 30 years.
        Unit::Second => 1e9,
        Unit::FlopPerSecond => 1e20,
        _ => 1e18,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_found_and_what_one_may_have_is_not() {
        let found = |value, unit| contradiction(&Figure::new("x", value, unit, Err(String::new()))).is_some();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e308] {
            for unit in
                [Unit::BytePerSecond, Unit::BitPerSecond, Unit::IoPerSecond, Unit::PerSecond, Unit::Second]
            {
                assert!(found(value, unit), "{value} {unit:?}");
            }
        }
        assert!(
            !found(2e18, Unit::FlopPerSecond)
                && !found(1e14, Unit::BytePerSecond)
                && !found(0.0, Unit::Second)
        );
    }
}
