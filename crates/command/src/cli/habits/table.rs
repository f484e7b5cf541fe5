//! The options of fio and iperf3, and what they are here.

use super::line::Line;
use super::quoted;
use super::values::{
    VALUE, bind, file, port as valid_port, rate as rate_of, read_share, seed, time, unmatched, whole,
    with_port, with_unit,
};
use crate::bench;
use crate::quantity;

/// An option of another tool.
pub(super) struct Habit {
    /// As it is typed.
    pub(super) typed: &'static [&'static str],
    /// Whose it is.
    pub(super) tool: Tool,
    /// What it takes.
    pub(super) takes: Takes,
    /// Whether plimsoll has an option of that name with another meaning, so that it is the other tool's among others of it alone.
    pub(super) shared: bool,
    /// The same here, with its value.
    pub(super) here: fn(&str, &Line<'_>) -> Here,
}

/// What an option of another tool is here.
pub(super) enum Here {
    /// These words.
    Write(String),
    /// Nothing, and why.
    Unneeded(&'static str),
    /// There is nothing like it.
    Without,
    /// Nothing, for this value has no counterpart: what the option is, and what is wrong.
    Refused(String),
    /// A part of what another option is.
    WithAnother,
}

/// Whose an option is.
/// What iperf3 measures without and with `-u`.
pub(super) const TCP: &str = "network.tcp";
pub(super) const UDP: &str = "network.udp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Fio,
    Iperf3,
}

impl Tool {
    /// The command here that does what the tool does.
    pub(super) const fn command(self) -> &'static str {
        match self {
            Tool::Fio => "disk",
            Tool::Iperf3 => "network",
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Tool::Fio => "fio",
            Tool::Iperf3 => "iperf3",
        }
    }

    /// Options by which a line without a command is known as one of this tool.
    const fn signs(self) -> Names {
        match self {
            Tool::Fio => &[
                "--rw",
                "--readwrite",
                "--rwmixread",
                "--bs",
                "--blocksize",
                "--iodepth",
                "--ioengine",
                "--numjobs",
                "--filename",
            ],
            Tool::Iperf3 => &["-c", "--client", "-s"],
        }
    }

    /// The tool whose options are answered in a line: that of its command, or of what it measures alone.
    pub(super) fn of(line: &Line<'_>) -> Option<Self> {
        let mut all = [Tool::Fio, Tool::Iperf3].into_iter();
        match line.command {
            Some("serve") => Some(Tool::Iperf3),
            None | Some("run") => {
                let only = line.value(&["--only"]).unwrap_or_default();
                let parts = || only.split(',').map(|name| name.split('.').next().unwrap_or_default());
                all.find(|tool| {
                    parts().all(|part| part == tool.command())
                        || line.command.is_none() && line.has(tool.signs())
                })
            }
            Some(typed) => all.find(|tool| tool.command() == typed),
        }
    }
}

/// Whether a value follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
}

type Names = &'static [&'static str];
type Translate = fn(&str, &Line<'_>) -> Here;

const fn fio(typed: Names, here: Translate) -> Habit {
    Habit { typed, tool: Tool::Fio, takes: Takes::Value, shared: false, here }
}

const fn iperf3(typed: Names, here: Translate) -> Habit {
    Habit { typed, tool: Tool::Iperf3, takes: Takes::Value, shared: false, here }
}

impl Habit {
    const fn flag(self) -> Self {
        Self { takes: Takes::Nothing, ..self }
    }

    const fn shared(self) -> Self {
        Self { shared: true, ..self }
    }
}

/// Options of fio 3.33 and iperf3 3.12 by their manual pages. What is in neither table nor plimsoll is named as without a
/// counterpart.
pub(super) const HABITS: &[Habit] = &[
    fio(&["--rw", "--readwrite"], operation),
    fio(&["--rwmixread"], |v, _| read_share(v, false)),
    fio(&["--rwmixwrite"], |v, _| read_share(v, true)),
    fio(&["--bs", "--blocksize"], block),
    fio(&["--bssplit"], mix),
    fio(&["--iodepth"], |v, _| whole("--depth", Some(bench::disk::MAX_DEPTH), v)),
    fio(&["--numjobs"], |v, _| whole("--threads", None, v)),
    fio(&["--runtime", "--timeout"], |v, line| {
        time(v, line.has(&["--io_size", "--io_limit", "--number_ios"]))
    }),
    fio(&["--time_based"], |_, _| Here::Unneeded("samples have a fixed time")).flag(),
    fio(&["--ioengine"], |v, line| match line.has(&["--hipri", "--sqthread_poll"]) {
        true => Here::WithAnother,
        false => engine(v),
    }),
    fio(&["--direct"], |v, _| Here::Write(cache(v != "0").to_owned())),
    fio(&["--buffered"], |v, _| Here::Write(cache(v == "0").to_owned())),
    fio(&["--hipri"], |_, _| Here::Write("--engine io_uring+iopoll".to_owned())).flag(),
    fio(&["--sqthread_poll"], |_, _| Here::Write("--engine io_uring+sqpoll".to_owned())).flag(),
    fio(&["--rate_iops"], operations),
    fio(&["--rate"], |_, _| Here::Without).shared(),
    fio(&["--rate_process"], |v, line| match v {
        _ if !line.has(&["--rate_iops", "--rate"]) => Here::Unneeded("there is no --rate_iops"),
        "poisson" => Here::Write("--arrivals poisson".to_owned()),
        _ => Here::Write("--arrivals even".to_owned()),
    }),
    fio(&["--latency_target"], latency),
    fio(&["--latency_percentile"], |_, line| match line.has(&["--latency_target"]) {
        true => Here::WithAnother,
        false => Here::Unneeded("--latency-target PERCENTILE=TIME names it"),
    }),
    fio(&["--latency_window", "--latency_run"], |_, _| Here::Unneeded("the search uses samples")),
    fio(&["--lat_percentiles", "--clat_percentiles", "--slat_percentiles", "--percentile_list"], |_, _| {
        Here::Unneeded("p50 to p99.99 are always shown or stored")
    }),
    fio(&["--fsync", "--fdatasync"], |v, line| match v {
        "0" => Here::Write("--sync none".to_owned()),
        v if v == VALUE || v.parse::<u32>().is_ok() => synced(&format!("every:{v}"), line),
        v => unmatched("--sync every:N", v, "is not a whole number"),
    }),
    fio(&["--end_fsync", "--fsync_on_close"], |_, line| synced("end", line)),
    fio(&["--sync"], |v, line| match v {
        "0" => Here::Write("--sync none".to_owned()),
        v if ["none", "each", "end"].contains(&v) || v.starts_with("every:") => synced(v, line),
        _ => synced("each", line),
    })
    .shared(),
    fio(&["--verify"], |v, _| match v {
        "off" | "0" => Here::Write("--verify=off".to_owned()),
        _ => Here::Write("--verify".to_owned()),
    })
    .shared(),
    fio(&["--ramp_time"], |_, _| Here::Unneeded("each case has a warm-up")),
    fio(&["--filename"], |v, _| file(v)),
    fio(&["--directory"], |v, _| Here::Write(format!("--dir {v}"))),
    fio(&["--filesize"], |v, _| Here::Write(format!("--size {v}"))),
    fio(&["--io_size", "--io_limit"], |v, _| Here::Write(format!("--volume {v}"))),
    fio(&["--number_ios"], |v, _| Here::Write(format!("--count {v}"))),
    fio(&["--loops"], |v, _| whole("--repeat", Some(10_000), v)),
    fio(&["--random_distribution"], distribution),
    fio(&["--steadystate", "--ss"], |_, _| Here::Write("--steady".to_owned())),
    fio(&["--randseed"], |v, _| seed(v)),
    fio(&["--output-format"], |_, line| match line.has(&["--output"]) {
        true => Here::WithAnother,
        false => Here::Write("--json FILE".to_owned()),
    }),
    fio(&["--output"], |v, _| Here::Write(format!("--json {v}"))),
    fio(&["--name"], |_, _| Here::Unneeded("`plimsoll history tag` names a run")),
    fio(&["--group_reporting", "--thread"], |_, _| Here::Unneeded("a case is reported over all its threads"))
        .flag(),
    fio(&["--readonly"], |_, _| Here::Unneeded("--op read writes nothing but the test file")).flag(),
    fio(&["--eta", "--status-interval"], |_, _| Here::Unneeded("a progress line is shown in a terminal")),
    fio(&["--write_lat_log", "--write_bw_log", "--write_iops_log"], |_, _| {
        Here::Write("--events FILE".to_owned())
    }),
    iperf3(&["-c", "--client"], |v, line| Here::Write(server(v, line))),
    iperf3(&["-s"], |_, _| Here::WithAnother).flag(),
    iperf3(&["-p", "--port"], port),
    iperf3(&["-P", "--parallel"], |v, _| whole("--streams", Some(64), v)),
    iperf3(&["-t", "--time"], |v, line| time(v, line.has(&["-n", "--bytes", "-k", "--blockcount"]))),
    iperf3(&["-n", "--bytes"], |v, _| Here::Write(format!("--volume {v}"))),
    iperf3(&["-k", "--blockcount"], |v, _| Here::Write(format!("--count {v}"))),
    iperf3(&["-R", "--reverse"], |_, _| Here::Write("--direction down".to_owned())).flag(),
    iperf3(&["--bidir"], |_, _| Here::Write("--direction both".to_owned())).flag(),
    iperf3(&["-u", "--udp"], |_, line| udp(line)).flag(),
    iperf3(&["-b", "--bitrate", "--bandwidth"], rate),
    iperf3(&["-l", "--length", "--len"], |v, _| Here::Write(format!("--message {v}"))),
    iperf3(&["-w"], |v, _| Here::Write(format!("--window {v}"))),
    iperf3(&["-M", "--set-mss"], |v, _| Here::Write(format!("--mss {v}"))),
    iperf3(&["-C", "--linux-congestion"], |v, _| Here::Write(format!("--congestion {v}"))),
    iperf3(&["-N", "--no-delay"], |_, _| Here::Write("--nodelay".to_owned())).flag(),
    iperf3(&["-Z"], |_, _| Here::Write("--zerocopy".to_owned())).flag(),
    iperf3(&["--skip-rx-copy"], |_, _| Here::Write("--discard".to_owned())).flag(),
    iperf3(&["-O"], |v, _| Here::Write(format!("--omit {}", with_unit(v)))),
    iperf3(&["--omit"], |v, _| Here::Write(format!("--omit {}", with_unit(v)))).shared(),
    iperf3(&["-B"], |v, _| bind(v)),
    iperf3(&["-S", "--tos"], |v, _| tos(v)),
    iperf3(&["-J", "--json-stream"], |_, _| Here::Write("--json FILE".to_owned())).flag(),
    iperf3(&["--logfile"], |v, _| Here::Write(format!("--events {v}"))),
    iperf3(&["-i"], |_, _| Here::Unneeded("--events FILE has each sample")),
    iperf3(&["-f", "--format"], |_, _| Here::Unneeded("units are chosen by size")),
    iperf3(&["-V", "--verbose", "--get-server-output", "--forceflush", "--udp-counters-64bit"], |_, _| {
        Here::Unneeded("all that is known is shown or stored")
    })
    .flag(),
];

/// fio's kinds of load: the operation here, and whether it is at random places.
fn kind(value: &str) -> Option<(&'static str, bool)> {
    Some(match value.split(':').next().unwrap_or(value) {
        "read" => ("read", false),
        "write" => ("write", false),
        "trim" => ("trim", false),
        "rw" | "readwrite" => ("mixed", false),
        "randread" => ("read", true),
        "randwrite" => ("write", true),
        "randtrim" => ("trim", true),
        "randrw" => ("mixed", true),
        _ => return None,
    })
}

fn operation(value: &str, line: &Line<'_>) -> Here {
    match kind(value) {
        Some((op, true)) if zipf(line).is_some() => Here::Write(format!("--op {op}")),
        Some((op, true)) => Here::Write(format!("--op {op} --pattern random")),
        Some((op, false)) => Here::Write(format!("--op {op} --pattern sequential")),
        None if value.contains("trim") => Here::Without,
        None if [VALUE, "append", "mixed", "copy"].contains(&value) => Here::Write(format!("--op {value}")),
        None => unmatched("--op and --pattern", value, "is no operation of fio"),
    }
}

/// fio's distribution of random places where it is one of plimsoll's patterns.
fn zipf<'a>(line: &Line<'a>) -> Option<&'a str> {
    line.value(&["--random_distribution"]).filter(|typed| typed.split(':').next() == Some("zipf"))
}

fn distribution(value: &str, line: &Line<'_>) -> Here {
    let is_sequential = || matches!(load(line), Some((_, false)));
    match value.split(':').next() {
        Some("zipf" | "random") if is_sequential() => Here::Unneeded("a sequential load has none"),
        Some("zipf") => Here::Write(format!("--pattern {value}")),
        Some("random") => Here::Write("--pattern random".to_owned()),
        _ => Here::Without,
    }
}

/// What the line does, where it names one of fio's operations, and whether it is at random places.
fn load(line: &Line<'_>) -> Option<(&'static str, bool)> {
    line.value(&["--rw", "--readwrite"]).or_else(|| line.value(&["--op"])).and_then(kind)
}

/// What makes writes durable, where the load has any.
fn synced(value: &str, line: &Line<'_>) -> Here {
    match load(line) {
        Some(("read", _)) => Here::Unneeded("reads write nothing"),
        Some(("trim", _)) => Here::Unneeded("trims write nothing"),
        _ => Here::Write(format!("--sync {value}")),
    }
}

/// Of fio's value for reads, writes and trims, that of what the line does. `None` where it does several.
fn of_load<'v>(value: &'v str, line: &Line<'_>) -> Option<&'v str> {
    let all: Vec<&str> = value.split(',').collect();
    if let [one] = all[..] {
        return Some(one);
    }
    let place = match load(line)?.0 {
        "read" => 0,
        "write" => 1,
        "trim" => 2,
        _ => return None,
    };
    all.get(place).or(all.last()).copied().filter(|one| !one.is_empty())
}

/// What `--op` is here where its value is one of fio's that plimsoll does not have.
pub(super) fn operation_here(value: &str) -> Option<String> {
    let all: Vec<(&str, bool)> = value.split(',').map(|one| kind(one).unwrap_or((one, false))).collect();
    let mut ops: Vec<&str> = Vec::new();
    for (op, _) in &all {
        if !ops.contains(op) {
            ops.push(op);
        }
    }
    let op = ops.join(",");
    let random = all.iter().filter(|(_, random)| *random).count();
    let pattern = match random {
        0 => "",
        random if random == all.len() => " --pattern random",
        _ => " --pattern sequential,random",
    };
    (op != value).then(|| format!("--op {op}{pattern}"))
}

/// The value of an option that the tool's command here has, where it is one of the tool's: the option to type.
pub(super) fn own_value(tool: Tool, option: &str, value: &str, line: &Line<'_>) -> Option<String> {
    match (tool, option) {
        (Tool::Fio, "--op") => operation_here(value),
        // Not all that writes to disks takes a mix of sizes.
        (Tool::Fio, "--only") if value == tool.command() && line.has(&["--bssplit"]) => {
            Some("--only disk.io".to_owned())
        }
        (Tool::Iperf3, "--only") if value == tool.command() => Some(format!("--only {}", line.benchmark()?)),
        (Tool::Iperf3, "--server") => {
            let port = line.value(&["-p", "--port"])?;
            let all: Vec<String> = value.split(',').map(|host| with_port(host, port)).collect();
            Some(format!("--server {}", quoted(&all.join(","))))
        }
        _ => None,
    }
}

fn engine(value: &str) -> Here {
    Here::Write(
        match value {
            "io_uring" => "--engine io_uring",
            "libaio" => "--engine libaio",
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => "--engine psync",
            "mmap" => "--engine mmap",
            _ => return Here::Without,
        }
        .to_owned(),
    )
}

const fn cache(direct: bool) -> &'static str {
    if direct { "--cache direct" } else { "--cache buffered" }
}

fn block(value: &str, line: &Line<'_>) -> Here {
    match of_load(value, line) {
        Some(one) => Here::Write(format!("--block {one}")),
        None => unmatched("--block SIZE", value, "has a size for each operation: write one"),
    }
}

/// fio's `4k/60:64k/40`.
fn mix(value: &str, line: &Line<'_>) -> Here {
    match of_load(value, line).map(|one| one.replace('/', "@").replace(':', "+")) {
        Some(one) => Here::Write(format!("--only disk.io --block {one}")),
        None => unmatched("--block MIX", value, "has a mix for each operation: write one"),
    }
}

/// Operations per second of each job.
fn operations(value: &str, line: &Line<'_>) -> Here {
    match of_load(value, line) {
        Some(one) => rate_of(one, parallel(line, &["--numjobs"])),
        None => unmatched("--rate RATE", value, "has a rate for each operation: write one"),
    }
}

/// A latency without a unit is in microseconds.
fn latency(value: &str, line: &Line<'_>) -> Here {
    let percentile = line.value(&["--latency_percentile"]).filter(|p| !p.is_empty()).unwrap_or("99");
    let percentile = percentile.strip_suffix(".0").unwrap_or(percentile);
    let percentile = if percentile == "100" { "99.99" } else { percentile };
    let unit = if value.bytes().all(|b| b.is_ascii_digit()) { "us" } else { "" };
    match value == VALUE
        || quantity::parse_duration(&format!("{value}{unit}")).is_ok_and(|time| !time.is_zero())
    {
        true => Here::Write(format!("--latency-target p{percentile}={value}{unit}")),
        false => unmatched("--latency-target PERCENTILE=TIME", value, "is no time above zero"),
    }
}

/// The port to listen on, or that of the server.
fn port(value: &str, line: &Line<'_>) -> Here {
    let serves = line.has(&["-s"]) || line.command == Some("serve") && !line.has(&["-c", "--client"]);
    let Some(port) = valid_port(value) else {
        let here = if serves { "--port PORT" } else { "the port of --server HOST:PORT" };
        return unmatched(here, value, "is no port from 1 to 65535");
    };
    match line.has(&["-c", "--client", "--server"]) {
        _ if serves => Here::Write(format!("--port {port}")),
        true => Here::WithAnother,
        false => Here::Write(format!("--server HOST:{port}")),
    }
}

/// The server, with its port, and which benchmark iperf3 is.
fn server(host: &str, line: &Line<'_>) -> String {
    let host = match line.value(&["-p", "--port"]) {
        Some(port) => with_port(host, port),
        None => host.to_owned(),
    };
    match line.benchmark() {
        Some(only) if !line.has(&["--only"]) => format!("--server {host} --only {only}"),
        _ => format!("--server {host}"),
    }
}

/// Datagrams are a benchmark of their own, or the protocol of round trips.
fn udp(line: &Line<'_>) -> Here {
    match line.value(&["--only"]) {
        Some(UDP) => Here::WithAnother,
        Some(only) if only == Tool::Iperf3.command() => Here::WithAnother,
        Some(only) if bench::find(only).is_some_and(|b| b.keys().contains(&"protocol")) => {
            Here::Write("--protocol udp".to_owned())
        }
        None if line.has(&["-c", "--client"]) => Here::WithAnother,
        _ => Here::Write(format!("--only {UDP}")),
    }
}

/// The target rate of datagrams; a stream of TCP takes what there is.
fn rate(value: &str, line: &Line<'_>) -> Here {
    match line.benchmark() {
        Some(UDP) => rate_of(value, parallel(line, &["-P", "--parallel"])),
        _ => Here::Refused(format!("--rate of {UDP} here: TCP has no rate, leave it out or add -u")),
    }
}

/// The code point is the upper six bits of the byte.
fn tos(value: &str) -> Here {
    let number = match value.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    };
    number.map_or(Here::Without, |byte| Here::Write(format!("--dscp {}", byte >> 2)))
}

/// Parallel jobs or streams by which the other tool's rate is multiplied: its rate is that of each, ours that of all.
fn parallel(line: &Line<'_>, names: &[&str]) -> u32 {
    let number = line.value(names).and_then(|value| value.parse().ok());
    number.filter(|number| (1..=4096).contains(number)).unwrap_or(1)
}
