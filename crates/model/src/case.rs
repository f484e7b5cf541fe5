//! A case: one point of the matrix, a benchmark and its parameters.
//!
//! Its id is text, round-trips, and is the key in history: `cpu.peak/op=fma/type=f64/isa=avx512/threads=2`.
//! [`KEYS`] is the one list of parameter names; flags, plan files and ids all read it.

mod pattern;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{self, Mix, Sizes};

pub use pattern::{Pattern, glob};

/// What a parameter's value means, and so how it is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes; `4K` is 4096.
    Size,
    /// Bytes, or several sizes by weight: `4K@60+64K@40`.
    Sizes,
    /// A whole number.
    Count,
    /// A time; `200ms`. Seconds in JSON.
    Time,
    /// Per second, SI: `100M` is 10⁸.
    Rate,
    /// A name.
    Word,
    /// `on` or `off`; the flag alone means `on`.
    Switch,
}

/// One parameter name, with the meaning of its values.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As in ids, flags and plan files.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// One line for `--help`.
    pub help: &'static str,
    /// The value that goes without saying, as a case in words has it.
    pub usual: Option<&'static str>,
    /// What it was called before: still read everywhere, never written.
    pub formerly: Option<&'static str>,
    /// Whether its value follows the machine unless one is typed: another machine has another value for the same question.
    pub of_machine: bool,
    /// The value that means the same as leaving the parameter out, as a case in words has it (`256 KiB`): never refused as without
    /// effect. `usual` is left out of the words of a case; this, by most benchmarks, of the case itself. `off` is such a value of all.
    pub unsaid: Option<&'static str>,
    /// The axis of curves along it, where such curves are drawn.
    pub axis: Option<Axis>,
    /// Whether its values are lines of one chart; otherwise each value has its own chart.
    pub overlaid: bool,
    /// Whether the title of a chart has its value, where all figures of the chart have the same.
    pub titled: bool,
    /// What it fixes the amount of, where `--scale` changes that.
    pub amount: Option<Amount>,
    /// Whether it is the bytes of one transfer.
    pub of_one: bool,
}

/// An amount that `--scale` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes of a sample.
    Bytes,
    /// Transfers of a sample.
    Transfers,
    /// Operations of a sample.
    Operations,
    /// The order of a system of equations, whose work goes with its cube.
    Order,
    /// Bytes of a file; of memory, a size says which cache a region lives in.
    File,
}

/// The axis of curves along a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// What is written at it.
    pub name: &'static str,
    /// How values are spaced on it.
    pub spacing: Spacing,
    /// Parameters that are overlaid elsewhere, but whose values have a chart each along this axis, as their units or limits differ.
    pub apart: &'static [&'static str],
    /// How the curve is read; empty where that is plain.
    pub note: &'static str,
    /// Whether it counts what works at once, threads or streams: such charts come first, two points are enough for one, few are drawn as
    /// bars, and the shares of the limit have a chart as well.
    pub workers: bool,
}

/// How the values of a parameter are spaced on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key {
        name,
        kind,
        help,
        usual: None,
        formerly: None,
        of_machine: false,
        unsaid: None,
        axis: None,
        overlaid: false,
        titled: false,
        amount: None,
        of_one: false,
    }
}

impl Key {
    const fn usually(self, value: &'static str) -> Self {
        Self { usual: Some(value), ..self }
    }

    const fn formerly(self, name: &'static str) -> Self {
        Self { formerly: Some(name), ..self }
    }

    const fn of_machine(self) -> Self {
        Self { of_machine: true, ..self }
    }

    const fn unsaid(self, value: &'static str) -> Self {
        Self { unsaid: Some(value), ..self }
    }

    const fn axis(self, name: &'static str, spacing: Spacing) -> Self {
        Self { axis: Some(Axis { name, spacing, apart: &[], note: "", workers: false }), ..self }
    }

    const fn axis_of_workers(self, name: &'static str) -> Self {
        let axis = Axis { name, spacing: Spacing::Linear, apart: &[], note: "", workers: true };
        Self { axis: Some(axis), ..self }
    }

    const fn axis_of(self, axis: Axis) -> Self {
        Self { axis: Some(axis), ..self }
    }

    const fn overlaid(self) -> Self {
        Self { overlaid: true, ..self }
    }

    const fn titled(self) -> Self {
        Self { titled: true, ..self }
    }

    const fn amount(self, amount: Amount) -> Self {
        Self { amount: Some(amount), ..self }
    }

    const fn of_one(self) -> Self {
        Self { of_one: true, ..self }
    }
}

/// Every parameter that a case may have. A new option is one row here.
pub const KEYS: &[Key] = &[
    key(
        "op",
        Kind::Word,
        "operation, such as read, write, fma, triad; a wrong name prints the list",
    )
    .overlaid().titled(),
    key("read-share", Kind::Count, "percentage of reads of a mixed load"),
    key("type", Kind::Word, "number type: f64, f32, f16, bf16, i64, i32, i16, i8, all").overlaid().titled(),
    key("n", Kind::Count, "order of the matrices [default: one that fits memory and --budget]")
        .of_machine()
        .axis("n", Spacing::Log).amount(Amount::Order),
    key("nb", Kind::Count, "block size of the factorisation, in columns; rounded up to whole register tiles")
        .usually("192"),
    key("p", Kind::Count, "rows of the process grid (HPL's P)").of_machine(),
    key("q", Kind::Count, "columns of the process grid (HPL's Q)").of_machine(),
    key(
        "isa",
        Kind::Word,
        "instruction set: best, all, or portable, sse2, avx2, avx512, amx, neon, sve, mmla",
    )
    .of_machine()
    .overlaid(),
    key("width", Kind::Word, "vector width in bits, with --chains: full, all, scalar, 128, 256, 512")
        .of_machine()
        .overlaid(),
    key(
        "chains",
        Kind::Count,
        "independent chains of dependent instructions per thread; 1,2,4,8 shows the step from latency to throughput",
    )
    .axis_of(Axis {
        name: "independent chains",
        spacing: Spacing::Linear,
        apart: &["op", "type"],
        note: "it rises by 1 ÷ latency with each chain and is flat where latency × units of them are in flight",
        workers: false,
    }),
    key("pattern", Kind::Word, "access pattern: sequential, sequential-each (of a mix, reads and writes apart), random, strided, backward, same, zipf, zipf:0.9, zoned:80-20:20-80 (80 % of the transfers to the first 20 %)").overlaid().titled(),
    key(
        "size",
        Kind::Size,
        "working set. memory: bytes per thread over all arrays, or sweep; disk: bytes of the test file",
    )
    .of_machine()
    .axis("size", Spacing::Log).amount(Amount::File),
    key("block", Kind::Sizes, "block size of a transfer, or a mix by weight: 4K@60+64K@40")
        .axis("block", Spacing::Log).of_one(),
    key("align", Kind::Size, "random transfers begin at multiples of this [default: what divides all blocks]"),
    key("variant", Kind::Word, "kernel of memory.bandwidth: best, all, or a name such as nt_ahead256_avx2: nt_ non-temporal stores (past the caches), aheadN_ software prefetch N bytes ahead past the caches, l1aheadN_ and l2aheadN_ into the first and second level, then the instruction set").usually("best").overlaid(),
    key("pages", Kind::Word, "page size: 4k (or 16k, 64k: what the kernel has), thp (transparent huge pages), 2m, 1g (from reserved pools)")
        .usually("thp"),
    key("layout", Kind::Word, "arrays: private to each thread, or shared (each thread a part of one)")
        .usually("private")
        .unsaid("private"),
    key("chases", Kind::Count, "parallel chains of dependent loads")
        .usually("1")
        .axis("chases at once", Spacing::Linear),
    key("group", Kind::Size, "bytes that a chain visits completely before it goes on [default: 256K]")
        .unsaid("256 KiB"),
    key("node", Kind::Count, "NUMA node of the memory [default: the node of each thread]"),
    key("delay", Kind::Word, "pauses of the load threads after each 4 KiB, all in one sweep: 0ns,100ns,1us"),
    key("depth", Kind::Count, "queue depth: transfers in flight per thread")
        .axis("queue depth", Spacing::Log)
        .overlaid(),
    key("engine", Kind::Word, "I/O engine: io_uring (also +sqpoll, +iopoll), libaio, psync, mmap")
        .usually("io_uring"),
    key(
        "cache",
        Kind::Word,
        "direct (past the page cache, O_DIRECT), buffered (through it), cold (through it, emptied before each pass)",
    )
    .usually("direct"),
    key("verify", Kind::Switch, "check every block read: its position, generation and checksum"),
    key(
        "steady",
        Kind::Switch,
        "overwrite at random first, then rounds of the sample time until five in a row are steady (SNIA)",
    ),
    key(
        "sync",
        Kind::Word,
        "when writes become durable: none, each (O_DSYNC), o_sync (O_SYNC), every:N (fdatasync), fsync:N, end (of each sample), fsync-end",
    )
    .unsaid("none")
    .overlaid(),
    key(
        "rate",
        Kind::Rate,
        "target rate. disk: transfers per second, as an open loop; network.udp: bit/s over all streams [default: as fast as possible]",
    ),
    key(
        "latency-target",
        Kind::Word,
        "find the largest queue depth that meets this latency: p99=2ms (p1 to p99.99); --depth is the maximum",
    ),
    key("arrivals", Kind::Word, "arrival process of --rate: poisson, even"),
    key(
        "protocol",
        Kind::Word,
        "protocol of the round trips: tcp, udp, icmp, connect (a new TCP connection each)",
    )
    .overlaid().titled(),
    key("message", Kind::Size, "message size").axis("message", Spacing::Log).of_one(),
    key("direction", Kind::Word, "who sends: up (the client), down (the server), both")
        .usually("up")
        .overlaid().titled(),
    key("streams", Kind::Count, "parallel connections, each with its own thread on client and server")
        .usually("1")
        .axis_of_workers("streams")
        .overlaid(),
    key(
        "server",
        Kind::Word,
        "a running `plimsoll serve`: HOST[:PORT], or an iperf3 server: iperf3://HOST[:PORT] [default: its own, over loopback]",
    ),
    key("omit", Kind::Time, "start of each transfer that is not counted, as iperf3's -O"),
    key("zerocopy", Kind::Switch, "send without a copy (MSG_ZEROCOPY)"),
    key("discard", Kind::Switch, "receive without a copy: the kernel drops the bytes (MSG_TRUNC)"),
    key("nodelay", Kind::Switch, "send small messages at once (TCP_NODELAY)"),
    key("congestion", Kind::Word, "congestion control: cubic, reno, bbr …, as the kernel names it"),
    key("window", Kind::Size, "socket buffer size of a stream"),
    key("mss", Kind::Count, "maximum segment size, in bytes"),
    key("dscp", Kind::Count, "differentiated services code point, 0 to 63"),
    key("bind", Kind::Word, "local address to send from"),
    key("search", Kind::Word, "'lossless': find the highest rate without loss, RFC 2544"),
    key("mode", Kind::Word, "how client and server wait for a message: block, poll (busy-polls)")
        .usually("block"),
    key("timeout", Kind::Time, "a message without an answer after this time is lost [default: 1s]"),
    key(
        "interval",
        Kind::Time,
        "time from one message to the next, as ping -i [default: each follows the answer before it]",
    ),
    key("load", Kind::Word, "TCP stream during the round trips: up, down, both"),
    key("threads", Kind::Count, "number of threads")
        .usually("1")
        .axis_of_workers("threads")
        .overlaid(),
    key(
        "affinity",
        Kind::Word,
        "CPUs that the threads are pinned to: spread, compact, or a list such as 0-3",
    )
    .formerly("place"),
    key("work", Kind::Count, "operations per sample; with strong scaling divided among the threads").amount(Amount::Operations),
    key("volume", Kind::Size, "bytes per sample; with strong scaling divided among the threads").amount(Amount::Bytes),
    key("count", Kind::Count, "blocks or messages per sample; with strong scaling divided among the threads").amount(Amount::Transfers),
    key(
        "scaling",
        Kind::Word,
        "what --work, --volume and --count mean: weak (per thread) or strong (in total)",
    )
    .unsaid("weak"),
];

/// A size that stands for many, in benchmarks of memory; never in a case.
pub const SWEEP: &str = "sweep";

/// Longest id that is read; the longest that plimsoll writes is far shorter.
const MAX_ID: usize = 1024;

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Bytes.
    Size(u64),
    /// Bytes, by weight.
    Mix(Mix),
    /// A whole number.
    Count(u64),
    /// A time.
    Time(Duration),
    /// Per second, finite and not negative.
    Rate(f64),
    /// A name, not empty.
    Word(String),
}

/// What is wrong with the text of a case or parameter.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CaseError {
    /// No such parameter.
    #[error("unknown parameter '{name}'{}", nearest.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default())]
    UnknownKey {
        /// As typed.
        name: String,
        /// The most similar name that exists.
        nearest: Option<&'static str>,
    },
    /// The value does not fit its parameter.
    #[error("{key} {why}")]
    BadValue {
        /// Parameter.
        key: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
    /// The id is not of the form `benchmark/key=value/…`.
    #[error("'{id}' is not a case id: {why}; a right one is 'cpu.peak/op=fma/threads=2'")]
    BadId {
        /// As given, shortened.
        id: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// The name under which a parameter was introduced.
pub(crate) fn first_name(name: &'static str) -> &'static str {
    KEYS.iter().find(|key| key.name == name).and_then(|key| key.formerly).unwrap_or(name)
}

impl Key {
    /// The row of `name`, today's or an earlier one, or an error that suggests the nearest.
    pub fn find(name: &str) -> Result<&'static Key, CaseError> {
        KEYS.iter().find(|k| k.name == name || k.formerly == Some(name)).ok_or_else(|| {
            CaseError::UnknownKey {
                name: crate::text::shown(name),
                nearest: nearest(name, KEYS.iter().map(|k| k.name)),
            }
        })
    }

    /// Whether it says how much is done at once, or how large a problem: a count with an axis. Rows of a page that differ in it alone share a
    /// heading, and lines of charts name it, as in `depth 8`.
    pub fn is_load(&self) -> bool {
        self.kind == Kind::Count && self.axis.is_some()
    }

    /// Reads one value of this parameter from text.
    pub fn parse(&self, text: &str) -> Result<Value, CaseError> {
        let bad = |why: String| CaseError::BadValue { key: self.name, why };
        match self.kind {
            Kind::Size if self.name == "size" && text == SWEEP => Ok(Value::Word(text.to_owned())),
            Kind::Size => quantity::parse_size(text).map(Value::Size).map_err(|e| bad(e.to_string())),
            Kind::Sizes => match quantity::parse_sizes(text) {
                Ok(Sizes::One(bytes)) => Ok(Value::Size(bytes)),
                Ok(Sizes::Mixed(mix)) => Ok(Value::Mix(mix)),
                Err(why) => Err(bad(why)),
            },
            Kind::Count => quantity::parse_count(text).map(Value::Count).map_err(|e| bad(e.to_string())),
            Kind::Time => quantity::parse_duration(text).map(Value::Time).map_err(|e| bad(e.to_string())),
            Kind::Rate => quantity::parse_rate(text).map(Value::Rate).map_err(|e| bad(e.to_string())),
            Kind::Switch if text == "on" || text == "off" => Ok(Value::Word(text.to_owned())),
            Kind::Switch => Err(bad(format!("must be on or off: '{}' is neither", crate::text::shown(text)))),
            Kind::Word if text.is_empty() => Err(bad("must be a name: it is empty".to_owned())),
            Kind::Word if text.len() > 256 => Err(bad("must have at most 256 bytes".to_owned())),
            Kind::Word => Ok(Value::Word(text.to_owned())),
        }
    }
}

/// The candidate most like `typed`, when one is like enough to be worth naming.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: String = typed.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|c| (strsim::jaro_winkler(&typed, c), c))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Size(n) => f.write_str(&quantity::format_size(*n)),
            Value::Mix(mix) => write!(f, "{mix}"),
            Value::Count(n) => write!(f, "{n}"),
            Value::Time(s) => f.write_str(&quantity::format_duration(*s)),
            Value::Rate(r) => write!(f, "{r}"),
            Value::Word(w) => w.bytes().try_for_each(|b| match b {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'+' | b'@' | b':' | b'-' => {
                    write!(f, "{}", b as char)
                }
                _ => write!(f, "%{b:02X}"),
            }),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Size(n) | Value::Count(n) => s.serialize_u64(*n),
            Value::Mix(mix) => s.collect_str(mix),
            Value::Time(t) => s.serialize_f64(t.as_secs_f64()),
            Value::Rate(x) => s.serialize_f64(*x),
            Value::Word(w) => s.serialize_str(w),
        }
    }
}

/// One point of the matrix. Parameters keep the order in which the benchmark names them.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    benchmark: String,
    params: Vec<(&'static str, Value)>,
}

/// What stands in a case's `server` when all pairs of machines are meant, each on its own or in a matching.
pub const EACH: &str = "nodes";
/// What stands there when the pairs of the bisection are meant, all at once.
pub const AT_ONCE: &str = "bisection";
/// The same from the other half of the machines.
pub const AT_ONCE_BACK: &str = "bisection-back";

impl Case {
    /// A case of `benchmark` without parameters yet.
    pub fn of(benchmark: &str) -> Self {
        Self { benchmark: benchmark.to_owned(), params: Vec::new() }
    }

    /// Adds or replaces a parameter. `name` must be a row of [`KEYS`]; anything else is dropped.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        if let Ok(key) = Key::find(name) {
            match self.params.iter_mut().find(|(n, _)| *n == key.name) {
                Some(slot) => slot.1 = value,
                None => self.params.push((key.name, value)),
            }
        }
        self
    }

    /// [`Case::with`] for a name.
    #[must_use]
    pub fn with_word(self, name: &str, word: &str) -> Self {
        self.with(name, Value::Word(word.to_owned()))
    }

    /// [`Case::with`] for bytes.
    #[must_use]
    pub fn with_size(self, name: &str, bytes: u64) -> Self {
        self.with(name, Value::Size(bytes))
    }

    /// [`Case::with`] for a whole number.
    #[must_use]
    pub fn with_count(self, name: &str, count: u64) -> Self {
        self.with(name, Value::Count(count))
    }

    /// Each of these cases with each of these values of a parameter: case by case, in the order of the values.
    #[must_use]
    pub fn with_each(cases: Vec<Self>, name: &str, values: impl IntoIterator<Item = Value>) -> Vec<Self> {
        let values: Vec<Value> = values.into_iter().collect();
        let with = |case: Self| values.iter().map(move |value| case.clone().with(name, value.clone()));
        cases.into_iter().flat_map(with).collect()
    }

    /// The benchmark's name, such as `cpu.peak`.
    pub fn benchmark(&self) -> &str {
        &self.benchmark
    }

    /// The part of the benchmark's name before the dot.
    pub fn subsystem(&self) -> &str {
        self.benchmark.split('.').next().unwrap_or_default()
    }

    /// All parameters, in order.
    pub fn params(&self) -> &[(&'static str, Value)] {
        &self.params
    }

    /// The value of one parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.params.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// A size or count parameter as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Size(n) | Value::Count(n) => Some(*n),
            _ => None,
        }
    }

    /// Several sizes by weight.
    pub fn mix(&self, name: &str) -> Option<&Mix> {
        match self.get(name)? {
            Value::Mix(mix) => Some(mix),
            _ => None,
        }
    }

    /// A word parameter.
    pub fn word(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Word(w) => Some(w),
            _ => None,
        }
    }

    /// Number of threads; 1 where the case has no such parameter.
    pub fn threads(&self) -> usize {
        self.number("threads").and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
    }

    /// The share of the time that its busy threads wait for each other on so many CPUs: above zero where they are more than
    /// these. Without a server both ends of a stream are here.
    pub fn crowding(&self, cpus: usize) -> f64 {
        1.0 - 1.0 / self.busy_threads().div_ceil(cpus.max(1)) as f64
    }

    /// How many of its threads on this machine are busy at once.
    pub fn busy_threads(&self) -> usize {
        let streams = self.number("streams").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let ends = if self.get("server").is_none() { 2 } else { 1 };
        self.threads().max(streams.saturating_mul(ends)).max(1)
    }

    /// The id as text: the key in history.
    pub fn id(&self) -> CaseId {
        CaseId(self.to_string())
    }

    /// The id with the first name of each parameter: the same in all versions.
    pub fn first_id(&self) -> String {
        let part = |(name, value): &(&'static str, Value)| format!("/{}={value}", first_name(name));
        self.benchmark.clone() + &self.params.iter().map(part).collect::<String>()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.benchmark)?;
        self.params.iter().try_for_each(|(name, value)| write!(f, "/{name}={value}"))
    }
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(id: &str) -> Result<Self, CaseError> {
        let bad = |why| CaseError::BadId { id: crate::text::shown(id), why };
        if id.len() > MAX_ID {
            return Err(bad("longer than 1024 bytes"));
        }
        let mut parts = id.split('/');
        let benchmark = parts.next().unwrap_or_default();
        let named = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-';
        if benchmark.is_empty() || !benchmark.bytes().all(named) {
            return Err(bad("its benchmark is not a name"));
        }
        let mut case = Case::of(benchmark);
        for part in parts {
            let (name, text) = part.split_once('=').ok_or_else(|| bad("a part has no '='"))?;
            let key = Key::find(name)?;
            if case.get(key.name).is_some() {
                return Err(bad("a parameter occurs twice"));
            }
            let text = percent_decoded(text).ok_or_else(|| bad("a '%' is not followed by a byte in hex"))?;
            case.params.push((key.name, key.parse(&text)?));
        }
        Ok(case)
    }
}

/// Undoes the escaping of [`Value`]'s words; `None` when it is malformed or not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter().copied();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = (rest.next()? as char).to_digit(16)?;
            let low = (rest.next()? as char).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The text form of a [`Case`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CaseId(String);

impl CaseId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Serialize)]
struct Written<'a> {
    id: CaseId,
    benchmark: &'a str,
    params: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Read {
    id: String,
    benchmark: Option<String>,
    params: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Read {
    /// What is written beside the id and is not what the id says.
    fn contradicts(&self, case: &Case) -> Option<&'static str> {
        let benchmark = self.benchmark.as_ref().is_none_or(|benchmark| *benchmark == case.benchmark);
        let params = self.params.as_ref().is_none_or(|params| {
            let written = |name: &str| {
                let before = || params.get(Key::find(name).ok()?.formerly?);
                params.get(name).or_else(before)
            };
            let is_same = |name: &str, value| written(name).is_some_and(|written| is_written(value, written));
            params.len() == case.params.len()
                && case.params().iter().all(|(name, value)| is_same(name, value))
        });
        match (benchmark, params) {
            (false, _) => Some("benchmark"),
            (true, false) => Some("params"),
            (true, true) => None,
        }
    }
}

/// Whether JSON has this value.
fn is_written(value: &Value, written: &serde_json::Value) -> bool {
    serde_json::to_value(value).is_ok_and(|right| match (right.as_f64(), written.as_f64()) {
        (Some(right), Some(written)) => quantity::is_rounded(written, right),
        _ => right == *written,
    })
}

impl Serialize for Case {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let params = self
            .params
            .iter()
            .map(|(name, value)| Ok(((*name).to_owned(), serde_json::to_value(value)?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(serde::ser::Error::custom)?;
        Written { id: self.id(), benchmark: &self.benchmark, params }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Case {
    /// Reads the id: benchmark and parameters follow from it, and what is written of them must be the same.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let read = Read::deserialize(d)?;
        let case: Self = read.id.parse().map_err(serde::de::Error::custom)?;
        match read.contradicts(&case) {
            None => Ok(case),
            Some(what) => {
                Err(serde::de::Error::custom(format_args!("{}: {what} contradicts its id", case.id())))
            }
        }
    }
}

#[cfg(test)]
mod tests;
