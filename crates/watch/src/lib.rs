//! What a machine does over hours and days: `plimsoll watch`.
//!
//! Short probes at random times, each a line of a [`Journal`] that survives a kill, a reboot and sleep. A [`Schedule`] says when the next
//! one may begin, so that the watch keeps to its shares of the CPU, the disk and the network. What the probes measured of a case becomes
//! one outcome ([`joined`]), and what they show over time becomes [`findings`].
#![forbid(unsafe_code)]

mod findings;
mod held;
mod hours;
mod joined;
mod journal;
mod schedule;

pub use findings::{findings, lasting};
pub use joined::joined;
pub use journal::{
    Begun, Journal, JournalError, Kept, Line, MOST_PROBES, PassedOver, Probe, Probed, Session, Shares, Spent,
    Stopped,
};
pub use schedule::Schedule;
