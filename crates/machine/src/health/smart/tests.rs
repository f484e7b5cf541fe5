use super::*;
use proptest::prelude::*;

/// Returns a log page of an NVMe drive with these values.
pub(in super::super) fn made(warning: u8, kelvin: u16, used: u8, errors: u64) -> Vec<u8> {
    let mut page = vec![0; SMART_BYTES];
    page[0] = warning;
    page[1..3].copy_from_slice(&kelvin.to_le_bytes());
    page[3..6].copy_from_slice(&[100, 10, used]);
    page[48..56].copy_from_slice(&2_000_u64.to_le_bytes());
    page[128..136].copy_from_slice(&8760_u64.to_le_bytes());
    page[160..168].copy_from_slice(&errors.to_le_bytes());
    page
}

#[test]
fn a_page_is_read_by_the_places_of_the_specification() {
    let smart = Smart::parse(&made(0b100, 311, 7, 3)).unwrap();
    assert_eq!((smart.critical_warning, smart.kelvin, smart.used_percent), (4, Some(311), 7));
    assert_eq!((smart.spare_percent, smart.spare_threshold_percent), (100, 10));
    assert_eq!((smart.media_errors, smart.power_on_hours), (3, 8760));
    assert_eq!((smart.read_bytes, smart.written_bytes), (0, 1_024_000_000));
    let mut large = made(0, 0, 0, u64::MAX);
    large[168] = 1;
    large[32..48].fill(0xff);
    let smart = Smart::parse(&large).unwrap();
    assert_eq!((smart.media_errors, smart.read_bytes, smart.kelvin), (u64::MAX, u64::MAX, None));
    assert_eq!(Smart::parse(&[0; SMART_BYTES]), None);
    assert_eq!(Smart::parse(&large[..SMART_BYTES - 1]), None);
}

#[test]
fn a_drive_behind_a_network_or_that_is_reset_is_not_asked() {
    let tree = crate::fixture::Fixture::unpack(
        "sys/class/nvme/nvme0/transport = pcie\nsys/class/nvme/nvme1/transport = tcp\nsmart/nvme3 = x\n\
         smart/nvme0 = x\nsmart/nvme1 = x\nsys/class/nvme/nvme2/transport = apple-nvme\nsmart/nvme2 = x\n\
         sys/class/nvme/nvme0/state = live\nsys/class/nvme/nvme4/state = resetting\nsmart/nvme4 = x\n",
    );
    let found = controllers(&tree.unwrap().root).into_iter().map(|(name, _)| name);
    assert_eq!(found.collect::<Vec<_>>(), ["nvme0", "nvme2", "nvme3"]);
}

proptest! {
    #[test]
    fn no_page_is_too_strange(page in prop::collection::vec(any::<u8>(), 0..600)) {
        let smart = Smart::parse(&page);
        prop_assert!(page.len() >= SMART_BYTES || smart.is_none());
        if let Some(smart) = smart {
            let json = serde_json::to_string(&smart).unwrap();
            prop_assert_eq!(serde_json::from_str::<Smart>(&json).unwrap(), smart);
        }
    }
}
