//! Charts of a run: sweeps, single measurements, roofline and reference tools.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::Machine;
use plimsoll_machine::cpu::CacheKind;
use plimsoll_model::case::{self, ALL_PAIRS, AT_ONCE, AT_ONCE_BACK, Case, KEYS, Key, Value};
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_model::words::{human, is_usual};
use plimsoll_result::document::Run;

use super::data::{
    AxisScale, Band, Chart, ChartAxis, ChartKind, ChartPoint, ChartSeries, SeriesRole, number,
};
use super::stated::StatedCases;
use super::{PUBLISHED, ReferenceFigure};
use crate::report::{grouped, listed};

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
        let bytes = case.size().filter(|_| counts)?.checked_mul(case.threads() as u64)?;
        Some(format!("size {} in all", human(&Value::Size(bytes))))
    }

    /// Groups metrics that share a chart along this axis: same metric, benchmark and other
    /// parameters. `in_all`: cases with equal total sizes, not sizes per thread, belong together.
    fn facets<'a>(&self, all: &[ChartedMetric<'a>], in_all: bool, stated: &StatedCases) -> Vec<Facet<'a>> {
        let keyed = |&(measurement, metric): &ChartedMetric<'a>| {
            let case = &measurement.case;
            case.number(self.key.name)?;
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
            // The operation (`stream of bytes`) that a benchmark shares with another, if any.
            let common = plimsoll_bench::find(case.benchmark()).and_then(|of| of.descriptor().common);
            let key = (common.unwrap_or(case.benchmark()), metric.name.as_str(), shared);
            Some((key, (fixed, (measurement, metric))))
        };
        let facets = grouped(all.iter().filter_map(keyed)).into_iter().map(|((_, metric, _), found)| {
            let (mut fixed, all): (Vec<Vec<String>>, Vec<ChartedMetric<'a>>) = found.into_iter().unzip();
            let mut first = fixed.swap_remove(0);
            first.retain(|text| fixed.iter().all(|other| other.contains(text)));
            Facet { along: *self, metric, fixed: first, all }
        });
        facets.collect()
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
                match facet.charts(run, references) {
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
    along: XAxisParameter,
    metric: &'a str,
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

/// Name of the only line of a chart.
const OWN: &str = "median";

/// Result with its position on the x axis.
type LinePoint<'a> = (f64, &'a Measurement, &'a MetricResult);

/// Function that turns a value of a metric into a y value; `None` if the chart has none for it.
type AxisMapping = fn(&MetricResult, f64) -> Option<f64>;

struct MetricLines<'a> {
    name: String,
    points: Vec<LinePoint<'a>>,
}

impl MetricLines<'_> {
    /// Returns a series called `LINE word` with the y value that `y` returns for each point.
    fn drawn(&self, word: &str, role: SeriesRole, y: impl Fn(&LinePoint<'_>) -> Option<f64>) -> ChartSeries {
        let point = |of: &LinePoint<'_>| Some(vec![Some(of.0), Some(y(of)?)]);
        ChartSeries::new(self.named(word), role, self.points.iter().filter_map(point).collect())
    }

    /// Returns the series of delivered values (interruptions included) if they differ.
    fn delivered(&self, height: AxisMapping) -> ChartSeries {
        self.drawn("delivered", SeriesRole::Delivered, |(_, measurement, metric)| {
            let is_headline = measurement.metrics.first().is_some_and(|first| first.name == metric.name);
            height(metric, measurement.delivered().filter(|_| is_headline)?.value)
        })
    }

    /// Returns a series per reference tool and per published report in `references`.
    fn others(&self, references: &[ReferenceFigure], height: AxisMapping) -> Vec<ChartSeries> {
        let mut found: BTreeMap<(SeriesRole, &str), Vec<ChartPoint>> = BTreeMap::new();
        for &(x, measurement, metric) in &self.points {
            let tools = metric.tool_results.iter();
            let tools = tools.filter_map(|of| Some((SeriesRole::Tool, of.tool.as_str(), of.median?)));
            let same = references.iter().filter(|r| r.class == PUBLISHED && r.is_of(measurement, metric));
            let published = same.map(|r| (SeriesRole::Published, r.name.as_str(), r.value));
            for (role, name, value) in tools.chain(published) {
                let point = height(metric, value).map(|y| vec![Some(x), Some(y)]);
                found.entry((role, name)).or_default().extend(point);
            }
        }
        let series = |((role, name), points)| ChartSeries::new(self.label(name), role, points);
        found.into_iter().map(series).collect()
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

impl<'a> Facet<'a> {
    fn charts(&self, run: &Run, references: &[ReferenceFigure]) -> Vec<Chart> {
        let lines = self.lines();
        let places: BTreeSet<u64> = lines.iter().flat_map(|l| &l.points).map(|(x, ..)| x.to_bits()).collect();
        let longest = lines.iter().map(|l| l.points.len()).max().unwrap_or(0);
        if places.len() < 2 || longest < 2 || (!self.along.axis.workers && longest < 3) {
            return Vec::new();
        }
        let shares = self.shares(&lines).filter(|_| self.along.axis.workers);
        let mut charts = vec![self.rates(&lines, run, references)];
        charts.extend(shares);
        for chart in &mut charts {
            chart.series.retain(|one| !one.points.is_empty());
            if longest <= 3 && self.along.axis.workers {
                // Bars start at zero, which a logarithmic axis lacks.
                let is_log = chart.y.scale == AxisScale::Log;
                as_places(chart, if is_log { ChartKind::Lines } else { ChartKind::Bars });
            }
        }
        charts
    }

    /// Returns a line of results over the axis per combination of parameters that share a chart.
    fn lines(&self) -> Vec<MetricLines<'a>> {
        let is_overlaid = |key: &&Key| key.overlaid && key.name != self.along.key.name;
        let differs = |key: &&Key| is_overlaid(key) && self.values(key.name).len() > 1;
        let varying: Vec<&Key> = KEYS.iter().filter(differs).collect();
        let several = self.benchmarks().len() > 1;
        let point = |&(measurement, metric): &ChartedMetric<'a>| {
            let x = measurement.case.number(self.along.key.name)? as f64;
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
            let name = listed(by.chain(varying.iter().filter_map(named)), " ");
            let name = name.unwrap_or_else(|| OWN.to_owned());
            Some((name, (x, measurement, metric)))
        };
        let line = |(name, mut points): (String, Vec<LinePoint<'a>>)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            MetricLines { name, points }
        };
        grouped(self.all.iter().filter_map(point)).into_iter().map(line).collect()
    }

    fn benchmarks(&self) -> BTreeSet<&str> {
        self.all.iter().map(|(m, _)| m.case.benchmark()).collect()
    }

    /// Returns the distinct values of parameter `key` as text; a missing value is an empty text.
    fn values(&self, key: &str) -> BTreeSet<String> {
        let values = self.all.iter().map(|(m, _)| m.case.get(key));
        values.map(|value| value.map(ToString::to_string).unwrap_or_default()).collect()
    }

    fn title(&self) -> String {
        let of = self.benchmarks().into_iter().collect::<Vec<_>>().join(", ");
        let titled = KEYS.iter().filter(|key| key.titled).map(|key| self.values(key.name));
        let work = titled.filter(|values| values.len() == 1).flatten();
        let stated = work.chain([self.fixed.join(" · ")]).filter(|text| !text.is_empty());
        let stated: String = stated.map(|text| format!(" · {text}")).collect();
        let is_named = of.ends_with(&format!(".{}", self.metric));
        let metric = if is_named { "" } else { &format!(" {}", self.metric) };
        format!("{of}{metric} by {}{stated}", self.along.axis.name)
    }

    /// Builds the chart of results with limits, reference tools and, over threads, perfect scaling.
    fn rates(&self, lines: &[MetricLines<'_>], run: &Run, references: &[ReferenceFigure]) -> Chart {
        let mut series = Vec::new();
        for line in lines {
            let own = line.points.iter().map(|(x, _, metric)| {
                let [low, high] = metric.summary.ci95.map_or([None, None], |ci| ci.map(Some));
                vec![Some(*x), Some(metric.summary.median), low, high]
            });
            series.push(ChartSeries::new(line.name.clone(), SeriesRole::Own, own.collect()));
            series.push(line.delivered(|_, delivered| Some(delivered)));
            series.extend(line.others(references, |_, value| Some(value)));
            series.push(line.drawn("limit", SeriesRole::Limit, |(.., metric)| metric.limit.as_ref()?.value));
            if self.along.key.name == "threads" && line.points.len() >= 3 {
                series.extend(ideal(line));
            }
        }
        let unit = self.all.first().map_or("", |(_, metric)| metric.unit.name());
        // Latencies of caches and memory differ by two orders of magnitude.
        let x = self.along.x(if self.along.key.kind == case::ValueKind::Count { "" } else { "B" });
        let wide = unit == "s" && x.scale == AxisScale::Log || is_wide(&series);
        Chart {
            title: self.title(),
            note: self.along.axis.note.to_owned(),
            x,
            y: ChartAxis::linear(self.metric, unit).scaled(wide),
            series,
            bands: if self.along.key.name == "size" { caches(&run.machine) } else { Vec::new() },
            ..Chart::default()
        }
    }

    /// Builds the chart of shares of the limit in percent, of tools, too; `None` without limits.
    fn shares(&self, lines: &[MetricLines<'_>]) -> Option<Chart> {
        let mut series = Vec::new();
        for line in lines {
            let of = |m: &MetricResult, value: f64| {
                let limit = m.limit.as_ref()?;
                Some(limit.share(value, limit.value?) * 100.0)
            };
            let share = |(.., metric): &LinePoint<'_>| Some(metric.rated_share()? * 100.0);
            let own = ChartSeries { name: line.name.clone(), ..line.drawn(OWN, SeriesRole::Own, share) };
            if own.points.is_empty() {
                continue;
            }
            series.extend([own, line.delivered(of)]);
            series.extend(line.others(&[], of));
        }
        (!series.is_empty()).then(|| Chart {
            title: format!("{}, share of limit", self.title()),
            note: "100 % is the limit, for rates and latencies alike".to_owned(),
            x: self.along.x(""),
            y: ChartAxis::linear("share of limit", "%"),
            series,
            ..Chart::default()
        })
    }
}

/// Returns perfect scaling from the fewest threads, and with four thread counts a fit of the
/// universal scalability law. Empty for metrics of which lower is better.
fn ideal(line: &MetricLines<'_>) -> Vec<ChartSeries> {
    use plimsoll_bench::Better;
    use plimsoll_stats::{LoadPoint, Samples, Seed, Usl};
    let Some((first, _, metric)) = line.points.first().filter(|(.., m)| m.better == Better::Higher) else {
        return Vec::new();
    };
    let one = metric.summary.median / first;
    let mut series = vec![line.drawn("ideal", SeriesRole::Ideal, |(n, ..)| Some(one * n))];
    let load = |(x, _, m): &LinePoint<'_>| {
        Some(LoadPoint { threads: *x as u32, rates: Samples::new(m.samples.clone()).ok()? })
    };
    let loads: Vec<LoadPoint> = line.points.iter().filter_map(load).collect();
    if loads.len() >= 4
        && let Some(law) = Usl::fit(&loads, Seed::new(1, &line.name, &metric.name))
    {
        let (l, s, k) = (law.lambda.value, law.sigma.value, law.kappa.value);
        let at = |n: f64| l * n / (1.0 + s * (n - 1.0) + k * n * (n - 1.0));
        series.push(line.drawn("fitted", SeriesRole::Fit, |(n, ..)| Some(at(*n))));
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
    let memory = sizes.last().map(|_| ("memory".to_owned(), None));
    let sizes = sizes.into_iter().map(|(name, bytes)| (name, Some(bytes as f64)));
    let mut from = None;
    let band = |(name, to)| Band { name, from: std::mem::replace(&mut from, to), to };
    sizes.chain(memory).map(band).collect()
}
