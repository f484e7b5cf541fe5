//! `plimsoll site`: all runs of the history as pages for any web server. What has not changed is not written again.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use super::named_runs::History;
use super::{Failure, code, complain, printed, shareable, store_failure};
use crate::case::Pattern;
use crate::cli::Site;
use crate::document::Run;
use crate::leftover::Registry;
use crate::report::html::site as pages;
use crate::report::site::{Directory, Listed, OfMachine, SiteError, Summary, names, series};
use crate::report::target::Waits;
use crate::store::{Asked, Entry, Store, Trend};
use crate::text::{counted, shown_bytes};

/// Writes the site.
///
/// # Errors
/// There is no history, the directory is not a site's, or it cannot be written.
pub(super) fn site(typed: &Site) -> Result<ExitCode, Failure> {
    let mut history = History::new(typed.store.as_deref());
    let store = history.open()?;
    let entries = store.entries().map_err(|e| store_failure(&e))?;
    let waits = Waits { registry: Registry::here(), ..Waits::forever(complain) };
    let version = env!("PLIMSOLL_VERSION");
    let directory = Directory::open(&typed.dir, &waits, version, typed.redact).map_err(|e| unwritten(&e))?;
    let writer = Writer { store, directory, redact: typed.redact, written: 0 };
    let done = writer.write(&entries)?;
    let index = shown_bytes(typed.dir.join(names::INDEX).as_os_str().as_encoded_bytes());
    let Done { written, unchanged, removed } = done;
    printed(&format!(
        "{}: {} written, {unchanged} unchanged, {removed} removed; open {index}\n",
        counted(entries.len(), "run"),
        counted(written, "file"),
    ))
}

fn unwritten(error: &SiteError) -> Failure {
    let code = match error {
        SiteError::Refused(_) => code::REFUSED,
        SiteError::Failed(_) => code::ENVIRONMENT,
    };
    Failure { line: error.to_string(), code }
}

/// The runs of one machine, the oldest first.
struct Group<'a> {
    page: String,
    fingerprint: &'a str,
    host: Option<&'a str>,
    entries: Vec<&'a Entry>,
}

/// The runs by machine. One fingerprint with several names is several machines, such as copies of one image.
fn groups(entries: &[Entry]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for entry in entries {
        let (fingerprint, host) = (entry.machine.as_str(), entry.line.host.as_deref());
        match groups.iter_mut().find(|g| g.fingerprint == fingerprint && g.host == host) {
            Some(group) => group.entries.push(entry),
            None => {
                let twin = groups.iter().filter(|group| group.fingerprint == fingerprint).count();
                let page = names::machine(fingerprint, twin);
                groups.push(Group { page, fingerprint, host, entries: vec![entry] });
            }
        }
    }
    groups
}

/// What became of the files of a site.
struct Done {
    written: usize,
    unchanged: usize,
    removed: usize,
}

/// What writes a site.
struct Writer<'a> {
    store: &'a Store,
    directory: Directory,
    redact: bool,
    written: usize,
}

impl Writer<'_> {
    /// First the files that no page leads to yet, then those that lead to them.
    fn write(mut self, entries: &[Entry]) -> Result<Done, Failure> {
        let groups = groups(entries);
        let (library, text) = pages::library();
        let own = [names::INDEX.to_owned(), library.clone()];
        let of_runs = entries.iter().map(|entry| names::run(&entry.line.id));
        let files: BTreeSet<String> =
            groups.iter().map(|group| group.page.clone()).chain(of_runs).chain(own).collect();
        let digests = self.digests(&groups)?;
        let mut runs: BTreeMap<String, Summary> = BTreeMap::new();
        for (id, digest) in &digests {
            runs.extend(self.directory.summary(id, digest).map(|summary| (id.clone(), summary.clone())));
        }
        self.directory.claim(&files, &runs).map_err(|e| unwritten(&e))?;
        self.put(&library, text)?;
        for group in &groups {
            for entry in &group.entries {
                let id = &entry.line.id;
                if let (false, Some(digest)) = (runs.contains_key(id), digests.get(id)) {
                    runs.insert(id.clone(), self.report(id, digest.clone(), &group.page)?);
                }
            }
        }
        let machines = self.machines(&groups, &runs)?;
        for machine in &machines {
            self.put(&machine.page, &pages::machine(machine))?;
        }
        self.put(names::INDEX, &pages::index(&machines))?;
        let Self { directory, written, .. } = self;
        let unchanged = files.len() - written;
        drop(machines);
        let removed = directory.finish(files, runs).map_err(|e| unwritten(&e))?;
        Ok(Done { written, unchanged, removed })
    }

    fn put(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        self.written += usize::from(self.directory.put(name, text).map_err(|e| unwritten(&e))?);
        Ok(())
    }

    /// By run, what its page follows from: its document, and the page of its machine, to which it leads.
    fn digests(&self, groups: &[Group<'_>]) -> Result<BTreeMap<String, String>, Failure> {
        let all = groups.iter().flat_map(|group| group.entries.iter().map(move |entry| (group, entry)));
        let one = |(group, entry): (&Group<'_>, &&Entry)| {
            let digest = self.store.digest(&entry.line.id).map_err(|e| store_failure(&e))?;
            Ok((entry.line.id.clone(), format!("{digest} {}", group.page)))
        };
        all.map(one).collect()
    }

    /// The run as it may leave the machine.
    fn run(&self, id: &str) -> Result<Run, Failure> {
        shareable(&self.store.load(id).map_err(|e| store_failure(&e))?, self.redact)
    }

    /// Writes the report of a run.
    fn report(&mut self, id: &str, digest: String, machine: &str) -> Result<Summary, Failure> {
        let run = self.run(id)?;
        let page = pages::run(&run, machine).map_err(|e| Failure::environment(e.to_string()))?;
        self.put(&names::run(id), &page)?;
        Ok(Summary::of(&run, digest, page.len() as u64))
    }

    /// The machines with their figures over time.
    fn machines<'m>(
        &self,
        groups: &[Group<'m>],
        runs: &'m BTreeMap<String, Summary>,
    ) -> Result<Vec<OfMachine<'m>>, Failure> {
        let cases = Pattern::parse("*").map_err(Failure::usage)?;
        let asked = Asked { cases, metric: None, all: true, since: None, machine: None };
        let mut trends = self.store.trends(&asked).map_err(|e| store_failure(&e))?;
        // A case of a run on several machines has a figure for each of them.
        let of_one = |entry: &&&Entry| entry.nodes == 1;
        let alone: BTreeSet<&str> = groups
            .iter()
            .flat_map(|group| &group.entries)
            .filter(of_one)
            .map(|entry| entry.line.id.as_str())
            .collect();
        for trend in &mut trends {
            trend.points.retain(|point| alone.contains(point.run.id.as_str()));
        }
        trends.retain(|trend| !trend.points.is_empty());
        if self.redact {
            self.rename(&mut trends)?;
        }
        let mut machines = Vec::new();
        for group in groups {
            let is_own =
                |trend: &Trend| trend.machine == group.fingerprint && trend.host.as_deref() == group.host;
            let (own, rest): (Vec<Trend>, Vec<Trend>) = trends.into_iter().partition(is_own);
            trends = rest;
            let listed = |entry: &&'m Entry| Some(Listed { entry, summary: runs.get(&entry.line.id)? });
            machines.push(OfMachine {
                page: group.page.clone(),
                fingerprint: group.fingerprint,
                runs: group.entries.iter().filter_map(listed).collect(),
                series: series(own),
                redacted: self.redact,
            });
        }
        Ok(machines)
    }

    /// Replaces the names of machines in the ids of cases as the last run that has the case does.
    fn rename(&self, trends: &mut [Trend]) -> Result<(), Failure> {
        let mut known: BTreeMap<String, Run> = BTreeMap::new();
        for trend in trends {
            let Some(last) = trend.points.last() else { continue };
            let id = last.run.id.clone();
            if !known.contains_key(&id) {
                known.insert(id.clone(), self.store.load(&id).map_err(|e| store_failure(&e))?);
            }
            known.get(&id).into_iter().for_each(|run| run.redact([&mut trend.case]));
        }
        Ok(())
    }
}
