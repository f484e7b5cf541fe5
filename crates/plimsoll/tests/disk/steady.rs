//! `--steady`: repetitions until the device is steady, or not; on a device that is throttled during
//! the run.

use super::{QUICK, measurements};
use crate::support::{ended, plimsoll, scratch};

fn arguments(more: &[&'static str]) -> Vec<&'static str> {
    let kept = QUICK.iter().copied().filter(|argument| *argument != "--samples" && *argument != "2");
    kept.chain(["--steady"]).chain(more.iter().copied()).collect()
}

#[test]
fn the_figure_is_that_of_the_last_five_rounds_and_all_of_them_are_kept() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).args(arguments(&[])), 0);
    let measurement = &measurements(&out)[0];
    if measurement["status"] == "skipped" {
        return;
    }
    assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
    let rounds = measurement["achieved"]["round_values"].as_array().unwrap();
    assert_eq!(measurement["achieved"]["rounds"], rounds.len());
    assert!((5..=25).contains(&rounds.len()), "{rounds:?}");
    let samples = measurement["metrics"][0]["samples"].as_array().unwrap();
    assert_eq!(samples[..], rounds[rounds.len() - 5..]);
    let warned = |code: &str| measurement["warnings"].as_array().unwrap().iter().any(|w| w["code"] == code);
    assert!(warned("part-of-device"), "8 MiB are not the whole disk");
    // It is steady by both criteria, or reported as not steady.
    let values: Vec<f64> = samples.iter().map(|value| value.as_f64().unwrap()).collect();
    let mean = values.iter().sum::<f64>() / 5.0;
    let range = values.iter().copied().fold(0.0, f64::max) - values.iter().copied().fold(f64::MAX, f64::min);
    assert_eq!(
        warned("not-steady"),
        range > 0.2 * mean || rounds.len() == 25 && !steady_slope(&values, mean)
    );
}

fn steady_slope(values: &[f64], mean: f64) -> bool {
    let slope = (-2.0 * values[0] - values[1] + values[3] + 2.0 * values[4]) / 10.0;
    (4.0 * slope).abs() <= 0.1 * mean
}

#[test]
fn with_fewer_rounds_than_it_takes_it_is_called_not_steady() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).args(arguments(&["--samples", "3"])), 0);
    let measurement = &measurements(&out)[0];
    if measurement["status"] == "skipped" {
        return;
    }
    let warnings = measurement["warnings"].as_array().unwrap();
    let reported = warnings.iter().find(|warning| warning["code"] == "not-steady").unwrap();
    assert!(reported["text"].as_str().unwrap().contains("after 3 rounds"), "{reported}");
}

#[test]
fn what_cannot_be_steady_is_told_before_anything_runs() {
    let dir = scratch();
    let append = arguments(&["--verify"]);
    let (_, err) = ended(plimsoll(dir.path()).args(append), 2);
    insta::assert_snapshot!(err);
}

/// After a pass, append truncates its files; there must be time to read the clock.
#[test]
fn a_pass_with_fewer_blocks_than_the_queue_is_deep_ends() {
    let dir = scratch();
    let words = "disk --only disk.io --op append --block 1M --depth 4 --threads 4 --size 8M --cache buffered --samples 2 \
                 --sample-time 20ms --store none --quiet --json - --dir .";
    let (out, _) = ended(plimsoll(dir.path()).args(words.split_whitespace()), 0);
    assert_eq!(measurements(&out)[0]["status"], "ok", "{out}");
}
