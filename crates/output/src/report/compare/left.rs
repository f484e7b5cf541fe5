//! What a comparison could not compare, in words: those that have the same reason together, each by its name.

use crate::compare::{Comparison, Has, Kind, Standing, Uncompared};
use crate::label;
use crate::quantity::Quantity;
use crate::report::style::Role;

/// Those that became the same on both sides.
pub(in crate::report) struct Group {
    /// What they are for a gate.
    pub(in crate::report) kind: Kind,
    /// All of it.
    pub(in crate::report) text: String,
}

impl Group {
    /// How it is painted.
    pub(super) fn role(&self) -> Role {
        match self.kind {
            Kind::Lost => Role::Bad,
            Kind::Partly => Role::Warning,
            Kind::Neither | Kind::New => Role::Dim,
        }
    }

    /// The word of the page's style sheet.
    pub(in crate::report) fn class(&self) -> &'static str {
        match self.kind {
            Kind::Lost => "poor",
            Kind::Partly => "fair",
            Kind::Neither | Kind::New => "note",
        }
    }
}

/// All of them, what was lost first.
pub(in crate::report) fn groups(comparison: &Comparison) -> Vec<Group> {
    let mut found: Vec<(Kind, String, Vec<String>)> = Vec::new();
    for one in &comparison.uncompared {
        let [a, b] = [&one.a, &one.b].map(on);
        let what = if a == b { format!("both {a}") } else { format!("A {a}, B {b}") };
        let name = name(one) + &figures(one);
        match found.iter_mut().find(|(kind, known, _)| (*kind, known.as_str()) == (one.kind, &what)) {
            Some((_, _, names)) => names.push(name),
            None => found.push((one.kind, what, vec![name])),
        }
    }
    found.sort_by_key(|(kind, _, _)| *kind);
    let text = |kind: Kind, what: &str, names: &[String]| {
        format!("{} ({}): {what}: {}", head(kind), names.len(), names.join(", "))
    };
    found.iter().map(|(kind, what, names)| Group { kind: *kind, text: text(*kind, what, names) }).collect()
}

/// A line for each that was lost.
pub(super) fn lost(comparison: &Comparison) -> impl Iterator<Item = String> {
    let all = comparison.uncompared.iter().filter(|one| one.kind == Kind::Lost);
    all.map(|one| format!("{} is lost: A {}, B {}{}", name(one), on(&one.a), on(&one.b), figures(one)))
}

fn head(kind: Kind) -> &'static str {
    match kind {
        Kind::Lost => "lost",
        Kind::Partly => "not in every run",
        Kind::Neither => "not compared",
        Kind::New => "new",
    }
}

/// The case in words, behind its machine where there are several, and the metric where one is meant.
fn name(one: &Uncompared) -> String {
    let node = one.node.as_deref().map(|node| format!("{}: ", crate::text::shown_within(node, 64)));
    let metric =
        one.metric.as_deref().map(|metric| format!(", metric {}", crate::text::shown_within(metric, 40)));
    node.unwrap_or_default() + &label::full(&one.case) + &metric.unwrap_or_default()
}

/// `failed (no space)`; `ok in 9 of 10 (invalid: …)`.
fn on(standing: &Standing) -> String {
    let word = standing.status.word();
    let count = match standing.status {
        Has::Ok if standing.ok < standing.of => format!(" in {} of {}", standing.ok, standing.of),
        _ => String::new(),
    };
    let reason = standing.reason.as_deref().map(|reason| format!(" ({})", crate::text::shown(reason)));
    format!("{word}{count}{}", reason.unwrap_or_default())
}

/// The figures that there are, also those that are not to be believed.
fn figures(one: &Uncompared) -> String {
    let figure = |name: &str, on: &Standing| {
        let (value, unit) = on.value.zip(on.unit)?;
        Some(format!("{name} {}", Quantity::new(value, unit)))
    };
    let all: Vec<String> = [figure("A", &one.a), figure("B", &one.b)].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!(" [{}]", all.join(", ")) }
}
