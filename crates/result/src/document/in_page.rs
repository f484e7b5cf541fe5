//! Run documents embedded in an HTML page, one per element: gzip-compressed JSON in base64.

use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::Run;

/// Tags around an embedded document; other text of the page has escaped angle brackets.
pub const IN_PAGE: [&str; 2] = ["<script type=\"application/gzip\" class=\"run\">", "</script>"];

impl Run {
    /// Encodes the document for a page (gzip, base64); `None` if the text is longer than `most`
    /// bytes. Fails if a number cannot be represented in JSON.
    pub fn packed(&self, most: usize) -> serde_json::Result<Option<String>> {
        let room = io::Cursor::new(vec![0_u8; most / 4 * 3].into_boxed_slice());
        let mut packer = GzEncoder::new(room, Compression::default());
        match self.write_json(&mut packer) {
            Err(full) if full.is_io() => return Ok(None),
            written => written?,
        }
        Ok(packer.finish().ok().map(|room| STANDARD.encode(&room.get_ref()[..room.position() as usize])))
    }
}

/// Returns the JSON documents embedded in the HTML `page`. Fails, with one line, if one cannot be
/// decoded or if they have more than `most` bytes in total.
pub(super) fn embedded_documents(page: &str, most: u64) -> Result<Vec<String>, String> {
    let mut left = most;
    let mut found = Vec::new();
    for rest in page.split(IN_PAGE[0]).skip(1) {
        let text = rest.split_once(IN_PAGE[1]).map_or(rest, |(text, _)| text);
        let document = unpacked(text, left)?;
        left = left
            .checked_sub(document.len() as u64)
            .ok_or_else(|| format!("its documents are larger than {} MiB together", most >> 20))?;
        found.push(document);
    }
    Ok(found)
}

fn unpacked(text: &str, most: u64) -> Result<String, String> {
    let broken =
        |why: String| format!("a run document of this page cannot be unpacked ({why}): save the page again");
    let packed = STANDARD.decode(text.trim()).map_err(|e| broken(e.to_string()))?;
    let mut document = String::new();
    // One byte more reveals that the limit is exceeded.
    let unpacking = GzDecoder::new(packed.as_slice()).take(most.saturating_add(1));
    io::BufReader::new(unpacking).read_to_string(&mut document).map_err(|e| broken(e.to_string()))?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::fixture;

    fn page(documents: &[&str]) -> String {
        let one = |document: &&str| format!("<p>text</p>{}{document}{}", IN_PAGE[0], IN_PAGE[1]);
        documents.iter().map(one).collect()
    }

    #[test]
    fn a_document_comes_back_byte_by_byte_where_it_has_room() {
        let run = fixture::run();
        let text = serde_json::to_string(&run).unwrap();
        let packed = run.packed(1 << 20).unwrap().unwrap();
        assert!(packed.len() * 2 < text.len(), "{} of {}", packed.len(), text.len());
        assert!(!packed.contains(['<', '>', '&']));
        assert_eq!(embedded_documents(&page(&[&packed, &packed]), 1 << 24).unwrap(), [text.clone(), text]);
        assert_eq!(run.packed(packed.len() - 8).unwrap(), None);
        assert_eq!(run.packed(packed.len() + 4).unwrap().as_deref(), Some(packed.as_str()));
    }

    #[test]
    fn what_is_broken_or_grows_without_bound_is_told_in_a_line() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&vec![b' '; 8 << 20]).unwrap();
        let bomb = STANDARD.encode(packer.finish().unwrap());
        let reported = |document: &str| embedded_documents(&page(&[document]), 1 << 20).unwrap_err();
        assert_eq!(reported(&bomb), "its documents are larger than 1 MiB together");
        let small = fixture::run().packed(1 << 20).unwrap().unwrap();
        for broken in ["{}", "AAAA", "", &small[..small.len() / 2 / 4 * 4], &small[..101]] {
            let line = reported(broken);
            assert!(line.contains("cannot be unpacked") && !line.contains('\n'), "{line}");
        }
    }
}
