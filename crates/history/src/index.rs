//! Facts about all runs, cached in `index.json` so that only new and changed documents are read.
//! The file may be deleted at any time; an invalid one is rebuilt.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_machine::EffectiveCache;
use plimsoll_model::measurement::Status;
use plimsoll_model::metric::Better;
use plimsoll_result::document::{RUN_SCHEMA, RunStatus};
use plimsoll_system::leftover::Registry;
use plimsoll_units::quantity::Unit;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::CaseCounts;
use super::documents::{self, DocumentFile, FileStamp, Listing, RUNS_DIRECTORY};
use super::error::StoreError;
use super::unfinished;
use plimsoll_units::text::shown_path;

/// Format version of the index file; other versions are ignored.
const FORM: &str = "plimsoll.index/2";

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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunFacts {
    pub(super) id: String,
    pub(super) started: String,
    /// `started` in ms since 1970, the sort key.
    began_ms: i64,
    pub(super) elapsed_s: f64,
    pub(super) plan: String,
    pub(super) machine: String,
    pub(super) host: Option<String>,
    pub(super) nodes: usize,
    pub(super) status: RunStatus,
    pub(super) counts: CaseCounts,
    pub(super) cache: Option<EffectiveCache>,
    pub(super) figures: Vec<IndexedFigure>,
}

impl RunFacts {
    /// Returns the key for sorting by time, (start in ms, ID).
    fn sort_key(&self) -> (i64, &str) {
        (self.began_ms, &self.id)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Indexed {
    pub(super) facts: RunFacts,
    pub(super) path: PathBuf,
    pub(super) is_unfinished: bool,
}

impl Indexed {
    /// Returns (is complete, number of cases), by which two documents of a run are compared.
    fn completeness(&self) -> (bool, usize) {
        (self.facts.status == RunStatus::Complete, self.facts.counts.total())
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

/// Stamp of a document when it was read, and its facts or why it is damaged.
type IndexedFile = (FileStamp, Result<RunFacts, String>);

impl Index {
    pub(super) fn load(directory: &Path, registry: &Registry) -> Result<Self, StoreError> {
        let Listing { entries, mut problems } = documents::list_documents(directory)?;
        let stored = stored(directory);
        let (mut numbers, mut known) = (SeriesNumbers::of(stored.series), stored.files);
        let number_known = known.len();
        let mut files = BTreeMap::new();
        let mut fresh = Vec::new();
        for (file, stamp) in entries {
            match known.remove(&file).filter(|(known, _)| *known == stamp) {
                Some(found) => drop(files.insert(file, found)),
                None => fresh.push((file, stamp)),
            }
        }
        let is_current = fresh.is_empty() && files.len() == number_known;
        let runs = directory.join(RUNS_DIRECTORY);
        for ((file, stamp), read) in read_all(&runs, fresh) {
            let found = match read {
                Ok(read) => Ok(numbers.facts(read)),
                Err(StoreError::Damaged(_, why)) => Err(why),
                // The document may be sound: it is read again next time.
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
        index.runs.sort_by(|a, b| a.facts.sort_key().cmp(&b.facts.sort_key()));
        Ok(index)
    }

    /// Adds each run in `stored` once, by its most complete document; its other ones are problems.
    fn add_stored(&mut self, directory: &Path, stored: Stored) {
        let runs = directory.join(RUNS_DIRECTORY);
        let mut places: HashMap<String, usize> = HashMap::new();
        for (file, (_, found)) in stored.files {
            let path = runs.join(file);
            let found = found.map_err(|why| self.problems.push(StoreError::Damaged(path.clone(), why)));
            let Ok(facts) = found else { continue };
            let mut found = Indexed { facts, path, is_unfinished: false };
            let Some(&place) = places.get(&found.facts.id) else {
                places.insert(found.facts.id.clone(), self.runs.len());
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
            let text = serde_json::to_string(&left.run).map_err(|e| e.to_string());
            let read = text.and_then(|text| outline(&text));
            let read = read.map_err(|why| self.problems.push(StoreError::Damaged(left.path.clone(), why)));
            let Ok(read) = read else { continue };
            let found = Indexed { facts: numbers.facts(read), path: left.path, is_unfinished: true };
            match self.runs.iter_mut().find(|known| known.facts.id == left.run.id) {
                None => self.runs.push(found),
                Some(known) if known.completeness() < found.completeness() => *known = found,
                Some(_) => {}
            }
        }
        self.series = numbers.series;
    }

    pub(super) fn find(&self, id: &str) -> Option<&Indexed> {
        self.runs.iter().find(|run| run.facts.id == id)
    }
}

fn path_of(directory: &Path) -> PathBuf {
    directory.join("index.json")
}

/// Reads the index file below `directory`; empty if it is missing, damaged or has another version.
fn stored(directory: &Path) -> Stored {
    let read = || -> Option<Stored> {
        let file = documents::regular(&path_of(directory)).ok()?;
        let mut text = Vec::new();
        io::Read::read_to_end(&mut BufReader::new(file), &mut text).ok()?;
        let stored: Stored = serde_json::from_slice(&text).ok()?;
        let figures = |(_, found): &IndexedFile| {
            found.iter().flat_map(|facts| &facts.figures).all(|f| f.0 < stored.series.len())
        };
        (stored.form == FORM && stored.files.values().all(figures)).then_some(stored)
    };
    read().unwrap_or_else(|| Stored { form: FORM.to_owned(), series: Vec::new(), files: BTreeMap::new() })
}

fn keep(directory: &Path, stored: &Stored, registry: &Registry) -> io::Result<()> {
    let text = serde_json::to_vec(stored)?;
    documents::replace_atomically(&path_of(directory), registry, |mut file| file.write_all(&text))
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

    fn number(&mut self, series: IndexedSeries) -> usize {
        let unranked = IndexedSeries { rank: 0, ..series.clone() };
        let number = *self.numbers.entry(unranked).or_insert(self.series.len());
        match self.series.get_mut(number) {
            Some(known) => known.rank = known.rank.min(series.rank),
            None => self.series.push(series),
        }
        number
    }

    fn facts(&mut self, (mut facts, figures): Outline) -> RunFacts {
        let figures =
            figures.into_iter().map(|(series, median, of_limit)| (self.number(series), median, of_limit));
        facts.figures = figures.collect();
        facts
    }
}

/// Facts without results, and the results with their series.
type Outline = (RunFacts, Vec<(IndexedSeries, f64, Option<f64>)>);

fn read_all(runs: &Path, entries: Vec<DocumentFile>) -> Vec<(DocumentFile, Result<Outline, StoreError>)> {
    const MAX_THREADS: usize = 8;
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(entries.len());
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = runs.join(&entry.0);
            let text = documents::read_unpacked(&path);
            let read = text.and_then(|text| outline(&text).map_err(|why| StoreError::Damaged(path, why)));
            if let Ok(mut found) = found.lock() {
                found.push((entry.clone(), read));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_unstable_by(|a, b| a.0.0.cmp(&b.0.0));
    found
}

#[derive(Deserialize)]
struct DocumentParts {
    schema: String,
    id: String,
    started: String,
    elapsed_s: f64,
    status: RunStatus,
    plan: PlanPart,
    machine: MachinePart,
    nodes: Vec<IgnoredAny>,
    measurements: Vec<MeasurementPart>,
}

#[derive(Deserialize)]
struct PlanPart {
    name: String,
}

#[derive(Deserialize)]
struct MachinePart {
    id: String,
    host: Option<String>,
    cpu: CpuPart,
}

#[derive(Deserialize)]
struct CpuPart {
    effective_cache: Option<EffectiveCache>,
}

#[derive(Deserialize)]
struct MeasurementPart {
    case: CaseIdPart,
    status: Status,
    metrics: Vec<MetricPart>,
}

#[derive(Deserialize)]
struct CaseIdPart {
    id: String,
}

#[derive(Deserialize)]
struct MetricPart {
    name: String,
    unit: Unit,
    better: Better,
    summary: SummaryPart,
    of_limit: Option<f64>,
}

#[derive(Deserialize)]
struct SummaryPart {
    median: f64,
}

/// Parses a run document (JSON) into facts and, per metric, its median and share of the limit.
fn outline(text: &str) -> Result<Outline, String> {
    let document: DocumentParts = serde_json::from_str(text)
        .map_err(|e| format!("not a run document (JSON): {}", plimsoll_units::text::shown(&e.to_string())))?;
    if document.schema != RUN_SCHEMA {
        let schema = plimsoll_units::text::shown_within(&document.schema, 60);
        return Err(format!("has schema '{schema}', and this plimsoll reads {RUN_SCHEMA}"));
    }
    let mut counts = CaseCounts::default();
    let mut figures = Vec::new();
    for measured in document.measurements {
        counts.add(measured.status);
        if measured.status != Status::Ok {
            continue;
        }
        for (rank, metric) in measured.metrics.into_iter().enumerate() {
            let MetricPart { name, unit, better, summary, of_limit } = metric;
            let series = IndexedSeries { case: measured.case.id.clone(), metric: name, unit, better, rank };
            figures.push((series, summary.median, of_limit));
        }
    }
    let facts = RunFacts {
        began_ms: documents::parse_start(&document.id, &document.started)?.as_millisecond(),
        id: document.id,
        started: document.started,
        elapsed_s: document.elapsed_s,
        plan: document.plan.name,
        machine: document.machine.id,
        host: document.machine.host,
        nodes: document.nodes.len(),
        status: document.status,
        counts,
        cache: document.machine.cpu.effective_cache,
        figures: Vec::new(),
    };
    Ok((facts, figures))
}
