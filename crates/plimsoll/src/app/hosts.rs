//! `plimsoll run --hosts`: the plan on machines that ssh reaches, each by itself, and their results as one run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, never, select, unbounded};
use serde_json::json;

use super::{Failure, code, complain, ending, gather, interrupts};
use crate::cli::{Common, Hosts, What};
use crate::cluster::ssh::names::{self, Host};
use crate::cluster::ssh::{Answer, Hold, Order, Program, Ssh, measured};
use crate::document::{Finding, Run, RunStatus};
use crate::output::Begins;
use crate::peer::{Search, Trust};
use crate::plan::{built_in, write};
use crate::resolve;
use crate::text::{counted, read_small, shown_bytes, shown_within};

/// Largest file that names hosts.
const MAX_NAMES: u64 = 1 << 20;
/// Largest limits file, as of a run here.
const MAX_LIMITS: u64 = 1 << 20;
/// A machine that has its order by then is one that measures; the copy takes a minute at 1 Mbit/s.
const BEGINS: Duration = Duration::from_secs(300);
/// After an interrupt, results that are there come within this time: the whole ends within two seconds.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Measures there, prints and stores the result here.
///
/// # Errors
/// What was typed is wrong, or no machine has a result.
pub(super) fn measure(
    (what, common, key): (&What, &Common, Option<&Path>),
    typed: &Hosts,
    words: Vec<String>,
) -> Result<ExitCode, Failure> {
    refused(common)?;
    super::distinct_outputs(common)?;
    let order = order(what, common, key, words)?;
    let call = Call { ssh: ssh(typed)?, programs: programs(&typed.program)?, order };
    let hosts = hosts(typed)?;
    let interrupts = interrupts()?;
    let mut outputs = super::outputs(common, &interrupts)?;
    let begun = Instant::now();
    let at_once = typed.parallel.map_or(hosts.len(), |n| n as usize);
    let mut all = call.all(&hosts, at_once, &interrupts, !common.quiet)?;
    let mut run = joined(&mut all)?;
    run.elapsed_s = begun.elapsed().as_secs_f64();
    outputs.begin(&run.header(), Begins::Anew);
    outputs.arrived(&run);
    let kept = outputs.finish(&run);
    let own = all.codes.into_iter().chain([ending::own(&run, all.interrupted, kept)]).collect::<Vec<_>>();
    Ok(ExitCode::from(match () {
        () if all.interrupted => code::INTERRUPTED,
        () if run.status != RunStatus::Complete => code::FAR_END,
        () => ending::whole(&run, &own),
    }))
}

/// Options that say how a run goes on here.
fn refused(common: &Common) -> Result<(), Failure> {
    let instead = [
        (
            common.resume.is_some(),
            "--resume",
            "run the machines that are missing again, each with --json FILE, and join all with plimsoll gather",
        ),
        (common.list, "--list", "leave out --hosts"),
        (common.dry_run, "--dry-run", "leave out --hosts"),
        (common.events.is_some(), "--events", "use --json"),
        (common.together || common.one_by_one, "--together or --one-by-one", "use --parallel N"),
    ];
    match instead.into_iter().find(|(typed, ..)| *typed) {
        Some((_, option, instead)) => {
            Err(Failure::usage(format!("{option} is not supported with --hosts: {instead}")))
        }
        None => Ok(()),
    }
}

/// What each machine is to do; the plan is read and checked here.
fn order(what: &What, common: &Common, key: Option<&Path>, words: Vec<String>) -> Result<Order, Failure> {
    resolve::plan(what, common).map_err(|e| Failure::usage(e.to_string()))?;
    let mut order = Order { words, ..Order::default() };
    match what {
        What::Plan(name) if built_in::find(name).is_some() => order.words.insert(0, name.clone()),
        named => {
            let file = resolve::file(named, &Common::default()).map_err(|e| Failure::usage(e.to_string()))?;
            order.plan = Some((file.name.clone().unwrap_or_default(), write::text(&file)));
        }
    }
    if let Some(path) = &common.limits {
        let text = read_small(path, MAX_LIMITS).map_err(|e| Failure::usage(format!("--limits: {e}")))?;
        order.files.insert("limits".to_owned(), text);
    }
    // The environment may hold a key for other work: no machine gets it without a server to use it on.
    if !common.server.is_empty()
        && let Some(key) = super::far_end::key(key)?
    {
        order.files.insert("key".to_owned(), key.to_hex());
    }
    Ok(order)
}

/// The user's ssh.
fn ssh(typed: &Hosts) -> Result<Ssh, Failure> {
    if let Some(Err(e)) = typed.ssh_config.as_ref().map(std::fs::File::open) {
        return Err(Failure::usage(format!("--ssh-config cannot be read: {e}; give a file as for ssh -F")));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = Search::new(&path, BTreeMap::new(), Trust::here());
    let program = search.find("ssh", "ssh", &[]).map_err(|why| {
        Failure::environment(format!("--hosts needs ssh on PATH: {why}; install OpenSSH's client"))
    })?;
    Ok(Ssh { program, config: typed.ssh_config.clone() })
}

/// What is copied: the named programs, and this one.
fn programs(named: &[PathBuf]) -> Result<Vec<Program>, Failure> {
    let read = |path: &PathBuf| {
        let shown = shown_bytes(path.as_os_str().as_encoded_bytes());
        Program::read(path).map_err(|why| Failure::usage(format!("--program {shown}: {why}")))
    };
    let mut programs: Vec<Program> = named.iter().map(read).collect::<Result<_, _>>()?;
    let own = super::own_program()?;
    let own = Program::read(&own)
        .map_err(|why| Failure::environment(format!("cannot read plimsoll's own program file: {why}")))?;
    programs.push(own);
    Ok(programs)
}

/// The machines that were named.
fn hosts(typed: &Hosts) -> Result<Vec<Host>, Failure> {
    let file = |option: &str, path: &Path| {
        let shown = shown_bytes(path.as_os_str().as_encoded_bytes());
        read_small(path, MAX_NAMES).map_err(|why| Failure::usage(format!("{option} {shown}: {why}")))
    };
    let named = |option: &str, why: String| Failure::usage(format!("{option}: {why}"));
    if let Some(path) = &typed.inventory {
        let found = names::of_inventory(&file("--inventory", path)?).and_then(names::distinct);
        return found.map_err(|why| named("--inventory", why));
    }
    let mut hosts = Vec::new();
    for word in &typed.hosts {
        match word.strip_prefix('@') {
            Some(path) => {
                let text = file("--hosts", Path::new(path))?;
                hosts.extend(names::of_list(&text).map_err(|why| named("--hosts", why))?);
            }
            None => hosts.push(Host::typed(word).map_err(|why| named("--hosts", why))?),
        }
    }
    names::distinct(hosts).map_err(|why| named("--hosts", why))
}

/// What is done on each machine, and how it is reached.
struct Call {
    ssh: Ssh,
    programs: Vec<Program>,
    order: Order,
}

/// What came of all.
#[derive(Default)]
struct All {
    /// In the order in which the hosts were named.
    answers: Vec<Run>,
    codes: Vec<u8>,
    lost: Vec<Finding>,
    interrupted: bool,
}

/// What a thread says of its machine, which is a place in the list of hosts.
enum Happening {
    /// It is about to connect.
    Begins(usize),
    /// It has its order.
    Measures(usize),
    Ended(usize, Box<Result<Answer, String>>),
}

impl Call {
    /// Measures on all, so many at once.
    fn all(
        &self,
        hosts: &[Host],
        at_once: usize,
        interrupts: &Receiver<()>,
        says: bool,
    ) -> Result<All, Failure> {
        let holds: Vec<Hold> = hosts.iter().map(|_| Hold::default()).collect();
        let queue = Mutex::new((0..hosts.len()).collect::<VecDeque<usize>>());
        let (tell, happenings) = unbounded();
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        std::thread::scope(|scope| {
            let mut threads = 0;
            for _ in 0..at_once.min(hosts.len()) {
                let (tell, holds, next) = (tell.clone(), &holds, &next);
                let work = move || {
                    while let Some(index) = next() {
                        self.one(index, &hosts[index], &holds[index], &tell);
                    }
                };
                match std::thread::Builder::new().name("ssh".to_owned()).spawn_scoped(scope, work) {
                    Ok(_) => threads += 1,
                    // Those that there are take all hosts, one after the other.
                    Err(_) if threads > 0 => break,
                    Err(e) => {
                        return Err(Failure::environment(format!(
                            "cannot start a thread: {e}; see ulimit -u and ulimit -v"
                        )));
                    }
                }
            }
            drop(tell);
            let stop = || queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let watch = Watch { hosts, holds: &holds, says, begins: BTreeMap::new() };
            Ok(watch.until_all(&happenings, interrupts, stop))
        })
    }

    fn one(&self, index: usize, host: &Host, hold: &Hold, tell: &Sender<Happening>) {
        // Who listens does so until all have ended.
        let say = |happening| drop(tell.send(happening));
        say(Happening::Begins(index));
        let begun = || say(Happening::Measures(index));
        let answer = measured(&self.ssh, host, &self.programs, &self.order, hold, begun);
        say(Happening::Ended(index, Box::new(answer)));
    }
}

/// Follows the machines.
struct Watch<'a> {
    hosts: &'a [Host],
    holds: &'a [Hold],
    says: bool,
    /// Those that have no order yet, and since when.
    begins: BTreeMap<usize, Instant>,
}

impl Watch<'_> {
    fn until_all(
        mut self,
        happenings: &Receiver<Happening>,
        interrupts: &Receiver<()>,
        stop: impl Fn(),
    ) -> All {
        let mut ended: BTreeMap<usize, Result<Answer, String>> = BTreeMap::new();
        let (mut interrupts, mut last) = (interrupts.clone(), never());
        let mut interrupted = false;
        loop {
            select! {
                recv(happenings) -> happening => match happening {
                    Ok(Happening::Begins(index)) => drop(self.begins.insert(index, Instant::now())),
                    Ok(Happening::Measures(index)) => drop(self.begins.remove(&index)),
                    Ok(Happening::Ended(index, answer)) => {
                        self.begins.remove(&index);
                        self.say(index, &answer, ended.len() + 1);
                        ended.insert(index, *answer);
                    }
                    // All threads have ended.
                    Err(_) => break,
                },
                recv(interrupts) -> _ => {
                    interrupted = true;
                    stop();
                    self.holds.iter().for_each(Hold::ask_to_end);
                    interrupts = never();
                    last = after(LAST_WORDS);
                }
                recv(last) -> _ => self.holds.iter().for_each(Hold::end),
                default(Duration::from_secs(1)) => {}
            }
            let late = self.begins.iter().filter(|(_, since)| since.elapsed() > BEGINS);
            late.for_each(|(index, _)| self.holds[*index].end());
        }
        self.all(ended, interrupted)
    }

    fn say(&self, index: usize, answer: &Result<Answer, String>, ended: usize) {
        let (name, all) = (&self.hosts[index].name, self.hosts.len());
        match answer {
            Ok(answer) if self.says => complain(&format!(
                "{name}: {} in {:.0} s ({ended} of {} ended)",
                counted(answer.run.measurements.len(), "case"),
                answer.run.elapsed_s,
                counted(all, "machine"),
            )),
            Ok(_) => {}
            Err(why) => complain(&format!("{name}: {why}")),
        }
    }

    fn all(&self, ended: BTreeMap<usize, Result<Answer, String>>, interrupted: bool) -> All {
        let mut all = All { interrupted, ..All::default() };
        for (index, host) in self.hosts.iter().enumerate() {
            match ended.get(&index) {
                Some(Ok(answer)) => {
                    // What is no exit code of plimsoll's is what a machine made up.
                    let known = answer.ended.code <= code::FAR_END;
                    all.codes.push(if known { answer.ended.code } else { code::FAR_END });
                    all.answers.push(answer.run.clone());
                }
                Some(Err(why)) => all.lost.push(lost(&host.name, why)),
                None => all.lost.push(lost(&host.name, "the run was interrupted before its turn")),
            }
        }
        all
    }
}

/// Names a machine of which there is no result.
fn lost(name: &str, why: &str) -> Finding {
    Finding {
        code: "machine-lost".to_owned(),
        text: format!("{name} has no result: {}", shown_within(why, 400)),
        evidence: json!({ "node": name, "why": shown_within(why, 400) }),
    }
}

/// One run of all that have a result.
fn joined(all: &mut All) -> Result<Run, Failure> {
    let answers = std::mem::take(&mut all.answers);
    match answers.len() {
        0 if all.interrupted => Err(Failure {
            line: "interrupted before a machine had a result".to_owned(),
            code: code::INTERRUPTED,
        }),
        0 => {
            let machines = counted(all.lost.len(), "machine");
            let line = format!("0 of {machines} have a result, for the reasons above; nothing is stored");
            Err(Failure { line, code: code::FAR_END })
        }
        _ => gather::together(answers, &BTreeSet::new(), all.lost.clone()),
    }
}
