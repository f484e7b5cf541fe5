//! The history: a directory of run documents, one compressed file a run, written whole and never changed.
//!
//! A run is `begin` → `add` for each case → `finish`; after a kill at any moment every added case is there, and the
//! run loads as partial. Several processes may write at once. Copying documents from one history to another joins the two;
//! a document that cannot be read is named and left alone, and the others are used.
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

use documents::Unread;
use index::{Index, Indexed};
use place::Make;
use plimsoll_compare::Floors;
use plimsoll_machine::{EffectiveCache, Machine};
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_system::leftover::Registry;
use remarks::Remarks;
use unfinished::Journal;

pub use baseline::{ACCEPTED, Baseline, MOST_BASELINE, OpenLoss, PassedOver};
pub use error::StoreError;
pub use place::{Location, Surroundings};
pub use query::{Asked, Began, Point, Trend};

/// An open history.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    registry: Registry,
    /// The run that this process adds to.
    journal: Option<Journal>,
    index: OnceCell<Index>,
    remarks: OnceCell<Remarks>,
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Measured.
    pub ok: usize,
    /// Measured, and not to be believed.
    pub invalid: usize,
    /// Tried, and failed.
    pub failed: usize,
    /// Not tried.
    pub skipped: usize,
}

impl Counts {
    /// Counts measurements.
    pub fn of(measurements: &[Measurement]) -> Self {
        let mut counts = Self::default();
        measurements.iter().for_each(|one| counts.add(one.status));
        counts
    }

    /// Counts one more.
    fn add(&mut self, status: Status) {
        let count = match status {
            Status::Ok => &mut self.ok,
            Status::Invalid => &mut self.invalid,
            Status::Failed => &mut self.failed,
            Status::Skipped => &mut self.skipped,
        };
        *count += 1;
    }

    /// Those that are not zero, in words: `12 ok`, `1 skipped`.
    pub fn said(&self) -> Vec<String> {
        let kinds =
            [(self.ok, "ok"), (self.invalid, "invalid"), (self.failed, "failed"), (self.skipped, "skipped")];
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect()
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.ok + self.invalid + self.failed + self.skipped
    }
}

/// A stored run in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine {
    /// Its id.
    pub id: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that it took; 0 when it was killed.
    pub elapsed_s: f64,
    /// Name of its plan.
    pub plan: String,
    /// Name of the machine, where it has one.
    pub host: Option<String>,
    /// Complete or partial.
    pub status: RunStatus,
    /// What became of its cases.
    pub counts: Counts,
    /// What the user said about it.
    pub said: Said,
}

/// A stored run, and on what it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The run in a line.
    pub line: RunLine,
    /// Fingerprint of its machine; of several machines the first one's.
    pub machine: String,
    /// On how many machines.
    pub nodes: usize,
}

/// Tags and note of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its tags, in the order of the alphabet.
    pub tags: Vec<String>,
    /// The note beside it.
    pub note: Option<String>,
}

impl Said {
    /// In one line: `before-upgrade · a note`; `None` where nothing was said.
    pub fn line(&self) -> Option<String> {
        let tags = (!self.tags.is_empty()).then(|| self.tags.join(", "));
        let parts: Vec<String> = tags.into_iter().chain(self.note.clone()).collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }
}

/// What `history prune` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Runs that were deleted.
    pub deleted: usize,
    /// Runs that are as old and were kept for their tags.
    pub kept: usize,
}

impl Store {
    /// Opens the history for writing, and makes it if it is missing; `registry` records its unfinished files.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing was changed then.
    pub fn open(location: &Location, registry: Registry) -> Result<Self, StoreError> {
        let directory = location.resolved(Make::Directory)?;
        let runs = directory.join(documents::RUNS_DIRECTORY);
        let ready = documents::make(&runs)
            .and_then(|()| Ok(rustix::fs::access(&runs, rustix::fs::Access::WRITE_OK)?));
        ready.map_err(|e| StoreError::not_writable(&directory, &e))?;
        Ok(Self { registry, ..Self::at(directory) })
    }

    /// Opens the history for reading.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none, or as [`Store::open`].
    pub fn read(location: &Location) -> Result<Self, StoreError> {
        location.resolved(Make::Nothing).map(Self::at)
    }

    fn at(directory: PathBuf) -> Self {
        Self {
            directory,
            registry: Registry::default(),
            journal: None,
            index: OnceCell::new(),
            remarks: OnceCell::new(),
        }
    }

    fn index(&self) -> Result<&Index, StoreError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = Index::load(&self.directory, &self.registry)?;
        Ok(self.index.get_or_init(|| index))
    }

    /// The remarks; none if they cannot be read, which [`Store::problems`] names.
    fn remarks(&self) -> &Remarks {
        self.remarks.get_or_init(|| Remarks::read(&self.directory).unwrap_or_default())
    }

    /// Files of the history that are not used, each in a line with the reason.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn problems(&self) -> Result<Vec<String>, StoreError> {
        let notes = Remarks::read(&self.directory).err();
        Ok(notes.iter().chain(&self.index()?.problems).map(ToString::to_string).collect())
    }

    /// Enters a run that begins now. `run` is its document as far as it is known.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn begin(&mut self, run: &Run) -> Result<(), StoreError> {
        self.index.take();
        self.journal = Some(Journal::start(&self.directory, run, &self.registry)?);
        Ok(())
    }

    /// Enters an interrupted run that goes on; what was measured before stays. `header` is its document without measurements.
    ///
    /// # Errors
    /// The history cannot be written, has no such run, or it is complete.
    pub fn resume(&mut self, header: &Run) -> Result<(), StoreError> {
        let known = self.load(&header.id)?;
        match known.status {
            RunStatus::Complete => Err(self.no_such(&header.id)),
            RunStatus::Partial => self.begin(&Run { measurements: known.measurements, ..header.clone() }),
        }
    }

    /// Writes measurements of the run that has begun to its journal, and syncs it: they survive a power cut after this call.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn add(&mut self, measured: &[Measurement]) -> Result<(), StoreError> {
        self.index.take();
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add(measured))
    }

    /// Replaces the measurements of one machine in the run that has begun. `header` describes that machine.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn add_machine(
        &mut self,
        header: &Run,
        machine: &str,
        measured: &[Measurement],
    ) -> Result<(), StoreError> {
        self.index.take();
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add_machine(header, machine, measured))
    }

    /// Stores the document of a run, in the place of all that was entered of it.
    ///
    /// # Errors
    /// The history cannot be written; what was entered before is kept.
    pub fn finish(&mut self, run: &Run) -> Result<(), StoreError> {
        self.index.take();
        documents::write(&self.directory, run, &self.registry)?;
        self.journal = None;
        unfinished::remove(&self.directory, &run.id)
    }

    /// All runs, the latest first.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn list(&self) -> Result<Vec<RunLine>, StoreError> {
        let remarks = self.remarks();
        Ok(self.index()?.runs.iter().rev().map(|run| line(run, remarks)).collect())
    }

    /// All runs with their machines, the oldest first.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let remarks = self.remarks();
        let entry = |run: &Indexed| Entry {
            line: line(run, remarks),
            machine: run.facts.machine.clone(),
            nodes: run.facts.nodes.max(1),
        };
        Ok(self.index()?.runs.iter().map(entry).collect())
    }

    /// The run whose id is or begins with `wanted`, the latest for `last`, the one before it for `last~1`. One that was killed
    /// before [`Store::finish`] is partial and holds what was added.
    ///
    /// # Errors
    /// There is none, there are several, or its document cannot be read.
    pub fn load(&self, wanted: &str) -> Result<Run, StoreError> {
        let found = self.wanted(wanted)?;
        let path = &found.path;
        if found.is_unfinished {
            // It may have ended since it was found.
            let left = unfinished::read(path)?.ok_or_else(|| self.no_such(wanted))?;
            return Ok(left.run);
        }
        let text = documents::text(path).map_err(|unread| match unread {
            Unread::Damaged(why) => StoreError::damaged(path, why),
            Unread::Refused(e) => StoreError::not_readable(path, &e),
        })?;
        let run = Run::parse(&text).map_err(|why| StoreError::damaged(path, why))?;
        match run.id == found.facts.id {
            true => Ok(run),
            false => Err(StoreError::damaged(path, "it is another run than before")),
        }
    }

    /// Whether `history import` entered a run.
    ///
    /// # Errors
    /// There is no such run, or the history cannot be read.
    pub fn is_imported(&self, wanted: &str) -> Result<bool, StoreError> {
        Ok(self.remarks().is_imported(&self.wanted(wanted)?.facts.id))
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

    fn matching(&self, wanted: &str) -> Result<&Indexed, StoreError> {
        let wanted = wanted.to_ascii_lowercase();
        let is_meant = |run: &&Indexed| !wanted.is_empty() && run.facts.id.starts_with(&wanted);
        let found: Vec<&Indexed> = self.index()?.runs.iter().filter(is_meant).collect();
        match found.as_slice() {
            [] => Err(self.no_such(&wanted)),
            [run] => Ok(run),
            // One whose whole id was given is meant, whatever else begins so.
            all if let Some(run) = all.iter().find(|run| run.facts.id == wanted) => Ok(run),
            all => Err(StoreError::ambiguous(&wanted, all.iter().map(|run| run.facts.id.as_str()))),
        }
    }

    /// The shortest prefix of a run's id that no other run has, at least `least` characters.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn short(&self, id: &str, least: usize) -> Result<String, StoreError> {
        let others = self.index()?.runs.iter().map(|run| &run.facts.id).filter(|other| *other != id);
        let length = others.map(|other| apart(id, other)).fold(least, usize::max);
        Ok(id.chars().take(whole_part(length)).collect())
    }

    /// The runs that bear a tag, the oldest first.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn tagged(&self, tag: &str) -> Result<Vec<String>, StoreError> {
        let remarks = self.remarks();
        let ids = self.index()?.runs.iter().map(|run| &run.facts.id);
        Ok(ids.filter(|id| remarks.has(id, tag)).cloned().collect())
    }

    /// Gives a run a tag; more than one run may bear it.
    ///
    /// # Errors
    /// There is no such run, or the history cannot be written.
    pub fn tag(&mut self, run: &str, tag: &str) -> Result<(), StoreError> {
        self.remark(run, |remark| {
            remark.tags.insert(tag.to_owned());
        })
    }

    /// Takes a tag from a run. Whether it bore it.
    ///
    /// # Errors
    /// There is no such run, or the history cannot be written.
    pub fn untag(&mut self, run: &str, tag: &str) -> Result<bool, StoreError> {
        self.remark(run, |remark| remark.tags.remove(tag))
    }

    /// Writes a note for a run, instead of an older one; an empty one removes it.
    ///
    /// # Errors
    /// There is no such run, or the history cannot be written.
    pub fn note(&mut self, run: &str, text: &str) -> Result<(), StoreError> {
        self.remark(run, |remark| remark.note = (!text.is_empty()).then(|| text.to_owned()))
    }

    /// Tags and note of a run.
    ///
    /// # Errors
    /// There is no such run, or the history cannot be read.
    pub fn said(&self, run: &str) -> Result<Said, StoreError> {
        Ok(self.remarks().said(&self.wanted(run)?.facts.id))
    }

    fn remark<T>(
        &mut self,
        run: &str,
        change: impl FnOnce(&mut remarks::Remark) -> T,
    ) -> Result<T, StoreError> {
        let id = self.wanted(run)?.facts.id.clone();
        self.change(|remarks| change(remarks.runs.entry(id).or_default()))
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Remarks) -> T) -> Result<T, StoreError> {
        self.remarks.take();
        Remarks::change(&self.directory, &self.registry, change)
    }

    /// Enters a run that another history, or a file, had. `false`: it is here already, and stays as it is; but one that
    /// this history could not finish gives way to one that ended, or to more measurements of all its machines.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn import(&mut self, run: &Run) -> Result<bool, StoreError> {
        match self.index()?.find(&run.id).map(|known| known.facts.clone()) {
            Some(known) => {
                let ends_it =
                    run.status == RunStatus::Complete && known.counts.total() == run.measurements.len();
                let has_more = run.measurements.len() > known.counts.total();
                if known.status == RunStatus::Complete || !(has_more || ends_it) {
                    return Ok(false);
                }
                // Figures of a machine that is not in the new document would be lost.
                let nodes =
                    |run: &Run| run.measurements.iter().map(|m| m.node.clone()).collect::<BTreeSet<_>>();
                if !nodes(&self.load(&run.id)?).is_subset(&nodes(run)) {
                    return Ok(false);
                }
            }
            None => self.change(|remarks| remarks.runs.entry(run.id.clone()).or_default().imported = true)?,
        }
        self.finish(run).map(|()| true)
    }

    /// Deletes runs with their tags and notes.
    ///
    /// # Errors
    /// One of them is not there, and none was deleted; or the history cannot be written.
    pub fn delete(&mut self, runs: &[String]) -> Result<usize, StoreError> {
        let mut found = BTreeSet::new();
        for run in runs {
            let tagged = self.tagged(run)?;
            match tagged.is_empty() {
                true => drop(found.insert(self.wanted(run)?.facts.id.clone())),
                false => found.extend(tagged),
            }
        }
        self.delete_all(&found)
    }

    /// Deletes the runs that began before a time, RFC 3339 in UTC; with `keep_tagged` those without a tag.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn prune(&mut self, before: &str, keep_tagged: bool) -> Result<Pruned, StoreError> {
        let remarks = self.remarks();
        let old = self.index()?.runs.iter().map(|run| &run.facts).filter(|run| *run.started < *before);
        let (kept, old): (Vec<&String>, Vec<&String>) =
            old.map(|run| &run.id).partition(|id| keep_tagged && !remarks.said(id).tags.is_empty());
        let (kept, old) = (kept.len(), old.into_iter().cloned().collect());
        Ok(Pruned { deleted: self.delete_all(&old)?, kept })
    }

    fn delete_all(&mut self, ids: &BTreeSet<String>) -> Result<usize, StoreError> {
        // Again, because a run may have been copied to a second file.
        loop {
            let index = self.index()?;
            let mut found = index.runs.iter().filter(|run| ids.contains(&run.facts.id)).peekable();
            if found.peek().is_none() {
                break;
            }
            for run in found {
                documents::remove(&run.path)?;
                unfinished::remove(&self.directory, &run.facts.id)?;
            }
            self.index.take();
        }
        self.change(|remarks| remarks.runs.retain(|id, _| !ids.contains(id)))?;
        Ok(ids.len())
    }

    /// The measured size of the machine's last-level cache, from the latest run on it that measured one; `None` if none of the
    /// last few runs did.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn effective_cache(&self, machine: &Machine) -> Result<Option<EffectiveCache>, StoreError> {
        const MAX_RUNS: usize = 32;
        let remarks = self.remarks();
        let runs = self.index()?.runs.iter().rev().map(|run| &run.facts);
        let own = runs.filter(|run| {
            run.machine == machine.id && run.host == machine.host && !remarks.is_imported(&run.id)
        });
        Ok(own.take(MAX_RUNS).find_map(|run| run.cache))
    }

    /// Keeps what doctor measured, instead of what it measured before on that machine.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn keep_floors(&mut self, floors: &Floors) -> Result<(), StoreError> {
        self.change(|remarks| {
            remarks.noise.retain(|known| known.machine != floors.machine);
            remarks.noise.push(floors.clone());
        })
    }

    /// The latest floors of a machine.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn floors(&self, machine: &str) -> Result<Option<Floors>, StoreError> {
        Ok(self.remarks().noise.iter().find(|floors| floors.machine == machine).cloned())
    }

    fn no_such(&self, wanted: &str) -> StoreError {
        StoreError::NoSuchRun {
            wanted: plimsoll_units::text::shown_within(wanted, 40),
            directory: error::name(&self.directory),
        }
    }
}

fn line(run: &Indexed, remarks: &Remarks) -> RunLine {
    let facts = &run.facts;
    RunLine {
        id: facts.id.clone(),
        started: facts.started.clone(),
        elapsed_s: facts.elapsed_s,
        plan: facts.plan.clone(),
        host: facts.host.clone(),
        status: facts.status,
        counts: facts.counts,
        said: remarks.said(&facts.id),
    }
}

/// Characters of an id that distinguish it from another.
pub fn apart(id: &str, other: &str) -> usize {
    id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count() + 1
}

/// A length of an id that does not end in a dash.
pub fn whole_part(length: usize) -> usize {
    match length {
        9 | 14 | 19 | 24 => length + 1,
        other => other,
    }
}
