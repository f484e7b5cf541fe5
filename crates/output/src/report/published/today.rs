//! Today's measurements of the points of a published report.

use plimsoll_bench::{Better, converted};
use plimsoll_model::case::Case;
use plimsoll_model::limit::Limit;
use plimsoll_model::measurement::{Measurement, MetricResult, Status, ToolResult};
use plimsoll_model::sample::OwnCondition;
use plimsoll_published::{Matched, PublishedReport};
use plimsoll_result::document::Run;

use crate::report::{distinct, grouped};

const ABSENT: &str = "not in this run";

/// A published report with the runs of its plan, the latest first.
pub(crate) struct ReplayRuns<'a> {
    pub(crate) baseline: &'a PublishedReport,
    pub(crate) runs: Vec<&'a Run>,
}

#[derive(Clone, Default)]
pub(crate) struct MeasuredPoint<'a> {
    pub(crate) run: Option<&'a Run>,
    pub(crate) case: Option<&'a Case>,
    pub(crate) samples: Vec<f64>,
    pub(crate) metric: Option<&'a MetricResult>,
    pub(crate) tool: Option<MeasuredByTool<'a>>,
    /// `TOOL: REASON` for each reference tool that has no result, each text once.
    pub(crate) declined: Vec<String>,
    pub(crate) instead: Option<String>,
    pub(crate) invalid: Option<String>,
    pub(crate) is_in_others: bool,
    pub(crate) limit: Option<(&'a Limit, f64)>,
    /// Number of cases that fit a number of the text; this is the best of them.
    pub(crate) best_of: usize,
}

#[derive(Clone)]
pub(crate) struct MeasuredByTool<'a> {
    pub(crate) name: &'a str,
    pub(crate) figure: f64,
    pub(crate) of_limit: Option<f64>,
    pub(crate) differs: String,
}

impl<'a> MeasuredByTool<'a> {
    /// Returns how far the tool `name` is from a report's `wanted` program and operation: 0 (equal)
    /// to 3; `None` for another program. `hpcc STREAM` is near `STREAM`.
    fn distance(name: &str, wanted: &str) -> Option<u8> {
        let program = wanted.split(' ').next().filter(|program| !program.is_empty())?.to_lowercase();
        let name = name.to_lowercase();
        let mut words = name.split(' ');
        let is_first = words.next().is_some_and(|word| word.starts_with(&program));
        match words.next() {
            _ if name == wanted => Some(0),
            None if is_first => Some(1),
            Some(_) if is_first => Some(2),
            Some(part) if part.starts_with(&program) => Some(3),
            _ => None,
        }
    }

    /// Returns all reference tools' results for metric `name`, converted from another metric of the
    /// same transfers if necessary.
    pub(crate) fn all(measurement: &'a Measurement, name: &str) -> Vec<Self> {
        let own = measurement.metrics.iter().filter(|metric| metric.name == name);
        let others = measurement.metrics.iter().filter(|metric| metric.name != name);
        let limit = own.clone().find_map(|metric| metric.limit.as_ref());
        let given = own.chain(others).flat_map(|m| m.tool_results.iter().map(move |tool| (m, tool)));
        let one = |(metric, tool): (&MetricResult, &'a ToolResult)| {
            let figure = converted(&measurement.case, tool.median?, &metric.name, name)?;
            let share = || limit.and_then(|limit| Some(limit.share(figure, limit.value?)));
            let of_limit = if metric.name == name { tool.of_limit } else { share() };
            let differs: Vec<&str> = tool.warnings.iter().map(|note| note.text.as_str()).collect();
            Some(Self {
                name: &tool.tool,
                figure,
                of_limit: of_limit.filter(|share| share.is_finite()),
                differs: differs.join("; "),
            })
        };
        given.filter_map(one).collect()
    }

    /// Returns the result of tool `wanted` (`PROGRAM OPERATION`), else of its program, else any.
    pub(crate) fn of(measurement: &'a Measurement, name: &str, wanted: &str) -> Option<Self> {
        let all = Self::all(measurement, name);
        let near = all.iter().filter_map(|tool| Some((Self::distance(tool.name, wanted)?, tool)));
        let of_the_report = near.min_by_key(|(distance, _)| *distance).map(|(_, tool)| tool);
        of_the_report.or_else(|| all.first()).cloned()
    }
}

impl<'a> ReplayRuns<'a> {
    pub(crate) fn new(baseline: &'a PublishedReport, runs: impl Iterator<Item = &'a Run>) -> Self {
        let mut runs: Vec<&Run> = runs.collect();
        runs.sort_by(|a, b| b.started.cmp(&a.started));
        Self { baseline, runs }
    }

    /// Returns the measurement of `matched` in the latest run that has a result, else why none has,
    /// and the result, if any, of `tool` (`PROGRAM OPERATION`), else of the program, else any tool.
    pub(crate) fn of(&self, matched: &Matched, tool: &str) -> MeasuredPoint<'a> {
        let all = self.runs.iter().map(|run| {
            let here = run.measurements.iter().filter(|m| matched.measures_same(&m.case, run.plan.scale));
            let here: Vec<&Measurement> = here.collect();
            MeasuredPoint::new(run, &here, matched.metric, tool).or_condition(matched, &here).counted(matched)
        });
        let all: Vec<MeasuredPoint<'_>> = all.collect();
        let with_figure = all.iter().filter(|today| today.has_figure()).count();
        let found = all.into_iter().rev().max_by_key(|today| (today.has_figure(), today.case.is_some()));
        let found = found.unwrap_or_else(|| MeasuredPoint::absent(ABSENT));
        MeasuredPoint { is_in_others: with_figure > 1, ..found }
    }

    /// Returns the best of the cases `points` in the latest run with any, and the result of `tool`.
    pub(crate) fn best(&self, points: &[&Matched], tool: &str) -> MeasuredPoint<'a> {
        let of_run = |run: &&'a Run| {
            let by_case = grouped(run.measurements.iter().map(|m| (m.case.to_string(), m)));
            let cases = by_case.into_iter().filter_map(|(_, same)| {
                let matched = points.iter().find(|m| m.measures_same(&same[0].case, run.plan.scale))?;
                let today = MeasuredPoint::new(run, &same, matched.metric, tool).or_condition(matched, &same);
                Some(today.counted(matched)).filter(|today| today.believed().is_some())
            });
            let cases: Vec<MeasuredPoint<'a>> = cases.collect();
            let best_of = cases.len();
            Some(MeasuredPoint { best_of, ..cases.into_iter().reduce(MeasuredPoint::better)? })
        };
        self.runs.iter().find_map(of_run).unwrap_or_else(|| MeasuredPoint::absent(ABSENT))
    }

    /// Returns the best result of `tool` for `metric` in the cases that `is` selects, in the latest
    /// run that has one, or else the reason.
    pub(super) fn of_tool(&self, tool: &str, metric: &str, is: impl Fn(&Case) -> bool) -> MeasuredPoint<'a> {
        let of_run = |run: &&'a Run| {
            let here = run.measurements.iter().filter(|m| is(&m.case));
            let all = here.filter_map(|m| {
                let name = m.metrics.iter().find(|x| x.name == metric).or_else(|| m.metrics.first())?;
                let today = MeasuredPoint::new(run, &[m], &name.name, tool);
                let found = today.tool.as_ref()?;
                MeasuredByTool::distance(found.name, tool).is_some().then_some(today)
            });
            let all: Vec<MeasuredPoint<'a>> = all.collect();
            let count = all.len();
            let figure = |today: &MeasuredPoint<'_>| today.tool.as_ref().map_or(0.0, |tool| tool.figure);
            let best = all.into_iter().reduce(|a, b| if figure(&b) > figure(&a) { b } else { a })?;
            Some(MeasuredPoint { best_of: count, ..best })
        };
        let absent = || MeasuredPoint::absent(&format!("no {tool} in this run"));
        self.runs.iter().find_map(of_run).unwrap_or_else(absent)
    }
}

impl<'a> MeasuredPoint<'a> {
    pub(crate) fn absent(why: &str) -> Self {
        Self { instead: Some(why.to_owned()), ..Self::default() }
    }

    /// Joins the samples of `metric` and the result of `tool` in a case's measurements on one node.
    fn new(run: &'a Run, all: &[&'a Measurement], metric: &str, tool: &str) -> Self {
        let has = |m: &&&&Measurement| m.metrics.iter().any(|found| found.name == metric);
        let node = all.iter().find(|m| has(&m)).or(all.first()).map(|m| m.node.as_str());
        let here: Vec<&Measurement> = all.iter().copied().filter(|m| Some(m.node.as_str()) == node).collect();
        let metrics = || here.iter().filter_map(|m| m.metrics.iter().find(|found| found.name == metric));
        let reason = |status| {
            let found = here.iter().find(|m| m.status == status)?;
            Some(found.reason.clone().unwrap_or_default())
        };
        let why = |status: Status| Some(format!("{}: {}", status.word(), reason(status)?));
        let instead = match (here.first(), metrics().next()) {
            (_, Some(_)) => None,
            (None, _) => Some(ABSENT.to_owned()),
            _ => why(Status::Skipped).or(why(Status::Failed)).or(Some("no such metric".to_owned())),
        };
        let tools = here.iter().flat_map(|m| &m.metrics).flat_map(|found| &found.tool_results);
        let declined = tools.filter_map(|tool| Some(format!("{}: {}", tool.tool, tool.reason.as_ref()?)));
        Self {
            run: Some(run),
            case: here.first().map(|m| &m.case),
            samples: metrics().flat_map(|found| found.samples.iter().copied()).collect(),
            metric: metrics().next(),
            tool: here.iter().find_map(|m| MeasuredByTool::of(m, metric, tool)),
            declined: distinct(declined),
            instead,
            invalid: reason(Status::Invalid),
            limit: metrics().next().and_then(|found| found.limit.as_ref()).and_then(|l| Some((l, l.value?))),
            ..Self::default()
        }
    }

    /// Takes samples from the condition with the metric's name (such as CPU time) if none has it.
    fn or_condition(self, matched: &Matched, here: &[&Measurement]) -> Self {
        let row = OwnCondition::new(matched.metric);
        let samples: Vec<f64> = here.iter().filter_map(|m| m.conditions.more.get(&row)).collect();
        let is_used = self.metric.is_none() && !samples.is_empty();
        if is_used { Self { samples, instead: None, ..self } } else { self }
    }

    pub(crate) fn has_figure(&self) -> bool {
        self.metric.is_some() || !self.samples.is_empty()
    }

    /// Returns one point with the mean of all means; `None` if there are none or one has no result.
    pub(crate) fn mean_of(points: Vec<Self>) -> Option<Self> {
        let means: Option<Vec<f64>> = points.iter().map(Self::mean).collect();
        let means = means.filter(|means| !means.is_empty())?;
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let invalid = points.iter().find_map(|point| point.invalid.clone());
        Some(Self { samples: vec![mean], invalid, tool: None, ..points.into_iter().next()? })
    }

    /// Converts samples, limit and tool's result to the quantity and unit that the report counts.
    fn counted(mut self, matched: &Matched) -> Self {
        let limit = self.limit.filter(|_| !matched.is_derived());
        self.limit = limit.map(|(limit, value)| (limit, matched.as_published(value)));
        self.samples.iter_mut().for_each(|sample| *sample = matched.as_published(*sample));
        if let Some(tool) = &mut self.tool {
            tool.figure = matched.as_published(tool.figure);
            tool.of_limit = tool.of_limit.filter(|_| !matched.is_derived());
        }
        self
    }

    fn better(self, other: Self) -> Self {
        let lower = self.metric.is_some_and(|metric| metric.better == Better::Lower);
        let [Some(a), Some(b)] = [self.believed(), other.believed()] else { return self };
        if (b < a) == lower && a != b { other } else { self }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (!self.samples.is_empty()).then(|| self.samples.iter().sum::<f64>() / self.samples.len() as f64)
    }

    pub(crate) fn believed(&self) -> Option<f64> {
        self.mean().filter(|_| self.invalid.is_none())
    }

    pub(crate) fn peak(&self) -> Option<f64> {
        let lower = self.metric.is_some_and(|metric| metric.better == Better::Lower);
        self.samples.iter().copied().reduce(|a, b| if (b < a) == lower { b } else { a })
    }

    pub(crate) fn stdev(&self) -> Option<f64> {
        let (mean, n) = (self.mean()?, self.samples.len());
        let squares: f64 = self.samples.iter().map(|x| (x - mean).powi(2)).sum();
        (n > 1).then(|| (squares / (n - 1) as f64).sqrt())
    }

    /// Returns why the limit is unknown; `None` if it is known or there is no limit.
    pub(crate) fn limit_unknown(&self) -> Option<&'a str> {
        let limit = self.metric?.limit.as_ref().filter(|limit| limit.value.is_none())?;
        Some(limit.reason.as_deref().unwrap_or("no reason is given"))
    }

    pub(crate) fn limit(&self) -> Option<f64> {
        self.limit.map(|(_, value)| value)
    }

    pub(crate) fn share(&self, figure: Option<f64>) -> Option<f64> {
        let (limit, value) = self.limit?;
        Some(limit.share(figure?, value)).filter(|share| share.is_finite())
    }
}
