//! How near to theory: the efficiencies that a report prints, with those of this run counted in the same way.

use super::lines::{At, Lines};
use super::plot::{Plot, covers};
use super::today::Today;
use crate::document::Run;
use crate::published::{Baseline, Figure};
use crate::report::html::data::{Axis, Chart, Role};

/// The chart of a plot's efficiencies; `None` where the report prints none.
pub(super) fn chart(plot: &Plot<'_>, baseline: &Baseline, run: &Run, today: &[Today<'_>]) -> Option<Chart> {
    let mut lines = Lines::new(plot.columns());
    let title = baseline.title();
    for (column, (point, today)) in plot.points.iter().zip(today).enumerate() {
        let at = |value: f64, label: String| At { column, value, range: None, label };
        if let Some((_, limit)) = today.limit() {
            let share = |value: f64| value / limit * 100.0;
            if let Some([mean, ..]) = today.figure() {
                lines.add("this run", Role::Own, at(share(mean), point.words()));
            }
            for (name, value) in today.tools() {
                lines.add(&format!("{name}, this run"), Role::Peer, at(share(value), point.words()));
            }
        }
        for figure in plot.beside(baseline, *point) {
            let (name, role) = match figure.source {
                "efficiency-own" => (title.clone(), Role::Published),
                "efficiency-reference" => (format!("{}, {title}", program(baseline, figure)), Role::Program),
                _ => continue,
            };
            if let Ok(value) = figure.value.parse() {
                lines.add(&name, role, at(value, format!("{}, printed {} %", point.words(), figure.value)));
            }
        }
    }
    let printed = lines.has(Role::Published) || lines.has(Role::Program);
    let note = match run.plan.scale {
        1.0 => "figure ÷ limit, for rates and latencies alike, as the report counts it",
        _ => {
            "figure ÷ limit, for rates and latencies alike, as the report counts it; of a scaled run small work counts against it"
        }
    };
    let title = format!("{}, efficiency", plot.title());
    printed.then(|| {
        lines.chart(title, note.to_owned(), plot.axis(), Axis::linear("share of theory or limit", "%"))
    })
}

/// The reference program that an efficiency is of: the one that the report prints at the same point.
fn program(baseline: &Baseline, efficiency: &Figure) -> &'static str {
    let same = |f: &&Figure| f.is_reference() && f.metric == efficiency.metric && covers(f, efficiency);
    baseline.figures.iter().find(same).map_or("reference", |figure| figure.source)
}
