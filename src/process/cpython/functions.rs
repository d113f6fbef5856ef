//! Numbers the functions whose frames were seen, and announces them.
//!
//! A sighting has the address of a code object, and this table reads its name up to a tenth of a
//! second later. The object may have been freed meanwhile, and another one may lie there. So the
//! sighting also has a hash of what the object held, and the table reads the object before and
//! after its name: if either differs, the frame is one of the function [`UNNAMED`].

use alloc::vec::Vec;

use super::frames::CPython;
use super::layout::CODE_BYTES;
use super::layout::LineFormat;
use super::memory::{TargetMemory, word};
use super::sighting::Sighting;
use crate::wire::interpreter::{FrameAccess, Interpreter, InterpreterFrame, InterpreterFunction, is_interpreted};
use crate::wire::{MAX_FRAMES, MAX_FUNCTION_NAME, MAX_LINE_TABLE, MAX_PATH};

/// Maximum number of code objects that are known at a time. Programs that make more functions than
/// this have frames without names.
const MAX_FUNCTIONS: usize = 65_536;
/// The name of functions that were freed before their names could be read.
const UNNAMED: &[u8] = b"[freed function]";
/// Offsets in a `str` and in a `bytes`, which are the same in every version.
const LENGTH: usize = 16;
const STRING_STATE: usize = 32;
const BYTES_START: u64 = 32;

/// The function at the address of a code object.
struct KnownFunction {
    code: u64,
    identity: u64,
    id: u32,
}

/// The functions of a connection.
pub(crate) struct FunctionTable<M> {
    memory: M,
    /// Sorted by address.
    known: Vec<KnownFunction>,
    next_id: u32,
    /// The id of the function [`UNNAMED`], if it was announced.
    unnamed_id: Option<u32>,
    /// Number of samples with frames of the interpreter, of those among them with a frame of
    /// [`UNNAMED`], and of samples whose frames could not be merged.
    merged: u64,
    unnamed: u64,
    unmerged: u64,
    /// The message that was sent last.
    sent: Option<Interpreter>,
}

impl<M: TargetMemory> FunctionTable<M> {
    /// Creates an empty table of the functions in some memory.
    pub(crate) fn new(memory: M) -> FunctionTable<M> {
        FunctionTable {
            memory,
            known: Vec::new(),
            next_id: 0,
            unnamed_id: None,
            merged: 0,
            unnamed: 0,
            unmerged: 0,
            sent: None,
        }
    }

    /// Returns the access to frames that was returned last.
    #[cfg(feature = "agent")]
    pub(crate) fn last_access(&self) -> Option<FrameAccess> {
        self.sent.map(|sent| sent.access)
    }

    /// Returns the interpreter with the present counters, if they differ from what was returned
    /// last.
    pub(crate) fn news(&mut self, (major, minor): (u8, u8), access: FrameAccess) -> Option<Interpreter> {
        let interpreter =
            Interpreter { major, minor, access, merged: self.merged, unnamed: self.unnamed, unmerged: self.unmerged };
        (self.sent.replace(interpreter) != Some(interpreter)).then_some(interpreter)
    }

    /// Replaces the sightings in a stack by frames of numbered functions. New functions are
    /// announced first; `announce` returns false if there was no room. If not even [`UNNAMED`] can
    /// be, the result is the native stack.
    pub(crate) fn name_frames<'a>(
        &mut self,
        cpython: Option<&CPython>,
        stack: &'a [u64],
        named: &'a mut [u64; MAX_FRAMES],
        announce: impl FnMut(&InterpreterFunction<&[u8]>) -> bool,
    ) -> &'a [u64] {
        if !stack.iter().any(|&frame| is_interpreted(frame)) {
            let has_loop = cpython.is_some_and(|cpython| stack.iter().any(|&frame| cpython.is_loop(frame)));
            self.unmerged += u64::from(has_loop);
            return stack;
        }
        let depth = match cpython.and_then(|cpython| self.replace_sightings(cpython, stack, named, announce)) {
            Some(depth) => {
                self.merged += 1;
                depth
            }
            None => {
                self.unmerged += 1;
                let native = stack.iter().filter(|&&frame| !is_interpreted(frame));
                native.zip(named.iter_mut()).map(|(&frame, place)| *place = frame).count()
            }
        };
        &named[..depth]
    }

    fn replace_sightings(
        &mut self,
        cpython: &CPython,
        stack: &[u64],
        named: &mut [u64; MAX_FRAMES],
        mut announce: impl FnMut(&InterpreterFunction<&[u8]>) -> bool,
    ) -> Option<usize> {
        let (mut rest, mut depth, mut is_named) = (stack, 0, true);
        while let Some((&first, others)) = rest.split_first() {
            let place = named.get_mut(depth)?;
            (*place, rest) = match Sighting::unpack(rest) {
                Some(sighting) => {
                    let function = match self.id_of(cpython, &sighting, &mut announce) {
                        Some(function) => function,
                        None => {
                            is_named = false;
                            self.id_of_unnamed(&mut announce)?
                        }
                    };
                    (InterpreterFrame { function, offset: sighting.offset }.pack(), &rest[2..])
                }
                None => (first, others),
            };
            depth += 1;
        }
        self.unnamed += u64::from(!is_named);
        Some(depth)
    }

    /// Returns the id of the function of a sighting, and announces it if it is new.
    fn id_of(
        &mut self,
        cpython: &CPython,
        sighting: &Sighting,
        announce: &mut impl FnMut(&InterpreterFunction<&[u8]>) -> bool,
    ) -> Option<u32> {
        let place = self.known.partition_point(|known| known.code < sighting.code);
        let known = self.known.get(place).filter(|known| known.code == sighting.code);
        if let Some(known) = known
            && known.identity == sighting.identity
        {
            return Some(known.id);
        }
        let is_new = known.is_none();
        if is_new && self.known.len() >= MAX_FUNCTIONS {
            return None;
        }
        let id = self.next_id;
        if !announce(&self.read_function(cpython, sighting, id)?.as_slices()) {
            return None;
        }
        self.next_id = id.checked_add(1)?;
        let function = KnownFunction { code: sighting.code, identity: sighting.identity, id };
        if is_new {
            self.known.insert(place, function);
        } else {
            self.known[place] = function;
        }
        Some(id)
    }

    /// Returns the id of [`UNNAMED`], and announces it if it is new.
    fn id_of_unnamed(&mut self, announce: &mut impl FnMut(&InterpreterFunction<&[u8]>) -> bool) -> Option<u32> {
        if self.unnamed_id.is_none() {
            let (id, line_format) = (self.next_id, LineFormat::Locations);
            let function =
                InterpreterFunction { id, first_line: 0, name: UNNAMED, file: &[], line_format, line_table: &[] };
            if !announce(&function) {
                return None;
            }
            self.next_id = id.checked_add(1)?;
            self.unnamed_id = Some(id);
        }
        self.unnamed_id
    }

    fn read_function(&self, cpython: &CPython, sighting: &Sighting, id: u32) -> Option<InterpreterFunction<Vec<u8>>> {
        let layout = &cpython.layout;
        let read_object = || {
            let mut object = [0; CODE_BYTES];
            self.memory.read(sighting.code, &mut object)?;
            (cpython.identity(&object)? == sighting.identity).then_some(object)
        };
        let object = read_object()?;
        let text = |offset: usize, limit: usize| self.read_text(cpython, word(&object, offset)?, limit);
        let function = InterpreterFunction {
            id,
            first_line: word(&object, layout.first_line)? as u32,
            name: text(layout.name, MAX_FUNCTION_NAME)?,
            file: text(layout.file_name, MAX_PATH)?,
            line_format: layout.line_format,
            line_table: self.read_bytes(word(&object, layout.line_table)?)?,
        };
        read_object()?;
        Some(function)
    }

    /// Reads a `str` as UTF-8, truncated to a limit.
    fn read_text(&self, cpython: &CPython, address: u64, limit: usize) -> Option<Vec<u8>> {
        let mut head = [0; STRING_STATE + 8];
        self.memory.read(address, &mut head)?;
        let (length, state) = (word(&head, LENGTH)?, word(&head, STRING_STATE)?);
        // Before the width, a count of 2 bits; from 3.14 on one of 16 bits, which is at most 3. A
        // width is never 0.
        let state = if state & 0xffff < 4 { state >> 16 } else { state >> 2 };
        let (width, is_compact, is_ascii) = ((state & 7) as usize, state >> 3 & 1 == 1, state >> 4 & 1 == 1);
        if !is_compact || !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let start = if is_ascii { cpython.layout.ascii } else { cpython.layout.characters };
        let count = usize::try_from(length).ok()?.min(limit);
        let mut bytes = alloc::vec![0; count * width];
        self.memory.read(address.checked_add(start as u64)?, &mut bytes)?;
        let mut text = Vec::with_capacity(count);
        for unit in bytes.chunks_exact(width) {
            let code = unit.iter().rev().fold(0u32, |code, &byte| code << 8 | u32::from(byte));
            let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            let mut encoded = [0; 4];
            let encoded = character.encode_utf8(&mut encoded).as_bytes();
            if text.len() + encoded.len() > limit {
                break;
            }
            text.extend_from_slice(encoded);
        }
        Some(text)
    }

    /// Reads a `bytes`, truncated to the limit of a line table.
    fn read_bytes(&self, address: u64) -> Option<Vec<u8>> {
        let mut head = [0; LENGTH + 8];
        self.memory.read(address, &mut head)?;
        let length = usize::try_from(word(&head, LENGTH)?).ok()?.min(MAX_LINE_TABLE);
        let mut bytes = alloc::vec![0; length];
        self.memory.read(address.checked_add(BYTES_START)?, &mut bytes)?;
        Some(bytes)
    }
}

impl InterpreterFunction<Vec<u8>> {
    /// The same function with borrowed texts.
    fn as_slices(&self) -> InterpreterFunction<&[u8]> {
        let InterpreterFunction { id, first_line, line_format, .. } = *self;
        let (name, file, line_table) = (&self.name[..], &self.file[..], &self.line_table[..]);
        InterpreterFunction { id, first_line, name, file, line_format, line_table }
    }
}
