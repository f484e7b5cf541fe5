//! Memory modules from `/sys/firmware/dmi/tables/DMI`, structures of type 17 (SMBIOS specification
//! DSP0134, 3.7, section 7.18), which only root may read and hypervisors omit or invent.

use super::Survey;
use super::root::garbled;
use plimsoll_units::text::shown;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub(super) const SMBIOS_TABLE: &str = "sys/firmware/dmi/tables/DMI";
const TABLE_CAP: u64 = 1 << 20;
const MAX_MODULES: usize = 1024;

pub(crate) const MEMORY_DEVICE: u8 = 17;
pub(crate) const END: u8 = 127;

/// A slot with a memory module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The firmware's name of the slot.
    pub slot: String,
    /// Channel, by a name unique in the machine, if the slot's name contains it.
    pub channel: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Data width in bits, without error correction.
    pub width_bits: Option<u32>,
    /// Configured rate in MT/s.
    pub megatransfers: Option<u32>,
}

pub(super) fn modules(s: &mut Survey) -> Option<Vec<Module>> {
    let found = s.root.bytes(Path::new(SMBIOS_TABLE), TABLE_CAP).and_then(|table| {
        let text = format!("{} bytes", table.len());
        let none = || garbled(SMBIOS_TABLE, &text, "a memory device with a module in it");
        Some(parse(&table)).filter(|modules| !modules.is_empty()).ok_or_else(none)
    });
    s.keep("memory.modules", found)
}

/// One structure of the table: its formatted area including the header, and its strings.
struct Structure<'a> {
    fields: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Structure<'a> {
    fn split(table: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = usize::from(*table.get(1)?);
        let fields = table.get(..length).filter(|fields| fields.len() >= 4)?;
        let rest = table.get(length..)?;
        // Each string ends with a zero and the list with one more; no strings are two zeros.
        let end = rest.windows(2).position(|pair| pair == [0, 0])?;
        Some((Self { fields, strings: rest.get(..end)? }, rest.get(end + 2..)?))
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.fields.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.fields.get(at..at + 2)?.try_into().ok()?))
    }

    fn double(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.fields.get(at..at + 4)?.try_into().ok()?))
    }

    /// Returns the string whose number (from 1) is at byte `at`; empty if there is none.
    fn string(&self, at: usize) -> String {
        let number = self.byte(at).map_or(0, usize::from);
        let text = number.checked_sub(1).and_then(|index| self.strings.split(|byte| *byte == 0).nth(index));
        shown(String::from_utf8_lossy(text.unwrap_or_default()).trim())
    }
}

fn memory_devices(mut table: &[u8]) -> impl Iterator<Item = Structure<'_>> {
    let all = std::iter::from_fn(move || {
        let (structure, behind) = Structure::split(table)?;
        table = behind;
        Some(structure)
    });
    let all = all.take_while(|structure| structure.byte(0) != Some(END));
    all.filter(|structure| structure.byte(0) == Some(MEMORY_DEVICE))
}

pub(super) fn parse(table: &[u8]) -> Vec<Module> {
    memory_devices(table).filter_map(|structure| module(&structure)).take(MAX_MODULES).collect()
}

/// Reduces an SMBIOS table to memory devices; their strings, except slot and bank, become `-`.
pub(super) fn keep_memory_devices(table: &[u8]) -> Vec<u8> {
    const SLOT: usize = 0x10;
    const BANK: usize = 0x11;
    let mut kept = Vec::new();
    for structure in memory_devices(table) {
        let named = [SLOT, BANK].map(|at| structure.byte(at).map(usize::from));
        kept.extend_from_slice(structure.fields);
        for (text, number) in structure.strings.split(|byte| *byte == 0).zip(1..) {
            kept.extend_from_slice(if named.contains(&Some(number)) { text } else { b"-" });
            kept.push(0);
        }
        kept.push(0);
    }
    kept
}

fn module(structure: &Structure<'_>) -> Option<Module> {
    const EXTENDED: u16 = 0x7fff;
    const KIB: u16 = 0x8000;
    let size_bytes = match structure.word(0x0c)? {
        0 | 0xffff => return None,
        EXTENDED => u64::from(structure.double(0x1c)? & 0x7fff_ffff) << 20,
        kib if kib & KIB != 0 => u64::from(kib & !KIB) << 10,
        mib => u64::from(mib) << 20,
    };
    // 0 and 0xffff are unknown; the word is 0xffff if the extended field holds the number.
    let known = |word: Option<u16>| word.filter(|word| !matches!(word, 0 | 0xffff)).map(u32::from);
    let speed = known(structure.word(0x20)).or_else(|| {
        let extended = structure.double(0x58).filter(|_| structure.word(0x20) == Some(0xffff));
        extended.map(|speed| speed & 0x7fff_ffff)
    });
    // Some firmware gives the clock instead of the rate, half of it: too far below the rating.
    let speed = speed.filter(|speed| (100..=100_000).contains(speed));
    let speed = speed.filter(|speed| known(structure.word(0x15)).is_none_or(|made| speed * 20 > made * 11));
    let (slot, bank) = (structure.string(0x10), structure.string(0x11));
    Some(Module {
        channel: channel(&slot, &bank),
        slot,
        size_bytes,
        width_bits: known(structure.word(0x0a)).filter(|bits| (8..=1024).contains(bits)),
        megatransfers: speed,
    })
    .filter(|module| module.size_bytes > 0)
}

/// Returns the memory channel in the names of slot and bank: `P0 CHANNEL A` if so named,
/// `P1 CHANNEL A` for the slot `P1-DIMMA1`. `None` for other names: a letter alone may mean a slot.
fn channel(slot: &str, bank: &str) -> Option<String> {
    // Bank numbers differ between the slots of a channel.
    let bank = if bank.to_uppercase().starts_with("BANK") { "" } else { bank };
    let all = format!("{bank} {slot}").to_uppercase();
    if let Some((before, after)) = all.split_once("CHANNEL") {
        let after = after.trim_start_matches([' ', '_', '-', ':']);
        let name: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
        return (!name.is_empty()).then(|| format!("{before}CHANNEL {name}").trim().to_owned());
    }
    let slot = slot.to_uppercase();
    let mut parts = slot.split(|c: char| !c.is_ascii_alphanumeric());
    let socket = parts.find(|part| {
        let number = part.strip_prefix("CPU").or_else(|| part.strip_prefix('P')).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })?;
    let last = slot.split(|c: char| !c.is_ascii_alphanumeric()).next_back()?;
    let name = last.strip_prefix("DIMM").unwrap_or(last).as_bytes();
    let [letter @ b'A'..=b'Z', digits @ ..] = name else { return None };
    let is_known = slot.contains("DIMM") && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_known.then(|| format!("{socket} CHANNEL {}", char::from(*letter)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::table;
    use proptest::prelude::*;

    #[test]
    fn modules_are_read_and_empty_slots_are_not() {
        let slots = [
            ("DIMM 0", "P0 CHANNEL A", Some((64, 4800))),
            ("DIMM 1", "P0 CHANNEL A", None),
            ("DIMM 0", "P0 CHANNEL B", Some((16, 4800))),
        ];
        let modules = parse(&table(&slots));
        let sizes: Vec<u64> = modules.iter().map(|module| module.size_bytes >> 30).collect();
        assert_eq!(sizes, [64, 16]);
        let first = &modules[0];
        assert_eq!((first.slot.as_str(), first.channel.as_deref()), ("DIMM 0", Some("P0 CHANNEL A")));
        assert_eq!((first.width_bits, first.megatransfers), (Some(64), Some(4800)));
    }

    #[test]
    fn unknown_and_extended_numbers_are_told_apart() {
        let one = |change: fn(&mut Vec<u8>)| {
            let mut table = table(&[("DIMM 0", "BANK 0", Some((8, 3200)))]);
            let mut device = table.split_off(14);
            change(&mut device);
            table.extend(device);
            parse(&table)
        };
        assert_eq!(one(|_| {})[0].size_bytes, 8 << 30);
        let said = one(|d| d[0x0c..0x0e].copy_from_slice(&0x8200_u16.to_le_bytes()))[0].size_bytes;
        assert_eq!(said, 512 << 10);
        assert!(one(|d| d[0x0c..0x0e].copy_from_slice(&[0xff, 0xff])).is_empty(), "unknown size");
        assert_eq!(one(|d| d[0x20..0x22].copy_from_slice(&[0, 0]))[0].megatransfers, None);
        let fast = one(|d| {
            d[0x20..0x22].copy_from_slice(&[0xff, 0xff]);
            d[0x58..0x5c].copy_from_slice(&70_000_u32.to_le_bytes());
        });
        assert_eq!(fast[0].megatransfers, Some(70_000));
        let made = |made: u16, runs: u16| {
            let mut table = table(&[("DIMM 0", "BANK 0", Some((8, runs)))]);
            table[14 + 0x15..14 + 0x17].copy_from_slice(&made.to_le_bytes());
            parse(&table)[0].megatransfers
        };
        assert_eq!((made(2400, 1200), made(3200, 2133)), (None, Some(2133)), "the clock for the rate");
        assert_eq!(one(|d| d[0x0a..0x0c].copy_from_slice(&[0, 0]))[0].width_bits, None);
    }

    #[test]
    fn a_channel_is_taken_only_from_names_that_tell_it() {
        let of = |slot, bank| channel(slot, bank);
        assert_eq!(of("DIMM 1", "P1 CHANNEL C").as_deref(), Some("P1 CHANNEL C"));
        assert_eq!(of("NODE 1 CHANNEL 0 DIMM 1", "NODE 1").as_deref(), Some("NODE 1 NODE 1 CHANNEL 0"));
        assert_eq!(of("ChannelB-DIMM0", "BANK 2").as_deref(), Some("CHANNEL B"));
        assert_eq!(of("Controller1-ChannelA-DIMM0", "BANK 2").as_deref(), Some("CONTROLLER1-CHANNEL A"));
        assert_eq!(of("P1-DIMMA2", "P0_Node0_Channel0_Dimm1").as_deref(), Some("P0_NODE0_CHANNEL 0"));
        assert_eq!(of("P2-DIMMA2", "Bank 3").as_deref(), Some("P2 CHANNEL A"));
        assert_eq!(of("CPU0_DIMM_C1", "").as_deref(), Some("CPU0 CHANNEL C"));
        assert_eq!(of("DIMM_P0_B0", "BANK 1").as_deref(), Some("P0 CHANNEL B"));
        for (slot, bank) in
            [("A1", "Not Specified"), ("DIMM_A1", ""), ("PROC 1 DIMM 3", "Not Specified"), ("CHANNEL", "")]
        {
            assert_eq!(of(slot, bank), None, "{slot}");
        }
    }

    proptest! {
        #[test]
        fn no_table_makes_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            for module in parse(&bytes) {
                prop_assert!(module.size_bytes > 0);
            }
        }

        #[test]
        fn a_damaged_table_gives_no_more_modules_than_it_has(cut in 0_usize..400, at in 0_usize..400, byte: u8) {
            let mut whole = table(&[("A", "CHANNEL 0", Some((8, 3200))), ("B", "CHANNEL 1", Some((8, 3200)))]);
            if let Some(place) = whole.get_mut(at) {
                *place = byte;
            }
            let modules = parse(whole.get(..cut.min(whole.len())).unwrap_or_default());
            prop_assert!(modules.len() <= 2 + 0x5c, "{}", modules.len());
            for module in modules {
                prop_assert!(module.megatransfers.is_none_or(|speed| (100..=100_000).contains(&speed)));
            }
        }
    }
}
