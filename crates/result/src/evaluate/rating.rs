//! Selects the limit that a result is compared with. A rating by the maker or provider is no
//! physical bound: a higher result refutes it, as it refutes limits from wrong chip data.

use plimsoll_model::limit::{Limit, LimitFact, Varies};
use plimsoll_units::quantity::percent;

use super::{LIMIT_TOLERANCE, share_of, shares_of};

/// Bounds of the threshold, as shares of a shared-core limit, above which CPUs no longer share the
/// core. No probe beside a busy sibling read the clock too low by more than the first.
const HAS_MOVED: [f64; 2] = [1.04, 1.15];
/// Samples that must exceed the threshold: one clock reading can be too low.
const MIN_MENTIONED: usize = 2;

/// Marks as refuted the limits from a `fact`, such as chip data, that the verified `values` of
/// `metric` exceed by the factor `least`; for a CPU quota, which is an average, also by `burst`.
pub(super) fn refute(limits: &mut [Limit], metric: &str, values: &[f64], least: f64) {
    let have_moved = limits.iter().any(|limit| is_left(limit, values));
    for limit in limits {
        let Some(fact @ LimitFact { text, otherwise, changes }) = &limit.fact else { continue };
        if changes.is_some() {
            limit.refuted = have_moved.then(|| better_than(metric, fact));
            continue;
        }
        let most = least * limit.burst.unwrap_or(1.0);
        // All samples exceed wrong chip data; a disturbed clock probe lowers the limit of some.
        let is_fixed = limit.varies() == Varies::Not;
        let all_are_above =
            || shares_of(limit, values).is_some_and(|mut shares| shares.all(|share| share > most));
        let share = share_of(limit, values).filter(|_| is_fixed || all_are_above());
        let Some(share) = share.filter(|share| *share > most) else { continue };
        let sound = if is_fixed { "a verified result" } else { "a verified result and a sound clock" };
        limit.refuted = Some(format!(
            "{metric} is {} of this limit, with {sound}: {text} is wrong here, or {otherwise}",
            percent(share, 4)
        ));
    }
}

/// Returns whether samples show that CPUs left the shared core that `limit` assumes.
fn is_left(limit: &Limit, values: &[f64]) -> bool {
    let times = limit.fact.as_ref().and_then(|fact| fact.changes);
    let Some(times) = times.filter(|_| !limit.is_by_credits()) else { return false };
    let [least, most] = HAS_MOVED;
    let bound = f64::midpoint(1.0, times).clamp(least, most);
    let past = shares_of(limit, values).map_or(0, |shares| shares.filter(|share| *share > bound).count());
    past >= MIN_MENTIONED.min(values.len()).max(1)
}

fn better_than(figure: &str, LimitFact { text, otherwise, .. }: &LimitFact) -> String {
    format!("{figure} is better than {text} allows: {otherwise}")
}

/// Returns the first of the ascending `limits` with a value that is not refuted and no rating below
/// the median of `values`, and why it skips a limit; else an unknown limit. `None` without limits.
pub(super) fn chosen(limits: &[Limit], values: &[f64]) -> Option<Limit> {
    let past = |limit: &&Limit| -> Option<String> {
        if let Some(fact) = limit.fact.as_ref().filter(|_| limit.refuted.is_some()) {
            return Some(match fact.changes {
                Some(_) => better_than("the figure", fact),
                None => format!("refuted, because the figure is above it: {}", fact.text),
            });
        }
        let share = share_of(limit, values).filter(|share| *share > LIMIT_TOLERANCE);
        let share = share.filter(|_| limit.is_promise)?;
        let row = limit.inputs.first().map_or("its rating", |input| input.name.as_str());
        Some(format!("the figure is {} of the {row}, which is wrong here or was passed", percent(share, 3)))
    };
    let known = limits.iter().filter(|limit| limit.value.is_some());
    let kept = known.clone().find(|limit| past(limit).is_none());
    let Some((refuted, why)) = known.clone().find_map(|limit| Some((limit, past(&limit)?))) else {
        return kept.or(limits.first()).cloned();
    };
    Some(if let Some(limit) = kept { limit.clone().because(why) } else { Limit::unknown(refuted.kind, why) })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::limit::{Input, LimitKind, LimitSource};

    use super::*;

    fn limit(source: LimitSource, value: f64) -> Limit {
        Limit::fixed(LimitKind::Ceiling, source, value, "some bound", Vec::new())
    }

    #[test]
    fn a_rating_that_is_passed_gives_way_to_the_link_and_without_one_to_no_limit() {
        let limits = [limit(LimitSource::Rated, 100.0).promised(), limit(LimitSource::Derived, 200.0)];
        let held_to = |values: &[f64]| chosen(&limits, values).expect("a limit");
        assert_eq!(held_to(&[99.0, 101.0]).value, Some(100.0));
        let passed = held_to(&[120.0]);
        assert_eq!((passed.value, passed.source), (Some(200.0), LimitSource::Derived));
        assert!(passed.reason.is_some_and(|why| why.contains("120 %")));
        assert_eq!(held_to(&[300.0]).value, Some(200.0), "what passes the link stays held to it");
        let only = chosen(&limits[..1], &[150.0]).expect("a limit");
        assert_eq!((only.value, only.source), (None, LimitSource::Unknown));
        // A disk that its interface limits stays so.
        for source in [LimitSource::Rated, LimitSource::User] {
            let held = chosen(&[limit(source, 100.0)], &[150.0]);
            assert_eq!(held.and_then(|limit| limit.value), Some(100.0), "{source:?}");
        }
    }

    #[test]
    fn what_passes_a_quota_for_a_short_time_refutes_nothing() {
        let burst = Some(4.0);
        let mut limits = [Limit { burst, ..limit(LimitSource::Derived, 100.0).resting_on("2 FMA") }];
        refute(&mut limits, "rate", &[150.0], LIMIT_TOLERANCE);
        assert_eq!(limits[0].refuted, None);
        let held = chosen(&limits, &[150.0]).expect("a limit");
        assert_eq!(held.value, Some(100.0));
        refute(&mut limits, "rate", &[450.0], LIMIT_TOLERANCE);
        assert!(limits[0].refuted.is_some());
    }

    #[test]
    fn a_row_that_some_samples_keep_to_is_not_refuted() {
        let of = |per_sample: [f64; 3]| {
            let clock = Input::new("clock", 3.7e9, "Hz", "measured");
            let row = Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 97.0, "2 × clock", vec![clock]);
            let mut limits = [Limit { per_sample: per_sample.to_vec(), ..row.resting_on("2 FMA") }];
            refute(&mut limits, "rate", &[100.0, 100.0, 100.0], LIMIT_TOLERANCE);
            let held = chosen(&limits, &[100.0, 100.0, 100.0]).and_then(|l| l.value);
            (limits[0].refuted.is_some(), held)
        };
        // Two of three clocks too low; all of them; chip data wrong by half.
        assert_eq!(of([97.0, 97.0, 100.0]), (false, Some(97.0)));
        assert_eq!(of([97.0, 97.0, 97.0]), (true, None));
        assert_eq!(of([50.0, 48.0, 51.0]), (true, None));
    }

    #[test]
    fn cpus_that_left_their_common_core_refute_that_and_no_row() {
        let core =
            |value| limit(LimitSource::Inferred, value).resting_on_placement("one core for CPUs 0-1", 2.0);
        let refuted = |values: &[f64], least| {
            let row = limit(LimitSource::Derived, 200.0).resting_on("2 FMA");
            // Two limits of the shared core, for two kinds of instruction.
            let mut limits = [core(100.0), core(120.0), row];
            refute(&mut limits, "rate", values, least);
            let chosen = chosen(&limits, values);
            let held = chosen.as_ref().and_then(|limit| limit.value);
            (limits.map(|limit| limit.refuted), held, chosen.and_then(|limit| limit.reason))
        };
        let (why, held, reason) = refuted(&[117.0, 118.0, 117.0], LIMIT_TOLERANCE);
        assert_eq!(held, Some(200.0), "both limits of the core have gone");
        let wanted = "the figure is better than one core for CPUs 0-1 allows: the host has moved CPUs since, and the limit counts a core for each";
        assert_eq!(reason.as_deref(), Some(wanted));
        let wanted = Some(wanted.replacen("the figure", "rate", 1));
        assert_eq!(why, [wanted.clone(), wanted, None]);
        // CPUs moved during the case; CPUs stayed; a disturbed clock explains some percent.
        assert_eq!(refuted(&[100.0, 198.0, 198.0], LIMIT_TOLERANCE).1, Some(200.0));
        let held = |values: &[f64]| refuted(values, LIMIT_TOLERANCE).1;
        assert_eq!(held(&[100.0, 100.0, 198.0]), Some(100.0), "one clock may be read too low");
        assert_eq!(held(&[198.0]), Some(200.0));
        assert_eq!(held(&[100.0, 99.0, 100.0]), Some(100.0));
        assert_eq!(held(&[104.0, 103.0, 110.0]), Some(100.0));
        assert_eq!(refuted(&[123.0, 123.0, 123.0], 1.5).1, Some(200.0), "however few samples there are");
        // One shared core among 16 CPUs: 15 cores, then 16.
        let of_many = |value: f64| {
            let mut limits = [limit(LimitSource::Inferred, 150.0)
                .resting_on_placement("one core for CPUs 0-1", 16.0 / 15.0)];
            refute(&mut limits, "rate", &[value; 5], LIMIT_TOLERANCE);
            limits[0].refuted.is_some()
        };
        assert_eq!([155.0, 159.0].map(of_many), [false, true]);
    }

    #[test]
    fn a_verified_figure_past_a_fact_of_a_chip_refutes_the_fact() {
        let row =
            limit(LimitSource::Derived, 100.0).resting_on("1 additions of 256 bits per cycle (Haswell)");
        let mut limits = [row, limit(LimitSource::User, 500.0)];
        refute(&mut limits, "rate", &[101.9], LIMIT_TOLERANCE);
        assert!(limits.iter().all(|limit| limit.refuted.is_none()));
        refute(&mut limits, "rate", &[186.0], LIMIT_TOLERANCE);
        let why = limits[0].refuted.as_ref().expect("refuted");
        assert!(why.starts_with("rate is 186.0 % of this limit") && why.ends_with("report it"), "{why}");
        // No clock is in it.
        assert!(why.contains("(Haswell) is wrong here") && why.contains("a verified result: "), "{why}");
        assert_eq!(limits[1].refuted, None);
        let held = chosen(&limits, &[186.0]).expect("a limit");
        assert_eq!((held.value, held.source), (Some(500.0), LimitSource::User));
        let held = chosen(&limits[..1], &[186.0]).expect("a limit");
        assert_eq!((held.value, held.source), (None, LimitSource::Unknown));
        assert!(held.reason.is_some_and(|why| why.starts_with("refuted, ")));
    }
}
