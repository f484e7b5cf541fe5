//! File names of a site, made from hashes only: no text of a run or machine is in a path.

use sha2::{Digest, Sha256};

/// Name of the index page.
pub const INDEX: &str = "index.html";
pub(super) const RUN_PAGES_DIRECTORY: &str = "run";
pub(super) const MACHINES: &str = "machine";
const NAME_DIGITS: usize = 16;
const LIBRARY: [&str; 2] = ["echarts-", ".js"];

fn hash(kind: &str, texts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for text in [&[kind], texts].concat() {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    format!("{:x}", digest.finalize()).chars().take(NAME_DIGITS).collect()
}

/// Returns the file name of the page of the run `id`: `run/HASH.html`.
pub fn run(id: &str) -> String {
    format!("{RUN_PAGES_DIRECTORY}/{}.html", hash("run", &[id]))
}

/// Returns the file name of a machine's page, `machine/HASH.html`; `twin` numbers machines with the
/// same fingerprint. The host name is not hashed: a short one could be guessed from its hash.
pub fn machine(fingerprint: &str, twin: usize) -> String {
    format!("{MACHINES}/{}.html", hash("machine", &[fingerprint, &twin.to_string()]))
}

pub(super) fn library(text: &str) -> String {
    format!("{}{}{}", LIBRARY[0], hash("library", &[text]), LIBRARY[1])
}

/// Returns whether `name` is the relative path of an index, a page or a script of a site.
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
