//! The clocks of one core in work of several kinds, where what works is chosen as it goes.

use super::{CoreClock, ProbeWork};

/// A clock for each kind of work that was asked for, calibrated at the first question: for one thread, on one core.
#[derive(Debug, Clone, Default)]
pub struct Clocks(Vec<(ProbeWork, Option<CoreClock>)>);

impl Clocks {
    /// The core clock in such work just now, in Hz; `None` where it cannot be measured. The first question of a kind takes
    /// some milliseconds.
    pub fn probe(&mut self, work: ProbeWork) -> Option<f64> {
        let place = self.0.iter().position(|(known, _)| *known == work).unwrap_or_else(|| {
            self.0.push((work, CoreClock::calibrate(work).ok()));
            self.0.len() - 1
        });
        self.0.get(place)?.1.as_ref()?.probe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    #[test]
    fn each_kind_of_work_is_calibrated_once() {
        let mut clocks = Clocks::default();
        let kinds = [ProbeWork::SCALAR, ProbeWork::integers(Isa::best()), ProbeWork::SCALAR];
        for work in kinds {
            assert!(clocks.probe(work).is_none_or(|hz| hz > 1e7));
        }
        assert_eq!(clocks.0.iter().map(|(work, _)| *work).collect::<Vec<_>>(), kinds[..2]);
    }
}
