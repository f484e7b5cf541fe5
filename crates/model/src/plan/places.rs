//! Where the parts of a group stand in a plan's text, so that a mistake found later is told with line and column.

use std::collections::BTreeMap;

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// Where a key and its values stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The key.
    pub key: Position,
    /// Its values, in order.
    pub values: Vec<Position>,
}

/// Where a group and its keys stand; empty for a group that no file has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// The file, made harmless.
    pub file: String,
    /// The group's table.
    pub group: Position,
    /// Its keys.
    pub keys: BTreeMap<String, Place>,
    /// What a file that is no plan's own text has for a key, with its file and line.
    pub told: BTreeMap<String, String>,
    /// The same for the group.
    pub told_group: Option<String>,
}

impl Places {
    /// Whether the group was read from a file.
    pub fn known(&self) -> bool {
        !self.file.is_empty()
    }

    /// What a file that is no plan's own text has for a key or, where it has nothing, for the group.
    pub fn told(&self, key: &str) -> Option<&str> {
        self.told.get(key).or(self.told_group.as_ref()).map(String::as_str)
    }

    /// The value at `index` of a key; the key, or the group, where there is none.
    pub fn of(&self, key: &str, index: Option<usize>) -> Position {
        let place = self.keys.get(key);
        let value = place.zip(index).and_then(|(place, index)| place.values.get(index)).copied();
        value.or(place.map(|place| place.key)).unwrap_or(self.group)
    }
}
