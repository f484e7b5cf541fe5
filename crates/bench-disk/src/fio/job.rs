//! Conversion of one fio job to a case of `disk.io`.

mod amount;
mod load;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::mistake::{FileLine, Mistake};
use super::option::{self, OptionMeaning};
use super::syntax::{GivenOption, JobEnvironment, JobSection};
use super::value::{self, Base, SECOND};
use plimsoll_model::case::Value;
use plimsoll_model::plan::SamplingOptions;
use plimsoll_units::text::shown_within;

/// Default block size of fio, in bytes.
const FIO_BLOCK_BYTES: u64 = 4096;
/// Longest time, in microseconds.
const LONGEST_TIME: u64 = 366 * 86_400 * SECOND;
/// Key of the option that names the target in the descriptions of a group's positions.
pub const PLACE: &str = "place";

/// Target of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTarget {
    /// A test file in this directory.
    Directory(PathBuf),
    /// This block device.
    Device(PathBuf),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Files {
    /// Named file; `None`: each job has its own.
    pub(super) named: Option<String>,
    pub(super) each: Option<u64>,
    /// Whether each job has its own part of the named file.
    pub(super) parted: bool,
    /// Offset of the job's part in bytes; `None` if it is no number of bytes.
    pub(super) offset: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FioWorkload {
    pub(super) name: String,
    pub(super) line: FileLine,
    pub(super) lists: BTreeMap<&'static str, Value>,
    pub(super) given: BTreeMap<&'static str, GivenOption>,
    pub(super) threads: u64,
    pub(super) files: Files,
    pub(super) place: Option<JobTarget>,
    pub(super) how: SamplingOptions,
    /// Whether it starts after the end of all jobs above it; false without any.
    pub(super) waits: bool,
    /// Delay of its start after fio's; `None` for a random time.
    pub(super) delay: Option<Duration>,
    /// Longest run time in fio after the start; `None` if only its amount ends it.
    pub(super) lasts: Option<Duration>,
    pub(super) remarks: Vec<String>,
    pub(super) own: Vec<String>,
}

impl FioWorkload {
    /// Whether both jobs are threads of one load: equal parameters (with the rate per thread),
    /// equal and known time of start, and compatible files.
    pub(super) fn joins(&self, other: &FioWorkload) -> bool {
        let like = self.lists.keys().eq(other.lists.keys())
            && self.lists.iter().all(|(key, value)| *key == "rate" || other.lists.get(key) == Some(value))
            && self.rate_of_one() == other.rate_of_one();
        let files = match (&self.files.named, &other.files.named) {
            (None, None) => true,
            (Some(one), Some(two)) if one == two => self.shares_space(other),
            (Some(_), Some(_)) => {
                self.threads == 1 && other.threads == 1 && !matches!(self.place, Some(JobTarget::Device(_)))
            }
            _ => false,
        };
        let how = self.how == other.how && self.files.each == other.files.each;
        like && files && how && self.place == other.place && self.delay == other.delay && self.delay.is_some()
    }

    /// Whether both jobs use equal or disjoint ranges of their named file; false if unknown.
    fn shares_space(&self, other: &FioWorkload) -> bool {
        let (Some(own), Some(its)) = (self.files.offset, other.files.offset) else { return false };
        if own == its {
            return !self.files.parted && !other.files.parted;
        }
        let is_part = |job: &FioWorkload| job.files.parted || job.threads == 1;
        let end = |job: &FioWorkload, from: u64| {
            Some(from.saturating_add(job.files.each?.saturating_mul(job.threads)))
        };
        let is_before = |end: Option<u64>, begin: u64| end.is_some_and(|end| end <= begin);
        let is_separate = is_before(end(self, own), its) || is_before(end(other, its), own);
        is_part(self) && is_part(other) && is_separate
    }

    pub(super) fn join(&mut self, other: FioWorkload) {
        if let (Some(Value::Rate(all)), Some(Value::Rate(more))) =
            (self.lists.get_mut("rate"), other.lists.get("rate"))
        {
            *all += more;
        }
        if self.files.named != other.files.named {
            self.files.named = None;
        }
        self.files.parted |= self.files.offset != other.files.offset;
        self.files.offset = self.files.offset.min(other.files.offset);
        self.threads = self.threads.saturating_add(other.threads);
        self.remarks.extend(other.remarks);
    }

    /// Returns file, line and section name: `job.fio:3: [randread]`.
    pub(super) fn describe(&self) -> String {
        format!("{}:{}: [{}]", self.line.file, self.line.number, self.name)
    }

    pub(super) fn changes_data(&self) -> bool {
        self.lists.get("op") != Some(&Value::Word("read".to_owned())) && self.lists.contains_key("op")
    }

    fn rate_of_one(&self) -> Option<u64> {
        let Some(Value::Rate(all)) = self.lists.get("rate") else { return None };
        Some((all / self.threads as f64 * 1e3).round() as u64)
    }
}

struct JobReader<'a> {
    section: &'a JobSection,
    around: &'a dyn JobEnvironment,
    base: Base,
    op: &'static str,
    is_random: bool,
    job: FioWorkload,
    wrong: Vec<Mistake>,
}

/// Converts the options of a job section; returns also its errors and unsupported options.
/// `around` knows the machine's devices, `before` has the jobs above.
pub(super) fn read(
    section: &JobSection,
    around: &dyn JobEnvironment,
    before: &[JobSection],
) -> (FioWorkload, Vec<Mistake>) {
    let job = FioWorkload {
        name: section.name.clone(),
        line: section.line.clone(),
        threads: 1,
        files: Files { offset: Some(0), ..Files::default() },
        delay: Some(Duration::ZERO),
        ..FioWorkload::default()
    };
    let (base, op, is_random) = (Base::Compatible, "read", false);
    let mut reading = JobReader { section, around, base, op, is_random, job, wrong: Vec::new() };
    reading.all(before);
    (reading.job, reading.wrong)
}

impl<'a> JobReader<'a> {
    fn all(&mut self, before: &[JobSection]) {
        let engine = self.get("ioengine");
        if let Some(given) = engine.filter(|given| given.value.is_empty()) {
            return self.record_invalid(given, "an engine such as libaio");
        }
        if let Some(given) = engine.filter(|given| !load::ENGINES.contains(&given.value.as_str())) {
            // The other options belong to that engine.
            let why = "engines are io_uring, libaio, psync (also for sync, pvsync and pvsync2) and mmap";
            return self.refuse_job(given, why);
        }
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
        self.job.threads = self.positive("numjobs").unwrap_or(1);
        self.came_from("threads", self.get("numjobs"));
        self.place();
        self.check_trims();
        self.files();
        self.amount();
        self.check_block_map();
        self.own_options();
    }

    /// Returns the last occurrence in the job of the option with fio's main name `name`, or `None`.
    fn get(&self, name: &str) -> Option<&'a GivenOption> {
        self.section.options.iter().rev().find(|given| given.row.name == name)
    }

    fn refuse(&mut self, given: &GivenOption, why: &str) {
        let text = format!("option {} has no counterpart: {why}", given.shown());
        self.wrong.push(Mistake::refused(&given.line, &text));
    }

    fn refuse_job(&mut self, given: &GivenOption, why: &str) {
        let text = format!("option {} has no counterpart: {why}", given.shown());
        self.wrong.push(Mistake::refused_job(&given.line, &text));
    }

    fn record_invalid(&mut self, given: &GivenOption, wanted: &str) {
        let written = shown_within(&given.written, 60);
        let found = match &given.unset {
            Some(variable) => {
                format!("'{written}' needs the environment variable {variable}, which is not set")
            }
            None if given.written.is_empty() => "it is empty".to_owned(),
            None if given.written != given.value => format!("the value of '{written}' is not"),
            None => format!("'{written}' is not"),
        };
        let text = format!("{} must be {wanted}: {found}", given.name);
        self.wrong.push(Mistake::wrong(&given.line, &text));
    }

    fn valid<T>(&mut self, given: &GivenOption, value: Option<T>, wanted: &str) -> Option<T> {
        if value.is_none() {
            self.record_invalid(given, wanted);
        }
        value
    }

    fn remark(&mut self, given: &GivenOption, how: &str) {
        self.job.remarks.push(format!("{}: {how}", given.describe()));
    }

    fn set(&mut self, key: &'static str, value: Value, from: &str) {
        self.job.lists.insert(key, value);
        self.came_from(key, self.get(from));
    }

    /// Records `given` as the origin of parameter `key`; nothing if `None`, a default of fio.
    fn came_from(&mut self, key: &'static str, given: Option<&GivenOption>) {
        if let Some(given) = given {
            self.job.given.insert(key, given.clone());
        }
    }

    fn word(&mut self, key: &'static str, word: &str, from: &str) {
        self.set(key, Value::Word(word.to_owned()), from);
    }

    fn size(&mut self, given: &'a GivenOption) -> Option<u64> {
        self.valid(given, value::size(&given.value, self.base), "a number of bytes such as 4k")
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let given = self.get(name)?;
        self.valid(given, value::size(&given.value, self.base), "a whole number")
    }

    /// Returns the number of option `name`; 0, which would measure nothing, is recorded as an error
    /// and becomes 1. `None` if the option is not given.
    fn positive(&mut self, name: &str) -> Option<u64> {
        let number = self.number(name)?;
        if let Some(given) = self.get(name).filter(|_| number == 0) {
            self.record_invalid(given, "at least 1");
        }
        Some(number.max(1))
    }

    fn switch(&self, name: &str) -> Option<bool> {
        let given = self.get(name)?;
        // Invalid values are reported in `without_counterpart`.
        value::switch(&given.value, given.row.takes_any_number())
    }

    fn is_on(&self, name: &str) -> bool {
        self.switch(name) == Some(true)
    }

    fn time(&mut self, name: &str, unit: u64) -> Option<Duration> {
        let given = self.get(name)?;
        let time = value::microseconds(&given.value, unit).filter(|us| *us <= LONGEST_TIME);
        let time = self.valid(given, time, "a time of at most a year, such as 60, 10m or 500ms");
        time.filter(|us| *us > 0).map(Duration::from_micros)
    }

    /// Returns the value for each direction (reads, writes) of the load from `given`, whose value
    /// is a list `reads,writes,trims`; `None` for an empty value.
    fn values_per_direction(&self, given: &'a GivenOption) -> Vec<Option<&'a str>> {
        let directions: &[usize] = match self.op {
            "read" => &[0],
            "write" => &[1],
            "trim" => &[2],
            _ => &[0, 1],
        };
        let value = |direction: &usize| value::value_for_direction(&given.value, *direction);
        directions.iter().map(value).collect()
    }

    fn without_counterpart(&mut self) {
        let mut seen = Vec::new();
        for given in self.section.options.iter().rev() {
            // The last value of a name applies; unknown options share a row.
            if seen.contains(&given.name) {
                continue;
            }
            seen.push(given.name.clone());
            let is_flag = given.row.takes_any_number();
            if given.row.is_switch() && value::switch(&given.value, is_flag).is_none() {
                let wanted =
                    if is_flag { "a number, 0 for off" } else { "0 or 1 (fio knows no words for them)" };
                self.record_invalid(given, wanted);
                continue;
            }
            let is_neutral = |words: &str| words.split_whitespace().any(|word| word == given.value);
            match given.row.means {
                OptionMeaning::Unknown => {
                    let engine = self.get("ioengine").map_or("psync", |engine| engine.value.as_str());
                    let why = option::unknown(&given.name, engine);
                    self.wrong.push(Mistake::wrong(&given.line, &why));
                }
                OptionMeaning::Near(off, how) if !is_neutral(off) => self.remark(given, how),
                OptionMeaning::Refused(off, why) if !is_neutral(off) => self.refuse(given, why),
                _ => {}
            }
        }
        self.wrong.reverse();
        self.job.remarks.reverse();
    }

    fn order(&mut self, before: &[JobSection]) {
        self.job.waits = !before.is_empty() && self.is_on("stonewall");
        if let Some(given) = self.get("wait_for") {
            match before.last() {
                Some(last) if last.name == given.value => self.job.waits = true,
                _ if before.iter().any(|job| job.name == given.value) => {
                    self.refuse(given, "a job waits for all before it (stonewall)");
                }
                _ => self.record_invalid(given, "the name of a job above it"),
            }
        }
        // A range is a random time in fio.
        let delay = self.get("startdelay").map(|given| value::microseconds(&given.value, SECOND));
        self.job.delay = delay.unwrap_or(Some(0)).map(Duration::from_micros);
    }

    fn own_options(&mut self) {
        let mut names: Vec<&str> = Vec::new();
        for given in self.section.options.iter().rev() {
            if !names.contains(&given.row.name) {
                names.push(given.row.name);
                self.job.own.push(format!("{}={}", given.row.name, given.written));
            }
        }
        self.job.own.reverse();
    }
}
