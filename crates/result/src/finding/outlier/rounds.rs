//! How often a figure that stands out is measured again: until chance would have none stand out each time in 99 runs of a hundred.
//!
//! The first measurement has a false alarm in one run of a hundred. A second one that stands out as well confirms it, unless other
//! figures of the case did not stand out again: they show how often chance strikes there. Of 200 machines five more measurements are
//! needed if one in twelve did not.

use std::collections::{BTreeMap, BTreeSet};

use super::again::{Second, Suspect, Tried, suspects};
use crate::document::Run;
use crate::stats::FALSE_ALARMS;

/// Most measurements of a figure, those that say nothing among them.
const MOST: usize = 6;

/// What came of one figure so far.
#[derive(Default)]
pub(super) struct Course<'a> {
    /// How often it was measured again.
    times: usize,
    /// How often it stood out then.
    pub(super) far: usize,
    /// Whether it did not once.
    pub(super) is_refuted: bool,
    /// Whether the other machine stood out in one of them.
    pub(super) says_nothing: bool,
    /// Of the measurements in which it stood out, the one that did least.
    pub(super) nearest: Option<&'a Tried>,
}

/// What came of all of them, by the index of the finding.
pub(super) struct Rounds<'a> {
    pub(super) courses: BTreeMap<usize, Course<'a>>,
    /// How often a figure must stand out again, by case.
    needed: BTreeMap<String, usize>,
    /// Machines and benchmarks of which a figure did so often enough: the others of theirs need once.
    sure: BTreeSet<(String, String)>,
}

impl<'a> Rounds<'a> {
    pub(super) fn of(run: &Run, tried: &'a [Tried]) -> Self {
        let courses = courses(run, tried);
        let all = suspects(run);
        let needed = needed(run, &all, &courses);
        let mut rounds = Self { courses, needed, sure: BTreeSet::new() };
        let sure = all.iter().filter(|suspect| rounds.is_sure(suspect)).map(Suspect::owned);
        rounds.sure = sure.collect();
        rounds
    }

    /// How often this one must stand out again.
    pub(super) fn needed(&self, suspect: &Suspect) -> usize {
        match self.sure.contains(&suspect.owned()) {
            true => 1,
            false => self.needed.get(&suspect.case).copied().unwrap_or(1),
        }
    }

    fn is_sure(&self, suspect: &Suspect) -> bool {
        let course = self.courses.get(&suspect.finding);
        course.is_some_and(|course| !course.is_refuted && course.far >= self.needed(suspect))
    }

    fn goes_on(&self, suspect: &Suspect) -> bool {
        let course = self.courses.get(&suspect.finding);
        course.is_none_or(|course| !course.is_refuted && course.times < MOST && !self.is_sure(suspect))
    }

    fn is_tried(&self, suspect: &Suspect) -> bool {
        self.courses.contains_key(&suspect.finding)
    }
}

/// The figures that are to be measured next: first each that stands out, then those that did so again and not often enough yet, of each
/// benchmark on a machine one until it is sure. None where all are known.
pub fn next(run: &Run, tried: &[Tried]) -> Vec<Suspect> {
    let rounds = Rounds::of(run, tried);
    let open = || suspects(run).into_iter().filter(|suspect| rounds.goes_on(suspect));
    let new: Vec<Suspect> = open().filter(|suspect| !rounds.is_tried(suspect)).collect();
    if !new.is_empty() {
        return new;
    }
    let mut leads = BTreeSet::new();
    open().filter(|suspect| leads.insert(suspect.owned())).collect()
}

fn courses<'a>(run: &Run, tried: &'a [Tried]) -> BTreeMap<usize, Course<'a>> {
    let mut courses: BTreeMap<usize, (f64, Course<'a>)> = BTreeMap::new();
    for one in tried {
        let Some(finding) = run.findings.get(one.suspect.finding) else { continue };
        let (least, course) =
            courses.entry(one.suspect.finding).or_insert((f64::INFINITY, Course::default()));
        course.times += 1;
        let Some(second) = Second::of(finding, one) else { continue };
        if !second.is_usual {
            course.says_nothing = true;
            continue;
        }
        course.far += usize::from(second.is_far);
        course.is_refuted |= !second.is_far;
        let away = second.away.ln_1p().abs();
        if second.is_far && away < *least {
            (*least, course.nearest) = (away, Some(one));
        }
    }
    courses.into_iter().map(|(finding, (_, course))| (finding, course)).collect()
}

/// The least number of measurements after which at most one run in a hundred has a figure that chance alone had stand out each time, by
/// case: how often chance strikes differs by case.
fn needed(run: &Run, all: &[Suspect], courses: &BTreeMap<usize, Course<'_>>) -> BTreeMap<String, usize> {
    let mut looked_at: BTreeMap<String, usize> = BTreeMap::new();
    for measurement in run.measurements.iter().filter(|m| m.headline().is_some()) {
        *looked_at.entry(measurement.case.id().to_string()).or_default() += 1;
    }
    let mut refuted: BTreeMap<&str, usize> = BTreeMap::new();
    for suspect in all.iter().filter(|s| courses.get(&s.finding).is_some_and(|course| course.is_refuted)) {
        *refuted.entry(&suspect.case).or_default() += 1;
    }
    let allowed = FALSE_ALARMS / looked_at.len().max(1) as f64;
    let of = |suspect: &Suspect| {
        let case = suspect.case.as_str();
        // Chance has any figure stand out in one run of a hundred. If it has not been seen here, twice is enough.
        let needed = refuted
            .get(case)
            .map_or(1, |refuted| times(refuted + 1, looked_at.get(case).copied().unwrap_or(1), allowed));
        (suspect.case.clone(), needed)
    };
    all.iter().map(of).collect()
}

/// So many figures of `looked_at` stood out by chance; `k` times more they do so at `(by_chance / looked_at)^k` each, which is to be no
/// more than `allowed` of one of them.
fn times(by_chance: usize, looked_at: usize, allowed: f64) -> usize {
    let by_chance = by_chance as f64;
    let odds = (by_chance / looked_at.max(1) as f64).min(0.5);
    let times = (by_chance / allowed).ln() / odds.recip().ln();
    (times.ceil() as usize).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_chance_does_often_is_measured_often() {
        assert_eq!(times(1, 4600, 0.01 / 23.0), 1);
        assert_eq!(times(1, 200, 0.01 / 23.0), 2);
        assert_eq!(times(1, 8, 0.01), 3);
        assert_eq!(times(17, 200, 0.01 / 23.0), 5);
        assert_eq!(times(1, 0, 0.01), MOST);
    }

    proptest! {
        #[test]
        fn it_is_enough_where_it_is_not_the_most(by_chance in 1usize..50, looked_at in 1usize..5000) {
            let allowed = 0.002;
            let times = times(by_chance, looked_at, allowed);
            let left = |times: usize| {
                by_chance as f64 * (by_chance as f64 / looked_at as f64).min(0.5).powi(i32::try_from(times).unwrap())
            };
            prop_assert!(times == MOST || left(times) <= allowed * 1.000_001);
            prop_assert!(times == 1 || left(times - 1) > allowed * 0.999_999);
        }
    }
}
