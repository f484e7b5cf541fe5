//! Messages that survive a round trip, and those that are refused.

use proptest::prelude::*;

use super::*;
use crate::wire::{UdpReceived, UdpReport};

fn tcp() -> TcpOrder {
    TcpOrder::new(1, 1 << 17, Direction::Up, OrderedAmount::Nanos(200_000_000))
}

fn refused(text: &str) -> String {
    Message::parse(text.as_bytes()).expect_err(text)
}

fn done(sent: Option<SendingReport>, received: Option<ReceivingReport>) -> Message {
    Message::Done(Box::new(EndReport { sent, received, ..EndReport::default() }))
}

#[test]
fn messages_round_trip() {
    let join = Join { session: Hex128::random().unwrap(), stream: 3, sockets: Sockets::default() };
    let looks = vec![TcpLook { at: u64::MAX, ..TcpLook::default() }; MAX_LOOKS];
    let timeline =
        ArrivalTimeline { width: 1, bytes: vec![u64::MAX; MAX_LOOKS], delays: vec![Some(1); MAX_LOOKS] };
    let sent = SendingReport { looks, ..SendingReport::default() };
    let arrived = ReceivingReport { hashes: vec![u64::MAX], timeline, ..ReceivingReport::default() };
    let received = UdpReceived { jitter_nanos: Some(5), ..UdpReceived::default() };
    let datagrams = UdpReport { received: Some(received), ..UdpReport::default() };
    for message in [
        Message::Open { other_session: None },
        Message::Join(join),
        Message::Tcp(tcp()),
        Message::Sent(vec![0, u64::MAX]),
        done(Some(sent), Some(arrived)),
        Message::UdpOpen { streams: 3 },
        Message::UdpToken(Hex128::random().unwrap()),
        Message::Port(65_535.try_into().unwrap()),
        Message::UdpDone(Box::new(datagrams)),
        Message::Echoed(Box::default()),
        Message::Enough,
        Message::Busy { seconds: 3 },
        Message::Refused("no".to_owned()),
    ] {
        assert_eq!(Message::parse(&message.to_json()).unwrap(), message);
    }
}

#[test]
fn the_longest_report_fits_a_frame_and_more_looks_are_refused() {
    let most = u64::MAX;
    let look = TcpLook {
        at: most,
        rtt_nanos: most,
        cwnd_bytes: most,
        retransmits: most,
        busy_nanos: most,
        receiver_limited_nanos: most,
        buffer_limited_nanos: most,
    };
    let with = |count: usize| {
        let sent = Some(SendingReport { looks: vec![look; count], ..SendingReport::default() });
        let hashes = vec![most; usize::from(MAX_STREAMS)];
        let day = 86_400_000_000_000;
        let (bytes, delays) = (vec![most; MAX_LOOKS], vec![Some(day); MAX_LOOKS]);
        let timeline = ArrivalTimeline { width: day, bytes, delays };
        let received = ReceivingReport { hashes, timeline, ..ReceivingReport::default() };
        done(sent, Some(received)).to_json()
    };
    assert!(with(MAX_LOOKS).len() < 60_000 && Message::parse(&with(MAX_LOOKS)).is_ok());
    assert!(Message::parse(&with(MAX_LOOKS + 1)).unwrap_err().contains("status requests"));
}

#[test]
fn a_course_and_a_shaping_that_cannot_be_are_refused() {
    let udp = |timeline: ArrivalTimeline| {
        let received = Some(UdpReceived { timeline, ..UdpReceived::default() });
        Message::parse(&Message::UdpDone(Box::new(UdpReport { received, ..UdpReport::default() })).to_json())
    };
    let tcp = |timeline: ArrivalTimeline| {
        let received = Some(ReceivingReport { timeline, ..ReceivingReport::default() });
        Message::parse(&done(None, received).to_json())
    };
    let good = ArrivalTimeline { width: 1 << 20, bytes: vec![1; 3], delays: vec![None, Some(5), None] };
    assert!(udp(good.clone()).is_ok() && tcp(good.clone()).is_ok());
    assert!(udp(ArrivalTimeline::default()).is_ok());
    for bad in [
        ArrivalTimeline { width: 0, ..good.clone() },
        ArrivalTimeline { width: u64::MAX, ..good.clone() },
        ArrivalTimeline { bytes: vec![1; MAX_LOOKS + 1], delays: Vec::new(), ..good.clone() },
        ArrivalTimeline { delays: vec![None], ..good.clone() },
        ArrivalTimeline { delays: vec![None, Some(u64::MAX), None], ..good.clone() },
    ] {
        assert!(udp(bad.clone()).is_err() && tcp(bad).is_err());
    }
    let welcome = |out: Option<u64>| {
        let (shaping, session) = (Shaping { out, ..Shaping::default() }, Hex128::random().unwrap());
        let (server, max_streams, max_nanos, max_rate) = (session, 1, 1, 1);
        let welcome = Welcome { session, server, max_streams, max_nanos, max_rate, shaping, carrier: None };
        Message::parse(&Message::Welcome(welcome).to_json())
    };
    assert!(welcome(None).is_ok() && welcome(Some(1)).is_ok());
    assert!(welcome(Some(0)).is_err() && welcome(Some(u64::MAX)).is_err());
}

#[test]
fn bad_content_is_refused() {
    let good = serde_json::to_string(&Message::Tcp(tcp())).unwrap();
    assert!(Message::parse(good.as_bytes()).is_ok());
    let streams = r#"0 -1 257 1,"streams":1 1.5 NaN 1e999 "1" 1,"file":"/etc/passwd""#;
    let streams = streams.split(' ').map(|value| ("\"streams\":1", format!("\"streams\":{value}")));
    let others = [
        ("131072", "1048577"),
        ("131072", "18446744073709551616"),
        ("200000000", "86400000000001"),
        ("{\"nanos\":200000000}", "{\"messages\":0}"),
        ("{\"nanos\":200000000}", "{\"messages\":1099511627776}"),
        ("\"up\"", "\"sideways\""),
        ("\"omit\":0,", ""),
    ];
    for (from, to) in streams.chain(others.map(|(from, to)| (from, to.to_owned()))) {
        let bad = good.replace(from, &to);
        assert_ne!(bad, good, "{from} {to}");
        refused(&bad);
    }
    let texts = "|null|[]|\"shell\"|{\"open\":{\"beside\":1}}|\"open\" \"open\"|\u{0}|{\"refused\":\"a\u{1}";
    for text in texts.split('|') {
        refused(text);
    }
    refused(&("[".repeat(10_000) + &"]".repeat(10_000)));
    refused(&format!("{{\"refused\":\"{}\"}}", "x".repeat(1001)));
    assert!(Message::parse(b"{\"refused\":\"\xff\"}").is_err());
    assert!(!refused("\"\\u001b[31m\"").contains('\u{1b}'));
}

#[test]
fn socket_options_have_ranges() {
    let sockets = |f: fn(&mut Sockets)| {
        let mut join = Join { session: Hex128::random().unwrap(), stream: 0, sockets: Sockets::default() };
        f(&mut join.sockets);
        Message::parse(&Message::Join(join).to_json())
    };
    assert!(sockets(|s| s.congestion = Some("bbr".to_owned())).is_ok());
    assert!(sockets(|s| s.congestion = Some("../../x".to_owned())).is_err());
    assert!(sockets(|s| s.congestion = Some("x".repeat(16))).is_err());
    assert!(sockets(|s| s.window = Some(1)).is_err());
    assert!(sockets(|s| s.mss = Some(10)).is_err());
    assert!(sockets(|s| s.dscp = Some(64)).is_err());
}

proptest! {
    #[test]
    fn shares_are_even_and_make_the_whole(all in 0u64..1_000_000, streams in 1usize..200) {
        let share = |stream| match OrderedAmount::Messages(all).share(streams, stream) {
            OrderedAmount::Messages(part) => part,
            other => panic!("{other:?}"),
        };
        let shares: Vec<u64> = (0..streams).map(share).collect();
        prop_assert_eq!(shares.iter().sum::<u64>(), all);
        prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        prop_assert_eq!(OrderedAmount::Nanos(all).share(streams, 0), OrderedAmount::Nanos(all));
    }

    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(why) = Message::parse(&bytes) {
            prop_assert!(why.lines().count() <= 1);
        }
    }
}
