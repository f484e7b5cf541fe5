//! Path components: kept if they name common system locations, replaced if a user chose them.

/// Components that exist on each system or name only a kind of location.
const COMMON: &[&str] = &[
    "", ".", "..", "bin", "boot", "block", "cache", "cgroup", "class", "cpu", "data", "dev", "devices",
    "disk", "dm", "docker", "efi", "etc", "export", "fs", "home", "huge", "kubepods", "lib", "lib64",
    "libexec", "local", "log", "mapper", "media", "memory", "mnt", "net", "null", "opt", "path", "pts",
    "root", "run", "sbin", "scratch", "share", "shm", "srv", "sys", "tmp", "user", "usr", "var", "work",
    "zero", "plimsoll", ".local", "runs", "by-id", "by-label", "by-path", "by-uuid", "device", "uuid",
];

const COMMON_LONG: &str = "hugepages init.scope kubepods.slice machine.slice system.slice user.slice \
    .dockerenv .containerenv notes.json by-partlabel by-partuuid identifier";

/// Prefixes below which the kernel or the distribution chooses the names.
const SYSTEMS_OWN: &str =
    "/proc/ /sys/ /usr/bin/ /usr/sbin/ /usr/lib/ /usr/libexec/ /bin/ /sbin/ /lib/ /lib64/";

/// Prefixes of device and interface names from the kernel or systemd, before their numbers.
const KERNEL_NAME_PREFIXES: &[&str] = &[
    "sd", "hd", "vd", "xvd", "nvme", "loop", "md", "dm-", "ram", "zram", "sr", "nbd", "mmcblk", "pmem", "zd",
    "drbd", "rbd", "bcache", "fd", "tty", "eth", "en", "eno", "ens", "enp", "wl", "wlan", "wlp", "ww", "ib",
    "lo", "veth", "docker", "bond", "br", "br-", "virbr", "tun", "tap", "team", "usb", "sit", "dummy",
    "vlan", "hsn", "lxcbr", "cni", "flannel.", "gre", "gretap", "erspan", "ip6tnl", "ip6gre", "ip_vti",
    "ip6_vti", "tunl", "ifb", "nic-",
];

/// Returns whether the kernel or systemd chose the name: a known prefix, then numbers or an ID.
pub(super) fn is_kernels(name: &str) -> bool {
    // These names contain a hardware address.
    let by_address = |begin: &&str| name.strip_prefix(*begin).is_some_and(|rest| rest.len() >= 12);
    if ["enx", "wlx", "wwx", "ibx"].iter().any(by_address) {
        return false;
    }
    let rest = |begin: &&str| name.strip_prefix(*begin);
    let numbered = |rest: &str| {
        let mut letters = 0;
        rest.chars().all(|c| {
            letters = if c.is_ascii_digit() { 0 } else { letters + 1 };
            c.is_ascii_digit() || c.is_ascii_lowercase() && letters <= 2 || c == '.'
        })
    };
    let hexadecimal = |rest: &str| rest.len() >= 7 && rest.bytes().all(|b| b.is_ascii_hexdigit());
    KERNEL_NAME_PREFIXES.iter().filter_map(rest).any(|rest| numbered(rest) || hexadecimal(rest))
}

/// Replaces private components of `path` by `user`, `device` or `path`; below system directories,
/// each component by the result of `word`. `keeps`: whether an unknown component stays.
pub(super) fn redact_path(path: &str, keeps: &dyn Fn(&str) -> bool, word: &dyn Fn(&str) -> String) -> String {
    let own =
        SYSTEMS_OWN.split(' ').any(|begin| path.starts_with(begin)) && !path.starts_with("/sys/fs/cgroup/");
    let is_device = path.starts_with("/dev/");
    let mut before = "";
    let mut parts = Vec::new();
    for part in path.split('/') {
        let replaced = match before {
            "home" if !part.is_empty() => "user".to_owned(),
            _ if before.starts_with("by-") => "device".to_owned(),
            _ if own => word(part),
            _ if COMMON.contains(&part) || COMMON_LONG.split(' ').any(|known| known == part) => {
                part.to_owned()
            }
            _ if keeps(part) || is_number(part) || is_device && is_kernels(part) => part.to_owned(),
            _ if is_device => "device".to_owned(),
            _ if part.starts_with("plimsoll-peer-") || is_login(part) => part.to_owned(),
            _ => "path".to_owned(),
        };
        parts.push(replaced);
        before = part;
    }
    parts.join("/")
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether a path component is the control group of a login, such as `user-1000.slice`.
fn is_login(part: &str) -> bool {
    let number = |begin: &str, end: &str| {
        part.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)).is_some_and(is_number)
    };
    number("user-", ".slice") || number("session-", ".scope") || number("user@", ".service")
}

/// Returns whether the character ends a path within a text.
pub(super) fn ends_path(c: char) -> bool {
    c.is_whitespace() || "\"'`,;:()<>|[]{}=".contains(c)
}
