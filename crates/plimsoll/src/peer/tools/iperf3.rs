//! iperf3: TCP streams to a server of its own on the loopback interface.
//!
//! What the receiver got is compared, both ends bound to the CPUs that ours use. Our own private far end is a second
//! process on loopback, and so is its server.

use serde::Deserialize;

use super::super::{Ask, Invocation, Listens, Match, Package, Pairing, Peer, Reading, Server};
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Iperf3;

impl Peer for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn checks(&self) -> &'static str {
        "TCP throughput as received"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["iperf3"]
    }

    fn package(&self) -> Package {
        Package::Debian("iperf3")
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        &["--version"]
    }

    fn version(&self, text: &str) -> Option<String> {
        super::version_after(text, "iperf ")
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        let up = case.word("direction").is_none_or(|d| d == "up" || d == "down");
        (case.benchmark() == "network.tcp" && up).then_some(())?;
        let note = "bits per second as received, the same message size and streams";
        let pairs = Pairing::PAIRS;
        Some(Pairing { metric: "goodput", definition: Match::Exact, note, seconds: 1.5, pairs })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let port = ask.port.to_string();
        let message = ask.case.number("message").ok_or("the case has no message size")?;
        let streams = ask.case.number("streams").unwrap_or(1);
        let mut arguments = words(&["-c", "127.0.0.1", "-p", &port, "-J", "-t"]);
        arguments.push((ask.seconds.ceil().max(1.0)).to_string());
        arguments.extend(words(&["-l", &message.to_string(), "-P", &streams.to_string()]));
        if ask.case.word("direction") == Some("down") {
            arguments.push("-R".to_owned());
        }
        let (near, far) = ends(&ask.offer.cpus);
        let server = Server {
            program: "iperf3",
            arguments: words(&["-s", "-B", "127.0.0.1", "-p", &port]),
            listens: Listens::Tcp(ask.port),
            cpus: far,
        };
        Ok(Invocation {
            program: "iperf3",
            arguments,
            cpus: near,
            server: Some(server),
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        let start = text.find('{').ok_or("its output is no JSON")?;
        let report: Report =
            serde_json::from_str(&text[start..]).map_err(|e| format!("its JSON cannot be read: {e}"))?;
        if let Some(error) = report.error {
            return Err(crate::text::shown_within(&error, 200));
        }
        let end = report.end.and_then(|end| end.sum_received).ok_or("its JSON has no end.sum_received")?;
        let mut reading = Reading::of(end.bits_per_second)?;
        let asked =
            [("message", report.start.test_start.blksize), ("streams", report.start.test_start.num_streams)];
        for (key, used) in asked {
            reading.achieved.insert(key.to_owned(), used.to_string());
            let wanted = case.number(key).unwrap_or(used);
            if used != wanted {
                reading.differs.push(format!("its {key} was {used} where {wanted} was asked"));
            }
        }
        Ok(reading)
    }
}

/// The CPUs of the near end and of the far end, as ours use them: the first and the last.
pub(super) fn ends(cpus: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let pick = |cpu: Option<&usize>| cpu.copied().into_iter().collect();
    (pick(cpus.first()), pick(cpus.last()))
}

/// Owned words.
pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    start: Start,
    #[serde(default)]
    end: Option<End>,
}

#[derive(Deserialize, Default)]
struct Start {
    #[serde(default)]
    test_start: TestStart,
}

#[derive(Deserialize, Default)]
struct TestStart {
    #[serde(default)]
    num_streams: u64,
    #[serde(default)]
    blksize: u64,
}

#[derive(Deserialize)]
struct End {
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const ONE: &str = include_str!("../../../tests/fixtures/peers/iperf3-3.12-tcp-1.json");
    const TWO: &str = include_str!("../../../tests/fixtures/peers/iperf3-3.12-tcp-2-reverse.json");

    fn case(message: u64, streams: u64) -> Case {
        Case::of("network.tcp").with_size("message", message).with_count("streams", streams)
    }

    #[test]
    fn recorded_output_is_read() {
        let one = Iperf3.parse(&case(128 << 10, 1), &golden::body(ONE)).unwrap();
        assert!(one.value > 1e8 && one.differs.is_empty(), "{one:?}");
        let two = Iperf3.parse(&case(1 << 20, 2), &golden::body(TWO)).unwrap();
        assert!(two.value > 1e8 && two.differs.is_empty(), "{two:?}");
        assert_eq!(Iperf3.parse(&case(8, 8), &golden::body(ONE)).unwrap().differs.len(), 2);
    }

    #[test]
    fn its_own_error_is_told() {
        let why = Iperf3.parse(&case(1, 1), "{\"start\":{},\"error\":\"error - unable to connect\"}");
        assert_eq!(why.unwrap_err(), "error - unable to connect");
    }

    #[test]
    fn damaged_output_gives_a_line() {
        golden::survives_damage(&Iperf3, &case(128 << 10, 1), ONE);
    }
}
