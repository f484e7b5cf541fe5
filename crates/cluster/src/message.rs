//! What the ranks of a cluster run say to each other: JSON after one byte that tells which protocol it is.

use serde::{Deserialize, Serialize};

use super::between::{Answer, Place};
use crate::document::Run;
use crate::sample::{Amount, CannotMeasure};

/// The protocol; it changes when a message does.
const PROTOCOL: u8 = 4;

/// In which order the machines measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other, each alone.
    #[default]
    OneByOne,
    /// All at once, in step before each case.
    Together,
}

/// A message of one rank to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Who I am and what I am about to do: the first word of every rank.
    Hello(Box<Hello>),
    /// Hold a connection to me, there: its end tells that a process has ended.
    Tie(Place),
    /// You take part.
    Welcome(Welcome),
    /// Nobody measures.
    Refused,
    /// It is your turn.
    Go,
    /// I am ready for the next case and would measure this much; nothing if I cannot measure it.
    Ready(Option<Amount>),
    /// All that can, measure this much.
    Agreed(Option<Amount>),
    /// I am done.
    Finished(Box<Finished>),
    /// What you measured is stored.
    Kept,
    /// I was admitted and cannot measure after all: why.
    Cannot(String),
    /// I was told to end.
    Bye,
    /// Let others measure to you.
    Serve,
    /// Where I serve, or why I cannot.
    Serving(Result<Place, CannotMeasure>),
    /// Measure with another rank, whose machine serves there.
    Measure {
        /// That rank.
        with: usize,
        /// Where it serves, or why it cannot.
        place: Result<Place, CannotMeasure>,
    },
    /// What I have measured to it, by case.
    Measured(Vec<Answer>),
    /// It is over.
    End,
}

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// Schema of its documents.
    pub schema: String,
    /// Hash of the plan's cases and of how they are sampled.
    pub plan: String,
    /// What tells this machine from others: machine id, host name and network namespace.
    pub key: String,
    /// Host name.
    pub host: String,
    /// Why this rank cannot measure, if so.
    pub cannot: Option<String>,
}

/// What a rank is told when it is admitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Id of the run.
    pub run: String,
    /// Seed of all that is random.
    pub seed: u64,
    /// Name under which it measures; none if another rank of the same machine does.
    pub name: Option<String>,
    /// In which order.
    pub order: Order,
}

/// What a rank has measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Its own run document.
    pub run: Run,
    /// The exit code that it would end with alone.
    pub code: u8,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// The bytes of a message.
pub fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = vec![PROTOCOL];
    // A message is plain data: there is nothing in it that JSON could refuse.
    if serde_json::to_writer(&mut bytes, message).is_err() {
        bytes.truncate(1);
    }
    bytes
}

/// The message in bytes that came from another rank.
///
/// # Errors
/// What is wrong with them, in one line.
pub fn decoded(bytes: &[u8]) -> Result<Message, String> {
    match bytes.split_first() {
        Some((&PROTOCOL, json)) => {
            serde_json::from_slice(json).map_err(|e| crate::text::shown_within(&e.to_string(), 200))
        }
        Some((other, _)) => Err(format!(
            "it uses protocol version {other}, this machine uses {PROTOCOL}: install the same plimsoll on all machines"
        )),
        None => Err("the message is empty".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = decoded(&bytes) {
                prop_assert_eq!(decoded(&encoded(&message)), Ok(message));
            }
        }

        #[test]
        fn amounts_arrive_as_they_were_sent(work: Option<u64>) {
            for message in [Message::Ready(work.map(Amount::Work)), Message::Agreed(work.map(Amount::Work))] {
                prop_assert_eq!(decoded(&encoded(&message)), Ok(message));
            }
        }
    }

    #[test]
    fn another_protocol_is_named() {
        assert_eq!(
            decoded(&[9, b'{']).unwrap_err(),
            "it uses protocol version 9, this machine uses 4: install the same plimsoll on all machines"
        );
    }
}
