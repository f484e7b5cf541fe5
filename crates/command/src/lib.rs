//! What was typed (`cli`), and what it means: a plan and its cases, with all mistakes found (`resolve`). Nothing runs here.
#![forbid(unsafe_code)]

pub mod cli;
pub mod resolve;

use plimsoll_bench as bench;
use plimsoll_machine as machine;
use plimsoll_model::{case, plan, sample, words};
use plimsoll_reference as peer;
use plimsoll_run as run;
use plimsoll_server::{serve, wire};
use plimsoll_stats as stats;
use plimsoll_system::random;
use plimsoll_units::{quantity, text};
