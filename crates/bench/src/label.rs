//! Labels of cases: `fma f64 avx512 ×2`, `random read 4 KiB depth 32`.

use plimsoll_model::case::Case;
use plimsoll_model::words::{self, LabelPart};

fn parts(case: &Case) -> &'static [LabelPart] {
    crate::find(case.benchmark()).map(|benchmark| benchmark.descriptor().words).unwrap_or_default()
}

/// Returns the label with its subsystem, for use without a heading: `memory read 512 MiB ×2`.
pub fn full(case: &Case) -> String {
    words::full(parts(case), case)
}

/// Returns the label of the case with this id as in [`full`]; the id itself if it is invalid.
pub fn of_id(id: &str) -> String {
    id.parse::<Case>().map_or_else(|_| plimsoll_units::text::shown(id), |case| full(&case))
}

/// Returns (name, value) of the parameters that the label shows as `name value`.
pub fn named(case: &Case) -> Vec<(&'static str, String)> {
    words::named(parts(case), case)
}

/// Returns the names of the parameters that the label appends to its words as `name value`.
pub fn added(case: &Case) -> Vec<&'static str> {
    words::added(parts(case), case)
}

/// Returns the label of a case without its subsystem: `random read 4 KiB depth 32`.
pub fn label(case: &Case) -> String {
    words::label(parts(case), case)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Identifiers of cases and their labels.
    const LABELS: &str = "\
cpu.peak/op=fma/work=1000000000000/scaling=strong = fma work 1e12 scaling strong
cpu.peak/op=fma/type=f64/isa=avx512/threads=2 = fma f64 avx512 ×2
cpu.peak/op=fma/type=f64/isa=avx2/width=128/chains=8/threads=1 = fma f64 avx2 128 bits chains 8
cpu.peak/op=fma/type=f64/isa=avx512/width=512/chains=8/threads=1 = fma f64 avx512 chains 8
cpu.peak/op=add/type=f32/isa=sse2/width=scalar/chains=1 = add f32 sse2 scalar chains 1
memory.bandwidth/op=triad/size=512M/variant=nt/pages=thp/threads=1 = triad 512 MiB nt
memory.bandwidth/op=read/size=64M/variant=best/threads=2 = read 64 MiB ×2
memory.block/op=read-write/pattern=random/block=8K/size=256M/pages=thp/threads=2/volume=100G/scaling=strong = random read-write 8 KiB of 256 MiB ×2 volume 100 GiB scaling strong
memory.loaded-latency/op=read/size=512M/pages=thp/threads=2 = latency under read load 512 MiB ×2
memory.numa/op=latency/size=512M/pages=thp = NUMA latency 512 MiB
memory.latency/size=64M/pages=4k = latency 64 MiB pages 4k
disk.io/op=read/pattern=random/block=4K/depth=32/engine=io_uring/cache=direct/threads=1 = random read 4 KiB depth 32
disk.io/op=write/pattern=sequential/block=1M/depth=8/threads=1 = seq. write 1 MiB depth 8
disk.fsync/block=4K/threads=1 = append 4 KiB + fdatasync
network.tcp/message=64K/streams=1/direction=up = TCP 64 KiB writes
cpu.gemm/type=f64/n=4000/isa=avx512/threads=1 = gemm f64 n 4000 avx512
cpu.linpack/n=8000/nb=192/isa=avx512/threads=2 = linpack n 8000 avx512 ×2
cpu.linpack/n=8000/nb=96/isa=avx2/threads=1 = linpack n 8000 avx2 nb 96
network.latency/protocol=tcp/message=1/streams=1/mode=block = TCP round trip 1 B
network.latency/protocol=udp/message=1K/streams=2/mode=poll = UDP round trip 1 KiB streams 2 mode poll
network.latency/protocol=icmp/message=56/streams=1/mode=block = ICMP echo 56 B
network.udp/message=1K/streams=1/direction=up/rate=100000000 = UDP 1 KiB datagrams rate 100 Mbit/s
null = null
cpu.peak = cpu.peak
cpu.new-thing/op=dot/threads=4 = cpu.new-thing op dot threads 4
disk.io/op=read/pattern=random/block=4K/depth=1/engine=psync/cache=buffered/threads=4 = random read 4 KiB depth 1 ×4 engine psync cache buffered
network.tcp/message=64K/streams=8/direction=up = TCP 64 KiB writes streams 8
";

    #[test]
    fn cases_read_like_words() {
        for (id, words) in LABELS.lines().filter_map(|line| line.split_once(" = ")) {
            assert_eq!(label(&id.parse().unwrap()), words, "{id}");
        }
    }

    #[test]
    fn what_is_said_with_its_name_can_be_said_in_a_heading() {
        let of = |id: &str| named(&id.parse().unwrap());
        let disk = of(
            "disk.io/op=read/pattern=random/block=1K/depth=1/size=64M/threads=2/engine=psync/cache=direct/count=1000/scaling=strong",
        );
        let words: Vec<String> = disk.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(words, ["depth 1", "size 64 MiB", "engine psync", "count 1000", "scaling strong"]);
        let peak = of("cpu.peak/op=fma/type=f64/isa=avx2/threads=2/work=1000000000");
        assert_eq!(peak, [("work", "1e9".to_owned())]);
        assert!(of("memory.bandwidth/op=read/size=64M/variant=best/threads=2").is_empty());
    }

    #[test]
    fn without_a_heading_the_subsystem_is_said_once() {
        assert_eq!(of_id("memory.bandwidth/op=read/size=64M/threads=2"), "memory read 64 MiB ×2");
        assert_eq!(of_id("cpu.peak"), "cpu.peak");
        assert_eq!(of_id("null/threads=2"), "null threads 2");
        assert_eq!(of_id("mpi.barrier"), "MPI barrier");
        let escape = plimsoll_units::text::shown("\u{1b}");
        assert_eq!(of_id("no\u{1b}[31m case"), format!("no{escape}[31m case"));
    }
}
