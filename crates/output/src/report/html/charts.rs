//! Charts of a run: sweeps, single measurements, roofline and reference tools.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::Machine;
use plimsoll_machine::cpu::CacheKind;
use plimsoll_model::case::{self, ALL_PAIRS, AT_ONCE, AT_ONCE_BACK, Case, KEYS, Key, Value};
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_model::words::{human, is_usual};
use plimsoll_result::document::Run;

use super::data::{
    AxisScale, Band, Chart, ChartAxis, ChartKind, ChartPoint, ChartSeries, SeriesRole, number, sort,
};
use super::stated::StatedCases;
use super::{PUBLISHED, ReferenceFigure};

#[derive(Clone, Copy)]
struct XAxisParameter {
    key: &'static Key,
    axis: case::Axis,
}

impl XAxisParameter {
    /// Returns the parameters that can be an x axis, numbers of workers (such as threads) first.
    fn all() -> Vec<Self> {
        let all = KEYS.iter().filter_map(|key| Some(Self { key, axis: key.axis? }));
        let (workers, others): (Vec<Self>, Vec<Self>) = all.partition(|along| along.axis.workers);
        [workers, others].concat()
    }

    fn x(&self, unit: &'static str) -> ChartAxis {
        ChartAxis::linear(self.axis.name, unit).scaled(self.axis.log)
    }

    /// Returns whether values of `key` become lines of one chart; else each has a chart of its own.
    fn overlays(&self, key: &Key) -> bool {
        key.overlaid && !self.axis.charted_alone.contains(&key.name)
    }

    /// Formats the total working set, `size 4 GiB in all`, if sizes are per thread and the axis is
    /// the number of threads; else `None`.
    fn total_size(&self, case: &Case) -> Option<String> {
        let each = plimsoll_bench::subsystem_of(case).of_each_thread.contains(&"size");
        let counts = self.key.name == "threads" && each;
        let bytes = case.number("size").filter(|_| counts)?.checked_mul(case.number("threads")?)?;
        Some(format!("size {} in all", human(&Value::Size(bytes))))
    }

    /// Groups metrics that share a chart along this axis: same metric, benchmark and other
    /// parameters. `in_all`: cases with equal total sizes, not sizes per thread, belong together.
    fn facets<'a>(&self, all: &[ChartedMetric<'a>], in_all: bool, stated: &StatedCases) -> Vec<Facet<'a>> {
        let mut found: Vec<Facet<'a>> = Vec::new();
        for drawn in all.iter().filter(|(m, _)| place(&m.case, self.key.name).is_some()) {
            let (case, metric) = (&drawn.0.case, drawn.1.name.as_str());
            let total = self.total_size(case).filter(|_| in_all);
            let kept = |key: &str, _: &Value| {
                let overlaid = Key::find(key).is_ok_and(|key| self.overlays(key));
                key != self.key.name && !overlaid && (total.is_none() || key != "size")
            };
            let text = |all: Vec<String>| all.into_iter().chain(total.clone()).collect::<Vec<_>>();
            let shared = text(others(&stated.case(case), kept));
            let unusual = |name: &str, value: &Value| {
                kept(name, value) && !self.axis.charted_alone.contains(&name) && !is_usual(name, value)
            };
            let fixed = text(others(case, unusual));
            let benchmark = case.benchmark();
            // The operation (`stream of bytes`) that a benchmark shares with another, if any.
            let common = |benchmark: &str| plimsoll_bench::find(benchmark)?.descriptor().common;
            let alike = |f: &Facet<'a>| {
                f.benchmark == benchmark
                    || common(f.benchmark).is_some_and(|one| Some(one) == common(benchmark))
            };
            let same = |f: &&mut Facet<'a>| alike(f) && f.metric == metric && f.shared == shared;
            match found.iter_mut().find(same) {
                Some(facet) => {
                    facet.fixed.retain(|text| fixed.contains(text));
                    facet.all.push(*drawn);
                }
                None => found.push(Facet { benchmark, metric, shared, fixed, all: vec![*drawn] }),
            }
        }
        found
    }
}

/// Ratio of largest to smallest value beyond which a linear axis hides the smallest.
const MAX_LINEAR_RATIO: f64 = 20.0;

type ChartedMetric<'a> = (&'a Measurement, &'a MetricResult);

/// Builds charts of a subsystem's results over a parameter (threads, size …), with `references`.
pub(super) fn sweeps(run: &Run, subsystem: &str, references: &[ReferenceFigure]) -> Vec<Chart> {
    let of = run.measurements.iter().filter(|m| m.case.subsystem() == subsystem && m.status == Status::Ok);
    let usable: Vec<ChartedMetric<'_>> = of.flat_map(drawn).collect();
    let stated = StatedCases::of(run);
    let mut charts = Vec::new();
    for along in &XAxisParameter::all() {
        let mut left = usable.clone();
        for in_all in [false, true] {
            let all = std::mem::take(&mut left);
            for facet in along.facets(&all, in_all, &stated) {
                match facet.charts(run, along, references) {
                    none if none.is_empty() => left.extend(facet.all),
                    made => charts.extend(made),
                }
            }
        }
    }
    number(&mut charts, subsystem);
    charts
}

/// Returns the first metric of a measurement, and those that its benchmark marks to be drawn.
fn drawn(measurement: &Measurement) -> Vec<ChartedMetric<'_>> {
    let is_drawn = |name: &str| plimsoll_bench::metric(&measurement.case, name).is_some_and(|of| of.drawn);
    let wanted = |(index, metric): &(usize, &MetricResult)| *index == 0 || is_drawn(&metric.name);
    let metrics = measurement.metrics.iter().enumerate().filter(wanted);
    metrics.map(|(_, metric)| (measurement, metric)).collect()
}

struct Facet<'a> {
    benchmark: &'a str,
    metric: &'a str,
    shared: Vec<String>,
    fixed: Vec<String>,
    all: Vec<ChartedMetric<'a>>,
}

/// Formats the parameters for which `keep(name, value)` is true, each as `threads 4`.
fn others(case: &Case, keep: impl Fn(&str, &Value) -> bool) -> Vec<String> {
    let kept = case.params().iter().filter(|(name, value)| keep(name, value));
    let stated = |(name, value): &(&'static str, Value)| match (*name, value) {
        ("server", Value::Word(word)) if word == ALL_PAIRS => "between machines".to_owned(),
        ("server", Value::Word(word)) if word == AT_ONCE => "bisection".to_owned(),
        ("server", Value::Word(word)) if word == AT_ONCE_BACK => "bisection back".to_owned(),
        _ => format!("{name} {}", human(value)),
    };
    kept.map(stated).collect()
}

fn place(case: &Case, key: &str) -> Option<f64> {
    match case.get(key)? {
        Value::Size(n) | Value::Count(n) => Some(*n as f64),
        _ => None,
    }
}

/// Name of the only line of a chart.
const OWN: &str = "median";

#[derive(Default)]
struct MetricLines<'a> {
    name: String,
    points: Vec<(f64, &'a MetricResult)>,
    /// Delivered figures of the points that differ from them, each with its position on the x axis.
    delivered: Vec<(f64, &'a MetricResult, f64)>,
    published: BTreeMap<String, Vec<ChartPoint>>,
}

impl MetricLines<'_> {
    /// Returns the series of delivered values (interruptions included), at the y that `height`
    /// returns for the metric and its delivered value; `None` if no result excludes interruptions.
    fn delivered_series(&self, height: impl Fn(&MetricResult, f64) -> Option<f64>) -> Option<ChartSeries> {
        let points = self.delivered.iter();
        let points = points.filter_map(|(x, of, value)| Some(vec![Some(*x), Some(height(of, *value)?)]));
        let points: Vec<ChartPoint> = points.collect();
        (!points.is_empty()).then(|| ChartSeries::new(self.named("delivered"), SeriesRole::Delivered, points))
    }

    /// Returns a series per reference tool, with the y that `height` returns for metric and result.
    fn tools(&self, height: impl Fn(&MetricResult, f64) -> Option<f64>) -> Vec<ChartSeries> {
        let mut tools: BTreeMap<&str, Vec<ChartPoint>> = BTreeMap::new();
        for (x, metric) in &self.points {
            for tool_result in &metric.tool_results {
                if let Some(y) = tool_result.median.and_then(|median| height(metric, median)) {
                    tools.entry(&tool_result.tool).or_default().push(vec![Some(*x), Some(y)]);
                }
            }
        }
        let series = |(tool, points)| ChartSeries::new(self.label(tool), SeriesRole::Tool, points);
        tools.into_iter().map(series).collect()
    }

    /// Returns a series called `LINE word` with the y value `at(x)` at each x of the line.
    fn drawn(&self, word: &str, role: SeriesRole, at: impl Fn(f64) -> f64) -> ChartSeries {
        let points = self.points.iter().map(|(x, _)| vec![Some(*x), Some(at(*x))]).collect();
        ChartSeries::new(self.named(word), role, points)
    }

    /// Returns the name of a series that belongs to the line: `limit`, or `f64 limit` if the chart
    /// has several lines.
    fn named(&self, word: &str) -> String {
        if self.name == OWN { word.to_owned() } else { format!("{} {word}", self.name) }
    }

    /// Returns the name of a tool's series: `fio`, or `fio read` if the chart has several lines.
    fn label(&self, tool: &str) -> String {
        if self.name == OWN { tool.to_owned() } else { format!("{tool} {}", self.name) }
    }
}

impl Facet<'_> {
    fn charts(&self, run: &Run, along: &XAxisParameter, references: &[ReferenceFigure]) -> Vec<Chart> {
        let lines = self.lines(along, references);
        let places: BTreeSet<u64> = lines.iter().flat_map(|l| &l.points).map(|(x, _)| x.to_bits()).collect();
        let longest = lines.iter().map(|l| l.points.len()).max().unwrap_or(0);
        if places.len() < 2 || longest < 2 || (!along.axis.workers && longest < 3) {
            return Vec::new();
        }
        let mut charts = vec![self.rates(&lines, along, run)];
        let shares = self.shares(&lines, along);
        charts.extend(shares.filter(|_| along.axis.workers));
        charts
    }

    /// Returns a line of results over `along` per combination of parameters that share a chart.
    fn lines(&self, along: &XAxisParameter, references: &[ReferenceFigure]) -> Vec<MetricLines<'_>> {
        let is_overlaid = |key: &&Key| key.overlaid && key.name != along.key.name;
        let differs = |key: &&Key| is_overlaid(key) && self.values(key.name).len() > 1;
        let varying: Vec<&Key> = KEYS.iter().filter(differs).collect();
        let several = self.benchmarks().len() > 1;
        let mut lines: Vec<MetricLines<'_>> = Vec::new();
        for &(measurement, metric) in &self.all {
            let named = |key: &&Key| {
                let value = measurement.case.get(key.name)?;
                Some(match key.name {
                    name if key.is_load() => format!("{name} {value}"),
                    "width" if value.to_string().parse::<u32>().is_ok() => format!("{value} bits"),
                    _ => value.to_string(),
                })
            };
            let by = measurement.case.benchmark().split('.').next_back().filter(|_| several);
            let by = by.map(str::to_owned).into_iter();
            let name = by.chain(varying.iter().filter_map(named)).collect::<Vec<_>>().join(" ");
            let name = if name.is_empty() { OWN.to_owned() } else { name };
            let Some(x) = place(&measurement.case, along.key.name) else { continue };
            let at = lines.iter().position(|l| l.name == name).unwrap_or_else(|| {
                lines.push(MetricLines { name, ..MetricLines::default() });
                lines.len() - 1
            });
            lines[at].points.push((x, metric));
            let is_headline = measurement.metrics.first().is_some_and(|first| first.name == metric.name);
            let delivered = measurement.delivered().filter(|_| is_headline);
            lines[at].delivered.extend(delivered.map(|delivered| (x, metric, delivered.value)));
            let same = |r: &&ReferenceFigure| r.class == PUBLISHED && r.is_of(measurement, metric);
            for reference in references.iter().filter(same) {
                let points = lines[at].published.entry(reference.name.clone()).or_default();
                points.push(vec![Some(x), Some(reference.value)]);
            }
        }
        for line in &mut lines {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            line.delivered.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        lines.iter_mut().flat_map(|l| l.published.values_mut()).for_each(|points| sort(points));
        lines
    }

    fn benchmarks(&self) -> BTreeSet<&str> {
        self.all.iter().map(|(m, _)| m.case.benchmark()).collect()
    }

    /// Returns the distinct values of parameter `key` as text; a missing value is an empty text.
    fn values(&self, key: &str) -> BTreeSet<String> {
        let values = self.all.iter().map(|(m, _)| m.case.get(key));
        values.map(|value| value.map(ToString::to_string).unwrap_or_default()).collect()
    }

    fn title(&self, along: &XAxisParameter) -> String {
        let of = self.benchmarks().into_iter().collect::<Vec<_>>().join(", ");
        let titled = KEYS.iter().filter(|key| key.titled).map(|key| self.values(key.name));
        let work = titled.filter(|values| values.len() == 1).flatten();
        let stated = work.chain([self.fixed.join(" · ")]).filter(|text| !text.is_empty());
        let stated: String = stated.map(|text| format!(" · {text}")).collect();
        let is_named = of.ends_with(&format!(".{}", self.metric));
        let metric = if is_named { "" } else { &format!(" {}", self.metric) };
        format!("{of}{metric} by {}{stated}", along.axis.name)
    }

    /// Builds the chart of results with limits, reference tools and, over threads, perfect scaling.
    fn rates(&self, lines: &[MetricLines<'_>], along: &XAxisParameter, run: &Run) -> Chart {
        let mut series = Vec::new();
        for line in lines {
            let own = line.points.iter().map(|(x, metric)| {
                let [low, high] = metric.summary.ci95.map_or([None, None], |ci| ci.map(Some));
                vec![Some(*x), Some(metric.summary.median), low, high]
            });
            series.push(ChartSeries::new(line.name.clone(), SeriesRole::Own, own.collect()));
            series.extend(line.delivered_series(|_, delivered| Some(delivered)));
            series.extend(line.tools(|_, median| Some(median)));
            series.extend(line.published.iter().map(|(name, points)| {
                ChartSeries::new(line.label(name), SeriesRole::Published, points.clone())
            }));
            let limit = |(x, m): &(f64, &MetricResult)| Some(vec![Some(*x), Some(m.limit.as_ref()?.value?)]);
            let limits: Vec<ChartPoint> = line.points.iter().filter_map(limit).collect();
            if !limits.is_empty() {
                series.push(ChartSeries::new(line.named("limit"), SeriesRole::Limit, limits));
            }
            if along.key.name == "threads" && line.points.len() >= 3 {
                series.extend(ideal(line));
            }
        }
        let unit = lines.iter().flat_map(|l| &l.points).map(|(_, m)| m.unit).next();
        let unit = unit.map_or("", |unit| unit.name());
        let longest = lines.iter().map(|l| l.points.len()).max().unwrap_or(0);
        // Latencies of caches and memory differ by two orders of magnitude.
        let x = along.x(if along.key.kind == case::ValueKind::Count { "" } else { "B" });
        let wide = unit == "s" && x.scale == AxisScale::Log || is_wide(&series);
        let mut chart = Chart {
            title: self.title(along),
            note: along.axis.note.to_owned(),
            x,
            y: ChartAxis::linear(self.metric, unit).scaled(wide),
            series,
            bands: if along.key.name == "size" { caches(&run.machine) } else { Vec::new() },
            ..Chart::default()
        };
        if longest <= 3 && along.axis.workers {
            // Bars start at zero, which a logarithmic axis lacks.
            as_places(&mut chart, if wide { ChartKind::Lines } else { ChartKind::Bars });
        }
        chart
    }

    /// Builds the chart of shares of the limit in percent, of tools, too; `None` without limits.
    fn shares(&self, lines: &[MetricLines<'_>], along: &XAxisParameter) -> Option<Chart> {
        let mut series = Vec::new();
        for line in lines {
            let of = |m: &MetricResult, value: f64| {
                let limit = m.limit.as_ref()?;
                Some(limit.share(value, limit.value?) * 100.0)
            };
            let share = |(x, m): &(f64, &MetricResult)| Some(vec![Some(*x), Some(m.rated_share()? * 100.0)]);
            let own: Vec<ChartPoint> = line.points.iter().filter_map(share).collect();
            if own.is_empty() {
                continue;
            }
            series.push(ChartSeries::new(line.name.clone(), SeriesRole::Own, own));
            series.extend(line.delivered_series(of));
            series.extend(line.tools(of));
        }
        let mut chart = Chart {
            title: format!("{}, share of limit", self.title(along)),
            note: "100 % is the limit, for rates and latencies alike".to_owned(),
            x: along.x(""),
            y: ChartAxis::linear("share of limit", "%"),
            series,
            ..Chart::default()
        };
        if lines.iter().all(|l| l.points.len() <= 3) {
            as_places(&mut chart, ChartKind::Bars);
        }
        (!chart.series.is_empty()).then_some(chart)
    }
}

/// Returns perfect scaling from the fewest threads, and with four thread counts a fit of the
/// universal scalability law. Empty for metrics of which lower is better.
fn ideal(line: &MetricLines<'_>) -> Vec<ChartSeries> {
    use plimsoll_bench::Better;
    use plimsoll_stats::{LoadPoint, Samples, Seed, Usl};
    let Some((first, metric)) = line.points.first().filter(|(_, m)| m.better == Better::Higher) else {
        return Vec::new();
    };
    let one = metric.summary.median / first;
    let mut series = vec![line.drawn("ideal", SeriesRole::Ideal, |n| one * n)];
    let load = |(x, m): &(f64, &MetricResult)| {
        Some(LoadPoint { threads: *x as u32, rates: Samples::new(m.samples.clone()).ok()? })
    };
    let loads: Vec<LoadPoint> = line.points.iter().filter_map(load).collect();
    if loads.len() >= 4
        && let Some(law) = Usl::fit(&loads, Seed::new(1, &line.name, &metric.name))
    {
        let (l, s, k) = (law.lambda.value, law.sigma.value, law.kappa.value);
        let at = |n: f64| l * n / (1.0 + s * (n - 1.0) + k * n * (n - 1.0));
        series.push(line.drawn("fitted", SeriesRole::Fit, at));
    }
    series
}

/// Returns whether all y values are positive, and the largest is over 20 times the smallest.
pub(super) fn is_wide(series: &[ChartSeries]) -> bool {
    let values = || series.iter().flat_map(|s| &s.points).filter_map(|p| p.get(1).copied().flatten());
    let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    least > 0.0 && most / least > MAX_LINEAR_RATIO
}

/// Sets the chart's kind, and replaces x values by equidistant positions with the values as labels.
pub(super) fn as_places(chart: &mut Chart, kind: ChartKind) {
    chart.kind = kind;
    let points = chart.series.iter_mut().flat_map(|s| &mut s.points);
    let mut xs: Vec<&mut Option<f64>> = points.filter_map(|p| p.first_mut()).collect();
    let places: BTreeSet<u64> = xs.iter().filter_map(|x| x.map(|x| x as u64)).collect();
    let index = |x: f64| places.iter().position(|p| *p == x as u64).map(|i| i as f64);
    xs.iter_mut().for_each(|x| **x = x.and_then(index));
    chart.x = ChartAxis::categories(&chart.x.name, places.iter().map(u64::to_string).collect());
}

/// Returns bands of a size axis in bytes: each data cache up to its size, above them `memory`.
fn caches(machine: &Machine) -> Vec<Band> {
    let data = machine.cpu.caches.iter().filter(|c| c.kind != CacheKind::Instruction);
    let sizes = data.filter_map(|c| Some((format!("L{}", c.level), c.size_bytes?)));
    let mut sizes: Vec<(String, u64)> = sizes.collect();
    sizes.sort_by_key(|(_, bytes)| *bytes);
    sizes.dedup_by(|a, b| a.0 == b.0);
    let mut from = None;
    let mut bands: Vec<Band> = Vec::new();
    for (name, bytes) in sizes {
        let to = Some(bytes as f64);
        bands.push(Band { name, from, to });
        from = to;
    }
    bands.extend(from.map(|_| Band { name: "memory".to_owned(), from, to: None }));
    bands
}
