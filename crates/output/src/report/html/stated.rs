//! Cases as the run's plan states them: amounts before scaling, and which cases are time series.

use std::collections::BTreeMap;

use plimsoll_model::case::{Case, Value};
use plimsoll_model::plan::scale::{SCALED_KEYS, unscaling};
use plimsoll_model::plan::{Group, file};
use plimsoll_result::document::Run;

pub(super) struct StatedCases {
    groups: Vec<Group>,
    cases: BTreeMap<String, Case>,
}

impl StatedCases {
    /// Reads the run's plan, to undo `--scale` in cases; they stay as measured if it is unreadable.
    pub(super) fn of(run: &Run) -> Self {
        let file = file::parse_kept("plan", &run.plan.text).ok();
        let groups = file.map(|file| file.groups).unwrap_or_default();
        let unscaled = unscaling(&groups, run.plan.scale, plimsoll_bench::uses_test_files);
        let cases = run.measurements.iter().filter(|_| run.plan.scale != 1.0);
        let cases = cases.map(|m| (m.case.id().as_str().to_owned(), unscaled(&m.case))).collect();
        Self { groups, cases }
    }

    pub(super) fn case(&self, case: &Case) -> Case {
        self.cases.get(case.id().as_str()).unwrap_or(case).clone()
    }

    /// Returns whether the plan requests the measured case as a time series.
    pub(super) fn is_series(&self, case: &Case) -> bool {
        self.groups.iter().filter(|group| group.how.series.is_some()).any(|group| {
            let asked = |(key, _): &(&'static str, Value)| !SCALED_KEYS.contains(key) || group.asked(key);
            group.benchmarks.iter().any(|name| name == case.benchmark())
                && group.lists.iter().all(|(key, all)| case.get(key).is_some_and(|one| all.contains(one)))
                && case.params().iter().all(asked)
        })
    }
}
