//! The account against a naive one, over lost, duplicated and shuffled datagrams.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

impl UdpReceived {
    fn lost(&self) -> u64 {
        self.sent - self.received
    }
}

const TAG: u32 = 0xfeed_0001;

fn datagram(size: usize, tag: u32, number: u64, sent: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    DatagramLayout::of(size).write(&mut bytes, tag, number, sent);
    bytes
}

/// Accounts for datagrams: number, time of sending and time of arrival.
fn arrived(size: usize, datagrams: impl IntoIterator<Item = (u64, u64, u64)>) -> StreamAccount {
    let mut account = StreamAccount::new(DatagramLayout::of(size), size, TAG);
    for (number, sent, now) in datagrams {
        account.arrive(&datagram(size, TAG, number, sent), now);
    }
    account
}

fn account(size: usize, numbers: &[u64]) -> StreamAccount {
    arrived(size, numbers.iter().zip(0..).map(|(number, turn)| (*number, *number * 1000, turn * 1000)))
}

fn closed(account: StreamAccount, sent: u64) -> UdpReceived {
    conclude([(account, sent)]).unwrap()
}

/// Returns the sent count and the numbers as they arrive: a stream on a bad path.
fn arrivals() -> impl Strategy<Value = (u64, Vec<u64>)> {
    let fate = (0usize..4, 0u64..40);
    prop::collection::vec(fate, 0..400).prop_map(|fates| {
        let mut order = Vec::new();
        for (number, (copies, delay)) in fates.iter().enumerate() {
            for copy in 0..*copies as u64 {
                order.push((number as u64 + delay * (copy + 1) % 37, number as u64));
            }
        }
        order.sort_by_key(|(when, _)| *when);
        (fates.len() as u64, order.into_iter().map(|(_, number)| number).collect())
    })
}

proptest! {
    #[test]
    fn it_agrees_with_an_account_that_keeps_everything(
        (sent, numbers) in arrivals(), size in prop::sample::select(vec![8usize, 16, 100]),
    ) {
        let (mut seen, mut highest) = (HashSet::new(), None);
        let (mut duplicates, mut reordered) = (0u64, 0u64);
        for number in &numbers {
            if !seen.insert(*number) {
                duplicates += 1;
            } else if highest.is_some_and(|highest| highest > *number) {
                reordered += 1;
            }
            highest = highest.max(Some(*number));
        }
        let tally = closed(account(size, &numbers), sent);
        prop_assert_eq!(tally.received, seen.len() as u64);
        prop_assert_eq!(tally.lost(), sent - seen.len() as u64);
        prop_assert_eq!((tally.duplicates, tally.reordered, tally.stale, tally.foreign), (duplicates, reordered, 0, 0));
    }

    #[test]
    fn any_bytes_are_counted_once_somewhere(
        size in 1usize..40, datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..60), tagged: bool,
    ) {
        let mut account = StreamAccount::new(DatagramLayout::of(size), size, TAG);
        for (turn, bytes) in datagrams.iter().enumerate() {
            let mut bytes = bytes.clone();
            if tagged && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&TAG.to_be_bytes());
            }
            account.arrive(&bytes, turn as u64);
        }
        let tally = closed(account, u64::MAX);
        let counted = tally.received + tally.duplicates + tally.stale + tally.foreign;
        prop_assert_eq!(counted, datagrams.len() as u64);
    }

    #[test]
    fn the_order_of_adding_streams_is_nothing(counts in prop::collection::vec((0u64..50, 0u64..50), 1..6)) {
        let streams = counts.iter().map(|(received, lost)| {
            (account(16, &(0..*received).collect::<Vec<_>>()), received + lost)
        });
        let forward = conclude(streams.clone()).unwrap();
        prop_assert_eq!(&forward, &conclude(streams.rev()).unwrap());
        prop_assert_eq!(forward.lost(), counts.iter().map(|(_, lost)| lost).sum::<u64>());
    }
}

#[test]
fn streams_that_arrive_one_after_another_span_the_time_of_all() {
    let at = |begin: u64| (arrived(16, (0..3).map(|number| (number, 0, begin + number * 10))), 3);
    assert_eq!(conclude([at(0), at(1000)]).unwrap().span_nanos, 1020);
    assert_eq!(conclude([at(500)]).unwrap().span_nanos, 20);
    assert_eq!(conclude([]).unwrap(), UdpReceived::default());
}

#[test]
fn the_lost_tail_is_seen_by_the_senders_count_alone() {
    let tally = closed(account(16, &[0, 1, 2]), 10);
    assert_eq!((tally.received, tally.lost()), (3, 7));
    assert_eq!([5, 0].map(|sent| closed(account(16, &[]), sent).lost()), [5, 0]);
}

#[test]
fn a_sender_that_counts_less_than_it_sent_is_found_out() {
    let error = conclude([(account(16, &[0, 9]), 9)]).unwrap_err();
    assert!(error.to_string().contains("number 9 arrived"), "{error}");
}

#[test]
fn small_datagrams_are_only_counted() {
    let mut account = StreamAccount::new(DatagramLayout::of(1), 1, TAG);
    for turn in 0..7 {
        account.arrive(&[0], turn);
    }
    account.arrive(&[0, 0], 8);
    let tally = closed(account, 5);
    assert_eq!((tally.received, tally.duplicates, tally.foreign, tally.lost()), (5, 2, 1, 0));
    assert_eq!(tally.jitter_nanos, None);
}

#[test]
fn numbers_past_32_bits_and_past_the_window_are_kept_apart() {
    let stride = 1 << 30;
    let last = 40 * stride;
    let mut account = arrived(16, (0..=last).step_by(stride as usize).map(|number| (number, 0, 0)));
    assert_eq!((account.next, account.received()), (last + 1, 41));
    // Just before the window, within it, and again.
    account.arrive(&datagram(16, TAG, last - SEQUENCE_WINDOW - 64, 0), 0);
    account.arrive(&datagram(16, TAG, last - SEQUENCE_WINDOW / 2, 0), 0);
    account.arrive(&datagram(16, TAG, last - SEQUENCE_WINDOW / 2, 0), 0);
    let tally = closed(account, last + 1);
    assert_eq!((tally.received, tally.stale, tally.reordered, tally.duplicates), (42, 1, 1, 1));
}

#[test]
fn datagrams_of_another_transfer_or_before_the_first_are_foreign() {
    let mut account = StreamAccount::new(DatagramLayout::of(16), 16, TAG);
    account.arrive(&datagram(16, TAG + 1, 0, 0), 0);
    account.arrive(&datagram(17, TAG, 0, 0), 0);
    account.arrive(&datagram(16, TAG, u64::from(u32::MAX), 0), 0);
    assert_eq!(closed(account, 3).foreign, 3);
}

#[test]
fn jitter_is_that_of_the_standard() {
    // Sent every 1000 ns; transit times 50, 210, 210, 50: |D| = 160, 0, 160.
    let account = arrived(16, [(0, 0, 50), (1, 1000, 1210), (2, 2000, 2210), (3, 3000, 3050)]);
    // 10, then 10 − 10/16 = 9.375, then 9.375 + (160 − 9.375) / 16.
    let jitter = account.jitter.nanos.unwrap();
    assert!((jitter - (9.375 + 150.625 / 16.0)).abs() < 1e-9, "{jitter}");
}

#[test]
fn datagrams_of_iperf3_are_accounted_for_as_well() {
    // Recorded from iperf3 3.12: 16511 s, 712724 µs, number 1.
    let first = [0x00, 0x00, 0x40, 0x7f, 0x00, 0x0a, 0xe0, 0x14, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut written = [0xff; 16];
    DatagramLayout::Iperf3.write(&mut written, TAG, 0, 16_511_712_724_000);
    assert_eq!(written, first);
    let mut account = StreamAccount::new(DatagramLayout::Iperf3, 16, 0);
    account.arrive(&first, 0);
    for number in [1, 3, 2, 2] {
        DatagramLayout::Iperf3.write(&mut written, TAG, number, number * 1000);
        account.arrive(&written, number * 1000);
    }
    let tally = closed(account, 6);
    assert_eq!((tally.received, tally.duplicates, tally.reordered, tally.lost()), (4, 1, 1, 2));
}

#[test]
fn a_burst_is_one_arrival_and_clocks_may_differ_by_anything() {
    let account = arrived(16, [(0, u64::MAX - 10, 5), (1, u64::MAX - 10, 9), (2, u64::MAX, 15)]);
    // Both intervals are 10 ns: no jitter, though the clocks differ and the burst took 4 ns.
    assert_eq!(closed(account, 3).jitter_nanos, Some(0));
}
