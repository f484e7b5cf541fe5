//! Fixtures for tests with CPUID.

use super::{Leaf, meaning};
use std::collections::BTreeMap;

/// Makes CPUID leaves with these features (Linux names), for tests; panics if a name is unknown.
#[allow(clippy::panic)]
pub fn with_features<'a>(features: impl Iterator<Item = &'a str>) -> Vec<Leaf> {
    let mut leaves: BTreeMap<(u32, u32), [u32; 4]> = BTreeMap::new();
    for name in features {
        let Some((leaf, subleaf, register, bit, _)) = meaning::features().find(|f| f.4 == name) else {
            panic!("no feature {name}")
        };
        leaves.entry((leaf, subleaf)).or_default()[register] |= 1 << bit;
    }
    leaves.into_iter().map(|((leaf, subleaf), registers)| Leaf { leaf, subleaf, registers }).collect()
}
