//! `plimsoll hosted`: the run of a machine that another plimsoll reached by ssh. Its order comes on stdin, whose end ends the run; what it
//! measured goes to stdout.

use std::fs;
use std::io::{BufRead, Read};
use std::path::Path;
use std::process::ExitCode;

use super::{Failure, printed};
use crate::cli::{self, Common, Typed, What};
use crate::cluster::ssh::{Ended, Order, ending, hello, own_digest};
use crate::wire::Key;

/// Largest order: a plan, limits and a key.
const LARGEST: u64 = 4 << 20;
/// The document on its way.
const DOCUMENT: &str = "run.json";

/// Measures as it is told to.
///
/// # Errors
/// The order cannot be read, or stdout cannot be written.
pub(super) fn measure(directory: &Path) -> Result<ExitCode, Failure> {
    let own = super::own_program()?;
    let digest = own_digest(&own)
        .map_err(|e| Failure::environment(format!("cannot read plimsoll's own file: {e}")))?;
    printed(&hello(digest))?;
    let order = ordered()?;
    std::thread::Builder::new()
        .name("ssh".to_owned())
        .spawn(ended_with_stdin)
        .map_err(|e| Failure::environment(format!("cannot start a thread: {e}")))?;
    let file = directory.join(DOCUMENT);
    let ended = match carried_out(order, directory, &file) {
        Ok(code) => Ended { code, line: None },
        Err(failure) => Ended { code: failure.code, line: Some(failure.line) },
    };
    let document = fs::read_to_string(&file).ok();
    printed(&ending(document.map(|json| on_one_line(&json)).as_deref(), &ended))?;
    Ok(ExitCode::from(ended.code))
}

/// The same JSON without the line ends between its values; within them there is none.
fn on_one_line(json: &str) -> String {
    json.lines().map(str::trim_start).collect()
}

fn ordered() -> Result<Order, Failure> {
    let wrong =
        |why: String| Failure::usage(format!("plimsoll hosted is run by plimsoll run --hosts: {why}"));
    let mut line = String::new();
    let mut stdin = std::io::stdin().lock().take(LARGEST);
    stdin.read_line(&mut line).map_err(|e| wrong(e.to_string()))?;
    serde_json::from_str(&line).map_err(|e| wrong(crate::text::shown(&e.to_string())))
}

/// Ends the run with the connection, as a signal would.
fn ended_with_stdin() {
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
}

/// Measures, the document into `file`.
fn carried_out(order: Order, directory: &Path, file: &Path) -> Result<u8, Failure> {
    let words = ["plimsoll", "run"].map(str::to_owned).into_iter().chain(order.words).map(Into::into);
    let typed = cli::parse(super::command(), words).map_err(|e| Failure::usage(cli::one_line(&e)))?;
    let Typed::Measure { what, common, .. } = typed else {
        return Err(Failure::usage("the order is not a run"));
    };
    let what = match order.plan {
        Some((name, text)) => What::Text { name, text },
        None => what,
    };
    let mut common = Common {
        json: Some(file.to_owned()),
        events: Some("-".into()),
        store: Some("none".into()),
        quiet: true,
        ..*common
    };
    if let Some(text) = order.files.get("limits") {
        let limits = directory.join("limits.toml");
        fs::write(&limits, text)
            .map_err(|e| Failure::environment(format!("cannot write {}: {e}", limits.display())))?;
        common.limits = Some(limits);
    }
    let key = order.files.get("key").map(|text| Key::from_hex(text.trim(), "--key"));
    let key = key.transpose().map_err(|e| Failure::usage(e.to_string()))?;
    super::alone(&what, &common, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::fixture;

    #[test]
    fn a_document_is_the_same_on_one_line() {
        let pretty = serde_json::to_string_pretty(&fixture::run()).unwrap();
        let line = on_one_line(&pretty);
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert!(!line.contains('\n') && value(&line) == value(&pretty));
    }
}
