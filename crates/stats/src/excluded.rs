//! How much of the time may be excluded before a figure is in doubt, and before it is none: the one home of both bounds.
//!
//! A kernel is timed in slices, and slices that something interrupted are excluded from its figure. The level of the rest is
//! found as the most common one. That works while the rest is the majority: no estimate of a level withstands more than half
//! of its data being something else (Donoho and Huber, "The notion of breakdown point", in: A Festschrift for Erich L. Lehmann,
//! 1983). Where nine tenths are excluded, what is left of a sample of 100 ms is less than 10 ms, between interruptions that
//! have just emptied the caches.

/// Share of the time above which what is left may not be the usual level: the figure is not converged, and no comparison is
/// decided by it.
pub const MOSTLY_EXCLUDED: f64 = 0.5;

/// Share of the time above which what is left is no figure: it is invalid.
pub const ALL_BUT_EXCLUDED: f64 = 0.9;

/// What the excluded share of the time makes of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Excluded {
    /// Nothing.
    Little,
    /// It is not converged; the share.
    Mostly(f64),
    /// It is invalid; the share.
    AllBut(f64),
}

impl Excluded {
    /// Of a share between 0 and 1; what is not known is nothing.
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
        let of = |share| Excluded::of(Some(share));
        assert_eq!(
            (of(0.0), of(0.5), Excluded::of(None)),
            (Excluded::Little, Excluded::Little, Excluded::Little)
        );
        assert_eq!((of(0.51), of(0.9)), (Excluded::Mostly(0.51), Excluded::Mostly(0.9)));
        assert_eq!((of(0.901), of(1.0)), (Excluded::AllBut(0.901), Excluded::AllBut(1.0)));
    }
}
