//! The error that ends a command, and its exit code.

use plimsoll_history::StoreError;
use plimsoll_output::report::target::UnwritableTarget;

/// An error that ends the command: one line, and the exit code.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{line}")]
pub struct Failure {
    /// Message: what failed, why, and what to do.
    pub line: String,
    /// Exit code, one of [`code`].
    pub code: u8,
}

/// Exit codes (documented in the reference).
pub mod code {
    /// A check or requirement failed.
    pub const VERDICT: u8 = 1;
    /// Wrong usage or input; nothing was measured.
    pub const USAGE: u8 = 2;
    /// Refused for safety.
    pub const REFUSED: u8 = 3;
    /// The environment failed.
    pub const ENVIRONMENT: u8 = 4;
    /// The server failed.
    pub const SERVER_FAILED: u8 = 5;
    /// `plimsoll gate` cannot decide whether the machine is healthy, or the machine did not hold
    /// still during `plimsoll steady --fail-unless-steady`.
    pub const UNDECIDED: u8 = 6;
    /// Interrupted by the user.
    pub const INTERRUPTED: u8 = 130;
}

impl Failure {
    /// Creates a failure for wrong usage or input (exit code 2) with the message `line`.
    pub fn usage(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: code::USAGE }
    }

    /// Creates a failure of the system, not of the usage (exit code 4), with the message `line`.
    pub fn environment(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: code::ENVIRONMENT }
    }
}

/// Turns any error into a [`Failure`] with its text.
pub(crate) trait OrFailure<T> {
    fn or_usage(self) -> Result<T, Failure>;

    fn or_environment(self) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> OrFailure<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, Failure> {
        self.map_err(|e| Failure::usage(e.to_string()))
    }

    fn or_environment(self) -> Result<T, Failure> {
        self.map_err(|e| Failure::environment(e.to_string()))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Refused(..) => code::REFUSED,
            e if e.is_not_found() => code::USAGE,
            _ => code::ENVIRONMENT,
        };
        Self { line: error.to_string(), code }
    }
}

impl From<UnwritableTarget> for Failure {
    fn from(error: UnwritableTarget) -> Self {
        let is_refused = matches!(error, UnwritableTarget::Refused(..));
        Self { line: error.to_string(), code: if is_refused { code::REFUSED } else { code::ENVIRONMENT } }
    }
}

/// Returns the failure for an output that does not open: code 3 (refused), 130 (no reader) or 2.
pub(crate) fn unfit(error: &UnwritableTarget) -> Failure {
    let code = match error {
        UnwritableTarget::Refused(..) => code::REFUSED,
        UnwritableTarget::Failed(_, cause) if cause.kind() == std::io::ErrorKind::TimedOut => {
            code::INTERRUPTED
        }
        UnwritableTarget::Failed(..) => code::USAGE,
    };
    Failure { line: error.to_string(), code }
}
