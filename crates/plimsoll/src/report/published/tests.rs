//! The tables of the five reports with figures of a made-up run.

use super::*;
use crate::fixture;
use crate::measurement::PeerResult;
use crate::published::find;
use crate::quantity::Unit;

fn run() -> Run {
    let mut fast = fixture::measured(
        "cpu.peak/op=add/type=i8/isa=avx512/threads=1/work=1000000000000/scaling=strong",
        "rate",
        Unit::OpPerSecond,
        472e9,
    );
    fast.metrics = vec![fixture::metric_of("rate", Unit::OpPerSecond, vec![470e9, 474e9])];
    let mut net = fixture::measured(
        "network.tcp/message=32K/streams=4/direction=up",
        "goodput",
        Unit::BitPerSecond,
        40e9,
    );
    net.metrics = vec![fixture::metric_of("goodput", Unit::BitPerSecond, vec![40e9])];
    let mut out = fixture::measured(
        "memory.block/op=read-write/pattern=random/block=10M/threads=4",
        "throughput",
        Unit::BytePerSecond,
        1.0,
    );
    (out.metrics, out.status, out.reason) = (Vec::new(), Status::Skipped, Some("no room".to_owned()));
    Run { measurements: vec![fast, net, out], ..fixture::run() }
}

#[test]
fn the_tables_are_the_reports_with_todays_figures_and_right_units() {
    let text = text(&find("hyperion-prometheus").unwrap(), &run(), &Style::plain(200));
    assert!(text.contains("cpu throughput, G(FL)OP/s (the report prints GigaOPS)"), "{text}");
    let row = text.lines().find(|line| line.contains("integer-ops QP") && line.contains("472.0")).unwrap();
    assert!(row.contains("2.183") && row.contains("216 ×"), "{row}");
    assert!(text.contains("network throughput, Mbit/s (the report prints Mb/sec)"));
    let past = text.lines().find(|line| line.contains("40000")).unwrap();
    assert!(past.contains("86872 [") || past.contains("86870 ["), "{past}");
    assert!(past.trim_end().ends_with('–'), "nothing is divided by it: {past}");
    assert!(text.contains("published: past the link of 56 Gbit/s"));
    assert!(text.contains("skipped: no room") && text.contains("not in this run"));
}

#[test]
fn every_report_has_its_layout() {
    let of = |name: &str| text(&find(name).unwrap(), &run(), &Style::plain(200));
    assert!(of("ec2-t2micro").contains("published mean"));
    assert!(of("ec2-t2micro").contains("cpu reference programs, G(FL)OP/s"));
    assert!(of("chameleon-kvm").contains("memory reference programs, GB/s"));
    assert!(of("chameleon-kvm").contains("8 threads"));
    let lines = |name: &str| of(name).lines().count();
    assert!(crate::published::names().iter().all(|name| lines(name) > 30));
}

#[test]
fn a_row_tells_what_was_published() {
    let (baseline, run) = (find("hyperion-prometheus").unwrap(), run());
    let told = beside(&baseline, &run.measurements[0]);
    assert_eq!(told, ["published (Hyperion, disk: Prometheus, year not stated) rate 2.18 GOP/s, here 216 ×"]);
    assert!(beside(&baseline, &run.measurements[1])[0].contains("not to be believed: past the link"));
    assert!(beside(&baseline, &run.measurements[2]).is_empty());
}

#[test]
fn a_tool_beside_another_case_keeps_its_share_of_that_cases_limit() {
    use crate::limit::{Kind, Limit, Source};
    let floor = Limit::fixed(Kind::Floor, Source::Derived, 20e-6, "echo", Vec::new());
    let mut echo = fixture::measured("network.latency/protocol=icmp/message=56", "rtt", Unit::Second, 40e-6);
    let peer = PeerResult::of(&fixture::heard("netperf", &[(40e-6, 80e-6)]), 0.03).with_shares(Some(&floor));
    echo.metrics[0].peers = vec![peer];
    let today =
        |tool| Today { samples: Vec::new(), metric: None, tool, instead: None, invalid: None, per: 1.0 };
    let beside = Beside::of(&today(None), 1e-6).with_tool_of(&today(Tool::of(&echo, "rtt")), 1e-6);
    assert_eq!(beside.0, ["80.00 netperf", NOTHING, NOTHING, "25.0 %"], "limit ÷ measured");
}

#[test]
fn a_tool_that_tells_a_rate_stands_beside_the_latency_too() {
    let case = "disk.io/op=read/pattern=random/block=1K/threads=4/engine=psync/depth=1";
    let mut disk = fixture::measured(case, "rate", Unit::IoPerSecond, 10e3);
    disk.metrics[0].peers = vec![PeerResult::of(&fixture::heard("iozone", &[(10e3, 8e3)]), 0.03)];
    disk.metrics.push(fixture::metric_of("latency", Unit::Second, vec![400e-6]));
    let run = Run { measurements: vec![disk], ..fixture::run() };
    let text = text(&find("hyperion-prometheus").unwrap(), &run, &Style::plain(200));
    let table = text.split("\n\n").find(|table| table.starts_with("disk latency")).unwrap();
    assert!(
        table.contains("0.4000") && table.contains("0.5000 iozone"),
        "four under way at 8000 a second: {table}"
    );
}

#[test]
fn a_tool_that_tells_a_rate_stands_beside_the_throughput_too() {
    let case = "disk.io/op=read/pattern=sequential/block=8K/size=8G/threads=1/volume=8G/scaling=strong/engine=psync/depth=1";
    let mut disk = fixture::measured(case, "rate", Unit::IoPerSecond, 10e3);
    disk.metrics[0].peers = vec![PeerResult::of(&fixture::heard("iozone", &[(10e3, 8e3)]), 0.03)];
    disk.metrics.push(fixture::metric_of("throughput", Unit::BytePerSecond, vec![81.92e6]));
    let run = Run { measurements: vec![disk], ..fixture::run() };
    let text = text(&find("chameleon-kvm").unwrap(), &run, &Style::plain(200));
    assert!(text.contains("81.92") && text.contains("65.54 iozone"), "8000 a second of 8 KiB: {text}");
}

#[test]
fn a_scaled_system_of_equations_stands_in_its_row() {
    let solved = fixture::measured("cpu.linpack/n=1000/threads=1", "rate", Unit::FlopPerSecond, 40e9);
    let mut run = Run { measurements: vec![solved], ..fixture::run() };
    let row = |run: &Run| {
        let text = text(&find("hyperion-prometheus").unwrap(), run, &Style::plain(200));
        text.lines().any(|line| line.contains("40.00"))
    };
    assert!(!row(&run), "10000 were not solved");
    run.plan.scale = 0.001;
    assert!(row(&run));
}
