//! Facts about all runs, cached in `index.json` so that only new and changed documents are read.
//! The file may be deleted at any time; an invalid one is rebuilt.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::{panic, thread};

use plimsoll_machine::EffectiveCache;
use plimsoll_model::measurement::Status;
use plimsoll_model::metric::Better;
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_system::leftover::Registry;
use plimsoll_units::quantity::Unit;
use serde::{Deserialize, Serialize};

use super::documents::{self, DocumentFile, FileStamp, Listing, RUNS_DIRECTORY};
use super::error::StoreError;
use super::unfinished;
use super::{CaseCounts, RunRemarks, RunSummary};
use plimsoll_units::json;
use plimsoll_units::text::shown_path;

const INDEX_FILE: &str = "index.json";

/// Format version of the index file, and reader of its documents; other ones are ignored.
const FORM: &str = concat!("plimsoll.index/3 of plimsoll ", env!("CARGO_PKG_VERSION"));

/// Properties common to all values of a metric of a case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct IndexedSeries {
    pub(super) case: String,
    pub(super) metric: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
    /// Lowest position of the metric among those of its case: 0 for the headline.
    pub(super) rank: usize,
}

/// A result: index of its series, median, share of the limit.
pub(super) type IndexedFigure = (usize, f64, Option<f64>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Indexed {
    /// Without tags and note, which the document does not have.
    pub(super) summary: RunSummary,
    /// Start in ms since 1970, the sort key.
    began_ms: i64,
    pub(super) cache: Option<EffectiveCache>,
    pub(super) figures: Vec<IndexedFigure>,
    #[serde(skip)]
    pub(super) path: PathBuf,
    #[serde(skip)]
    pub(super) is_unfinished: bool,
}

impl Indexed {
    /// Returns (is complete, number of cases), by which two documents of a run are compared.
    fn completeness(&self) -> (bool, usize) {
        (self.summary.status == RunStatus::Complete, self.summary.counts.total())
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) runs: Vec<Indexed>,
    pub(super) series: Vec<IndexedSeries>,
    pub(super) problems: Vec<StoreError>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    form: String,
    series: Vec<IndexedSeries>,
    /// Documents by path below [`RUNS_DIRECTORY`].
    files: BTreeMap<String, IndexedFile>,
}

/// Stamp of a document when it was read, and its run or why it is damaged.
type IndexedFile = (FileStamp, Result<Indexed, String>);

impl Index {
    pub(super) fn load(directory: &Path, registry: &Registry) -> Result<Self, StoreError> {
        let Listing { entries, mut problems } = documents::list_documents(directory)?;
        let stored = stored(directory);
        let (mut numbers, mut known) = (SeriesNumbers::of(stored.series), stored.files);
        let number_known = known.len();
        let mut files = BTreeMap::new();
        let mut fresh = Vec::new();
        for (file, stamp) in entries {
            // A damaged document is read again, as a newer plimsoll may be able to read it.
            match known.remove(&file).filter(|(known, found)| *known == stamp && found.is_ok()) {
                Some(found) => drop(files.insert(file, found)),
                None => fresh.push((file, stamp)),
            }
        }
        let is_current = fresh.is_empty() && files.len() == number_known;
        let runs = directory.join(RUNS_DIRECTORY);
        for ((file, stamp), read) in read_all(&runs, fresh) {
            let found = match read {
                Ok(read) => Ok(numbers.numbered(read)),
                Err(StoreError::Damaged(_, why)) => Err(why),
                // The document may be sound.
                Err(error) => {
                    problems.push(error);
                    continue;
                }
            };
            files.insert(file, (stamp, found));
        }
        let stored = Stored { form: FORM.to_owned(), series: numbers.series, files };
        if !is_current {
            // If the write fails, the next command reads the documents again.
            let _ = keep(directory, &stored, registry);
        }
        let mut index = Self { runs: Vec::new(), series: Vec::new(), problems };
        index.add_stored(directory, stored);
        index.add_unfinished(directory);
        index.runs.sort_by(|a, b| (a.began_ms, &a.summary.id).cmp(&(b.began_ms, &b.summary.id)));
        Ok(index)
    }

    /// Adds each run in `stored` once, by its most complete document; its other ones are problems.
    fn add_stored(&mut self, directory: &Path, stored: Stored) {
        let runs = directory.join(RUNS_DIRECTORY);
        let mut places: HashMap<String, usize> = HashMap::new();
        for (file, (_, found)) in stored.files {
            let path = runs.join(file);
            let found = found.map_err(|why| self.problems.push(StoreError::Damaged(path.clone(), why)));
            let Ok(found) = found else { continue };
            let mut found = Indexed { path, ..found };
            let Some(&place) = places.get(&found.summary.id) else {
                places.insert(found.summary.id.clone(), self.runs.len());
                self.runs.push(found);
                continue;
            };
            let known = &mut self.runs[place];
            if found.completeness() > known.completeness() {
                std::mem::swap(known, &mut found);
            }
            let why = format!("it holds the same run as {}; delete one of them", shown_path(&known.path));
            self.problems.push(StoreError::Unused(found.path, why));
        }
        self.series = stored.series;
    }

    /// Adds the unfinished runs below `directory`, except those with an equally complete document:
    /// a run may be killed between writing its document and removing its journal.
    fn add_unfinished(&mut self, directory: &Path) {
        let mut numbers = SeriesNumbers::of(std::mem::take(&mut self.series));
        for left in unfinished::all(directory) {
            let Ok(left) = left.map_err(|e| self.problems.push(e)) else { continue };
            self.problems.extend(left.problem);
            let Ok(read) = outline(left.run, left.path).map_err(|e| self.problems.push(e)) else { continue };
            let found = Indexed { is_unfinished: true, ..numbers.numbered(read) };
            match self.runs.iter_mut().find(|known| known.summary.id == found.summary.id) {
                None => self.runs.push(found),
                Some(known) if known.completeness() < found.completeness() => *known = found,
                Some(_) => {}
            }
        }
        self.series = numbers.series;
    }
}

/// Reads the index file below `directory`; empty if it is missing, damaged or has another version.
fn stored(directory: &Path) -> Stored {
    let read = || -> Option<Stored> {
        let file = documents::regular(&directory.join(INDEX_FILE)).ok()?;
        let mut text = Vec::new();
        io::Read::read_to_end(&mut BufReader::new(file), &mut text).ok()?;
        let stored: Stored = json::parse_bytes(&text).ok()?;
        let figures = |(_, found): &IndexedFile| {
            found.iter().flat_map(|run| &run.figures).all(|f| f.0 < stored.series.len())
        };
        (stored.form == FORM && stored.files.values().all(figures)).then_some(stored)
    };
    read().unwrap_or_else(|| Stored { form: FORM.to_owned(), series: Vec::new(), files: BTreeMap::new() })
}

fn keep(directory: &Path, stored: &Stored, registry: &Registry) -> io::Result<()> {
    let text = serde_json::to_vec(stored)?;
    documents::replace_atomically(&directory.join(INDEX_FILE), registry, |mut file| file.write_all(&text))
}

struct SeriesNumbers {
    series: Vec<IndexedSeries>,
    /// Number of each series; the rank, which may change, is 0 here.
    numbers: HashMap<IndexedSeries, usize>,
}

impl SeriesNumbers {
    fn of(series: Vec<IndexedSeries>) -> Self {
        let unranked = series.iter().map(|one| IndexedSeries { rank: 0, ..one.clone() });
        let numbers = unranked.zip(0..).collect();
        Self { series, numbers }
    }

    fn numbered(&mut self, (run, figures): Outline) -> Indexed {
        let figures = figures.into_iter().map(|(series, median, of_limit)| {
            let unranked = IndexedSeries { rank: 0, ..series.clone() };
            let number = *self.numbers.entry(unranked).or_insert(self.series.len());
            match self.series.get_mut(number) {
                Some(known) => known.rank = known.rank.min(series.rank),
                None => self.series.push(series),
            }
            (number, median, of_limit)
        });
        Indexed { figures: figures.collect(), ..run }
    }
}

/// A run without results, and the results with their series.
type Outline = (Indexed, Vec<(IndexedSeries, f64, Option<f64>)>);

fn read_all(runs: &Path, entries: Vec<DocumentFile>) -> Vec<(DocumentFile, Result<Outline, StoreError>)> {
    const MAX_THREADS: usize = 8;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let threads = threads.min(entries.len()).max(1);
    let read = |entry: &DocumentFile| {
        let path = runs.join(&entry.0);
        (entry.clone(), documents::read(&path).and_then(|run| outline(run, path)))
    };
    let part = |first| entries.iter().skip(first).step_by(threads).map(read).collect::<Vec<_>>();
    let mut found = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|first| scope.spawn(move || part(first))).collect();
        let mut found = part(0);
        let others = others.into_iter();
        found.extend(others.flat_map(|other| other.join().unwrap_or_else(|e| panic::resume_unwind(e))));
        found
    });
    found.sort_unstable_by(|a, b| a.0.0.cmp(&b.0.0));
    found
}

/// Returns what the index has of `run`, whose file is `path`. Fails for an invalid ID or start.
fn outline(run: Run, path: PathBuf) -> Result<Outline, StoreError> {
    let began = documents::parse_start(&run.id, &run.started);
    let began_ms = began.map_err(|why| StoreError::Damaged(path.clone(), why))?.as_millisecond();
    let mut figures = Vec::new();
    for measured in run.measurements.iter().filter(|measured| measured.status == Status::Ok) {
        for (rank, metric) in measured.metrics.iter().enumerate() {
            let (case, name) = (measured.case.to_string(), metric.name.clone());
            let (unit, better) = (metric.unit, metric.better);
            let series = IndexedSeries { case, metric: name, unit, better, rank };
            figures.push((series, metric.summary.median, metric.of_limit));
        }
    }
    let summary = RunSummary {
        id: run.id,
        started: run.started,
        elapsed_s: run.elapsed_s,
        plan: run.plan.name,
        machine: run.machine.id,
        host: run.machine.host,
        nodes: run.nodes.len().max(1),
        status: run.status,
        counts: CaseCounts::of(&run.measurements),
        remarks: RunRemarks::default(),
    };
    let cache = run.machine.cpu.effective_cache;
    let indexed = Indexed { summary, began_ms, cache, figures: Vec::new(), path, is_unfinished: false };
    Ok((indexed, figures))
}
