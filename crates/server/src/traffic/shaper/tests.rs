//! Kernel replies built for the test, and arbitrary bytes.

use super::*;
use proptest::prelude::*;

const HEADER: usize = 16;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;

fn with(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(index: u32, handle: u32, parent: u32, kind: &[u8], options: &[u8]) -> Vec<u8> {
    let attributes = [with(KIND, kind), with(OPTIONS, options)].concat();
    let mut bytes = ((HEADER + 20 + attributes.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend([36_u8, 0]);
    bytes.resize(HEADER + 4, 0);
    bytes.extend([index, handle, parent, 0].iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend(attributes);
    bytes
}

fn structure(length: usize, words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    words.iter().for_each(|(at, word)| bytes[*at..at + 4].copy_from_slice(&word.to_ne_bytes()));
    bytes
}

fn tbf(rate: u32) -> Vec<u8> {
    with(1, &structure(36, &[(8, rate)]))
}

fn read_all<T>(replies: &[Vec<u8>], one: fn(&[u8]) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    assert!(!netlink::read_messages(&replies.concat(), read::of_interface(3, one), &mut found));
    found
}

fn shaping(replies: &[Vec<u8>]) -> Shaping {
    KnownInterface { disciplines: read_all(replies, read::discipline), ..KnownInterface::default() }.shaping()
}

#[test]
fn the_bucket_that_all_packets_pass_is_found_and_no_other() {
    let out = |replies: &[Vec<u8>]| shaping(replies).out;
    let other = || message(1, 0x1_0000, ROOT, b"tbf\0", &tbf(7));
    let root = |kind: &[u8]| message(3, 0x1_0000, ROOT, kind, &tbf(7));
    let below = |parent| message(3, 0x8001_0000, parent, b"tbf\0", &tbf(7));
    assert_eq!(out(&[other(), root(b"tbf\0")]), Some(56));
    assert_eq!(out(&[root(b"netem\0"), below(0x1_0001)]), Some(56));
    assert_eq!(out(&[other(), root(b"noqueue\0")]), None);
    for sorting in [&b"prio\0"[..], b"mq\0", b"multiq\0"] {
        assert_eq!(shaping(&[root(sorting), below(0x1_0001)]), Shaping::default());
    }
    let nested = message(3, 0x2_0000, 0x1_0001, b"prio\0", &[]);
    assert_eq!(out(&[root(b"netem\0"), nested, below(0x2_0001)]), None);
    // The other direction: TC_H_INGRESS.
    assert_eq!(out(&[message(3, 0xffff_0000, 0xffff_fff1, b"tbf\0", &tbf(7))]), None);
}

#[test]
fn other_disciplines_that_shape_are_read() {
    let root = |kind: &[u8], options: &[u8]| shaping(&[message(3, 0x1_0000, ROOT, kind, options)]);
    let wide = |kind, rate: u64| with(kind, &rate.to_ne_bytes());
    let both = [wide(4, 1_000_000_000_000), tbf(u32::MAX)].concat();
    assert_eq!(root(b"tbf\0", &both).out, Some(8_000_000_000_000));
    assert_eq!(root(b"cake\0", &wide(2, 25_000_000)).out, Some(200_000_000));
    assert_eq!(root(b"cake\0", &wide(2, 0)).out, None);
    assert_eq!(root(b"fq\0", &with(7, &12_500_000_u32.to_ne_bytes())).each_out, Some(100_000_000));
    assert_eq!(root(b"fq\0", &with(7, &u32::MAX.to_ne_bytes())), Shaping::default());
    let netem = [vec![0; 24], with(6, &structure(16, &[(0, 1000)]))].concat();
    assert_eq!(root(b"netem\0", &netem).out, Some(8000));
    // All queues of `mq` limit connections to the same rate, or nothing is known.
    let queue = |number: u32, rate: u32| {
        message(3, 0x8001_0000 + (number << 16), 0x1_0000 + number, b"fq\0", &with(7, &rate.to_ne_bytes()))
    };
    let mq = message(3, 0x1_0000, ROOT, b"mq\0", &[]);
    assert_eq!(shaping(&[mq.clone(), queue(1, 5), queue(2, 5)]).each_out, Some(40));
    assert_eq!(shaping(&[mq, queue(1, 5), queue(2, u32::MAX)]).each_out, None);
}

fn htb(default: u32, classes: &[(u32, u32, u32)], sorted: bool) -> Option<u64> {
    let root = message(3, 0x1_0000, ROOT, b"htb\0", &with(2, &structure(20, &[(8, default)])));
    let class = |(handle, parent, ceiling): &(u32, u32, u32)| {
        message(3, *handle, *parent, b"htb\0", &with(1, &structure(44, &[(8, *ceiling), (20, *ceiling)])))
    };
    let classes: Vec<Vec<u8>> = classes.iter().map(class).collect();
    let (disciplines, classes) = (read_all(&[root], read::discipline), read_all(&classes, read::class));
    KnownInterface { disciplines, classes, sorted, ..KnownInterface::default() }.shaping().out
}

#[test]
fn of_classes_the_default_ones_ceiling_and_that_of_those_around_it_holds() {
    let inner = (0x1_0010, 0x1_0001, 100);
    let outer = |ceiling| (0x1_0001, 0x1_0000, ceiling);
    assert_eq!(htb(0x10, &[inner, outer(1000)], false), Some(800));
    assert_eq!(htb(0x10, &[inner, outer(50)], false), Some(400), "the class around it has less");
    assert_eq!(htb(0, &[inner, outer(50)], false), None, "without a default class nothing holds");
    let other = (0x1_0020, 0x1_0001, 300);
    assert_eq!(htb(0x10, &[inner, other, outer(1000)], true), Some(2400), "filters may choose the wider");
    assert_eq!(htb(0x20, &[other, (0x1_0001, 0x1_0020, 5)], false), Some(40), "circles end");
}

#[test]
fn a_class_without_one_around_it_has_nobody_to_borrow_from() {
    let class = |parent, rate| Class { handle: 0x1_0010, parent, rate: Some(rate), ceiling: Some(800) };
    let outer = Class { handle: 0x1_0001, parent: 0x1_0000, rate: Some(300), ceiling: Some(1000) };
    let known = |classes: Vec<Class>| {
        let root = Discipline { handle: 0x1_0000, parent: ROOT, kind: ShaperKind::Classes(0x10) };
        KnownInterface { disciplines: vec![root], classes, ..KnownInterface::default() }.shaping().out
    };
    assert_eq!(known(vec![class(0x1_0000, 100)]), Some(100));
    assert_eq!(known(vec![class(0x1_0001, 100), outer]), Some(300), "it borrows what the outer has");
}

#[test]
fn policers_of_all_packets_are_found() {
    let police = |rate, action| {
        let policer = with(1, &structure(56, &[(4, action), (28, rate)]));
        with(1, &[with(1, b"police\0"), with(2, &policer)].concat())
    };
    let matchall = |rate, action| message(3, 1, COMING, b"matchall\0", &with(2, &police(rate, action)));
    let known = |filters: &[Vec<u8>]| KnownInterface {
        coming: read_all(filters, read::filter),
        ..KnownInterface::default()
    };
    let found = |filters: &[Vec<u8>]| known(filters).shaping().into;
    assert_eq!(found(&[matchall(25, 2), matchall(30, 2)]), Some(200));
    assert_eq!(found(&[matchall(25, 0)]), None, "what is over the rate passes");
    let selector = |mask| [structure(16, &[(0, 1 << 16)]), structure(16, &[(0, mask)])].concat();
    let u32s = |mask| {
        let options = [with(5, &selector(mask)), with(7, &police(25, 2))].concat();
        message(3, 1, COMING, b"u32\0", &options)
    };
    assert_eq!(found(&[u32s(0)]), Some(200));
    assert_eq!(found(&[u32s(0xff)]), None, "it matches some packets alone");
    assert_eq!(known(&[u32s(0)]).shaping(), Shaping { into: Some(200), ..Shaping::default() });
}

#[test]
fn an_interface_that_is_not_there_is_held_to_nothing() {
    assert_eq!(read_shaping("no-such-interf"), Shaping::default());
}

proptest! {
    #[test]
    fn any_reply_is_read_to_an_end(mut bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..200_usize) {
        let known = |bytes: &[u8]| {
            let mut known = KnownInterface::default();
            netlink::read_messages(bytes, read::of_interface(3, read::discipline), &mut known.disciplines);
            netlink::read_messages(bytes, read::of_interface(3, read::class), &mut known.classes);
            netlink::read_messages(bytes, read::of_interface(3, read::filter), &mut known.coming);
            known.shaping()
        };
        known(&bytes);
        let good = message(3, 1, ROOT, b"htb\0", &tbf(3));
        bytes.splice(..0, good[..at.min(good.len())].iter().copied());
        known(&bytes);
    }
}
