//! Files for reference tools that write: a second file or part of the device, filled like the
//! first, because a tool's data would look like a device fault. Without room, the tool writes to
//! the case's own file, which is refilled after each of its samples, with a warning.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::backing::{TestFile, check_dir};
use crate::display::human;
use crate::load::TestData;
use crate::storage::file::{SecondFile, TOOL_FILE_KEY};
use crate::storage::{CHUNK, Filled, refill};
use crate::warning::DiskWarning;
use plimsoll_bench_api::{Context, RequestedSize};
use plimsoll_model::sample::{CannotMeasure, Writable};

pub(crate) struct ToolFiles {
    own: Arc<TestFile>,
    /// Bytes of the file that the case uses.
    bytes: u64,
    /// Filled bytes of the file.
    all: u64,
    seed: u64,
    shelf: SecondFile,
    /// Reason why a tool has the case's own file: lack of room.
    shared: Option<String>,
    /// Samples of tools in the case's own file: each refill must differ.
    turns: u64,
}

impl ToolFiles {
    /// Prepares to provide tools with files like the first `bytes` of `filled`, the case's file.
    pub(crate) fn new(cx: &Context<'_>, filled: &Filled, bytes: u64) -> Self {
        let shelf = cx.keep.take::<SecondFile>(TOOL_FILE_KEY).unwrap_or_default();
        cx.keep.put(TOOL_FILE_KEY, Rc::clone(&shelf));
        let own = Arc::clone(&filled.file);
        ToolFiles { own, bytes, all: filled.bytes, seed: cx.options.seed, shelf, shared: None, turns: 0 }
    }

    /// Returns a filled file, or part of the device, for a reference tool to write. Takes at most
    /// half of the time until `until`, because the case needs the rest; fails if that is too short.
    pub(crate) fn provide_file(&mut self, until: Option<Instant>) -> Result<Writable, String> {
        let now = Instant::now();
        let until = until.map(|until| now + until.saturating_duration_since(now) / 2);
        let second = if self.own.is_device() { self.second_part(until) } else { self.second_file(until) };
        let second = second?;
        self.shared = second.as_ref().err().cloned();
        Ok(second.unwrap_or_else(|_| Writable { file: self.own.proc_path(), offset: 0, bytes: self.bytes }))
    }

    /// Fills a second part of the device for a tool. Inner error: no room; outer error: a failure.
    fn second_part(&self, until: Option<Instant>) -> Result<Result<Writable, String>, String> {
        let whole = self.bytes.next_multiple_of(CHUNK as u64);
        let has = self.own.facts.available;
        if has < whole.saturating_mul(2) {
            return Ok(Err(format!("the device has {}, not twice {}", human(has), human(self.bytes))));
        }
        refill(&self.own, whole, whole, until, &mut TestData::new(self.seed, "lent")).map_err(cannot)?;
        Ok(Ok(Writable { file: self.own.proc_path(), offset: whole, bytes: self.bytes }))
    }

    /// Returns a second file, filled, for a tool. Inner error: no room for one; outer: a failure.
    fn second_file(&self, until: Option<Instant>) -> Result<Result<Writable, String>, String> {
        let kept = self.shelf.borrow_mut().take().filter(|(_, bytes)| *bytes == self.bytes);
        let (file, bytes) = match kept {
            Some(kept) => kept,
            None => {
                if self.own.facts.is_in_memory() {
                    return Ok(Err("the test file is in memory".to_owned()));
                }
                let facts = check_dir(&self.own.facts.path).map_err(|e| e.reason)?;
                if let Err(no_space) = facts.file_size(RequestedSize::Exactly(self.bytes)) {
                    return Ok(Err(no_space.reason));
                }
                let file = Arc::new(TestFile::create(&facts, self.own.cache).map_err(|e| e.reason)?);
                refill(&file, 0, self.bytes, until, &mut TestData::new(self.seed, "lent")).map_err(cannot)?;
                (file, self.bytes)
            }
        };
        let place = Writable { file: file.proc_path(), offset: 0, bytes: self.bytes };
        *self.shelf.borrow_mut() = Some((file, bytes));
        Ok(Ok(place))
    }

    /// Refills the case's own file if a tool wrote to it; fails if not done before `until`.
    pub(crate) fn take_back(&mut self, until: Option<Instant>) -> Result<(), CannotMeasure> {
        if !self.shares_case_file() {
            return Ok(());
        }
        self.turns += 1;
        let mut noise = TestData::new(self.seed, &format!("fill after turn {}", self.turns));
        let mut whole = self.all.next_multiple_of(CHUNK as u64);
        if self.own.is_device() {
            let has = self.own.facts.available;
            whole = whole.min(has - has % CHUNK as u64);
        }
        refill(&self.own, 0, whole, until, &mut noise)
    }

    pub(crate) fn shares_case_file(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn warning(&self) -> Option<DiskWarning> {
        self.shared.clone().map(|why| DiskWarning::SharedWithTool { why })
    }
}

fn cannot(error: CannotMeasure) -> String {
    format!("its file cannot be made: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backing::fixture::test_file;
    use plimsoll_model::sample::FailureCause;

    #[test]
    fn a_budget_that_is_over_ends_lending_and_filling_anew() {
        let (own, _dir) = test_file(0);
        let bytes = 4 * CHUNK as u64;
        let shelf = SecondFile::default();
        let mut tool_files = ToolFiles { own, bytes, all: bytes, seed: 1, shelf, shared: None, turns: 0 };
        let over = Some(Instant::now());
        if !tool_files.own.facts.is_in_memory() {
            let why = tool_files.provide_file(over).expect_err("no time");
            assert!(why.contains("the budget ended"), "{why}");
        }
        tool_files.shared = Some(String::new());
        assert!(tool_files.take_back(over).is_err_and(|why| why.cause == FailureCause::OutOfTime));
        assert!(tool_files.take_back(None).is_ok());
    }
}
