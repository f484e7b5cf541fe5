//! The history: a directory of run documents. A run is `begin` → `add` per case → `finish`; after a
//! kill every added case is kept and the run loads as partial. Several processes may write.
#![forbid(unsafe_code)]

mod baseline;
mod documents;
mod error;
mod index;
mod place;
mod query;
mod remarks;
#[cfg(test)]
mod tests;
mod unfinished;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use index::{Index, Indexed};
use plimsoll_compare::Floors;
use plimsoll_machine::{CpuSet, EffectiveCache, Machine};
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::{Node, Run, RunStatus};
use plimsoll_system::leftover::Registry;
use remarks::Remarks;
use unfinished::RunJournal;

pub use baseline::{ACCEPTED, BaselineRuns, MOST_BASELINE, OpenRegression, SkippedRuns};
pub use error::StoreError;
pub use place::Location;
pub use query::{MetricTrend, RunStart, TrendPoint, TrendQuery};
pub use remarks::ProvenCpus;

/// An open history.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    registry: Registry,
    journal: Option<RunJournal>,
    index: OnceCell<Index>,
    remarks: OnceCell<Remarks>,
}

/// Number of cases by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseCounts {
    /// Measured.
    pub ok: usize,
    /// Measured, but invalid.
    pub invalid: usize,
    /// Attempted without success.
    pub failed: usize,
    /// Not attempted.
    pub skipped: usize,
}

impl CaseCounts {
    /// Returns the number of `measurements` with each status.
    pub fn of(measurements: &[Measurement]) -> Self {
        let count = |status: Status| measurements.iter().filter(|one| one.status == status).count();
        let [ok, invalid, failed, skipped] =
            [Status::Ok, Status::Invalid, Status::Failed, Status::Skipped].map(count);
        Self { ok, invalid, failed, skipped }
    }

    /// Returns a text for each count above zero, such as `12 ok` and `1 skipped`.
    pub fn lines(&self) -> Vec<String> {
        let Self { ok, invalid, failed, skipped } = *self;
        let kinds = [(ok, "ok"), (invalid, "invalid"), (failed, "failed"), (skipped, "skipped")];
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect()
    }

    /// Returns the number of cases with any status.
    pub fn total(&self) -> usize {
        self.ok + self.invalid + self.failed + self.skipped
    }
}

/// Summary of a stored run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Run ID.
    pub id: String,
    /// Start time, RFC 3339.
    pub started: String,
    /// Duration in s; 0 if the run was killed.
    pub elapsed_s: f64,
    /// Name of the plan.
    pub plan: String,
    /// Fingerprint of the machine, or of the first of several nodes.
    pub machine: String,
    /// Host name, if known.
    pub host: Option<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Complete or partial.
    pub status: RunStatus,
    /// Number of cases by status.
    pub counts: CaseCounts,
    /// Tags and note of the user.
    #[serde(skip)]
    pub remarks: RunRemarks,
}

/// Tags and note of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRemarks {
    /// Tags in alphabetical order.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Note of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether the run came by `history import`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

impl RunRemarks {
    /// Returns tags, then note, such as `before-upgrade, fast · a note`; `None` without either.
    pub fn line(&self) -> Option<String> {
        let tags = self.tags.iter().cloned().reduce(|tags, tag| tags + ", " + &tag);
        tags.into_iter().chain(self.note.clone()).reduce(|tags, note| tags + " · " + &note)
    }
}

/// Result of `history prune`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of deleted runs.
    pub deleted: usize,
    /// Number of equally old runs that were kept for their tags.
    pub kept: usize,
}

impl Store {
    /// Opens or creates the history for writing; `registry` records its temporary files. Fails if
    /// the directory cannot be written or other users could replace its files.
    pub fn open(location: &Location, registry: Registry) -> Result<Self, StoreError> {
        let directory = location.created()?;
        let runs = directory.join(documents::RUNS_DIRECTORY);
        let ready = documents::create_private_dir(&runs)
            .and_then(|()| Ok(rustix::fs::access(&runs, rustix::fs::Access::WRITE_OK)?));
        ready.map_err(|e| StoreError::NotWritable(directory.clone(), e))?;
        Ok(Self { registry, ..Self::at(directory) })
    }

    /// Opens the history for reading. Fails with [`StoreError::Missing`] if it does not exist.
    pub fn read(location: &Location) -> Result<Self, StoreError> {
        location.resolved().map(Self::at)
    }

    fn at(directory: PathBuf) -> Self {
        let (registry, index, remarks) = (Registry::default(), OnceCell::new(), OnceCell::new());
        Self { directory, registry, journal: None, index, remarks }
    }

    fn index(&self) -> Result<&Index, StoreError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = Index::load(&self.directory, &self.registry)?;
        Ok(self.index.get_or_init(|| index))
    }

    /// Returns tags and notes of all runs; empty if unreadable, as [`Store::problems`] reports.
    fn remarks(&self) -> &Remarks {
        self.remarks.get_or_init(|| Remarks::read(&self.directory).unwrap_or_default())
    }

    /// Returns one line for each file of the history that cannot be used, with the reason.
    pub fn problems(&self) -> Result<Vec<String>, StoreError> {
        let notes = Remarks::read(&self.directory).err();
        Ok(notes.iter().chain(&self.index()?.problems).map(ToString::to_string).collect())
    }

    /// Creates the journal of a run that starts now, with the measurements that `run` already has.
    pub fn begin(&mut self, run: &Run) -> Result<(), StoreError> {
        self.index.take();
        self.journal = Some(RunJournal::start(&self.directory, run, &self.registry)?);
        Ok(())
    }

    /// Continues the stored partial run with the ID of `header`. Fails if missing or complete.
    pub fn resume(&mut self, header: &Run) -> Result<(), StoreError> {
        let known = self.load(&header.id)?;
        match known.status {
            RunStatus::Complete => Err(self.no_such(&header.id)),
            RunStatus::Partial => self.begin(&Run { measurements: known.measurements, ..header.clone() }),
        }
    }

    /// Appends measurements to the journal of the current run, if any, durably.
    pub fn add(&mut self, measured: &[Measurement]) -> Result<(), StoreError> {
        self.index.take();
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add(measured))
    }

    /// Replaces what the current run, if any, has of `node` by `part`, the run of this node alone.
    /// `elapsed_s` is the time of the whole run.
    pub fn add_machine(&mut self, elapsed_s: f64, node: Node, part: &Run) -> Result<(), StoreError> {
        self.index.take();
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add_machine(elapsed_s, node, part))
    }

    /// Stores `run` as a document and removes its journal, which is kept if writing fails.
    pub fn finish(&mut self, run: &Run) -> Result<(), StoreError> {
        self.index.take();
        documents::write(&self.directory, run, &self.registry)?;
        self.journal = None;
        documents::remove(&unfinished::path_of(&self.directory, &run.id))
    }

    /// Returns a summary of each run, the latest first, unfinished runs included.
    pub fn list(&self) -> Result<Vec<RunSummary>, StoreError> {
        let remarks = self.remarks();
        let runs = self.index()?.runs.iter().rev().map(|run| run.summary.clone());
        Ok(runs.map(|run| RunSummary { remarks: remarks.on_run(&run.id), ..run }).collect())
    }

    /// Loads the run `wanted`: an ID, a unique prefix, `last` or `last~N`. A killed run is partial.
    pub fn load(&self, wanted: &str) -> Result<Run, StoreError> {
        let found = self.wanted(wanted)?;
        let path = &found.path;
        if found.is_unfinished {
            return unfinished::read(path)?.map(|left| left.run).ok_or_else(|| self.no_such(wanted));
        }
        let run = documents::read(path)?;
        let damaged = || StoreError::Damaged(path.clone(), "it is another run than before".to_owned());
        (run.id == found.summary.id).then_some(run).ok_or_else(damaged)
    }

    /// Returns whether a run, given as in [`Store::load`], came by `history import`.
    pub fn is_imported(&self, wanted: &str) -> Result<bool, StoreError> {
        Ok(self.remarks().is_imported(&self.wanted(wanted)?.summary.id))
    }

    fn wanted(&self, wanted: &str) -> Result<&Indexed, StoreError> {
        let runs = &self.index()?.runs;
        let back = match wanted.strip_prefix("last") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix('~').and_then(|n| n.parse().ok()),
            None => return self.matching(wanted),
        };
        let found = back.and_then(|back: usize| runs.iter().rev().nth(back));
        found.ok_or_else(|| self.no_such(wanted))
    }

    fn matching(&self, typed: &str) -> Result<&Indexed, StoreError> {
        let wanted = typed.to_ascii_lowercase();
        let is_meant = |run: &&Indexed| !wanted.is_empty() && run.summary.id.starts_with(&wanted);
        let found: Vec<&Indexed> = self.index()?.runs.iter().filter(is_meant).collect();
        match found.as_slice() {
            [] => Err(self.no_such(typed)),
            [run] => Ok(run),
            // A complete ID is unambiguous even if it is a prefix of another.
            all if let Some(run) = all.iter().find(|run| run.summary.id == wanted) => Ok(run),
            all => Err(StoreError::ambiguous(&wanted, all.iter().map(|run| run.summary.id.as_str()))),
        }
    }

    /// Returns the shortest prefix of `id` that no other run has, with at least `least` characters.
    pub fn short_id(&self, id: &str, least: usize) -> Result<String, StoreError> {
        let others = self.index()?.runs.iter().map(|run| &run.summary.id).filter(|other| *other != id);
        let length = others.map(|other| unique_length(id, other)).fold(least, usize::max);
        Ok(id.chars().take(past_dash(length)).collect())
    }

    /// Returns the IDs of the runs with a tag, the oldest first.
    pub fn tagged(&self, tag: &str) -> Result<Vec<String>, StoreError> {
        let remarks = self.remarks();
        let ids = self.index()?.runs.iter().map(|run| &run.summary.id);
        Ok(ids.filter(|id| remarks.has(id, tag)).cloned().collect())
    }

    /// Adds `tag` to a run, given as in [`Store::load`]. Several runs may share a tag.
    pub fn tag(&mut self, run: &str, tag: &str) -> Result<(), StoreError> {
        self.remark(run, |remark| remark.tags.insert(tag.to_owned())).map(drop)
    }

    /// Removes `tag` from a run, given as in [`Store::load`]. Returns whether the run had this tag.
    pub fn untag(&mut self, run: &str, tag: &str) -> Result<bool, StoreError> {
        self.remark(run, |remark| remark.tags.remove(tag))
    }

    /// Sets the note of a run, given as in [`Store::load`], to `text`; an empty one removes it.
    pub fn note(&mut self, run: &str, text: &str) -> Result<(), StoreError> {
        self.remark(run, |remark| remark.note = (!text.is_empty()).then(|| text.to_owned()))
    }

    /// Returns the tags and the note of a run, given as in [`Store::load`].
    pub fn remarks_on(&self, run: &str) -> Result<RunRemarks, StoreError> {
        Ok(self.remarks().on_run(&self.wanted(run)?.summary.id))
    }

    fn remark<T>(&mut self, run: &str, change: impl FnOnce(&mut RunRemarks) -> T) -> Result<T, StoreError> {
        let id = self.wanted(run)?.summary.id.clone();
        self.change(|remarks| change(remarks.runs.entry(id).or_default()))
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Remarks) -> T) -> Result<T, StoreError> {
        self.remarks.take();
        Remarks::change(&self.directory, &self.registry, change)
    }

    /// Returns when each CPU of `host` last computed all correctly in a gate; empty if unknown.
    pub fn proven_cpus(&self, host: &str) -> ProvenCpus {
        self.remarks().proven.get(host).cloned().unwrap_or_default()
    }

    /// Records that `cpus` of `host` computed all correctly at `time`, in seconds since 1970.
    pub fn record_proven(&mut self, host: &str, cpus: &CpuSet, time: u64) -> Result<(), StoreError> {
        let times = cpus.iter().map(|cpu| (cpu, time));
        self.change(|remarks| remarks.proven.entry(host.to_owned()).or_default().extend(times))
    }

    /// Imports `run`; returns whether it was stored. A run with the same ID is replaced only if it
    /// is partial, and `run` has all its nodes and more measurements (or is complete with as many).
    pub fn import(&mut self, run: &Run) -> Result<bool, StoreError> {
        let known = self.index()?.runs.iter().map(|known| &known.summary).find(|known| known.id == run.id);
        match known.cloned() {
            Some(known) => {
                let (own, before) = (run.measurements.len(), known.counts.total());
                let ends_it = run.status == RunStatus::Complete && before == own;
                let nodes =
                    |run: &Run| run.measurements.iter().map(|m| m.node.clone()).collect::<BTreeSet<_>>();
                if known.status == RunStatus::Complete
                    || !(own > before || ends_it)
                    || !nodes(&self.load(&run.id)?).is_subset(&nodes(run))
                {
                    return Ok(false);
                }
            }
            None => self.change(|remarks| remarks.runs.entry(run.id.clone()).or_default().imported = true)?,
        }
        self.finish(run).map(|()| true)
    }

    /// Deletes runs, given by ID or tag: all, or none if one is missing. Returns their number.
    pub fn delete(&mut self, runs: &[String]) -> Result<usize, StoreError> {
        let mut found = BTreeSet::new();
        for run in runs {
            let tagged = self.tagged(run)?;
            match tagged.is_empty() {
                true => drop(found.insert(self.wanted(run)?.summary.id.clone())),
                false => found.extend(tagged),
            }
        }
        self.delete_all(&found)
    }

    /// Deletes the runs that started before `before` (RFC 3339, UTC), except tagged ones if
    /// `keep_tagged`. Returns the numbers of deleted and kept runs.
    pub fn prune(&mut self, before: &str, keep_tagged: bool) -> Result<Pruned, StoreError> {
        let remarks = self.remarks();
        let old = self.index()?.runs.iter().map(|run| &run.summary).filter(|run| *run.started < *before);
        let (kept, old): (Vec<&String>, Vec<&String>) =
            old.map(|run| &run.id).partition(|id| keep_tagged && !remarks.on_run(id).tags.is_empty());
        let (kept, old) = (kept.len(), old.into_iter().cloned().collect());
        Ok(Pruned { deleted: self.delete_all(&old)?, kept })
    }

    fn delete_all(&mut self, ids: &BTreeSet<String>) -> Result<usize, StoreError> {
        // Repeated, because a run may have been copied to a second file.
        while self.index()?.runs.iter().any(|run| ids.contains(&run.summary.id)) {
            for run in self.index()?.runs.iter().filter(|run| ids.contains(&run.summary.id)) {
                documents::remove(&run.path)?;
                documents::remove(&unfinished::path_of(&self.directory, &run.summary.id))?;
            }
            self.index.take();
        }
        self.change(|remarks| remarks.runs.retain(|id, _| !ids.contains(id)))?;
        Ok(ids.len())
    }

    /// Returns the usable last-level cache last measured in the last 32 runs on `machine`, if any.
    pub fn effective_cache(&self, machine: &Machine) -> Result<Option<EffectiveCache>, StoreError> {
        const MAX_RUNS: usize = 32;
        let remarks = self.remarks();
        let is_own = |run: &&Indexed| {
            let run = &run.summary;
            run.machine == machine.id && run.host == machine.host && !remarks.is_imported(&run.id)
        };
        let mut own = self.index()?.runs.iter().rev().filter(is_own).take(MAX_RUNS);
        Ok(own.find_map(|run| run.cache))
    }

    /// Stores the noise floors that `doctor` measured; they replace the machine's earlier ones.
    pub fn keep_floors(&mut self, floors: &Floors) -> Result<(), StoreError> {
        self.change(|remarks| {
            remarks.noise.retain(|known| known.machine != floors.machine);
            remarks.noise.push(floors.clone());
        })
    }

    /// Returns the stored noise floors of the machine with ID `machine`; `None` without any.
    pub fn floors(&self, machine: &str) -> Option<Floors> {
        self.remarks().noise.iter().find(|floors| floors.machine == machine).cloned()
    }

    fn no_such(&self, wanted: &str) -> StoreError {
        let has_runs = self.index().is_ok_and(|index| !index.runs.is_empty());
        StoreError::no_such_run(&self.directory, wanted, has_runs)
    }
}

/// Returns how many leading characters of `id` suffice to distinguish it from `other`.
pub fn unique_length(id: &str, other: &str) -> usize {
    id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count() + 1
}

/// Returns `length`, or one more if an ID prefix of `length` characters would end in a dash.
pub fn past_dash(length: usize) -> usize {
    length + usize::from(matches!(length, 9 | 14 | 19 | 24))
}
