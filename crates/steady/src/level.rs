use serde::{Deserialize, Serialize};

/// A figure of the probe, before and after the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeLevel {
    /// Case and metric, for the user.
    pub name: String,
    /// Base unit, such as `B/s`.
    pub unit: String,
    /// Whether a higher value is better.
    pub higher_is_better: bool,
    /// Largest usual change between two probes, as a share.
    pub noise: f64,
    /// Value before the command.
    pub before: Option<f64>,
    /// Value after the command.
    pub after: Option<f64>,
}

/// A figure that got worse beyond its noise.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelLoss {
    /// Case and metric.
    pub name: String,
    /// Loss as a share of the earlier value, 0 to 1.
    pub loss: f64,
}

impl ProbeLevel {
    /// Returns how much worse the value `after` is than the earlier value `before`; `None` if not
    /// beyond the noise, or if one is unknown.
    pub fn loss(&self, before: Option<f64>, after: Option<f64>) -> Option<LevelLoss> {
        let (before, after) = before.zip(after)?;
        let kept = if self.higher_is_better { after / before } else { before / after };
        let loss = 1.0 - kept;
        (loss.is_finite() && loss > self.noise).then(|| LevelLoss { name: self.name.clone(), loss })
    }
}
