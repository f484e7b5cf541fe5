//! Limits for the share of time excluded from a result: no estimate withstands more than half of
//! its data being something else (Donoho and Huber, "The notion of breakdown point", 1983). Above
//! nine tenths, less than 10 ms of a 100 ms sample remain, between interruptions that empty caches.

/// Excluded share of time above which a result is not converged and decides no comparison.
pub const MOSTLY_EXCLUDED: f64 = 0.5;

/// Excluded share of time above which a result is invalid.
pub const ALL_BUT_EXCLUDED: f64 = 0.9;

/// Effect of the excluded share of time on a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExcludedShare {
    /// No effect.
    Little,
    /// The result is not converged; the share.
    Mostly(f64),
    /// The result is invalid; the share.
    AllBut(f64),
}

impl ExcludedShare {
    /// Classifies the excluded share of time, 0 to 1; `None` counts as [`ExcludedShare::Little`].
    pub fn of(share: Option<f64>) -> Self {
        match share {
            Some(share) if share > ALL_BUT_EXCLUDED => Self::AllBut(share),
            Some(share) if share > MOSTLY_EXCLUDED => Self::Mostly(share),
            _ => Self::Little,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_are_still_within() {
        let of = |share| ExcludedShare::of(Some(share));
        assert_eq!([of(0.0), of(0.5), ExcludedShare::of(None)], [ExcludedShare::Little; 3]);
        assert_eq!((of(0.51), of(0.9)), (ExcludedShare::Mostly(0.51), ExcludedShare::Mostly(0.9)));
        assert_eq!((of(0.901), of(1.0)), (ExcludedShare::AllBut(0.901), ExcludedShare::AllBut(1.0)));
    }
}
