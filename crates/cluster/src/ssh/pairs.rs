//! Measurements between connected nodes: all serve, then pairs measure round by round.

use std::collections::BTreeMap;

use super::Connection;
use super::wire::{FollowUp, NodeMessage, ReceivedLine::Message};
use crate::between::{
    ALL_PAIRS, MachinePair, PairAnswer, PairResults, PairRound, ServingPlace, replace, rounds,
};
use crate::sample::CannotMeasure;

/// Connected nodes by index in the run.
pub type ConnectedMachines<'a> = BTreeMap<usize, Connection<'a>>;

/// Measures `cases` (ids) between the first `machines` nodes, then again the pairs that `suspects`
/// returns. Calls `begins` before each round, with its index and the number of rounds; false ends
/// the measurement. Answers are in the order of `cases`.
pub fn between(
    connected: &mut ConnectedMachines<'_>,
    machines: usize,
    cases: &[String],
    begins: impl Fn(usize, usize) -> bool,
    suspects: impl Fn(&[PairResults]) -> Vec<MachinePair>,
) -> Vec<PairResults> {
    let mut made = Vec::new();
    let places = served(connected);
    let rounds = rounds(machines);
    let all = rounds.len();
    for (index, round) in rounds.into_iter().enumerate() {
        if !begins(index, all) {
            return made;
        }
        made.extend(one(connected, &places, &round, cases));
    }
    let suspects = suspects(&made);
    for (index, pair) in suspects.iter().enumerate() {
        if !begins(all + index, all + suspects.len()) {
            break;
        }
        let round = PairRound { pairs: vec![*pair], kind: ALL_PAIRS };
        one(connected, &places, &round, cases).into_iter().for_each(|one| replace(&mut made, one));
    }
    made
}

/// Starts a server on each node. Returns its address, or why it does not serve, by node index.
fn served(connected: &mut ConnectedMachines<'_>) -> BTreeMap<usize, Result<ServingPlace, CannotMeasure>> {
    let asked = |session: &mut Connection<'_>| {
        let serving = |line| if let Message(NodeMessage::Serving(place)) = line { Some(place) } else { None };
        let served = session.asked(&FollowUp::Serve, |session| session.until(serving));
        served.unwrap_or_else(|why| Err(CannotMeasure::server_failed(why)))
    };
    let works = connected.iter_mut().map(|(index, session)| (*index, move || asked(session)));
    in_parallel(works).into_iter().collect()
}

/// Runs each closure in its own thread. Returns the results in order, with their keys.
fn in_parallel<K, T: Send, W: FnOnce() -> Result<T, CannotMeasure> + Send>(
    works: impl Iterator<Item = (K, W)>,
) -> Vec<(K, Result<T, CannotMeasure>)> {
    std::thread::scope(|scope| {
        let start = |(key, work)| (key, std::thread::Builder::new().spawn_scoped(scope, work));
        let threads: Vec<_> = works.map(start).collect();
        let ended = threads.into_iter().map(|(key, thread)| {
            let unstarted = |e| CannotMeasure::environment(format!("cannot start a thread: {e}"));
            let panicked = |_| Err(CannotMeasure::environment("a thread of plimsoll panicked"));
            (key, thread.map_err(unstarted).and_then(|thread| thread.join().unwrap_or_else(panicked)))
        });
        ended.collect()
    })
}

fn one(
    connected: &mut ConnectedMachines<'_>,
    places: &BTreeMap<usize, Result<ServingPlace, CannotMeasure>>,
    round: &PairRound,
    cases: &[String],
) -> Vec<PairResults> {
    let mut free: BTreeMap<usize, &mut Connection<'_>> =
        connected.iter_mut().map(|(index, session)| (*index, session)).collect();
    let works = round.pairs.iter().filter_map(|pair| {
        let session = free.remove(&pair.from)?;
        let place = places.get(&pair.to)?.clone();
        Some((*pair, move || asked(session, place, cases)))
    });
    let results = in_parallel(works).into_iter().map(|(pair, answers)| {
        let answers = answers.unwrap_or_else(|why| vec![Err(why); cases.len()]);
        PairResults { pair, kind: round.kind, answers }
    });
    results.collect()
}

fn asked(
    session: &mut Connection<'_>,
    place: Result<ServingPlace, CannotMeasure>,
    cases: &[String],
) -> Result<Vec<PairAnswer>, CannotMeasure> {
    let measured = |line| if let Message(NodeMessage::Measured(all)) = line { Some(all) } else { None };
    let answers = session.asked(&FollowUp::Measure { place }, |session| session.until(measured));
    answers.map(|answers| in_order(answers, cases)).map_err(CannotMeasure::server_failed)
}

/// Returns the results in the order of `cases`, with an error for a case that the node lacks.
fn in_order(mut answers: BTreeMap<String, PairAnswer>, cases: &[String]) -> Vec<PairAnswer> {
    let missing = || Err(CannotMeasure::not_here("the measuring machine does not have this case"));
    cases.iter().map(|case| answers.remove(case).unwrap_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::between::PairFigure;

    #[test]
    fn answers_are_told_by_their_case() {
        let ids = ["null/threads=1", "null/threads=2"].map(str::to_owned);
        let figure = PairFigure { samples: vec![7.0], ..PairFigure::default() };
        let answers = in_order([(ids[1].clone(), Ok(figure.clone()))].into(), &ids);
        assert!(answers[0].as_ref().unwrap_err().reason.contains("does not have this case"));
        assert_eq!(answers[1], Ok(figure));
    }
}
