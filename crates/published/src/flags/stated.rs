//! Rules for figures that follow from others of the same report: means, deviations, shares, limits, and what the prose repeats.

use super::{Impossible, InNoTable, NotComparable, Report, Rule, THROUGHPUT};
use crate::quantity::Unit;
use crate::{Figure, TIME};

/// Rules for what a report computes from its figures, or repeats in its prose.
pub(super) const STATED: &[Rule] = &[
    ("mean", Impossible, mean_of_samples),
    ("peak", Impossible, peak_of_samples),
    ("deviation", Impossible, deviation_of_samples),
    ("misread", Impossible, misread),
    ("iperf-time", Impossible, iperf_time),
    ("limit-passed", NotComparable, limit_passed),
    ("efficiency", Impossible, efficiency),
    ("prose", InNoTable, prose),
];

/// A mean that is not that of its samples, within half a percent and its rounding.
fn mean_of_samples(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if figure.statistic != "mean" {
        return None;
    }
    let samples = report.samples(figure);
    let values: Vec<f64> = samples.iter().filter_map(|f| f.printed()).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let misread = samples.iter().any(|sample| misread(report, sample).is_some());
    (!misread && (figure.printed()? - mean).abs() > 0.005 * mean.abs() + figure.rounding())
        .then_some("not the mean of its samples")
}

/// A best that is not the best of its samples.
fn peak_of_samples(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if figure.statistic != "peak" || figure.metric != THROUGHPUT {
        return None;
    }
    let samples = report.samples(figure);
    let best = samples.iter().filter_map(|f| f.printed()).fold(0.0, f64::max);
    let misread = samples.iter().any(|sample| misread(report, sample).is_some());
    (best > 0.0 && !misread && (figure.printed()? - best).abs() > 0.001 * best)
        .then_some("not the best of its samples")
}

/// A standard deviation that is more than a tenth off that of its samples, and their rounding.
fn deviation_of_samples(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if figure.statistic != "stdev" {
        return None;
    }
    let samples = report.samples(figure);
    let values: Vec<f64> = samples.iter().filter_map(|f| f.printed()).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    let rounding = samples.iter().map(|f| 2.0 * f.rounding()).fold(figure.rounding(), f64::max);
    let (printed, room) = (figure.printed()?, 0.1 * deviation + rounding);
    (values.len() > 1 && (printed - deviation).abs() > room)
        .then_some("not the standard deviation of its samples")
}

/// A rate of LINPACK that its size and time contradict, beyond the rounding of the time.
fn misread(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if figure.operation != "linpack-solve" || figure.metric != THROUGHPUT || figure.statistic != "single" {
        return None;
    }
    let time = report.beside(figure, TIME)?;
    let n: f64 = figure.pattern.strip_prefix("n=")?.split(';').next()?.parse().ok()?;
    let operations = 2.0 / 3.0 * n.powi(3) + 2.0 * n.powi(2);
    let seconds = time.printed()?;
    let off = (figure.base_value()? * seconds / operations - 1.0).abs();
    (off > 0.002 + time.rounding() / seconds).then_some("not what its size and time give: a digit is misread")
}

/// An amount or rate of iperf whose quotient is no whole number of seconds, which its tests last and its lines cover, within
/// a thousandth and their rounding.
fn iperf_time(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    const OF_A_LINE: [&str; 2] = ["transfer", THROUGHPUT];
    if figure.source != "iperf" || !OF_A_LINE.contains(&figure.metric) {
        return None;
    }
    let other = OF_A_LINE.into_iter().find(|metric| *metric != figure.metric)?;
    let pair = [figure, report.beside(figure, other)?];
    let [amount, rate] = OF_A_LINE.map(|metric| pair.iter().find(|f| f.metric == metric)?.bits());
    let seconds = amount? / rate?;
    let rounding: f64 = pair.iter().filter_map(|f| Some(f.rounding() / f.printed()?)).sum();
    let off = (seconds - seconds.round()).abs();
    (seconds.is_finite() && off > (rounding + 0.001) * seconds)
        .then_some("transfer ÷ rate is no whole number of seconds, as iperf's tests last: a digit is misread")
}

/// A limit that a figure passes which breaks no rule itself, in any row with the same limit.
fn limit_passed(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_theory() || figure.pattern == "headline" {
        return None;
    }
    let (limit, unit) = figure.base?;
    let same =
        |f: &&Figure| f.is_theory() && f.is_of(figure.subsystem, figure.metric) && f.value == figure.value;
    let mut rows = report.figures.iter().filter(same);
    let passes = |f: &Figure| {
        let value = f.base_value().filter(|_| f.doubt.is_none() && f.is_point() && !f.is_theory());
        let is_past = |value: f64| if unit == Unit::Second { value < limit } else { value > limit };
        value.is_some_and(is_past)
    };
    rows.any(|row| report.figures.iter().any(|f| f.metric == row.metric && f.is_beside(row) && passes(f)))
        .then_some("passed by a figure of the report that breaks no rule: a limit of something else")
}

/// A share that no figure of its row gives, within half a percent and a unit of its last digit.
fn efficiency(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_share() || figure.unit != "%" {
        return None;
    }
    let printed = figure.printed()?;
    let own = figure.source == "efficiency-own";
    let of = |f: &&Figure| f.metric == figure.metric && f.is_beside_or_stated(figure);
    let values = |wanted: &dyn Fn(&Figure) -> bool| -> Vec<f64> {
        report.figures.iter().filter(of).filter(|f| wanted(f)).filter_map(Figure::base_value).collect()
    };
    let measured = values(&|f| if own { f.source == "own" } else { f.is_reference() });
    let limits = values(&|f| f.is_theory() || own && f.is_reference());
    let mut shares =
        measured.iter().flat_map(|m| limits.iter().map(move |limit| 100.0 * m / limit)).peekable();
    shares.peek()?;
    let fits = |share: f64| (share - printed).abs() <= 0.005 * share + 2.0 * figure.rounding();
    (!shares.any(fits)).then_some("not the share that the report's own figures give")
}

/// A number of the prose that is in no table, within the rounding of the prose. iperf is in no table, its screen is none.
fn prose(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    let stated = figure.pattern == "headline" && !figure.is_theory() && !figure.is_share();
    if !stated || figure.metric != THROUGHPUT || figure.source == "iperf" {
        return None;
    }
    let value = figure.base_value()?;
    let factor = value / figure.printed()?;
    let mut table = report
        .figures
        .iter()
        .filter(|f| f.is_of(figure.subsystem, figure.metric) && f.pattern != "headline")
        .filter(|f| f.source == figure.source && f.in_the_same_table(figure))
        .filter_map(Figure::base_value)
        .peekable();
    table.peek()?;
    let same = |other: f64| (other - value).abs() <= 1.001 * figure.rounding() * factor;
    (!table.any(same)).then_some("only the text of the report has it")
}

impl Figure {
    /// Bits of an amount, or bits a second of a rate, as iperf prints them: of bits the thousands are decimal, of bytes
    /// binary.
    fn bits(&self) -> Option<f64> {
        let unit = self.unit.to_ascii_lowercase();
        let power = match unit.chars().next()? {
            'g' => 3,
            'm' => 2,
            'k' => 1,
            _ => return None,
        };
        let one = if unit.contains("bit") { 1000_f64.powi(power) } else { 8.0 * 1024_f64.powi(power) };
        Some(self.printed()? * one).filter(|bits| *bits > 0.0)
    }

    /// Of the same row, or said of the same subsystem in the prose.
    fn is_beside_or_stated(&self, other: &Self) -> bool {
        let stated = self.pattern == "headline" && other.pattern == "headline";
        self.is_beside(other)
            || stated && self.subsystem == other.subsystem && self.operation == other.operation
    }

    /// Whether it is of the operation that a number of the prose is about.
    fn in_the_same_table(&self, stated: &Self) -> bool {
        let message = stated.bytes.is_empty() || stated.bytes == self.bytes;
        let solved = stated.source == "linpack";
        message && (solved || self.operation == stated.operation)
    }
}
