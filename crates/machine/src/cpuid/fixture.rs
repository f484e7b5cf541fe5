//! Fixtures for tests with CPUID.

use super::{Leaf, meaning};

/// Makes CPUID leaves with these features (Linux names), for tests; panics if a name is unknown.
#[allow(clippy::panic)]
pub fn with_features<'a>(features: impl Iterator<Item = &'a str>) -> Vec<Leaf> {
    let mut leaves: Vec<Leaf> = Vec::new();
    for name in features {
        let Some((leaf, subleaf, register, bit, _)) = meaning::features().find(|f| f.4 == name) else {
            panic!("no feature {name}")
        };
        let place = match leaves.iter().position(|l| (l.leaf, l.subleaf) == (leaf, subleaf)) {
            Some(place) => place,
            None => {
                leaves.push(Leaf { leaf, subleaf, registers: [0; 4] });
                leaves.len() - 1
            }
        };
        leaves[place].registers[register] |= 1 << bit;
    }
    leaves
}
