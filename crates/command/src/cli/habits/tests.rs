use std::sync::LazyLock;

use super::hints::HINTS;
use super::table::{HABITS, Takes};
use super::*;
use crate::machine::fixture::Fixture;
use crate::{bench, cli, resolve};

/// Made once: it is parsed with some thousand times.
static ROOT: LazyLock<Command> = LazyLock::new(cli::command);

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn said(line: &str) -> String {
    answer(&Line::read(&ROOT, &words(line))).unwrap_or_default()
}

/// What is wrong with a line, as it is printed.
fn refused(line: &str) -> Option<String> {
    cli::parse(ROOT.clone(), words(line)).err().map(|error| cli::one_line(&error))
}

#[test]
fn a_command_of_fio_is_answered_with_the_line_to_type() {
    assert_eq!(
        said("plimsoll disk --rw randread --bs 4k --iodepth=32 --numjobs 4 --runtime 10s --rate_iops 500"),
        "--rw --bs --iodepth --numjobs --runtime --rate_iops are options of fio: write plimsoll disk --op read --pattern random \
         --block 4k --depth 32 --threads 4 --samples 10 --sample-time 1s --rate 2000"
    );
    let of = |line: &str| said(&format!("plimsoll disk {line}"));
    assert_eq!(
        of("--filename=/dev/sdb"),
        "--filename is an option of fio: write plimsoll disk --target /dev/sdb"
    );
    assert!(of("--filename=/$x/f").ends_with("--dir '/$x'"));
    assert_eq!(of("--filename=/mnt/x"), "--filename is an option of fio: write plimsoll disk --dir /mnt");
    let five = of("--runtime=5m --name a");
    assert!(five.contains("--samples 300 --sample-time 1s; --name is not needed"), "{five}");
    assert!(of("--bssplit=4k/60:64k/40").ends_with("--block 4k@60+64k@40"));
    assert!(of("--rwmixwrite=30").ends_with("--read-share 70"));
    let target = of("--latency_target=500 --latency_percentile=99.9");
    assert!(target.ends_with("write plimsoll disk --latency-target p99.9=500us"), "{target}");
    assert!(of("--rw=write --verify=crc32c --sync=1").ends_with("sequential --verify --sync each"));
    assert!(of("--rw=read --sync=1").ends_with("sequential; --sync is not needed: reads write nothing"));
    assert!(of("--rw=trim --fsync=1").ends_with("sequential; --fsync is not needed: trims write nothing"));
}

#[test]
fn a_command_of_iperf3_is_answered_with_the_line_to_type() {
    assert_eq!(
        said("plimsoll network -c db1 -P4 -t 10 -R -u -b 100M"),
        "-c -P -t -R -u -b are options of iperf3: write plimsoll network --server db1 --only network.udp --streams 4 --samples 10 \
         --sample-time 1s --direction down --rate 400M (to an iperf3 server: --server iperf3://HOST) (--rate is the sum of all streams)"
    );
    let long = said(
        "plimsoll network --client db1 --port 5201 --parallel 4 --time 10 --reverse --udp --bandwidth 1M --length 1400 --omit 2 --zerocopy --set-mss 900 --tos 0x20",
    );
    assert!(long.contains(
        "write plimsoll network --server db1:5201 --only network.udp --streams 4 --samples 10 --sample-time 1s --direction down \
         --rate 4M --message 1400 (to"
    ), "{long}");
    assert!(
        long.ends_with("; --omit --zerocopy --set-mss --tos are not supported with UDP: leave them out"),
        "{long}"
    );
    let tcp = said("plimsoll network -c db1 --omit 2 --zerocopy --set-mss 900 --tos 0x20");
    assert!(tcp.contains("--only network.tcp --omit 2s --zerocopy --mss 900 --dscp 8"), "{tcp}");
    assert!(
        said("plimsoll network -c db1").contains("write plimsoll network --server db1 --only network.tcp")
    );
    assert!(said("plimsoll -s -p 7000").ends_with("write plimsoll serve --port 7000"));
    let rate = said("plimsoll network -c h --timeout 1s --rate 1G");
    assert!(rate.contains("write plimsoll network --server h --only network.tcp (to"), "{rate}");
    assert!(rate.ends_with("; --timeout --rate are not supported on network.tcp: leave them out"), "{rate}");
    assert!(said("plimsoll network -c h -u --rate 1G").contains("--only network.udp --rate 1G ("));
}

#[test]
fn short_options_in_one_word_are_read_as_iperf3_reads_them() {
    let of = |line: &str| refused(&format!("plimsoll network -c h {line}")).unwrap();
    assert!(of("-uR").contains("--server h --only network.udp --direction down (to"));
    let flags = of("-4Rt 5");
    assert!(
        flags.contains("--only network.tcp --direction down --samples 5 --sample-time 1s (to"),
        "{flags}"
    );
    assert!(flags.ends_with("plimsoll network has nothing like -4: leave it out"), "{flags}");
    assert!(of("-RP4").contains("--direction down --streams 4 (to"));
    assert!(of("-xR").contains("nothing like -xR"), "not all are of iperf3");
}

#[test]
fn a_rate_is_of_datagrams_and_has_its_unit_in_upper_case() {
    let of = |line: &str| said(&format!("plimsoll network -c h {line}"));
    assert!(of("-u -b 10m").contains("--only network.udp --rate 10M ("));
    assert!(of("-u -P 3 -b 1.5g").contains("--streams 3 --rate 4.5G ("));
    let unlimited = of("-u -b 0");
    assert!(!unlimited.contains("--rate"), "{unlimited}");
    assert!(unlimited.ends_with("; -b is not needed: as fast as possible is the default"), "{unlimited}");
    assert!(
        of("-b 1G").ends_with("; -b is --rate of network.udp here: TCP has no rate, leave it out or add -u")
    );
}

#[test]
fn a_benchmark_that_is_named_is_kept() {
    let line = said("plimsoll network -c h --only network.latency -P 2 -R -u -w 4M --len=64");
    assert!(
        line.contains("network --server h --only network.latency --streams 2 --protocol udp --message 64 ("),
        "{line}"
    );
    assert!(line.ends_with("; -R -w are not supported on network.latency: leave them out"), "{line}");
    let all = said("plimsoll run --only network -u -c h");
    assert!(all.contains("write plimsoll network --only network.udp --server h ("), "{all}");
}

#[test]
fn an_empty_value_is_a_value() {
    let of = |typed: &[&str]| {
        let words: Vec<OsString> = [&["plimsoll"], typed].concat().into_iter().map(OsString::from).collect();
        answer(&Line::read(&ROOT, &words)).unwrap()
    };
    assert_eq!(of(&["disk", "--bs", ""]), "--bs is an option of fio: write plimsoll disk --block VALUE");
    assert!(of(&["disk", "--filename", "", "--bs", "4k"]).ends_with("disk --dir VALUE --block 4k"));
    assert!(of(&["network", "-c", "", "-R"]).contains("--server VALUE --only network.tcp --direction down"));
    assert!(
        of(&["disk", "--bs=", "4k"])
            .ends_with("--block VALUE; plimsoll disk has nothing like 4k: leave it out")
    );
}

#[test]
fn a_value_without_a_counterpart_is_named_and_not_written() {
    for (line, says) in [
        ("disk --rw=foo", "--rw is --op and --pattern here: 'foo' is no operation of fio"),
        (
            "disk --filename=/dev/null",
            "--filename is --dir DIRECTORY or --target DEVICE here: '/dev/null' is no disk",
        ),
        (
            "disk --filename=/dev/sda:/dev/sdb",
            "--filename is --dir DIRECTORY or --target DEVICE here: '/dev/sda:/dev/sdb' names several files: write one",
        ),
        ("disk --iodepth=0", "--iodepth is --depth here, which must be between 1 and 1024: '0' is not"),
        ("disk --numjobs=0", "--numjobs is --threads here, which must be 1 or more: '0' is not"),
        (
            "disk --rate_iops=100,200",
            "--rate_iops is --rate RATE here: '100,200' has a rate for each operation: write one",
        ),
        ("disk --bs=4k,8k", "--bs is --block SIZE here: '4k,8k' has a size for each operation: write one"),
        (
            "disk --runtime=soon",
            "--runtime is --samples N --sample-time TIME here: 'soon' is no time of some seconds",
        ),
        ("network -B eth0", "-B is --bind ADDRESS here: 'eth0' is not an IP address"),
        ("network -P 0", "-P is --streams here, which must be between 1 and 64: '0' is not"),
        ("network -p 0", "-p is the port of --server HOST:PORT here: '0' is no port from 1 to 65535"),
        ("serve -p 0", "-p is --port PORT here: '0' is no port from 1 to 65535"),
    ] {
        let answer = said(&format!("plimsoll {line}"));
        assert!(answer.ends_with(&format!("; {says}")), "{line}: {answer}");
    }
}

#[test]
fn a_value_of_fio_for_each_operation_is_that_of_the_load() {
    let of = |line: &str| said(&format!("plimsoll disk {line}"));
    assert!(of("--rw=read --bs=4k,8k").ends_with("--block 4k"));
    assert!(of("--rw=randwrite --bs=4k,8k --rate_iops=100,200").ends_with("--block 8k --rate 200"));
    assert!(of("--rw=randread --random_distribution=zipf:1.2").ends_with("--op read --pattern zipf:1.2"));
    assert!(of("--rw=randread --random_distribution=random").ends_with("--op read --pattern random"));
    assert!(of("--runtime=1h").ends_with("--samples 3600 --sample-time 1s"));
    assert!(of("--runtime=1d").ends_with("--samples 86400 --sample-time 1s"));
}

#[test]
fn a_line_that_plan_show_reads_is_answered_with_one() {
    let words: Vec<OsString> =
        ["plimsoll plan show", "disk", "--rw=randread"].into_iter().map(OsString::from).collect();
    let answer = cli::parse(ROOT.clone(), words).err().map(|error| cli::one_line(&error)).unwrap();
    assert!(answer.ends_with("write plimsoll plan show disk --op read --pattern random"), "{answer}");
}

#[test]
fn a_name_that_no_case_has_is_answered_with_a_line_that_shows_names() {
    let words = |only: &str| ["plimsoll", "cpu", "--only", only].map(OsString::from);
    let of = |only: &str| {
        let Ok(cli::Typed::Measure { what, common, .. }) = cli::parse(ROOT.clone(), words(only)) else {
            panic!("it is refused before")
        };
        let machine = Fixture::open("firecracker-zen4").unwrap().machine();
        resolve::planned(&resolve::plan(&what, &common).unwrap(), &machine).unwrap_err().to_string()
    };
    assert_eq!(of("nothing"), "--only nothing matches no case; plimsoll run --list shows the names");
    assert_eq!(refused_again("plimsoll run --list"), None);
    for empty in ["", " ", ",", "cpu,"] {
        assert_eq!(of(empty), "--only requires a name, such as memory or network.tcp");
    }
}

#[test]
fn what_is_ones_own_is_kept_and_what_nobody_knows_is_named() {
    assert_eq!(
        said("plimsoll disk --rw read --samples 5 --norandommap --cpus_allowed 0-3 job.fio --steady"),
        "--rw is an option of fio: write plimsoll disk --op read --pattern sequential --samples 5 --steady; plimsoll disk has \
         nothing like --norandommap, --cpus_allowed, job.fio: leave it out"
    );
    assert!(
        said("plimsoll run --only disk --iodepth 3").ends_with("write plimsoll disk --only disk --depth 3")
    );
    assert!(
        said("plimsoll disk --ioengine=rbd")
            .ends_with("plimsoll disk has nothing like --ioengine: leave it out")
    );
    assert!(said("plimsoll network -c db1 --json").contains("--json FILE"));
    assert!(
        said("plimsoll network -J --json x -t 10 --time 5 --only a --only b")
            .ends_with("write plimsoll network --json FILE --samples 10 --sample-time 1s --only a --only b"),
        "what is typed once is written once"
    );
    assert!(said("plimsoll disk --name $(reboot) --directory $(reboot)").contains("--dir '$(reboot)'"));
    assert!(said("plimsoll disk --bs $(reboot)").ends_with("or 1M: '$(reboot)' is not a number"));
}

#[test]
fn options_of_our_own_are_no_habits() {
    assert_eq!(
        said(
            "plimsoll disk --op read --block 4K --depth 32 --threads 4 --target /dev/null --size 1G --sync each --rate 5"
        ),
        ""
    );
    assert_eq!(said("plimsoll network --streams 4 --rate 1G --omit 1s --bind 127.0.0.1 --timeout 1s"), "");
}

#[test]
fn a_checksum_of_fio_is_answered() {
    let values = |line: &str| values(&cli::command(), &words(line)).map_err(|e| cli::one_line(&e));
    assert!(values("plimsoll disk --verify").is_ok() && values("plimsoll disk --verify=off").is_ok());
    assert!(values("plimsoll disk --verify --op read").is_ok());
    assert!(
        values("plimsoll disk --verify=on,off").is_ok() && values("plimsoll disk --verify=on,md5").is_err()
    );
    let wrong = values("plimsoll disk --verify=crc32c").unwrap_err();
    assert!(
        wrong.starts_with("--verify must be on or off: 'crc32c' is neither; plimsoll has one checksum"),
        "{wrong}"
    );
    let apart = refused("plimsoll disk --verify crc32c");
    assert_eq!(apart.as_deref(), Some(wrong.as_str()), "as with =");
    assert_eq!(
        refused("plimsoll disk --steady on").unwrap(),
        "--steady requires its value after '=': write --steady=on"
    );
    assert!(refused("plimsoll disk --steady job.fio").unwrap().contains("unexpected argument 'job.fio'"));
}

#[test]
fn a_port_is_part_of_the_server_and_an_option_of_serve() {
    let here = |line: &str| said(line).split(": write plimsoll ").nth(1).unwrap_or_default().to_owned();
    assert_eq!(here("plimsoll network --port 5201"), "network --server HOST:5201");
    assert_eq!(here("plimsoll network --server a,iperf3://b -p 52"), "network --server a:52,iperf3://b:52");
    assert_eq!(here("plimsoll network --server=::1 -p 52"), "network --server [::1]:52");
    assert_eq!(here("plimsoll network --server [::1]:9 -p 52"), "network --server [::1]:9");
    assert!(
        here("plimsoll network -c ::1 -p 52").starts_with("network --server [::1]:52 --only network.tcp")
    );
    assert_eq!(here("plimsoll serve -p 5201"), "serve --port 5201");
    assert_eq!(
        here("plimsoll serve -p 52 -t 10"),
        "serve --port 52; plimsoll serve has nothing like -t: leave it out"
    );
}

#[test]
#[allow(clippy::too_many_lines, reason = "a row for each command line")]
fn options_are_translated_in_commands_that_do_what_the_tool_does() {
    for line in [
        "report last --bs 4k",
        "machine --rw read",
        "history -n 5",
        "compare a b -t 1",
        "run quick --rw read",
    ] {
        let refused = refused(&format!("plimsoll {line}")).unwrap();
        assert!(!refused.contains("is an option of") && !refused.contains("write"), "{line}: {refused}");
    }
    for (line, says) in [
        (
            "report last --output x.html",
            "--output is not an option of plimsoll report: for an HTML page write --html x.html",
        ),
        ("machine -o f", "-o is not an option of plimsoll machine: for JSON write --json > f"),
        (
            "run quick --only cpu --time=10",
            "--time is not an option of plimsoll run: for the time of a sample write --sample-time 10s, for that of all cases --budget 10s",
        ),
        (
            "cpu -t 4",
            "-t is not an option of plimsoll cpu: for threads write --threads 4, for the time of a sample --sample-time 4s",
        ),
        (
            "memory -t60s",
            "-t is not an option of plimsoll memory: for the time of a sample write --sample-time 60s",
        ),
        (
            "memory --array-size 10000000",
            "--array-size is not an option of plimsoll memory: for the size of STREAM's 10000000 elements in three arrays write \
             --size 240000000",
        ),
        (
            "memory --array-size=10M",
            "--array-size is not an option of plimsoll memory: for the size write --size SIZE",
        ),
        (
            "memory -t copy",
            "-t is not an option of plimsoll memory: for threads write --threads N, for the time of a sample --sample-time TIME",
        ),
        (
            "cpu --bs 4k",
            "--bs is not an option of plimsoll cpu: for the block size write --only cpu.crypto --block 4k",
        ),
        (
            "cpu -n 4",
            "-n is not an option of plimsoll cpu: for samples write --samples 4, for the order of matrices --only cpu.gemm --n 4",
        ),
        (
            "network --numjobs 4",
            "--numjobs is not an option of plimsoll network: for parallel connections write --streams 4",
        ),
        ("memory -s 1G", "-s is not an option of plimsoll memory: for the size write --size 1G"),
        ("cpu --numjobs 4", "--numjobs is not an option of plimsoll cpu: for threads write --threads 4"),
        (
            "--output $x",
            "--output is not an option of plimsoll: for JSON write --json '$x', for an HTML page --html '$x'",
        ),
    ] {
        assert_eq!(refused(&format!("plimsoll {line}")).unwrap(), says, "{line}");
    }
}

#[test]
fn an_operation_of_fio_is_answered_alone_and_in_a_line() {
    let of = |op: &str| refused(&format!("plimsoll disk --op {op}")).unwrap_or_default();
    assert_eq!(
        of("randread"),
        "--op must be read, write, append, mixed, copy or trim: for fio's randread write --op read --pattern random"
    );
    assert!(of("read,readwrite").ends_with("for fio's readwrite write --op mixed"));
    for own in ["read", "write", "append", "mixed", "copy", "trim", "read,trim"] {
        assert_eq!(of(own), "");
    }
    let line = |typed: &str| said(&format!("plimsoll disk {typed}"));
    assert!(line("--op rw --rwmixread 70").ends_with("write plimsoll disk --op mixed --read-share 70"));
    assert!(
        line("--op=read,randwrite --bs 4k")
            .ends_with("--op read,write --pattern sequential,random --block 4k")
    );
    assert!(line("--op read --bs 4k").ends_with("disk --op read --block 4k"));
}

/// A value that an option of this name takes in its own tool.
fn usual(name: &str) -> &'static str {
    match name {
        "--rw" | "--readwrite" => "randrw",
        "--filesize" | "--io_size" | "--io_limit" | "--bytes" | "-n" => "1g",
        "--bs" | "--blocksize" | "--length" | "-b" => "4k",
        "-w" => "4m",
        "--bssplit" => "4k/60:64k/40",
        "--ioengine" => "libaio",
        "--rate_process" => "poisson",
        "--verify" => "crc32c",
        "--filename" => "/mnt/x",
        "--directory" => "/mnt",
        "--random_distribution" => "zipf:0.9",
        "--output-format" => "json",
        "-c" | "--client" => "db1",
        "-C" | "--linux-congestion" => "cubic",
        "-M" | "--set-mss" => "1400",
        "-B" => "127.0.0.1",
        _ => "5",
    }
}

/// The lines that an answer says to write; parts of lines are of this command.
fn suggestions(command: &str, answer: &str) -> Vec<String> {
    if let Some(named) = answer.split("did you mean ").nth(1) {
        let option = named.trim_end_matches('?');
        // The value is that of another option.
        let is_value = |why: &str| why.contains(" must be ");
        let line = format!("plimsoll {command} {option} 5");
        return if refused_again(&line).is_some_and(|why| is_value(&why)) { Vec::new() } else { vec![line] };
    }
    if let Some((_, line)) = answer.split_once(": write plimsoll ") {
        return vec![format!("plimsoll {}", line.split([';', '(']).next().unwrap())];
    }
    let Some((_, parts)) = answer.split_once(": for ").filter(|_| answer.contains(" is not an option of "))
    else {
        return Vec::new();
    };
    let option = |part: &str| format!("plimsoll {command} {}", &part[part.find("--").unwrap()..]);
    parts.split(", for ").map(option).collect()
}

/// Refused by the command line, or by what it means: the cases are made as for a run.
fn refused_again(line: &str) -> Option<String> {
    let line = line.split(" > ").next().unwrap();
    // The value that was typed is none of this option.
    if [" SIZE", " N", " TIME"].iter().any(|name| line.ends_with(name)) {
        return None;
    }
    let typed = match cli::parse(ROOT.clone(), words(line)) {
        Ok(typed) => typed,
        Err(error) => return Some(cli::one_line(&error)),
    };
    let cli::Typed::Measure { what, common, .. } = typed else { return None };
    let machine = Fixture::open("firecracker-zen4").unwrap().machine();
    let planned = resolve::plan(&what, &common).map_err(|e| e.to_string());
    planned.and_then(|plan| resolve::planned(&plan, &machine).map_err(|e| e.to_string())).err()
}

/// Each command, as it is typed with what it requires.
const TYPED: &[&str] = &[
    "",
    "cpu",
    "memory",
    "disk",
    "network",
    "run",
    "run --only disk",
    "run --only network",
    "serve",
    "report last",
    "history",
    "history show last",
    "machine",
    "compare last last",
    "export last",
    "doctor",
];

#[test]
fn no_answer_is_refused_again() {
    let (mut answered, mut wrong) = (0, Vec::new());
    for command in TYPED {
        for habit in HABITS {
            for name in habit.typed {
                let value = if habit.takes == Takes::Value { usual(name) } else { "" };
                let typed = format!("plimsoll {command} {name} {value}");
                for line in refused(&typed).iter().flat_map(|answer| suggestions(command, answer)) {
                    wrong.extend(refused_again(&line).map(|why| format!("{typed}: {line}: {why}")));
                    answered += 1;
                }
            }
        }
    }
    assert!(answered > 200, "{answered}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_hint_is_refused_again() {
    let mut answered = 0;
    for command in TYPED {
        for (name, value) in
            HINTS.iter().flat_map(|hint| hint.typed).flat_map(|name| [(name, "64"), (name, "1g")])
        {
            let typed = format!("plimsoll {command} {name} {value}");
            let answer = refused(&typed).filter(|answer| answer.contains(" is not an option of "));
            for line in answer.iter().flat_map(|answer| suggestions(command, answer)) {
                let why = refused_again(&line);
                // A number that fits one meaning may be too little or too much for another.
                assert!(
                    why.is_none_or(
                        |why| why.contains(" must be between ") || why.contains(" must be at least ")
                    ),
                    "{typed}: {line}"
                );
                answered += 1;
            }
        }
    }
    assert!(answered > 200, "{answered}");
}

#[test]
fn no_line_with_two_habits_is_refused_again_by_the_command_line() {
    let mut wrong = Vec::new();
    for tool in [Tool::Fio, Tool::Iperf3] {
        let mine = || HABITS.iter().filter(|habit| habit.tool == tool);
        let option = |habit: &table::Habit| {
            let value = if habit.takes == Takes::Value { usual(habit.typed[0]) } else { "" };
            format!("{} {value}", habit.typed[0])
        };
        for (one, other) in mine().flat_map(|one| mine().map(move |other| (one, other))) {
            let typed = format!("plimsoll {} {} {}", tool.command(), option(one), option(other));
            for line in suggestions(tool.command(), &said(&typed)) {
                wrong.extend(refused(&line).map(|why| format!("{typed}: {line}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_line_of_datagrams_is_refused_again() {
    let mut wrong = Vec::new();
    for habit in HABITS.iter().filter(|habit| habit.tool == Tool::Iperf3) {
        for (name, lead) in
            habit.typed.iter().flat_map(|name| [(name, "-c h -u"), (name, "-c h"), (name, "-u")])
        {
            let value = if habit.takes == Takes::Value { usual(name) } else { "" };
            let typed = format!("plimsoll network {lead} {name} {value}");
            for line in suggestions("network", &said(&typed)) {
                wrong.extend(refused_again(&line).map(|why| format!("{typed}: {line}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_line_with_an_odd_value_is_refused_again() {
    let mut wrong = Vec::new();
    for habit in HABITS.iter().filter(|habit| habit.takes == Takes::Value) {
        let (command, name) = (habit.tool.command(), habit.typed[0]);
        // Any word may be the name of a host, or of a congestion control that a module has.
        if ["-c", "-C"].contains(&name) {
            continue;
        }
        for value in ["0", "foo", "100,200", "10m", "1h", "eth0", "/dev/null", "1.5g", "$(x)"] {
            let typed = format!("plimsoll {command} {name}={value}");
            for line in suggestions(command, &said(&typed)) {
                // The range of a size or number is for the machine and the benchmark to say.
                let why = refused_again(&line)
                    .filter(|why| !why.contains(" must be between ") && !why.contains(" must be at least "));
                wrong.extend(why.map(|why| format!("{typed}: {line}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_that_measures_is_tried() {
    assert!(bench::commands().all(|name| TYPED.contains(&name)));
}
