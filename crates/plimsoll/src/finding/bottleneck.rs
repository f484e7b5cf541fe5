//! "the sender's CPU is the bottleneck": which end of a network stream had no time left.

use serde_json::json;

use super::{finding, headline};
use crate::document::Finding;
use crate::measurement::Measurement;
use crate::quantity::percent;

/// An end that is busy for this share of the time cannot go faster.
const BUSY: f64 = 0.95;

/// Speaks for each `network.tcp` case of which one end was busy all the time.
pub(super) fn find(measurements: &[Measurement]) -> Vec<Finding> {
    measurements.iter().filter(|m| m.case.benchmark() == "network.tcp").filter_map(busy_end).collect()
}

fn busy_end(measurement: &Measurement) -> Option<Finding> {
    headline(measurement)?;
    let share = |name: &str| measurement.conditions.more.get(name).copied();
    let (near, far) = (share("near_cpu")?, share("far_cpu")?);
    let (end, key, most) =
        if near >= far { ("sender", "near_end_cpu", near) } else { ("receiver", "far_end_cpu", far) };
    if !(BUSY..=2.0).contains(&most) {
        return None;
    }
    let cpu = measurement.achieved.get(key).and_then(|cpu| cpu.as_u64()).map(|cpu| format!(" {cpu}"));
    let text = format!(
        "{}: the {end}'s CPU{} is the bottleneck: {} busy",
        measurement.case.id(),
        cpu.unwrap_or_default(),
        percent(most.min(1.0), 2)
    );
    Some(finding(
        "bottleneck",
        text,
        json!({ "case": measurement.case.id(), "sender": near, "receiver": far }),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::measured;
    use super::*;
    use crate::bench::Better;
    use crate::quantity::Unit;

    fn stream(near: f64, far: f64) -> Measurement {
        let id = "network.tcp/message=64K/streams=1/direction=up";
        let mut measurement = measured(id, Unit::BitPerSecond, Better::Higher, &[3e10]);
        measurement.conditions.more = [("near_cpu".to_owned(), near), ("far_cpu".to_owned(), far)].into();
        measurement.achieved.insert("near_end_cpu".to_owned(), json!(0));
        measurement
    }

    #[test]
    fn the_busier_end_is_named() {
        let found = find(&[stream(0.997, 0.7), stream(0.5, 0.96)]);
        let texts: Vec<&str> = found.iter().filter_map(|f| f.text.split(": ").nth(1)).collect();
        assert_eq!(texts, ["the sender's CPU 0 is the bottleneck", "the receiver's CPU is the bottleneck"]);
        assert!(found[0].text.ends_with("100 % busy"), "{}", found[0].text);
    }

    #[test]
    fn it_is_silent_where_neither_end_is_busy_or_nothing_is_known() {
        let mut unknown = stream(1.0, 1.0);
        unknown.conditions.more.clear();
        assert!(find(&[stream(0.9, 0.8), stream(f64::NAN, 0.1), unknown]).is_empty());
    }
}
