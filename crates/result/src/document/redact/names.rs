//! Replacement table: names found in the fields of a run, replaced in all of its texts.

use std::collections::HashMap;
use std::net::IpAddr;

use plimsoll_machine::Machine;
use plimsoll_machine::disk::DiskKind;
use plimsoll_model::case::{Case, Value};
use serde_json::Value as Json;

use super::path;
use super::words::{address, in_word, is_mac, is_uuid, without_long_hex};
use crate::document::Run;

const NAMING: [&str; 2] = ["server", "bind"];

/// Replacement of an address; addresses of a case's server and client get a number.
const ADDRESS: &str = "address";

/// Mount options whose values may identify a person or a server.
const TELLING: [&str; 8] =
    ["username", "user", "domain", "workgroup", "credentials", "password", "subvol", "addr"];

#[derive(Default)]
pub(super) struct Names {
    hosts: HashMap<String, String>,
    /// Names with characters outside host names, with their replacements, the longest first.
    odd: Vec<(String, String)>,
    machines: usize,
    interfaces: usize,
    addresses: HashMap<IpAddr, usize>,
    /// Ids of cases that name machines, with their replacements.
    cases: Vec<(String, String)>,
    /// Harmless texts that resemble names: the run id and machine fingerprints.
    kept: Vec<String>,
    tools: Vec<String>,
}

impl Names {
    pub(super) fn of(run: &Run) -> Self {
        let mut names = Self::default();
        let machines = || run.nodes.iter().filter_map(|n| n.machine.as_ref()).chain([&run.machine]);
        names.kept = machines().map(|m| m.id.clone()).chain([run.id.clone()]).collect();
        let tool_results = run.measurements.iter().flat_map(|m| &m.metrics).flat_map(|m| &m.tool_results);
        names.tools = tool_results.map(|tool_result| tool_result.tool.clone()).collect();
        names.tools.dedup();
        let nodes = run.nodes.iter().flat_map(|n| [Some(n.name.as_str()), run.machine_of(n).host.as_deref()]);
        let of_cases = run.measurements.iter().map(|m| Some(m.node.as_str()));
        for name in [run.machine.host.as_deref()].into_iter().chain(nodes).chain(of_cases).flatten() {
            names.enter(name);
        }
        run.measurements.iter().for_each(|m| names.enter_ends(&m.case));
        // A lost case may have no measurement.
        let mut lost = Vec::new();
        run.findings.iter().for_each(|finding| names.enter_evidence(&finding.evidence, "", &mut lost));
        names.enter_plan(&run.plan.text);
        machines().for_each(|machine| names.enter_machine(machine));
        run.measurements.iter().map(|m| &m.case).chain(&lost).for_each(|case| names.rename(case));
        names.odd.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }

    /// Records the redacted id of `case` if its id contains names of machines.
    fn rename(&mut self, case: &Case) {
        let (from, to) = (case.id(), self.case(case).id());
        if from != to && self.cases.iter().all(|(known, _)| *known != from.as_str()) {
            self.cases.push((from.to_string(), to.to_string()));
        }
    }

    /// Records the addresses of the server and the client of `case` as names to replace.
    fn enter_ends(&mut self, case: &Case) {
        NAMING.iter().filter_map(|key| case.word(key)).for_each(|end| self.enter_end(end));
    }

    /// Records the host in `host:port` or `[address]:port`, with or without a protocol prefix.
    fn enter_end(&mut self, end: &str) {
        let end = end.split_once("://").map_or(end, |(_, rest)| rest);
        let name = end.rsplit_once(':').map_or(end, |(name, _)| name);
        match address(end).or_else(|| address(name)) {
            Some((ip, _)) => {
                let number = self.addresses.len() + 1;
                self.addresses.entry(ip).or_insert(number);
            }
            None => self.enter(name),
        }
    }

    /// Records names in `evidence`, a finding's value of `key`; adds the cases in it to `lost`.
    fn enter_evidence(&mut self, evidence: &Json, key: &str, lost: &mut Vec<Case>) {
        match evidence {
            Json::String(text) if matches!(key, "node" | "nodes" | "host" | "hosts") => self.enter(text),
            Json::String(text) if NAMING.contains(&key) => self.enter_end(text),
            Json::String(text) => {
                if let Some(case) = end_named(text) {
                    self.enter_ends(&case);
                    lost.push(case);
                }
            }
            Json::Array(all) => all.iter().for_each(|one| self.enter_evidence(one, key, lost)),
            Json::Object(fields) => fields.iter().for_each(|(key, one)| self.enter_evidence(one, key, lost)),
            _ => {}
        }
    }

    /// Records the servers in a plan file, measured or not, as names to replace.
    fn enter_plan(&mut self, text: &str) {
        let naming = |line: &&str| NAMING.iter().any(|key| line.trim_start().starts_with(key));
        let quoted = text.lines().filter(naming).flat_map(|line| line.split(['"', '\'']).skip(1).step_by(2));
        quoted.for_each(|end| self.enter_end(end));
    }

    /// Records names of interfaces, sources and mount points to replace: those that a user chose.
    fn enter_machine(&mut self, machine: &Machine) {
        for nic in &machine.network {
            if !path::is_kernels(&nic.name) && self.host(&nic.name).is_none() {
                self.interfaces += 1;
                let replacement = format!("nic-{}", self.interfaces);
                self.replace_by(&nic.name, replacement);
            }
        }
        let Some(storage) = &machine.storage else { return };
        for layer in &storage.layers {
            let detail = layer.detail.as_deref().filter(|_| layer.kind == DiskKind::DeviceMapper);
            let name = detail.map(|detail| detail.split_once(' ').map_or(detail, |(_, name)| name));
            name.into_iter().for_each(|name| self.device(name));
        }
        if let Some(mounted) = &storage.file_system {
            self.enter_source(&mounted.source);
        }
        let mounted = storage.file_system.iter().flat_map(|mounted| [&mounted.mount_point, &mounted.source]);
        for place in [&storage.path].into_iter().chain(mounted) {
            // A path is replaced as a whole if it has characters that usually end a path in a text.
            if place.starts_with('/') && place.contains(path::ends_path) {
                let replacement = self.path(place);
                self.odd.push((place.clone(), replacement));
            }
        }
    }

    /// Records a mount source: `server:/dir`, `//server/share`, `pool/dataset`, `/dev/mapper/name`.
    fn enter_source(&mut self, source: &str) {
        if let Some((server, _)) = source.split_once(":/").filter(|(server, _)| !server.contains('/')) {
            return server.split(',').for_each(|server| self.enter_end(server));
        }
        if let Some((server, share)) = source.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
            self.enter_end(server);
            return share.split('/').for_each(|part| self.replace_by(part, "path".to_owned()));
        }
        if let Some(name) = source.strip_prefix("/dev/mapper/") {
            self.device(name);
        } else if source.contains('/') && !source.starts_with('/') {
            self.odd.push((source.to_owned(), "path".to_owned()));
        }
    }

    fn device(&mut self, name: &str) {
        if !path::is_kernels(name) {
            self.replace_by(name, "device".to_owned());
        }
    }

    fn enter(&mut self, name: &str) {
        let number = name.trim_matches(['[', ']']).strip_prefix(ADDRESS);
        let number = number.map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        let replaced = number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        if name.is_empty() || name == "localhost" || replaced || self.host(name).is_some() {
            return;
        }
        // The first label of a full name names the same machine.
        let short = match address(name) {
            Some(_) => name,
            None => name.split('.').next().filter(|short| !short.is_empty()).unwrap_or(name),
        };
        let replacement = self.host(short).cloned().unwrap_or_else(|| {
            self.machines += 1;
            format!("host-{}", self.machines)
        });
        self.replace_by(short, replacement.clone());
        self.replace_by(name, replacement);
    }

    fn replace_by(&mut self, name: &str, replacement: String) {
        if name.is_empty() {
            return;
        }
        if !name.chars().all(in_word) {
            self.odd.push((name.to_owned(), replacement.clone()));
        }
        self.hosts.insert(name.to_lowercase(), replacement);
    }

    fn host(&self, name: &str) -> Option<&String> {
        self.hosts.get(&name.to_lowercase())
    }

    pub(super) fn case(&self, case: &Case) -> Case {
        NAMING.iter().fold(case.clone(), |case, key| match case.get(key) {
            Some(Value::Word(word)) => {
                let word = self.text(word);
                case.with_word(key, &word)
            }
            _ => case,
        })
    }

    /// Redacts all texts in `json`, the value of the key `place`. If `is_own`, they are plimsoll's
    /// own words, in which only case ids and addresses of servers can name machines.
    pub(super) fn walk(&self, json: &mut Json, place: &str, is_own: bool) {
        match json {
            Json::String(text) if is_own && !NAMING.contains(&place) => {
                if let Some(case) = end_named(text) {
                    *text = self.case(&case).id().to_string();
                }
            }
            Json::String(text) if !is_own && place == "options" => *text = self.option(text),
            Json::String(text) => *text = self.string(text),
            Json::Array(all) => all.iter_mut().for_each(|one| self.walk(one, place, is_own)),
            Json::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    let is_word = OWN_WORDS.split(' ').any(|word| word == key);
                    let is_own = is_own || is_word || OWN_PLACES.contains(&(place, key.as_str()));
                    self.walk(value, key, is_own);
                }
            }
            _ => {}
        }
    }

    fn option(&self, text: &str) -> String {
        match text.split_once('=') {
            Some((key, _)) if TELLING.contains(&key) => format!("{key}=…"),
            _ => self.string(text),
        }
    }

    pub(super) fn string(&self, text: &str) -> String {
        if let Some(host) = self.host(text) {
            return host.clone();
        }
        if let Some(case) = end_named(text) {
            return self.case(&case).id().as_str().to_owned();
        }
        let mut text = text.to_owned();
        for (name, replacement) in self.cases.iter().chain(&self.odd) {
            text = text.replace(name, replacement);
        }
        self.text(&text)
    }

    /// Returns `text` with names replaced word by word, and each path as a whole.
    pub(super) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            if begins_path(&out, rest) {
                let end = rest.find(path::ends_path).unwrap_or(rest.len());
                let end = rest[..end].trim_end_matches('.').len();
                out += &self.path(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let kept = self.kept.iter().any(|kept| kept == word);
            out += &if kept { word.to_owned() } else { self.word(word) };
            rest = after;
            if let Some(c) = rest.chars().next().filter(|_| !begins_path(&out, after)) {
                out.push(c);
                rest = &after[c.len_utf8()..];
            }
        }
        out
    }

    fn path(&self, path: &str) -> String {
        let keeps = |part: &str| self.tools.iter().any(|tool| tool == part) || self.host(part).is_some();
        let redacted = path::redact_path(path, &keeps, &|part| self.word(part));
        // Host names can be path components.
        let host = |part: &str| self.host(part).cloned().unwrap_or_else(|| part.to_owned());
        redacted.split('/').map(host).collect::<Vec<_>>().join("/")
    }

    fn word(&self, word: &str) -> String {
        // A final full stop or colon may belong to the sentence.
        let bare = word.trim_end_matches(['.', ':']);
        let stops = &word[bare.len()..];
        if let Some(host) = self.host(bare) {
            return format!("{host}{stops}");
        }
        if let Some((name, port)) = bare.rsplit_once(':')
            && let Some(host) = self.host(name)
        {
            return format!("{host}:{port}{stops}");
        }
        match address(bare) {
            Some((ip, None)) => format!("{}{stops}", self.address(ip)),
            Some((ip, Some(port))) => format!("{}:{port}{stops}", self.address(ip)),
            None if is_mac(bare) => format!("mac{stops}"),
            None if is_uuid(bare) => format!("uuid{stops}"),
            None => without_long_hex(&self.parts(word)),
        }
    }

    fn address(&self, ip: IpAddr) -> String {
        self.addresses.get(&ip).map_or_else(|| ADDRESS.to_owned(), |number| format!("{ADDRESS}-{number}"))
    }

    /// Returns the word with the names of machines in it replaced, as in `db7-data`.
    fn parts(&self, word: &str) -> String {
        const MAX_MATCHED_PARTS: usize = 8;
        let parts: Vec<(usize, usize)> = alphanumeric(word);
        let (mut out, mut done, mut first) = (String::new(), 0, 0);
        while first < parts.len() && parts.len() > 1 {
            let begin = parts[first].0;
            let found = (first..parts.len().min(first + MAX_MATCHED_PARTS)).rev().find_map(|last| {
                let part = &word[begin..parts[last].1];
                let telling = part.len() > 2 && part.contains(|c: char| !c.is_alphabetic());
                Some((last, self.host(part).filter(|_| telling)?))
            });
            if let Some((last, host)) = found {
                out += &word[done..begin];
                out += host;
                (done, first) = (parts[last].1, last);
            }
            first += 1;
        }
        out + &word[done..]
    }
}

/// Parses the ID of a case that names a machine; `None` for other texts.
fn end_named(id: &str) -> Option<Case> {
    let names = |case: &Case| NAMING.iter().any(|key| case.word(key).is_some()) && case.id().as_str() == id;
    id.parse().ok().filter(names)
}

/// Returns the byte ranges of consecutive letters and digits in `word`.
fn alphanumeric(word: &str) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, c) in word.char_indices().filter(|(_, c)| c.is_alphanumeric()) {
        match runs.last_mut().filter(|(_, end)| *end == at) {
            Some((_, end)) => *end += c.len_utf8(),
            None => runs.push((at, at + c.len_utf8())),
        }
    }
    runs
}

/// Returns whether a path starts at `rest`: a slash and a name, not right after a word in `before`.
fn begins_path(before: &str, rest: &str) -> bool {
    let mut next = rest.chars();
    let slash = next.next() == Some('/');
    let named = next.next().is_some_and(|c| c.is_alphanumeric() || "._-@+~".contains(c));
    let free = before.chars().next_back().is_none_or(|c| c == ':' || !in_word(c) && c != '/' && c != '…');
    slash && named && free
}

/// Keys whose texts contain plimsoll's own words, never names from the machine.
const OWN_WORDS: &str = "schema id case benchmark params unit better status code match verdict hash metric";

/// Keys, each with its parent, whose texts are plimsoll's own words only below this parent.
const OWN_PLACES: &[(&str, &str)] = &[
    ("metrics", "name"),
    ("references", "name"),
    ("limit", "kind"),
    ("limit", "source"),
    ("other_limits", "kind"),
    ("other_limits", "source"),
];
