//! `network.latency`: how long a message takes there and back.
//!
//! One message is under way at a time; every echo is compared with what was sent, and its time goes into a histogram
//! (three digits). `rtt` of a sample is the mean over its round trips, so it is also elapsed ÷ count; percentiles come
//! from the histogram. `goodput` counts the message once there and once back.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram as Hdr;

use super::near_end::FarEnd;
use super::setup::Setup;
use super::{Placement, message_sizes, metric, only_number, only_word, random_bytes};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::Unit;
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Histogram, Sample, WrongAnswer};
use crate::traffic::{Lost, nanos, thread_cpu};
use crate::wire::{Echo, Message, RESULTS, Sockets, WireError};

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
        &["protocol", "message", "streams", "server", "bind"]
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
        let cases = super::setup::with_options(sizes.into_iter().map(case).collect(), group, self.keys())?;
        Ok(cases.into_iter().map(|case| Candidate { case, feasible: Ok(()) }).collect())
    }

    fn prepare(&self, case: &Case, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        Ok(Box::new(RoundTrips::new(&Setup::of(case, cx)?, case, cx.options.seed)?))
    }
}

/// Round trips with a far end of its own.
#[derive(Debug)]
pub struct RoundTrips {
    far_end: FarEnd,
    placement: Placement,
    link: String,
    message: u32,
    sent: Vec<u8>,
    echo: Vec<u8>,
    times: Hdr<u64>,
    /// Echoes that differed from what was sent, over all samples.
    wrong: u64,
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// After this many messages.
    Messages(u64),
    /// After this time.
    Elapsed(Duration),
}

impl Until {
    /// At least one message, at most a day.
    fn new(amount: Amount) -> Self {
        match amount {
            Amount::Work(messages) => Until::Messages(messages.max(1)),
            Amount::Seconds(s) if s > 0.0 => Until::Elapsed(Duration::from_secs_f64(s.min(86_400.0))),
            Amount::Seconds(_) => Until::Messages(1),
        }
    }

    /// Whether the message with this number (from 0) should be the last.
    fn ends_with(self, number: u64, started: Instant) -> bool {
        match self {
            Until::Messages(n) => number + 1 >= n,
            Until::Elapsed(time) => started.elapsed() >= time,
        }
    }

    /// Nanoseconds that it may take; a count takes as long as the far end allows.
    fn longest(self) -> u64 {
        match self {
            Until::Messages(_) => u64::MAX,
            Until::Elapsed(time) => nanos(time),
        }
    }
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
    /// Opens a session and joins a stream.
    ///
    /// # Errors
    /// The far end cannot be started or reached.
    pub fn new(setup: &Setup, case: &Case, seed: u64) -> Result<Self, CannotMeasure> {
        let message = super::message_of(case, MESSAGE);
        let times = Hdr::new_with_bounds(1, LONGEST, DIGITS)
            .map_err(|e| CannotMeasure::environment(format!("no histogram could be made: {e}")))?;
        let sent = random_bytes(message as usize, seed, case);
        let echo = vec![0; message as usize];
        let mut far_end = FarEnd::open(&setup.place, setup.from)?;
        far_end.join(1, &Sockets::default(), setup.from)?;
        let link = setup.link(far_end.address().ip());
        Ok(RoundTrips {
            far_end,
            placement: setup.placement.clone(),
            link,
            message,
            sent,
            echo,
            times,
            wrong: 0,
        })
    }

    /// The far end's process id.
    pub fn far_end_pid(&self) -> Option<u32> {
        self.far_end.pid()
    }

    fn trips(&mut self, until: Until) -> Result<Trips, CannotMeasure> {
        let longest = until.longest().min(self.far_end.welcome().max_nanos);
        let request = Message::Echo(Echo { streams: 1, message: self.message, longest });
        self.far_end.begin(&request)?;
        let done = self.exchange(until).map_err(|e| WireError::from(e).into());
        let (count, elapsed, cpu) = done.map_err(|e: Lost| self.far_end.lost("round trips", &e))?;
        let sent = count * u64::from(self.message);
        let report =
            self.results(sent).map_err(|e| self.far_end.lost("the results of round trips", &e.into()))?;
        let received = report.received.unwrap_or_default();
        let far_cpu = Duration::from_nanos(received.cpu_nanos);
        Ok(Trips { count, elapsed, cpu, far_cpu, far_bytes: received.bytes })
    }

    /// Tells the far end what was sent, and waits for what it saw.
    fn results(&mut self, sent: u64) -> Result<crate::wire::Report, WireError> {
        let deadline = Instant::now() + RESULTS;
        let channel = self.far_end.channel();
        channel.send(&Message::Sent(vec![sent]))?;
        match channel.receive(deadline)? {
            Message::Done(report) => Ok(*report),
            _ => Err(WireError::OutOfTurn),
        }
    }

    /// Sends one message after another and waits for each to come back: count, time, CPU time.
    fn exchange(&mut self, until: Until) -> io::Result<(u64, Duration, Duration)> {
        let RoundTrips { far_end, sent, echo, times, wrong, .. } = self;
        let mut stream = far_end.streams().first().ok_or(ErrorKind::NotConnected)?;
        stream.set_read_timeout(Some(RESULTS))?;
        stream.set_write_timeout(Some(RESULTS))?;
        let (started, cpu) = (Instant::now(), thread_cpu());
        let (mut number, mut before) = (0u64, started);
        loop {
            let last = until.ends_with(number, started);
            // So that even an echo of one byte can be told from the one before.
            sent[0] = number as u8;
            stream.write_all(sent)?;
            stream.read_exact(echo)?;
            let now = Instant::now();
            // Never above the longest: a read ends at its timeout.
            times.saturating_record(now.duration_since(before).as_nanos() as u64);
            *wrong += u64::from(sent != echo);
            number += 1;
            before = now;
            if last {
                return Ok((number, before.duration_since(started), thread_cpu().saturating_sub(cpu)));
            }
        }
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
        let _pinned = self.placement.near.pin(0);
        self.times.reset();
        let trips = self.trips(Until::new(amount))?;
        self.read(&trips)
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
        self.placement.facts(&self.link, self.far_end.address())
    }
}
