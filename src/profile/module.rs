//! Files with code, and where each process has them mapped. Files are identified, not opened;
//! `symbols` reads them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::wire;

/// Index into a [`ModuleTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A file with code. Processes that map the same file share one entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModuleFile {
    /// The path as the target sees it, or `[vdso]`.
    pub path: PathBuf,
    /// The GNU build id, or no bytes if there is none.
    pub build_id: Box<[u8]>,
    /// Device number of the file.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
}

impl ModuleFile {
    /// The file name without its directory, such as `libc.so.6`.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Maximum number of files. The paths of hostile ones may have 4 KiB each.
const MAX_FILES: usize = 16_384;
/// The path that stands for files beyond [`MAX_FILES`].
const OTHER_FILES: &str = "[other files]";

/// Every file that was mapped in a session.
#[derive(Default)]
pub struct ModuleTable {
    files: Vec<ModuleFile>,
    /// The process that mapped each file last. The file is opened through its root directory.
    mapped_by: Vec<u32>,
    ids: HashMap<ModuleFile, ModuleId>,
    overflows: u64,
}

impl ModuleTable {
    /// Returns the id of a file that process `pid` maps, and adds the file if it is new. When the
    /// table is full, new files share the id of `[other files]`.
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
        if let Some(mapped_by) = self.mapped_by.get_mut(id.0 as usize) {
            *mapped_by = pid;
        } else {
            self.mapped_by.push(pid);
        }
        id
    }

    /// The id of a file, if the table has it.
    pub fn find(&self, file: &ModuleFile) -> Option<ModuleId> {
        self.ids.get(file).copied()
    }

    fn insert(&mut self, file: ModuleFile) -> ModuleId {
        let id = ModuleId(self.files.len() as u32);
        self.files.push(file.clone());
        self.ids.insert(file, id);
        id
    }

    /// The ids of all files.
    pub fn ids(&self) -> impl Iterator<Item = ModuleId> {
        (0..self.files.len() as u32).map(ModuleId)
    }

    /// Number of mappings of files that did not fit the table.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// The file with an id.
    pub fn file(&self, id: ModuleId) -> &ModuleFile {
        &self.files[id.0 as usize]
    }

    /// The process that mapped the file last, in the viewer's pid namespace.
    pub fn last_mapped_by(&self, id: ModuleId) -> u32 {
        self.mapped_by[id.0 as usize]
    }

    /// All files in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ModuleId, &ModuleFile)> {
        self.files.iter().enumerate().map(|(index, file)| (ModuleId(index as u32), file))
    }
}

/// One file in the address space of one process. Addresses may be reused after `dlclose`, so a
/// mapping is valid for a range of module generations.
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

/// The mappings of one process image, the newest last.
#[derive(Default)]
pub struct Mappings {
    mappings: Vec<Mapping>,
    unloaded: usize,
}

/// Maximum number of mappings of one image. Beyond it, the oldest is dropped.
const MAX_MAPPINGS: usize = 16_384;
/// Maximum number of unloaded mappings of one image. They are only needed for samples that were
/// taken before the unload and arrive with the next drain of the ring.
const MAX_UNLOADED: usize = 1024;

impl Mappings {
    /// Adds a mapping when a module was loaded.
    pub fn load(&mut self, module: &wire::Module<Box<[u8]>>, table: &mut ModuleTable, pid: u32) {
        let file = ModuleFile {
            path: Path::new(OsStr::from_bytes(&module.path)).to_path_buf(),
            build_id: module.build_id.clone(),
            device: module.device,
            inode: module.inode,
        };
        if self.mappings.len() == MAX_MAPPINGS {
            self.remove(0);
        }
        self.mappings.push(Mapping {
            wire_id: module.id,
            module: table.id(file, pid),
            start: module.start,
            end: module.end,
            bias: module.bias,
            loaded_at: module.generation,
            unloaded_at: None,
        });
    }

    /// Ends a mapping when its module was unloaded.
    pub fn unload(&mut self, unload: &wire::Unload) {
        let is_loaded = |mapping: &&mut Mapping| mapping.wire_id == unload.id && mapping.unloaded_at.is_none();
        if let Some(mapping) = self.mappings.iter_mut().rev().find(is_loaded) {
            mapping.unloaded_at = Some(unload.generation);
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

    /// Returns the file at an address of the process in a module generation, and the address within
    /// the file.
    pub fn find(&self, generation: u32, address: u64) -> Option<(ModuleId, u64)> {
        let is_valid = |mapping: &&Mapping| {
            (mapping.start..mapping.end).contains(&address)
                && mapping.loaded_at <= generation
                && mapping.unloaded_at.is_none_or(|unloaded| generation < unloaded)
        };
        let mapping = self.mappings.iter().rev().find(is_valid)?;
        Some((mapping.module, address.wrapping_sub(mapping.bias)))
    }

    /// Returns the file that may have its data at an address of the process now, and the address
    /// within the file. Data lies behind code, so it is the nearest file below. The symbols of that
    /// file tell whether the address is part of its data.
    pub(super) fn find_data(&self, address: u64) -> Option<(ModuleId, u64)> {
        let is_below = |mapping: &&Mapping| mapping.unloaded_at.is_none() && mapping.start <= address;
        let mapping = self.mappings.iter().filter(is_below).max_by_key(|mapping| mapping.start)?;
        Some((mapping.module, address.wrapping_sub(mapping.bias)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(id: u32, generation: u32, start: u64, path: &str) -> wire::Module<Box<[u8]>> {
        let (path, build_id) = (path.as_bytes().into(), [].into());
        wire::Module { id, generation, start, end: start + 0x1000, bias: start, device: 1, inode: 1, path, build_id }
    }

    #[test]
    fn an_address_resolves_to_the_module_of_its_generation() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&module(1, 1, 0x1000, "/a.so"), &mut table, 7);
        mappings.unload(&wire::Unload { id: 1, generation: 3 });
        mappings.load(&module(2, 4, 0x1000, "/b.so"), &mut table, 7);
        let names = [0, 1, 2, 3, 4, 9].map(|generation| {
            mappings.find(generation, 0x1234).map(|(module, address)| (table.file(module).name(), address))
        });
        let [a, b] = ["a.so", "b.so"].map(|name| Some((name.to_owned(), 0x234)));
        assert_eq!(names, [None, a.clone(), a, None, b.clone(), b]);
        assert_eq!([0xfff, 0x2000].map(|address| mappings.find(1, address)), [None, None]);
    }

    #[test]
    fn data_belongs_to_the_nearest_loaded_file_below() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&module(1, 1, 0x1000, "/a.so"), &mut table, 7);
        mappings.load(&module(2, 2, 0x9000, "/b.so"), &mut table, 7);
        let data = |mappings: &Mappings, address| mappings.find_data(address);
        let [a, b] = [ModuleId(0), ModuleId(1)];
        assert_eq!(data(&mappings, 0x8fff), Some((a, 0x7fff)));
        assert_eq!(data(&mappings, 0xa010), Some((b, 0x1010)));
        assert_eq!(data(&mappings, 0xfff), None);
        mappings.unload(&wire::Unload { id: 2, generation: 3 });
        assert_eq!(data(&mappings, 0xa010), Some((a, 0x9010)));
    }

    #[test]
    fn of_two_mappings_at_one_address_the_newer_is_found() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&module(1, 1, 0x1000, "/a.so"), &mut table, 7);
        mappings.load(&module(2, 2, 0x1000, "/b.so"), &mut table, 7);
        assert_eq!(mappings.find(2, 0x1000).map(|(module, _)| module), Some(ModuleId(1)));
        assert_eq!(mappings.find(1, 0x1000).map(|(module, _)| module), Some(ModuleId(0)));
    }

    #[test]
    fn a_file_in_two_processes_is_one_module_mapped_by_the_second() {
        let mut table = ModuleTable::default();
        for pid in [7, 8] {
            Mappings::default().load(&module(pid, 1, 0x1000, "/a.so"), &mut table, pid);
        }
        assert_eq!((table.iter().count(), table.last_mapped_by(ModuleId(0))), (1, 8));
    }

    #[test]
    fn old_unloaded_mappings_are_dropped_and_loaded_ones_are_kept() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        mappings.load(&module(0, 0, 0x1000, "/stays.so"), &mut table, 7);
        for id in 1..3000u32 {
            mappings.load(&module(id, 2 * id, 0x8000, "/goes.so"), &mut table, 7);
            mappings.unload(&wire::Unload { id, generation: 2 * id + 1 });
        }
        assert_eq!(mappings.mappings.len(), MAX_UNLOADED + 1);
        assert!(mappings.find(6000, 0x1000).is_some());
        assert!(mappings.find(2 * 2999, 0x8000).is_some() && mappings.find(2, 0x8000).is_none());
    }

    #[test]
    fn the_tables_are_bounded() {
        let (mut table, mut mappings) = (ModuleTable::default(), Mappings::default());
        for id in 0..MAX_MAPPINGS as u32 + 10 {
            mappings.load(&module(id, 0, 0x1000 * u64::from(id), &format!("/{id}.so")), &mut table, 7);
        }
        assert_eq!(
            (mappings.mappings.len(), table.iter().count(), table.overflows()),
            (MAX_MAPPINGS, MAX_FILES + 1, 10)
        );
        let (last, _) = mappings.find(0, 0x1000 * (MAX_MAPPINGS as u64 + 9)).unwrap();
        assert_eq!(table.file(last).name(), OTHER_FILES);
    }
}
