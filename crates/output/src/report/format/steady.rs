//! Verdicts of `plimsoll steady` for people and for other programs. Pure functions.

use plimsoll_stats::{Samples, Seed, median_interval};
use plimsoll_steady::{MarkedFile, ObservedRun, SteadyAnswer, SteadyDocument};
use plimsoll_units::text::shown;
use serde_json::{Value, json, to_string_pretty};

/// Formats the result of `plimsoll steady` as `text`, `bmf` (Bencher), `github`
/// (github-action-benchmark, `customSmallerIsBetter`), or otherwise as JSON.
pub fn text(document: &SteadyDocument, format: &str) -> String {
    let json = |value: &Value| to_string_pretty(value).unwrap_or_default() + "\n";
    match format {
        "text" => for_people(document),
        "bmf" => json(&bmf(document)),
        "github" => json(&github(document)),
        _ => to_string_pretty(document).unwrap_or_default() + "\n",
    }
}

fn for_people(document: &SteadyDocument) -> String {
    let results: String = document.results.iter().map(marks).collect();
    format!("plimsoll: {}\n", shown(&document.line)) + &repetitions(document) + &results
}

/// Formats how many samples in a result file of a tool were disturbed, or why that is unknown.
fn marks(file: &MarkedFile) -> String {
    let samples = file.results.iter().map(|one| one.samples).fold(0, usize::saturating_add);
    let disturbed: usize = file.results.iter().flat_map(|one| &one.disturbed).map(Vec::len).sum();
    let found = format!("{disturbed} of {samples} samples fell into a disturbance");
    let text = match (&file.tool, file.why.as_deref()) {
        (Some(tool), None) => format!("{tool}: {found}"),
        (Some(tool), Some(why)) if disturbed == 0 => {
            format!("{tool}: which of {samples} samples fell into a disturbance is unknown: {why}")
        }
        (Some(tool), Some(why)) => format!("{tool}: at least {found}; {why}"),
        (None, why) => format!("not marked: {}", why.unwrap_or_default()),
    };
    format!("plimsoll: {}: {}\n", shown(&file.file), shown(&text))
}

/// Formats the median of times in seconds, its 95 % confidence interval, and the number of runs.
fn median_text(times: Vec<f64>) -> String {
    let runs = plimsoll_units::text::format_count(times.len(), "run");
    let Ok(samples) = Samples::new(times) else { return "no run".to_owned() };
    let interval = median_interval(&samples, Seed::new(1, "steady", "wall"));
    let interval = interval.map_or_else(String::new, |[low, high]| format!("  [{low:.4}, {high:.4}]"));
    format!("{:.4} s{interval}  {runs}", samples.median())
}

/// Formats a line per repetition, then medians of the undisturbed ones and of all; empty for one.
fn repetitions(document: &SteadyDocument) -> String {
    if document.runs.len() < 2 {
        return String::new();
    }
    let times = |is_counted: fn(&&ObservedRun) -> bool| -> Vec<f64> {
        document.runs.iter().filter(is_counted).map(|run| run.elapsed_s).collect()
    };
    let mut out = String::new();
    for (index, run) in document.runs.iter().enumerate() {
        let line = shown(&run.verdict.line);
        out += &format!("  {:>4}  {:>10.4} s  {line}\n", index + 1, run.elapsed_s);
    }
    out +=
        &format!("  steady  {}\n", median_text(times(|run| run.verdict.answer == SteadyAnswer::HeldStill)));
    out + &format!("  all     {}\n", median_text(times(|_| true)))
}

fn name(document: &SteadyDocument) -> String {
    plimsoll_units::text::shown_within(&document.command.join(" "), 1000)
}

/// Returns mean, shortest and longest wall time of the runs in seconds.
fn wall_time(document: &SteadyDocument) -> [f64; 3] {
    let times = || document.runs.iter().map(|run| run.elapsed_s);
    let mean = times().sum::<f64>() / document.runs.len().max(1) as f64;
    [mean, times().fold(mean, f64::min), times().fold(mean, f64::max)]
}

fn bmf(document: &SteadyDocument) -> Value {
    let [mean, least, most] = wall_time(document);
    json!({ (name(document)): {
        "wall-time-seconds": { "value": mean, "lower_value": least, "upper_value": most },
        "disturbed-share": { "value": document.share },
    } })
}

fn github(document: &SteadyDocument) -> Value {
    let [mean, least, most] = wall_time(document);
    json!([{
        "name": name(document),
        "unit": "s",
        "value": mean,
        "range": format!("{least} … {most}"),
        "extra": format!("{}\ntestbed: {}", document.line, document.testbed),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_steady::MarkedResult;

    #[test]
    fn samples_of_a_file_are_counted_together() {
        for (counts, samples) in [([2, 3], 5), ([usize::MAX, usize::MAX], usize::MAX)] {
            let result = |samples| MarkedResult { name: "a".to_owned(), samples, disturbed: Some(vec![1]) };
            let results = counts.map(result).to_vec();
            let file = MarkedFile { file: "f".to_owned(), tool: Some("t".to_owned()), why: None, results };
            let document = SteadyDocument { results: vec![file], ..SteadyDocument::default() };
            let found = format!("plimsoll: f: t: 2 of {samples} samples fell into a disturbance\n");
            assert!(text(&document, "text").ends_with(&found), "{samples}");
        }
    }
}
