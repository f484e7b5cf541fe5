//! Whether anybody else can decide what a program is: every directory and link on the way to it is looked at, as the kernel
//! walks it, and not only the file that the path ends at.
//!
//! For root a name is trusted where it lies in a directory that only root may write, and is root's itself; for other users
//! where not anybody may write: sites install programs under an account and a group of their own. A directory with the sticky bit (`/tmp`) is passed through to a directory of theirs, which nobody else can rename; a file or a link
//! in it may be a second name that somebody made. What is trusted cannot be exchanged before it is started, so that no
//! descriptor must be held until then (a script could not be started by one: its interpreter would find no such file).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Bits of a mode: its group may write, anybody may, and names are taken away by their owners only.
const GROUP_WRITES: u32 = 0o020;
const ANYBODY_WRITES: u32 = 0o002;
const STICKY: u32 = 0o1000;
const ANYBODY_RUNS: u32 = 0o111;

/// Links on one way that the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// Interpreters of interpreters that the kernel follows (`BINPRM_BUF_SIZE` bytes of each file; execve(2)).
const MOST_INTERPRETERS: usize = 5;
const INTERPRETER_BYTES: u64 = 256;

/// Root and this user, and where root of the machine has no number here, the one that stands for all who have none.
pub fn owners() -> BTreeSet<u32> {
    let read = |path: &str| crate::text::read_small(Path::new(path), 1 << 20).unwrap_or_default();
    let mut owners = BTreeSet::from([0, rustix::process::geteuid().as_raw()]);
    owners.extend(nobody(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid")));
    owners
}

/// The first directory on the way to `path`, as far as it exists, in which every user can exchange names: written by anybody, and
/// not sticky.
pub fn shared_directory(path: &Path) -> Option<PathBuf> {
    let real = path.ancestors().find_map(|directory| directory.canonicalize().ok())?;
    let is_shared = |directory: &&Path| {
        let mode = directory.metadata().map_or(0, |found| found.mode());
        mode & ANYBODY_WRITES != 0 && mode & STICKY == 0
    };
    real.ancestors().find(is_shared).map(Path::to_owned)
}

/// Whose files are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    user: u32,
    /// As [`owners`] has them.
    owners: BTreeSet<u32>,
    /// Groups of which nobody else is a member.
    groups: BTreeSet<u32>,
}

impl Trust {
    /// Of the user who runs this.
    pub fn here() -> Self {
        let read = |path: &str| crate::text::read_small(Path::new(path), 1 << 20).unwrap_or_default();
        let user = rustix::process::geteuid().as_raw();
        let owners = owners();
        let groups = own_groups(&read("/etc/passwd"), &read("/etc/group"), &owners);
        Self { user, owners, groups }
    }

    /// The file that `path` leads to, if it can be run and nobody else decides what it is, nor its interpreter if it is a
    /// script.
    ///
    /// # Errors
    /// Why not, in one line.
    pub fn program(&self, path: &Path) -> Result<PathBuf, String> {
        let mut next = path.to_owned();
        let mut first = None;
        for _ in 0..MOST_INTERPRETERS {
            let real = self.real(&next)?;
            let script = interpreter(&real);
            let first = first.get_or_insert(real).clone();
            match script {
                None => return Ok(first),
                Some(interpreter) if interpreter.is_absolute() => next = interpreter,
                Some(interpreter) => {
                    return Err(format!(
                        "{} is not run: its interpreter {} is not an absolute path",
                        shown(path),
                        shown(&interpreter)
                    ));
                }
            }
        }
        Err(format!(
            "{} is not run: its #! line leads through too many scripts; name the program itself",
            shown(path)
        ))
    }

    /// Walks to the file as the kernel does.
    fn real(&self, path: &Path) -> Result<PathBuf, String> {
        let refused = |why: String| format!("{} is not run{}: {why}", shown(path), self.as_root());
        let absolute = std::path::absolute(path).map_err(|e| format!("{}: {e}", shown(path)))?;
        let mut left: Vec<OsString> = Vec::new();
        push(&mut left, &absolute);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let open = self.directory(&at).map_err(refused)?;
            let next = at.join(name);
            let found = next.symlink_metadata().map_err(|e| format!("{}: {e}", shown(path)))?;
            if open || self.is_strict() {
                self.owned(&next, &found).map_err(refused)?;
            }
            if found.is_dir() {
                at = next;
                continue;
            }
            if open {
                return Err(refused(format!("other users may write {}", shown(&at))));
            }
            if found.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err(format!("{}: too many links", shown(path)));
                }
                let to = next.read_link().map_err(|e| format!("{}: {e}", shown(path)))?;
                if to.is_absolute() {
                    at = PathBuf::from("/");
                }
                push(&mut left, &to);
                continue;
            }
            if !left.is_empty() || !found.is_file() || found.mode() & ANYBODY_RUNS == 0 {
                return Err(format!("{} is not an executable file", shown(path)));
            }
            if self.others_write(&next, &found) {
                return Err(refused(format!("other users may write {}", shown(&next))));
            }
            return Ok(next);
        }
        Err(format!("{} is not an executable file", shown(path)))
    }

    /// That a directory is ours; whether others may add names to it.
    fn directory(&self, path: &Path) -> Result<bool, String> {
        let found = path.symlink_metadata().map_err(|e| format!("{}: {e}", shown(path)))?;
        if self.is_strict() {
            self.owned(path, &found)?;
        }
        match self.others_write(path, &found) {
            true if found.mode() & STICKY == 0 => Err(format!("other users may write {}", shown(path))),
            open => Ok(open),
        }
    }

    fn owned(&self, path: &Path, found: &Metadata) -> Result<(), String> {
        match self.owners.contains(&found.uid()) {
            true => Ok(()),
            false => Err(format!("{} belongs to another user (uid {})", shown(path), found.uid())),
        }
    }

    /// Whether anybody but its owner may write it. What an access control list grants shows in the group's bits (acl(5)); so
    /// those of a group of our own are enough where there is no list.
    fn others_write(&self, path: &Path, found: &Metadata) -> bool {
        let group = || self.groups.contains(&found.gid()) && !has_list(path);
        let by_group = || self.is_strict() && found.mode() & GROUP_WRITES != 0 && !group();
        found.mode() & ANYBODY_WRITES != 0 || by_group()
    }

    /// Root runs what root alone decides. Other users run what their site installed for them, under an account and a group of
    /// its own, as long as not anybody may write it.
    fn is_strict(&self) -> bool {
        self.user == 0
    }

    fn as_root(&self) -> &'static str {
        if self.user == 0 { " as root" } else { "" }
    }
}

/// The parts of a path, the next one last.
fn push(left: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let parts: Vec<OsString> = parts.collect();
    left.extend(parts.into_iter().rev());
}

/// Whether an access control list of POSIX is on it; what cannot be asked has none.
fn has_list(path: &Path) -> bool {
    rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0_u8; 0]).is_ok_and(|bytes| bytes > 0)
}

/// The interpreter that a script names in its first line; `None` for other programs, and for what may be run and not read.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(INTERPRETER_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| *byte == b' ' || *byte == b'\t').filter(|word| !word.is_empty());
    words.next().map(|word| PathBuf::from(OsString::from_vec(word.to_vec())))
}

/// The number of those who have none in this user namespace (user_namespaces(7)), where that is most of them: there the
/// files of the machine's root are theirs.
fn nobody(map: &str, overflow: &str) -> Option<u32> {
    let rows = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    let mapped: u64 = rows.sum();
    let all = u64::from(u32::MAX);
    if mapped >= all { None } else { overflow.trim().parse().ok() }
}

/// The groups that have no member but these users, as passwd(5) and group(5) list them. What is kept elsewhere is unknown
/// and so no group of ours.
fn own_groups(passwd: &str, group: &str, owners: &BTreeSet<u32>) -> BTreeSet<u32> {
    let users: Vec<(&str, u32, u32)> = passwd
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            Some((name, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .collect();
    let ours = |name: &str| users.iter().any(|(known, uid, _)| *known == name && owners.contains(uid));
    let groups = group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let gid: u32 = fields.nth(2)?.parse().ok()?;
        let members = fields.next()?.split(',').filter(|name| !name.is_empty());
        let primary = users.iter().filter(|(_, _, group)| *group == gid);
        let alone = members.clone().all(ours) && primary.clone().all(|(_, uid, _)| owners.contains(uid));
        // A group of nobody at all may be anybody's by other means.
        (alone && (members.count() > 0 || primary.count() > 0)).then_some(gid)
    });
    groups.collect()
}

fn shown(path: &Path) -> String {
    crate::text::shown_bytes(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn directory(path: &Path, bits: u32) -> PathBuf {
        std::fs::create_dir(path).unwrap();
        mode(path, bits);
        path.to_owned()
    }

    fn program(path: &Path, text: &str) -> PathBuf {
        std::fs::write(path, text).unwrap();
        mode(path, 0o755);
        path.to_owned()
    }

    /// As another user sees it: the owner of the files is somebody else.
    fn stranger() -> Trust {
        Trust { user: 65_533, owners: BTreeSet::from([65_533]), groups: BTreeSet::new() }
    }

    /// A place whose way is trusted, as `/tmp` is on every system.
    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_program_in_directories_of_its_own_is_trusted_also_below_a_sticky_one() {
        let dir = place();
        let tool = program(&dir.path().join("tool"), "\x7fELF");
        let real = tool.canonicalize().unwrap();
        assert_eq!(Trust::here().program(&tool), Ok(real.clone()));
        let sticky = directory(&dir.path().join("sticky"), 0o1777);
        let own = directory(&sticky.join("own"), 0o755);
        let below = program(&own.join("tool"), "\x7fELF");
        assert!(Trust::here().program(&below).is_ok());
        let link = dir.path().join("link");
        symlink("./own/../tool", &link).unwrap();
        directory(&dir.path().join("own"), 0o755);
        assert_eq!(Trust::here().program(&link), Ok(real));
    }

    #[test]
    fn what_others_may_write_on_the_way_is_named() {
        let dir = place();
        let trust = Trust::here();
        let open = directory(&dir.path().join("open"), 0o777);
        let own = directory(&dir.path().join("own"), 0o755);
        let real = program(&own.join("real"), "\x7fELF");
        let below = directory(&open.join("below"), 0o755);
        let sticky = directory(&dir.path().join("sticky"), 0o1777);
        let group = directory(&dir.path().join("group"), 0o775);
        std::os::unix::fs::chown(&group, None, Some(4242)).ok();
        let writable = program(&own.join("writable"), "\x7fELF");
        mode(&writable, 0o757);
        // Into an open directory, through one, out of one by a link, by two links, and by a path that leaves it again.
        let planted = open.join("fio");
        symlink(&real, &planted).unwrap();
        let through = own.join("through");
        symlink("../open/fio", &through).unwrap();
        let stuck = sticky.join("fio");
        symlink(&real, &stuck).unwrap();
        let hard = program(&sticky.join("hard"), "\x7fELF");
        for (path, danger) in [
            (program(&open.join("tool"), "\x7fELF"), &open),
            (program(&below.join("tool"), "\x7fELF"), &open),
            (planted, &open),
            (through, &open),
            (open.join("below/../../own/real"), &open),
            (stuck, &sticky),
            (hard, &sticky),
            (writable.clone(), &writable),
        ] {
            let why = trust.program(&path).expect_err(&path.display().to_string());
            let danger = danger.canonicalize().unwrap();
            assert!(why.ends_with(&format!("other users may write {}", danger.display())), "{why}");
        }
        if rustix::process::geteuid().is_root() {
            let why = trust.program(&program(&group.join("tool"), "\x7fELF")).unwrap_err();
            assert!(why.contains("other users may write") && why.contains("is not run as root"), "{why}");
        }
        assert!(trust.program(&real).is_ok());
    }

    #[test]
    fn a_site_installs_under_an_account_of_its_own_for_users_and_not_for_root() {
        let dir = place();
        let me = rustix::process::geteuid();
        let site = directory(&dir.path().join("site"), 0o755);
        let tool = program(&site.join("tool"), "\x7fELF");
        for path in [&site, &tool] {
            std::os::unix::fs::chown(path, me.is_root().then_some(5001), None).unwrap();
            mode(path, 0o775);
        }
        let owners = BTreeSet::from([0, me.as_raw()]);
        let trust = |user| Trust { user, owners: owners.clone(), groups: BTreeSet::new() };
        assert!(trust(65_533).program(&tool).is_ok());
        assert!(trust(0).program(&tool).is_err());
        mode(&site, 0o777);
        assert!(trust(65_533).program(&tool).unwrap_err().contains("other users may write"));
        mode(&site, 0o775);
        mode(&tool, 0o777);
        assert!(trust(65_533).program(&tool).unwrap_err().contains("other users may write"));
    }

    #[test]
    fn what_belongs_to_another_user_is_not_run() {
        let dir = place();
        mode(dir.path(), 0o1777);
        let tool = program(&directory(&dir.path().join("own"), 0o755).join("tool"), "\x7fELF");
        let why = stranger().program(&tool).unwrap_err();
        assert!(why.contains("belongs to another user"), "{why}");
        if rustix::process::geteuid().is_root() {
            mode(dir.path(), 0o755);
            std::os::unix::fs::chown(dir.path(), Some(65_533), None).unwrap();
            let why = Trust::here().program(&tool).unwrap_err();
            assert!(why.ends_with("belongs to another user (uid 65533)"), "{why}");
        }
    }

    #[test]
    fn the_interpreter_of_a_script_is_looked_at_too() {
        let dir = place();
        let trust = Trust::here();
        let open = directory(&dir.path().join("open"), 0o777);
        program(&open.join("sh"), "\x7fELF");
        let script = |name: &str, head: &str| program(&dir.path().join(name), head);
        assert!(trust.program(&script("plain", "#!/bin/sh\n")).is_ok());
        let planted = script("planted", &format!("#! {} -e\n", open.join("sh").display()));
        assert!(trust.program(&planted).unwrap_err().contains("other users may write"));
        assert!(trust.program(&script("relative", "#!sh\n")).unwrap_err().contains("not an absolute path"));
        let endless = dir.path().join("endless");
        script("endless", &format!("#!{}\n", endless.display()));
        assert!(trust.program(&endless).unwrap_err().contains("too many scripts"));
    }

    #[test]
    fn what_is_no_program_is_told_so() {
        let dir = place();
        let trust = Trust::here();
        std::fs::write(dir.path().join("text"), "").unwrap();
        for name in ["text", "."] {
            assert!(trust.program(&dir.path().join(name)).unwrap_err().contains("not an executable file"));
        }
        let circle = dir.path().join("circle");
        symlink(&circle, &circle).unwrap();
        assert!(trust.program(&circle).unwrap_err().contains("too many links"));
        assert!(trust.program(&dir.path().join("gone")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_group_is_ours_when_nobody_else_is_in_it() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n";
        let group = "root:x:0:\nann:x:1000:\nbob:x:1001:\nstaff:x:50:\nus:x:60:ann\nboth:x:61:ann,bob\nadm:x:4:root,ann\n";
        let ours = own_groups(passwd, group, &BTreeSet::from([0, 1000]));
        assert_eq!(ours, BTreeSet::from([0, 4, 60, 1000]));
    }

    #[test]
    fn those_without_a_number_are_trusted_only_where_root_has_none() {
        assert_eq!(nobody("         0          0 4294967295\n", "65534\n"), None);
        assert_eq!(nobody("      1000       1000          1\n", "65534\n"), Some(65_534));
    }
}
