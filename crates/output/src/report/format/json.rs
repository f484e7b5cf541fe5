//! JSON documents of runs and comparisons.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use plimsoll_compare::{Comparison, RequirementResult};
use plimsoll_result::document::Run;
use plimsoll_system::leftover::Registry;
use rustix::fs::OFlags;
use serde::Serialize;

use super::{Format, Sides};

pub(super) static FORMAT: Format = Format {
    name: "json",
    about: "the whole document as JSON, as its schema defines it",
    extension: "json",
    run: Some(|of| {
        let mut text = Vec::new();
        write(of.run, &mut text)?;
        String::from_utf8(text).map_err(io::Error::other)
    }),
    comparison: Some(comparison),
    ..Format::NONE
};

/// Writes the run document as indented JSON with a final newline. Fails if writing fails.
pub fn write(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, run)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn comparison(of: &Sides<'_>) -> io::Result<String> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        #[serde(flatten)]
        comparison: &'a Comparison,
        requirements: &'a [RequirementResult],
    }
    let document =
        Document { schema: "plimsoll.comparison/1", comparison: of.comparison, requirements: of.held };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Writes the run document to a new private file in `directory`; `registry` lists it until it is
/// complete. Returns its printable path. Fails if it cannot be created or written.
pub fn spool(run: &Run, directory: &Path, registry: &Registry) -> io::Result<String> {
    let id = plimsoll_units::text::shown_within(&run.id, 40).replace('/', "");
    let file = directory.join(format!("plimsoll-{id}.json"));
    // Mode 0600; complete or absent.
    let made = registry.file_in(directory, 0o600, OFlags::empty())?;
    write(run, &mut made.file())?;
    // If syncing fails, a copy that a power failure may destroy is still better than none.
    let _ = made.file().sync_all();
    made.finish(&file)?;
    Ok(plimsoll_units::text::shown_path(&file))
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn the_document_reads_like_this() {
        let mut made = fixture::cpu("f64", 2, 117.4e9, 118.0e9);
        let latency = plimsoll_units::quantity::Unit::Second;
        made.metrics.push(fixture::metric_of("latency", latency, vec![1e-6, 2e-6]));
        let made = made.distributed(1e-6);
        let mut text = Vec::new();
        write(&fixture::run_of(vec![made]), &mut text).unwrap();
        let mut document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        document["machine"] = "…".into();
        for list in ["samples", "series"] {
            document["measurements"][0]["metrics"][0][list].as_array_mut().unwrap().truncate(2);
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }
}
