//! The open loop: transfers start at their intended times, independent of completions.

use super::{LoadError, Loop, StartSchedule, TallyMode};
use crate::engine::Engine;
use plimsoll_metal::uring::WaitEnd;

/// Time before an intended start that is spent polling, in ns: about the wake-up latency.
const AWAKE_NS: u64 = 50_000;

impl<E: Engine> Loop<E> {
    /// Starts at most `most` transfers, each when it is due, and waits until some finish (counted
    /// if `counting`); returns the completion time in ns of the engine's clock.
    #[inline(never)]
    pub(super) fn step_on_schedule(&mut self, mut most: u64, counting: TallyMode) -> Result<u64, LoadError> {
        loop {
            let now = self.engine.now_ns();
            while most > 0 && self.in_flight < self.limit {
                let Some(intended) =
                    self.manner.schedule.as_mut().filter(|s| s.next_ns() <= now).map(StartSchedule::take)
                else {
                    break;
                };
                self.push_next(Some(intended))?;
                most -= 1;
            }
            self.engine.submit()?;
            let due = self.manner.schedule.as_ref().map_or(u64::MAX, StartSchedule::next_ns);
            let full = self.in_flight >= self.limit || most == 0;
            if self.in_flight == 0 && most == 0 {
                return Ok(now);
            }
            if self.in_flight == 0 {
                // Wakes up as punctually as the kernel can.
                let left = due.saturating_sub(AWAKE_NS).saturating_sub(self.engine.now_ns());
                std::thread::sleep(std::time::Duration::from_nanos(left));
                continue;
            }
            let patience = match due.saturating_sub(now) {
                _ if full => WaitEnd::Endless,
                near if near <= AWAKE_NS => WaitEnd::Nanoseconds(0),
                far => WaitEnd::Nanoseconds(far - AWAKE_NS),
            };
            if let Some(at_ns) = self.reap(patience, counting)? {
                return Ok(at_ns);
            }
        }
    }
}
