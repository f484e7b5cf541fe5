//! Connections over this machine's own network stack: who is let in, and what their end is taken for.

use super::super::fabric::Incoming;
use super::*;
use crossbeam_channel::{Receiver, unbounded};

/// Longer than any machine stands still.
const LONG: Duration = Duration::from_secs(600);

struct First {
    pulse: Pulse,
    place: Place,
    watch: Arc<Watch>,
    inbox: Receiver<Incoming>,
}

/// Rank 0 of so many.
fn first(size: usize) -> First {
    let ((out, inbox), (alarm, _)) = (unbounded(), unbounded());
    let watch = Arc::new(Watch::new(0, size, out, alarm));
    let (pulse, place) = Pulse::lead(size, &watch).unwrap();
    First { pulse, place, watch, inbox }
}

impl First {
    fn connected(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.place.port)).unwrap()
    }

    /// A rank that is connected and does nothing more.
    fn tied(&self, rank: usize) -> TcpStream {
        let mut stream = reached(rank, &self.place, LONG).unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.write_all(&[HERE]).unwrap();
        self.watch.tied_within(rank, LONG);
        assert!(self.watch.is_tied(rank));
        stream
    }
}

/// Waits for the other end to close, whatever it says before.
fn closed(mut stream: TcpStream) {
    stream.set_read_timeout(None).unwrap();
    // A connection that is reset is closed as well.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_rank_whose_connection_ends_without_a_goodbye_is_lost_and_one_that_took_leave_is_not() {
    let first = first(4);
    let (mut leaves, dies) = (first.tied(1), first.tied(2));
    leaves.write_all(&[HERE, BYE]).unwrap();
    drop(leaves);
    while first.watch.is_tied(1) {
        std::thread::yield_now();
    }
    drop(dies);
    let lost = first.inbox.recv().unwrap();
    assert!(matches!(&lost, Incoming::Lost(2, why) if why == ENDED), "{lost:?}");
    first.pulse.end();
    assert!(first.inbox.try_recv().is_err());
}

/// Rank 0, and what rank 1 of two knows of it.
struct Both {
    first: First,
    watch: Arc<Watch>,
    pulse: Pulse,
    inbox: Receiver<Incoming>,
}

fn both() -> Both {
    let (first, (out, inbox), (alarm, _)) = (first(2), unbounded(), unbounded());
    let watch = Arc::new(Watch::new(0, 2, out, alarm));
    let pulse = Pulse::follow(1, first.place.clone(), LONG, &watch).unwrap();
    watch.tied_within(0, LONG);
    first.watch.tied_within(1, LONG);
    assert!(watch.is_tied(0) && first.watch.is_tied(1));
    Both { first, watch, pulse, inbox }
}

#[test]
fn whoever_ends_in_order_first_is_not_lost_to_the_other() {
    let Both { first, watch, pulse, inbox } = both();
    first.pulse.end();
    while watch.is_tied(0) {
        std::thread::yield_now();
    }
    pulse.end();
    assert!(first.inbox.try_recv().is_err() && inbox.try_recv().is_err());
    let Both { first, pulse, inbox, .. } = both();
    pulse.end();
    while first.watch.is_tied(1) {
        std::thread::yield_now();
    }
    first.pulse.end();
    assert!(first.inbox.try_recv().is_err() && inbox.try_recv().is_err());
}

#[test]
fn a_follower_whose_rank_0_closes_without_a_word_has_lost_it() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let key = Key::random().unwrap();
    let addresses = vec![Ipv4Addr::LOCALHOST.into()];
    let place = Place { addresses, port: listener.local_addr().unwrap().port(), key: key.to_hex() };
    let ((out, inbox), (alarm, _)) = (unbounded(), unbounded());
    let watch = Arc::new(Watch::new(0, 2, out, alarm));
    let _pulse = Pulse::follow(1, place, LONG, &watch).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut said = [0; KNOCK];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(said, knock(1, &key));
    stream.write_all(&answer(1, &key)).unwrap();
    let mut here = [9];
    stream.read_exact(&mut here).unwrap();
    assert_eq!(here, [HERE]);
    drop(stream);
    assert!(matches!(inbox.recv().unwrap(), Incoming::Lost(0, _)));
}

#[test]
fn nobody_else_is_let_in() {
    let first = first(3);
    let key = Key::from_hex(&first.place.key, "the test").unwrap();
    let _second = first.tied(2);
    let unlike = |rank| knock(rank, &Key::random().unwrap());
    // Another key, ranks that are not in the world, rank 0 itself, one that is connected, and what a browser says.
    let mut strange = vec![unlike(1).to_vec(), knock(3, &key).to_vec(), knock(0, &key).to_vec()];
    strange.push([&knock(2, &key)[..], &[HERE]].concat());
    strange.push([&knock(1, &key)[..], &[7]].concat());
    strange.push(b"GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: */*\r\n\r\n".to_vec());
    for said in strange {
        let mut stream = first.connected();
        // It may close before it has read all.
        let _ = stream.write_all(&said);
        closed(stream);
    }
    // They took nobody's place.
    let _first = first.tied(1);
    assert!(first.inbox.try_recv().is_err());
    first.pulse.end();
}

#[test]
fn no_more_are_let_in_than_there_are_ranks() {
    let first = first(3);
    let _tied = [first.tied(1), first.tied(2)];
    // One that has proved itself may stay, whatever it does then.
    let _proved = reached(2, &first.place, LONG).unwrap();
    let key = Key::from_hex(&first.place.key, "the test").unwrap();
    let mut more = first.connected();
    let _ = more.write_all(&knock(1, &key));
    let mut heard = Vec::new();
    let _ = more.read_to_end(&mut heard);
    assert!(heard.is_empty(), "{heard:?}");
    first.pulse.end();
}

#[test]
fn neither_says_the_key_or_what_another_could_say() {
    let key = Key::random().unwrap();
    let (said, answered) = (knock(1, &key), answer(1, &key));
    for told in [&said[..], &answered] {
        assert!(told.windows(8).all(|part| key.bytes().windows(8).all(|own| own != part)));
    }
    assert_eq!(knocked(&said, &(1..3), &key), Some(1));
    let mut other = said;
    other[3] = 2;
    assert_eq!(knocked(&other, &(1..3), &key), None);
    assert!(knock(2, &key)[4..] != said[4..] && answer(2, &key) != answered);
}

#[test]
fn somebody_at_that_address_who_is_not_rank_0_is_not_taken_for_it() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addresses = vec![Ipv4Addr::LOCALHOST.into()];
    let port = listener.local_addr().unwrap().port();
    let place = Place { addresses, port, key: Key::random().unwrap().to_hex() };
    // What it heard, as it was or turned round.
    for mask in [0, 0xff] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut said = [0; KNOCK];
                stream.read_exact(&mut said).unwrap();
                stream.write_all(&said[4..].iter().map(|byte| byte ^ mask).collect::<Vec<u8>>()).unwrap();
            });
            assert!(reached(1, &place, LONG).is_none());
        });
    }
    let nowhere = Place { addresses: Vec::new(), ..place.clone() };
    assert!(reached(1, &nowhere, LONG).is_none());
    assert!(reached(1, &Place { key: "no key".to_owned(), ..place }, LONG).is_none());
}
