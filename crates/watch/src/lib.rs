//! `plimsoll watch`: short random probes over hours and days, each a line of a [`WatchJournal`]
//! that survives kill, reboot and sleep. A [`ProbeSchedule`] keeps the budget of CPU, disk and
//! network. Probes of a case become one outcome ([`JournalContent::join_probes`]); their course
//! gives [`findings`].
#![forbid(unsafe_code)]

mod findings;
mod held;
mod hours;
mod journal;
mod schedule;

pub use findings::{findings, format_duration};
pub use journal::{
    JournalContent, JournalEntry, JournalError, MOST_PROBES, WatchJournal, WatchMark, WatchOrder, WatchProbe,
    WatchResources, WatchSession,
};
pub use schedule::ProbeSchedule;
