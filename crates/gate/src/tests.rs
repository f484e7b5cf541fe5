#![allow(clippy::unwrap_used)]

use rand::RngExt;

use super::*;
use crate::machine::Busy;
use crate::measurement::{Point, Status};
use crate::stats::Seed;
use crate::view::testing::peak;
use plimsoll_machine::fixture;

const RATES: Rates = Rates { false_alarms: 1e-4, loss: 0.1 };

fn bare() -> Machine {
    Machine::default()
}

fn guest() -> Machine {
    let mut machine = bare();
    machine.virtualisation.hypervisor = Some("KVM".to_owned());
    machine
}
