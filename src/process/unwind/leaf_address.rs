//! The address by which the caller of a leaf function is shown.

use crate::arch::LeafCaller;
use crate::wire::FrameAddress;

impl LeafCaller {
    /// Returns the address by which the frame is shown: the function's own if the call may be
    /// another one.
    pub(crate) fn address(self) -> FrameAddress {
        if self.is_only { FrameAddress::Return(self.return_address) } else { FrameAddress::Instruction(self.function) }
    }
}
