//! fio's engines for the names of files: filecreate, filestat, filedelete.

use super::report::FioJobReport;
use crate::tools::prelude::*;
use plimsoll_model::job::os::{CaseWord, FileOperation, shares_directory};

/// Files of each thread, one operation each: some 0.1 s on an average file system.
const FILES: usize = 2000;
const BLOCK_BYTES: u64 = 4096;

/// Engine, and how its operation corresponds to plimsoll's.
type NamesEngine = (&'static str, Match, &'static str);

fn engine(case: &Case) -> Option<NamesEngine> {
    let is_alone = case.threads() == 1 || shares_directory(case);
    match FileOperation::of(case).filter(|_| is_alone)? {
        FileOperation::Create => Some(("filecreate", Match::Related, "open(2) without the close")),
        FileOperation::Stat => {
            Some(("filestat", Match::Exact, "the same call, each between two readings of a clock"))
        }
        FileOperation::Unlink => Some(("filedelete", Match::Related, "its files have a byte each")),
        _ => None,
    }
}

pub(super) fn pairing(case: &Case) -> Option<Pairing> {
    let (_, definition, note) = engine(case)?;
    has_only_parameters(case, "op layout threads").then_some(())?;
    Some(Pairing::new("latency", definition, note, 1.0))
}

/// Returns the fio call for the case of `ask`: one operation, such as stat, on each of many files.
pub(super) fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let (name, ..) = engine(&ask.case).ok_or("it has no such operation")?;
    let threads = ask.case.threads();
    let files = "--name=plimsoll --filesize=1 --bs=1 --openfiles=1 --unlink=1";
    let report = "--group_reporting --thread --output-format=json";
    let line = format!("{files} {report} --ioengine={name} --numjobs={threads} --nrfiles={FILES}");
    let disk_bytes = (FILES * threads) as u64 * BLOCK_BYTES;
    Ok(Invocation { disk_bytes, ..ask.call(words(&line)) })
}

pub(super) fn figure(job: &FioJobReport) -> Result<ToolFigure, String> {
    let mean = job.read.clat_ns.as_ref().and_then(|times| times.mean).ok_or("its JSON has no latency")?;
    let account = Account::of(job.read.transfers(), Seconds::OF_ITS_LIFE);
    ToolFigure::of(mean * 1e-9, account)
}

#[cfg(test)]
mod tests {
    use super::super::{FIO, parse};
    use crate::tools::golden;

    #[test]
    fn each_file_has_one_operation() {
        let id = "os.file/op=stat/layout=shared/threads=2";
        let arguments = golden::invoked(&FIO, id, false).arguments;
        for wanted in ["--ioengine=filestat", "--numjobs=2", "--nrfiles=2000", "--unlink=1"] {
            assert!(arguments.iter().any(|argument| argument == wanted), "{arguments:?}");
        }
        let out = r#"{"jobs":[{"error":0,"read":{"total_ios":4000,"clat_ns":{"mean":1468.25}},"write":{}}]}"#;
        let figure = parse(&id.parse().unwrap(), out).unwrap();
        assert_eq!(figure.value, 1468.25e-9);
    }

    #[test]
    fn several_directories_and_other_operations_have_no_counterpart() {
        for id in ["op=stat/layout=private/threads=2", "op=rename/layout=private/threads=1"] {
            assert!(super::pairing(&format!("os.file/{id}").parse().unwrap()).is_none(), "{id}");
        }
        let alone = super::pairing(&"os.file/op=unlink/layout=private/threads=1".parse().unwrap());
        assert_eq!(alone.unwrap().metric, "latency");
    }
}
