//! Rate limits of a path below its link, and warnings about those that results reach or refute.

use crate::condition::{FAR_POLICED, FAR_SHAPED, POLICED, SERVER_CAP, SHAPED};
use crate::job::NetworkJob;
use crate::warning::{Holder, NetworkWarning};
use plimsoll_model::sample::Numbers;
use plimsoll_server::serve::Caps;
use plimsoll_server::wire::{Direction, Shaping, Welcome};
use plimsoll_stats::median;

/// Share of a packet-based limit from which a result reaches it; headers take up to a tenth.
const PACKETS: f64 = 0.85;
/// Share of the server's cap, which counts payload, from which a result reaches it.
const PAYLOAD: f64 = 0.97;
/// Highest rate of a slow path, bit/s: a CPU is not the limit of such a path.
const MAX_SLOW_PATH_RATE: f64 = 1e9;
/// Share from which a result refutes a limit; a late wake-up and the first packet explain less.
const REFUTING_SHARE: f64 = 1.05;

/// The rate limits of a case and the rates that arrived. Rates in bit/s.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RateBounds {
    direction: Direction,
    /// Target rate of the user, per direction.
    asked: Option<f64>,
    streams: f64,
    near: Shaping,
    far: Shaping,
    cap: f64,
    interface: String,
    /// Rates that arrived, upload first.
    came: [Vec<f64>; 2],
    /// Whether a first sample, which is a warm-up, has ended.
    pub(super) warm: bool,
}

struct RateBound {
    rate: f64,
    came: f64,
    reached: f64,
    holder: Holder,
}

impl RateBounds {
    /// Returns the rate limits of a case over `interface`: `near`, set by this machine's kernel,
    /// and those of the `server` if given.
    pub(super) fn of(job: &NetworkJob, interface: &str, near: Shaping, server: Option<&Welcome>) -> Self {
        RateBounds {
            direction: job.work.direction,
            asked: job.rate,
            streams: f64::from(job.work.streams),
            near,
            far: server.map(|welcome| welcome.shaping).unwrap_or_default(),
            cap: server.map_or(f64::INFINITY, |welcome| welcome.max_rate as f64),
            interface: interface.to_owned(),
            came: Default::default(),
            warm: false,
        }
    }

    pub(super) fn is_shaped(&self) -> bool {
        self.near != Shaping::default() || self.far != Shaping::default()
    }

    /// Records the rates that arrived, bit/s, one value per direction of the case, upload first.
    pub(super) fn add_rates(&mut self, ways: &[f64]) {
        let came = match (self.direction, ways) {
            (Direction::Up, [up]) => [*up, 0.0],
            (Direction::Down, [down]) => [0.0, *down],
            (_, [up, down]) => [*up, *down],
            _ => return,
        };
        self.came.iter_mut().zip(came).for_each(|(rates, rate)| rates.push(rate));
    }

    /// Ends a sample. Discards the rates of the first one.
    pub(super) fn end_sample(&mut self) {
        if !self.warm {
            self.forget();
        }
        self.warm = true;
    }

    pub(super) fn forget(&mut self) {
        self.came = Default::default();
    }

    fn medians(&self) -> [f64; 2] {
        self.came.each_ref().map(|rates| median(rates.clone()).unwrap_or(0.0))
    }

    /// Returns the median rate, bit/s, of the faster direction; infinity if nothing arrived.
    pub(super) fn median_rate(&self) -> f64 {
        let [up, down] = self.medians();
        Some(up.max(down)).filter(|came| *came > 0.0).unwrap_or(f64::INFINITY)
    }

    fn out(&self, shaping: &Shaping) -> Option<f64> {
        let each = shaping.each_out.map(|rate| rate as f64 * self.streams);
        [shaping.out.map(|rate| rate as f64), each].into_iter().flatten().reduce(f64::min)
    }

    /// Returns the server's `--max-rate`, bit/s, if it was lowered or a sample came near it.
    fn cap(&self) -> Option<f64> {
        let [up, down] = self.medians();
        let came = up.max(down);
        let set = self.cap < Caps::default().max_rate || came >= PAYLOAD * self.cap;
        (self.cap.is_finite() && set).then_some(self.cap)
    }

    /// Returns whether a rate limit is so low that the choice of CPUs does not matter.
    pub(super) fn is_slow(&self) -> bool {
        self.bounds().iter().flatten().any(|bound| bound.rate <= MAX_SLOW_PATH_RATE)
    }

    pub(super) fn conditions(&self) -> Numbers {
        let into = |shaping: &Shaping| shaping.into.map(|rate| rate as f64);
        let known = [
            (SHAPED, self.out(&self.near)),
            (POLICED, into(&self.near)),
            (FAR_SHAPED, self.out(&self.far)),
            (FAR_POLICED, into(&self.far)),
            (SERVER_CAP, self.cap()),
        ];
        known.into_iter().collect()
    }

    fn bounds(&self) -> Vec<Vec<RateBound>> {
        let [up, down] = self.medians();
        let directions = [(Direction::Up, up), (Direction::Down, down)].into_iter();
        let own = directions.filter(|(one, _)| [*one, Direction::Both].contains(&self.direction));
        own.map(|(one, came)| self.of_direction(one == Direction::Up, came)).collect()
    }

    fn of_direction(&self, up: bool, came: f64) -> Vec<RateBound> {
        let (sender, receiver) = if up { (&self.near, &self.far) } else { (&self.far, &self.near) };
        let here = |near: bool| near.then(|| self.interface.clone());
        let known = [
            (self.out(sender), PACKETS, Holder::Shaper(here(up))),
            (receiver.into.map(|rate| rate as f64), PACKETS, Holder::Policer(here(!up))),
            (self.cap(), PAYLOAD, Holder::ServerCap),
        ];
        let bound = |(rate, reached, holder)| Some(RateBound { rate: rate?, came, reached, holder });
        known.into_iter().filter_map(bound).collect()
    }

    pub(super) fn warnings(&self) -> Vec<NetworkWarning> {
        let mut found: Vec<NetworkWarning> = Vec::new();
        for bounds in self.bounds() {
            let believed = bounds.iter().filter(|bound| bound.came <= REFUTING_SHARE * bound.rate);
            let tightest = believed.map(|bound| bound.rate).fold(f64::INFINITY, f64::min);
            for warning in bounds.iter().filter_map(|bound| self.warning(bound, tightest)) {
                if !found.contains(&warning) {
                    found.push(warning);
                }
            }
        }
        found
    }

    fn warning(&self, bound: &RateBound, tightest: f64) -> Option<NetworkWarning> {
        let RateBound { rate, came, reached, ref holder } = *bound;
        let own = self.asked.is_some_and(|asked| asked <= rate);
        let refuted_by = (came > REFUTING_SHARE * rate).then_some(came);
        let is_reached = came >= reached * rate && rate <= tightest && !own;
        let held = || NetworkWarning::Held { holder: holder.clone(), rate, refuted_by };
        (refuted_by.is_some() || is_reached).then(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::welcome;
    use plimsoll_model::case::Case;
    use plimsoll_model::fixture;
    use plimsoll_model::warning::Warn;

    fn job(direction: &str) -> NetworkJob {
        let case = Case::of("network.udp").with_count("streams", 2).with_word("direction", direction);
        NetworkJob::of(&fixture::machine(), &case, 1).unwrap()
    }

    fn capped(max_rate: u64) -> RateBounds {
        RateBounds::of(&job("up"), "eth0", Shaping::default(), Some(&welcome(max_rate, Shaping::default())))
    }

    fn codes(held: &RateBounds) -> Vec<String> {
        held.warnings().iter().map(|warning| warning.code().to_owned()).collect()
    }

    #[test]
    fn a_cap_is_named_where_it_is_reached_and_is_a_condition_where_it_was_set() {
        let mut held = capped(50_000_000);
        assert_eq!((codes(&held), held.conditions().get(&SERVER_CAP)), (vec![], Some(50e6)));
        held.add_rates(&[45e6]);
        assert_eq!(codes(&held), Vec::<String>::new());
        held.forget();
        [&[40e6], &[49.9e6]].iter().for_each(|came| held.add_rates(*came));
        assert_eq!(codes(&held), Vec::<String>::new());
        held.forget();
        held.add_rates(&[49.9e6]);
        assert_eq!(codes(&held), ["server-cap"]);
        assert!(held.warnings()[0].to_string().contains("50.0 Mbit/s in each direction"));
        held.forget();
        held.add_rates(&[80e6]);
        assert_eq!(codes(&held), ["server-cap-refuted"]);
        // The default cap of a server is no limit of a slow path.
        assert_eq!(capped(100_000_000_000).conditions().get(&SERVER_CAP), None);
    }

    #[test]
    fn what_came_while_it_warmed_up_is_no_part_of_the_figure() {
        let mut held = capped(50_000_000);
        for came in [20e6, 49e6, 49e6] {
            held.add_rates(&[came]);
            held.end_sample();
        }
        assert_eq!(codes(&held), ["server-cap"]);
        assert_eq!(held.median_rate(), 49e6);
    }

    #[test]
    fn each_direction_has_the_bounds_that_its_bytes_pass() {
        let near = Shaping { out: Some(100), into: Some(300), each_out: Some(80) };
        let far = Shaping { out: Some(200), into: Some(90), each_out: None };
        let server = welcome(1_000_000, far);
        let with = |direction: &str, came: &[f64]| {
            let mut held = RateBounds::of(&job(direction), "eth0", near, Some(&server));
            held.add_rates(came);
            codes(&held)
        };
        assert_eq!(with("up", &[89.0]), ["policed"], "what comes in at the server");
        assert_eq!(with("up", &[96.0]), ["shaped", "policed-refuted"], "the server's word is refuted");
        assert_eq!(with("down", &[190.0]), ["shaped"]);
        assert_eq!(with("down", &[100.0]), Vec::<String>::new());
        assert_eq!(with("both", &[89.0, 190.0]), ["policed", "shaped"]);
        let held = RateBounds::of(&job("up"), "eth0", Shaping { each_out: Some(40), ..near }, None);
        assert_eq!(held.conditions().get(&SHAPED), Some(80.0), "two connections of 40");
    }

    #[test]
    fn a_rate_that_the_user_asked_for_stays_what_it_is() {
        let server = welcome(50_000_000, Shaping::default());
        let asked = |rate: f64| {
            let job = NetworkJob { rate: Some(rate), ..job("up") };
            let mut held = RateBounds::of(&job, "eth0", Shaping::default(), Some(&server));
            held.add_rates(&[rate.min(50e6)]);
            codes(&held)
        };
        assert_eq!(asked(48e6), Vec::<String>::new());
        assert_eq!(asked(60e6), ["server-cap"]);
    }
}
