//! Parameters: [`KEYS`] is the one list of their names, for flags, plan files and ids.

use plimsoll_units::quantity::{self, BlockSizes};
use plimsoll_units::text::shown;

use super::{Value, nearest};

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
    /// Whether it is logarithmic.
    pub log: bool,
    /// Parameters with one chart per value along this axis, as units or limits differ.
    pub charted_alone: &'static [&'static str],
    /// How to read the curve; empty if that is plain.
    pub note: &'static str,
    /// Whether it counts workers (threads or streams), which charts show first and with shares.
    pub workers: bool,
}

const AXIS: Axis = Axis { name: "", log: false, charted_alone: &[], note: "", workers: false };

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

    const fn axis(self, axis: Axis) -> Self {
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
    key("op", ValueKind::Word, "operation, such as read, write, fma or triad; a wrong name prints the list")
        .overlaid().titled(),
    key("read-share", ValueKind::Count, "percentage of reads with --op mixed, from 0 to 100 [default: 70]"),
    key("type", ValueKind::Word, "number type: f64, f32, f16, bf16, i64, i32, i16, i8 or all; cpu.gemm: f64, f32 [default: f64,f32; op dot and crc32c: all]").overlaid().titled(),
    key("n", ValueKind::Count, "number of rows and columns of the matrices, such as 4000 [default: as time and memory allow]")
        .of_machine()
        .axis(Axis { name: "n", log: true, ..AXIS }).amount(ScaledAmount::Order),
    key("nb", ValueKind::Count, "columns of a block of the factorisation, HPL's NB; cpu.linpack rounds it up to a multiple that suits the instruction set [default: 192]")
        .usually("192"),
    key("p", ValueKind::Count, "rows of the process grid over all machines, HPL's P [default: as square as possible]").of_machine(),
    key("q", ValueKind::Count, "columns of the process grid over all machines, HPL's Q [default: as square as possible]").of_machine(),
    key("isa", ValueKind::Word, "instruction set: portable (as compiled), sse2, avx2, avx512, amx, neon, sve, mmla, all or best [default: best]")
        .of_machine()
        .overlaid(),
    key("width", ValueKind::Word, "with --chains: vector width in bits: 128, 256, 512, scalar, full (the widest) or all [default: full]")
        .of_machine()
        .overlaid(),
    key("chains", ValueKind::Count, "number of independent chains of dependent instructions per thread, such as 1,2,4,8: 1 measures latency, many measure throughput [default: as many as are fastest]")
        .axis(Axis {
            name: "independent chains",
            charted_alone: &["op", "type"],
            note: "it rises by 1 ÷ latency with each chain and is flat where latency × units of them are in flight",
            ..AXIS
        }),
    key("pattern", ValueKind::Word, "access pattern: sequential, sequential-each (--op mixed: reads and writes as two sequences), random, strided (every 17th block), backward, same (one block), zipf or zipf:EXPONENT (1.2 without it), zoned:80-20:20-80 (80 % of the transfers to the first 20 % of the file, 20 % to the rest) [default: random and sequential: see --op]").overlaid().titled(),
    key("size", ValueKind::Size, "working set. memory: bytes of all arrays of one thread, or the word sweep for many sizes; disk: bytes of the test file")
        .of_machine()
        .axis(Axis { name: "size", log: true, ..AXIS }).amount(ScaledAmount::File),
    key("block", ValueKind::Sizes, "block size of a transfer, or a mix by weight: 4K@60+64K@40")
        .axis(Axis { name: "block", log: true, ..AXIS }).of_one(),
    key("align", ValueKind::Size, "with --pattern random, zipf or zoned: transfers begin at multiples of this size, itself a multiple of the default [default: --block; of a mix, the largest size that divides its blocks]"),
    key("variant", ValueKind::Word, "code of the measured loop: best (the fastest in a trial), all, or a name from --variant all --list, such as nt_ahead256_avx2: nt_ is non-temporal stores, aheadN_ a prefetch N bytes ahead (l1aheadN_, l2aheadN_: into L1, L2), avx2 the instruction set [default: best]").usually("best").overlaid(),
    key("pages", ValueKind::Word, "page size: thp (transparent huge pages), the kernel's own (4k, 16k or 64k), or reserved huge pages (2m, 1g) [default: thp; memory.latency beyond L2: also 4k]")
        .usually("thp"),
    key("layout", ValueKind::Word, "memory.bandwidth: private (each thread has its arrays) or shared (each thread has a part of one array) [default: private]")
        .usually("private")
        .unsaid("private"),
    key("chases", ValueKind::Count, "memory.latency: number of chains of dependent loads in flight at the same time [default: 1]")
        .usually("1")
        .axis(Axis { name: "chases at once", ..AXIS }),
    key("group", ValueKind::Size, "memory.latency: a chain of loads visits all lines of one region of this size before it goes to the next, so that few loads miss the TLB [default: 256K]")
        .unsaid("256 KiB"),
    key("node", ValueKind::Count, "number of the NUMA node to allocate memory on, such as 0 [default: the node of each thread]"),
    key("delay", ValueKind::Word, "pauses of the loading threads after each 4 KiB, such as 0ns,100ns,1us; one case measures them all, as a curve [default: 12 from 6.4us to 0]"),
    key("depth", ValueKind::Count, "queue depth of each thread [default: as the loads of --op have it: 1 and 32 for random reads, 8 for sequential ones, also if --op or --pattern change them; psync and mmap: 1]")
        .axis(Axis { name: "queue depth", log: true, ..AXIS })
        .overlaid(),
    key("engine", ValueKind::Word, "I/O engine: io_uring, libaio, psync or mmap; with polling io_uring+sqpoll, io_uring+iopoll [default: io_uring]")
        .usually("io_uring"),
    key("cache", ValueKind::Word, "direct (O_DIRECT), buffered (file in the page cache from the start) or cold (through the page cache, emptied before each pass over the file) [default: direct; mmap: buffered]")
        .usually("direct"),
    key("verify", ValueKind::Switch, "check that each block read is the one last written there: offset, write number and checksum [default: off]"),
    key("steady", ValueKind::Switch, "overwrite the file in random order first, then take samples until the last five are steady as SNIA defines it, but not more than --samples (25 without it) [default: off]"),
    key("sync", ValueKind::Word, "when writes are made durable: none, each (O_DSYNC), o_sync (O_SYNC), every:N (fdatasync after N writes), fsync:N (fsync after N writes), end (fdatasync after each sample), fsync-end (fsync after each sample) [default: none]")
        .unsaid("none")
        .overlaid(),
    key("rate", ValueKind::Rate, "target rate: disk in transfers per second, network.udp in bit/s"),
    key("latency-target", ValueKind::Word, "find the largest queue depth, up to --depth (256 without it), at which a percentile of the latency stays within a time, such as p99=2ms (p1 to p99.99)"),
    key("arrivals", ValueKind::Word, "with --rate: start transfers at random times (poisson) or at equal intervals (even) [default: poisson]"),
    key("protocol", ValueKind::Word, "network.latency: protocol of the round trips: tcp, udp, icmp or connect (a new TCP connection for each) [default: tcp]")
        .overlaid().titled(),
    key("message", ValueKind::Size, "message size").axis(Axis { name: "message", log: true, ..AXIS }).of_one(),
    key("direction", ValueKind::Word, "network.tcp, network.udp: up (this machine sends), down (the server sends) or both [default: up]")
        .usually("up")
        .overlaid().titled(),
    key("streams", ValueKind::Count, "number of parallel streams (connections), each with its own thread on client and server [default: 1]")
        .usually("1")
        .axis(Axis { name: "streams", workers: true, ..AXIS })
        .overlaid(),
    key("server", ValueKind::Word, "server: HOST[:PORT] where plimsoll serve runs, or iperf3://HOST[:PORT] for network.tcp and network.udp [default: a server on this machine, over loopback]"),
    key("omit", ValueKind::Time, "network.tcp: time at the start of each transfer that does not count, such as 2s [default: none]"),
    key("zerocopy", ValueKind::Switch, "network.tcp: send without copying the data (MSG_ZEROCOPY) [default: off]"),
    key("discard", ValueKind::Switch, "network.tcp: let the kernel drop received data instead of copying it (MSG_TRUNC) [default: off]"),
    key("nodelay", ValueKind::Switch, "network.tcp: send small messages immediately (TCP_NODELAY) [default: off]"),
    key("congestion", ValueKind::Word, "network.tcp: congestion control, such as cubic, reno or bbr [default: the kernel's]"),
    key("window", ValueKind::Size, "network.tcp: socket buffer size of each stream, such as 4M [default: the kernel's]"),
    key("mss", ValueKind::Count, "network.tcp: maximum segment size in bytes, such as 1400 [default: the kernel's]"),
    key("dscp", ValueKind::Count, "network.tcp: DSCP of the packets, from 0 to 63 [default: 0]"),
    key("bind", ValueKind::Word, "local IP address to send from [default: chosen by the kernel]"),
    key("search", ValueKind::Word, "network.udp: lossless finds the highest rate without loss, as RFC 2544 does [default: no search]"),
    key("mode", ValueKind::Word, "network.latency: how both ends wait for a message: block (sleep until it arrives) or poll (busy-wait) [default: block]")
        .usually("block"),
    key("timeout", ValueKind::Time, "network.latency: count a message as lost if no answer comes within this time; 20 lost in a row, or 5 before the first answer of a sample, end the case [default: 1s]"),
    key("interval", ValueKind::Time, "network.latency: time between messages, such as 200ms [default: send the next one when the answer arrives]"),
    key("load", ValueKind::Word, "network.latency: run a TCP stream during the round trips: up, down or both [default: none]"),
    key("between", ValueKind::Word, "os.switch: the two that wake each other: threads (of one process), processes or all [default: all]").overlaid(),
    key("distance", ValueKind::Word, "os.switch: CPUs of the two threads or processes: same (one CPU), smt (one core), cache (two cores that share a cache), package (two cores of one socket that share no cache), socket (two sockets) or all [default: all that exist here]")
        .of_machine(),
    key("threshold", ValueKind::Time, "shortest interruption that counts"),
    key("threads", ValueKind::Count, "number of threads")
        .usually("1")
        .axis(Axis { name: "threads", workers: true, ..AXIS })
        .overlaid(),
    key("affinity", ValueKind::Word, "CPUs to pin the threads to: spread (sockets in turn, one CPU of each core first), compact (all CPUs of a core first, then the next core), or a list such as 0-3 [default: spread]"),
    key("work", ValueKind::Count, "end a sample after this many operations, such as 1e12, per thread (with --scaling strong: in total), instead of after --sample-time").amount(ScaledAmount::Operations),
    key("volume", ValueKind::Size, "end a sample after this many bytes, such as 1G, per thread (with --scaling strong: in total), instead of after --sample-time").amount(ScaledAmount::Bytes),
    key("count", ValueKind::Count, "end a sample after this many blocks per thread (with --scaling strong: in total), instead of after --sample-time").amount(ScaledAmount::Transfers),
    key("scaling", ValueKind::Word, "with --work, --volume or --count: weak (each thread does that amount) or strong (the threads divide it) [default: weak]")
        .unsaid("weak"),
];

/// Value of `size` in memory benchmarks that stands for many sizes; never in a case.
pub const SWEEP: &str = "sweep";

impl Key {
    /// Returns the parameter called `name`; the error suggests the most similar name.
    pub fn find(name: &str) -> Result<&'static Key, String> {
        KEYS.iter().find(|k| k.name == name).ok_or_else(|| {
            let near = nearest(name, KEYS.iter().map(|k| k.name));
            let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            format!("unknown parameter '{}'{near}", shown(name))
        })
    }

    /// Returns whether the parameter is a load, a count along which charts are drawn: `depth` …
    pub fn is_load(&self) -> bool {
        self.kind == ValueKind::Count && self.axis.is_some()
    }

    /// Parses a value of the parameter's kind, such as `64K`, `8`, `10ms`, `on` or a word.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            ValueKind::Size if self.name == "size" && text == SWEEP => Ok(Value::Word(text.to_owned())),
            ValueKind::Size => quantity::parse_size(text).map(Value::Size).map_err(|e| e.to_string()),
            ValueKind::Sizes => quantity::parse_sizes(text).map(|sizes| match sizes {
                BlockSizes::One(bytes) => Value::Size(bytes),
                BlockSizes::Mixed(mix) => Value::Mix(mix),
            }),
            ValueKind::Count if self.name == "read-share" && quantity::parse_count(text).is_err() => {
                Err(format!("must be a percentage from 0 to 100, such as 70: '{}' is not", shown(text)))
            }
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
        value.map_err(|why| format!("{} {why}", self.name))
    }
}
