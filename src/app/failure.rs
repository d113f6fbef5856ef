//! The failure of a subcommand: its message and exit status.

use std::fmt::Display;
use std::io::Write;

use crate::attach::AttachError;
use crate::link::atomic_file::AtomicFileError;
use crate::symbols::sanitize::sanitize_all;

use super::progress;
use super::save::SaveError;

/// Prints a message on stderr. A failed write is ignored: the exit status still tells the result.
pub(super) fn print_message(message: &str) {
    let clear = progress::clear_code();
    let _ = writeln!(std::io::stderr(), "{clear}sigtop: {}", sanitize_all(message, &['\n', '\t']));
}

/// The end of a subcommand that failed.
pub(super) struct Failure {
    /// One sentence, without the program's name.
    pub(super) message: String,
    /// The exit status.
    pub(super) status: u8,
}

impl Failure {
    /// Exit status of a usage error: invalid arguments or settings.
    pub(super) const USAGE: u8 = 2;
    /// Exit status of an error in sigtop itself or its environment.
    pub(super) const INTERNAL: u8 = 125;

    /// A failure with this status.
    pub(super) fn new(status: u8, message: impl Display) -> Failure {
        Failure { message: message.to_string(), status }
    }

    /// A failure of sigtop itself: the failed operation and the cause.
    pub(super) fn internal(doing: &str, error: impl Display) -> Failure {
        Failure::new(Failure::INTERNAL, format!("{doing}: {error}"))
    }
}

impl From<AtomicFileError> for Failure {
    fn from(error: AtomicFileError) -> Failure {
        Failure::new(Failure::INTERNAL, error)
    }
}

impl From<SaveError> for Failure {
    fn from(error: SaveError) -> Failure {
        let is_usage = matches!(error, SaveError::UnknownExtension(_));
        Failure::new(if is_usage { Failure::USAGE } else { Failure::INTERNAL }, error)
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        Failure::new(error.exit_status(), &error)
    }
}
