//! What parent and worker say to each other: one JSON value a line, in turn.

use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use plimsoll_bench::{Options, Parsed};
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::sample::{Amount, CannotMeasure, Facts, Offer, Sample, Writable};

/// Longest line either side accepts: a sample with a full latency histogram is far below it.
const MAX_LINE: u64 = 16 << 20;

/// Parent to worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// First of all: where the worker is and what the user chose.
    Begin {
        /// The machine as the parent discovered it.
        machine: Box<Machine>,
        /// The user's choices.
        options: Options,
    },
    /// Tears down what is prepared and prepares this case.
    Prepare {
        /// The case.
        case: Case,
        /// What its benchmark made of its parameters when it was planned.
        parsed: Parsed,
        /// Seconds that are left of the budget, where there is one.
        within: Option<f64>,
    },
    /// Makes a place in which reference tools may write.
    Lend,
    /// Does one sample.
    Sample(Amount),
    /// Frees the CPUs for a while.
    Pause,
    /// Goes on.
    Resume,
    /// Checks the answer and tells the facts.
    Verify,
    /// Tears down what is prepared; the worker stays for another case.
    Finish,
}

/// Worker to parent, one for each request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Done; nothing to say.
    Done,
    /// The case is ready; this is what a reference tool may use.
    Prepared(Offer),
    /// Where reference tools may write, or why nowhere.
    Lent(Result<Writable, String>),
    /// A finished sample.
    Sampled(Box<Sample>),
    /// The answer was right; these are the facts.
    Verified(Facts),
    /// It cannot be measured.
    Cannot(CannotMeasure),
}

/// Writes one message and flushes it.
pub fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads one message; `None` at the end of the stream.
///
/// # Errors
/// A line that is too long or is not such a message.
pub fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let n = io::Read::take(&mut *from, MAX_LINE).read_until(b'\n', &mut line)?;
    if n == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut off or is too long"));
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
