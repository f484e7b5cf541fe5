//! `network.latency`: how long a message takes there and back.
//!
//! One message is under way at a time; every echo is compared with what was sent, and its time goes into a histogram
//! (three digits). `rtt` of a sample is the mean over its round trips, so it is also elapsed ÷ count; percentiles come
//! from the histogram. `goodput` counts the message once there and once back.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram as Hdr;

use super::near_end::{FarEnd, Until};
use super::protocol::{Header, Op, STALL, first_byte, read_some, thread_cpu};
use super::{Placement, message_sizes, metric, only_number, only_word, random_bytes};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::Unit;
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Histogram, Sample, WrongAnswer};

/// Bytes of a message where none is named.
const MESSAGE: u64 = 1;
/// Significant decimal digits of the histogram.
const DIGITS: u8 = 3;
/// Largest time that the histogram holds, in nanoseconds: an hour, far past every timeout.
const LONGEST: u64 = 3_600_000_000_000;

/// The benchmark itself.
#[derive(Debug)]
pub struct Latency;

impl Benchmark for Latency {
    fn name(&self) -> &'static str {
        "network.latency"
    }

    fn about(&self) -> &'static str {
        "round-trip time of a message"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["protocol", "message", "streams"]
    }

    fn metrics(&self, _: &Case) -> Vec<Metric> {
        vec![
            metric("rtt", Unit::Second, Better::Lower),
            metric("rate", Unit::PerSecond, Better::Higher),
            metric("goodput", Unit::BitPerSecond, Better::Higher),
            metric("loss", Unit::One, Better::Lower),
        ]
    }

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        only_number(group, "streams", 1)?;
        only_word(group, "protocol", "tcp")?;
        let case = |bytes| {
            Case::of(self.name())
                .with_word("protocol", "tcp")
                .with_size("message", bytes)
                .with_count("streams", 1)
        };
        let sizes = message_sizes(group, MESSAGE)?;
        Ok(sizes.into_iter().map(|bytes| Candidate { case: case(bytes), feasible: Ok(()) }).collect())
    }

    fn prepare(&self, case: &Case, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let placement = Placement::new(cx.machine);
        Ok(Box::new(RoundTrips::new(&super::own_program(), case, cx.options.seed, placement)?))
    }
}

/// Round trips with a far end of its own.
#[derive(Debug)]
pub struct RoundTrips {
    far_end: FarEnd,
    placement: Placement,
    message: u32,
    sent: Vec<u8>,
    echo: Vec<u8>,
    times: Hdr<u64>,
    /// Echoes that differed from what was sent, over all samples.
    wrong: u64,
}

/// One sample's round trips.
struct Trips {
    count: u64,
    elapsed: Duration,
    cpu: Duration,
    far_cpu: Duration,
    far_bytes: u64,
}

impl RoundTrips {
    /// Starts `program far-end` and connects to it.
    ///
    /// # Errors
    /// The far end cannot be started or reached.
    pub fn new(program: &Path, case: &Case, seed: u64, placement: Placement) -> Result<Self, CannotMeasure> {
        let message = super::message_of(case, MESSAGE);
        let times = Hdr::new_with_bounds(1, LONGEST, DIGITS)
            .map_err(|e| CannotMeasure::environment(format!("no histogram could be made: {e}")))?;
        let sent = random_bytes(message as usize, seed, case);
        let echo = vec![0; message as usize];
        let far_end = FarEnd::start(program, placement.far)?;
        Ok(RoundTrips { far_end, placement, message, sent, echo, times, wrong: 0 })
    }

    /// The far end's process id.
    pub fn far_end_pid(&self) -> u32 {
        self.far_end.pid()
    }

    fn trips(&mut self, until: Until) -> io::Result<Trips> {
        let RoundTrips { far_end, sent, echo, times, wrong, .. } = self;
        let header = Header { op: Op::Echo, message: self.message };
        let stream = far_end.stream();
        stream.set_read_timeout(Some(STALL))?;
        stream.write_all(&header.encode())?;
        let (started, cpu) = (Instant::now(), thread_cpu());
        let (mut number, mut before) = (0, started);
        loop {
            let last = until.ends_with(number, 1, started);
            sent[0] = first_byte(number, last);
            stream.write_all(sent)?;
            let mut done = 0;
            while done < echo.len() {
                done += read_some(stream, &mut echo[done..])?;
            }
            let now = Instant::now();
            // Never above the longest: a read ends at its timeout.
            times.saturating_record(now.duration_since(before).as_nanos() as u64);
            *wrong += u64::from(sent != echo);
            number += 1;
            if last {
                before = now;
                break;
            }
            before = now;
        }
        let (elapsed, cpu) = (before.duration_since(started), thread_cpu().saturating_sub(cpu));
        let report = far_end.report()?;
        let far_cpu = Duration::from_nanos(report.cpu_nanos);
        Ok(Trips { count: number, elapsed, cpu, far_cpu, far_bytes: report.bytes })
    }

    fn read(&self, trips: &Trips) -> Result<Sample, CannotMeasure> {
        let sent = trips.count * u64::from(self.message);
        if trips.far_bytes != sent {
            return Err(CannotMeasure::far_end(format!(
                "the far end reports {} bytes of the {sent} that it echoed, which cannot be; both ends must be of one build",
                trips.far_bytes
            )));
        }
        let (count, seconds) = (trips.count as f64, trips.elapsed.as_secs_f64().max(1e-9));
        let echoed = self.times.len() as f64;
        let values = [
            ("rtt", seconds / count),
            ("rate", count / seconds),
            ("goodput", 2.0 * 8.0 * sent as f64 / seconds),
            ("loss", (count - echoed) / count),
        ];
        let shares = [
            ("near_cpu", trips.cpu.as_secs_f64() / seconds),
            ("far_cpu", trips.far_cpu.as_secs_f64() / seconds),
        ];
        let recorded = self.times.iter_recorded();
        let buckets =
            recorded.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect();
        Ok(Sample {
            elapsed: seconds,
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            histograms: vec![Histogram { metric: "rtt".to_owned(), buckets }],
            conditions: Conditions {
                more: shares.map(|(name, share)| (name.to_owned(), share)).into(),
                ..Conditions::default()
            },
            ..Sample::default()
        })
    }
}

impl Prepared for RoundTrips {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let _pinned = self.placement.pin_near()?;
        self.times.reset();
        match self.trips(Until::new(amount)) {
            Ok(trips) => self.read(&trips),
            Err(e) if e.kind() == ErrorKind::TimedOut => Err(self.far_end.lost("a round trip", &e)),
            Err(e) => Err(self.far_end.lost("round trips", &e)),
        }
    }

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        match self.wrong {
            0 => Ok(()),
            n => Err(WrongAnswer(format!(
                "{n} echoes differ from what was sent; the network path corrupts data"
            ))),
        }
    }

    fn facts(&self) -> Facts {
        self.placement.facts()
    }
}
