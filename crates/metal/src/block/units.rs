//! Blocks of 1, 2, 4 or 8 bytes: one load or store of that width per block. Accesses are volatile,
//! so that the compiler does not merge, widen or omit them; a test counts them.

use std::ptr;

const TURN: usize = 16;
/// Blocks per iteration with an index each: with more, the compiler spills indices to the stack.
const TURN_AT: usize = 8;
const SUMS: usize = 4;

pub(super) trait BlockUnit: Copy + Into<u64> {
    fn of(word: u64) -> Self;
}

macro_rules! unit {
    ($($number:ty),*) => {
        $(impl BlockUnit for $number {
            #[inline(always)]
            fn of(word: u64) -> Self {
                word as $number
            }
        })*
    };
}
unit!(u8, u16, u32, u64);

pub(super) fn units_of<T: BlockUnit>(bytes: &[u8], length: usize) -> &[T] {
    // SAFETY: every bit pattern is valid for such an integer.
    let (_, units, _) = unsafe { bytes.align_to::<T>() };
    &units[..length]
}

pub(super) fn units_of_mut<T: BlockUnit>(bytes: &mut [u8], length: usize) -> &mut [T] {
    // SAFETY: every bit pattern is valid for such an integer, before and after a write.
    let (_, units, _) = unsafe { bytes.align_to_mut::<T>() };
    &mut units[..length]
}

#[inline(always)]
fn load<T: BlockUnit>(unit: &T) -> T {
    // SAFETY: a reference can be read from.
    unsafe { ptr::from_ref(unit).read_volatile() }
}

#[inline(always)]
fn store<T: BlockUnit>(unit: &mut T, value: T) {
    // SAFETY: an exclusive reference can be written to, and an integer needs no drop.
    unsafe { ptr::from_mut(unit).write_volatile(value) }
}

#[inline(never)]
pub(super) fn block_read<T: BlockUnit>(source: &[T]) -> u64 {
    let mut sums = [0_u64; SUMS];
    let (turns, rest) = source.as_chunks::<TURN>();
    for turn in turns {
        for four in turn.as_chunks::<SUMS>().0 {
            for (sum, unit) in sums.iter_mut().zip(four) {
                *sum = sum.wrapping_add(load(unit).into());
            }
        }
    }
    let rest = rest.iter().fold(0_u64, |sum, unit| sum.wrapping_add(load(unit).into()));
    sums.into_iter().fold(rest, u64::wrapping_add)
}

#[inline(never)]
pub(super) fn block_write<T: BlockUnit>(target: &mut [T], value: T) {
    let (turns, rest) = target.as_chunks_mut::<TURN>();
    turns.iter_mut().flatten().for_each(|unit| store(unit, value));
    rest.iter_mut().for_each(|unit| store(unit, value));
}

#[inline(never)]
pub(super) fn block_copy<T: BlockUnit>(source: &[T], target: &mut [T]) {
    let (from, from_rest) = source.as_chunks::<TURN>();
    let (to, to_rest) = target.as_chunks_mut::<TURN>();
    for (from, to) in from.iter().zip(to) {
        from.iter().zip(to).for_each(|(from, to)| store(to, load(from)));
    }
    from_rest.iter().zip(to_rest).for_each(|(from, to)| store(to, load(from)));
}

/// Returns the wrapping sum of `source` at the indices `places`. Safety: all are below its length.
#[inline(never)]
pub(super) unsafe fn block_read_at<T: BlockUnit>(source: &[T], places: &[u64]) -> u64 {
    let mut sums = [0_u64; SUMS];
    // SAFETY: granted by the caller.
    let at = |place: &u64| load(unsafe { source.get_unchecked(*place as usize) }).into();
    let (turns, rest) = places.as_chunks::<TURN_AT>();
    for turn in turns {
        for four in turn.as_chunks::<SUMS>().0 {
            for (sum, place) in sums.iter_mut().zip(four) {
                *sum = sum.wrapping_add(at(place));
            }
        }
    }
    let rest = rest.iter().fold(0_u64, |sum, place| sum.wrapping_add(at(place)));
    sums.into_iter().fold(rest, u64::wrapping_add)
}

/// Stores `value` in `target` at the indices `places`. Safety: all are below its length.
#[inline(never)]
pub(super) unsafe fn block_write_at<T: BlockUnit>(target: &mut [T], places: &[u64], value: T) {
    // SAFETY: granted by the caller.
    let mut at = |place: &u64| store(unsafe { target.get_unchecked_mut(*place as usize) }, value);
    let (turns, rest) = places.as_chunks::<TURN_AT>();
    turns.iter().flatten().for_each(&mut at);
    rest.iter().for_each(&mut at);
}

/// Copies `source` to `target` at the indices `places`. Safety: all are below both lengths.
#[inline(never)]
pub(super) unsafe fn block_copy_at<T: BlockUnit>(source: &[T], target: &mut [T], places: &[u64]) {
    let mut at = |place: &u64| {
        // SAFETY: granted by the caller.
        let value = load(unsafe { source.get_unchecked(*place as usize) });
        // SAFETY: granted by the caller.
        store(unsafe { target.get_unchecked_mut(*place as usize) }, value);
    };
    let (turns, rest) = places.as_chunks::<TURN_AT>();
    turns.iter().flatten().for_each(&mut at);
    rest.iter().for_each(&mut at);
}
