//! Commands that start a program on a node with its standard input and output piped here.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::names::HostName;
use crate::text::shown_within;

const HOST: &str = "{host}";
const SHELL: &str = "/bin/sh";
const DEFAULT: &str = "ssh";
const SRUN: &str = "srun";
/// Exit code of ssh if ssh itself failed.
const SSH_FAILED: i32 = 255;

/// Predefined launchers, each named as its program. ssh never prompts: hundreds of nodes would. One
/// task of srun gets the whole node.
const LAUNCHERS: [&str; 4] = [
    "ssh -T -x -a -oBatchMode=yes -oConnectTimeout=15 -oServerAliveInterval=5 -oServerAliveCountMax=4 \
     -oControlMaster=no -oClearAllForwardings=yes -oRemoteCommand=none -- {host}",
    "srun --nodes=1 --ntasks=1 --nodelist={host} --overlap --cpu-bind=none --mem=0 --mpi=none --quiet",
    "kubectl exec --stdin --quiet {host} --",
    "mpirun --host {host} -np 1 --bind-to none",
];

fn program_of(launcher: &str) -> &str {
    launcher.split(' ').next().unwrap_or_default()
}

/// Command that starts a program on a node.
#[derive(Clone, Debug)]
pub struct NodeLauncher {
    /// Name for messages, such as `ssh` or `docker`.
    pub name: String,
    /// Program: as named, or its path once it was found.
    pub program: PathBuf,
    words: Vec<String>,
    takes_user: bool,
    is_ssh: bool,
}

impl NodeLauncher {
    /// Parses a launcher's name or a command such as `docker exec -i {host}`; `None` means ssh.
    /// Fails for other text or without an environment variable that the launcher requires.
    pub fn parse(typed: Option<&str>) -> Result<Self, String> {
        let typed = typed.unwrap_or(DEFAULT);
        let row = LAUNCHERS.into_iter().find(|launcher| program_of(launcher) == typed);
        if typed == SRUN && std::env::var_os("SLURM_JOB_ID").is_none() {
            return Err("srun requires an allocation: run it inside salloc or sbatch".to_owned());
        }
        let words: Vec<String> = row.unwrap_or(typed).split_whitespace().map(str::to_owned).collect();
        let shown = shown_within(typed, 64);
        let Some((program, words)) =
            words.split_first().filter(|(_, words)| words.iter().any(|word| word.contains(HOST)))
        else {
            let names = LAUNCHERS.map(program_of).join(", ");
            return Err(format!(
                "must be {names} or a command that contains {HOST}: '{shown}'; such as 'docker exec -i {HOST}'"
            ));
        };
        if typed.contains(['\'', '"', '\\']) {
            return Err(format!("must be words without quotes, which no shell reads: '{shown}'"));
        }
        Ok(Self {
            name: program.clone(),
            program: program.into(),
            words: words.to_vec(),
            takes_user: row.is_none() || typed == DEFAULT,
            is_ssh: typed == DEFAULT,
        })
    }

    /// Makes ssh read its configuration from `file`. Fails if the launcher is not ssh.
    pub fn with_ssh_config(mut self, file: &str) -> Result<Self, String> {
        if !self.is_ssh {
            return Err(format!("--ssh-config requires --launcher ssh: '{}'", self.name));
        }
        self.words.splice(0..0, ["-F".to_owned(), file.to_owned()]);
        Ok(self)
    }

    /// Returns why the launcher does not support the user or port in `host`; `None` if it does.
    pub fn refusal(&self, host: &HostName) -> Option<String> {
        let name = shown_within(&host.destination, 64);
        match host.port {
            Some(port) if !self.is_ssh => Some(format!("{} takes no port: {name} has {port}", self.name)),
            _ if !self.takes_user && host.destination.contains('@') => {
                Some(format!("{} takes node names without a user: '{name}'", self.name))
            }
            _ => None,
        }
    }

    /// Returns the command that starts a shell on a node, in its own process group: Ctrl-C must not
    /// end the connection before the results have arrived.
    pub(super) fn command(&self, host: &HostName) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(port) = host.port {
            command.arg(format!("-p{port}"));
        }
        command.args(self.words.iter().map(|word| word.replace(HOST, &host.destination))).arg(SHELL);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }

    pub(super) fn could_not_connect(&self, code: i32) -> bool {
        self.is_ssh && code == SSH_FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(launcher: &NodeLauncher, host: &HostName) -> Vec<String> {
        launcher.command(host).get_args().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_template_is_words_and_a_node_is_one_of_them() {
        let host = HostName::typed("ops@n7").unwrap();
        let launcher = NodeLauncher::parse(Some("docker -H tcp://{host}:2375 exec  -i {host}")).unwrap();
        assert_eq!(launcher.name, "docker");
        assert_eq!(words(&launcher, &host), ["-H", "tcp://ops@n7:2375", "exec", "-i", "ops@n7", "/bin/sh"]);
        for wrong in ["", " ", "rsh", "{host}", "ssh2 'a {host}'", "a \"{host}\"", "a \\{host}"] {
            assert!(NodeLauncher::parse(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_row_names_the_node_and_only_ssh_takes_a_port() {
        let host = HostName::typed("n7").unwrap();
        assert!(LAUNCHERS.iter().all(|command| command.matches(HOST).count() == 1));
        let kubectl = NodeLauncher::parse(Some("kubectl")).unwrap();
        assert_eq!(words(&kubectl, &host), ["exec", "--stdin", "--quiet", "n7", "--", "/bin/sh"]);
        let ported = HostName { port: Some(2222), ..HostName::typed("ops@n7").unwrap() };
        let ssh = NodeLauncher::parse(None).unwrap().with_ssh_config("mine").unwrap();
        let all = words(&ssh, &ported);
        assert_eq!(all[..3], ["-p2222", "-F", "mine"]);
        assert_eq!(all[all.len() - 3..], ["--", "ops@n7", "/bin/sh"]);
        assert!(ssh.refusal(&ported).is_none());
        assert!(ssh.could_not_connect(255) && !kubectl.could_not_connect(255));
        assert!(kubectl.refusal(&ported).is_some() && kubectl.refusal(&host).is_none());
        assert!(kubectl.refusal(&HostName::typed("ops@n7").unwrap()).is_some());
        assert!(kubectl.with_ssh_config("mine").is_err());
    }
}
