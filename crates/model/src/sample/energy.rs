//! Energy of a case from the counters of whole packages (RAPL), with idle power and other work.

use super::{CaseFact, Conditions, Sample};

/// Energy of the processor packages in J.
pub const ENERGY: CaseFact<f64> = CaseFact::new("energy_j");
/// Energy of the processor packages in J per unit of work of the headline metric.
pub const ENERGY_PER_UNIT: CaseFact<f64> = CaseFact::new("energy_per_unit_j");

/// Returns the processor packages' energy in J; `None` without samples, or if a power is unknown.
pub fn energy(samples: &[Sample]) -> Option<f64> {
    let joules = samples.iter().map(|sample| Some(power(&sample.conditions)? * sample.elapsed));
    joules.collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

/// Returns J per unit of work for each sample with known power; `rate` is the metric of work per s.
pub fn per_unit(samples: &[Sample], rate: &str) -> Vec<f64> {
    let each = samples.iter().filter_map(|sample| {
        let rate = sample.values.get(rate).copied().filter(|rate| *rate > 0.0)?;
        Some(power(&sample.conditions)? / rate)
    });
    each.filter(|joules| joules.is_finite()).collect()
}

fn power(conditions: &Conditions) -> Option<f64> {
    conditions.package_power.filter(|watts| *watts > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_over_time_and_power_over_rate() {
        let sample = |package_power: Option<f64>, rate: f64| {
            let conditions = Conditions { package_power, ..Conditions::default() };
            let (elapsed, values) = (0.5, [("rate".to_owned(), rate)].into());
            Sample { elapsed, values, conditions, ..Sample::default() }
        };
        let both = [sample(Some(100.0), 1e9), sample(Some(200.0), 1e9)];
        assert_eq!(energy(&both), Some(150.0));
        assert_eq!(per_unit(&both, "rate"), [1e-7, 2e-7]);
        let one = [sample(Some(100.0), 0.0), sample(None, 1e9)];
        assert_eq!((energy(&one), per_unit(&one, "rate").len()), (None, 0));
        assert_eq!((energy(&[]), per_unit(&both, "other").len()), (None, 0));
    }
}
