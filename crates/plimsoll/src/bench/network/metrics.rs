//! Names of the metrics of the network benchmarks.

use crate::metric::{Better, Form, Metric};
use crate::quantity::Unit;

/// Bits per second that arrived.
pub(crate) const GOODPUT: &str = "goodput";
/// Messages per second that arrived.
pub(crate) const MESSAGES: &str = "messages";
/// The share that did not arrive.
pub(crate) const LOSS: &str = "loss";
/// Seconds of processor time at both ends for each byte that arrived.
pub(crate) const CPU: &str = "cpu";
/// How the time on the way differs from datagram to datagram, in seconds.
pub(crate) const JITTER: &str = "jitter";
/// Seconds until a message is back.
pub(crate) const RTT: &str = "rtt";
/// Round trips per second.
pub(crate) const RATE: &str = "rate";
/// Bits per second of the stream beside the round trips.
pub(crate) const LOAD: &str = "load";
/// Bits per second that were sent, in the trials of a search.
pub(crate) const OFFERED: &str = "offered";

/// The row of [`LOSS`], which all have.
pub(super) const LOST: Metric = Metric::new(LOSS, Unit::One, Better::Lower)
    .about("share of what was sent that did not arrive")
    .said_as("loss", Form::ShareAboveZero);
