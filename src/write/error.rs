//! Why a profile could not be read.

use std::fmt;
use std::io;

/// Why a file is no profile. It does not name the file; who opened it does.
#[derive(Debug)]
pub enum ReadError {
    /// Reading itself failed.
    Read(io::Error),
    /// It is of no format that is known here.
    Unknown,
    /// It is text in UTF-16, of the encoding with this name.
    Utf16(&'static str),
    /// It is of a known format, and wrong.
    Malformed(String),
    /// It would take more memory than a profile may.
    TooLarge {
        /// Bytes read so far.
        bytes: u64,
    },
    /// It inflates to much more than a profile does.
    Bomb {
        /// Bytes as they are in the file.
        packed: u64,
        /// Bytes that came out of them.
        inflated: u64,
    },
}

impl ReadError {
    /// Wrong, and how.
    pub(crate) fn malformed(why: impl Into<String>) -> ReadError {
        ReadError::Malformed(why.into())
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::malformed("it ends in the middle; was it copied whole?"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                ReadError::malformed(format!("it does not inflate: {error}"))
            }
            _ => ReadError::Read(error),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Read(error) => write!(f, "{error}"),
            ReadError::Unknown => write!(
                f,
                "it is no profile of a known kind; known are recordings of sigtop, profile.proto (also gzipped), gperftools' CPU \
                 profiles, folded stacks and what perf script prints"
            ),
            ReadError::Utf16(encoding) => {
                write!(f, "it is UTF-16 text; convert it with: iconv -f {encoding} -t UTF-8 FILE > NEW")
            }
            ReadError::Malformed(why) => write!(f, "malformed profile: {why}"),
            ReadError::TooLarge { bytes } => {
                write!(f, "it has more than {} MB, which is more than a profile may have", bytes >> 20)
            }
            ReadError::Bomb { packed, inflated } => {
                write!(
                    f,
                    "{packed} bytes of it inflate to more than {inflated}, which no profile does; it is not read further"
                )
            }
        }
    }
}

impl std::error::Error for ReadError {}
