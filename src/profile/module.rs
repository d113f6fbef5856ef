//! Files that hold code, and where a process had them mapped. It does not open them; that is `symbols`'.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::link::wire;

/// Index into a [`ModuleTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A file with code, the same in every process that maps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModuleFile {
    /// As the target saw it; `[vdso]` for the vdso.
    pub path: PathBuf,
    /// GNU build id; empty when there is none.
    pub build_id: Box<[u8]>,
    /// Of the file.
    pub device: u64,
    /// Of the file.
    pub inode: u64,
}

impl ModuleFile {
    /// The last part of the path, for a row or a frame: `libc.so.6`.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Files kept, at most; the paths of hostile ones have 4 KiB each.
const MAX_FILES: usize = 16_384;
/// What stands for the files beyond that.
const OTHER_FILES: &str = "[other files]";

/// Every file seen in a session.
#[derive(Default)]
pub struct ModuleTable {
    files: Vec<ModuleFile>,
    /// A process that maps the file, to open it as that process sees it.
    seen_in: Vec<u32>,
    ids: HashMap<ModuleFile, ModuleId>,
    overflows: u64,
}

impl ModuleTable {
    /// The id of a file, new or known; `pid` maps it. When the table is full, new ones are all `[other files]`.
    pub fn id(&mut self, file: ModuleFile, pid: u32) -> ModuleId {
        let id = match self.ids.get(&file) {
            Some(&id) => id,
            None if self.files.len() < MAX_FILES => self.insert(file),
            None => {
                self.overflows += 1;
                let other = ModuleFile { path: OTHER_FILES.into(), build_id: [].into(), device: 0, inode: 0 };
                self.ids.get(&other).copied().unwrap_or_else(|| self.insert(other))
            }
        };
        if let Some(seen_in) = self.seen_in.get_mut(id.0 as usize) {
            *seen_in = pid;
        } else {
            self.seen_in.push(pid);
        }
        id
    }

    /// The id of a file that is known.
    pub fn find(&self, file: &ModuleFile) -> Option<ModuleId> {
        self.ids.get(file).copied()
    }

    fn insert(&mut self, file: ModuleFile) -> ModuleId {
        let id = ModuleId(self.files.len() as u32);
        self.files.push(file.clone());
        self.ids.insert(file, id);
        id
    }

    /// Every file.
    pub fn ids(&self) -> impl Iterator<Item = ModuleId> {
        (0..self.files.len() as u32).map(ModuleId)
    }

    /// How many mappings were of files that did not fit.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// The file behind an id.
    pub fn file(&self, id: ModuleId) -> &ModuleFile {
        &self.files[id.0 as usize]
    }

    /// The process that was last seen to map it (viewer's pid namespace).
    pub fn seen_in(&self, id: ModuleId) -> u32 {
        self.seen_in[id.0 as usize]
    }

    /// All files, by id.
    pub fn iter(&self) -> impl Iterator<Item = (ModuleId, &ModuleFile)> {
        self.files.iter().enumerate().map(|(index, file)| (ModuleId(index as u32), file))
    }
}

/// One file in the address space of one process, with its life: addresses are used again after dlclose.
#[derive(Clone, Debug)]
struct Mapping {
    wire_id: u32,
    module: ModuleId,
    start: u64,
    end: u64,
    bias: u64,
    loaded_at: u32,
    unloaded_at: Option<u32>,
}

/// Mappings of one process image, most recent last.
#[derive(Default)]
pub struct Mappings {
    mappings: Vec<Mapping>,
    unloaded: usize,
}

/// Mappings kept for one image; a target that loads more is resolved without the oldest.
const MAX_MAPPINGS: usize = 16_384;
/// Of these, unloaded ones: samples that are under way when their module goes come within a drain of the ring, not after
/// so many other modules.
const MAX_UNLOADED: usize = 1024;

impl Mappings {
    /// A module was loaded.
    pub fn load(&mut self, said: &wire::Module<Box<[u8]>>, table: &mut ModuleTable, pid: u32) {
        let file = ModuleFile {
            path: Path::new(OsStr::from_bytes(&said.path)).to_path_buf(),
            build_id: said.build_id.clone(),
            device: said.device,
            inode: said.inode,
        };
        if self.mappings.len() == MAX_MAPPINGS {
            self.remove(0);
        }
        self.mappings.push(Mapping {
            wire_id: said.id,
            module: table.id(file, pid),
            start: said.start,
            end: said.end,
            bias: said.bias,
            loaded_at: said.generation,
            unloaded_at: None,
        });
    }

    /// A module was unloaded.
    pub fn unload(&mut self, said: &wire::Unload) {
        let living = |mapping: &&mut Mapping| mapping.wire_id == said.id && mapping.unloaded_at.is_none();
        if let Some(mapping) = self.mappings.iter_mut().rev().find(living) {
            mapping.unloaded_at = Some(said.generation);
            self.unloaded += 1;
        }
        if self.unloaded > MAX_UNLOADED
            && let Some(oldest) = self.mappings.iter().position(|mapping| mapping.unloaded_at.is_some())
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, index: usize) {
        let removed = self.mappings.remove(index);
        self.unloaded -= usize::from(removed.unloaded_at.is_some());
    }

    /// The file and the file's own address behind an address of the process in a module generation.
    pub fn find(&self, generation: u32, address: u64) -> Option<(ModuleId, u64)> {
        let lived = |mapping: &&Mapping| {
            (mapping.start..mapping.end).contains(&address)
                && mapping.loaded_at <= generation
                && mapping.unloaded_at.is_none_or(|unloaded| generation < unloaded)
        };
        let mapping = self.mappings.iter().rev().find(lived)?;
        Some((mapping.module, address.wrapping_sub(mapping.bias)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(id: u32, generation: u32, start: u64, path: &str) -> wire::Module<Box<[u8]>> {
        let (path, build_id) = (path.as_bytes().into(), [].into());
        wire::Module { id, generation, start, end: start + 0x1000, bias: start, device: 1, inode: 1, path, build_id }
    }

    #[test]
    fn an_address_is_whose_it_was_in_its_generation() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&said(1, 1, 0x1000, "/a.so"), &mut table, 7);
        mappings.unload(&wire::Unload { id: 1, generation: 3 });
        mappings.load(&said(2, 4, 0x1000, "/b.so"), &mut table, 7);
        let names = [0, 1, 2, 3, 4, 9].map(|generation| {
            mappings.find(generation, 0x1234).map(|(module, address)| (table.file(module).name(), address))
        });
        let [a, b] = ["a.so", "b.so"].map(|name| Some((name.to_owned(), 0x234)));
        assert_eq!(names, [None, a.clone(), a, None, b.clone(), b]);
        assert_eq!([0xfff, 0x2000].map(|address| mappings.find(1, address)), [None, None]);
    }

    #[test]
    fn the_younger_of_two_at_one_address_is_meant() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&said(1, 1, 0x1000, "/a.so"), &mut table, 7);
        mappings.load(&said(2, 2, 0x1000, "/b.so"), &mut table, 7);
        assert_eq!(mappings.find(2, 0x1000).map(|(module, _)| module), Some(ModuleId(1)));
        assert_eq!(mappings.find(1, 0x1000).map(|(module, _)| module), Some(ModuleId(0)));
    }

    #[test]
    fn one_file_in_two_processes_is_one_module_last_seen_in_the_second() {
        let mut table = ModuleTable::default();
        for pid in [7, 8] {
            Mappings::default().load(&said(pid, 1, 0x1000, "/a.so"), &mut table, pid);
        }
        assert_eq!((table.iter().count(), table.seen_in(ModuleId(0))), (1, 8));
    }

    #[test]
    fn unloaded_mappings_are_forgotten_in_the_end_and_living_ones_are_not() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&said(0, 0, 0x1000, "/stays.so"), &mut table, 7);
        for id in 1..3000u32 {
            mappings.load(&said(id, 2 * id, 0x8000, "/goes.so"), &mut table, 7);
            mappings.unload(&wire::Unload { id, generation: 2 * id + 1 });
        }
        assert_eq!(mappings.mappings.len(), MAX_UNLOADED + 1);
        assert!(mappings.find(6000, 0x1000).is_some());
        assert!(mappings.find(2 * 2999, 0x8000).is_some() && mappings.find(2, 0x8000).is_none());
    }

    #[test]
    fn limits_hold() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        for id in 0..MAX_MAPPINGS as u32 + 10 {
            mappings.load(&said(id, 0, 0x1000 * u64::from(id), &format!("/{id}.so")), &mut table, 7);
        }
        assert_eq!(
            (mappings.mappings.len(), table.iter().count(), table.overflows()),
            (MAX_MAPPINGS, MAX_FILES + 1, 10)
        );
        let (last, _) = mappings.find(0, 0x1000 * (MAX_MAPPINGS as u64 + 9)).unwrap();
        assert_eq!(table.file(last).name(), OTHER_FILES);
    }
}
