//! Common code of tests.

use proptest::prelude::*;

use crate::Samples;

pub(crate) fn samples(points: &[f64]) -> Samples {
    Samples::new(points.to_vec()).unwrap()
}

pub(crate) fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |x| x.is_finite()),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(f64::from_bits(1)),
        Just(0.0),
        1.0f64..1e12,
    ]
}
