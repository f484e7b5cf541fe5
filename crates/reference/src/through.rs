//! A tool that is started by another program, such as MPI's launcher, which starts it on several machines.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::Search;
use super::process::Order;

/// What starts a tool in the place of ourselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Through {
    /// Absolute path of the launcher.
    pub program: PathBuf,
    /// Its arguments before the tool.
    pub arguments: Vec<String>,
    /// The word before the name of each variable of the environment that the tool is to see everywhere; none if the launcher passes
    /// all of them on.
    pub export: Option<&'static str>,
    /// The launcher's own variables: its cluster, and how it reaches machines.
    pub variables: Vec<(OsString, OsString)>,
    /// Seconds after which it is ended.
    pub limit: f64,
}

impl Through {
    /// Open MPI's launcher with so many processes on this machine. They are bound from outside, as any tool is.
    ///
    /// # Errors
    /// That it is not installed, or why it is not trusted.
    pub(super) fn here(search: &Search, processes: usize) -> Result<Self, String> {
        let program = search.find("mpirun", "mpirun", &[]).map_err(|why| format!("mpirun: {why}"))?;
        // It counts cores, and may have fewer of these than there are CPUs.
        let words = ["-n", &processes.to_string(), "--bind-to", "none", "--oversubscribe"];
        let root = rustix::process::geteuid().is_root().then_some("--allow-run-as-root");
        let arguments = words.into_iter().chain(root).map(str::to_owned).collect();
        Ok(Self { program, arguments, export: Some("-x"), variables: Vec::new(), limit: 0.0 })
    }

    /// The tool's order, given to the launcher.
    pub(super) fn applied(&self, order: Order) -> Order {
        let own = self.arguments.iter().map(Into::into);
        let named = self.export.map(|word| order.environment.iter().map(move |(name, _)| [word, *name]));
        let exported = named.into_iter().flatten().flatten().map(Into::into);
        let tool = std::iter::once(order.program.clone().into_os_string()).chain(order.arguments);
        Order {
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
        let tool = Order {
            arguments: vec!["-x".into()],
            environment: vec![("OMP_NUM_THREADS", "4".to_owned())],
            ..Order::of(Path::new("/usr/bin/xhpl"), Path::new("/"))
        };
        let arguments = vec!["-n".to_owned(), "2".to_owned()];
        let through = Through {
            program: "/usr/bin/mpirun".into(),
            arguments,
            export: Some("-x"),
            variables: vec![("OMPI_MCA_btl".into(), "tcp".into())],
            limit: 90.0,
        };
        let made = through.applied(tool.clone());
        assert_eq!(made.program, Path::new("/usr/bin/mpirun"));
        assert_eq!(made.arguments, ["-n", "2", "-x", "OMP_NUM_THREADS", "/usr/bin/xhpl", "-x"]);
        assert_eq!(made.of_launcher, through.variables);
        assert_eq!((made.limit, &made.environment), (Duration::from_secs(90), &tool.environment));
    }
}
