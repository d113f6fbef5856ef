//! The images of code in a process: which mappings belong together, and which image contains an
//! address.

use super::mapped_file::MappedFile;
use super::tables::ImageTables;
use crate::sampler::maps::{MemoryMapping, ProcessMaps};

/// Largest gap between two segments of one image: linkers align segments to 2 MiB at most. A
/// mapping of the same file further away is not part of the image.
const MAX_GAP: u64 = 4 << 20;
/// Maximum number of images. Code of further ones is walked as code without tables.
const MAX_MODULES: usize = 8192;
const PAGE: u64 = 4096;

/// A file (or the vdso) that is mapped with execute permission, as the wire describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The mappings of one image.
struct ImageMappings<'a> {
    first: &'a MemoryMapping,
    /// The last one that is no inaccessible gap.
    last: &'a MemoryMapping,
    end: u64,
    code: Option<&'a MemoryMapping>,
    /// End of the anonymous code that follows the image. A program moves its code there for huge
    /// pages; if the file goes on behind it, it is the image's.
    anonymous_end: u64,
}

impl ImageMappings<'_> {
    fn continues_with(&self, mapping: &MemoryMapping) -> bool {
        let same_file = (self.first.device, self.first.inode) == (mapping.device, mapping.inode);
        let belongs = mapping.offset != 0 || self.shares_first_page_with(mapping);
        let is_near = mapping.start - self.end <= MAX_GAP || self.goes_on_behind_anonymous_code(mapping);
        mapping.inode != 0 && belongs && same_file && is_near
    }

    /// Returns whether a mapping of the same file is where it was before anonymous code took the
    /// place of what lies between.
    fn goes_on_behind_anonymous_code(&self, mapping: &MemoryMapping) -> bool {
        let distance = mapping.start - self.last.start;
        mapping.start == self.anonymous_end && mapping.offset.checked_sub(self.last.offset) == Some(distance)
    }

    /// Returns whether a mapping of offset 0 is a further segment of this image. A linker that does
    /// not pad segments to whole pages puts several into the first page of a small file, which is
    /// mapped once for each of them, with other rights each time; writable ones come last.
    fn shares_first_page_with(&self, mapping: &MemoryMapping) -> bool {
        let last = self.last;
        let is_first_page = last.offset == 0 && last.end - last.start == PAGE;
        let same_rights = (last.writable, last.executable) == (mapping.writable, mapping.executable);
        is_first_page && !same_rights && !last.writable
    }
}

/// Groups the mappings of a process by image, and returns those with code.
fn images(maps: &ProcessMaps) -> Vec<ImageMappings<'_>> {
    let mut images: Vec<ImageMappings<'_>> = Vec::new();
    for mapping in &maps.mappings {
        let code = mapping.executable.then_some(mapping);
        match images.last_mut() {
            Some(image) if image.continues_with(mapping) => {
                (image.end, image.anonymous_end) = (mapping.end, mapping.end);
                image.code = image.code.or(code);
                if mapping.readable || mapping.executable {
                    image.last = mapping;
                }
            }
            _ if mapping.inode != 0 || *mapping.path == *b"[vdso]" => {
                let end = mapping.end;
                images.push(ImageMappings { first: mapping, last: mapping, end, code, anonymous_end: end });
            }
            Some(image) if mapping.executable && mapping.start == image.anonymous_end => {
                image.anonymous_end = mapping.end;
            }
            _ => {}
        }
    }
    images.retain(|image| image.code.is_some());
    images.truncate(MAX_MODULES);
    images
}

impl ProcessCode {
    /// Updates the code to a memory map. Returns whether code has changed.
    pub(super) fn refresh(&mut self, pid: u32, maps: &ProcessMaps) -> bool {
        let executable = ranges(maps, |mapping| mapping.executable);
        let mut changed = executable != self.executable;
        self.executable = executable;
        self.readable = ranges(maps, |mapping| mapping.readable);
        let old = std::mem::take(&mut self.modules).into_iter().zip(std::mem::take(&mut self.code));
        let mut old = old.peekable();
        for image in images(maps) {
            let ImageMappings { first, end, code: Some(code), .. } = image else { continue };
            while old.next_if(|(module, _)| module.start < first.start).is_some() {
                changed = true;
            }
            let same = |module: &ProcessModule| {
                (module.start, module.end, module.device, module.inode) == (first.start, end, first.device, first.inode)
                    && module.path == first.path
            };
            let (module, code) = match old.next_if(|(module, _)| same(module)) {
                Some(known) => known,
                None => {
                    let Some(image) = MappedFile::open(pid, first, code) else { continue };
                    changed = true;
                    let module = ProcessModule {
                        start: first.start,
                        end,
                        bias: image.bias,
                        device: first.device,
                        inode: first.inode,
                        path: first.path.clone(),
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
fn ranges(maps: &ProcessMaps, has: impl Fn(&MemoryMapping) -> bool) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for mapping in maps.mappings.iter().filter(|mapping| has(mapping)) {
        match ranges.last_mut() {
            Some(last) if last.1 == mapping.start => last.1 = mapping.end,
            _ => ranges.push((mapping.start, mapping.end)),
        }
    }
    ranges
}

fn contains(ranges: &[(u64, u64)], address: u64) -> bool {
    let next = ranges.partition_point(|range| range.1 <= address);
    ranges.get(next).is_some_and(|range| range.0 <= address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: code that a program had moved to huge pages was code outside of images.
    #[test]
    fn anonymous_code_between_two_mappings_of_a_file_is_the_files() {
        let found = |offset: u64| {
            let text = format!(
                "400000-600000 r--p 00000000 08:01 7 /opt/node\n\
                 600000-800000 r-xp 00200000 08:01 7 /opt/node\n\
                 800000-3000000 r-xp 00000000 00:00 0\n\
                 3000000-3200000 r-xp {offset:08x} 08:01 7 /opt/node\n"
            );
            let maps = ProcessMaps::parse(text.as_bytes());
            images(&maps).iter().map(|image| (image.first.start, image.end)).collect::<Vec<_>>()
        };
        assert_eq!(found(0x2c0_0000), [(0x40_0000, 0x320_0000)]);
        assert_eq!(found(0x2c0_1000), [(0x40_0000, 0x80_0000), (0x300_0000, 0x320_0000)], "the file does not go on");
    }
}
