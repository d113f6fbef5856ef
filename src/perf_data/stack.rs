//! The frames of a sample: those of the kernel from its call chain, and those of the program from
//! the chain, from recorded calls of the processor, or unwound from registers and a copied stack.

use super::address_space::AddressSpace;
use super::attribute::{EventAttribute, has};
use super::fields::FileWords;
use super::kernel::RecordedKernel;
use super::record::{CpuMode, SampleRecord};
use crate::arch::{SAMPLED_REGISTERS, sampled_registers};
use crate::process::unwind::ThreadRegisters;
use crate::sampler::stack_copy::StackCopy;
use crate::sampler::unwind::WalkEnd;
use crate::wire::{FRAMES_LEFT_OUT, FrameAddress, KERNEL_START, MAX_FRAMES, flag};

/// Values in a call chain from this one on are markers of what follows.
const FIRST_MARKER: u64 = -4095_i64 as u64;
const KERNEL_FOLLOWS: u64 = -128_i64 as u64;
const USER_FOLLOWS: u64 = -512_i64 as u64;
/// Frames kept at the leaf of a stack that is deeper than a sample.
const LEAF_FRAMES: usize = 320;

/// Makes stacks, in memory that is used again.
#[derive(Default)]
pub(super) struct StackBuilder {
    /// The [packed](FrameAddress::pack) frames, leaf first.
    pub(super) frames: Vec<u64>,
    unwound: Vec<u64>,
    copy: StackCopy,
}

impl StackBuilder {
    /// Builds the frames of a sample, and returns its [`flag`]s. Code of the user is in `space`.
    pub(super) fn build(
        &mut self,
        sample: &SampleRecord<'_>,
        attribute: &EventAttribute,
        kernel: &RecordedKernel,
        space: &mut AddressSpace,
    ) -> u32 {
        self.frames.clear();
        let mut flags = 0;
        let chain = sample.chain.map(FileWords::iter).into_iter().flatten();
        flags |= self.push_chain(chain, sample.mode, kernel);
        let is_in_kernel = |frame: &u64| FrameAddress::unpack(*frame).lookup() >= KERNEL_START;
        // A chain ends with the user's part. The other sources say more of it.
        let kernel_frames = self.frames.iter().position(|frame| !is_in_kernel(frame)).unwrap_or(self.frames.len());
        if let Some(calls) = sample.calls.filter(|calls| calls.iter().len() > 0) {
            self.frames.truncate(kernel_frames);
            self.push_calls(calls);
        } else if attribute.has(has::STACK_USER)
            && let Some((mask, values)) = &sample.registers
        {
            self.frames.truncate(kernel_frames);
            flags = self.unwind(registers(*mask, *values), sample.stack, space);
        }
        if self.frames.is_empty()
            && let Some(ip) = sample.ip
        {
            self.push(ip, sample.mode == CpuMode::Kernel, true, kernel);
        }
        if self.frames.is_empty() {
            self.frames.push(FrameAddress::Instruction(0).pack());
        }
        if let Some(excess @ 1..) = self.frames.len().checked_sub(MAX_FRAMES) {
            self.frames.splice(LEAF_FRAMES..LEAF_FRAMES + excess + 1, [FRAMES_LEFT_OUT]);
            flags |= flag::TRUNCATED;
        }
        flags
    }

    /// Adds the frames of a call chain. A frame pointer that is something else leads to words that
    /// are no addresses: there the stack is cut.
    fn push_chain(&mut self, chain: impl Iterator<Item = u64>, mode: CpuMode, kernel: &RecordedKernel) -> u32 {
        let mut part = mode;
        let mut is_leaf = true;
        for word in chain {
            if word >= FIRST_MARKER {
                part = match word {
                    KERNEL_FOLLOWS => CpuMode::Kernel,
                    USER_FOLLOWS => CpuMode::User,
                    _ => CpuMode::Other,
                };
                is_leaf = true;
                continue;
            }
            let is_pushed = part == CpuMode::Other || self.push(word, part == CpuMode::Kernel, is_leaf, kernel);
            if !is_pushed {
                return if word == 0 { 0 } else { flag::TRUNCATED };
            }
            is_leaf = false;
        }
        0
    }

    /// Adds a frame, if there may be code at the address.
    fn push(&mut self, address: u64, is_kernel: bool, is_leaf: bool, kernel: &RecordedKernel) -> bool {
        let address = match is_kernel {
            true => kernel.shorten(address),
            false if address == 0 || address >= KERNEL_START => return false,
            false => address,
        };
        let frame = if is_leaf { FrameAddress::Instruction(address) } else { FrameAddress::Return(address) };
        self.frames.push(frame.pack());
        true
    }

    /// Adds the frames of calls that have not returned: the target of the last one, and the calls.
    fn push_calls(&mut self, calls: FileWords<'_>) {
        let words: Vec<u64> = calls.iter().collect();
        let branches = words.as_chunks::<3>().0;
        let addresses =
            branches.first().map(|[_, to, _]| *to).into_iter().chain(branches.iter().map(|[from, ..]| *from));
        let is_code = |address: &u64| (1..KERNEL_START).contains(address);
        self.frames.extend(addresses.filter(is_code).map(|address| FrameAddress::Instruction(address).pack()));
    }

    /// Unwinds a copied stack. Returns the flags of the sample.
    fn unwind(&mut self, registers: Option<ThreadRegisters>, stack: &[u8], space: &mut AddressSpace) -> u32 {
        let Some(registers) = registers else { return flag::TRUNCATED | flag::UNREADABLE };
        self.copy.clear();
        if let Some(sp) = registers.get(crate::arch::STACK_POINTER) {
            self.copy.add(sp, stack.len(), |bytes| {
                bytes.copy_from_slice(stack);
                stack.len()
            });
        }
        let unwinder = space.unwinder();
        let end = unwinder.walk(&registers, &self.copy, &mut self.unwound);
        self.frames.extend_from_slice(&self.unwound);
        let truncated = if end == WalkEnd::Root { 0 } else { flag::TRUNCATED };
        truncated | if unwinder.crossed_signal() { flag::SIGNAL_FRAME } else { 0 }
    }
}

/// Returns the registers that an unwinder on this machine needs, if the sample has all of them.
fn registers(mask: u64, values: FileWords<'_>) -> Option<ThreadRegisters> {
    if mask & SAMPLED_REGISTERS != SAMPLED_REGISTERS {
        return None;
    }
    let recorded = (0..64).filter(|bit| mask >> bit & 1 != 0).zip(values.iter());
    let wanted = recorded.filter(|(bit, _)| SAMPLED_REGISTERS >> bit & 1 != 0).map(|(_, value)| value);
    let values: Vec<u64> = wanted.collect();
    Some(ThreadRegisters::of_all(sampled_registers(values.as_slice().try_into().ok()?)))
}
