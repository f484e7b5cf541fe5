//! Protocol of a node's output: lines with a prefix that names their kind, and JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::between::{PairAnswer, ServingPlace};
use crate::document::Run;
use crate::sample::CannotMeasure;
use crate::text::shown_within;

const HERE: &str = "plimsoll-here";
const DOCUMENT: &str = "plimsoll-document";
const MESSAGE: &str = "plimsoll-message";

const MAX_LINE_BYTES: u64 = 64 << 20;
const MAX_BYTES_OF_A_MACHINE: u64 = 256 << 20;

/// Work for a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// Arguments of `plimsoll`.
    pub words: Vec<String>,
    /// Name and text of a plan that is not built in.
    pub plan: Option<(String, String)>,
    /// Options that name a file, with the text of the file.
    pub files: BTreeMap<String, String>,
    /// The partial run to continue.
    pub begun: Option<Box<Run>>,
    /// Whether the node then stays for measurements with other nodes.
    pub stays: bool,
}

/// Request to a node after its own run, one per line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FollowUp {
    /// Start a server for other nodes.
    Serve,
    /// Measure to another node.
    Measure {
        /// Address of the server, or the reason why it does not serve.
        place: Result<ServingPlace, CannotMeasure>,
    },
    /// Measure these cases again and send them like the run.
    Again(Vec<String>),
}

/// Progress of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineProgress {
    /// Cases that have ended.
    pub done: usize,
    /// Cases of the node's plan.
    pub of: usize,
}

/// How a run on a node ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Exit code.
    pub code: u8,
    /// Final message, if any.
    pub line: Option<String>,
}

/// Message of a node, one per line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeMessage {
    /// The first message: the SHA-256 of the node's program file in hexadecimal.
    Hello(String),
    /// The end of the run.
    Ended(RunEnd),
    /// Answer to [`FollowUp::Serve`]: the server's address, or why there is none.
    Serving(Result<ServingPlace, CannotMeasure>),
    /// Answer to [`FollowUp::Measure`]: one result per case id.
    Measured(BTreeMap<String, PairAnswer>),
    /// Progress of the run.
    Progress(MachineProgress),
    /// Keep-alive.
    Alive,
}

impl NodeMessage {
    /// Returns the line for the launcher.
    pub fn line(&self) -> String {
        format!("{MESSAGE} {}\n", serde_json::to_string(self).unwrap_or_default())
    }
}

/// Returns the last lines of a node: the document of `run`, if any, and how the run ended.
pub fn ending(run: Option<&Run>, ended: RunEnd) -> String {
    let line = |run: &Run| format!("{DOCUMENT} {}\n", run.to_json().unwrap_or_default());
    run.map(line).unwrap_or_default() + &NodeMessage::Ended(ended).line()
}

#[derive(Debug)]
pub(super) enum ReceivedLine {
    Here(String),
    Document(Box<Run>),
    Message(NodeMessage),
    Other(String),
}

impl ReceivedLine {
    fn of(text: &str) -> Result<Self, String> {
        let Some((word, json)) = text.split_once(' ') else { return Ok(Self::Other(text.to_owned())) };
        match word {
            HERE => Ok(Self::Here(shown_within(json.trim(), 32))),
            MESSAGE => serde_json::from_str(json).map(Self::Message).map_err(|e| {
                format!("it sent a line that cannot be read: {}", shown_within(&e.to_string(), 200))
            }),
            DOCUMENT => match Run::parse_all(json).next() {
                Some(run) => run.map(|run| Self::Document(Box::new(run))),
                None => Err("what it sent is no run document".to_owned()),
            },
            _ => Ok(Self::Other(text.to_owned())),
        }
    }
}

pub(super) struct ReceivedLines<R> {
    from: R,
    left: u64,
}

impl<R: BufRead> ReceivedLines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, left: MAX_BYTES_OF_A_MACHINE }
    }

    /// Returns the next line; `None` at the end or within a cut-off line. Fails if it is invalid,
    /// or if it or all lines together are too long.
    pub(super) fn next(&mut self) -> Result<Option<ReceivedLine>, String> {
        let allowed = MAX_LINE_BYTES.min(self.left);
        let mut bytes = Vec::new();
        let came = self.from.by_ref().take(allowed).read_until(b'\n', &mut bytes);
        let came = came.map_err(|e| format!("reading from ssh failed: {e}"))? as u64;
        self.left -= came;
        match bytes.last() {
            None if allowed > 0 => Ok(None),
            Some(b'\n') => ReceivedLine::of(String::from_utf8_lossy(&bytes).trim_end()).map(Some),
            _ if came >= allowed => {
                let most = if allowed == MAX_LINE_BYTES { MAX_LINE_BYTES } else { MAX_BYTES_OF_A_MACHINE };
                Err(format!("it sent more than {} MiB; its result is not read", most >> 20))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    fn all(text: &[u8]) -> Vec<Result<ReceivedLine, String>> {
        let mut lines = ReceivedLines::new(text);
        std::iter::from_fn(|| lines.next().transpose()).take(9).collect()
    }

    #[test]
    fn what_is_said_arrives_among_what_a_shell_says() {
        let run = fixture::run();
        let ended = RunEnd { code: 4, line: None };
        let text = format!(
            "welcome\nplimsoll-here x86_64\n{}{{}}\n{}",
            NodeMessage::Hello("ab".to_owned()).line(),
            ending(Some(&run), ended.clone())
        );
        let lines: Vec<ReceivedLine> = all(text.as_bytes()).into_iter().map(Result::unwrap).collect();
        assert!(matches!(&lines[1], ReceivedLine::Here(machine) if machine == "x86_64"));
        assert!(matches!(&lines[2], ReceivedLine::Message(NodeMessage::Hello(own)) if own == "ab"));
        assert!(matches!((&lines[0], &lines[3]), (ReceivedLine::Other(_), ReceivedLine::Other(_))));
        assert!(matches!(&lines[4], ReceivedLine::Document(same) if same.id == run.id));
        assert!(matches!(&lines[5], ReceivedLine::Message(NodeMessage::Ended(same)) if *same == ended));
    }

    #[test]
    fn a_line_without_end_is_refused_and_one_cut_off_is_none() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        assert!(ReceivedLines::new(endless).next().unwrap_err().contains("more than 64 MiB"));
        assert!(all(b"plimsoll-message {\"ended\":{\"code\":0").is_empty());
        let mut spent = ReceivedLines { from: &b"x\n"[..], left: 0 };
        assert!(spent.next().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), word in 0..3_usize) {
            let word = [HERE, DOCUMENT, MESSAGE][word].as_bytes();
            let _ = all(&[word, b" ", &bytes].concat());
        }
    }
}
