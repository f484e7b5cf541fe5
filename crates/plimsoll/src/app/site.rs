//! `plimsoll site`: writes all runs of the history as pages for a web server.

use std::collections::BTreeSet;
use std::process::ExitCode;

use plimsoll_command::cli::SiteCommand;
use plimsoll_history::{MetricTrend, RunSummary, Store, TrendQuery};
use plimsoll_model::case::Pattern;
use plimsoll_output::report::html::site::{
    self as pages, Directory, ListedRun, OfMachine, SiteError, names, series,
};
use plimsoll_output::report::target::{UnwritableTarget, Waits};
use plimsoll_result::document::Run;
use plimsoll_system::leftover::Registry;
use plimsoll_units::text::{format_count, shown_path};

use super::named_runs::LazyHistory;
use super::{Failure, code, complain, printed, shareable};
use crate::failure::OrFailure;

pub(super) fn site(typed: &SiteCommand) -> Result<ExitCode, Failure> {
    let mut history = LazyHistory::new(typed.store.as_deref());
    let store = history.open()?;
    let mut entries = store.list()?;
    entries.reverse();
    let waits = Waits { registry: Registry::here(), ..Waits::without_interrupts(complain) };
    let directory = Directory::open(&typed.dir, &waits)?;
    let mut writer = Writer { store, directory, redact: typed.redact, files: BTreeSet::new(), written: 0 };
    writer.write(&entries)?;
    let removed = writer.directory.remove_others(&writer.files)?;
    let index = shown_path(&typed.dir.join(names::INDEX));
    let (runs, written) = (format_count(entries.len(), "run"), format_count(writer.written, "file"));
    let unchanged = writer.files.len() - writer.written;
    printed(&format!("{runs}: {written} written, {unchanged} unchanged, {removed} removed; open {index}\n"))
}

impl From<SiteError> for Failure {
    fn from(error: SiteError) -> Self {
        let code = match error {
            SiteError::Foreign(_) | SiteError::Page(UnwritableTarget::Refused(..)) => code::REFUSED,
            SiteError::Locked(_) | SiteError::Failed(..) | SiteError::Page(_) => code::ENVIRONMENT,
        };
        Self { line: error.to_string(), code }
    }
}

struct Writer<'a> {
    store: &'a Store,
    directory: Directory,
    redact: bool,
    files: BTreeSet<String>,
    written: usize,
}

impl Writer<'_> {
    fn write(&mut self, entries: &[RunSummary]) -> Result<(), Failure> {
        let (library, text) = pages::library();
        self.put(&library, text)?;
        let machines = self.runs(entries)?;
        for machine in &machines {
            self.put(&machine.page, &pages::machine(machine))?;
        }
        self.put(names::INDEX, &pages::index(&machines))
    }

    fn put(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        self.written += usize::from(self.directory.put(name, text)?);
        self.files.insert(name.to_owned());
        Ok(())
    }

    /// Writes a page for each stored run. Returns the runs, with results over time, by machine.
    fn runs<'e>(&mut self, entries: &'e [RunSummary]) -> Result<Vec<OfMachine<'e>>, Failure> {
        let mut trends = self.trends(entries)?;
        let mut machines: Vec<OfMachine<'e>> = Vec::new();
        for entry in entries {
            let place = machines.iter().position(|of| of.is_of(entry)).unwrap_or_else(|| {
                let is_own =
                    |trend: &mut MetricTrend| trend.machine == entry.machine && trend.host == entry.host;
                let own = trends.extract_if(.., is_own).collect();
                // Several names with one fingerprint are several machines: copies of an image.
                let twins = machines.iter().filter(|of| of.fingerprint == entry.machine).count();
                machines.push(OfMachine {
                    page: names::machine(&entry.machine, twins),
                    fingerprint: &entry.machine,
                    host: entry.host.as_deref(),
                    runs: Vec::new(),
                    series: series(own),
                    redacted: self.redact,
                });
                machines.len() - 1
            });
            let id = &entry.id;
            let run = shareable(&self.store.load(id)?, self.redact)?;
            let page = pages::run(&run, &machines[place].page).or_environment()?;
            self.put(&names::run(id), &page)?;
            machines[place].runs.push(ListedRun::new(entry, &run));
        }
        Ok(machines)
    }

    /// Returns the results over time of each metric, from those of `entries` with a single node.
    fn trends(&self, entries: &[RunSummary]) -> Result<Vec<MetricTrend>, Failure> {
        let cases = Pattern::parse("*").map_err(Failure::usage)?;
        let asked = TrendQuery { cases, metric: None, all: true, since: None, machine: None };
        let mut trends = self.store.trends(&asked)?;
        let of_one = entries.iter().filter(|entry| entry.nodes == 1);
        let of_one: BTreeSet<&str> = of_one.map(|entry| entry.id.as_str()).collect();
        for trend in &mut trends {
            trend.points.retain(|point| of_one.contains(point.run.id.as_str()));
        }
        trends.retain(|trend| !trend.points.is_empty());
        if self.redact {
            self.rename(&mut trends)?;
        }
        Ok(trends)
    }

    /// Redacts node names in case ids of `trends` as the page of the last run with the case does.
    fn rename(&self, trends: &mut [MetricTrend]) -> Result<(), Failure> {
        let mut last: Option<Run> = None;
        for trend in trends {
            let Some(point) = trend.points.last() else { continue };
            let run = match last.take().filter(|run| run.id == point.run.id) {
                Some(run) => run,
                None => self.store.load(&point.run.id)?,
            };
            run.redact([&mut trend.case]);
            last = Some(run);
        }
        Ok(())
    }
}
