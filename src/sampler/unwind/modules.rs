//! The images of code in a process: which mappings belong together, and which image contains an
//! address.

use super::mapped_file::MappedFile;
use super::tables::ImageTables;
use super::unwind_source::UnwindSource;
use crate::process::mapped_images::{self, MappedImage};
use crate::process::maps::MapsEntry;
use crate::sampler::maps::ProcessMaps;

/// Maximum number of images. Code of further ones is walked as code without tables.
const MAX_MODULES: usize = 8192;

/// A file (or the vdso) that is mapped with execute permission, as the wire describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessModule {
    /// Start address of its lowest mapping.
    pub(crate) start: u64,
    /// End address of its highest mapping.
    pub(crate) end: u64,
    /// Difference (wrapping) between addresses of the process and addresses of the file.
    pub(crate) bias: u64,
    /// Device of the file, as the agent sends it.
    pub(crate) device: u64,
    /// Inode of the file.
    pub(crate) inode: u64,
    /// Path of the file as the target sees it; `[vdso]` for the vdso.
    pub(crate) path: Box<[u8]>,
    /// GNU build id; empty if there is none.
    pub(crate) build_id: Box<[u8]>,
}

/// An image and its tables.
pub(super) struct ModuleCode {
    pub(super) image: MappedFile,
    pub(super) tables: ImageTables,
}

/// The code of a process.
#[derive(Default)]
pub(super) struct ProcessCode {
    /// The images, sorted by address.
    modules: Vec<ProcessModule>,
    /// Files and tables of `modules`, in the same order.
    code: Vec<ModuleCode>,
    /// Executable memory, sorted: start and end.
    executable: Vec<(u64, u64)>,
    /// Readable memory, sorted: start and end.
    readable: Vec<(u64, u64)>,
}

impl ProcessCode {
    /// Updates the code to a memory map. Returns whether code has changed.
    pub(super) fn refresh(&mut self, source: &UnwindSource, maps: &ProcessMaps) -> bool {
        let entries: Vec<MapsEntry<'_>> = maps.entries().collect();
        let executable = ranges(&entries, |entry| entry.executable);
        let mut changed = executable != self.executable;
        self.executable = executable;
        self.readable = ranges(&entries, |entry| entry.readable);
        let old = std::mem::take(&mut self.modules).into_iter().zip(std::mem::take(&mut self.code));
        let mut old = old.peekable();
        let mut images = Vec::new();
        entries.iter().for_each(|entry| mapped_images::add(&mut images, entry));
        let with_code =
            images.into_iter().filter_map(|image: MappedImage<'_>| Some((image.first, image.end, image.code?)));
        for (first, end, code) in with_code.take(MAX_MODULES) {
            while old.next_if(|(module, _)| module.start < first.start).is_some() {
                changed = true;
            }
            let same = |module: &ProcessModule| {
                (module.start, module.end, module.device, module.inode) == (first.start, end, first.device, first.inode)
                    && *module.path == *first.path
            };
            let (module, code) = match old.next_if(|(module, _)| same(module)) {
                Some(known) => known,
                None => {
                    let Some(image) = MappedFile::open(source, &first, &code) else { continue };
                    changed = true;
                    let module = ProcessModule {
                        start: first.start,
                        end,
                        bias: image.bias,
                        device: first.device,
                        inode: first.inode,
                        path: first.path.into(),
                        build_id: image.build_id.clone(),
                    };
                    (module, ModuleCode { image, tables: ImageTables::default() })
                }
            };
            self.modules.push(module);
            self.code.push(code);
        }
        changed | old.next().is_some()
    }

    /// Returns the images, sorted by address.
    pub(super) fn modules(&self) -> &[ProcessModule] {
        &self.modules
    }

    /// Returns the image that contains an address.
    pub(super) fn find(&mut self, address: u64) -> Option<&mut ModuleCode> {
        let next = self.modules.partition_point(|module| module.end <= address);
        self.modules.get(next).filter(|module| module.start <= address)?;
        self.code.get_mut(next)
    }

    /// Returns whether an address is in executable memory.
    pub(super) fn is_executable(&self, address: u64) -> bool {
        contains(&self.executable, address)
    }

    /// Returns whether an address is in readable memory.
    pub(super) fn is_readable(&self, address: u64) -> bool {
        contains(&self.readable, address)
    }
}

/// Returns the ranges of the mappings that `has` accepts; adjacent ones are joined.
fn ranges(entries: &[MapsEntry<'_>], has: impl Fn(&MapsEntry<'_>) -> bool) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for entry in entries.iter().filter(|entry| has(entry)) {
        match ranges.last_mut() {
            Some(last) if last.1 == entry.start => last.1 = entry.end,
            _ => ranges.push((entry.start, entry.end)),
        }
    }
    ranges
}

fn contains(ranges: &[(u64, u64)], address: u64) -> bool {
    let next = ranges.partition_point(|range| range.1 <= address);
    ranges.get(next).is_some_and(|range| range.0 <= address)
}
