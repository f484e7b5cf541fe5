use super::*;
use crate::bench::Candidate;
use crate::bench::mpi::Number;
use crate::machine::fixture;
use crate::machine::network::NicKind;
use crate::peer::Against;
use proptest::prelude::*;

fn planned(case: &str, samples: Option<u32>, sample_time: f64) -> Planned {
    Planned {
        candidate: Candidate::new(case.parse().unwrap(), Err(CannotMeasure::not_here("alone"))),
        sampling: Sampling { samples, sample_time, precision: 0.01, warm_up: None },
        against: Against::Nobody,
        budget: None,
        job: Vec::new(),
        group: 0,
        repeat: 0,
    }
}

#[test]
fn pairs_have_the_point_to_point_cases_and_all_have_the_rest() {
    let all = [
        planned("mpi.latency/message=8", None, 1.0),
        planned("mpi.bandwidth/message=1M", Some(2), 0.01),
        planned("mpi.allreduce/type=f32/message=8", None, 1.0),
        planned("mpi.barrier", None, 1.0),
        planned("cpu.hpl/nb=192", None, 1.0),
    ];
    let names =
        |who| -> Vec<String> { cases(&all, who).iter().map(|p| p.candidate.case.to_string()).collect() };
    assert_eq!(names(Who::Two), ["mpi.latency/message=8", "mpi.bandwidth/message=1M"]);
    assert_eq!(names(Who::All), ["mpi.allreduce/type=f32/message=8", "mpi.barrier"]);
    let two = cases(&all, Who::Two);
    assert!(two.iter().all(|p| p.candidate.feasible.is_ok()));
    let how: Vec<_> = two.iter().map(|p| (p.sampling.samples, p.sampling.sample_time)).collect();
    assert_eq!(how, [(Some(SAMPLES), ONE_DIRECTION), (Some(2), 0.01)]);
}

const DEV: &str = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame \
    compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    lo:    5000  1 0 0 0 0 0 0    5000  1 0 0 0 0 0 0\n  \
    eth0: 7 1 0 0 0 0 0 0 900000 1 0 0 0 0 0 0\n";

#[test]
fn counters_of_interfaces_are_read_and_garbage_is_not() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("proc/net")).unwrap();
    let read = |text: &str| {
        std::fs::write(dir.path().join("proc/net/dev"), text).unwrap();
        sent(&Root::at(dir.path()))
    };
    let sent_by = |name: &str, bytes| Sent { interface: name.to_owned(), bytes };
    assert_eq!(read(DEV), [sent_by("lo", 5000), sent_by("eth0", 900_000)]);
    assert_eq!(read("eth0: 1 2\n:\nlo: x x x x x x x x x x\n"), []);
    assert_eq!(sent(&Root::at("/nonexistent")), []);
}

fn machine(kind: NicKind) -> Machine {
    Machine { network: vec![fixture::nic(kind)], ..Machine::discover(&Root::at("/nonexistent")) }
}

fn counters(lo: u64, eth0: u64) -> Vec<Sent> {
    [("lo", lo), ("eth0", eth0)].map(|(name, bytes)| Sent { interface: name.to_owned(), bytes }).into()
}

#[test]
fn the_interface_that_carried_the_bytes_is_the_way() {
    let way = |eth0: u64, payload, kind| {
        Way::between(&counters(7, 5), &counters(17, 5 + eth0), payload, &machine(kind))
    };
    let line = way(1_000_000, 1e6, NicKind::Physical).conditions().more;
    let of = |row| line.get(row);
    let expected = (Some(1.0), Some(1e10), Some(9000.0));
    assert_eq!((of(&PATH_KERNEL), of(&PATH_SPEED), of(&PATH_MTU)), expected);
    let software = way(1_000_000, 1e6, NicKind::Virtual);
    assert_eq!((software.interface.as_deref(), software.speed), (Some("eth0"), None));
    let passed = way(1000, 1e6, NicKind::Physical);
    assert_eq!((passed.interface.clone(), passed.conditions().more.get(&PATH_KERNEL)), (None, Some(0.0)));
    assert!(
        way(1000, 0.0, NicKind::Physical).conditions() == Conditions::default(),
        "what sums send is not known"
    );
}

/// Open MPI sends a long message over all interfaces.
#[test]
fn what_two_interfaces_carried_went_no_way_that_passes_the_kernel_by() {
    let way = |a: u64, b: u64| {
        Way::between(&counters(7, 5), &counters(7 + a, 5 + b), 1e6, &machine(NicKind::Physical))
    };
    let shared = way(500_000, 480_000);
    assert_eq!((&shared.interface, shared.speed), (&None, None));
    assert_eq!(
        shared.conditions().more,
        [("path_kernel", 0.0), ("path_several", 1.0)].map(|(n, v)| (n.to_owned(), v)).into()
    );
    assert!(!way(500_000, 1_000_000).several && !way(1000, 1000).several);
}

proptest! {
    #[test]
    fn any_counters_are_survived(before: [u64; 2], after: [u64; 2], payload in 0.0..1e18_f64) {
        let way = Way::between(
            &counters(before[0], before[1]),
            &counters(after[0], after[1]),
            payload,
            &machine(NicKind::Physical),
        );
        prop_assert!(way.speed.is_none() || way.interface.is_some());
    }
}

/// A way on which each byte takes so many seconds, and what was tried on it.
struct Slow {
    per_byte: f64,
    tried: crossbeam_channel::Sender<What>,
}

impl crate::cluster::Link for Slow {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        2
    }

    fn send(&mut self, _: usize, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn receive(&mut self) -> Option<crate::cluster::Parcel> {
        None
    }

    fn exercise(&mut self, exercise: &Exercise) -> Result<Timed, String> {
        self.tried.send(exercise.what).map_err(|e| e.to_string())?;
        Ok(Timed { seconds: self.per_byte * exercise.what.bytes() as f64, wrong: None })
    }

    fn busy(&self) -> bool {
        false
    }

    fn abort(&mut self, code: u8) -> ! {
        unreachable!("a test ends with {code}")
    }
}

/// What is tried before a case is measured on such a way, and why it is not measured.
fn gate(case: &str, per_byte: f64) -> (Vec<What>, Option<String>) {
    let (tried, all) = crossbeam_channel::unbounded();
    let (alarm, interrupts) = crossbeam_channel::unbounded();
    let fabric =
        crate::cluster::Fabric::new(move || Ok(Slow { per_byte, tried }), alarm, Duration::from_secs(60))
            .unwrap();
    let mut ranks = Ranks {
        machine: machine(NicKind::Physical),
        voice: fabric.voice(),
        interrupts,
        with: vec![0, 1],
        tools: None,
    };
    let refused = ranks.prepare(&Candidate::new(case.parse().unwrap(), Ok(())), None).err();
    fabric.leave().unwrap();
    (all.try_iter().collect(), refused.map(|why| why.reason))
}

#[test]
fn what_would_take_too_long_is_refused_after_less_of_it() {
    const SMALL: usize = 64 << 10;
    let trips = |bytes| What::Trips { bytes };
    let sums = |bytes: usize| What::Sums { number: Number::F64, count: bytes / 8 };
    // A gigabit: all is soon done. A megabit: a mebibyte is not. Less: nothing is.
    assert_eq!(gate("mpi.latency/message=8", 1e-8), (vec![trips(8)], None));
    let grown = [SMALL, 1 << 20, 4 << 20];
    assert_eq!(gate("mpi.latency/message=4M", 1e-8), (grown.map(trips).into(), None));
    assert_eq!(gate("mpi.allreduce/type=f64/message=4M", 1e-8), (grown.map(sums).into(), None));
    assert_eq!(gate("mpi.bandwidth/message=64K", 1e-8), (vec![trips(SMALL)], None));
    assert_eq!(gate("mpi.barrier", 1e-8), (vec![What::Barriers], None));
    for (case, tried, about) in [
        ("mpi.latency/message=4M", trips(SMALL), "a message of 4M and its answer would take about 34 s"),
        ("mpi.bandwidth/message=64K", trips(SMALL), "64 messages of 64K would take about 17 s"),
        ("mpi.allreduce/type=f64/message=1M", sums(SMALL), "a sum of 1M would take about 8 s"),
    ] {
        let (all, why) = gate(case, 8e-6);
        let why = why.unwrap();
        assert!(all == [tried] && why.starts_with(about), "{all:?} {why}");
    }
}

#[test]
fn an_exercise_that_does_not_end_is_no_interrupt() {
    let (_begun, timed) = crossbeam_channel::bounded(1);
    let (stop, interrupts) = crossbeam_channel::unbounded();
    let cause = |patience| awaited(&timed, &interrupts, patience).unwrap_err();
    let late = cause(Duration::from_millis(1));
    assert_eq!(late.cause, Cause::Environment);
    assert!(late.reason.contains("took longer than"), "{late}");
    stop.send(()).unwrap();
    assert_eq!(cause(Duration::MAX).cause, Cause::Interrupted);
}
