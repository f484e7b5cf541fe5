//! Where a run goes: the table, the event lines, the run document, the history.
//!
//! Each consumes the same events and the same document; none of them can disturb the run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::cli::Common;
use crate::document::Run;
use crate::event::Event;

/// All outputs of one run.
pub struct Outputs {
    json: Option<PathBuf>,
    events: Option<Box<dyn Write>>,
}

impl Outputs {
    /// Opens all that was asked for, so that a wrong path is told before anything is measured.
    ///
    /// # Errors
    /// One line on what cannot be written.
    pub fn open(common: &Common) -> Result<Self, String> {
        let events: Option<Box<dyn Write>> = match common.events.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") => Some(Box::new(std::io::stdout())),
            Some(path) => {
                let file = File::create(path).map_err(|e| {
                    format!("--events {}: {e}", crate::text::shown_bytes(path.as_os_str().as_encoded_bytes()))
                })?;
                Some(Box::new(BufWriter::new(file)))
            }
        };
        Ok(Self { json: common.json.clone(), events })
    }

    /// The run begins.
    pub fn begin(&mut self, _: &Run) {}

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        if let Some(lines) = &mut self.events {
            let _ = serde_json::to_writer(&mut *lines, event).map(|()| lines.write_all(b"\n"));
            let _ = lines.flush();
        }
        if let Event::Measured { measurement } = event {
            let m = measurement.metrics.first();
            let _ = writeln!(
                std::io::stderr(),
                "{} {:?} {:?} {:?} of {:?} {:?}",
                measurement.case,
                measurement.status,
                measurement.reason,
                m.map(|m| m.summary.median),
                m.and_then(|m| m.of_limit),
                measurement.warnings
            );
        }
    }

    /// The run is over. Whether all of it was kept where it was to be kept.
    pub fn finish(&mut self, run: &Run) -> bool {
        if let Some(path) = &self.json {
            let text = serde_json::to_vec_pretty(run).unwrap_or_default();
            return if path == Path::new("-") {
                std::io::stdout().write_all(&text).is_ok()
            } else {
                std::fs::write(path, text).is_ok()
            };
        }
        true
    }
}
