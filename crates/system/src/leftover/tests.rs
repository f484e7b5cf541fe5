use std::os::unix::fs::symlink;

use super::*;

struct Place {
    _dir: TempDir,
    registry: Registry,
    parent: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().canonicalize().unwrap().join("disk");
    fs::create_dir(&parent).unwrap();
    let registry = Registry::at(&dir.path().join("state/plimsoll/scratch"));
    Place { _dir: dir, registry, parent }
}

impl Place {
    fn made(&self) -> Scratch {
        let made = self.registry.directory_in(&self.parent).unwrap();
        fs::create_dir(made.path().join("below")).unwrap();
        fs::write(made.path().join("below/data"), "x").unwrap();
        made
    }

    fn left(&self) -> PathBuf {
        killed(self.made())
    }

    fn unrecorded(&self) -> PathBuf {
        let name = new_name(DIRECTORY);
        let _entry = self.registry.enter(&self.parent, &name).unwrap();
        let path = self.parent.join(name);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    fn entries(&self) -> usize {
        fs::read_dir(&self.registry.directories[0]).unwrap().count()
    }
}

/// Releases the lock alone, as a kill does.
fn killed(made: Scratch) -> PathBuf {
    let Scratch { directory, _entry } = made;
    // The directory exists, so its entry stays.
    directory.keep()
}

#[test]
fn what_a_killed_maker_left_is_removed_and_what_a_living_one_has_is_not() {
    let place = place();
    let (left, used) = (place.left(), place.made());
    let reaped = place.registry.remove_abandoned();
    assert_eq!(reaped, Reaped { removed: vec![left.display().to_string()], left: Vec::new() });
    assert!(!left.exists() && used.path().join("below/data").exists());
    assert_eq!(place.entries(), 1);
    assert_eq!(place.registry.remove_abandoned(), Reaped::default());
}

#[test]
fn a_maker_that_ends_takes_its_entry_out() {
    let place = place();
    let made = place.made();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let entry = &made._entry.as_ref().unwrap().path;
    assert_eq!((mode(&place.registry.directories[0]), mode(entry), mode(made.path())), (0o700, 0o600, 0o700));
    drop(made);
    assert_eq!((place.entries(), place.registry.remove_abandoned()), (0, Reaped::default()));
    assert_eq!(fs::read_dir(&place.parent).unwrap().count(), 0);
}

#[test]
fn what_was_not_made_by_plimsoll_stays() {
    let stays = |why: &str, change: &dyn Fn(&Path)| {
        let place = place();
        let path = place.left();
        let precious = place.parent.join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("data"), "x").unwrap();
        change(&path);
        let reaped = place.registry.remove_abandoned();
        assert_eq!(reaped.removed, Vec::<String>::new());
        assert_eq!(reaped.left.len(), 1, "{reaped:?}");
        assert!(reaped.left[0].why.contains(why) && precious.join("data").exists(), "{reaped:?}");
    };
    let not_ours = "something else than plimsoll made is there now";
    stays(not_ours, &|path| {
        fs::rename(path, path.with_file_name("aside")).unwrap();
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    });
    stays(not_ours, &|path| {
        fs::rename(path, path.with_file_name("aside")).unwrap();
        symlink(path.with_file_name("precious"), path).unwrap();
    });
    stays(not_ours, &|path| fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap());
    stays("cannot be reached", &|path| {
        let parent = path.parent().unwrap();
        fs::rename(parent, parent.with_file_name("moved")).unwrap();
        symlink("moved", parent).unwrap();
    });
    stays("another directory is at its path", &|path| {
        let parent = path.parent().unwrap();
        fs::rename(parent, parent.with_file_name("moved")).unwrap();
        fs::create_dir(parent).unwrap();
        fs::create_dir(parent.join("precious")).unwrap();
        fs::write(parent.join("precious/data"), "x").unwrap();
    });
}

#[test]
fn links_in_it_are_removed_and_not_followed() {
    let place = place();
    let path = place.left();
    let outside = place.parent.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("data"), "x").unwrap();
    symlink(&outside, path.join("link")).unwrap();
    symlink(&outside, path.join("below/link")).unwrap();
    assert_eq!(place.registry.remove_abandoned().removed.len(), 1);
    assert!(outside.join("data").exists() && !path.exists());
}

#[test]
fn entries_that_say_nothing_are_left_alone_while_they_are_young() {
    let place = place();
    place.left();
    let directory = &place.registry.directories[0];
    for (name, text) in [("a", ""), ("b", "{\"parent\":"), ("c", "[]\n"), ("d", "\u{0}\n")] {
        fs::write(directory.join(format!("{UNFINISHED_PREFIX}{name}.json")), text).unwrap();
    }
    symlink("/etc/passwd", directory.join(format!("{UNFINISHED_PREFIX}e.json"))).unwrap();
    assert_eq!(place.registry.remove_abandoned().removed.len(), 1);
    assert_eq!(place.entries(), 5);
}

#[test]
fn killed_between_entry_and_directory_nothing_or_an_empty_one_goes() {
    let place = place();
    fs::remove_dir(place.unrecorded()).unwrap();
    place.unrecorded();
    let reaped = place.registry.remove_abandoned();
    assert_eq!((reaped.removed.len(), reaped.left.len(), place.entries()), (1, 0, 0));
    assert_eq!(fs::read_dir(&place.parent).unwrap().count(), 0);
}

#[test]
fn a_directory_that_was_not_recorded_goes_only_while_it_is_empty() {
    let place = place();
    let path = place.unrecorded();
    fs::write(path.join("data"), "x").unwrap();
    assert_eq!(place.registry.remove_abandoned().left.len(), 1);
    assert!(path.join("data").exists());
}

#[test]
fn an_entry_of_another_user_is_not_used() {
    let place = place();
    let left = place.left();
    let entry = fs::read_dir(&place.registry.directories[0]).unwrap().next().unwrap().unwrap().path();
    if std::os::unix::fs::chown(entry, Some(65_533), None).is_err() {
        return;
    }
    assert_eq!(place.registry.remove_abandoned(), Reaped::default());
    assert!(left.exists());
}

#[test]
fn an_entry_is_made_in_the_first_directory_that_takes_it() {
    let place = place();
    let second = place.parent.join("second");
    let registry = Registry { directories: vec!["/proc/none".into(), second.clone()] };
    let left = killed(registry.directory_in(&place.parent).unwrap());
    assert_eq!(fs::read_dir(second).unwrap().count(), 1);
    assert_eq!(registry.remove_abandoned().removed.len(), 1);
    assert!(!left.exists());
    drop(Registry::default().directory_in(&place.parent).unwrap());
}

#[test]
fn the_usual_place_follows_the_xdg_rules() {
    let usual = |state: Option<&str>, home: Option<&str>| {
        Registry::new(state.map(Into::into), home.map(Into::into), "/tmp".into()).directories
    };
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let expected = |base: &str| vec![PathBuf::from(base).join("plimsoll/scratch"), PathBuf::from("/tmp")];
    assert_eq!(usual(Some(home), None), expected(home));
    assert_eq!(usual(Some("relative"), Some(home)), expected(&format!("{home}/.local/state")));
    assert_eq!(usual(None, None), [PathBuf::from("/tmp")]);
}

#[test]
fn what_is_mounted_on_a_name_is_not_entered() {
    assert!(is_mounted_below("proc").unwrap());
    assert!(!is_mounted_below(&new_name(DIRECTORY)).unwrap());
}

#[test]
fn files_that_were_not_finished_are_removed_and_nothing_else_of_their_name() {
    let place = place();
    let entered = |change: &dyn Fn(&Path)| {
        let made = place.registry.file_in(&place.parent, 0o600, OFlags::empty()).unwrap();
        made.file().write_all(b"half a document").unwrap();
        let Unfinished { file, _entry } = made;
        let (_, path) = file.keep().unwrap();
        change(&path);
        drop(_entry);
        let gone = place.registry.remove_abandoned().removed == [path.display().to_string()];
        assert_eq!(gone, path.symlink_metadata().is_err());
        gone
    };
    assert!(entered(&|_| {}));
    // The last name was a link, and the first one stayed.
    assert!(entered(&|path| fs::hard_link(path, path.with_file_name("run.json")).unwrap()));
    assert!(place.parent.join("run.json").exists());
    assert!(!entered(&|path| {
        fs::rename(path, path.with_file_name("aside")).unwrap();
        fs::write(path, "precious").unwrap();
    }));
    assert!(!entered(&|path| {
        fs::remove_file(path).unwrap();
        symlink("run.json", path).unwrap();
    }));
    let made = place.registry.file_in(&place.parent, 0o600, OFlags::empty()).unwrap();
    let before = place.entries();
    assert_eq!(place.registry.remove_abandoned().removed, Vec::<String>::new(), "its maker lives");
    let finished = place.parent.join("finished");
    made.finish(&finished).unwrap();
    assert!(finished.exists() && place.entries() == before - 1);
}

#[test]
fn a_file_without_a_name_leaves_nothing() {
    let place = place();
    let file = place.registry.file_in(&place.parent, 0o600, OFlags::empty()).unwrap().unnamed().unwrap();
    let about = file.metadata().unwrap();
    assert_eq!((about.nlink(), about.mode() & 0o777, place.entries()), (0, 0o600, 0));
    assert_eq!(fs::read_dir(&place.parent).unwrap().count(), 0);
}

#[test]
fn names_that_others_may_have_given_are_none_of_ours() {
    let place = place();
    let path = place.left();
    let directory = &place.registry.directories[0];
    let entry = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    for other in ["disk.json", "plimsoll-.json", "history.json", "plimsoll-peer-"] {
        fs::rename(&entry, directory.join(other)).unwrap();
        assert_eq!(place.registry.remove_abandoned(), Reaped::default(), "{other}");
        fs::rename(directory.join(other), &entry).unwrap();
    }
    assert!(path.exists() && place.parent.exists());
}
