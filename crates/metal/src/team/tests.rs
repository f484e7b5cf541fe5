use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::thread::sched_getcpu;

use super::testing::{spread, team};
use super::*;

#[test]
fn every_member_runs_on_its_own_cpu_and_results_come_in_order() {
    let cpus = spread(5);
    let mut team = Team::new(&cpus).unwrap();
    for round in 0..20 {
        let seen = team.run(|member| (member.index, member.cpu, sched_getcpu(), member.count, round));
        let wanted: Vec<_> = cpus.iter().enumerate().map(|(i, &cpu)| (i, cpu, cpu, 5, round)).collect();
        assert_eq!(seen.unwrap(), wanted);
    }
}

#[test]
fn barriers_keep_more_threads_than_cpus_in_step() {
    const THREADS: usize = 7;
    const STEPS: usize = 200;
    let mut team = team(THREADS);
    let arrivals = AtomicUsize::new(0);
    let early = AtomicBool::new(false);
    team.run(|member| {
        for step in 0..STEPS {
            arrivals.fetch_add(1, Ordering::SeqCst);
            member.barrier();
            let count = arrivals.load(Ordering::SeqCst);
            if count < (step + 1) * THREADS {
                early.store(true, Ordering::SeqCst);
            }
            member.barrier();
        }
    })
    .unwrap();
    assert_eq!(arrivals.into_inner(), THREADS * STEPS);
    assert!(!early.into_inner());
}

#[test]
fn states_made_by_one_run_are_lent_to_the_next() {
    let mut team = team(3);
    let mut states = team.run(|member| vec![member.index; 4]).unwrap();
    let sums = team
        .run_each(&mut states, |member, state| {
            state.push(100);
            state.iter().sum::<usize>() + member.index
        })
        .unwrap();
    assert_eq!(sums, [100, 105, 110]);
    assert!(states.iter().all(|state| state.len() == 5));
    let error = team.run_each(&mut states[1..], |_, _| ()).unwrap_err();
    assert_eq!(error.to_string(), "2 states were given to a team of 3 threads: one is needed for each");
}

#[test]
fn a_panic_releases_the_others_names_the_member_and_leaves_the_team_usable() {
    let mut team = team(4);
    let error = team
        .run(|member| {
            assert!(member.index != 2, "the third one fails");
            member.barrier();
            member.barrier();
        })
        .unwrap_err();
    assert!(matches!(error, TeamError::Panicked { index: 2, .. }), "{error}");
    assert!(error.to_string().contains("the third one fails"), "{error}");
    assert_eq!(team.run(|member| member.index).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_payload_that_panics_when_dropped_does_not_take_the_process_down() {
    struct Spiteful;
    impl Drop for Spiteful {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let mut team = team(2);
    let error = team.run(|_| std::panic::resume_unwind(Box::new(Spiteful))).unwrap_err();
    assert!(matches!(error, TeamError::Panicked { .. }));
}

#[test]
fn members_that_return_early_are_not_waited_for() {
    let mut team = team(4);
    let through = team
        .run(|member| {
            if member.index % 2 == 0 {
                return 0;
            }
            for _ in 0..50 {
                member.barrier();
            }
            1
        })
        .unwrap();
    assert_eq!(through, [0, 1, 0, 1]);
}

#[test]
fn members_sleep_between_runs() {
    let mut team = team(2);
    let before = team.run(|_| crate::clock::thread_cpu_time()).unwrap();
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_millis(60) {
        std::hint::spin_loop();
    }
    let after = team.run(|_| crate::clock::thread_cpu_time()).unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert!(*after - *before < std::time::Duration::from_millis(30), "{before:?} {after:?}");
    }
}

#[test]
fn a_forbidden_cpu_is_named_with_the_allowed_ones() {
    let error = Team::new(&[affinity::allowed().unwrap()[0], 1_000_000]).unwrap_err().to_string();
    assert!(error.contains("CPU 1000000 may not be used"), "{error}");
    assert!(error.contains(&ranges(&affinity::allowed().unwrap())), "{error}");
    assert!(matches!(Team::new(&[]), Err(TeamError::Empty)));
}

#[test]
fn sets_are_written_as_ranges() {
    assert_eq!(ranges(&[0, 1, 2, 5, 8, 9, 1024, 8191]), "0-2,5,8-9,1024,8191");
    assert_eq!(ranges(&[]), "");
}
