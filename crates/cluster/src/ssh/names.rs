//! Node names from the command line, a file, an Ansible inventory or a Slurm allocation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use crate::text::shown_within;

const MAX_MACHINES: usize = 10_000;
/// Longest name (RFC 1035 §2.3.4), including a user, bytes.
const MAX_NAME_BYTES: usize = 255;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// Name in the run.
    pub name: String,
    /// Name or address for the launcher, with the user if given.
    pub destination: String,
    /// Port, if it differs from ssh's configuration.
    pub port: Option<u16>,
}

impl HostName {
    /// Parses `host` or `user@host`, with a name or an IP address and no port.
    pub fn typed(text: &str) -> Result<Self, String> {
        let (user, name) = text.rsplit_once('@').map_or((None, text), |(user, name)| (Some(user), name));
        let is_host = is_name(name) || name.parse::<Ipv6Addr>().is_ok();
        if is_host && user.is_none_or(is_name) && text.len() <= MAX_NAME_BYTES {
            return Ok(Self { name: name.to_owned(), destination: text.to_owned(), port: None });
        }
        let shown = shown_within(text, 64);
        Err(match name.split_once(':') {
            Some((host, port)) if is_name(host) && port.parse::<u16>().is_ok() => {
                format!("'{shown}' is not a host name: the port belongs in ssh's configuration (Port {port})")
            }
            _ if name.contains('[') => {
                format!("'{shown}' is not a host name, and ranges are not read here: write each name")
            }
            _ => format!("'{shown}' is not a host name"),
        })
    }
}

fn is_name(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Parses a host list: one host per line, comments after `#`. The error contains the line number.
pub fn of_list(text: &str) -> Result<Vec<HostName>, String> {
    let lines =
        text.lines().enumerate().map(|(at, line)| (at, line.split('#').next().unwrap_or_default().trim()));
    let named = lines.filter(|(_, line)| !line.is_empty());
    named.map(|(at, line)| HostName::typed(line).map_err(|why| format!("line {}: {why}", at + 1))).collect()
}

/// Parses an Ansible inventory (INI) with `ansible_host`, `ansible_user`, `ansible_port` of hosts
/// or `[group:vars]`, and ranges such as `web[01:20]`. The error contains the line number.
pub fn of_inventory(text: &str) -> Result<Vec<HostName>, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    if lines.next().is_some_and(|first| first == "---" || first.ends_with(':') || first.starts_with('{')) {
        return Err(
            "only inventories in INI format are read; ansible-inventory --graph lists the hosts for --hosts"
                .to_owned(),
        );
    }
    let mut inventory = Inventory::default();
    let mut section = (UNGROUPED, None);
    for (at, line) in text.lines().enumerate() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header.split_once(':').map_or((header, None), |(group, kind)| (group, Some(kind)));
        } else if !line.is_empty() {
            inventory.take(section, line).map_err(|why| format!("line {}: {why}", at + 1))?;
        }
    }
    let host =
        |name: &String| of_entry(name, &inventory.variables(name)).map_err(|why| format!("{name}: {why}"));
    inventory.names.iter().map(host).collect()
}

/// Implicit groups of Ansible: all hosts, and hosts before the first header.
const ANSIBLE_ALL_GROUP: &str = "all";
const UNGROUPED: &str = "ungrouped";

type Variables = BTreeMap<String, String>;

#[derive(Default)]
struct Inventory {
    names: Vec<String>,
    own: BTreeMap<String, Variables>,
    /// Groups by host, and parent groups by group.
    host_of: BTreeMap<String, BTreeSet<String>>,
    child_of: BTreeMap<String, BTreeSet<String>>,
    of_group: BTreeMap<String, Variables>,
}

impl Inventory {
    /// Adds the content of a line below the header `[group]`, `[group:vars]` or `[group:children]`.
    fn take(&mut self, (group, kind): (&str, Option<&str>), line: &str) -> Result<(), String> {
        let group = group.to_owned();
        match kind {
            None => {
                let mut words = line.split_whitespace();
                let names = expand_ranges(words.next().unwrap_or_default())?;
                let set: Variables = words.filter_map(variable).collect();
                for name in names {
                    HostName::typed(&name)?;
                    self.host_of.entry(name.clone()).or_default().insert(group.clone());
                    if !self.own.contains_key(&name) {
                        self.names.push(name.clone());
                    }
                    self.own.entry(name).or_default().extend(set.clone());
                }
                if self.names.len() > MAX_MACHINES {
                    return Err(format!("more than {MAX_MACHINES} hosts are named"));
                }
            }
            Some("vars") => self.of_group.entry(group).or_default().extend(variable(line)),
            Some(_) => {
                self.child_of.entry(line.to_owned()).or_default().insert(group);
            }
        }
        Ok(())
    }

    /// Returns a host's variables; own ones replace those of groups, inner groups those of outer.
    fn variables(&self, name: &str) -> Variables {
        let mut rings = vec![self.host_of.get(name).cloned().unwrap_or_default()];
        let mut seen = rings[0].clone();
        while let Some(ring) = rings.last().filter(|ring| !ring.is_empty()) {
            let outer = ring.iter().filter_map(|group| self.child_of.get(group)).flatten();
            let outer: BTreeSet<String> = outer.filter(|group| !seen.contains(*group)).cloned().collect();
            seen.extend(outer.clone());
            rings.push(outer);
        }
        let groups = rings.iter().rev().flatten().filter(|group| *group != ANSIBLE_ALL_GROUP);
        let of_groups = std::iter::once(ANSIBLE_ALL_GROUP).chain(groups.map(String::as_str));
        let all = of_groups.filter_map(|group| self.of_group.get(group)).chain(self.own.get(name));
        all.flat_map(Variables::clone).collect()
    }
}

/// Parses `name=value` without spaces and quotes around the value; `None` without `=`.
fn variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    Some((name.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned()))
}

fn of_entry(name: &str, variables: &Variables) -> Result<HostName, String> {
    let value = |keys: [&str; 2]| keys.into_iter().find_map(|key| variables.get(key));
    let address = value(["ansible_host", "ansible_ssh_host"]).map_or(name, String::as_str);
    let user = value(["ansible_user", "ansible_ssh_user"]);
    let destination = user.map_or_else(|| address.to_owned(), |user| format!("{user}@{address}"));
    let port = value(["ansible_port", "ansible_ssh_port"]);
    let port =
        port.map(|port| port.parse().map_err(|_| format!("'{}' is not a port", shown_within(port, 32))));
    Ok(HostName { name: name.to_owned(), port: port.transpose()?, ..HostName::typed(&destination)? })
}

const MAX_RANGES: usize = 8;

/// Expands ranges such as `web[01:20]` (Ansible) or `r[1-2]n[01-16,20]` (Slurm) to names.
fn expand_ranges(pattern: &str) -> Result<Vec<String>, String> {
    let wrong =
        || format!("'{}' is not a host name or a range such as web[01:20]", shown_within(pattern, 64));
    if pattern.matches('[').count() > MAX_RANGES {
        return Err(wrong());
    }
    let Some((before, rest)) = pattern.split_once('[') else { return Ok(vec![pattern.to_owned()]) };
    let (ranges, after) = rest.split_once(']').ok_or_else(wrong)?;
    let tails = expand_ranges(after)?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once([':', '-']).unwrap_or((range, range));
        let (from, to, width) = (number(first)?, number(last)?, first.len());
        if to < from
            || to - from >= MAX_MACHINES / tails.len()
            || names.len() >= MAX_MACHINES
            || width > MAX_NAME_BYTES
        {
            return Err(wrong());
        }
        let of_number = |n: usize| tails.iter().map(move |tail| format!("{before}{n:0width$}{tail}"));
        names.extend((from..=to).flat_map(of_number));
    }
    Ok(names)
}

/// Parses the nodes of `SLURM_JOB_NODELIST`, such as `n[1-3,7],login1`.
pub fn of_allocation(text: &str) -> Result<Vec<HostName>, String> {
    let mut depth = 0;
    let outside = |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    };
    let mut hosts = Vec::new();
    for pattern in text.split(outside) {
        for name in expand_ranges(pattern)? {
            hosts.push(HostName::typed(&name)?);
        }
        if hosts.len() > MAX_MACHINES {
            return Err(format!("more than {MAX_MACHINES} hosts are named"));
        }
    }
    Ok(hosts)
}

/// Returns `hosts` unchanged. Fails if there are none, over 10,000, or a name occurs twice.
pub fn distinct(hosts: Vec<HostName>) -> Result<Vec<HostName>, String> {
    let mut seen = BTreeSet::new();
    if let Some(again) = hosts.iter().find(|host| !seen.insert(host.name.clone())) {
        return Err(format!("{} is named twice", again.name));
    }
    match hosts.len() {
        0 => Err("no host is named".to_owned()),
        count if count > MAX_MACHINES => {
            Err(format!("{count} hosts are named; at most {MAX_MACHINES} are possible"))
        }
        _ => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_hosts_and_never_options_or_commands() {
        assert_eq!(HostName::typed("root@10.0.0.7").unwrap().name, "10.0.0.7");
        assert_eq!(HostName::typed("fd00::7").unwrap().destination, "fd00::7");
        for wrong in
            ["", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a@", "@a", "-l@a", "a\nb", "a/b", "[fe80::1]"]
        {
            assert!(HostName::typed(wrong).is_err(), "{wrong}");
        }
        let why = HostName::typed("root@n1:2222").unwrap_err();
        assert!(why.ends_with("the port belongs in ssh's configuration (Port 2222)"), "{why}");
        assert!(HostName::typed("n1:a").is_err() && HostName::typed("n1:").is_err());
    }

    #[test]
    fn a_list_has_comments_and_names_each_host_once_and_an_inventory_its_groups() {
        let names = |hosts: Vec<HostName>| hosts.into_iter().map(|host| host.name).collect::<Vec<_>>();
        assert_eq!(names(of_list("# all\nn1\n n2 # slow\n\n").unwrap()), ["n1", "n2"]);
        assert_eq!(of_list("n1\n;x").unwrap_err(), "line 2: ';x' is not a host name");
        let text = "lone\n[web]\nweb[08:10].x ansible_user=ops\nlone\n[db]\nd ansible_host=10.0.0.1 ansible_port=2222\n\
                    [all:vars]\nx=1\n[both:children]\nweb\n";
        let hosts = of_inventory(text).unwrap();
        assert_eq!(names(hosts.clone()), ["lone", "web08.x", "web09.x", "web10.x", "d"]);
        assert_eq!(hosts[1].destination, "ops@web08.x");
        assert_eq!((hosts[4].destination.as_str(), hosts[4].port), ("10.0.0.1", Some(2222)));
        assert!(of_inventory("d ansible_host=-oProxyCommand=x").is_err());
        assert!(of_inventory("w[1:9999999999]").is_err());
        let many = "a[0000:9999]\nb[0000:9999]\n".repeat(1000);
        assert_eq!(of_inventory(&many).unwrap_err(), "line 2: more than 10000 hosts are named");
        assert!(of_inventory(&format!("w[{}1:2]", "0".repeat(1 << 19))).is_err());
        let of = |text: &str| distinct(of_list(text).unwrap());
        assert_eq!(of("a\nb\na").unwrap_err(), "a is named twice");
        assert!(of("").is_err() && of("a\nb").is_ok());
    }

    #[test]
    fn an_allocation_is_expanded_as_slurm_does() {
        let names = |text: &str| {
            of_allocation(text).map(|hosts| hosts.into_iter().map(|host| host.name).collect::<Vec<_>>())
        };
        let all = names("n[1-3,07],login1,r[1-2]c[09-10]x").unwrap();
        assert_eq!(all, ["n1", "n2", "n3", "n07", "login1", "r1c09x", "r1c10x", "r2c09x", "r2c10x"]);
        assert_eq!(names("n8").unwrap(), ["n8"]);
        for wrong in ["", "n[1-2", "n[2-1]", "n[]", "n[1-2],", "n[a-c]", "n]1[", "$(x)", "n[0-9999]m[0-9999]"]
        {
            assert!(names(wrong).is_err(), "{wrong}");
        }
        assert!(names(&"[1]".repeat(1 << 18)).is_err());
    }

    #[test]
    fn variables_of_groups_hold_for_their_hosts_the_innermost_first() {
        let text = "[web]\nw1\nw2 ansible_user=own\n[db]\nd1\n[all:vars]\nansible_user=all\n\
                    [site:children]\nweb\n[site:vars]\nansible_port = 2222\nansible_user='site'\n\
                    [web:vars]\nansible_user=web\n[web:children]\nsite\n";
        let hosts = of_inventory(text).unwrap();
        let of = |at: usize| (hosts[at].destination.as_str(), hosts[at].port);
        assert_eq!((of(0), of(1), of(2)), (("web@w1", Some(2222)), ("own@w2", Some(2222)), ("all@d1", None)));
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_safe_to_hand_to_ssh(text in "(?s).{0,80}") {
            for hosts in [of_list(&text), of_inventory(&text), of_allocation(&text)].into_iter().flatten() {
                for host in hosts {
                    prop_assert!(!host.destination.starts_with('-'));
                    prop_assert!(host.destination.chars().all(|c| c.is_ascii_graphic() && !"'\"$`;|&<>()\\/".contains(c)));
                }
            }
        }
    }
}
