//! Messages between parent and worker: one JSON value per line, in turn.

use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use plimsoll_bench::{Options, Parsed};
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::sample::{CannotMeasure, Facts, Offer, Sample, SampleAmount, Writable};
use plimsoll_units::json;

/// Longest accepted line in bytes, far above a sample with a full latency histogram.
const MAX_LINE: u64 = 16 << 20;

/// Request from parent to worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerRequest {
    /// First message.
    Begin {
        /// The machine as the parent discovered it.
        machine: Box<Machine>,
        /// Options of the user.
        options: Options,
    },
    /// Tears down the current case and prepares this one.
    Prepare {
        /// The case.
        case: Case,
        /// Parameters of the case as its benchmark parsed them for the plan.
        parsed: Parsed,
        /// Rest of the budget in s, if there is one.
        within: Option<f64>,
    },
    /// Creates a location that reference tools may write to.
    ProvideFile,
    /// Takes one sample.
    Sample(SampleAmount),
    /// Frees the CPUs temporarily.
    Pause,
    /// Ends a pause.
    Resume,
    /// Checks the answer and requests the facts.
    Verify,
    /// Tears down the current case; the worker stays for another one.
    Finish,
}

/// Reply from worker to parent, one per request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerReply {
    /// Done, without a result.
    Done,
    /// The case is ready; contains what reference tools may use.
    Prepared(Offer),
    /// Location that reference tools may write to, or the reason why there is none.
    Provided(Result<Writable, String>),
    /// A finished sample.
    Sampled(Box<Sample>),
    /// The answer was right; contains the facts.
    Verified(Facts),
    /// The case cannot be measured.
    Cannot(CannotMeasure),
}

/// Writes `message` as a line of JSON and flushes `to`.
pub fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads a line of JSON; `None` at the end of the stream. Fails if it is too long or invalid.
pub fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let n = io::Read::take(&mut *from, MAX_LINE).read_until(b'\n', &mut line)?;
    if n == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut off or is too long"));
    }
    Ok(Some(json::parse_bytes(&line)?))
}
