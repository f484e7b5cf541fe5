//! `plimsoll gather`: joins run documents of machines; reports outliers, missing and failed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_command::cli::Gather;
use plimsoll_output::report::target::OutputTarget;
use plimsoll_output::report::{Style, StyleOptions, html, terminal};
use plimsoll_result::document::{Finding, Run, RunStatus};
use plimsoll_result::finding::WRONG_ANSWER;
use plimsoll_result::fleet;
use plimsoll_units::text::{and_more, format_count, read_small, shown_path, shown_within};
use serde_json::json;

use crate::app::{Failure, code, complain, ending, printed, target};
use crate::failure::OrFailure;
use crate::output::nothing_measured;

/// Largest input file in bytes: a log of more than a thousand machines with all their series.
const MAX_BYTES: u64 = 1 << 30;
const MAX_NAMES: u64 = 1 << 20;
/// With more documents, latency distributions are dropped: they are most of a document.
const MAX_WHOLE_DOCUMENTS: usize = 100;
const MAX_NAMES_SHOWN: usize = 5;

pub(crate) fn gather(typed: &Gather) -> Result<ExitCode, Failure> {
    let [to_json, to_html] = targets(typed)?;
    let expected = typed.expect.as_deref().map(expected).transpose()?.unwrap_or_default();
    if let Some(first) = typed.paths.first()
        && typed.paths.iter().all(|path| path.as_path() != Path::new("-") && !path.exists())
    {
        let shown = shown_path(first);
        return Err(Failure::usage(format!(
            "{shown}: there is no such file or directory; plimsoll export RUN --format json writes a run to one, and plimsoll run PLAN --hosts HOST,HOST measures hosts"
        )));
    }
    let mut run = run_of(ReadDocuments::of(&typed.paths)?, &expected)?;
    if typed.redact {
        run = crate::app::shareable(&run, true)?;
    }
    written(&run, to_json.as_ref(), to_html.as_ref())?;
    if ![&to_json, &to_html].into_iter().flatten().any(OutputTarget::is_stdout) {
        let style = Style::detect(StyleOptions::default());
        printed(&terminal::text(&run, &style))?;
    }
    Ok(ExitCode::from(match run.status {
        _ if ending::has_wrong_answer(&run) => code::VERDICT,
        RunStatus::Complete => 0,
        RunStatus::Partial => code::SERVER_FAILED,
    }))
}

/// Writes `run` as JSON to `to_json` and as a page to `to_html`, if given, in parallel.
fn written(run: &Run, to_json: Option<&OutputTarget>, to_html: Option<&OutputTarget>) -> Result<(), Failure> {
    let (document, page) = std::thread::scope(|scope| {
        let page = || html::page(std::slice::from_ref(run), &[]);
        let page = to_html.map(|to| (to, scope.spawn(page)));
        let document = to_json.map_or(Ok(()), |to| {
            to.fill(None, |file| {
                run.write_json(file)?;
                file.write_all(b"\n")
            })
        });
        (document, page.map(|(to, thread)| (to, thread.join())))
    });
    if let Some((to, page)) = page {
        let page = page.map_err(|_| panicked())?.or_environment()?;
        to.put(&page)?;
    }
    Ok(document?)
}

fn panicked() -> Failure {
    Failure::environment(
        "a thread of plimsoll panicked: this is a bug, please report it with the output above",
    )
}

fn targets(typed: &Gather) -> Result<[Option<OutputTarget>; 2], Failure> {
    let written = [("--json", &typed.json), ("--html", &typed.html)];
    crate::app::distinct(&crate::app::places(&[&[("--expect", &typed.expect)][..], &written].concat()))?;
    let read: Vec<PathBuf> = typed.paths.iter().flat_map(|path| files_of(path).unwrap_or_default()).collect();
    crate::app::refuse_overwriting_input(read.iter().map(PathBuf::as_path), written)?;
    // Only gather writes a run on one line.
    crate::app::refuse_replacing(
        typed.json.as_deref(),
        "{\"schema\":\"plimsoll.run/",
        "a document of plimsoll gather",
    )?;
    let of = |path: &Option<PathBuf>| path.as_deref().map(target).transpose();
    Ok([of(&typed.json)?, of(&typed.html)?])
}

/// Documents that were read, and the reasons for unreadable ones.
#[derive(Default)]
struct ReadDocuments {
    runs: Vec<Run>,
    wrong: Vec<String>,
    are_many: bool,
}

impl ReadDocuments {
    /// Reads run documents in files, directories (*.json) and stdin (`-`); keeps errors as lines.
    fn of(paths: &[PathBuf]) -> Result<Self, Failure> {
        let (mut all, mut files) = (Self::default(), Vec::new());
        for path in paths {
            files_of(path).map_or_else(|why| all.wrong.push(why), |found| files.extend(found));
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let shares = files.chunks(files.len().div_ceil(threads).max(1));
        let are_many = files.len() > MAX_WHOLE_DOCUMENTS;
        let read = |share: &[PathBuf]| {
            let mut found = Self { are_many, ..Self::default() };
            share.iter().for_each(|file| found.file(file));
            found
        };
        let parts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = shares.map(|share| scope.spawn(move || read(share))).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for part in parts {
            let part = part.map_err(|_| panicked())?;
            all.runs.extend(part.runs);
            all.wrong.extend(part.wrong);
        }
        if all.runs.len() > MAX_WHOLE_DOCUMENTS {
            all.runs.iter_mut().for_each(drop_histograms);
        }
        Ok(all)
    }

    fn file(&mut self, path: &Path) {
        let (name, read) = match path == Path::new("-") {
            true => ("stdin".to_owned(), bounded(io::stdin().lock())),
            false => (shown_path(path), fs::File::open(path).and_then(bounded)),
        };
        match read {
            Ok(text) => self.take(&name, &text),
            Err(e) => self.wrong.push(format!("{name}: {e}")),
        }
    }

    fn take(&mut self, name: &str, text: &str) {
        let before = self.runs.len() + self.wrong.len();
        for document in Run::parse_all(text) {
            match document {
                Ok(mut run) => {
                    self.are_many |= self.runs.len() >= MAX_WHOLE_DOCUMENTS;
                    if self.are_many {
                        drop_histograms(&mut run);
                    }
                    self.runs.push(run);
                }
                Err(why) => self.wrong.push(format!("{name}: {why}")),
            }
        }
        if self.runs.len() + self.wrong.len() == before {
            self.wrong.push(format!("{name}: holds no run document (the JSON of plimsoll run --json, which must begin at the start of a line)"));
        }
    }
}

fn drop_histograms(run: &mut Run) {
    run.measurements.shrink_to_fit();
    for measurement in &mut run.measurements {
        measurement.metrics.shrink_to_fit();
        for metric in &mut measurement.metrics {
            metric.histogram = None;
            metric.samples.shrink_to_fit();
            metric.series.shrink_to_fit();
        }
    }
}

/// Reads all text; fails if it is longer than [`MAX_BYTES`]. Replaces invalid UTF-8, as in logs.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "larger than {} MiB; give the documents in several files",
            MAX_BYTES >> 20
        )));
    }
    let text =
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Returns the .json files in a directory by name; fails if it has none. Returns a file itself.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let shown = shown_path(path);
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|e| format!("{shown}: {e}"))?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    if files.is_empty() { Err(format!("{shown}: the directory has no .json file")) } else { Ok(files) }
}

/// Parses the file of --expect: one machine's name per line, with comments after `#`.
fn expected(path: &Path) -> Result<BTreeSet<String>, Failure> {
    let file = shown_path(path);
    let text = read_small(path, MAX_NAMES).map_err(|why| {
        Failure::usage(format!("--expect {file}: {why}; give a file with the name of a machine on each line"))
    })?;
    let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    Ok(names.filter(|name| !name.is_empty()).collect())
}

/// Joins the runs of `found` to one; it is partial if a document or `expected` name is missing.
fn run_of(found: ReadDocuments, expected: &BTreeSet<String>) -> Result<Run, Failure> {
    print_lines(&found.wrong);
    if found.runs.is_empty() {
        let line =
            "no run document can be read, so nothing is gathered; plimsoll run PLAN --json FILE writes one";
        return Err(Failure { line: line.to_owned(), code: code::SERVER_FAILED });
    }
    together(found.runs, expected, unreadable(&found.wrong).into_iter().collect())
}

/// Joins the latest run of each node to one; leaves out runs with another plan or version than
/// most. `lost` are findings to add, `expected` the names of required nodes. Fails without runs.
pub(crate) fn together(
    runs: Vec<Run>,
    expected: &BTreeSet<String>,
    lost: Vec<Finding>,
) -> Result<Run, Failure> {
    let (kept, others) = alike(runs);
    let (mut parts, twice) = fleet::latest_run_per_node(kept);
    print_lines(&twice);
    print_lines(&fleet::make_names_unique(&mut parts));
    let longest = parts.iter().map(|run| run.elapsed_s).fold(0.0, f64::max);
    let all = [
        fleet::missing_node_findings(&parts),
        others.iter().flat_map(wrong_answers).collect(),
        others.iter().filter_map(|run| Some(other_plan_finding(run, parts.first()?))).collect(),
        parts.iter().filter_map(incomplete_finding).collect(),
        missing_findings(expected, &parts, &others),
        lost,
    ];
    let mut parts = parts.into_iter().peekable();
    let Some(first) = parts.peek() else {
        return Err(Failure { line: "no run to join".to_owned(), code: code::SERVER_FAILED });
    };
    // Plan and start are those of the first run.
    let header = Run { id: plimsoll_system::wall::run_id(), findings: Vec::new(), ..first.header() };
    let mut joined = fleet::merged(header, parts, all.concat(), true);
    joined.elapsed_s = longest;
    Ok(joined)
}

fn print_lines(lines: &[String]) {
    lines.iter().take(MAX_NAMES_SHOWN).for_each(|line| complain(line));
    if let Some(more @ 1..) = lines.len().checked_sub(MAX_NAMES_SHOWN) {
        complain(&format!("and {more} more such lines"));
    }
}

/// Returns the runs with the most common (or latest) plan, options and version, and the other runs.
fn alike(runs: Vec<Run>) -> (Vec<Run>, Vec<Run>) {
    let key = |run: &Run| [run.plan.name.clone(), run.version.clone(), run.plan.text.clone()];
    let mut groups: BTreeMap<[String; 3], (usize, String)> = BTreeMap::new();
    for run in &runs {
        let (count, latest) = groups.entry(key(run)).or_default();
        *count += 1;
        *latest = std::mem::take(latest).max(run.started.clone());
    }
    let most = groups.into_iter().max_by_key(|(_, counted)| counted.clone()).map(|(key, _)| key);
    runs.into_iter().partition(|run| most.as_ref() == Some(&key(run)))
}

fn names(run: &Run) -> impl Iterator<Item = &str> {
    run.nodes.iter().map(|node| node.name.as_str())
}

fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| shown_within(name, 64)).collect();
    and_more(&names, MAX_NAMES_SHOWN)
}

fn about(code: &str, text: String, run: &Run) -> Finding {
    Finding::new(code, text, json!({ "nodes": names(run).collect::<Vec<_>>() }))
}

/// Returns the finding that `run` is left out, as its plan or version is not that of `usual`.
fn other_plan_finding(run: &Run, usual: &Run) -> Finding {
    let why = |what: &str, own: &str, most: &str| {
        format!("its document is of {what} {}, most are of {}", shown_within(own, 60), shown_within(most, 60))
    };
    let why = match () {
        () if run.version != usual.version => why("plimsoll", &run.version, &usual.version),
        () if run.plan.name != usual.plan.name => why("plan", &run.plan.name, &usual.plan.name),
        () => "its run had other options than most".to_owned(),
    };
    let nodes = join_names(names(run));
    let text = format!("{nodes} is left out: {why}. Gather documents of one plan and version together");
    about("machine-left-out", text, run)
}

fn wrong_answers(run: &Run) -> impl Iterator<Item = Finding> {
    let wrong = run.measurements.iter().filter_map(|made| Some((made, made.wrong_answer.as_deref()?)));
    wrong.map(|(made, wrong)| about(WRONG_ANSWER, format!("{}: {wrong}", shown_within(&made.node, 64)), run))
}

/// Returns the finding that a machine's run ended early or has no result; `None` if it is complete.
fn incomplete_finding(run: &Run) -> Option<Finding> {
    let nodes = join_names(names(run));
    let text = match nothing_measured(run) {
        _ if run.measurements.is_empty() => format!("{nodes}: its run ended before its first case did"),
        Some(why) => format!("{nodes}: {why}"),
        None if run.status == RunStatus::Partial && run.nodes.len() == 1 => format!(
            "{nodes}: its run ended early, with {} of {}",
            run.measurements.len(),
            format_count(run.plan.cases, "case")
        ),
        None => return None,
    };
    Some(about("machine-failed", text, run))
}

/// Returns a finding for each expected name without a run. Prints names not expected to stderr.
fn missing_findings(expected: &BTreeSet<String>, runs: &[Run], left_out: &[Run]) -> Vec<Finding> {
    let here: BTreeSet<&str> = runs.iter().chain(left_out).flat_map(names).collect();
    let others: Vec<&str> = here.iter().copied().filter(|name| !expected.contains(*name)).collect();
    if !expected.is_empty() && !others.is_empty() {
        complain(&format!("not in --expect: {}", join_names(others.into_iter())));
    }
    let gone = expected.iter().filter(|name| !here.contains(name.as_str()));
    let of = |name: &String| {
        let shown = shown_within(name, 64);
        let text = format!("{shown} is missing: --expect names it, and no document is from it");
        Finding::new("machine-missing", text, json!({ "node": name }))
    };
    gone.map(of).collect()
}

fn unreadable(wrong: &[String]) -> Option<Finding> {
    let first = wrong.first()?;
    let count = format_count(wrong.len(), "document");
    let text = format!("{count} cannot be read, so machines may be missing. The first: {first}");
    Some(Finding::new("unreadable", text, json!({ "documents": wrong.len() })))
}
#[cfg(test)]
mod tests;
