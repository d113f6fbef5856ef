//! The wire: every message between the agent and the viewer, and every limit on them.
//!
//! It is a byte stream of frames, `u32 length | u8 kind | body`, little-endian, where the length counts kind and body and is
//! at most [`MAX_MESSAGE`]. Integers in a body are LEB128 varints, byte strings a varint length and the bytes; each
//! string has its own limit. The agent speaks first, with a [`Hello`] that carries magic and version.
//!
//! A sample's stack is written as the difference to the last stack sent in the same of [`STACK_SLOTS`] *stack slots*: how
//! many of its outermost frames stay, and the frames inside of them. Both ends keep the slots in a [`StackMemory`]; the
//! agent chooses the slot (by thread), so a steady program costs a few bytes a sample.
//!
//! This file is shared with the agent: `no_std`, nothing allocates while encoding, and nothing here does I/O. Each end
//! treats the other as hostile: decoding never panics, never loops past its input, never allocates past a limit.

mod messages;
mod reading;
pub mod ring;
mod stacks;
mod writing;

pub use messages::*;
pub use reading::{Framed, Reader, frame, message, request, unzigzag};
pub use stacks::{StackMemory, StoredStack, stack_memory};
pub use writing::{Full, Writer, zigzag};

/// First bytes of a [`Hello`]: "sigt".
pub const MAGIC: u32 = u32::from_le_bytes(*b"sigt");
/// Of this wire. The two ends come from one binary; a recording or a preloaded old agent may differ, and is refused.
pub const VERSION: u16 = 1;
/// Upper half of the `si_value` of a knock; the lower half is the viewer's pid.
pub const KNOCK_COOKIE: u32 = 0x5167_70a1;
/// Signals that ticks may come by, in the order in which an agent tries them: SIGURG, which does
/// nothing where its handler is gone, and real-time signals for programs that use SIGURG
/// themselves.
pub const TICK_SIGNALS: [i32; 4] = [23, 59, 58, 57];
/// Name of the environment variable that tells a preloaded agent who launched it and what to begin with:
/// `TOKEN:VIEWER_PID:PERIOD_NS:CLOCK:SOCKET_PATH`, all but the path in decimal.
pub const LINK_VARIABLE: &str = "SIGTOP_LINK";

/// Bytes of kind and body of one message, at most: a Hello with its longest strings fits with room.
pub const MAX_MESSAGE: usize = 32 * 1024;
/// Frames in one stack, at most. Of a deeper one both ends are kept, with [`FRAMES_LEFT_OUT`]
/// between them, or if its root is too far away the leaf side, and the sample is flagged
/// [`TRUNCATED`](flag::TRUNCATED).
pub const MAX_FRAMES: usize = 512;
/// A packed frame that stands for frames in the middle of a stack. No call returns to address 0.
pub const FRAMES_LEFT_OUT: u64 = 0;
/// Stacks remembered on each end of a connection.
pub const STACK_SLOTS: usize = 64;
/// Bytes of a path (PATH_MAX).
pub const MAX_PATH: usize = 4096;
/// Bytes of the arguments kept of a command line.
pub const MAX_ARGV: usize = 4096;
/// Bytes of a thread's name (TASK_COMM_LEN).
pub const MAX_COMM: usize = 16;
/// Bytes of a build id: SHA-1 has 20, the longest in use 32.
pub const MAX_BUILD_ID: usize = 64;
/// Shortest and longest sampling period that an agent accepts, ns.
pub const PERIODS_NS: core::ops::RangeInclusive<u64> = 50_000..=10_000_000_000;

/// A stack of the largest depth with the widest varints must fit one message.
const _: () = assert!(MAX_FRAMES * 10 + 128 < MAX_MESSAGE);
const _: () = assert!(MAX_PATH + MAX_ARGV + 256 < MAX_MESSAGE);

/// The kinds of messages: an agent's below 64, a viewer's from there on.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const MODULE: u8 = 2;
    pub(super) const UNLOAD: u8 = 3;
    pub(super) const THREAD: u8 = 4;
    pub(super) const THREAD_END: u8 = 5;
    pub(super) const SAMPLE: u8 = 6;
    pub(super) const ACCOUNT: u8 = 7;
    pub(super) const ENGAGED: u8 = 8;
    pub(super) const BUSY: u8 = 9;
    pub(super) const ENGAGE: u8 = 64;
    pub(super) const LEAVE: u8 = 65;
}
