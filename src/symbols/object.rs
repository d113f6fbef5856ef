//! Finds the file of a module and its separate debug file. They are looked up in the mount
//! namespace of the process, and rejected unless they are the ones that run. [`elf`](super::elf)
//! reads them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::debuginfod;
use super::elf::{Elf, string_at};
use super::error::{Error, hex};
use super::file_caches::cached_files;
use super::kallsyms;
use super::mini_debug_info;
use crate::process::maps::{MAX_MAPS_BYTES, entries};
use crate::profile::module::ModuleFile;

/// Maximum size of the vDSO; it has two pages.
const MAX_VDSO_BYTES: u64 = 1 << 20;
/// Maximum size of a section that refers to another file.
const MAX_LINK_BYTES: u64 = 64 << 10;

/// Opens the file of a module as process `pid` sees it, or else as sigtop does. It must have the
/// module's build id; a module without one must have the same inode, if inodes can be compared.
pub(super) fn open(file: &ModuleFile, pid: u32) -> Result<Elf, Error> {
    if kallsyms::is_kernel(file) {
        return Err(Error::KernelCode);
    }
    if file.path == Path::new("[vdso]") {
        return check(vdso()?, file);
    }
    // Another file may have a deleted file's name by now, even one with the same build id: its
    // stripped copy.
    let is_deleted = living(&file.path) != file.path;
    let linked = || kernel_links(file, pid).find_map(|path| check(Elf::open(&path).ok()?, file).ok());
    if let Some(elf) = is_deleted.then(linked).flatten() {
        return Ok(elf);
    }
    let mut telling: Option<Error> = None;
    for path in paths_by_name(file, pid) {
        match Elf::open(&path).and_then(|elf| check(elf, file)) {
            Ok(elf) => return Ok(elf),
            // Of several errors the most informative is kept, of equals the first.
            Err(error) if telling.as_ref().is_none_or(|known| known.weight() < error.weight()) => telling = Some(error),
            Err(_) => {}
        }
    }
    if let Some(elf) = (!is_deleted).then(linked).flatten() {
        return Ok(elf);
    }
    if let Some(elf) = cached_files(&file.build_id).find_map(|path| check(Elf::open(&path).ok()?, file).ok()) {
        return Ok(elf);
    }
    let nameless = || Error::Unreadable { path: PathBuf::new(), cause: "it has no name any more".to_owned() };
    Err(telling.unwrap_or_else(nameless).about(&file.path))
}

/// Opens the file of a module of a recording, if it is on this machine. The vDSO becomes an unnamed
/// file.
pub fn find_file(file: &ModuleFile) -> Option<File> {
    let path = open(file, 0).ok()?.path;
    if path != Path::new("[vdso]") {
        return File::open(path).ok();
    }
    // That of another kernel has the same name.
    (!file.build_id.is_empty()).then_some(())?;
    let unnamed = File::from(memfd_create("vdso", MFdFlags::MFD_CLOEXEC).ok()?);
    unnamed.write_all_at(&vdso_bytes()?, 0).ok()?;
    Some(unnamed)
}

fn check(elf: Elf, file: &ModuleFile) -> Result<Elf, Error> {
    if file.build_id.is_empty() {
        let replaced = file.inode != 0 && elf.inode().is_some_and(|inode| inode != file.inode);
        return if replaced { Err(Error::Replaced { path: file.path.clone() }) } else { Ok(elf) };
    }
    let found = elf.build_id();
    if found == file.build_id {
        return Ok(elf);
    }
    Err(Error::Changed { path: file.path.clone(), found, wanted: file.build_id.clone() })
}

/// The paths where the file may be by its name, the likeliest first. Only a build id can tell a
/// deleted file from another that has its name by now.
fn paths_by_name(file: &ModuleFile, pid: u32) -> impl Iterator<Item = PathBuf> {
    let path = living(&file.path).to_owned();
    let is_sought = path.is_absolute() && (path == file.path || !file.build_id.is_empty());
    roots(pid).filter(move |_| is_sought).map(move |root| under(&root, &path))
}

/// Returns the path without the kernel's mark of a deleted file.
fn living(path: &Path) -> &Path {
    let name = path.as_os_str().as_bytes();
    name.strip_suffix(b" (deleted)").map_or(path, |name| Path::new(OsStr::from_bytes(name)))
}

/// The kernel's links to the executable and the mapped files of a process. They open the file even
/// if it was renamed or deleted. Links to mapped files need privileges.
fn kernel_links(file: &ModuleFile, pid: u32) -> impl Iterator<Item = PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let executable = process.join("exe");
    let executable = std::fs::read_link(&executable).is_ok_and(|path| may_be(file, &path)).then_some(executable);
    executable.into_iter().chain(mapped(&process, file))
}

/// Returns whether a file that is called `path` now may be the module. If its build id will tell,
/// it may have been renamed or deleted since.
fn may_be(file: &ModuleFile, path: &Path) -> bool {
    path == file.path || !file.build_id.is_empty()
}

/// The root directories to search: that of the process, and that of sigtop.
pub(super) fn roots(pid: u32) -> impl Iterator<Item = PathBuf> {
    [PathBuf::from(format!("/proc/{pid}/root")), PathBuf::from("/")].into_iter()
}

/// Returns an absolute path below another root.
pub(super) fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The kernel's link to a file that the process maps.
fn mapped(process: &Path, file: &ModuleFile) -> Option<PathBuf> {
    let maps = read_maps(process).ok()?;
    let mut files = entries(&maps).filter(|entry| entry.inode == file.inode);
    let path = file.path.as_os_str().as_bytes();
    let found = files.find(|entry| !file.build_id.is_empty() || entry.path.ends_with(path))?;
    Some(process.join("map_files").join(format!("{:x}-{:x}", found.start, found.end)))
}

/// Reads the memory map of the process with this folder in `/proc`.
pub(super) fn read_maps(process: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(process.join("maps"))?.take(MAX_MAPS_BYTES as u64).read_to_end(&mut text)?;
    Ok(text)
}

/// Reads the vDSO of this kernel from our own memory: all processes have the same.
fn vdso() -> Result<Elf, Error> {
    let path = Path::new("[vdso]");
    let unreadable = |cause: &str| Error::Unreadable { path: path.to_owned(), cause: cause.to_owned() };
    Elf::from_memory(path, vdso_bytes().ok_or_else(|| unreadable("our own memory does not show it"))?)
}

fn vdso_bytes() -> Option<Vec<u8>> {
    let maps = read_maps(Path::new("/proc/self")).ok()?;
    let vdso = entries(&maps).find(|entry| entry.path == b"[vdso]")?;
    let mut bytes = vec![0; (vdso.end - vdso.start).min(MAX_VDSO_BYTES) as usize];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, vdso.start).ok()?;
    Some(bytes)
}

/// The search for the separate debug file of an ELF file.
pub(super) struct DebugFileSearch {
    build_id: Box<[u8]>,
    /// The CRC-32 of the debug file, if the ELF file has a debug link.
    crc: Option<u32>,
    /// The candidates, the likeliest first.
    pub(super) places: Vec<PathBuf>,
}

/// The result of checking one candidate path.
pub(super) enum DebugFileCandidate {
    /// The debug file.
    Match(Elf),
    /// No file.
    Missing,
    /// A file that does not match or cannot be read, and why.
    Mismatch(String),
}

impl DebugFileSearch {
    /// Creates the search for `elf`, which process `pid` knows by the name of `file`.
    pub(super) fn new(elf: &Elf, file: &ModuleFile, pid: u32) -> DebugFileSearch {
        let build_id = elf.build_id();
        let mut places = build_id_places(&build_id, pid);
        let link = elf.section(b".gnu_debuglink").and_then(|section| elf.bytes(section, MAX_LINK_BYTES).ok());
        let crc = link.as_deref().and_then(|link| Some(u32::from_le_bytes(*link.last_chunk()?)));
        let name = link.as_deref().map_or(&[][..], |link| string_at(link, 0));
        let directory = file.path.parent().filter(|directory| directory.is_absolute());
        if let Some(directory) = directory.filter(|_| crc.is_some() && !name.is_empty() && !name.contains(&b'/')) {
            let name = OsStr::from_bytes(name);
            let debug = under(Path::new("/usr/lib/debug"), directory);
            let linked = [directory.join(name), directory.join(".debug").join(name), debug.join(name)];
            places.extend(roots(pid).flat_map(|root| linked.each_ref().map(|place| under(&root, place))));
        }
        DebugFileSearch { build_id, crc, places }
    }

    /// Checks a candidate. The checksum is compared only if the ELF file has no build id.
    pub(super) fn check_candidate(&self, place: &Path) -> DebugFileCandidate {
        let found = match Elf::open(place) {
            Ok(found) => found,
            Err(_) if !place.exists() => return DebugFileCandidate::Missing,
            Err(Error::Unreadable { cause, .. }) => return DebugFileCandidate::Mismatch(cause),
            Err(Error::Malformed { what, .. }) => return DebugFileCandidate::Mismatch(what.to_owned()),
            Err(error) => return DebugFileCandidate::Mismatch(error.to_string()),
        };
        match () {
            () if self.build_id.is_empty() && found.crc32().ok() == self.crc => DebugFileCandidate::Match(found),
            () if self.build_id.is_empty() => DebugFileCandidate::Mismatch("another checksum".to_owned()),
            () if found.build_id() == self.build_id => DebugFileCandidate::Match(found),
            () if found.build_id().is_empty() => DebugFileCandidate::Mismatch("no build id".to_owned()),
            () => DebugFileCandidate::Mismatch(format!("build id {}", hex(&found.build_id()))),
        }
    }

    /// Returns the debug file, if any candidate is it.
    pub(super) fn find(&self) -> Option<Elf> {
        self.places.iter().find_map(|place| match self.check_candidate(place) {
            DebugFileCandidate::Match(elf) => Some(elf),
            DebugFileCandidate::Missing | DebugFileCandidate::Mismatch(_) => None,
        })
    }
}

/// Opens the separate debug file of `elf`, if there is one.
pub(super) fn debug_file(elf: &Elf, file: &ModuleFile, pid: u32) -> Option<Elf> {
    DebugFileSearch::new(elf, file, pid).find()
}

/// Returns the file whose symbol table is used, besides that of `elf`: its debug file, or what it
/// holds packed.
pub(super) fn symbol_file(elf: &Elf, debug: Option<Elf>) -> Option<Elf> {
    let is_whole = |elf: &Elf| elf.section(b".symtab").is_some();
    match debug {
        Some(debug) if is_whole(&debug) => Some(debug),
        debug if is_whole(elf) => debug,
        debug => mini_debug_info::read(elf).filter(is_whole).or(debug),
    }
}

/// Opens the file with the debug information that several files share (written by `dwz`), if `elf`
/// refers to one.
pub(super) fn shared_debug_file(elf: &Elf, pid: u32) -> Option<Elf> {
    let (path, build_id) = shared_link(elf)?;
    let places: Vec<PathBuf> = if path.is_absolute() {
        roots(pid).map(|root| under(&root, &path)).collect()
    } else {
        elf.path.parent().map(|directory| directory.join(&path)).into_iter().collect()
    };
    let found = places.iter().filter_map(|place| Elf::open(place).ok()).find(|found| found.build_id() == build_id);
    found.or_else(|| by_build_id(&build_id, pid))
}

/// The build id of the file with shared debug information.
pub(super) fn shared_build_id(elf: &Elf) -> Option<Box<[u8]>> {
    Some(shared_link(elf)?.1)
}

/// The path and the build id of the file with shared debug information.
fn shared_link(elf: &Elf) -> Option<(PathBuf, Box<[u8]>)> {
    let link = elf.bytes(elf.section(b".gnu_debugaltlink")?, MAX_LINK_BYTES).ok()?;
    let name = string_at(&link, 0);
    let build_id = link.get(name.len() + 1..).filter(|_| !name.is_empty())?;
    Some((PathBuf::from(OsStr::from_bytes(name)), build_id.into()))
}

fn build_id_places(build_id: &[u8], pid: u32) -> Vec<PathBuf> {
    let Some((first, rest)) = build_id.split_first().filter(|(_, rest)| !rest.is_empty()) else { return Vec::new() };
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest)));
    roots(pid).map(|root| under(&root, &path)).chain(debuginfod::cached(build_id)).collect()
}

fn by_build_id(build_id: &[u8], pid: u32) -> Option<Elf> {
    let found = build_id_places(build_id, pid).into_iter().filter_map(|place| Elf::open(&place).ok());
    found.into_iter().find(|found| *found.build_id() == *build_id)
}
