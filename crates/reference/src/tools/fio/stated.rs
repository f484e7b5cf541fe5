//! Reads fio's JSON: bandwidth, IOPS and latency per job and direction, and sums.

use std::collections::{BTreeMap, HashMap};

use plimsoll_units::quantity::significant;
use serde_json::Value;

use super::report::{FioDisk, FioJobReport, FioReport, FioSide};
use crate::tools::prelude::*;

/// Name of a client's entry that sums over all servers (client.c).
const ALL_CLIENTS: &str = "All clients";
/// Bytes of a sector in the kernel's counts (Documentation/block/stat.rst).
const SECTOR_BYTES: f64 = 512.0;
const ONE_AT_A_TIME: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];
const CACHED: &[&str] =
    &["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "splice"];
const SYNCS: &[&str] =
    &["fsync", "fdatasync", "end_fsync", "fsync_on_close", "sync_file_range", "sync", "write_barrier"];

/// Options by which blocks differ in size, or jobs are reported as one.
const MIXES: &[&str] =
    &["group_reporting", "bssplit", "bsrange", "blocksize_range", "bs_unaligned", "bs_is_seq_rand"];

pub(super) fn read(text: &str) -> Result<Stated, String> {
    if !text.contains("\"fio version\"") && is_plain(text) {
        return Err(
            "it is fio's text for people; fio --output-format=json writes what can be read".to_owned()
        );
    }
    // With --status-interval there is a document per interval; the last one has all results.
    let report = json::documents::<FioReport>(text)?.pop().ok_or("its output is no JSON")?;
    let all: Vec<&FioJobReport> = report.jobs.iter().chain(&report.client_stats).collect();
    if all.is_empty() {
        return Err("its JSON has no job".to_owned());
    }
    let version = report.version.as_deref().map(|v| v.trim_start_matches("fio-").to_owned());
    let mut stated = Stated { version, ..Stated::default() };
    let names = names(&all);
    let totals: Totals = FIO_DIRECTIONS.each_ref().map(|one| (moved(&report, one), counted(&report, one)));
    for (job, name) in all.iter().zip(names) {
        let job_figures = JobFigures { name, ..JobFigures::of(&report, &totals, job) };
        stated.figures.extend(FIO_DIRECTIONS.iter().flat_map(|direction| job_figures.figures(direction)));
        if stated.figures.len() > MAX_FIGURES {
            return Err(too_many());
        }
    }
    stated.figures.extend(group_bandwidths(&report, &totals));
    if stated.figures.is_empty() {
        let failed = all.iter().find(|job| job.error != 0);
        stated.trouble = failed
            .map(|job| format!("its job {} failed, errno {}", shown_within(&job.jobname, 40), job.error));
    }
    Ok(stated)
}

/// Returns whether `document` continues the run of `before`, as with --status-interval.
pub(super) fn continues(before: &str, document: &str) -> bool {
    /// Times are rounded up to a second.
    const ROUNDING: f64 = 1.05;
    /// Seconds between the end of the jobs and the last document.
    const END: f64 = 0.7;
    /// Least growth of the longest runtime per interval, in which a job may end and another start.
    const LEAST_GROWTH: f64 = 0.25;
    let (Ok(before), Ok(after)) =
        (json::document::<FioReport>(before), json::document::<FioReport>(document))
    else {
        return false;
    };
    let stamps = match (before.timestamp_ms.zip(after.timestamp_ms), before.timestamp.zip(after.timestamp)) {
        (Some((from, to)), _) => Some(((to - from) * 1e-3, ROUNDING)),
        (None, Some((from, to))) => Some((to - from, ROUNDING + 1.0)),
        (None, None) => None,
    };
    let same = before.version == after.version && before.jobs.len() == after.jobs.len();
    let (Some((passed, rounding)), true) = (stamps, same) else { return false };
    let mut growth = 0.0_f64;
    for (one, other) in before.jobs.iter().zip(&after.jobs) {
        let elapsed = one.elapsed.zip(other.elapsed).map(|(from, to)| to - from);
        let fits = elapsed.is_some_and(|elapsed| (elapsed - passed).abs() <= rounding);
        if one.jobname != other.jobname || one.options != other.options || !fits {
            return false;
        }
        for direction in &FIO_DIRECTIONS {
            let (from, to) = ((direction.side)(one), (direction.side)(other));
            if bytes(from).unwrap_or(0.0) > bytes(to).unwrap_or(0.0) {
                return false;
            }
            growth = growth.max((to.runtime.unwrap_or(0.0) - from.runtime.unwrap_or(0.0)) * 1e-3);
        }
    }
    passed > 0.0 && growth >= (passed - END) * LEAST_GROWTH && growth <= passed + END
}

/// Returns whether a text is fio's normal or terse output.
pub(super) fn is_plain(text: &str) -> bool {
    let terse = |line: &str| {
        let mut fields = line.split(';');
        matches!(fields.next(), Some("2" | "3" | "4" | "5"))
            && fields.next().is_some_and(|field| field.starts_with("fio-"))
    };
    text.contains("(groupid=") && text.contains("err=") || text.lines().any(terse)
}

/// Returns the names of the jobs, in order; jobs with the same name are numbered.
fn names(all: &[&FioJobReport]) -> Vec<String> {
    let mut counts: HashMap<&str, [usize; 2]> = HashMap::new();
    for job in all {
        counts.entry(&job.jobname).or_default()[0] += 1;
    }
    let name = |job: &&FioJobReport| {
        let number = match counts.get_mut(job.jobname.as_str()) {
            Some([all, number]) if *all > 1 => {
                *number += 1;
                format!(" {number}")
            }
            _ => String::new(),
        };
        shown_within(&job.jobname, 40) + &number
    };
    all.iter().map(name).collect()
}

/// Per direction, the bytes that all jobs moved and the kernel's counts for each disk.
type Totals = [(f64, Vec<DiskCounters>); FIO_DIRECTIONS.len()];

struct FioDirection {
    index: usize,
    name: &'static str,
    side: fn(&FioJobReport) -> &FioSide,
}

const FIO_DIRECTIONS: [FioDirection; 4] = [
    FioDirection { index: 0, name: "read", side: |job| &job.read },
    FioDirection { index: 1, name: "write", side: |job| &job.write },
    FioDirection { index: 2, name: "trim", side: |job| &job.trim },
    FioDirection { index: 3, name: "mixed", side: |job| &job.mixed },
];

impl FioDirection {
    /// Returns a disk's count in this direction: `read`, `write`, or both if mixed; else `None`.
    fn of_disk(&self, read: Option<f64>, write: Option<f64>) -> Option<f64> {
        match self.name {
            "read" => read,
            "write" => write,
            "mixed" => Some(read? + write?),
            _ => None,
        }
    }
}

struct JobFigures<'a> {
    totals: &'a Totals,
    job: &'a FioJobReport,
    name: String,
    options: BTreeMap<String, String>,
}

impl<'a> JobFigures<'a> {
    fn of(report: &FioReport, totals: &'a Totals, job: &'a FioJobReport) -> Self {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let all = report.global.iter().chain(&job.options);
        let options = all.map(|(name, value)| (name.clone(), text(value))).collect();
        Self { totals, job, name: shown_within(&job.jobname, 40), options }
    }
}

impl JobFigures<'_> {
    fn figures(&self, direction: &FioDirection) -> Vec<StatedFigure> {
        let side = (direction.side)(self.job);
        let worked = side.transfers() != 0.0 || bytes(side).is_some();
        // Versions of 2.x write -nan for a direction without transfers.
        let stated = |value: Option<f64>| value.filter(|value| *value != 0.0 && (worked || !value.is_nan()));
        let name = |what: &str| format!("{}: {} {what}", self.name, direction.name);
        let case = self.case(direction, side);
        let like = |metric| match self.job.jobname == ALL_CLIENTS {
            true => Err("it is the sum over all servers of a client, each with disks of its own".to_owned()),
            false => Ok(EquivalentCase::of(case.clone(), metric)),
        };
        let mut figures = Vec::new();
        if let Some(bandwidth) = stated(bandwidth(side)) {
            let figure =
                StatedFigure::new(&name("bandwidth"), bandwidth, Unit::BytePerSecond, like("throughput"));
            figures.push(StatedFigure { account: self.account(side, bandwidth), ..figure });
        }
        if let Some(iops) = stated(side.iops) {
            let mut figure = StatedFigure::new(&name("IOPS"), iops, Unit::IoPerSecond, like("rate"));
            if side.transfers() > 0.0 {
                figure.account = duration(side).map(|seconds| Account::of(side.transfers(), seconds));
            } else {
                figure.like = Err("no block size is known: the file does not count transfers".to_owned());
            }
            figures.push(figure);
        }
        if let Some(latency) = stated(side.latency_ns()) {
            let mut figure =
                StatedFigure::new(&name("latency"), latency * 1e-9, Unit::Second, like("latency"));
            figure.contradiction = self.in_flight(side, figure.value);
            figure.absurd = side.impossible_latency();
            figures.push(figure);
        }
        let used = self.used(direction, side);
        let impossible = side.impossible_count();
        for figure in &mut figures {
            figure.absurd = figure.absurd.take().or_else(|| impossible.clone());
            figure.subject = Subject::Disk(used.clone());
            figure.void = (self.job.error != 0).then(|| format!("its job failed, errno {}", self.job.error));
        }
        figures
    }

    /// Returns plimsoll's case with the same transfers in this direction; `side` has their counts.
    fn case(&self, direction: &FioDirection, side: &FioSide) -> Case {
        let pattern = if self.is_random() { "random" } else { "sequential" };
        let block = bytes(side).unwrap_or(0.0) / side.transfers();
        let mut case = Case::of("disk.io").with_word("op", direction.name).with_word("pattern", pattern);
        if direction.name == "mixed" {
            case = case.with_count("read-share", 50);
        }
        if block.is_finite() && block >= 1.0 {
            case = case.with_size("block", block.round() as u64);
        }
        let number = |key: &str| self.options.get(key).and_then(|value| value.parse().ok()).unwrap_or(1);
        let depth = if self.is_one_at_a_time() { 1 } else { number("iodepth") };
        case.with_count("depth", depth).with_count("threads", number("numjobs")).with_word("cache", "direct")
    }

    fn is_random(&self) -> bool {
        ["rw", "readwrite"].iter().any(|key| self.option(key).is_some_and(|rw| rw.starts_with("rand")))
    }

    fn is_one_at_a_time(&self) -> bool {
        ONE_AT_A_TIME.contains(&self.option("ioengine").unwrap_or("psync"))
            || matches!(self.option("iodepth"), None | Some("1"))
    }

    fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// Returns bytes and the time that they took, by other fields of the file: the first such pair
    /// that contradicts `bandwidth` (B/s), else the first that is known. `None` if none is known,
    /// or for the sum of all clients.
    fn account(&self, side: &FioSide, bandwidth: f64) -> Option<Account> {
        const MIN_BANDWIDTH_KIB: f64 = 100.0;
        let by_bytes = bytes(side).zip(duration(side)).map(|(bytes, time)| Account::of(bytes, time));
        if self.job.jobname == ALL_CLIENTS {
            return None;
        }
        // Jobs that are reported as one have only the options of the first.
        let one_block = !MIXES.iter().any(|key| self.options.contains_key(*key));
        let block = self.option("bs").or_else(|| self.option("blocksize")).and_then(size);
        let block = block.filter(|_| one_block);
        let by_transfers = block.filter(|_| side.transfers() > 0.0).zip(duration(side));
        let by_transfers = by_transfers.map(|(block, time)| Account::of(side.transfers() * block, time));
        let kib = side.bw.filter(|kib| *kib > MIN_BANDWIDTH_KIB);
        let by_kib = kib.map(|kib| Account::of(kib * 1024.0, Seconds::of(1.0)));
        let all = [by_bytes, by_transfers, by_kib];
        let speaks =
            |account: &&Account| account.contradicts(bandwidth, Unit::BytePerSecond, f64::INFINITY).is_some();
        all.iter().flatten().find(speaks).or_else(|| all.iter().flatten().next()).copied()
    }

    /// Returns why a mean `latency` in seconds contradicts the rate by Little's law: more than
    /// iodepth × numjobs transfers would be in flight. `None` if it does not, or this is unknown.
    fn in_flight(&self, side: &FioSide, latency: f64) -> Option<String> {
        /// With fewer transfers, those in flight at start and end matter too much.
        const MIN_TRANSFERS: f64 = 1000.0;
        /// Tolerated ratio of transfers in flight to the requested number.
        const SPARE: f64 = 1.5;
        // Options by which a latency starts before the transfer.
        const OTHERS: [&str; 4] = ["io_submit_mode", "read_iolog", "verify", "replay_redirect"];
        let job_figures =
            !self.job.options.is_empty() && !OTHERS.iter().any(|key| self.options.contains_key(*key));
        if !job_figures || self.job.jobname == ALL_CLIENTS || side.transfers() < MIN_TRANSFERS {
            return None;
        }
        let one = self.option("ioengine").is_some_and(|engine| ONE_AT_A_TIME.contains(&engine));
        let depth = if one { 1.0 } else { self.number("iodepth")? };
        let seconds = duration(side).map(Seconds::value).filter(|seconds| *seconds >= 0.1)?;
        let jobs = self.jobs(seconds)?;
        let rate = side.transfers() / seconds;
        let (in_flight, allowed) = (rate * latency, depth * jobs);
        (in_flight > allowed * SPARE).then(|| {
            format!(
                "the latency contradicts the rate in its own file: {} operations a second × {} = {} transfers in flight, and \
                 iodepth={depth} × numjobs={jobs} allow {allowed}",
                significant(rate, 3),
                Quantity::new(latency, Unit::Second).human(3),
                significant(in_flight, 3),
            )
        })
    }

    /// Returns the number of the option `key`, by default 1; `None` if it is below 1 or no number.
    fn number(&self, key: &str) -> Option<f64> {
        self.option(key).unwrap_or("1").parse().ok().filter(|number: &f64| *number >= 1.0)
    }

    /// Returns how many jobs this entry sums if each ran for `seconds`; `None` if unknown.
    fn jobs(&self, seconds: f64) -> Option<f64> {
        let jobs = self.number("numjobs")?;
        let has = |key: &str| self.options.contains_key(key);
        match self.job.job_runtime.filter(|_| has("group_reporting")) {
            // Includes jobs of other sections, as the runtimes of all are added.
            Some(ms) => Some((ms * 1e-3 / seconds).ceil().max(jobs)),
            None => (has("numjobs") || !has("group_reporting")).then_some(jobs),
        }
    }

    fn used(&self, direction: &FioDirection, side: &FioSide) -> DiskUse {
        let cached = self.cached();
        let by_calls = CACHED.contains(&self.option("ioengine").unwrap_or("psync"));
        let reads_directly = direction.name == "read" && by_calls && cached == Some(false);
        // Neighbouring requests in a queue may be merged; those at random offsets are not.
        let lone = self.is_random() || self.is_one_at_a_time() && reads_directly;
        let file_bytes = self.option("size").or_else(|| self.option("filesize")).and_then(size);
        let jobs = self.option("numjobs").and_then(|jobs| jobs.parse().ok()).unwrap_or(1.0_f64);
        let files = if self.options.contains_key("filename") { 1.0 } else { jobs };
        let host = self.job.hostname.as_deref().filter(|host| !host.is_empty() && !host.starts_with('/'));
        let client = host.filter(|host| !["localhost", "127.0.0.1", "::1"].contains(host));
        DiskUse {
            cached,
            reads_directly,
            syncs: self.syncs(),
            syncs_each: direction.name == "write" && self.syncs_frequently(),
            block: bytes(side).map(|bytes| bytes / side.transfers()).filter(|block| block.is_finite()),
            engine: self.option("ioengine").map(|engine| shown_within(engine, 40)),
            paths: self.paths(),
            writes: direction.name == "write",
            moved: self.totals[direction.index].0,
            own: bytes(side).unwrap_or(0.0),
            random: self.is_random().then(|| side.transfers()),
            seconds: duration(side).map(|seconds| seconds.value()),
            counted: self.totals[direction.index].1.clone(),
            file_bytes: file_bytes.map(|bytes| bytes * files),
            compressible: self.compressible(),
            lone_seconds: side.latency_ns().filter(|ns| lone && ns.is_finite()).map(|ns| ns * 1e-9),
            client: client.map(|host| shown_within(host, 60)),
        }
    }

    /// Returns whether transfers used the page cache; `None` if the options are missing.
    fn cached(&self) -> Option<bool> {
        // Global options may be incomplete (a client of 2.6 writes only unified_rw_reporting).
        let known = ["direct", "buffered", "rw", "readwrite", "ioengine"];
        if self.job.options.is_empty() && !known.iter().any(|key| self.options.contains_key(*key)) {
            return None;
        }
        if !CACHED.contains(&self.option("ioengine").unwrap_or("psync")) {
            return Some(false);
        }
        let on = |key: &str| self.option(key).map(is_on);
        let direct = on("direct").or_else(|| on("buffered").map(|buffered| !buffered));
        Some(!direct.or_else(|| on("atomic")).unwrap_or(false) || self.option("ioengine") == Some("mmap"))
    }

    fn syncs(&self) -> bool {
        SYNCS.iter().any(|key| self.option(key).is_some_and(|value| value != "0"))
    }

    /// Returns whether the job's options sync data to the device at least once in four writes: by
    /// `sync` other than 0 or none, or by `fsync`, `fdatasync` or `write_barrier` from 1 to 4.
    fn syncs_frequently(&self) -> bool {
        const FEW_WRITES: f64 = 4.0;
        let few = |key: &&str| {
            let writes = self.option(key).and_then(|value| value.parse::<f64>().ok());
            writes.is_some_and(|writes| (1.0..=FEW_WRITES).contains(&writes))
        };
        let flagged = self.option("sync").is_some_and(|value| !matches!(value, "0" | "none"));
        flagged || ["fsync", "fdatasync", "write_barrier"].iter().any(few)
    }

    fn paths(&self) -> Vec<String> {
        let of =
            |key| self.option(key).unwrap_or_default().split(':').filter(|path| !path.is_empty()).take(16);
        // A file name is relative to the directory, if that is given.
        match self.option("directory") {
            Some(_) => of("directory").map(|path| format!("{path}/")).collect(),
            None => of("filename").map(str::to_owned).collect(),
        }
    }

    fn compressible(&self) -> Option<String> {
        let share = |key: &str| {
            let percent: f64 = self.option(key)?.trim_end_matches('%').parse().ok()?;
            (percent >= 50.0).then(|| format!("{key}={}", shown_within(self.option(key)?, 10)).into())?
        };
        let zero = self.option("zero_buffers").is_some_and(is_on).then(|| "zero_buffers".to_owned());
        zero.or_else(|| share("buffer_compress_percentage"))
            .or_else(|| share("dedupe_percentage"))
            .or_else(|| self.option("buffer_pattern").map(|_| "buffer_pattern".to_owned()))
    }
}

/// Returns whether a boolean option is on in fio's syntax; without a value it is.
fn is_on(value: &str) -> bool {
    matches!(value, "" | "null" | "1" | "true")
}

/// Parses a size in fio's syntax, such as `4k` or `1MiB`, as bytes: powers of 1024 (kb_base).
fn size(text: &str) -> Option<f64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: f64 = text.get(..digits)?.parse().ok()?;
    let unit = text.get(digits..)?.trim().to_ascii_lowercase();
    Some(number * binary_factor(unit.trim_end_matches("ib").trim_end_matches('b'))?)
}

fn bandwidth(side: &FioSide) -> Option<f64> {
    side.bw_bytes.or_else(|| side.bw.map(|kib| kib * 1024.0))
}

/// Returns the bytes moved in one direction; `None` if 0 or unknown. Old versions of fio count KiB:
/// without `io_kbytes`, the rate shows the unit.
fn bytes(side: &FioSide) -> Option<f64> {
    /// Threshold between the two, which differ by 1024.
    const EITHER: f64 = 32.0;
    let stated = side.io_bytes.filter(|bytes| *bytes > 0.0 && bytes.is_finite())?;
    let kib = side.bw.zip(side.runtime).map(|(bw, ms)| bw * ms * 1e-3).filter(|kib| *kib > 0.0);
    let in_kib = side.io_kbytes.is_none() && kib.is_some_and(|kib| stated / kib < EITHER);
    Some(if in_kib { stated * 1024.0 } else { stated })
}

fn duration(side: &FioSide) -> Option<Seconds> {
    side.runtime.filter(|ms| *ms > 0.0).map(|ms| Seconds::whole(ms).scale(1e-3))
}

fn moved(report: &FioReport, direction: &FioDirection) -> f64 {
    let all = report.jobs.iter().chain(&report.client_stats).filter(|job| job.jobname != ALL_CLIENTS);
    all.filter_map(|job| bytes((direction.side)(job))).sum()
}

fn counted(report: &FioReport, direction: &FioDirection) -> Vec<DiskCounters> {
    const MAX_DISKS: usize = 64;
    let count = |disk: &FioDisk| {
        let [reads, writes] = [disk.read_merges, disk.write_merges].map(|merges| Some(merges.unwrap_or(0.0)));
        let requests = direction.of_disk(disk.read_ios, disk.write_ios)?;
        let sectors = direction.of_disk(disk.read_sectors, disk.write_sectors);
        Some(DiskCounters {
            name: shown_within(&disk.name, 40),
            asked: requests + direction.of_disk(reads, writes)?,
            requests,
            bytes: sectors.map(|sectors| sectors * SECTOR_BYTES),
            silent: disk.read_ios == Some(0.0) && disk.write_ios == Some(0.0),
        })
    };
    report.disk_util.iter().take(MAX_DISKS).filter_map(count).collect()
}

/// Returns, per fio group (`groupid`) and per direction except trim, the total bandwidth in B/s of
/// all jobs. Leaves out groups with fewer than two active jobs, or in which an option delays a job.
fn group_bandwidths(report: &FioReport, totals: &Totals) -> Vec<StatedFigure> {
    const WAITS: [&str; 4] = ["startdelay", "start_delay", "wait_for", "wait_for_previous"];
    let mut groups: BTreeMap<i64, Vec<JobFigures<'_>>> = BTreeMap::new();
    for job in &report.jobs {
        if let Some(group) = job.groupid {
            groups.entry(group).or_default().push(JobFigures::of(report, totals, job));
        }
    }
    groups.retain(|_, all| {
        let waits = |job: &JobFigures<'_>| WAITS.iter().any(|key| job.options.contains_key(*key));
        all.len() >= 2 && !all.iter().any(waits)
    });
    let directions = || FIO_DIRECTIONS.iter().filter(|direction| direction.name != "trim");
    let of_group = |(group, all): (&i64, &Vec<JobFigures<'_>>)| -> Vec<StatedFigure> {
        directions().filter_map(|direction| group_bandwidth(*group, all, direction)).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

fn group_bandwidth(group: i64, all: &[JobFigures<'_>], direction: &FioDirection) -> Option<StatedFigure> {
    let sides = || all.iter().map(|job| (job, (direction.side)(job.job)));
    let total: f64 = sides().filter_map(|(_, side)| bytes(side)).sum();
    let seconds = sides().filter_map(|(_, side)| side.runtime).fold(0.0_f64, f64::max) * 1e-3;
    let active = || sides().filter(|(_, side)| bandwidth(side).is_some_and(|rate| rate > 0.0));
    let ((first, side), jobs) = (active().next()?, active().count());
    if jobs < 2 || seconds <= 0.0 {
        return None;
    }
    let mut used = first.used(direction, side);
    used.cached = first.cached().filter(|cached| all.iter().all(|job| job.cached() == Some(*cached)));
    used.paths = all.iter().flat_map(JobFigures::paths).collect();
    used.lone_seconds = None;
    used.own = total;
    used.random = sides().map(|(job, side)| job.is_random().then(|| side.transfers())).sum();
    used.seconds = Some(seconds);
    used.syncs = all.iter().any(JobFigures::syncs);
    used.reads_directly &= used.cached == Some(false);
    let name = format!("{jobs} jobs of group {group}: {} bandwidth", direction.name);
    let case = first.case(direction, side);
    let mut figure = StatedFigure::like(&name, total / seconds, Unit::BytePerSecond, case, "throughput");
    figure.void = all.iter().any(|job| job.job.error != 0).then(|| "one of its jobs failed".to_owned());
    figure.subject = Subject::Disk(used);
    Some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_does() {
        for (text, bytes) in
            [("4k", 4096.0), ("4096", 4096.0), ("4096B", 4096.0), ("1M", 1048576.0), ("2GiB", 2147483648.0)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        assert_eq!((size("10%"), size("4k,64k"), size("k"), size("")), (None, None, None, None));
    }

    #[test]
    fn text_for_people_is_told_from_json() {
        let normal = "fio-3.33\nStarting 1 process\n\na: (groupid=0, jobs=1): err= 0: pid=1: Thu\n  read: IOPS=20.9k\n";
        for text in [normal, "3;fio-3.33;a;0;0;84948\n"] {
            assert!(crate::stated::read(text, None).unwrap_err().contains("--output-format=json"), "{text}");
        }
        assert!(!is_plain("3;4;fio-3.33"));
    }

    #[test]
    fn a_job_that_failed_without_a_figure_is_named() {
        let stated = read("{\"jobs\": [{\"jobname\": \"a\", \"error\": 5}]}").unwrap();
        assert_eq!(stated.trouble.as_deref(), Some("its job a failed, errno 5"));
    }

    #[test]
    fn a_latency_is_held_to_the_transfers_in_flight() {
        let reason = |options: &str, mean: f64| {
            let text = format!(
                "{{\"jobs\": [{{\"job options\": {{{options}}}, \"read\": {{\"bw\": 4000, \"io_bytes\": 4096000, \
                 \"iops\": 1000, \"total_ios\": 1000, \"runtime\": 1000, \"lat_ns\": {{\"mean\": {mean}}}}}}}]}}"
            );
            let figure = read(&text).unwrap().figures.pop().unwrap();
            assert_eq!(figure.unit, Unit::Second);
            figure.contradiction
        };
        let contradicted = |options: &str, mean: f64| reason(options, mean).is_some();
        let four = "\"rw\": \"read\", \"iodepth\": \"4\"";
        assert!(!contradicted(four, 10.0) && !contradicted(four, 4.0e6) && !contradicted(four, 5.9e6));
        assert!(contradicted(four, 6.1e6));
        let grouped = format!("{four}, \"group_reporting\": \"\"");
        assert!(!contradicted(&grouped, 7.0e6));
        assert!(contradicted(&format!("{grouped}, \"numjobs\": \"1\""), 7.0e6));
        assert!(!contradicted(&format!("{grouped}, \"numjobs\": \"2\""), 7.0e6));
        let why = reason(four, 400.0e6).unwrap();
        assert!(why.contains("= 400 transfers") && why.contains("allow 4"), "{why}");
        // One transfer at a time at any depth.
        assert!(contradicted("\"rw\": \"read\", \"ioengine\": \"psync\", \"iodepth\": \"64\"", 40.0e6));
    }

    #[test]
    fn bytes_of_versions_that_count_in_kib_are_told_by_their_rate() {
        let side = |io_bytes, io_kbytes| {
            let (io_bytes, bw, runtime) = (Some(io_bytes), Some(1000.0), Some(2000.0));
            FioSide { io_bytes, io_kbytes, bw, runtime, ..FioSide::default() }
        };
        assert_eq!(bytes(&side(2000.0, None)), Some(2000.0 * 1024.0), "2.16");
        assert_eq!(bytes(&side(2_048_000.0, None)), Some(2_048_000.0), "3.0");
        assert_eq!(bytes(&side(2_048_000.0, Some(2000.0))), Some(2_048_000.0), "3.1");
    }

    #[test]
    fn whether_the_page_cache_was_used_is_known_where_options_are_written() {
        let cached = |options: &str| {
            let text = format!(
                "{{\"jobs\": [{{\"job options\": {options}, \"read\": {{\"bw\": 1000, \"iops\": 9}}}}]}}"
            );
            let stated = read(&text).unwrap();
            match &stated.figures[0].subject {
                Subject::Disk(used) => used.cached,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(cached("{}"), None);
        assert_eq!(cached("{\"rw\": \"read\"}"), Some(true));
        assert_eq!(cached("{\"rw\": \"read\", \"direct\": \"1\"}"), Some(false));
        assert_eq!(cached("{\"rw\": \"read\", \"direct\": \"\"}"), Some(false));
        assert_eq!(cached("{\"rw\": \"read\", \"buffered\": \"0\"}"), Some(false));
        assert_eq!(cached("{\"rw\": \"read\", \"ioengine\": \"rbd\"}"), Some(false));
        assert_eq!(cached("{\"rw\": \"read\", \"ioengine\": \"mmap\", \"direct\": \"1\"}"), Some(true));
    }
}
