use std::os::unix::fs::PermissionsExt;

use super::*;

pub(crate) fn program(directory: &Path, name: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, "#!/bin/true\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    path
}

fn search(directory: &Path) -> ProgramSearch {
    ProgramSearch::new(directory.as_os_str(), BTreeMap::new(), Trust::here())
}

#[test]
fn a_program_is_found_where_path_says_and_relative_directories_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = program(dir.path(), "fio", 0o755);
    assert_eq!(search(dir.path()).find("fio", "fio", &[]), Ok(path.canonicalize().unwrap()));
    assert_eq!(search(dir.path()).find("x", "x", &[]).unwrap_err(), "not installed");
    program(dir.path(), "y", 0o644);
    assert!(search(dir.path()).find("y", "y", &[]).is_err(), "not executable");
    let relative = ProgramSearch::new(OsStr::new(":.:bin"), BTreeMap::new(), Trust::here());
    assert!(relative.directories.is_empty());
}

#[test]
fn what_others_may_write_is_passed_over_and_said_where_there_is_no_other() {
    let (open, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(open.path(), "fio", 0o755);
    std::fs::set_permissions(open.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let why = search(open.path()).find("fio", "fio", &[]).unwrap_err();
    assert!(why.contains("is not run") && why.contains("other users may write"), "{why}");
    let good = program(own.path(), "fio", 0o755);
    let path = std::env::join_paths([open.path(), own.path()]).unwrap();
    let found = ProgramSearch::new(&path, BTreeMap::new(), Trust::here()).find("fio", "fio", &[]);
    assert_eq!(found, Ok(good.canonicalize().unwrap()));
}

#[test]
fn another_program_of_a_tool_is_looked_for_beside_the_one_that_was_named() {
    let (own, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let client = program(own.path(), "my-netperf", 0o755);
    let elsewhere = program(path.path(), "netserver", 0o755);
    let named = BTreeMap::from([("netperf".to_owned(), client)]);
    let search = ProgramSearch::new(path.path().as_os_str(), named, Trust::here());
    let find = || search.find_part("netperf", "netserver", &[]).unwrap();
    assert_eq!(find(), elsewhere.canonicalize().unwrap());
    let server = program(own.path(), "netserver", 0o755);
    assert_eq!(find(), server.canonicalize().unwrap());
}

#[test]
fn what_the_user_names_comes_first_and_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let own = program(dir.path(), "my-stream", 0o755);
    let named = |path: &Path| BTreeMap::from([("stream".to_owned(), path.to_owned())]);
    let find = |path: &str, stream: &Path| {
        let search = ProgramSearch::new(OsStr::new(path), named(stream), Trust::here());
        search.find("stream", "stream", &[])
    };
    assert_eq!(find("/usr/bin", &own), Ok(own.canonicalize().unwrap()));
    let why = find("", &dir.path().join("gone")).unwrap_err();
    assert!(why.starts_with("--reference-path stream: "), "{why}");
}
