use std::ffi::OsString;
use std::path::Path;

use crossbeam_channel::never;
use plimsoll_system::leftover::Registry;
use sha2::{Digest, Sha256};

use super::process::{ProgramOrder, SelfLauncher};
use super::{InstalledTool, Package, Trust};

/// Longest time to print a version. An interrupt waits: received here, the run would miss it.
const MAX_VERSION_TIME: std::time::Duration = std::time::Duration::from_secs(2);

/// Returns the version that the tool prints, else the version of its package; `None` if unknown.
/// The tool runs in a temporary directory below `parent`.
pub(super) fn ask_version(
    found: &InstalledTool,
    launcher: &SelfLauncher,
    parent: &Path,
    registry: &Registry,
) -> Option<String> {
    let scratch = registry.directory_in(parent).ok()?;
    let ask = |program: &Path, arguments: Vec<OsString>| {
        let order =
            ProgramOrder { arguments, limit: MAX_VERSION_TIME, ..ProgramOrder::of(program, scratch.path()) };
        launcher.run(&order, &never()).ok()
    };
    let (argument, _) = found.ref_tool.version;
    let reported = (!argument.is_empty())
        .then(|| ask(&found.program, vec![argument.into()]))
        .flatten()
        // Several tools print their version only with an error message.
        .and_then(|done| found.ref_tool.version(&format!("{}\n{}", done.stdout, done.stderr)));
    let packaged = || {
        let (Package::Debian(name) | Package::DebianNonFree(name)) = found.ref_tool.package else {
            return None;
        };
        found.program.starts_with("/usr").then_some(())?;
        let query = ["-W", "-f", "${Version}", name].map(OsString::from).to_vec();
        let done = ask(&Trust::here().program(Path::new("/usr/bin/dpkg-query")).ok()?, query)?;
        (done.status.success() && !done.stdout.is_empty()).then_some(done.stdout)
    };
    reported.or_else(packaged).map(|version| plimsoll_units::text::shown_within(&version, 60))
}

pub(super) fn sha256_of_program(program: &Path) -> Option<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut std::fs::File::open(program).ok()?, &mut hash).ok()?;
    Some(format!("{:x}", hash.finalize()))
}

/// Returns the paths of a program's libraries with `part` in their name, as the dynamic linker
/// lists them (ld.so(8), `--list`), with links resolved: the file name has the version.
pub(super) fn libraries(order: &ProgramOrder, part: &str, launcher: &SelfLauncher) -> Vec<String> {
    const LINKERS: &[&str] = &["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let trust = Trust::here();
    let Some(linker) = LINKERS.iter().find_map(|linker| trust.program(Path::new(linker)).ok()) else {
        return Vec::new();
    };
    let list = ProgramOrder {
        arguments: vec!["--list".into(), order.program.clone().into()],
        limit: MAX_VERSION_TIME,
        ..ProgramOrder::of(&linker, &order.directory)
    };
    let Ok(done) = launcher.run(&list, &never()) else { return Vec::new() };
    let paths = done.stdout.lines().filter_map(|line| line.split_once(" => ")?.1.split_whitespace().next());
    let named = paths.filter(|path| path.contains(part));
    let real = named.filter_map(|path| std::fs::canonicalize(path).ok());
    real.map(|path| plimsoll_units::text::shown_path(&path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_digest_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tool");
        assert_eq!(sha256_of_program(&program), None);
        std::fs::write(&program, "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of_program(&program).as_deref(), Some(wanted));
    }
}
