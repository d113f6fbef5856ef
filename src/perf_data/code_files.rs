//! The files that processes of a recording have mapped: which they were, and where they are now.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::profile::module::ModuleFile;
use crate::sampler::unwind::UnwindSource;
use crate::symbols::find_file;
use crate::wire::{MAX_BUILD_ID, MAX_PATH};

/// Maximum number of files. Code of further ones has no file.
const MAX_FILES: usize = 1 << 16;

/// The files, and those of them that are open. Processes share the open ones.
#[derive(Clone, Default)]
pub(super) struct CodeFiles(Arc<Mutex<FileTable>>);

#[derive(Default)]
struct FileTable {
    files: Vec<CodeFile>,
    numbers: HashMap<ModuleFile, u64>,
}

struct CodeFile {
    identity: ModuleFile,
    /// The file, once it was looked for; `None` in it if it is not on this machine.
    file: Option<Option<Arc<File>>>,
}

impl CodeFiles {
    /// Returns the number of a file, counted from 1; 0 if there are too many.
    pub(super) fn number(&self, path: &[u8], build_id: &[u8], (device, inode): (u64, u64)) -> u64 {
        let path = Path::new(OsStr::from_bytes(&path[..path.len().min(MAX_PATH)])).to_path_buf();
        let build_id = build_id[..build_id.len().min(MAX_BUILD_ID)].into();
        let identity = ModuleFile { path, build_id, device, inode };
        let FileTable { files, numbers } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() == MAX_FILES {
            return numbers.get(&identity).copied().unwrap_or(0);
        }
        *numbers.entry(identity).or_insert_with_key(|identity| {
            files.push(CodeFile { identity: identity.clone(), file: None });
            files.len() as u64
        })
    }

    /// Returns a file by its number.
    pub(super) fn identity(&self, number: u64) -> Option<ModuleFile> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(table.files.get(index(number)?)?.identity.clone())
    }

    /// Opens a file by its number, if it is on this machine and certainly the one that was mapped.
    fn open(&self, number: u64) -> Option<Arc<File>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let CodeFile { identity, file } = table.files.get_mut(index(number)?)?;
        file.get_or_insert_with(|| find_file(identity).map(Arc::new)).clone()
    }

    /// Returns the source of the code of a process whose memory map has these numbers as inodes.
    pub(super) fn source(&self) -> UnwindSource {
        let files = self.clone();
        UnwindSource::Files(Arc::new(move |number| files.open(number)))
    }
}

fn index(number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(1)?).ok()
}
