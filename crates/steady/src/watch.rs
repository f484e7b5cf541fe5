use plimsoll_machine::health::CounterFiles;
use plimsoll_machine::processes::{ProcessStat, disk_bytes};
use plimsoll_machine::{CpuSet, Root, StateSnapshot, StateWatch};
use plimsoll_system::wall;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds for which a CPU on which a thread was seen counts as the command's.
const CPU_MEMORY_S: f64 = 1.0;
/// Seconds between scans of all processes: usual, and while other processes are active.
const SCAN_PAUSES_S: [f64; 2] = [2.0, 0.4];
/// CPU time that scans of all processes may use: a share of one CPU, and seconds at the start.
const SCAN_BUDGET: [f64; 2] = [0.0015, 0.008];
/// Seconds after which the disk traffic of all processes is no longer read.
const IO_MEMORY_S: f64 = 3.0;
/// Share of the time of a command that waits for a disk for its traffic to be read.
const MIN_BLOCKED: f64 = 0.02;
/// Most processes whose state is read before all else.
const MAX_EARLY: usize = 16;
/// CPUs of other processes from which on they are active.
const ACTIVE_CPUS: f64 = 0.1;
/// Most other processes that an interval names.
const MAX_NAMED: usize = 3;

/// Activity of a command and of the rest of the machine in an interval. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandInterval {
    /// Start, since the start of the command, on a clock that does not count suspension.
    pub from: f64,
    /// End, on the same clock.
    pub to: f64,
    /// Time in which the machine was suspended.
    pub suspended: f64,
    /// Time that this process, the observer, waited for a CPU.
    pub own_wait: f64,
    /// Time that the interval lasted longer than the observer had planned.
    pub late: f64,
    /// Whether the observer received SIGCONT, which follows a stop.
    pub continued: bool,
    /// CPU time of the command's threads.
    pub run: f64,
    /// Time that the command's threads waited for a CPU; `None` if the kernel does not count it.
    pub wait: Option<f64>,
    /// Share of the command's non-sleeping processes that a signal has stopped, 0 to 1.
    pub stopped: f64,
    /// Share of the time of the command's threads, without other sleep, in which they waited for a
    /// disk (uninterruptible sleep).
    pub blocked: f64,
    /// CPU time of other processes on the command's CPUs.
    pub others: Option<f64>,
    /// CPU time of other processes on the other CPUs.
    pub elsewhere: Option<f64>,
    /// Time of the command's CPUs that the hypervisor gave to other guests.
    pub stolen: Option<f64>,
    /// Time, summed over CPUs, in which a CPU quota stopped the command's groups.
    pub throttled: Option<f64>,
    /// Time in which some thread of the machine waited for memory.
    pub memory_stall: Option<f64>,
    /// Time in which some thread of the machine waited for I/O.
    pub io_stall: Option<f64>,
    /// Bytes that the command read from and wrote to disks; 0 unless it waited for a disk lately.
    pub io: u64,
    /// The most active other processes: by CPU time since the last scan of all processes, if this
    /// interval has one, and by disk traffic.
    pub busiest: Vec<OtherProcess>,
    /// Bytes that other processes read from and wrote to disks; 0 if the command did not wait.
    pub others_io: u64,
    /// Time since the last scan; 0 if this interval has none.
    pub scanned: f64,
    /// Anonymous memory of the command in bytes, at the last scan.
    pub memory: u64,
    /// Page faults of the command with I/O.
    pub major_faults: u64,
    /// Page faults of the command without I/O.
    pub minor_faults: u64,
    /// Times that a thread of the command was seen on another CPU than before.
    pub migrations: u64,
    /// Thermal throttling events.
    pub heat: u64,
    /// Clock of a CPU that the command uses, in Hz; `None` if the kernel does not show it.
    pub clock_hz: Option<f64>,
}

/// Use of the machine by another process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// Sanitised name.
    pub name: String,
    /// Mean number of CPUs used.
    pub cpus: f64,
    /// Anonymous memory in bytes.
    pub memory: u64,
    /// Bytes read from and written to disks.
    pub io: u64,
}

/// Reads the counters of a running command, its descendants and the machine.
#[derive(Debug)]
pub struct CommandWatch {
    root: Root,
    command: u32,
    cpus: CpuSet,
    /// Clock ticks per second, and bytes per page.
    units: [u64; 2],
    state: StateWatch,
    heat_files: Option<CounterFiles>,
    has_clock: bool,
    start: f64,
    before: MachineCounters,
    seen: SeenProcesses,
}

#[derive(Debug, Default)]
struct SeenProcesses {
    /// Whether each known process belongs to the command.
    known: BTreeMap<u32, bool>,
    threads: BTreeMap<u32, ThreadCounters>,
    faults: BTreeMap<u32, [u64; 2]>,
    /// Times at which each process of the command last ran, and was last not stopped.
    going: BTreeMap<u32, [f64; 2]>,
    /// Disk traffic of each process in bytes when it was last read, and whether it had grown.
    traffic: BTreeMap<u32, (u64, bool)>,
    /// Bytes of other processes, and of the command's, that ended: their parents have them now and
    /// are read at the next scan at the latest.
    ended_traffic: [u64; 2],
    /// Whether processes with traffic of each kind ended since the interval before.
    has_ended: [bool; 2],
    /// Processes that began since the interval before.
    new: BTreeSet<u32>,
    /// Other processes at the last scan.
    others: BTreeMap<u32, ProcessStat>,
    /// Time at which a thread was last seen on each CPU.
    cpus: BTreeMap<usize, f64>,
    scanned: f64,
    scan_cost: f64,
    /// Time at which a thread of the command last waited for a disk.
    blocked: f64,
    heat: u64,
    memory: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct ThreadCounters {
    run_ns: u64,
    wait_ns: u64,
    cpu: usize,
    /// Whether it was seen waiting for a disk when it last slept.
    is_blocked: bool,
}

#[derive(Debug, Clone)]
struct MachineCounters {
    at: f64,
    boot: f64,
    own: Option<[u64; 2]>,
    state: StateSnapshot,
}

/// Reads CPU time and waiting time in ns from a `schedstat` file: `165814 3623518 2`; all are 0 if
/// the kernel does not count.
fn schedstat(root: &Root, path: &str) -> Option<[u64; 2]> {
    let text = root.text(path).ok().filter(|text| text.trim() != "0 0 0")?;
    let mut numbers = text.split(' ').map_while(|n| n.parse().ok());
    Some([numbers.next()?, numbers.next()?])
}

impl CommandWatch {
    /// Locates the counters for a command that may use `cpus`. [`Self::start`] begins the watch.
    pub fn new(root: &Root, cpus: &CpuSet) -> Self {
        let heat_files = CounterFiles::new(root);
        let state = StateWatch::new(root);
        let mut watch = Self {
            root: root.clone(),
            command: 0,
            cpus: cpus.clone(),
            units: [rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64],
            has_clock: root.exists(clock_file(cpus.iter().next().unwrap_or(0))),
            heat_files: heat_files.counters().throttled.is_some().then_some(heat_files),
            start: 0.0,
            before: machine_counters(root, &state),
            state,
            seen: SeenProcesses::default(),
        };
        watch.list_processes();
        watch.scan(watch.before.at);
        watch
    }

    /// Starts the first interval: the process `command` has just been started.
    pub fn start(&mut self, command: u32) {
        self.command = command;
        self.before = machine_counters(&self.root, &self.state);
        self.start = self.before.at;
        self.seen.scan_cost = 0.0;
        self.seen.heat = self.heat_events();
    }

    /// Starts the first interval for `process`, which runs already, and its descendants without the
    /// calling process.
    pub fn attach(&mut self, process: u32) {
        self.command = process;
        self.seen.known = BTreeMap::from([(std::process::id(), false)]);
        // Their CPU time until now does not count.
        self.next_interval();
        self.scan(self.before.at);
        self.start(process);
    }

    /// Returns what happened since the last call, or since the watch began.
    pub fn next_interval(&mut self) -> CommandInterval {
        // First: a command on this CPU is soon woken, and then waits for the observer.
        let early = self.states();
        let has_moved = self.state.follow(self.command);
        let now = machine_counters(&self.root, &self.state);
        let before = std::mem::replace(&mut self.before, now.clone());
        self.list_processes();
        let waited = before.own.zip(now.own).map(|(before, now)| now[1].saturating_sub(before[1]));
        let mut interval = CommandInterval {
            from: before.at - self.start,
            to: now.at - self.start,
            suspended: ((now.boot - before.boot) - (now.at - before.at)).max(0.0),
            own_wait: waited.unwrap_or(0) as f64 / 1e9,
            ..CommandInterval::default()
        };
        let pressure = before.state.until(&now.state, &self.cpus).io_pressure;
        interval.io_stall = pressure.map(|share| share * (interval.to - interval.from));
        self.read_command(&mut interval, &early, now.at);
        self.share_cpus(&mut interval, &before.state, &now.state);
        if has_moved {
            interval.throttled = interval.throttled.map(|_| 0.0);
        }
        let time = interval.to - interval.from;
        let waits = interval.blocked >= MIN_BLOCKED;
        if waits {
            self.seen.blocked = now.at;
        }
        let active = interval.others.unwrap_or(0.0) + interval.elsewhere.unwrap_or(0.0);
        let is_active = waits || active > ACTIVE_CPUS * time;
        let is_allowed = self.seen.scan_cost <= SCAN_BUDGET[0] * interval.to + SCAN_BUDGET[1];
        let is_due = now.at - self.seen.scanned >= SCAN_PAUSES_S[usize::from(is_active)] && is_allowed;
        let began = is_due.then(|| own_run(&self.root));
        if is_due {
            interval.scanned = now.at - self.seen.scanned;
            interval.busiest = self.scan(now.at);
            let events = self.heat_events();
            interval.heat = events.saturating_sub(std::mem::replace(&mut self.seen.heat, events));
        }
        match now.at - self.seen.blocked <= IO_MEMORY_S {
            true => self.read_traffic(&mut interval),
            false => self.seen.traffic.clear(),
        }
        self.seen.scan_cost += began.map_or(0.0, |began| (own_run(&self.root) - began).max(0.0));
        interval.memory = self.seen.memory;
        interval
    }

    /// Returns what this kernel or container does not show, for the user.
    pub fn missing(&self) -> Vec<&'static str> {
        let change = self.before.state.until(&self.state.snapshot(), &self.cpus);
        let checks = [
            (self.before.own.is_none(), "/proc/PID/schedstat (waiting for a CPU)"),
            (
                self.before.state.steal_since_boot(&self.cpus).is_none(),
                "/proc/stat (CPU time of others, steal)",
            ),
            (change.memory_pressure.is_none(), "/proc/pressure (memory and I/O)"),
            (change.throttled_s.is_none(), "cpu.stat of the control group (quota)"),
            (self.heat_files.is_none(), "thermal_throttle (heat)"),
            (!self.has_clock, "cpufreq (clock)"),
        ];
        checks.into_iter().filter_map(|(missing, what)| missing.then_some(what)).collect()
    }

    /// Returns the CPU time of this thread so far in seconds; `None` if the kernel does not count.
    pub fn own_cpu_seconds(&self) -> Option<f64> {
        schedstat(&self.root, "proc/thread-self/schedstat").map(|[run, _]| run as f64 / 1e9)
    }

    fn heat_events(&self) -> u64 {
        let counters = self.heat_files.as_ref().and_then(|files| files.counters().throttled);
        counters.map_or(0, |all| all.cores.values().chain(all.packages.values()).sum())
    }

    /// Finds new processes and whether they belong to the command; forgets those that ended.
    fn list_processes(&mut self) {
        let all: BTreeSet<u32> = self.root.processes().into_iter().collect();
        for (at, ours) in [false, true].into_iter().enumerate() {
            let has_ended = |id: &u32| !all.contains(id) && self.seen.known.get(id) == Some(&ours);
            let ended = self.seen.traffic.iter().filter(|(id, _)| has_ended(id));
            let bytes: u64 = ended.map(|(_, (bytes, _))| bytes).sum();
            self.seen.has_ended[at] = bytes > 0;
            self.seen.ended_traffic[at] += bytes;
        }
        self.seen.known.retain(|id, _| all.contains(id));
        self.seen.going.retain(|id, _| all.contains(id));
        self.seen.traffic.retain(|id, _| all.contains(id));
        self.seen.new = all.iter().copied().filter(|id| !self.seen.known.contains_key(id)).collect();
        for id in all {
            self.belongs(id, 8);
        }
    }

    /// Returns whether process `id` is the command or a descendant, at most `depth` unknown levels.
    fn belongs(&mut self, id: u32, depth: usize) -> bool {
        if let Some(known) = self.seen.known.get(&id) {
            return *known;
        }
        let parent = || Some(ProcessStat::read(&self.root, &format!("proc/{id}"))?.parent);
        let found = id == self.command
            || parent().is_some_and(|parent| parent > 0 && depth > 0 && self.belongs(parent, depth - 1));
        self.seen.known.insert(id, found);
        found
    }

    fn ours(&self) -> Vec<u32> {
        self.seen.known.iter().filter(|(_, ours)| **ours).map(|(id, _)| *id).collect()
    }

    /// Returns the states of the first threads of some known processes of the command.
    fn states(&self) -> BTreeMap<u32, char> {
        let read = |id| Some((id, ProcessStat::read(&self.root, &format!("proc/{id}"))?.state));
        self.ours().into_iter().take(MAX_EARLY).filter_map(read).collect()
    }

    fn read_command(&mut self, interval: &mut CommandInterval, early: &BTreeMap<u32, char>, now: f64) {
        let (mut running, mut stopped) = (0_u32, 0_u32);
        // Time in which threads waited for a disk, and that with the time of being runnable.
        let mut blocked = [0.0; 2];
        let mut waited: Option<f64> = None;
        for id in self.ours() {
            let Some(line) = ProcessStat::read(&self.root, &format!("proc/{id}")) else { continue };
            let faults = self.seen.faults.insert(id, line.faults).unwrap_or_default();
            interval.minor_faults += line.faults[0].saturating_sub(faults[0]);
            interval.major_faults += line.faults[1].saturating_sub(faults[1]);
            let run = interval.run;
            let single = line.threads <= 1;
            let threads = if single { vec![id] } else { self.root.threads(id) };
            for thread in threads {
                let place = if single { format!("proc/{id}") } else { format!("proc/{id}/task/{thread}") };
                let read = || ProcessStat::read(&self.root, &place);
                let Some(mut line) = (if single { Some(line.clone()) } else { read() }) else { continue };
                line.state = *early.get(&thread).unwrap_or(&line.state);
                if let Some(wait) = self.read_thread(thread, &place, &line, interval, &mut blocked, now) {
                    *waited.get_or_insert_default() += wait;
                }
            }
            let is_stopped = matches!(line.state, 'T' | 't');
            let [ran, going] = self.seen.going.entry(id).or_insert([now, now]);
            if !is_stopped {
                *going = now;
            }
            if interval.run > run {
                *ran = now;
            }
            // One that slept before it was stopped loses nothing.
            let works = *going - *ran < CPU_MEMORY_S;
            stopped += u32::from(is_stopped && works);
            running += u32::from(!is_stopped && works);
        }
        interval.wait = waited;
        interval.stopped = f64::from(stopped) / f64::from((stopped + running).max(1));
        interval.blocked = blocked[0] / blocked[1].max(1e-9);
        self.seen.cpus.retain(|_, at| now - *at <= CPU_MEMORY_S);
    }

    /// Adds a thread's CPU time and its times for `blocked` since the last reading; returns its
    /// time of waiting for a CPU since then.
    fn read_thread(
        &mut self,
        thread: u32,
        place: &str,
        line: &ProcessStat,
        interval: &mut CommandInterval,
        blocked: &mut [f64; 2],
        now: f64,
    ) -> Option<f64> {
        let counted = schedstat(&self.root, &format!("{place}/schedstat"));
        let [tick, _] = self.units;
        let [run_ns, wait_ns] =
            counted.unwrap_or([line.ticks.saturating_mul(1_000_000_000 / tick.max(1)), 0]);
        let before = self.seen.threads.get(&thread).copied();
        let before = before.filter(|before| before.run_ns <= run_ns && before.wait_ns <= wait_ns);
        interval.migrations += u64::from(before.is_some_and(|before| before.cpu != line.cpu));
        // A runnable thread shows what it waited for only when it sleeps again.
        let is_blocked = line.state == 'D' || line.state == 'R' && before.is_some_and(|last| last.is_blocked);
        let counters = ThreadCounters { run_ns, wait_ns, cpu: line.cpu, is_blocked };
        self.seen.threads.insert(thread, counters);
        // A new thread began in the middle of the interval, on average.
        let age = (interval.to - interval.from) * if before.is_some() { 1.0 } else { 0.5 };
        let before = before.unwrap_or_default();
        let run = (run_ns - before.run_ns) as f64 / 1e9;
        let wait = (wait_ns - before.wait_ns) as f64 / 1e9;
        interval.run += run;
        // Time that is not counted as CPU time, as on a CPU without a tick, is no time of a disk.
        let asleep = (age - run - wait).clamp(0.0, interval.io_stall.unwrap_or(age));
        let lost = if is_blocked && (counted.is_some() || line.state == 'D') { asleep } else { 0.0 };
        *blocked = [blocked[0] + lost, blocked[1] + run + wait + lost];
        if run + wait > 0.0 {
            self.seen.cpus.insert(line.cpu, now);
            if self.has_clock {
                let khz = self.root.number(clock_file(line.cpu)).ok();
                interval.clock_hz = khz.map(|khz| khz as f64 * 1e3).or(interval.clock_hz);
            }
        }
        counted.map(|_| wait)
    }

    /// Divides the time of the CPUs among the command, other processes and other guests.
    fn share_cpus(&self, interval: &mut CommandInterval, before: &StateSnapshot, now: &StateSnapshot) {
        let (own, other): (Vec<usize>, Vec<usize>) =
            self.cpus.iter().partition(|cpu| self.seen.cpus.contains_key(cpu));
        let [own, other] = [own, other].map(|cpus| (cpus.len() as f64, cpus.into_iter().collect::<CpuSet>()));
        let change = before.until(now, &own.1);
        let elsewhere = before.until(now, &other.1);
        let time = change.elapsed_s;
        let is_shown = change.steal_share.or(elsewhere.steal_share).is_some();
        let seconds = |share: Option<f64>, cpus: f64| is_shown.then(|| share.unwrap_or(0.0) * cpus * time);
        interval.others = seconds(change.busy_share, own.0).map(|busy| (busy - interval.run).max(0.0));
        interval.elsewhere = seconds(elsewhere.busy_share, other.0);
        interval.stolen = seconds(change.steal_share, own.0);
        interval.throttled = change.throttled_s;
        interval.memory_stall = change.memory_pressure.map(|share| share * time);
    }

    /// Reads all other processes. Returns those with the most CPU time since the last scan.
    fn scan(&mut self, now: f64) -> Vec<OtherProcess> {
        let elapsed = (now - std::mem::replace(&mut self.seen.scanned, now)).max(1e-3) * self.units[0] as f64;
        let own = std::process::id();
        let is_other = |(id, is_ours): (&u32, &bool)| (!is_ours && *id != own).then_some(*id);
        let ids: Vec<u32> = self.seen.known.iter().filter_map(is_other).collect();
        let read = |id| Some((id, ProcessStat::read(&self.root, &format!("proc/{id}"))?));
        let now: BTreeMap<u32, ProcessStat> = ids.into_iter().filter_map(read).collect();
        let mut found: Vec<(u32, OtherProcess)> = Vec::new();
        for (id, line) in &now {
            let before = self.seen.others.get(id).filter(|before| before.began == line.began);
            let cpus = line.ticks.saturating_sub(before.map_or(0, |before| before.ticks)) as f64 / elapsed;
            if cpus >= 0.02 {
                found.push((*id, OtherProcess { name: line.name.clone(), cpus, ..OtherProcess::default() }));
            }
        }
        self.seen.others = now;
        found.sort_by(|a, b| b.1.cpus.total_cmp(&a.1.cpus));
        found.truncate(MAX_NAMED);
        self.seen.memory = self.ours().into_iter().map(|id| self.anonymous(id)).sum();
        let named = found.into_iter().map(|(id, other)| OtherProcess { memory: self.anonymous(id), ..other });
        named.collect()
    }

    /// Adds the disk traffic of the command since it was last read, and that of other processes: of
    /// all if the interval has a scan, else of those that are new or had some when last read. What
    /// an old process moved before its first reading does not count.
    fn read_traffic(&mut self, interval: &mut CommandInterval) {
        let is_complete = interval.scanned > 0.0 || self.seen.traffic.is_empty();
        let mut found = Vec::new();
        // Rows: other programs, the command. Columns: without and with bytes of ended children.
        let mut sums = [[0_u64; 2]; 2];
        for (&id, &is_ours) in &self.seen.known {
            let (before, is_new) = (self.seen.traffic.get(&id), self.seen.new.contains(&id));
            let is_recent = is_ours || before.is_some_and(|(_, grew)| *grew);
            if !(is_recent || is_complete || is_new) || id == std::process::id() {
                continue;
            }
            let Some(bytes) = disk_bytes(&self.root, id) else { continue };
            let known = before.map_or(if is_new { 0 } else { bytes }, |(bytes, _)| *bytes);
            let moved = bytes.saturating_sub(known);
            self.seen.traffic.insert(id, (bytes, moved > 0));
            let kind = usize::from(is_ours);
            // One that is read each time has them only if they ended just now.
            let has_children = !is_new && (!is_recent || self.seen.has_ended[kind]);
            sums[kind][usize::from(has_children)] += moved;
            if !is_ours && moved > 0 {
                found.push((moved, id));
            }
        }
        // An old process got the bytes of its ended children, which were counted.
        let [others, ours] = [0, 1].map(|at| {
            let ([new, old], ended) = (sums[at], &mut self.seen.ended_traffic[at]);
            let known = old.min(*ended);
            *ended = if is_complete { 0 } else { *ended - known };
            new + old - known
        });
        (interval.others_io, interval.io) = (others, ours);
        found.sort_unstable_by(|a, b| b.cmp(a));
        let name = |(moved, id): (u64, u32)| {
            let name = ProcessStat::read(&self.root, &format!("proc/{id}"))?.name;
            Some(OtherProcess { name, io: moved.min(interval.others_io), ..OtherProcess::default() })
        };
        let named: Vec<OtherProcess> = found.into_iter().take(MAX_NAMED).filter_map(name).collect();
        interval.busiest.extend(named);
    }

    /// Returns the anonymous memory of process `id` in bytes (proc_pid_statm(5)); 0 if unknown.
    fn anonymous(&self, id: u32) -> u64 {
        let text = self.root.text(format!("proc/{id}/statm")).unwrap_or_default();
        let pages: Vec<u64> = text.split(' ').map_while(|n| n.parse().ok()).collect();
        match pages.as_slice() {
            [_, resident, shared, ..] => resident.saturating_sub(*shared).saturating_mul(self.units[1]),
            _ => 0,
        }
    }
}

fn clock_file(cpu: usize) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")
}

/// Returns the CPU time of this thread in seconds, 0 if the kernel does not count it.
fn own_run(root: &Root) -> f64 {
    schedstat(root, "proc/thread-self/schedstat").map_or(0.0, |[run, _]| run as f64 / 1e9)
}

fn machine_counters(root: &Root, state: &StateWatch) -> MachineCounters {
    let own = schedstat(root, "proc/thread-self/schedstat");
    MachineCounters { at: wall::monotonic(), boot: wall::since_boot(), own, state: state.snapshot() }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::Fixture;

    use super::*;

    #[test]
    fn a_busy_child_and_its_end_are_seen() {
        let mut watch = CommandWatch::new(&Root::live(), &(0..1024).collect());
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        watch.start(child.id());
        let mut all = Vec::new();
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(20));
            all.push(watch.next_interval());
        }
        assert!(all.windows(2).all(|pair| pair[0].to == pair[1].from) && all[0].from == 0.0);
        assert!(all.iter().map(|one| one.run).sum::<f64>() > 0.01, "{all:?}");
        assert!(all.iter().all(|one| one.stopped == 0.0));
    }

    #[test]
    fn a_stop_of_what_runs_is_seen_beside_processes_that_sleep() {
        use rustix::process::{Pid, Signal, kill_process, kill_process_group};
        use std::os::unix::process::CommandExt;
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; while :; do :; done";
        let mut watch = CommandWatch::new(&Root::live(), &(0..1024).collect());
        let mut child =
            std::process::Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
        watch.start(child.id());
        let busy = Pid::from_child(&child);
        let mut stopped_after = |signal| {
            kill_process(busy, signal).unwrap();
            (0..8)
                .map(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    watch.next_interval().stopped
                })
                .last()
        };
        let before = stopped_after(Signal::CONT);
        let stopped = stopped_after(Signal::STOP);
        kill_process_group(busy, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!((before, stopped), (Some(0.0), Some(1.0)));
    }

    /// Writes the files of a process that has moved `written` bytes to a disk.
    fn write_process(fixture: &Fixture, id: u32, state: char, written: u64) {
        let stat = format!("{id} (dd) {state} 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0");
        fixture.write(&format!("proc/{id}/stat"), stat.as_bytes()).unwrap();
        let io = format!("read_bytes: 0\nwrite_bytes: {written}\n");
        fixture.write(&format!("proc/{id}/io"), io.as_bytes()).unwrap();
    }

    #[test]
    fn time_without_cpu_is_time_of_the_disk_if_the_command_last_slept_for_it() {
        let fixture = Fixture::unpack("").unwrap();
        let mut watch = CommandWatch::new(&fixture.root, &CpuSet::single(0));
        watch.start(2000);
        let mut blocked = |state: char, run_ns: u64| {
            write_process(&fixture, 2000, state, 0);
            fixture.write("proc/2000/schedstat", format!("{run_ns} 0 9\n").as_bytes()).unwrap();
            watch.next_interval().blocked
        };
        let hour_ns = 3_600_000_000_000;
        let found =
            [('R', 0), ('D', 0), ('R', 0), ('R', hour_ns), ('R', hour_ns), ('S', hour_ns), ('R', hour_ns)]
                .map(|(state, run_ns)| blocked(state, run_ns));
        assert_eq!(found, [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn bytes_of_an_ended_child_do_not_count_again_when_its_parent_is_read_later() {
        let fixture = Fixture::unpack("").unwrap();
        write_process(&fixture, 2001, 'S', 7_000_000);
        let mut watch = CommandWatch::new(&fixture.root, &CpuSet::single(0));
        write_process(&fixture, 2000, 'D', 0);
        watch.start(2000);
        watch.next_interval();
        write_process(&fixture, 2002, 'R', 5_000_000);
        assert_eq!(watch.next_interval().others_io, 5_000_000);
        std::fs::remove_dir_all(fixture.dir.path().join("proc/2002")).unwrap();
        write_process(&fixture, 2001, 'S', 12_000_000);
        assert_eq!(watch.next_interval().others_io, 0, "the parent did not move anything lately");
        watch.seen.scanned -= 10.0;
        assert_eq!(watch.next_interval().others_io, 0, "the parent has the bytes of its child");
        write_process(&fixture, 2001, 'S', 13_000_000);
        watch.seen.scanned -= 10.0;
        assert_eq!(watch.next_interval().others_io, 1_000_000);
    }

    #[test]
    fn traffic_of_each_short_writer_is_seen_while_the_command_waits_for_a_disk() {
        let fixture = Fixture::unpack("").unwrap();
        write_process(&fixture, 2001, 'S', 7_000_000);
        let mut watch = CommandWatch::new(&fixture.root, &CpuSet::single(0));
        write_process(&fixture, 2000, 'D', 0);
        watch.start(2000);
        assert_eq!(watch.next_interval().others_io, 0, "before the watch");
        for id in 2002..2005 {
            write_process(&fixture, 2000, 'D', u64::from(id - 2001) * 1_000_000);
            write_process(&fixture, id, 'R', 5_000_000);
            let found = watch.next_interval();
            let named: Vec<(&str, u64)> =
                found.busiest.iter().map(|other| (&*other.name, other.io)).collect();
            assert_eq!((found.io, found.others_io, named), (1_000_000, 5_000_000, vec![("dd", 5_000_000)]));
            std::fs::remove_dir_all(fixture.dir.path().join(format!("proc/{id}"))).unwrap();
        }
    }

    #[test]
    fn a_quota_of_the_group_that_the_command_joins_is_seen() {
        let tree = "proc/self/mountinfo = 30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                    proc/self/cgroup = 4:cpu:/\nproc/2000/cgroup = 4:cpu:/\n";
        let fixture = Fixture::unpack(tree).unwrap();
        let write = |path: &str, text: &str| fixture.write(path, text.as_bytes()).unwrap();
        let throttled = |group: &str, ns: u64| {
            let text = format!("nr_periods 9\nnr_throttled 5\nthrottled_time {ns}\n");
            write(&format!("sys/fs/cgroup/cpu{group}/cpu.stat"), &text);
        };
        throttled("", 0);
        throttled("/job", 7_000_000_000);
        let mut watch = CommandWatch::new(&fixture.root, &CpuSet::single(0));
        watch.start(2000);
        write("proc/2000/cgroup", "4:cpu:/job\n");
        assert_eq!(watch.next_interval().throttled, Some(0.0), "of earlier members");
        throttled("/job", 7_100_000_000);
        let found = watch.next_interval().throttled.unwrap();
        assert!((found - 0.1).abs() < 1e-9, "{found}");
    }

    #[test]
    fn without_proc_nothing_is_known() {
        let mut watch = CommandWatch::new(&Root::at("/nonexistent"), &CpuSet::single(0));
        watch.start(1);
        let found = watch.next_interval();
        assert_eq!((found.wait, found.others, found.stolen), (None, None, None));
        assert_eq!((found.throttled, found.memory_stall, found.clock_hz), (None, None, None));
        assert_eq!(watch.missing().len(), 6);
        assert_eq!(crate::judge(&[found], 1 << 20).answer, crate::SteadyAnswer::Unknown);
    }
}
