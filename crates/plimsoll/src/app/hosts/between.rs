//! Measures the plan's network cases between nodes: server, client, and results of all pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crossbeam_channel::Receiver;
use plimsoll_bench::{Better, headline};
use plimsoll_bench_network::to_server;
use plimsoll_cluster::between::{
    ALL_PAIRS, AT_ONCE, AT_ONCE_BACK, MachinePair, PairAnswer, PairFigure, PairResults, ServingPlace,
};
use plimsoll_machine::Machine;
use plimsoll_model::case::{Case, CaseId};
use plimsoll_model::job::network::NetworkStreams;
use plimsoll_model::limit::{LimitEvidence, SUMMED_PAIRS, median};
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_model::plan::Sampling;
use plimsoll_model::plan::file::SERVER;
use plimsoll_model::sample::{
    CannotMeasure, CaseFact, Cell, Conditions, Facts, FailureCause, Outcome, Sample,
};
use plimsoll_model::warning::{Note, Warn};
use plimsoll_result::document::{Finding, Run};
use plimsoll_result::finding::evidence::{SlowNodeEvidence, SlowPairEvidence};
use plimsoll_result::finding::{self, PairPath};
use plimsoll_result::fleet;
use plimsoll_run::Planned;
use plimsoll_server::serve::{Caps, Server, Settings};
use plimsoll_server::traffic::{PinnedCpus, route};
use plimsoll_server::wire::{MAX_STREAMS, SharedKey};
use plimsoll_units::text::shown_within;

use super::super::prepared::{PreparedRun, takes_server};
use super::super::{carry_out, document};
use super::tools::empty;

const SAMPLES_PER_PAIR: u32 = 3;
/// Longest sample in seconds: each pair is measured in both directions.
const SAMPLE_TIME: f64 = 0.1;
const REACH: Duration = Duration::from_secs(2);
const ADDRESSES: usize = 16;
/// Most pairs of nodes that are retested, in all and per slow node.
const MAX_RETESTED_PAIRS: usize = 8;
const MAX_RETESTS_PER_MACHINE: usize = 2;
const MAX_PAIRS_NAMED: usize = 8;

/// Returns the network cases to measure between nodes: feasible ones without a server and a source
/// address in the plan, with 3 samples of at most 0.1 s.
pub(in crate::app) fn cases(prepared: &PreparedRun) -> Vec<Planned> {
    let meant = |planned: &&Planned| {
        let case = &planned.candidate.case;
        let open = case.server().is_none() && NetworkStreams::of(case).bind.is_none();
        takes_server(case) && open && planned.candidate.feasible.is_ok()
    };
    let short = |planned: &Planned| {
        let sample_time = planned.sampling.sample_time.min(SAMPLE_TIME);
        let sampling = Sampling { samples: Some(SAMPLES_PER_PAIR), sample_time, ..planned.sampling };
        Planned { sampling, budget: None, ..planned.clone() }
    };
    prepared.planned.iter().filter(meant).map(short).collect()
}

/// A node that measures the plan's network cases to other nodes.
pub(in crate::app) struct Neighbour {
    prepared: PreparedRun,
    interrupts: Receiver<()>,
    server: Option<UnixStream>,
}

impl Neighbour {
    /// Prepares this node to measure to other nodes; `None` if the plan has no case between nodes.
    pub(in crate::app) fn new(prepared: &PreparedRun, interrupts: Receiver<()>) -> Option<Self> {
        let mut prepared = PreparedRun { planned: cases(prepared), ..prepared.clone() };
        (prepared.plan.repeat, prepared.plan.budget) = (1, None);
        (!prepared.planned.is_empty()).then_some(Self { prepared, interrupts, server: None })
    }

    /// Measures every case to the node that serves at `place`, an error of which each case then
    /// has. Returns the results by case id.
    pub(in crate::app) fn measure(
        &self,
        place: &Result<ServingPlace, CannotMeasure>,
    ) -> BTreeMap<String, PairAnswer> {
        let found = place.as_ref().map_err(Clone::clone).and_then(|place| self.over_network(place));
        let answers = found.unwrap_or_else(|why| vec![Err(why); self.prepared.planned.len()]);
        let cases = self.prepared.planned.iter().map(|planned| planned.candidate.case.id().to_string());
        cases.zip(answers).collect()
    }

    fn over_network(&self, place: &ServingPlace) -> Result<Vec<PairAnswer>, CannotMeasure> {
        let key = SharedKey::from_hex(&place.key, "the other machine's key");
        let key = key.map_err(|e| CannotMeasure::server_failed(e.to_string()))?;
        let address = first_reachable(place)?.to_string();
        let mut prepared = PreparedRun { key: Some(key), ..self.prepared.clone() };
        for one in &mut prepared.planned {
            one.candidate = to_server(&one.candidate, &address)
                .map_err(|why| CannotMeasure::environment(why.to_string()))?;
        }
        let ran = carry_out(&prepared, document(&prepared), self.interrupts.clone(), None, &mut drop);
        let (run, _) = ran.map_err(|failure| CannotMeasure::environment(failure.line))?;
        let found = |p: &Planned| answer_of(run.measurements.iter().find(|m| m.case == p.candidate.case));
        Ok(prepared.planned.iter().map(found).collect())
    }

    /// Starts a server on this node, until `self` is dropped. Returns its addresses and key.
    pub(in crate::app) fn serve(&mut self) -> Result<ServingPlace, CannotMeasure> {
        let key = SharedKey::random().map_err(|e| CannotMeasure::environment(e.to_string()))?;
        let machine = &self.prepared.machine;
        let settings = Settings {
            key: key.clone(),
            caps: Caps { max_rate: 1e15, max_streams: MAX_STREAMS, ..Caps::default() },
            allow: Vec::new(),
            parallel: true,
            cpus: PinnedCpus(plimsoll_bench::spread_cpus(machine, machine.cpu.allowed.len())),
        };
        let cannot = |why: &dyn fmt::Display| {
            CannotMeasure::environment(format!("the other machines cannot connect to it: {why}"))
        };
        let server = Server::bind_any(0, settings).map_err(|e| cannot(&e))?;
        let port = server.addresses().first().map_or(0, SocketAddr::port);
        let (own, until) = UnixStream::pair().map_err(|e| cannot(&e))?;
        // If the server fails, the other nodes report that they cannot reach it.
        let serve = move || drop(server.run(&until, &|_| ()));
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(serve);
        thread.map_err(|e| cannot(&e))?;
        self.server = Some(own);
        Ok(ServingPlace { addresses: own_addresses(machine), port, key: key.to_hex() })
    }
}

/// Returns the samples of the first metric if `found` is valid, else why not; `None`: interrupted.
fn answer_of(found: Option<&Measurement>) -> PairAnswer {
    let Some(found) = found else {
        return Err(CannotMeasure::new(FailureCause::Interrupted, "the run ended before its turn"));
    };
    if let Some(metric) = found.metrics.first().filter(|_| found.status == Status::Ok) {
        return Ok(PairFigure { samples: metric.samples.clone(), conditions: found.conditions.clone() });
    }
    Err(CannotMeasure {
        cause: found.cause.unwrap_or(FailureCause::NotHere),
        reason: found.reason.clone().unwrap_or_else(|| "it has no figure".to_owned()),
        wrong: found.wrong_answer.clone(),
    })
}

/// Returns at most [`ADDRESSES`] of this node's addresses for other nodes, fastest interface first.
fn own_addresses(machine: &Machine) -> Vec<IpAddr> {
    let mut found: Vec<(IpAddr, String)> = route::own_addresses().into_iter().collect();
    let speed = |name: &str| machine.network.iter().find(|nic| nic.name == name)?.speed_bit_per_s;
    found.sort_by_key(|(_, name)| std::cmp::Reverse(speed(name)));
    found.into_iter().map(|(address, _)| address).take(ADDRESSES).collect()
}

/// Returns the first address of `place` that accepts a TCP connection; fails if none does.
fn first_reachable(place: &ServingPlace) -> Result<SocketAddr, CannotMeasure> {
    let mut tried = Vec::new();
    for address in place.addresses.iter().take(ADDRESSES) {
        // Hosts may have local networks with the same addresses, such as those of containers.
        let address = SocketAddr::new(*address, place.port);
        if route::is_local(address) {
            continue;
        }
        match TcpStream::connect_timeout(&address, REACH) {
            Ok(_) => return Ok(address),
            Err(e) => tried.push(format!("{address}: {e}")),
        }
    }
    Err(match tried.as_slice() {
        [] => {
            CannotMeasure::not_here("client and server have the same addresses: they share one network stack")
        }
        all => CannotMeasure::server_failed(format!(
            "none of its addresses can be reached ({}); check that firewalls allow ports above 1023 between the machines",
            all.join("; ")
        )),
    })
}

/// Returns by case, for each pair of nodes with a result, the conditions of their network path.
pub(super) fn paths(prepared: &PreparedRun, made: &[PairResults]) -> BTreeMap<CaseId, Vec<PairPath>> {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let of_case = |index: usize| {
        let path = |one: &PairResults| {
            let figure = one.answers.get(index)?.as_ref().ok()?;
            let (from, to) = (number(one.pair.from), number(one.pair.to));
            Some(PairPath { from, to, conditions: figure.conditions.more.clone() })
        };
        made.iter().filter(|one| one.kind == ALL_PAIRS).filter_map(path).collect()
    };
    let named = |planned: &Planned| planned.candidate.case.clone().with_word(SERVER, ALL_PAIRS).id();
    cases(prepared).iter().enumerate().map(|(index, planned)| (named(planned), of_case(index))).collect()
}

/// Returns per network case a result over all pairs, measured in turn, and the sums over pairs that
/// measured at once, in each direction. `names` are the nodes' names by index.
pub(super) fn measurements(
    prepared: &PreparedRun,
    names: &[String],
    between: &[PairResults],
) -> Vec<Measurement> {
    let maker = prepared.maker(names.first().map(String::as_str).unwrap_or_default());
    let mut made = Vec::new();
    for (index, planned) in cases(prepared).iter().enumerate() {
        for kind in [ALL_PAIRS, AT_ONCE, AT_ONCE_BACK] {
            let of_kind = between.iter().filter(|one| one.kind == kind);
            let all: Vec<AnswerOfPair<'_>> =
                of_kind.filter_map(|one| Some((one, one.answers.get(index)?))).collect();
            let case = planned.candidate.case.clone().with_word(SERVER, kind);
            let outcome = match kind {
                ALL_PAIRS => each(case, &all, names),
                _ => simultaneous_sum(case, &all),
            };
            made.extend(outcome.map(|outcome| maker.measurement(&outcome, LimitEvidence::default())));
        }
    }
    made
}

/// Returns the pairs of nodes to measure again because their results are slow: at most
/// [`MAX_RETESTED_PAIRS`], two per slow node. `names` are the nodes' names by index.
pub(super) fn outlier_pairs(
    prepared: &PreparedRun,
    names: &[String],
    made: &[PairResults],
) -> Vec<MachinePair> {
    let measured = measurements(prepared, names, made);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let number = |name: &String| names.iter().position(|known| known == name);
    let pair = |[from, to]: &[String; 2]| Some(MachinePair { from: number(from)?, to: number(to)? });
    let of = |finding: &Finding| -> Vec<MachinePair> {
        match (finding.evidence_as::<SlowNodeEvidence>(), finding.evidence_as::<SlowPairEvidence>()) {
            (Some(node), _) => node.pairs.iter().filter_map(pair).take(MAX_RETESTS_PER_MACHINE).collect(),
            (_, Some(slow)) => pair(&[slow.from, slow.to]).into_iter().collect(),
            _ => Vec::new(),
        }
    };
    let found = measured.iter().flat_map(|measurement| finding::pairs(measurement, &names, &[]));
    let mut found: Vec<MachinePair> = found.flat_map(|finding| of(&finding)).collect();
    let mut seen = BTreeSet::new();
    found.retain(|pair| seen.insert(*pair));
    found.truncate(MAX_RETESTED_PAIRS);
    found
}

/// Adds `shared`, results between nodes, to `run`, and findings on slow nodes and pairs after those
/// on lost nodes. `paths` has, by case, what is known of the network between pairs.
pub(super) fn added(run: &mut Run, shared: Vec<Measurement>, paths: &BTreeMap<CaseId, Vec<PairPath>>) {
    let names: Vec<&str> = run.nodes.iter().map(|node| node.name.as_str()).collect();
    let slow = shared.iter().flat_map(|measurement| {
        let known = paths.get(&measurement.case.id()).map(Vec::as_slice).unwrap_or_default();
        finding::pairs(measurement, &names, known)
    });
    let slow: Vec<_> = slow.collect();
    let after = run.findings.iter().take_while(|finding| fleet::reports_missing_part(finding)).count();
    run.findings.splice(after..after, slow);
    run.measurements.extend(shared);
}

type AnswerOfPair<'a> = (&'a PairResults, &'a PairAnswer);

/// Returns the outcome of `case` with `sample(i)` for each `i` below the length of the longest list
/// in `figures`; if no call returns a sample, with the first error in `all`.
fn outcome<'a>(
    case: Case,
    all: &[AnswerOfPair<'_>],
    figures: impl Iterator<Item = &'a PairFigure>,
    facts: Facts,
    sample: impl Fn(usize) -> Option<Sample>,
) -> Outcome {
    let most = figures.map(|figure| figure.samples.len()).max().unwrap_or(0);
    let samples: Vec<Sample> = (0..most).filter_map(sample).collect();
    let why = all.iter().find_map(|(_, answer)| answer.as_ref().err());
    Outcome { ended: why.filter(|_| samples.is_empty()).cloned(), samples, facts, ..empty(case) }
}

/// Returns a case's outcome: sample i is the median of sample i of all pairs that did not fail,
/// with each pair's value. A warning lists failed pairs by `names`, of nodes. `None` without pairs.
pub(super) fn each(case: Case, all: &[AnswerOfPair<'_>], names: &[String]) -> Option<Outcome> {
    let name = headline(&case)?.name;
    let figures: Vec<(&PairResults, &PairFigure)> =
        all.iter().filter_map(|(one, answer)| Some((*one, answer.as_ref().ok()?))).collect();
    let conditions = alike(figures.iter().map(|(_, figure)| *figure));
    let place = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let sample = |number: usize| {
        let cell = |(one, figure): &(&PairResults, &PairFigure)| {
            let value = *figure.samples.get(number)?;
            Some(Cell { row: place(one.pair.from), column: place(one.pair.to), value, mark: None })
        };
        let matrix: Vec<Cell> = figures.iter().filter_map(cell).collect();
        let value = median(matrix.iter().map(|cell| cell.value).collect())?;
        let values = [(name.to_owned(), value)].into();
        Some(Sample { values, matrix, conditions: conditions.clone(), ..Sample::default() })
    };
    let facts =
        Facts { warnings: without(all, names).map(Note::from).into_iter().collect(), ..Facts::default() };
    let own = figures.iter().map(|(_, figure)| *figure);
    (!all.is_empty()).then(|| outcome(case, all, own, facts, sample))
}

fn alike<'a>(figures: impl Iterator<Item = &'a PairFigure>) -> Conditions {
    Conditions::common_to_all(&figures.map(|figure| &figure.conditions).collect::<Vec<_>>())
}

const PAIRS_AT_ONCE: CaseFact<usize> = CaseFact::new("pairs");

/// Returns the outcome of `case` with the sum over simultaneous pairs per sample, an error if a
/// pair failed; `None` without pairs or if the metric is no rate.
fn simultaneous_sum(case: Case, all: &[AnswerOfPair<'_>]) -> Option<Outcome> {
    let metric = headline(&case).filter(|metric| metric.better == Better::Higher && !all.is_empty())?;
    let figures: Option<Vec<&PairFigure>> = all.iter().map(|(_, answer)| answer.as_ref().ok()).collect();
    let figures = figures.unwrap_or_default();
    let mut conditions = alike(figures.iter().copied());
    conditions.more.set(&SUMMED_PAIRS, figures.len() as f64);
    let sample = |number: usize| {
        let sum = figures.iter().map(|figure| figure.samples.get(number).copied()).sum::<Option<f64>>()?;
        let values = [(metric.name.to_owned(), sum)].into();
        Some(Sample { values, conditions: conditions.clone(), ..Sample::default() })
    };
    let mut facts = Facts::default();
    facts.achieved.set(&PAIRS_AT_ONCE, all.len());
    Some(outcome(case, all, figures.iter().copied(), facts, sample))
}

fn without(all: &[AnswerOfPair<'_>], names: &[String]) -> Option<WithoutFigure> {
    let name = |index: usize| names.get(index).map_or("?", String::as_str);
    let reason = |(one, answer): &AnswerOfPair<'_>| {
        let why = shown_within(&answer.as_ref().err()?.reason, 200);
        Some(format!("{} to {}: {why}", name(one.pair.from), name(one.pair.to)))
    };
    let failed: Vec<String> = all.iter().filter_map(reason).collect();
    (!failed.is_empty()).then_some(WithoutFigure { failed, of: all.len() })
}

struct WithoutFigure {
    failed: Vec<String>,
    of: usize,
}

impl Warn for WithoutFigure {
    fn code(&self) -> &'static str {
        "pairs-without-figure"
    }
}

impl fmt::Display for WithoutFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.failed.iter().take(MAX_PAIRS_NAMED).cloned().collect::<Vec<_>>().join("; ");
        write!(f, "{} of {} pairs have no figure: {named}", self.failed.len(), self.of)
    }
}

#[cfg(test)]
mod tests;
