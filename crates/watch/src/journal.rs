//! Journal of a watch: one JSON line per probe, append-only and synced. A line cut off by a kill or
//! reboot is removed on resumption. The watching process holds flock(2).

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use plimsoll_machine::StateChange;
use plimsoll_machine::cgroup::IoLimit;
use plimsoll_model::case::Case;
use plimsoll_model::sample::Outcome;
use plimsoll_result::document::Run;
use plimsoll_units::json;
use plimsoll_units::text::{shown_path, shown_within};

/// Largest journal in bytes: [`MOST_PROBES`] probes of some 14 KB each fit.
const MOST_BYTES: u64 = 2 << 30;
/// Most probes of a watch: findings are computed from all of them.
pub const MOST_PROBES: f64 = 20_000.0;
const RETRY: Duration = Duration::from_millis(50);
const FIRST_LINE_PREFIX: &[u8] = b"{\"watch\":";
const JOURNAL_SCHEMA: &str = "plimsoll-watch-journal/1";

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalEntry {
    /// First line: the parameters of the watch.
    Watch(Box<WatchOrder>),
    /// A process started or resumed the watch.
    Session(WatchSession),
    /// A probe was made.
    Probe(Box<WatchProbe>),
    /// A probe was skipped.
    Passed(WatchMark),
    /// A process ended its session regularly.
    Stopped(WatchMark),
}

/// Parameters of a watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchOrder {
    /// Format of the journal.
    pub schema: String,
    /// Duration of the watch in s.
    pub seconds: f64,
    /// Mean interval between two probes in s.
    pub every: f64,
    /// Resource budget of the watch.
    pub shares: WatchResources,
    /// Whether probes are made only while the machine is idle.
    pub idle_only: bool,
    /// Directory whose disk is measured.
    #[serde(default, with = "plimsoll_units::text::path::option", skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Server for network cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Selected cases; empty for all of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Run document before the first measurement: ID, start, plan, machine, seed.
    pub run: Run,
}

/// Resources that a watch has consumed, or its mean budget of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchResources {
    /// CPU time in s; of a budget the share of the time of one CPU: 0.02 is 2 %.
    pub cpu: f64,
    /// Disk traffic in bytes; of a budget per day.
    pub disk: f64,
    /// Network traffic in bytes; of a budget per day.
    pub network: f64,
}

/// Session of a watching process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchSession {
    /// Process ID.
    pub pid: u32,
    /// Start of the process in ticks since boot, because IDs are reused.
    pub pid_began: u64,
    /// Boot ID (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// Start of the session in s since boot.
    pub since_boot: f64,
    /// Start of the session in s since the start of the watch.
    pub at: f64,
    /// Resources consumed before the first probe.
    pub spent: WatchResources,
}

/// A probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchProbe {
    /// Start of the probe in s since the start of the watch, sleep included.
    pub at: f64,
    /// Duration of the probe in s.
    pub took: f64,
    /// Resources consumed by the watch since the previous line, the probe included.
    pub spent: WatchResources,
    /// Activity of the machine since the last probe, without that of probes.
    #[serde(default)]
    pub before: StateChange,
    /// Time since the last probe in which the machine slept, in s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slept: f64,
    /// CPU quota in CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// I/O limits of the control groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_limits: Vec<IoLimit>,
    /// Highest temperature in °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    /// Cases skipped because their budget was used up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Case>,
    /// Results of the measured cases; times of samples are relative to the start of the watch.
    pub cases: Vec<Outcome>,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// A skipped probe, or the end of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchMark {
    /// Time in s since the start of the watch.
    pub at: f64,
    /// CPUs that other processes kept busy, which is why the probe was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Resources consumed since the previous line.
    pub spent: WatchResources,
}

/// Reason why a journal, whose file it names, cannot be used, in one line.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal does not exist.
    #[error(
        "no watch is unfinished: {0} does not exist; plimsoll history lists those that ended, and --store names another history"
    )]
    Missing(String),
    /// An unfinished watch exists already.
    #[error(
        "a watch is unfinished: {0}; go on with plimsoll watch --resume, or end it with plimsoll watch --stop, with the same --store"
    )]
    Unfinished(String),
    /// Another process watches.
    #[error(
        "a watch runs already: {0}; plimsoll watch --status shows it and plimsoll watch --stop ends it, with the same --store"
    )]
    Running(String),
    /// The file is not a valid journal, and why.
    #[error("{0} is no journal of a watch: {1}; it was not changed: move it away")]
    Foreign(String, String),
    /// The file cannot be read, written, made or removed.
    #[error(
        "cannot {0} the journal {1}: {2}; check the disk's space and the directory's rights, or name another --store"
    )]
    Failed(&'static str, String, io::Error),
}

/// Contents of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalContent {
    /// Parameters of the watch.
    pub begun: WatchOrder,
    /// Sessions in the order of time.
    pub sessions: Vec<WatchSession>,
    /// Probes in the order of time.
    pub probes: Vec<WatchProbe>,
    /// Skipped probes.
    pub passed: Vec<WatchMark>,
    /// Regular ends of sessions.
    pub stopped: Vec<WatchMark>,
    /// Total CPU, disk and network use of the watch.
    pub spent: WatchResources,
    /// Time of the last entry in s since the start of the watch.
    pub reached: f64,
    /// End of the reported time in s since the start, if no process watched at the end.
    pub until: f64,
}

impl std::ops::Add for WatchResources {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (cpu, disk) = (self.cpu + other.cpu, self.disk + other.disk);
        Self { cpu, disk, network: self.network + other.network }
    }
}

/// An open journal, locked by this process.
#[derive(Debug)]
pub struct WatchJournal {
    file: File,
    /// Path of the journal.
    pub path: PathBuf,
}

impl WatchJournal {
    /// Creates and locks a journal file whose first line is `begun`. Fails if the file exists.
    pub fn make(path: &Path, begun: WatchOrder) -> Result<Self, JournalError> {
        let made = options().append(true).create_new(true).mode(0o600).open(path);
        let file = match made {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(match Self::open(path) {
                    Err(running @ JournalError::Running(_)) => running,
                    _ => JournalError::Unfinished(shown_path(path)),
                });
            }
            made => made.map_err(|e| failed("make", path, e))?,
        };
        let mut journal = Self { file, path: path.to_owned() };
        journal.locked()?;
        let begun = WatchOrder { schema: JOURNAL_SCHEMA.to_owned(), ..begun };
        if let Err(e) = journal.add(&JournalEntry::Watch(Box::new(begun))) {
            let _ = journal.remove();
            return Err(e);
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let synced = File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all());
        synced.map(|()| journal).map_err(|e| failed("make", path, e))
    }

    /// Opens a journal to resume it; waits up to `patience` while another process has it locked.
    pub fn open_at_last(path: &Path, patience: Duration) -> Result<Self, JournalError> {
        let begun = Instant::now();
        loop {
            match Self::open(path) {
                Err(JournalError::Running { .. }) if begun.elapsed() < patience => std::thread::sleep(RETRY),
                opened => return opened,
            }
        }
    }

    /// Opens and locks a journal to resume it. Fails if it is missing, locked, or of another user.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let file = owned(path, options().append(true))?;
        let journal = Self { file, path: path.to_owned() };
        journal.locked()?;
        Ok(journal)
    }

    fn locked(&self) -> Result<(), JournalError> {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
            Errno::WOULDBLOCK => JournalError::Running(shown_path(&self.path)),
            e => failed("write", &self.path, e.into()),
        })
    }

    /// Returns all entries, and removes an incomplete last line from the file.
    pub fn read_and_repair(&mut self) -> Result<JournalContent, JournalError> {
        let (kept, whole) = read(&self.path, &mut self.file)?;
        self.file.set_len(whole).map_err(|e| failed("write", &self.path, e))?;
        Ok(kept)
    }

    /// Appends a line to the file and syncs it. On failure the earlier lines are unchanged.
    pub fn add(&mut self, line: &JournalEntry) -> Result<(), JournalError> {
        let mut bytes = serde_json::to_vec(line).map_err(|e| failed("write", &self.path, e.into()))?;
        bytes.push(b'\n');
        let before = self.file.seek(SeekFrom::End(0)).map_err(|e| failed("write", &self.path, e))?;
        if before.saturating_add(bytes.len() as u64) > MOST_BYTES {
            return Err(failed("write", &self.path, io::ErrorKind::FileTooLarge.into()));
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        written.map_err(|e| {
            // Half a line would make the next one unreadable.
            let _ = self.file.set_len(before);
            failed("write", &self.path, e)
        })
    }

    /// Returns whether the file has only an incomplete first line, as its creator was killed.
    pub fn is_stillborn(&mut self) -> Result<bool, JournalError> {
        let mut bytes = Vec::new();
        let read = self.file.rewind().and_then(|()| BufReader::new(&self.file).read_until(b'\n', &mut bytes));
        read.map_err(|e| failed("read", &self.path, e))?;
        let is_begun = FIRST_LINE_PREFIX.starts_with(&bytes) || bytes.starts_with(FIRST_LINE_PREFIX);
        Ok(is_begun && !bytes.contains(&b'\n'))
    }

    /// Deletes the journal file, unless another file has replaced it.
    pub fn remove(self) -> Result<(), JournalError> {
        let of = |about: std::fs::Metadata| (about.dev(), about.ino());
        let own = self.file.metadata().map(of).map_err(|e| failed("remove", &self.path, e))?;
        let is_there = std::fs::symlink_metadata(&self.path).is_ok_and(|there| of(there) == own);
        let removed = if is_there { std::fs::remove_file(&self.path) } else { Ok(()) };
        removed.map_err(|e| failed("remove", &self.path, e))
    }
}

impl JournalContent {
    /// Reads a journal, even if another process writes it. Fails if it is missing or invalid.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        Ok(read(path, &mut owned(path, &options())?)?.0)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    options.read(true).custom_flags(flags);
    options
}

fn failed(what: &'static str, path: &Path, why: io::Error) -> JournalError {
    JournalError::Failed(what, shown_path(path), why)
}

fn foreign(path: &Path, why: impl Into<String>) -> JournalError {
    JournalError::Foreign(shown_path(path), why.into())
}

/// Opens a regular file of this user with `options`; fails if it is a link or over 2 GiB.
fn owned(path: &Path, options: &OpenOptions) -> Result<File, JournalError> {
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => JournalError::Missing(shown_path(path)),
        Some(Errno::LOOP) => foreign(path, "it is a link"),
        _ => failed("read", path, error),
    })?;
    let about = file.metadata().map_err(|e| failed("read", path, e))?;
    match () {
        () if !about.is_file() => Err(foreign(path, "it is no plain file")),
        () if about.uid() != rustix::process::geteuid().as_raw() => {
            Err(foreign(path, "it belongs to another user"))
        }
        () if about.len() > MOST_BYTES => Err(foreign(path, "it is larger than 2 GiB")),
        () => Ok(file),
    }
}

/// Parses the journal; returns its contents and the offset in bytes after its last complete line.
fn read(path: &Path, file: &mut File) -> Result<(JournalContent, u64), JournalError> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| Read::by_ref(file).take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|e| failed("read", path, e))?;
    let mut whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let wrong = |number: usize, why: String| foreign(path, format!("line {}: {why}", number + 1));
    let parsed = |number: usize, line: &[u8]| {
        let line = json::parse_bytes::<JournalEntry>(line);
        line.map_err(|e| wrong(number, shown_within(&e.to_string(), 200)))
    };
    let text = bytes.get(..whole).unwrap_or_default();
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    let Some((_, first)) = lines.next() else { return Err(foreign(path, "it is empty")) };
    let JournalEntry::Watch(begun) = parsed(0, first)? else {
        return Err(wrong(0, "not the begin of a watch".to_owned()));
    };
    begun.checked().map_err(|why| wrong(0, why))?;
    let mut kept = JournalContent::of(*begun);
    while let Some((number, line)) = lines.next() {
        match parsed(number, line) {
            Ok(line) => kept.take(line).map_err(|why| wrong(number, why))?,
            // A block of the last line never reached the disk.
            Err(_) if lines.peek().is_none() => whole -= line.len(),
            Err(e) => return Err(e),
        }
    }
    Ok((kept, u64::try_from(whole).unwrap_or(u64::MAX)))
}

impl WatchOrder {
    fn checked(&self) -> Result<(), String> {
        let Self { schema, seconds, every, shares, .. } = self;
        if schema != JOURNAL_SCHEMA {
            return Err(format!("its format is {}", shown_within(schema, 64)));
        }
        let all = [*seconds, *every, shares.cpu, shares.disk, shares.network];
        let are_usable = all.iter().all(|number| number.is_finite() && *number > 0.0 && *number < 1e18);
        are_usable.then_some(()).ok_or_else(|| "its times and shares are not all above 0".to_owned())
    }
}

impl JournalContent {
    pub(crate) fn of(begun: WatchOrder) -> Self {
        let (sessions, probes, passed, stopped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let spent = WatchResources::default();
        Self { begun, sessions, probes, passed, stopped, spent, reached: 0.0, until: 0.0 }
    }

    /// Joins all probes to an outcome per measured case of `cases`, in order; `cpus`: usable CPUs.
    pub fn join_probes(&self, cases: &[Case], cpus: usize) -> Vec<Outcome> {
        let of = |case: &Case| {
            let probed = self.probes.iter().flat_map(|probe| &probe.cases).filter(|one| one.case == *case);
            plimsoll_run::together(probed.cloned().collect(), cpus)
        };
        cases.iter().filter_map(of).collect()
    }

    pub(crate) fn take(&mut self, line: JournalEntry) -> Result<(), String> {
        let (at, spent) = match &line {
            JournalEntry::Watch(_) => return Err("a second begin".to_owned()),
            JournalEntry::Session(session) => (session.at, session.spent),
            JournalEntry::Probe(probe) => (probe.at + probe.took, probe.spent),
            JournalEntry::Passed(mark) | JournalEntry::Stopped(mark) => (mark.at, mark.spent),
        };
        let sensible = |number: f64| (0.0..1e15).contains(&number);
        if !(sensible(at) && [spent.cpu, spent.disk, spent.network].into_iter().all(sensible)) {
            return Err("a time or an amount that cannot be".to_owned());
        }
        (self.spent, self.reached) = (self.spent + spent, self.reached.max(at));
        match line {
            JournalEntry::Watch(_) => {}
            JournalEntry::Session(session) => self.sessions.push(session),
            JournalEntry::Probe(probe) => self.probes.push(*probe),
            JournalEntry::Passed(passed) => self.passed.push(passed),
            JournalEntry::Stopped(stopped) => self.stopped.push(stopped),
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
