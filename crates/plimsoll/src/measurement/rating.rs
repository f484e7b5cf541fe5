//! Which of its limits a figure is held to. Of a drive or a volume the tightest is often what its maker or provider
//! promises; that is no physical bound, so a figure past it says something of the row and not of the figure.

use super::{TOLERANCE, share_of};
use crate::case::Case;
use crate::limit::{Limit, Source};
use crate::quantity::percent;

/// The tightest limit with a value, ascending as they are. Of a disk, ratings that the figure has passed are left out, and
/// the limit that remains says so.
pub(super) fn chosen(case: &Case, limits: &[Limit], values: &[f64]) -> Option<Limit> {
    let past = |limit: &&Limit| {
        let share = share_of(limit, values).filter(|share| *share > TOLERANCE);
        share.filter(|_| limit.source == Source::Rated && case.subsystem() == "disk")
    };
    let known = limits.iter().filter(|limit| limit.value.is_some());
    let kept = known.clone().find(|limit| past(limit).is_none());
    let Some((refuted, share)) = known.clone().find_map(|limit| Some((limit, past(&limit)?))) else {
        return kept.or(limits.first()).cloned();
    };
    let row = refuted.inputs.first().map_or("its rating", |input| input.name.as_str());
    let why = format!("the figure is {} of the {row}, which is wrong here or was passed", percent(share, 3));
    Some(match kept {
        Some(limit) => Limit { reason: Some(why), ..limit.clone() },
        None => Limit::unknown(refuted.kind, why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Kind;

    fn limit(source: Source, value: f64) -> Limit {
        Limit::fixed(Kind::Ceiling, source, value, "some bound", Vec::new())
    }

    #[test]
    fn a_rating_that_is_passed_gives_way_to_the_link() {
        let disk = Case::of("disk.io");
        let limits = [limit(Source::Rated, 100.0), limit(Source::Derived, 200.0)];
        let held_to = |values: &[f64]| chosen(&disk, &limits, values).expect("a limit");
        assert_eq!(held_to(&[99.0, 101.0]).value, Some(100.0));
        let passed = held_to(&[120.0]);
        assert_eq!((passed.value, passed.source), (Some(200.0), Source::Derived));
        assert!(passed.reason.is_some_and(|why| why.contains("120 %")));
        assert_eq!(held_to(&[300.0]).value, Some(200.0), "what passes the link stays held to it");
    }

    #[test]
    fn without_a_link_a_passed_rating_leaves_no_limit() {
        let only = chosen(&Case::of("disk.io"), &[limit(Source::Rated, 100.0)], &[150.0]).expect("a limit");
        assert_eq!((only.value, only.source), (None, Source::Unknown));
        let memory = chosen(&Case::of("memory.bandwidth"), &[limit(Source::Rated, 100.0)], &[150.0]);
        assert_eq!(
            memory.and_then(|limit| limit.value),
            Some(100.0),
            "what is bound by its interface stays so"
        );
        let user = chosen(&Case::of("disk.io"), &[limit(Source::User, 100.0)], &[150.0]);
        assert_eq!(user.and_then(|limit| limit.value), Some(100.0));
    }
}
