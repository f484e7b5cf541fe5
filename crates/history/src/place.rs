//! Directory of the history and its safety checks. The default follows the XDG base directory
//! specification 0.8: absolute `$XDG_DATA_HOME/plimsoll`, else `~/.local/share/plimsoll`.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use plimsoll_system::links::LinkError;
use plimsoll_system::trust::{find_exposed, is_writable_by_others, owners};

use super::error::StoreError;
use plimsoll_units::text::shown_path;

const HISTORY_FILE_NAMES: [&str; 7] =
    ["runs", "notes.json", "index.json", "unfinished", "unconfirmed", "watch", "steady"];

/// Directory of a history, by how it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The default directory.
    Usual(PathBuf),
    /// A directory given by the user (`--store`).
    Named(PathBuf),
}

impl Location {
    /// Returns the default location, `$XDG_DATA_HOME/plimsoll` or `~/.local/share/plimsoll`, from
    /// `data_home` and `home`, the values of `$XDG_DATA_HOME` and `$HOME`. Fails if neither is an
    /// absolute path.
    pub fn default_location(data_home: Option<OsString>, home: Option<OsString>) -> Result<Self, StoreError> {
        let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|p| p.is_absolute());
        let data = absolute(data_home).or_else(|| Some(absolute(home)?.join(".local/share")));
        Ok(Self::Usual(data.ok_or(StoreError::NoDefaultDirectory)?.join("plimsoll")))
    }

    /// Returns the path of the directory, which may not exist.
    pub fn directory(&self) -> &Path {
        match self {
            Self::Usual(directory) | Self::Named(directory) => directory,
        }
    }

    /// Returns whether `path` is the history's directory or one of the history's files below it.
    pub fn holds(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(self.directory()) else { return false };
        let is_own = |first: Component<'_>| HISTORY_FILE_NAMES.iter().any(|own| first.as_os_str() == *own);
        below.components().next().is_none_or(is_own)
    }

    /// Returns the path of `file` in the history's directory, which is created if missing.
    pub fn file_path(&self, file: &str) -> Result<PathBuf, StoreError> {
        Ok(self.created()?.join(file))
    }

    /// Creates the history's directory if it is missing; then like [`Self::resolved`].
    pub(super) fn created(&self) -> Result<PathBuf, StoreError> {
        let existing = self.directory().ancestors().find(|above| above.exists());
        self.resolve_if_safe(existing.unwrap_or(Path::new(".")))?;
        self.make().map_err(|e| self.not_made(e))?;
        self.resolved()
    }

    /// Returns the history's directory with links resolved. Fails if it is missing or another user
    /// could replace its contents.
    pub(super) fn resolved(&self) -> Result<PathBuf, StoreError> {
        self.resolve_if_safe(self.directory())
    }

    /// Returns `directory`, the history's own or an existing parent of it, with links resolved.
    /// Fails if another user could replace the history.
    fn resolve_if_safe(&self, directory: &Path) -> Result<PathBuf, StoreError> {
        let refused = |why: String| StoreError::Refused(self.directory().to_owned(), why);
        let real = plimsoll_system::links::directory(directory).map_err(|error| match error {
            LinkError::Refused(why) => refused(why),
            LinkError::Failed(e) if e.kind() == ErrorKind::NotFound => {
                StoreError::Missing(directory.to_owned())
            }
            LinkError::Failed(e)
                if e.kind() == ErrorKind::PermissionDenied && directory == self.directory() =>
            {
                StoreError::NotReadable(directory.to_owned(), e)
            }
            LinkError::Failed(e) => self.not_made(e),
        })?;
        let found = fs::metadata(&real).map_err(|e| StoreError::NotReadable(real.clone(), e))?;
        let (owners, is_root) = (owners(), rustix::process::geteuid().is_root());
        let (owner, is_own) = (found.uid(), owners.contains(&found.uid()));
        if is_root && !is_own {
            return Err(refused(format!(
                "{} belongs to user {owner}, and root would leave files there; run as that user, or use --store DIR with a directory of root's own, or --store none",
                shown_path(&real)
            )));
        }
        // On some machines users' project directories are below a world-writable one.
        let exposed = find_exposed(&real, is_root)
            .filter(|at| is_root || (*at == real && directory == self.directory()));
        if let Some(exposed) = exposed {
            return Err(refused(format!(
                "other users can write {}, and could exchange the history; use --store DIR with a directory that only you can write, or --store none",
                shown_path(exposed)
            )));
        }
        let planted = HISTORY_FILE_NAMES.iter().map(|file| real.join(file)).find_map(|file| {
            let owner = file.symlink_metadata().ok()?.uid();
            (!owners.contains(&owner)).then_some((file, owner))
        });
        match planted.filter(|_| is_writable_by_others(&real, &found, is_root)) {
            Some((file, owner)) => Err(refused(format!(
                "{} belongs to user {owner}, who may have put it there; use another --store DIR",
                shown_path(&file)
            ))),
            None => Ok(real),
        }
    }

    /// Creates the directory with mode 0700 if missing; the default one also with its parents.
    fn make(&self) -> io::Result<()> {
        let (directory, recursive) = (self.directory(), matches!(self, Self::Usual(_)));
        match DirBuilder::new().recursive(recursive).mode(0o700).create(directory) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
            made => made,
        }
    }

    fn not_made(&self, error: io::Error) -> StoreError {
        let why = match (self, error.kind()) {
            (Self::Named(_), ErrorKind::NotFound) => "the directory above it does not exist",
            (_, ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => "a file is in its place",
            _ => return StoreError::NotWritable(self.directory().to_owned(), error),
        };
        StoreError::NoDirectory(self.directory().to_owned(), why)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn usual(data_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        let found = Location::default_location(data_home.map(Into::into), home.map(Into::into));
        found.ok().map(|l| l.directory().to_owned())
    }

    #[test]
    fn the_usual_place_follows_the_xdg_rules_and_is_none_without_a_home() {
        assert_eq!(usual(Some("/data"), Some("/home/a")), Some("/data/plimsoll".into()));
        let home = Some(PathBuf::from("/home/a/.local/share/plimsoll"));
        assert_eq!(usual(None, Some("/home/a")), home);
        assert_eq!(usual(Some(""), Some("/home/a")), home);
        assert_eq!(usual(Some("relative"), Some("/home/a")), home);
        assert_eq!(usual(None, Some("")), None);
        let error = Location::default_location(None, None).unwrap_err();
        assert!(error.is_unusable_directory() && matches!(error, StoreError::NoDefaultDirectory));
        assert!(error.to_string().contains("--store"), "{error}");
    }

    #[test]
    fn root_makes_no_history_in_another_home_or_below_a_directory_of_all() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".local/share/plimsoll");
        for (owner, bits, is_safe) in
            [(0, 0o700, true), (0, 0o1777, true), (0, 0o777, false), (1000, 0o700, false)]
        {
            fs::set_permissions(home.path(), PermissionsExt::from_mode(bits)).unwrap();
            std::os::unix::fs::chown(home.path(), Some(owner), None).unwrap();
            let made = Location::Usual(directory.clone()).created();
            assert_eq!(made.is_ok(), is_safe, "{owner} {bits:o}: {made:?}");
            assert!(matches!(made, Ok(_) | Err(StoreError::Refused(..))));
            assert_eq!(directory.exists(), is_safe, "{owner} {bits:o}");
            let _ = fs::remove_dir_all(home.path().join(".local"));
        }
    }

    #[test]
    fn a_sticky_directory_holds_a_history_unless_another_user_has_begun_one_there() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        let location = Location::Named(place.path().to_owned());
        location.created().unwrap();
        let planted = place.path().join("runs");
        fs::create_dir(&planted).unwrap();
        location.created().unwrap();
        if std::os::unix::fs::chown(&planted, Some(65_533), None).is_ok() {
            let error = location.resolved().unwrap_err();
            let is_refused = matches!(error, StoreError::Refused(..));
            assert!(is_refused && error.to_string().contains("65533"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_a_directory_is_named() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "my notes").unwrap();
        for (name, is_created, found) in [
            ("file", true, "a file is in its place"),
            ("file", false, "a file is in its place"),
            ("file/below", true, "a file is in its place"),
            ("none/below", true, "the directory above it does not exist"),
            ("none", false, "there is no history yet"),
        ] {
            let location = Location::Named(place.path().join(name));
            let error = if is_created { location.created() } else { location.resolved() }.unwrap_err();
            assert!(error.is_not_found() && error.to_string().contains(found), "{name}: {error}");
        }
        assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "my notes");
    }
}
