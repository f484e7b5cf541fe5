//! A run under `mpirun` or `srun`: this process's part in it.
//!
//! Rank 0 admits the others, measures, collects, prints and stores. The others measure when they are told to and hand
//! their run document over; until rank 0 has stored it, they keep a copy beside the history.

pub(super) mod between;
mod hpl;
mod ranks;
mod recovered;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::prepared::Prepared;
use super::{Failure, Seat, code, ending, interrupts, peers};
use crate::cli::{Common, What};
use crate::cluster::message::Message;
use crate::cluster::{self, Ended, Fabric, Finished, Follow, Hello, Lead, Order, Part, Roster, Welcome};
use crate::document::{Run, SCHEMA};
use crate::evaluate::Maker;
use crate::event::Event;
use crate::fleet;
use crate::leftover::{Registry, Unfinished};
use crate::measurement::Measurement;
use crate::output::{self, Begins, Outputs};
use crate::plan::built_in;
use crate::resolve;
use crate::run::Pace;
use crate::run::Planned;
use crate::wire::Key;
use between::{Neighbour, Own};
use ranks::Ranks;
pub(super) use recovered::with_late;

/// Samples of each case when all machines measure at once and must take the same number.
const SAMPLES: u32 = 10;

/// Takes this process's part in a run of many.
pub(super) fn measure(what: &What, common: &Common, key: Option<Key>) -> Result<ExitCode, Failure> {
    if common.resume.is_some() {
        return Err(Failure::usage("--resume is not supported on a run over many machines: start a new run"));
    }
    let (alarm, interrupts) = unbounded();
    let fabric = match cluster::join(alarm.clone()) {
        Ok(fabric) => fabric,
        // What all of them have to say, rank 0 says.
        Err(_) if cluster::launched() != Some(0) => return Ok(ExitCode::from(code::ENVIRONMENT)),
        Err(e) => return Err(Failure::environment(format!("cannot join the cluster run: {e}"))),
    };
    let prepared = Prepared::new(&among_machines(what), common, None).map(|made| Prepared { key, ..made });
    if fabric.rank() == 0 {
        lead(fabric, prepared, common, Signals { alarm, interrupts })
    } else {
        Ok(follow(fabric, prepared, common, Signals { alarm, interrupts }))
    }
}

/// What is measured among many machines: `quick` has a part for them.
fn among_machines(what: &What) -> What {
    let quick =
        built_in::find("quick").filter(|quick| matches!(what, What::Plan(name) if name == quick.name));
    match quick {
        Some(quick) => {
            What::Text { name: quick.name.to_owned(), text: [quick.text, built_in::AMONG_MACHINES].concat() }
        }
        None => what.clone(),
    }
}

/// What ends a run before its time.
struct Signals {
    alarm: Sender<()>,
    interrupts: Receiver<()>,
}

impl Signals {
    /// Passes signals on; `first` is done before that.
    fn watch(self, first: impl FnOnce() + Send + 'static) -> Result<Receiver<()>, Failure> {
        let real = interrupts()?;
        let alarm = self.alarm;
        let forward = move || {
            if real.recv().is_ok() {
                first();
                // Whoever measures listens; when nobody does, the run is over.
                let _ = alarm.send(());
            }
        };
        std::thread::Builder::new().spawn(forward).map_err(|e| {
            Failure::environment(format!("cannot start a thread: {e}; see ulimit -u and ulimit -v"))
        })?;
        Ok(self.interrupts)
    }
}

/// Who this rank is, and what it is about to do.
fn hello(prepared: &Result<Prepared, Failure>) -> Hello {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    // The scheduler's name of the node, which may be one of several on a host.
    let scheduled = std::env::var("SLURMD_NODENAME").unwrap_or_default();
    let named = [scheduled, read("/proc/sys/kernel/hostname"), "localhost".to_owned()];
    let host = named.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema: SCHEMA.to_owned(),
        plan: prepared.as_ref().map(|p| resolve::hash(&p.plan, &p.planned)).unwrap_or_default(),
        key: format!("{} {host} {}", read("/etc/machine-id"), namespace.display()),
        host,
        cannot: prepared.as_ref().err().map(|failure| failure.line.clone()),
    }
}

/// What rank 0 measures by with all machines.
pub(super) struct Joint<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) common: &'a Common,
    pub(super) roster: &'a Roster,
    pub(super) interrupts: Receiver<()>,
    pub(super) emit: &'a dyn Fn(Event),
}

impl Joint<'_> {
    /// What makes measurements of all machines.
    fn maker(&self) -> Maker<'_> {
        self.prepared.maker(self.roster.name(0).unwrap_or_default())
    }
}

/// Whether machines measure it together: none could alone.
fn is_together(planned: &Planned) -> bool {
    hpl::is_hpl(planned) || ranks::is_mpi(planned)
}

/// The plan's cases of that kind.
fn together(prepared: &Prepared) -> Vec<Planned> {
    prepared.planned.iter().filter(|planned| is_together(planned)).cloned().collect()
}

fn order(common: &Common) -> Order {
    if common.together { Order::Together } else { Order::OneByOne }
}

/// The same number of samples everywhere, when all measure at once.
fn in_step(prepared: Prepared, told: &Welcome) -> Prepared {
    let mut prepared = prepared;
    prepared.plan.seed = told.seed;
    // They come when each has measured what is its own.
    prepared.planned.retain(|planned| !is_together(planned));
    if told.order == Order::Together {
        for planned in &mut prepared.planned {
            planned.sampling.samples.get_or_insert(SAMPLES);
        }
    }
    prepared
}

fn lead(
    fabric: Fabric,
    prepared: Result<Prepared, Failure>,
    common: &Common,
    signals: Signals,
) -> Result<ExitCode, Failure> {
    let refuse = |fabric: Fabric, failure: Failure| {
        (1..fabric.size()).for_each(|rank| fabric.say(rank, Message::Refused));
        // Whoever is lost meanwhile adds nothing to why nothing is measured.
        drop(fabric.leave());
        failure
    };
    let interrupts = match signals.watch(|| ()) {
        Ok(interrupts) => interrupts,
        Err(failure) => return Err(refuse(fabric, failure)),
    };
    let hellos = match cluster::introduced(&fabric, hello(&prepared), &interrupts) {
        Ok(hellos) => hellos,
        Err(why) => {
            // Ranks of which nothing was heard cannot leave in order.
            super::complain(&format!("nothing was measured: {why}"));
            fabric.abort(code::FAR_END);
            return Ok(ExitCode::from(code::FAR_END));
        }
    };
    let admitted =
        match prepared.and_then(|prepared| admitted(&fabric, &hellos, prepared, common, interrupts)) {
            Ok(admitted) => admitted,
            Err(failure) => return Err(refuse(fabric, failure)),
        };
    let roster = admitted.roster.clone();
    let (ended, code) = led(&fabric, common, admitted);
    Ok(ExitCode::from(leave(fabric, &roster, &ended, code)))
}

/// Leaves the world in order where all can, and else ends it. The exit code, which that may change.
fn leave(fabric: Fabric, roster: &Roster, ended: &Ended, code: u8) -> u8 {
    let complain = |lost: &[cluster::Lost]| {
        let named: Vec<String> =
            lost.iter().take(8).map(|l| format!("{} (rank {}): {}", l.name, l.rank, l.why)).collect();
        super::complain(&format!("machine lost: {}; finished results are kept", named.join("; ")));
    };
    match ended.lost.as_slice() {
        [] if !ended.interrupted => {
            let Err((rank, why)) = fabric.leave() else { return code };
            complain(&[cluster::Lost::of(roster, rank, &why)]);
            return code::ENVIRONMENT;
        }
        // Those whose turn has not come, or that measure, do not leave by themselves.
        [] => {}
        lost => complain(lost),
    }
    fabric.abort(code);
    code
}

/// What rank 0 has when all have been heard and nothing stands in the way.
struct Admitted {
    prepared: Prepared,
    outputs: Outputs,
    interrupts: Receiver<()>,
    roster: Roster,
    told: Welcome,
    /// What all solve together.
    together: Vec<Planned>,
    /// The run before anything is measured.
    header: Run,
    seat: Seat,
    ranks: Ranks,
    _held: super::Held,
}

/// All that may fail before anything is measured.
fn admitted(
    fabric: &Fabric,
    hellos: &[Hello],
    prepared: Prepared,
    common: &Common,
    interrupts: Receiver<()>,
) -> Result<Admitted, Failure> {
    let roster = Roster::of(hellos).map_err(|why| Failure {
        line: format!("nothing was measured: {why}; start the same program with the same plan everywhere"),
        code: code::FAR_END,
    })?;
    let outputs = super::outputs(common, &interrupts)?;
    let told =
        Welcome { run: crate::wall::run_id(), seed: prepared.plan.seed, name: None, order: order(common) };
    let together = together(&prepared);
    let prepared = in_step(prepared, &told);
    let header = super::document(&prepared, &told.run, roster.name(0));
    let seat = seated(&prepared, common, header.clone(), interrupts.clone())?;
    let ranks = Ranks::new(&prepared, fabric.voice(), interrupts.clone());
    let ranks = ranks.beside(&together, &prepared, common, &roster)?;
    let _held = super::Held::of(&header.id)?;
    Ok(Admitted { prepared, outputs, interrupts, roster, told, together, header, seat, ranks, _held })
}

/// What measures here, with the tools that stand beside it.
fn seated(
    prepared: &Prepared,
    common: &Common,
    document: Run,
    interrupts: Receiver<()>,
) -> Result<Seat, Failure> {
    let companions = peers::companions(common, &super::own_program()?, interrupts.clone(), prepared)?;
    Seat::new(prepared, document, interrupts, companions)
}

/// Measures with all. What became of it, and the exit code.
fn led(fabric: &Fabric, common: &Common, admitted: Admitted) -> (Ended, u8) {
    let Admitted { ref prepared, mut outputs, interrupts, roster, told, together, .. } = admitted;
    let (header, mut seat, mut ranks) = (admitted.header, admitted.seat, admitted.ranks);
    outputs.begin(&header, Begins::Anew);
    let begun = Instant::now();
    let sink = std::cell::RefCell::new(&mut outputs);
    let emit = |event| sink.borrow_mut().event(&event);
    let own = Own { rank: 0, ranks: &mut ranks, together: &together };
    let mut neighbour = Neighbour::new(prepared, &header, interrupts.clone(), Some(own), &emit);
    let joint = neighbour.is_some() || !together.is_empty();
    let machines = (!joint).then_some(roster.members.len());
    let measures = Joint { prepared, common, roster: &roster, interrupts: interrupts.clone(), emit: &emit };
    let mut lead = Lead::admit(fabric, interrupts, roster.clone(), &told);
    lead.run(
        |pace: &mut dyn Pace| {
            let interrupted = seat.carry_out(prepared, pace, &mut |event| emit(event));
            seat.keep_health();
            finished(&seat.document, interrupted)
        },
        |member, finished| {
            if member.rank != 0 {
                sink.borrow_mut().arrived(&finished.run);
            }
        },
    );
    if let Some(neighbour) = &mut neighbour {
        lead.between(neighbour, |made| between::suspects(&measures, &together, made));
    }
    let tell = |made: &Measurement| emit(Event::Measured { measurement: Box::new(made.clone()) });
    let mut shared = between::measurements(&measures, &together, &lead.ended().between);
    shared.extend(ranks.of_all(&together, &measures, &mut lead));
    shared.iter().for_each(tell);
    let solved = measures.solved(&together, &mut lead);
    solved.iter().for_each(tell);
    shared.extend(solved);
    let paths = between::paths(&measures, &together, &lead.ended().between);
    let mut ended = lead.end();
    let mut document = merged(header, &mut ended, machines, begun.elapsed());
    between::added(&mut document, shared, &paths);
    let kept = outputs.finish(&document);
    let code = exit_code_of(&document, &ended, kept);
    let code = ending::judged(code, prepared, &document).unwrap_or_else(|failure| {
        super::complain(&failure.line);
        failure.code
    });
    (ended, code)
}

fn finished(run: &Run, interrupted: bool) -> Finished {
    Finished { run: run.clone(), code: ending::own(run, interrupted, true), interrupted }
}

/// One document of all, into which their rows move: a row a machine. `machines` is how many there are, where their rows
/// are all of it.
fn merged(header: Run, ended: &mut Ended, machines: Option<usize>, elapsed: Duration) -> Run {
    let lost = ended.lost.iter().map(|one| recovered::finding(one, machines)).collect();
    // What a machine did stays: its rows go into the document.
    let rows = |run: &mut Run| Run { measurements: std::mem::take(&mut run.measurements), ..run.header() };
    let parts = ended.finished.values_mut().map(|finished| rows(&mut finished.run));
    let header = Run { elapsed_s: elapsed.as_secs_f64(), ..header };
    fleet::merged(header, parts, lost, !ended.interrupted)
}

fn exit_code_of(run: &Run, ended: &Ended, kept: bool) -> u8 {
    // What a machine refused is known to itself alone; what was measured between them is in the whole document alone.
    let together = Some(ending::own(run, false, kept)).filter(|code| *code != 0);
    let machines = ended.finished.values().map(|f| f.code).filter(|code| *code != code::INTERRUPTED);
    let own: Vec<u8> = machines.chain(together).collect();
    match () {
        () if !ended.interrupted && ending::has_wrong_answer(run) => code::VERDICT,
        () if !ended.lost.is_empty() => code::ENVIRONMENT,
        () if ended.interrupted => code::INTERRUPTED,
        () => ending::whole(run, &own),
    }
}

/// A rank after 0. It prints nothing: what it has to say, rank 0 says.
fn follow(
    fabric: Fabric,
    prepared: Result<Prepared, Failure>,
    common: &Common,
    signals: Signals,
) -> ExitCode {
    let voice = fabric.voice();
    let bye = move || voice.say(0, Message::Bye);
    // One that cannot listen to signals is refused, with the reason.
    let (interrupts, prepared) = match signals.watch(bye) {
        Ok(interrupts) => (interrupts, prepared),
        Err(failure) => (crossbeam_channel::never(), Err(failure)),
    };
    let mut follower = Follow::introduce(&fabric, interrupts.clone(), hello(&prepared));
    match (follower.part(), prepared) {
        (Part::Measure(told), Ok(prepared)) => {
            let together = together(&prepared);
            let prepared = in_step(prepared, &told);
            let copy = unconfirmed(common.store.as_deref())
                .map(|dir| dir.join(format!("{}-{}.json", told.run, fabric.rank())));
            let document = super::document(&prepared, &told.run, told.name.as_deref());
            let mut ranks = Ranks::new(&prepared, fabric.voice(), interrupts.clone());
            let own = Own { rank: fabric.rank(), ranks: &mut ranks, together: &together };
            let neighbour = Neighbour::new(&prepared, &document, interrupts.clone(), Some(own), &drop);
            measured(&mut follower, &prepared, common, &told, (interrupts, copy));
            match neighbour {
                Some(mut neighbour) => follower.attend(&mut neighbour),
                None => follower.wait(),
            }
        }
        (Part::Sleep, _) => follower.wait(),
        _ => {}
    }
    // Where rank 0 is gone, this rank ends as well, by the code that rank 0 has for a lost rank: the launcher tells that of
    // whichever it sees first.
    match fabric.leave() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(code::ENVIRONMENT),
    }
}

/// The directory of copies that rank 0 has not confirmed: in that of the history, none for `--store none`.
pub(super) fn unconfirmed(store: Option<&Path>) -> Option<PathBuf> {
    let location = output::location(store).ok().flatten()?;
    Some(location.directory().join("unconfirmed"))
}

fn measured(
    follower: &mut Follow<'_>,
    prepared: &Prepared,
    common: &Common,
    told: &Welcome,
    (interrupts, copy): (Receiver<()>, Option<PathBuf>),
) {
    let document = super::document(prepared, &told.run, told.name.as_deref());
    let mut seat = match seated(prepared, common, document, interrupts) {
        Ok(seat) => seat,
        Err(failure) => return follower.cannot(failure.line),
    };
    let mut so_far = seat.document.clone();
    // A machine that is lost leaves what it has finished; what cannot be written is missing then.
    let mut note = |event| {
        if let (Event::Measured { measurement }, Some(file)) = (event, &copy) {
            so_far.measurements.push(*measurement);
            drop(keep(file, &so_far));
        }
    };
    let interrupted = match told.order {
        Order::Together => seat.carry_out(prepared, follower, &mut note),
        Order::OneByOne => seat.carry_out(prepared, &mut crate::run::Alone, &mut note),
    };
    seat.keep_health();
    let written = copy.filter(|file| keep(file, &seat.document).is_ok());
    if follower.hand_over(finished(&seat.document, interrupted))
        && let Some(file) = written
    {
        // A copy that stays is imported twice at worst, which the history refuses.
        let _ = std::fs::remove_file(file);
    }
}

/// Writes a copy that is whole or not there.
fn keep(file: &Path, run: &Run) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let copy = Unfinished::new_in(dir, Registry::here().as_ref())?;
    crate::report::json::write(run, &copy.file)?;
    copy.file.sync_all()?;
    copy.finish(|path| path.persist(file).map_err(std::io::Error::from))
}

#[cfg(test)]
mod tests;
