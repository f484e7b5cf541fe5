//! Rank 0's part in what is measured between machines: all serve, then pairs measure, round by round.

use super::super::between::{Actor, Between, EACH, Pair, Round, replace, rounds};
use super::super::fabric::SILENCE;
use super::super::message::Message;
use super::Lead;

impl Lead<'_> {
    /// Machines measure to each other, this one by `actor`, unless the run has ended; then those pairs again that `suspects`
    /// finds among the answers, each alone.
    pub fn between(&mut self, actor: &mut dyn Actor, suspects: impl Fn(&[Between]) -> Vec<Pair>) {
        let rounds = rounds(self.roster.members.len());
        let all = rounds.len();
        let done = !self.ended.interrupted
            && self.served(actor)
            && rounds.into_iter().enumerate().all(|(index, round)| {
                actor.begins(index, all);
                let made = self.round(&round, actor);
                let whole = made.is_some();
                self.ended.between.extend(made.unwrap_or_default());
                whole && !actor.interrupted()
            })
            && self.again(actor, all, &suspects(&self.ended.between));
        if !done && !self.ended.interrupted {
            self.stop();
        }
    }

    /// Measures these pairs again, after so many rounds.
    fn again(&mut self, actor: &mut dyn Actor, rounds: usize, suspects: &[Pair]) -> bool {
        suspects.iter().enumerate().all(|(index, pair)| {
            actor.begins(rounds + index, rounds + suspects.len());
            let Some(made) = self.round(&Round { pairs: vec![*pair], kind: EACH }, actor) else {
                return false;
            };
            made.into_iter().for_each(|one| replace(&mut self.ended.between, one));
            !actor.interrupted()
        })
    }

    /// Says it to those of these ranks that are there: that one is gone, the wait for its answer tells.
    fn ask(&self, ranks: &[usize], question: impl Fn(usize) -> Option<Message>) {
        let silent = self.fabric.silent(ranks.to_vec(), SILENCE);
        for rank in ranks.iter().filter(|rank| !silent.contains(rank)) {
            if let Some(message) = question(*rank) {
                self.fabric.say(*rank, message);
            }
        }
    }

    /// All machines serve.
    fn served(&mut self, actor: &mut dyn Actor) -> bool {
        let followers: Vec<usize> = self.roster.followers().map(|m| m.rank).collect();
        self.places = [(0, actor.serve())].into();
        self.ask(&followers, |_| Some(Message::Serve));
        while followers.iter().any(|rank| !self.places.contains_key(rank)) {
            if !self.hear() {
                return false;
            }
        }
        true
    }

    /// One round of pairs; none where the run has ended meanwhile.
    fn round(&mut self, round: &Round, actor: &mut dyn Actor) -> Option<Vec<Between>> {
        let rank = |index: usize| self.roster.members.get(index).map_or(0, |member| member.rank);
        let far: Vec<(usize, usize)> =
            round.pairs.iter().map(|pair| (rank(pair.from), rank(pair.to))).collect();
        let far_of = |near: usize| far.iter().find(|(from, _)| *from == near).map(|(_, to)| *to);
        let others: Vec<usize> = far.iter().map(|(from, _)| *from).filter(|from| *from != 0).collect();
        self.answers.clear();
        let place = |with: usize| self.places.get(&with).cloned();
        self.ask(&others, |near| {
            let with = far_of(near)?;
            Some(Message::Measure { with, place: place(with)? })
        });
        if let Some((with, place)) = far_of(0).and_then(|with| Some((with, place(with)?))) {
            self.answers.insert(0, actor.measure(with, &place));
        }
        while far.iter().any(|(from, _)| !self.answers.contains_key(from)) {
            if !self.hear() {
                return None;
            }
        }
        let made = round.pairs.iter().zip(far).map(|(pair, (from, _))| Between {
            pair: *pair,
            kind: round.kind,
            answers: self.answers.remove(&from).unwrap_or_default(),
        });
        Some(made.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crossbeam_channel::unbounded;

    use super::super::super::between::{Answer, Figure, Place};
    use super::super::super::link::local;
    use super::super::super::{Fabric, Finished, Follow, Hello, Order, Part, Roster, Welcome};
    use super::super::{Ended, Lead, introduced};
    use super::*;
    use crate::fixture;
    use crate::sample::CannotMeasure;

    /// Serves at the port of its rank, and measures its rank and that port, and its rank and the other. The third does not
    /// serve if it is told so.
    struct Rank {
        rank: usize,
        serves: bool,
        told: Cell<usize>,
    }

    impl Actor for Rank {
        fn serve(&mut self) -> Result<Place, CannotMeasure> {
            let place = Place { addresses: Vec::new(), port: self.rank as u16, key: String::new() };
            if self.serves || self.rank != 2 { Ok(place) } else { Err(CannotMeasure::environment("no port")) }
        }

        fn measure(&mut self, with: usize, place: &Result<Place, CannotMeasure>) -> Vec<Answer> {
            let figure =
                |other| Figure { samples: vec![(10 * self.rank + other) as f64], ..Figure::default() };
            let served = place.as_ref().map(|place| figure(usize::from(place.port)));
            vec![served.map_err(Clone::clone), Ok(figure(with))]
        }

        fn begins(&mut self, _: usize, rounds: usize) {
            self.told.set(rounds);
        }

        fn interrupted(&self) -> bool {
            false
        }
    }

    fn hello(rank: usize) -> Hello {
        let text = |text: &str| text.to_owned();
        let (key, host) = (rank.to_string(), format!("n{rank}"));
        Hello { version: text("1"), schema: text("s"), plan: text("1"), key, host, cannot: None }
    }

    fn finished() -> Finished {
        Finished { run: fixture::run(), code: 0, interrupted: false }
    }

    fn led(serves: bool) -> Ended {
        let (alarm, _kept) = unbounded();
        let mut fabrics: Vec<Fabric> = local::world(3)
            .into_iter()
            .map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap())
            .collect();
        let others = fabrics.split_off(1);
        let actor = |rank| Rank { rank, serves, told: Cell::new(0) };
        let follow = |fabric: &Fabric| {
            let (_keep, interrupts) = unbounded();
            let mut follow = Follow::introduce(fabric, interrupts, hello(fabric.rank()));
            assert!(matches!(follow.part(), Part::Measure(_)) && follow.hand_over(finished()));
            follow.attend(&mut actor(fabric.rank()));
        };
        let ended = std::thread::scope(|scope| {
            others.iter().for_each(|fabric| drop(scope.spawn(|| follow(fabric))));
            let (_keep, interrupts) = unbounded();
            let roster = Roster::of(&introduced(&fabrics[0], hello(0), &interrupts).unwrap()).unwrap();
            let told = Welcome { run: "r".into(), seed: 5, name: None, order: Order::OneByOne };
            let mut own = actor(0);
            let mut lead = Lead::admit(&fabrics[0], interrupts, roster, &told);
            lead.run(|_| finished(), |_, _| ());
            let last = Pair { from: 2, to: 1 };
            lead.between(&mut own, |made| {
                made.last().map(|one| one.pair).into_iter().filter(|p| *p == last).collect()
            });
            assert_eq!(own.told.get(), 7);
            lead.end()
        });
        // To leave takes nobody else here.
        fabrics.into_iter().chain(others).for_each(|fabric| drop(fabric.leave()));
        ended
    }

    /// Of each pair.
    fn figures(ended: &Ended, case: usize) -> Vec<Option<f64>> {
        ended.between.iter().map(|one| Some(one.answers[case].as_ref().ok()?.samples[0])).collect()
    }

    #[test]
    fn every_pair_is_measured_once_by_each_of_it() {
        let ended = led(true);
        assert_eq!((ended.finished.len(), ended.lost.len(), ended.interrupted), (3, 0, false));
        for case in [0, 1] {
            assert_eq!(figures(&ended, case), [1.0, 10.0, 2.0, 20.0, 12.0, 21.0].map(Some));
        }
    }

    #[test]
    fn a_machine_that_cannot_serve_is_no_end_of_the_run_and_has_what_needs_no_server() {
        let ended = led(false);
        assert!(!ended.interrupted);
        assert_eq!(figures(&ended, 0), [Some(1.0), Some(10.0), None, Some(20.0), None, Some(21.0)]);
        assert_eq!(figures(&ended, 1), [1.0, 10.0, 2.0, 20.0, 12.0, 21.0].map(Some));
    }
}
