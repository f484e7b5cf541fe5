//! Headline of a run on a disturbed machine: delivered against undisturbed performance.

use plimsoll_model::measurement::Measurement;
use plimsoll_model::metric::Better;
use plimsoll_result::document::Run;

use crate::report::row::{HeadlineFigures, MeasurementRow};
use crate::report::subsystems;

/// Returns `delivers 22.1 GFLOP/s of the 103 GFLOP/s that fma f64 ×2 reaches undisturbed: …` for
/// the most disturbed case of the first subsystem with one; `None` if no result lacks more than 10
/// % of its time.
pub(crate) fn verdict(run: &Run) -> Option<String> {
    let share = |measurement: &Measurement| {
        let delivered = measurement.delivered()?;
        let share = delivered.value / delivered.undisturbed;
        Some(if share > 1.0 { 1.0 / share } else { share })
    };
    let lowest = |subsystem: &str| {
        let own = run.measurements.iter().filter(|m| m.case.subsystem() == subsystem);
        let known = own.filter_map(|m| Some((m, share(m)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(measurement, _)| measurement)
    };
    let measurement = subsystems(run).into_iter().find_map(lowest)?;
    let MeasurementRow { label, figures, .. } = MeasurementRow::of(measurement);
    let HeadlineFigures { value, delivered, .. } = figures?;
    let delivered = delivered?;
    let excluded = plimsoll_units::quantity::percent(delivered.excluded, 2);
    let head = match measurement.headline()?.better {
        Better::Higher => {
            format!("delivers {} of the {value} that {label} reaches undisturbed", delivered.value)
        }
        Better::Lower => format!("{label} takes {}, and {value} undisturbed", delivered.value),
    };
    Some(format!("{head}: {}, {excluded} of the time excluded", delivered.cause))
}
