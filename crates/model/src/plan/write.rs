//! Writes plans as plan files; [`super::file::parse`] returns the same plan.

use std::fmt::Write as _;

use plimsoll_units::quantity::format_duration;

use super::file::PlanFile;
use super::{Exclude, Group, SamplingOptions};
use crate::case::Value;

/// Returns the plan as the text of a plan file (TOML).
pub fn text(plan: &PlanFile) -> String {
    let mut out = String::new();
    let names = [("name", plan.name.as_deref().map(quoted)), ("note", plan.note.as_deref().map(quoted))];
    let others = [
        ("margin", plan.margin.map(|share| format!("{share:?}"))),
        ("repeat", plan.repeat.map(|n| n.to_string())),
        ("scale", plan.scale.map(|scale| format!("{scale:?}"))),
        ("seed", plan.seed.map(whole)),
        ("only", (!plan.only.is_empty()).then(|| strings(&plan.only))),
    ];
    write_lines(&mut out, names.into_iter().chain(how(&plan.how)).chain(others));
    plan.groups.iter().for_each(|one| out += &group(one));
    if let Some(limits) = &plan.limits {
        let _ = write!(out, "\n{}", limits.trim_start());
    }
    out
}

fn group(group: &Group) -> String {
    let mut out = "\n[[group]]\n".to_owned();
    let exclude: Vec<String> = group.exclude.iter().map(excluded).collect();
    let names = [
        ("name", group.name.as_deref().map(quoted)),
        ("note", group.note.as_deref().map(quoted)),
        ("benchmark", Some(strings(&group.benchmarks))),
    ];
    let lists = group.lists.iter().map(|(key, values)| (*key, Some(list(values))));
    let others = [
        ("exclude", (!exclude.is_empty()).then(|| format!("[{}]", exclude.join(", ")))),
        ("job", (!group.job.is_empty()).then(|| strings(&group.job))),
        ("series", group.how.series.map(|n| n.to_string())),
        ("warm-up", group.how.warm_up.map(|time| quoted(&format_duration(time)))),
    ];
    write_lines(&mut out, names.into_iter().chain(lists).chain(others).chain(how(&group.how)));
    out
}

/// Appends a line `key = value` to `out` for each value that is not `None`.
fn write_lines<'a>(out: &mut String, lines: impl Iterator<Item = (&'a str, Option<String>)>) {
    for (key, value) in lines.filter_map(|(key, value)| Some((key, value?))) {
        let _ = writeln!(out, "{key} = {value}");
    }
}

fn how(how: &SamplingOptions) -> [(&'static str, Option<String>); 5] {
    let time = |time| quoted(&format_duration(time));
    [
        ("samples", how.samples.map(|n| n.to_string())),
        ("sample-time", how.sample_time.map(time)),
        ("precision", how.precision.map(|share| format!("{share:?}"))),
        ("budget", how.budget.map(time)),
        ("against", how.against.as_deref().map(strings)),
    ]
}

fn excluded(exclude: &Exclude) -> String {
    match exclude {
        Exclude::Glob(glob) => quoted(&glob.text),
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

/// Formats an integer for TOML; above 2⁶³ − 1, TOML's largest, as a string.
fn whole(n: u64) -> String {
    if i64::try_from(n).is_ok() { n.to_string() } else { quoted(&n.to_string()) }
}

fn strings(all: &[String]) -> String {
    format!("[{}]", all.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
