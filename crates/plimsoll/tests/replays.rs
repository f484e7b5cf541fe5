//! The page of a replayed report in a browser: figures below their tables, in the report's order.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_model::limit::{Input, Limit, LimitKind, LimitSource};
use plimsoll_model::measurement::{Measurement, Status, ToolResult};
use plimsoll_output::report::html::page;
use plimsoll_published::{PublishedReport, find, names, tables};
use plimsoll_result::document::Run;
use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;

use crate::browser::Browser;
use crate::support::{list, scratch, text};

/// Greatest height of an unfolded page in pixels, at a width of 1440.
const HIGHEST: u64 = 8000;

pub(crate) fn replay(baseline: &PublishedReport) -> Run {
    let mut all: Vec<Measurement> = Vec::new();
    for figure in &baseline.figures {
        let Some(matched) = &figure.matched else { continue };
        let (value, unit) = figure.base.unwrap_or((1e-6, Unit::Second));
        let value = value.max(1e-12) * 1.5;
        let mut metric = fixture::metric_of(matched.metric, unit, vec![value * 0.9, value, value * 1.1]);
        let kind = if unit == Unit::Second { LimitKind::Floor } else { LimitKind::Ceiling };
        let limit = if unit == Unit::Second { value / 2.0 } else { value * 2.0 };
        let input = Input::new("clock", 3.7e9, "Hz", "measured");
        let limit = Limit::fixed(kind, LimitSource::Derived, limit, "clock × work in a cycle", vec![input]);
        let tool = fixture::tool_run("tool", &[(value, value * 0.8)]);
        metric.tool_results = vec![ToolResult::of(&tool, 0.03).with_shares(Some(&limit))];
        metric.limit = Some(limit);
        match all.iter_mut().find(|known| known.case == matched.case) {
            Some(known) if known.metrics.iter().all(|known| known.name != metric.name) => {
                known.metrics.push(metric);
            }
            Some(_) => {}
            None => all.push(fixture::of_metric(matched.case.id().as_str(), metric)),
        }
    }
    let mut run = fixture::run_of(all);
    run.plan.name = baseline.name.to_owned();
    run
}

fn written(dir: &Path, run: Run) -> PathBuf {
    let file = dir.join("page.html");
    fs::write(&file, page(&[run], &[]).unwrap()).unwrap();
    file.canonicalize().unwrap()
}

/// Closes folded parts; returns per table its number, positions, and missing parts.
const SECTIONS: &str = r##"(() => {
    document.querySelectorAll("details").forEach((one) => { one.open = false; });
    const at = (e) => e.getBoundingClientRect();
    const sections = [...document.querySelectorAll(".tables > section")].map((section) => {
        const figures = [...section.querySelectorAll("figure")];
        return {
            id: section.id,
            table: at(section.querySelector("table")).bottom,
            top: Math.min(...figures.map((one) => at(one).top)),
            empty: figures.filter((one) => !one.querySelector("svg") && !/no chart: \S/.test(one.textContent)).length,
            series: Math.max(0, ...figures.map((one) => one.querySelectorAll(".series button").length)),
            formula: section.querySelectorAll(".formula").length,
            hidden: section.className === "whole" ? [] : [...section.querySelectorAll(".wide")].map((one) => one.scrollWidth - one.clientWidth).filter((more) => more > 1),
            covered: [...section.querySelectorAll("figure")].filter((one) => {
                const tools = one.querySelector(".tools");
                const labels = [...one.querySelectorAll("svg text")].filter((label) => label.textContent.trim());
                return tools && labels.some((label) => {
                    const [a, b] = [at(label), at(tools)];
                    return a.right > b.left && a.left < b.right && a.bottom > b.top + 3 && a.top < b.bottom;
                });
            }).length,
        };
    });
    return {
        sections,
        links: [...document.querySelectorAll(".contents a")].map((one) => one.getAttribute("href").slice(1)),
        lost: [...document.querySelectorAll(".contents a")].filter((one) => !document.getElementById(one.getAttribute("href").slice(1))).length,
        height: document.documentElement.scrollHeight,
        sideways: document.documentElement.scrollWidth > document.documentElement.clientWidth,
        cut: [...document.querySelectorAll(".tables .series")].filter((one) => one.scrollHeight > one.clientHeight + 1).length,
    };
})()"##;

#[test]
fn each_report_is_one_document_with_each_figure_under_its_table() {
    let dir = scratch();
    for name in names() {
        let baseline = find(name).unwrap();
        let page = written(dir.path(), replay(&baseline));
        let tables = tables::build_tables(&baseline);
        let wanted: Vec<String> = tables.iter().map(|table| format!("d0-table-{}", table.number)).collect();
        for width in [1440, 400] {
            let Some(mut browser) = Browser::open(&page, width) else { return };
            let found = browser.evaluate(SECTIONS);
            let sections = list(&found["sections"]);
            let ids: Vec<&str> = sections.iter().map(|section| text(&section["id"])).collect();
            assert_eq!(ids, wanted, "{name} at {width}");
            let links: Vec<&str> = list(&found["links"]).iter().map(text).collect();
            assert_eq!(links[..ids.len()], ids, "{name}: the list of contents");
            assert_eq!(found["lost"], 0, "{name}: links that lead nowhere");
            for section in sections {
                let number = |key: &str| section[key].as_f64().unwrap();
                assert!(number("top") >= number("table"), "{name} at {width}: {section}");
                assert_eq!(section["empty"], 0, "{name}: {section}");
                assert!(number("series") <= 8.0, "{name}: {section}");
                assert_eq!(section["covered"], 0, "{name} at {width}: labels below buttons: {section}");
                let is_whole = list(&section["hidden"]).is_empty();
                assert!(width < 1440 || is_whole, "{name}: a table wider than its place: {section}");
            }
            assert_eq!(found["sideways"], false, "{name} at {width}");
            assert_eq!(found["cut"], 0, "{name}: legends that are cut");
            let height = found["height"].as_u64().unwrap();
            assert!(width < 1440 || height <= HIGHEST, "{name}: {height} pixels");
            browser.is_content();
        }
    }
}

#[test]
fn a_figure_that_cannot_be_filled_says_why_in_its_place() {
    let dir = scratch();
    let baseline = find("ec2-t2micro").unwrap();
    let mut run = replay(&baseline);
    run.plan.text = "[[group]]\nbenchmark = \"cpu.peak\"\nop = \"add\"\ntype = \"i32\"\nthreads = 4\nseries = 600\nsample-time = \"1s\"\n"
        .to_owned();
    let mut timed = fixture::measured("cpu.peak/op=add/type=i32/threads=4", "rate", Unit::OpPerSecond, 1e10);
    (timed.status, timed.reason) = (Status::Invalid, Some("another program had the CPU".to_owned()));
    run.measurements.push(timed);
    for measured in run.measurements.iter_mut().filter(|measured| measured.case.subsystem() == "disk") {
        measured.metrics = Vec::new();
        (measured.status, measured.reason) = (Status::Skipped, Some("no room on the disk".to_owned()));
    }
    let page = written(dir.path(), run);
    let Some(mut browser) = Browser::open(&page, 1440) else { return };
    let shown = browser.evaluate("document.querySelector('main.document').textContent");
    let shown = text(&shown);
    for wanted in ["no chart: invalid today: another program had the CPU", "skipped: no room on the disk"] {
        assert!(shown.contains(wanted), "{wanted}");
    }
    let charts = browser.evaluate("[...document.querySelectorAll('[id^=d0-table] figure')].filter((one) => one.textContent.includes('not all is drawn of today: skipped: no room')).length");
    assert!(charts.as_u64().unwrap() >= 12, "two metrics of each of six tables: {charts}");
}

#[test]
fn ratios_to_reference_tools_are_read_as_fractions_on_their_axis() {
    let dir = scratch();
    let mut made = fixture::measured("cpu.peak/op=fma/type=f64/threads=1", "rate", Unit::FlopPerSecond, 5e10);
    made.metrics[0].tool_results = vec![ToolResult::of(&fixture::tool_run("tool", &[(5e10, 1e10)]), 0.03)];
    let page = written(dir.path(), fixture::run_of(vec![made]));
    let Some(mut browser) = Browser::open(&page, 1440) else { return };
    let ticks = browser.texts(
        "[...document.querySelectorAll('[data-chart$=forest] svg text')].map((one) => one.textContent)",
    );
    assert!(["1/8", "1", "8"].iter().all(|wanted| ticks.iter().any(|tick| tick == wanted)), "{ticks:?}");
    assert!(!ticks.iter().any(|tick| tick.starts_with("0.")), "{ticks:?}");
}
