//! `plimsoll watch`: short random probes over hours and days, each a line of a [`Journal`] that
//! survives kill, reboot and sleep. A [`Schedule`] keeps the budget of CPU, disk and network.
//! Probes of a case become one outcome ([`joined`]); their course gives [`findings`].
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
