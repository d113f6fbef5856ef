//! Finds the interpreter among the loaded modules. For the agent thread.

use crate::agent::interpreter::PUBLISHED;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::unwind::modules::Modules;
use crate::process::cpython::find::{DynamicSection, find};

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
            let unwind_index = image.unwind_index();
            let section = image.dynamic_section().map(|(start, size)| DynamicSection {
                bias: image.bias,
                start,
                size,
                unwind_index,
            });
            let Some((version, interpreter)) = section.and_then(|section| find(memory, section)) else { continue };
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
