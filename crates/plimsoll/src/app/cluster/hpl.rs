//! `cpu.hpl`: the installed `xhpl` or `hpcc` on all machines of the run, started by MPI's launcher once more while
//! plimsoll's own ranks sleep.

use std::path::PathBuf;

use super::super::peers;
use super::Joint;
use crate::bench::Benchmark;
use crate::bench::cpu::hpl::{MACHINES, MACHINES_PEAK};
use crate::bench::cpu::{Hpl, Peak, RATE, RESIDUAL, TIME, operations};
use crate::case::Case;
use crate::cluster::{Ended, Lead, Roster};
use crate::event::Event;
use crate::limit::{Evidence, Source};
use crate::machine::Machine;
use crate::measurement::Measurement;
use crate::peer::{Against, Companions, Search, Through, fact};
use crate::run::Planned;
use crate::sample::{Amount, CannotMeasure, Cause, Conditions, Fact, Facts, Offer, Outcome, Sample};

/// Share of the available memory that the matrix takes.
const OF_MEMORY: f64 = 0.8;
/// Share of the limit that is assumed when time is estimated.
const ASSUMED: f64 = 0.6;
/// What a thread is assumed to reach where no limit is known, in FLOP/s.
const ASSUMED_EACH: f64 = 10e9;
/// So many times the estimate it may take.
const PATIENCE: f64 = 5.0;
/// Seconds for which the tool runs whatever the order.
const BESIDE: f64 = 60.0;
/// The tools, the better first: `hpcc` measures other things as well, which takes its time.
const TOOLS: [&str; 2] = ["xhpl", "hpcc"];
/// The tool has nothing to put in order and is ended without a delay, so that the run can be stored before its own launcher
/// ends it; the launcher's last words are why it ended.
const PLAINLY: [&str; 6] =
    ["--mca", "odls_base_sigkill_timeout", "0", "--mca", "orte_base_help_aggregate", "0"];
/// Parameters of Open MPI that are handed on: how machines are reached. Others are about the process that has them.
const HANDED_ON: [&str; 6] = ["plm_", "oob_", "btl", "pml", "mtl", "routed"];

/// Whether machines solve it together.
pub(super) fn is_hpl(planned: &Planned) -> bool {
    planned.candidate.case.benchmark() == Hpl.name()
}

impl Joint<'_> {
    /// The measurements of those of these cases that are HPL's, unless the run ends before.
    pub(super) fn solved(&self, cases: &[Planned], lead: &mut Lead<'_>) -> Vec<Measurement> {
        let maker = self.maker();
        let mut made = Vec::new();
        for planned in cases.iter().filter(|planned| is_hpl(planned)) {
            if lead.ended().interrupted {
                break;
            }
            let outcome = self.outcome(planned, lead.ended());
            match &outcome.ended {
                Some(why) if why.cause == Cause::Interrupted => lead.stop(),
                _ => made.push(maker.measurement(&outcome, Evidence::default())),
            }
        }
        made
    }

    fn outcome(&self, planned: &Planned, ended: &Ended) -> Outcome {
        let case = planned.candidate.case.clone();
        let empty = Outcome {
            case,
            repeat: planned.repeat,
            samples: Vec::new(),
            facts: Facts::default(),
            peers: Vec::new(),
            ended: None,
        };
        let machines: Vec<&Machine> = ended.finished.values().map(|finished| &finished.run.machine).collect();
        let peak = peak(ended);
        let made = System::of(planned, &machines, peak).and_then(|system| {
            let case = system.case.clone();
            let solved = self.solution(planned, &system)?;
            let samples = solved.samples.into_iter().map(|sample| system.with_peak(sample)).collect();
            Ok(Outcome { case, samples, facts: solved.facts, ..empty.clone() })
        });
        made.unwrap_or_else(|why| Outcome { ended: Some(why), ..empty })
    }

    fn solution(&self, planned: &Planned, system: &System) -> Result<Solved, CannotMeasure> {
        let (search, launcher) = peers::tools(self.common).map_err(|e| CannotMeasure::environment(e.line))?;
        let through = through(&search, self.roster, PATIENCE * (system.seconds + BESIDE))?;
        let parent: PathBuf = std::env::temp_dir();
        let interrupts = self.interrupts.clone();
        let mut companions = Companions::new(search, launcher, parent, interrupts);
        companions.registry = crate::leftover::Registry::here();
        companions.through = Some(Ok(through));
        let (tools, offer) = (Against::Named(TOOLS.to_vec()), Offer::default());
        let found = companions.beside(&tools, &system.case, &self.prepared.machine, &offer);
        let mut why = Vec::new();
        for mut tool in found {
            let Some(mut prepared) = tool.prepared.take() else {
                why.push(format!("{}: {}", tool.about.name, tool.about.unavailable.unwrap_or_default()));
                continue;
            };
            super::super::complain(&system.estimate(&tool.about.name));
            let case = system.case.id();
            (self.emit)(Event::Preparing { case, index: 0, cases: 1, left_s: system.seconds + BESIDE });
            let times = planned.sampling.samples.unwrap_or(1);
            let samples = (0..times).map(|_| sample(prepared.as_mut(), &system.case));
            let samples = samples.collect::<Result<Vec<Sample>, CannotMeasure>>()?;
            let mut facts = prepared.facts();
            facts.achieved.set(&PROGRAM, tool.about.command.join(" "));
            return Ok(Solved { samples, facts });
        }
        Err(CannotMeasure::not_here(format!("{}; apt-get install hpcc, on every machine", why.join("; "))))
    }
}

/// The program that solved it.
const PROGRAM: Fact<String> = Fact::new("program", "command of the program that solved it");

struct Solved {
    samples: Vec<Sample>,
    facts: Facts,
}

/// One solution. The tool's check of the residual has passed when there is a figure.
fn sample(tool: &mut dyn crate::bench::Prepared, case: &Case) -> Result<Sample, CannotMeasure> {
    let mut sample = tool.sample(Amount::Work(1))?;
    let rate = sample.values.get(RATE).copied().unwrap_or(f64::NAN);
    sample.elapsed = operations(case.number("n").unwrap_or(0) as f64) / rate;
    sample.values.insert(TIME.to_owned(), sample.elapsed);
    let residual = tool.facts().achieved.get(&fact::RESIDUAL).and_then(|text| text.parse().ok());
    sample.values.extend(residual.map(|residual: f64| (RESIDUAL.to_owned(), residual)));
    Ok(sample)
}

/// What is solved, and on what.
#[derive(Debug, PartialEq)]
struct System {
    /// With order, blocks, grid of processes and threads.
    case: Case,
    machines: usize,
    /// Seconds that it is expected to take.
    seconds: f64,
    /// The sum of the machines' limits.
    peak: Option<f64>,
}

impl System {
    /// A process a machine, with as many threads as the machine with the fewest CPUs has.
    fn of(planned: &Planned, machines: &[&Machine], peak: Option<f64>) -> Result<Self, CannotMeasure> {
        let case = planned.candidate.case.clone();
        let nb = case.number("nb").unwrap_or(1).max(1);
        let threads = machines.iter().map(|machine| machine.cpu_capacity() as u64).min().unwrap_or(1).max(1);
        let guess = ASSUMED_EACH * threads as f64 * machines.len() as f64;
        let rate = peak.map_or(guess, |peak| ASSUMED * peak);
        let n = match case.number("n") {
            Some(n) => n,
            None => order(machines, nb, planned.budget.map(|seconds| seconds * rate))?,
        };
        let count = machines.len() as u64;
        let [p, q] = match (case.number("p"), case.number("q")) {
            (None, None) => grid(count),
            (Some(p), Some(q)) if p * q == count => [p, q],
            _ => {
                let why = format!("--p × --q must be {count}, the number of machines: give both or neither");
                return Err(CannotMeasure::not_here(why));
            }
        };
        let counts = [("n", n), ("nb", nb), ("p", p), ("q", q), ("threads", threads)];
        let case =
            counts.iter().fold(Case::of(Hpl.name()), |case, (name, count)| case.with_count(name, *count));
        let seconds = operations(n as f64) / rate;
        Ok(Self { case, machines: machines.len(), seconds, peak })
    }

    fn with_peak(&self, sample: Sample) -> Sample {
        let known = [(MACHINES, Some(self.machines as f64)), (MACHINES_PEAK, self.peak)];
        Sample {
            conditions: Conditions { more: known.into_iter().collect(), ..Conditions::default() },
            ..sample
        }
    }

    fn estimate(&self, tool: &str) -> String {
        let number = |key| self.case.number(key).unwrap_or(0);
        let time =
            crate::quantity::format_duration(std::time::Duration::from_secs(self.seconds.ceil() as u64));
        let more = if tool == "hpcc" { ", and up to a minute for hpcc's other parts" } else { "" };
        format!(
            "cpu.hpl by {tool}: order {} on {} machines, {} × {} processes of {} threads, about {time}{more}",
            number("n"),
            self.machines,
            number("p"),
            number("q"),
            number("threads"),
        )
    }
}

/// The largest order that the memory of the machine with the least, times their number, takes, and that so many
/// operations solve; a multiple of the block.
fn order(machines: &[&Machine], nb: u64, most: Option<f64>) -> Result<u64, CannotMeasure> {
    let each = machines.iter().map(|machine| machine.memory_available_bytes());
    let least = each.collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().min());
    let least = least.ok_or_else(|| {
        CannotMeasure::not_here("the available memory of a machine is unknown: choose the order with --n")
    })?;
    let memory = (OF_MEMORY * least as f64 * machines.len() as f64 / 8.0).sqrt();
    let time = most.map_or(f64::INFINITY, |operations| (1.5 * operations).cbrt());
    Ok((memory.min(time) as u64 / nb * nb).max(nb))
}

/// Rows and columns of processes: as near to a square as their number allows, the fewer rows.
fn grid(processes: u64) -> [u64; 2] {
    let rows = (1..=processes.isqrt()).rev().find(|rows| processes.is_multiple_of(*rows)).unwrap_or(1);
    [rows, processes / rows]
}

/// The sum over the machines of the derived limit of multiply-adds in f64, the highest that each has measured to; none
/// where one has none.
fn peak(ended: &Ended) -> Option<f64> {
    let of = |run: &crate::document::Run| {
        let all = run.machine.all_threads(run.measurements.iter().map(|m| m.case.threads()));
        let fma = |m: &&Measurement| {
            let case = &m.case;
            case.benchmark() == Peak.name()
                && (case.word("op"), case.word("type")) == (Some("fma"), Some("f64"))
                && case.threads() == all
        };
        let limits = run.measurements.iter().filter(fma).filter_map(|m| m.metrics.first()?.limit.as_ref());
        let derived = limits.filter(|limit| limit.source == Source::Derived);
        derived.filter_map(|limit| limit.value).max_by(f64::total_cmp)
    };
    ended.finished.values().map(|finished| of(&finished.run)).sum()
}

/// What starts a tool on all machines of the run; it may take so many seconds.
pub(super) fn through(search: &Search, roster: &Roster, limit: f64) -> Result<Through, CannotMeasure> {
    let program = search.find("mpirun", "mpirun", &[]);
    let program = program.map_err(|why| CannotMeasure::not_here(format!("mpirun: {why}")))?;
    Ok(Through { program, arguments: launch(roster, variables())?, export: "-x", limit })
}

/// The environment, without what is not UTF-8.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The launcher's words before the tool: one process on each machine of the run, this one first.
fn launch(
    roster: &Roster,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Vec<String>, CannotMeasure> {
    let environment: Vec<(String, String)> = environment.collect();
    if !environment.iter().any(|(name, _)| name == "OMPI_COMM_WORLD_SIZE") {
        return Err(CannotMeasure::not_here("cpu.hpl requires Open MPI's mpirun: start plimsoll with it"));
    }
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    if let Some(odd) = roster.members.iter().find(|member| !plain(&member.name)) {
        return Err(CannotMeasure::not_here(format!(
            "mpirun cannot use the host name {}: it may have letters, digits, '.', '-' and '_' only; rename that host",
            odd.name
        )));
    }
    let hosts: Vec<String> = roster.members.iter().map(|member| format!("{}:1", member.name)).collect();
    let (count, hosts) = (hosts.len().to_string(), hosts.join(","));
    let begin = ["-n", &count, "-H", &hosts, "--bind-to", "none"];
    let mut words: Vec<String> = begin.iter().chain(&PLAINLY).map(|word| (*word).to_owned()).collect();
    if rustix::process::geteuid().is_root() {
        words.push("--allow-run-as-root".to_owned());
    }
    for (name, value) in &environment {
        let Some(name) = name.strip_prefix("OMPI_MCA_") else { continue };
        if HANDED_ON.iter().any(|lead| name.starts_with(lead)) {
            words.extend(["--mca".to_owned(), name.to_owned(), value.clone()]);
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
