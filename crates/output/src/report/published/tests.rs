//! Tables of the five reports with results of a synthetic run.

mod places;

use plimsoll_model::limit::{Input, Limit, LimitKind, LimitSource};
use plimsoll_model::measurement::ToolResult;
use plimsoll_published::{PublishedFigure, find, names};
use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;

use super::*;
use crate::report::format::{self, FormatSubject};

fn run() -> Run {
    let id = "cpu.peak/op=add/type=i8/isa=avx512/threads=1/work=1000000000000/scaling=strong";
    let fast = fixture::of_metric(id, fixture::metric_of("rate", Unit::OpPerSecond, vec![470e9, 474e9]));
    let id = "network.tcp/message=32K/streams=4/direction=up";
    let net = fixture::of_metric(id, fixture::metric_of("goodput", Unit::BitPerSecond, vec![40e9]));
    let id = "memory.block/op=read-write/pattern=random/block=10M/threads=4";
    let mut out = fixture::measured(id, "throughput", Unit::BytePerSecond, 1.0);
    (out.metrics, out.status, out.reason) = (Vec::new(), Status::Skipped, Some("no room".to_owned()));
    Run { measurements: vec![fast, net, out], ..fixture::run() }
}

fn written_at(width: usize, name: &str, runs: &[&Run], format: &str) -> String {
    let reports = [(find(name).unwrap(), runs.to_vec())];
    format::find(format).unwrap().tables.unwrap()(&reports, &Style::plain(width)).unwrap()
}

fn written(name: &str, runs: &[&Run], format: &str) -> String {
    written_at(160, name, runs, format)
}

fn text(name: &str, runs: &[&Run]) -> String {
    written(name, runs, "text")
}

/// The table with these words in its title.
fn table<'a>(text: &'a str, title: &str) -> &'a str {
    let is_it = |table: &&str| table.lines().next().is_some_and(|line| line.contains(title));
    text.split("\n\n").find(is_it).unwrap_or_else(|| panic!("no {title}: {text}"))
}

/// The line with this name below the row with this label.
fn line<'a>(table: &'a str, row: &str, name: &str) -> &'a str {
    let lines: Vec<&str> = table.lines().collect();
    let start = lines.iter().position(|line| line.trim_start().starts_with(row)).unwrap();
    let found = lines[start..].iter().find(|line| line.contains(&format!(" {name} ")));
    found.unwrap_or_else(|| panic!("{row}: no {name}: {table}"))
}

#[test]
fn a_row_has_what_is_today_and_what_was_published_below_each_other() {
    let text = text("hyperion-prometheus", &[&run()]);
    let cpu = table(&text, "Table 1 of 8: CPU throughput, in GOP/s and GFLOP/s");
    assert!(cpu.contains("the report prints GigaOPS"), "{cpu}");
    assert!(line(cpu, "QP (char), 1 thread", "today").contains("472.0"), "{cpu}");
    assert!(line(cpu, "QP (char), 1 thread", "stdev").contains("2.83"), "{cpu}");
    let published = line(cpu, "QP (char), 1 thread", "published");
    assert!(published.contains("2.183406") && published.contains("588.8"), "{published}");
    assert!(published.contains("0.37082303 %"), "{published}");
    assert!(line(cpu, "QP (char), 1 thread", "ratio").contains("216 ×"), "{cpu}");
    let memory = table(&text, "memory throughput, in GB/s");
    assert!(memory.contains("skipped: no room"), "{memory}");
}

#[test]
fn what_cannot_be_true_is_marked_and_nothing_is_divided_by_it() {
    let text = text("hyperion-prometheus", &[&run()]);
    let net = table(&text, "network throughput, in Mbit/s");
    assert!(line(net, "TCP, 4 threads, 32KB", "today").contains("40000"), "{net}");
    let published = line(net, "TCP, 4 threads, 32KB", "published");
    assert!(published.contains(" ["), "{published}");
    let rows: Vec<&str> = net.lines().collect();
    let at = rows.iter().position(|line| line.contains("TCP, 4 threads, 32KB")).unwrap();
    assert!(rows[at..at + 3].iter().all(|line| !line.contains(" ratio ")), "{net}");
    assert!(net.contains("] published: "), "{net}");
}

#[test]
fn every_number_of_every_report_is_printed_in_every_format() {
    for name in names() {
        let baseline = find(name).unwrap();
        for format in FormatSubject::Tables.formats() {
            let written = written(name, &[&run()], format.name);
            let missing = baseline.figures.iter().find(|figure| !written.contains(figure.value));
            assert!(missing.is_none(), "{name} {}: {missing:?}", format.name);
        }
        let rows = written(name, &[&run()], "csv").lines().count();
        assert_eq!(rows, baseline.figures.len() + 1, "{name}: a row for each number");
    }
}

#[test]
fn a_table_without_figures_of_today_says_why_once() {
    let text = text("chameleon-kvm", &[&run()]);
    let iozone = table(&text, "IOzone");
    assert!(iozone.contains("no figures of today: not in this run"), "{iozone}");
    assert!(iozone.contains("no ratio: IOzone: record size and unit"), "{iozone}");
    assert!(!iozone.contains(" today "), "{iozone}");
    let memory = table(&text, "memory throughput: ReadWrite");
    assert!(memory.contains("published, from the text: limit 35200 MB/s"), "{memory}");
    assert!(memory.contains("no figures of today: not in this run"), "{memory}");
}

#[test]
fn lines_fit_and_columns_that_do_not_follow_below() {
    let text = written_at(100, "chameleon-kvm", &[], "text");
    let long = text.lines().find(|line| line.chars().count() > 100);
    assert!(long.is_none(), "{long:?}");
    assert!(table(&text, "IOzone").matches("row=11").count() > 1);
}

#[test]
fn two_runs_of_a_plan_fill_the_tables_together() {
    let cpu = |rate: f64| {
        let id = "cpu.peak/op=add/type=i32/threads=1/scaling=strong/work=1e12";
        fixture::measured(id, "rate", Unit::OpPerSecond, rate)
    };
    let id = "disk.io/op=read/pattern=sequential/block=1M/threads=1";
    let disk = fixture::measured(id, "throughput", Unit::BytePerSecond, 3e8);
    let (id, started) = ("01990000-0000".to_owned(), "2026-11-22T08:00:00Z".to_owned());
    let first = Run { measurements: vec![cpu(20e9), disk], ..fixture::run() };
    let second = Run { measurements: vec![cpu(30e9)], id, started, ..fixture::run() };
    for runs in [[&first, &second], [&second, &first]] {
        let text = text("ec2-t2micro", &runs);
        let mean = line(table(&text, "integer operations"), "1 thread", "ratio");
        assert!(mean.contains("1.22 ×"), "the later run's: {mean}");
        assert!(table(&text, "disk throughput and latency: 1 thread, 1MB").contains("300.0"), "{text}");
        assert!(text.contains("today: cpu (1 figure) from run 01990000-0000"), "{text}");
        assert!(text.contains("today: disk (1 figure) from run "), "{text}");
        assert!(text.contains("1 figure is in more than one of these runs"), "{text}");
    }
}

#[test]
fn a_number_of_the_text_has_the_point_with_that_number_or_the_best() {
    let rate = |kind: &str, threads: u64, rate: f64| {
        let id = format!("cpu.peak/op={kind}/threads={threads}/scaling=strong");
        fixture::measured(&id, "rate", Unit::FlopPerSecond, rate)
    };
    let (float, int) = ("fma/type=f64", "add/type=i32");
    let rates = [rate(float, 1, 40e9), rate(float, 4, 80e9), rate(int, 1, 50e9), rate(int, 2, 70e9)];
    let text = text("ec2-t2micro", &[&Run { measurements: rates.into(), ..run() }]);
    let numbers = table(&text, "numbers of the text");
    assert!(line(numbers, "cpu, float-ops", "today").contains("40.0"), "20.58 is of one thread: {numbers}");
    assert!(line(numbers, "cpu, integer-ops", "today").contains("70.0"), "24.54 is in no table: {numbers}");
    assert!(numbers.contains("the best of 2 cases: "), "{numbers}");
    assert!(line(numbers, "cpu, float-ops", "published").contains("53.59 %"), "{numbers}");
}

#[test]
fn a_row_tells_what_was_published() {
    let (baseline, run) = (find("hyperion-prometheus").unwrap(), run());
    let reported = published_lines(&baseline, &run.measurements[0]);
    let wanted = "published (Hyperion, disk: Prometheus, year not stated) rate 2.18 GOP/s, here 216 ×";
    assert_eq!(reported, [wanted]);
    assert!(published_lines(&baseline, &run.measurements[1])[0].contains("impossible: "));
    assert!(published_lines(&baseline, &run.measurements[2]).is_empty());
}

#[test]
fn a_tool_of_another_case_keeps_its_share_of_that_cases_limit() {
    let floor = Limit::fixed(LimitKind::Floor, LimitSource::Derived, 20e-6, "echo", Vec::new());
    let mut echo =
        fixture::measured("network.latency/protocol=tcp/message=1/streams=1", "rtt", Unit::Second, 40e-6);
    let netperf = ToolResult::of(&fixture::tool_run("netperf", &[(40e-6, 80e-6)]), 0.03);
    echo.metrics[0].tool_results = vec![netperf.with_shares(Some(&floor))];
    let tool = today::MeasuredByTool::of(&echo, "rtt", "ping").unwrap();
    assert_eq!((tool.name, tool.figure, tool.of_limit), ("netperf", 80e-6, Some(0.25)), "limit ÷ measured");
}

#[test]
fn a_tool_that_gives_a_rate_has_latency_and_throughput_too() {
    let with_iozone = |case: &str, more| {
        let mut disk = fixture::measured(case, "rate", Unit::IoPerSecond, 10e3);
        let tool = ToolResult::of(&fixture::tool_run("iozone", &[(10e3, 8e3)]), 0.03);
        disk.metrics[0].tool_results = vec![tool];
        disk.metrics.push(more);
        Run { measurements: vec![disk], ..fixture::run() }
    };
    let case = "disk.io/op=read/pattern=random/block=1K/threads=4/engine=psync/depth=1";
    let run = with_iozone(case, fixture::metric_of("latency", Unit::Second, vec![400e-6]));
    let hyperion = text("hyperion-prometheus", &[&run]);
    let latency = line(table(&hyperion, "disk latency"), "RR, 4 threads", "today");
    assert!(["0.4000", "0.5000"].iter().all(|wanted| latency.contains(wanted)), "four under way: {latency}");
    let case = "disk.io/op=read/pattern=sequential/block=8K/size=8G/threads=1/volume=8G/scaling=strong/engine=psync/depth=1";
    let run = with_iozone(case, fixture::metric_of("throughput", Unit::BytePerSecond, vec![81.92e6]));
    let kvm = text("chameleon-kvm", &[&run]);
    let throughput = line(table(&kvm, "disk throughput: Sequential Read"), "1 thread", "reference");
    assert!(["65.54", " iozone"].iter().all(|wanted| throughput.contains(wanted)), "of 8 KiB: {throughput}");
}

#[test]
fn a_tool_that_is_not_installed_is_named_beside_another_that_has_a_figure() {
    let mut solved = fixture::measured("cpu.linpack/n=10000/threads=1", "rate", Unit::FlopPerSecond, 40e9);
    let mut absent = fixture::tool_run("xhpl", &[]);
    absent.unavailable = Some("not installed; the command that builds it".to_owned());
    let there = fixture::tool_run("hpcc", &[(40e9, 35e9)]);
    solved.metrics[0].tool_results = [absent, there].map(|run| ToolResult::of(&run, 0.03)).into();
    let run = Run { measurements: vec![solved], ..fixture::run() };
    for format in ["text", "markdown", "html"] {
        let written = written_at(1000, "hyperion-prometheus", &[&run], format);
        assert!(written.contains("xhpl: not installed; the command that builds it"), "{format}: {written}");
    }
}

#[test]
fn a_scaled_system_of_equations_is_in_its_row_and_says_its_size() {
    let solved = fixture::measured("cpu.linpack/n=1000/threads=1", "rate", Unit::FlopPerSecond, 40e9);
    let mut run = Run { measurements: vec![solved], ..fixture::run() };
    assert!(!text("hyperion-prometheus", &[&run]).contains("40.00"), "10000 were not solved");
    run.plan.scale = 0.001;
    let text = text("hyperion-prometheus", &[&run]);
    let cpu = table(&text, "CPU throughput");
    assert!(line(cpu, "DP (double), 1 thread", "today").contains("40.0"), "{cpu}");
    assert!(cpu.contains("n 1000 of 10000"), "{cpu}");
    assert!(line(cpu, "DP (double), 1 thread", "today").contains("plimsoll"), "no HPL ran: {cpu}");
}

#[test]
fn nothing_of_outside_reaches_a_page_unescaped() {
    let mut run = run();
    let hostile = "<b>\u{202e}|x<script>";
    run.measurements[2].reason = Some(hostile.to_owned());
    run.findings[0].text = hostile.to_owned();
    run.machine.host = Some(hostile.to_owned());
    for format in FormatSubject::Tables.formats() {
        let written = written("hyperion-prometheus", &[&run], format.name);
        assert!(!written.contains('\u{202e}'), "{}", format.name);
        let is_marked_up = matches!(format.name, "html" | "markdown");
        assert!(!is_marked_up || !written.contains("<b>"), "{}", format.name);
        assert!(!is_marked_up || !written.contains("x<script>"), "{}", format.name);
    }
}

/// A 1 KiB read, with a reference tool's result or the reason for its absence.
fn read_beside(change: impl Fn(&mut plimsoll_model::sample::ToolRun)) -> Run {
    let case = "disk.io/op=read/pattern=random/block=1K/threads=1/engine=psync/depth=1";
    let mut disk = fixture::measured(case, "throughput", Unit::BytePerSecond, 20e6);
    disk.metrics[0].limit = Some(Limit::unknown(LimitKind::Ceiling, "no rate is stated"));
    let mut tool_run = fixture::tool_run("java", &[(20e6, 800e6)]);
    change(&mut tool_run);
    disk.metrics[0].tool_results = vec![ToolResult::of(&tool_run, 0.03)];
    Run { measurements: vec![disk], ..fixture::run() }
}

#[test]
fn a_tool_that_did_otherwise_says_so_beside_its_figure() {
    let mut run = read_beside(|_| {});
    let note = fixture::note("reference-differs", "it went through the page cache");
    run.measurements[0].metrics[0].tool_results[0].warnings = vec![note];
    let text = text("ec2-t2micro-java", &[&run]);
    let table = table(&text, "disk throughput: 1 thread, 1KB");
    assert!(line(table, "Read_Random", "reference").contains("800.0 java ["), "{table}");
    assert!(table.contains("] java: it went through the page cache"), "{table}");
}

#[test]
fn a_table_without_a_limit_or_a_tool_of_today_says_why() {
    let run = read_beside(|tool_run| {
        tool_run.pairs.clear();
        tool_run.unavailable = Some("not installed".to_owned());
    });
    let text = text("ec2-t2micro-java", &[&run]);
    let disk = table(&text, "disk throughput: 1 thread, 1KB");
    assert!(disk.contains("today's limit is unknown: no rate is stated"), "{disk}");
    assert!(disk.contains("no reference tool of today: java: not installed"), "{disk}");
    let csv = written("hyperion-prometheus", &[&run], "csv");
    assert!(!csv.contains("limit unknown"), "that report has no such point");
}

#[test]
fn a_column_of_limits_says_why_one_is_unknown() {
    let case = "disk.io/op=read/pattern=random/block=1K/threads=1/engine=psync/depth=1";
    let mut disk = fixture::measured(case, "rate", Unit::IoPerSecond, 20e3);
    disk.metrics[0].limit = Some(Limit::unknown(LimitKind::Ceiling, "no rate is stated"));
    let run = Run { measurements: vec![disk], ..fixture::run() };
    let text = text("hyperion-prometheus", &[&run]);
    let rates = table(&text, "disk IOPS");
    assert!(rates.contains("] limit unknown: no rate is stated"), "{rates}");
    assert!(rates.contains("] iozone is not run with this case"), "{rates}");
    let csv = written("hyperion-prometheus", &[&run], "csv");
    assert!(csv.contains("limit unknown: no rate is stated"));
}

#[test]
fn a_figure_in_another_unit_than_its_table_names_it() {
    let id = "memory.bandwidth/op=copy/size=512M/threads=1";
    let mut copy = fixture::measured(id, "bandwidth", Unit::BytePerSecond, 50e9);
    let stream = ToolResult::of(&fixture::tool_run("hpcc STREAM", &[(50e9, 41.6e9)]), 0.03);
    copy.metrics[0].tool_results = vec![stream];
    let id = "memory.block/op=read-write/pattern=sequential/block=8K/threads=1";
    let block = fixture::measured(id, "throughput", Unit::BytePerSecond, 40e9);
    let run = Run { measurements: vec![copy, block], ..fixture::run() };
    let bare = text("chameleon-baremetal", &[&run]);
    let numbers = table(&bare, "numbers of the text");
    assert!(numbers.contains("41.60 GB/s hpcc STREAM"), "Mbps does not fit: {numbers}");
    let java = text("ec2-t2micro-java", &[&run]);
    let numbers = table(&java, "numbers of the text");
    let wanted = ["40 * 10E9 flop/Sec", "20.4658 GFlops linpack"];
    assert!(wanted.iter().all(|wanted| numbers.contains(wanted)), "{numbers}");
    let kvm = text("chameleon-kvm", &[&run]);
    let iperf = table(&kvm, "iperf: tcp, iperf3, server");
    assert!(iperf.lines().next().unwrap().ends_with("iperf: tcp, iperf3, server"), "{iperf}");
    assert!(line(iperf, "10-10s", "published").contains("0.00 Bytes"), "{iperf}");
    assert!(!line(iperf, "0-1s", "published").contains("GBytes"), "{iperf}");
}

#[test]
fn what_the_text_says_of_the_points_is_above_their_table() {
    let text = text("ec2-t2micro", &[&run()]);
    let floats = table(&text, "floating-point operations");
    let stated = "published, from the text: limit of float-ops 38.4 GFlops, own eff. of float-ops 53.59 %";
    let of_tool = "linpack of float-ops 30.47 GFlops (in no table";
    assert!(floats.contains(stated) && floats.contains(of_tool), "{floats}");
}

/// A run of a report's plan with the results `result` of its points.
pub(in crate::report) fn replay(
    baseline: &PublishedReport,
    result: impl Fn(&PublishedFigure) -> Option<(f64, Unit)>,
) -> Run {
    let mut all: Vec<Measurement> = Vec::new();
    for (figure, matched) in baseline.own_points() {
        let Some((value, unit)) = result(figure) else { continue };
        let made = fixture::measured(matched.case.id().as_str(), matched.metric, unit, value);
        match all.iter_mut().find(|known| known.case == matched.case) {
            Some(known) if known.metrics.iter().all(|metric| metric.name != matched.metric) => {
                known.metrics.extend(made.metrics);
            }
            Some(_) => {}
            None => all.push(made),
        }
    }
    let mut run = fixture::run_of(all);
    run.plan.name = baseline.name.to_owned();
    run
}

/// A run with twice the published value at each point.
fn twice(name: &str) -> Run {
    replay(&find(name).unwrap(), |figure| Some((figure.believed()? * 2.0, figure.base?.1)))
}

fn evaluated(name: &str, run: &Run) -> Vec<evaluation::Statement> {
    evaluation::statements(&filled_reports(&[(find(name).unwrap(), vec![run])])[0].tables)
}

#[test]
fn the_evaluation_compares_threads_blocks_transports_and_machines() {
    let run = twice("ec2-t2micro");
    let all = evaluated("ec2-t2micro", &run);
    let of = |lead: &str| {
        let found = all.iter().find(|statement| statement.text.starts_with(lead));
        found.unwrap_or_else(|| panic!("no {lead}: {all:?}"))
    };
    let published = of("CPU throughput today ÷ published");
    assert!(published.text.contains("is 2.00 × (mean of 4; "), "{published:?}");
    assert_eq!(published.tables, [1, 2]);
    let scaling = of("Scaling: from 1 to 2 threads, CPU throughput");
    assert!(scaling.text.contains("integer-ops today 1.00 ×, published 1.00 ×; float-ops "), "{scaling:?}");
    for lead in ["Highest disk throughput: today ", "Network latency: tcp ÷ udp is today "] {
        assert!(!of(lead).tables.is_empty());
    }
    assert!(all.iter().all(|statement| !statement.tables.is_empty()), "{all:?}");
    let all = evaluated("hyperion-prometheus", &twice("hyperion-prometheus"));
    let leads =
        ["Best block of memory throughput: today ", "Memory throughput: sequential ÷ random is today "];
    assert!(leads.iter().all(|lead| all.iter().any(|one| one.text.starts_with(lead))), "{all:?}");
}

#[test]
fn the_evaluation_says_why_a_part_has_no_figure_of_today() {
    let mut run = twice("ec2-t2micro");
    run.measurements.retain(|measured| measured.case.subsystem() != "disk");
    let all = evaluated("ec2-t2micro", &run);
    let disk = all.iter().find(|statement| statement.text.starts_with("Disk throughput: no figure")).unwrap();
    assert!(disk.text.ends_with("not in this run"), "{disk:?}");
    for format in ["text", "markdown", "html"] {
        let written = written("ec2-t2micro", &[&run], format);
        let wanted = [evaluation::TITLE, "Highest CPU throughput"];
        assert!(wanted.iter().all(|wanted| written.contains(wanted)), "{format}");
    }
}

#[test]
fn formulas_of_the_report_and_of_today_are_under_the_table() {
    let mut run = twice("chameleon-kvm");
    let inputs = vec![Input::new("clock", 3.7e9, "Hz", "measured")];
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 1e12, "clock × operations", inputs);
    for metric in run.measurements.iter_mut().flat_map(|measured| &mut measured.metrics) {
        metric.limit = Some(limit.clone());
    }
    for format in ["text", "markdown", "html"] {
        let written = written_at(1000, "chameleon-kvm", &[&run], format);
        let wanted =
            ["clock 2.29 GHz × 2 cores × 2 CPUs × 8 operations per cycle", "clock × operations; clock = 3.7"];
        assert!(wanted.iter().all(|wanted| written.contains(wanted)), "{format}: {written}");
    }
}
