use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::super::{Held, PREFIX, Unfinished, new_name, unfinished_name};
use super::*;

struct Place {
    _dir: tempfile::TempDir,
    registry: Registry,
    parent: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().canonicalize().unwrap().join("disk");
    std::fs::create_dir(&parent).unwrap();
    let registry = Registry::at(&dir.path().join("state/plimsoll/scratch"));
    Place { _dir: dir, registry, parent }
}

impl Place {
    /// A directory with a file and a directory in it, and its entry.
    fn made(&self) -> (PathBuf, Held) {
        let name = new_name(PREFIX);
        let path = self.parent.join(&name);
        let mut held = self.registry.enter(&self.parent, &name).unwrap();
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&path).unwrap();
        std::fs::create_dir(path.join("below")).unwrap();
        std::fs::write(path.join("below/data"), "x").unwrap();
        held.made(&path).unwrap();
        (path, held)
    }

    /// As if its maker had been killed: the lock goes, and the entry stays with a process that is no more.
    fn killed(&self, held: Held) {
        let text = std::fs::read_to_string(&held.path).unwrap();
        let start = text.find("\"start\":").unwrap() + "\"start\":".len();
        let digits = text[start..].chars().take_while(char::is_ascii_digit).count();
        let text = format!("{}1{}", &text[..start], &text[start + digits..]);
        let path = held.path.clone();
        drop(held);
        std::fs::write(path, text).unwrap();
    }

    fn entries(&self) -> usize {
        std::fs::read_dir(&self.registry.directory).unwrap().count()
    }
}

#[test]
fn what_a_killed_maker_left_is_removed_and_what_a_living_one_has_is_not() {
    let place = place();
    let ((left, held), (used, _alive)) = (place.made(), place.made());
    place.killed(held);
    let reaped = place.registry.reap();
    assert_eq!(reaped, Reaped { removed: vec![left.display().to_string()], left: Vec::new() });
    assert!(!left.exists() && used.join("below/data").exists());
    assert_eq!(place.entries(), 1);
    assert_eq!(place.registry.reap(), Reaped::default());
}

#[test]
fn a_maker_that_ends_takes_its_entry_out() {
    let place = place();
    let (path, held) = place.made();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.registry.directory), mode(&held.path)), (0o700, 0o600));
    std::fs::remove_dir_all(path).unwrap();
    drop(held);
    assert_eq!((place.entries(), place.registry.reap()), (0, Reaped::default()));
}

#[test]
fn what_was_not_made_by_plimsoll_stays() {
    let stays = |change: &dyn Fn(&Path)| {
        let place = place();
        let (path, held) = place.made();
        let precious = place.parent.join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("data"), "x").unwrap();
        place.killed(held);
        change(&path);
        let reaped = place.registry.reap();
        assert_eq!(reaped.removed, Vec::<String>::new());
        assert_eq!(reaped.left.len(), 1, "{reaped:?}");
        assert!(precious.join("data").exists());
        reaped.left[0].why.clone()
    };
    let not_ours = "something else than plimsoll made is there now";
    let another = stays(&|path| {
        std::fs::rename(path, path.with_file_name("aside")).unwrap();
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    });
    assert_eq!(another, not_ours);
    let link = stays(&|path| {
        std::fs::rename(path, path.with_file_name("aside")).unwrap();
        symlink(path.with_file_name("precious"), path).unwrap();
    });
    assert_eq!(link, not_ours);
    let open_to_others =
        stays(&|path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap());
    assert_eq!(open_to_others, not_ours);
    let parent = stays(&|path| {
        let parent = path.parent().unwrap();
        std::fs::rename(parent, parent.with_file_name("moved")).unwrap();
        symlink("moved", parent).unwrap();
    });
    assert!(parent.contains("cannot be reached"), "{parent}");
    let other = stays(&|path| {
        let parent = path.parent().unwrap();
        std::fs::rename(parent, parent.with_file_name("moved")).unwrap();
        std::fs::create_dir(parent).unwrap();
        std::fs::create_dir(parent.join("precious")).unwrap();
        std::fs::write(parent.join("precious/data"), "x").unwrap();
    });
    assert!(other.contains("another directory is at its path"), "{other}");
}

#[test]
fn links_in_it_are_removed_and_not_followed_and_rights_are_no_hindrance() {
    let place = place();
    let (path, held) = place.made();
    let outside = place.parent.join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("data"), "x").unwrap();
    symlink(&outside, path.join("link")).unwrap();
    symlink(&outside, path.join("below/link")).unwrap();
    std::fs::set_permissions(path.join("below"), std::fs::Permissions::from_mode(0o000)).unwrap();
    place.killed(held);
    assert_eq!(place.registry.reap().removed.len(), 1);
    assert!(outside.join("data").exists() && !path.exists());
}

#[test]
fn entries_that_say_nothing_are_left_alone_while_they_are_young() {
    let place = place();
    let (_, held) = place.made();
    place.killed(held);
    let directory = &place.registry.directory;
    for (name, text) in
        [("a.json", ""), ("b.json", "{\"parent\":"), ("c.json", "[]\n"), ("d.json", "\u{0}\n")]
    {
        std::fs::write(directory.join(name), text).unwrap();
    }
    symlink("/etc/passwd", directory.join("e.json")).unwrap();
    assert_eq!(place.registry.reap().removed.len(), 1);
    assert_eq!(place.entries(), 5);
}

#[test]
fn killed_between_entry_and_directory_nothing_or_an_empty_one_goes() {
    let place = place();
    for made in [false, true] {
        let name = new_name(PREFIX);
        let held = place.registry.enter(&place.parent, &name).unwrap();
        if made {
            std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
                .create(place.parent.join(&name))
                .unwrap();
        }
        place.killed(held);
    }
    let reaped = place.registry.reap();
    assert_eq!((reaped.removed.len(), reaped.left.len(), place.entries()), (1, 0, 0));
    assert_eq!(std::fs::read_dir(&place.parent).unwrap().count(), 0);
}

#[test]
fn a_registry_that_others_may_enter_is_not_used() {
    let place = place();
    let (left, held) = place.made();
    place.killed(held);
    std::fs::set_permissions(&place.registry.directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(place.registry.reap(), Reaped::default());
    assert!(left.exists() && place.registry.enter(&place.parent, &new_name(PREFIX)).is_err());
}

#[test]
fn the_usual_place_follows_the_xdg_rules() {
    let usual = |state: Option<&str>, home: Option<&str>| {
        let around = super::super::Around { state_home: state.map(Into::into), home: home.map(Into::into) };
        Registry::usual(&around).map(|registry| registry.directory)
    };
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let expected = |base: &str| Some(PathBuf::from(base).join("plimsoll/scratch"));
    assert_eq!(usual(Some(home), None), expected(home));
    assert_eq!(usual(Some("relative"), Some(home)), expected(&format!("{home}/.local/state")));
    assert_eq!(usual(None, None), None);
}

#[test]
fn what_is_mounted_on_a_name_is_not_entered() {
    let root = opened(CWD, "/").unwrap();
    assert_eq!(stays_on_its_mount(root.as_fd(), "proc"), Err(Errno::XDEV));
    let place = place();
    let parent = opened(CWD, &place.parent).unwrap();
    std::fs::create_dir(place.parent.join("below")).unwrap();
    assert_eq!(stays_on_its_mount(parent.as_fd(), "below"), Ok(()));
    assert_eq!(stays_on_its_mount(parent.as_fd(), "none"), Err(Errno::NOENT));
}

#[test]
fn files_that_were_not_finished_are_removed_and_nothing_else_of_their_name() {
    let place = place();
    let entered = |change: &dyn Fn(&Path)| {
        let name = unfinished_name();
        let mut held = place.registry.enter(&place.parent, &name).unwrap();
        let path = place.parent.join(name);
        std::fs::write(&path, "half a document").unwrap();
        held.made(&path).unwrap();
        change(&path);
        place.killed(held);
        let gone = place.registry.reap().removed == [path.display().to_string()];
        assert_eq!(gone, path.symlink_metadata().is_err());
        gone
    };
    assert!(entered(&|_| {}));
    // Its last name was given by a link, and the first one stayed.
    assert!(entered(&|path| std::fs::hard_link(path, path.with_file_name("run.json")).unwrap()));
    assert!(place.parent.join("run.json").exists());
    assert!(!entered(&|path| {
        std::fs::rename(path, path.with_file_name("aside")).unwrap();
        std::fs::write(path, "precious").unwrap();
    }));
    assert!(!entered(&|path| {
        std::fs::remove_file(path).unwrap();
        symlink("run.json", path).unwrap();
    }));
    let made = Unfinished::new_in(&place.parent, Some(&place.registry)).unwrap();
    let before = place.entries();
    assert_eq!(place.registry.reap().removed, Vec::<String>::new(), "its maker lives");
    let finished = place.parent.join("finished");
    made.finish(|path| path.persist(&finished).map_err(std::io::Error::from)).unwrap();
    assert!(finished.exists() && place.entries() == before - 1);
}

#[test]
fn names_that_others_may_have_given_are_none_of_ours() {
    let kind = |name: &str| kind_of(OsStr::new(name));
    assert_eq!(kind(&new_name(PREFIX)), Some(Kind::Directory));
    assert_eq!(kind("plimsoll-12-0123456789abcdef"), Some(Kind::Directory));
    assert_eq!(kind(&unfinished_name()), Some(Kind::File));
    for other in ["", "plimsoll", "plimsoll-", ".plimsoll-", ".plimsoll-../x", "history.db", ".history-1.new"]
    {
        assert_eq!(kind(other), None, "{other}");
    }
}
