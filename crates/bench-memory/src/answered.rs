//! What answered in a measurement of memory, in words.

use super::fact::{EFFECTIVE_CACHE, LEVEL};
use plimsoll_model::measurement::Measurement;

/// Share of its limit from which on a figure is that of the cache that the limit is of.
const NEAR: f64 = 0.5;

/// What should have answered. A cache does so by its size; that it did is known only where the figure is near what that cache
/// can: a guest may be given a part of it, or share it with others.
pub(super) fn level(measurement: &Measurement) -> Option<String> {
    let level = measurement.achieved.get(&LEVEL)?;
    let near = measurement.metrics.first().and_then(|m| m.of_limit).is_some_and(|share| share >= NEAR);
    Some(if level == "memory" || near { level } else { format!("{level}-sized") })
}

/// The level in brackets, with what of it was there as measured: a cache is named; what is measured by default, memory, is
/// not.
pub(super) fn answered(measurement: &Measurement) -> Option<String> {
    let level = level(measurement)?;
    match measurement.achieved.get(&EFFECTIVE_CACHE) {
        Some(effective) => Some(format!("({level}: {})", plimsoll_units::text::shown_within(&effective, 64))),
        None if level == "memory" => None,
        None => Some(format!("({level})")),
    }
}
