//! What can be read of a damaged history, saved into a new one.
//!
//! The damaged file is never written: a copy of it is read, row by row, and only when the new history is whole does it
//! take the place of the old one, which stays beside it under another name. Damage is what two copies show; where the system
//! refuses a call, such as a read, nothing is repaired: what could not be read may be sound.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, OpenFlags, params};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

mod copy;

use self::copy::{Reading, last_number, readable, rows, tags};
use super::error::{StoreError, is_of_the_system, name};
use super::layout::Layout;
use super::place::{self, Location, beside};
use super::{RunLine, Store, schema};
use crate::compare::Floors;
use crate::document::{Run, RunStatus, SCHEMA};
use crate::leftover::{self, Held, Registry};
use crate::measurement::Measurement;

/// What became of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The history.
    pub file: PathBuf,
    /// The damaged file, kept; `None`: nothing was damaged, and nothing done.
    pub kept: Option<PathBuf>,
    /// Runs in the history now.
    pub runs: usize,
    /// Of them, those of which measurements are lost.
    pub partly: usize,
    /// Runs that could not be read.
    pub lost: usize,
}

/// Files of SQLite beside a database.
const JOURNALS: [&str; 2] = ["-wal", "-journal"];

/// Saves what can be read. A history without damage is left as it is.
///
/// # Errors
/// There is no file, it is refused, newer or another program's, nothing of it can be read, the system refuses a call, there is
/// no room for a copy, or another program wrote it meanwhile. The history is as it was then.
pub fn repair(location: &Location, registry: Option<&Registry>) -> Result<Repaired, StoreError> {
    let file = location.resolved(place::Make::Nothing)?;
    let length = super::length(&file)?;
    let failed = |e: std::io::Error| StoreError::not_writable(&file, &e);
    let directory = file.parent().unwrap_or(Path::new("/"));
    let (work, _held) = workplace(directory, registry).map_err(failed)?;
    let before = written(&file);
    let copies = Copies { file: &file, length, work: work.path() };
    let saved = match copies.read_twice().map_err(|e| e.of_history(&file))? {
        Copied::Whole(runs) => return Ok(Repaired { file, kept: None, runs, partly: 0, lost: 0 }),
        Copied::Damaged(saved) => saved,
    };
    if saved.repaired.runs == 0 {
        return Err(StoreError::NoHistory { file: name(&file), why: "nothing in it can be read".to_owned() });
    }
    // A copy of what was written meanwhile fits together as little as a damaged one.
    if written(&file) != before {
        return Err(StoreError::refused(
            &file,
            "another program is writing it; repair again when it has ended",
        ));
    }
    let kept = Some(exchange(&file, &saved.fresh).map_err(failed)?);
    Ok(Repaired { kept, ..saved.repaired })
}

/// Where a history is copied to, and read from the copies.
struct Copies<'a> {
    file: &'a Path,
    length: u64,
    work: &'a Path,
}

impl Copies<'_> {
    /// A copy with these of its journals, which can be written, whoever may write the original.
    fn copied(&self, name: &str, suffixes: &[&str]) -> Result<PathBuf, StoreError> {
        let copy = self.work.join(name);
        for suffix in suffixes.iter().filter(|suffix| beside(self.file, suffix).exists()) {
            let to = beside(&copy, suffix);
            fs::copy(beside(self.file, suffix), &to)
                .and_then(|_| fs::set_permissions(&to, fs::Permissions::from_mode(0o600)))
                .map_err(|e| StoreError::not_writable(self.file, &e))?;
        }
        Ok(copy)
    }

    /// Reads it twice, each time from a copy of its own: a read that fails can look like damage, and does not fail alike
    /// twice.
    fn read_twice(&self) -> Result<Copied, StoreError> {
        let first = match self.read(1)? {
            Copied::Damaged(first) => first,
            whole => return Ok(whole),
        };
        match self.read(2)? {
            Copied::Damaged(again) if !first.is_same_as(&again)? => {
                Err(StoreError::read_differently(self.file))
            }
            Copied::Damaged(_) => Ok(Copied::Damaged(first)),
            whole => Ok(whole),
        }
    }

    fn read(&self, number: u8) -> Result<Copied, StoreError> {
        let all = self.copied(&format!("damaged{number}.db"), &["", JOURNALS[0], JOURNALS[1]])?;
        if let Some(runs) = whole(&all, self.file, self.length)? {
            return Ok(Copied::Whole(runs));
        }
        let fresh = |kind: &str| self.work.join(format!("{kind}{number}.db"));
        let mut saved = saved_from(&all, self.file, &fresh("history"));
        // A journal of another database hides some of this one, or all.
        let holds_rows = |suffix: &str| fs::metadata(beside(self.file, suffix)).is_ok_and(|f| f.len() > 0);
        if JOURNALS.into_iter().any(holds_rows) {
            let alone = self.copied(&format!("alone{number}.db"), &[""])?;
            saved = better(saved, saved_from(&alone, self.file, &fresh("without")));
        }
        saved.map(Copied::Damaged)
    }
}

/// A directory for the copies, which may be large: entered first, so that a later start removes what a kill leaves.
fn workplace(directory: &Path, registry: Option<&Registry>) -> std::io::Result<(TempDir, Option<Held>)> {
    let directory = directory.canonicalize()?;
    let name = leftover::new_name(leftover::REPAIR);
    let mut held = registry.and_then(|registry| registry.enter(&directory, &name).ok());
    let private = fs::Permissions::from_mode(0o700);
    let work =
        tempfile::Builder::new().prefix(&name).rand_bytes(0).permissions(private).tempdir_in(directory)?;
    if let Some(held) = &mut held {
        held.made(work.path())?;
    }
    Ok((work, held))
}

/// What a copy of a history shows.
enum Copied {
    /// It has no damage, and so many runs.
    Whole(usize),
    /// It has, and this could be read.
    Damaged(Saved),
}

/// Length and time of the last change of the file and of each of its journals.
fn written(file: &Path) -> Vec<Option<(u64, SystemTime)>> {
    let of = |suffix: &&str| {
        let found = fs::metadata(beside(file, suffix)).ok()?;
        Some((found.len(), found.modified().ok()?))
    };
    [""].iter().chain(&JOURNALS).map(of).collect()
}

/// A new history with what could be read.
struct Saved {
    fresh: PathBuf,
    repaired: Repaired,
}

impl Saved {
    /// Whether the same was read as another time.
    fn is_same_as(&self, other: &Self) -> Result<bool, StoreError> {
        let (mine, others) = (Store::existing(self.fresh.clone())?, Store::existing(other.fresh.clone())?);
        let lines = mine.list()?;
        if self.repaired != other.repaired
            || lines != others.list()?
            || mine.all_floors()? != others.all_floors()?
        {
            return Ok(false);
        }
        for RunLine { id, .. } in &lines {
            if mine.load(id)? != others.load(id)? || mine.is_imported(id)? != others.is_imported(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether every run of the other is in it, and no less of it: a journal of its own takes none away.
    fn has_all_of(&self, other: &Self) -> Result<bool, StoreError> {
        let (mine, others) = (Store::existing(self.fresh.clone())?, Store::existing(other.fresh.clone())?);
        for line in others.list()? {
            let run = others.load(&line.id)?;
            let as_much = |same: &Run| match run.status {
                RunStatus::Complete => *same == run,
                RunStatus::Partial => same.measurements.len() >= run.measurements.len(),
            };
            match mine.load(&line.id) {
                Ok(same) if as_much(&same) => {}
                Err(e) if e.is_no_place() => return Err(e),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What was read with the journal, or where that failed or lacks something, without.
fn better(all: Result<Saved, StoreError>, without: Result<Saved, StoreError>) -> Result<Saved, StoreError> {
    match (all, without) {
        (Ok(all), Ok(without)) => Ok(if all.has_all_of(&without)? { all } else { without }),
        (Err(e), Ok(without)) if without.repaired.runs > 0 && !e.is_no_place() => Ok(without),
        (Err(e), _) | (_, Err(e)) => Err(e),
    }
}

/// Saves what can be read of a copy of `file` into a new history; that has no run where nothing can.
///
/// # Errors
/// The system refuses a call, or the new history cannot be written.
fn saved_from(copy: &Path, file: &Path, fresh: &Path) -> Result<Saved, StoreError> {
    schema::create(fresh, None)?;
    let mut repaired = Repaired { file: file.to_owned(), kept: None, runs: 0, partly: 0, lost: 0 };
    match readable(copy, fresh) {
        Ok(damaged) => {
            let damaged = Reading::of(damaged);
            let mut store = Store::existing(fresh.to_owned())?;
            save(&damaged, &mut store, &mut repaired)?;
            damaged.finished().map_err(|e| StoreError::sqlite(file, &e))?;
            store.connection.close().map_err(|(_, e)| StoreError::sqlite(fresh, &e))?;
        }
        Err(e) if is_of_the_system(&e) => return Err(StoreError::sqlite(file, &e)),
        Err(_) => {}
    }
    Ok(Saved { fresh: fresh.to_owned(), repaired })
}

/// The number of runs in a copy of an undamaged history; `None` where it is damaged.
fn whole(copy: &Path, file: &Path, length: u64) -> Result<Option<usize>, StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    let checked = || -> Result<Option<usize>, StoreError> {
        let history = schema::looked_at(copy, file, length)?;
        schema::verify_write_version(&history, copy, file)?;
        // Opening checks small files only.
        let check = "PRAGMA integrity_check(1)";
        let said: String = history.query_row(check, [], |row| row.get(0)).map_err(sqlite)?;
        if said != "ok" {
            return Err(StoreError::checked(file, &said));
        }
        // Of what stands in a page nobody but its reader knows whether it is damaged.
        let headers = "SELECT number, header, id FROM run NOT INDEXED";
        let runs = all_parsed(&history, file, headers, |run: &Run, id| is_id_of(run, id))?;
        let documents = "SELECT run, document, case_id FROM measurement NOT INDEXED";
        let is_of = |one: &Measurement, case: &str| one.case.id().as_str() == case;
        Ok(all_parsed(&history, file, documents, is_of)?.and(runs))
    };
    match checked() {
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(StoreError::Newer { .. }) if says_newer_alone(copy) => Ok(None),
        other => other,
    }
}

/// Whether a run is entered under its own id.
fn is_id_of(run: &Run, entered: &str) -> bool {
    run.id == entered && uuid::Uuid::try_parse(&run.id).is_ok()
}

/// Whether nothing but the number in the header tells of a later plimsoll: the tables are those of a known version, and so
/// are the runs.
fn says_newer_alone(copy: &Path) -> bool {
    let Ok(history) = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE) else {
        return false;
    };
    let known = |layout: Layout| Layout::expected().is_ok_and(|expected| layout == expected);
    let history = Reading::of(history);
    let later = |run: i64| history.known(header_text(&history, run)).is_some_and(|header| is_later(&header));
    let alone = Layout::of(&history).is_ok_and(known) && !rows(&history, "run").into_iter().any(later);
    alone && history.finished().is_ok()
}

/// How many documents there are; `None` where one is damaged, or is not what it is entered as.
fn all_parsed<T: DeserializeOwned>(
    from: &Connection,
    file: &Path,
    select: &str,
    is_entered_as: impl Fn(&T, &str) -> bool,
) -> Result<Option<usize>, StoreError> {
    let sqlite = |e: rusqlite::Error| StoreError::sqlite(file, &e);
    let mut statement = from.prepare(select).map_err(sqlite)?;
    let mut rows = statement.query([]).map_err(sqlite)?;
    let mut count = 0;
    while let Some(row) = rows.next().map_err(sqlite)? {
        let (run, text): (i64, String) = (row.get(0).map_err(sqlite)?, row.get(1).map_err(sqlite)?);
        let entered: String = row.get(2).map_err(sqlite)?;
        let header = || header_text(from, run).map(Some).or_else(unless_refused).map_err(sqlite);
        let document = parsed::<T>(&text, header, file)?;
        if !document.is_some_and(|document| is_entered_as(&document, &entered)) {
            return Ok(None);
        }
        count += 1;
    }
    Ok(Some(count))
}

/// Nothing where what was asked for is damaged or not there.
///
/// # Errors
/// The system refused the call.
fn unless_refused<T>(error: rusqlite::Error) -> rusqlite::Result<Option<T>> {
    if is_of_the_system(&error) { Err(error) } else { Ok(None) }
}

/// The document; `None` where it is damaged. One that a later plimsoll wrote, by the header of its run, is not given up.
fn parsed<T: DeserializeOwned>(
    text: &str,
    header: impl FnOnce() -> Result<Option<String>, StoreError>,
    file: &Path,
) -> Result<Option<T>, StoreError> {
    match serde_json::from_str(text) {
        Ok(document) => Ok(Some(document)),
        Err(e) if e.is_data() && header()?.is_some_and(|header| is_later(&header)) => {
            Err(StoreError::document(file, &e))
        }
        Err(_) => Ok(None),
    }
}

/// Whether a header, known or not, says that a later plimsoll wrote it.
fn is_later(header: &str) -> bool {
    let Ok(header) = serde_json::from_str::<serde_json::Value>(header) else { return false };
    let says = |key: &str| header.get(key).and_then(serde_json::Value::as_str);
    let parts = |version: &str| -> Vec<u64> {
        version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
    };
    says("version").is_some_and(|version| parts(version) > parts(env!("CARGO_PKG_VERSION")))
        || says("schema").is_some_and(|schema| schema != SCHEMA)
}

/// A row of the table of runs.
struct Header {
    run: Run,
    origin: String,
    note: Option<String>,
}

fn save(from: &Reading, to: &mut Store, repaired: &mut Repaired) -> Result<(), StoreError> {
    let (measured, tags) = (measurements(from), tags(from));
    let mut highest = 0;
    for number in rows(from, "run") {
        highest = highest.max(number);
        let Some(mut header) = header(from, number, &repaired.file)? else { continue };
        let known = measured.get(&number).map(Vec::as_slice).unwrap_or_default();
        for row in known {
            header.run.measurements.extend(document(from, *row, number, &repaired.file)?);
        }
        // Somebody else's doing: no history enters anything twice.
        if header.run.double().is_some() {
            continue;
        }
        let cases = header.run.plan.cases;
        if header.run.measurements.len() < known.len()
            || header.run.status == RunStatus::Complete && header.run.measurements.len() < cases
        {
            header.run.status = RunStatus::Partial;
            repaired.partly += 1;
        }
        if to.import(&header.run)? {
            repaired.runs += 1;
            let tags = tags.get(&number).into_iter().flatten();
            told(&header, tags, to).map_err(|e| to.failed(&e))?;
        }
    }
    // Numbers are given in order and never again.
    let begun = last_number(from).unwrap_or(highest).max(highest);
    repaired.lost = usize::try_from(begun).unwrap_or(0).saturating_sub(repaired.runs);
    floors(from, to)
}

/// The rows of each run's measurements, in their order.
fn measurements(from: &Reading) -> BTreeMap<i64, Vec<i64>> {
    let mut found: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    let of = "SELECT run, position FROM measurement NOT INDEXED WHERE rowid = ?1";
    for row in rows(from, "measurement") {
        let place =
            from.prepare_cached(of).and_then(|mut s| s.query_row([row], |r| Ok((r.get(0)?, r.get(1)?))));
        if let Some((run, position)) = from.known(place) {
            found.entry(run).or_default().push((position, row));
        }
    }
    let ordered = |(run, mut rows): (i64, Vec<(i64, i64)>)| {
        rows.sort_unstable();
        (run, rows.into_iter().map(|(_, row)| row).collect())
    };
    found.into_iter().map(ordered).collect()
}

fn header_text(from: &Connection, number: i64) -> rusqlite::Result<String> {
    let select = "SELECT header FROM run NOT INDEXED WHERE rowid = ?1";
    from.query_row(select, [number], |row| row.get(0))
}

fn header(from: &Reading, number: i64, file: &Path) -> Result<Option<Header>, StoreError> {
    let Some(text) = from.known(header_text(from, number)) else { return Ok(None) };
    let run = parsed::<Run>(&text, || Ok(Some(text.clone())), file)?;
    let Some(run) = run.filter(|run| uuid::Uuid::try_parse(&run.id).is_ok()) else { return Ok(None) };
    // A history of the first schema has neither origin nor note.
    let more = from.query_row("SELECT origin, note FROM run NOT INDEXED WHERE rowid = ?1", [number], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    let (origin, note) = from.known(more).unwrap_or(("own".to_owned(), None));
    let state = from.query_row("SELECT state FROM run NOT INDEXED WHERE rowid = ?1", [number], |row| {
        row.get::<_, String>(0)
    });
    let status = RunStatus::of(&from.known(state).unwrap_or_default());
    Ok(Some(Header { run: Run { status, ..run }, origin, note }))
}

fn document(from: &Reading, row: i64, run: i64, file: &Path) -> Result<Option<Measurement>, StoreError> {
    let select = "SELECT document FROM measurement NOT INDEXED WHERE rowid = ?1";
    let text: rusqlite::Result<String> =
        from.prepare_cached(select).and_then(|mut s| s.query_row([row], |row| row.get(0)));
    let header = || Ok(from.known(header_text(from, run)));
    from.known(text).map_or(Ok(None), |text| parsed(&text, header, file))
}

/// Origin, note and tags of a run.
fn told<'a>(header: &Header, tags: impl Iterator<Item = &'a String>, to: &mut Store) -> rusqlite::Result<()> {
    let origin = if header.origin == "imported" { "imported" } else { "own" };
    to.connection.execute(
        "UPDATE run SET origin = ?2, note = ?3 WHERE id = ?1",
        params![header.run.id, origin, header.note],
    )?;
    for tag in tags {
        to.connection.execute(
            "INSERT OR IGNORE INTO tag (name, run) SELECT ?1, number FROM run WHERE id = ?2",
            params![tag, header.run.id],
        )?;
    }
    Ok(())
}

/// Those floors that can be read: what is lost is measured again.
fn floors(from: &Reading, to: &mut Store) -> Result<(), StoreError> {
    for row in rows(from, "floor") {
        let text = from
            .query_row("SELECT document FROM floor WHERE rowid = ?1", [row], |row| row.get::<_, String>(0));
        let known = from.known(text);
        if let Some(floors) = known.and_then(|text| serde_json::from_str::<Floors>(&text).ok()) {
            to.keep_floors(&floors)?;
        }
    }
    Ok(())
}

/// Puts the new history in the place of the damaged one, which keeps another name; where that is.
fn exchange(file: &Path, fresh: &Path) -> std::io::Result<PathBuf> {
    let free = |n: &u32| fs::symlink_metadata(beside(file, &format!(".damaged{n}"))).is_err();
    let number = (1..1000).find(free).ok_or(std::io::ErrorKind::AlreadyExists)?;
    let kept = beside(file, &format!(".damaged{number}"));
    for suffix in [""].iter().chain(&JOURNALS) {
        let from = beside(file, suffix);
        if fs::metadata(&from).is_ok_and(|found| found.len() > 0) {
            fs::hard_link(&from, beside(&kept, suffix))
                .or_else(|_| fs::copy(&from, beside(&kept, suffix)).map(drop))?;
        }
    }
    // The old journals must not be taken for the new file's.
    for suffix in JOURNALS.iter().chain(&["-shm"]) {
        match fs::remove_file(beside(file, suffix)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs::rename(fresh, file)?;
    fs::File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    Ok(kept)
}

impl Repaired {
    /// The name of the damaged file, for people.
    pub fn kept_name(&self) -> Option<String> {
        self.kept.as_deref().map(name)
    }
}

#[cfg(test)]
mod tests;
