//! `--steady`: repetitions until the device is steady, or not; on a device that is throttled during
//! the run.

use serde_json::Value;

use super::QUICK;
use crate::support::{document, list, run_of, scratch, warns};

fn steady(more: &str) -> Value {
    let line = format!("{} --steady {more}", QUICK.replace("--samples 2", ""));
    document(scratch().path(), &line, 0)["measurements"][0].clone()
}

#[test]
fn the_figure_is_that_of_the_last_five_rounds_and_all_of_them_are_kept() {
    let measurement = steady("");
    if measurement["status"] == "skipped" {
        return;
    }
    assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
    let rounds = list(&measurement["achieved"]["round_values"]);
    assert_eq!(measurement["achieved"]["rounds"], rounds.len());
    assert!((5..=25).contains(&rounds.len()), "{rounds:?}");
    let samples = list(&measurement["metrics"][0]["samples"]);
    assert_eq!(samples[..], rounds[rounds.len() - 5..]);
    assert!(warns(&measurement, "part-of-device"), "8 MiB are not the whole disk");
    // It is steady by both criteria, or reported as not steady.
    let values: Vec<f64> = samples.iter().map(|value| value.as_f64().unwrap()).collect();
    let mean = values.iter().sum::<f64>() / 5.0;
    let range = values.iter().copied().fold(0.0, f64::max) - values.iter().copied().fold(f64::MAX, f64::min);
    let slope = (-2.0 * values[0] - values[1] + values[3] + 2.0 * values[4]) / 10.0;
    let is_steady = range <= 0.2 * mean && (rounds.len() < 25 || (4.0 * slope).abs() <= 0.1 * mean);
    assert_eq!(warns(&measurement, "not-steady"), !is_steady, "{rounds:?}");
}

/// After a pass, append truncates its files; there must be time to read the clock.
#[test]
fn a_pass_with_fewer_blocks_than_the_queue_is_deep_ends() {
    let line = "disk --only disk.io --op append --block 1M --depth 4 --threads 4 --size 8M --cache buffered";
    let run = run_of(&format!("{line} --samples 2 --sample-time 20ms"));
    assert_eq!(run["measurements"][0]["status"], "ok", "{run}");
}
