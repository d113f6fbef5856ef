//! The error of reading a profile.

use std::fmt;
use std::io;

/// The reason why a profile could not be read. The message does not name the file; the caller does.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be read.
    Read(io::Error),
    /// The format is not known.
    UnknownFormat,
    /// The file is in one of the old text formats of Java.
    OldText {
        /// The command that converts it.
        remedy: &'static str,
    },
    /// The file is text in the UTF-16 encoding with this name.
    Utf16(&'static str),
    /// The format is known, but the content is invalid.
    Malformed(String),
    /// The profile is larger than the limit.
    TooLarge {
        /// Number of bytes read so far.
        bytes: u64,
    },
    /// The compression ratio is too high for a profile.
    Bomb {
        /// Number of compressed bytes read so far.
        compressed: u64,
        /// Number of bytes that they inflated to.
        inflated: u64,
    },
}

impl ReadError {
    pub(crate) fn malformed(why: impl Into<String>) -> ReadError {
        ReadError::Malformed(why.into())
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::malformed("unexpected end of file; is the copy complete?"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                ReadError::malformed(format!("cannot inflate it: {error}"))
            }
            _ => ReadError::Read(error),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Read(error) => write!(f, "{error}"),
            ReadError::UnknownFormat => write!(
                f,
                "unknown profile format; supported are sigtop recordings, profile.proto (also gzipped), gperftools CPU \
                 profiles, folded stacks and the output of perf script"
            ),
            ReadError::OldText { remedy } => {
                write!(f, "heap or contention profile of Java in an old text format; convert it with: {remedy}")
            }
            ReadError::Utf16(encoding) => {
                write!(f, "UTF-16 text; convert it with: iconv -f {encoding} -t UTF-8 FILE > NEW")
            }
            ReadError::Malformed(why) => write!(f, "malformed profile: {why}"),
            ReadError::TooLarge { bytes } => write!(f, "profile too large: more than {} MB", bytes >> 20),
            ReadError::Bomb { compressed, inflated } => {
                write!(f, "not a profile: {compressed} compressed bytes inflate to more than {inflated} bytes")
            }
        }
    }
}

impl std::error::Error for ReadError {}
