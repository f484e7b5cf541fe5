//! Scaling with threads: speed-up, efficiency per step, fit of the universal scalability law.

use serde_json::{Value, json};

use plimsoll_bench::label::full;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::view::{Compared, PlainFinding, Topic, compare_threads, kind};
use plimsoll_model::warning::Warning;
use plimsoll_stats::{Coefficient, LoadPoint, Samples, Seed, Usl};
use plimsoll_units::quantity::percent;

/// Relative half-width of a speed-up above which the text shows its interval.
const VAGUE: f64 = 0.05;
const MAX_LISTED_CASES: usize = 6;

/// Returns one finding per kind of case with several thread counts: on the highest count that has a
/// CPU per thread, else on the highest.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    compare_threads(run).chunk_by(|a, b| std::ptr::eq(a.base, b.base)).filter_map(describe).collect()
}

/// Returns the finding for one kind of case. `steps` ascend in threads and have the same base.
fn describe(steps: &[Compared<'_>]) -> Option<PlainFinding> {
    let with_cpus: Vec<&Compared<'_>> = steps.iter().filter(|step| !crowded(step.this)).collect();
    let last = with_cpus.last().copied().or(steps.last())?;
    let Compared { base, this, scaling, between: [low, high] } = last;
    let rate = |m: &Measurement| m.headline().map(|metric| metric.summary.median);
    let each = |step: &Compared<'_>| {
        json!({
            "threads": step.scaling.threads, "rate": rate(step.this), "speed_up": step.scaling.speed_up,
            "efficiency": step.scaling.efficiency, "more_than_cpus": crowded(step.this),
        })
    };
    let law = law(base, &with_cpus);
    let coefficients = law.as_ref().map(|(usl, _)| coefficients(usl)).unwrap_or_default();
    let shared = if crowded(this) { ", more threads than CPUs" } else { "" };
    let text = format!("{}{}{shared}{coefficients}", sentence(last), efficiencies(&with_cpus));
    let evidence = json!({
        "cases": [base.case.id(), this.case.id()],
        "rates": [rate(base), rate(this)],
        "speed_up": scaling.speed_up,
        "efficiency": scaling.efficiency,
        "between": [low, high],
        "steps": steps.iter().map(each).collect::<Vec<Value>>(),
        "usl": law.map(|(usl, points)| describe_law(&usl, points)),
    });
    Some(PlainFinding { topic: Topic::Scaling, code: "scaling", text, evidence })
}

/// Returns whether there were more threads than CPUs.
fn crowded(measurement: &Measurement) -> bool {
    measurement.warns(Warning::CROWDED)
}

fn sentence(found: &Compared<'_>) -> String {
    let Compared { this, scaling, between: [low, high], .. } = found;
    let vague = (high - low) / 2.0 > VAGUE * scaling.speed_up;
    let range = if vague { format!(" ({low:.2} to {high:.2})") } else { String::new() };
    let times = format!("{:.2} ×{range}", scaling.speed_up);
    let from = match scaling.base_threads {
        1 => format!("on {} threads", scaling.threads),
        n => format!("from {n} to {} threads", scaling.threads),
    };
    let is_disturbed = found.base.delivered().or_else(|| this.delivered()).is_some();
    let undisturbed = if is_disturbed { " undisturbed" } else { "" };
    format!("{} scales {times} {from}{undisturbed}", full(&this.case.clone().with_count("threads", 1)))
}

/// Lists the efficiency at each thread count, if there are 2 to [`MAX_LISTED_CASES`]; else empty.
fn efficiencies(steps: &[&Compared<'_>]) -> String {
    if !(2..=MAX_LISTED_CASES).contains(&steps.len()) {
        return String::new();
    }
    let each =
        |step: &&Compared<'_>| format!("{} on {}", percent(step.scaling.efficiency, 2), step.scaling.threads);
    format!(" (efficiency {})", steps.iter().map(each).collect::<Vec<_>>().join(", "))
}

fn describe_law(usl: &Usl, points: usize) -> Value {
    let coefficient = |c: &Coefficient| json!({ "value": c.value, "ci95": c.ci95 });
    let Usl { lambda, sigma, kappa, misfit } = usl;
    json!({
        "lambda": coefficient(lambda), "sigma": coefficient(sigma), "kappa": coefficient(kappa),
        "misfit": misfit, "peak_threads": usl.peak_threads(), "points": points,
    })
}

/// Formats `. Universal scalability law: contention σ 4.0 % (…), coherency κ 0.20 % (…)`.
fn coefficients(usl: &Usl) -> String {
    let each = |c: &Coefficient| match c.ci95 {
        Some([low, high]) => format!("{} ({} to {})", percent(c.value, 2), percent(low, 2), percent(high, 2)),
        None => percent(c.value, 2),
    };
    let [contention, coherency] = [&usl.sigma, &usl.kappa].map(each);
    format!(". Universal scalability law: contention σ {contention}, coherency κ {coherency}")
}

/// Fits the universal scalability law and counts its points; `None` below four thread counts.
fn law(base: &Measurement, steps: &[&Compared<'_>]) -> Option<(Usl, usize)> {
    let measured = std::iter::once(base).chain(steps.iter().map(|step| step.this));
    let load = |m: &Measurement| {
        let rates = Samples::new(m.headline()?.samples.clone()).ok()?;
        Some(LoadPoint { threads: u32::try_from(m.case.threads()).ok()?, rates })
    };
    let loads: Vec<LoadPoint> = measured.filter_map(load).collect();
    Some((Usl::fit(&loads, Seed::new(0, &kind(base), "usl"))?, loads.len()))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::measurement::Status;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::{measured, peak, warned};
    use plimsoll_units::quantity::Unit;

    use super::*;

    fn texts(measurements: &[Measurement]) -> Vec<String> {
        find(measurements).into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn the_largest_thread_count_is_compared_with_one() {
        let found = find(&[peak(2, 198.0), peak(1, 100.0), peak(4, 300.0)]);
        assert_eq!(found.len(), 1);
        let text = "cpu fma f64 avx2 scales 3.00 × on 4 threads (efficiency 99 % on 2, 75 % on 4)";
        assert_eq!(found[0].text, text);
        assert_eq!(found[0].evidence["steps"][0]["efficiency"], 0.99);
        assert_eq!(found[0].evidence["usl"], Value::Null, "three thread counts are too few");
        assert_eq!(found[0].evidence["efficiency"], 0.75);
        assert_eq!(found[0].evidence["cases"][0], "cpu.peak/op=fma/type=f64/isa=avx2/threads=1");
    }

    #[test]
    fn each_kind_speaks_for_itself_and_a_missing_single_thread_is_said() {
        let read = |threads: u32, rate: f64| {
            let id = format!("memory.bandwidth/op=read/threads={threads}");
            measured(&id, Unit::BytePerSecond, Better::Higher, &[rate])
        };
        let found = texts(&[peak(1, 100.0), peak(2, 198.0), read(2, 20.0), read(8, 30.0)]);
        let cpu = "cpu fma f64 avx2 scales 1.98 × on 2 threads";
        assert_eq!(found, [cpu, "memory read scales 1.50 × from 2 to 8 threads"]);
    }

    #[test]
    fn a_figure_of_which_most_is_excluded_is_no_base_and_no_step() {
        let doubtful = |threads, rate| warned(peak(threads, rate), Warning::MOSTLY_EXCLUDED);
        assert!(texts(&[doubtful(1, 73.0), peak(2, 198.0)]).is_empty());
        let found = texts(&[doubtful(1, 73.0), peak(2, 198.0), peak(4, 396.0)]);
        assert_eq!(found, ["cpu fma f64 avx2 scales 2.00 × from 2 to 4 threads"]);
        let found = texts(&[peak(1, 100.0), peak(2, 198.0), doubtful(4, 500.0)]);
        assert_eq!(found, ["cpu fma f64 avx2 scales 1.98 × on 2 threads"]);
    }

    #[test]
    fn a_vague_speed_up_is_told_with_its_interval() {
        let noisy: Vec<f64> = (0..10).map(|i| 100.0 + 10.0 * f64::from(i)).collect();
        let id = "cpu.peak/op=fma/type=f64/isa=avx2/threads=2";
        let two = measured(id, Unit::FlopPerSecond, Better::Higher, &noisy);
        let found = texts(&[peak(1, 100.0), two]);
        assert!(found[0].contains("scales 1.45 × (1."), "{found:?}");
    }

    #[test]
    fn it_is_silent_about_latencies_failures_and_single_points() {
        let chase = |threads: u32| {
            measured(&format!("memory.latency/threads={threads}"), Unit::Second, Better::Lower, &[1e-7])
        };
        let invalid = Measurement { status: Status::Invalid, ..peak(2, 1e6) };
        assert!(texts(&[chase(1), chase(2), peak(1, 100.0), invalid]).is_empty());
        let elsewhere = Measurement { node: "there".to_owned(), ..peak(2, 198.0) };
        assert!(texts(&[peak(1, 100.0), elsewhere]).is_empty());
    }

    fn following(threads: &[u32]) -> Vec<Measurement> {
        let rate = |n: f64| 100.0 * n / (1.0 + 0.04 * (n - 1.0) + 0.002 * n * (n - 1.0));
        threads.iter().map(|&n| peak(n, rate(f64::from(n)))).collect()
    }

    #[test]
    fn four_thread_counts_give_the_coefficients_of_the_law() {
        let found = find(&following(&[1, 2, 4, 8]));
        let usl = &found[0].evidence["usl"];
        let near = |name: &str, value: f64| (usl[name]["value"].as_f64().unwrap() / value - 1.0).abs() < 0.01;
        assert!(near("lambda", 100.0) && near("sigma", 0.04) && near("kappa", 0.002), "{usl}");
        let [low, high] = [0, 1].map(|end| usl["sigma"]["ci95"][end].as_f64().unwrap());
        assert!(low < 0.04 && 0.04 < high && high < 0.06, "{usl}");
        assert_eq!(usl["points"], 4);
        let law = ". Universal scalability law: contention σ 4.0 % (";
        assert!(found[0].text.contains(law), "{}", found[0].text);
        assert!((usl["peak_threads"].as_f64().unwrap() - 21.9).abs() < 0.5);
    }

    #[test]
    fn threads_without_a_cpu_of_their_own_are_labelled_and_left_out_of_the_law() {
        let crowd = || warned(peak(8, 200.0), "more-threads-than-cpus");
        let mut all = following(&[1, 2, 4]);
        all.push(crowd());
        let found = find(&all);
        assert!(found[0].text.contains(" on 4 threads ("), "{}", found[0].text);
        assert_eq!(found[0].evidence["usl"], Value::Null);
        assert_eq!(found[0].evidence["steps"][2]["more_than_cpus"], true);
        let only = texts(&[peak(1, 100.0), crowd()]);
        assert!(only[0].ends_with("scales 2.00 × on 8 threads, more threads than CPUs"), "{only:?}");
    }
}
