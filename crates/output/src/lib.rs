//! What a person or a program sees of a run: terminal, pages and all formats. Nothing is measured or decided here.
#![forbid(unsafe_code)]

pub mod report;

use plimsoll_bench as bench;
use plimsoll_bench::label;
use plimsoll_check as check;
#[cfg(test)]
use plimsoll_command::{cli, resolve};
use plimsoll_compare as compare;
use plimsoll_doctor as doctor;
use plimsoll_gate as gate;
use plimsoll_history as store;
use plimsoll_machine as machine;
use plimsoll_model::{case, limit, measurement, metric, plan, sample, warning, words};
use plimsoll_published as published;
use plimsoll_result::{document, event, fleet};
#[cfg(test)]
use plimsoll_result::{finding, fixture};
use plimsoll_stats as stats;
#[cfg(test)]
use plimsoll_system::wall;
use plimsoll_system::{leftover, links};
use plimsoll_units::{quantity, text};
