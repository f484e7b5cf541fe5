//! The main figure of each subsystem in large type, with what limits the trust in it.

use maud::{Markup, html};
use plimsoll_bench::label::label;
use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::Run;
use plimsoll_units::quantity::percent;

use crate::report::context::title;
use crate::report::main_results;
use crate::report::row::{HeadlineFigures, MeasurementRow};
use crate::report::section::is_wide;

/// Builds the main results of a run, with interruptions included if these took more than 10 %.
pub(super) fn main_figures(run: &Run) -> Markup {
    html! {
        div.main-figures {
            @for (subsystem, measurement) in main_results(run) {
                @if let Some(figures) = MeasurementRow::of(measurement).figures {
                    div.verdict.(figures.grade.class()) {
                        span.why { (title(subsystem)) ": " (label(&measurement.case)) }
                        span.large { (figures.delivered.as_ref().map_or(&figures.value, |delivered| &delivered.value)) }
                        span.why { (trust(measurement, &figures)) }
                    }
                }
            }
        }
    }
}

/// Formats delivered share, if interruptions are excluded, then interval and share of the limit.
fn trust(measurement: &Measurement, figures: &HeadlineFigures) -> String {
    let star = if is_wide(&measurement.warnings) { ", not converged" } else { "" };
    let share = match (figures.of_limit, figures.scope) {
        (Some(_), _) => format!("{} of its limit", figures.share()),
        (None, Some(scope)) => format!("limit of {}: not rated", scope.name()),
        (None, None) => "no limit known".to_owned(),
    };
    let undisturbed = format!("{}{star} · {share}", figures.interval);
    let Some(delivered) = &figures.delivered else { return undisturbed };
    let share = delivered.of_limit.map(|share| format!(", {} of its limit", percent(share, 2)));
    format!("delivered{}; undisturbed {} {undisturbed}", share.unwrap_or_default(), figures.value)
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn each_subsystem_has_the_last_throughput_of_its_first_benchmark() {
        let run = fixture::run();
        let names: Vec<String> = main_results(&run).iter().map(|(_, m)| label(&m.case)).collect();
        let wanted = "fma f64 avx512 ×2, read 512 MiB ×2, random read 4 KiB depth 32, TCP 64 KiB writes";
        assert_eq!(names.join(", "), wanted);
    }

    #[test]
    fn a_disturbed_result_shows_what_was_delivered() {
        let mut made = fixture::cpu("f64", 2, 100e9, 104e9);
        (made.conditions.excluded, made.conditions.delivered) = (Some(0.8), Some(20e9));
        let text = main_figures(&fixture::run_of(vec![made])).into_string();
        assert!(text.contains(">20.0 GFLOP/s<") && text.contains("undisturbed 100 GFLOP/s"), "{text}");
    }
}
