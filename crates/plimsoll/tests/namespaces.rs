//! Network namespaces, alone and joined in pairs. They end with the processes that hold them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::disk::measurements;
use crate::network::Serving;
use crate::support::{Owned, PROGRAM, lossy, skip, start};

/// A process in a network namespace of its own.
pub(crate) struct Namespace(Owned);

impl Namespace {
    /// With further namespaces; its shell runs `script` after [`Self::go`]. `None` without rights.
    pub(crate) fn new(more: &[&str], script: &str) -> Option<Self> {
        let script = format!("ip link set lo up; echo here; read -r go; {script}");
        let mut command = Command::new("unshare");
        command.arg("--net").args(more).args(["sh", "-euc", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let (mut holder, mut line) = (Owned(command.spawn().ok()?), String::new());
        BufReader::new(holder.0.stdout.as_mut()?).read_line(&mut line).ok()?;
        (line == "here\n").then_some(Self(holder))
    }

    pub(crate) fn go(&mut self) {
        self.0.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "-t", &self.pid().to_string(), program]);
        command
    }

    /// Runs a command line without a shell in it; whether it succeeded.
    pub(crate) fn run(&self, line: &str) -> bool {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().unwrap());
        command.args(words).stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
    }

    /// Runs a shell script in it, which must succeed.
    #[track_caller]
    pub(crate) fn must(&self, script: &str) {
        let done = self.command("timeout").args(["120", "sh", "-euc", script]).output().unwrap();
        assert!(done.status.success(), "{script}: {}", lossy(&done.stderr));
    }

    /// Packets that it has received and sent by this interface.
    pub(crate) fn packets(&self, device: &str) -> u64 {
        let table = fs::read_to_string(format!("/proc/{}/net/dev", self.pid())).unwrap();
        let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{device}:"))).unwrap();
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        words[1] + words[9]
    }
}

pub(crate) const NEAR: &str = "10.77.0.1";
pub(crate) const FAR: &str = "10.77.0.2";

/// Two ends of a link, with interfaces `near0` and `far0`.
pub(crate) struct Link {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
}

impl Link {
    /// `None`, and a skipped test, if this is not possible.
    #[track_caller]
    pub(crate) fn new() -> Option<Self> {
        match Self::made() {
            None => skip("no network namespaces here: needs root, unshare, nsenter, ip, tc and nft"),
            made => made,
        }
    }

    /// A link with a [server](Self::server) at its far end.
    #[track_caller]
    pub(crate) fn served(flags: &[&str]) -> Option<(Self, Serving)> {
        let link = Self::new()?;
        let server = link.server(flags);
        Some((link, server))
    }

    fn made() -> Option<Self> {
        let link = Link { near: Namespace::new(&[], "cat")?, far: Namespace::new(&[], "cat")? };
        let (near, far) = (&link.near, &link.far);
        let made = format!("ip link add near0 type veth peer name far0 netns {}", far.pid());
        (near.run(&made) && near.run("tc -V") && near.run("nft -V")).then_some(())?;
        for (end, device, number) in [(near, "near0", 1), (far, "far0", 2)] {
            end.must(&format!("ip address add 10.77.0.{number}/24 dev {device}; ip link set {device} up"));
            // Without IPv6, only its own test is skipped.
            end.run(&format!("ip address add fd77::{number}/64 dev {device} nodad"));
        }
        Some(link)
    }

    /// Both ends with their interfaces.
    pub(crate) fn ends(&self) -> [(&Namespace, &'static str); 2] {
        [(&self.near, "near0"), (&self.far, "far0")]
    }

    pub(crate) fn server(&self, flags: &[&str]) -> Serving {
        let mut command = self.far.command(PROGRAM);
        Serving::start(command.args(["serve", "--allow-root"]).args(flags))
    }

    /// A client of `server` with the words of a command line, before it is started.
    pub(crate) fn client(&self, server: &Serving, line: &str) -> Command {
        Self::network(self.near.command(PROGRAM), server, line)
    }

    /// A client of `server` whose `/sys` shows the interfaces of its namespace.
    pub(crate) fn client_with_sysfs(&self, server: &Serving, line: &str) -> Command {
        let mut command = self.near.command("unshare");
        let mount = "mount -t sysfs sysfs /sys && exec \"$@\"";
        command.args(["--mount", "sh", "-c", mount, "sh", PROGRAM]);
        Self::network(command, server, line)
    }

    fn network(mut command: Command, server: &Serving, line: &str) -> Command {
        command.env("PLIMSOLL_KEY", &server.key).args("network --store none --json - --quiet".split(' '));
        command.args(line.split_whitespace());
        command
    }

    /// [`first`] of a client of the server at [`FAR`] by TCP, if the line names neither.
    #[track_caller]
    pub(crate) fn measured(&self, server: &Serving, line: &str, code: i32) -> Value {
        let usual = [("--server", format!("--server {FAR}")), ("--only", "--only network.tcp".to_owned())];
        let usual = usual.into_iter().filter(|(option, _)| !line.contains(option));
        let line = usual.fold(line.to_owned(), |line, (_, more)| format!("{line} {more}"));
        first(start(&mut self.client(server, &line)), code)
    }
}

/// The first measurement of a client that must end with `code`.
#[track_caller]
pub(crate) fn first(client: Child, code: i32) -> Value {
    measurements(&client.wait_with_output().unwrap(), code).remove(0)
}
