use std::collections::BTreeMap;

/// Positions of a key and its values: (line, column in characters), both from 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyPosition {
    /// Position of the key.
    pub key: (usize, usize),
    /// Positions of its values, in order.
    pub values: Vec<(usize, usize)>,
}

/// Positions of a group and its keys; empty if the group is not from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanPositions {
    /// File name, sanitised.
    pub file: String,
    /// Position (line, column) of the group's table.
    pub group: (usize, usize),
    /// Positions of its keys.
    pub keys: BTreeMap<String, KeyPosition>,
    /// By key: option of a foreign job file that the key comes from, with file and line.
    pub descriptions: BTreeMap<String, String>,
    /// Section of a foreign job file that the group comes from, with file and line.
    pub group_label: Option<String>,
}

impl PlanPositions {
    /// Returns whether the group comes from a file.
    pub fn known(&self) -> bool {
        !self.file.is_empty()
    }

    /// Returns the option (else section) of another tool's job file that `key` is from, if any.
    pub fn description(&self, key: &str) -> Option<&str> {
        self.descriptions.get(key).or(self.group_label.as_ref()).map(String::as_str)
    }

    /// Returns (line, column) of value `index` of `key`, else of the key, else of the group.
    pub fn of(&self, key: &str, index: Option<usize>) -> (usize, usize) {
        let place = self.keys.get(key);
        let value = place.zip(index).and_then(|(place, index)| place.values.get(index)).copied();
        value.or(place.map(|place| place.key)).unwrap_or(self.group)
    }
}
