//! Token buckets on the way: what arrived in the course of a case's transfers is watched for a rate that falls and then
//! holds. It is called a bucket only when a pause fills it again; from then on the figures are those of the base rate.

use std::time::{Duration, Instant};

use crate::quantity::{Quantity, Unit, significant};
use crate::sample::{BASE_RATE, CannotMeasure, Facts};
use crate::stats::{self, Bucket, Stretch};
use crate::traffic::nanos;
use crate::warning::Warning;
use crate::wire::{Course, Direction};

/// A pause that lets tokens into a bucket.
const PAUSE: Duration = Duration::from_millis(250);
/// The share of these tokens that must be seen again.
const AGAIN: f64 = 0.4;
/// The least and the most that the transfer after the pause lasts, in seconds.
const LEAST: f64 = 0.3;
const MOST: f64 = 2.0;
/// Steps that are looked into: what is none the third time is noise.
const TRIES: usize = 2;
/// The rate when these tokens are used up is the base rate, up to this share of it.
const SAME: f64 = 0.1;
/// Transfers that are kept of each direction.
const KEPT: usize = 64;

/// What has arrived so far, and the bucket that it shows. Amounts in bits.
#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    direction: Direction,
    /// Whether there is a path that may have a bucket: within a machine, where nothing shapes, there is none.
    watches: bool,
    /// The transfers of each direction.
    ways: [Vec<Vec<Stretch>>; 2],
    found: [Option<Bucket>; 2],
    tried: usize,
}

/// The arrivals of one direction of a transfer, from its beginning on.
fn stretches(course: &Course, at: f64) -> impl Iterator<Item = Stretch> {
    let seconds = course.width as f64 * 1e-9;
    course.bytes.iter().enumerate().map(move |(number, bytes)| Stretch {
        from: at + number as f64 * seconds,
        seconds,
        amount: *bytes as f64 * 8.0,
    })
}

impl Watch {
    pub(super) fn new(direction: Direction, watches: bool) -> Self {
        Watch {
            began: Instant::now(),
            direction,
            watches,
            ways: Default::default(),
            found: [None, None],
            tried: 0,
        }
    }

    /// Adds a transfer that began then: the course of each direction.
    pub(super) fn note(&mut self, began: Instant, courses: &[&Course]) {
        if !self.watches || self.is_found() {
            return;
        }
        let at = began.saturating_duration_since(self.began).as_secs_f64();
        for (way, course) in self.ways.iter_mut().zip(courses) {
            way.push(stretches(course, at).collect());
            // The first one has the largest burst.
            if way.len() > KEPT {
                way.remove(1);
            }
        }
    }

    const fn is_found(&self) -> bool {
        self.found[0].is_some() || self.found[1].is_some()
    }

    /// Looks whether the transfers so far show a bucket, and proves it: after a pause, `transfer` of so many nanoseconds
    /// gives the course of each direction. True when one was found just now: what was measured before is not the base rate.
    ///
    /// # Errors
    /// Those of the transfer.
    pub(super) fn look(
        &mut self,
        transfer: impl FnOnce(u64) -> Result<Vec<Course>, CannotMeasure>,
    ) -> Result<bool, CannotMeasure> {
        if !self.watches || self.is_found() || self.tried >= TRIES {
            return Ok(false);
        }
        let steps = [step(&self.ways[0]), step(&self.ways[1])];
        let longest = steps.iter().flatten().map(|step| filled(step) / (step.burst - step.base));
        let Some(longest) = longest.reduce(f64::max) else { return Ok(false) };
        std::thread::sleep(PAUSE);
        let time = Duration::from_secs_f64((3.0 * longest).clamp(LEAST, MOST));
        let courses = transfer(nanos(time))?;
        let mut proved = steps.iter().zip(&courses).zip(&self.ways).map(|((step, course), way)| {
            let again: Vec<Stretch> = stretches(course, 0.0).collect();
            let base = proof(&(*step)?, &again)?;
            // The largest burst of all transfers is what the bucket held.
            let bursts = way.iter().filter_map(|transfer| stats::burst(transfer, base));
            bursts.max_by(|a, b| a.held.total_cmp(&b.held))
        });
        self.found = [proved.next().flatten(), proved.next().flatten()];
        self.tried += 1;
        self.ways = Default::default();
        Ok(self.is_found())
    }

    /// The bits per second of a transfer at the base rate, where there is a bucket: of each direction what it gives when its
    /// burst is over, or the whole transfer's where it has none. `None` without a bucket, or where tokens lasted for most of
    /// it.
    pub(super) fn sustained(&self, courses: &[(&Course, f64)]) -> Option<Vec<f64>> {
        if !self.is_found() {
            return None;
        }
        let one = |(found, (course, whole)): (&Option<Bucket>, &(&Course, f64))| match found {
            Some(found) => {
                let course: Vec<Stretch> = stretches(course, 0.0).collect();
                stats::sustained(&course, found.base)
            }
            None => Some(*whole),
        };
        self.found.iter().zip(courses).map(one).collect()
    }

    /// Whether a transfer had too much burst in it to be judged.
    pub(super) fn is_spoilt(&self, courses: &[(&Course, f64)]) -> bool {
        self.is_found() && self.sustained(courses).is_none()
    }

    /// The base rates together, as a condition of a sample, where every direction has one.
    pub(super) fn condition(&self) -> Option<(String, f64)> {
        let ways = if self.direction == Direction::Both { 2 } else { 1 };
        let found: Vec<f64> = self.found.iter().flatten().map(|bucket| bucket.base).collect();
        (found.len() == ways).then(|| (BASE_RATE.to_owned(), found.iter().sum()))
    }

    /// The lowest base rate of the directions, in bit/s.
    pub(super) fn base(&self) -> Option<f64> {
        self.found.iter().flatten().map(|bucket| bucket.base).reduce(f64::min)
    }

    /// Names what was found.
    pub(super) fn tell(&self, facts: &mut Facts) {
        for (way, found) in self.found.iter().enumerate() {
            let Some(Bucket { burst, base, held, until }) = *found else { continue };
            let word = match (self.direction, way) {
                (Direction::Up, _) | (Direction::Both, 0) => "up",
                (Direction::Down, _) | (Direction::Both, _) => "down",
            };
            let bits = |value| Quantity { value, unit: Unit::BitPerSecond };
            let bytes = Quantity { value: held / 8.0, unit: Unit::Byte };
            facts.warnings.push(Warning::Other {
                code: "token-bucket".to_owned(),
                text: format!(
                    "a token bucket on the way {word}: {} for {} s ({bytes} beyond the base rate), and then {}; the figure is the base rate",
                    bits(burst),
                    significant(until, 2),
                    bits(base),
                ),
            });
            let told = serde_json::json!({
                "burst_rate": burst, "base_rate": base, "burst_bytes": held / 8.0, "until_s": until,
            });
            facts.achieved.insert(format!("token_bucket_{word}"), told);
        }
    }
}

/// What the pause lets into the bucket.
fn filled(step: &Bucket) -> f64 {
    step.held.min(step.base * PAUSE.as_secs_f64())
}

/// The bucket that transfers show: all of them with their pauses, or the last one alone.
fn step(transfers: &[Vec<Stretch>]) -> Option<Bucket> {
    stats::bucket(&transfers.concat()).or_else(|| stats::bucket(transfers.last()?))
}

/// The base rate, where a transfer after a pause shows the tokens that came into the bucket meanwhile, and then the base
/// rate again.
fn proof(step: &Bucket, again: &[Stretch]) -> Option<f64> {
    let burst = stats::burst(again, step.base)?;
    let rate = stats::sustained(again, step.base)?;
    let is_same = (rate / step.base - 1.0).abs() <= SAME;
    // A machine that is busy makes either rate lower than it is, and none higher.
    (burst.held >= AGAIN * filled(step) && is_same).then_some(rate.max(step.base))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A course of 100 stretches of 10 ms through a bucket, in megabytes.
    fn course(peak: f64, base: f64, held: f64) -> Course {
        let knee = held / (peak - base);
        let upto = |t: f64| if t < knee { peak * t } else { held + base * t };
        let bytes = (0..100).map(|i| {
            let t = f64::from(i) * 0.01;
            ((upto(t + 0.01) - upto(t)) * 1e6) as u64
        });
        Course { width: 10_000_000, bytes: bytes.collect(), delays: Vec::new() }
    }

    fn watched(after_the_pause: Course) -> (Watch, bool) {
        let mut watch = Watch::new(Direction::Up, true);
        watch.note(Instant::now(), &[&course(100.0, 10.0, 5.0)]);
        let found = watch.look(|_| Ok(vec![after_the_pause])).unwrap();
        (watch, found)
    }

    #[test]
    fn a_step_that_a_pause_undoes_is_a_bucket_and_is_named() {
        let (watch, found) = watched(course(100.0, 10.0, 2.5));
        assert!(found);
        let rate = watch.condition().unwrap().1;
        assert!((rate / 80e6 - 1.0).abs() < 0.01, "{rate}");
        let mut facts = Facts::default();
        watch.tell(&mut facts);
        assert_eq!(facts.warnings[0].code(), "token-bucket");
        let text = facts.warnings[0].to_string();
        assert!(text.contains("80.0 Mbit/s; the figure is the base rate"), "{text}");
        let later = course(100.0, 10.0, 0.5);
        let sustained = watch.sustained(&[(&later, 84e6)]).unwrap()[0];
        assert!((sustained / 80e6 - 1.0).abs() < 0.01, "{sustained}");
        assert!(watch.is_spoilt(&[(&course(100.0, 10.0, 80.0), 800e6)]));
    }

    #[test]
    fn a_step_that_stays_is_none_and_is_not_asked_for_for_ever() {
        let (mut watch, found) = watched(course(10.1, 10.0, 0.0));
        assert!(!found && watch.condition().is_none());
        for _ in 0..2 {
            watch.note(Instant::now(), &[&course(100.0, 10.0, 5.0)]);
            let _ = watch.look(|_| Ok(vec![course(10.1, 10.0, 0.0)])).unwrap();
        }
        watch.note(Instant::now(), &[&course(100.0, 10.0, 5.0)]);
        assert!(!watch.look(|_| panic!("asked a third time")).unwrap());
        let mut facts = Facts::default();
        watch.tell(&mut facts);
        assert_eq!(facts, Facts::default());
    }

    #[test]
    fn nothing_is_watched_within_a_machine_that_shapes_nothing() {
        let mut watch = Watch::new(Direction::Up, false);
        watch.note(Instant::now(), &[&course(100.0, 10.0, 5.0)]);
        assert!(!watch.look(|_| panic!("asked")).unwrap());
    }
}
