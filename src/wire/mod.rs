//! The wire: every message between the agent and the viewer, and every limit on them.
//!
//! It is a byte stream of frames, `u32 length | u8 kind | body`, little-endian. The length counts
//! kind and body and is at most [`MAX_MESSAGE`]. Integers in a body are
//! [varints](crate::wire::varint); byte strings are a varint length and the bytes, and each has its
//! own limit. The agent speaks first, with a [`Hello`] that carries magic and version.
//!
//! A sample's stack is encoded as the difference from the last stack sent in the same of
//! [`STACK_SLOTS`] *stack slots*: the number of outermost frames that are the same, and the frames
//! inside of them. Both ends keep the slots in a [`StackMemory`]. The agent chooses the slot by
//! thread, so that a steady program costs a few bytes a sample.
//!
//! [`gperftools`] is the other format that an agent writes.
//!
//! This folder is shared with the agent: it is `no_std`, encoding does not allocate, and nothing
//! here does I/O. Neither end trusts the other: decoding never panics, never loops past its input,
//! and never allocates past a limit.

mod decode;
mod deepest_stack;
mod digits;
mod encode;
pub mod gperftools;
pub mod interpreter;
mod kernel;
mod loss_cause;
mod malformed;
mod messages;
mod program_path;
mod protocol;
pub mod ring;
mod schedule;
#[cfg(feature = "viewer")]
mod stack_hash;
mod stack_memory;
pub mod varint;

pub use decode::{FramedMessage, Reader, decode_message, decode_request, split_frame};
pub use deepest_stack::{DeepestStack, StackFrame};
pub use digits::parse_number;
pub use encode::{BufferFull, Writer};
pub use kernel::{
    BOOT_ID_FILE, KERNEL_END, KERNEL_PATH, KERNEL_START, is_kernel_address, parse_boot_id, shorten_kernel_address,
};
pub use loss_cause::LossCause;
pub use malformed::Malformed;
pub use messages::*;
pub use program_path::link_of_program;
pub use protocol::*;
pub use schedule::{SCHEDULER_TICK_NS, Schedule};
#[cfg(feature = "viewer")]
pub use stack_hash::{StackHash, StackHasher};
pub use stack_memory::{StackMemory, StoredStack, stack_memory};
