use super::{CoreClock, ProbeWork};

/// Core clocks by kind of work, for one thread on one core; each is calibrated when first used.
#[derive(Debug, Clone, Default)]
pub struct WorkClocks(Vec<(ProbeWork, Option<CoreClock>)>);

impl WorkClocks {
    /// Returns the current core clock for `work` in Hz; `None` if it cannot be measured. The first
    /// call for a kind of work takes some milliseconds.
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
        let mut clocks = WorkClocks::default();
        let kinds = [ProbeWork::SCALAR, ProbeWork::integers(Isa::best()), ProbeWork::SCALAR];
        for work in kinds {
            assert!(clocks.probe(work).is_none_or(|hz| hz > 1e7));
        }
        assert_eq!(clocks.0.iter().map(|(work, _)| *work).collect::<Vec<_>>(), kinds[..2]);
    }
}
