//! `network.tcp`: what one TCP stream carries, as the receiver counted it.
//!
//! A sample is one transfer: messages are written one by one until the time is over, and the far end reports the bytes
//! it received and the time from the transfer's announcement to its last byte, by its own clock. So goodput is what
//! arrived, never what was handed to a socket buffer, and the start and end of a transfer count against it.

use std::path::Path;
use std::time::Duration;

use super::near_end::{FarEnd, Transfer, Until};
use super::protocol::{Fnv, Header, MAX_MESSAGE, Op, first_byte};
use super::{Placement, message_sizes, metric, only_number, only_word, random_bytes};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::Unit;
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Sample, WrongAnswer};

/// Bytes of a message where none is named.
const MESSAGE: u64 = 64 << 10;
/// About how many bytes the check after timing sends.
const CHECKED: u64 = 4 << 20;

/// The benchmark itself.
#[derive(Debug)]
pub struct Tcp;

impl Benchmark for Tcp {
    fn name(&self) -> &'static str {
        "network.tcp"
    }

    fn about(&self) -> &'static str {
        "throughput of a TCP stream, as received"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["message", "streams", "direction"]
    }

    fn metrics(&self, _: &Case) -> Vec<Metric> {
        vec![
            metric("goodput", Unit::BitPerSecond, Better::Higher),
            metric("messages", Unit::PerSecond, Better::Higher),
            metric("loss", Unit::One, Better::Lower),
            metric("cpu", Unit::Second, Better::Lower),
        ]
    }

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        only_number(group, "streams", 1)?;
        only_word(group, "direction", "up")?;
        let case = |bytes| {
            Case::of(self.name())
                .with_size("message", bytes)
                .with_count("streams", 1)
                .with_word("direction", "up")
        };
        let sizes = message_sizes(group, MESSAGE)?;
        Ok(sizes.into_iter().map(|bytes| Candidate { case: case(bytes), feasible: Ok(()) }).collect())
    }

    fn prepare(&self, case: &Case, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let placement = Placement::new(cx.machine);
        Ok(Box::new(Stream::new(&super::own_program(), case, cx.options.seed, placement)?))
    }
}

/// A stream to a far end of its own.
#[derive(Debug)]
pub struct Stream {
    far_end: FarEnd,
    placement: Placement,
    message: u32,
    buffer: Vec<u8>,
}

impl Stream {
    /// Starts `program far-end` and connects to it.
    ///
    /// # Errors
    /// The far end cannot be started or reached.
    pub fn new(program: &Path, case: &Case, seed: u64, placement: Placement) -> Result<Self, CannotMeasure> {
        let message = super::message_of(case, MESSAGE);
        // Random, so that nothing on the way can make it smaller.
        let buffer = random_bytes(message as usize, seed, case);
        let far_end = FarEnd::start(program, placement.far)?;
        Ok(Stream { far_end, placement, message, buffer })
    }

    /// The far end's process id.
    pub fn far_end_pid(&self) -> u32 {
        self.far_end.pid()
    }

    fn read(&self, transfer: &Transfer) -> Result<Sample, CannotMeasure> {
        let report = transfer.report;
        let sent = transfer.messages * u64::from(self.message);
        if report.bytes > sent || report.nanos == 0 {
            return Err(CannotMeasure::far_end(format!(
                "the far end reports {} bytes in {} ns of the {sent} that were sent, which cannot be; both ends must be of one build",
                report.bytes, report.nanos
            )));
        }
        let seconds = Duration::from_nanos(report.nanos).as_secs_f64();
        let (near_cpu, far_cpu) =
            (transfer.cpu.as_secs_f64(), Duration::from_nanos(report.cpu_nanos).as_secs_f64());
        let (bytes, sent) = (report.bytes as f64, sent as f64);
        let values = [
            ("goodput", bytes * 8.0 / seconds),
            ("messages", bytes / f64::from(self.message) / seconds),
            ("loss", (sent - bytes) / sent),
            ("cpu", (near_cpu + far_cpu) / bytes),
        ];
        let shares = [
            ("near_cpu", near_cpu / transfer.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)),
            ("far_cpu", far_cpu / seconds),
        ];
        Ok(Sample {
            elapsed: seconds,
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            conditions: Conditions {
                more: shares.map(|(name, share)| (name.to_owned(), share)).into(),
                ..Conditions::default()
            },
            ..Sample::default()
        })
    }
}

impl Prepared for Stream {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let _pinned = self.placement.pin_near()?;
        let header = Header { op: Op::Stream, message: self.message };
        let transfer = self.far_end.send(header, &mut self.buffer, Until::new(amount))?;
        self.read(&transfer)
    }

    /// Sends a few million bytes more and compares the far end's hash of them with our own.
    fn verify(&mut self) -> Result<(), WrongAnswer> {
        let count = CHECKED.div_ceil(u64::from(self.message)).min(1 << 16);
        let header = Header { op: Op::Checked, message: self.message };
        let transfer = self
            .far_end
            .send(header, &mut self.buffer, Until::Messages(count))
            .map_err(|cannot| WrongAnswer(cannot.reason))?;
        let mut hash = Fnv::EMPTY;
        for number in 0..count {
            self.buffer[0] = first_byte(number, number + 1 == count);
            hash = hash.with(&self.buffer);
        }
        let (report, sent) = (transfer.report, count * u64::from(self.message));
        if report.bytes != sent || report.hash != hash.0 {
            return Err(WrongAnswer(format!(
                "the far end received {} of {sent} bytes, or other bytes than were sent; the network path corrupts data",
                report.bytes
            )));
        }
        Ok(())
    }

    fn facts(&self) -> Facts {
        self.placement.facts()
    }
}

/// Messages are held at both ends.
const _: () = assert!(MESSAGE <= MAX_MESSAGE as u64);
