//! Cases that a comparison could not compare, grouped by reason.

use plimsoll_bench::label;
use plimsoll_compare::{Comparison, Standing, Uncompared, UncomparedKind, letter};
use plimsoll_model::measurement::Status;
use plimsoll_units::quantity::Quantity;
use plimsoll_units::text::{shown, shown_within};

use crate::report::style::TextRole;
use crate::report::{grouped, listed};

pub(crate) struct LeftGroup {
    pub(crate) kind: UncomparedKind,
    pub(crate) head: String,
    pub(crate) cases: Vec<String>,
}

impl LeftGroup {
    pub(crate) fn text(&self) -> String {
        format!("{}: {}", self.head, self.cases.join(", "))
    }

    /// Returns the colour of the group: its role in a terminal, and its CSS class in an HTML page.
    pub(crate) fn colour(&self) -> (TextRole, &'static str) {
        match self.kind {
            UncomparedKind::Lost => (TextRole::Bad, "poor"),
            UncomparedKind::Interrupted | UncomparedKind::Partly => (TextRole::Warning, "fair"),
            UncomparedKind::Neither | UncomparedKind::New => (TextRole::Dim, "note"),
        }
    }
}

pub(crate) fn groups(comparison: &Comparison) -> Vec<LeftGroup> {
    let all = comparison.uncompared.iter();
    let mut found = grouped(all.map(|one| ((one.kind, what(one)), name(one) + &figures(one))));
    found.sort_by_key(|((kind, _), _)| *kind);
    let group = |((kind, what), cases): ((UncomparedKind, String), Vec<String>)| {
        let head = match kind {
            UncomparedKind::Lost => "lost",
            UncomparedKind::Interrupted => "interrupted by other work on both sides",
            UncomparedKind::Partly => "not in every run",
            UncomparedKind::Neither => "not compared",
            UncomparedKind::New => "new",
        };
        LeftGroup { kind, head: format!("{head} ({}): {what}", cases.len()), cases }
    };
    found.into_iter().map(group).collect()
}

/// Describes why a case is not compared, per side: `failed in B`; a complete side is left out.
fn what(one: &Uncompared) -> String {
    let whole = |standing: &Standing| standing.status == Some(Status::Ok) && standing.reason.is_none();
    let second = letter(one.side);
    let both = |standing| describe_standing(standing, &format!("A and {second}"));
    match [describe_standing(&one.a, "A"), describe_standing(&one.b, &second)] {
        _ if both(&one.a) == both(&one.b) => both(&one.a),
        [_, b] if whole(&one.a) => b,
        [a, _] if whole(&one.b) => a,
        [a, b] => format!("{a}, {b}"),
    }
}

pub(super) fn lost(comparison: &Comparison) -> impl Iterator<Item = String> {
    let all = comparison.uncompared.iter().filter(|one| one.kind == UncomparedKind::Lost);
    all.map(|one| format!("{} is lost: {}{}", name(one), what(one), figures(one)))
}

fn name(one: &Uncompared) -> String {
    let node = one.node.as_deref().map(|node| format!("{}: ", shown_within(node, 64)));
    let metric = one.metric.as_deref().map(|metric| format!(", metric {}", shown_within(metric, 40)));
    node.unwrap_or_default() + &label::full(&one.case) + &metric.unwrap_or_default()
}

/// Formats a side's state: `failed in B (no space)` or `ok (9 of 10) in B (invalid: …)`.
fn describe_standing(standing: &Standing, side: &str) -> String {
    let word = standing.word();
    let count = match standing.status {
        Some(Status::Ok) if standing.ok < standing.of => format!(" ({} of {})", standing.ok, standing.of),
        _ => String::new(),
    };
    let reason = standing.reason.as_deref().map(|reason| format!(" ({})", shown(reason)));
    format!("{word}{count} in {side}{}", reason.unwrap_or_default())
}

/// Formats the results of both sides of a case that is not compared: ` [A 103 GB/s]`; may be empty.
fn figures(one: &Uncompared) -> String {
    let figure = |name: &str, on: &Standing| {
        let (value, unit) = on.value.zip(on.unit)?;
        Some(format!("{name} {}", Quantity::new(value, unit)))
    };
    let all = [figure("A", &one.a), figure(&letter(one.side), &one.b)].into_iter().flatten();
    listed(all, ", ").map(|all| format!(" [{all}]")).unwrap_or_default()
}
