//! Finds the interpreter among the loaded modules. For the agent thread.

use crate::agent::interpreter::PUBLISHED;
use crate::agent::interpreter::cpython::CPython;
use crate::agent::interpreter::dynamic_symbols::{DynamicSymbol, DynamicSymbols};
use crate::agent::interpreter::layout::StructLayout;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::unwind::modules::Modules;
use crate::agent::unwind::tables::ElfImage;

/// An interpreter that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundInterpreter {
    /// Major and minor version.
    pub(crate) version: (u8, u8),
    /// Whether its frames can be read.
    pub(crate) is_readable: bool,
    /// The module that has it.
    module: u32,
}

/// Looks for the interpreter in each module once.
#[derive(Default)]
pub(crate) struct InterpreterFinder {
    /// Id of the next module to look at. Ids grow and are never reused.
    next_module: u32,
    found: Option<FoundInterpreter>,
}

impl InterpreterFinder {
    /// Looks at the modules that are new since the last call.
    pub(crate) fn update(&mut self, modules: &Modules) {
        if let Some(found) = self.found
            && !modules.images().any(|(id, _)| id == found.module)
        {
            PUBLISHED.withdraw();
            self.found = None;
        }
        let mut memory = None;
        let first = self.next_module;
        for (id, image) in modules.images().filter(|&(id, _)| id >= first) {
            self.next_module = self.next_module.max(id + 1);
            let memory = memory.get_or_insert_with(ProcessMemory::open);
            let Some((version, interpreter)) = find(memory, image) else { continue };
            if self.found.is_none() {
                self.found = Some(FoundInterpreter { version, is_readable: interpreter.is_some(), module: id });
            }
            if let Some(interpreter) = interpreter {
                PUBLISHED.publish(interpreter);
            }
        }
    }

    /// The interpreter of the process.
    pub(crate) fn found(&self) -> Option<FoundInterpreter> {
        self.found
    }
}

/// Returns the version of the interpreter in a file, and the interpreter if its layout is known.
/// Files without an interpreter are recognized by one lookup.
fn find(memory: &ProcessMemory, image: &ElfImage) -> Option<((u8, u8), Option<CPython>)> {
    let symbols = DynamicSymbols::of(memory, image)?;
    let DynamicSymbol { address: loop_start, size } = symbols.find(b"_PyEval_EvalFrameDefault")?;
    let runtime = symbols.find(b"_PyRuntime")?.address;
    let code_type = symbols.find(b"PyCode_Type")?.address;
    // From 3.11 on; earlier versions are not read.
    let mut number = [0; 4];
    let version = symbols.find(b"Py_Version").and_then(|symbol| memory.read(symbol.address, &mut number));
    let [_, _, minor, major] = number;
    let version = version.map_or((3, 0), |()| (major, minor));
    let layout = StructLayout::of(version, runtime, memory).filter(|_| size > 0);
    let interpreter =
        layout.map(|layout| CPython { runtime, code_type, loop_start, loop_end: loop_start + size, layout });
    Some((version, interpreter))
}
