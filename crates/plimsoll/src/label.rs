//! A case in human words: `fma f64 avx512 ×2`, `random read 4 KiB depth 32`.
//!
//! What a benchmark's words leave out is added as `name value`, unless it is the usual value, so that two cases of
//! a run never read alike.

use crate::bench::mpi::SUBSYSTEM;
use crate::bench::{self, Say};
use crate::case::{AT_ONCE, AT_ONCE_BACK, Case, EACH, Value};
use crate::quantity::{Quantity, Unit};

/// Parameters that are not said when they have this value.
const USUAL: &[(&str, &str)] = &[
    ("threads", "1"),
    ("streams", "1"),
    ("variant", "best"),
    ("nb", "192"),
    ("layout", "private"),
    ("chases", "1"),
    ("pages", "thp"),
    ("engine", "io_uring"),
    ("cache", "direct"),
    ("mode", "block"),
    ("direction", "up"),
];

/// The case in words that say its subsystem, for where no heading does: `memory read 512 MiB ×2`.
pub fn full(case: &Case) -> String {
    let (subsystem, label) = (case.subsystem(), label(case));
    match label.starts_with(subsystem) || case.subsystem() == SUBSYSTEM {
        true => label,
        false => format!("{subsystem} {label}"),
    }
}

/// The case of this id in words, as [`full`]; an id that is none, as it is.
pub fn of_id(id: &str) -> String {
    id.parse::<Case>().map_or_else(|_| crate::text::shown(id), |case| full(&case))
}

/// The parameters that a label says as `name value`: a heading can say them for many labels.
pub fn named(case: &Case) -> Vec<(&'static str, String)> {
    let parts = bench::find(case.benchmark()).map(|benchmark| benchmark.words()).unwrap_or_default();
    let is_named = |name: &str| parts.iter().any(|part| matches!(part, Say::Named(known) if *known == name));
    let (words, added) = (Words::of(case), added(case));
    let said = case.params().iter().filter(|(name, _)| is_named(name) || added.contains(name));
    said.map(|(name, value)| (*name, words.value(value))).collect()
}

/// The parameters that a label adds to what the benchmark's words say.
pub fn added(case: &Case) -> Vec<&'static str> {
    let mut words = Words::of(case);
    let parts = bench::find(case.benchmark()).map(|benchmark| benchmark.words()).unwrap_or_default();
    parts.iter().fold(&mut words, |words, part| words.part(*part)).between();
    words.added().map(|(name, _)| *name).collect()
}

/// The case in words.
pub fn label(case: &Case) -> String {
    let mut words = Words::of(case);
    match bench::find(case.benchmark()).map(|benchmark| benchmark.words()) {
        Some([]) | None => words.word(case.benchmark()),
        Some(parts) => parts.iter().fold(&mut words, |words, part| words.part(*part)),
    };
    words.between().rest();
    match words.said.is_empty() {
        true => case.benchmark().to_owned(),
        false => words.said.join(" "),
    }
}

struct Words<'a> {
    case: &'a Case,
    used: Vec<&'static str>,
    said: Vec<String>,
}

impl<'a> Words<'a> {
    fn of(case: &'a Case) -> Self {
        Self { case, used: Vec::new(), said: Vec::new() }
    }

    /// What was not said yet and is not usual.
    fn added(&self) -> impl Iterator<Item = &'a (&'static str, Value)> {
        let is_new =
            move |(name, value): &&(&'static str, Value)| !self.used.contains(name) && !is_usual(name, value);
        self.case.params().iter().filter(is_new)
    }

    fn word(&mut self, word: &str) -> &mut Self {
        self.said.push(word.to_owned());
        self
    }

    fn part(&mut self, part: Say) -> &mut Self {
        match part {
            Say::Word(word) => self.said.push(word.to_owned()),
            Say::Value(name) => {
                let value = self.take(name).filter(|value| !USUAL.contains(&(name, value)));
                self.said.extend(value);
            }
            Say::Named(name) => {
                let value = self.take(name).map(|value| format!("{name} {value}"));
                self.said.extend(value);
            }
            Say::Instead(name, of) => {
                let value = self.take(name);
                let instead = |value: String| {
                    of.iter().find(|(known, _)| *known == value).map_or(value, |(_, said)| (*said).to_owned())
                };
                self.said.extend(value.map(instead));
            }
            Say::Case(name, say) => {
                let said = self.take(name).and_then(|_| say(self.case));
                self.said.extend(said);
            }
            Say::Times => return self.times(),
        }
        self
    }

    /// The number of threads, where there are several.
    fn times(&mut self) -> &mut Self {
        let threads = self.take("threads");
        if let Some(n) = threads.filter(|n| n != "1") {
            self.said.push(format!("×{n}"));
        }
        self
    }

    /// That it goes from each machine of the run to each other, which MPI does anyway, or from one half of them to the
    /// other: that comes first, lest what is cut off makes it look like the former.
    fn between(&mut self) -> &mut Self {
        match self.case.word("server") {
            Some(EACH) if self.case.subsystem() == SUBSYSTEM => {}
            Some(EACH) => self.said.push("between machines".to_owned()),
            Some(AT_ONCE) => self.said.insert(0, "bisection,".to_owned()),
            Some(AT_ONCE_BACK) => self.said.insert(0, "bisection back,".to_owned()),
            _ => return self,
        }
        self.used.push("server");
        self
    }

    /// What a rate that is asked for counts: bits on a network, transfers on a disk.
    fn unit_of_rates(&self) -> Unit {
        match self.case.subsystem() {
            "network" => Unit::BitPerSecond,
            _ => Unit::IoPerSecond,
        }
    }

    fn value(&self, value: &Value) -> String {
        match value {
            Value::Rate(rate) => Quantity::new(*rate, self.unit_of_rates()).to_string(),
            other => human(other),
        }
    }

    fn rest(&mut self) {
        let rest: Vec<String> =
            self.added().map(|(name, value)| format!("{name} {}", self.value(value))).collect();
        self.said.extend(rest);
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        let value = human(self.case.get(name)?);
        self.used.push(name);
        Some(value)
    }
}

/// Whether the parameter is not said with this value.
pub fn is_usual(name: &str, value: &Value) -> bool {
    USUAL.contains(&(name, human(value).as_str()))
}

/// A value with its unit: `64 MiB`; large counts short.
pub fn human(value: &Value) -> String {
    match value {
        Value::Size(bytes) => Quantity::new(*bytes as f64, Unit::Byte).to_string(),
        Value::Word(word) => word.clone(),
        // 1e12 and not all its noughts.
        Value::Count(n) if *n >= 1_000_000 => {
            let short = format!("{n:e}");
            if short.len() < n.to_string().len() { short } else { n.to_string() }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str) -> String {
        label(&id.parse().unwrap())
    }

    #[test]
    fn cases_read_like_words() {
        assert_eq!(of("cpu.peak/op=fma/work=1000000000000/scaling=strong"), "fma work 1e12 scaling strong");
        assert_eq!(of("cpu.peak/op=fma/type=f64/isa=avx512/threads=2"), "fma f64 avx512 ×2");
        assert_eq!(
            of("cpu.peak/op=fma/type=f64/isa=avx2/width=128/chains=8/threads=1"),
            "fma f64 avx2 128 bits chains 8"
        );
        assert_eq!(
            of("cpu.peak/op=fma/type=f64/isa=avx512/width=512/chains=8/threads=1"),
            "fma f64 avx512 chains 8"
        );
        assert_eq!(
            of("cpu.peak/op=add/type=f32/isa=sse2/width=scalar/chains=1"),
            "add f32 sse2 scalar chains 1"
        );
        assert_eq!(
            of("memory.bandwidth/op=triad/size=512M/variant=nt/pages=thp/threads=1"),
            "triad 512 MiB nt"
        );
        assert_eq!(of("memory.bandwidth/op=read/size=64M/variant=best/threads=2"), "read 64 MiB ×2");
        assert_eq!(
            of(
                "memory.block/op=read-write/pattern=random/block=8K/size=256M/pages=thp/threads=2/volume=100G/scaling=strong"
            ),
            "random read-write 8 KiB of 256 MiB ×2 volume 100 GiB scaling strong"
        );
        assert_eq!(
            of("memory.loaded-latency/op=read/size=512M/pages=thp/threads=2"),
            "latency under read load 512 MiB ×2"
        );
        assert_eq!(of("memory.numa/op=latency/size=512M/pages=thp"), "NUMA latency 512 MiB");
        assert_eq!(of("memory.latency/size=64M/pages=4k"), "latency 64 MiB pages 4k");
        assert_eq!(
            of("disk.io/op=read/pattern=random/block=4K/depth=32/engine=io_uring/cache=direct/threads=1"),
            "random read 4 KiB depth 32"
        );
        assert_eq!(
            of("disk.io/op=write/pattern=sequential/block=1M/depth=8/threads=1"),
            "seq. write 1 MiB depth 8"
        );
        assert_eq!(of("disk.fsync/block=4K/threads=1"), "append 4 KiB + fdatasync");
        assert_eq!(of("network.tcp/message=64K/streams=1/direction=up"), "TCP 64 KiB writes");
        assert_eq!(of("cpu.gemm/type=f64/n=4000/isa=avx512/threads=1"), "gemm f64 n 4000 avx512");
        assert_eq!(of("cpu.linpack/n=8000/nb=192/isa=avx512/threads=2"), "linpack n 8000 avx512 ×2");
        assert_eq!(of("cpu.linpack/n=8000/nb=96/isa=avx2/threads=1"), "linpack n 8000 avx2 nb 96");
        assert_eq!(of("network.latency/protocol=tcp/message=1/streams=1/mode=block"), "TCP round trip 1 B");
        assert_eq!(
            of("network.latency/protocol=udp/message=1K/streams=2/mode=poll"),
            "UDP round trip 1 KiB streams 2 mode poll"
        );
        assert_eq!(of("network.latency/protocol=icmp/message=56/streams=1/mode=block"), "ICMP echo 56 B");
        assert_eq!(
            of("network.udp/message=1K/streams=1/direction=up/rate=100000000"),
            "UDP 1 KiB datagrams rate 100 Mbit/s"
        );
        assert_eq!(of("null"), "null");
        assert_eq!(of("cpu.peak"), "cpu.peak");
        assert_eq!(of("cpu.new-thing/op=dot/threads=4"), "cpu.new-thing op dot threads 4");
    }

    #[test]
    fn what_is_said_with_its_name_can_be_said_in_a_heading() {
        let of = |id: &str| named(&id.parse().unwrap());
        let disk = of(
            "disk.io/op=read/pattern=random/block=1K/depth=1/size=64M/threads=2/engine=psync/cache=direct/count=1000/scaling=strong",
        );
        let words: Vec<String> = disk.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(words, ["depth 1", "size 64 MiB", "engine psync", "count 1000", "scaling strong"]);
        assert_eq!(
            of("cpu.peak/op=fma/type=f64/isa=avx2/threads=2/work=1000000000"),
            [("work", "1e9".to_owned())]
        );
        assert!(of("memory.bandwidth/op=read/size=64M/variant=best/threads=2").is_empty());
    }

    #[test]
    fn without_a_heading_the_subsystem_is_said_once() {
        assert_eq!(of_id("memory.bandwidth/op=read/size=64M/threads=2"), "memory read 64 MiB ×2");
        assert_eq!(of_id("cpu.peak"), "cpu.peak");
        assert_eq!(of_id("null/threads=2"), "null threads 2");
        assert_eq!(of_id("mpi.barrier"), "MPI barrier");
        assert_eq!(
            of_id("no\u{1b}[31m case"),
            "no\\x1b[31m case".replace("\\x1b", &crate::text::shown("\u{1b}"))
        );
    }

    #[test]
    fn what_is_not_usual_is_said() {
        assert_eq!(
            of("disk.io/op=read/pattern=random/block=4K/depth=1/engine=psync/cache=buffered/threads=4"),
            "random read 4 KiB depth 1 ×4 engine psync cache buffered"
        );
        assert_eq!(of("network.tcp/message=64K/streams=8/direction=up"), "TCP 64 KiB writes streams 8");
    }
}
