//! Constants of the protocol: magic, version, socket names, limits and kinds of messages.

/// First bytes of a [`Hello`](super::Hello): "sigt".
pub const MAGIC: u32 = u32::from_le_bytes(*b"sigt");
/// Version of the wire and of recordings, which contain messages of the wire. Any change of a
/// message or of a recording's entry needs a new version. Both ends come from one binary, so only a
/// recording or an old preloaded agent can have another version. Newer ones are refused.
pub const VERSION: u16 = 6;
/// The oldest version that is understood: version 2 added [`Wait`](super::Wait), version 3 the
/// messages of an [interpreter](super::interpreter), and version 4
/// [`DeepestStack`](super::DeepestStack), the clock of allocations, the formats of lines of older
/// interpreters, the access to frames and the age of samples, and version 5 the engines of the
/// samplers outside, frames of the kernel, and the CPU time that was not sampled. Version 6
/// shortened the times of samples in recordings. None changed anything else.
pub const OLDEST_VERSION: u16 = 1;
/// Unit to which the viewer rounds down the times of samples and arrivals, ns. Finer digits are
/// noise, and would be most of what a recording takes.
pub const TIME_UNIT_NS: u64 = 1_000;
/// Upper half of a wake signal's `si_value`. The lower half is the viewer's pid.
pub const KNOCK_COOKIE: u32 = 0x5167_70a1;
/// Signals for ticks, in the order in which an agent tries them: SIGURG, whose default action is to
/// do nothing, and real-time signals for programs that use SIGURG themselves.
pub const TICK_SIGNALS: [i32; 4] = [23, 59, 58, 57];
/// Environment variable that tells a preloaded agent which viewer launched it and how to start:
/// `TOKEN:VIEWER_PID:PERIOD_NS:CLOCK:SOCKET_PATH`, all but the path in decimal.
pub const LINK_VARIABLE: &str = "SIGTOP_LINK";
/// Name of the viewer's abstract socket without the viewer's pid, which follows.
pub const VIEWER_SOCKET: &str = "sigtop/";
/// Path of the socket for agents that cannot reach the viewer's abstract socket: the parts before
/// and after the viewer's pid.
pub const VIEWER_SOCKET_FILE: (&str, &str) = ("/tmp/sigtop-", ".sock");

/// Maximum length of kind and body of a message in bytes. A Hello with its longest strings fits.
pub const MAX_MESSAGE: usize = 32 * 1024;
/// Maximum number of frames in a stack. Of a deeper stack the leaf side and the root side are kept,
/// with [`FRAMES_LEFT_OUT`] between them, or only the leaf side if the root is too far away. The
/// sample is flagged [`TRUNCATED`](super::flag::TRUNCATED).
pub const MAX_FRAMES: usize = 512;
/// A packed frame that stands for omitted frames in the middle of a stack. No call returns to
/// address 0.
pub const FRAMES_LEFT_OUT: u64 = 0;
/// Number of stacks that each end of a connection remembers.
pub const STACK_SLOTS: usize = 64;
/// Maximum length of a path in bytes (PATH_MAX).
pub const MAX_PATH: usize = 4096;
/// Maximum length of a command line's arguments in bytes. Longer ones are truncated.
pub const MAX_ARGV: usize = 4096;
/// Maximum length of a thread's name in bytes (TASK_COMM_LEN).
pub const MAX_COMM: usize = 16;
/// Maximum length of the description of a descriptor in bytes. Longer ones are truncated.
pub const MAX_OBJECT: usize = 256;
/// Maximum length of the name of an interpreted function in bytes. Longer ones are truncated.
pub const MAX_FUNCTION_NAME: usize = 1024;
/// Maximum length of the line table of an interpreted function in bytes. Of a longer one the lines
/// past the limit are unknown.
pub const MAX_LINE_TABLE: usize = 24 * 1024;
/// Maximum length of a build id in bytes. SHA-1 has 20, the longest in use 32.
pub const MAX_BUILD_ID: usize = 64;
/// Shortest and longest sampling period that an agent accepts, ns.
pub const PERIODS_NS: core::ops::RangeInclusive<u64> = 50_000..=10_000_000_000;

/// Shortest and longest sampling interval of allocations that an agent accepts, bytes.
pub const INTERVALS_BYTES: core::ops::RangeInclusive<u64> = 1..=1 << 40;

/// A stack of the largest depth with the longest varints fits one message, with sizes too.
const _: () = assert!(MAX_FRAMES * 20 + 128 < MAX_MESSAGE);
const _: () = assert!(MAX_PATH + MAX_ARGV + 256 < MAX_MESSAGE);
const _: () = assert!(MAX_FUNCTION_NAME + MAX_PATH + MAX_LINE_TABLE + 128 < MAX_MESSAGE);

/// Kinds of messages: those of an agent are below 64, those of a viewer from 64 on.
pub(super) mod kind {
    pub(in super::super) const HELLO: u8 = 1;
    pub(in super::super) const MODULE: u8 = 2;
    pub(in super::super) const UNLOAD: u8 = 3;
    pub(in super::super) const THREAD: u8 = 4;
    pub(in super::super) const THREAD_END: u8 = 5;
    pub(in super::super) const SAMPLE: u8 = 6;
    pub(in super::super) const COUNTERS: u8 = 7;
    pub(in super::super) const DEEPEST_STACK: u8 = 13;
    pub(in super::super) const ENGAGED: u8 = 8;
    pub(in super::super) const BUSY: u8 = 9;
    pub(in super::super) const WAIT: u8 = 10;
    pub(in super::super) const FUNCTION: u8 = 11;
    pub(in super::super) const INTERPRETER: u8 = 12;
    pub(in super::super) const FREED: u8 = 14;
    pub(in super::super) const ENGAGE: u8 = 64;
    pub(in super::super) const LEAVE: u8 = 65;
}
