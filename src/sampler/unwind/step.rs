//! The result of a step from a frame to its caller.

use crate::process::unwind::ThreadRegisters;

/// The reason why a value of the caller cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoValue {
    /// A register is needed that is not known.
    UnknownRegister,
    /// This word of the stack is needed, which was not copied.
    NoStack(u64),
    /// The rule cannot be followed.
    Lost,
}

/// Result of applying a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "most are of the largest kind, and registers are many on some processors")]
pub(super) enum Stepped {
    /// The registers of the caller. Registers that a function need not restore are unknown.
    Caller(ThreadRegisters),
    /// The frame is the thread's outermost one.
    Root,
    /// The caller cannot be found.
    Failed(NoValue),
}
