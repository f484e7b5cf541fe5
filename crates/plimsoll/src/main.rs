//! The command line: parses arguments, runs the command, returns its exit code.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::process::ExitCode;

use plimsoll::{app, output};
use plimsoll_command::cli;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> ExitCode {
    report_panics_in_one_line();
    if let Err(line) = take_stack() {
        return failed(&line, app::code::ENVIRONMENT);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let typed = match cli::parse(app::command(), words.iter().cloned()) {
        Ok(typed) => typed,
        Err(asked) if !asked.use_stderr() => {
            // Help or version; a closed pipe is not an error.
            let _ = asked.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return failed(&cli::one_line(&wrong), cli::exit_code(&words, app::code::USAGE)),
    };
    match catch_unwind(AssertUnwindSafe(|| app::execute(typed))) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failed(&failure.line, cli::exit_code(&words, failure.code)),
        Err(_) => ExitCode::from(cli::exit_code(&words, app::code::ENVIRONMENT)),
    }
}

/// Stack bytes of the main thread; the kernel grows the stack up to the current `ulimit -s`.
const STACK: u64 = 1 << 20;

fn take_stack() -> Result<(), String> {
    let is_enough = |limit: Option<u64>| limit.is_none_or(|bytes| bytes >= STACK);
    let limit = getrlimit(Resource::Stack);
    let raised = Rlimit { current: Some(STACK), maximum: limit.maximum.map(|most| most.max(STACK)) };
    if is_enough(limit.current) || setrlimit(Resource::Stack, raised).is_ok() {
        return Ok(());
    }
    Err(format!(
        "the stack may have no more than {} KiB here, and plimsoll needs {}: raise it with ulimit -s",
        limit.current.unwrap_or_default() >> 10,
        STACK >> 10
    ))
}

fn report_panics_in_one_line() {
    set_hook(Box::new(|fault: &PanicHookInfo<'_>| {
        let place = fault.location().map(|place| format!(" at {place}")).unwrap_or_default();
        let why = fault.payload_as_str().unwrap_or("no reason given");
        failed(&format!("internal error in plimsoll{place}: {why}; please report it"), 0);
    }));
}

fn failed(line: &str, code: u8) -> ExitCode {
    output::complain(line);
    ExitCode::from(code)
}
