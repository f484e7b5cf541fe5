//! Running or killed runs: one file `unfinished/ID.jsonl` each, synced per line until the run ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::{Node, NodeHealth, RUN_SCHEMA, Run, RunStatus};
use plimsoll_system::leftover::Registry;
use plimsoll_system::wall::ClockStep;
use plimsoll_units::json;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::documents::{create_private_dir, open_existing, replace_atomically};
use super::error::StoreError;

const UNFINISHED: &str = "unfinished";

const SUFFIX: &str = ".jsonl";

const MAX_BYTES: u64 = 2 << 30;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JournalLine<R, M, P> {
    /// First line: the run without measurements.
    Run(R),
    Measured(M),
    Machine(P),
}

#[derive(Serialize, Deserialize)]
struct MachineFigures {
    elapsed_s: f64,
    node: Node,
    health: Vec<NodeHealth>,
    clock_steps: Vec<ClockStep>,
    measured: Vec<Measurement>,
}

#[derive(Debug)]
pub(super) struct RunJournal {
    file: File,
    path: PathBuf,
}

pub(super) fn path_of(directory: &Path, id: &str) -> PathBuf {
    directory.join(UNFINISHED).join(format!("{id}{SUFFIX}"))
}

impl RunJournal {
    /// Creates the journal of `run` below `directory`, with the measurements that it already has.
    pub(super) fn start(directory: &Path, run: &Run, registry: &Registry) -> Result<Self, StoreError> {
        let path = path_of(directory, &run.id);
        let started = || -> io::Result<File> {
            create_private_dir(&directory.join(UNFINISHED))?;
            let mut text = line(&JournalLine::<_, (), ()>::Run(run.header()))?;
            for measured in &run.measurements {
                text.extend(line(&JournalLine::<(), _, ()>::Measured(measured))?);
            }
            replace_atomically(&path, registry, |mut file| file.write_all(&text))?;
            let flags = OFlags::NOFOLLOW.bits().cast_signed();
            OpenOptions::new().append(true).custom_flags(flags).open(&path)
        };
        let file = started().map_err(|e| StoreError::NotWritable(path.clone(), e))?;
        Ok(Self { file, path })
    }

    pub(super) fn add(&mut self, measured: &[Measurement]) -> Result<(), StoreError> {
        let lines = measured.iter().map(|one| line(&JournalLine::<(), _, ()>::Measured(one)));
        let lines = lines.collect::<io::Result<Vec<_>>>();
        self.append(lines.map(|lines| lines.concat()))
    }

    /// Appends `part`, the run of `node` alone, whose results replace its earlier ones when the
    /// journal is read. `elapsed_s` is the time of the whole run.
    pub(super) fn add_machine(&mut self, elapsed_s: f64, node: Node, part: &Run) -> Result<(), StoreError> {
        let (health, clock_steps) = (part.health.clone(), part.clock_steps.clone());
        let measured = part.measurements.clone();
        let part = MachineFigures { elapsed_s, node, health, clock_steps, measured };
        self.append(line(&JournalLine::<(), (), _>::Machine(part)))
    }

    fn append(&mut self, lines: io::Result<Vec<u8>>) -> Result<(), StoreError> {
        let written =
            lines.and_then(|lines| self.file.write_all(&lines)).and_then(|()| self.file.sync_data());
        written.map_err(|e| StoreError::NotWritable(self.path.clone(), e))
    }
}

fn line(line: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

#[derive(Debug)]
pub(super) struct UnfinishedRun {
    pub(super) run: Run,
    pub(super) path: PathBuf,
    pub(super) problem: Option<StoreError>,
}

/// Reads the journals of all unfinished runs below `directory`; an error per unreadable one.
pub(super) fn all(directory: &Path) -> Vec<Result<UnfinishedRun, StoreError>> {
    let files = fs::read_dir(directory.join(UNFINISHED)).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(SUFFIX) && !name.starts_with('.')
    });
    files.filter_map(|path| read(&path).transpose()).collect()
}

/// Reads a journal as a partial run; `None` if it does not exist, because the run just ended.
pub(super) fn read(path: &Path) -> Result<Option<UnfinishedRun>, StoreError> {
    let Some(file) = open_existing(path)? else { return Ok(None) };
    let mut lines = BufReader::new(file.take(MAX_BYTES));
    let (mut run, mut text, mut unused) = (None::<Run>, Vec::new(), 0);
    loop {
        text.clear();
        lines.read_until(b'\n', &mut text).map_err(|e| StoreError::NotReadable(path.to_owned(), e))?;
        let is_ended = text.ends_with(b"\n");
        match (json::parse_bytes::<JournalLine<Run, Measurement, MachineFigures>>(&text), &mut run) {
            (Ok(JournalLine::Run(header)), None) => run = Some(header),
            (Ok(JournalLine::Measured(measured)), Some(run)) => run.measurements.push(measured),
            (Ok(JournalLine::Machine(part)), Some(run)) => {
                run.elapsed_s = part.elapsed_s;
                run.measurements.retain(|one| one.node != part.node.name);
                run.measurements.extend(part.measured);
                run.put_node(part.node, part.health, part.clock_steps);
            }
            // A kill cuts off only the last line.
            (_, None) => break,
            _ if !is_ended => break,
            (_, Some(_)) => unused += 1,
        }
    }
    let damaged = |why: &str| StoreError::Damaged(path.to_owned(), why.to_owned());
    let mut run = run.ok_or_else(|| damaged("it does not begin with a run"))?;
    if path.file_name().is_none_or(|name| *name != *format!("{}{SUFFIX}", run.id)) {
        return Err(damaged("its name is not that of its run"));
    }
    run.status = RunStatus::Partial;
    let points = run.measurements.iter().flat_map(|m| &m.metrics).flat_map(|m| &m.series);
    run.elapsed_s = points.map(|point| point.t).fold(run.elapsed_s, f64::max);
    let read = run.to_json().map_err(|e| e.to_string()).and_then(|text| Run::parse(&text));
    let invalid = match read {
        Err(why) if run.schema != RUN_SCHEMA => return Err(damaged(&why)),
        read => read.err().map(|why| damaged(&why)),
    };
    let why = (unused > 0).then(|| format!("{unused} of its lines are damaged; its other cases are used"));
    let problem = why.map(|why| damaged(&why)).or(invalid);
    Ok(Some(UnfinishedRun { run, path: path.to_owned(), problem }))
}
