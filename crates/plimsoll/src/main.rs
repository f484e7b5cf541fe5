//! The command line: parse, do, exit code.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use plimsoll::{app, cli, text};

fn main() -> ExitCode {
    let typed = match cli::parse(std::env::args_os()) {
        Ok(typed) => typed,
        Err(asked) if !asked.use_stderr() => {
            // Help or version; a reader that has gone is no failure.
            let _ = asked.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return failed(&cli::one_line(&wrong), app::code::USAGE),
    };
    match app::execute(typed) {
        Ok(code) => code,
        Err(failure) => failed(&failure.line, failure.code),
    }
}

fn failed(line: &str, code: u8) -> ExitCode {
    let line = text::shown_within(line, 2000);
    let _ = writeln!(std::io::stderr(), "plimsoll: {line}");
    ExitCode::from(code)
}
