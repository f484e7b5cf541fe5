//! Trust in programs: checks the path to a program for write access of other users. Root trusts a
//! name that root owns, in a directory that only root may write. Other users trust a directory that
//! is not world-writable, as sites install programs under their own account and group.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::links::{FollowEnd, LinkError, follow};
use crate::text::shown_path;

const GROUP_WRITES: u32 = 0o020;
const ANYBODY_WRITES: u32 = 0o002;
const STICKY: u32 = 0o1000;
const ANYBODY_RUNS: u32 = 0o111;

/// Maximum depth of interpreters in the kernel (`BINPRM_BUF_SIZE` bytes of each file; execve(2)).
const MAX_INTERPRETERS: usize = 5;
const INTERPRETER_BYTES: u64 = 256;

/// Returns the trusted user IDs: root, this user, and the overflow user if the host's root is not
/// mapped in this user namespace.
pub fn owners() -> BTreeSet<u32> {
    let read = |path: &str| crate::text::read_small(Path::new(path), 1 << 20).unwrap_or_default();
    let mut owners = BTreeSet::from([0, rustix::process::geteuid().as_raw()]);
    owners.extend(overflow_user(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid")));
    owners
}

/// Returns whether users other than the owner may write `path`, with metadata `found`. If `groups`,
/// group permission counts too; for group 0 only with an access control list, whose grants appear
/// in the group's bits (acl(5)).
pub fn is_writable_by_others(path: &Path, found: &Metadata, groups: bool) -> bool {
    let list = || rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0_u8; 0]);
    let has_list = || list().is_ok_and(|bytes| bytes > 0);
    let by_group = || found.mode() & GROUP_WRITES != 0 && (found.gid() != 0 || has_list());
    found.mode() & ANYBODY_WRITES != 0 || (groups && by_group())
}

/// Returns the first directory, from `directory` (a path without links) up to the root, in which
/// other users (and groups, if `groups`) may replace files: writable, and not sticky.
pub fn find_exposed(directory: &Path, groups: bool) -> Option<&Path> {
    let is_exposed = |path: &Path, found: &Metadata| {
        is_writable_by_others(path, found, groups) && found.mode() & STICKY == 0
    };
    directory.ancestors().find(|path| path.symlink_metadata().is_ok_and(|found| is_exposed(path, &found)))
}

/// The user for whom programs are judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    user: u32,
    owners: BTreeSet<u32>,
}

impl Trust {
    /// Returns the rules of trust for the effective user of this process.
    pub fn here() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), owners: owners() }
    }

    /// Returns `path` with links resolved if it is executable and no other user can change the
    /// program or a script's interpreter; otherwise fails with the reason in one line.
    pub fn program(&self, path: &Path) -> Result<PathBuf, String> {
        let mut next = path.to_owned();
        let mut first = None;
        for _ in 0..MAX_INTERPRETERS {
            let real = self.real(&next)?;
            let script = interpreter(&real);
            let first = first.get_or_insert(real).clone();
            match script {
                None => return Ok(first),
                Some(interpreter) if interpreter.is_absolute() => next = interpreter,
                Some(interpreter) => {
                    let (path, interpreter) = (shown_path(path), shown_path(&interpreter));
                    return Err(format!(
                        "{path} is not run: its interpreter {interpreter} is not an absolute path"
                    ));
                }
            }
        }
        let path = shown_path(path);
        Err(format!("{path} is not run: its #! line leads through too many scripts; name the program itself"))
    }

    fn real(&self, path: &Path) -> Result<PathBuf, String> {
        let judge = |directory: &Path, name: &Path, found: &Metadata| self.judge(directory, name, found);
        let (shown, as_root) = (shown_path(path), if self.user == 0 { " as root" } else { "" });
        let real = follow(path, FollowEnd::Name, judge).map_err(|error| match error {
            LinkError::Refused(why) => format!("{shown} is not run{as_root}: {why}"),
            LinkError::Failed(e) => format!("{shown}: {e}"),
        })?;
        match real.metadata() {
            Ok(found) if found.is_file() && found.mode() & ANYBODY_RUNS != 0 => Ok(real),
            Ok(_) => Err(format!("{shown} is not an executable file")),
            Err(e) => Err(format!("{shown}: {e}")),
        }
    }

    /// Fails if another user could have put `name` (a file with metadata `found`) into `directory`,
    /// or can write it. In a sticky directory, `name` may be a hard link to another user's file.
    fn judge(&self, directory: &Path, name: &Path, found: &Metadata) -> Result<(), LinkError> {
        let is_root = self.user == 0;
        let writable = |path| Err(LinkError::Refused(format!("other users may write {}", shown_path(path))));
        let owned = |path, found: &Metadata| {
            let (path, uid) = (shown_path(path), found.uid());
            let why = || LinkError::Refused(format!("{path} belongs to another user (uid {uid})"));
            self.owners.contains(&uid).then_some(()).ok_or_else(why)
        };
        let about = directory.symlink_metadata()?;
        if is_root {
            owned(directory, &about)?;
        }
        let is_open = is_writable_by_others(directory, &about, is_root);
        if is_open && about.mode() & STICKY == 0 {
            return writable(directory);
        }
        if is_open || is_root {
            owned(name, found)?;
        }
        match found {
            found if is_open && !found.is_dir() => writable(directory),
            found if found.is_file() && is_writable_by_others(name, found, is_root) => writable(name),
            _ => Ok(()),
        }
    }
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(INTERPRETER_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| *byte == b' ' || *byte == b'\t').filter(|word| !word.is_empty());
    words.next().map(|word| PathBuf::from(OsString::from_vec(word.to_vec())))
}

/// Returns the overflow user ID in the text `overflow` unless `map` (uid_map) maps all users: it
/// then owns the files of the host's root (user_namespaces(7)).
fn overflow_user(map: &str, overflow: &str) -> Option<u32> {
    let rows = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    let mapped: u64 = rows.sum();
    let all = u64::from(u32::MAX);
    if mapped >= all { None } else { overflow.trim().parse().ok() }
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

    #[test]
    fn a_program_in_directories_of_its_own_is_trusted_also_below_a_sticky_one() {
        let dir = tempfile::tempdir().unwrap();
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
        let dir = tempfile::tempdir().unwrap();
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
        let dir = tempfile::tempdir().unwrap();
        let me = rustix::process::geteuid();
        let site = directory(&dir.path().join("site"), 0o755);
        let tool = program(&site.join("tool"), "\x7fELF");
        for path in [&site, &tool] {
            std::os::unix::fs::chown(path, me.is_root().then_some(5001), None).unwrap();
            mode(path, 0o775);
        }
        let owners = BTreeSet::from([0, me.as_raw()]);
        let trust = |user| Trust { user, owners: owners.clone() };
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
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o1777);
        let tool = program(&directory(&dir.path().join("own"), 0o755).join("tool"), "\x7fELF");
        let stranger = Trust { user: 65_533, owners: BTreeSet::from([65_533]) };
        let why = stranger.program(&tool).unwrap_err();
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
        let dir = tempfile::tempdir().unwrap();
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
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::here();
        std::fs::write(dir.path().join("text"), "").unwrap();
        for name in ["text", "."] {
            assert!(trust.program(&dir.path().join(name)).unwrap_err().contains("not an executable file"));
        }
        let circle = dir.path().join("circle");
        symlink(&circle, &circle).unwrap();
        assert!(trust.program(&circle).unwrap_err().contains("Too many levels of symbolic links"));
        assert!(trust.program(&dir.path().join("gone")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn names_can_be_exchanged_where_others_write_and_nothing_is_sticky() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let below = directory(&real.join("below"), 0o755);
        for (bits, gid, groups, is_exposed) in [
            (0o755, 0, true, false),
            (0o777, 0, false, true),
            (0o1777, 0, true, false),
            (0o775, 4242, true, true),
            (0o775, 4242, false, false),
            (0o1775, 4242, true, false),
            (0o775, 0, true, false),
        ] {
            if std::os::unix::fs::chown(&real, None, Some(gid)).is_err() {
                continue;
            }
            mode(&real, bits);
            let found = find_exposed(&below, groups);
            assert_eq!(found, is_exposed.then_some(real.as_path()), "{bits:o} {gid} {groups}");
        }
    }

    #[test]
    fn those_without_a_number_are_trusted_only_where_root_has_none() {
        assert_eq!(overflow_user("         0          0 4294967295\n", "65534\n"), None);
        assert_eq!(overflow_user("      1000       1000          1\n", "65534\n"), Some(65_534));
    }
}
