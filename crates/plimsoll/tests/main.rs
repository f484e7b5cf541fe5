//! All integration tests in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(clippy::too_many_lines, reason = "a test may be a long table of cases")]

mod browser;
mod check;
mod cli;
mod compare;
mod counts;
mod cpu;
mod datagrams;
mod disk;
mod docs;
mod english;
mod examples;
mod faults;
mod fio;
mod gate;
mod gather;
mod groups;
mod guide;
mod history;
mod hosts;
mod house;
mod html;
mod iperf3;
mod items;
mod layering;
mod machines;
mod memory;
mod names;
mod namespaces;
mod network;
mod os;
mod outputs;
mod packaging;
// Their stand-in is likwid-bench, whose kernels are those of x86-64.
mod plans;
mod quick;
mod quota;
mod redact;
#[cfg(target_arch = "x86_64")]
mod references;
mod refusals;
mod release;
mod replays;
mod site;
mod slurm;
mod steady;
mod store;
mod support;
mod tools;
mod warnings;
mod watch;
mod words;
