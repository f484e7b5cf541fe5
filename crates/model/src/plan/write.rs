//! Writes plans as plan files; [`super::file::parse`] returns the same plan.

use std::fmt::Write as _;

use plimsoll_units::quantity::format_duration;

use super::file::PlanFile;
use super::{Exclude, Group, SamplingOptions};
use crate::case::Value;

/// Returns the plan as the text of a plan file.
pub fn text(plan: &PlanFile) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    };
    line("name", plan.name.as_deref().map(quoted));
    line("note", plan.note.as_deref().map(quoted));
    for (key, value) in how(&plan.how) {
        line(key, Some(value));
    }
    line("margin", plan.margin.map(|share| format!("{share:?}")));
    line("repeat", plan.repeat.map(|n| n.to_string()));
    line("scale", plan.scale.map(|scale| format!("{scale:?}")));
    line("seed", plan.seed.map(whole));
    line("only", (!plan.only.is_empty()).then(|| strings(&plan.only)));
    for one in &plan.groups {
        out += &group(one);
    }
    if let Some(limits) = &plan.limits {
        let _ = write!(out, "\n{}", limits.trim_start());
    }
    out
}

fn group(group: &Group) -> String {
    let mut out = "\n[[group]]\n".to_owned();
    let mut line = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    };
    line("name", group.name.as_deref().map(quoted));
    line("note", group.note.as_deref().map(quoted));
    line("benchmark", Some(strings(&group.benchmarks)));
    for (key, values) in &group.lists {
        line(key, Some(list(values)));
    }
    let exclude: Vec<String> = group.exclude.iter().map(excluded).collect();
    line("exclude", (!exclude.is_empty()).then(|| format!("[{}]", exclude.join(", "))));
    line("job", (!group.job.is_empty()).then(|| strings(&group.job)));
    line("series", group.how.series.map(|n| n.to_string()));
    line("warm-up", group.how.warm_up.map(|time| quoted(&format_duration(time))));
    for (key, value) in how(&group.how) {
        line(key, Some(value));
    }
    out
}

fn how(how: &SamplingOptions) -> Vec<(&'static str, String)> {
    let time = |time| quoted(&format_duration(time));
    let all = [
        ("samples", how.samples.map(|n| n.to_string())),
        ("sample-time", how.sample_time.map(time)),
        ("precision", how.precision.map(|share| format!("{share:?}"))),
        ("budget", how.budget.map(time)),
        ("against", how.against.as_deref().map(strings)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn excluded(exclude: &Exclude) -> String {
    match exclude {
        Exclude::Glob { text, .. } => quoted(text),
        Exclude::Where(lists) => {
            let all: Vec<String> =
                lists.iter().map(|(key, values)| format!("{key} = {}", list(values))).collect();
            format!("{{ {} }}", all.join(", "))
        }
    }
}

fn list(values: &[Value]) -> String {
    let all: Vec<String> = values.iter().map(value).collect();
    if let [one] = &all[..] { one.clone() } else { format!("[{}]", all.join(", ")) }
}

fn value(value: &Value) -> String {
    match value {
        Value::Count(n) => whole(*n),
        Value::Word(word) => quoted(word),
        other => quoted(&other.to_string()),
    }
}

/// Formats an integer; above 2⁶³ − 1, the largest integer of TOML, as a string.
fn whole(n: u64) -> String {
    if i64::try_from(n).is_ok() { n.to_string() } else { quoted(&n.to_string()) }
}

fn strings(all: &[String]) -> String {
    format!("[{}]", all.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
