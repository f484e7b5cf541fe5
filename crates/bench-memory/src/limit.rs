use plimsoll_bench_api::prelude::*;
use plimsoll_model::limit::median;

/// Returns the core clock of each sample and their median, in Hz. Fails if one has no clock.
pub(crate) fn clocks(samples: &[Sample]) -> Result<(Vec<f64>, f64), String> {
    let each: Option<Vec<f64>> = samples.iter().map(|sample| sample.conditions.clock_hz).collect();
    let both = each.and_then(|each| Some((each.clone(), median(each)?)));
    both.ok_or_else(|| "the core clock could not be measured".to_owned())
}
