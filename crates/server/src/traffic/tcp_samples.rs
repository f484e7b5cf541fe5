//! TCP statistics over a transfer: samples that are evenly spread, in bounded memory.

use crate::wire::{MAX_LOOKS, TcpLook};

#[derive(Clone, Debug, Default)]
pub(super) struct TcpSamples {
    pub(super) kept: Vec<TcpLook>,
    /// One of `every` samples is kept; 0 before the first.
    every: u64,
    taken: u64,
    rtt_nanos: u64,
    cwnd_bytes: u64,
}

impl TcpSamples {
    /// Adds a sample. If the list is full, it keeps every second sample, of later ones too.
    pub(super) fn push(&mut self, look: TcpLook) {
        self.every = self.every.max(1);
        if self.taken.is_multiple_of(self.every) {
            if self.kept.len() >= MAX_LOOKS {
                self.kept = self.kept.iter().copied().step_by(2).collect();
                self.every *= 2;
            }
            if self.taken.is_multiple_of(self.every) {
                self.kept.push(look);
            }
        }
        self.taken += 1;
        self.rtt_nanos = self.rtt_nanos.saturating_add(look.rtt_nanos);
        self.cwnd_bytes = self.cwnd_bytes.saturating_add(look.cwnd_bytes);
    }

    /// Returns the means over all samples: (round-trip time in ns, congestion window in bytes).
    pub(super) fn means(&self) -> (u64, u64) {
        let tcp_samples = self.taken.max(1);
        (self.rtt_nanos / tcp_samples, self.cwnd_bytes / tcp_samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn looks_are_even_and_bounded(count in 1u64..2000) {
            let mut tcp_samples = TcpSamples::default();
            for at in 0..count {
                tcp_samples.push(TcpLook { at, rtt_nanos: 1000, cwnd_bytes: at, ..TcpLook::default() });
            }
            let kept = &tcp_samples.kept;
            prop_assert!(kept.len() <= MAX_LOOKS && kept.len() as u64 >= count.min(MAX_LOOKS as u64 / 2));
            prop_assert_eq!(kept[0].at, 0);
            let steps: Vec<u64> = kept.windows(2).map(|two| two[1].at - two[0].at).collect();
            prop_assert!(steps.iter().all(|step| *step == steps[0]));
            prop_assert_eq!(tcp_samples.means(), (1000, (count - 1) / 2));
        }
    }
}
