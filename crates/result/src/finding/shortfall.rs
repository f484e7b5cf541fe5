//! Results far below their limit because of lost time, such as steal.

use serde_json::json;

use plimsoll_bench::label::full;
use plimsoll_model::measurement::{Measurement, NOTABLE};
use plimsoll_model::view::{PlainFinding, Topic, lost};
use plimsoll_units::quantity::percent;

/// Share of the limit that needs no explanation.
const EXPLAINED_SHARE: f64 = 0.9;
/// Least part of the gap that lost time must account for.
const EXPLAINS: f64 = 0.5;

/// Returns a finding per case below 90 % of its limit if lost time (≥ 5 %) explains half the gap.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    run.iter().filter_map(explained).collect()
}

fn explained(measurement: &Measurement) -> Option<PlainFinding> {
    let share = measurement.headline()?.rated_share().filter(|share| *share < EXPLAINED_SHARE)?;
    let lost = lost(measurement);
    // Such a result excludes interruptions, except throttling by a quota.
    let conditions = &measurement.conditions;
    let excluded = conditions.excluded.is_some() && conditions.throttled != Some(lost.share);
    if excluded || lost.share < NOTABLE || lost.share < EXPLAINS * (1.0 - share) {
        return None;
    }
    let (case, [reached, time]) = (full(&measurement.case), [share, lost.share].map(|x| percent(x, 2)));
    let text = format!("{case}: {reached} of the limit. Likely cause: {} {time} of the time", lost.what);
    let evidence =
        json!({ "case": measurement.case.id(), "of_limit": share, "lost": lost.share, "to": lost.what });
    Some(PlainFinding { topic: Topic::Limit, code: "shortfall", text, evidence })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::limit::{Limit, LimitKind, LimitScope};
    use plimsoll_model::view::testing::peak;

    use super::*;

    fn with(of_limit: Option<f64>, steal: Option<f64>) -> Measurement {
        let mut measurement = peak(2, 100.0);
        measurement.metrics[0].of_limit = of_limit;
        measurement.conditions.steal = steal;
        measurement.conditions.throttled = Some(0.01);
        measurement
    }

    #[test]
    fn the_largest_loss_explains_a_figure_below_its_limit() {
        let found = find(&[with(Some(0.38), Some(0.55))]);
        assert_eq!(found.len(), 1);
        let end = "×2: 38 % of the limit. Likely cause: steal 55 % of the time";
        assert!(found[0].text.ends_with(end), "{}", found[0].text);
        assert_eq!(found[0].evidence["lost"], 0.55);
        let mut measurement = with(Some(0.5), Some(0.1));
        measurement.conditions.throttled = Some(0.48);
        let end = "50 % of the limit. Likely cause: throttled by the CPU quota 48 % of the time";
        assert!(find(&[measurement])[0].text.ends_with(end));
    }

    #[test]
    fn time_that_is_excluded_from_the_figure_explains_nothing_of_it() {
        let mut measurement = with(Some(0.5), Some(0.6));
        measurement.conditions.excluded = Some(0.6);
        assert!(find(&[measurement.clone()]).is_empty());
        measurement.conditions.throttled = Some(0.7);
        assert!(find(&[measurement])[0].text.ends_with("throttled by the CPU quota 70 % of the time"));
    }

    #[test]
    fn it_is_silent_where_nothing_is_missing_or_nothing_explains_it() {
        let mut of_loopback = with(Some(0.003), Some(0.5));
        of_loopback.metrics[0].limit =
            Some(Limit { scope: Some(LimitScope::Loopback), ..Limit::unknown(LimitKind::Ceiling, "") });
        let silent = [
            with(Some(0.95), Some(0.5)),
            with(Some(0.38), Some(0.04)),
            with(Some(0.38), Some(0.2)),
            with(Some(0.38), None),
            with(None, Some(0.5)),
            with(Some(f64::NAN), Some(0.5)),
            of_loopback,
        ];
        assert!(find(&silent).is_empty());
    }
}
