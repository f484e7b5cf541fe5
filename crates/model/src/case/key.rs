//! Parameters: [`KEYS`] is the one list of their names, for flags, plan files and ids.

use plimsoll_units::quantity::{self, BlockSizes};
use plimsoll_units::text::shown;

use super::{CaseError, Value, nearest};

/// Kind of a parameter's values, which defines their syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Bytes; `4K` is 4096.
    Size,
    /// Bytes, or several sizes by weight: `4K@60+64K@40`.
    Sizes,
    /// Whole number.
    Count,
    /// Duration: `200ms`; seconds in JSON.
    Time,
    /// Rate per second with SI prefixes: `100M` is 10⁸.
    Rate,
    /// Name.
    Word,
    /// `on` or `off`; the flag alone means `on`.
    Switch,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in ids, flags and plan files.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: ValueKind,
    /// Help text of its flag.
    pub help: &'static str,
    /// Value that is left out of the words of a case.
    pub usual: Option<&'static str>,
    /// Whether the default depends on the machine: the same question has other values elsewhere.
    pub of_machine: bool,
    /// Value that means the same as leaving the parameter out, in the words of a case (`256 KiB`).
    /// It is never refused as ineffective, and most benchmarks leave it out of the case. For every
    /// switch, `off` is such a value too.
    pub neutral_value: Option<&'static str>,
    /// Axis of charts along it, if there are any.
    pub axis: Option<Axis>,
    /// Whether its values are lines of one chart; otherwise each value has its own chart.
    pub overlaid: bool,
    /// Whether a chart's title contains its value if all figures of the chart share it.
    pub titled: bool,
    /// Amount that it fixes, if `--scale` changes that.
    pub amount: Option<ScaledAmount>,
    /// Whether it is the number of bytes of one transfer.
    pub is_transfer_size: bool,
}

/// An amount that `--scale` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledAmount {
    /// Bytes per sample.
    Bytes,
    /// Transfers per sample.
    Transfers,
    /// Operations per sample.
    Operations,
    /// Order of a system of equations, whose work grows with its cube.
    Order,
    /// Bytes of a file. A size of memory is not scaled, as it selects a cache.
    File,
}

/// Axis of charts along a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Label.
    pub name: &'static str,
    /// Spacing of the values.
    pub spacing: Spacing,
    /// Parameters with one chart per value along this axis, as units or limits differ.
    pub charted_alone: &'static [&'static str],
    /// How to read the curve; empty if that is plain.
    pub note: &'static str,
    /// Whether it counts workers (threads or streams), which charts show first and with shares.
    pub workers: bool,
}

/// Spacing of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Linear.
    Linear,
    /// Logarithmic.
    Log,
}

const fn key(name: &'static str, kind: ValueKind, help: &'static str) -> Key {
    Key {
        name,
        kind,
        help,
        usual: None,
        of_machine: false,
        neutral_value: None,
        axis: None,
        overlaid: false,
        titled: false,
        amount: None,
        is_transfer_size: false,
    }
}

impl Key {
    const fn usually(self, value: &'static str) -> Self {
        Self { usual: Some(value), ..self }
    }

    const fn of_machine(self) -> Self {
        Self { of_machine: true, ..self }
    }

    const fn unsaid(self, value: &'static str) -> Self {
        Self { neutral_value: Some(value), ..self }
    }

    const fn axis(self, name: &'static str, spacing: Spacing) -> Self {
        Self { axis: Some(Axis { name, spacing, charted_alone: &[], note: "", workers: false }), ..self }
    }

    const fn axis_of_workers(self, name: &'static str) -> Self {
        let axis = Axis { name, spacing: Spacing::Linear, charted_alone: &[], note: "", workers: true };
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

    const fn amount(self, amount: ScaledAmount) -> Self {
        Self { amount: Some(amount), ..self }
    }

    const fn of_one(self) -> Self {
        Self { is_transfer_size: true, ..self }
    }
}

/// All parameters that a case may have.
pub const KEYS: &[Key] = &[
    key(
        "op",
        ValueKind::Word,
        "operation, such as read, write, fma or triad; a wrong name prints the list",
    )
    .overlaid().titled(),
    key("read-share", ValueKind::Count, "percentage of reads with --op mixed, a number from 0 to 100 [default: 70]"),
    key("type", ValueKind::Word, "number type: f64, f32, f16, bf16, i64, i32, i16, i8 or all").overlaid().titled(),
    key("n", ValueKind::Count, "rows and columns of the matrices [default: as memory and --budget allow]")
        .of_machine()
        .axis("n", Spacing::Log).amount(ScaledAmount::Order),
    key("nb", ValueKind::Count, "columns of a block of the factorisation (HPL's NB), rounded up to whole register tiles")
        .usually("192"),
    key("p", ValueKind::Count, "for plan show cpu --only cpu.hpl: rows of the process grid (HPL's P) [default: as square as possible]").of_machine(),
    key("q", ValueKind::Count, "for plan show cpu --only cpu.hpl: columns of the process grid (HPL's Q) [default: as square as possible]").of_machine(),
    key(
        "isa",
        ValueKind::Word,
        "instruction set: best, all, or one of portable, sse2, avx2, avx512, amx, neon, sve, mmla",
    )
    .of_machine()
    .overlaid(),
    key("width", ValueKind::Word, "vector width in bits, only with --chains: full, all, scalar, 128, 256 or 512")
        .of_machine()
        .overlaid(),
    key(
        "chains",
        ValueKind::Count,
        "number of independent chains of dependent instructions in a thread; 1,2,4,8 shows the step from latency to throughput",
    )
    .axis_of(Axis {
        name: "independent chains",
        spacing: Spacing::Linear,
        charted_alone: &["op", "type"],
        note: "it rises by 1 ÷ latency with each chain and is flat where latency × units of them are in flight",
        workers: false,
    }),
    key("pattern", ValueKind::Word, "access pattern: sequential, sequential-each (--op mixed: reads and writes each in their own order), random, strided, backward, same (one block), zipf or zipf:0.9 (exponent), zoned:80-20:20-80 (80 % of the transfers in the first 20 % of the file, 20 % in the rest)").overlaid().titled(),
    key(
        "size",
        ValueKind::Size,
        "working set. memory: bytes of all arrays of one thread, or the word sweep for many sizes; disk: bytes of the test file",
    )
    .of_machine()
    .axis("size", Spacing::Log).amount(ScaledAmount::File),
    key("block", ValueKind::Sizes, "block size of a transfer, or a mix by weight: 4K@60+64K@40")
        .axis("block", Spacing::Log).of_one(),
    key("align", ValueKind::Size, "random transfers begin at multiples of this, a multiple of the block size (of a mix: of what divides all its blocks) [default: that size]"),
    key("variant", ValueKind::Word, "kernel: best, all, or a name that --variant all --list shows, such as nt_ahead256_avx2: nt_ for non-temporal stores, aheadN_ for a prefetch N bytes ahead (l1aheadN_, l2aheadN_: into that cache), then the instruction set").usually("best").overlaid(),
    key("pages", ValueKind::Word, "page size: thp (transparent huge pages), 4k (or 16k, 64k, as the kernel has it), or 2m, 1g from reserved huge pages")
        .usually("thp"),
    key("layout", ValueKind::Word, "private (an array for each thread) or shared (one array, each thread uses a part)")
        .usually("private")
        .unsaid("private"),
    key("chases", ValueKind::Count, "number of chains of dependent loads in parallel")
        .usually("1")
        .axis("chases at once", Spacing::Linear),
    key("group", ValueKind::Size, "memory.latency: a chain of loads finishes one region of this size before the next, so that it seldom misses the TLB [default: 256K]")
        .unsaid("256 KiB"),
    key("node", ValueKind::Count, "NUMA node that memory is allocated on [default: the node of each thread]"),
    key("delay", ValueKind::Word, "pauses of the loading threads after each 4 KiB, such as 0ns,100ns,1us; all values make one case, a curve"),
    key("depth", ValueKind::Count, "queue depth of each thread [default: 1,32 for 4K, 8 for 1M]")
        .axis("queue depth", Spacing::Log)
        .overlaid(),
    key("engine", ValueKind::Word, "I/O engine: io_uring (the default; also with +sqpoll, +iopoll), libaio, psync, mmap")
        .usually("io_uring"),
    key(
        "cache",
        ValueKind::Word,
        "direct (O_DIRECT: past the page cache), buffered (through it) or cold (through it, emptied before each pass)",
    )
    .usually("direct"),
    key("verify", ValueKind::Switch, "check each block that is read: offset, write generation and checksum"),
    key(
        "steady",
        ValueKind::Switch,
        "overwrite the file at random first, then measure until five samples in a row are steady (as SNIA defines it)",
    ),
    key(
        "sync",
        ValueKind::Word,
        "when writes become durable: none, each (O_DSYNC), o_sync (O_SYNC), every:N or fsync:N (fdatasync or fsync after N writes), end or fsync-end (at the end of each sample)",
    )
    .unsaid("none")
    .overlaid(),
    key(
        "rate",
        ValueKind::Rate,
        "target rate: disk in transfers per second, network.udp in bit/s",
    ),
    key(
        "latency-target",
        ValueKind::Word,
        "find the largest queue depth at which this latency holds, such as p99=2ms (p1 to p99.99); --depth is the maximum",
    ),
    key("arrivals", ValueKind::Word, "with --rate: transfers begin at random times (poisson) or at equal intervals (even) [default: poisson]"),
    key(
        "protocol",
        ValueKind::Word,
        "protocol of the round trips: tcp, udp, icmp or connect (a new TCP connection for each)",
    )
    .overlaid().titled(),
    key("message", ValueKind::Size, "message size").axis("message", Spacing::Log).of_one(),
    key("direction", ValueKind::Word, "up (this machine sends), down (the server sends) or both")
        .usually("up")
        .overlaid().titled(),
    key("streams", ValueKind::Count, "number of connections in parallel; each has its own thread on client and server")
        .usually("1")
        .axis_of_workers("streams")
        .overlaid(),
    key(
        "server",
        ValueKind::Word,
        "server to measure to: HOST[:PORT] where plimsoll serve runs, or iperf3://HOST[:PORT] [default: one of its own, over loopback]",
    ),
    key("omit", ValueKind::Time, "leave out this time, such as 2s, at the start of each transfer"),
    key("zerocopy", ValueKind::Switch, "send without copying the data (MSG_ZEROCOPY)"),
    key("discard", ValueKind::Switch, "receive without copying the data: the kernel drops it (MSG_TRUNC)"),
    key("nodelay", ValueKind::Switch, "send small messages immediately (TCP_NODELAY)"),
    key("congestion", ValueKind::Word, "TCP congestion control, such as cubic, reno or bbr"),
    key("window", ValueKind::Size, "network.tcp: socket buffer size of each stream"),
    key("mss", ValueKind::Count, "TCP maximum segment size, in bytes"),
    key("dscp", ValueKind::Count, "network.tcp: DSCP of the packets, 0 to 63"),
    key("bind", ValueKind::Word, "local address to send from"),
    key("search", ValueKind::Word, "lossless: find the highest rate without loss, as RFC 2544"),
    key("mode", ValueKind::Word, "how client and server wait for a message: block (the kernel wakes them) or poll (busy)")
        .usually("block"),
    key("timeout", ValueKind::Time, "count a message as lost if no answer comes within this time; five lost in a row end the case [default: 1s]"),
    key(
        "interval",
        ValueKind::Time,
        "time between messages, such as 200ms [default: send the next when the answer arrives]",
    ),
    key("load", ValueKind::Word, "run a TCP stream during the round trips: up, down or both"),
    key("between", ValueKind::Word, "who wakes each other: threads of one process, processes or all").overlaid(),
    key("distance", ValueKind::Word, "CPUs of the two: same (one CPU), smt (one core), cache (one last-level), package (two last-level), socket (two), all [default: all here]")
        .of_machine(),
    key("threshold", ValueKind::Time, "shortest interruption that counts"),
    key("threads", ValueKind::Count, "number of threads")
        .usually("1")
        .axis_of_workers("threads")
        .overlaid(),
    key(
        "affinity",
        ValueKind::Word,
        "CPUs to pin the threads to: spread (sockets in turn, one thread per core first), compact (neighbours first), or a list such as 0-3 [default: spread]",
    ),
    key("work", ValueKind::Count, "end a sample after this many operations, such as 1e12, instead of after --sample-time: per thread, or in total with --scaling strong").amount(ScaledAmount::Operations),
    key("volume", ValueKind::Size, "end a sample after this many bytes, such as 1G, instead of after --sample-time: per thread, or in total with --scaling strong").amount(ScaledAmount::Bytes),
    key("count", ValueKind::Count, "end a sample after this many blocks, instead of after --sample-time: per thread, or in total with --scaling strong").amount(ScaledAmount::Transfers),
    key(
        "scaling",
        ValueKind::Word,
        "with a fixed amount in a sample: weak (each thread does that much) or strong (the threads share it) [default: weak]",
    )
    .unsaid("weak"),
];

/// Value of `size` in memory benchmarks that stands for many sizes; never in a case.
pub const SWEEP: &str = "sweep";

impl Key {
    /// Returns the parameter called `name`; the error suggests the most similar name.
    pub fn find(name: &str) -> Result<&'static Key, CaseError> {
        KEYS.iter().find(|k| k.name == name).ok_or_else(|| CaseError::UnknownKey {
            name: shown(name),
            nearest: nearest(name, KEYS.iter().map(|k| k.name)),
        })
    }

    /// Returns whether the parameter is a load such as `depth`: a count with a chart axis.
    pub fn is_load(&self) -> bool {
        self.kind == ValueKind::Count && self.axis.is_some()
    }

    /// Parses a value of the parameter's kind, such as `64K`, `8`, `10ms`, `on` or a word.
    pub fn parse(&self, text: &str) -> Result<Value, CaseError> {
        let value = match self.kind {
            ValueKind::Size if self.name == "size" && text == SWEEP => Ok(Value::Word(text.to_owned())),
            ValueKind::Size => quantity::parse_size(text).map(Value::Size).map_err(|e| e.to_string()),
            ValueKind::Sizes => quantity::parse_sizes(text).map(|sizes| match sizes {
                BlockSizes::One(bytes) => Value::Size(bytes),
                BlockSizes::Mixed(mix) => Value::Mix(mix),
            }),
            ValueKind::Count => quantity::parse_count(text).map(Value::Count).map_err(|e| e.to_string()),
            ValueKind::Time => quantity::parse_duration(text).map(Value::Time).map_err(|e| e.to_string()),
            ValueKind::Rate => quantity::parse_rate(text).map(Value::Rate).map_err(|e| e.to_string()),
            ValueKind::Switch if !["on", "off"].contains(&text) => {
                Err(format!("must be on or off: '{}' is neither", shown(text)))
            }
            ValueKind::Word if text.is_empty() => Err("must be a name: it is empty".to_owned()),
            ValueKind::Word if text.len() > 256 => Err("must have at most 256 bytes".to_owned()),
            ValueKind::Switch | ValueKind::Word => Ok(Value::Word(text.to_owned())),
        };
        value.map_err(|why| CaseError::BadValue { key: self.name, why })
    }
}
