//! One measurement as a row of text.

use std::collections::BTreeMap;

use plimsoll_bench::Benchmark;
use plimsoll_bench::label::label;
use plimsoll_model::case::Case;
use plimsoll_model::limit::{Limit, LimitKind, LimitScope, LimitSource};
use plimsoll_model::measurement::{
    Delivered, LabelMedian, LossCause, Matrix, Measurement, MetricResult, Note, Status,
};
use plimsoll_model::metric::{Also, Form};
use plimsoll_units::quantity::{Quantity, Unit, percent, relative_half_width};
use plimsoll_units::text::format_count;

use crate::report::{joined, listed};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasurementRow {
    pub(crate) label: String,
    /// Cache level that answered: `(L2)`.
    pub(crate) level: Option<String>,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
    pub(crate) figures: Option<HeadlineFigures>,
    /// Percentiles of the operations' latencies, the longest form first: `p50 87.0 µs · p99 183 µs`
    /// and `p99 183 µs`.
    pub(crate) percentiles: Option<[String; 2]>,
    pub(crate) details: String,
    /// Details that are only shown among explanations.
    pub(crate) explained: Vec<String>,
    pub(crate) warnings: Vec<Note>,
    pub(crate) remarks: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeadlineFigures {
    pub(crate) value: String,
    pub(crate) interval: String,
    pub(crate) limit: String,
    /// Source of the limit, or why it is unknown.
    pub(crate) note: Option<String>,
    /// Thing that the limit is of, if the machine need not have all of it; no share is shown then.
    pub(crate) scope: Option<LimitScope>,
    pub(crate) of_limit: Option<f64>,
    pub(crate) delivered: Option<DeliveredFigure>,
    pub(crate) grade: Grade,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeliveredFigure {
    pub(crate) value: String,
    pub(crate) of_limit: Option<f64>,
    pub(crate) excluded: f64,
}

impl DeliveredFigure {
    fn of(delivered: &Delivered, metric: &MetricResult) -> Self {
        let share = metric.better.ratio(delivered.value, delivered.undisturbed);
        let of_limit = metric.rated_share().map(|of| of * share).filter(|share| share.is_finite());
        Self { value: human(delivered.value, metric.unit), of_limit, excluded: delivered.excluded }
    }

    /// Formats `22.1 delivered` for a row with undisturbed `value`; with its unit if that differs.
    pub(crate) fn short(&self, value: &str) -> String {
        let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
        let number = self.value.split(' ').next().filter(|_| unit(value) == unit(&self.value));
        format!("{} delivered", number.unwrap_or(&self.value))
    }

    /// Formats `22.1 GFLOP/s delivered: interrupted so often that 79 % of time is excluded`; only
    /// `22.1 GFLOP/s delivered` if the row has a `reason` for no valid result.
    pub(crate) fn sentence(&self, reason: Option<&str>) -> String {
        let why = format!(": interrupted so often that {} of time is excluded", percent(self.excluded, 2));
        format!("{} delivered{}", self.value, if reason.is_none() { &why } else { "" })
    }
}

/// Returns what the user can do about a cause of lost time.
pub(crate) fn remedy(cause: LossCause) -> &'static str {
    match cause {
        LossCause::OtherProcesses => "stop them",
        LossCause::Hypervisor => "choose a quieter or dedicated host",
        LossCause::Quota => "raise it",
        LossCause::Unknown => "stop other work",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grade {
    Good,
    Fair,
    Poor,
    Unknown,
}

/// Share of the limit from which a result is good.
pub(crate) const GOOD: f64 = 0.9;
/// Share of the limit below which a result is poor.
const POOR: f64 = 0.6;

impl Grade {
    /// Rates the main result by its share of the limit, interruptions included; unknown without
    /// limit, or if more than half of the time is excluded.
    pub(crate) fn of(measurement: &Measurement) -> Self {
        let share = measurement.metrics.first().and_then(|metric| match measurement.delivered() {
            Some(delivered) => DeliveredFigure::of(&delivered, metric).of_limit,
            None => metric.rated_share(),
        });
        match share.filter(|_| !measurement.is_mostly_excluded()) {
            None => Self::Unknown,
            Some(share) if share < POOR => Self::Poor,
            Some(share) if share < GOOD => Self::Fair,
            Some(_) => Self::Good,
        }
    }

    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
            Self::Unknown => "unknown",
        }
    }
}

impl MeasurementRow {
    pub(crate) fn of(measurement: &Measurement) -> Self {
        let n = measurement.repeat;
        let repeat = if n == 0 { String::new() } else { format!(" (repeat {n})") };
        let (headline, others) = (measurement.metrics.first(), measurement.metrics.iter().skip(1));
        let benchmark = plimsoll_bench::find(measurement.case.benchmark());
        let mut details: Vec<String> = Vec::new();
        details.extend(benchmark.into_iter().flat_map(|one| (one.descriptor().details)(measurement)));
        let pairs = headline.filter(|_| measurement.case.server().is_none());
        details.extend(pairs.into_iter().flat_map(between));
        details.extend(headline.into_iter().flat_map(|metric| points(metric, benchmark)));
        let shown = others.filter_map(|metric| Some((metric, also(measurement, metric)?)));
        let (timed, plain): (Vec<_>, Vec<_>) = shown.partition(|(of, _)| of.percentiles.is_some());
        details.extend(plain.into_iter().map(|(_, text)| text));
        let percentiles = headline.and_then(|metric| metric.percentiles.as_ref()).map(|_| PERCENTILES);
        let mut of_operations = headline.into_iter().chain(timed.iter().map(|(metric, _)| *metric));
        let mut explained: Vec<String> = headline.and_then(tail).into_iter().collect();
        explained.extend(timed.iter().map(|(_, text)| text.clone()));
        explained.extend(chosen(measurement).map(|variant| format!("kernel {variant}")));
        let names = benchmark.and_then(|b| (b.descriptor().remark)(measurement));
        Self {
            label: label(&measurement.case) + &repeat,
            status: measurement.status,
            reason: measurement.reason.clone(),
            level: benchmark.and_then(|benchmark| (benchmark.descriptor().answered)(measurement)),
            figures: headline.map(|metric| HeadlineFigures::of(measurement, metric)),
            percentiles: of_operations.find_map(percentiles_shown),
            details: details.join(" · "),
            explained,
            warnings: measurement.warnings.clone(),
            remarks: percentiles.into_iter().chain(names).chain(of_each_thread(&measurement.case)).collect(),
        }
    }
}

impl HeadlineFigures {
    fn of(measurement: &Measurement, metric: &MetricResult) -> Self {
        let summary = &metric.summary;
        let half_width = summary.ci95.map(|[low, high]| high / 2.0 - low / 2.0);
        let interval = match half_width.and_then(|half| relative_half_width(summary.median, half)) {
            Some(relative) => format!("± {}", relative.replacen("< ", "<", 1)),
            None if summary.ci95.is_some() => String::new(),
            None => format!("n = {}", summary.n),
        };
        let limit = metric.limit.as_ref().map(|of| bound(of, metric.unit).unwrap_or("unknown".to_owned()));
        Self {
            value: human(summary.median, metric.unit),
            interval,
            limit: limit.unwrap_or_default(),
            note: metric.limit.as_ref().and_then(note),
            scope: metric.limit.as_ref().and_then(|limit| limit.scope),
            of_limit: metric.rated_share(),
            delivered: measurement.delivered().map(|delivered| DeliveredFigure::of(&delivered, metric)),
            grade: Grade::of(measurement),
        }
    }

    /// Formats the value; if time was excluded: `103 GFLOP/s undisturbed · 22.1 GFLOP/s delivered`.
    pub(crate) fn both(&self) -> String {
        let both = |of: &DeliveredFigure| format!("{} undisturbed · {} delivered", self.value, of.value);
        self.delivered.as_ref().map_or_else(|| self.value.clone(), both)
    }

    pub(crate) fn share(&self) -> String {
        match self.of_limit {
            None => String::new(),
            Some(share) if share >= 10.0 => "> 999 %".to_owned(),
            Some(share) if share > 0.0 && share < 1e-4 => "<0.01 %".to_owned(),
            Some(share) if share < 1e-3 => percent(share, 2),
            Some(share) => percent(share, 3),
        }
    }
}

/// Yields the values that were chosen for parameters set to `best`.
fn chosen(measurement: &Measurement) -> impl Iterator<Item = &str> {
    let case = &measurement.case;
    let best = case.params().iter().filter(|(name, _)| case.word(name) == Some("best"));
    best.filter_map(|(name, _)| measurement.achieved.word_of_parameter(name))
}

/// Formats a value, followed by `(22.1 GFLOP/s delivered)` if `delivered` is given.
pub(crate) fn with_delivered(value: f64, delivered: Option<f64>, unit: Unit) -> String {
    let delivered = delivered.map(|delivered| format!(" ({} delivered)", human(delivered, unit)));
    human(value, unit) + &delivered.unwrap_or_default()
}

fn human(value: f64, unit: Unit) -> String {
    Quantity::new(value, unit).to_string()
}

/// Formats the limit, `118 GFLOP/s` or for a floor `≥ 80.0 ns`; `None` if it is unknown.
pub(crate) fn bound(limit: &Limit, unit: Unit) -> Option<String> {
    let value = limit.quantity(unit)?;
    Some(if limit.kind == LimitKind::Floor { format!("≥ {value}") } else { value.to_string() })
}

fn note(limit: &Limit) -> Option<String> {
    let origin = match limit.source {
        LimitSource::Unknown => return limit.reason.as_ref().map(|reason| format!("unknown: {reason}")),
        LimitSource::Derived => "limit",
        LimitSource::Documented => "configured limit",
        LimitSource::Inferred => "inferred limit",
        LimitSource::Rated => "rated limit",
        LimitSource::User => "your limit",
    };
    let formula = joined(&[origin, &limit.formula], " = ");
    Some(joined(&[&formula, limit.reason.as_deref().unwrap_or_default()], "; "))
}

/// With percentiles, a sample's value is the mean of its operations.
const PERCENTILES: &str = "median: over the samples' mean latencies; p50 to max: over single operations";

/// Returns a remark that sizes are per thread if they are and the case has several; else `None`.
fn of_each_thread(case: &Case) -> Option<&'static str> {
    let each = plimsoll_bench::subsystem_of(case).of_each_thread.contains(&"size");
    let is_several = each && case.threads() > 1 && case.size().is_some();
    is_several.then_some("sizes are per thread, all arrays together")
}

/// Formats the percentiles of single operations, `p50 … p99 … p99.9 … max`; `None` without any.
fn tail(metric: &MetricResult) -> Option<String> {
    let percentiles = metric.percentiles.as_ref()?;
    let one = |name: &&str| {
        let value = human(*percentiles.get(*name)?, metric.unit);
        Some(together(&format!("{name} {value:>7}")))
    };
    let all = listed(["p50", "p99", "p99.9", "max"].iter().filter_map(one), " · ")?;
    Some(format!("{} {all}", together("single operations:")))
}

/// Formats a matrix's median per kind of CPU or node pair: `l3 50.0 ns (4 pairs)`; else empty.
fn between(metric: &MetricResult) -> Vec<String> {
    let alike = metric.matrix.as_ref().map(Matrix::medians_by_label).unwrap_or_default();
    let one = |kind: &LabelMedian| {
        let value = human(kind.median, metric.unit);
        format!("{} {value} ({})", kind.mark.as_deref().unwrap_or("apart"), format_count(kind.pairs, "pair"))
    };
    alike.iter().map(one).collect()
}

fn together(words: &str) -> String {
    words.replace(' ', "\u{a0}")
}

fn points(metric: &MetricResult, benchmark: Option<&dyn Benchmark>) -> Vec<String> {
    let describe = |point| Some(together(&(benchmark?.descriptor().point)(point)?));
    metric.curve.iter().flatten().filter_map(describe).collect()
}

fn describe(percentiles: &BTreeMap<String, f64>, unit: Unit, names: &[&str]) -> Option<String> {
    let one = |name: &&str| percentiles.get(*name).map(|value| format!("{name} {}", human(*value, unit)));
    listed(names.iter().filter_map(one), " · ")
}

fn percentiles_shown(metric: &MetricResult) -> Option<[String; 2]> {
    let of = |names: &[&str]| describe(metric.percentiles.as_ref()?, metric.unit, names);
    Some([of(&["p50", "p99"])?, of(&["p99"])?])
}

/// Formats a metric besides the main one: `each sync 61.6 µs`; `None` if rows do not show it.
fn also(measurement: &Measurement, metric: &MetricResult) -> Option<String> {
    let value = metric.summary.median;
    let Also { before, after, form } = plimsoll_bench::metric(&measurement.case, &metric.name)?.also?;
    let headline = measurement.metrics.first()?.summary.median;
    let figure = match (form, &metric.percentiles) {
        (Form::ShareAboveZero, _) => (value > 0.0).then(|| percent(value, 3))?,
        (Form::UnlikeHeadline, _) if (value / headline - 1.0).abs() < 0.005 => return None,
        (_, Some(percentiles)) => describe(percentiles, metric.unit, &["p50", "p99"])?,
        (_, None) => human(value, metric.unit),
    };
    Some([before, &figure, after].join(" ").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use plimsoll_model::sample::{Cell, Sample};
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn nothing_is_rated_when_most_of_the_time_is_excluded() {
        for (excluded, delivered, grade) in [
            (0.05, None, Grade::Good),
            (0.08, None, Grade::Good),
            (0.2, Some(0.8), Grade::Fair),
            (0.45, Some(0.55), Grade::Poor),
            (0.6, Some(0.4), Grade::Unknown),
            (0.95, Some(0.05), Grade::Unknown),
        ] {
            let mut made = fixture::cpu("f64", 2, 100e9, 101e9);
            made.conditions.excluded = Some(excluded);
            let figures = MeasurementRow::of(&made).figures.unwrap();
            assert_eq!(figures.grade, grade, "{excluded}");
            let of_limit = figures.delivered.and_then(|delivered| delivered.of_limit);
            let near = |a: f64, b: f64| (a - b).abs() < 0.02;
            assert!(of_limit.zip(delivered).is_none_or(|(a, b)| near(a, b)), "{of_limit:?} {delivered:?}");
            assert_eq!(of_limit.is_some(), delivered.is_some(), "{excluded}");
        }
    }

    #[test]
    fn the_headline_has_value_interval_limit_and_share() {
        let row = MeasurementRow::of(&fixture::cpu("f64", 2, 117.4e9, 118.0e9));
        let figures = row.figures.unwrap();
        assert_eq!((figures.value.as_str(), figures.limit.as_str()), ("117 GFLOP/s", "118 GFLOP/s"));
        assert_eq!(figures.share(), "99.5 %");
        assert!(figures.interval.starts_with("± 0."), "{}", figures.interval);
        assert!(figures.note.as_ref().unwrap().contains("clock × cores"));
        let far = HeadlineFigures { of_limit: Some(1e9), ..figures };
        assert_eq!(far.share(), "> 999 %", "figures far past a limit stay short");
        let few = fixture::of_metric("null", fixture::metric_of("latency", Unit::Second, vec![1e-9, 2e-9]));
        let figures = MeasurementRow::of(&few).figures.unwrap();
        assert_eq!([&figures.interval, &figures.limit, &figures.share()], ["n = 2", "", ""]);
    }

    #[test]
    fn a_cache_is_said_to_answer_only_where_the_figure_is_near_what_it_can() {
        let made = |size: &str, level: &str, latency: f64| {
            let id = format!("memory.latency/size={size}/pages=thp");
            let mut made = fixture::measured(&id, "latency", Unit::Second, latency);
            made.achieved.put("level", level);
            made
        };
        let limit = |latency| fixture::derived(latency, LimitKind::Floor, "cycles ÷ clock");
        let chosen = |made: &Measurement| MeasurementRow::of(made).level.unwrap_or_default();
        assert_eq!(chosen(&made("512K", "L2", 4.0e-9).limited(limit(3.9e-9))), "(L2)");
        assert_eq!(chosen(&made("512K", "L2", 40e-9).limited(limit(3.9e-9))), "(L2-sized)");
        assert_eq!(chosen(&made("16M", "L3", 153e-9)), "(L3-sized)");
        assert_eq!(chosen(&made("512M", "memory", 153e-9)), "");
        let mut block = fixture::measured("memory.block/op=read/block=4K", "throughput", Unit::One, 1.0);
        block.achieved.put("level", "memory");
        assert!(MeasurementRow::of(&block).details.contains("region: memory"));
    }

    #[test]
    fn distributions_and_telling_metrics_are_details() {
        let rows: Vec<MeasurementRow> = fixture::run().measurements.iter().map(MeasurementRow::of).collect();
        assert_eq!(rows[3].details, "with write-allocate 14.9 GB/s");
        let single = rows[7].explained[0].replace('\u{a0}', " ");
        assert_eq!(single, "single operations: p50 87.0 µs · p99  183 µs · p99.9  783 µs · max 3.57 ms");
        assert_eq!(rows[8].explained, ["latency p50 201 µs · p99 422 µs"]);
        let p99 = |index: usize| rows[index].percentiles.as_ref().map(|[_, p99]| p99.as_str());
        assert_eq!([p99(7), p99(8), p99(9)], [Some("p99 183 µs"), Some("p99 422 µs"), None]);
        assert!(rows[0].details.is_empty() && rows[9].details.is_empty());
    }

    #[test]
    fn a_matrix_is_told_by_what_its_pairs_share() {
        let smt = Some("smt".to_owned());
        let cell = |row, column, value, mark| Cell { row, column, value, mark };
        let cells = vec![cell(0, 1, 104e-9, None), cell(0, 2, 6.2e-9, smt), cell(1, 2, 106e-9, None)];
        let sample = Sample { matrix: cells, ..Sample::default() };
        let mut made = fixture::measured("cpu.core-to-core/op=cas", "latency", Unit::Second, 104e-9);
        made.metrics[0].matrix = Matrix::of(&[sample]);
        assert_eq!(MeasurementRow::of(&made).details, "smt 6.20 ns (1 pair) · apart 105 ns (2 pairs)");
    }

    #[test]
    fn a_curve_is_told_point_by_point_and_not_broken_within_one() {
        let told = |id: &str, unit, points: &[&[(&str, f64)]]| {
            let mut made = fixture::measured(id, "latency", unit, 1.0);
            let point =
                |of: &&[(&str, f64)]| of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            made.metrics[0].curve = Some(points.iter().map(point).collect());
            MeasurementRow::of(&made).details
        };
        let loads: [&[(&str, f64)]; 3] =
            [&[("bandwidth", 0.0), ("latency", 143e-9)], &[("bandwidth", 25e9), ("latency", 145e-9)], &[]];
        let loaded = told("memory.loaded-latency/op=read", Unit::Second, &loads);
        assert_eq!(loaded.replace('\u{a0}', " "), "no load 143 ns · 25.0 GB/s 145 ns");
        let depths: [&[(&str, f64)]; 2] = [
            &[("threads", 1.0), ("depth", 1.0), ("rate", 16e3)],
            &[("threads", 1.0), ("depth", 2.0), ("rate", 31e3)],
        ];
        let knee = told("disk.knee/op=read", Unit::IoPerSecond, &depths);
        let points: Vec<&str> = knee.split(" · ").collect();
        assert_eq!(points.len(), 2);
        assert!(points.iter().all(|point| !point.contains(' ') && point.contains("kIOPS")), "{knee}");
    }

    #[test]
    fn what_syncing_took_and_what_was_lost_is_told() {
        let told = |id: &str, unit, more: &str, of: Unit, value: f64| {
            let mut made = fixture::measured(id, "rate", unit, 1e9);
            made.metrics.push(fixture::metric_of(more, of, vec![value; 5]));
            MeasurementRow::of(&made).details
        };
        let synced = told("disk.io/op=write/sync=every:1", Unit::Second, "sync", Unit::Second, 61.6e-6);
        assert!(synced.contains("each sync 61.6 µs"), "{synced}");
        let lost = |share| told("network.udp/threads=1", Unit::BitPerSecond, "loss", Unit::One, share);
        assert_eq!([lost(0.0), lost(0.0125)], ["", "loss 1.25 %"]);
    }

    #[test]
    fn a_search_tells_its_answer() {
        let told = |id: &str, achieved: &[(&str, serde_json::Value)]| {
            let mut made = fixture::measured(id, "rate", Unit::IoPerSecond, 38e3);
            assert!(MeasurementRow::of(&made).details.is_empty());
            achieved.iter().for_each(|(name, value)| made.achieved.put(name, value.clone()));
            MeasurementRow::of(&made).details
        };
        let within = |deepest: Option<u64>, held: bool, engine: &str| {
            let achieved =
                [("deepest", deepest.into()), ("target_held", held.into()), ("engine", engine.into())];
            told("disk.io/op=read/latency-target=p99:2ms", &achieved)
        };
        for (deepest, held, engine, wanted) in [
            (Some(24), true, "io_uring", "p99 ≤ 2ms up to depth 24"),
            (Some(24), false, "io_uring", "p99 ≤ 2ms up to depth 24 in the search, not in the samples"),
            (None, false, "io_uring", "p99 ≤ 2ms at no depth"),
            (None, true, "io_uring", "p99 ≤ 2ms at depth 1, the search was inconclusive"),
            (Some(1), true, "psync", "p99 ≤ 2ms at depth 1, the only one of psync"),
            (Some(1), true, "io_uring", "p99 ≤ 2ms up to depth 1"),
        ] {
            assert_eq!(within(deepest, held, engine), wanted);
        }
        let knee =
            |threads: u64| told("disk.knee/op=read", &[("deepest", 16.into()), ("threads", threads.into())]);
        assert_eq!([knee(1), knee(4)], ["at depth 16 on 1 thread", "at depth 16 on 4 threads"]);
    }
}
