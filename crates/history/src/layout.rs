//! What a history consists of, and whether a file has exactly that.
//!
//! SQLite does what a file's schema says: a view in the place of a table runs whenever that is read, a trigger whenever
//! it is written. So a file whose schema is not, word for word, that of a history is not used at all.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::schema::LAYOUT;

/// Most objects that are looked at: a history has fewer than twenty.
const MOST: usize = 100;

/// The text of each table and index, by what it is, its name and its table; SQLite's own indexes have none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout(BTreeMap<[String; 3], String>);

impl Layout {
    /// That of a file. It is read and nothing in it is run. The old name of the table is the one that no object of a file can
    /// take.
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let select = "SELECT type, name, tbl_name, coalesce(sql, '') FROM main.sqlite_master";
        let mut statement = connection.prepare(select)?;
        let object = |row: &rusqlite::Row<'_>| {
            let text: String = row.get(3)?;
            // An older SQLite may have put its own spaces.
            let words: Vec<&str> = text.split_whitespace().collect();
            Ok(([row.get(0)?, row.get(1)?, row.get(2)?], words.join(" ")))
        };
        let objects = statement.query_map([], object)?.take(MOST);
        objects.collect::<rusqlite::Result<_>>().map(Self)
    }

    /// That of a history.
    pub(super) fn expected() -> rusqlite::Result<Self> {
        let made = Connection::open_in_memory()?;
        made.execute_batch(LAYOUT)?;
        Self::of(&made)
    }

    /// The first thing that is not as `expected`, in words.
    pub(super) fn difference(&self, expected: &Self) -> Option<String> {
        let shown = |[kind, name, _]: &[String; 3]| {
            let kind = crate::text::shown_within(kind, 20);
            format!("{kind} '{}'", crate::text::shown_within(name, 40))
        };
        let foreign = self.0.keys().find(|key| !expected.0.contains_key(*key));
        let missing = || expected.0.keys().find(|key| !self.0.contains_key(*key));
        let other = || self.0.iter().find(|(key, text)| expected.0.get(*key) != Some(text));
        foreign
            .map(|key| format!("no history has the {}", shown(key)))
            .or_else(|| missing().map(|key| format!("the {} is missing", shown(key))))
            .or_else(|| other().map(|(key, _)| format!("the {} has another definition", shown(key))))
    }
}
