//! Errors that prevent the screen from being shown.

use std::fmt;
use std::io;

/// An error of the terminal, or of another resource that the screen needs.
#[derive(Debug)]
pub enum TuiError {
    /// Stdin or stdout is not a terminal.
    NotATerminal {
        /// `stdin` or `stdout`.
        what: &'static str,
    },
    /// An operation on the terminal failed.
    Terminal {
        /// The operation.
        doing: &'static str,
        /// The error of the system.
        cause: io::Error,
    },
    /// A signal handler, a pipe or a thread could not be created.
    Signals {
        /// The error of the system.
        cause: io::Error,
    },
}

impl TuiError {
    /// Converts an error of the operation `doing`.
    pub(super) fn terminal(doing: &'static str) -> impl Fn(io::Error) -> TuiError {
        move |cause| TuiError::Terminal { doing, cause }
    }
}

impl fmt::Display for TuiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuiError::NotATerminal { what } => {
                write!(f, "{what} is not a terminal; use --tui to draw on /dev/tty, or --batch to print tables")
            }
            TuiError::Terminal { doing, cause } => {
                write!(f, "cannot {doing}: {cause}; use --batch to print tables")
            }
            TuiError::Signals { cause } => {
                write!(f, "cannot handle signals: {cause}; check the resource limits (ulimit -a)")
            }
        }
    }
}

impl std::error::Error for TuiError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TuiError::Terminal { cause, .. } | TuiError::Signals { cause } => Some(cause),
            TuiError::NotATerminal { .. } => None,
        }
    }
}
