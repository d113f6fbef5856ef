//! The code that a process had mapped at one time of the recording.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::code_files::CodeFiles;
use crate::sampler::maps::ProcessMaps;
use crate::sampler::unwind::{ProcessModule, ProcessUnwinder};

/// Maximum number of mappings of a process. Code of further ones has no file.
const MAX_MAPPINGS: usize = 1 << 14;
/// Maximum number of modules that a process has had.
const MAX_MODULES: usize = 1 << 16;

/// A mapping with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeMapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    /// The number of the file; 0 if there is none.
    pub(super) file: u64,
    pub(super) is_vdso: bool,
}

/// The mappings of a process, without overlaps and sorted, and what is derived from them.
pub(super) struct AddressSpace {
    mappings: Vec<CodeMapping>,
    files: CodeFiles,
    unwinder: Option<ProcessUnwinder>,
    /// The modules, sorted, each with its id.
    modules: Vec<(u32, ProcessModule)>,
    ids: HashMap<ProcessModule, u32>,
    /// Whether the mappings have changed since the modules were found.
    is_stale: bool,
}

impl AddressSpace {
    pub(super) fn new(files: CodeFiles) -> AddressSpace {
        AddressSpace {
            mappings: Vec::new(),
            files,
            unwinder: None,
            modules: Vec::new(),
            ids: HashMap::new(),
            is_stale: false,
        }
    }

    /// Returns a copy with the same mappings and ids of modules, for one of several processes with
    /// this memory map.
    pub(super) fn fork(&self) -> AddressSpace {
        let (mappings, ids) = (self.mappings.clone(), self.ids.clone());
        AddressSpace { is_stale: !mappings.is_empty(), mappings, ids, ..AddressSpace::new(self.files.clone()) }
    }

    /// Adds a mapping, in place of what was there.
    pub(super) fn map(&mut self, added: CodeMapping) {
        if added.start >= added.end {
            return;
        }
        let first = self.mappings.partition_point(|mapping| mapping.end <= added.start);
        let last = self.mappings.partition_point(|mapping| mapping.start < added.end);
        let before = self.mappings[first..last].first().filter(|mapping| mapping.start < added.start);
        let before = before.map(|mapping| CodeMapping { end: added.start, ..*mapping });
        let behind = self.mappings[first..last].last().filter(|mapping| mapping.end > added.end);
        let behind = behind.map(|mapping| {
            let offset = mapping.offset.wrapping_add(added.end - mapping.start);
            CodeMapping { start: added.end, offset, ..*mapping }
        });
        if self.mappings.len() - (last - first) < MAX_MAPPINGS {
            self.mappings.splice(first..last, before.into_iter().chain([added]).chain(behind));
            self.is_stale = true;
        }
    }

    /// The file of the program: that of the first mapping of a file.
    pub(super) fn program(&self) -> Option<u64> {
        self.mappings.iter().find(|mapping| mapping.file != 0 && !mapping.is_vdso).map(|mapping| mapping.file)
    }

    /// Returns the module that contains an address, with its id.
    pub(super) fn find(&mut self, address: u64) -> Option<&(u32, ProcessModule)> {
        self.refresh();
        let next = self.modules.partition_point(|(_, module)| module.end <= address);
        self.modules.get(next).filter(|(_, module)| module.start <= address)
    }

    /// Returns the unwinder of the process, with these mappings.
    pub(super) fn unwinder(&mut self) -> &mut ProcessUnwinder {
        self.refresh();
        self.unwinder.get_or_insert_with(|| ProcessUnwinder::new(self.files.source()))
    }

    fn refresh(&mut self) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let mut text = String::new();
        for CodeMapping { start, end, offset, file, is_vdso } in &self.mappings {
            let path = if *is_vdso { "[vdso]" } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{start:x}-{end:x} r-xp {offset:x} 0:0 {file} {path}");
        }
        let unwinder = self.unwinder.get_or_insert_with(|| ProcessUnwinder::new(self.files.source()));
        let mut modules = unwinder.refresh(&ProcessMaps::new(text.into_bytes())).to_vec();
        let found = modules.clone();
        let is_found = |mapping: &&CodeMapping| {
            let next = found.partition_point(|module| module.end <= mapping.start);
            found.get(next).is_some_and(|module| module.start <= mapping.start)
        };
        // Of a file that is not here, the address of its code is taken to be the offset.
        modules.extend(self.mappings.iter().filter(|mapping| mapping.file != 0 && !is_found(mapping)).map(|mapping| {
            let &CodeMapping { start, end, offset, file, .. } = mapping;
            let bias = start.wrapping_sub(offset);
            ProcessModule { start, end, bias, device: 0, inode: file, path: Box::default(), build_id: Box::default() }
        }));
        modules.sort_by_key(|module| module.start);
        if self.ids.len() > MAX_MODULES {
            modules.retain(|module| self.ids.contains_key(module));
        }
        let ids = &mut self.ids;
        let with_id = |module: ProcessModule| {
            let next = ids.len() as u32;
            (*ids.entry(module.clone()).or_insert(next), module)
        };
        self.modules = modules.into_iter().map(with_id).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_mapping_replaces_what_was_there() {
        let mut space = AddressSpace::new(CodeFiles::default());
        let mapping = |start, end, offset, file| CodeMapping { start, end, offset, file, is_vdso: false };
        space.map(mapping(0x1000, 0x9000, 0, 1));
        space.map(mapping(0x3000, 0x4000, 0x100, 2));
        let expected =
            [mapping(0x1000, 0x3000, 0, 1), mapping(0x3000, 0x4000, 0x100, 2), mapping(0x4000, 0x9000, 0x3000, 1)];
        assert_eq!(space.mappings, expected);
        space.map(mapping(0x5000, 0x5000, 0, 3));
        assert_eq!((space.mappings.len(), space.program()), (3, Some(1)));
        let found =
            |space: &mut AddressSpace, address| space.find(address).map(|(_, module)| (module.inode, module.bias));
        assert_eq!(found(&mut space, 0x3010), Some((2, 0x2f00)));
        assert_eq!(found(&mut space, 0x4000), Some((1, 0x1000)));
        space.map(mapping(0, u64::MAX, 0, 4));
        assert_eq!((space.mappings.len(), found(&mut space, 0xa000)), (1, Some((4, 0))));
    }
}
