//! Options and words of other tools with their equivalents in plimsoll. They are only answered, not
//! accepted, as their meaning is not always the same.

use plimsoll_units::text::shell_quoted;

use super::order::CommandLine;

/// Another tool, its options as typed (divided by blanks), what it is here, and an example, to
/// whose command the row applies. A typed word that ends in `=` or `/` is a prefix, one that begins
/// with `.` a suffix.
type OptionRow = (&'static str, &'static str, &'static str, &'static str);

/// Returns the plimsoll command in the example of `row`, its first word.
fn command_of(row: &OptionRow) -> &'static str {
    row.3.split(' ').next().unwrap_or_default()
}

/// Options by the manuals of fio 3.33, iperf3 3.12, sysbench 1.0, stress-ng, likwid-bench and more.
const OTHER_TOOLS_OPTIONS: &[OptionRow] = &[
    ("fio", "--rw --readwrite", "--op and --pattern", "disk --op read --pattern random"),
    ("fio", "--rwmixread", "--read-share", "disk --op mixed --read-share 70"),
    ("fio", "--rwmixwrite", "--read-share, the percentage of reads", "disk --op mixed --read-share 70"),
    ("fio", "--bs --blocksize --block-size", "--block", "disk --block 4K"),
    ("fio", "--bsrange", "--block with shares", "disk --only disk.io --block 4K@50+64K@50"),
    ("fio", "--bssplit", "--block with shares", "disk --only disk.io --block 4K@60+64K@40"),
    ("fio", "--iodepth", "--depth", "disk --depth 32"),
    ("fio", "--numjobs", "--threads", "disk --threads 4"),
    ("fio", "--runtime --time_based", "--samples and --sample-time", "disk --samples 30 --sample-time 1s"),
    ("fio", "--ioengine", "--engine", "disk --engine libaio"),
    ("fio", "--hipri", "--engine io_uring+iopoll", "disk --engine io_uring+iopoll"),
    ("fio", "--sqthread_poll", "--engine io_uring+sqpoll", "disk --engine io_uring+sqpoll"),
    ("fio", "--direct", "--cache: direct for 1, buffered for 0", "disk --cache direct"),
    ("fio", "--buffered", "--cache: buffered for 1, direct for 0", "disk --cache buffered"),
    ("fio", "--invalidate", "--cache", "disk --cache cold"),
    ("fio", "--rate_iops", "--rate, which is that of all threads", "disk --rate 2000"),
    ("fio", "--latency_target", "--latency-target", "disk --latency-target p99=500us"),
    ("fio", "--fsync", "--sync", "disk --op write --sync fsync:32"),
    ("fio", "--fdatasync", "--sync", "disk --op write --sync every:32"),
    ("fio", "--end_fsync --fsync_on_close", "--sync", "disk --op write --sync fsync-end"),
    ("fio", "--filename", "--dir, or --target for a device", "disk --dir /mnt"),
    ("fio", "--directory", "--dir", "disk --dir /mnt"),
    ("fio", "--filesize", "--size", "disk --size 1G"),
    ("fio", "--io_size --io_limit", "--volume", "disk --volume 1G"),
    ("fio", "--number_ios", "--count", "disk --count 10000"),
    ("fio", "--loops", "--repeat", "disk --repeat 3"),
    ("fio", "--random_distribution", "--pattern", "disk --pattern zipf:0.9"),
    ("fio", "--steadystate --ss", "--steady", "disk --steady"),
    ("fio", "--randseed --randrepeat", "--seed", "disk --seed 1"),
    ("fio", "--thinktime", "--rate", "disk --rate 2000"),
    ("fio", "--output-format", "--json", "disk --json FILE"),
    ("fio", "--write_lat_log --write_bw_log --write_iops_log", "--events", "disk --events FILE"),
    ("iperf3", "-c --client", "--server", "network --server HOST"),
    (
        "iperf3",
        "-p --port",
        "the port of --server (that of iperf3 -s: --server iperf3://HOST:PORT)",
        "network --server HOST:7546",
    ),
    ("iperf3", "-p", "--port", "serve --port 5201"),
    ("iperf3", "-s", "a command of its own", "serve"),
    ("iperf3", "-P --parallel", "--streams", "network --streams 4"),
    ("iperf3", "-t", "--samples and --sample-time", "network --samples 10 --sample-time 1s"),
    ("iperf3", "-n", "--volume", "network --only network.tcp --volume 1G"),
    ("iperf3", "-k --blockcount", "--count", "network --only network.tcp --count 10000"),
    ("iperf3", "-R --reverse", "--direction", "network --direction down"),
    ("iperf3", "--bidir", "--direction", "network --only network.tcp --direction both"),
    ("iperf3", "-u --udp", "a benchmark of its own", "network --only network.udp"),
    (
        "iperf3",
        "-b --bitrate --bandwidth",
        "--rate, which is that of all streams",
        "network --only network.udp --rate 100M",
    ),
    ("iperf3", "-l --length --len", "--message", "network --message 1400"),
    ("iperf3", "-w", "--window", "network --only network.tcp --window 4M"),
    ("iperf3", "-M --set-mss", "--mss", "network --only network.tcp --mss 1400"),
    ("iperf3", "-C", "--congestion", "network --only network.tcp --congestion bbr"),
    ("iperf3", "-N --no-delay", "--nodelay", "network --only network.tcp --nodelay"),
    ("iperf3", "-Z", "--zerocopy", "network --only network.tcp --zerocopy"),
    ("iperf3", "--skip-rx-copy", "--discard", "network --only network.tcp --discard"),
    ("iperf3", "-O", "--omit", "network --only network.tcp --omit 2s"),
    ("iperf3", "-B", "--bind", "network --bind 127.0.0.1"),
    ("iperf3", "-S --tos", "--dscp, a fourth of the value", "network --only network.tcp --dscp 8"),
    ("iperf", "-d", "--direction", "network --only network.tcp --direction both"),
    ("iperf3", "-A", "--affinity", "network --affinity 0,1"),
    ("iperf3", "-i", "--sample-time, the time of one figure", "network --sample-time 1s"),
    ("iperf3", "-J", "--json", "network --json FILE"),
    ("iperf3", "--logfile", "--events", "network --events FILE"),
    ("sysbench", "--memory-block-size", "--block", "memory --only memory.block --block 4K"),
    ("sysbench", "--memory-total-size", "--volume", "memory --only memory.block --volume 10G"),
    ("sysbench", "--memory-oper", "--op, read or write", "memory --op read"),
    ("sysbench", "--memory-access-mode", "--pattern", "memory --only memory.block --pattern random"),
    (
        "sysbench",
        "--memory-scope",
        "--layout: private for local, shared for global",
        "memory --layout private",
    ),
    ("sysbench", "--report-interval", "--events", "run --events FILE"),
    ("sysbench", "--file-block-size", "--block", "disk --block 16K"),
    ("sysbench", "--file-total-size", "--size", "disk --size 1G"),
    ("sysbench", "--file-test-mode", "--op and --pattern", "disk --op read --pattern random"),
    ("sysbench", "fileio", "a command", "disk"),
    ("sysbench", "sysbench", "a command for each part of the machine", "cpu"),
    ("stress-ng", "stress-ng", "a command for each part of the machine", "cpu"),
    ("fio", "fio", "a command", "disk"),
    ("iperf3", "iperf3 iperf client", "a command", "network --server HOST"),
    ("sysbench", "--file-extra-flags", "--cache", "disk --cache direct"),
    ("sysbench", "--file-fsync-freq", "--sync", "disk --op write --sync fsync:100"),
    ("stress-ng", "--cpu", "a command", "cpu --threads 4"),
    ("taskset", "--cpu", "--affinity", "os --affinity 0"),
    ("stress-ng", "--cpu-method", "--op, or a benchmark", "cpu --only cpu.gemm"),
    ("stress-ng", "--matrix", "a benchmark", "cpu --only cpu.gemm"),
    ("stress-ng", "--vm", "a command", "memory --threads 4"),
    ("stress-ng", "--vm-bytes", "--size", "memory --size 1G"),
    ("stress-ng", "--stream", "a benchmark", "memory --only memory.bandwidth"),
    ("stress-ng", "--hdd", "a command", "disk --op write --threads 4"),
    (
        "STREAM",
        "--array-size -D STREAM_ARRAY_SIZE= -DSTREAM_ARRAY_SIZE=",
        "--size, the bytes of all three arrays for each thread: 24 for each element of the array, divided by the threads",
        "memory --op triad --size 1G",
    ),
    ("STREAM", "stream", "a benchmark", "memory --only memory.bandwidth"),
    ("likwid-bench", "likwid-bench", "a benchmark", "memory --only memory.bandwidth"),
    ("STREAM", "--ntimes NTIMES=", "--samples", "memory --samples 10"),
    ("likwid-bench and lmbench", "-w -s", "--size", "memory --size 1G"),
    ("likwid-bench", "-t", "--op, which is read for load and write for store", "memory --op triad"),
    ("likwid-bench", "-W", "--size and --threads", "memory --size 1G --threads 4"),
    ("mbw", "-n", "--samples", "memory --samples 10"),
    ("iperf3 and stress-ng", "-t", "--samples and --sample-time", "run --samples 10 --sample-time 1s"),
    ("ping", "--ping", "a benchmark", "network --only network.latency --protocol icmp --server HOST"),
    ("dd", "dd", "a command", "disk"),
    ("dd", "bs=", "--block", "disk --block 1M"),
    ("dd", "count=", "--count", "disk --count 10000"),
    (
        "dd",
        "if=/dev/zero if=/dev/urandom of=",
        "--op write with --dir, or --target for a device",
        "disk --op write --pattern sequential --block 1M --count 100 --depth 1 --dir /mnt",
    ),
    (
        "dd",
        "if=",
        "--op read with --dir, or --target for a device",
        "disk --op read --pattern sequential --block 1M --count 100 --depth 1 --dir /mnt",
    ),
    ("dd", "oflag= iflag= --oflag --iflag", "--cache", "disk --cache direct"),
    ("dd", "conv=", "--sync", "disk --op write --sync end"),
    ("other tools", "/dev/", "--target", "disk --target DEVICE"),
    ("fio", ".fio .job", "a plan", "run FILE"),
    ("kubectl", "-f", "the name of a plan file in TOML", "run FILE"),
    ("hyperfine", "--export-json", "--json", "run --json FILE"),
    ("hyperfine", "-r", "--samples", "run --samples 10"),
    ("iozone", "-r", "--block", "disk --block 4K"),
    ("other tools", "--format", "--json, --html or plimsoll export", "run --json FILE"),
    ("other tools", "--format", "--json", "machine --json"),
    ("other tools", "--csv", "--format", "export last --format csv"),
    ("plimsoll run", "--json", "--format and --output", "gate --format json --output FILE"),
    ("plimsoll export", "--output", "--json", "run --json FILE"),
    ("plimsoll export", "--output -o", "a directory", "site DIR"),
    ("other tools", "list", "--list for cases, plan list for plans, history list for runs", "run --list"),
    ("plimsoll run", "--json", "--output", "steady --output FILE -- COMMAND"),
    ("likwid-bench", "-t", "--op and --isa", "cpu --op fma --isa avx512"),
    ("numactl", "--membind --cpunodebind", "--node", "memory --node 0"),
    ("other tools", "--numa", "--node, or memory.numa for all pairs of nodes", "memory --node 0"),
    ("Intel MLC", "--loaded_latency --loaded-latency", "a benchmark", "memory --only memory.loaded-latency"),
    ("Intel MLC", "--latency_matrix --bandwidth_matrix", "a benchmark", "memory --only memory.numa"),
    ("Intel MLC", "--idle_latency", "a benchmark", "memory --only memory.latency"),
    (
        "Intel MLC",
        "--max_bandwidth --peak_injection_bandwidth",
        "a benchmark",
        "memory --only memory.bandwidth",
    ),
    ("stress-ng", "--memrate", "a benchmark", "memory --only memory.bandwidth"),
    ("stress-ng", "--crypt", "a benchmark", "cpu --only cpu.crypto"),
    ("taskset", "--taskset --cpu-list --pin", "--affinity", "cpu --affinity 0,1"),
    ("other tools", "--cores --cpus", "--threads, or --affinity to choose CPUs", "cpu --threads 4"),
    ("other tools", "--quick", "a plan", "run quick"),
    ("other tools", "--benchmark --bench", "--only", "run --only disk.io"),
    ("other tools", "--time --duration --timeout --seconds", "--budget", "run --budget 60s"),
    ("other tools", "--single-thread", "--threads", "cpu --threads 1"),
    ("other tools", "--host", "--server", "network --server HOST"),
    ("other tools", "--host", "--bind", "serve --bind 0.0.0.0"),
    ("other tools", "--host", "--hosts, or --server for the network to it", "run --hosts HOST"),
    ("cyclictest", "-t", "--threads", "os --threads 4"),
    ("cyclictest", "cyclictest --cyclictest", "a benchmark", "os --only os.wake"),
    ("cyclictest", "-p --priority --prio --policy", "--op fifo", "os --only os.wake --op fifo"),
    ("lmbench", "lat_ctx lat_pipe", "a benchmark", "os --only os.switch"),
    ("lmbench", "lat_proc", "a benchmark", "os --only os.process"),
    ("lmbench", "lat_syscall", "a benchmark", "os --only os.syscall"),
    ("lmbench", "lat_mem_rd", "a benchmark", "memory --only memory.latency"),
    ("lmbench", "bw_mem", "a benchmark", "memory --only memory.bandwidth"),
    ("perf stat and hyperfine", "-r -n --min-runs", "--repeat", "steady --repeat 10 -- make"),
    ("hyperfine", "--export-json", "--output", "steady --output FILE -- COMMAND"),
    ("other tools", "--bytes", "--volume", "network --only network.tcp --volume 1G"),
    ("ioping", "-c", "--samples", "disk --samples 10 --sample-time 1s"),
    ("hyperfine", "-L --parameter-list --parameter-scan -P", "a list of values", "run --threads 1,2,4"),
    ("hyperfine", "--export-markdown --export-csv", "a command", "export last --format markdown"),
    ("other tools", "--no-store --no-history", "--store none", "run --store none"),
    ("other tools", "--color --colour", "--no-color", "run --no-color"),
    ("other tools", "--hugepages", "--pages", "memory --pages thp"),
    ("other tools", "--skip --exclude", "--only with the others", "run --only cpu,memory"),
    ("watch(1)", "-n --interval", "--every", "watch --every 5m"),
    ("other tools", "--threshold", "--fail-on", "compare last~1 last --fail-on 5%"),
    ("other tools", "--threshold", "--loss", "gate --loss 5%"),
    ("other tools", "--nagios", "--format nagios", "gate --format nagios"),
    ("plimsoll steady", "--baseline", "the run before", "compare last~1 last"),
    ("other tools", "--new", "a command", "key new FILE"),
    ("other tools", "--tool", "--against", "run --against fio"),
    ("other tools", "--tool", "--format with the name of the tool", "check FILE --format fio"),
];

/// Options of other tools without an equivalent: tool, options, command, and why.
const NOT_NEEDED: &[(&str, &str, &str, &str)] = &[
    ("fio", "--name", "disk", "the parameters of a case are its name"),
    ("fio", "--ramp_time", "disk", "each case warms up before its samples"),
    ("fio", "--group_reporting", "disk", "the threads of a case are always reported together"),
    (
        "fio",
        "--percentile_list --lat_percentiles --clat_percentiles",
        "disk",
        "the document (--json) has all percentiles",
    ),
    ("fio", "--cpus_allowed --cpus-allowed", "disk", "its threads are not pinned"),
    ("iperf3", "--cport", "network", "the kernel chooses the client's port"),
    ("iperf3", "--fq-rate", "network", "network.udp alone has a target rate, --rate"),
    ("lmbench", "--stride -stride", "memory", "memory.latency visits cache lines in random order"),
    ("other tools", "--timeout --time --duration --quick", "gate", "the shortest, --level 1, is the default"),
    ("fio", "--norandommap --iodepth_batch --iodepth_batch_submit --nrfiles", "disk", ""),
    ("sysbench", "--cpu-max-prime", "cpu", "plimsoll cpu alone measures arithmetic, not prime numbers"),
    ("sysbench", "--file-num", "disk", "there is one test file"),
    ("other tools", "hyperfine perf", "", "plimsoll measures its own benchmarks, not commands"),
    ("perf", "-e", "", "plimsoll chooses the counters"),
    ("iperf3", "-D --daemon", "serve", "packaging/plimsoll-serve.service starts it in the background"),
    ("other tools", "--keep --keep-last", "history prune", "tag the runs to keep, and use --keep-tagged"),
    (
        "plimsoll report",
        "--html",
        "site",
        "site writes pages in DIR; plimsoll report RUN --html FILE writes one",
    ),
    ("other tools", "--fix --apply", "doctor", "it names each setting to change, and changes none"),
    ("other tools", "completions completion", "", "packages and make install bring them along"),
    ("other tools", "--pdf", "report", "print the page of --html FILE from a browser"),
    ("hyperfine", "--warmup", "steady", "run the command once before"),
    ("plimsoll run", "--json", "report", "write plimsoll export RUN --format json"),
    ("plimsoll run", "--dry-run --list", "gate", "write plimsoll gate --explain"),
    ("plimsoll run", "--dry-run --list", "watch", "write plimsoll run watch --dry-run"),
    ("plimsoll run", "--dry-run --list", "doctor", "--rounds 0 measures nothing"),
    ("plimsoll run", "--list", "references", "the command alone lists them"),
    (
        "plimsoll report",
        "--explain",
        "compare",
        "compare --all shows every metric, plimsoll report RUN --explain explains a run",
    ),
    ("plimsoll report", "--html", "machine", "plimsoll report RUN --html FILE has the machine of a run"),
    (
        "plimsoll export",
        "--format",
        "import",
        "it enters run documents; write plimsoll export RUN --format csv",
    ),
    ("plimsoll run", "--only", "compare", "compare takes all cases that the runs have in common"),
    ("other tools", "--all", "history delete", "plimsoll history prune deletes all runs before a time"),
    ("sysbench", "run prepare cleanup", "", "the command alone measures"),
    ("stress-ng", "--metrics --metrics-brief", "", "figures are always printed"),
    ("hyperfine", "-w", "run", "each case warms up before its samples"),
    ("hyperfine", "--warmup", "", "each case warms up before its samples"),
    ("iperf3", "-4 -6 --version4 --version6", "network", "the address of --server decides"),
    ("iperf3", "-V --verbose --get-server-output", "network", "--json has all figures of both ends"),
    ("iperf3", "-f", "network", "units follow the size of the figure"),
];

/// Options of many tools, with their equivalents in commands that have them.
const COMMON_OPTIONS: &[(&[&str], &str, &str)] = &[
    (&["--numjobs", "--num-threads", "--nthreads", "--jobs", "-j", "-T"], "--threads", "4"),
    (&["--numjobs", "--num-threads", "--nthreads", "--jobs", "-j", "-T"], "--streams", "4"),
    (&["--json"], "--format", "json"),
    (&["--runs", "--iterations", "--repeat", "--samples"], "--rounds", "3"),
    (&["-i", "--iter", "--iterations", "--runs", "--min-runs", "--repetitions"], "--samples", "10"),
    (&["--time", "--runtime", "--duration", "--timeout", "--seconds"], "--samples", "10 --sample-time 1s"),
    (&["--runs", "--iterations"], "--repeat", "10"),
    (&["--reference", "--references", "--with-references", "--with", "--tools"], "--against", "installed"),
    (&["-f"], "--format", "FORMAT"),
    (&["--older-than", "--before", "--age", "--days"], "--older", "30d"),
    (&["--hours", "--duration", "--time", "--seconds", "--budget"], "--for", "2h"),
    (&["--interval"], "--every", "5m"),
    (&["--output", "-o"], "--json", "FILE"),
    (&["--output", "-o"], "--html", "FILE (plimsoll export writes other formats)"),
];

/// Values of other tools for an option with the same name here: option, values, what to write.
const VALUES: &[(&str, &[&str], &str)] = &[
    ("--op", &["rw", "readwrite"], "--op mixed"),
    ("--op", &["randread", "rndrd"], "--op read --pattern random"),
    ("--op", &["randwrite", "rndwr"], "--op write --pattern random"),
    ("--op", &["randrw", "rndrw"], "--op mixed --pattern random"),
    ("--op", &["randtrim"], "--op trim --pattern random"),
    ("--op", &["seqrd"], "--op read --pattern sequential"),
    ("--op", &["seqwr", "seqrewr"], "--op write --pattern sequential"),
    ("--op", &["gemm", "dgemm", "sgemm"], "--only cpu.gemm"),
    ("--op", &["aes", "sha", "crypto"], "--only cpu.crypto"),
    ("--store", &["None", "NONE", "no", "off"], "--store none"),
    ("--op", &["fsync"], "--only disk.fsync"),
    ("--threads", &["all"], "--threads $(nproc)"),
    ("--op", &["Copy"], "--op copy"),
    ("--op", &["Scale"], "--op scale"),
    ("--op", &["Add"], "--op add"),
    ("--op", &["Triad"], "--op triad"),
    ("--type", &["double", "fp64", "float64"], "--type f64"),
    ("--type", &["float", "single", "fp32", "float32"], "--type f32"),
    ("--type", &["half", "fp16", "float16"], "--type f16"),
    ("--type", &["bfloat16"], "--type bf16"),
    ("--type", &["long", "int64"], "--type i64"),
    ("--type", &["int", "int32"], "--type i32"),
    ("--type", &["short", "int16"], "--type i16"),
    ("--type", &["char", "int8"], "--type i8"),
    ("--isa", &["avx-512", "avx512f"], "--isa avx512"),
    ("--isa", &["sse"], "--isa sse2"),
    ("--affinity", &["scatter"], "--affinity spread"),
    ("--affinity", &["close"], "--affinity compact"),
    ("--pages", &["huge", "hugepages"], "--pages thp"),
    ("--pages", &["hugetlb"], "--pages 2m"),
    ("--pattern", &["rand", "rnd"], "--pattern random"),
    ("--pattern", &["seq", "linear"], "--pattern sequential"),
    ("--pattern", &["zipf=0.9", "zipf:"], "--pattern zipf:0.9"),
    ("--cache", &["none", "off", "o_direct"], "--cache direct"),
    ("--sync", &["fsync"], "--sync fsync:1"),
    ("--sync", &["fdatasync"], "--sync every:1"),
    ("--sync", &["dsync", "o_dsync"], "--sync each"),
    ("--direction", &["send", "upload", "tx"], "--direction up"),
    ("--direction", &["receive", "recv", "download", "rx", "reverse"], "--direction down"),
    ("--direction", &["bidir", "bidirectional"], "--direction both"),
    ("--protocol", &["ping"], "--protocol icmp"),
    ("--dscp", &["ef", "EF"], "--dscp 46"),
    ("--dscp", &["cs1", "CS1"], "--dscp 8"),
    ("--engine", &["uring", "io-uring", "iouring"], "--engine io_uring"),
    ("--engine", &["aio", "linuxaio", "posixaio"], "--engine libaio"),
    ("--engine", &["sync", "pvsync", "pvsync2", "vsync"], "--engine psync"),
    ("--format", &["prometheus"], "--format openmetrics"),
    ("--format", &["md"], "--format markdown"),
    ("--verify", &["crc32c", "crc32", "crc64", "crc16", "md5", "sha1", "sha256", "xxhash"], "--verify"),
];

fn is(known: &str, typed: &str) -> bool {
    match known {
        known if known.ends_with(['=', '/']) => typed.len() > known.len() && typed.starts_with(known),
        known if known.starts_with('.') => typed.len() > known.len() && typed.ends_with(known),
        known => known == typed,
    }
}

/// Returns what to write instead of another tool's option or word that `command` (`history show`;
/// empty for the program) lacks; `None` if unknown. `has` is whether `command` has an option.
pub(super) fn answer(typed: &str, command: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let shown = plimsoll_units::text::shown_within(typed, 40);
    let what = if typed.starts_with('-') { "an option" } else { "a word" };
    let is_not_needed = |(_, words, of, _): &&(&str, &str, &str, &str)| {
        words.split(' ').any(|word| word == typed) && (*of == command || of.is_empty() && measures(command))
    };
    if let Some((tool, _, _, why)) = NOT_NEEDED.iter().find(is_not_needed) {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        return Some(format!("{shown} is {what} of {tool}, which has no equivalent here{why}"));
    }
    let usual = COMMON_OPTIONS.iter().find(|(names, here, _)| names.contains(&typed) && has(here));
    // An option of this command is meant before those of other commands, also if it lacks its s.
    let is_nearer =
        |row: &&OptionRow| command_of(row) == command || usual.is_none() && !has(&format!("{typed}s"));
    if let Some((tool, _, here, example)) = equivalent(typed, command).filter(is_nearer) {
        return Some(format!("{shown} is {what} of {tool}: here it is {here}, as in plimsoll {example}"));
    }
    usual.map(|(_, here, value)| {
        let command = if command.is_empty() { String::new() } else { format!(" {command}") };
        format!("{shown} is not an option of plimsoll{command}: here it is {here}, as in {here} {value}")
    })
}

/// Returns the row for another tool's option `typed`: for `command`, else, if `command` measures,
/// for another command. A short option counts only if its tool has rows for `command`.
fn equivalent(typed: &str, command: &str) -> Option<&'static OptionRow> {
    let rows = || OTHER_TOOLS_OPTIONS.iter().filter(|row| row.1.split(' ').any(|known| is(known, typed)));
    let is_short = typed.starts_with('-') && !typed.starts_with("--");
    let has_tool =
        |tool: &str| OTHER_TOOLS_OPTIONS.iter().any(|other| other.0 == tool && command_of(other) == command);
    rows().find(|row| command_of(row) == command).or_else(|| {
        let elsewhere = |row: &&OptionRow| match is_short {
            true => has_tool(row.0) || command.is_empty() && row.0 == "iperf3",
            false => measures(command) || command.is_empty(),
        };
        rows().find(elsewhere)
    })
}

/// Returns whether `command` measures: `run` or a subsystem.
pub(super) fn measures(command: &str) -> bool {
    command == "run" || plimsoll_bench::commands().any(|name| name == command)
}

/// Returns another tool's long option for `command` of which `typed` is a misspelling (`is_slip`).
pub(super) fn slip(typed: &str, command: &str, is_slip: impl Fn(&str, &str) -> bool) -> Option<&'static str> {
    let of_command = OTHER_TOOLS_OPTIONS.iter().filter(|row| command_of(row) == command);
    let long = of_command.flat_map(|row| row.1.split(' ')).filter(|known| known.starts_with("--"));
    let bare = typed.trim_start_matches('-');
    long.into_iter().find(|known| is_slip(bare, known.trim_start_matches('-')))
}

/// Returns what to write instead of `typed`, another tool's value of `option`; else `None`.
pub(crate) fn value(option: &str, typed: &str) -> Option<&'static str> {
    let row = VALUES.iter().find(|(known, values, _)| *known == option && values.contains(&typed));
    row.map(|(.., here)| *here)
}

/// Returns the message for a command line of fio with a job file, or of iperf3 with `-s`.
pub(super) fn job_or_server(words: &[&str]) -> Option<String> {
    let (tool, rest) = words.split_first()?;
    let here = match *tool {
        "fio" => format!("run {}", shell_quoted(rest.iter().find(|word| word.ends_with(".fio"))?)),
        "iperf3" | "iperf" if rest.contains(&"-s") => "serve".to_owned(),
        _ => return None,
    };
    Some(format!("{tool} is another tool: write plimsoll {here}"))
}

/// Returns the message for an option of fio whose value decides what it is here; else `None`.
pub(super) fn value_of_fio(option: &str, order: &CommandLine<'_>) -> Option<String> {
    let place = order.after.iter().position(|word| word.split('=').next() == Some(option))?;
    let typed = match order.after.get(place)?.split_once('=') {
        Some((_, value)) => value,
        None => order.after.get(place + 1)?,
    };
    let every = || typed.parse::<u32>().ok().filter(|n| *n > 0);
    let (here, example) = match option {
        "--rw" | "--readwrite" => ("--op and --pattern", value("--op", typed)?.to_owned()),
        "--fsync" => ("--sync", format!("--op write --sync fsync:{}", every()?)),
        "--fdatasync" => ("--sync", format!("--op write --sync every:{}", every()?)),
        "--direct" if typed == "0" => ("--cache", "--cache buffered".to_owned()),
        "--buffered" if typed == "0" => ("--cache", "--cache direct".to_owned()),
        // likwid-bench's -t is a kernel, which is no number.
        "-t" => {
            let (subsystem, threads) = (plimsoll_bench::subsystem(order.after.first()?)?, every()?);
            return subsystem.instead_of_threads.is_none().then(|| {
                format!("-t is not an option of plimsoll {}: here it is --threads {threads}", subsystem.name)
            });
        }
        _ => return None,
    };
    Some(format!("{option} is an option of fio: here it is {here}, as in plimsoll disk {example}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use plimsoll_machine::fixture::Fixture;

    use super::*;
    use crate::cli::mistakes::tests::refused;
    use crate::{cli, resolve};

    /// Returns why parsing or resolving a line fails; cases are created as for a run.
    fn refused_in_all(line: &str) -> Option<String> {
        let Ok(typed) = cli::parse(cli::command(), line.split_whitespace().map(OsString::from)) else {
            return refused(line);
        };
        let cli::TypedCommand::Measure { what, common, .. } = typed else { return None };
        if line.ends_with("run FILE") {
            return None;
        }
        let machine = Fixture::open("firecracker-zen4").unwrap().machine();
        let planned = resolve::plan(&what, &common).map_err(|e| e.to_string());
        planned.and_then(|plan| resolve::planned(&plan, &machine).map_err(|e| e.to_string())).err()
    }

    #[test]
    fn each_row_is_answered_with_a_line_that_is_accepted() {
        for (_, typed, here, example) in OTHER_TOOLS_OPTIONS {
            assert_eq!(refused_in_all(&format!("plimsoll {example}")), None, "{example}");
            let command = example.split(' ').next().unwrap();
            for word in typed.split(' ') {
                let word = match word {
                    word if word.starts_with('.') => format!("x{word}"),
                    word if word.ends_with(['=', '/']) => format!("{word}x"),
                    word => word.to_owned(),
                };
                let command = if word.starts_with('-') { command } else { "" };
                let line = format!("plimsoll {command} {word}");
                let why = refused(&line).unwrap_or_else(|| panic!("{line} is accepted"));
                assert!(why.contains(here) && why.contains(" as in plimsoll "), "{line}: {why}");
            }
        }
    }

    #[test]
    fn an_option_of_many_tools_is_answered_where_the_command_has_it() {
        for (line, here) in [
            ("memory -j 4", "--threads 4"),
            ("network --nthreads 4", "--streams 4"),
            ("cpu --runs=5", "--samples 10"),
            ("cpu --time 5", "--samples 10 --sample-time 1s"),
            ("report last -o x", "--html FILE (plimsoll export writes other formats)"),
        ] {
            let why = refused(&format!("plimsoll {line}")).unwrap();
            assert!(why.ends_with(&format!("as in {here}")), "{line}: {why}");
        }
        for line in ["history --runs 5", "key new --threads 2", "machine --bs 4k", "cpu -t 4"] {
            let why = refused(&format!("plimsoll {line}")).unwrap();
            assert!(!why.contains("as in"), "{line}: {why}");
        }
    }

    #[test]
    fn a_value_of_another_tool_is_answered_with_the_option_to_write() {
        for (option, values, here) in VALUES {
            let commands = ["disk", "memory", "cpu", "network", "export last"];
            let takes = |command: &&str| refused(&format!("plimsoll {command} {here}")).is_none();
            let command = commands.into_iter().find(takes).unwrap_or_else(|| panic!("{here} is refused"));
            for value in *values {
                let why = refused(&format!("plimsoll {command} {option}={value}")).unwrap();
                assert!(why.ends_with(&format!("write {here}")), "{option} {value}: {why}");
            }
        }
    }
}
