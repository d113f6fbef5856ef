//! Errors of symbol files. Each message names the file, the cause and the remedy.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::sanitize::sanitize;

/// The reason why a file has no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It does not exist, is not readable, or is not a regular file.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        cause: String,
    },
    /// It is not an ELF file for Linux on x86-64 or aarch64, or it is damaged.
    Malformed {
        /// The file.
        path: PathBuf,
        /// A description of the damage.
        what: &'static str,
    },
    /// It is not the file that is running: the build ids differ.
    Changed {
        /// The file.
        path: PathBuf,
        /// The build id of the file; empty if it has none.
        found: Box<[u8]>,
        /// The build id of the running file.
        wanted: Box<[u8]>,
    },
    /// It is not the file that is running: the inodes differ, and there is no build id.
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// It was changed after the recording, and there is no build id.
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// It is the code of a kernel that does not run here, or that was started again since.
    OtherKernel,
    /// It is the code of the kernel, which does not tell its addresses to this user.
    HiddenKernel,
    /// It is the code of the kernel, which is in no file that is read.
    KernelCode,
    /// No symbol covers an address.
    Nameless {
        /// The file.
        path: PathBuf,
        /// The address in the file.
        address: u64,
    },
    /// Its tables exceed the limit.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size of the tables.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
}

impl Error {
    /// Returns the same error with another path: the one that the process has for the file.
    pub(super) fn about(mut self, name: &Path) -> Error {
        let (Error::Unreadable { path, .. }
        | Error::Malformed { path, .. }
        | Error::Changed { path, .. }
        | Error::Replaced { path }
        | Error::Newer { path }
        | Error::Nameless { path, .. }
        | Error::TooLarge { path, .. }) = &mut self
        else {
            return self;
        };
        *path = name.to_owned();
        self
    }

    /// Returns a rank by how informative the error is, to choose among the errors of several
    /// candidates. A file that does not match says more than a missing one.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Error::Unreadable { .. } => 0,
            Error::Malformed { .. } => 1,
            Error::TooLarge { .. } => 2,
            Error::Replaced { .. } | Error::Newer { .. } | Error::Nameless { .. } => 3,
            Error::Changed { .. } | Error::OtherKernel | Error::HiddenKernel | Error::KernelCode => 4,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &PathBuf| sanitize(&path.to_string_lossy());
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
                    "{} is no sound ELF file for x86-64 or aarch64 ({what}): install it again to see its functions",
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
            Error::Newer { path } => {
                write!(
                    f,
                    "{} was changed after the recording, and has no build id to tell whether it is the same: record \
                     with --symbols to keep names",
                    name(path)
                )
            }
            Error::OtherKernel => f.write_str(
                "these are addresses of a kernel that does not run here: record with --symbols to keep names",
            ),
            Error::HiddenKernel => f.write_str(
                "/proc/kallsyms hides the addresses of the kernel: run sigtop with sudo, or: \
                 sudo sysctl kernel.kptr_restrict=0",
            ),
            Error::KernelCode => {
                f.write_str("the code of the kernel is not shown: its functions have their names from /proc/kallsyms")
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
                    "{} has a table of {size} MiB and {limit} MiB are read: strip what it does not need",
                    name(path)
                )
            }
        }
    }
}

impl std::error::Error for Error {}

/// Formats bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a parser. Returns `None` if it panics: files can contain what its authors did not expect.
pub(super) fn catch_panic<T>(parse: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(parse)).ok()
}
