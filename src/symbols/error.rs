//! Why a file gave no names. Each message names the file, the cause and what helps; it is shown as it is.

use std::fmt;
use std::path::{Path, PathBuf};

use super::clean::clean;

/// What can be wrong with a file of symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not there, not ours to read, or no regular file.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's word for it.
        cause: String,
    },
    /// It is no ELF file for x86-64 Linux, or a damaged one.
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        what: &'static str,
    },
    /// It is not the file that runs: the build ids differ.
    Changed {
        /// Which file.
        path: PathBuf,
        /// Build id of the file; empty when it has none.
        found: Box<[u8]>,
        /// Build id of what runs.
        wanted: Box<[u8]>,
    },
    /// It is not the file that runs: the inodes differ, and there is no build id to say better.
    Replaced {
        /// Which file.
        path: PathBuf,
    },
    /// It is usable, but no symbol covers an address.
    Nameless {
        /// Which file.
        path: PathBuf,
        /// The file's own address.
        address: u64,
    },
    /// Its tables are larger than what is read.
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Size of the tables.
        bytes: u64,
        /// What would have been read.
        limit_bytes: u64,
    },
}

impl Error {
    /// The same error, about the file under the name that the process has for it.
    pub(super) fn about(mut self, name: &Path) -> Error {
        let (Error::Unreadable { path, .. }
        | Error::Malformed { path, .. }
        | Error::Changed { path, .. }
        | Error::Replaced { path }
        | Error::Nameless { path, .. }
        | Error::TooLarge { path, .. }) = &mut self;
        *path = name.to_owned();
        self
    }

    /// How much the error tells, for choosing among those of several places: a file that is there and does not fit
    /// tells more than one that is not there.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Error::Unreadable { .. } => 0,
            Error::Malformed { .. } => 1,
            Error::TooLarge { .. } => 2,
            Error::Replaced { .. } | Error::Nameless { .. } => 3,
            Error::Changed { .. } => 4,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &PathBuf| clean(&path.to_string_lossy());
        match self {
            Error::Unreadable { path, cause } => {
                write!(
                    f,
                    "{} cannot be read ({cause}): put it back or make it readable to see its functions",
                    name(path)
                )
            }
            Error::Malformed { path, what } => {
                write!(
                    f,
                    "{} is no sound ELF file for x86-64 ({what}): install it again to see its functions",
                    name(path)
                )
            }
            Error::Changed { path, found, wanted } => {
                let found =
                    if found.is_empty() { "no build id".to_owned() } else { format!("build id {}", hex(found)) };
                let wanted = hex(wanted);
                write!(f, "{} has {found}, but {wanted} runs: it was rebuilt, so start the program anew", name(path))
            }
            Error::Replaced { path } => {
                write!(
                    f,
                    "{} was replaced since it was mapped: start the program anew to see its functions",
                    name(path)
                )
            }
            Error::Nameless { path, address } => {
                write!(
                    f,
                    "no symbol of {} covers {address:#x}: where its function starts and ends is not known; keep its \
                     symbols (no strip, no -s) or install its debug symbols",
                    name(path)
                )
            }
            Error::TooLarge { path, bytes, limit_bytes } => {
                let (size, limit) = (bytes >> 20, limit_bytes >> 20);
                write!(
                    f,
                    "{} has {size} MiB of symbols and {limit} MiB are read: strip what it does not need",
                    name(path)
                )
            }
        }
    }
}

impl std::error::Error for Error {}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
