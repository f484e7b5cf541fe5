//! HPL's own program, built by the user with MPI and BLAS libraries.

mod stated;

use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::sample::CaseFact;

use super::super::{Invocation, InvocationInput, Package, Pairing, RefTool, Stated, Tool, ToolFigure};
use super::hpl;

pub(super) struct Xhpl;

const TOOL: Tool = Tool {
    name: "xhpl",
    checks: "dense linear system (HPL)",
    programs: &["xhpl"],
    package: Package::Source(
        "curl -L https://netlib.org/benchmark/hpl/hpl-2.3.tar.gz | tar xz && cd hpl-2.3 && ./configure && make",
    ),
    // It has no such arguments, but prints its version above its results and with an error.
    version_after: "HPLinpack ",
    only_with: hpl::BENCHMARKS,
    library: Some("blas"),
    results: Some("its HPL.out"),
    ..Tool::NONE
};

impl RefTool for Xhpl {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn stderr_facts(&self, stderr: &str) -> Vec<(CaseFact<String>, String)> {
        hpl::core_type(stderr)
    }

    fn pairing(&self, case: &Case, _: &Machine) -> Option<Pairing> {
        hpl::pairing(case, 10.0 + hpl::expected_seconds(case))
    }

    fn invocation(&self, ask: &InvocationInput<'_>) -> Result<Invocation, String> {
        Ok(Invocation {
            program: "xhpl",
            files: vec![("HPL.dat", hpl::input(ask.case)?)],
            environment: hpl::environment(ask, ask.case.threads()),
            cpus: ask.offer.cpus.clone(),
            ..Invocation::default()
        })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<ToolFigure, String> {
        hpl::parse(case, text)
    }

    fn recognises(&self, text: &str) -> bool {
        stated::recognises(text)
    }

    fn starts(&self, text: &str) -> Vec<usize> {
        stated::starts(text)
    }

    fn parse_results(&self, text: &str) -> Result<Stated, String> {
        stated::read(text)
    }
}
