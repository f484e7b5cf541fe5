use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::ProgramSearch;
use super::process::ProgramOrder;

/// A launcher that starts a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolLauncher {
    /// Absolute path of the launcher.
    pub program: PathBuf,
    /// Arguments of the launcher, before the tool.
    pub arguments: Vec<String>,
    /// Option that passes an environment variable on; `None` if the launcher passes on all.
    pub export: Option<&'static str>,
    /// Variables of the launcher itself: its cluster, and how it reaches nodes.
    pub variables: Vec<(OsString, OsString)>,
    /// Time limit in seconds.
    pub limit: f64,
}

impl ToolLauncher {
    /// Returns Open MPI's launcher for `processes` processes on this machine. Fails without mpirun.
    pub(super) fn open_mpi(search: &ProgramSearch, processes: usize) -> Result<Self, String> {
        let program = search.find("mpirun", "mpirun", &[]).map_err(|why| format!("mpirun: {why}"))?;
        // It counts cores, and there may be fewer of these than CPUs.
        let words = ["-n", &processes.to_string(), "--bind-to", "none", "--oversubscribe"];
        let root = rustix::process::geteuid().is_root().then_some("--allow-run-as-root");
        let arguments = words.into_iter().chain(root).map(str::to_owned).collect();
        Ok(Self { program, arguments, export: Some("-x"), variables: Vec::new(), limit: 0.0 })
    }

    /// Converts the order that starts a tool to one that starts it through this launcher.
    pub(super) fn applied(&self, order: ProgramOrder) -> ProgramOrder {
        let own = self.arguments.iter().map(Into::into);
        let named = self.export.map(|word| order.environment.iter().map(move |(name, _)| [word, *name]));
        let exported = named.into_iter().flatten().flatten().map(Into::into);
        let tool = std::iter::once(order.program.clone().into_os_string()).chain(order.arguments);
        ProgramOrder {
            arguments: own.chain(exported).chain(tool).collect(),
            program: self.program.clone(),
            of_launcher: self.variables.clone(),
            limit: Duration::try_from_secs_f64(self.limit).unwrap_or(Duration::MAX).max(order.limit),
            ..order
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_launcher_gets_the_tool_as_its_last_words() {
        let bare = ProgramOrder::of(Path::new("/usr/bin/xhpl"), Path::new("/"));
        let environment = vec![("OMP_NUM_THREADS", "4".to_owned())];
        let tool = ProgramOrder { arguments: vec!["-x".into()], environment, ..bare };
        let (program, arguments) = ("/usr/bin/mpirun".into(), vec!["-n".to_owned(), "2".to_owned()]);
        let variables = vec![("OMPI_MCA_btl".into(), "tcp".into())];
        let through = ToolLauncher { program, arguments, export: Some("-x"), variables, limit: 90.0 };
        let made = through.applied(tool.clone());
        assert_eq!(made.program, Path::new("/usr/bin/mpirun"));
        assert_eq!(made.arguments, ["-n", "2", "-x", "OMP_NUM_THREADS", "/usr/bin/xhpl", "-x"]);
        assert_eq!(made.of_launcher, through.variables);
        assert_eq!((made.limit, &made.environment), (Duration::from_secs(90), &tool.environment));
    }
}
