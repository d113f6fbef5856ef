//! The deepest stack that was seen of each thread.

use super::apply::Profile;
use super::ids::ProcessId;
use super::stack::Frame;
use super::thread::StackUse;
use crate::wire::{DeepestStack, FRAMES_LEFT_OUT, FrameAddress, StackFrame};

/// Maximum number of threads whose frames are kept. Of others only the sizes are.
const MAX_WITH_FRAMES: usize = 8192;

impl Profile {
    /// Keeps the deepest stack of a known thread, unless a deeper one is known: an agent may have
    /// forgotten that. Of equal ones, that with a limit is kept.
    pub(super) fn set_deepest_stack(&mut self, id: ProcessId, stack: &DeepestStack<Box<[StackFrame]>>) {
        let process = &mut self.processes[id.0 as usize];
        let Some(&thread) = process.threads.get(&stack.tid) else { return };
        let known = self.threads[thread.0 as usize].deepest.as_ref();
        if known.is_some_and(|known| (known.used, known.size) >= (stack.used, stack.size)) {
            return;
        }
        self.deepest_with_frames -= usize::from(known.is_some_and(|known| !known.frames.is_empty()));
        let mut frames = Vec::new();
        if self.deepest_with_frames < MAX_WITH_FRAMES {
            process.cache.select_generation(stack.generation);
            for &StackFrame { address, bytes } in &stack.frames {
                let frame = match address {
                    FRAMES_LEFT_OUT => self.stacks.frame_id(Frame::LeftOut),
                    _ => process.frame(id, FrameAddress::unpack(address).lookup(), &mut self.stacks),
                };
                frames.push((frame, bytes));
            }
        }
        self.deepest_with_frames += usize::from(!frames.is_empty());
        let deepest = StackUse { used: stack.used, size: stack.size, frames: frames.into() };
        self.threads[thread.0 as usize].deepest = Some(deepest);
    }
}
