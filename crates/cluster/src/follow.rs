//! The ranks after 0: say who they are, measure when it is their turn, and hand over what they measured.

use crossbeam_channel::{Receiver, select};

use super::between::Actor;
use super::message::{Finished, Hello, Message, Order, Welcome};
use super::{Fabric, Incoming};
use crate::run::Pace;
use crate::sample::{Amount, CannotMeasure, Cause};

/// What a rank is told to do.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// Measure.
    Measure(Welcome),
    /// Wait: another rank of this machine measures.
    Sleep,
    /// Nothing: the run was refused or is over.
    Nothing,
}

/// A rank after 0.
pub struct Follow<'a> {
    fabric: &'a Fabric,
    interrupts: Receiver<()>,
}

impl<'a> Follow<'a> {
    /// A rank that says who it is.
    pub fn introduce(fabric: &'a Fabric, interrupts: Receiver<()>, hello: Hello) -> Self {
        fabric.say(0, Message::Hello(Box::new(hello)));
        Self { fabric, interrupts }
    }

    /// Waits until rank 0 has heard all; one by one also for this rank's turn.
    pub fn part(&mut self) -> Part {
        let welcome = match self.next() {
            Some(Message::Welcome(welcome)) if welcome.name.is_some() => welcome,
            Some(Message::Welcome(_)) => return Part::Sleep,
            _ => return Part::Nothing,
        };
        match welcome.order {
            Order::Together => Part::Measure(welcome),
            Order::OneByOne => match self.next() {
                Some(Message::Go) => Part::Measure(welcome),
                _ => Part::Nothing,
            },
        }
    }

    /// Measures with others as it is told to, until the end of the run.
    pub fn attend(&mut self, actor: &mut dyn Actor) {
        while !actor.interrupted() {
            match self.next() {
                None | Some(Message::End) => return,
                Some(Message::Serve) => self.fabric.say(0, Message::Serving(actor.serve())),
                Some(Message::Measure { with, place }) => {
                    self.fabric.say(0, Message::Measured(actor.measure(with, &place)));
                }
                Some(_) => {}
            }
        }
    }

    /// Waits for the end of the run without doing anything.
    pub fn wait(&mut self) {
        while !matches!(self.next(), None | Some(Message::End)) {}
    }

    /// Tells rank 0 why there is nothing to hand over.
    pub fn cannot(&self, why: String) {
        self.fabric.say(0, Message::Cannot(why));
    }

    /// Hands over what was measured. Whether rank 0 has it.
    pub fn hand_over(&mut self, finished: Finished) -> bool {
        self.fabric.say(0, Message::Finished(Box::new(finished)));
        loop {
            match self.next() {
                Some(Message::Kept) => return true,
                Some(Message::Agreed(_)) => {}
                _ => return false,
            }
        }
    }

    /// The next message of rank 0; none when it is lost or this rank was told to end.
    fn next(&mut self) -> Option<Message> {
        if self.fabric.is_lost(0) {
            return None;
        }
        self.fabric.waiting(|inbox| {
            select! {
                recv(inbox) -> incoming => match incoming {
                    Ok(Incoming::From(0, message)) => Some(message),
                    _ => None,
                },
                recv(self.interrupts) -> _ => None,
            }
        })
    }
}

impl Pace for Follow<'_> {
    fn agree(&mut self, own: Option<Amount>) -> Result<Option<Amount>, CannotMeasure> {
        self.fabric.say(0, Message::Ready(own));
        match self.next() {
            Some(Message::Agreed(amount)) => Ok(amount),
            _ => Err(CannotMeasure::new(Cause::Interrupted, "the cluster run ends")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{bounded, never, unbounded};

    use super::super::fabric::SILENCE;
    use super::super::link::{Link, local};
    use super::*;
    use crate::fixture;

    #[test]
    fn a_rank_whose_rank_0_is_gone_ends_whoever_was_told_of_that() {
        let (alarm, raised) = unbounded();
        let (stays, until) = bounded(0);
        let [mut first, mut second] = local::world(2).try_into().ok().unwrap();
        // MPI holds who would leave without rank 0.
        second.until = Some(until);
        first.send(1, b"{cut").unwrap();
        let fabric = Fabric::new(|| Ok(second), alarm, SILENCE).unwrap();
        // What measures takes the alarm, and one wait the loss.
        raised.recv().unwrap();
        assert!(matches!(fabric.inbox().recv(), Ok(Incoming::Lost(0, _))));
        let mut follow = Follow { fabric: &fabric, interrupts: never() };
        follow.wait();
        assert_eq!(follow.part(), Part::Nothing);
        assert!(!follow.hand_over(Finished { run: fixture::run(), code: 0, interrupted: false }));
        assert_eq!(fabric.leave().unwrap_err().0, 0);
        drop(stays);
    }
}
