//! Resolves the names of sides of a comparison: a run, tag, file, baseline or published table.

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll_compare::{ComparedSide, Floors, PUBLISHED};
use plimsoll_history::{Location, MOST_BASELINE, OpenRegression, SkippedRuns, Store, StoreError};
use plimsoll_output::report;
use plimsoll_result::document::Run;
use plimsoll_units::text::shown_within;

use super::Failure;
use crate::output;

/// The history, opened on first use: files can be compared without one.
pub(super) struct LazyHistory<'a> {
    named: Option<&'a Path>,
    store: Option<Store>,
    pub(super) notes: Vec<String>,
    /// Unresolved regressions: runs since then are in no baseline.
    pub(super) open_losses: Vec<OpenRegression>,
}

/// Returns copies of the sides without private names. A side that was named by a file is renamed to
/// `side N`, N from 1 by position. Fails if a run cannot be redacted.
pub(super) fn redact_sides(sides: &[ComparedSide]) -> Result<Vec<ComparedSide>, Failure> {
    let one = |(index, side): (usize, &ComparedSide)| {
        let is_file = side.name.contains('/') || Path::new(&side.name).exists();
        let name = if is_file { format!("side {}", index + 1) } else { side.name.clone() };
        let runs = side.runs.iter().map(|run| super::shareable(run, true)).collect::<Result<_, _>>()?;
        Ok(ComparedSide { name, runs })
    };
    sides.iter().enumerate().map(one).collect()
}

fn is_file(name: &str) -> bool {
    name.contains('/') || [".json", ".html"].iter().any(|end| name.ends_with(end))
}

pub(super) fn files<'a>(
    names: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
) -> impl Iterator<Item = &'a Path> {
    names.into_iter().map(AsRef::as_ref).filter(|name| is_file(name)).map(Path::new)
}

impl<'a> LazyHistory<'a> {
    pub(super) fn new(named: Option<&'a Path>) -> Self {
        Self { named, store: None, notes: Vec::new(), open_losses: Vec::new() }
    }

    /// Returns the history, opened for reading by the first call. Fails if it cannot be read.
    pub(super) fn open(&mut self) -> Result<&Store, Failure> {
        if self.store.is_none() {
            let store = Store::read(&needed_location(self.named)?)?;
            store.problems()?.iter().for_each(|problem| output::complain(problem));
            self.store = Some(store);
        }
        self.store.as_ref().ok_or_else(|| Failure::usage("there is no history"))
    }

    /// Returns the noise floors that `plimsoll doctor` stored for the machines of `sides`, if any.
    pub(super) fn floors(&mut self, sides: &[ComparedSide]) -> Result<Vec<Floors>, Failure> {
        let is_wanted = self.named.is_some_and(|named| named != Path::new("none"));
        let store = match self.open() {
            Ok(store) => store,
            Err(e) if is_wanted => return Err(e),
            Err(_) => return Ok(Vec::new()),
        };
        let machines: BTreeSet<&str> =
            sides.iter().flat_map(|side| &side.runs).map(|run| run.machine.id.as_str()).collect();
        Ok(machines.into_iter().filter_map(|id| store.floors(id)).collect())
    }

    /// Returns, in order, one side per name: run, tag, file, or at most one baseline or table.
    pub(super) fn sides(&mut self, names: &[&str]) -> Result<Vec<ComparedSide>, Failure> {
        let mut relative = None;
        let mut sides = Vec::new();
        for (at, name) in names.iter().enumerate() {
            match (baseline(name)?, name.strip_prefix(PUBLISHED)) {
                (None, None) => sides.push(self.side(name)?),
                found if relative.is_none() => relative = Some((at, *name, found)),
                _ => {
                    let why = "only one side may be a baseline or a published table: name a run on another, such as last";
                    return Err(Failure::usage(why));
                }
            }
        }
        let Some((at, name, found)) = relative else { return Ok(sides) };
        let other =
            sides.first().ok_or_else(|| Failure::usage(format!("{} requires another side", shown(name))))?;
        let side = match found {
            (Some(count), _) => self.baseline_of(other, name, count)?,
            (None, table) => published_side(name, table.unwrap_or_default(), other)?,
        };
        sides.insert(at, side);
        Ok(sides)
    }

    /// Returns the baseline of `run`: at most `count` complete runs of the same plan and machine
    /// before it. The note is on runs left out, regressions that last, or an empty baseline.
    pub(super) fn before(&mut self, run: &Run, count: usize) -> Result<(Vec<Run>, Option<String>), Failure> {
        let store = self.open()?;
        let found = store.baseline(run, count)?;
        let passed_over = store.count_skipped(run)?;
        let notes = not_taken(passed_over).into_iter().chain(report::history::open_losses(&found.open));
        let others = Some(notes.collect::<Vec<_>>().join("; ")).filter(|notes| !notes.is_empty());
        let runs = loaded(store, &found.runs)?;
        self.open_losses = found.open;
        if !runs.is_empty() {
            return Ok((runs, others));
        }
        let plan = plimsoll_units::text::shown(&run.plan.name);
        let rest =
            others.unwrap_or_else(|| "there is no run before the first one to be its baseline".to_owned());
        let note = format!("no complete run of plan {plan} on this kind of machine came before; {rest}");
        Ok((runs, Some(note)))
    }

    fn baseline_of(
        &mut self,
        other: &ComparedSide,
        name: &str,
        count: usize,
    ) -> Result<ComparedSide, Failure> {
        let run = other.runs.last().ok_or_else(|| Failure::usage("A or B has no runs"))?;
        let (runs, note) = self.before(run, count)?;
        let note = note.map(|note| format!("{}: {note}", shown(name)));
        if runs.is_empty() {
            return Err(Failure::usage(format!(
                "{}; to compare with other runs, tag them with plimsoll history tag and name the tag",
                note.unwrap_or_default()
            )));
        }
        self.notes.extend(note);
        Ok(ComparedSide { name: shown(name), runs })
    }

    /// Returns the runs of a file, tag or stored run. Fails if none has a result or finding.
    fn side(&mut self, name: &str) -> Result<ComparedSide, Failure> {
        let runs = self.named(name)?;
        // A node that was lost before it measured is a result.
        let has_result = |run: &Run| !run.measurements.is_empty() || !run.findings.is_empty();
        let Some(run) = runs.last().filter(|_| !runs.iter().any(has_result)) else {
            return Ok(ComparedSide { name: shown(name), runs });
        };
        let another = if name == "last" { ": last~1 is the one before last" } else { "" };
        Err(Failure::usage(format!(
            "run {} has no results: it ended before its first case did; choose another run{another}",
            shown(&run.id)
        )))
    }

    /// Returns the run of the file, or all runs with the tag, or the stored run that `name` names.
    fn named(&mut self, name: &str) -> Result<Vec<Run>, Failure> {
        if is_file(name) {
            return Ok(vec![Run::read(Path::new(name)).map_err(Failure::usage)?]);
        }
        if name.starts_with("baseline:") || name.starts_with(PUBLISHED) {
            return Err(Failure::usage(format!(
                "{} is not a stored run: plimsoll compare alone takes it (plimsoll report RUN --tables published prints published tables)",
                shown(name)
            )));
        }
        let store = self.open()?;
        let tagged = store.tagged(name)?;
        if !tagged.is_empty() {
            return loaded(store, &tagged);
        }
        let advised = |e: &StoreError| advice(name).filter(|_| matches!(e, StoreError::NoSuchRun(_)));
        let run = store.load(name).map_err(|e| advised(&e).map_or_else(|| e.into(), Failure::usage))?;
        Ok(vec![run])
    }

    pub(super) fn runs(&mut self, names: &[String]) -> Result<Vec<Run>, Failure> {
        let mut runs = Vec::new();
        for name in names {
            runs.extend(self.side(name)?.runs);
        }
        Ok(runs)
    }
}

/// Returns an error with advice for `name`, which no stored run has; `None` if there is no advice.
fn advice(name: &str) -> Option<String> {
    let shown = shown(name);
    if Path::new(name).exists() {
        return Some(match Run::read_all(Path::new(name)) {
            _ if Path::new(name).is_dir() => format!("{shown} is a directory: name its files"),
            Ok(_) => format!("no run '{shown}' is in the history; for the file of that name write ./{shown}"),
            Err(_) => format!(
                "{shown} is neither a stored run nor a run document (JSON or a page); for a result of another tool use plimsoll check"
            ),
        });
    }
    let missing = format!("no run '{name}' is in the history");
    if name == "baseline" {
        return Some(format!("{missing}; for the last 10 runs write baseline:last10"));
    }
    let names = plimsoll_published::names().join(", ");
    (name == "published" || plimsoll_published::find(name).is_some())
        .then(|| format!("{missing}; for a published table write published:NAME, with a name of {names}"))
}

/// Returns a note with the numbers of earlier runs that a baseline leaves out because they are
/// imported, partial or empty; `None` if there are none.
fn not_taken(others: SkippedRuns) -> Option<String> {
    let SkippedRuns { imported, partial, empty } = others;
    let kinds = [(imported, "imported"), (partial, "partial"), (empty, "without any measured case")];
    let kinds = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let stated = kinds.collect::<Vec<_>>().join(", ");
    (!stated.is_empty()).then(|| format!("earlier runs of the plan that it leaves out: {stated}"))
}

/// Returns, as side `name`, the results of the published report `table` for the cases of `other`.
fn published_side(name: &str, table: &str, other: &ComparedSide) -> Result<ComparedSide, Failure> {
    let found = plimsoll_published::find(table).ok_or_else(|| {
        let (shown, names) = (shown_within(table, 60), plimsoll_published::names().join(", "));
        Failure::usage(format!("published:NAME must be one of {names}: '{shown}' is not"))
    })?;
    let like =
        other.runs.last().ok_or_else(|| Failure::usage("published:NAME requires a run on the other side"))?;
    Ok(ComparedSide { name: shown(name), runs: vec![found.as_run(like)] })
}

fn shown(name: &str) -> String {
    shown_within(name, 120)
}

fn loaded(store: &Store, ids: &[String]) -> Result<Vec<Run>, Failure> {
    Ok(ids.iter().map(|id| store.load(id)).collect::<Result<_, _>>()?)
}

/// Returns the location of the history: `named`, or the default. Fails if `named` is `none`.
pub(super) fn needed_location(named: Option<&Path>) -> Result<Location, Failure> {
    output::location(named)?
        .ok_or_else(|| Failure::usage("--store none is not supported on this command: it needs a history"))
}

fn baseline(name: &str) -> Result<Option<usize>, Failure> {
    let Some(rest) = name.strip_prefix("baseline:") else { return Ok(None) };
    let count =
        rest.strip_prefix("last").and_then(|n| n.parse().ok()).filter(|n| (1..=MOST_BASELINE).contains(n));
    count.map(Some).ok_or_else(|| {
        Failure::usage(format!("baseline:lastN must have an N between 1 and {MOST_BASELINE}, such as baseline:last10: '{}' has not", shown(name)))
    })
}
