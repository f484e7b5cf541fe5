//! The plan's network cases between machines: a server that lives as long as the run, the cases measured to another
//! machine's, those of MPI with it, and the document's measurements of all pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crossbeam_channel::Receiver;
use serde_json::Value;

use super::super::prepared::Prepared;
use super::super::{Failure, Seat};
use super::Joint;
use super::ranks::{self, Ranks, Who};
use crate::bench::network::to_server;
use crate::bench::{self, Better, Metric};
use crate::case::{Case, CaseId};
use crate::cluster::Roster;
use crate::cluster::between::{AT_ONCE, AT_ONCE_BACK, Actor, Answer, Between, EACH, Figure, Pair, Place};
use crate::document::{Finding, Run};
use crate::event::Event;
use crate::finding::{self, PairPath};
use crate::fleet;
use crate::limit::{Evidence, PAIRS, median};
use crate::machine::{Machine, Root};
use crate::measurement::{Measurement, Status};
use crate::plan::Sampling;
use crate::plan::file::SERVER;
use crate::run::Planned;
use crate::run::{Alone, expected_of};
use crate::sample::{Achieved, CannotMeasure, Cause, Cell, Conditions, Fact, Facts, Outcome, Sample};
use crate::serve::{Caps, Server, Settings};
use crate::traffic::{Cpus, route};
use crate::warning::{Note, Warn};
use crate::wire::{Key, MAX_STREAMS};

/// Samples of each case between two machines.
const SAMPLES: u32 = 3;
/// The longest of them, in seconds: each pair has them in both directions.
const SAMPLE_TIME: f64 = 0.1;
/// How long an address may take to answer.
const REACH: Duration = Duration::from_secs(2);
/// Addresses of a machine that are tried.
const ADDRESSES: usize = 16;
/// Pairs that are measured again, and those of them of one machine.
const AGAIN: usize = 8;
const ENOUGH: usize = 2;
/// Pairs without a figure that are named.
const NAMED: usize = 8;

/// The network cases that name no far end of their own: alone they are measured over loopback.
pub(in crate::app) fn cases(prepared: &Prepared) -> Vec<Planned> {
    let meant = |planned: &&Planned| {
        let case = &planned.candidate.case;
        let open = case.get(SERVER).is_none() && case.get("bind").is_none();
        let to_server = bench::find(case.benchmark()).is_some_and(|b| b.keys().contains(&SERVER));
        to_server && open && planned.candidate.feasible.is_ok()
    };
    let short = |planned: &Planned| {
        let sample_time = planned.sampling.sample_time.min(SAMPLE_TIME);
        let sampling = Sampling { samples: Some(SAMPLES), sample_time, ..planned.sampling };
        Planned { sampling, budget: None, ..planned.clone() }
    };
    prepared.planned.iter().filter(meant).map(short).collect()
}

/// This rank, and what it measures MPI with.
pub(in crate::app) struct Own<'a> {
    pub(super) rank: usize,
    pub(super) ranks: &'a mut Ranks,
    /// What machines measure together.
    pub(super) together: &'a [Planned],
}

/// A machine that measures the plan's network cases to others.
pub(in crate::app) struct Neighbour<'a> {
    prepared: Prepared,
    /// The cases of MPI.
    over_mpi: Vec<Planned>,
    /// This rank of MPI; none without MPI.
    own: Option<Own<'a>>,
    document: Run,
    interrupts: Receiver<()>,
    emit: &'a dyn Fn(Event),
    /// The server ends with this.
    server: Option<UnixStream>,
    interrupted: bool,
}

impl<'a> Neighbour<'a> {
    /// `None` where there is nothing to measure between machines. `document` is that of the run before anything is
    /// measured, `own` what this rank measures MPI with, if there is MPI.
    pub(in crate::app) fn new(
        prepared: &Prepared,
        document: &Run,
        interrupts: Receiver<()>,
        own: Option<Own<'a>>,
        emit: &'a dyn Fn(Event),
    ) -> Option<Self> {
        let together = own.as_ref().map(|own| own.together).unwrap_or_default();
        let (planned, over_mpi) = (cases(prepared), ranks::cases(together, Who::Two));
        if planned.is_empty() && over_mpi.is_empty() {
            return None;
        }
        let mut prepared = Prepared { planned, ..prepared.clone() };
        (prepared.plan.repeat, prepared.plan.budget) = (1, None);
        Some(Self {
            prepared,
            over_mpi,
            own,
            document: document.clone(),
            interrupts,
            emit,
            server: None,
            interrupted: false,
        })
    }

    /// Those of the network, to another machine's server.
    fn over_network(&mut self, place: &Place) -> Result<Vec<Answer>, CannotMeasure> {
        let key = Key::from_hex(&place.key, "the other machine's key");
        let key = key.map_err(|e| CannotMeasure::far_end(e.to_string()))?;
        let address = reached(place)?;
        self.measured(address, key).map_err(|failure| CannotMeasure::environment(failure.line))
    }

    /// Those of MPI, with another rank.
    fn with_rank(&mut self, rank: usize) -> Vec<Answer> {
        let Some(own) = &mut self.own else { return Vec::new() };
        own.ranks.with = vec![own.rank, rank];
        let ran = own.ranks.measured(&self.over_mpi, &self.prepared, self.emit);
        self.interrupted |= ran.interrupted;
        let answer = |planned: &Planned| {
            figure_of(ran.outcomes.iter().find(|outcome| outcome.case == planned.candidate.case))
        };
        self.over_mpi.iter().map(answer).collect()
    }

    fn measured(&mut self, address: SocketAddr, key: Key) -> Result<Vec<Answer>, Failure> {
        let mut prepared = Prepared { key: Some(key), ..self.prepared.clone() };
        for one in &mut prepared.planned {
            one.candidate = to_server(&one.candidate, &address.to_string())
                .map_err(|why| Failure::environment(why.to_string()))?;
        }
        let mut seat = Seat::new(&prepared, self.document.clone(), self.interrupts.clone(), None)?;
        self.interrupted |= seat.carry_out(&prepared, &mut Alone, &mut drop);
        let answer = |planned: &Planned| {
            let found = seat.document.measurements.iter().find(|m| m.case == planned.candidate.case);
            answer_of(found)
        };
        Ok(prepared.planned.iter().map(answer).collect())
    }
}

/// The headline of a case that was measured, if its answers were right.
fn figure_of(found: Option<&Outcome>) -> Answer {
    let Some(found) = found else { return Err(too_early()) };
    match &found.ended {
        Some(why) => Err(why.clone()),
        None => Ok(Figure {
            samples: headline(&found.case).map(|metric| found.values(metric.name)).unwrap_or_default(),
            conditions: found.samples.first().map(|sample| sample.conditions.clone()).unwrap_or_default(),
            facts: found.facts.clone(),
            peers: found.peers.clone(),
        }),
    }
}

fn too_early() -> CannotMeasure {
    CannotMeasure::new(Cause::Interrupted, "the run ended before its turn")
}

/// The headline of what was measured, if it is to be believed.
fn answer_of(found: Option<&Measurement>) -> Answer {
    let Some(found) = found else { return Err(too_early()) };
    match found.metrics.first().filter(|_| found.status == Status::Ok) {
        Some(metric) => {
            let (samples, conditions) = (metric.samples.clone(), found.conditions.clone());
            Ok(Figure { samples, conditions, ..Figure::default() })
        }
        None => Err(CannotMeasure {
            cause: found.cause.unwrap_or(Cause::NotHere),
            reason: found.reason.clone().unwrap_or_else(|| "it has no figure".to_owned()),
            wrong: found.wrong_answer.clone(),
        }),
    }
}

impl Neighbour<'_> {
    /// The cases that it measures, in the order of its answers.
    pub(in crate::app) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.prepared.planned.iter().chain(&self.over_mpi).map(|planned| &planned.candidate.case)
    }
}

impl Actor for Neighbour<'_> {
    fn serve(&mut self) -> Result<Place, CannotMeasure> {
        if self.prepared.planned.is_empty() {
            return Err(CannotMeasure::not_here("no case of the plan needs a server"));
        }
        let key = Key::random().map_err(|e| CannotMeasure::environment(e.to_string()))?;
        let machine = &self.prepared.machine;
        let settings = Settings {
            key: key.clone(),
            caps: Caps { max_rate: 1e15, max_streams: MAX_STREAMS, ..Caps::default() },
            allow: Vec::new(),
            parallel: true,
            cpus: Cpus(bench::place(machine, machine.cpu.allowed.len())),
        };
        let cannot = |why: String| {
            CannotMeasure::environment(format!("the other machines cannot connect to it: {why}"))
        };
        let server = Server::bind_any(0, settings).map_err(|e| cannot(e.to_string()))?;
        let port = server.addresses().first().map_or(0, SocketAddr::port);
        let (own, until) = UnixStream::pair().map_err(|e| cannot(e.to_string()))?;
        // A server that fails is what the others tell, who cannot reach it.
        let serve = move || drop(server.run(&until, &|_| ()));
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(serve);
        thread.map_err(|e| cannot(e.to_string()))?;
        self.server = Some(own);
        let addresses = own_addresses(&Root::live(), machine);
        Ok(Place { addresses, port, key: key.to_hex() })
    }

    fn measure(&mut self, with: usize, place: &Result<Place, CannotMeasure>) -> Vec<Answer> {
        let found = place.as_ref().map_err(Clone::clone).and_then(|place| self.over_network(place));
        let mut answers = found.unwrap_or_else(|why| vec![Err(why); self.prepared.planned.len()]);
        answers.extend(self.with_rank(with));
        answers
    }

    fn begins(&mut self, round: usize, rounds: usize) {
        let all = || self.prepared.planned.iter().chain(&self.over_mpi);
        let Some(first) = all().next() else { return };
        let each: f64 = all().map(expected_of).sum();
        let case = first.candidate.case.clone().with_word(SERVER, EACH).id();
        let left_s = each * (rounds - round) as f64;
        (self.emit)(Event::Preparing { case, index: round, cases: rounds, left_s });
    }

    fn interrupted(&self) -> bool {
        self.interrupted
    }
}

/// This machine's addresses that others may reach, those of the fastest interface first.
fn own_addresses(root: &Root, machine: &Machine) -> Vec<IpAddr> {
    let mut found = route::own(root);
    let speed = |address: &IpAddr| {
        let name = route::interface(root, SocketAddr::new(*address, 0))?;
        machine.network.iter().find(|nic| nic.name == name)?.speed_bit_per_s
    };
    found.sort_by_key(|address| std::cmp::Reverse(speed(address)));
    found.truncate(ADDRESSES);
    found
}

/// The first of the other machine's addresses that answers.
fn reached(place: &Place) -> Result<SocketAddr, CannotMeasure> {
    let mut tried = Vec::new();
    for address in place.addresses.iter().take(ADDRESSES) {
        // Hosts have networks of their own, such as those of containers, with the same addresses.
        let address = SocketAddr::new(*address, place.port);
        if route::is_local(address) {
            continue;
        }
        match TcpStream::connect_timeout(&address, REACH) {
            Ok(_) => return Ok(address),
            Err(e) => tried.push(format!("{address}: {e}")),
        }
    }
    match tried.as_slice() {
        [] => Err(CannotMeasure::not_here(
            "client and server have the same addresses: they share one network stack",
        )),
        all => Err(CannotMeasure::far_end(format!(
            "none of its addresses can be reached ({}); check that firewalls allow ports above 1023 between the machines",
            all.join("; ")
        ))),
    }
}

/// What the ends of each pair said of themselves, by case.
pub(in crate::app) fn paths(
    joint: &Joint<'_>,
    together: &[Planned],
    made: &[Between],
) -> BTreeMap<CaseId, Vec<PairPath>> {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let planned = cases(joint.prepared).into_iter().chain(ranks::cases(together, Who::Two));
    let of_case = |index: usize| {
        let path = |one: &Between| {
            let figure = one.answers.get(index)?.as_ref().ok()?;
            let (from, to) = (number(one.pair.from), number(one.pair.to));
            Some(PairPath { from, to, conditions: figure.conditions.more.clone() })
        };
        made.iter().filter(|one| one.kind == EACH).filter_map(path).collect()
    };
    let named = |planned: &Planned| planned.candidate.case.clone().with_word(SERVER, EACH).id();
    planned.enumerate().map(|(index, planned)| (named(&planned), of_case(index))).collect()
}

/// The measurements of all pairs: a matrix for each case, and what all pairs of the bisection carry together.
pub(in crate::app) fn measurements(
    joint: &Joint<'_>,
    together: &[Planned],
    between: &[Between],
) -> Vec<Measurement> {
    let (maker, roster) = (joint.maker(), joint.roster);
    let mut made = Vec::new();
    let planned = cases(joint.prepared).into_iter().chain(ranks::cases(together, Who::Two));
    for (index, planned) in planned.enumerate() {
        for kind in [EACH, AT_ONCE, AT_ONCE_BACK] {
            let of_kind = between.iter().filter(|one| one.kind == kind);
            let all: Vec<(&Between, &Answer)> =
                of_kind.filter_map(|one| Some((one, one.answers.get(index)?))).collect();
            let case = planned.candidate.case.clone().with_word(SERVER, kind);
            let outcome = match kind {
                EACH if ranks::is_mpi(&planned) && roster.members.len() < 2 => Some(without_partner(case)),
                EACH => each(case, &all, roster),
                _ => at_once(case, &all),
            };
            made.extend(outcome.map(|outcome| maker.measurement(&outcome, Evidence::default())));
        }
    }
    made
}

/// Pairs that stand out, the furthest of each case first: what slowed them for a moment does so once. Of a machine that is slow two
/// are enough.
pub(in crate::app) fn suspects(joint: &Joint<'_>, together: &[Planned], made: &[Between]) -> Vec<Pair> {
    let names: Vec<&str> = joint.roster.members.iter().map(|member| member.name.as_str()).collect();
    let number = |name: &Value| names.iter().position(|known| Some(*known) == name.as_str());
    let pair = |ends: [&Value; 2]| Some(Pair { from: number(ends[0])?, to: number(ends[1])? });
    let of = |finding: &Finding| -> Vec<Pair> {
        let evidence = &finding.evidence;
        let pairs = evidence.get("pairs").and_then(Value::as_array).into_iter().flatten();
        let of_machine = pairs.filter_map(|ends| pair([ends.get(0)?, ends.get(1)?])).take(ENOUGH);
        let alone = evidence.get("from").zip(evidence.get("to"));
        of_machine.chain(alone.and_then(|(from, to)| pair([from, to]))).collect()
    };
    let measured = measurements(joint, together, made);
    let found = measured.iter().flat_map(|measurement| finding::pairs(measurement, &names, &[]));
    let mut found: Vec<Pair> = found.flat_map(|finding| of(&finding)).collect();
    let mut seen = BTreeSet::new();
    found.retain(|pair| seen.insert(*pair));
    found.truncate(AGAIN);
    found
}

/// Adds what was measured between the machines of a run, and what it says of them. Findings that say who is lost stay the
/// first; what each machine shows by itself comes last.
pub(in crate::app) fn added(
    run: &mut Run,
    shared: Vec<Measurement>,
    paths: &BTreeMap<CaseId, Vec<PairPath>>,
) {
    let names: Vec<&str> = run.nodes.iter().map(|node| node.name.as_str()).collect();
    let slow = shared.iter().flat_map(|measurement| {
        let known = paths.get(&measurement.case.id()).map(Vec::as_slice).unwrap_or_default();
        finding::pairs(measurement, &names, known)
    });
    let slow: Vec<_> = slow.collect();
    let after = run.findings.iter().take_while(|finding| fleet::is_of_a_lack(finding)).count();
    run.findings.splice(after..after, slow);
    run.measurements.extend(shared);
}

/// One machine alone: over loopback there is no MPI to measure.
fn without_partner(case: Case) -> Outcome {
    Outcome { ended: Some(ranks::no_partner()), ..outcome(case, Vec::new(), Facts::default(), &[]) }
}

pub(super) fn headline(case: &Case) -> Option<Metric> {
    bench::find(case.benchmark())?.metrics(case).first().copied()
}

/// What has samples, or the first reason why it has none.
fn outcome(case: Case, samples: Vec<Sample>, facts: Facts, all: &[(&Between, &Answer)]) -> Outcome {
    let why = all.iter().find_map(|(_, answer)| answer.as_ref().err());
    let ended = why.filter(|_| samples.is_empty()).cloned();
    Outcome { case, repeat: 0, samples, facts, peers: Vec::new(), ended }
}

/// The median over the pairs, and the figure of each.
fn each(case: Case, all: &[(&Between, &Answer)], roster: &Roster) -> Option<Outcome> {
    let name = headline(&case)?.name;
    let figures: Vec<(&Between, &Figure)> =
        all.iter().filter_map(|(one, answer)| Some((*one, answer.as_ref().ok()?))).collect();
    let all_achieved: Vec<&Achieved> = figures.iter().map(|(_, figure)| &figure.facts.achieved).collect();
    let (conditions, achieved) = (alike(&figures), Achieved::alike(&all_achieved));
    let place = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let sample = |number: usize| {
        let cell = |(one, figure): &(&Between, &Figure)| {
            let value = *figure.samples.get(number)?;
            Some(Cell { row: place(one.pair.from), column: place(one.pair.to), value, mark: None })
        };
        let matrix: Vec<Cell> = figures.iter().filter_map(cell).collect();
        let value = median(matrix.iter().map(|cell| cell.value).collect())?;
        let values = [(name.to_owned(), value)].into();
        Some(Sample { values, matrix, conditions: conditions.clone(), ..Sample::default() })
    };
    let most = figures.iter().map(|(_, figure)| figure.samples.len()).max().unwrap_or(0);
    let samples: Vec<Sample> = (0..most).filter_map(sample).collect();
    let facts = Facts {
        achieved,
        warnings: without(all, roster).map(Note::from).into_iter().collect(),
        ..Facts::default()
    };
    // Tools stand beside a pair where it is the only one, and say why not where it is not.
    let peers = figures.first().map(|(_, figure)| figure.peers.clone()).unwrap_or_default();
    (!all.is_empty()).then(|| Outcome { peers, ..outcome(case, samples, facts, all) })
}

/// What is the same on the way of every pair: the limit rests on it.
fn alike(figures: &[(&Between, &Figure)]) -> Conditions {
    let all: Vec<&Conditions> = figures.iter().map(|(_, figure)| &figure.conditions).collect();
    Conditions::alike(&all)
}

/// Pairs that measured at once.
const MEASURED: Fact<usize> = Fact::new("pairs", "pairs of machines that measured at once");

/// The sum over the pairs; only rates add up. Nothing where a pair is missing: less would be told than there is.
fn at_once(case: Case, all: &[(&Between, &Answer)]) -> Option<Outcome> {
    let metric = headline(&case).filter(|metric| metric.better == Better::Higher && !all.is_empty())?;
    let name = metric.name;
    let figures: Option<Vec<(&Between, &Figure)>> =
        all.iter().map(|(one, answer)| Some((*one, answer.as_ref().ok()?))).collect();
    let figures = figures.unwrap_or_default();
    let mut conditions = alike(&figures);
    conditions.more.set(&PAIRS, figures.len() as f64);
    let sample = |number: usize| {
        let values: Option<Vec<f64>> = figures.iter().map(|(_, f)| f.samples.get(number).copied()).collect();
        let values = [(name.to_owned(), values?.iter().sum())].into();
        Some(Sample { values, conditions: conditions.clone(), ..Sample::default() })
    };
    let most = figures.iter().map(|(_, figure)| figure.samples.len()).max().unwrap_or(0);
    let samples = (0..most).filter_map(sample).collect();
    let mut facts = Facts::default();
    facts.achieved.set(&MEASURED, all.len());
    Some(outcome(case, samples, facts, all))
}

/// Names the pairs that have no figure.
fn without(all: &[(&Between, &Answer)], roster: &Roster) -> Option<WithoutFigure> {
    let name = |index: usize| roster.members.get(index).map_or("?", |member| member.name.as_str());
    let failed: Vec<String> = all
        .iter()
        .filter_map(|(one, answer)| {
            let why = crate::text::shown_within(&answer.as_ref().err()?.reason, 200);
            Some(format!("{} to {}: {why}", name(one.pair.from), name(one.pair.to)))
        })
        .collect();
    (!failed.is_empty()).then_some(WithoutFigure { failed, of: all.len() })
}

/// That pairs have no figure: each that failed with its reason, of so many.
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
        let named = self.failed.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        write!(f, "{} of {} pairs have no figure: {named}", self.failed.len(), self.of)
    }
}

#[cfg(test)]
mod tests;
