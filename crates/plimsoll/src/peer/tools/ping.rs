//! ping: ICMP echo, answered by the kernel of the far end.
//!
//! No process wakes on the far side, so it is only related to round trips of TCP and UDP, and the same as ours by ICMP.

use super::super::{Ask, Invocation, Match, Package, Pairing, Peer, Reading, Tool};
use super::{only, words};
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Ping;

/// Echoes of one reading: as many as fit the least interval that every user may ask for in a second.
const ECHOES: &str = "100";

/// Largest payload that fits an IPv4 packet.
const LARGEST: u64 = 65_507;

/// What it is.
const TOOL: Tool = Tool {
    name: "ping",
    checks: "round trips by ICMP echo",
    programs: &["ping"],
    package: Package::Debian("iputils-ping"),
    version_arguments: &["-V"],
    version_after: "iputils ",
    ..Tool::NONE
};

impl Peer for Ping {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        let known = only(case, &["protocol", "message", "streams", "mode", "server", "place"]);
        (case.benchmark() == "network.latency" && known).then_some(())?;
        (case.number("message")? <= LARGEST).then_some(())?;
        let (definition, note) = match case.word("protocol")? {
            "icmp" if case.word("mode") == Some("poll") => (Match::Related, "it sleeps until the echo comes"),
            "icmp" if case.number("streams").unwrap_or(1) == 1 => (Match::Exact, "mean of ICMP echoes"),
            "icmp" => (Match::Related, "one echo at a time"),
            _ => (Match::Related, "the kernel answers an echo, no process does"),
        };
        Some(Pairing { metric: "rtt", definition, note, seconds: 1.0, pairs: Pairing::PAIRS })
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        let bytes = ask.case.number("message").ok_or("the case has no message size")?.to_string();
        // 2 ms is the least interval that iputils lets everybody ask for.
        let arguments = words(&["-n", "-q", "-c", ECHOES, "-i", "0.002", "-s", &bytes, ask.far.host()]);
        Ok(Invocation { program: "ping", arguments, cpus: ask.offer.cpus.clone(), ..Invocation::default() })
    }

    fn parse(&self, _: &Case, text: &str) -> Result<Reading, String> {
        let line = text.lines().find(|line| line.starts_with("rtt min/avg/max/mdev = "));
        let line = line.ok_or("its output has no line 'rtt min/avg/max/mdev'; no echo came back")?;
        let (_, values) = line.split_once(" = ").ok_or("its rtt line is cut off")?;
        if !values.trim_end().contains(" ms") {
            return Err("its rtt line is cut off".to_owned());
        }
        let mean = values.split('/').nth(1).and_then(|v| v.parse::<f64>().ok());
        let mut reading = Reading::of(mean.ok_or("its rtt line has no average")? * 1e-3)?;
        if !text.contains(" 0% packet loss") {
            reading.differs.push("it lost packets".to_owned());
        }
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const SMALL: &str = include_str!("../../../tests/fixtures/peers/ping-20221126-56.txt");
    const LARGE: &str = include_str!("../../../tests/fixtures/peers/ping-20221126-8192.txt");

    fn case(message: u64) -> Case {
        Case::of("network.latency").with_word("protocol", "icmp").with_size("message", message)
    }

    #[test]
    fn recorded_output_is_read() {
        for recording in [SMALL, LARGE] {
            let reading = Ping.parse(&case(56), &golden::body(recording)).unwrap();
            assert!(
                reading.value > 1e-7 && reading.value < 1e-2 && reading.differs.is_empty(),
                "{reading:?}"
            );
        }
    }

    #[test]
    fn loss_is_told_and_silence_is_no_figure() {
        let lossy = golden::body(SMALL).replace(" 0% packet loss", " 7% packet loss");
        assert_eq!(Ping.parse(&case(56), &lossy).unwrap().differs.len(), 1);
        let silent = "100 packets transmitted, 0 received, 100% packet loss, time 200ms\n";
        assert!(Ping.parse(&case(56), silent).unwrap_err().contains("no echo"));
    }
}
