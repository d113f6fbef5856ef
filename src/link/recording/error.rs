//! The reasons why a recording cannot be read, or not to its end.

use std::fmt;
use std::io;

use super::format::VERSION;
use crate::wire::Malformed;

/// The reason why reading a recording stopped.
#[derive(Debug)]
pub enum RecordingError {
    /// The file does not start like a recording.
    NotARecording,
    /// Another version of sigtop wrote it.
    Version(u16),
    /// The file ends inside a block or without an end marker.
    CutOff {
        /// Length of the header and of all complete blocks, bytes.
        whole_bytes: u64,
    },
    /// The checksum of a block is wrong.
    Damaged {
        /// Offset of the block in the file, bytes.
        at_bytes: u64,
    },
    /// The checksum of a block is right, but its entries cannot be decoded.
    Malformed {
        /// Offset of the block in the file, bytes.
        at_bytes: u64,
        /// The fault of the first malformed entry.
        fault: Malformed,
    },
    /// The file could not be read.
    Io(io::Error),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::NotARecording => write!(f, "is not a recording of sigtop"),
            RecordingError::Version(version) if *version > VERSION => {
                write!(f, "was written by a newer sigtop (format {version}, this one reads {VERSION}): update sigtop")
            }
            RecordingError::Version(version) => {
                write!(f, "was written by an older sigtop (format {version}, this one reads {VERSION})")
            }
            RecordingError::CutOff { whole_bytes } => write!(
                f,
                "is truncated after {whole_bytes} bytes (its recorder was killed, or the disk was full): \
                 everything before is shown"
            ),
            RecordingError::Damaged { at_bytes } => {
                write!(f, "is damaged at byte {at_bytes} (wrong checksum): everything before is shown")
            }
            RecordingError::Malformed { at_bytes, fault } => {
                write!(f, "is malformed at byte {at_bytes} ({fault}): everything before is shown")
            }
            RecordingError::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for RecordingError {}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> RecordingError {
        RecordingError::Io(error)
    }
}
