//! Checks whether numbers in results of any tool can be true.

use plimsoll_units::quantity::{Quantity, Unit, significant};

/// Returns why no machine can have the value `value` in `unit`; `None` if one can.
pub fn impossible(value: f64, unit: Unit) -> Option<String> {
    match value {
        value if value.is_nan() => Some("the file has nan in place of a number".to_owned()),
        value if value < 0.0 => Some("the file has a negative value".to_owned()),
        value if value.is_infinite() => Some("the file has an infinite value".to_owned()),
        value if value > most(unit) => {
            Some(format!("no machine or cluster has a value above {}", Quantity::new(most(unit), unit)))
        }
        _ => None,
    }
}

pub(crate) fn impossible_figure(name: &str, value: Option<f64>, unit: Unit) -> Option<String> {
    impossible(value?, unit)
        .map(|why| format!("{name} is {}: {why}", significant(value.unwrap_or(f64::NAN), 3)))
}

/// Returns a bound above any real value, in `unit`: the fastest computer of 2025 reaches 2e18
/// FLOP/s, and the caches of the largest machine with one system image move under 1e15 B/s.
fn most(unit: Unit) -> f64 {
    match unit {
        Unit::BytePerSecond => 1e16,
        Unit::BitPerSecond => 1e17,
        Unit::IoPerSecond => 1e13,
        // 30 years.
        Unit::Second => 1e9,
        Unit::FlopPerSecond => 1e20,
        Unit::Byte => 1e25,
        _ => 1e18,
    }
}

/// An event with its minimum duration in clock cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BoundedEvent {
    /// A load from the L1 cache that depends on the one before it.
    Load = 1,
    /// A message from one thread to another: a store by one core, a load by another.
    Message = 10,
    RoundTrip = 20,
}

impl BoundedEvent {
    /// Returns why the event cannot take `seconds`; `None` if it can, and for 0, which is rounded.
    pub(crate) fn too_short(self, seconds: f64) -> Option<String> {
        let cycles = self as u8;
        let least = f64::from(cycles) / MAX_CLOCK_HZ;
        (seconds > 0.0 && seconds < least).then(|| {
            let least = Quantity::new(least, Unit::Second).human(2);
            format!("it takes {cycles} clock cycles or more, and no core has a clock above 9.2 GHz: {least}")
        })
    }
}

/// Upper bound of clock rates in Hz: the record of 2025 is 9.13 GHz, under liquid helium.
const MAX_CLOCK_HZ: f64 = 9.2e9;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Messages {
    pub(crate) what: &'static str,
    pub(crate) sent: Option<f64>,
    pub(crate) received: Option<f64>,
    pub(crate) lost: Option<f64>,
    /// Lost share, in percent.
    pub(crate) lost_percent: Option<f64>,
    /// Bytes sent in all, and bytes of one message.
    pub(crate) bytes: Option<(f64, f64)>,
    /// Bytes that arrived in all, and bytes of one message.
    pub(crate) arrived: Option<(f64, f64)>,
}

impl Messages {
    pub(crate) fn absurd(&self) -> Option<String> {
        let Self { what, sent, received, lost, lost_percent, .. } = *self;
        let is_count = |count: f64| count.is_finite() && count >= 0.0;
        if let Some(percent) = lost_percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
            return Some(format!("it lost {percent} % of its {what}: a share is between 0 and 100 %"));
        }
        for (count, verb) in [(sent, "sent"), (received, "received"), (lost, "lost")] {
            if let Some(count) = count.filter(|count| !is_count(*count)) {
                return Some(format!("it {verb} {count} {what}: no count is negative or without end"));
            }
        }
        let (sent, lost) = (sent?, lost?);
        (lost > sent).then(|| format!("it lost {lost} of {sent} {what}"))
    }

    pub(crate) fn contradiction(&self) -> Option<String> {
        let Self { what, sent, received, lost, .. } = *self;
        let sent = sent.filter(|sent| *sent > 0.0)?;
        if let Some(received) = received.filter(|received| *received > sent) {
            return Some(format!("it sent {sent} {what} and received {received}"));
        }
        let lost = lost.or_else(|| Some(sent - received?));
        lost.and_then(|lost| self.other_share(sent, lost).or_else(|| self.other_bytes(sent - lost)))
            .or_else(|| self.too_many_bytes(sent))
    }

    /// Returns why the printed share of lost messages contradicts the counts `sent` and `lost`;
    /// `None` if it agrees. Some tools round to whole percents, and messages may be in flight.
    fn other_share(&self, sent: f64, lost: f64) -> Option<String> {
        const NEAR: f64 = 2.0;
        let (percent, what) = (self.lost_percent?, self.what);
        ((lost / sent).mul_add(100.0, -percent).abs() > NEAR)
            .then(|| format!("it lost {lost} of {sent} {what}, and says that this is {percent} %"))
    }

    fn other_bytes(&self, arrived: f64) -> Option<String> {
        const NEAR: f64 = 1.1;
        let ((bytes, one), what) = (self.arrived?, self.what);
        let expected = arrived * one;
        // The last message is shorter, or some versions do not count it.
        let is_other = bytes > (expected + one) * NEAR || bytes * NEAR + one < expected;
        is_other.then(|| {
            let [bytes, expected] = [bytes, expected].map(|bytes| Quantity::new(bytes, Unit::Byte).human(3));
            format!("{bytes} arrived, and the {what} that were not lost hold {expected}")
        })
    }

    fn too_many_bytes(&self, sent: f64) -> Option<String> {
        const TOLERANCE: f64 = 1.05;
        let ((bytes, one), what) = (self.bytes?, self.what);
        (one > 0.0 && bytes > (sent + 1.0) * one * TOLERANCE).then(|| {
            let [bytes, one] = [bytes, one].map(|bytes| Quantity::new(bytes, Unit::Byte).human(3));
            format!("{sent} {what} of {one} do not hold {bytes}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Messages = Messages {
        what: "datagrams",
        sent: Some(1000.0),
        received: Some(900.0),
        lost: Some(100.0),
        lost_percent: Some(10.0),
        bytes: Some((1e6, 1e3)),
        arrived: Some((9e5, 1e3)),
    };

    #[test]
    fn counts_that_agree_are_not_accused() {
        for some in
            [SOME, Messages::default(), Messages { lost: None, ..SOME }, Messages { sent: None, ..SOME }]
        {
            assert_eq!((some.absurd(), some.contradiction()), (None, None), "{some:?}");
        }
    }

    #[test]
    fn impossible_counts_are_absurd() {
        for wrong in [
            Messages { lost: Some(1001.0), ..SOME },
            Messages { lost: Some(-1.0), ..SOME },
            Messages { lost: Some(f64::NAN), ..SOME },
            Messages { received: Some(-1.0), ..SOME },
            Messages { sent: Some(f64::INFINITY), ..SOME },
            Messages { lost_percent: Some(200.0), ..SOME },
            Messages { lost_percent: Some(-50.0), ..SOME },
        ] {
            assert!(wrong.absurd().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn counts_that_differ_contradict_each_other() {
        for wrong in [
            Messages { received: Some(1001.0), ..SOME },
            Messages { lost_percent: Some(0.0), ..SOME },
            Messages { lost: Some(0.0), ..SOME },
            Messages { lost: None, received: Some(250.0), ..SOME },
            Messages { bytes: Some((1e6, 1.0)), ..SOME },
            Messages { arrived: Some((1e5, 1e3)), ..SOME },
        ] {
            assert!(wrong.contradiction().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn times_below_some_clock_cycles_are_impossible() {
        for (event, impossible, possible) in [
            (BoundedEvent::Load, 1e-12, 0.3e-9),
            (BoundedEvent::Message, 0.3e-9, 90e-9),
            (BoundedEvent::RoundTrip, 1e-9, 180e-9),
        ] {
            assert!(event.too_short(impossible).is_some(), "{event:?}");
            assert_eq!((event.too_short(possible), event.too_short(0.0)), (None, None), "{event:?}");
        }
    }

    #[test]
    fn what_no_machine_has_is_found_and_what_one_may_have_is_not() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e308] {
            for unit in
                [Unit::BytePerSecond, Unit::BitPerSecond, Unit::IoPerSecond, Unit::PerSecond, Unit::Second]
            {
                assert!(impossible(value, unit).is_some(), "{value} {unit:?}");
            }
        }
        for (value, unit) in [(2e18, Unit::FlopPerSecond), (1e14, Unit::BytePerSecond), (0.0, Unit::Second)] {
            assert_eq!(impossible(value, unit), None);
        }
    }
}
