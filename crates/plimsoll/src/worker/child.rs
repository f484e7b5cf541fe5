//! The worker's side: prepares and samples what the parent asks for, until its standard input ends.

use std::io::{self, BufRead, Write};

use super::message::{Reply, Request, read, write};
use crate::bench::{self, Context, Keep, Options, Prepared};
use crate::case::Case;
use crate::machine::Machine;
use crate::sample::CannotMeasure;

/// Serves one parent. Returns when the parent closes the pipe.
///
/// # Errors
/// The pipe broke or carried something that is not a request.
pub fn serve(mut from: impl BufRead, mut to: impl Write) -> io::Result<()> {
    die_with_the_parent();
    let Some(Request::Begin { machine, options }) = read(&mut from)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the first message must be 'begin'"));
    };
    write(&mut to, &Reply::Done)?;
    let mut bench = Workbench { machine: *machine, options, keep: Keep::default(), prepared: None };
    while let Some(request) = read::<Request>(&mut from)? {
        let reply = bench.answer(request);
        write(&mut to, &reply)?;
    }
    Ok(())
}

/// A worker outlives nothing: it goes with its parent, and first when memory runs out.
fn die_with_the_parent() {
    // Best effort: end of input ends the worker too, and the OOM score needs a writable /proc.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

struct Workbench {
    machine: Machine,
    options: Options,
    keep: Keep,
    prepared: Option<Box<dyn Prepared>>,
}

impl Workbench {
    fn answer(&mut self, request: Request) -> Reply {
        match request {
            Request::Begin { .. } => Reply::Cannot(CannotMeasure::environment("'begin' came twice")),
            Request::Prepare { case } => self.prepare(&case),
            Request::Finish => {
                self.prepared = None;
                Reply::Done
            }
            Request::Sample(amount) => self.with(|p| match p.sample(amount) {
                Ok(sample) => Reply::Sampled(Box::new(sample)),
                Err(cannot) => Reply::Cannot(cannot),
            }),
            Request::Pause => self.with(|p| {
                p.pause();
                Reply::Done
            }),
            Request::Resume => self.with(|p| {
                p.resume();
                Reply::Done
            }),
            Request::Verify => self.with(|p| match p.verify() {
                Ok(()) => Reply::Verified(p.facts()),
                Err(wrong) => Reply::Wrong(wrong),
            }),
        }
    }

    fn prepare(&mut self, case: &Case) -> Reply {
        self.prepared = None;
        let Some(benchmark) = bench::find(case.benchmark()) else {
            return Reply::Cannot(CannotMeasure::environment(format!("no benchmark '{}'", case.benchmark())));
        };
        let cx = Context { machine: &self.machine, options: &self.options, keep: &self.keep };
        match benchmark.prepare(case, &cx) {
            Ok(prepared) => {
                self.prepared = Some(prepared);
                Reply::Done
            }
            Err(cannot) => Reply::Cannot(cannot),
        }
    }

    fn with(&mut self, ask: impl FnOnce(&mut dyn Prepared) -> Reply) -> Reply {
        match &mut self.prepared {
            Some(prepared) => ask(prepared.as_mut()),
            None => Reply::Cannot(CannotMeasure::environment("nothing is prepared")),
        }
    }
}
