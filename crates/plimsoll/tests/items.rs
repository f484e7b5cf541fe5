//! Checks that plimsoll has every item of the five published reports (a row of items.tsv) in the
//! document of a replay, in the plan, among the reference tools or on the command line.
//!
//! The rows follow from the data and designs of the reports: tables, figures (per metric of a table
//! of own measurements, and per series with a chart of its own), formulas, shares, reference
//! programs, features and open wishes.
//!
//! Answers: `table N`, `chart N` (below table N), `series WORDS`, `formula N WORDS`, `share N
//! WORDS`, `tool NAME`, `case GLOB`, `command ARGUMENTS`, `page WORDS`, `open`.

use std::fs;

use plimsoll_model::case::{Case, Pattern};
use plimsoll_model::measurement::SamplePoint;
use plimsoll_model::plan::built_in;
use plimsoll_output::report::html::page;
use plimsoll_published::{PublishedReport, find, names};
use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;

use crate::replays::replay;
use crate::support::{done, lossy, plimsoll, repository, scratch};

/// The report, kind, name and answer of each item.
fn items() -> impl Iterator<Item = [&'static str; 4]> {
    let rows = include_str!("items.tsv").lines().skip(1);
    rows.map(|row| row.split('\t').collect::<Vec<_>>().try_into().unwrap())
}

/// A replay of a report: cases of its plan, and its document with figures, limits and tools.
struct Replayed {
    baseline: PublishedReport,
    cases: Vec<Case>,
    page: String,
}

impl Replayed {
    fn new(name: &str) -> Self {
        let (baseline, dir) = (find(name).unwrap(), scratch());
        let (list, _) = done(dir.path(), &format!("run {name} --list"), 0);
        // A line is a case, and why it cannot be measured here.
        let ids = list.lines().filter_map(|line| line.split_whitespace().next());
        let cases: Vec<Case> = ids.filter_map(|id| id.parse().ok()).collect();
        let mut run = replay(&baseline);
        run.plan.text = built_in::find(name).unwrap().text.to_owned();
        let timed = ["cpu.peak", "network.tcp", "network.udp"];
        let is_timed = |case: &&Case| case.get("scaling").is_none() && timed.contains(&case.benchmark());
        for case in cases.iter().filter(is_timed) {
            let mut timed = fixture::measured(case.id().as_str(), "rate", Unit::OpPerSecond, 1e10);
            timed.metrics[0].samples = vec![1e10; 40];
            timed.metrics[0].series =
                (0..40).map(|t| SamplePoint { t: f64::from(t), ..SamplePoint::default() }).collect();
            run.measurements.push(timed);
        }
        let page = page(&[run], &[]).unwrap();
        let (page, _) = page.split_once("id=\"d0-rest\"").unwrap();
        Self { baseline, cases, page: text(page) }
    }

    /// The document's part from a table to the next section.
    fn section(&self, number: &str) -> &str {
        let from = format!("id=\"d0-table-{number}\"");
        let rest = self.page.split_once(&from).map_or("", |(_, rest)| rest);
        rest.split("<section").next().unwrap_or_default()
    }

    /// Why the answer does not lead to the item of this name; `None` if it does.
    fn lacks(&self, name: &str, answer: &str) -> Option<String> {
        let (place, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        let (number, words) = rest.split_once(' ').unwrap_or((rest, ""));
        let section = self.section(number);
        let is_there = match place {
            "table" => section.contains(&format!(": {name}")) && section.contains("<table"),
            "chart" => section.contains("data-chart") && caption(section, name),
            "series" => {
                self.page.contains(&format!("<strong>{rest} ")) && self.page.contains(" over time</strong>")
            }
            "formula" => {
                let (_, formulas) = section.split_once("class=\"note formula\"").unwrap_or_default();
                formulas.contains(words) && formulas.contains("limit of today, ")
            }
            // The report's share, and today's own beside its limit.
            "share" => {
                let columns = section.contains("own eff.") && section.contains("ref. eff.");
                section.contains(words) && (columns || section.contains(" %)"))
            }
            "page" => self.page.contains(rest),
            "open" => {
                let point = self.baseline.open_points().into_iter().find(|point| point.open == name);
                let shown = point.filter(|point| self.page.contains(&point.to_string()));
                let Some(point) = shown else { return Some("not open in the document".to_owned()) };
                let lacks = || has_heading(point.document, point.heading).or_else(|| refused(point.command));
                return if point.command.is_empty() { None } else { lacks() };
            }
            "case" => {
                let pattern = Pattern::parse(rest).unwrap();
                self.cases.iter().any(|case| pattern.matches(case.id().as_str()))
            }
            "tool" => return uninstallable(rest),
            "command" => return refused(rest),
            other => panic!("{other}"),
        };
        (!is_there).then(|| "not there".to_owned())
    }
}

fn text(html: &str) -> String {
    html.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"")
}

/// Whether a chart of the section, drawn or with the reason why it is not, has this title.
fn caption(section: &str, title: &str) -> bool {
    section.contains(&format!("<figcaption><strong>{title}</strong>"))
}

fn has_heading(document: &str, heading: &str) -> Option<String> {
    let text = fs::read_to_string(repository("docs/src").join(document)).unwrap_or_default();
    let is_it = |line: &str| line.starts_with('#') && line.trim_start_matches('#').trim() == heading;
    (!text.lines().any(is_it)).then(|| format!("docs/src/{document} has no heading {heading}"))
}

/// How plimsoll refuses these arguments; nothing if it takes them.
fn refused(arguments: &str) -> Option<String> {
    let dir = scratch();
    let words: Vec<&str> = arguments.split(' ').collect();
    let is_plan = ["run", "cpu", "memory", "disk", "network", "os"].contains(&words[0]);
    let end = if is_plan && !words.contains(&"--hosts") { "--dry-run" } else { "--help" };
    // Paths of examples are those of the repository.
    std::os::unix::fs::symlink(repository("examples"), dir.path().join("examples")).unwrap();
    let output =
        plimsoll(dir.path()).args(words.iter().filter(|word| **word != end)).arg(end).output().unwrap();
    (!output.status.success()).then(|| lossy(&output.stderr))
}

/// Why a reference tool cannot be got; nothing if plimsoll names the command.
fn uninstallable(name: &str) -> Option<String> {
    let Some(tool) = plimsoll_reference::find(name) else { return Some("no reference tool".to_owned()) };
    let how = plimsoll_reference::how_to_get(tool.package);
    let is_command = ["apt-get install ", "curl -L", "git clone "].iter().any(|lead| how.starts_with(lead));
    (!is_command).then(|| format!("no command that installs it: {how}"))
}

#[test]
fn each_item_of_the_reports_is_where_its_row_puts_it() {
    let mut missing = Vec::new();
    for name in names() {
        let replayed = Replayed::new(name);
        let own = || items().filter(move |[report, ..]| *report == name);
        for [_, kind, item, answer] in own() {
            let why = replayed.lacks(item, answer);
            missing.extend(why.map(|why| format!("{name} {kind}, {item}: {answer}: {why}")));
        }
        // Tables in the order of the list, and no further ones.
        let ids = replayed.page.split("id=\"d0-table-").skip(1).filter_map(|rest| rest.split('"').next());
        let tables = own().filter_map(|[.., answer]| answer.strip_prefix("table "));
        assert_eq!(ids.collect::<Vec<_>>(), tables.collect::<Vec<_>>(), "{name}");
    }
    assert!(missing.is_empty(), "{}:\n{}", missing.len(), missing.join("\n"));
}

#[test]
fn the_list_counts_what_the_reports_have() {
    let count = |kind: &str| items().filter(|[_, of, ..]| *of == kind).count();
    let kinds = ["table", "figure", "theory", "efficiency", "tool", "feature", "wish"];
    assert_eq!(kinds.map(count), [84, 82, 16, 25, 18, 31, 14]);
    let open: usize = names().iter().map(|name| find(name).unwrap().open_points().len()).sum();
    assert_eq!(open, 14 + 3 * 4, "three of them are open in all five reports");
}

#[test]
fn an_item_that_is_taken_away_is_missed() {
    let mut replayed = Replayed::new("chameleon-kvm");
    let own: Vec<_> = items().filter(|[report, ..]| *report == "chameleon-kvm").collect();
    let places = ["table 5", "chart 5", "formula 5", "share 1", "open", "page", "series", "case"];
    let answers = places.map(|place| own.iter().find(|[.., answer]| answer.starts_with(place)).unwrap());
    for [.., name, answer] in answers {
        assert_eq!(replayed.lacks(name, answer), None, "{answer}");
    }
    replayed.page = String::new();
    replayed.cases.clear();
    for [.., name, answer] in answers {
        assert!(replayed.lacks(name, answer).is_some(), "{answer}");
    }
    assert!(refused("cpu --no-such-option").is_some() && uninstallable("no-such-tool").is_some());
    assert!(has_heading("method.md", "no such heading").is_some());
}
