use super::fact::LEVEL;
use plimsoll_model::measurement::Measurement;

/// Share of its limit from which on a figure is attributed to the cache of that limit.
const ATTRIBUTED_LIMIT_SHARE: f64 = 0.5;

/// Returns the level that the working set fits in: "L2", or "L2-sized" if the figure is not near
/// the limit of that cache. A guest may have only a part of a cache, or share it.
pub(super) fn answering_level(measurement: &Measurement) -> Option<String> {
    let level = measurement.achieved.get(&LEVEL)?;
    let share = measurement.metrics.first().and_then(|m| m.of_limit);
    let near = share.is_some_and(|share| share >= ATTRIBUTED_LIMIT_SHARE);
    Some(if level == "memory" || near { level } else { format!("{level}-sized") })
}

/// Returns the level in brackets, `(L2)`; `None` for memory.
pub(super) fn level_in_brackets(measurement: &Measurement) -> Option<String> {
    answering_level(measurement).filter(|level| level != "memory").map(|level| format!("({level})"))
}
