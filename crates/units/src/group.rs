//! Grouping of values.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

/// Groups values by key, in the order of the keys' first occurrences.
pub fn grouped<K: Clone + Eq + Hash, V>(all: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    // The standard hasher would need random bytes of the kernel, which can lack them.
    let mut places = HashMap::<K, usize, BuildHasherDefault<DefaultHasher>>::default();
    for (key, value) in all {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[place].1.push(value);
    }
    groups
}
