//! Who takes part in a cluster run: one rank a machine, if all of them agree on what is to be done.

use std::collections::{BTreeMap, BTreeSet};

use super::message::Hello;

/// A machine that takes part.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The rank that measures there.
    pub rank: usize,
    /// Its name in the run: the host's, with the rank where several machines have the same.
    pub name: String,
}

/// All of them, by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roster {
    /// The machines; rank 0 is the first.
    pub members: Vec<Member>,
}

impl Roster {
    /// The machines of these ranks, the lowest rank of each leading.
    ///
    /// # Errors
    /// Who differs from rank 0 in what, or cannot measure, in one line.
    pub fn of(hellos: &[Hello]) -> Result<Self, String> {
        let mut keys = BTreeSet::new();
        let leaders: Vec<(usize, &Hello)> =
            hellos.iter().enumerate().filter(|(_, hello)| keys.insert(&hello.key)).collect();
        let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
        leaders.iter().for_each(|(_, hello)| *hosts.entry(&hello.host).or_default() += 1);
        let name = |(rank, hello): &(usize, &Hello)| {
            let host = crate::text::shown_within(&hello.host, 64);
            let alone = hosts.get(hello.host.as_str()) == Some(&1);
            let name = if alone { host } else { format!("{host}#{rank}") };
            Member { rank: *rank, name }
        };
        let members: Vec<Member> = leaders.iter().map(name).collect();
        let wrong: Vec<String> =
            hellos.iter().enumerate().filter_map(|(rank, h)| differs(rank, h, &hellos[0])).collect();
        if wrong.is_empty() { Ok(Self { members }) } else { Err(told(&wrong)) }
    }

    /// The name under which a rank measures.
    pub fn name(&self, rank: usize) -> Option<&str> {
        let at = self.members.binary_search_by_key(&rank, |member| member.rank).ok()?;
        self.members.get(at).map(|member| member.name.as_str())
    }

    /// Those that follow rank 0.
    pub fn followers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| m.rank != 0)
    }
}

/// In what a rank differs from rank 0, or why it cannot measure.
fn differs(rank: usize, hello: &Hello, first: &Hello) -> Option<String> {
    let who = format!("{} (rank {rank})", crate::text::shown_within(&hello.host, 64));
    if let Some(why) = &hello.cannot {
        return Some(format!("{who}: {}", crate::text::shown_within(why, 300)));
    }
    let pairs = [
        ("version", hello.version.clone(), first.version.clone()),
        ("schema", hello.schema.clone(), first.schema.clone()),
        ("plan", hello.plan.clone(), first.plan.clone()),
    ];
    let unlike: Vec<String> = pairs
        .iter()
        .filter(|(_, own, other)| own != other)
        .map(|(what, own, other)| format!("{what} {} and not {other}", crate::text::shown_within(own, 40)))
        .collect();
    (!unlike.is_empty()).then(|| format!("{who}: {}", unlike.join(", ")))
}

/// The first few of them.
fn told(wrong: &[String]) -> String {
    const MOST: usize = 8;
    let mut line = wrong.iter().take(MOST).cloned().collect::<Vec<_>>().join("; ");
    if wrong.len() > MOST {
        line += &format!("; and {} more", wrong.len() - MOST);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(host: &str, key: &str) -> Hello {
        Hello {
            version: "1".into(),
            schema: "s".into(),
            plan: "7".into(),
            key: key.into(),
            host: host.into(),
            cannot: None,
        }
    }

    #[test]
    fn the_lowest_rank_of_a_machine_leads_and_names_are_told_apart() {
        let hellos = [hello("a", "1"), hello("a", "1"), hello("b", "2"), hello("b", "3"), hello("c", "4")];
        let members = Roster::of(&hellos).unwrap().members;
        let seen: Vec<_> = members.iter().map(|m| (m.rank, m.name.as_str())).collect();
        assert_eq!(seen, [(0, "a"), (2, "b#2"), (3, "b#3"), (4, "c")]);
    }

    #[test]
    fn who_differs_is_named_with_what() {
        let mut hellos = [hello("a", "1"), hello("b", "2"), hello("c", "3")];
        hellos[1].plan = "8".into();
        hellos[2].cannot = Some("no\ndirectory".into());
        let line = Roster::of(&hellos).unwrap_err();
        assert_eq!(line, r"b (rank 1): plan 8 and not 7; c (rank 2): no\u{a}directory");
    }

    proptest! {
        #[test]
        fn every_machine_has_one_member_and_every_name_is_unique(keys in prop::collection::vec(0_u8..9, 1..40)) {
            let hellos: Vec<Hello> = keys.iter().map(|k| hello(&format!("h{}", k / 3), &k.to_string())).collect();
            let roster = Roster::of(&hellos).unwrap();
            let mut distinct = keys.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(roster.members.len(), distinct.len());
            prop_assert_eq!(roster.members[0].rank, 0);
            let mut names: Vec<_> = roster.members.iter().map(|m| &m.name).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), distinct.len());
        }
    }
}
