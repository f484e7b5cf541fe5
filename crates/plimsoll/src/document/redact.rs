//! A run document without what names its machine: host names, addresses, serial numbers, users. What was measured stays.
//!
//! Every text of the document is walked, not only the fields that are known to hold such things: a tool's command or a
//! warning may repeat them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value as Json;

use super::Run;
use crate::case::{Case, Value};

/// Parameters of a case that name machines.
const NAMING: [&str; 2] = ["server", "bind"];

/// What stands for an address.
const ADDRESS: &str = "address";

/// Digits from which a hexadecimal number is an identifier: of containers, disks, world wide names.
const LONG_HEX: usize = 16;

impl Run {
    /// The same run, with host names, addresses, serial numbers and user names replaced. One name has one replacement
    /// throughout, so that the machines of a cluster stay apart.
    ///
    /// # Errors
    /// The document cannot be written as JSON, or a name is one of its own words.
    pub fn redacted(&self) -> Result<Self, serde_json::Error> {
        let names = Names::of(self);
        let cases: Vec<Case> = self.measurements.iter().map(|m| names.case(&m.case)).collect();
        let mut document = serde_json::to_value(self)?;
        let kept = Kept::of(self);
        names.walk(&mut document, "", &kept);
        if let Some(measurements) = document.get_mut("measurements").and_then(Json::as_array_mut) {
            for (measurement, case) in measurements.iter_mut().zip(&cases) {
                measurement["case"] = serde_json::to_value(case)?;
            }
        }
        serde_json::from_value(document)
    }

    /// Replaces in these texts what [`Run::redacted`] replaces in the run.
    pub fn redact<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        let (names, kept) = (Names::of(self), Kept::of(self));
        texts.into_iter().for_each(|text| *text = names.string(text, &kept));
    }
}

/// Texts that name nobody although they look as if.
struct Kept {
    run: String,
    machines: Vec<String>,
}

impl Kept {
    fn of(run: &Run) -> Self {
        let nodes = run.nodes.iter().map(|n| n.machine.id.clone());
        Self { run: run.id.clone(), machines: nodes.chain([run.machine.id.clone()]).collect() }
    }

    fn has(&self, token: &str) -> bool {
        token == self.run || self.machines.iter().any(|id| id == token)
    }
}

/// What is replaced by what.
#[derive(Default)]
struct Names {
    /// The replacement of each name, which is in lower case.
    hosts: HashMap<String, String>,
    /// Names of other characters than a host's.
    odd: Vec<String>,
    machines: usize,
    cases: Vec<Renamed>,
}

/// Ids of cases that name a machine.
struct Renamed {
    from: String,
    to: String,
}

impl Names {
    fn of(run: &Run) -> Self {
        let mut names = Self::default();
        let nodes = run.nodes.iter().flat_map(|n| [Some(n.name.as_str()), n.machine.host.as_deref()]);
        let of_cases = run.measurements.iter().map(|m| Some(m.node.as_str()));
        // A machine that was lost may have no row.
        let of_findings = run.findings.iter().map(|finding| finding.evidence["node"].as_str());
        let own = [run.machine.host.as_deref()].into_iter();
        for name in own.chain(nodes).chain(of_cases).chain(of_findings).flatten() {
            names.enter(name);
        }
        let ends = run.measurements.iter().flat_map(|m| NAMING.map(|key| m.case.word(key)));
        for end in ends.flatten() {
            let end = end.split_once("://").map_or(end, |(_, rest)| rest);
            let name = end.rsplit_once(':').map_or(end, |(name, _)| name);
            if address(end).is_none() && address(name).is_none() {
                names.enter(name);
            }
        }
        for measurement in &run.measurements {
            let (from, to) = (measurement.case.id(), names.case(&measurement.case).id());
            if from != to && names.cases.iter().all(|c| c.from != from.as_str()) {
                names.cases.push(Renamed { from: from.as_str().to_owned(), to: to.as_str().to_owned() });
            }
        }
        names
    }

    fn enter(&mut self, name: &str) {
        if name.is_empty() || ["localhost", ADDRESS].contains(&name) || self.host(name).is_some() {
            return;
        }
        // The first part of a full name stands for the same machine.
        let short = name.split('.').next().filter(|short| !short.is_empty()).unwrap_or(name);
        let replacement = self.host(short).cloned().unwrap_or_else(|| {
            self.machines += 1;
            format!("host-{}", self.machines)
        });
        if !name.chars().all(in_word) {
            self.odd.push(name.to_owned());
        }
        for name in [short, name] {
            self.hosts.insert(name.to_ascii_lowercase(), replacement.clone());
        }
    }

    /// What stands for this name.
    fn host(&self, name: &str) -> Option<&String> {
        self.hosts.get(&name.to_ascii_lowercase())
    }

    /// The case with its machines' names replaced.
    fn case(&self, case: &Case) -> Case {
        NAMING.iter().fold(case.clone(), |case, key| match case.get(key) {
            Some(Value::Word(word)) => {
                let word = self.text(word, &|_| false);
                case.with_word(key, &word)
            }
            _ => case,
        })
    }

    /// Walks what stands in the document under `place`, the key of the object or list that it is in.
    fn walk(&self, json: &mut Json, place: &str, kept: &Kept) {
        match json {
            Json::String(text) => *text = self.string(text, kept),
            Json::Array(all) => all.iter_mut().for_each(|one| self.walk(one, place, kept)),
            Json::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    if !OWN_WORDS.contains(&key.as_str()) && !OWN_PLACES.contains(&(place, key.as_str())) {
                        self.walk(value, key, kept);
                    }
                }
            }
            _ => {}
        }
    }

    fn string(&self, text: &str, kept: &Kept) -> String {
        if let Some(host) = self.host(text) {
            return host.clone();
        }
        let mut text = text.to_owned();
        for case in &self.cases {
            text = text.replace(&case.from, &case.to);
        }
        // A name of other characters than a host's is no word of its own anywhere.
        for name in &self.odd {
            text = text.replace(name, self.host(name).map_or("", String::as_str));
        }
        self.text(&text, &|token| kept.has(token))
    }

    /// Replaces word by word; what `keeps` says stays.
    fn text(&self, text: &str, keeps: &dyn Fn(&str) -> bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let identified = out.ends_with("/by-id/") || out.ends_with("/by-path/");
            match (word, out.ends_with("/home/")) {
                ("", _) => {}
                (_, true) => out += "user",
                _ if keeps(word) => out += word,
                _ if identified => out += "device",
                _ => out += &self.word(word),
            }
            let mut others = after.chars();
            out.extend(others.next());
            rest = others.as_str();
        }
        out
    }

    fn word(&self, word: &str) -> String {
        // A full stop or colon may be the sentence's.
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
            Some(Address::Bare) => format!("{ADDRESS}{stops}"),
            Some(Address::WithPort(port)) => format!("{ADDRESS}:{port}{stops}"),
            None if is_mac(bare) => format!("mac{stops}"),
            None if is_uuid(bare) => format!("uuid{stops}"),
            None => without_long_hex(word),
        }
    }
}

/// Keys whose texts are words of the document's own, never of the machine.
const OWN_WORDS: &[&str] = &[
    "schema",
    "id",
    "case",
    "benchmark",
    "params",
    "unit",
    "better",
    "status",
    "code",
    "match",
    "verdict",
    "hash",
    "metric",
];

/// Keys of that kind in one place only: elsewhere their texts may name a machine.
const OWN_PLACES: &[(&str, &str)] = &[
    ("metrics", "name"),
    ("peers", "peer"),
    ("limit", "kind"),
    ("limit", "source"),
    ("limits", "kind"),
    ("limits", "source"),
];

/// Characters of names, addresses and identifiers.
fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':')
}

enum Address {
    Bare,
    WithPort(u16),
}

/// Whether it is an address of a machine; loopback and "any" name none.
fn address(word: &str) -> Option<Address> {
    let tells = |ip: IpAddr| !ip.is_loopback() && !ip.is_unspecified();
    if let Ok(ip) = word.trim_matches(['[', ']']).parse::<IpAddr>() {
        return tells(ip).then_some(Address::Bare);
    }
    let socket: SocketAddr = word.parse().ok()?;
    tells(socket.ip()).then(|| Address::WithPort(socket.port()))
}

fn is_mac(word: &str) -> bool {
    let separator = if word.contains(':') { ':' } else { '-' };
    let parts: Vec<&str> = word.split(separator).collect();
    let hex = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    parts.len() == 6 && parts.iter().all(hex)
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && uuid::Uuid::try_parse(word).is_ok()
}

/// Identifiers within a word: `docker-4f0c….scope`.
fn without_long_hex(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        let (hex, after) = rest.split_at(digits);
        // Numbers of decimal digits alone are quantities.
        let identifier = digits >= LONG_HEX && hex.bytes().any(|b| b.is_ascii_alphabetic());
        out += if identifier { "identifier" } else { hex };
        let mut others = after.chars();
        out.extend(others.next());
        rest = others.as_str();
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::document::{Finding, Node};
    use crate::fixture;
    use crate::measurement::{MetricResult, Note, PeerResult};

    const SECRETS: &[&str] = &[
        "db7.example.org",
        "db7",
        "10.1.2.3",
        "fe80::5054:ff:fe12:3456",
        "52:54:00:12:34:56",
        "nvme-SAMSUNG_S4EWNX0M",
        "6f1d2c3b-1111-4222-8333-444455556666",
        "4f0c9a7711ab22cd33ef44aa55bb66cc",
        "alice",
        "far.example.net",
        "gone.example.org",
    ];

    fn telling() -> Run {
        let mut run = fixture::run();
        run.machine.host = Some("db7.example.org".to_owned());
        run.nodes = vec![Node { name: "db7.example.org".to_owned(), machine: run.machine.clone() }];
        for measurement in &mut run.measurements {
            measurement.node = "db7.example.org".to_owned();
            measurement.warnings.push(Note {
                code: "other".to_owned(),
                text: "db7: no route from 10.1.2.3:80 to fe80::5054:ff:fe12:3456, mac 52:54:00:12:34:56."
                    .to_owned(),
            });
            measurement.reason = Some(
                "/home/alice/x on /dev/disk/by-id/nvme-SAMSUNG_S4EWNX0M UUID=6f1d2c3b-1111-4222-8333-444455556666 docker-4f0c9a7711ab22cd33ef44aa55bb66cc.scope"
                    .to_owned(),
            );
        }
        let far = "network.tcp/message=64K/streams=1/direction=up/server=far.example.net:5201";
        let mut remote = fixture::measured(far, "goodput", crate::quantity::Unit::BitPerSecond, 1e9);
        remote.warnings.push(Note { code: "x".to_owned(), text: format!("{far} was slow") });
        run.measurements.push(remote);
        let by_address = "network.tcp/message=64K/streams=1/direction=up/server=10.1.2.3:5201";
        let unit = crate::quantity::Unit::BitPerSecond;
        run.measurements.push(fixture::measured(by_address, "goodput", unit, 1e9));
        run.findings.push(Finding {
            code: "machine-lost".to_owned(),
            text: "gone.example.org (rank 1) was lost".to_owned(),
            evidence: serde_json::json!({ "node": "gone.example.org" }),
        });
        run
    }

    #[test]
    fn nothing_that_names_the_machine_stays() {
        let run = telling();
        let redacted = run.redacted().unwrap();
        let text = serde_json::to_string(&redacted).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert_eq!(redacted.machine.host.as_deref(), Some("host-1"));
        assert_eq!(
            (redacted.nodes[0].name.as_str(), redacted.measurements[0].node.as_str()),
            ("host-1", "host-1")
        );
        let warning = &redacted.measurements[0].warnings.last().unwrap().text;
        assert_eq!(warning, "host-1: no route from address:80 to address, mac mac.");
        let reason = redacted.measurements[0].reason.as_deref().unwrap();
        assert_eq!(reason, "/home/user/x on /dev/disk/by-id/device UUID=uuid docker-identifier.scope");
        let [.., far, _] = &redacted.measurements[..] else { panic!("{text}") };
        let server = far.case.word("server").unwrap();
        assert!(
            server.starts_with("host-") && server.ends_with(":5201") && !server.starts_with("host-1:"),
            "{server}"
        );
        assert_eq!(far.warnings[0].text, format!("{} was slow", far.case.id()));
        let index = run.measurements.len() - 2;
        let mut texts = [run.measurements[index].warnings[0].text.clone(), "DB7: 1 s".to_owned()];
        run.redact(&mut texts);
        assert_eq!(texts, [far.warnings[0].text.clone(), "host-1: 1 s".to_owned()]);
    }

    #[test]
    fn what_was_measured_stays() {
        // As it is read again: what is not written is not compared.
        let run: Run = serde_json::from_str(&serde_json::to_string(&telling()).unwrap()).unwrap();
        let redacted = run.redacted().unwrap();
        assert_eq!((&redacted.id, &redacted.machine.id), (&run.id, &run.machine.id));
        // Limits and tools may name the far end.
        let figures = |m: &MetricResult| MetricResult {
            limit: None,
            limits: Vec::new(),
            peers: Vec::new(),
            ..m.clone()
        };
        for (a, b) in run.measurements.iter().zip(&redacted.measurements) {
            let [was, is] = [a, b].map(|m| m.metrics.iter().map(figures).collect::<Vec<_>>());
            assert_eq!((was, &a.conditions, a.status), (is, &b.conditions, b.status));
        }
        assert_eq!(redacted.redacted().unwrap(), redacted, "a redacted run has nothing to redact");
    }

    #[test]
    fn loopback_versions_times_and_numbers_are_no_addresses() {
        let names = Names::default();
        for text in [
            "127.0.0.1:5201 and [::1]:80",
            "fio 3.33, kernel 6.1.0-13, 12:30:45, 0.0.0.0:0",
            "1234567890123456789 bytes; std::net",
            "cpu.peak/op=fma/type=f64/threads=2",
        ] {
            assert_eq!(names.text(text, &|_| false), text);
        }
        assert_eq!(names.text("[2001:db8::1]:80 192.0.2.1/24", &|_| false), "[address]:80 address/24");
    }

    #[test]
    fn a_host_called_like_a_word_of_the_document_keeps_it_readable() {
        let words = |run: &Run| -> Vec<String> {
            let metrics = run.measurements.iter().flat_map(|m| &m.metrics);
            let limit = |m: &MetricResult| m.limit.as_ref().map(|l| format!("{:?} {:?}", l.kind, l.source));
            let tools = |m: &MetricResult| m.peers.iter().map(|p| p.peer.clone()).collect::<String>();
            metrics.map(|m| format!("{} {:?} {}", m.name, limit(m), tools(m))).collect()
        };
        let mut run = fixture::run();
        run.measurements[0].metrics[0].peers = vec![PeerResult::of(&fixture::heard("fio", &[]), 0.03)];
        assert!(words(&run)[0].ends_with(" fio"), "{:?}", words(&run));
        for name in [
            "cpu",
            "rate",
            "latency",
            "bus",
            "fio",
            "ceiling",
            "derived",
            "ok",
            "higher",
            "plimsoll.run/1",
            "x",
            "\u{1b}[31m<b>",
        ] {
            let mut named = run.clone();
            named.machine.host = Some(name.to_owned());
            let redacted = named.redacted().unwrap();
            assert_eq!(redacted.machine.host.as_deref(), Some("host-1"), "{name}");
            assert_eq!(redacted.measurements[0].case, run.measurements[0].case);
            assert_eq!(redacted.measurements[0].status, run.measurements[0].status);
            assert_eq!(words(&redacted), words(&run), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_walked(text in "\\PC{0,80}", host in "\\PC{1,12}") {
            let mut run = fixture::run();
            run.machine.host = Some(host);
            run.measurements[0].reason = Some(text);
            if let Ok(redacted) = run.redacted() {
                prop_assert_eq!(redacted.measurements.len(), run.measurements.len());
            }
        }
    }
}
