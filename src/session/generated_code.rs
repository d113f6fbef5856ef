//! The state of a session about processes that generate code while they run.

use std::collections::HashMap;

use super::java_advice::JavaAdvice;
use crate::link::recording::RecordedFile;
use crate::profile::process::ProcessId;
use crate::symbols::UNNAMED_CODE;
use crate::symbols::jit::worker::GeneratingProcess;

/// The processes that generate code.
#[derive(Default)]
pub(super) struct GeneratedCodeState {
    /// Those for whose code names were requested.
    pub(super) processes: HashMap<ProcessId, GeneratingProcess>,
    /// Number of processes whose perf maps are being read for the last time.
    pub(super) awaited: usize,
    /// The advice for Java, if its stacks lack something.
    pub(super) java: Option<JavaAdvice>,
    /// The last advice while the program ran.
    pub(super) announced: Option<JavaAdvice>,
}

/// The file that stands for generated code of a process: its device is the index of the process,
/// its inode the version of the code.
pub(super) fn generated_file(process: ProcessId, code_version: u16) -> RecordedFile {
    let (device, inode) = (process.0.into(), code_version.into());
    RecordedFile { path: UNNAMED_CODE.as_bytes().into(), build_id: [].into(), device, inode }
}

/// Returns the process and the version of generated code, if a file stands for that.
pub(super) fn generated_code(file: &RecordedFile) -> Option<(ProcessId, u16)> {
    let is_generated = *file.path == *UNNAMED_CODE.as_bytes() && file.build_id.is_empty();
    let (process, version) = (file.device.try_into().ok()?, file.inode.try_into().ok()?);
    is_generated.then_some((ProcessId(process), version))
}
