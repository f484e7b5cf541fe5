use super::*;

const CACHE: u64 = 2 << 20;
const PACE: f64 = 0.2;

/// A series of `seconds` with one CPU-bound thread that nothing disturbs.
fn quiet(seconds: f64) -> Vec<CommandInterval> {
    let one = |index: usize| CommandInterval {
        from: index as f64 * PACE,
        to: (index + 1) as f64 * PACE,
        run: 0.1995,
        wait: Some(0.0004),
        others: Some(0.0),
        elsewhere: Some(0.01),
        stolen: Some(0.0),
        throttled: Some(0.0),
        memory_stall: Some(0.0),
        io_stall: Some(0.0),
        ..CommandInterval::default()
    };
    (0..(seconds / PACE).round() as usize).map(one).collect()
}

/// A quiet series with a change to each interval between `from` and `to`.
fn disturbed(seconds: f64, from: f64, to: f64, change: fn(&mut CommandInterval)) -> Vec<CommandInterval> {
    let mut all = quiet(seconds);
    all.iter_mut().filter(|one| one.from >= from - 1e-9 && one.to <= to + 1e-9).for_each(change);
    all
}

fn verdict(intervals: &[CommandInterval]) -> SteadyVerdict {
    judge(intervals, CACHE)
}

/// Checks that there is one cause, from `from` to `to` within 0.5 s.
fn assert_span(intervals: &[CommandInterval], cause: Disturbance, from: f64, to: f64) {
    let found = verdict(intervals);
    assert_eq!(found.answer, SteadyAnswer::Disturbed, "{}", found.line);
    assert_eq!(found.spans.iter().map(|span| span.cause).collect::<Vec<_>>(), [cause], "{}", found.line);
    let span = &found.spans[0];
    assert!((span.from - from).abs() <= 0.5 && (span.to - to).abs() <= 0.5, "{span:?}");
}

fn competitor(one: &mut CommandInterval) {
    (one.run, one.wait, one.others) = (0.1, Some(0.1), Some(0.1));
}

fn scanned(one: &mut CommandInterval, other: &OtherProcess) {
    (one.scanned, one.busiest) = (PACE, vec![other.clone()]);
}

#[test]
fn nothing_disturbs_a_quiet_run_of_any_length() {
    for seconds in [0.2, 1.0, 10.0, 100.0] {
        let found = verdict(&quiet(seconds));
        assert_eq!(found.answer, SteadyAnswer::HeldStill, "{}", found.line);
        assert_eq!((found.spans.len(), found.share), (0, 0.0));
    }
}

#[test]
fn a_competitor_is_found_with_its_time_loss_and_name() {
    let mut all = disturbed(10.0, 4.0, 7.0, competitor);
    let hog = OtherProcess { name: "hog".to_owned(), cpus: 0.5, ..OtherProcess::default() };
    all.iter_mut().filter(|one| one.run < 0.15).for_each(|one| scanned(one, &hog));
    assert_span(&all, Disturbance::Competitor, 4.0, 7.0);
    let found = verdict(&all);
    assert!((found.spans[0].lost.unwrap() - 1.5).abs() < 0.1, "{:?}", found.spans);
    let line = "disturbed 30 % of the time: by other processes on its CPUs (hog) from 4.0 s to 7.0 s, which took 1.5 s of it";
    assert_eq!(found.line, line);
}

#[test]
fn a_busy_machine_does_not_disturb_a_command_that_sleeps_or_waits_for_itself_or_nothing() {
    let waiting = |one: &mut CommandInterval| (one.run, one.wait) = (0.4, Some(1.2));
    assert_eq!(verdict(&disturbed(10.0, 0.0, 10.0, waiting)).answer, SteadyAnswer::HeldStill);
    let sleeping = |one: &mut CommandInterval| {
        (one.run, one.wait) = (0.0, Some(0.0));
        (one.others, one.elsewhere, one.stolen) = (Some(0.2), Some(0.2), Some(0.05));
        one.throttled = Some(0.1);
    };
    assert_eq!(verdict(&disturbed(10.0, 0.0, 10.0, sleeping)).answer, SteadyAnswer::HeldStill);
    let elsewhere = |one: &mut CommandInterval| (one.others, one.elsewhere) = (Some(0.1), Some(0.2));
    assert_eq!(verdict(&disturbed(10.0, 0.0, 10.0, elsewhere)).answer, SteadyAnswer::HeldStill);
}

#[test]
fn a_quota_is_no_competitor_and_steal_counts_as_far_as_the_command_wanted_the_cpu() {
    let quota = |one: &mut CommandInterval| {
        (one.run, one.wait, one.throttled) = (0.16, Some(0.04), Some(0.04));
        one.others = Some(0.01);
    };
    assert_span(&disturbed(10.0, 5.0, 10.0, quota), Disturbance::Quota, 5.0, 10.0);
    let steal = |one: &mut CommandInterval| (one.run, one.stolen) = (0.17, Some(0.03));
    assert_span(&disturbed(10.0, 2.0, 6.0, steal), Disturbance::Steal, 2.0, 6.0);
}

#[test]
fn a_writer_disturbs_only_a_command_that_waits_for_the_disk() {
    let writer = |one: &mut CommandInterval| {
        let dd = OtherProcess { name: "dd".to_owned(), io: 90_000_000, ..OtherProcess::default() };
        (one.run, one.blocked) = (0.02, 1.0);
        (one.others_io, one.io) = (90_000_000, 10_000_000);
        scanned(one, &dd);
    };
    let all = disturbed(10.0, 3.0, 8.0, writer);
    assert_span(&all, Disturbance::Disk, 3.0, 8.0);
    assert!(verdict(&all).line.contains("(dd)"));
    let alone = |one: &mut CommandInterval| {
        (one.run, one.blocked, one.io, one.scanned) = (0.02, 1.0, 10_000_000, PACE)
    };
    assert_eq!(verdict(&disturbed(10.0, 0.0, 10.0, alone)).answer, SteadyAnswer::HeldStill);
}

#[test]
fn a_neighbour_needs_memory_on_both_sides() {
    let elsewhere = |one: &mut CommandInterval| {
        let hog = OtherProcess { name: "hog".to_owned(), cpus: 1.0, memory: 64 << 20, io: 0 };
        (one.elsewhere, one.memory) = (Some(0.2), 256 << 20);
        scanned(one, &hog);
    };
    assert_span(&disturbed(10.0, 4.0, 8.0, elsewhere), Disturbance::Neighbour, 4.0, 8.0);
    // It ended at 8.0 s, between two scans, of which the second does not see it.
    let mut ended = disturbed(10.0, 4.0, 8.0, elsewhere);
    ended[30..40].iter_mut().for_each(|one| (one.scanned, one.busiest) = (0.0, Vec::new()));
    (ended[45].scanned, ended[45].memory) = (3.2, 256 << 20);
    assert_span(&ended, Disturbance::Neighbour, 4.0, 8.0);
    let small = OtherProcess { name: "small".to_owned(), cpus: 0.5, memory: 4096, io: 0 };
    ended[45].busiest = vec![small];
    assert_span(&ended, Disturbance::Neighbour, 4.0, 6.0);
    let mut small = disturbed(10.0, 4.0, 8.0, elsewhere);
    small.iter_mut().for_each(|one| one.memory = 100_000);
    assert_eq!(verdict(&small).answer, SteadyAnswer::HeldStill);
}

#[test]
fn a_stop_is_found_by_state_and_by_a_gap() {
    let stopped = |one: &mut CommandInterval| (one.run, one.wait, one.stopped) = (0.0, Some(0.0), 1.0);
    assert_span(&disturbed(10.0, 4.0, 6.0, stopped), Disturbance::Stop, 4.0, 6.0);
    for (continued, cause) in [(true, Disturbance::Stop), (false, Disturbance::Pause)] {
        let mut all = quiet(10.0);
        all.drain(20..30);
        (all[20].from, all[20].late) = (4.0, 2.0);
        all[20].continued = continued;
        assert_span(&all, cause, 4.0, 6.2);
        // An observer that waited for a CPU was not stopped, nor one whose command ran.
        for change in
            [|one: &mut CommandInterval| one.own_wait = 2.0, |one: &mut CommandInterval| one.run = 2.1]
        {
            let mut late = all.clone();
            change(&mut late[20]);
            assert_eq!(verdict(&late).answer, SteadyAnswer::HeldStill);
        }
        // A long interval that was planned is no gap.
        all[20].late = 0.0;
        assert_eq!(verdict(&all).answer, SteadyAnswer::HeldStill);
    }
}

#[test]
fn suspension_memory_heat_and_clock_are_found() {
    assert_span(&disturbed(4.0, 2.0, 2.2, |one| one.suspended = 60.0), Disturbance::Suspension, 2.0, 2.2);
    let memory = |one: &mut CommandInterval| (one.memory_stall, one.major_faults) = (Some(0.1), 50);
    assert_span(&disturbed(10.0, 2.0, 5.0, memory), Disturbance::Memory, 2.0, 5.0);
    assert_span(&disturbed(10.0, 2.0, 5.0, |one| one.heat = 3), Disturbance::Heat, 2.0, 5.0);
    let mut slow = disturbed(10.0, 6.0, 9.0, |one| one.clock_hz = Some(2e9));
    slow.iter_mut().for_each(|one| one.clock_hz = one.clock_hz.or(Some(3e9)));
    assert_span(&slow, Disturbance::Clock, 6.0, 9.0);
}

#[test]
fn a_hiccup_of_a_long_run_is_no_disturbance_and_of_a_short_one_it_is() {
    let hiccup = |one: &mut CommandInterval| (one.run, one.wait, one.others) = (0.12, Some(0.08), Some(0.1));
    assert_eq!(verdict(&disturbed(60.0, 30.0, 30.2, hiccup)).answer, SteadyAnswer::HeldStill);
    assert_eq!(verdict(&disturbed(1.0, 0.4, 0.6, hiccup)).answer, SteadyAnswer::Disturbed);
}

#[test]
fn what_a_system_does_not_show_is_unknown() {
    let mut all = quiet(10.0);
    all.iter_mut().for_each(|one| (one.wait, one.others, one.elsewhere) = (None, None, None));
    assert_eq!(verdict(&all).answer, SteadyAnswer::Unknown);
    all.iter_mut().for_each(|one| (one.others, one.elsewhere) = (Some(0.1), Some(0.0)));
    assert!(verdict(&all).line.contains("schedstat"), "{}", verdict(&all).line);
    all.iter_mut().for_each(|one| one.others = Some(0.0));
    assert_eq!(verdict(&all).answer, SteadyAnswer::HeldStill);
    all.iter_mut().for_each(|one| (one.wait, one.others) = (Some(0.1), None));
    assert!(verdict(&all).line.contains("/proc/stat"));
    assert_eq!(verdict(&[]).answer, SteadyAnswer::Unknown);
}

fn facts(kernel: &str) -> Fingerprint {
    let facts = [("chip", "A Chip(R) 9 @ 2.0GHz"), ("kernel", kernel), ("hardware", "01"), ("cpus", "2")];
    Fingerprint { facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into() }
}

#[test]
fn another_machine_is_named_by_what_differs() {
    let held = verdict(&quiet(2.0));
    let differences = facts("6.2").differences(&facts("6.1"));
    let (answer, line) = summary(std::slice::from_ref(&held), ("main", &differences, &[]), &[]);
    assert_eq!(answer, SteadyAnswer::AnotherMachine);
    assert_eq!(line, "another machine than the baseline main: kernel 6.1 there, 6.2 here");
    assert_ne!(facts("6.1").testbed(), facts("6.2").testbed());
    assert!(facts("6.1").testbed().starts_with("a-chip-r-9-2-0ghz-2cpu-"));
    let same = summary(&[held], ("main", &facts("6").differences(&facts("6")), &[]), &[]);
    assert_eq!(same.0, SteadyAnswer::HeldStill);
}

#[test]
fn a_level_counts_beyond_its_noise_only() {
    let (name, unit) = ("memory read bandwidth".to_owned(), "B/s".to_owned());
    let (before, after) = (Some(10.0), None);
    let level = ProbeLevel { name, unit, higher_is_better: true, noise: 0.2, before, after };
    let change = |after| level.loss(before, after);
    assert_eq!([Some(8.1), None, Some(20.0)].map(change), [None, None, None]);
    let change = change(Some(5.0)).unwrap();
    assert!((change.loss - 0.5).abs() < 1e-12);
    let (answer, line) = summary(&[verdict(&quiet(2.0))], ("", &[], &[]), &[change]);
    assert_eq!(answer, SteadyAnswer::Disturbed);
    assert!(line.contains("was 50 % worse after the command than before"), "{line}");
}

#[test]
fn several_runs_are_counted() {
    let runs = [verdict(&quiet(2.0)), verdict(&disturbed(2.0, 0.0, 1.0, competitor))];
    let (_, line) = summary(&runs, ("", &[], &[]), &[]);
    assert!(line.starts_with("1 of 2 repetitions: disturbed 50 % of the time"), "{line}");
    assert_eq!(summary(&[], ("", &[], &[]), &[]).0, SteadyAnswer::Unknown);
}

proptest::proptest! {
    #[test]
    fn any_series_has_a_verdict(values in proptest::collection::vec((0.0..1.0_f64, 0.0..2.0_f64, 0.0..2.0_f64, 0.0..1.0_f64), 0..60)) {
        let mut all = quiet(values.len() as f64 * PACE);
        for (one, (run, wait, others, blocked)) in all.iter_mut().zip(values) {
            (one.run, one.wait, one.others, one.blocked, one.stolen) = (run, Some(wait), Some(others), blocked, Some(run));
        }
        let found = verdict(&all);
        proptest::prop_assert!((0.0..=1.0).contains(&found.share) && !found.line.contains("NaN"));
        for span in &found.spans {
            proptest::prop_assert!(span.from < span.to && span.lost.is_none_or(|lost| lost <= span.seconds() + 1e-9));
        }
    }
}

#[test]
fn a_run_of_some_ticks_is_not_judged() {
    for (to, answer, share) in [(0.04, SteadyAnswer::Unknown, 0.0), (4.0, SteadyAnswer::Disturbed, 1.0)] {
        let stopped = CommandInterval { to, stopped: 1.0, wait: Some(0.0), ..CommandInterval::default() };
        let verdict = judge(&[stopped], 1 << 20);
        assert_eq!((verdict.answer, verdict.share), (answer, share), "{to} s");
        assert_eq!(verdict.spans.is_empty(), share == 0.0, "{to} s");
    }
}
