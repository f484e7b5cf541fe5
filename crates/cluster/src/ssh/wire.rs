//! The lines that a machine sends: a word that says what it is, and JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::between::{Answer, Place};
use crate::document::Run;
use crate::sample::CannotMeasure;
use crate::text::shown_within;

/// Before the first word of the script there.
const HERE: &str = "plimsoll-here ";
const HELLO_PREFIX: &str = "plimsoll-hello ";
const DOCUMENT: &str = "plimsoll-document ";
const ENDED_PREFIX: &str = "plimsoll-ended ";
const SERVING: &str = "plimsoll-serving ";
const MEASURED_PREFIX: &str = "plimsoll-measured ";
const PROGRESS: &str = "plimsoll-progress ";
/// Said again and again by a machine that is there.
const ALIVE: &str = "plimsoll-alive";

/// Longest line: a document of many series.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// All that one machine may send, events and what its shell says included.
const MAX_BYTES_OF_A_MACHINE: u64 = 256 << 20;

/// What a machine is to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The words after `plimsoll`.
    pub words: Vec<String>,
    /// Name and text of a plan that is no built-in one.
    pub plan: Option<(String, String)>,
    /// Options that name a file, with the file's text.
    pub files: BTreeMap<String, String>,
    /// Its run as far as it got, which goes on.
    pub begun: Option<Box<Run>>,
    /// Whether it then measures with other machines as it is asked.
    pub stays: bool,
}

/// What a machine is asked for after its own run, a line each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Let others measure to you.
    Serve,
    /// Measure to another machine.
    Measure {
        /// Where it serves, or why it cannot.
        place: Result<Place, CannotMeasure>,
    },
    /// Measure these cases of your own again, and send them as you sent your run.
    Again(Vec<String>),
}

/// The line that asks.
pub(super) fn asked(ask: &Ask) -> String {
    said("", ask)
}

/// The line that answers [`Ask::Serve`].
pub fn serving(place: &Result<Place, CannotMeasure>) -> String {
    said(SERVING, place)
}

/// The line that answers [`Ask::Measure`]: an answer a case, by the case's id.
pub fn measured_between(answers: &BTreeMap<String, Answer>) -> String {
    said(MEASURED_PREFIX, answers)
}

/// How far a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Cases that have ended.
    pub done: u32,
    /// Cases of its plan.
    pub of: u32,
}

/// The line that says how far a machine is.
pub fn progress(progress: &Progress) -> String {
    said(PROGRESS, progress)
}

/// The line of a machine that is there and has nothing else to say.
pub fn alive() -> String {
    format!("{ALIVE}\n")
}

/// The first word of the program there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// SHA-256 of its own file, in hexadecimal.
    pub(super) sha256: String,
}

/// How a run there ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The exit code that it would have had here.
    pub code: u8,
    /// What it had to say, if anything.
    pub line: Option<String>,
}

/// The line that begins what a machine says.
pub fn hello(sha256: String) -> String {
    said(HELLO_PREFIX, &Hello { sha256 })
}

/// A line of one value.
fn said(word: &str, value: &impl Serialize) -> String {
    // Plain data: there is nothing in it that JSON could refuse.
    word.to_owned() + &serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// The lines that end what a machine says: its document, if there is one, and how the run ended.
pub fn ending(document: Option<&str>, ended: &Ended) -> String {
    let document = document.map(|json| format!("{DOCUMENT}{}\n", json.trim())).unwrap_or_default();
    document + &said(ENDED_PREFIX, ended)
}

/// A line that came.
#[derive(Debug)]
pub(super) enum Line {
    /// The script's first word: the machine's architecture.
    Here(String),
    Hello(Hello),
    Document(Box<Run>),
    Ended(Ended),
    Serving(Result<Place, CannotMeasure>),
    Measured(BTreeMap<String, Answer>),
    Progress(Progress),
    /// That it is there.
    Alive,
    /// What is none of these: a shell's greeting, what a command prints.
    Other(String),
}

impl Line {
    fn of(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix(HERE) {
            return Ok(Self::Here(shown_within(rest.trim(), 32)));
        }
        if let Some(json) = text.strip_prefix(HELLO_PREFIX) {
            return read(json).map(Self::Hello);
        }
        if let Some(json) = text.strip_prefix(ENDED_PREFIX) {
            return read(json).map(Self::Ended);
        }
        if let Some(json) = text.strip_prefix(SERVING) {
            return read(json).map(Self::Serving);
        }
        if let Some(json) = text.strip_prefix(MEASURED_PREFIX) {
            return read(json).map(Self::Measured);
        }
        if let Some(json) = text.strip_prefix(PROGRESS) {
            return read(json).map(Self::Progress);
        }
        if text == ALIVE {
            return Ok(Self::Alive);
        }
        let Some(json) = text.strip_prefix(DOCUMENT) else { return Ok(Self::Other(text.to_owned())) };
        let mut documents = Run::parse_all(json);
        match documents.next() {
            Some(run) => run.map(|run| Self::Document(Box::new(run))),
            None => Err("what it sent is no run document".to_owned()),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json)
        .map_err(|e| format!("it sent a line that cannot be read: {}", shown_within(&e.to_string(), 200)))
}

/// What a machine sends, line by line, none longer and all together not more than is allowed.
pub(super) struct Lines<R> {
    from: R,
    left: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, left: MAX_BYTES_OF_A_MACHINE }
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// It is too long, too much, or not what it says.
    pub(super) fn next(&mut self) -> Result<Option<Line>, String> {
        let allowed = MAX_LINE_BYTES.min(self.left);
        let mut bytes = Vec::new();
        let came = self.from.by_ref().take(allowed).read_until(b'\n', &mut bytes);
        let came = came.map_err(|e| format!("reading from ssh failed: {e}"))? as u64;
        self.left -= came;
        match bytes.last() {
            None if allowed > 0 => Ok(None),
            Some(b'\n') => Line::of(String::from_utf8_lossy(&bytes).trim_end()).map(Some),
            _ if came >= allowed => {
                let most = if allowed == MAX_LINE_BYTES { MAX_LINE_BYTES } else { MAX_BYTES_OF_A_MACHINE };
                Err(format!("it sent more than {} MiB; its result is not read", most >> 20))
            }
            // The connection ended within it.
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    fn all(text: &[u8]) -> Vec<Result<Line, String>> {
        let mut lines = Lines::new(text);
        std::iter::from_fn(|| lines.next().transpose()).take(9).collect()
    }

    #[test]
    fn what_is_said_arrives_among_what_a_shell_says() {
        let run = fixture::run();
        let json = serde_json::to_string(&run).unwrap();
        let ended = Ended { code: 4, line: None };
        let text = format!(
            "welcome\nplimsoll-here x86_64\n{}{{}}\n{}",
            hello("ab".into()),
            ending(Some(&json), &ended)
        );
        let lines: Vec<Line> = all(text.as_bytes()).into_iter().map(Result::unwrap).collect();
        assert!(matches!(&lines[1], Line::Here(machine) if machine == "x86_64"));
        assert!(matches!(&lines[2], Line::Hello(hello) if hello.sha256 == "ab"));
        assert!(matches!((&lines[0], &lines[3]), (Line::Other(_), Line::Other(_))));
        assert!(matches!(&lines[4], Line::Document(same) if same.id == run.id));
        assert!(matches!(&lines[5], Line::Ended(same) if *same == ended));
    }

    #[test]
    fn a_line_without_end_is_refused_and_one_cut_off_is_none() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        assert!(Lines::new(endless).next().unwrap_err().contains("more than 64 MiB"));
        assert!(all(b"plimsoll-ended {\"code\":0").is_empty());
        let mut spent = Lines { from: &b"x\n"[..], left: 0 };
        assert!(spent.next().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), word in 0..7_usize) {
            let word = [HERE, HELLO_PREFIX, DOCUMENT, ENDED_PREFIX, SERVING, MEASURED_PREFIX, PROGRESS][word].as_bytes();
            let _ = all(&[word, &bytes].concat());
        }
    }
}
