//! Plans from any command line: written, read back, and refused with positions.

use plimsoll_machine::Machine;
use plimsoll_machine::fixture::Fixture;
use plimsoll_model::plan::write;
use plimsoll_run::Planned;
use proptest::prelude::*;

use super::*;
use crate::cli;

fn machine() -> Machine {
    Fixture::open("firecracker-zen4").unwrap().machine()
}

fn typed(line: &str) -> Result<(Measurable, Box<Common>), clap::Error> {
    match cli::parse(cli::command(), format!("plimsoll {line}").split(' ').map(Into::into))? {
        cli::TypedCommand::Measure { what, common, .. } => Ok((what, common)),
        other => panic!("{other:?} measures nothing"),
    }
}

/// Returns the cases of a command line with their sampling, and the plan file for it.
fn resolved(what: &Measurable, common: &Common, machine: &Machine) -> Option<(Vec<Planned>, String)> {
    let plan = plan(what, common).ok()?;
    let all = planned(&plan, machine).ok()?;
    Some((all, write::text(&plan.file)))
}

#[track_caller]
fn shows_and_reads_back(line: &str, machine: &Machine) -> bool {
    let (what, common) = typed(line).unwrap();
    let Some((cases, text)) = resolved(&what, &common, machine) else { return false };
    let what = Measurable::Text { name: "shown".to_owned(), text: text.clone() };
    let again = plan(&what, &Common::default()).unwrap_or_else(|e| panic!("{line}: {e}\n{text}"));
    let again_cases = planned(&again, machine).unwrap_or_else(|e| panic!("{line}: {e}\n{text}"));
    assert_eq!(again_cases, cases, "{line}\n{text}");
    assert_eq!(write::text(&again.file), text, "it is its own plan file");
    true
}

/// Subsystems, and options with values, between `|`, that their benchmarks know; combinations may
/// be refused.
const FLAGS: [&str; 4] = [
    "cpu op=fma|add|mix|dot type=f64|i8|i32|bf16 isa=best|sse2|avx512 work=1e9|18446744073709551615 \
     scaling=weak|strong threads=1|2|8",
    "memory op=read|write|read-write|copy size=64K|1G|sweep block=8|1K|8M pattern=sequential|random \
     volume=100G|1234567 scaling=strong delay=0ns|0ns,1us",
    "disk op=read|write|mixed|copy block=1|4K|4K@60+64K@40|100M pattern=random|zipf:0.9 depth=1|32 \
     sync=none|every:32 rate=5000|1.5M latency-target=p99=2ms size=1G|1000000007 verify=on|off",
    "network message=1|64K|65507 streams=1|8 direction=up|both protocol=tcp|udp|icmp \
     server=host.example:5001|[::1]:7 omit=1s|1500us timeout=20ms",
];

/// Options of every command; the first two are mutually exclusive.
const COMMON: &str = "samples=3 precision=0.3% budget=90s sample-time=1500us seed=9007199254740991 repeat=3 \
    scale=0.001 against=installed against=fio,stream margin=2% threads=1,4";

prop_compose! {
    fn command_lines()(
        subsystem in 0..FLAGS.len(),
        picks in proptest::collection::vec((0..16_usize, 1..7_usize), 0..4),
        common in proptest::sample::subsequence(COMMON.split(' ').collect::<Vec<_>>(), 0..4),
        only in proptest::option::of(0..4_usize),
    ) -> String {
        let (name, flags) = FLAGS[subsystem].split_once(' ').unwrap();
        let flags: Vec<_> = flags.split(' ').map(|flag| flag.split_once('=').unwrap()).collect();
        let mut words = vec![name.to_owned()];
        let mut used = std::collections::BTreeSet::new();
        for (flag, mask) in picks {
            let (flag, values) = flags[flag % flags.len()];
            let chosen: Vec<&str> =
                values.split('|').enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, v)| v).collect();
            if !chosen.is_empty() && used.insert(flag) {
                words.push(format!("--{flag}={}", chosen.join(",")));
            }
        }
        let is_taken = |option: &&&str| **option != "precision=0.3%" || !common.contains(&"samples=3");
        words.extend(common.iter().filter(is_taken).map(|option| format!("--{option}")));
        if let Some(only) = only {
            let globs = [name.to_owned(), "*/threads=1*".to_owned(), format!("{name}.*"), "memory.block".to_owned()];
            words.push(format!("--only={}", globs[only]));
        }
        words.join(" ")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_shown_plan_has_the_same_cases(line in command_lines()) {
        shows_and_reads_back(&line, &machine());
    }
}

#[test]
fn shown_plans_of_every_kind_have_the_same_cases() {
    let machine = machine();
    let lines = [
        "cpu",
        "memory",
        "disk",
        "network",
        "run quick",
        "run quick --scale 0.01 --repeat 2 --only memory,disk.io",
        "cpu --op add --type i8,i16,i32 --threads 1,2,4 --work 1e12 --scaling strong",
        "memory --only memory.block --block 1K,1M --size 1G --volume 100G --scaling strong --threads 1,2,4",
        "disk --op read,write --block 1M,100M --size 10G --volume 10G --scaling strong --scale 0.001",
        "network --protocol udp --message 65507 --server h:1",
    ];
    for line in lines {
        assert!(shows_and_reads_back(line, &machine), "{line} is right");
    }
    for plan in built_in::BUILT_IN {
        assert!(shows_and_reads_back(&format!("run {}", plan.name), &machine), "{}", plan.name);
    }
}

/// Returns how many cases were requested, or why there are none.
fn described(what: &Measurable, common: &Common) -> String {
    let plan = plan(what, common).map_err(|e| e.to_string());
    let all = plan.and_then(|plan| planned(&plan, &machine()).map_err(|e| e.to_string()));
    all.map(|all| format!("{} cases", all.len())).unwrap_or_else(|why| why)
}

fn description(text: &str) -> String {
    let what = Measurable::Text { name: "p.toml".to_owned(), text: text.to_owned() };
    described(&what, &Common::default())
}

#[test]
fn a_value_that_its_benchmark_refuses_has_a_place() {
    let group = |benchmark: &str, line: &str| {
        description(&format!("[[group]]\nbenchmark = \"{benchmark}\"\n{line}\n"))
    };
    let cases = [
        ("cpu.peak", "op = [\"fma\", \"cbrt\"]", "line 3, column 14: cpu.peak: op"),
        ("cpu.peak", "threads = [1, 0]", "line 3, column 15: cpu.peak: threads must be between 1 and"),
        ("memory.block", "block = [\"8\",\n  \"100\"]", "line 4, column 3: memory.block: block"),
        ("disk.io", "pattern = \"zigzag\"", "line 3, column 11: disk.io: pattern must be one of"),
        ("network.udp", "message = [1, 65536]", "line 3, column 15: network.udp: message"),
        ("memory.block", "scaling = \"strong\"", "line 3, column 11: memory.block: --scaling"),
        ("disk.io", "size = \"sweep\"", "line 3, column 1: disk.io: --size sweep is not supported"),
        ("cpu.peek", "", "line 2, column 13: no benchmark 'cpu.peek'; did you mean 'cpu.peak'?"),
        ("cpu.peak", "depth = 1", "line 3, column 1: depth is not supported on cpu.peak"),
        (
            "cpu.peak",
            "against = [\"fioo\"]",
            "line 3, column 1: against must name reference tools: 'fioo' is not one; did you mean 'fio'?",
        ),
        (
            "cpu.peak",
            "work = 1000\nsample-time = \"1s\"",
            "line 4, column 1: work and sample-time are mutually exclusive",
        ),
    ];
    for (benchmark, line, says) in cases {
        let description = group(benchmark, line);
        assert!(description.starts_with(&format!("plan p.toml, {says}")), "{line}: {description}");
    }
    let top = description("against = \"fioo\"\n[[group]]\nbenchmark = \"cpu.peak\"\n");
    assert!(top.starts_with("plan p.toml, line 1, column 1: against must name reference tools"), "{top}");
}

#[test]
fn excludes_leave_cases_out_and_all_of_them_is_a_mistake() {
    let with = |exclude: &str| {
        description(&format!(
            "[[group]]\nbenchmark = \"cpu.peak\"\nop = [\"fma\", \"add\"]\ntype = [\"f64\", \"f32\"]\nthreads = [1, 2]\n{exclude}\n"
        ))
    };
    assert_eq!(with(""), "8 cases");
    assert_eq!(with("exclude = { op = \"add\", threads = 2 }"), "6 cases");
    assert_eq!(with("exclude = [\"*/type=f32/*\", { op = \"add\" }]"), "2 cases");
    assert_eq!(with("exclude = \"*\""), "the plan's excludes leave no case");
}

#[test]
fn typed_flags_go_before_the_plan_and_groups_before_the_whole() {
    let text = "samples = 7\nprecision = \"2%\"\n[[group]]\nbenchmark = \"null\"\nsamples = 3\nsample-time = \"50ms\"\nbudget = \"10s\"\n\
        [[group]]\nbenchmark = \"cpu.peak\"\nthreads = [1, 2]\nop = \"fma\"\ntype = \"f64\"\nseries = 600\nagainst = \"likwid-bench\"\nbudget = \"10s\"\n";
    let what = Measurable::Text { name: "p".to_owned(), text: text.to_owned() };
    let all = |common: &Common| {
        let plan = plan(&what, common).unwrap();
        planned(&plan, &machine()).unwrap()
    };
    let own = all(&Common::default());
    let first = &own[0].sampling;
    assert_eq!((first.samples, first.sample_time, first.precision), (Some(3), 0.05, 0.02));
    assert_eq!((own[1].sampling.samples, own[1].sampling.sample_time), (Some(600), 0.2));
    assert_eq!(own[1].against, plimsoll_reference::Against::Named(vec!["likwid-bench"]));
    assert_eq!((own[0].budget, own[1].budget, own[2].budget), (Some(10.0), Some(5.0), Some(5.0)));
    let against = vec!["fio".to_owned()];
    let typed = all(&Common { samples: Some(1), scale: Some(0.1), against, ..Common::default() });
    assert!(typed.iter().all(|p| p.sampling.samples == Some(1)));
    assert!(typed.iter().all(|p| p.against == plimsoll_reference::Against::Named(vec!["fio"])));
    let scaled = all(&Common { scale: Some(0.1), ..Common::default() });
    assert_eq!((scaled[0].sampling.samples, scaled[1].sampling.samples), (Some(3), Some(60)));
}

/// A value of each parameter that no default case has; some benchmarks need another one.
const PROBES: &str = "cpu.core-to-core/op=store cpu.crypto/op=sha256 cpu.crypto/block=8K \
    memory.block/op=read-write memory.block/pattern=random memory.block/block=4K memory.numa/op=read \
    memory/op=copy memory/size=1M disk/op=write os.syscall/op=read os.switch/op=futex os.wake/op=exact \
    os.process/op=spawn os.fault/op=mmap os.file/op=stat between=processes distance=cache threshold=20us \
    op=add read-share=40 type=f32 n=500 nb=64 p=1 q=1 isa=portable width=scalar chains=2 pattern=zipf:0.9 \
    size=2G block=8K variant=portable pages=4k layout=shared align=8K chases=2 group=64K node=0 delay=1us \
    depth=3 engine=psync cache=buffered verify=on steady=on sync=each network.udp/rate=1000000 rate=1000 \
    latency-target=p99:2ms arrivals=even protocol=udp message=1000 direction=down streams=2 \
    server=host:7000 omit=1s zerocopy=on discard=on nodelay=on congestion=reno window=64K mss=1000 dscp=8 \
    bind=127.0.0.1 search=lossless mode=poll timeout=500ms interval=10ms load=up threads=2 affinity=0 \
    work=1000000000 volume=1G count=1000 scaling=strong";

fn probe(benchmark: &str, key: &str) -> &'static str {
    let subsystem = subsystem_of(benchmark);
    let names = [format!("{benchmark}/{key}"), format!("{subsystem}/{key}"), key.to_owned()];
    let of = |name: &String| PROBES.split(' ').find_map(|probe| probe.strip_prefix(name)?.strip_prefix('='));
    names.iter().find_map(of).unwrap_or_else(|| panic!("no value to try of {key}"))
}

/// Every accepted parameter, alone or paired with any other, is in a case.
#[test]
fn no_parameter_is_accepted_and_ignored() {
    let machine = machine();
    let mut ignored = Vec::new();
    for benchmark in benchmarks() {
        let keys = benchmark.keys();
        let command = match subsystem_of(benchmark.name()) {
            "null" => continue,
            "mpi" => "network",
            part => part,
        };
        let both = keys.iter().enumerate().flat_map(|(i, one)| keys[i..].iter().map(move |two| (*one, *two)));
        for (one, two) in both {
            let own: Vec<&str> = if one == two { vec![one] } else { vec![one, two] };
            let options = own.iter().map(|key| format!(" --{key}={}", probe(benchmark.name(), key)));
            let line = format!("{command} --only {}{}", benchmark.name(), options.collect::<String>());
            let Ok((what, common)) = typed(&line) else { continue };
            let Some((cases, _)) = resolved(&what, &common, &machine) else { continue };
            for key in own {
                let wanted = probe(benchmark.name(), key);
                let has = |planned: &Planned| {
                    planned.candidate.case.get(key).is_some_and(|value| value.to_string() == wanted)
                };
                if !cases.iter().any(has) {
                    let first = cases[0].candidate.case.to_string();
                    ignored.push(format!("{line}: --{key}={wanted}: {first}"));
                }
            }
        }
    }
    assert!(ignored.is_empty(), "{}", ignored.join("\n"));
}

#[test]
fn what_belongs_to_another_command_is_answered_with_it() {
    let stated = |line: &str| {
        let (what, common) = typed(line).unwrap();
        described(&what, &common)
    };
    let belongs = "--only memory.latency is not supported on plimsoll cpu: it belongs to plimsoll memory; write plimsoll memory --only memory.latency";
    assert_eq!(stated("cpu --only memory.latency"), belongs);
    assert!(stated("cpu --only memory").contains("write plimsoll memory --only memory"));
    assert!(stated("network --only mpi.latency").ends_with(" cases"), "MPI has no command of its own");
    // A glob on its cases also selects a benchmark that does not run by default.
    let all: usize = stated("cpu --only cpu.crypto/*sha*").trim_end_matches(" cases").parse().unwrap();
    assert!(all > 0);
    for (line, start) in [
        ("run disk", "'disk' is a command, not a plan: write plimsoll disk"),
        ("disk --op read --sync each", "disk.io: --sync requires --op write, append"),
        ("disk --op read,write --read-share 50", "disk.io: --read-share requires --op mixed"),
        ("disk --block 1000 --cache direct", "disk.io: --cache direct requires a --block"),
        ("disk --engine mmap --cache direct", "disk.io: --engine mmap requires --cache buffered"),
        ("disk --op append --pattern random", "disk.io: --op append requires --pattern sequential"),
        (
            "os --op getpid",
            "--op: plimsoll os has no operation 'getpid'; did you mean getppid, with --only os.syscall?",
        ),
        ("os --only os.syscall --op getpid", "os.syscall: --op must be one of getppid"),
        ("disk --only disk.io,disk.fsync --depth 4", "--depth is not supported on disk.fsync"),
        ("disk --depth 5000", "disk.io: --depth must be between 1 and 1024: 5000 is not"),
        ("cpu --n 1000", "--n requires a benchmark that takes it: --only cpu.gemm"),
        ("cpu --n 1000 --chains 2", "--chains and --n are mutually exclusive: "),
        ("cpu --threads 0x", "--threads must be a whole number such as"),
    ] {
        let why = stated(line);
        assert!(why.starts_with(start), "{line}: {why}");
    }
    assert!(stated("disk --block 1000").ends_with(" cases"), "through the page cache");
    assert!(stated("disk --block 1000 --cache buffered").ends_with(" cases"));
    assert!(stated("disk --engine mmap,psync --cache direct").ends_with(" cases"), "some can be");
    // A typed default is not refused.
    assert!(stated("memory --only memory.latency --pages thp --group 256K").ends_with(" cases"));
    let range = stated("disk --depth 1..9");
    assert!(range.ends_with("ranges are not supported: list the values, as in 1,2,3,4,5,6,7,8,9"), "{range}");
    assert!(stated("disk --threads 2..32").ends_with("as in 2,4,8,16,32"));
    assert!(stated("cpu --only peak,nothing").ends_with("did you mean cpu.peak?"));
    assert!(stated("disk --block 4k-64k").ends_with("as in 4k,64k"));
    assert!(stated("disk --depth 1-x").ends_with("is not a whole number"));
    assert!(stated("disk --block 4K@60").ends_with("'4K@60' has a weight and only one size"));
}
