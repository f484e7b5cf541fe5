//! Receiver's account of a stream of datagrams: arrivals, duplicates, reordering and loss. A
//! datagram of 16 bytes or more starts with tag, number and send time; one of 8 bytes or more with
//! tag and number; a smaller one can only be counted.

use crate::traffic::timeline::Recorder;
use crate::wire::UdpReceived;

/// Numbers that are checked for duplicates: a quarter of a second at four million datagrams per
/// second. Later arrivals count as lost.
const SEQUENCE_WINDOW: u64 = 1 << 20;
const WORDS: u64 = SEQUENCE_WINDOW / 64;

/// Header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramLayout {
    /// No header: shorter than 8 bytes.
    Bare,
    /// Tag and number.
    Numbered,
    /// Tag, number and time.
    Timed,
    /// Header of iperf3: seconds and microseconds in four bytes each, and a number of eight bytes
    /// that starts with 1.
    Iperf3,
}

impl DatagramLayout {
    /// Returns the layout with the most header fields that fit in datagrams of `size` bytes.
    pub const fn of(size: usize) -> Self {
        match size {
            0..8 => DatagramLayout::Bare,
            8..16 => DatagramLayout::Numbered,
            _ => DatagramLayout::Timed,
        }
    }

    /// Writes this layout's header into `datagram`; `sent` is the time in ns by the sender's clock.
    pub fn write(self, datagram: &mut [u8], tag: u32, number: u64, sent: u64) {
        let (first, second, rest) = match self {
            DatagramLayout::Bare => return,
            DatagramLayout::Numbered => (tag, number as u32, None),
            DatagramLayout::Timed => (tag, number as u32, Some(sent)),
            DatagramLayout::Iperf3 => {
                let (seconds, micros) = (sent / 1_000_000_000, sent / 1000 % 1_000_000);
                (seconds as u32, micros as u32, Some(number + 1))
            }
        };
        datagram[..4].copy_from_slice(&first.to_be_bytes());
        datagram[4..8].copy_from_slice(&second.to_be_bytes());
        if let Some(rest) = rest {
            datagram[8..16].copy_from_slice(&rest.to_be_bytes());
        }
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

/// Variation of the transit time: `J += (|D| − J) / 16` over consecutive arrivals (RFC 3550 §6.4.1,
/// A.8). Datagrams of one burst carry one time and count as one arrival.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    /// Time of sending, and arrival minus that, by two clocks: only differences are meaningful.
    last: Option<(u64, u64)>,
    nanos: Option<f64>,
}

impl Jitter {
    fn arrive(&mut self, sent: u64, arrived: u64) {
        let transit = arrived.wrapping_sub(sent);
        match self.last {
            Some((last_sent, _)) if last_sent == sent => return,
            Some((_, last)) => {
                let differ = transit.wrapping_sub(last).cast_signed().unsigned_abs() as f64;
                let so_far = self.nanos.unwrap_or(0.0);
                self.nanos = Some(so_far + (differ - so_far) / 16.0);
            }
            None => {}
        }
        self.last = Some((sent, transit));
    }
}

/// Account of one stream during reception.
#[derive(Debug)]
pub struct StreamAccount {
    layout: DatagramLayout,
    size: usize,
    tag: u32,
    seen: Vec<u64>,
    next: u64,
    counts: UdpReceived,
    jitter: Jitter,
    /// First and last arrival, ns.
    arrivals: Option<(u64, u64)>,
    timeline: Recorder,
}

/// The sender reports fewer datagrams than the numbers that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sender reports {}, but number {seen} arrived: client and server must be the same build",
    plimsoll_units::text::format_count(*stated, "datagram")
)]
pub struct Impossible {
    stated: u64,
    seen: u64,
}

impl StreamAccount {
    /// Creates an account for datagrams of `size` bytes with `tag` and `layout`, which must fit.
    pub fn new(layout: DatagramLayout, size: usize, tag: u32) -> Self {
        let words = if layout == DatagramLayout::Bare { 0 } else { WORDS as usize };
        StreamAccount {
            layout,
            size,
            tag,
            seen: vec![0; words],
            next: 0,
            counts: UdpReceived::default(),
            jitter: Jitter::default(),
            arrivals: None,
            timeline: Recorder::default(),
        }
    }

    /// Records a datagram that arrived `now` ns after the start; another size or tag is foreign.
    pub fn arrive(&mut self, datagram: &[u8], now: u64) {
        let before = self.counts.received;
        let at = |place: usize| word(&datagram[place..place + 4]);
        let own = match self.layout {
            _ if datagram.len() != self.size => false,
            DatagramLayout::Bare => {
                self.counts.received += 1;
                true
            }
            DatagramLayout::Numbered | DatagramLayout::Timed => at(0) == self.tag && self.number(at(4)),
            DatagramLayout::Iperf3 => self.number(at(12).wrapping_sub(1)),
        };
        if !own {
            self.counts.foreign += 1;
            return;
        }
        match self.layout {
            DatagramLayout::Bare | DatagramLayout::Numbered => {}
            DatagramLayout::Timed => self.sent_at(u64::from(at(8)) << 32 | u64::from(at(12)), now),
            DatagramLayout::Iperf3 => {
                self.sent_at(u64::from(at(0)) * 1_000_000_000 + u64::from(at(4)) * 1000, now);
            }
        }
        if self.counts.received > before {
            self.timeline.arrive(now, self.size as u64);
        }
        self.arrivals = Some((self.arrivals.map_or(now, |(first, _)| first), now));
    }

    fn sent_at(&mut self, sent: u64, now: u64) {
        self.jitter.arrive(sent, now);
        self.timeline.transit(now, now.wrapping_sub(sent));
    }

    fn number(&mut self, low: u32) -> bool {
        let ahead = low.wrapping_sub(self.next as u32).cast_signed();
        let Some(number) = self.next.checked_add_signed(i64::from(ahead)) else { return false };
        if ahead >= 0 {
            let first = self.next.div_ceil(64);
            let last = number / 64;
            for index in first.max((last + 1).saturating_sub(WORDS))..=last {
                self.seen[(index % WORDS) as usize] = 0;
            }
            self.next = number + 1;
        } else if number / 64 + WORDS <= (self.next - 1) / 64 {
            self.counts.stale += 1;
            return true;
        }
        let (word, bit) = (&mut self.seen[(number / 64 % WORDS) as usize], 1 << (number % 64));
        if *word & bit != 0 {
            self.counts.duplicates += 1;
        } else {
            *word |= bit;
            self.counts.received += 1;
            self.counts.reordered += u64::from(ahead < 0);
        }
        true
    }

    /// Returns the number of datagrams received so far, without duplicates.
    pub fn received(&self) -> u64 {
        self.counts.received
    }
}

/// Sums the accounts of all streams, each with the count of its sender; adds the time from the
/// first to the last arrival and the mean jitter. Fails if a number above a sender's count arrived.
pub fn conclude(accounts: impl IntoIterator<Item = (StreamAccount, u64)>) -> Result<UdpReceived, Impossible> {
    let (mut all, mut timelines) = (UdpReceived::default(), Vec::new());
    let (mut jitters, mut ends): (Vec<f64>, Option<(u64, u64)>) = Default::default();
    for (StreamAccount { counts, next, jitter, arrivals: own, timeline, .. }, sent) in accounts {
        if next > sent {
            return Err(Impossible { stated: sent, seen: next - 1 });
        }
        // Without numbers, any excess over the sender's count must be copies.
        let received = counts.received.min(sent);
        let duplicates = counts.duplicates + (counts.received - received);
        for (sum, count) in [
            (&mut all.sent, sent),
            (&mut all.received, received),
            (&mut all.duplicates, duplicates),
            (&mut all.reordered, counts.reordered),
            (&mut all.stale, counts.stale),
            (&mut all.foreign, counts.foreign),
        ] {
            *sum = sum.saturating_add(count);
        }
        jitters.extend(jitter.nanos);
        let both = own.into_iter().chain(ends);
        ends = both.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        timelines.push(timeline);
    }
    all.span_nanos = ends.map_or(0, |(first, last)| last.saturating_sub(first));
    let jitter = jitters.iter().sum::<f64>() / jitters.len() as f64;
    all.jitter_nanos = (!jitters.is_empty()).then_some(jitter as u64);
    all.timeline = Recorder::sum_streams(timelines);
    Ok(all)
}

#[cfg(test)]
mod tests;
