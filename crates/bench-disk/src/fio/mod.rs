//! fio job files as plans: supported options are taken exactly, with the meanings of fio(1); the
//! rest is reported with its line. A job file gives no consent to write to a device, starts no
//! program and opens only included files.

mod job;
mod mistake;
pub mod option;
mod syntax;
mod value;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use job::FioWorkload;
pub use job::{JobTarget, PLACE};
use mistake::{FileLine, Mistake};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
pub use syntax::JobEnvironment;

use plimsoll_machine::{DeviceNumber, Root};
use plimsoll_model::case::Value;
use plimsoll_model::plan::file::PlanFile;
use plimsoll_model::plan::{self, Group, PlanPositions};
use plimsoll_units::text::{read_small, read_small_file, shown_path, shown_within};

/// Extension of a job file.
pub const ENDING: &str = ".fio";

/// Largest job file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Longest note of a group, in characters: the limit of plan files.
const LONGEST_NOTE: usize = 1900;

const BENCHMARK: &str = "disk.io";

/// Treatment of unsupported options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// They are errors.
    Refused,
    /// They are ignored, with a remark in the plan.
    Ignored,
}

/// A parsed job file.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// The resulting plan.
    pub plan: PlanFile,
    /// Target of the jobs; `None`: plimsoll's default.
    pub place: Option<JobTarget>,
    /// The first job that writes or trims, with its line.
    pub writes: Option<String>,
}

/// Whether the file at path `name` is an fio job file: by its ending `.fio`, or by its content
/// unless it ends in `.toml`, as plans do.
pub fn is_job_file(name: &str) -> bool {
    let has_jobs = |path: &Path| read_small(path, MAX_BYTES).is_ok_and(|text| is_job_text(&text));
    // A pipe can be read only once.
    let may_be_read = !name.ends_with(".toml") && Path::new(name).is_file();
    name.ends_with(ENDING) || (may_be_read && has_jobs(Path::new(name)))
}

/// Whether a text starts with a section that has an fio option; that of a plan is `[[group]]`.
fn is_job_text(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let mut lines = lines.skip_while(|line| line.starts_with("include "));
    let begins = lines.next().and_then(|line| line.strip_prefix('['));
    let is_section = begins.is_some_and(|name| !name.starts_with('[') && !name.starts_with("limit"));
    let is_option = |line: &str| {
        let name = line.split_once('=').map_or(line, |(name, _)| name.trim());
        option::find(name).means != option::OptionMeaning::Unknown
    };
    is_section && lines.any(is_option)
}

/// Reads the fio job file at `path`, with environment variables and devices of this machine, and
/// included files from its folder. Fails with one line per error, in the order of the text, with
/// those that fio reports first; an option that plimsoll lacks is an error or ignored, as
/// `unsupported` requires.
pub fn read(path: &Path, unsupported: Unsupported) -> Result<JobFile, Vec<String>> {
    let file = shown_path(path);
    let text = read_small(path, MAX_BYTES).map_err(|why| vec![format!("job file {file}: {why}")])?;
    parse(&file, &text, &Here { folder: path.parent().unwrap_or(Path::new("")).to_owned() }, unsupported)
}

/// Parses the text of a job file like [`read`]. `file` is only its name in errors; `around`
/// provides variables, included files and devices.
pub fn parse(
    file: &str,
    text: &str,
    around: &dyn JobEnvironment,
    unsupported: Unsupported,
) -> Result<JobFile, Vec<String>> {
    let mut wrong = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let sections = syntax::sections(file, text, around, &mut wrong);
    let first = FileLine { file: file.into(), number: 1 };
    if sections.is_empty() && wrong.is_empty() {
        let why = "a job file requires a job, such as [randread] with rw=randread and size=1g";
        wrong.push(Mistake::wrong(&first, why));
    }
    let (mut jobs, mut notes) = (Vec::new(), vec![format!("a fio job file: {file}")]);
    for (number, section) in sections.iter().enumerate() {
        let (mut job, mut own) = job::read(section, around, &sections[..number]);
        let is_left_out = own.iter().any(Mistake::takes_the_job);
        if unsupported == Unsupported::Ignored {
            job.remarks.extend(own.iter().filter(|one| one.is_of_plimsoll()).map(Mistake::ignored));
            own.retain(|one| !one.is_of_plimsoll());
        }
        wrong.extend(own);
        match is_left_out {
            true => notes.extend(job.remarks),
            false => jobs.push(job),
        }
    }
    let groups = merge_concurrent(jobs, unsupported, &mut wrong);
    let place = one_place(&groups, &mut wrong);
    wrong.sort_by_key(|mistake| (mistake.is_of_plimsoll(), mistake.line.number));
    wrong.dedup();
    if wrong.is_empty() && groups.is_empty() {
        wrong.push(Mistake::wrong(&first, "nothing is left of the job file: no job has a counterpart"));
    }
    if !wrong.is_empty() {
        return Err(wrong.iter().map(Mistake::to_string).collect());
    }
    let writes = groups.iter().find(|job| job.changes_data()).map(FioWorkload::describe);
    let plan = PlanFile {
        note: Some(shown_within(&notes.join("; "), LONGEST_NOTE)),
        groups: groups.iter().map(|job| group(job, file)).collect(),
        places: PlanPositions { file: file.to_owned(), ..PlanPositions::default() },
        ..PlanFile::default()
    };
    Ok(JobFile { plan, place, writes })
}

/// Merges jobs that are threads of one load. Different jobs that fio runs at the same time (those
/// that do not wait for jobs above) are errors in `wrong` or, with ignored errors, run in turn.
fn merge_concurrent(
    jobs: Vec<FioWorkload>,
    unsupported: Unsupported,
    wrong: &mut Vec<Mistake>,
) -> Vec<FioWorkload> {
    let mut all: Vec<FioWorkload> = Vec::new();
    // Start of the concurrent jobs, and the latest end of them after fio's start.
    let (mut stage, mut ends) = (0, Some(Duration::ZERO));
    for mut job in jobs {
        if job.waits {
            // fio counts all delays from its own start.
            (stage, ends) = (all.len(), None);
        }
        let is_later = job.delay.zip(ends).is_some_and(|(delay, ends)| delay >= ends);
        let own = job.delay.zip(job.lasts).map(|(delay, lasts)| delay.saturating_add(lasts));
        ends = ends.zip(own).map(|(ends, own)| ends.max(own));
        if is_later {
            stage = all.len();
        }
        match &mut all[stage..] {
            [like] if like.joins(&job) => {
                like.join(job);
                continue;
            }
            [first, ..] => {
                let mistake = Mistake::refused(&job.line, &overlap(&job, first));
                match unsupported {
                    Unsupported::Refused => wrong.push(mistake),
                    Unsupported::Ignored => {
                        job.remarks.push(mistake.ignored() + "; measured after it");
                        stage = all.len();
                    }
                }
            }
            [] => {}
        }
        all.push(job);
    }
    all
}

fn overlap(job: &FioWorkload, other: &FioWorkload) -> String {
    let how = if job.delay == Some(Duration::ZERO) { "runs" } else { "may run" };
    format!(
        "[{}] {how} at the same time as [{}] (line {}), and plimsoll measures one load at a time: write stonewall into [{0}]",
        job.name, other.name, other.line.number
    )
}

fn one_place(jobs: &[FioWorkload], wrong: &mut Vec<Mistake>) -> Option<JobTarget> {
    let first = jobs.first()?;
    for job in jobs.iter().filter(|job| job.place != first.place) {
        let why = format!(
            "[{}] works in another place than [{}] (line {}), and a run has one directory or device: make two job files of them",
            job.name, first.name, first.line.number
        );
        wrong.push(Mistake::refused(&job.line, &why));
    }
    first.place.clone()
}

fn group(job: &FioWorkload, file: &str) -> Group {
    let mut lists: BTreeMap<&'static str, Vec<Value>> =
        job.lists.iter().map(|(key, value)| (*key, vec![value.clone()])).collect();
    lists.insert("threads", vec![Value::Count(job.threads)]);
    let shares = job.files.named.is_some() && !job.files.parted && job.threads > 1;
    if shares {
        lists.insert("layout", vec![Value::Word("shared".to_owned())]);
    }
    if let Some(each) = job.files.each {
        let all = if shares { each } else { each.saturating_mul(job.threads) };
        lists.insert("size", vec![Value::Size(all)]);
    }
    let start = |line: &FileLine| (line.number, 1);
    let keys = lists.keys().map(|key| {
        let given = job.given.get(key).map(|given| &given.line).filter(|line| &*line.file == file);
        let at = start(given.unwrap_or(&job.line));
        ((*key).to_owned(), plan::KeyPosition { key: at, values: vec![at] })
    });
    let places = PlanPositions {
        file: file.to_owned(),
        group: start(&job.line),
        keys: keys.collect(),
        descriptions: job.given.iter().map(|(key, given)| ((*key).to_owned(), given.describe())).collect(),
        group_label: Some(job.describe()),
    };
    let note = (!job.remarks.is_empty()).then(|| shown_within(&job.remarks.join("; "), LONGEST_NOTE));
    Group {
        name: Some(plan_name(&job.name)),
        note,
        benchmarks: vec![BENCHMARK.to_owned()],
        lists,
        how: job.how.clone(),
        job: job.own.clone(),
        places,
        ..Group::default()
    }
}

/// Reads the text of `path`, relative to `folder`. Refuses links that lead out of the folder, to
/// files that the author of the job file might not be allowed to read.
fn read_in_folder(folder: &Path, path: &Path) -> Result<String, String> {
    let why = |error: Errno| match error {
        Errno::XDEV => "it is a link that leads out of the folder of the job file".to_owned(),
        error => std::io::Error::from(error).to_string(),
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = open(folder, flags | OFlags::DIRECTORY, Mode::empty()).map_err(why)?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // Opening a FIFO would block otherwise.
    let found = openat2(&folder, path, flags | OFlags::NONBLOCK, Mode::empty(), within).map_err(why)?;
    read_small_file(found.into(), MAX_BYTES)
}

/// Returns the first 100 characters, with `-` for those not allowed in plan names; "job" if blank.
pub fn plan_name(name: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() || "-_. ".contains(c) { c } else { '-' };
    let name: String = name.chars().take(100).map(one).collect();
    if name.trim().is_empty() { "job".to_owned() } else { name }
}

struct Here {
    folder: PathBuf,
}

impl JobEnvironment for Here {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn included(&self, name: &str) -> Result<String, String> {
        let path = Path::new(name);
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err("an included file must be in the folder of the job file, or below it".to_owned());
        }
        read_in_folder(&self.folder, path)
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        match name {
            "pagesize" => Some(rustix::param::page_size() as u64),
            "ncpus" => std::thread::available_parallelism().ok().map(|n| n.get() as u64),
            "mb_memory" => {
                let about = rustix::system::sysinfo();
                Some(about.totalram.saturating_mul(about.mem_unit.into()) >> 20)
            }
            _ => None,
        }
    }

    fn device(&self, path: &str) -> Option<u64> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let about = std::fs::metadata(path).ok()?;
        if !about.file_type().is_block_device() {
            return None;
        }
        let number = DeviceNumber::from_raw(about.rdev());
        // sysfs counts sectors of 512 bytes, whatever the device's own.
        Root::live().number(format!("sys/dev/block/{number}/size")).ok()?.checked_mul(512)
    }
}

#[cfg(test)]
mod tests;
