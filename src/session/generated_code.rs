//! The state of a session about processes that generate code while they run.

use std::collections::HashMap;

use super::java_advice::JavaAdvice;
use crate::profile::process::ProcessId;
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
