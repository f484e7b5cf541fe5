//! Which machines: names as the user's ssh knows them, from the command line, a file, or an inventory of Ansible.

use std::collections::BTreeSet;

use crate::text::shown_within;

/// Most machines of one run.
const MOST: usize = 10_000;
/// Longest name (RFC 1035 §2.3.4), with a user's.
const LONGEST: usize = 255;

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name in the run.
    pub name: String,
    /// What ssh gets: a name or address, with the user if one was given.
    pub destination: String,
    /// The port, where it is not the one of ssh's configuration.
    pub port: Option<u16>,
}

impl Host {
    /// A host as it is typed: `host`, `user@host`.
    ///
    /// # Errors
    /// What is no such name.
    pub fn typed(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{}' is not a host name", shown_within(text, 64));
        let (user, name) = text.rsplit_once('@').map_or((None, text), |(user, name)| (Some(user), name));
        let known = is_name(name, ":") && user.is_none_or(|user| is_name(user, "")) && text.len() <= LONGEST;
        let host = Self { name: name.to_owned(), destination: text.to_owned(), port: None };
        known.then_some(host).ok_or_else(wrong)
    }
}

/// Letters, digits, and these; it begins with a letter or digit, so that no program takes it for an option.
fn is_name(text: &str, more: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c))
}

/// The hosts in a file: one a line, comments after `#`.
///
/// # Errors
/// The line that names none.
pub fn of_list(text: &str) -> Result<Vec<Host>, String> {
    let lines =
        text.lines().enumerate().map(|(at, line)| (at, line.split('#').next().unwrap_or_default().trim()));
    let named = lines.filter(|(_, line)| !line.is_empty());
    named.map(|(at, line)| Host::typed(line).map_err(|why| format!("line {}: {why}", at + 1))).collect()
}

/// The hosts of an inventory in Ansible's INI form: each name of each group, with `ansible_host`, `ansible_user` and
/// `ansible_port`, and ranges such as `web[01:20]`. Sections of variables and of groups of groups name no host.
///
/// # Errors
/// The line that names none.
pub fn of_inventory(text: &str) -> Result<Vec<Host>, String> {
    let (mut hosts, mut names_hosts) = (Vec::<Host>::new(), true);
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: String| format!("line {}: {why}", at + 1);
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            names_hosts = !section.contains(':');
            continue;
        }
        if line.is_empty() || !names_hosts {
            continue;
        }
        let mut words = line.split_whitespace();
        let pattern = words.next().unwrap_or_default();
        let variables: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        for name in ranged(pattern).map_err(wrong)? {
            let host = of_entry(&name, &variables).map_err(wrong)?;
            // A host may be in several groups.
            if hosts.iter().all(|other| other.name != host.name) {
                hosts.push(host);
            }
        }
    }
    Ok(hosts)
}

fn of_entry(name: &str, variables: &[(&str, &str)]) -> Result<Host, String> {
    let value = |key: &str| {
        let found = variables.iter().rev().find(|(known, _)| *known == key);
        found.map(|(_, value)| value.trim_matches(['"', '\'']))
    };
    let address = value("ansible_host").or(value("ansible_ssh_host")).unwrap_or(name);
    let user = value("ansible_user").or(value("ansible_ssh_user"));
    let destination = user.map_or_else(|| address.to_owned(), |user| format!("{user}@{address}"));
    let port = value("ansible_port").or(value("ansible_ssh_port"));
    let port =
        port.map(|port| port.parse().map_err(|_| format!("'{}' is not a port", shown_within(port, 32))));
    Host::typed(name)?;
    Ok(Host { name: name.to_owned(), port: port.transpose()?, ..Host::typed(&destination)? })
}

/// The names of a pattern with at most one range, `a[01:12]b`, whose bounds both count.
fn ranged(pattern: &str) -> Result<Vec<String>, String> {
    let wrong =
        || format!("'{}' is not a host name or a range such as web[01:20]", shown_within(pattern, 64));
    let Some((before, rest)) = pattern.split_once('[') else { return Ok(vec![pattern.to_owned()]) };
    let (range, after) = rest.split_once(']').ok_or_else(wrong)?;
    let (first, last) = range.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    let (from, to) = (number(first)?, number(last)?);
    if after.contains('[') || to < from || to - from >= MOST {
        return Err(wrong());
    }
    let width = first.len();
    Ok((from..=to).map(|n| format!("{before}{n:0width$}{after}")).collect())
}

/// All of them, each once.
///
/// # Errors
/// There is none, one is named twice, or there are too many.
pub fn distinct(hosts: Vec<Host>) -> Result<Vec<Host>, String> {
    let mut seen = BTreeSet::new();
    if let Some(again) = hosts.iter().find(|host| !seen.insert(host.name.clone())) {
        return Err(format!("{} is named twice", again.name));
    }
    match hosts.len() {
        0 => Err("no host is named".to_owned()),
        count if count > MOST => Err(format!("{count} hosts are named; at most {MOST} are possible")),
        _ => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_hosts_and_never_options_or_commands() {
        assert_eq!(Host::typed("root@10.0.0.7").unwrap().name, "10.0.0.7");
        assert_eq!(Host::typed("fd00::7").unwrap().destination, "fd00::7");
        for wrong in
            ["", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a@", "@a", "-l@a", "a\nb", "a/b", "[fe80::1]"]
        {
            assert!(Host::typed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_has_comments_and_an_inventory_its_groups() {
        let names = |hosts: Vec<Host>| hosts.into_iter().map(|host| host.name).collect::<Vec<_>>();
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
    }

    #[test]
    fn each_is_named_once() {
        let of = |text: &str| distinct(of_list(text).unwrap());
        assert_eq!(of("a\nb\na").unwrap_err(), "a is named twice");
        assert!(of("").is_err() && of("a\nb").is_ok());
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_safe_to_hand_to_ssh(text in "(?s).{0,80}") {
            for hosts in [of_list(&text), of_inventory(&text)].into_iter().flatten() {
                for host in hosts {
                    prop_assert!(!host.destination.starts_with('-'));
                    prop_assert!(host.destination.chars().all(|c| c.is_ascii_graphic() && !"'\"$`;|&<>()\\/".contains(c)));
                }
            }
        }
    }
}
