//! Observations of the device during a case: its limits, other users, and what it really moved.

pub(crate) mod alone;
pub(crate) mod busy;
pub(crate) mod demand;
pub(crate) mod device_check;
pub(crate) mod io_limit;
