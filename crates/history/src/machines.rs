//! Runs on many machines: what each of them measured is entered when it ends.

use rusqlite::{TransactionBehavior, params};

use super::{Store, StoreError, insert_all};
use crate::document::Run;
use crate::measurement::Measurement;

impl Store {
    /// Enters what one machine of a run has measured, instead of what the run has of it already, and the header with that machine, in
    /// one transaction. The run goes on.
    ///
    /// # Errors
    /// The file cannot be written, or the run was not started.
    pub fn add_machine(
        &mut self,
        header: &Run,
        machine: &str,
        measured: &[Measurement],
    ) -> Result<(), StoreError> {
        const OLD: &str =
            "SELECT position FROM measurement WHERE run = ?1 AND json_extract(document, '$.node') = ?2";
        let number = self.number(&header.id)?;
        let text = self.header(header)?;
        let file = self.file.clone();
        let added = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|t| {
            t.execute(
                "UPDATE run SET header = ?2, elapsed_s = ?3 WHERE number = ?1",
                params![number, text, header.elapsed_s],
            )?;
            t.execute(
                &format!("DELETE FROM point WHERE run = ?1 AND position IN ({OLD})"),
                params![number, machine],
            )?;
            t.execute(
                &format!("DELETE FROM measurement WHERE run = ?1 AND position IN ({OLD})"),
                params![number, machine],
            )?;
            let next = t.query_row(
                "SELECT coalesce(max(position) + 1, 0) FROM measurement WHERE run = ?1",
                [number],
                |row| row.get::<_, i64>(0),
            )?;
            insert_all(&t, number, usize::try_from(next).unwrap_or(0), measured)?;
            t.commit()
        });
        added.map_err(|e| StoreError::sqlite(&file, &e))
    }
}
