//! Reads the frames of CPython's functions of one thread, innermost first.
//!
//! CPython links the frames of a thread into a list. The thread that is interrupted does not change
//! its own list meanwhile, but it may have been interrupted halfway through a change. So everything
//! that is read is checked: the thread's id, the type of every code object, and that the innermost
//! frame lies in the part of the stack of frames that is in use. What fails a check ends the
//! reading, and the sample keeps its native frames alone.
//!
//! All memory is read by process_vm_readv(2), which fails where a plain read would fault.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::agent::interpreter::layout::{CODE_BYTES, FRAME_BYTES, LoopEnd, StructLayout, THREAD_BYTES, TYPE};
use crate::agent::interpreter::sighting::{MAX_ADDRESS, Sighting, identity_of};
use crate::agent::os::syscall::{self, MAX_GATHERED};
use crate::link::wire::interpreter::UNKNOWN_OFFSET;

/// Maximum number of frames that are kept of one thread. The outermost of more are left out.
const MAX_FRAMES: usize = 192;
/// Maximum number of frames that are followed. CPython's own limit is 1000 unless a program raises
/// it.
const MAX_STEPS: usize = 4096;
/// Maximum number of interpreters, and of threads of each, among which a thread is searched.
const MAX_INTERPRETERS: usize = 16;
const MAX_THREADS: usize = 1024;
/// Number of bytes of frames that are read at a time. They lie side by side, callers first.
const WINDOW: usize = 2048;
const PAGE: u64 = 4096;
/// `FRAME_OWNED_BY_THREAD`: the frame lies on the thread's stack of frames.
const OWNED_BY_THREAD: u8 = 0;
/// `FRAME_OWNED_BY_CSTACK`: the frame has no function.
const OWNED_BY_C_STACK: u8 = 3;

/// The interpreter of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CPython {
    /// Address of `_PyRuntime`.
    pub(super) runtime: u64,
    /// Address of `PyCode_Type`.
    pub(super) code_type: u64,
    /// Address range of `_PyEval_EvalFrameDefault`, the interpreter's loop.
    pub(super) loop_start: u64,
    pub(super) loop_end: u64,
    pub(super) layout: StructLayout,
}

/// The frames of a thread by the calls of the interpreter's loop that evaluate them.
pub(super) struct FrameList {
    /// Frames, innermost first. `None` ends the frames of one call of the loop.
    frames: [Option<Sighting>; MAX_FRAMES],
    length: usize,
    /// Number of calls of the loop.
    pub(super) loops: usize,
    /// Whether there are more frames than are kept.
    pub(super) is_cut: bool,
}

impl FrameList {
    pub(super) fn new() -> FrameList {
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
    /// Reads the frames of a thread. Returns `None` if it has none, or if a check fails.
    pub(super) fn read_frames(&self, tid: u32, list: &mut FrameList) -> Option<()> {
        let layout = &self.layout;
        let mut state = [0; THREAD_BYTES];
        read(self.find_thread(tid)?, &mut state)?;
        let innermost = word(&state, layout.innermost)?;
        let mut frame = match layout.in_cframe {
            Some(offset) => read_word(innermost.checked_add(offset as u64)?)?,
            None => innermost,
        };
        let in_use = word(&state, layout.stack_chunk)?..word(&state, layout.stack_chunk + 8)?;
        let mut window = FrameWindow { start: 0, length: 0, bytes: [0; WINDOW] };
        let mut has_ended = true;
        for step in 0..MAX_STEPS {
            if frame == 0 {
                return (has_ended && list.loops > 0).then(|| self.identify(list))?;
            }
            let bytes = window.read(frame)?;
            let owner = *bytes.get(layout.owner)?;
            if step == 0 && owner == OWNED_BY_THREAD && !in_use.contains(&frame) {
                return None;
            }
            let is_shim = layout.loop_end == LoopEnd::Shim && owner == OWNED_BY_C_STACK;
            if !is_shim {
                let code = word(bytes, layout.code)?;
                if code == 0 || code % 8 != 0 || code >= MAX_ADDRESS {
                    return None;
                }
                let distance = word(bytes, layout.instruction)?.wrapping_sub(code + layout.instructions as u64) / 2;
                let offset = u32::try_from(distance).unwrap_or(UNKNOWN_OFFSET);
                list.push(Sighting { code, offset, identity: 0 });
            }
            has_ended = match layout.loop_end {
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

    /// Reads the identity of every code object of a list. Returns `None` if one of them is none.
    fn identify(&self, list: &mut FrameList) -> Option<()> {
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
            if !syscall::gather_own_memory(&addresses[..count], &mut objects[..count * CODE_BYTES]) {
                return None;
            }
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
        let fields = [layout.file_name, layout.qualified_name, layout.line_table];
        let [file, name, lines] = fields.map(|offset| word(object, offset).unwrap_or_default());
        Some(identity_of(&[file, name, lines, word(object, layout.first_line)? & u64::from(u32::MAX)]))
    }

    /// Returns the address of a thread's state.
    fn find_thread(&self, tid: u32) -> Option<u64> {
        let layout = &self.layout;
        let id_at = layout.native_thread_id as u64;
        let is_of = |state: u64| Some(read_word(state.checked_add(id_at)?)? == u64::from(tid));
        let cached = &THREADS[tid as usize % THREADS.len()];
        let state = cached.load(Ordering::Relaxed);
        if state != 0 && is_of(state) == Some(true) {
            return Some(state);
        }
        let mut interpreter = read_word(self.runtime.checked_add(layout.first_interpreter as u64)?)?;
        for _ in 0..MAX_INTERPRETERS {
            if interpreter == 0 {
                return None;
            }
            let mut state = read_word(interpreter.checked_add(layout.first_thread as u64)?)?;
            for _ in 0..MAX_THREADS {
                if state == 0 {
                    break;
                }
                if is_of(state)? {
                    cached.store(state, Ordering::Relaxed);
                    return Some(state);
                }
                state = read_word(state.checked_add(layout.next_thread as u64)?)?;
            }
            interpreter = read_word(interpreter.checked_add(layout.next_interpreter as u64)?)?;
        }
        None
    }
}

/// Addresses of thread states by thread id. An address is used only if the state still has the id.
/// Handlers read and write it.
static THREADS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The part of the memory with frames that was read last.
struct FrameWindow {
    start: u64,
    length: usize,
    bytes: [u8; WINDOW],
}

impl FrameWindow {
    /// Returns the bytes of the frame at an address.
    fn read(&mut self, frame: u64) -> Option<&[u8]> {
        let end = frame.checked_add(FRAME_BYTES as u64)?;
        if frame < self.start || end > self.start + self.length as u64 {
            // The callers' frames lie before this one, and the start of its page is mapped, too.
            let start = (frame & !(PAGE - 1)).max(end.saturating_sub(WINDOW as u64));
            let length = (end - start) as usize;
            self.length = 0;
            read(start, self.bytes.get_mut(..length)?)?;
            (self.start, self.length) = (start, length);
        }
        let at = (frame - self.start) as usize;
        self.bytes.get(at..at + FRAME_BYTES)
    }
}

fn read(address: u64, bytes: &mut [u8]) -> Option<()> {
    syscall::read_own_memory(address, bytes).then_some(())
}

fn read_word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(address, &mut bytes)?;
    Some(u64::from_le_bytes(bytes))
}

/// Returns the word at an offset.
pub(super) fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}
