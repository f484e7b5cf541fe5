use super::fact::LEVEL;
use plimsoll_model::measurement::Measurement;

/// Share of its limit from which on a figure is attributed to the cache of that limit.
const ATTRIBUTED_LIMIT_SHARE: f64 = 0.5;

/// Returns the level that the working set fits in: "memory", "L2" or, if the result is below half
/// of that cache's limit, "L2-sized": a guest may have only a part. `None` if none is recorded.
pub(super) fn answering_level(measurement: &Measurement) -> Option<String> {
    let level = measurement.achieved.get(&LEVEL)?;
    let share = measurement.metrics.first().and_then(|m| m.of_limit);
    let near = share.is_some_and(|share| share >= ATTRIBUTED_LIMIT_SHARE);
    Some(if level == "memory" || near { level } else { format!("{level}-sized") })
}

/// Returns [`answering_level`] in brackets, `(L2)`; `None` also for memory.
pub(super) fn level_in_brackets(measurement: &Measurement) -> Option<String> {
    answering_level(measurement).filter(|level| level != "memory").map(|level| format!("({level})"))
}
