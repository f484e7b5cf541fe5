use std::fs::File;
use std::os::fd::AsFd;

use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::buffer::Pages;

/// Makes a file whose bytes depend on their index, so that a misplaced read is detected.
fn patterned(len: usize) -> File {
    use std::io::Write;
    let mut file = tempfile::tempfile().expect("temporary file");
    let bytes: Vec<u8> = (0..len).map(byte_at).collect();
    file.write_all(&bytes).expect("fill");
    file
}

fn byte_at(i: usize) -> u8 {
    (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
}

fn holds(bytes: &[u8], from: usize) -> bool {
    bytes.iter().enumerate().all(|(i, &byte)| byte == byte_at(from + i))
}

pub(in super::super) fn read(slot: usize, offset: u64, len: usize) -> Request {
    Request { slot, op: RequestKind::Read, file: 0, offset, start: 0, len }
}

fn ring<F: AsFd>(file: F, depth: usize, block: usize) -> Option<Ring<F>> {
    available(Ring::on(vec![file], depth, block, Polling::default()))
}

fn available<F>(ring: Result<Ring<F>, RingError>) -> Option<Ring<F>> {
    match ring {
        Ok(ring) => Some(ring),
        Err(RingError::Unavailable(reason)) => {
            assert!(!reason.to_string().is_empty());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Waits for `wanted` requests and returns what is finished.
fn waited<F: AsFd>(ring: &mut Ring<F>, wanted: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    ring.wait(wanted, &mut done).expect("wait");
    done
}

fn performed<F: AsFd>(ring: &mut Ring<F>, request: Request) -> Result<usize, Errno> {
    ring.push(request).expect("push");
    waited(ring, 1)[0].outcome
}

#[test]
fn writes_arrive_where_they_were_sent_and_a_data_sync_completes() {
    let file = tempfile::tempfile().expect("temporary file");
    let Some(mut ring) = ring(&file, 2, 512) else { return };
    ring.buffer_mut(0).expect("idle").fill(0xA5);
    ring.buffer_mut(1).expect("idle").fill(0x5A);
    ring.push(Request { op: RequestKind::Write, ..read(0, 512, 512) }).expect("push");
    ring.push(Request { op: RequestKind::Write, start: 256, ..read(1, 0, 256) }).expect("push");
    let mut done = waited(&mut ring, 2);
    done.sort_by_key(|finished| finished.request.slot);
    assert_eq!(done.iter().map(|finished| finished.outcome).collect::<Vec<_>>(), [Ok(512), Ok(256)]);
    assert_eq!(performed(&mut ring, Request { op: RequestKind::DataSync, ..read(0, 0, 0) }), Ok(0));
    let mut expected = vec![0_u8; 1024];
    expected[..256].fill(0x5A);
    expected[512..].fill(0xA5);
    let mut found = vec![0; 1024];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, 0).expect("read");
    assert_eq!(found, expected);
}

#[test]
fn a_slot_in_use_lends_nothing_and_takes_nothing() {
    let file = patterned(4096);
    let Some(mut ring) = ring(&file, 1, 4096) else { return };
    ring.push(read(0, 0, 4096)).expect("push");
    assert!(ring.buffer(0).is_none() && ring.buffer_mut(0).is_none());
    assert_eq!(ring.push(read(0, 0, 4096)), Err(RingError::Slot { slot: 0, depth: 1 }));
    ring.submit().expect("submit");
    assert!(ring.slots.in_flight == 1 && ring.buffer(0).is_none());
    waited(&mut ring, 1);
    assert!(ring.buffer(0).is_some() && ring.buffer(1).is_none());
    assert_eq!(ring.push(read(1, 0, 1)), Err(RingError::Slot { slot: 1, depth: 1 }));
}

#[test]
fn a_pipe_nobody_writes_to_keeps_the_whole_depth_in_flight_until_it_is_written() {
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let Some(mut ring) = ring(reader, 4, 8) else { return };
    for slot in 0..4 {
        ring.push(read(slot, u64::MAX, 8)).expect("push");
    }
    ring.submit().expect("submit");
    assert_eq!(ring.slots.in_flight, 4);
    assert_eq!(waited(&mut ring, 0), []);
    for _ in 0..4 {
        rustix::io::write(&writer, &[7; 8]).expect("write");
    }
    assert_eq!(waited(&mut ring, 4).iter().filter(|finished| finished.outcome == Ok(8)).count(), 4);
}

#[test]
fn a_descriptor_without_the_right_reports_ebadf_and_a_directory_eisdir() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    let write_only = File::options().write(true).open(file.path()).expect("open");
    let directory = File::open(std::env::temp_dir()).expect("open");
    for (file, errno) in [(write_only, Errno::BADF), (directory, Errno::ISDIR)] {
        let Some(mut ring) = ring(file, 1, 512) else { return };
        assert_eq!(performed(&mut ring, read(0, 0, 512)), Err(errno));
    }
}

#[test]
fn dropping_a_ring_waits_for_what_is_in_flight() {
    let file = patterned(1 << 20);
    for _ in 0..50 {
        let Some(mut ring) = ring(&file, 16, 65_536) else { return };
        for slot in 0..16 {
            ring.push(read(slot, (slot * 65_536) as u64, 65_536)).expect("push");
        }
        ring.submit().expect("submit");
        ring.push(read(0, 0, 1)).expect_err("in use");
        drop(ring);
    }
    // A read that only a later write can finish: the drop must return after it.
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let Some(mut waiting) = ring(reader, 1, 8) else { return };
    waiting.push(read(0, u64::MAX, 8)).expect("push");
    waiting.submit().expect("submit");
    let writing = std::thread::spawn(move || rustix::io::write(&writer, &[1; 8]));
    drop(waiting);
    assert_eq!(writing.join().expect("thread"), Ok(8));
}

#[test]
fn dropping_a_ring_does_not_perform_what_was_only_queued() {
    let file = tempfile::tempfile().expect("temporary file");
    let Some(mut queued) = ring(&file, 1, 512) else { return };
    queued.push(Request { op: RequestKind::Write, ..read(0, 0, 512) }).expect("push");
    drop(queued);
    assert_eq!(file.metadata().expect("metadata").len(), 0);
}

#[test]
fn impossible_shapes_and_ranges_are_refused() {
    let file = patterned(4096);
    let shapes = [(0, 4096), (MAX_DEPTH + 1, 4096), (1, 0), (1, MAX_BLOCK + 1), (usize::MAX, MAX_BLOCK)];
    for (depth, block) in shapes {
        let made = Ring::on(vec![&file], depth, block, Polling::default());
        assert_eq!(made.err(), Some(RingError::Geometry { depth, block }));
    }
    let Some(mut ring) = ring(&file, 1, 4096) else { return };
    for (start, len) in [(0, 4097), (4096, 1), (usize::MAX, 1), (1, usize::MAX)] {
        let wanted = Err(RingError::Range { start, len, block: 4096 });
        assert_eq!(ring.push(Request { start, ..read(0, 0, len) }), wanted);
    }
    ring.push(read(0, 0, 4096)).expect("the slot was left idle");
}

/// 64 MiB of buffers are registered, or not because of the limit; both are read into.
#[test]
fn many_buffers_are_registered_or_it_says_why_not() {
    let file = patterned(4096);
    let Some(mut ring) = ring(&file, 64, 1 << 20) else { return };
    let buffers = ring.granted().buffers;
    assert!([Ok(()), Err(Errno::NOMEM)].contains(&buffers), "{buffers:?}");
    let limited = std::env::var_os(LITTLE_MEMLOCK).is_some();
    assert!(!limited || buffers.is_err(), "64 MiB were locked under a limit of 64 KiB");
    assert_eq!(performed(&mut ring, read(63, 0, 4096)), Ok(4096));
    assert!(holds(&ring.buffer(63).expect("idle")[..4096], 0));
}

const LITTLE_MEMLOCK: &str = "PLIMSOLL_TEST_LITTLE_MEMLOCK";

#[test]
fn without_locked_memory_buffers_are_used_unregistered() {
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new("setpriv");
    // CAP_IPC_LOCK, which root has, would lift the limit.
    if rustix::process::geteuid().is_root() {
        command.arg("--bounding-set=-ipc_lock");
    }
    let inner = "io::uring::tests::many_buffers_are_registered_or_it_says_why_not";
    let limited = command
        .args(["prlimit", "--memlock=65536"])
        .arg(program)
        .args(["--exact", inner])
        .env(LITTLE_MEMLOCK, "1")
        .output()
        .expect("setpriv and prlimit are in util-linux, which every Linux system has");
    let text = String::from_utf8_lossy(&limited.stdout);
    assert!(limited.status.success() && text.contains("1 passed"), "{} {text}", limited.status);
}

#[test]
fn each_refusal_of_the_kernel_is_named() {
    let cases = [
        (Errno::NOSYS, None, Unavailable::Absent),
        (Errno::PERM, Some("2\n"), Unavailable::Sysctl(2)),
        (Errno::PERM, Some("1"), Unavailable::Sysctl(1)),
        (Errno::PERM, Some("0\n"), Unavailable::Forbidden(Errno::PERM)),
        (Errno::PERM, Some("garbage \u{1b}[31m"), Unavailable::Forbidden(Errno::PERM)),
        (Errno::ACCESS, None, Unavailable::Forbidden(Errno::ACCESS)),
        (Errno::NOMEM, None, Unavailable::Memory),
        (Errno::MFILE, None, Unavailable::Descriptors),
        (Errno::IO, None, Unavailable::Other(Errno::IO)),
    ];
    for (errno, sysctl, expected) in cases {
        assert_eq!(Unavailable::classify(errno, sysctl), expected);
    }
}

#[test]
fn a_transfer_buffer_is_zeroed_aligned_and_writable_and_in_huge_pages_from_one_on() {
    for len in [1, 511, 4096, (1 << 20) + 1, 2 << 20, (4 << 20) + 1] {
        let mut buffer = transfer_buffer(len).expect("memory");
        assert_eq!(buffer.pages == Pages::Thp, len >= 2 << 20, "{len}");
        let bytes = buffer.bytes_mut();
        assert_eq!(bytes.as_ptr() as usize % rustix::param::page_size(), 0);
        assert!(bytes.len() == len && bytes.iter().all(|&byte| byte == 0));
        bytes.fill(9);
        assert!(bytes.iter().all(|&byte| byte == 9));
    }
    assert_eq!(transfer_buffer(0).err(), Some(RingError::Memory(0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_read_returns_the_bytes_of_its_range(
        requests in prop::collection::vec((0_usize..20_000, 0_usize..=4096, 0_usize..=4096), 1..16),
    ) {
        let file = patterned(16_384);
        let Some(mut ring) = ring(&file, 16, 4096) else { return Ok(()) };
        let mut expected = Vec::new();
        for (slot, &(offset, a, b)) in requests.iter().enumerate() {
            let (start, end) = (a.min(b), a.max(b));
            ring.push(Request { start, ..read(slot, offset as u64, end - start) })?;
            expected.push((end - start).min(16_384_usize.saturating_sub(offset)));
        }
        let done = waited(&mut ring, requests.len());
        prop_assert_eq!((done.len(), ring.slots.in_flight), (requests.len(), 0));
        for finished in done {
            let Request { slot, offset, start, .. } = finished.request;
            let bytes = expected[slot];
            prop_assert_eq!(finished.outcome, Ok(bytes));
            prop_assert!(finished.submitted_ns <= finished.accepted_ns);
            prop_assert!(finished.accepted_ns <= finished.completed_ns);
            let buffer = ring.buffer(slot).expect("idle");
            prop_assert!(holds(&buffer[start..start + bytes], offset as usize));
            prop_assert!(buffer[..start].iter().chain(&buffer[start + bytes..]).all(|&byte| byte == 0));
        }
    }
}

#[test]
fn several_files_are_told_apart_and_one_that_is_not_there_is_refused() {
    let files = vec![patterned(8192), tempfile::tempfile().expect("temporary file")];
    let Some(mut ring) = available(Ring::on(files, 2, 4096, Polling::default())) else { return };
    let written = |op| Request { op, file: 1, ..read(0, 0, 4096) };
    let writes = [RequestKind::Write, RequestKind::WriteThrough].map(written);
    for request in [read(0, 4096, 4096), writes[0], writes[1], Request { file: 1, ..read(1, 0, 4096) }] {
        assert_eq!(performed(&mut ring, request), Ok(4096), "{request:?}");
    }
    assert!(holds(ring.buffer(1).expect("idle"), 4096));
    assert_eq!(ring.push(Request { file: 2, ..read(0, 0, 1) }), Err(RingError::File { file: 2, files: 2 }));
}

#[test]
fn trimmed_bytes_read_as_zeros_and_count_as_moved() {
    let Some(mut ring) = ring(patterned(16_384), 1, 4096) else { return };
    let trimmed = performed(&mut ring, Request { op: RequestKind::Trim, ..read(0, 4096, 4096) });
    if trimmed == Err(Errno::OPNOTSUPP) {
        return;
    }
    assert_eq!((trimmed, performed(&mut ring, read(0, 4096, 4096))), (Ok(4096), Ok(4096)));
    assert!(ring.buffer(0).expect("idle").iter().all(|&byte| byte == 0));
}

#[test]
fn waiting_within_a_time_ends_without_a_completion_and_finds_one_that_is_there() {
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let Some(mut ring) = ring(reader, 2, 8) else { return };
    let mut done = Vec::new();
    ring.wait_within(WaitEnd::Nanoseconds(0), &mut done).expect("nothing is in flight");
    ring.push(read(0, u64::MAX, 8)).expect("push");
    for ns in [0, 1, 1_000_000] {
        ring.wait_within(WaitEnd::Nanoseconds(ns), &mut done).expect("wait");
    }
    assert_eq!((done.len(), ring.slots.in_flight), (0, 1));
    rustix::io::write(&writer, &[1; 8]).expect("write");
    ring.wait_within(WaitEnd::Endless, &mut done).expect("wait");
    assert_eq!((done.len(), done[0].outcome), (1, Ok(8)));
}

/// With a submission-polling kernel thread, all requests return right, and dropping waits for them.
#[test]
fn a_ring_whose_submissions_are_polled_reads_the_same() {
    let polling = Polling { submission: true, completion: false };
    for _ in 0..20 {
        let Some(mut ring) = available(Ring::on(vec![patterned(1 << 16)], 4, 4096, polling)) else { return };
        for slot in 0..4 {
            ring.push(read(slot, slot as u64 * 8192, 4096)).expect("push");
        }
        assert_eq!(waited(&mut ring, 4).len(), 4);
        for slot in 0..4 {
            assert!(holds(ring.buffer(slot).expect("idle"), slot * 8192));
        }
        ring.push(read(0, 0, 4096)).expect("push");
    }
}

#[test]
fn its_files_are_let_go_of_with_the_ring() {
    for _ in 0..20 {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("pipe");
        let Some(ring) = ring(writer, 4, 512) else { return };
        drop(ring);
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0), "somebody could still write");
    }
}
