//! What a site of all runs is made from: each run with its machine, and a digest by which it is known whether a run has changed.

use rusqlite::Row;
use sha2::{Digest, Sha256};

use super::{RunLine, Store, StoreError, run_line};

/// A stored run, and on what it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The run in a line.
    pub line: RunLine,
    /// Fingerprint of its machine; of several machines the first one's.
    pub machine: String,
    /// On how many machines.
    pub nodes: usize,
}

/// The columns of [`run_line`], and those of an [`Entry`]. In the order in which runs were entered: clocks can be set back.
const ENTRIES: &str = "
    SELECT id, started, elapsed_s, plan, host, state,
           (SELECT count(*) FROM measurement WHERE run = number AND status = 'ok'),
           (SELECT count(*) FROM measurement WHERE run = number AND status = 'invalid'),
           (SELECT count(*) FROM measurement WHERE run = number AND status = 'failed'),
           (SELECT count(*) FROM measurement WHERE run = number AND status = 'skipped'),
           (SELECT group_concat(name, ' ') FROM tag WHERE tag.run = number), note,
           machine, max(1, coalesce(json_array_length(header, '$.nodes'), 1))
    FROM run ORDER BY number";

impl Store {
    /// All runs with their machines, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let entry = |row: &Row<'_>| {
            let nodes = row.get::<_, i64>(13).map(|nodes| usize::try_from(nodes).unwrap_or(1))?;
            Ok(Entry { line: run_line(row)?, machine: row.get(12)?, nodes })
        };
        let entries = || -> rusqlite::Result<Vec<Entry>> {
            let mut statement = self.connection.prepare(ENTRIES)?;
            statement.query_map([], entry)?.collect()
        };
        entries().map_err(|e| self.failed(&e))
    }

    /// SHA-256 of all that is stored of a run's document, in hexadecimal: it changes when the run does.
    ///
    /// # Errors
    /// There is no such run, or the file cannot be read.
    pub fn digest(&self, run: &str) -> Result<String, StoreError> {
        let number = self.number(run)?;
        let mut digest = Sha256::new();
        // Each text with its length before it, so that no two runs make one text.
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        };
        let made = || -> rusqlite::Result<()> {
            self.connection.query_row(
                "SELECT header, state FROM run WHERE number = ?1",
                [number],
                |row| {
                    add(row.get_ref(0)?.as_str()?);
                    add(row.get_ref(1)?.as_str()?);
                    Ok(())
                },
            )?;
            const DOCUMENTS: &str = "SELECT document FROM measurement WHERE run = ?1 ORDER BY position";
            let mut statement = self.connection.prepare_cached(DOCUMENTS)?;
            let mut rows = statement.query([number])?;
            while let Some(row) = rows.next()? {
                add(row.get_ref(0)?.as_str()?);
            }
            Ok(())
        };
        let mut made = made;
        made().map_err(|e| self.failed(&e))?;
        Ok(format!("{:x}", digest.finalize()))
    }
}
