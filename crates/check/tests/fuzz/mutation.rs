//! Mutations of inputs, for the fuzz targets as plain tests.

use std::path::Path;

/// Returns the files of folders of this package, in the order of their paths.
pub(crate) fn corpus(folders: &[&str]) -> Vec<Vec<u8>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(package.join(folder)).unwrap());
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Calls `target` with each input, and with `tries` mutations; `random` draws any number.
pub(crate) fn drive(
    corpus: &[Vec<u8>],
    words: &[&str],
    tries: usize,
    mut random: impl FnMut() -> u64,
    target: fn(&[u8]),
) {
    corpus.iter().for_each(|bytes| target(bytes));
    let mut below = |n: usize| (random() % n.max(1) as u64) as usize;
    (0..tries).for_each(|_| target(&changed(corpus, words, &mut below)));
}

/// Mutates an input: a byte, a piece removed or doubled, a word put in or in the place of a number,
/// another input's tail. `below` draws a number below its argument.
fn changed(corpus: &[Vec<u8>], words: &[&str], below: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
    let mut bytes = corpus[below(corpus.len())].clone();
    for _ in 0..=below(6) {
        let at = below(bytes.len() + 1);
        let end = (at + 1 + below(64)).min(bytes.len());
        match below(7) {
            0 if at < bytes.len() => bytes[at] = below(256) as u8,
            1 => drop(bytes.drain(at..end.max(at))),
            2 => {
                let piece = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => {
                let other = &corpus[below(corpus.len())];
                let from = below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            4 => drop(bytes.splice(at..at, words[below(words.len())].bytes())),
            5 => {
                let from = bytes[at..].iter().position(u8::is_ascii_digit).map_or(bytes.len(), |n| at + n);
                let is_of_it = |b: &u8| b.is_ascii_digit() || *b == b'.';
                let length = bytes[from..].iter().take_while(|b| is_of_it(b)).count();
                bytes.splice(from..from + length, words[below(words.len())].bytes());
            }
            _ => bytes.insert(at, below(256) as u8),
        }
    }
    bytes
}
