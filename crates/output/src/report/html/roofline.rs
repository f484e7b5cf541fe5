//! Roofline chart from measured peaks, with each case of arithmetic or memory bandwidth.

use plimsoll_bench::Roofline;
use plimsoll_model::case::Case;

use plimsoll_result::document::Run;
use plimsoll_units::quantity::Unit;

use super::alike::short_names;
use super::data::{Chart, ChartAxis, ChartSeries, SeriesRole};
use super::gauge::own_limit;

/// Left edge, in operations per byte; also for cases that only move data.
const FROM: f64 = 1.0 / 64.0;
/// Least right edge, in operations per byte; also for cases in registers.
const TO: f64 = 256.0;

/// Builds the roofline chart of a run and returns it with the name of the subsystem that shows it;
/// `None` unless the run has results of both arithmetic and bandwidth.
pub(super) fn roofline(run: &Run) -> Option<(&str, Chart)> {
    let (mut computes, mut moves) = (Vec::new(), Vec::new());
    let (mut peaks, mut bandwidths) = (Vec::new(), Vec::new());
    for (measurement, metric) in run.measurements.iter().filter_map(|m| Some((m, m.headline()?))) {
        let case = &measurement.case;
        let limit = |unit: Unit| own_limit(metric).filter(|_| metric.unit == unit);
        let rate = metric.summary.median;
        match plimsoll_bench::find(case.benchmark()).map(|one| one.roofline(case)) {
            Some(Roofline::Computes(intensity)) => {
                let counts = matches!(metric.unit, Unit::FlopPerSecond | Unit::OpPerSecond);
                computes.extend((counts && rate > 0.0).then_some((case, intensity, rate)));
                peaks.extend(limit(Unit::FlopPerSecond));
            }
            Some(Roofline::Moves { intensity, area }) => {
                let counts = metric.unit == Unit::BytePerSecond && rate > 0.0;
                moves.extend(counts.then_some((case, intensity.unwrap_or(FROM), area, rate)));
                bandwidths.extend(limit(Unit::BytePerSecond));
            }
            Some(Roofline::No) | None => {}
        }
    }
    let peak = computes.iter().map(|(.., rate)| *rate).reduce(f64::max)?;
    // Working sets of at least a quarter of the largest are in memory.
    let largest = moves.iter().filter_map(|(_, _, area, _)| *area).max()?;
    let streamed = moves.iter().filter(|(_, _, area, _)| area.is_some_and(|bytes| bytes >= largest / 4));
    let bandwidth = streamed.map(|(.., bandwidth)| *bandwidth).reduce(f64::max)?;
    let part = computes.first()?.0.subsystem();
    let furthest = computes.iter().filter_map(|(_, intensity, _)| *intensity).fold(TO / 2.0, f64::max);
    let to = 2.0 * furthest;
    let mut series = vec![roof("roof: the best of this run", SeriesRole::Limit, bandwidth, peak, to)];
    let [peak, bandwidth] = [peaks, bandwidths].map(|limits| limits.into_iter().reduce(f64::max));
    if let Some((peak, bandwidth)) = peak.zip(bandwidth) {
        series.push(roof("limits of arithmetic and memory", SeriesRole::Ideal, bandwidth, peak, to));
    }
    let moved = moves.iter().map(|(case, x, _, bandwidth)| (*case, Some(*x), x * bandwidth));
    let placed: Vec<(&Case, Option<f64>, f64)> = moved.chain(computes).collect();
    let cases: Vec<&Case> = placed.iter().map(|(case, ..)| *case).collect();
    for ((_, intensity, rate), name) in placed.iter().zip(short_names(&cases)) {
        let at = intensity.map_or(to, |x| x.clamp(FROM, to));
        series.push(ChartSeries::new(name, SeriesRole::Own, vec![vec![Some(at), Some(*rate)]]));
    }
    let chart = Chart {
        id: "roofline".to_owned(),
        title: "Roofline".to_owned(),
        note: "what this run measured; at the left edge kernels that move bytes and compute nothing, each at its own bandwidth; at the right edge those that stay in registers (whole numbers: OP/s)".to_owned(),
        x: ChartAxis::log("operations for each byte moved", ""),
        y: ChartAxis::log("rate", "FLOP/s"),
        series,
        ..Chart::default()
    };
    Some((part, chart))
}

fn roof(name: &str, role: SeriesRole, bandwidth: f64, peak: f64, to: f64) -> ChartSeries {
    let ridge = (peak / bandwidth).clamp(FROM, to);
    let points = [(FROM, FROM * bandwidth), (ridge, (ridge * bandwidth).min(peak)), (to, peak)];
    ChartSeries::new(name, role, points.map(|(x, y)| vec![Some(x), Some(y)]).to_vec())
}

#[cfg(test)]
mod tests {
    use plimsoll_model::measurement::Measurement;
    use plimsoll_result::fixture;

    use super::*;

    fn made(id: &str, unit: Unit, value: f64) -> Measurement {
        fixture::measured(id, "value", unit, value)
    }

    fn place(chart: &Chart, ending: &str) -> [f64; 2] {
        let series = chart.series.iter().find(|s| s.name.contains(ending)).expect(ending);
        [series.points[0][0].unwrap(), series.points[0][1].unwrap()]
    }

    #[test]
    fn every_case_of_arithmetic_and_every_stream_has_a_place() {
        let run = fixture::run_of(vec![
            made("cpu.peak/op=fma/type=f64/isa=avx2/threads=2", Unit::FlopPerSecond, 1e11),
            made("cpu.gemm/type=f64/n=1200/threads=2", Unit::FlopPerSecond, 8e10),
            made("cpu.linpack/n=2400/threads=2", Unit::FlopPerSecond, 7e10),
            made("memory.bandwidth/op=triad/size=512M/threads=2", Unit::BytePerSecond, 4e10),
            made("memory.bandwidth/op=read/size=512M/threads=2", Unit::BytePerSecond, 5e10),
            made("memory.bandwidth/op=read/size=16K/threads=2", Unit::BytePerSecond, 4e11),
            made("memory.latency/size=512M/pages=thp", Unit::Second, 1e-7),
            made("disk.io/op=read/block=4K", Unit::BytePerSecond, 1e9),
        ]);
        let (part, chart) = roofline(&run).unwrap();
        assert_eq!(part, "cpu");
        let count = 1 + run.measurements.len() - 2;
        assert_eq!(chart.series.len(), count, "a roof, and all but the disk and the chain of loads");
        assert_eq!(chart.series[0].points[1], [Some(2.0), Some(1e11)], "the knee is peak over bandwidth");
        assert_eq!(place(&chart, "fma"), [256.0, 1e11]);
        assert_eq!(place(&chart, "n 1200"), [100.0, 8e10]);
        assert_eq!(place(&chart, "n 2400"), [100.0, 7e10]);
        let [x, y] = place(&chart, "triad");
        assert!((x - 1.0 / 12.0).abs() < 1e-12 && (y - 4e10 / 12.0).abs() < 1.0);
        let [x, y] = place(&chart, "read 16 KiB");
        assert!(x == FROM && (y / FROM - 4e11).abs() < 1.0, "{y}");
    }

    #[test]
    fn without_memory_or_arithmetic_there_is_none() {
        let peak = made("cpu.peak/op=fma/type=f64/isa=avx2/threads=2", Unit::FlopPerSecond, 1e11);
        assert!(roofline(&fixture::run_of(vec![peak])).is_none());
        assert!(roofline(&fixture::run_of(Vec::new())).is_none());
    }
}
