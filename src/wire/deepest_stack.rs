//! The deepest stack of a thread, with the size of each frame.

/// The deepest stack that was seen of a thread, sent when a deeper one was found. `F` is
/// `&[StackFrame]` for a message to encode and `Box<[StackFrame]>` for a decoded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeepestStack<F> {
    /// The thread.
    pub tid: u32,
    /// Module generation to which the addresses belong.
    pub generation: u32,
    /// Size of the stack in use, in bytes: from the stack pointer to the end.
    pub used: u64,
    /// Size to which it may grow, in bytes; 0 if that is not known.
    pub size: u64,
    /// Its frames, leaf first, at most [`MAX_FRAMES`](super::MAX_FRAMES). Together they may be
    /// smaller than the stack in use.
    pub frames: F,
}

/// A frame and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// The [packed](super::FrameAddress::pack) address, or
    /// [`FRAMES_LEFT_OUT`](super::FRAMES_LEFT_OUT) for the frames between two others.
    pub address: u64,
    /// Bytes from its stack pointer to that of its caller.
    pub bytes: u64,
}
