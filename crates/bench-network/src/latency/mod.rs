//! `network.latency`: round-trip time by TCP, UDP, ICMP echo, or a new TCP connection per message.
//! Each stream has one message in flight; one that is not back within the timeout is lost. `rtt` is
//! the mean over the messages that came back. Goodput counts a message in each direction.

mod end_cpus;
mod limit;
mod load;
mod trips;

pub use trips::RoundTrips;

use crate::job::NetworkJob;
use crate::setup::{NetworkSetup, candidates, with_options, with_streams};
use crate::{EndPlacement, GOODPUT, LOAD, LOSS, RATE_METRIC, RTT, fit_a_datagram, message_sizes, seed};
use plimsoll_bench_api::OfTransfers;
use plimsoll_bench_api::fixed::AveragePace;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{NetworkStreams, NetworkTrips};

const DEFAULT_MESSAGE_BYTES: u32 = 1;

/// The benchmark `network.latency`.
#[derive(Debug)]
pub struct NetworkLatency;

impl Benchmark for NetworkLatency {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "network.latency",
            synonyms: &["ping"],
            about: "round-trip time of messages, and their loss",
            words: &[
                LabelPart::Instead(
                    "protocol",
                    &[
                        ("tcp", "TCP round trip"),
                        ("udp", "UDP round trip"),
                        ("icmp", "ICMP echo"),
                        ("connect", "TCP connection, round trip"),
                    ],
                ),
                LabelPart::Value("message"),
            ],
            keys: &[
                "protocol", "message", "streams", "mode", "server", "timeout", "interval", "load", "bind",
                "affinity", "count", "scaling",
            ],
            // 50 µs per round trip.
            pace: Some(AveragePace { bytes: 1e9, operations: 2e4 }),
            details: |measurement| end_cpus::describe_placement(measurement).into_iter().collect(),
            limits: limit::limits,
            metrics: const {
                &[
                    Metric::new(RTT, Unit::Second, Better::Lower).about("time until a message is back"),
                    Metric::new(RATE_METRIC, Unit::PerSecond, Better::Higher)
                        .about("round trips per second")
                        .drawn()
                        .of_transfers(OfTransfers::Rate(1.0))
                        .with_floor(),
                    Metric::new(GOODPUT, Unit::BitPerSecond, Better::Higher)
                        .about("bits per second there and back")
                        .drawn()
                        .with_floor(),
                    LOSS,
                    Metric::new(LOAD, Unit::BitPerSecond, Better::Higher)
                        .about("bits per second of the TCP stream during the round trips")
                        .informative()
                        .shown_between("with", "of load"),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let given = |trips: NetworkTrips<'_>| (trips.load.is_some(), trips.interval.is_some());
        let (loaded, has_interval) = NetworkTrips::of(case).map_or((false, false), given);
        let streams = NetworkStreams::of(case).streams as f64;
        match row.name {
            LOAD if !loaded => None,
            // With pauses between messages, the rate does not follow from the time.
            RTT | RATE_METRIC if has_interval => Some(Metric { transfers: None, ..row }),
            RTT => Some(row.of_transfers(OfTransfers::Time(streams))),
            _ => Some(row),
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let sizes = message_sizes(group, DEFAULT_MESSAGE_BYTES)?;
        check_affinities(machine, group)?;
        let protocols = group.words("protocol", &["tcp"]);
        let has_icmp = protocols.iter().any(|protocol| protocol == "icmp");
        for protocol in protocols.iter().filter(|protocol| ["udp", "icmp"].contains(&protocol.as_str())) {
            fit_a_datagram(&sizes, &protocol.to_uppercase())?;
        }
        let cases =
            Case::with_each(vec![Case::of(self.name())], "protocol", protocols.into_iter().map(Value::Word));
        let cases = Case::with_each(cases, "message", sizes.into_iter().map(Value::Size));
        let cases = with_streams(cases, group)?;
        let modes = group.words("mode", &["block"]);
        let cases = Case::with_each(cases, "mode", modes.into_iter().map(Value::Word));
        let cases = with_options(cases, group, self.keys())?;
        if has_icmp && group.asked("load") {
            return Err(
                "--load is not supported with --protocol icmp: no plimsoll server takes part".to_owned()
            );
        }
        if group.asked("count") && group.asked("load") {
            return Err("--load and --count are mutually exclusive: use --sample-time".to_owned());
        }
        candidates(machine, cases, DEFAULT_MESSAGE_BYTES)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: NetworkJob = parsed.read()?;
        let placement = match &job.place {
            _ if job.trip.is_none() => EndPlacement::on_two_cores(cx.machine),
            Some(order) => end_cpus::ordered_placement(cx.machine, order),
            None => EndPlacement::together(cx.machine),
        };
        let setup = NetworkSetup::from_job(&job, placement, cx)?;
        Ok(Box::new(RoundTrips::new(&setup, &job, seed(cx, case))?))
    }
}
