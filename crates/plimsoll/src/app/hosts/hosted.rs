//! `plimsoll hosted`: the run of a node that another plimsoll started, with orders on stdin.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, tick, unbounded};
use plimsoll_cluster::ssh::{FollowUp, MachineProgress, NodeMessage, RunEnd, RunOrder, ending, own_digest};
use plimsoll_command::cli::{self, Common, Measurable, TypedCommand};
use plimsoll_model::sample::CannotMeasure;
use plimsoll_result::document::Run;
use plimsoll_server::wire::SharedKey;
use plimsoll_units::text::shown_within;
use rustix::process::{Signal, kill_process};

use crate::app::hosts::between::Neighbour;
use crate::app::hosts::tools::is_on_machines;
use crate::app::prepared::PreparedRun;
use crate::app::resume::{self, ResumedRun};
use crate::app::signals::spawn_detached;
use crate::app::{Failure, carry_out, document, interrupts, printed};
use crate::failure::OrFailure;
use crate::output::Outputs;

/// Largest input line in bytes: an order with a plan, limits, a key and earlier measurements.
const MAX_LINE_BYTES: u64 = 64 << 20;
const LIMITS: &str = "limits.toml";
const PROGRAM: &str = "plimsoll";
/// Longest wait for the order, which is sent at once.
const ORDERED: Duration = Duration::from_secs(60);
/// Interval of keep-alive messages; several must be missed before the launcher gives up.
const BEAT: Duration = Duration::from_secs(10);
const MAX_END_TIME: Duration = Duration::from_secs(20);
/// Samples of a retest, each longer than several periods of a CPU quota (100 ms by default).
const RETEST_SAMPLES: u32 = 5;
const LONGER: f64 = 3.0;
const MAX_RETEST_SAMPLE_SECONDS: f64 = 2.0;

/// Carries out the orders on stdin (JSON lines) of the plimsoll that started this one over ssh, and
/// writes the answers to stdout. Keeps files of the run in `directory`. Returns the exit code of
/// the run. Fails if an order cannot be read or stdout cannot be written.
pub(crate) fn measure(directory: &Path) -> Result<ExitCode, Failure> {
    let own = crate::app::own_program()?;
    // From here on, ending also removes the files.
    let interrupts = interrupts()?;
    let files = RunFiles { directory: directory.to_owned(), program: own.clone() };
    let _removed = files.clone();
    let digest = own_digest(&own)
        .map_err(|e| Failure::environment(format!("cannot read plimsoll's own file: {e}")))?;
    printed(&NodeMessage::Hello(digest).line())?;
    let (sender, lines) = unbounded();
    spawn_detached(move || read_orders(sender, files))?;
    let order = lines.recv_timeout(ORDERED).map_err(|_| wrong("no order came on stdin"))?;
    let order: RunOrder = serde_json::from_str(&order).map_err(|e| wrong(&e.to_string()))?;
    let ticks = tick(BEAT);
    spawn_detached(move || while ticks.recv().is_ok() && printed(&NodeMessage::Alive.line()).is_ok() {})?;
    let stays = order.stays;
    let words = std::iter::once("plimsoll".to_owned()).chain(order.words.clone()).map(Into::into);
    let asked = match cli::parse(crate::app::command(), words) {
        Ok(TypedCommand::Measure { what, common, hosts: None, .. }) => {
            HostedOrder::prepare(order, (what, *common), directory, interrupts)
        }
        Ok(other) => return run_order(other),
        Err(e) => Err(Failure::usage(cli::one_line(&e))),
    };
    let (answer, code) = ended(asked.as_ref().map_err(Failure::clone).and_then(HostedOrder::carried_out));
    printed(&answer)?;
    if let (Ok(asked), true) = (asked, stays) {
        asked.follow_orders(&lines)?;
    }
    Ok(ExitCode::from(code))
}

fn run_order(typed: TypedCommand) -> Result<ExitCode, Failure> {
    let printed_all = match typed {
        TypedCommand::Doctor(typed) => crate::app::doctor::doctor(&typed),
        TypedCommand::References(typed) => crate::app::ref_tools::list(&typed),
        _ => Err(Failure::usage("the order is neither a run nor a command that only prints")),
    };
    let (answer, code) = ended(printed_all.map(|_| (None::<Run>, 0)));
    printed(&answer)?;
    Ok(ExitCode::from(code))
}

/// Returns the last lines for the launcher, from the run, if any, and its exit code; and that code.
fn ended(end: Result<(impl Into<Option<Run>>, u8), Failure>) -> (String, u8) {
    let (run, code, line) = match end {
        Ok((run, code)) => (run.into(), code, None),
        Err(Failure { line, code }) => (None, code, Some(line)),
    };
    (ending(run.as_ref(), RunEnd { code, line }), code)
}

/// Files of a run, in a directory that the shell which made it removes; that shell may be gone.
#[derive(Clone)]
struct RunFiles {
    directory: PathBuf,
    program: PathBuf,
}

impl Drop for RunFiles {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.directory.join(LIMITS));
        // A user may have typed another directory.
        let copy = self.directory.join(PROGRAM);
        let place = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        if place(&copy).is_some_and(|copy| Some(copy) == place(&self.program)) {
            let _ = fs::remove_file(&copy);
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// Sends each line of stdin to `sender`. At the end of stdin sends SIGTERM to this process; after
/// [`MAX_END_TIME`] removes `files` and sends SIGKILL.
fn read_orders(sender: Sender<String>, files: RunFiles) {
    let mut from = BufReader::new(std::io::stdin());
    loop {
        let mut line = String::new();
        let came = from.by_ref().take(MAX_LINE_BYTES).read_line(&mut line);
        if !matches!(came, Ok(1..)) || sender.send(line).is_err() {
            break;
        }
    }
    // Wakes the receiver that waits for a request.
    drop(sender);
    let own = rustix::process::getpid();
    let _ = kill_process(own, Signal::TERM);
    let _ = after(MAX_END_TIME).recv();
    drop(files);
    let _ = kill_process(own, Signal::KILL);
}

fn wrong(why: &str) -> Failure {
    Failure::usage(format!("plimsoll hosted is run by plimsoll run --hosts: {}", shown_within(why, 200)))
}

struct HostedOrder {
    prepared: PreparedRun,
    common: Common,
    interrupts: Receiver<()>,
    begun: Option<Run>,
}

impl HostedOrder {
    /// Prepares the run of `what` with the options `common`, which are the words of a launcher's
    /// `order`. Writes the limits in the order to `directory`. Fails for an invalid plan or key, or
    /// if the limits cannot be written.
    fn prepare(
        order: RunOrder,
        (what, common): (Measurable, Common),
        directory: &Path,
        interrupts: Receiver<()>,
    ) -> Result<Self, Failure> {
        let what = match order.plan {
            Some((name, text)) => Measurable::Text { name, text },
            None => what,
        };
        let mut common = Common { json: None, store: Some("none".into()), quiet: true, ..common };
        if let Some(text) = order.files.get("limits") {
            let limits = directory.join(LIMITS);
            fs::write(&limits, text)
                .map_err(|e| Failure::environment(format!("cannot write {}: {e}", limits.display())))?;
            common.limits = Some(limits);
        }
        let key = order.files.get("key").map(|text| SharedKey::from_hex(text.trim(), "--key"));
        let key = key.transpose().or_usage()?;
        let begun = order.begun.map(|run| *run);
        let before = begun.as_ref().map(|run| &run.machine);
        let mut prepared = PreparedRun { key, ..PreparedRun::new(&what, &common, before, true)? };
        prepared.planned.retain(|planned| !is_on_machines(planned));
        if let Some(run) = &begun {
            resume::same_text(run, &mut prepared)?;
        }
        Ok(Self { prepared, common, interrupts, begun })
    }

    fn carried_out(&self) -> Result<(Run, u8), Failure> {
        let begun = self.begun.clone().map(|run| ResumedRun::sent(run, &self.prepared));
        let of = self.prepared.planned.len() * self.prepared.plan.repeat as usize;
        // If stdout is closed, the end of the connection ends the run.
        let sender = move |done| drop(printed(&NodeMessage::Progress(MachineProgress { done, of }).line()));
        sender(self.begun.as_ref().map_or(0, |run| run.measurements.len()));
        let mut outputs = Outputs::open(&self.common, &self.interrupts)?;
        outputs.on_ended = Some(Box::new(sender));
        crate::app::run(outputs, &self.prepared, &self.common, self.interrupts.clone(), begun)
    }

    /// Measures the cases with the IDs `cases` again, with few samples. Returns the message for the
    /// launcher: the document with the results, or the failure.
    fn retest(&self, cases: &[String]) -> String {
        let mut prepared = self.prepared.clone();
        (prepared.plan.repeat, prepared.plan.budget) = (1, None);
        prepared.planned.retain(|planned| cases.iter().any(|id| *id == planned.candidate.case.id().as_str()));
        for planned in &mut prepared.planned {
            planned.sampling.samples = Some(RETEST_SAMPLES);
            planned.sampling.sample_time =
                (planned.sampling.sample_time * LONGER).min(MAX_RETEST_SAMPLE_SECONDS);
        }
        let ran = carry_out(&prepared, document(&prepared), self.interrupts.clone(), None, &mut drop);
        ended(ran.map(|(run, _)| (run, 0))).0
    }

    /// Carries out each follow-up order from `lines` and prints its answer, until the channel
    /// closes. Fails if an order cannot be parsed or an answer cannot be printed.
    fn follow_orders(&self, lines: &Receiver<String>) -> Result<(), Failure> {
        let mut neighbour = Neighbour::new(&self.prepared, self.interrupts.clone());
        while let Ok(line) = lines.recv() {
            let order = serde_json::from_str(&line).map_err(|e| wrong(&e.to_string()))?;
            let answer = match (order, &mut neighbour) {
                (FollowUp::Serve, Some(neighbour)) => NodeMessage::Serving(neighbour.serve()).line(),
                (FollowUp::Serve, None) => {
                    let none = CannotMeasure::not_here("it measures no case between machines");
                    NodeMessage::Serving(Err(none)).line()
                }
                (FollowUp::Measure { place }, Some(neighbour)) => {
                    NodeMessage::Measured(neighbour.measure(&place)).line()
                }
                (FollowUp::Measure { .. }, None) => NodeMessage::Measured(BTreeMap::new()).line(),
                (FollowUp::Again(cases), _) => self.retest(&cases),
            };
            printed(&answer)?;
        }
        Ok(())
    }
}
