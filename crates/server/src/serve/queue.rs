//! Queue of clients. A turn ends when its client is idle or gone, or has measured for the longest
//! time while another client waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::wire::Hex128;

/// Longest pause between two transfers before a turn passes to a waiting client.
const IDLE: Duration = Duration::from_secs(2);
/// Time without a new request after which a waiting client is dropped.
const FORGET: Duration = Duration::from_secs(10);
const MAX_WAIT_SECONDS: u64 = 5;

#[derive(Debug)]
struct QueueHolder {
    group: Hex128,
    since: Instant,
    used: Instant,
    active: u32,
}

#[derive(Debug, Default)]
pub(super) struct SessionQueue {
    holder: Option<QueueHolder>,
    waiting: VecDeque<(Hex128, Instant)>,
}

impl SessionQueue {
    /// Starts a transfer of the session group `group` if it has the turn to measure; else queues
    /// it: `Err` is the seconds until a retry. A turn ends after `longest` if another group waits.
    pub(super) fn begin(&mut self, group: Hex128, now: Instant, longest: Duration) -> Result<(), u32> {
        self.waiting.retain(|(_, asked)| now.duration_since(*asked) < FORGET);
        if let Some(holder) = &self.holder
            && holder.active == 0
        {
            let others = self.waiting.iter().any(|(other, _)| *other != holder.group);
            let had_enough = others && now.duration_since(holder.since) >= longest;
            let idle = holder.group != group && now.duration_since(holder.used) >= IDLE;
            if had_enough || idle {
                self.holder = None;
            }
        }
        if let Some(holder) = &mut self.holder
            && holder.group == group
        {
            holder.active += 1;
            return Ok(());
        }
        let first = self.waiting.front().is_none_or(|(first, _)| *first == group);
        if self.holder.is_none() && first {
            self.waiting.retain(|(other, _)| *other != group);
            self.holder = Some(QueueHolder { group, since: now, used: now, active: 1 });
            return Ok(());
        }
        match self.waiting.iter_mut().find(|(other, _)| *other == group) {
            Some((_, asked)) => *asked = now,
            None => self.waiting.push_back((group, now)),
        }
        Err(self.expected(now, longest))
    }

    fn expected(&self, now: Instant, longest: Duration) -> u32 {
        let left = self.holder.as_ref().map_or(Duration::ZERO, |holder| match holder.active {
            0 => IDLE.saturating_sub(now.duration_since(holder.used)),
            _ => longest.saturating_sub(now.duration_since(holder.since)),
        });
        u32::try_from((left.as_secs() + 1).min(MAX_WAIT_SECONDS)).unwrap_or(1)
    }

    pub(super) fn end(&mut self, group: Hex128, now: Instant) {
        if let Some(holder) = self.holder.as_mut().filter(|h| h.group == group) {
            holder.active = holder.active.saturating_sub(1);
            holder.used = now;
        }
    }

    pub(super) fn leave(&mut self, group: Hex128) {
        self.holder = self.holder.take().filter(|h| h.group != group);
        self.waiting.retain(|(other, _)| *other != group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn one_measures_and_the_others_are_told_when_to_ask() {
        let (mut queue, start) = (SessionQueue::default(), Instant::now());
        let (a, b) = (Hex128::random().unwrap(), Hex128::random().unwrap());
        queue.begin(a, start, LONG).unwrap();
        assert!((1..=5).contains(&queue.begin(b, start, LONG).unwrap_err()));
        queue.end(a, start);
        queue.begin(a, after(start, 1), LONG).unwrap();
        queue.end(a, after(start, 1));
        assert!(queue.begin(b, after(start, 2), LONG).is_err(), "not idle for long enough");
        queue.begin(b, after(start, 4), LONG).unwrap();
        assert!(queue.begin(a, after(start, 4), LONG).is_err());
        queue.leave(b);
        queue.begin(a, after(start, 4), LONG).unwrap();
    }

    #[test]
    fn first_come_first_served_and_those_who_went_away_are_forgotten() {
        let (mut queue, start) = (SessionQueue::default(), Instant::now());
        let (a, b, c) = (Hex128::random().unwrap(), Hex128::random().unwrap(), Hex128::random().unwrap());
        queue.begin(a, start, LONG).unwrap();
        assert!(queue.begin(b, start, LONG).is_err());
        assert!(queue.begin(c, after(start, 1), LONG).is_err());
        queue.leave(a);
        assert!(queue.begin(c, after(start, 2), LONG).is_err(), "b came first");
        queue.begin(c, after(start, 11), LONG).unwrap();
    }

    #[test]
    fn a_long_run_gives_way_between_transfers_and_comes_again() {
        let (mut queue, start) = (SessionQueue::default(), Instant::now());
        let (a, b) = (Hex128::random().unwrap(), Hex128::random().unwrap());
        queue.begin(a, start, LONG).unwrap();
        assert!(queue.begin(b, after(start, 60), LONG).is_err(), "a transfer under way is not cut");
        queue.end(a, after(start, 61));
        assert!(queue.begin(a, after(start, 61), LONG).is_err());
        queue.begin(b, after(start, 61), LONG).unwrap();
        queue.end(b, after(start, 61));
        assert!(queue.begin(a, after(start, 62), LONG).is_err());
        queue.begin(a, after(start, 63), LONG).unwrap();
    }

    #[test]
    fn alone_one_may_measure_for_ever() {
        let (mut queue, start) = (SessionQueue::default(), Instant::now());
        let a = Hex128::random().unwrap();
        for second in 0..1000 {
            queue.begin(a, after(start, second), LONG).unwrap();
            queue.end(a, after(start, second));
        }
    }
}
