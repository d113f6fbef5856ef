//! The step from a function that sleeps with its return address in a register, which the kernel
//! does not tell.

use super::step::Stepped;
use super::tables::TableLookup;
use super::{CodeRule, ModuleCode, ProcessUnwinder};
use crate::arch::{LINK_REGISTER, LeafFrame, STACK_POINTER, leaf_caller};
use crate::process::unwind::{CallerValue, FrameRule, ThreadRegisters};
use crate::sampler::stack_copy::StackCopy;
use crate::wire::FrameAddress;

/// The copied stack of a thread that sleeps in a leaf function.
struct LeafInCopy<'a> {
    unwinder: &'a mut ProcessUnwinder,
    stack: &'a StackCopy,
    /// The caller's registers.
    caller: ThreadRegisters,
}

impl LeafFrame for LeafInCopy<'_> {
    fn word(&mut self, address: u64) -> Option<u64> {
        self.stack.word(address)
    }

    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()> {
        (self.unwinder.code.is_executable(address) && self.unwinder.read_code(address, code) == code.len())
            .then_some(())
    }

    fn pointer(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        (self.unwinder.source.read_memory(address, &mut word) == word.len()).then(|| u64::from_ne_bytes(word))
    }

    fn function_start(&mut self, address: u64) -> Option<u64> {
        let ProcessUnwinder { code, reader, .. } = &mut *self.unwinder;
        let ModuleCode { image, tables } = code.find(address)?;
        match tables.find(image, address.wrapping_sub(image.bias), reader) {
            TableLookup::Rule { function, .. } => Some(function.wrapping_add(image.bias)),
            TableLookup::Broken | TableLookup::Missing => None,
        }
    }

    fn return_address(&mut self, call: u64) -> Option<u64> {
        let (mut caller, address) = (self.caller, FrameAddress::Return(call));
        caller.ip = call;
        let Some(CodeRule::Rule { rule, function }) = self.unwinder.rule(address, &caller, self.stack) else {
            return None;
        };
        match self.unwinder.apply(rule, function, address, &caller, self.stack) {
            Stepped::Caller(above) => Some(above.ip),
            Stepped::Root | Stepped::Failed(_) => None,
        }
    }
}

impl ProcessUnwinder {
    /// Steps to the caller of a function if it has its return address in a register that is not
    /// known: by its rule, or because it has none. Returns the address to show, too.
    pub(super) fn step_from_leaf(
        &mut self,
        rule: CodeRule,
        registers: &ThreadRegisters,
        stack: &StackCopy,
    ) -> Option<(ThreadRegisters, FrameAddress)> {
        if registers.get(LINK_REGISTER?).is_some() {
            return None;
        }
        let sp = match rule {
            CodeRule::Rule {
                rule:
                    FrameRule {
                        cfa: CallerValue::Register(register, offset), return_address: CallerValue::AFTER_CALL, ..
                    },
                ..
            } => registers.get(register.into())?.wrapping_add_signed(offset.into()),
            CodeRule::Unknown => registers.get(STACK_POINTER)?,
            _ => return None,
        };
        let mut frame = LeafInCopy { unwinder: self, stack, caller: ThreadRegisters::of_sleeper(0, sp) };
        let found = leaf_caller(&mut frame, registers.ip, sp)?;
        Some((ThreadRegisters::of_sleeper(found.return_address, sp), found.address()))
    }
}
