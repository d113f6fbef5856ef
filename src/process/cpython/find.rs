//! Finds the interpreter of a mapped file by its exported symbols.

use super::debug_offsets;
pub(crate) use super::dynamic_symbols::DynamicSection;
use super::dynamic_symbols::{DynamicSymbol, DynamicSymbols};
use super::frames::CPython;
use super::layout::{LoopEnd, StructLayout};
use super::memory::TargetMemory;
use super::split_function;

/// Functions that versions of CPython before 3.11 have added, by the minor version. Later ones tell
/// their version.
const ADDED: [(u8, &[u8]); 3] = [(10, b"PyModule_AddObjectRef"), (9, b"PyFrame_GetBack"), (8, b"PyVectorcall_Call")];

/// Returns the major and minor version of the interpreter in a file, and the interpreter if its
/// layout is known. Files without an interpreter are recognized by one lookup.
pub(crate) fn find(memory: &impl TargetMemory, section: DynamicSection) -> Option<((u8, u8), Option<CPython>)> {
    let symbols = DynamicSymbols::of(memory, section)?;
    let DynamicSymbol { address: loop_start, size } = symbols.find(b"_PyEval_EvalFrameDefault")?;
    let runtime = symbols.find(b"_PyRuntime")?.address;
    let code_type = symbols.find(b"PyCode_Type")?.address;
    let published = symbols.find(b"Py_Version").and_then(|symbol| memory.half(symbol.address));
    let version = match published {
        Some(version) => ((version >> 24) as u8, (version >> 16) as u8),
        None => (3, ADDED.iter().find(|(_, name)| symbols.find(name).is_some()).map_or(0, |&(minor, _)| minor)),
    };
    let layout = StructLayout::of(version).or_else(|| debug_offsets::read(version, runtime, memory));
    let interpreter = layout.zip(loop_start.checked_add(size)).filter(|_| size > 0).and_then(|(layout, loop_end)| {
        let has_objects = layout.loop_end == LoopEnd::EachFrame;
        let frame_type = if has_objects { Some(symbols.find(b"PyFrame_Type")?.address) } else { None };
        let loop_rest = split_function::find_rest(memory, &(loop_start..loop_end), section.unwind_index);
        let (rest_start, rest_end) = (loop_rest.start, loop_rest.end);
        Some(CPython { runtime, code_type, frame_type, loop_start, loop_end, rest_start, rest_end, layout })
    });
    Some((version, interpreter))
}
