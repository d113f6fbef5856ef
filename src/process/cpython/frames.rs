//! Reads the frames of CPython's functions of one thread, innermost first.
//!
//! CPython links the frames of a thread into a list. The thread that stands still does not change
//! its own list meanwhile, but it may have been interrupted halfway through a change. So everything
//! that is read is checked: that the state is the thread's own, the type of every code object, and
//! that the innermost frame lies in the part of the stack of frames that is in use. What fails a
//! check ends the reading, and the sample keeps its native frames alone.

use super::layout::{
    CODE_BYTES, FRAME_BYTES, InstructionField, LoopEnd, StructLayout, THREAD_BYTES, TYPE, ThreadField,
};
use super::memory::{MAX_GATHERED, TargetMemory, half, word};
use super::sighting::{MAX_ADDRESS, Sighting, identity_of};
use crate::wire::FrameAddress;
use crate::wire::interpreter::UNKNOWN_OFFSET;

/// Maximum number of frames that are kept of one thread. The outermost of more are left out.
const MAX_FRAMES: usize = 192;
/// Maximum number of frames that are followed. CPython's own limit is 1000 unless a program raises
/// it.
const MAX_STEPS: usize = 4096;
/// Maximum number of interpreters, and of threads of each, among which a thread is searched.
const MAX_INTERPRETERS: usize = 16;
const MAX_THREADS: usize = 1024;
/// Maximum number of interpreters whose code a thread runs at a time.
const MAX_STATES: usize = 8;
/// Number of bytes of frames that are read at a time. From 3.11 on they lie side by side, callers
/// first.
const WINDOW: usize = 2048;
const PAGE: u64 = 4096;
/// `FRAME_OWNED_BY_THREAD`: the frame lies on the thread's stack of frames.
const OWNED_BY_THREAD: u8 = 0;
/// `FRAME_OWNED_BY_CSTACK`, and from 3.14 on `FRAME_OWNED_BY_INTERPRETER`: it has no function.
const OWNED_BY_C_STACK: u8 = 3;

/// The interpreter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CPython {
    /// Address of `_PyRuntime`.
    pub(super) runtime: u64,
    /// Address of `PyCode_Type`.
    pub(super) code_type: u64,
    /// Address of `PyFrame_Type`, if frames are objects (up to 3.10).
    pub(super) frame_type: Option<u64>,
    /// Address range of `_PyEval_EvalFrameDefault`, the interpreter's loop.
    pub(super) loop_start: u64,
    pub(super) loop_end: u64,
    /// Address range of its second part, if the compiler has split it; otherwise empty.
    pub(super) rest_start: u64,
    pub(super) rest_end: u64,
    pub(super) layout: StructLayout,
}

/// The frames of a thread by the calls of the interpreter's loop that evaluate them.
#[derive(Debug)]
pub(crate) struct FrameList {
    /// Frames, innermost first. `None` ends the frames of one call of the loop.
    frames: [Option<Sighting>; MAX_FRAMES],
    length: usize,
    /// Number of calls of the loop.
    pub(super) loops: usize,
    /// Whether there are more frames than are kept.
    pub(super) is_cut: bool,
}

impl FrameList {
    pub(crate) fn new() -> FrameList {
        FrameList { frames: [None; MAX_FRAMES], length: 0, loops: 0, is_cut: false }
    }

    /// The frames that are kept, with `None` at the end of each call of the loop.
    pub(super) fn frames(&self) -> &[Option<Sighting>] {
        &self.frames[..self.length]
    }

    /// Adds a frame.
    pub(super) fn push(&mut self, frame: Sighting) {
        self.append(Some(frame));
    }

    /// Ends the frames of a call of the loop.
    pub(super) fn end_loop(&mut self) {
        self.loops += 1;
        self.append(None);
    }

    fn append(&mut self, frame: Option<Sighting>) {
        match self.frames.get_mut(self.length) {
            Some(free) => {
                *free = frame;
                self.length += 1;
            }
            None => self.is_cut = true,
        }
    }
}

impl CPython {
    /// Returns whether a native frame is the interpreter's loop.
    pub(crate) fn is_loop(&self, frame: u64) -> bool {
        self.loop_offset(frame).is_some()
    }

    /// Returns how far a native frame is behind the start of the interpreter's loop; `None` if it
    /// is another function's. The second part of the loop is behind everything.
    pub(crate) fn loop_offset(&self, frame: u64) -> Option<u64> {
        let address = FrameAddress::unpack(frame).lookup();
        match () {
            () if (self.loop_start..self.loop_end).contains(&address) => Some(address - self.loop_start),
            () if (self.rest_start..self.rest_end).contains(&address) => Some(u64::MAX),
            () => None,
        }
    }

    /// Reads the frames of a thread, which stands still. `state` is the address at which its state
    /// was found the last time, or 0; it is used if the state is still the thread's, and else
    /// updated. Returns `None` if the thread has no frames, or if a check fails.
    pub(crate) fn read_frames(
        &self,
        memory: &impl TargetMemory,
        tid: u32,
        state: &mut u64,
        list: &mut FrameList,
    ) -> Option<()> {
        let mut bytes = [0; THREAD_BYTES];
        if !self.has_one_interpreter(memory)? {
            let mut states = [(0, 0); MAX_STATES];
            let count = self.find_states(memory, tid, &mut states)?;
            states[..count].sort_unstable();
            for &(_, state) in &states[..count] {
                memory.read(state, &mut bytes)?;
                self.read_chain(memory, &bytes, list)?;
            }
        } else {
            let is_known = *state != 0 && memory.read(*state, &mut bytes).is_some() && self.is_of(memory, &bytes, tid);
            if !is_known {
                *state = self.find_thread(memory, tid, &mut bytes)?;
            }
            self.read_chain(memory, &bytes, list)?;
        }
        (list.loops > 0).then(|| self.identify(memory, list))?
    }

    /// Returns the address of a state's innermost frame; 0 if it has none.
    fn innermost(&self, memory: &impl TargetMemory, state: &[u8]) -> Option<u64> {
        let innermost = word(state, self.layout.innermost)?;
        match self.layout.in_cframe {
            Some(offset) if innermost != 0 => memory.word(innermost.checked_add(offset as u64)?),
            _ => Some(innermost),
        }
    }

    /// Appends the frames of a state to a list.
    fn read_chain(&self, memory: &impl TargetMemory, bytes: &[u8; THREAD_BYTES], list: &mut FrameList) -> Option<()> {
        let layout = &self.layout;
        let mut frame = self.innermost(memory, bytes)?;
        let in_use = match layout.stack_chunk {
            Some(chunk) => word(bytes, chunk)?..word(bytes, chunk + 8)?,
            None => 0..u64::MAX,
        };
        // From 3.15 on the list ends with a frame of no function.
        let last = match layout.base_frame {
            Some(field) => word(bytes, field)?,
            None => 0,
        };
        let mut window = FrameWindow { start: 0, length: 0, bytes: [0; WINDOW] };
        let mut has_ended = true;
        for step in 0..MAX_STEPS {
            if frame == 0 || frame == last {
                return has_ended.then_some(());
            }
            let bytes = window.read(memory, frame, layout.frame_bytes)?;
            if self.frame_type.is_some_and(|frame_type| word(bytes, TYPE) != Some(frame_type)) {
                return None;
            }
            let owner = layout.owner.map(|owner| bytes.get(owner).copied().unwrap_or(u8::MAX));
            if step == 0 && owner == Some(OWNED_BY_THREAD) && !in_use.contains(&frame) {
                return None;
            }
            let is_shim = layout.loop_end == LoopEnd::Shim && owner == Some(OWNED_BY_C_STACK);
            if !is_shim {
                let code = word(bytes, layout.code)? & !layout.code_tag;
                if code == 0 || !code.is_multiple_of(8) || code >= MAX_ADDRESS {
                    return None;
                }
                list.push(Sighting { code, offset: self.instruction(bytes, code)?, identity: 0 });
            }
            has_ended = match layout.loop_end {
                LoopEnd::EachFrame => true,
                LoopEnd::Flag(offset) => *bytes.get(offset)? & 1 == 1,
                LoopEnd::Shim => is_shim,
            };
            if has_ended {
                list.end_loop();
            }
            frame = word(bytes, layout.previous)?;
        }
        None
    }

    /// Returns the offset of a frame's instruction in code units.
    fn instruction(&self, frame: &[u8], code: u64) -> Option<u32> {
        Some(match self.layout.instruction {
            InstructionField::Address { field, units } => {
                let distance = word(frame, field)?.wrapping_sub(code.wrapping_add(units as u64)) / 2;
                u32::try_from(distance).unwrap_or(UNKNOWN_OFFSET)
            }
            // A frame that has not begun has the index -1.
            InstructionField::Index(field) => half(frame, field)?,
            InstructionField::Bytes(field) => half(frame, field)? / 2,
        })
    }

    /// Reads the identity of every code object of a list. Returns `None` if one of them is none.
    fn identify(&self, memory: &impl TargetMemory, list: &mut FrameList) -> Option<()> {
        let mut kept = list.frames[..list.length].iter_mut().flatten().peekable();
        while kept.peek().is_some() {
            let mut addresses = [0; MAX_GATHERED];
            let mut objects = [0; MAX_GATHERED * CODE_BYTES];
            let mut batch: [Option<&mut Sighting>; MAX_GATHERED] = [const { None }; MAX_GATHERED];
            let mut count = 0;
            for (place, sighting) in batch.iter_mut().zip(kept.by_ref()) {
                addresses[count] = sighting.code;
                *place = Some(sighting);
                count += 1;
            }
            memory.gather(&addresses[..count], &mut objects[..count * CODE_BYTES])?;
            for (sighting, object) in batch.into_iter().flatten().zip(objects.chunks_exact(CODE_BYTES)) {
                sighting.identity = self.identity(object)?;
            }
        }
        Some(())
    }

    /// Returns the identity of a code object with these first bytes; `None` if it is none.
    pub(super) fn identity(&self, object: &[u8]) -> Option<u64> {
        let layout = &self.layout;
        if word(object, TYPE)? != self.code_type {
            return None;
        }
        let fields = [layout.file_name, layout.name, layout.line_table];
        let [file, name, lines] = fields.map(|offset| word(object, offset).unwrap_or_default());
        Some(identity_of(&[file, name, lines, u64::from(half(object, layout.first_line)?)]))
    }

    /// Returns whether the process has no subinterpreters. The newest interpreter and the main one
    /// are fields side by side.
    fn has_one_interpreter(&self, memory: &impl TargetMemory) -> Option<bool> {
        let mut bytes = [0; 16];
        memory.read(self.runtime.checked_add(self.layout.first_interpreter as u64)?, &mut bytes)?;
        Some(word(&bytes, 0)? == word(&bytes, 8)?)
    }

    /// Finds the states of a thread that have frames: a thread has one in each interpreter that it
    /// has entered. Each has a number that is less for inner ones. Returns how many there are;
    /// `None` if their order is not known.
    fn find_states(
        &self,
        memory: &impl TargetMemory,
        tid: u32,
        states: &mut [(u64, u64); MAX_STATES],
    ) -> Option<usize> {
        let (mut bytes, mut count) = ([0; THREAD_BYTES], 0);
        self.visit_states(memory, &mut bytes, |state, bytes| {
            if !self.is_of(memory, bytes, tid) || self.innermost(memory, bytes)? == 0 {
                return Some(false);
            }
            // The words of C frames are on the thread's stack, which grows downwards.
            *states.get_mut(count)? = (word(bytes, self.layout.innermost)?, state);
            count += 1;
            Some(false)
        })?;
        (count == 1 || self.layout.in_cframe.is_some()).then_some(count)
    }

    /// Returns the address of a thread's state, and reads the state.
    fn find_thread(&self, memory: &impl TargetMemory, tid: u32, bytes: &mut [u8; THREAD_BYTES]) -> Option<u64> {
        self.visit_states(memory, bytes, |_, bytes| Some(self.is_of(memory, bytes, tid)))?
    }

    /// Reads the states of all threads in all interpreters, until `visit` returns true, and returns
    /// that one. The outer `None` is a failed check.
    #[allow(clippy::option_option, reason = "no such state is not an error")]
    fn visit_states(
        &self,
        memory: &impl TargetMemory,
        bytes: &mut [u8; THREAD_BYTES],
        mut visit: impl FnMut(u64, &[u8; THREAD_BYTES]) -> Option<bool>,
    ) -> Option<Option<u64>> {
        let layout = &self.layout;
        let mut interpreter = memory.word(self.runtime.checked_add(layout.first_interpreter as u64)?)?;
        for _ in 0..MAX_INTERPRETERS {
            if interpreter == 0 {
                return Some(None);
            }
            let mut state = memory.word(interpreter.checked_add(layout.first_thread as u64)?)?;
            for _ in 0..MAX_THREADS {
                if state == 0 {
                    break;
                }
                memory.read(state, bytes)?;
                if visit(state, bytes)? {
                    return Some(Some(state));
                }
                state = word(bytes, layout.next_thread)?;
            }
            interpreter = memory.word(interpreter.checked_add(layout.next_interpreter as u64)?)?;
        }
        Some(None)
    }

    /// Returns whether a state is that of a thread.
    fn is_of(&self, memory: &impl TargetMemory, state: &[u8], tid: u32) -> bool {
        match self.layout.thread {
            ThreadField::KernelId(field) => word(state, field) == Some(u64::from(tid)),
            ThreadField::Descriptor(field) => {
                word(state, field).is_some_and(|descriptor| is_described(memory, descriptor, tid) == Some(true))
            }
        }
    }
}

/// Returns whether the C library's descriptor of a thread (`struct pthread`, what `pthread_self`
/// returns) is that of a thread with this id. It begins with its own address; the id lies at an
/// offset that glibc and musl have kept through all versions for this architecture.
fn is_described(memory: &impl TargetMemory, descriptor: u64, tid: u32) -> Option<bool> {
    const GLIBC_TID: u64 = 0x2d0;
    const MUSL_TID: u64 = 0x30;
    if memory.word(descriptor)? != descriptor {
        return None;
    }
    let has_id = |offset: u64| memory.half(descriptor.checked_add(offset)?).map(|id| id == tid);
    Some(has_id(GLIBC_TID).unwrap_or(false) || has_id(MUSL_TID)?)
}

/// The part of the memory with frames that was read last.
struct FrameWindow {
    start: u64,
    length: usize,
    bytes: [u8; WINDOW],
}

impl FrameWindow {
    /// Returns the bytes of the frame at an address, as many as `size`.
    fn read(&mut self, memory: &impl TargetMemory, frame: u64, size: usize) -> Option<&[u8]> {
        let size = size.min(FRAME_BYTES);
        let end = frame.checked_add(size as u64)?;
        if frame < self.start || end > self.start + self.length as u64 {
            // The callers' frames lie before this one, and the start of its page is mapped, too.
            let start = (frame & !(PAGE - 1)).max(end.saturating_sub(WINDOW as u64));
            let length = (end - start) as usize;
            self.length = 0;
            memory.read(start, self.bytes.get_mut(..length)?)?;
            (self.start, self.length) = (start, length);
        }
        let at = (frame - self.start) as usize;
        self.bytes.get(at..at + size)
    }
}
