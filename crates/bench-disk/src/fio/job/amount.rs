//! Target, amount and duration of a job.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::mistake::Mistake;
use super::super::syntax::{GivenOption, JobEnvironment};
use super::super::value::{self, SECOND};
use super::{FIO_BLOCK_BYTES, JobReader, JobTarget, PLACE};
use plimsoll_model::case::Value;
use plimsoll_units::text::shown_within;

/// Most samples of a fixed amount, and least bytes per sample.
const MOST_SAMPLES: u64 = 10;
const LEAST_SAMPLE: u64 = 64 << 20;
/// Least transfers per sample of a fixed amount.
const LEAST_TRANSFERS: u64 = 1000;

impl<'a> JobReader<'a> {
    pub(super) fn place(&mut self) {
        let directory = self.get("directory");
        let named = self.get("filename");
        for given in [directory, named].into_iter().flatten() {
            if given.value.replace("\\:", "").contains(':') {
                return self.refuse(given, "there is one directory and one file");
            }
            if given.value.is_empty() || given.unset.is_some() {
                return self.record_invalid(given, "a path");
            }
        }
        self.came_from(PLACE, named.or(directory));
        let plain = |given: &GivenOption| given.value.replace("\\:", ":");
        let directory = directory.map(plain);
        self.job.files.named = named.map(plain);
        self.job.place = match (directory, &self.job.files.named) {
            (directory, None) => directory.map(|directory| JobTarget::Directory(directory.into())),
            (directory, Some(file)) => {
                // fio prepends the directory even to an absolute name.
                let whole = directory.map_or(file.clone(), |directory| format!("{directory}/{file}"));
                let whole: PathBuf = Path::new(&whole).components().collect();
                match whole.parent() {
                    _ if is_device(&whole, self.around) => Some(JobTarget::Device(whole)),
                    Some(parent) if parent != Path::new("") => Some(JobTarget::Directory(parent.to_owned())),
                    _ => None,
                }
            }
        };
        if let (Some(given), Some(JobTarget::Directory(_)) | None) = (named, &self.job.place) {
            self.remark(given, "a nameless test file in that directory; a file of that name is not touched");
        }
    }

    /// Records an error if the job trims a file: fio only trims devices (ENOTTY).
    pub(super) fn check_trims(&mut self) {
        let is_device = matches!(self.job.place, Some(JobTarget::Device(_)));
        if let Some(given) = self.get("rw").filter(|_| self.op == "trim" && !is_device) {
            let why = "fio trims block devices alone; plimsoll disk --op trim makes holes in a file";
            self.refuse_job(given, why);
        }
    }

    /// Sets the size of each job's file, and whether jobs have separate ranges of one named file.
    pub(super) fn files(&mut self) {
        if let Some(given) = self.get("nrfiles").filter(|given| value::count(&given.value) != Some(1))
            && self.job.files.named.is_none()
        {
            self.refuse(given, "each job has one file");
        }
        let device = match &self.job.place {
            Some(JobTarget::Device(path)) => Some(path.to_str().and_then(|path| self.around.device(path))),
            _ => None,
        };
        self.job.files.each = self.file_bytes(device);
        self.came_from("size", self.get("filesize").or(self.get("size")));
        self.offsets(device.flatten());
    }

    /// Returns the bytes of each job's file; `None` if unknown, or wrong (recorded as an error).
    /// `device` has the size, if known, of the target if that is a device, not a file.
    fn file_bytes(&mut self, device: Option<Option<u64>>) -> Option<u64> {
        let Some(given) = self.get("filesize").or(self.get("size")) else {
            if device.is_none() {
                let why = "the job has no size: plimsoll makes a file of its own and does not use one that is there; write size=1g";
                self.wrong.push(Mistake::refused(&self.section.line, why));
            }
            return device.flatten();
        };
        if given.value.ends_with('%') {
            let percent = value::count(given.value.trim_end_matches('%')).filter(|n| (1..=100).contains(n));
            match (percent, device) {
                (Some(100), Some(whole)) => return whole,
                (Some(percent), Some(whole)) => return Some(whole? / 100 * percent),
                (Some(_), None) => {
                    let why = "a part of a file that is there: plimsoll makes its own, write its size";
                    self.refuse(given, why);
                }
                (None, _) => self.record_invalid(given, "a number of bytes or a percentage"),
            }
            return None;
        }
        if given.row.name == "filesize" && given.value.contains('-') {
            self.refuse(given, "all files have one size");
            return None;
        }
        let size = self.size(given)?;
        if size == 0 {
            self.record_invalid(given, "at least 1 byte");
        }
        (size > 0).then_some(size)
    }

    fn offsets(&mut self, device: Option<u64>) {
        let is_device = matches!(self.job.place, Some(JobTarget::Device(_)));
        let offset = self.get("offset").map(|given| (given, value::size(&given.value, self.base)));
        self.job.files.offset = offset.map_or(Some(0), |(_, bytes)| bytes);
        if let Some((given, _)) = offset.filter(|(_, bytes)| *bytes != Some(0)) {
            match is_device {
                true => self.refuse(given, "a device is measured from its beginning"),
                false => self.remark(given, "the test file begins where the first job does"),
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

    /// Sets number and length of samples, and warm-up; without `runtime`, the bytes of each sample.
    pub(super) fn amount(&mut self) {
        self.job.how.warm_up = self.time("ramp_time", SECOND);
        let timed = self.is_on("time_based");
        let searches = self.job.lists.contains_key("latency-target");
        let runtime = self.time("runtime", SECOND);
        self.job.lasts = runtime.map(|time| time.saturating_add(self.job.how.warm_up.unwrap_or_default()));
        if let Some(given) = self.get("runtime").filter(|_| runtime.is_some() && !timed) {
            let amount = self.get("io_size").or(self.get("size"));
            let how = format!(
                "measured for all of it; without time_based fio ends earlier where it has done {}",
                shown_within(amount.map_or("its size", |given| given.written.as_str()), 40)
            );
            self.remark(given, &how);
        }
        match runtime {
            Some(_) if searches => {}
            Some(runtime) => {
                let (samples, time) = split_into_samples(runtime);
                (self.job.how.samples, self.job.how.sample_time) = (Some(samples), Some(time));
            }
            None if let Some(given) = self.get("time_based").filter(|_| timed) => {
                self.wrong.push(Mistake::wrong(&given.line, "time_based requires runtime"));
            }
            None if !searches => self.fixed_amount(),
            None => {}
        }
    }

    /// Returns the bytes that each job transfers in fio 3.33, in blocks of `block` bytes, from
    /// `size`, `io_size`, `loops` and `number_ios`; `None` if unknown.
    fn bytes_of_a_job(&mut self, block: u64) -> Option<u64> {
        let loops = self.number("loops").unwrap_or(1).max(1);
        let size = self.get("size").and_then(|given| value::size(&given.value, self.base));
        let is_random = self.job.lists.get("pattern") == Some(&Value::Word("random".to_owned()));
        let repeats = is_random && self.is_on("norandommap");
        let whole = |bytes: u64| if repeats { bytes } else { (bytes / block).max(1).saturating_mul(block) };
        let pass = size.into_iter().chain(self.job.files.each).min();
        let pass = pass.filter(|bytes| *bytes > 0).map(whole);
        let each = match self.get("io_size") {
            Some(given) if given.value.ends_with('%') => {
                self.refuse(given, "write a number of bytes");
                None
            }
            Some(given) => self.size(given).map(|bytes| match pass {
                Some(pass) if loops > 1 => loops.max(bytes.div_ceil(pass)).saturating_mul(pass.min(bytes)),
                _ => bytes,
            }),
            None => pass.map(|pass| pass.saturating_mul(loops)),
        };
        let counted = self.number("number_ios").filter(|n| *n > 0);
        let counted = counted.map(|count| count.saturating_mul(block).saturating_mul(loops));
        each.into_iter().chain(counted).min()
    }

    /// Divides the bytes that the job transfers into at most 10 samples of 64 MiB or more.
    fn fixed_amount(&mut self) {
        let block = match self.job.lists.get("block") {
            Some(Value::Size(bytes)) => *bytes,
            Some(Value::Mix(mix)) => mix.mean() as u64,
            _ => FIO_BLOCK_BYTES,
        };
        let Some(bytes) = self.bytes_of_a_job(block).filter(|bytes| *bytes > 0) else { return };
        let at_end = self.job.lists.get("sync") == Some(&Value::Word("fsync-end".to_owned()));
        let least = LEAST_SAMPLE.max(block.saturating_mul(LEAST_TRANSFERS));
        let samples = if at_end { 1 } else { (bytes / least).clamp(1, MOST_SAMPLES) };
        self.job.how.samples = Some(samples as u32);
        self.set("volume", Value::Size((bytes / samples).max(1)), "size");
    }
}

/// Divides a run time into samples of 0.2 s to 10 s; returns their number and duration.
fn split_into_samples(runtime: Duration) -> (u32, Duration) {
    let seconds = runtime.as_secs_f64();
    let samples = (seconds / (seconds / 30.0).clamp(0.2, 10.0)).round().clamp(1.0, 1e6);
    let time = Duration::from_micros((seconds / samples * 1e6).round() as u64);
    (samples as u32, time.max(Duration::from_millis(1)))
}

/// Whether `path` means a device: below /dev (except /dev/shm), or known to `around` as one.
fn is_device(path: &Path, around: &dyn JobEnvironment) -> bool {
    let path = path.to_string_lossy();
    (path.starts_with("/dev/") && !path.starts_with("/dev/shm/")) || around.device(&path).is_some()
}
