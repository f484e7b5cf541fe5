//! Processes that hold a device or file open or mapped without an exclusive claim.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::overlays::BlindOverlays;
use super::rings::{self, Registered};
use super::thing::{FileId, FileOrDevice};
use crate::mounts::DeviceNumber;
use crate::root::{ReadError, Root};
use plimsoll_units::text::shown_bytes;

const MAPS_CAP: u64 = 32 << 20;

/// Most descriptors of a process's threads that are examined beyond its own: about a second's work.
const MOST_OF_THREADS: usize = 1 << 18;

/// A process that holds a file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Process ID.
    pub process: u32,
    /// Process name (comm).
    pub name: String,
}

/// A device or file to search for among the open files of all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFile {
    /// The device or file.
    pub thing: FileOrDevice,
    /// Displayed name.
    pub name: String,
    /// Whether pure readers are ignored: device managers read the members of what they manage.
    pub writers_only: bool,
    /// Ignored processes: they serve the device.
    pub exempt: Vec<u32>,
    /// Overlays with unknown layers that may show the file under a device number of their own.
    pub shown_on: BlindOverlays,
}

impl WatchedFile {
    /// Returns whether the file `open`, called `name`, may be this file as shown by an overlay with
    /// unknown layers: it is on such an overlay, and inode or name are equal.
    pub(super) fn may_show(&self, open: FileOrDevice, name: Option<&OsStr>) -> bool {
        match (self.thing, open) {
            (FileOrDevice::File(own), FileOrDevice::File(open)) if self.shown_on.may_have(open.system) => {
                open.inode == own.inode
                    || name.is_some_and(|name| Path::new(&self.name).file_name() == Some(name))
            }
            _ => false,
        }
    }
}

/// Result of a search through the processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenerSearch {
    /// The first process that holds one of the things, and the index of the thing.
    pub holder: Option<(Opener, usize)>,
    /// Number of processes whose files could not be examined or were too many.
    pub unseen: usize,
    /// The first process with an io_uring whose registered files the kernel does not list.
    pub unlisted: Option<Opener>,
}

/// Finds the first process, except plimsoll's own, that has a `watched` file open or mapped, and
/// counts the processes before it that cannot be examined.
pub fn find_holder(root: &Root, watched: &[WatchedFile]) -> OpenerSearch {
    let run = root.is_live().then(|| OwnProcesses::here(root, std::process::id()));
    let mut seen = OpenerSearch::default();
    for process in root.processes() {
        if run.as_ref().is_some_and(|run| run.has(root, process)) {
            continue;
        }
        let opener = || Opener { process, name: process_name(root, process) };
        match held_by(root, process, watched) {
            None => seen.unseen += 1,
            Some((Some(place), _)) => {
                seen.holder = Some((opener(), place));
                return seen;
            }
            Some((None, true)) => {
                seen.unlisted.get_or_insert_with(opener);
            }
            Some((None, false)) => {}
        }
    }
    seen
}

struct OwnProcesses {
    heads: Vec<u32>,
    program: Option<FileOrDevice>,
}

impl OwnProcesses {
    fn here(root: &Root, own: u32) -> Self {
        let ours = program(root, own);
        let parent = parent(root, own).filter(|parent| ours.is_some() && program(root, *parent) == ours);
        Self { heads: std::iter::once(own).chain(parent).collect(), program: ours }
    }

    fn has(&self, root: &Root, process: u32) -> bool {
        let is_child = || parent(root, process).is_some_and(|parent| self.heads.contains(&parent));
        let same = || self.program.is_some() && program(root, process) == self.program;
        self.heads.contains(&process) || (is_child() && same())
    }
}

/// Returns the executable of a process; `None` if unreadable.
fn program(root: &Root, process: u32) -> Option<FileOrDevice> {
    FileOrDevice::at(root, Path::new(&format!("/proc/{process}/exe")))
}

fn parent(root: &Root, process: u32) -> Option<u32> {
    let stat = root.text(format!("proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns how to examine processes of other users: `run as root to check them` (ptrace(2)).
pub fn remedy() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "run it with the capability CAP_SYS_PTRACE to check them",
        false => "run as root to check them",
    }
}

/// Returns the name (comm) of a process; empty if the process has ended.
pub fn process_name(root: &Root, process: u32) -> String {
    let comm = root.head(Path::new(&format!("proc/{process}/comm")), 64).unwrap_or_default();
    shown_bytes(comm.trim_ascii_end())
}

/// Returns the open files and devices of `process` and its threads, each as (descriptor path
/// `proc/PID/fd/N`, identity); `None` if denied or too many.
pub fn open_files(root: &Root, process: u32) -> Option<Vec<(PathBuf, FileOrDevice)>> {
    Some(all_open_files(root, process)?.files)
}

#[derive(Default)]
struct OpenFiles {
    files: Vec<(PathBuf, FileOrDevice)>,
    lost: Vec<Registered>,
    unlisted: bool,
}

/// Returns the open files of all threads, with those in io_urings; `None` if denied or too many.
fn all_open_files(root: &Root, process: u32) -> Option<OpenFiles> {
    let mut all = OpenFiles::default();
    open_in(root, &process.to_string(), &mut all)?;
    let number = |link: &Path| link.file_name().map(OsStr::to_owned);
    let shared: HashMap<_, _> = all.files.iter().map(|(link, thing)| (number(link), *thing)).collect();
    let mut looked = 0;
    for thread in root.threads(process).into_iter().filter(|thread| *thread != process) {
        let before = all.files.len();
        open_in(root, &format!("{process}/task/{thread}"), &mut all)?;
        let own = all.files.split_off(before);
        looked += own.len();
        if looked > MOST_OF_THREADS {
            return None;
        }
        all.files.extend(own.into_iter().filter(|(link, thing)| shared.get(&number(link)) != Some(thing)));
    }
    Some(all)
}

/// Returns a thread of `process` with readable `maps`, as the first may have ended; else `process`.
fn thread_with_maps(root: &Root, process: u32) -> u32 {
    let has_maps = |thread: &u32| {
        root.head(Path::new(&format!("proc/{thread}/maps")), 1).is_ok_and(|maps| !maps.is_empty())
    };
    if has_maps(&process) {
        return process;
    }
    root.threads(process).into_iter().find(has_maps).unwrap_or(process)
}

/// Adds the open files of `thread`, a directory below `/proc`, to `all`; `None` if denied.
fn open_in(root: &Root, thread: &str, all: &mut OpenFiles) -> Option<()> {
    let dir = PathBuf::from(format!("proc/{thread}/fd"));
    let numbers = match root.numbers(&dir) {
        Err(ReadError::Denied(_)) => return None,
        found => found.unwrap_or_default(),
    };
    for link in numbers.into_iter().map(|number| dir.join(number.to_string())) {
        if let Some(thing) = FileOrDevice::open_at(root, &link) {
            all.files.push((link, thing));
            continue;
        }
        // Threads mostly have common rings: only one unlisted ring is waited for.
        match rings::registered(root, thread, &link, !all.unlisted) {
            None => all.unlisted = true,
            Some(registered) => {
                for file in registered {
                    match file.thing {
                        Some(thing) => all.files.push((link.clone(), thing)),
                        None => all.lost.push(file),
                    }
                }
            }
        }
    }
    Some(())
}

/// Returns the value after `line`, such as `flags:`, in the fdinfo of `link` (`proc/PID/fd/N`).
pub(super) fn fdinfo_value(root: &Root, link: &Path, line: &str) -> Option<String> {
    let dir = link.parent()?.parent()?;
    let info = root.text(dir.join("fdinfo").join(link.file_name()?)).ok()?;
    info.lines().find_map(|text| text.strip_prefix(line)).map(|text| text.trim().to_owned())
}

/// Returns the access mode of the descriptor `link` (`proc/PID/fd/N`); `None` if unknown.
pub fn access_mode(root: &Root, link: &Path) -> Option<OpenMode> {
    const MODE: u32 = 3;
    Some(match u32::from_str_radix(&fdinfo_value(root, link, "flags:")?, 8).ok()? & MODE {
        0 => OpenMode::Read,
        1 => OpenMode::Write,
        _ => OpenMode::Both,
    })
}

/// Access mode of an open file (open(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Read only.
    Read,
    /// Write only.
    Write,
    /// Read and write.
    Both,
}

/// Returns the index in `watched` of a file that `process` has open or mapped, if any, and whether
/// it has an io_uring whose files the kernel does not list; `None` if it may not be examined.
fn held_by(root: &Root, process: u32, watched: &[WatchedFile]) -> Option<(Option<usize>, bool)> {
    let of = |is: &dyn Fn(&WatchedFile) -> bool| {
        watched.iter().position(|one| !one.exempt.contains(&process) && is(one))
    };
    let place = |thing: FileOrDevice| of(&|one| one.thing == thing);
    let counts = |place: &usize, link: &Path| {
        !watched[*place].writers_only || access_mode(root, link) != Some(OpenMode::Read)
    };
    let all = all_open_files(root, process)?;
    let shown = |link: &Path, thing: FileOrDevice| {
        let path = root.link_text(link).unwrap_or_default();
        of(&|one| one.may_show(thing, path.file_name())).filter(|_| !on_btrfs(root, link))
    };
    let open = all.files.iter().find_map(|(link, thing)| {
        place(*thing).or_else(|| shown(link, *thing)).filter(|place| counts(place, link))
    });
    let open = open.or_else(|| of(&|one| all.lost.iter().any(|file| file.may_be(&one.name))));
    let unlisted = all.unlisted && of(&|_| true).is_some();
    if open.is_some() {
        return Some((open, unlisted));
    }
    let mapped = mapped(root, thread_with_maps(root, process), &place, watched)?;
    Some((mapped.filter(|place| !watched[*place].writers_only), unlisted))
}

/// Returns whether an open file is on btrfs, whose device numbers are in no mount table.
fn on_btrfs(root: &Root, link: &Path) -> bool {
    const BTRFS: u32 = 0x9123_683e;
    root.is_live() && root.magic(link) == Some(BTRFS)
}

/// Returns the index in `watched` of a file that `process` maps; `place` looks up a file's index.
/// `Some(None)` if none, also of an unreadable process; `None` if its list of mappings is too long.
fn mapped(
    root: &Root,
    process: u32,
    place: &impl Fn(FileOrDevice) -> Option<usize>,
    watched: &[WatchedFile],
) -> Option<Option<usize>> {
    let maps = match root.bytes(Path::new(&format!("proc/{process}/maps")), MAPS_CAP) {
        Ok(maps) => maps,
        Err(ReadError::TooLong(..)) => return None,
        Err(_) => return Some(None),
    };
    let inode =
        |thing: &FileOrDevice| if let FileOrDevice::File(file) = thing { Some(file.inode) } else { None };
    let mut lines = maps.split(|byte| *byte == b'\n').filter_map(mapping);
    let found = lines.find_map(|(range, mapped)| {
        if let Some(found) = mapped.and_then(place) {
            return Some(found);
        }
        // Only the link identifies a device; file system numbers may differ from stat(2) (btrfs).
        let like =
            |one: &WatchedFile| mapped.is_none() || inode(&one.thing) == mapped.as_ref().and_then(inode);
        if !watched.iter().any(like) {
            return None;
        }
        place(FileOrDevice::open_at(root, Path::new(&format!("proc/{process}/map_files/{range}")))?)
    });
    Some(found)
}

/// Parses `7f52-7f53 rw-s 00000000 fe:01 1234  /data/file` (proc_pid_maps(5)) to address range and
/// file (`None` for a device); outer `None` without an inode.
fn mapping(line: &[u8]) -> Option<(String, Option<FileOrDevice>)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.split_whitespace();
    let (range, system, inode) = (fields.next()?, fields.nth(2)?, fields.next()?);
    let (major, minor) = system.split_once(':')?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let system = DeviceNumber { major: hex(major)?, minor: hex(minor)? };
    let inode: u64 = inode.parse().ok().filter(|inode| *inode != 0)?;
    let path = fields.next().unwrap_or_default();
    let device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    Some((range.to_owned(), (!device).then_some(FileOrDevice::File(FileId { system, inode }))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn watched(thing: FileOrDevice, name: &str, writers_only: bool) -> WatchedFile {
        let shown_on = BlindOverlays::default();
        WatchedFile { thing, name: name.to_owned(), writers_only, exempt: Vec::new(), shown_on }
    }

    /// Watches `/srv/disk.img` of the tree.
    fn image(fixture: &Fixture, writers_only: bool) -> WatchedFile {
        let path = "/srv/disk.img";
        let thing = FileOrDevice::at(&fixture.root, Path::new(path)).unwrap();
        watched(thing, path, writers_only)
    }

    #[test]
    fn who_holds_a_file_open_or_mapped_is_named_but_not_this_program() {
        let root = Root::live();
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let thing = FileOrDevice::at(&root, file.path()).expect("there");
        let watched = |writers_only| watched(thing, "file", writers_only);
        let found = |watched: WatchedFile| find_holder(&root, &[watched]).holder;
        assert_eq!(found(watched(false)), None, "this process holds it");
        let held = |open: std::fs::File| {
            let mut sleep = std::process::Command::new("sleep").arg("60").stdin(open).spawn().expect("sleep");
            let by_both = [found(watched(false)), found(watched(true))];
            let exempt = found(WatchedFile { exempt: vec![sleep.id()], ..watched(false) });
            sleep.kill().expect("end");
            sleep.wait().expect("end");
            (Some((Opener { process: sleep.id(), name: "sleep".to_owned() }, 0)), by_both, exempt)
        };
        let (sleep, by_both, exempt) = held(file.reopen().expect("open"));
        assert_eq!(by_both, [sleep.clone(), sleep]);
        assert_eq!((exempt, found(watched(false))), (None, None));
        let (sleep, by_both, _) = held(std::fs::File::open(file.path()).expect("open"));
        assert_eq!(by_both, [sleep, None], "it only reads");
    }

    #[test]
    fn the_threads_of_a_process_are_looked_at_too() {
        let process = "srv/disk.img = bytes\nsrv/log = x\nproc/77/comm = server\nproc/77/fd/\n\
            proc/77/task/77/fd/\nproc/77/task/78/fd/4 -> /srv/log\nproc/78/maps = x\n";
        let found = |more: &str| {
            let fixture = Fixture::unpack(&format!("{process}{more}")).unwrap();
            let seen = find_holder(&fixture.root, &[image(&fixture, false)]);
            assert_eq!(seen.unseen, 0);
            (seen.holder.map(|(opener, _)| opener.process), thread_with_maps(&fixture.root, 77))
        };
        assert_eq!(found(""), (None, 78));
        assert_eq!(found("proc/77/task/78/fd/3 -> /srv/disk.img\n"), (Some(77), 78));
    }

    #[test]
    fn rings_of_all_threads_are_looked_at_and_a_busy_one_is_named() {
        let server = Opener { process: 77, name: "server".to_owned() };
        let held = OpenerSearch { holder: Some((server.clone(), 0)), ..OpenerSearch::default() };
        let unlisted = OpenerSearch { unlisted: Some(server), ..OpenerSearch::default() };
        // Kernels before 6.7 give the name alone; a file may be seen at another path from there.
        let file = |path: &str| format!("UserFiles:\\t1\\n    0: {path}\\nUserBufs:\\t0");
        let cases = [
            (file("/srv/disk.img"), &held),
            (file("disk.img"), &held),
            (file("/elsewhere/disk.img"), &held),
            (file("/srv/other.img"), &OpenerSearch::default()),
            (String::new(), &unlisted),
            ("UserFiles:\\t1\\nUserBufs:\\t0".to_owned(), &unlisted),
        ];
        for thread in ["77", "77/task/78"] {
            let seen = |info: &str, exempt: Vec<u32>| {
                let fixture = Fixture::unpack(&format!(
                    "srv/disk.img = bytes\nproc/77/comm = server\nproc/77/fd/\nproc/77/task/77/fd/\n\
                     proc/77/maps = x\nproc/{thread}/fd/5 -> anon_inode:[io_uring]\n{info}"
                ))
                .unwrap();
                let watched = WatchedFile { exempt, ..image(&fixture, true) };
                find_holder(&fixture.root, &[watched])
            };
            for (listed, expected) in &cases {
                let info = format!("proc/{thread}/fdinfo/5 = flags:\\t02000002\\n{listed}\n");
                assert_eq!(&seen(&info, Vec::new()), *expected, "{thread} {listed}");
                assert_eq!(seen(&info, vec![77]), OpenerSearch::default(), "{thread} {listed}");
            }
            assert_eq!(seen("", Vec::new()), unlisted, "{thread}: it cannot be read");
        }
    }

    #[test]
    fn a_process_with_very_many_open_files_is_looked_at_to_the_last() {
        let tree = "srv/disk.img = bytes\nproc/77/comm = server\nproc/77/fd/\nproc/77/maps = x\n";
        let fixture = Fixture::unpack(tree).unwrap();
        let open = fixture.dir.path().join("proc/77/fd");
        for number in 10_000..30_000 {
            std::os::unix::fs::symlink("/dev/null", open.join(number.to_string())).unwrap();
        }
        let watched = [image(&fixture, false)];
        assert_eq!(find_holder(&fixture.root, &watched), OpenerSearch::default());
        std::os::unix::fs::symlink("/srv/disk.img", open.join("9")).unwrap();
        std::os::unix::fs::symlink("/srv/disk.img", open.join("99999")).unwrap();
        std::fs::remove_file(open.join("9")).unwrap();
        assert_eq!(find_holder(&fixture.root, &watched).holder.map(|(opener, _)| opener.process), Some(77));
        std::fs::remove_file(open.join("99999")).unwrap();
        let maps = std::fs::File::create(fixture.dir.path().join("proc/77/maps")).unwrap();
        maps.set_len(MAPS_CAP + 1).unwrap();
        assert_eq!(find_holder(&fixture.root, &watched).unseen, 1);
    }

    #[test]
    fn another_run_of_the_same_program_is_a_user() {
        let process = |id: u32, parent: u32, program: &str| {
            format!("proc/{id}/stat = {id} (a) b) S {parent} 1 1\nproc/{id}/exe -> ../../bin/{program}\n")
        };
        let programs = [(20, 10), (21, 20), (22, 20), (30, 10), (31, 30)];
        let tree = programs.map(|(id, parent)| process(id, parent, "plimsoll")).concat();
        let shells = process(10, 1, "sh") + &process(23, 21, "sh");
        let fixture = Fixture::unpack(&format!("bin/plimsoll = a\nbin/sh = b\n{tree}{shells}")).unwrap();
        for own in [20, 21] {
            let run = OwnProcesses::here(&fixture.root, own);
            let ours = [10, 20, 21, 22, 23, 30, 31].map(|process| run.has(&fixture.root, process));
            assert_eq!(ours, [false, true, true, true, false, false, false], "{own}");
        }
    }

    #[test]
    fn a_line_of_the_mappings_is_taken_apart() {
        let of = |line: &str| mapping(line.as_bytes());
        let file = FileOrDevice::File(FileId { system: DeviceNumber { major: 254, minor: 1 }, inode: 1234 });
        let said = of("7f52-7f53 rw-s 00000000 fe:01 1234    /data/a file");
        assert_eq!(said, Some(("7f52-7f53".to_owned(), Some(file))));
        assert_eq!(of("7f52-7f53 rw-s 00000000 00:05 99 /dev/sdb"), Some(("7f52-7f53".to_owned(), None)));
        for none in ["", "7f52-7f53 rw-p 00000000 00:00 0", "7f52-7f53 rw-p 00000000 00:00 0 [heap]"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
