//! One job as a case of `disk.io`: each option that is taken, with what it becomes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mistake::{Line, Mistake};
use super::option::Means;
use super::syntax::{Given, Section, Surroundings};
use super::value::{self, Base, Direction, SECOND};
use crate::case::Value;
use crate::quantity::{Mix, Part, format_duration};
use crate::text::shown_within;

/// fio's block size where none is named.
const BLOCK: u64 = 4096;
/// Longest time, in microseconds.
const LONGEST_TIME: u64 = 366 * 86_400 * SECOND;
/// Most samples that a fixed amount is divided into, and the least bytes of one.
const MOST_SAMPLES: u64 = 10;
const LEAST_SAMPLE: u64 = 64 << 20;
/// Transfers that a sample of a fixed amount has at least.
const LEAST_TRANSFERS: u64 = 1000;

/// Where a job works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a test file in this directory.
    Directory(PathBuf),
    /// On this block device.
    Device(PathBuf),
}

/// How the jobs of a section lie to each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Files {
    /// The file that is named; none: each job has its own.
    pub(super) named: Option<String>,
    /// Bytes of each job's file, where they are known.
    pub(super) each: Option<u64>,
    /// Each job has its own part of the named file.
    pub(super) parted: bool,
}

/// A job, understood.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) line: Line,
    /// Parameters of the case, but for size, layout and threads.
    pub(super) lists: BTreeMap<&'static str, Value>,
    /// The options that they come from.
    pub(super) given: BTreeMap<&'static str, Given>,
    pub(super) threads: u64,
    pub(super) files: Files,
    pub(super) place: Option<Place>,
    pub(super) samples: Option<u32>,
    pub(super) sample_time: Option<Duration>,
    pub(super) warm_up: Option<Duration>,
    /// It begins after the jobs before it.
    pub(super) waits: bool,
    /// It begins later than those with which it runs.
    pub(super) delayed: bool,
    /// What differs from fio, a sentence each with its line.
    pub(super) remarks: Vec<String>,
    /// Its own options for a reference tool, as `name=value`.
    pub(super) own: Vec<String>,
    /// Nothing of it can be measured, and that was asked for.
    pub(super) left_out: bool,
}

impl Job {
    /// Whether both together are one load: so many jobs more of the same.
    pub(super) fn joins(&self, other: &Job) -> bool {
        let like = self.lists.keys().eq(other.lists.keys())
            && self.lists.iter().all(|(key, value)| *key == "rate" || other.lists.get(key) == Some(value))
            && self.rate_of_one() == other.rate_of_one();
        let files = match (&self.files.named, &other.files.named) {
            // Each has a file of its own.
            (None, None) => true,
            (Some(one), Some(two)) if one == two => !self.files.parted && !other.files.parted,
            (Some(_), Some(_)) => self.threads == 1 && other.threads == 1 && !self.is_on_device(),
            _ => false,
        };
        let how = (self.samples, self.sample_time, self.warm_up)
            == (other.samples, other.sample_time, other.warm_up);
        like && files
            && how
            && self.place == other.place
            && self.files.each == other.files.each
            && !self.delayed
            && !other.delayed
    }

    /// Makes it one load with a job that is like it.
    pub(super) fn join(&mut self, other: Job) {
        if let (Some(Value::Rate(all)), Some(Value::Rate(more))) =
            (self.lists.get("rate"), other.lists.get("rate"))
        {
            let sum = all + more;
            self.lists.insert("rate", Value::Rate(sum));
        }
        if self.files.named != other.files.named {
            self.files.named = None;
        }
        self.threads = self.threads.saturating_add(other.threads);
        self.remarks.extend(other.remarks);
    }

    /// Its name with its line.
    pub(super) fn told(&self) -> String {
        format!("{}:{}: [{}]", self.line.file, self.line.number, self.name)
    }

    /// Whether what it works on is not the same afterwards.
    pub(super) fn changes_data(&self) -> bool {
        self.lists.get("op") != Some(&Value::Word("read".to_owned())) && self.lists.contains_key("op")
    }

    fn is_on_device(&self) -> bool {
        matches!(self.place, Some(Place::Device(_)))
    }

    fn rate_of_one(&self) -> Option<u64> {
        match self.lists.get("rate") {
            Some(Value::Rate(all)) => Some((all / self.threads as f64 * 1e3).round() as u64),
            _ => None,
        }
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    op: &'static str,
    random: bool,
}

impl Load {
    fn mixed(self) -> bool {
        self.op == "mixed"
    }

    fn writes(self) -> bool {
        matches!(self.op, "write" | "mixed")
    }

    /// Whose values of lists are its own; a mix has those of reads and of writes.
    fn directions(self) -> &'static [Direction] {
        match self.op {
            "read" => &[Direction::Read],
            "write" => &[Direction::Write],
            "trim" => &[Direction::Trim],
            _ => &[Direction::Read, Direction::Write],
        }
    }
}

/// A job while it is read.
struct Reading<'a> {
    section: &'a Section,
    around: &'a dyn Surroundings,
    base: Base,
    load: Load,
    job: Job,
    wrong: Vec<Mistake>,
}

/// Reads a job; what is wrong with it, or has no counterpart, is put to `wrong`. `before` are the names of the jobs that
/// run with it or before it.
pub(super) fn read(
    section: &Section,
    around: &dyn Surroundings,
    before: &[String],
    wrong: &mut Vec<Mistake>,
) -> Job {
    let job = Job {
        name: section.name.clone(),
        line: section.line.clone(),
        lists: BTreeMap::new(),
        given: BTreeMap::new(),
        threads: 1,
        files: Files { named: None, each: None, parted: false },
        place: None,
        samples: None,
        sample_time: None,
        warm_up: None,
        waits: false,
        delayed: false,
        remarks: Vec::new(),
        own: Vec::new(),
        left_out: false,
    };
    let load = Load { op: "read", random: false };
    let mut reading = Reading { section, around, base: Base::Compatible, load, job, wrong: Vec::new() };
    reading.all(before);
    wrong.append(&mut reading.wrong);
    reading.job
}

impl<'a> Reading<'a> {
    fn all(&mut self, before: &[String]) {
        self.without_counterpart();
        if self.get("kb_base").is_some_and(|given| given.value == "1000") {
            self.base = Base::Standard;
        }
        self.operation();
        self.blocks();
        self.engine();
        self.cache();
        self.sync();
        self.checks();
        self.rate();
        self.latency_target();
        self.order(before);
        self.job.threads = self.number("numjobs").unwrap_or(1).max(1);
        self.came_from("threads", self.get("numjobs"));
        self.place();
        self.files();
        self.amount();
        self.own_options();
    }

    /// The last value of an option, which is the one that counts.
    fn get(&self, name: &str) -> Option<&'a Given> {
        self.section.options.iter().rev().find(|given| given.row.name == name)
    }

    fn line(&self, name: &str) -> Line {
        self.get(name).map_or(&self.section.line, |given| &given.line).clone()
    }

    fn refuse(&mut self, given: &Given, why: &str) {
        let text =
            format!("option {}={} has no counterpart: {why}", given.name, shown_within(&given.value, 60));
        self.wrong.push(Mistake::refused(&given.line, &text));
    }

    fn refuse_job(&mut self, given: &Given, why: &str) {
        let text =
            format!("option {}={} has no counterpart: {why}", given.name, shown_within(&given.value, 60));
        self.wrong.push(Mistake::refused_job(&given.line, &text));
    }

    fn not(&mut self, given: &Given, wanted: &str) {
        let text = match given.value.is_empty() {
            true => format!(
                "{} must be {wanted}: it is empty, or a variable that the environment does not have",
                given.name
            ),
            false => format!("{} must be {wanted}: '{}' is not", given.name, shown_within(&given.value, 60)),
        };
        self.wrong.push(Mistake::wrong(&given.line, &text));
    }

    fn remark(&mut self, given: &Given, how: &str) {
        let Line { file, number } = &given.line;
        let value = shown_within(&given.value, 60);
        self.job.remarks.push(format!("{file}:{number}: {}={value}: {how}", given.name));
    }

    fn set(&mut self, key: &'static str, value: Value, from: &str) {
        self.job.lists.insert(key, value);
        self.came_from(key, self.get(from));
    }

    /// Keeps the option that a parameter comes from; one with fio's default comes from none.
    fn came_from(&mut self, key: &'static str, given: Option<&Given>) {
        if let Some(given) = given {
            self.job.given.insert(key, given.clone());
        }
    }

    fn word(&mut self, key: &'static str, word: &str, from: &str) {
        self.set(key, Value::Word(word.to_owned()), from);
    }

    fn size(&mut self, given: &'a Given) -> Option<u64> {
        let size = value::size(&given.value, self.base);
        if size.is_none() {
            self.not(given, "a number of bytes such as 4k");
        }
        size
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let given = self.get(name)?;
        let number = value::size(&given.value, self.base);
        if number.is_none() {
            self.not(given, "a whole number");
        }
        number
    }

    fn switch(&mut self, name: &str) -> Option<bool> {
        let given = self.get(name)?;
        // What is no switch is told with the options that are taken or change nothing.
        value::switch(&given.value)
    }

    fn time(&mut self, name: &str, unit: u64) -> Option<Duration> {
        let given = self.get(name)?;
        let time = value::microseconds(&given.value, unit).filter(|us| *us <= LONGEST_TIME);
        if time.is_none() {
            self.not(given, "a time of at most a year, such as 60, 10m or 500ms");
        }
        time.filter(|us| *us > 0).map(Duration::from_micros)
    }

    /// What a list of one value for reads, writes and trims has for this load.
    fn own_of(&self, given: &'a Given) -> Vec<Option<&'a str>> {
        self.load.directions().iter().map(|direction| value::of(&given.value, *direction)).collect()
    }

    fn without_counterpart(&mut self) {
        let mut seen = Vec::new();
        for given in self.section.options.iter().rev() {
            // The last of a name counts; the options of other engines share a row.
            if seen.contains(&given.name) {
                continue;
            }
            seen.push(given.name.clone());
            if given.row.is_switch() && value::switch(&given.value).is_none() {
                self.not(given, "0 or 1 (fio knows no words for them)");
                continue;
            }
            match given.row.means {
                Means::Near(off, how) if !off.contains(&given.value.as_str()) => self.remark(given, how),
                Means::Refused(off, why) if !off.contains(&given.value.as_str()) => self.refuse(given, why),
                _ => {}
            }
        }
        self.wrong.reverse();
        self.job.remarks.reverse();
    }

    fn operation(&mut self) {
        let text = self.get("rw").map_or("read", |given| given.value.as_str());
        let (kind, step) = text.split_once(':').map_or((text, None), |(kind, step)| (kind, Some(step)));
        let (op, random) = match kind {
            "read" => ("read", false),
            "write" => ("write", false),
            "trim" => ("trim", false),
            "randread" => ("read", true),
            "randwrite" => ("write", true),
            "randtrim" => ("trim", true),
            "rw" | "readwrite" => ("mixed", false),
            "randrw" => ("mixed", true),
            "trimwrite" | "randtrimwrite" => {
                return self.get("rw").into_iter().for_each(|given| {
                    self.refuse_job(given, "trims and writes are loads of their own");
                });
            }
            _ => {
                return self
                    .get("rw")
                    .into_iter()
                    .for_each(|given| self.not(given, "a kind of load such as randread"));
            }
        };
        self.load = Load { op, random };
        self.word("op", op, "rw");
        if self.load.mixed() {
            self.read_share();
        }
        let pattern = match step {
            Some(step) => self.stepped(step),
            None if random => self.distribution(),
            None if op == "mixed" => Some("sequential-each".to_owned()),
            None => Some("sequential".to_owned()),
        };
        if let Some(pattern) = pattern {
            self.word("pattern", &pattern, "rw");
        }
    }

    fn read_share(&mut self) {
        let share = match self.last_of("rwmixread", "rwmixwrite") {
            Some(given) => match value::count(&given.value).filter(|share| *share <= 100) {
                Some(share) if given.row.name == "rwmixwrite" => 100 - share,
                Some(share) => share,
                None => return self.not(given, "between 0 and 100"),
            },
            None => 50,
        };
        self.set("read-share", Value::Count(share), "rwmixread");
    }

    /// The last of two options that say the same.
    fn last_of(&self, one: &str, other: &str) -> Option<&'a Given> {
        self.section.options.iter().rev().find(|given| given.row.name == one || given.row.name == other)
    }

    /// `rw=read:-8k` leaves bytes out between transfers, `rw=randread:8` draws a place for eight transfers.
    fn stepped(&mut self, step: &str) -> Option<String> {
        let given = self.get("rw")?;
        if self.load.random {
            if value::count(step) == Some(1) {
                return self.distribution();
            }
            self.refuse(given, "each random transfer has a place of its own");
            return self.distribution();
        }
        let back = step.strip_prefix('-').and_then(|step| value::size(step, self.base));
        let block = self.get("bs").map_or(Some(BLOCK), |bs| value::size(&bs.value, self.base));
        if back.is_some() && back == block.and_then(|block| block.checked_mul(2)) && !self.load.mixed() {
            return Some("backward".to_owned());
        }
        self.refuse(
            given,
            "a sequential load leaves nothing out; only backwards, block by block (rw=read:-8k with bs=4k)",
        );
        Some("sequential".to_owned())
    }

    /// The places of a random load.
    fn distribution(&mut self) -> Option<String> {
        if let Some(given) = self.get("percentage_random") {
            let shares = self.own_of(given);
            match shares.iter().map(|share| share.and_then(value::count)).collect::<Option<Vec<u64>>>() {
                Some(shares) if shares.iter().all(|share| *share == 100) => {}
                Some(shares) if shares.iter().all(|share| *share == 0) && !self.load.mixed() => {
                    return Some("sequential".to_owned());
                }
                Some(_) => self.refuse(given, "a load is random or sequential"),
                None => self.not(given, "a percentage"),
            }
        }
        let given = self.get("random_distribution");
        let word = given.map_or("random", |given| given.value.as_str());
        if let (Some(given), Some(rest)) = (given, word.strip_prefix("zoned:")) {
            match zones(rest) {
                Some(zones) => return Some(format!("zoned:{zones}")),
                None => self.refuse(
                    given,
                    "zones must be at most 8 shares of transfers and of the file, each adding up to 100",
                ),
            }
        } else if let (Some(given), true) = (given, word != "random") {
            let theta = word.strip_prefix("zipf").map(|theta| theta.strip_prefix(':').unwrap_or("1.2"));
            match theta.map(|theta| (theta, theta.parse::<f64>())) {
                Some((theta, Ok(number))) if number > 0.0 && number <= 5.0 => {
                    return Some(format!("zipf:{theta}"));
                }
                Some(_) => self.refuse(given, "zipf has one exponent, above 0 and at most 5"),
                None => self.refuse(given, "places are random, zipf:EXPONENT or zoned"),
            }
        }
        if let Some(given) = self.get("norandommap").filter(|given| value::switch(&given.value) == Some(true))
        {
            self.remark(given, "plimsoll visits each block once in a random order, then again in another");
        }
        Some("random".to_owned())
    }

    fn blocks(&mut self) {
        let last = self
            .section
            .options
            .iter()
            .rev()
            .find(|given| matches!(given.row.name, "bs" | "bsrange" | "bssplit"));
        // fio takes a split before a range, and a range before a size, wherever they stand.
        let given = ["bssplit", "bsrange"].iter().find_map(|name| self.get(name)).or(last);
        let Some(given) = given else {
            self.set("block", Value::Size(BLOCK), "bs");
            return;
        };
        let all: Vec<Option<Value>> = self
            .own_of(given)
            .into_iter()
            .map(|text| match (given.row.name, text) {
                (_, None) => Some(Value::Size(BLOCK)),
                ("bssplit", Some(text)) => split(text, self.base),
                ("bsrange", Some(text)) => range(text, self.base),
                (_, Some(text)) => value::size(text, self.base).filter(|size| *size > 0).map(Value::Size),
            })
            .collect();
        match all.as_slice() {
            [Some(one)] => self.set("block", one.clone(), given.row.name),
            [Some(one), Some(other)] if one == other => self.set("block", one.clone(), given.row.name),
            [Some(_), Some(_)] => self.refuse_job(given, "reads and writes of a mix have the same blocks"),
            _ if given.row.name == "bs" => self.not(given, "a number of bytes such as 4k"),
            _ => self.refuse_job(
                given,
                "blocks must be at most 16 sizes with whole percentages, or a range of at most 16 sizes",
            ),
        }
        self.alignment();
    }

    /// Random blocks begin at multiples of the smallest of them where nothing is said.
    fn alignment(&mut self) {
        let sizes: Vec<u64> = match self.job.lists.get("block") {
            Some(Value::Size(bytes)) => vec![*bytes],
            Some(Value::Mix(mix)) => mix.parts().iter().map(|part| part.bytes).collect(),
            _ => return,
        };
        let least = sizes.iter().copied().min().unwrap_or(1);
        let unit = sizes.iter().fold(0, |divisor, bytes| gcd(divisor, *bytes));
        let given = self.get("ba");
        let read = |text: Option<&str>| text.map_or(Some(least), |text| value::size(text, self.base));
        let all: Option<Vec<u64>> =
            given.map_or(Some(vec![least]), |given| self.own_of(given).into_iter().map(read).collect());
        let asked = match (all.as_deref(), given) {
            (Some([first, rest @ ..]), _) if rest.iter().all(|other| other == first) => (*first).max(1),
            (Some(_), Some(given)) => {
                return self.refuse(given, "reads and writes of a mix begin at multiples of the same");
            }
            (_, Some(given)) => return self.not(given, "a number of bytes such as 4k"),
            _ => return,
        };
        match given {
            _ if self.load.random && asked != unit => self.set("align", Value::Size(asked), "ba"),
            Some(given) if !self.load.random && asked != least => {
                self.refuse(given, "blocks of a sequential load lie side by side");
            }
            _ => {}
        }
    }

    fn engine(&mut self) {
        let asked = self.get("ioengine");
        let word = asked.map_or("psync", |given| given.value.as_str());
        let polls = [self.switch("sqthread_poll") == Some(true), self.switch("hipri") == Some(true)];
        let engine = match (word, polls) {
            ("io_uring", [true, true]) => "io_uring+sqpoll+iopoll",
            ("io_uring", [true, false]) => "io_uring+sqpoll",
            ("io_uring", [false, true]) => "io_uring+iopoll",
            ("io_uring", [false, false]) => "io_uring",
            ("libaio", _) => "libaio",
            ("psync" | "pvsync" | "pvsync2" | "sync", _) => "psync",
            ("mmap", _) => "mmap",
            _ => {
                return asked.into_iter().for_each(|given| {
                    self.refuse_job(
                        given,
                        "engines are io_uring, libaio, psync (also for sync, pvsync and pvsync2) and mmap",
                    );
                });
            }
        };
        if !word.starts_with("io_uring") {
            for name in ["sqthread_poll", "hipri"] {
                if let Some(given) = self.get(name).filter(|given| value::switch(&given.value) == Some(true))
                {
                    self.refuse(given, "only io_uring polls");
                }
            }
        }
        if let (Some(given), "sync") = (asked, word) {
            self.remark(given, "psync, which gives each call its offset; fio's sync calls lseek(2) where the next transfer is elsewhere");
        }
        self.word("engine", engine, "ioengine");
        let depth = self.number("iodepth").unwrap_or(1).max(1);
        let one_at_a_time = matches!(engine, "psync" | "mmap");
        self.set("depth", Value::Count(if one_at_a_time { 1 } else { depth }), "iodepth");
        if let Some(given) = self.get("iodepth").filter(|_| one_at_a_time && depth > 1) {
            self.remark(given, "the engine does one transfer at a time, in fio as here");
        }
    }

    fn cache(&mut self) {
        let direct = match self.last_of("direct", "buffered") {
            Some(given) => match value::switch(&given.value) {
                Some(on) => on == (given.row.name == "direct"),
                None => return,
            },
            None => false,
        };
        let warm = self.switch("invalidate") == Some(false) || self.switch("pre_read") == Some(true);
        let mapped = self.job.lists.get("engine") == Some(&Value::Word("mmap".to_owned()));
        let cache = match (direct, warm || mapped) {
            (true, _) => "direct",
            (false, true) => "buffered",
            (false, false) => "cold",
        };
        self.word("cache", cache, if direct { "direct" } else { "buffered" });
    }

    fn sync(&mut self) {
        if !self.load.writes() {
            return;
        }
        let mut all: Vec<(&'a Given, String)> = Vec::new();
        for (name, word) in [("fsync", "fsync"), ("fdatasync", "every")] {
            if let (Some(writes), Some(given)) = (self.number(name).filter(|n| *n > 0), self.get(name)) {
                all.push((given, format!("{word}:{writes}")));
            }
        }
        for name in ["end_fsync", "fsync_on_close"] {
            if let (Some(true), Some(given)) = (self.switch(name), self.get(name)) {
                all.push((given, "fsync-end".to_owned()));
            }
        }
        if let Some(given) = self.get("sync") {
            match given.value.as_str() {
                "0" | "none" => {}
                "1" | "sync" => all.push((given, "o_sync".to_owned())),
                "dsync" => all.push((given, "each".to_owned())),
                _ => self.not(given, "none, sync or dsync"),
            }
        }
        all.dedup_by(|one, other| one.1 == other.1);
        if let Some((given, word)) = all.first() {
            self.word("sync", word, given.row.name);
        }
        for (given, _) in all.iter().skip(1) {
            self.refuse(given, "writes become durable in one way");
        }
    }

    fn checks(&mut self) {
        let Some(given) = self.get("verify") else { return };
        if matches!(given.value.as_str(), "0" | "none") {
            return;
        }
        if self.load.op == "trim" {
            return;
        }
        self.word("verify", "on", "verify");
        let how = "checked by plimsoll's own marks and checksum; what fio reads back after a load of writes is not measured";
        self.remark(given, how);
    }

    /// fio's rates are those of each job and direction.
    fn rate(&mut self) {
        let Some(given) = self.get("rate_iops").or(self.get("rate")) else { return };
        if let (Some(other), "rate_iops") = (self.get("rate"), given.row.name) {
            self.refuse(other, "there is one rate, that of rate_iops");
        }
        let read = |text: Option<&str>| text.map_or(Some(0), |text| value::size(text, self.base));
        let all: Option<Vec<u64>> = self.own_of(given).into_iter().map(read).collect();
        let Some(all) = all else { return self.not(given, "a number per second") };
        let sum: u64 = all.iter().fold(0, |sum, one| sum.saturating_add(*one));
        if sum == 0 {
            return;
        }
        if let ([reads, _], Some(Value::Count(share))) = (all.as_slice(), self.job.lists.get("read-share"))
            && (*reads as f64 / sum as f64 - *share as f64 / 100.0).abs() > 1e-9
        {
            return self.refuse(given, "a mix has one rate, of which reads have the share rwmixread");
        }
        let per_second = match (given.row.name, self.job.lists.get("block")) {
            ("rate_iops", _) => sum as f64,
            (_, Some(Value::Size(block))) => sum as f64 / *block as f64,
            _ => return self.refuse(given, "a rate in bytes needs blocks of one size"),
        };
        if per_second < 1.0 {
            return self.refuse(given, "a rate must be at least 1 transfer a second for each job");
        }
        let threads = self.number("numjobs").unwrap_or(1).max(1);
        self.set("rate", Value::Rate(per_second * threads as f64), given.row.name);
        let process = self.get("rate_process");
        let arrivals = match (process.map(|given| given.value.as_str()), process) {
            (None | Some("linear"), _) => "even",
            (Some("poisson"), _) => "poisson",
            (_, Some(given)) => return self.not(given, "linear or poisson"),
            _ => return,
        };
        self.word("arrivals", arrivals, "rate_process");
        self.remark(
            given,
            "latencies count from the intended start, as an open loop; fio's from the submission",
        );
    }

    fn latency_target(&mut self) {
        let Some(given) = self.get("latency_target") else { return };
        let Some(time) = self.time("latency_target", 1) else { return };
        let percentile = self.get("latency_percentile");
        let percent = percentile.map_or("100.0", |given| given.value.as_str());
        match percent.parse::<f64>() {
            Ok(number) if (1.0..=99.99).contains(&number) => {
                let word = format!("p{number}:{}", format_duration(time));
                self.word("latency-target", &word, "latency_target");
                if self.job.lists.get("depth") == Some(&Value::Count(1)) {
                    self.remark(given, "there is one depth to find: iodepth is 1");
                }
                self.job.sample_time =
                    self.time("latency_window", 1).map(|time| time.max(Duration::from_millis(50)));
            }
            Ok(_) => self
                .refuse(given, "it must hold for all transfers; write a latency_percentile from 1 to 99.99"),
            Err(_) => percentile.into_iter().for_each(|given| self.not(given, "a percentage")),
        }
    }

    fn order(&mut self, before: &[String]) {
        self.job.waits = self.switch("stonewall") == Some(true);
        if let Some(given) = self.get("wait_for") {
            match before.last() {
                Some(last) if *last == given.value => self.job.waits = true,
                _ if before.contains(&given.value) => {
                    self.refuse(given, "a job waits for all before it (stonewall)");
                }
                _ => self.not(given, "the name of a job above it"),
            }
        }
        let delay = self.get("startdelay").filter(|given| given.value != "0");
        self.job.delayed = delay.is_some();
    }

    fn place(&mut self) {
        let directory = self.get("directory");
        let named = self.get("filename");
        for given in [directory, named].into_iter().flatten() {
            if given.value.replace("\\:", "").contains(':') {
                return self.refuse(given, "there is one directory and one file");
            }
            if given.value.is_empty() {
                return self.not(given, "a path");
            }
        }
        let plain = |given: &Given| given.value.replace("\\:", ":");
        let directory = directory.map(plain);
        let file = named.map(plain);
        self.job.files.named.clone_from(&file);
        // fio puts the directory before the name, also before one that begins with a slash.
        let whole = match (&directory, &file) {
            (Some(directory), Some(file)) => Some(single_slashes(&format!("{directory}/{file}"))),
            (None, file) => file.as_deref().map(single_slashes),
            (Some(_), None) => None,
        };
        self.job.place = match (whole, directory) {
            (Some(whole), _) if is_device(&whole, self.around) => Some(Place::Device(whole.into())),
            (Some(whole), _) => match Path::new(&whole).parent() {
                Some(parent) if parent != Path::new("") => Some(Place::Directory(parent.to_owned())),
                _ => None,
            },
            (None, Some(directory)) => Some(Place::Directory(directory.into())),
            (None, None) => None,
        };
        if let (Some(given), Some(Place::Directory(_)) | None) = (named, &self.job.place) {
            self.remark(given, "a nameless test file in that directory; a file of that name is not touched");
        }
    }

    /// Bytes of each job's file, and how the jobs share it.
    fn files(&mut self) {
        if let Some(given) = self.get("nrfiles").filter(|given| value::count(&given.value) != Some(1)) {
            // With a file that is named, fio ignores it.
            if self.job.files.named.is_none() {
                self.refuse(given, "each job has one file");
            }
        }
        let device = match &self.job.place {
            Some(Place::Device(path)) => Some(path.to_str().and_then(|path| self.around.device(path))),
            _ => None,
        };
        let given = self.get("filesize").or(self.get("size"));
        self.job.files.each = match (given, device) {
            (Some(given), device) if given.value.ends_with('%') => {
                let percent =
                    value::count(given.value.trim_end_matches('%')).filter(|n| (1..=100).contains(n));
                match (percent, device) {
                    (Some(100), Some(whole)) => whole,
                    (Some(percent), Some(Some(whole))) => Some(whole / 100 * percent),
                    (Some(_), Some(None)) => None,
                    (Some(_), None) => {
                        self.refuse(
                            given,
                            "a part of a file that is there: plimsoll makes its own, write its size",
                        );
                        None
                    }
                    (None, _) => {
                        self.not(given, "a number of bytes or a percentage");
                        None
                    }
                }
            }
            (Some(given), _) => self.size(given).and_then(|size| {
                if size == 0 {
                    self.not(given, "at least 1 byte");
                }
                (size > 0).then_some(size)
            }),
            (None, Some(whole)) => whole,
            (None, None) => {
                let why = "the job has no size: plimsoll makes a file of its own and does not use one that is there; write size=1g";
                self.wrong.push(Mistake::refused(&self.section.line, why));
                None
            }
        };
        self.came_from("size", self.get("filesize").or(self.get("size")));
        self.offsets(device.flatten());
    }

    fn offsets(&mut self, device: Option<u64>) {
        let is_device = matches!(self.job.place, Some(Place::Device(_)));
        if let Some(given) =
            self.get("offset").filter(|given| value::size(&given.value, self.base) != Some(0))
        {
            match is_device {
                true => self.refuse(given, "a device is measured from its beginning"),
                false => self.remark(given, "the test file begins where the job does"),
            }
        }
        let Some(given) = self.get("offset_increment") else { return };
        let Some(step) = value::size(&given.value, self.base) else {
            return self.refuse(given, "it must be a number of bytes");
        };
        let explicit = self.get("filesize").or(self.get("size")).is_some();
        match (self.job.files.each, self.job.threads) {
            _ if step == 0 || self.job.threads == 1 || self.job.files.named.is_none() => {}
            (Some(each), _) if explicit && each == step => self.job.files.parted = true,
            (Some(each), _) if explicit && each < step => {
                self.job.files.parted = true;
                self.remark(given, "each job has a part of its own, which lie side by side");
            }
            (Some(_), threads) if !explicit && device.is_some_and(|whole| whole / threads == step) => {
                self.job.files.parted = true;
                self.job.files.each = Some(step);
            }
            _ => self.refuse(given, "the parts of the jobs overlap; write a size of at most the increment"),
        }
    }

    /// How much is transferred, or for how long.
    fn amount(&mut self) {
        self.job.warm_up = self.time("ramp_time", SECOND);
        let timed = self.switch("time_based") == Some(true);
        let searches = self.job.lists.contains_key("latency-target");
        match self.time("runtime", SECOND) {
            Some(runtime) => {
                if !timed {
                    self.note_runtime();
                }
                if !searches {
                    let (samples, time) = in_samples(runtime);
                    (self.job.samples, self.job.sample_time) = (Some(samples), Some(time));
                }
            }
            None if timed => {
                let line = self.line("time_based");
                self.wrong.push(Mistake::wrong(&line, "time_based requires runtime"));
            }
            None if !searches => self.fixed_amount(),
            None => {}
        }
    }

    /// That fio may end before its time.
    fn note_runtime(&mut self) {
        let Some(given) = self.get("runtime") else { return };
        let amount =
            self.get("io_size").or(self.get("size")).map_or("its size", |given| given.value.as_str());
        let how = format!(
            "measured for all of it; without time_based fio ends earlier where it has done {}",
            shown_within(amount, 40)
        );
        self.remark(given, &how);
    }

    /// Bytes that each job transfers.
    fn bytes_of_a_job(&mut self, block: u64) -> Option<u64> {
        let loops = self.number("loops").unwrap_or(1).max(1);
        let size = self.get("size").and_then(|given| value::size(&given.value, self.base));
        let each = match self.get("io_size") {
            Some(given) if given.value.ends_with('%') => {
                self.refuse(given, "write a number of bytes");
                None
            }
            Some(given) => self.size(given),
            None => size.or(self.job.files.each).map(|bytes| bytes.saturating_mul(loops)),
        };
        let counted = self.number("number_ios").filter(|n| *n > 0).map(|count| count.saturating_mul(block));
        match (each, counted) {
            (Some(bytes), Some(most)) => Some(bytes.min(most)),
            (each, counted) => each.or(counted),
        }
    }

    /// An amount without a time, in samples that are not too short.
    fn fixed_amount(&mut self) {
        let block = match self.job.lists.get("block") {
            Some(Value::Size(bytes)) => *bytes,
            Some(Value::Mix(mix)) => mix.mean() as u64,
            _ => BLOCK,
        };
        let Some(bytes) = self.bytes_of_a_job(block).filter(|bytes| *bytes > 0) else { return };
        let at_end = self.job.lists.get("sync") == Some(&Value::Word("fsync-end".to_owned()));
        let least = LEAST_SAMPLE.max(block.saturating_mul(LEAST_TRANSFERS));
        let samples = if at_end { 1 } else { (bytes / least).clamp(1, MOST_SAMPLES) };
        // The cast is in range.
        self.job.samples = Some(samples as u32);
        self.set("volume", Value::Size((bytes / samples).max(1)), "size");
    }

    /// Its options as a reference tool may have them beside the case.
    fn own_options(&mut self) {
        let mut names: Vec<&str> = Vec::new();
        for given in self.section.options.iter().rev() {
            if !names.contains(&given.row.name) {
                names.push(given.row.name);
                self.job.own.push(format!("{}={}", given.row.name, given.value));
            }
        }
        self.job.own.reverse();
    }
}

/// A time as samples: thirty of them, each no shorter than plimsoll's usual one and no longer than ten seconds.
fn in_samples(runtime: Duration) -> (u32, Duration) {
    let seconds = runtime.as_secs_f64();
    let samples = (seconds / (seconds / 30.0).clamp(0.2, 10.0)).round().clamp(1.0, 1e6);
    let time = Duration::from_micros((seconds / samples * 1e6).round() as u64);
    // The cast is in range.
    (samples as u32, time.max(Duration::from_millis(1)))
}

/// `4k/10:64k/50:32k/40`; what has no percentage shares what is left.
fn split(text: &str, base: Base) -> Option<Value> {
    let parts: Vec<(u64, Option<u64>)> = text
        .split(':')
        .map(|part| {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let share = match share.trim() {
                "" => None,
                share => Some(value::count(share)?),
            };
            Some((value::size(size, base).filter(|size| *size > 0)?, share))
        })
        .collect::<Option<_>>()?;
    let said: u64 =
        parts.iter().filter_map(|(_, share)| *share).try_fold(0u64, |sum, share| sum.checked_add(share))?;
    let open = parts.iter().filter(|(_, share)| share.is_none()).count() as u64;
    let left = 100u64.checked_sub(said)?;
    if (open == 0) != (left == 0) {
        return None;
    }
    // In parts of `open` hundredths, so that what is left divides.
    let scale = open.max(1);
    let weighed: BTreeMap<u64, u64> = parts.iter().fold(BTreeMap::new(), |mut all, (size, share)| {
        *all.entry(*size).or_default() += share.map_or(left, |share| share * scale);
        all
    });
    let weighed: Vec<(u64, u64)> = weighed.into_iter().filter(|(_, weight)| *weight > 0).collect();
    if let [(only, _)] = weighed.as_slice() {
        return Some(Value::Size(*only));
    }
    let divisor = weighed.iter().fold(0, |divisor, (_, weight)| gcd(divisor, *weight)).max(1);
    let parts = weighed
        .into_iter()
        .map(|(bytes, weight)| Some(Part { bytes, weight: u32::try_from(weight / divisor).ok()? }));
    Mix::new(parts.collect::<Option<_>>()?).map(Value::Mix)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `4k-16k`: each multiple of the smallest, equally often.
fn range(text: &str, base: Base) -> Option<Value> {
    let (least, most) = text.split_once('-')?;
    let (least, most) = (value::size(least, base)?, value::size(most, base)?);
    if least == 0 || most < least {
        return None;
    }
    match most / least {
        1 => Some(Value::Size(least)),
        n @ 2..=16 => {
            Mix::new((1..=n).map(|i| Part { bytes: i * least, weight: 1 }).collect()).map(Value::Mix)
        }
        _ => None,
    }
}

/// `50/5:30/15:20/80`: half of the transfers to the first twentieth. What a last share leaves open is the rest.
fn zones(text: &str) -> Option<String> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for part in text.split(':') {
        let (transfers, of_file) = part.split_once('/')?;
        let left = 100u64.checked_sub(all.iter().map(|zone| zone.1).sum())?;
        let of_file = if of_file.is_empty() { left } else { value::count(of_file)? };
        all.push((value::count(transfers)?, of_file));
    }
    let whole = |of: fn(&(u64, u64)) -> u64| {
        all.iter().map(of).try_fold(0u64, |sum, n| sum.checked_add(n)) == Some(100)
    };
    let fits =
        all.len() <= 8 && whole(|zone| zone.0) && whole(|zone| zone.1) && all.iter().all(|zone| zone.1 > 0);
    fits.then(|| {
        all.iter().map(|(transfers, of_file)| format!("{transfers}-{of_file}")).collect::<Vec<_>>().join(":")
    })
}

/// The same path without empty parts and `.`.
fn single_slashes(path: &str) -> String {
    Path::new(path).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

/// Whether a path is meant as a device, also where this machine has none of that name.
fn is_device(path: &str, around: &dyn Surroundings) -> bool {
    (path.starts_with("/dev/") && !path.starts_with("/dev/shm/")) || around.device(path).is_some()
}
