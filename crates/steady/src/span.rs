use crate::watch::CommandInterval;
use serde::{Deserialize, Serialize};

/// Share of a command's time that it must lose to count as disturbed.
pub(crate) const MIN_EFFECT: f64 = 0.05;
/// Least lost time of a span in seconds; of a short command a share of its time suffices.
const MIN_LOST_S: f64 = 0.1;
/// Half of the time over which an effect is averaged, in seconds.
const HALF_WINDOW_S: f64 = 0.5;
/// Longest undisturbed time between two disturbances that are one, in seconds.
const MAX_BREAK_S: f64 = 0.6;
/// Share of the time for which a command must run on a CPU to be slowed by neighbours or the clock.
const MIN_RUN: f64 = 0.2;
/// CPUs of other processes from which on they may slow down a command on another CPU.
const MIN_ELSEWHERE: f64 = 0.2;
/// Drop of the clock below its median that counts.
const MIN_CLOCK_DROP: f64 = 0.1;
/// Shortest pause of the observer that is one, in seconds.
const MIN_PAUSE_S: f64 = 0.6;

/// Cause of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disturbance {
    /// A signal stopped the command.
    Stop,
    /// Neither the command nor its observer ran: the host, a freezer or a debugger stopped them.
    Pause,
    /// The machine was suspended.
    Suspension,
    /// A CPU quota throttled the command.
    Quota,
    /// Other processes used its CPUs.
    Competitor,
    /// The hypervisor gave its CPUs to other guests.
    Steal,
    /// Other processes used the disk that it waited for.
    Disk,
    /// It waited for memory to be reclaimed or swapped in.
    Memory,
    /// The processor was too hot.
    Heat,
    /// The clock of its CPU fell.
    Clock,
    /// Other processes used cache and memory bandwidth from other CPUs.
    Neighbour,
    /// The machine was slower after the command than before, and nothing shows why.
    Level,
}

/// All causes with the words after "disturbed by", the surest first.
pub(crate) const CAUSES: [(Disturbance, &str); 12] = [
    (Disturbance::Stop, "a signal that stopped it"),
    (Disturbance::Pause, "a pause of the whole machine or container"),
    (Disturbance::Suspension, "suspension of the machine"),
    (Disturbance::Quota, "its CPU quota"),
    (Disturbance::Competitor, "other processes on its CPUs"),
    (Disturbance::Steal, "other guests of the host (steal)"),
    (Disturbance::Disk, "other processes on its disk"),
    (Disturbance::Memory, "lack of memory"),
    (Disturbance::Heat, "heat"),
    (Disturbance::Clock, "a lower clock of its CPU"),
    (Disturbance::Neighbour, "other processes in its cache and memory"),
    (Disturbance::Level, "something that this machine does not show"),
];

impl Disturbance {
    /// Returns the cause in words, after "disturbed by".
    pub fn words(self) -> &'static str {
        CAUSES.iter().find(|(cause, _)| *cause == self).map_or("", |(_, words)| words)
    }

    /// Returns whether the lost time can be seen; otherwise only the cause can.
    fn is_measured(self) -> bool {
        !matches!(self, Self::Neighbour | Self::Heat | Self::Level)
    }
}

/// A time in which the command was disturbed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DisturbedSpan {
    /// Cause.
    pub cause: Disturbance,
    /// Start in seconds since the start of the command.
    pub from: f64,
    /// End in seconds.
    pub to: f64,
    /// Time that the command lost in it, in seconds; `None` if that cannot be seen.
    pub lost: Option<f64>,
    /// Names of the processes that caused it, the most active first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
}

impl DisturbedSpan {
    /// Returns its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to - self.from
    }
}

/// Sums over some intervals. `stopped` and `blocked` are sums of time, as all the rest.
#[derive(Default)]
struct IntervalSums {
    all: CommandInterval,
    time: f64,
    stopped: f64,
    paused: f64,
    clock: (f64, f64),
}

/// A series of intervals with what its judgement needs as a whole.
pub(crate) struct Series<'a> {
    pub(crate) intervals: &'a [CommandInterval],
    /// Bytes of the cache of one core (level 2).
    pub(crate) cache: u64,
    clock_hz: f64,
}

/// Returns the median, of an even number of values the upper one; `None` without values.
fn median(all: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

impl<'a> Series<'a> {
    pub(crate) fn new(intervals: &'a [CommandInterval], cache: u64) -> Self {
        Self {
            intervals,
            cache,
            clock_hz: median(intervals.iter().filter_map(|one| one.clock_hz)).unwrap_or(0.0),
        }
    }

    fn add(&self, sums: &mut IntervalSums, one: &CommandInterval) {
        let add = |sum: &mut Option<f64>, value: Option<f64>| {
            *sum = Some(sum.unwrap_or(0.0) + value.unwrap_or(0.0))
        };
        let (time, all) = (one.to - one.from, &mut sums.all);
        sums.time += time;
        all.run += one.run;
        add(&mut all.wait, one.wait);
        add(&mut all.others, one.others);
        add(&mut all.elsewhere, one.elsewhere);
        add(&mut all.stolen, one.stolen);
        add(&mut all.throttled, one.throttled);
        add(&mut all.memory_stall, one.memory_stall);
        all.blocked += one.blocked * time;
        all.suspended += one.suspended;
        all.major_faults += one.major_faults;
        all.io += one.io;
        all.others_io += one.others_io;
        all.heat += one.heat;
        sums.stopped += one.stopped * time;
        if let Some(hz) = one.clock_hz {
            sums.clock = (sums.clock.0 + hz * time, sums.clock.1 + time);
        }
        let late = one.late;
        // A late observer that waited for a CPU was not stopped, nor was a command that ran.
        if late >= MIN_PAUSE_S && one.own_wait < 0.5 * late && one.run < 0.5 * time {
            *(if one.continued { &mut sums.stopped } else { &mut sums.paused }) += late;
        }
    }

    /// Returns the share of the time that a command lost by `cause` in these intervals.
    fn effect(&self, cause: Disturbance, sums: &IntervalSums, at: f64) -> f64 {
        let (time, all) = (sums.time.max(1e-9), &sums.all);
        let of = |value: Option<f64>| value.unwrap_or(0.0);
        let of_demand = |lost: f64| lost / time.max(all.run + lost);
        let runs = all.run >= MIN_RUN * time;
        match cause {
            Disturbance::Stop => sums.stopped / time,
            Disturbance::Pause => sums.paused / time,
            Disturbance::Suspension => all.suspended / (time + all.suspended),
            Disturbance::Quota if all.run >= 0.02 * time => of_demand(of(all.throttled)),
            Disturbance::Competitor => {
                of_demand((of(all.wait) - of(all.throttled)).clamp(0.0, of(all.others)))
            }
            Disturbance::Steal => {
                let own = of(all.stolen) * all.run / (all.run + of(all.others)).max(1e-9);
                of_demand(own.min(of(all.stolen)))
            }
            Disturbance::Disk => {
                all.blocked / time * all.others_io as f64 / (all.others_io + all.io).max(1) as f64
            }
            Disturbance::Memory if all.major_faults > 0 => (of(all.memory_stall) / time).min(1.0),
            Disturbance::Heat if all.heat > 0 && runs => 1.0,
            Disturbance::Clock if runs && sums.clock.1 > 0.0 && self.clock_hz > 0.0 => {
                let drop = 1.0 - sums.clock.0 / sums.clock.1 / self.clock_hz;
                if drop >= MIN_CLOCK_DROP { drop } else { 0.0 }
            }
            Disturbance::Neighbour if runs && of(all.elsewhere) >= MIN_ELSEWHERE * time => {
                self.neighbour_share(at, of(all.elsewhere) / time)
            }
            _ => 0.0,
        }
    }

    /// Returns the CPUs of other processes whose memory is, as that of the command, larger than the
    /// cache of one core, at time `at`, when the CPUs that the command did not use were `busy`.
    fn neighbour_share(&self, at: f64, busy: f64) -> f64 {
        let scans = || self.intervals.iter().filter(|one| one.scanned > 0.0);
        let covering = scans().find(|one| one.to >= at && one.to - one.scanned <= at);
        let seen: f64 = covering.iter().flat_map(|scan| &scan.busiest).map(|other| other.cpus).sum();
        // A process that ended is missing in the next scan, which then explains too little.
        let earlier = scans().take_while(|one| one.to < at).last().filter(|_| seen < busy / 2.0);
        let cpus = |scan: &CommandInterval| -> f64 {
            let large = scan.busiest.iter().filter(|other| scan.memory.min(other.memory) >= self.cache);
            large.map(|other| other.cpus).sum()
        };
        let cpus = covering.into_iter().chain(earlier).map(cpus).fold(0.0, f64::max);
        if cpus >= MIN_ELSEWHERE { cpus.min(1.0) } else { 0.0 }
    }

    /// Returns the effect of `cause` around each interval.
    fn smoothed(&self, cause: Disturbance) -> Vec<f64> {
        let middle = |one: &CommandInterval| (one.from + one.to) / 2.0;
        let (mut first, mut last) = (0, 0);
        let one = |one: &CommandInterval| {
            let at = middle(one);
            while self.intervals.get(first).is_some_and(|other| middle(other) < at - HALF_WINDOW_S) {
                first += 1;
            }
            while self.intervals.get(last).is_some_and(|other| middle(other) <= at + HALF_WINDOW_S) {
                last += 1;
            }
            let mut sums = IntervalSums::default();
            let near = self.intervals.get(first..last).unwrap_or_default();
            near.iter().for_each(|one| self.add(&mut sums, one));
            self.effect(cause, &sums, at)
        };
        self.intervals.iter().map(one).collect()
    }

    /// Returns the spans in which `cause` disturbed the command, in order of time.
    pub(crate) fn spans(&self, cause: Disturbance) -> Vec<DisturbedSpan> {
        let effects = self.smoothed(cause);
        let wall = self.intervals.last().map_or(0.0, |last| last.to);
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (index, _) in effects.iter().enumerate().filter(|(_, effect)| **effect >= MIN_EFFECT) {
            let near = |last: usize| self.intervals[index].from - self.intervals[last].to <= MAX_BREAK_S;
            match found.last_mut().filter(|(_, last)| near(*last)) {
                Some((_, last)) => *last = index,
                None => found.push((index, index)),
            }
        }
        let span = |(first, last): (usize, usize)| self.trimmed(cause, first, last);
        let least = MIN_LOST_S.min(MIN_EFFECT * wall);
        let is_long_enough = |span: &DisturbedSpan| {
            span.lost.is_none_or(|lost| lost >= MIN_EFFECT * span.seconds() && lost >= least)
        };
        found.into_iter().filter_map(span).filter(is_long_enough).collect()
    }

    /// Shortens a span to the intervals that have at least half of its effect themselves.
    fn trimmed(&self, cause: Disturbance, first: usize, last: usize) -> Option<DisturbedSpan> {
        let part = self.intervals.get(first..=last)?;
        let [time, blocked] = part.iter().fold([0.0, 0.0], |[time, blocked], one| {
            [time + (one.to - one.from), blocked + one.blocked * (one.to - one.from)]
        });
        let raw = |one: &CommandInterval| {
            let mut sums = IntervalSums::default();
            self.add(&mut sums, one);
            // Without times of waiting, one look at the state is too few for one interval.
            if one.wait.is_none() {
                sums.all.blocked = blocked / time.max(1e-9) * sums.time;
            }
            self.effect(cause, &sums, (one.from + one.to) / 2.0)
        };
        let raw: Vec<f64> = part.iter().map(raw).collect();
        let enough = median(raw.iter().copied().filter(|effect| *effect > 0.0))? / 2.0;
        let from = raw.iter().position(|effect| *effect >= enough)?;
        let to = raw.iter().rposition(|effect| *effect >= enough)?;
        let part = part.get(from..=to)?;
        let times = part.iter().zip(raw.get(from..=to)?);
        let lost: f64 = times.map(|(one, effect)| effect * (one.to - one.from)).sum();
        Some(DisturbedSpan {
            cause,
            from: part.first()?.from,
            to: part.last()?.to,
            lost: cause.is_measured().then_some(lost),
            by: self.names(cause, part.first()?.from, part.last()?.to),
        })
    }

    /// Returns the names of the most active other processes between `from` and `to`, at most two.
    fn names(&self, cause: Disturbance, from: f64, to: f64) -> Vec<String> {
        let weight: fn(&crate::watch::OtherProcess) -> f64 = match cause {
            Disturbance::Competitor | Disturbance::Neighbour => |other| other.cpus,
            Disturbance::Disk => |other| other.io as f64,
            _ => return Vec::new(),
        };
        let mut all: Vec<(String, f64)> = Vec::new();
        for one in self.intervals {
            let time = one.scanned.max(one.to - one.from);
            let overlap = (one.to.min(to) - (one.to - time).max(from)).max(0.0) / time.max(1e-9);
            for other in &one.busiest {
                let amount = weight(other) * overlap;
                match all.iter_mut().find(|(name, _)| *name == other.name) {
                    Some((_, sum)) => *sum += amount,
                    None => all.push((other.name.clone(), amount)),
                }
            }
        }
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = all.first().map_or(0.0, |(_, amount)| *amount);
        let named = all.into_iter().filter(|(_, amount)| *amount > 0.2 * most && *amount > 0.0);
        named.take(2).map(|(name, _)| name).collect()
    }
}
