//! Setup of a network case: location of the server, affinity, and the cases of streams.

use std::path::PathBuf;

use plimsoll_units::text::shown;

use crate::iperf3::is_on_iperf3;
use crate::job::{NetworkJob, named};
use crate::server::{ServerAddress, source_address};
use crate::session::ServerLocation;
use crate::{EndPlacement, NetworkLatency, amount};
use plimsoll_bench_api::check_range;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{Flow, NetworkStreams};
use plimsoll_server::wire::{SharedKey, is_congestion_control};
use plimsoll_system::program::OwnProgram;

/// Location and affinity of both ends of a case.
#[derive(Clone, Debug)]
pub struct NetworkSetup {
    /// Location of the server.
    pub place: ServerLocation,
    /// CPUs of the threads.
    pub placement: EndPlacement,
    pub(super) machine: Option<Machine>,
}

impl NetworkSetup {
    /// Creates the setup of a case from its parameters `job`: with the server that `job` names and
    /// the key in `cx`, or else with a private server process on this machine and the CPUs `ends`.
    /// Fails if that process is needed and this program's own file, which it runs, is not found.
    pub fn from_job(job: &NetworkJob, ends: EndPlacement, cx: &Context<'_>) -> Result<Self, CannotMeasure> {
        let machine = Some(cx.machine.clone());
        let Some(ServerAddress::Plimsoll(address) | ServerAddress::Iperf3(address)) = &job.server else {
            // Found even if it was replaced since the start.
            let own = OwnProgram::find().map_err(|e| {
                CannotMeasure::environment(format!("cannot find this program's own file: {e}; mount /proc"))
            })?;
            return Ok(Self { machine, ..Self::private(own.path, ends) });
        };
        let key = cx.options.key.clone().unwrap_or_else(SharedKey::open);
        let place = ServerLocation::Server { address: address.clone(), key };
        Ok(Self { place, placement: EndPlacement::on_separate_cpus(cx.machine), machine })
    }

    /// Creates a setup with a private server: a process of `program`, on the CPUs `placement.far`.
    pub fn private(program: PathBuf, placement: EndPlacement) -> Self {
        let place = ServerLocation::Private { program, cpus: placement.far.clone() };
        NetworkSetup { place, placement, machine: None }
    }
}

/// Returns each of `cases` with each number of `streams` in `group`, 1 to 64.
pub(super) fn with_streams(cases: Vec<Case>, group: &Group) -> Result<Vec<Case>, String> {
    const MAX_STREAMS: u64 = 64;
    let counts = counts_in_range(group, "streams", &[1], MAX_STREAMS)?;
    Ok(Case::with_each(cases, "streams", counts.into_iter().map(Value::Count)))
}

/// Returns a candidate per case with its parsed [`NetworkJob`]; `usual`: default message bytes.
pub(super) fn candidates(machine: &Machine, cases: Vec<Case>, usual: u32) -> Result<Vec<Candidate>, String> {
    let candidate = |case: Case| {
        let is_latency = case.benchmark() == NetworkLatency.name();
        let why = "network.latency is not supported on an iperf3 server: use plimsoll serve";
        let feasible = match is_on_iperf3(&case) {
            true if is_latency => Err(CannotMeasure::not_here(why)),
            true => check_iperf3(&case).map(Ok)?,
            false => Ok(()),
        };
        let job = NetworkJob::of(machine, &case, usual)?;
        Ok(Candidate::new(case, feasible).parsed(&job))
    };
    cases.into_iter().map(candidate).collect()
}

/// Smallest datagram, bytes: it must hold iperf3's header.
const MIN_IPERF3_DATAGRAM_BYTES: u64 = 16;
const IPERF3_OPTIONS: &[&str] = &["server", "message", "streams", "direction", "rate", "bind"];

fn check_iperf3(case: &Case) -> Result<(), String> {
    let NetworkStreams { message, direction, .. } = NetworkStreams::of(case);
    let is_small = |bytes: &u64| case.benchmark() == "network.udp" && *bytes < MIN_IPERF3_DATAGRAM_BYTES;
    match case.params().iter().find(|(name, _)| !IPERF3_OPTIONS.contains(name)) {
        Some((name, _)) => {
            Err(format!("--{name} is not supported on an iperf3 server: leave it out, or use plimsoll serve"))
        }
        None if direction == Flow::Both => {
            Err("--direction both is not supported on an iperf3 server: use up or down".to_owned())
        }
        None if let Some(bytes) = message.filter(is_small) => Err(format!(
            "message must be at least {MIN_IPERF3_DATAGRAM_BYTES} with an iperf3 server (its header): {bytes} is not"
        )),
        None => Ok(()),
    }
}

fn check_direction(key: &str, word: &str) -> Result<(), String> {
    let why = || format!("{key} must be up (the client sends), down or both: '{}' is not", shown(word));
    ["up", "down", "both"].contains(&word).then_some(()).ok_or_else(why)
}

/// Returns one case of benchmark `name` per message size (bytes), number of streams and direction
/// in `group`. Fails for invalid values.
pub(super) fn streaming(name: &str, sizes: Vec<u64>, group: &Group) -> Result<Vec<Case>, String> {
    let cases = Case::with_each(vec![Case::of(name)], "message", sizes.into_iter().map(Value::Size));
    let cases = with_streams(cases, group)?;
    let directions = group.words("direction", &["up"]);
    directions.iter().try_for_each(|word| check_direction("direction", word))?;
    Ok(Case::with_each(cases, "direction", directions.into_iter().map(Value::Word)))
}

/// Parameters that every case has. Other keys are in a case only if the user set them.
const PERMANENT_KEYS: &[&str] = &["protocol", "message", "streams", "direction", "mode"];

/// Returns one case per combination of a case in `cases` with the values in `group` of those
/// parameters `keys` that are not in [`PERMANENT_KEYS`]. Fails for an invalid value.
pub(super) fn with_options(cases: Vec<Case>, group: &Group, keys: &[&str]) -> Result<Vec<Case>, String> {
    amount::check(group)?;
    let mut cases = cases;
    for key in keys.iter().filter(|key| !PERMANENT_KEYS.contains(key)) {
        let Some(values) = group.lists.get(key) else { continue };
        values.iter().try_for_each(|value| check(key, value))?;
        cases = Case::with_each(cases, key, values.clone());
    }
    Ok(cases)
}

fn check(key: &str, value: &Value) -> Result<(), String> {
    match (key, value) {
        ("server", Value::Word(word)) => named(word).map(drop),
        ("bind", Value::Word(word)) if source_address(word).is_none() => {
            Err(format!("{key} must be an IP address of this machine: '{}' is not an address", shown(word)))
        }
        ("congestion", Value::Word(word)) if !is_congestion_control(word) => {
            Err(format!("{key} must be a congestion control such as cubic or bbr: '{}' is not", shown(word)))
        }
        ("search", Value::Word(word)) if word != "lossless" => {
            Err(format!("{key} must be lossless: '{}' is not", shown(word)))
        }
        ("load", Value::Word(word)) => check_direction(key, word),
        ("timeout" | "interval", Value::Time(time)) if time.is_zero() || time.as_secs() > 60 => {
            Err(format!("{key} must be between 1ns and 60s"))
        }
        ("rate", Value::Rate(rate)) if !(1.0..=1e15).contains(rate) => {
            Err(format!("{key} must be between 1 and 1P bits per second"))
        }
        ("omit", Value::Time(time)) if time.as_secs() > 3600 => Err(format!("{key} must be at most 1h")),
        ("window", Value::Size(n)) => check_range(1024..=1 << 30, key, *n).map(drop),
        ("mss", Value::Count(n)) => check_range(88..=32_767, key, *n).map(drop),
        ("dscp", Value::Count(n)) => check_range(0..=63, key, *n).map(drop),
        _ => Ok(()),
    }
}
