//! The source of the code of a process: the process itself, or files if it has ended.

use std::fs::File;
use std::sync::Arc;

use crate::sampler::ptrace::read_memory;

/// Finds the file of a mapping by the inode in its memory map.
pub(crate) type FindFile = Arc<dyn Fn(u64) -> Option<Arc<File>> + Send + Sync>;

/// The source of the code of a process.
#[derive(Clone)]
pub(crate) enum UnwindSource {
    /// A process: its memory, and the files that it maps.
    Process(u32),
    /// Files alone.
    Files(FindFile),
}

impl UnwindSource {
    /// Copies memory of the process. Returns the number of bytes copied.
    pub(super) fn read_memory(&self, address: u64, buffer: &mut [u8]) -> usize {
        match self {
            UnwindSource::Process(pid) => read_memory(*pid, address, buffer),
            UnwindSource::Files(_) => 0,
        }
    }

    /// Reads where the first thread's stack began, with the arguments: field 28 of `/proc/PID/stat`.
    /// Those who may not trace the process read 0.
    pub(super) fn stack_start(&self) -> Option<u64> {
        let UnwindSource::Process(pid) = self else { return None };
        let line = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let end_of_name = line.iter().rposition(|&byte| byte == b')')?;
        let after = std::str::from_utf8(&line[end_of_name + 1..]).ok()?;
        after.split_ascii_whitespace().nth(25)?.parse().ok().filter(|&address| address != 0)
    }
}
