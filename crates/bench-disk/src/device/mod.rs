//! Observations of the device during a case: its limits, other users, and what it really moved.

pub(crate) mod alone;
mod busy;
mod counters;
mod demand;
mod device_check;
pub(crate) mod io_limit;

pub(crate) use busy::Busy;
pub(crate) use counters::DirectionBytes;
pub(crate) use demand::{DemandUnit, DeviceDemand, Shares};
pub(crate) use device_check::DeviceCheck;
