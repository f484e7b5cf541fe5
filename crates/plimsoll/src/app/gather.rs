//! `plimsoll gather`: run documents of many machines as one, with the machines that stand out, are missing or failed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::{Failure, code, complain, target, unwritten};
use crate::cli::Gather;
use crate::document::{Finding, Run, RunStatus};
use crate::fleet;
use crate::output::nothing_measured;
use crate::report::html::{self, Beside};
use crate::report::{Style, Wishes, terminal};
use crate::text::{counted, shown_bytes, shown_within};

/// Largest input that is read at once: a log of a thousand machines with their series is a quarter of it.
const MAX_BYTES: u64 = 8 << 30;
/// Most machines that `--expect` may name, and the size of its file.
const MAX_NAMES: u64 = 1 << 20;
/// Names that are told in a line.
const TOLD: usize = 5;

/// Joins the documents, prints or writes what comes of them.
///
/// # Errors
/// No document can be read, or a file cannot be written.
pub(super) fn gather(typed: &Gather) -> Result<ExitCode, Failure> {
    let targets = [&typed.json, &typed.html].map(|path| path.as_deref().map(target).transpose());
    let [to_json, to_html] = targets;
    let (to_json, to_html) = (to_json?, to_html?);
    let expected = typed.expect.as_deref().map(expected).transpose()?;
    let mut found = Found::default();
    for path in &typed.paths {
        found.read(path)?;
    }
    let unread = found.wrong.len();
    found.wrong.iter().take(TOLD).for_each(|line| complain(line));
    if unread > TOLD {
        complain(&format!("{} more cannot be read", counted(unread - TOLD, "document")));
    }
    let parts = alike(found.runs)?;
    let parts = renamed(once_each(parts));
    let lost = [faulty(&parts), expected.map(|names| missing(&names, &parts)).unwrap_or_default()].concat();
    let lacks = !lost.is_empty() || unread > 0;
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Err(none()) };
    let run = joined(first, parts.collect(), lost, unread == 0);
    let run = super::shareable(&run, typed.redact)?;
    if let Some(to_html) = &to_html {
        let page = html::page(std::slice::from_ref(&run), &Beside::default());
        let page = page.map_err(|e| Failure::environment(e.to_string()))?;
        to_html.put(&page).map_err(|e| unwritten(&e))?;
    }
    if let Some(to_json) = &to_json {
        // On one line: of many machines the indentation alone is more than half of it.
        let fill = |file: &mut dyn Write| Ok(serde_json::to_writer(BufWriter::new(file), &run)?);
        to_json.fill(fill).map_err(|e| unwritten(&e))?;
    }
    if ![&to_json, &to_html].into_iter().flatten().any(|target| target.is_stdout()) {
        let style = Style::detect(Wishes::default());
        let printed = terminal::print(&run, io::stdout(), &style);
        printed.map_err(|e| Failure::environment(format!("cannot write to stdout: {e}")))?;
    }
    Ok(ExitCode::from(if lacks { code::FAR_END } else { 0 }))
}

/// What was read.
#[derive(Default)]
struct Found {
    runs: Vec<Run>,
    /// What could not be read, a line each.
    wrong: Vec<String>,
}

impl Found {
    /// Reads a file, the files of a directory, or stdin.
    fn read(&mut self, path: &Path) -> Result<(), Failure> {
        let shown = shown_bytes(path.as_os_str().as_encoded_bytes());
        let failed = |e: io::Error| Failure::usage(format!("cannot read {shown}: {e}; name run documents"));
        if path == Path::new("-") {
            let mut text = String::new();
            io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
            self.take("stdin", &text);
            return Ok(());
        }
        if !path.is_dir() {
            self.file(path);
            return Ok(());
        }
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
        let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "json"));
        files.sort();
        if files.is_empty() {
            return Err(Failure::usage(format!("{shown} has no .json file; name run documents")));
        }
        files.iter().for_each(|file| self.file(file));
        Ok(())
    }

    fn file(&mut self, path: &Path) {
        let name = shown_bytes(path.as_os_str().as_encoded_bytes());
        match crate::text::read_small(path, MAX_BYTES) {
            Ok(text) => self.take(&name, &text),
            Err(why) => self.wrong.push(format!("{name}: {why}")),
        }
    }

    /// The documents of a text.
    fn take(&mut self, name: &str, text: &str) {
        let before = self.runs.len() + self.wrong.len();
        for document in Run::parse_all(text) {
            match document {
                Ok(run) => self.runs.push(run),
                Err(why) => self.wrong.push(format!("{name}: {why}")),
            }
        }
        if self.runs.len() + self.wrong.len() == before {
            self.wrong.push(format!("{name}: holds no run document"));
        }
    }
}

/// The names in a file: one a line, comments after `#`.
fn expected(path: &Path) -> Result<Vec<String>, Failure> {
    let file = shown_bytes(path.as_os_str().as_encoded_bytes());
    let text = crate::text::read_small(path, MAX_NAMES).map_err(|why| {
        Failure::usage(format!("--expect {file}: {why}; name a file with a machine's name a line"))
    })?;
    let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    Ok(names.filter(|name| !name.is_empty()).collect())
}

/// The documents of the plan and version that most have; the others are named.
fn alike(runs: Vec<Run>) -> Result<Vec<Run>, Failure> {
    let mut groups: BTreeMap<[String; 3], Vec<Run>> = BTreeMap::new();
    for run in runs {
        let key = [run.plan.name.clone(), run.version.clone(), run.plan.text.clone()];
        groups.entry(key).or_default().push(run);
    }
    let Some(most) = groups.iter().max_by_key(|(_, runs)| runs.len()).map(|(key, _)| key.clone()) else {
        return Err(none());
    };
    let kept = groups.remove(&most).unwrap_or_default();
    for ([plan, version, _], runs) in &groups {
        let why = match (*plan == most[0], *version == most[1]) {
            (true, true) => "with other options".to_owned(),
            _ => format!("of plan {} and version {}", shown_within(plan, 60), shown_within(version, 20)),
        };
        let (names, of) = (told(runs.iter().flat_map(names)), counted(runs.len(), "document"));
        complain(&format!("{of} {why} left out ({names}); gather what was measured alike by itself"));
    }
    Ok(kept)
}

fn none() -> Failure {
    Failure::usage("no run document was given; plimsoll run PLAN --json FILE writes one")
}

fn names(run: &Run) -> impl Iterator<Item = &str> {
    run.nodes.iter().map(|node| node.name.as_str())
}

/// Some names in a line.
fn told<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| shown_within(name, 64)).collect();
    let more = names.len().saturating_sub(TOLD);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names[..names.len().min(TOLD)].join(", ") + &more
}

/// Of a machine that came twice its later run.
fn once_each(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
    let mut kept: BTreeMap<(String, String), String> = BTreeMap::new();
    runs.retain(|run| {
        let of = |node: &crate::document::Node| (node.name.clone(), run.machine_of(node).id.clone());
        let earlier = run.nodes.iter().find_map(|node| kept.get(&of(node)));
        if let Some(later) = earlier {
            complain(&format!(
                "{} came twice: the run of {} is left out, that of {later} is taken",
                told(names(run)),
                run.started
            ));
            return false;
        }
        kept.extend(run.nodes.iter().map(|node| (of(node), run.started.clone())));
        true
    });
    runs.reverse();
    runs
}

/// Other machines that have the same name get a number.
fn renamed(mut runs: Vec<Run>) -> Vec<Run> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for run in &mut runs {
        for index in 0..run.nodes.len() {
            let name = run.nodes[index].name.clone();
            let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
            if *count == 1 {
                continue;
            }
            let new = format!("{name}-{count}");
            complain(&format!(
                "several machines have the name {}: one is {} here",
                shown_within(&name, 64),
                shown_within(&new, 70)
            ));
            run.measurements.iter_mut().filter(|m| m.node == name).for_each(|m| m.node.clone_from(&new));
            run.nodes[index].name = new;
        }
    }
    runs
}

/// Machines whose run ended before its time, or has no figure.
fn faulty(runs: &[Run]) -> Vec<Finding> {
    let of = |run: &Run| {
        let nodes = told(names(run));
        let text = match (nothing_measured(run), run.status) {
            (Some(why), _) => format!("{nodes}: {why}"),
            (None, RunStatus::Partial) => format!(
                "{nodes}: its run ended early, with {} of {}",
                run.measurements.len(),
                counted(run.plan.cases * run.nodes.len(), "case")
            ),
            (None, RunStatus::Complete) => return None,
        };
        Some(Finding {
            code: "machine-failed".to_owned(),
            text,
            evidence: json!({ "nodes": names(run).collect::<Vec<_>>() }),
        })
    };
    runs.iter().filter_map(of).collect()
}

/// Machines that were expected and sent nothing; others are named.
fn missing(expected: &[String], runs: &[Run]) -> Vec<Finding> {
    let here: Vec<&str> = runs.iter().flat_map(names).collect();
    let others = here.iter().copied().filter(|name| !expected.iter().any(|one| one == name));
    let others: Vec<&str> = others.collect();
    if !others.is_empty() {
        complain(&format!("not in --expect: {}", told(others.into_iter())));
    }
    let gone = expected.iter().filter(|name| !here.contains(&name.as_str()));
    let of = |name: &String| Finding {
        code: "machine-missing".to_owned(),
        text: format!("{} is missing: none of the documents is of it", shown_within(name, 64)),
        evidence: json!({ "node": name }),
    };
    gone.map(of).collect()
}

/// One run of all, whose plan and beginning are those of the first.
fn joined(first: Run, rest: Vec<Run>, lost: Vec<Finding>, whole: bool) -> Run {
    let elapsed_s = rest.iter().map(|run| run.elapsed_s).fold(first.elapsed_s, f64::max);
    let header = Run { id: crate::wall::run_id(), elapsed_s, findings: Vec::new(), ..first.header() };
    fleet::merged(header, std::iter::once(first).chain(rest), lost, whole)
}

#[cfg(test)]
mod tests;
