use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

const IMPERSONAL_WORDS: &str = "boot burstable besteffort cgroup cpu cpuacct cpu,cpuacct cpuset data dev \
     efi etc fs home init.scope lib log machine.slice media memory mnt opt proc root run shm srv sys \
     system.slice tmp unified user.slice usr var wal";
const CONTAINERS: [&str; 5] = ["kubepods", "docker", "libpod", "lxc", "garden"];
/// Hexadecimal digits from which a word identifies a single thing: a GUID, a world-wide name.
const IDENTIFYING: usize = 12;

#[derive(Debug, Default)]
pub(super) struct NumberedNames(BTreeMap<String, String>);

impl NumberedNames {
    /// Replaces components of a path that may be private by numbered names, such as `name-1`.
    pub(super) fn path(&mut self, path: &Path) -> PathBuf {
        let renamed = path.components().map(|part| match part {
            Component::Normal(word) => OsString::from(self.word(&word.to_string_lossy())),
            other => other.as_os_str().to_owned(),
        });
        renamed.collect()
    }

    fn word(&mut self, word: &str) -> String {
        if IMPERSONAL_WORDS.split(' ').any(|known| known == word) {
            return word.to_owned();
        }
        let kind = CONTAINERS.into_iter().find(|kind| word.contains(kind)).unwrap_or("name");
        self.numbered(word, kind)
    }

    /// Replaces serial numbers and user-given names in a sysfs path by `id-1`; drops the first `/`.
    pub(super) fn sysfs_path(&mut self, place: &Path) -> PathBuf {
        let words = place.components().filter_map(|part| match part {
            Component::Normal(word) => Some(self.device(&word.to_string_lossy())),
            _ => None,
        });
        words.collect()
    }

    /// Returns `name` if it is the kernel's, such as `sda`; else a numbered name, such as `id-1`.
    pub(super) fn device(&mut self, name: &str) -> String {
        let digits = name.bytes().filter(|byte| *byte != b'-').collect::<Vec<_>>();
        let longest = digits.split(|byte| !byte.is_ascii_hexdigit()).map(<[u8]>::len).max().unwrap_or(0);
        let is_kernels = |c: char| c.is_ascii_alphanumeric() || ":.-_!,@+".contains(c);
        // A RAID array can have a name of its user: md_home.
        match name.strip_prefix("md_") {
            Some(_) => self.numbered(name, "md_"),
            None if longest >= IDENTIFYING || !name.chars().all(is_kernels) => self.numbered(name, "id"),
            None => name.to_owned(),
        }
    }

    fn numbered(&mut self, name: &str, kind: &str) -> String {
        let number = self.0.len() + 1;
        let dash = if kind.ends_with('_') { "" } else { "-" };
        self.0.entry(name.to_owned()).or_insert_with(|| format!("{kind}{dash}{number}")).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_and_shapes_stay() {
        let mut names = NumberedNames::default();
        let path = |names: &mut NumberedNames, text: &str| names.path(Path::new(text)).display().to_string();
        assert_eq!(path(&mut names, "/sys/fs/cgroup/cpu,cpuacct"), "/sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(path(&mut names, "/home/jane/work"), "/home/name-1/name-2");
        assert_eq!(path(&mut names, "/mnt/work"), "/mnt/name-2");
        assert_eq!(path(&mut names, "/docker/0123abc/../x"), "/docker-3/name-4/../name-5");
        let place =
            |names: &mut NumberedNames, text: &str| names.sysfs_path(Path::new(text)).display().to_string();
        let nvme = "sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/nvme/nvme0/nvme0n1";
        assert_eq!(place(&mut names, nvme), nvme);
        let guid = "sys/devices/f8b3781a-1e82-4818-a1c3-63d806ec15bb/host0/0x500507630300c562";
        assert_eq!(place(&mut names, guid), "sys/devices/id-6/host0/id-7");
        assert_eq!(names.device("md_home"), "md_8");
        assert_eq!(names.device("md127"), "md127");
    }
}
