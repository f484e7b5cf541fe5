//! Rank 0: admits the others, gives them their turn, and collects what they measured.

mod pairs;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, select};

use super::between::{Answer, Between, Place};
use super::fabric::SILENCE;
use super::message::{Finished, Hello, Message, Order, Welcome};
use super::roster::{Member, Roster};
use super::{Fabric, Incoming};
use crate::run::Pace;
use crate::sample::{Amount, CannotMeasure, Cause};

/// How long rank 0 waits for the first word of every rank.
const PATIENCE: Duration = Duration::from_secs(30);
/// When a run ends early, those that are alive are heard of within this time; the launcher kills all a
/// second later.
const LAST_WORDS: Duration = Duration::from_millis(600);
/// A rank that is lost is known within this time of the launcher's signal, which follows from its loss.
const KNOWN: Duration = Duration::from_millis(300);

/// A machine of which no more is heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// Its rank.
    pub rank: usize,
    /// Its name.
    pub name: String,
    /// What is known of it.
    pub why: String,
}

impl Lost {
    /// A rank of these machines.
    pub fn of(roster: &Roster, rank: usize, why: &str) -> Self {
        let name = roster.name(rank).map_or_else(|| format!("rank {rank}"), str::to_owned);
        Self { rank, name, why: crate::text::shown_within(why, 300) }
    }
}

/// How a cluster run ended, seen from rank 0.
#[derive(Debug, Default)]
pub struct Ended {
    /// What each machine measured, by rank.
    pub finished: BTreeMap<usize, Finished>,
    /// Machines that were lost.
    pub lost: Vec<Lost>,
    /// What was measured between machines.
    pub between: Vec<Between>,
    /// Whether the end was asked for.
    pub interrupted: bool,
}

/// Rank 0 of a run whose ranks have been admitted.
pub struct Lead<'a> {
    fabric: &'a Fabric,
    interrupts: Receiver<()>,
    /// Who takes part.
    pub roster: Roster,
    ended: Ended,
    /// Ranks whose results are still to be handed over.
    left: Vec<usize>,
    /// Ranks that said that they were told to end.
    byes: Vec<usize>,
    ready: BTreeMap<usize, Option<Amount>>,
    /// Where ranks serve.
    places: BTreeMap<usize, Result<Place, CannotMeasure>>,
    /// What ranks measured to others in this round.
    answers: BTreeMap<usize, Vec<Answer>>,
    order: Order,
}

/// Hears the first word of every rank.
///
/// # Errors
/// Who said nothing, in one line.
pub fn introduced(fabric: &Fabric, own: Hello, interrupts: &Receiver<()>) -> Result<Vec<Hello>, String> {
    let mut hellos: BTreeMap<usize, Hello> = [(0, own)].into();
    let mut deadline = after(PATIENCE);
    while hellos.len() < fabric.size() {
        let came = fabric.waiting(|inbox| {
            select! {
                recv(inbox) -> incoming => incoming.map(Some).map_err(|_| "the cluster's thread has ended".to_owned()),
                // The alarm of a loss comes after the loss itself.
                recv(interrupts) -> _ => inbox
                    .try_iter()
                    .find(|came| matches!(came, Incoming::Lost(..)))
                    .map(Some)
                    .ok_or_else(|| "interrupted".to_owned()),
                recv(deadline) -> _ => match fabric.paused_within(PATIENCE) {
                    true => Ok(None),
                    false => Err(unheard(fabric.size(), &hellos)),
                },
            }
        });
        match came? {
            // It was this process that stood still, and not they.
            None => deadline = after(PATIENCE),
            Some(Incoming::From(rank, Message::Hello(hello))) => drop(hellos.insert(rank, *hello)),
            Some(Incoming::From(rank, _)) => {
                return Err(format!(
                    "rank {rank} sent an unexpected first message; start the same program on all nodes"
                ));
            }
            Some(Incoming::Lost(rank, why)) => return Err(format!("rank {rank} is lost: {why}")),
        }
    }
    Ok(hellos.into_values().collect())
}

fn unheard(size: usize, hellos: &BTreeMap<usize, Hello>) -> String {
    let silent: Vec<String> =
        (0..size).filter(|rank| !hellos.contains_key(rank)).take(8).map(|rank| rank.to_string()).collect();
    format!("rank {} sent nothing for {} s", silent.join(", "), PATIENCE.as_secs())
}

impl<'a> Lead<'a> {
    /// Tells every rank what it is to do.
    pub fn admit(fabric: &'a Fabric, interrupts: Receiver<()>, roster: Roster, told: &Welcome) -> Self {
        for rank in 1..fabric.size() {
            let name = roster.name(rank).map(str::to_owned);
            fabric.say(rank, Message::Welcome(Welcome { name, ..told.clone() }));
        }
        Self {
            fabric,
            interrupts,
            roster,
            ended: Ended::default(),
            left: Vec::new(),
            byes: Vec::new(),
            ready: BTreeMap::new(),
            places: BTreeMap::new(),
            answers: BTreeMap::new(),
            order: told.order,
        }
    }

    /// Measures here by `own` and there by the others; `arrived` gets what each has finished, this one's first.
    pub fn run(
        &mut self,
        own: impl FnOnce(&mut dyn Pace) -> Finished,
        mut arrived: impl FnMut(&Member, &Finished),
    ) {
        let followers: Vec<Member> = self.roster.followers().cloned().collect();
        let first = match self.order {
            Order::OneByOne => own(&mut crate::run::Alone),
            Order::Together => own(self),
        };
        let mut stop = first.interrupted;
        if let Some(member) = self.roster.members.first() {
            arrived(member, &first);
        }
        self.ended.finished.insert(0, first);
        for member in &followers {
            if stop {
                break;
            }
            // To one that is gone nothing is sent; that it is, the wait for it tells.
            if self.order == Order::OneByOne && self.fabric.silent(vec![member.rank], SILENCE).is_empty() {
                self.fabric.say(member.rank, Message::Go);
            }
            stop = !self.wait_for(member.rank);
            self.hand_over(&followers, &mut arrived);
        }
        if stop {
            self.stop();
            self.hand_over(&followers, &mut arrived);
        }
    }

    /// How it has gone so far.
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// The run ends before its time: whoever is not heard of any more is what ended it.
    pub fn stop(&mut self) {
        let followers: Vec<Member> = self.roster.followers().cloned().collect();
        self.last_words(&followers);
        self.ended.interrupted = true;
    }

    /// Tells all that it is over, if they are to hear it of this rank.
    pub fn end(self) -> Ended {
        if !self.ended.interrupted {
            (1..self.fabric.size()).for_each(|rank| self.fabric.say(rank, Message::End));
        }
        self.ended
    }

    /// Gives on what came since the last time, and tells its sender that it is kept.
    fn hand_over(&mut self, followers: &[Member], arrived: &mut impl FnMut(&Member, &Finished)) {
        for rank in std::mem::take(&mut self.left) {
            if let (Some(member), Some(finished)) =
                (followers.iter().find(|m| m.rank == rank), self.ended.finished.get(&rank))
            {
                arrived(member, finished);
                self.fabric.say(rank, Message::Kept);
            }
        }
    }

    /// Waits until a rank has finished. Whether all is well.
    fn wait_for(&mut self, rank: usize) -> bool {
        while !self.ended.finished.contains_key(&rank) {
            if !self.hear() {
                return false;
            }
        }
        true
    }

    /// Waits for one message. Whether the run goes on.
    fn hear(&mut self) -> bool {
        let came = self.fabric.waiting(|inbox| {
            select! {
                recv(inbox) -> incoming => incoming.ok(),
                recv(self.interrupts) -> _ => None,
            }
        });
        match came {
            Some(incoming) => self.heard(incoming),
            None => self.alarmed(),
        }
    }

    /// An alarm is a signal, or that a rank is lost; the latter is in the inbox already.
    fn alarmed(&mut self) -> bool {
        while let Ok(incoming) = self.fabric.inbox().try_recv() {
            self.heard(incoming);
        }
        false
    }

    fn heard(&mut self, incoming: Incoming) -> bool {
        match incoming {
            Incoming::From(rank, Message::Finished(finished)) => {
                let goes_on = !finished.interrupted;
                if self.roster.name(rank).is_some() && self.ended.finished.insert(rank, *finished).is_none() {
                    self.left.push(rank);
                }
                goes_on
            }
            Incoming::From(rank, Message::Ready(amount)) => {
                self.ready.insert(rank, amount);
                true
            }
            Incoming::From(rank, Message::Serving(place)) => {
                self.places.insert(rank, place);
                true
            }
            Incoming::From(rank, Message::Measured(answers)) => {
                self.answers.insert(rank, answers);
                true
            }
            Incoming::From(rank, Message::Bye) => {
                self.ready.insert(rank, None);
                self.byes.push(rank);
                false
            }
            Incoming::From(rank, Message::Cannot(why)) | Incoming::Lost(rank, why) => {
                self.lose(rank, &why);
                false
            }
            Incoming::From(..) => true,
        }
    }

    fn lose(&mut self, rank: usize, why: &str) {
        self.ended.lost.push(Lost::of(&self.roster, rank, why));
    }

    /// Whoever is not heard of any more is what ended the run, unless it is known already who is lost.
    fn last_words(&mut self, followers: &[Member]) {
        self.alarmed();
        if !self.ended.lost.is_empty() {
            return;
        }
        let deadline = Instant::now() + KNOWN;
        // Of a world whose ranks speak more seldom most are silent and there: only connections tell then.
        let told = self.fabric.all_speak_within(LAST_WORDS);
        let asked = followers.iter().filter(|_| told).map(|m| m.rank).collect();
        let silent = self.fabric.silent(asked, LAST_WORDS);
        while self.ended.lost.is_empty()
            && let Ok(incoming) = self.fabric.waiting(|inbox| inbox.recv_deadline(deadline))
        {
            self.heard(incoming);
        }
        for Member { rank, .. } in followers {
            let heard_of = self.ended.finished.contains_key(rank) || self.byes.contains(rank);
            let lost = self.ended.lost.iter().any(|lost| lost.rank == *rank);
            if silent.contains(rank) && !heard_of && !lost {
                self.lose(*rank, "it ended without a message");
            }
        }
    }
}

impl Pace for Lead<'_> {
    fn agree(&mut self, own: Option<Amount>) -> Result<Option<Amount>, CannotMeasure> {
        let followers: Vec<usize> = self.roster.followers().map(|m| m.rank).collect();
        while followers.iter().any(|rank| !self.ready.contains_key(rank)) {
            if !self.hear() {
                return Err(CannotMeasure::new(Cause::Interrupted, "the cluster run ends"));
            }
        }
        let ready = std::mem::take(&mut self.ready);
        let amount = own.or_else(|| ready.into_values().flatten().next());
        followers.into_iter().for_each(|rank| self.fabric.say(rank, Message::Agreed(amount)));
        Ok(amount)
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{Link, local};
    use super::super::message::encoded;
    use super::super::{Follow, Part};
    use super::*;
    use crate::fixture;
    use crossbeam_channel::unbounded;

    fn hello(rank: usize) -> Hello {
        Hello {
            version: "1".into(),
            schema: "s".into(),
            plan: "1".into(),
            key: rank.to_string(),
            host: format!("n{rank}"),
            cannot: None,
        }
    }

    fn finished(interrupted: bool) -> Finished {
        Finished { run: fixture::run(), code: 0, interrupted }
    }

    /// What became of a follower.
    #[derive(Debug)]
    struct Followed {
        part: Part,
        agreed: Option<Amount>,
        kept: bool,
    }

    /// What a follower does: its part, one agreement when all measure at once, and its result.
    fn followed(fabric: &Fabric, own: u64, interrupted: bool) -> Followed {
        let (_keep, interrupts) = unbounded();
        let mut follow = Follow::introduce(fabric, interrupts, hello(fabric.rank()));
        let part = follow.part();
        let agreed = match &part {
            Part::Measure(told) if told.order == Order::Together => {
                follow.agree(Some(Amount::Work(own))).unwrap()
            }
            Part::Measure(_) => None,
            Part::Sleep | Part::Nothing => return Followed { part, agreed: None, kept: false },
        };
        let kept = follow.hand_over(finished(interrupted));
        if kept && !interrupted {
            follow.wait();
        }
        Followed { part, agreed, kept }
    }

    fn led(order: Order, interrupted: bool) -> (Ended, Vec<String>, Vec<Followed>) {
        let (alarm, _kept) = unbounded();
        let mut fabrics: Vec<Fabric> = local::world(3)
            .into_iter()
            .map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap())
            .collect();
        let others = fabrics.split_off(1);
        let first = fabrics.remove(0);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                others.iter().map(|fabric| scope.spawn(move || followed(fabric, 7, interrupted))).collect();
            let (_keep, interrupts) = unbounded();
            let hellos = introduced(&first, hello(0), &interrupts).unwrap();
            let roster = Roster::of(&hellos).unwrap();
            let told = Welcome { run: "r".into(), seed: 5, name: None, order };
            let mut arrived = Vec::new();
            let mut lead = Lead::admit(&first, interrupts, roster, &told);
            lead.run(
                |pace| {
                    if order == Order::Together {
                        assert_eq!(pace.agree(Some(Amount::Work(3))).unwrap(), Some(Amount::Work(3)));
                    }
                    finished(false)
                },
                |member, _| arrived.push(member.name.clone()),
            );
            let ended = lead.end();
            if interrupted {
                // Those whose turn never came are told nothing: their launcher would end them.
                (1..3).for_each(|rank| first.say(rank, Message::End));
            }
            let parts = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            (ended, arrived, parts)
        })
    }

    #[test]
    fn one_by_one_all_have_their_turn_and_each_result_is_confirmed() {
        let (ended, arrived, parts) = led(Order::OneByOne, false);
        assert_eq!(arrived, ["n0", "n1", "n2"]);
        assert_eq!((ended.finished.len(), ended.lost.len(), ended.interrupted), (3, 0, false));
        assert!(parts.iter().all(|f| matches!(&f.part, Part::Measure(told) if told.seed == 5) && f.kept));
    }

    #[test]
    fn together_all_measure_what_rank_0_would() {
        let (ended, _, parts) = led(Order::Together, false);
        assert_eq!(ended.finished.len(), 3);
        assert!(parts.iter().all(|f| f.agreed == Some(Amount::Work(3))), "{parts:?}");
    }

    #[test]
    fn a_machine_that_cannot_measure_after_all_ends_the_run_and_is_named_with_the_reason() {
        let (alarm, _kept) = unbounded();
        let mut fabrics: Vec<Fabric> = local::world(2)
            .into_iter()
            .map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap())
            .collect();
        let (second, first) = (fabrics.remove(1), fabrics.remove(0));
        let (_keep, interrupts) = unbounded();
        let mut follow = Follow::introduce(&second, interrupts.clone(), hello(1));
        let hellos = introduced(&first, hello(0), &interrupts).unwrap();
        let told = Welcome { run: "r".into(), seed: 5, name: None, order: Order::OneByOne };
        let mut lead = Lead::admit(&first, interrupts, Roster::of(&hellos).unwrap(), &told);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(matches!(follow.part(), Part::Measure(_)));
                follow.cannot("no processes left".to_owned());
            });
            lead.run(|_| finished(false), |_, _| ());
            lead.end()
        });
        let why = "no processes left".to_owned();
        assert_eq!(ended.lost, [Lost { rank: 1, name: "n1".to_owned(), why }]);
        assert_eq!(ended.finished.len(), 1);
    }

    /// The second machine is lost when it has handed over; the third is still awaited then.
    #[test]
    fn a_machine_that_is_lost_in_the_gathering_is_named_and_its_part_is_kept() {
        let (alarm, _kept) = unbounded();
        let mut world = local::world(3);
        let (third, mut second, first) = (world.remove(2), world.remove(1), world.remove(0));
        let [first, third] =
            [first, third].map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap());
        let (_keep, interrupts) = unbounded();
        let _waits = Follow::introduce(&third, interrupts.clone(), hello(2));
        second.send(0, &encoded(&Message::Hello(Box::new(hello(1))))).unwrap();
        let hellos = introduced(&first, hello(0), &interrupts).unwrap();
        second.send(0, &encoded(&Message::Finished(Box::new(finished(false))))).unwrap();
        second.send(0, b"{cut").unwrap();
        let told = Welcome { run: "r".into(), seed: 5, name: None, order: Order::Together };
        let mut lead = Lead::admit(&first, interrupts, Roster::of(&hellos).unwrap(), &told);
        let mut arrived = Vec::new();
        lead.run(|_| finished(false), |member, _| arrived.push(member.rank));
        let ended = lead.end();
        assert_eq!(arrived, [0, 1]);
        assert_eq!(ended.lost.iter().map(|lost| lost.name.as_str()).collect::<Vec<_>>(), ["n1"]);
        assert!(ended.interrupted);
    }

    /// Who is named when a world in which nobody speaks ends before its time.
    fn missed(size: usize) -> usize {
        let (alarm, _kept) = unbounded();
        let mut world = local::world(size);
        let first = world.remove(0);
        let fabric = Fabric::new(|| Ok(first), alarm, SILENCE).unwrap();
        let roster = Roster::of(&(0..size).map(hello).collect::<Vec<_>>()).unwrap();
        let told = Welcome { run: "r".into(), seed: 5, name: None, order: Order::OneByOne };
        let (_keep, interrupts) = unbounded();
        let mut lead = Lead::admit(&fabric, interrupts, roster, &told);
        lead.stop();
        lead.end().lost.len()
    }

    #[test]
    fn the_silent_are_named_where_those_that_are_there_would_have_spoken() {
        assert_eq!([missed(3), missed(700)], [2, 0]);
    }

    #[test]
    fn a_machine_that_was_told_to_end_ends_the_run_and_its_part_is_kept() {
        let (ended, arrived, _) = led(Order::OneByOne, true);
        assert!(ended.interrupted);
        assert_eq!(arrived[..2], ["n0", "n1"]);
    }
}
