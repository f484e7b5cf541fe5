//! A case of `disk.io`, understood: its parameters read and checked.

use serde::{Deserialize, Serialize};

use crate::engine::Kind;
use crate::human;
use crate::io::search::Target;
use crate::load::data::SECTOR;
use crate::load::pattern::Order;
use crate::load::source::{Blocks, Doing, Through};
use crate::load::{Arrivals, Call, Directions, Flush};
use crate::storage::file::{LEAST, MOST};
use crate::storage::target::Cache;
use plimsoll_bench_api::RequestedSize;
use plimsoll_bench_api::fixed::{Scaling, scaling, share};
use plimsoll_bench_api::within;
use plimsoll_model::case::{Case, Value};
use plimsoll_model::plan::Group;
use plimsoll_units::text::counted;

/// The largest block that a case may have.
const MAX_BLOCK: u64 = 1 << 30;
/// The deepest queue that a case may have.
pub const MAX_DEPTH: u64 = 1024;
/// The most threads that a case may have.
pub(crate) const MAX_THREADS: u64 = 128;

/// The most memory that the buffers of one case may take.
const MAX_BUFFERS: u64 = 4 << 30;

/// Regions below this size are filled for as long as it takes: with fewer blocks there is no pattern.
const FEW_BLOCKS: u64 = 2;

/// The operations, with the words that name them; of `mixed` the share is a parameter of its own.
const OPS: &[(&str, Doing)] = &[
    ("read", Doing::Read),
    ("write", Doing::Write),
    ("append", Doing::Append),
    ("mixed", Doing::Mixed { read_share: READ_SHARE }),
    ("copy", Doing::Copy),
    ("trim", Doing::Trim),
];

/// Reads in a hundred when no share is named.
pub(crate) const READ_SHARE: u8 = 70;

/// The ways past or through the page cache, with the words that name them.
const CACHES: &[(&str, Way)] = &[
    ("direct", Way { cache: Cache::Direct, cold: false }),
    ("buffered", Way { cache: Cache::Buffered, cold: false }),
    ("cold", Way { cache: Cache::Buffered, cold: true }),
];

/// How transfers go past or through the page cache.
#[derive(Debug, Clone, Copy)]
struct Way {
    cache: Cache,
    /// Nothing of the file is in the cache where a pass over it begins.
    cold: bool,
}

/// How threads share the file, with the words that name it.
const LAYOUTS: &[(&str, bool)] = &[("private", false), ("shared", true)];

/// An open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offered {
    /// How intended starts follow one another.
    pub(crate) arrivals: Arrivals,
    /// Intended starts a second, over all threads.
    pub(crate) per_second: f64,
}

/// A case, understood: made and checked where cases are planned, and what the worker gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) doing: Doing,
    pub(crate) order: Order,
    pub(crate) blocks: Blocks,
    /// What offsets are multiples of, where that is asked for.
    align: Option<u64>,
    /// Transfers in flight of each thread.
    pub(crate) depth: u64,
    pub(crate) threads: u64,
    pub(crate) kind: Kind,
    pub(crate) cache: Cache,
    /// The file is dropped from the page cache before each pass over it.
    pub(crate) cold: bool,
    /// All threads go over the whole file, and not each over a part of its own.
    pub(crate) shared: bool,
    pub(crate) through: Through,
    pub(crate) flush: Flush,
    /// Bytes of the file, where they are asked for.
    size: Option<u64>,
    pub(crate) offered: Option<Offered>,
    /// A latency for which the deepest queue is sought.
    pub(crate) target: Option<Target>,
    /// Transfers of each sample, where they are fixed: of each thread or of all, as `scaling` says.
    pub(crate) fixed: Option<u64>,
    pub(crate) scaling: Scaling,
    /// Every block is checked, whenever it is read.
    pub(crate) verify: bool,
    /// The file is overwritten at random before it is measured, in rounds.
    pub(crate) steady: bool,
}

impl Job {
    /// Reads and checks the parameters.
    pub(crate) fn of(case: &Case) -> Result<Job, String> {
        let blocks = blocks(case)?;
        let read_share = read_share(case)?;
        let doing = match word(case, "op", OPS)? {
            Doing::Mixed { .. } => Doing::Mixed { read_share },
            doing => doing,
        };
        let (through, flush) = sync(case.word("sync").unwrap_or("none"))?;
        let way = word(case, "cache", CACHES)?;
        let shared = case.word("layout").is_some() && word(case, "layout", LAYOUTS)?;
        let pattern = case.word("pattern").unwrap_or("random");
        let unknown_order = || match pattern.strip_prefix("zipf:") {
            Some(theta) => format!(
                "pattern zipf:EXPONENT must have an exponent above 0 and at most 5, such as zipf:0.9: '{}' is not",
                plimsoll_units::text::shown(theta)
            ),
            None if pattern.starts_with("zoned") => format!(
                "pattern zoned must have 1 to 8 parts TRANSFERS-FILE in hundredths that add up to 100 each, such as zoned:80-20:20-80: '{}' has not",
                plimsoll_units::text::shown(pattern)
            ),
            None => unknown("pattern", pattern, Order::ALL),
        };
        let job = Job {
            doing,
            order: Order::from_word(pattern).ok_or_else(unknown_order)?,
            align: case.number("align"),
            depth: number(case, "depth", MAX_DEPTH)?,
            threads: within(1..=MAX_THREADS, "threads", case.number("threads").unwrap_or(1))?,
            kind: word(case, "engine", Kind::ALL)?,
            cache: way.cache,
            cold: way.cold,
            shared,
            through,
            flush,
            size: case.number("size"),
            offered: offered(case)?,
            target: case.word("latency-target").map(Target::parse).transpose()?,
            fixed: fixed(case, &blocks)?,
            scaling: scaling(case)?,
            verify: case.word("verify") == Some("on"),
            steady: case.word("steady") == Some("on"),
            blocks,
        };
        job.checked()
    }

    /// Checks what a case leaves out where its operation has no use for it: a wrong value is wrong there too.
    pub(crate) fn check_unused(case: &Case) -> Result<(), String> {
        read_share(case)?;
        sync(case.word("sync").unwrap_or("none"))?;
        Ok(())
    }

    fn checked(self) -> Result<Job, String> {
        let largest = self.blocks.largest();
        let buffers = largest.saturating_mul(self.depth).saturating_mul(self.threads);
        if buffers > MAX_BUFFERS {
            return Err(format!(
                "depth × threads × block must be at most {}: {} blocks of {} in flight need {} of buffers",
                human(MAX_BUFFERS),
                self.depth * self.threads,
                human(largest),
                human(buffers)
            ));
        }
        if self.target.is_some() && (self.offered.is_some() || self.fixed.is_some()) {
            let load = if self.offered.is_some() { "--rate" } else { "--volume and --count" };
            return Err(format!(
                "--latency-target and {load} are mutually exclusive: the search sets the load itself"
            ));
        }
        if let Some(offered) = self.offered
            && offered.per_second < self.threads as f64
        {
            return Err(format!(
                "rate must be at least 1 transfer per second for each thread: {} over {} threads is less",
                offered.per_second, self.threads
            ));
        }
        match self.size() {
            RequestedSize::Exactly(bytes) if bytes / self.parts() < largest => Err(format!(
                "size must be at least a block of {} for each thread: {} for {} is less",
                human(largest),
                human(bytes),
                counted(self.threads, "thread")
            )),
            _ => Ok(self),
        }
    }

    /// What offsets are multiples of.
    pub(crate) fn unit(&self) -> u64 {
        self.align.unwrap_or_else(|| self.blocks.unit())
    }

    /// Parts of the file that the threads have.
    pub(crate) fn parts(&self) -> u64 {
        if self.shared { 1 } else { self.threads }
    }

    /// How large a file it wants: for few large blocks, several of them for each thread.
    pub(crate) fn size(&self) -> RequestedSize {
        let least = self.blocks.largest().saturating_mul(self.threads).saturating_mul(FEW_BLOCKS);
        match (self.size, least) {
            (Some(bytes), _) => RequestedSize::Exactly(bytes),
            (None, 0..=LEAST) => RequestedSize::Between { least: LEAST, most: MOST },
            (None, least) => RequestedSize::Exactly(least.max(MOST.min(8 * least))),
        }
    }

    /// The same with a queue for this many threads, of `deepest` or as many as the buffers hold.
    pub(crate) fn with_queue(&self, threads: u64, deepest: u64) -> Self {
        Self { threads, depth: deepest.min(most_in_flight(self.blocks.largest(), threads)), ..self.clone() }
    }

    /// Transfers of one thread's share of a sample, where they are fixed.
    pub(crate) fn transfers_of(&self, thread: u64) -> Option<u64> {
        self.fixed.map(|transfers| share(self.scaling, transfers, self.threads, thread))
    }

    /// Whether reads and writes are timed apart.
    pub(crate) fn directions(&self) -> Directions {
        match self.doing {
            Doing::Mixed { .. } | Doing::Copy => Directions::Apart,
            _ => Directions::Together,
        }
    }

    /// Why the kernel, a file or an engine would refuse it on any machine; `None` where it can be tried.
    pub(crate) fn impossible(&self) -> Option<String> {
        let by_engine = self.refused_engine();
        by_engine.or_else(|| self.refused_layout()).or_else(|| self.refused_checks())
    }

    /// Why its engine and its `--cache` do not go together, or not with its operation or blocks.
    fn refused_engine(&self) -> Option<String> {
        if self.kind == Kind::Mmap && self.cache == Cache::Direct {
            return Some(
                "--engine mmap requires --cache buffered or cold: a mapping goes through the page cache"
                    .to_owned(),
            );
        }
        if self.kind == Kind::Mmap && self.doing == Doing::Append {
            return Some(
                "--op append is not supported with --engine mmap: a mapping ends with its file".to_owned(),
            );
        }
        if self.cache == Cache::Direct && !self.blocks.unit().is_multiple_of(SECTOR as u64) {
            return Some(format!(
                "--cache direct requires a --block that is a multiple of {SECTOR} bytes, the sector: {} is not",
                human(self.blocks.unit())
            ));
        }
        if self.cache == Cache::Buffered && matches!(self.kind, Kind::IoUring(polling) if polling.completion)
        {
            return Some(
                "--engine io_uring+iopoll requires --cache direct: it polls the device, not the page cache"
                    .to_owned(),
            );
        }
        None
    }

    /// Why its threads cannot share the file, take its blocks in that order, or find them out of the cache.
    fn refused_layout(&self) -> Option<String> {
        if self.shared
            && (self.verify || !matches!(self.doing, Doing::Read | Doing::Write | Doing::Mixed { .. }))
        {
            return Some(
                if self.verify {
                    "--verify and --layout shared are mutually exclusive: threads write over each other's blocks"
                } else {
                    "--layout shared requires --op read, write or mixed"
                }
                .to_owned(),
            );
        }
        if self.align.is_some_and(|align| align == 0 || !align.is_multiple_of(self.blocks.unit())) {
            return Some("--align requires a multiple of what divides all blocks".to_owned());
        }
        if self.align.is_some()
            && (self.verify
                || self.doing.uses_up()
                || !matches!(self.order, Order::Random | Order::Zipf(_) | Order::Zoned(_)))
        {
            return Some(
                "--align requires --pattern random, zipf or zoned, and no --verify, --op append or trim"
                    .to_owned(),
            );
        }
        if self.order == Order::SequentialEach && !matches!(self.doing, Doing::Mixed { .. }) {
            return Some("--pattern sequential-each requires --op mixed".to_owned());
        }
        if self.cold && self.doing.uses_up() {
            return Some("--cache cold requires --op read, write, mixed or copy".to_owned());
        }
        None
    }

    /// Why its blocks cannot be verified, or the device made steady.
    fn refused_checks(&self) -> Option<String> {
        if self.verify && !matches!(self.doing, Doing::Read | Doing::Write | Doing::Mixed { .. }) {
            return Some(
                "--verify requires --op read, write or mixed; of other operations plimsoll always checks the last blocks"
                    .to_owned(),
            );
        }
        if self.steady && (self.verify || self.doing.uses_up()) {
            return Some(
                if self.verify {
                    "--steady and --verify are mutually exclusive"
                } else {
                    "--steady requires --op read, write, mixed or copy"
                }
                .to_owned(),
            );
        }
        if self.verify && !self.blocks.unit().is_multiple_of(SECTOR as u64) {
            return Some(format!(
                "--verify requires a --block that is a multiple of {SECTOR} bytes, the sector"
            ));
        }
        None
    }
}

/// What of a case that was typed has no effect.
pub(crate) fn without_effect(case: &Case, group: &Group) -> Option<String> {
    let op = case.word("op").unwrap_or_default();
    let pattern = |value: &Value| matches!(value, Value::Word(word) if word == "sequential");
    let random_alone = group.lists.get("pattern").is_some_and(|values| !values.iter().any(pattern));
    if group.typed("pattern") && op == "append" && random_alone {
        return Some(
            "--op append requires --pattern sequential: it writes at the end of the file".to_owned(),
        );
    }
    None
}

/// As many blocks of this size for each thread as the buffers hold, for what is not asked for.
pub(crate) fn most_in_flight(block: u64, threads: u64) -> u64 {
    (MAX_BUFFERS / block.saturating_mul(threads).max(1)).max(1)
}

/// The block or mix of a case.
fn blocks(case: &Case) -> Result<Blocks, String> {
    let blocks = match case.mix("block") {
        Some(mix) => Blocks::Mixed(mix.clone()),
        None => Blocks::One(case.number("block").unwrap_or_default()),
    };
    let smallest = match &blocks {
        Blocks::One(bytes) => *bytes,
        Blocks::Mixed(mix) => mix.parts().iter().map(|part| part.bytes).min().unwrap_or_default(),
    };
    if smallest == 0 || blocks.largest() > MAX_BLOCK {
        return Err(format!("block must be between 1 byte and {}", human(MAX_BLOCK)));
    }
    Ok(blocks)
}

/// Whether direct I/O can do these blocks on a disk with the smallest sectors.
pub(crate) fn fits_sectors(block: Option<&Value>) -> bool {
    let whole = |bytes: u64| bytes.is_multiple_of(SECTOR as u64);
    match block {
        Some(Value::Size(bytes)) => whole(*bytes),
        Some(Value::Mix(mix)) => mix.parts().iter().all(|part| whole(part.bytes)),
        _ => true,
    }
}

/// When data is to be kept for good. `every N` also as `every:N`, which is how an id writes it.
fn sync(word: &str) -> Result<(Through, Flush), String> {
    let after =
        |name: &str| word.strip_prefix(name).map(|rest| rest.trim_start_matches([' ', ':', '-', '=']));
    let every = after("every").map(|writes| (writes, Call::DataSync));
    let every = every.or(after("fsync").map(|writes| (writes, Call::Sync)));
    match (word, every) {
        ("none", _) => Ok((Through::No, Flush::Never)),
        ("each", _) => Ok((Through::Yes, Flush::Never)),
        ("o_sync", _) => Ok((Through::Whole, Flush::Never)),
        ("end", _) => Ok((Through::No, Flush::AtEnd { call: Call::DataSync })),
        ("fsync-end", _) => Ok((Through::No, Flush::AtEnd { call: Call::Sync })),
        (_, Some((writes, call))) => match writes.parse() {
            Ok(writes @ 1..=1_000_000_000) => Ok((Through::No, Flush::Every { writes, call })),
            _ => Err(format!(
                "sync every:N must have an N between 1 and 1000000000, such as every:32: '{}' has not",
                plimsoll_units::text::shown(word)
            )),
        },
        _ => Err(format!(
            "sync must be none, each, o_sync, every:N, fsync:N, end or fsync-end: '{}' is none of them",
            plimsoll_units::text::shown(word)
        )),
    }
}

/// The word in the form that ids have.
pub(crate) fn canonical_sync(word: &str) -> String {
    match sync(word) {
        Ok((_, Flush::Every { writes, call: Call::DataSync })) => format!("every:{writes}"),
        Ok((_, Flush::Every { writes, call: Call::Sync })) => format!("fsync:{writes}"),
        _ => word.to_owned(),
    }
}

fn read_share(case: &Case) -> Result<u8, String> {
    let share = case.number("read-share").unwrap_or(u64::from(READ_SHARE));
    u8::try_from(share)
        .ok()
        .filter(|share| *share <= 100)
        .ok_or_else(|| format!("read-share must be between 0 and 100, a percentage: {share} is not"))
}

fn offered(case: &Case) -> Result<Option<Offered>, String> {
    let Some(Value::Rate(per_second)) = case.get("rate") else {
        return match case.word("arrivals") {
            Some(_) => Err("--arrivals requires --rate".to_owned()),
            None => Ok(None),
        };
    };
    // A sample ends with a transfer: of slower ones it is not known whether one will come.
    if !(1.0..=1e9).contains(per_second) {
        return Err(format!("rate must be between 1 and 1e9 transfers per second: {per_second} is not"));
    }
    let arrivals = match case.word("arrivals") {
        Some(_) => word(case, "arrivals", Arrivals::ALL)?,
        None => Arrivals::Poisson,
    };
    Ok(Some(Offered { arrivals, per_second: *per_second }))
}

/// How many transfers a sample has, where it is fixed.
fn fixed(case: &Case, blocks: &Blocks) -> Result<Option<u64>, String> {
    match (case.number("volume"), case.number("count")) {
        (Some(_), Some(_)) => Err("--volume and --count are mutually exclusive".to_owned()),
        (None, None) if case.get("scaling").is_some() => {
            Err("--scaling requires --volume or --count".to_owned())
        }
        (None, None) => Ok(None),
        (Some(0), _) | (_, Some(0)) => Err("volume or count must be at least 1: 0 is not".to_owned()),
        // The cast saturates.
        (Some(bytes), _) => Ok(Some(((bytes as f64 / blocks.mean()).round() as u64).max(1))),
        (_, Some(count)) => Ok(Some(count)),
    }
}

/// The meaning of a word parameter.
fn word<T: Copy>(case: &Case, key: &str, known: &[(&str, T)]) -> Result<T, String> {
    let given = case.word(key).unwrap_or_default();
    known
        .iter()
        .find(|(name, _)| *name == given)
        .map(|(_, value)| *value)
        .ok_or_else(|| unknown(key, given, known))
}

fn unknown<T>(key: &str, given: &str, known: &[(&str, T)]) -> String {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    format!("{key} must be one of {}: '{}' is not", names.join(", "), plimsoll_units::text::shown(given))
}

/// A number parameter between 1 and `most`.
fn number(case: &Case, key: &str, most: u64) -> Result<u64, String> {
    within(1..=most, key, case.number(key).unwrap_or_default())
}
