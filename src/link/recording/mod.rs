//! Recordings: what the viewer received, kept in a file. Playing a recording back gives the same
//! numbers as the session that wrote it.
//!
//! # File format
//!
//! ```text
//! file   = header block*
//! header = "\x89sigtop\n" u16:version u16:0
//! block  = u32:compressed_length u32:plain_length u32:crc data
//! ```
//!
//! Integers of fixed width are little-endian. The CRC-32 covers both lengths and the data. Each
//! block is deflated by itself (RFC 1951), and its plain bytes have at most [`MAX_PLAIN`] bytes.
//! They are entries: a kind byte and a body, whose integers are [varints](crate::wire::varint). The
//! first entry of a recording is a [`RecordingInfo`]. The last entry of a complete recording is an
//! end marker. A file that was truncated, by SIGKILL or a full disk, can be read up to its last
//! complete block.
//!
//! | kind | body |
//! | --- | --- |
//! | 1 info | the fields of [`RecordingInfo`], in order |
//! | 2 message | source, pid, time, length, kind and body of a [wire](crate::wire) message |
//! | 3 closed | source, pid, time |
//! | 4 aborted | source, pid, time, kind of the cause, a number |
//! | 5 time | time that has passed without any other entry |
//! | 6 symbols | file, status of its symbols, addresses and the functions at each |
//! | 7 cpu | CPU time of the target, and user and system share of the last second |
//! | 8 exit | how the target ended, and when |
//! | 9 reset stacks | stack numbers start again from 0 |
//! | 10 end | empty: the recording is complete |
//! | 11 unsampled | CPU time that no agent has sampled or counted, and what was said of it |
//! | 12 merged | source, name of the recording that the source comes from |
//! | 128… sample | see [`SAMPLE`] |
//!
//! A stack is written once, as its difference from the previous stack of the same source, and is
//! referred to by number from then on, so that a steady program takes about ten bytes a sample.
//! Times are differences from the previous entry.
//!
//! [`Encoder`] writes recordings; [`BlockReader`] and [`Decoder`] read them. The bytes of a
//! recording are no more trusted than those of a socket.

mod block;
mod decoder;
mod encoder;
mod entry;
mod error;
mod format;
mod stack_numbers;
#[cfg(test)]
mod tests;

pub use block::{Block, BlockReader, compress_blocks, header};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use entry::{
    CpuReading, FileSymbols, RecordedFile, RecordedFunction, RecordedSample, RecordingEntry, RecordingInfo,
    SymbolStatus, TargetExit, UnsampledReading,
};
pub use error::RecordingError;
pub use format::*;
