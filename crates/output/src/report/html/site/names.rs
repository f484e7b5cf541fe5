//! The names of a site's files. They are made from hashes alone, so that no text of a run or a machine is in a path.

use sha2::{Digest, Sha256};

/// The first page.
pub const INDEX: &str = "index.html";
/// Directory of the pages of runs.
pub(super) const RUN_PAGES_DIRECTORY: &str = "run";
/// Directory of the pages of machines.
pub(super) const MACHINES: &str = "machine";
/// Hexadecimal digits of a name.
const NAME_DIGITS: usize = 16;
/// What the library of charts is called, before and after its digits.
const LIBRARY: [&str; 2] = ["echarts-", ".js"];

fn hash(kind: &str, texts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for text in [&[kind], texts].concat() {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    format!("{:x}", digest.finalize()).chars().take(NAME_DIGITS).collect()
}

/// The page of a run: `run/HASH.html`.
pub fn run(id: &str) -> String {
    format!("{RUN_PAGES_DIRECTORY}/{}.html", hash("run", &[id]))
}

/// The page of a machine: `machine/HASH.html`. `twin` tells apart machines of one fingerprint. The name of the machine is
/// not in it: a short name could be guessed from its hash.
pub fn machine(fingerprint: &str, twin: usize) -> String {
    format!("{MACHINES}/{}.html", hash("machine", &[fingerprint, &twin.to_string()]))
}

/// The file with a library of this text.
pub(super) fn library(text: &str) -> String {
    format!("{}{}{}", LIBRARY[0], hash("library", &[text]), LIBRARY[1])
}

/// Whether a file of a site may have this name. Nothing else is written or removed.
pub(super) fn is_ours(name: &str) -> bool {
    let digits = |text: &str| {
        text.len() == NAME_DIGITS && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let page = |directory: &str| {
        let rest = name.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
        rest.and_then(|rest| rest.strip_suffix(".html")).is_some_and(digits)
    };
    let library = name.strip_prefix(LIBRARY[0]).and_then(|rest| rest.strip_suffix(LIBRARY[1]));
    name == INDEX || page(RUN_PAGES_DIRECTORY) || page(MACHINES) || library.is_some_and(digits)
}
