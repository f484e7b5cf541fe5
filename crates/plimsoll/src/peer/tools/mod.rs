//! The tools, a file each, and what their files share.

mod fio;
mod iperf3;
mod likwid;
mod mbw;
mod ping;
mod sockperf;
mod stream;

use super::Peer;

/// Every reference tool there is, in the order of subsystems. A new one is one file and one line here.
pub const PEERS: &[&dyn Peer] = &[
    &likwid::LikwidBench,
    &stream::Stream,
    &mbw::Mbw,
    &fio::Fio,
    &iperf3::Iperf3,
    &sockperf::Sockperf,
    &ping::Ping,
];

/// The number after `label` on the first line that holds it.
fn number_after(text: &str, label: &str) -> Result<f64, String> {
    let line = text.lines().find_map(|line| line.split_once(label)).map(|(_, rest)| rest);
    let word = line.and_then(|rest| rest.split_whitespace().next());
    let word = word.ok_or_else(|| format!("its output has no '{}'", label.trim()))?;
    word.trim_end_matches(',').parse().map_err(|_| {
        format!(
            "'{}' is followed by '{}', which is no number",
            label.trim(),
            crate::text::shown_within(word, 40)
        )
    })
}

/// The first word of `text` that begins with a digit, after `lead`.
fn version_after(text: &str, lead: &str) -> Option<String> {
    let (_, rest) = text.split_once(lead)?;
    let word = rest.split_whitespace().next()?;
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.trim_end_matches([',', ';', ')']).to_owned())
}

/// Bytes of the last-level cache, where they are known.
fn last_level_bytes(machine: &crate::machine::Machine) -> Option<u64> {
    machine.cpu.last_level_bytes()
}

#[cfg(test)]
mod golden {
    //! Recorded output, whole and damaged.

    use super::*;
    use crate::case::Case;
    use crate::peer::Reading;

    /// A recording without its head: lines that begin with `#` tell tool, version and command.
    pub(super) fn body(recording: &str) -> String {
        recording.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n")
    }

    /// What every adapter must do with damaged text: a line that says what is wrong, and no figure.
    #[track_caller]
    pub(super) fn survives_damage(peer: &dyn Peer, case: &Case, recording: &str) {
        let whole = body(recording);
        let good = peer.parse(case, &whole).expect("the recording is read");
        for text in ["", "\0\u{1b}[31m", "bash: orden no encontrada", "{}", "[]", "null"] {
            let why = peer.parse(case, text).expect_err("no figure comes from nothing");
            assert!(!why.is_empty() && !why.contains(['\n', '\u{1b}']), "{why:?}");
        }
        for cut in (0..whole.len()).filter(|at| whole.is_char_boundary(*at)).step_by(7) {
            // A cut may fall behind the figure, or within it: then fewer digits were printed.
            if let Ok(Reading { value, .. }) = peer.parse(case, &whole[..cut]) {
                assert!(value.is_finite() && value > 0.0 && value <= good.value * 1.0001, "{value} at {cut}");
            }
        }
    }

    #[test]
    fn names_are_unique_and_every_tool_says_what_it_checks() {
        let mut names: Vec<_> = PEERS.iter().map(|p| p.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PEERS.len());
        assert!(PEERS.iter().all(|p| !p.checks().is_empty() && !p.programs().is_empty()));
    }

    #[test]
    fn a_number_is_read_after_its_label() {
        assert_eq!(number_after("a\nMByte/s:\t\t12.5\n", "MByte/s:"), Ok(12.5));
        assert!(number_after("MByte/s:", "MByte/s:").unwrap_err().contains("no 'MByte/s:'"));
        assert!(number_after("x: y", "x:").unwrap_err().contains("no number"));
        assert_eq!(version_after("iperf 3.12 (cJSON)", "iperf ").as_deref(), Some("3.12"));
    }
}
