//! The error of decoders of the wire.

use super::protocol::{MAX_MESSAGE, VERSION};

/// The reason why bytes are not a message of this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The frame announces a length of 0 or more than [`MAX_MESSAGE`].
    Length(u32),
    /// The kind is unknown.
    Kind(u8),
    /// The body ends inside a field.
    Short,
    /// Bytes follow the last field.
    Trailing,
    /// The field with this name is out of range.
    Field(&'static str),
    /// The magic is not that of a sigtop agent.
    Magic(u32),
    /// The agent speaks another version.
    Version(u16),
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Malformed::Length(length) => write!(f, "a message of {length} bytes (limit {MAX_MESSAGE})"),
            Malformed::Kind(kind) => write!(f, "a message of unknown kind {kind}"),
            Malformed::Short => write!(f, "a message that ends inside a field"),
            Malformed::Trailing => write!(f, "a message with bytes after its last field"),
            Malformed::Field(name) => write!(f, "a message whose {name} is out of range"),
            Malformed::Magic(magic) => write!(f, "a stream that is not sigtop's (magic {magic:08x})"),
            Malformed::Version(version) => write!(f, "an agent that speaks version {version}, not {VERSION}"),
        }
    }
}

impl core::error::Error for Malformed {}
