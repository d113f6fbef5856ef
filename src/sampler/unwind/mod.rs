//! Unwinds the threads of one process image from outside, from registers and a copy of the stack.
//!
//! A frame is unwound by the first of these that applies:
//!
//! 1. the code to which signal handlers return: the registers are in the `ucontext` above it;
//! 2. the unwind tables of its image, `.eh_frame` and then `.debug_frame` ([`tables`]);
//! 3. the code itself: the way to its next `ret` ([`code_path`]). Assembly and C libraries without
//!    tables are unwound so;
//! 4. a return address on top of the stack, if a call precedes it;
//! 5. the frame pointer. Compilers that make code at run time keep one. If it is zero, the frame is
//!    the first one only if it is that of a file, and no return address lies above it.
//!
//! The tables are exact or end the walk: where they describe a function in terms that cannot be
//! followed, or a register is needed that is not known, no guess takes their place. All registers
//! that functions restore are followed through the walk, because a canonical frame address may
//! depend on any of them. Of a sleeping thread only the stack pointer is known; where a function
//! keeps its frame address in the frame pointer, the way to it from the start of the function tells
//! how far the stack pointer has moved instead, or the return address of the next call of this very
//! function ends its frame. Where calls leave the return address in a register, the caller of a
//! function that has saved nothing is the one that the frame above it names ([`leaf_caller`]).
//!
//! framehop would do the second step. It knows three registers and no memory in expressions of the
//! tables, and goes on by frame pointers where these do not suffice, without telling. It serves as
//! the oracle of tests.
//!
//! The process may have ended long ago: registers and stacks of a recording of `perf` are walked with
//! the code of files alone ([`UnwindSource`]).

mod expressions;
mod frame_section;
mod header_table;
mod leaf_caller;
mod mapped_file;
mod modules;
mod rule;
mod step;
mod tables;
#[cfg(test)]
mod tests;
mod unwind_source;

use std::collections::HashMap;

use super::maps::ProcessMaps;
use super::stack_copy::StackCopy;
use crate::arch::{
    CONTEXT_AT_RETURN, CallBefore, FRAME_POINTER, FrameSize, LONGEST_CALL, SIGNAL_RETURN_LENGTH, STACK_POINTER,
    call_before, caller_of, direct_caller_of, is_signal_return,
};
use crate::process::unwind::code_path::{self, CodePath, MAX_INSTRUCTIONS, MAX_INSTRUCTIONS_ONCE};
use crate::process::unwind::{FrameRule, ThreadRegisters};
use crate::wire::{FRAMES_LEFT_OUT, FrameAddress, MAX_FRAMES};
pub(crate) use modules::ProcessModule;
use modules::{ModuleCode, ProcessCode};
use rule::frame_rules;
use step::{NoValue, Stepped, by_frame_pointer, is_above};
use tables::{TableLookup, TableReader};
pub(crate) use unwind_source::UnwindSource;

/// Maximum number of steps of a walk. The smallest frame is a return address, and a walk reads a
/// copy of 64 KiB.
const MAX_STEPS: usize = 8192;
/// Maximum number of rules that are kept: some 3 MiB.
const MAX_RULES: usize = 32768;
/// Maximum distance from the copy of a stack to a word of the same stack, in bytes.
const MAX_STACK: u64 = 64 << 20;
/// Minimum distance that only a frame larger than others makes, in bytes.
const LARGE_FRAME: u64 = 4096;
/// Number of frames kept at the leaf and at the root of a stack that is deeper than a sample.
const LEAF_FRAMES: usize = 320;
const ROOT_FRAMES: usize = 128;
/// Words above the stack pointer of a frame among which a return address is looked for.
const MAX_ABOVE: u64 = 128;
/// Code that no rule describes is the first of the program if its stack pointer is at most this
/// many bytes below the arguments on the first thread's stack. C libraries need less to start.
const START_STACK: u64 = 256;

/// The way in which a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// The walk reached the thread's outermost frame.
    Root,
    /// The walk ended early.
    Truncated,
    /// The walk ended early because the copy of the stack ends too early.
    WantsMoreStack,
    /// The walk ended early because a frame is larger than the copy: it lacks what is around this
    /// address.
    WantsStackAt(u64),
}

/// The known facts about the code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeRule {
    /// Handlers of signals return here.
    SignalReturn,
    /// The rule of the frame, and the start of the function if it is known.
    Rule { rule: FrameRule, function: Option<u64> },
    /// The outermost function of a stack that was made by hand, as `makecontext` makes one. Nothing
    /// has called it, so its first address stands for a return address.
    Entry,
    /// No call precedes the address, so that nothing returns to it.
    NotCalled,
    /// The code makes no call and never returns: it ends the thread.
    LastCode,
    /// There is a description that cannot be followed.
    Broken,
    /// Nothing describes the code.
    Unknown,
}

/// Unwinds threads of one process image. After an exec a new one is needed.
pub(crate) struct ProcessUnwinder {
    source: UnwindSource,
    code: ProcessCode,
    reader: TableReader,
    /// Rules by [packed](FrameAddress::pack) address.
    rules: HashMap<u64, CodeRule, foldhash::fast::RandomState>,
    /// Distances from the stack pointer to the canonical frame address, by instruction.
    frame_sizes: HashMap<u64, Option<FrameSize>>,
    /// The address at which the first thread's stack began, if it can be read.
    stack_start: u64,
    wants_maps: bool,
    crossed_signal: bool,
}

impl ProcessUnwinder {
    /// Creates an unwinder that knows no module yet.
    pub(crate) fn new(source: UnwindSource) -> ProcessUnwinder {
        ProcessUnwinder {
            stack_start: source.stack_start().unwrap_or(0),
            source,
            code: ProcessCode::default(),
            reader: TableReader::default(),
            rules: HashMap::default(),
            frame_sizes: HashMap::new(),
            wants_maps: false,
            crossed_signal: false,
        }
    }

    /// Updates the modules to a memory map, and returns all of them.
    pub(crate) fn refresh(&mut self, maps: &ProcessMaps) -> &[ProcessModule] {
        if self.code.refresh(&self.source, maps) {
            self.rules.clear();
            self.frame_sizes.clear();
            // A program that is just executed may not have had its stack before.
            self.stack_start = self.source.stack_start().unwrap_or(self.stack_start);
        }
        self.wants_maps = false;
        self.code.modules()
    }

    /// Returns whether a walk since the last refresh met an address outside of the memory that is
    /// known. It returns true once.
    pub(crate) fn wants_maps(&mut self) -> bool {
        std::mem::take(&mut self.wants_maps)
    }

    /// Returns whether the last walk went through the frame of a signal.
    pub(crate) fn crossed_signal(&self) -> bool {
        self.crossed_signal
    }

    /// Walks a stack, and replaces `frames` by its [packed](FrameAddress::pack) frames, leaf first.
    /// There is always at least the leaf. A stack of more than [`MAX_FRAMES`] frames keeps both of
    /// its ends.
    pub(crate) fn walk(&mut self, registers: &ThreadRegisters, stack: &StackCopy, frames: &mut Vec<u64>) -> WalkEnd {
        frames.clear();
        self.crossed_signal = false;
        let end = self.walk_to_root(*registers, stack, frames);
        if frames.len() > MAX_FRAMES {
            let first_of_root = frames.len() - ROOT_FRAMES;
            if end == WalkEnd::Root {
                frames[LEAF_FRAMES] = FRAMES_LEFT_OUT;
                frames.drain(LEAF_FRAMES + 1..first_of_root);
            } else {
                frames.truncate(LEAF_FRAMES);
            }
        }
        end
    }

    fn walk_to_root(&mut self, mut registers: ThreadRegisters, stack: &StackCopy, frames: &mut Vec<u64>) -> WalkEnd {
        let mut address = FrameAddress::Instruction(registers.ip);
        // The address by which the next frame is shown, if it is another one.
        let mut shown = None;
        for _ in 0..MAX_STEPS {
            let mut rule = self.rule(address, &registers, stack);
            if rule == Some(CodeRule::NotCalled) {
                // Frame pointers end with zero in the first function of a stack made by hand.
                rule = (registers.get(FRAME_POINTER) == Some(0)).then_some(CodeRule::Entry);
            }
            let is_return = matches!(address, FrameAddress::Return(_));
            match rule {
                // An address that no code precedes is not a frame.
                None if is_return => return WalkEnd::Truncated,
                // The code to which a handler returns stands for the interrupted code.
                Some(CodeRule::SignalReturn) if is_return => {}
                Some(CodeRule::Entry) => frames.push(FrameAddress::Instruction(registers.ip).pack()),
                _ => frames.push(shown.take().unwrap_or(address).pack()),
            }
            let stepped = match rule {
                Some(CodeRule::SignalReturn) => {
                    self.crossed_signal = true;
                    let sp = registers.get(STACK_POINTER);
                    let Some(interrupted) = sp.and_then(|sp| {
                        ThreadRegisters::read_context(sp + CONTEXT_AT_RETURN, |address| stack.word(address))
                    }) else {
                        return self.missing_stack(sp.unwrap_or(0), stack);
                    };
                    registers = interrupted;
                    address = FrameAddress::Instruction(registers.ip);
                    continue;
                }
                Some(CodeRule::Rule { rule, .. }) if registers.is_stack_bound => match rule.with_cfa_by_record() {
                    Some(rule) => rule.apply(&registers, stack, &self.reader.expressions),
                    None => by_frame_pointer(&registers, stack),
                },
                Some(CodeRule::Rule { rule, function }) => self.apply(rule, function, address, &registers, stack),
                Some(CodeRule::Entry | CodeRule::LastCode) => Stepped::Root,
                Some(CodeRule::Broken) => Stepped::Failed(NoValue::Lost),
                Some(CodeRule::Unknown) if self.is_at_start(&registers) => Stepped::Root,
                Some(CodeRule::Unknown | CodeRule::NotCalled) | None
                    if registers.get(FRAME_POINTER) == Some(0) && !self.is_first(address, &registers, stack) =>
                {
                    Stepped::Failed(NoValue::Lost)
                }
                Some(CodeRule::Unknown | CodeRule::NotCalled) | None => by_frame_pointer(&registers, stack),
            };
            // Code that no rule describes may be a leaf that a small program calls at its start.
            let may_be_leaf = matches!(
                (rule, &stepped),
                (_, Stepped::Failed(NoValue::UnknownRegister)) | (Some(CodeRule::Unknown), Stepped::Root)
            );
            if may_be_leaf
                && !is_return
                && let Some((caller, by)) = rule.and_then(|rule| self.step_from_leaf(rule, &registers, stack))
            {
                (registers, address, shown) = (caller, FrameAddress::Return(caller.ip), Some(by));
                continue;
            }
            let caller = match stepped {
                Stepped::Root => return WalkEnd::Root,
                Stepped::Failed(NoValue::NoStack(address)) => return self.missing_stack(address, stack),
                Stepped::Caller(caller) if is_above(&caller, &registers, !is_return) => caller,
                _ => return WalkEnd::Truncated,
            };
            registers = caller;
            address = FrameAddress::Return(registers.ip);
        }
        WalkEnd::Truncated
    }

    /// Returns whether there is room for nothing else between a frame and the start of the first
    /// thread's stack.
    fn is_at_start(&self, registers: &ThreadRegisters) -> bool {
        let below = registers.get(STACK_POINTER).and_then(|sp| self.stack_start.checked_sub(sp));
        below.is_some_and(|below| below <= START_STACK)
    }

    /// Returns whether a frame that no rule describes and whose base pointer is zero is the first
    /// of its stack: nothing above it is a return address. Code that keeps no frame pointer may
    /// have a zero in that register at any time. Code that was made at run time is never the first.
    fn is_first(&mut self, address: FrameAddress, registers: &ThreadRegisters, stack: &StackCopy) -> bool {
        if self.code.find(address.lookup()).is_none() {
            return false;
        }
        let Some(sp) = registers.get(STACK_POINTER) else { return false };
        let words = (0..MAX_ABOVE).map_while(|word| stack.word(sp.wrapping_add(8 * word)));
        let mut is_return =
            |word: u64| self.code.is_executable(word.wrapping_sub(1)) && self.call_before(word).is_some();
        !words.into_iter().any(&mut is_return)
    }

    /// Applies a rule. Where it needs a register that is not known, the distance of the stack
    /// pointer from the start of the function may take the register's place.
    fn apply(
        &mut self,
        rule: FrameRule,
        function: Option<u64>,
        address: FrameAddress,
        registers: &ThreadRegisters,
        stack: &StackCopy,
    ) -> Stepped {
        let stepped = rule.apply(registers, stack, &self.reader.expressions);
        match function {
            Some(function) if stepped == Stepped::Failed(NoValue::UnknownRegister) => {
                let size = match self.frame_sizes.get(&address.pack()) {
                    Some(&size) => size,
                    None => {
                        let size = self.frame_size(function, registers.ip);
                        if self.frame_sizes.len() == MAX_RULES {
                            self.frame_sizes.clear();
                        }
                        self.frame_sizes.insert(address.pack(), size);
                        size
                    }
                };
                let rule = size
                    .and_then(|size| self.rule_by_size(rule, (function, size), registers, stack))
                    .or_else(|| self.rule_by_call(rule, function, registers, stack));
                rule.map_or(stepped, |rule| rule.apply(registers, stack, &self.reader.expressions))
            }
            _ => stepped,
        }
    }

    /// Returns the rule of a frame by its size. That of an aligned frame must lead behind
    /// a call.
    fn rule_by_size(
        &mut self,
        rule: FrameRule,
        (function, size): (u64, FrameSize),
        registers: &ThreadRegisters,
        stack: &StackCopy,
    ) -> Option<FrameRule> {
        let mut rules = frame_rules(rule, size, registers.get(STACK_POINTER)?);
        if size.alignment == 1 {
            return rules.next();
        }
        caller_of(function, rules.filter_map(|rule| Some((rule, self.call_behind(&rule, registers, stack)?))))
    }

    /// Returns the rule of a frame whose size depends on data: it leads behind the next call of its
    /// function.
    fn rule_by_call(
        &mut self,
        rule: FrameRule,
        function: u64,
        registers: &ThreadRegisters,
        stack: &StackCopy,
    ) -> Option<FrameRule> {
        let rules = frame_rules(rule, FrameSize::VARIABLE, registers.get(STACK_POINTER)?);
        direct_caller_of(function, rules.filter_map(|rule| Some((rule, self.call_behind(&rule, registers, stack)?))))
    }

    fn frame_size(&mut self, function: u64, ip: u64) -> Option<FrameSize> {
        let ModuleCode { image, tables } = self.code.find(function)?;
        // Code that was split off a function does not begin with the stack of a call.
        match tables.find(image, function.wrapping_sub(image.bias), &mut self.reader) {
            TableLookup::Rule { rule, .. } if rule.cfa == FrameRule::JUST_CALLED.cfa => {}
            _ => return None,
        }
        let bias = image.bias;
        let mut read = |address: u64, buffer: &mut [u8]| image.read(address.wrapping_sub(bias), buffer);
        code_path::frame_size_from_start(&mut read, function, ip)
    }

    /// Returns how a walk ends that needs a word which was not copied. The map may be older than
    /// the thread.
    fn missing_stack(&mut self, address: u64, stack: &StackCopy) -> WalkEnd {
        let behind = stack.first_piece().and_then(|(_, end)| address.checked_sub(end.saturating_sub(7)));
        match behind {
            Some(0..MAX_STACK) if !self.code.is_readable(address) => {
                self.wants_maps = true;
                WalkEnd::Truncated
            }
            Some(0..LARGE_FRAME) => WalkEnd::WantsMoreStack,
            Some(LARGE_FRAME..MAX_STACK) => WalkEnd::WantsStackAt(address),
            _ => WalkEnd::Truncated,
        }
    }

    /// Looks up the code at an address; `None` if there is none. `registers` and `stack` are those
    /// of the frame.
    fn rule(&mut self, address: FrameAddress, registers: &ThreadRegisters, stack: &StackCopy) -> Option<CodeRule> {
        if let Some(&rule) = self.rules.get(&address.pack()) {
            return Some(rule);
        }
        if !self.code.is_executable(address.lookup()) {
            self.wants_maps = true;
            return None;
        }
        let (rule, is_lasting) = self.find_rule(address, registers, stack);
        if is_lasting {
            if self.rules.len() == MAX_RULES {
                self.rules.clear();
            }
            self.rules.insert(address.pack(), rule);
        }
        Some(rule)
    }

    /// Finds the rule of an address, and whether it holds for all frames there.
    fn find_rule(&mut self, address: FrameAddress, registers: &ThreadRegisters, stack: &StackCopy) -> (CodeRule, bool) {
        let ip = registers.ip;
        let is_leaf = matches!(address, FrameAddress::Instruction(_));
        let mut code = [0; SIGNAL_RETURN_LENGTH];
        let length = self.read_code(ip, &mut code);
        if is_signal_return(&code[..length]) {
            return (CodeRule::SignalReturn, true);
        }
        let is_after_call = is_leaf || self.call_before(ip).is_some();
        let has_module = match self.code.find(address.lookup()) {
            Some(ModuleCode { image, tables }) => {
                let bias = image.bias;
                let mut find = |address: u64| tables.find(image, address.wrapping_sub(bias), &mut self.reader);
                let first = ip.wrapping_sub(bias);
                if !is_after_call && matches!(find(ip), TableLookup::Rule { function, .. } if function == first) {
                    return (CodeRule::Entry, true);
                }
                match find(address.lookup()) {
                    // Nothing returns to such an address, unless the outermost frame was made so.
                    TableLookup::Rule { rule, .. } if !is_after_call => {
                        let is_outermost = rule.apply(registers, stack, &self.reader.expressions) == Stepped::Root;
                        let rule = CodeRule::Rule { rule, function: None };
                        return (if is_outermost { rule } else { CodeRule::NotCalled }, false);
                    }
                    TableLookup::Missing if !is_after_call => return (CodeRule::NotCalled, true),
                    TableLookup::Rule { rule, function } => {
                        return (CodeRule::Rule { rule, function: Some(function.wrapping_add(bias)) }, true);
                    }
                    TableLookup::Broken => return (CodeRule::Broken, true),
                    TableLookup::Missing => {}
                }
                true
            }
            None => false,
        };
        // A process that has ended has no code any more, which alone could tell.
        if !has_module && length == 0 && self.leaves_generated_code(registers, stack) {
            return (CodeRule::Broken, false);
        }
        // Most compilers of callers that were made at run time keep a frame pointer, and such code
        // changes. A frame pointer that leads out of it may be that of its caller, and one that is
        // zero may be no frame pointer.
        if is_leaf || has_module || self.leaves_generated_code(registers, stack) {
            let limit = if has_module { MAX_INSTRUCTIONS } else { MAX_INSTRUCTIONS_ONCE };
            match self.rule_from_code(ip, limit, registers, stack) {
                CodePath::Returns(rule) => return (CodeRule::Rule { rule, function: None }, has_module),
                CodePath::Ends if !is_leaf => return (CodeRule::LastCode, true),
                CodePath::Ends | CodePath::Unknown => {}
            }
        }
        if is_leaf && self.call_behind(&FrameRule::JUST_CALLED, registers, stack).is_some() {
            return (CodeRule::Rule { rule: FrameRule::JUST_CALLED, function: None }, false);
        }
        (CodeRule::Unknown, !is_leaf)
    }

    /// Returns whether the frame pointer leads into a file, or is zero.
    fn leaves_generated_code(&mut self, registers: &ThreadRegisters, stack: &StackCopy) -> bool {
        match by_frame_pointer(registers, stack) {
            Stepped::Caller(caller) => self.code.find(caller.ip.wrapping_sub(1)).is_some(),
            Stepped::Root => true,
            Stepped::Failed(_) => false,
        }
    }

    fn rule_from_code(&mut self, ip: u64, limit: usize, registers: &ThreadRegisters, stack: &StackCopy) -> CodePath {
        let this = std::cell::RefCell::new(self);
        let mut read = |address: u64, buffer: &mut [u8]| this.borrow_mut().read_code(address, buffer);
        let mut accept = |rule: &FrameRule| this.borrow_mut().call_behind(rule, registers, stack).is_some();
        code_path::rule_from_return(&mut read, ip, limit, &mut accept)
    }

    /// Returns the call behind which a rule leads, or by which a signal handler was called.
    fn call_behind(&mut self, rule: &FrameRule, registers: &ThreadRegisters, stack: &StackCopy) -> Option<CallBefore> {
        let Stepped::Caller(caller) = rule.apply(registers, stack, &self.reader.expressions) else { return None };
        if !is_above(&caller, registers, true) || !self.code.is_executable(caller.ip - 1) {
            return None;
        }
        self.call_before(caller.ip).or_else(|| {
            let mut code = [0; SIGNAL_RETURN_LENGTH];
            let length = self.read_code(caller.ip, &mut code);
            is_signal_return(&code[..length]).then_some(CallBefore::Indirect)
        })
    }

    /// Returns the call that precedes an address.
    fn call_before(&mut self, address: u64) -> Option<CallBefore> {
        let mut before = [0; LONGEST_CALL];
        let length = self.read_code(address.wrapping_sub(LONGEST_CALL as u64), &mut before);
        (length == LONGEST_CALL).then(|| call_before(&before, address)).flatten()
    }

    /// Copies code. Returns the number of bytes that could be read.
    fn read_code(&mut self, address: u64, buffer: &mut [u8]) -> usize {
        match self.code.find(address) {
            Some(ModuleCode { image, .. }) => image.read(address.wrapping_sub(image.bias), buffer),
            None => self.source.read_memory(address, buffer),
        }
    }
}

/// Returns the stack pointer of the code that a signal handler on an alternate stack interrupted,
/// if this is a copy of such a stack. It keeps no state and takes microseconds, because the thread
/// is stopped in the meantime.
pub(crate) fn interrupted_stack(stack: &StackCopy) -> Option<u64> {
    let (low, high) = stack.first_piece()?;
    crate::arch::interrupted_stack(low, stack.bytes(low, (high - low) as usize)?)
}
