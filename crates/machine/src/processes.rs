//! CPU usage of other processes, so that a low result is not attributed to the machine.

use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_units::text::shown_within;

use super::Root;
use super::root::find_counter;

/// Longest process name that is shown; the kernel keeps 15 bytes.
const MAX_PROCESS_NAME_CHARACTERS: usize = 24;

/// CPU time of all processes at one moment.
#[derive(Debug, Clone)]
pub struct Processes {
    at: Instant,
    all: BTreeMap<u32, ProcessStat>,
    /// Busy ticks of all CPUs, without steal.
    busy: Option<u64>,
}

/// Fields of the `stat` file of a process or thread (proc_pid_stat(5)). Times are in clock ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessStat {
    /// Sanitised name.
    pub name: String,
    /// State, such as 'R'.
    pub state: char,
    /// ID of the parent.
    pub parent: u32,
    /// Page faults without and with I/O.
    pub faults: [u64; 2],
    /// User and kernel time.
    pub ticks: u64,
    /// User and kernel time of children that were waited for.
    of_children: u64,
    /// Number of threads.
    pub threads: u64,
    /// Start since boot, because IDs are reused.
    pub began: u64,
    /// CPU of the last run.
    pub cpu: usize,
}

/// CPU usage of other processes in an interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Others {
    /// Mean number of CPUs busy with other processes.
    pub cpus: f64,
    /// Process with the highest usage; `None` if invisible, as in a container.
    pub most: Option<BusyProcess>,
}

/// CPU usage of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct BusyProcess {
    /// Process ID.
    pub id: u32,
    /// Sanitised name.
    pub name: String,
    /// Mean number of CPUs used.
    pub cpus: f64,
}

impl Processes {
    /// Reads the CPU time that each process has used; processes that end during this are absent.
    pub fn read(root: &Root) -> Self {
        let one = |id: u32| Some((id, ProcessStat::read(root, &format!("proc/{id}"))?));
        Self {
            at: Instant::now(),
            all: root.processes().into_iter().filter_map(one).collect(),
            busy: busy(root),
        }
    }

    /// Returns the CPU usage, from this reading to `later`, of all processes except `own` (process
    /// ID) and its descendants; `second` is the number of clock ticks per second.
    pub fn until(&self, later: &Self, own: u32, second: u64) -> Others {
        let elapsed = later.at.saturating_duration_since(self.at).as_secs_f64();
        let whole = elapsed * second as f64;
        if whole <= 0.0 {
            return Others::default();
        }
        // Ended workers are children of this process.
        let ended = |all: &Self| all.all.get(&own).map_or(0, |own| own.of_children);
        let mut ours = ended(later).saturating_sub(ended(self));
        let (mut theirs, mut most) = (0, None::<(u64, u32)>);
        for (&id, process) in &later.all {
            let used = self.used(id, process);
            if later.descends(id, own) {
                ours += used;
                continue;
            }
            theirs += used;
            most = most.max(Some((used, id)));
        }
        let seen = theirs as f64 / whole;
        let all = self.busy.zip(later.busy).map(|(before, after)| after.saturating_sub(before));
        // Other busy time belongs to other processes, even if they are invisible.
        let unseen = all.map_or(0.0, |all| all.saturating_sub(ours) as f64 / whole);
        let most = most.filter(|(used, _)| *used > 0).and_then(|(used, id)| {
            let name = later.all.get(&id)?.name.clone();
            Some(BusyProcess { id, name, cpus: used as f64 / whole })
        });
        Others { cpus: seen.max(unseen), most }
    }

    fn used(&self, id: u32, now: &ProcessStat) -> u64 {
        let before = self.all.get(&id).filter(|before| before.began == now.began);
        now.ticks.saturating_sub(before.map_or(0, |before| before.ticks))
    }

    fn descends(&self, id: u32, own: u32) -> bool {
        let parent = |id: &u32| self.all.get(id).map(|process| process.parent).filter(|id| *id != 0);
        std::iter::successors(Some(id), parent).take(self.all.len() + 1).any(|id| id == own)
    }
}

/// Returns the start of process `id` in clock ticks since boot; `None` if there is no such process
/// or it has ended but was not waited for (a zombie).
pub fn began(root: &Root, id: u32) -> Option<u64> {
    let stat = ProcessStat::read(root, &format!("proc/{id}"))?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.began)
}

/// Returns the bytes that process `id` read from plus wrote to disks (proc_pid_io(5)), if readable.
pub fn disk_bytes(root: &Root, id: u32) -> Option<u64> {
    let text = root.text(format!("proc/{id}/io")).ok()?;
    Some(find_counter(&text, "read_bytes:")?.saturating_add(find_counter(&text, "write_bytes:")?))
}

impl ProcessStat {
    /// Reads the `stat` file in `directory`, such as `proc/1`; `None` if that fails.
    pub fn read(root: &Root, directory: &str) -> Option<Self> {
        Self::parse(&root.text(format!("{directory}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
        // The third field of the file is the first here.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            name: shown_within(text.get(open + 1..close)?, MAX_PROCESS_NAME_CHARACTERS),
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            faults: [number(10)?, number(12)?],
            ticks: number(14)?.saturating_add(number(15)?),
            of_children: number(16)?.saturating_add(number(17)?),
            threads: number(20)?,
            began: number(22)?,
            cpu: usize::try_from(number(39).unwrap_or(0)).ok()?,
        })
    }
}

/// Reads the busy ticks of all CPUs since boot: user, nice, system, irq, softirq (proc_stat(5)).
fn busy(root: &Root) -> Option<u64> {
    let head = root.head(std::path::Path::new("proc/stat"), 4096).ok()?;
    let text = String::from_utf8_lossy(&head);
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    [0, 1, 2, 5, 6].iter().try_fold(0_u64, |sum, &field| sum.checked_add(*times.get(field)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn line(id: u32, name: &str, parent: u32, ticks: u64) -> String {
        format!("{id} ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {} 0 0", id + 1000)
    }

    fn at(seconds: f64, all: &[(u32, &str, u32, u64)], busy: u64) -> Processes {
        let one = |&(id, name, parent, ticks): &(u32, &str, u32, u64)| {
            (id, ProcessStat::parse(&line(id, name, parent, ticks)).unwrap())
        };
        let at = *START + Duration::from_secs_f64(seconds);
        Processes { at, all: all.iter().map(one).collect(), busy: Some(busy) }
    }

    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

    #[test]
    fn the_busiest_of_others_is_named_and_our_own_are_not() {
        let before = at(0.0, &[(1, "init", 0, 5), (10, "gate", 1, 0), (20, "hog", 1, 100)], 1000);
        let all = [(1, "init", 0, 5), (10, "gate", 1, 20), (11, "worker", 10, 180), (20, "hog", 1, 290)];
        let after = at(2.0, &all, 1400);
        let others = before.until(&after, 10, 100);
        assert_eq!(others.most, Some(BusyProcess { id: 20, name: "hog".to_owned(), cpus: 0.95 }));
        assert_eq!(others.cpus, 1.0);
    }

    #[test]
    fn an_id_that_is_used_again_begins_at_nothing() {
        let mut before = at(0.0, &[(20, "old", 1, 1_000_000)], 0);
        before.all.get_mut(&20).unwrap().began = 1;
        let after = at(1.0, &[(20, "new", 1, 50)], 50);
        assert_eq!(before.until(&after, 9, 100).most.unwrap().cpus, 0.5);
    }

    #[test]
    fn a_worker_that_ended_is_ours() {
        let (mut before, mut after) = (at(0.0, &[(10, "gate", 1, 0)], 0), at(1.0, &[(10, "gate", 1, 5)], 95));
        before.all.get_mut(&10).unwrap().of_children = 7;
        after.all.get_mut(&10).unwrap().of_children = 97;
        assert_eq!(before.until(&after, 10, 100).cpus, 0.0);
    }

    #[test]
    fn what_is_not_seen_is_others() {
        let others = at(0.0, &[(10, "gate", 1, 0)], 0).until(&at(1.0, &[(10, "gate", 1, 100)], 200), 10, 100);
        assert_eq!((others.cpus, others.most), (1.0, None));
    }

    #[test]
    fn names_are_made_harmless() {
        let hostile = ProcessStat::parse(&line(7, "a) b (\u{1b}[31m\n", 1, 3)).unwrap();
        let name = hostile.name;
        assert!(name.starts_with("a) b (") && !name.contains(['\u{1b}', '\n']), "{name}");
        assert_eq!((hostile.parent, hostile.ticks), (1, 3));
        assert_eq!(ProcessStat::parse("7 (a"), None);
    }

    #[test]
    fn each_field_is_in_its_place() {
        let numbers = (11..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let line = ProcessStat::parse(&format!("7 (a) D 3 1 1 0 -1 4 {numbers}")).unwrap();
        assert_eq!((line.state, line.parent, line.faults), ('D', 3, [11, 13]));
        assert_eq!((line.ticks, line.threads, line.began, line.cpu), (15 + 16, 21, 23, 40));
    }

    #[test]
    fn this_process_is_read() {
        let own = std::process::id();
        let all = Processes::read(&Root::live());
        assert!(all.all.contains_key(&own) && all.descends(own, own));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = ProcessStat::parse(&text);
        }
    }
}
