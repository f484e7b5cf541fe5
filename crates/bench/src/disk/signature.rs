//! What a block device holds, by the marks that file systems, partition tables and volume managers leave on it.
//!
//! A device that bears any of them is not written to. `marks` is a table of bytes at places, `layouts` looks closer where
//! a few bytes alone would be found in noise. Both are from the on-disk formats themselves (each format's documentation, or
//! its header in the Linux source) and hold all that blkid(8) knows; a test compares with it. What is asked: whether
//! there may be somebody's data. So a checksum need not be right, and a format need not be whole.

mod layouts;
mod marks;

use marks::{MARKS, Place};

/// Bytes at the beginning that bear marks: the last is the copy of a LUKS2 header at 4 MiB.
pub const HEAD: usize = (4 << 20) + 4096;

/// Bytes at the end that bear marks: Promise's RAID may be 3087 sectors before it.
pub const TAIL: usize = 2 << 20;

/// What the device holds, by the first [`HEAD`] bytes and the last [`TAIL`] bytes of `size` (or all there are).
pub fn found(head: &[u8], tail: &[u8], size: u64) -> Option<&'static str> {
    let image = Image { head, tail, size };
    let bears = |places: &[Place], marks: &[&[u8]]| {
        let bytes = places.iter().filter_map(|place| Some(image.from(place.of(size)?)));
        bytes.into_iter().any(|bytes| marks.iter().any(|mark| bytes.starts_with(mark)))
    };
    let named = MARKS.iter().find(|(_, places, marks)| bears(places, marks)).map(|(name, ..)| *name);
    named.or_else(|| layouts::LAYOUTS.iter().find(|(_, is_it)| is_it(&image)).map(|(name, _)| *name))
}

/// The ends of a device.
struct Image<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    size: u64,
}

impl<'a> Image<'a> {
    /// What begins at this place; nothing where that is in neither end.
    fn from(&self, place: u64) -> &'a [u8] {
        let at =
            |bytes: &'a [u8], place: u64| usize::try_from(place).ok().and_then(|place| bytes.get(place..));
        let start = self.size.saturating_sub(self.tail.len() as u64);
        let head = at(self.head, place).filter(|rest| !rest.is_empty());
        head.or_else(|| at(self.tail, place.checked_sub(start)?)).unwrap_or_default()
    }

    /// The `N` bytes at a place, if they are all there.
    fn bytes<const N: usize>(&self, place: u64) -> Option<[u8; N]> {
        self.from(place).first_chunk().copied()
    }

    /// The last whole unit before the end, and `back` bytes before that.
    fn back(&self, unit: u64, back: u64) -> Option<u64> {
        Place::Back { unit, back, plus: 0 }.of(self.size)
    }
}

#[cfg(test)]
mod tests;
