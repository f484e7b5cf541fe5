//! Searches over simulated links with queues, buckets, clocks and noise.

use super::*;
use proptest::prelude::*;

/// A link with a queue of `queue` seconds and a bucket of `tokens` bits, fed by a sender of speed
/// `fastest`. Delays have an error of `rough` seconds.
struct Link {
    capacity: f64,
    fastest: f64,
    queue: f64,
    tokens: f64,
    rough: f64,
    took: f64,
}

impl Link {
    fn of(capacity: f64, fastest: f64, queue: f64) -> Self {
        Link { capacity, fastest, queue, tokens: 0.0, rough: 0.0, took: 0.0 }
    }

    fn trial(&mut self, rate: Option<f64>, seconds: f64) -> Result<(RateTrial, ()), CannotMeasure> {
        const PAUSE: f64 = 0.01;
        self.took += seconds;
        let offered = rate.unwrap_or(f64::INFINITY).min(self.fastest);
        let (steps, mut tokens, mut waiting, mut lost) = (200, self.tokens, 0.0_f64, 0.0);
        let step = seconds / f64::from(steps);
        let (mut delays, mut arrivals) = (Vec::new(), Vec::new());
        for number in 0..steps {
            let free = (offered * step).min(self.capacity * step + tokens);
            tokens = (tokens + self.capacity * step - free).clamp(0.0, self.tokens);
            let (come, served) =
                (offered * step, (waiting + offered * step).min(free.max(self.capacity * step)));
            waiting += come - served;
            let over = (waiting - self.queue * self.capacity).max(0.0);
            (waiting, lost) = (waiting - over, lost + over);
            let t = f64::from(number) * step;
            let error = self.rough * f64::from(number * 37 % 11) / 11.0;
            delays.push(TimedPoint { t, value: waiting / self.capacity + error });
            arrivals.push(served);
        }
        self.tokens = tokens + self.capacity * PAUSE.min(self.tokens / self.capacity);
        let half = arrivals.len() / 2;
        let arriving = arrivals[half..].iter().sum::<f64>() / (step * half as f64);
        let goodput = (offered * seconds - lost) / (seconds + waiting / self.capacity);
        let growth = Trend::fit(&delays[half..].iter().step_by(4).copied().collect::<Vec<_>>());
        let loss = lost / (offered * seconds);
        Ok((RateTrial { offered, each: offered, goodput, loss, arriving, growth }, ()))
    }

    fn search(&mut self, seconds: f64) -> RateSearch<()> {
        let link = std::cell::RefCell::new(self);
        search(seconds, None, |rate, seconds| link.borrow_mut().trial(rate, seconds)).unwrap()
    }
}

proptest! {
    /// For any queue and sender, the found rate is at most 1 % above the capacity.
    #[test]
    fn what_is_served_is_found_and_never_exceeded(
        capacity in 1e4f64..1e11, factor in 0.1f64..30.0, queue in 0.0f64..5.0, rough in 0.0f64..1e-3,
    ) {
        let mut link = Link { rough, ..Link::of(capacity, capacity * factor, queue) };
        let found = link.search(1.0);
        let rate = found.best().unwrap().0.goodput;
        let expected = capacity.min(capacity * factor);
        prop_assert!(rate <= expected * 1.011, "{rate} of {expected}");
        prop_assert!(rate >= expected * 0.95 || found.unfinished, "{rate} of {expected}");
        prop_assert!(link.took <= ALL_TRIALS_SHARE + 1.0, "{} s", link.took);
    }

    /// A bucket that the first trial empties does not raise the result.
    #[test]
    fn tokens_are_no_capacity(capacity in 1e6f64..1e9, factor in 2.0f64..30.0, share in 0.0f64..0.15, queue in 1e-3f64..0.1) {
        let mut link = Link { tokens: share * capacity * (factor - 1.0) * FIRST, ..Link::of(capacity, capacity * factor, queue) };
        let found = link.search(1.0);
        let rate = found.best().unwrap().0.offered;
        prop_assert!(rate <= capacity * 1.011, "{rate} of {capacity}");
    }

    /// Noisy delays end the search in its time, and it is marked unfinished.
    #[test]
    fn rough_delays_are_told(capacity in 1e6f64..1e9, rough in 0.5f64..5.0) {
        let mut link = Link { rough, ..Link::of(capacity, capacity * 3.0, 10.0) };
        let found = link.search(1.0);
        prop_assert!(found.unfinished || found.best().is_none());
        prop_assert!(link.took <= ALL_TRIALS_SHARE + 1.0, "{} s", link.took);
    }
}

#[test]
fn jitter_neither_halves_the_rate_nor_makes_it_a_figure() {
    for rough in [3e-4, 1e-3, 3e-3, 1e-2] {
        for seconds in [0.2, 2.0] {
            for queue in [0.05, 1.0] {
                let mut link = Link { rough, ..Link::of(1e8, 1e9, queue) };
                let found = link.search(seconds);
                let rate = found.best().unwrap().0.offered;
                assert!((0.9e8..1.011e8).contains(&rate), "{rate} in {seconds} s with {rough} s");
                assert!(found.proved || found.unfinished, "{rough} {seconds}");
                assert!(found.proved || rough / seconds > 1e-3, "{rough} is little in {seconds} s");
            }
        }
    }
}

#[test]
fn what_was_too_much_is_told_as_it_was() {
    let with = |losses: &[f64]| {
        let one = RateTrial { offered: 1.0, each: 1.0, goodput: 1.0, loss: 0.0, arriving: 1.0, growth: None };
        let trial = |loss: &f64| (RateTrial { loss: *loss, ..one }, ());
        RateSearch { tried: losses.iter().map(trial).collect(), best: None, proved: false, unfinished: false }
            .too_much()
    };
    assert_eq!(with(&[0.1, 0.2]), "loses datagrams");
    assert_eq!(with(&[0.1, 0.0]), "fills a queue or loses datagrams");
    assert_eq!(with(&[0.0]), "fills a queue");
}

#[test]
fn where_everything_loses_there_is_no_such_rate() {
    let lossy = |rate: Option<f64>, _: f64| {
        let offered = rate.unwrap_or(1e9);
        Ok((RateTrial { offered, each: offered, goodput: 1e6, loss: 0.1, arriving: 1e6, growth: None }, ()))
    };
    assert!(search(1.0, None, lossy).unwrap().best().is_none());
    let gone = |_: Option<f64>, _: f64| Err::<(RateTrial, ()), _>(CannotMeasure::server_failed("gone"));
    assert!(search(1.0, None, gone).is_err());
}

#[test]
fn what_a_path_is_known_to_carry_is_never_exceeded() {
    let free = |rate: Option<f64>, _: f64| {
        let offered = rate.unwrap_or(1e9);
        let growth = Some(Trend { slope: 0.0, error: 0.0 });
        Ok((RateTrial { offered, each: offered, goodput: offered, loss: 0.0, arriving: offered, growth }, ()))
    };
    let found = search(1.0, Some(2e8), free).unwrap();
    let rate = found.best().unwrap().0.offered;
    assert!(rate <= 2e8 && rate > 1.95e8, "{rate}");
}

#[test]
fn the_tail_of_a_course_gives_its_rate_and_the_growth_of_its_delay() {
    // 10 ms each; a burst at first, then 1 MB each; the delay grows by 2 % of the time.
    let bytes: Vec<u64> = (0..40).map(|i| if i < 5 { 9_000_000 } else { 1_000_000 }).collect();
    let delays = (0..40).map(|i| Some(i * 200_000)).collect();
    let (rate, growth) = tail(&ArrivalTimeline { width: 10_000_000, bytes, delays });
    assert!((rate.unwrap() / 8e8 - 1.0).abs() < 1e-9);
    assert!((growth.unwrap().slope - 0.02).abs() < 1e-9);
    assert_eq!(tail(&ArrivalTimeline::default()), (None, None));
}
