//! HPL's own program, built by the user with MPI and BLAS libraries.

mod stated;

use super::hpl;

use crate::tools::prelude::*;

pub(super) const XHPL: RefTool = RefTool {
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
    results: ResultFormat::of_text("its HPL.out", stated::recognises, stated::starts, stated::read),
    stderr_facts: hpl::core_type,
    pairing,
    invocation,
    parse: hpl::parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    hpl::pairing(case, 10.0 + hpl::expected_seconds(case))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    Ok(Invocation {
        files: vec![("HPL.dat", hpl::input(&ask.case)?)],
        environment: hpl::environment(ask, ask.case.threads()),
        ..ask.call("xhpl", Vec::new())
    })
}
