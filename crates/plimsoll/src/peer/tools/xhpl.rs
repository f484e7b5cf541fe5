//! HPL's own program, built by the user with an MPI and a BLAS library.

use super::super::{Ask, Invocation, Package, Pairing, Peer, Reading};
use super::{hpl, version_after};
use crate::case::Case;
use crate::machine::Machine;

/// The tool.
pub(super) struct Xhpl;

impl Peer for Xhpl {
    fn name(&self) -> &'static str {
        "xhpl"
    }

    fn checks(&self) -> &'static str {
        "dense linear system (HPL)"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["xhpl"]
    }

    fn package(&self) -> Package {
        Package::Source("netlib.org/benchmark/hpl")
    }

    fn version_arguments(&self) -> &'static [&'static str] {
        // It takes none: it says its version above its results, or that it has no input.
        &[]
    }

    fn version(&self, text: &str) -> Option<String> {
        version_after(text, "HPLinpack ")
    }

    fn only_with(&self) -> &'static [&'static str] {
        hpl::BENCHMARKS
    }

    fn library(&self) -> Option<&'static str> {
        Some("blas")
    }

    fn aside(&self, stderr: &str) -> Vec<(&'static str, String)> {
        hpl::core_type(stderr)
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        hpl::pairing(case, 10.0 + hpl::factorising(case))
    }

    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String> {
        Ok(Invocation {
            program: "xhpl",
            files: vec![("HPL.dat", hpl::input(ask.case)?)],
            environment: hpl::environment(ask),
            cpus: ask.offer.cpus.clone(),
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String> {
        hpl::parse(case, text)
    }
}
