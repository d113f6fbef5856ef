//! Names of code that programs generate while they run, and what Java lacks of it.

use crossbeam_channel::{Sender, TrySendError};

use super::{SampleSource, SessionThread};
use crate::profile::process::ProcessId;
use crate::session::java_advice::JavaAdvice;
use crate::symbols::jit::worker::{GeneratingProcess, JitReply, JitRequest};

impl SessionThread {
    /// Sends requests for the names of generated code. Only a process can answer them: names of
    /// recorded code are in the recording.
    pub(super) fn ask_generated(&mut self, ask: &Sender<JitRequest>) {
        match self.feed {
            SampleSource::Live(_) => self.model.request_generated(|request| {
                self.generated.processes.insert(request.process, request.identity);
                match ask.try_send(request) {
                    Err(TrySendError::Full(request)) => Err(request),
                    _ => Ok(()),
                }
            }),
            SampleSource::Recording(_) => {}
        }
    }

    /// Applies names of generated code.
    pub(super) fn apply_generated(&mut self, reply: JitReply) {
        self.generated.awaited = self.generated.awaited.saturating_sub(usize::from(reply.is_last));
        self.recorder.named_generated(&reply, &self.model.profile);
        self.model.apply_generated(reply);
    }

    /// Has the perf maps of all processes read once more: a Java program writes its map at its end.
    pub(super) fn read_last_maps(&mut self, ask: &Sender<JitRequest>) {
        let last = |(&process, &identity): (&ProcessId, &GeneratingProcess)| JitRequest {
            process,
            identity,
            frames: Vec::new(),
            is_last: true,
        };
        // A request that does not fit leaves names as they are.
        let processes = self.generated.processes.iter();
        self.generated.awaited = processes.filter(|&named| ask.try_send(last(named)).is_ok()).count();
    }

    /// Looks for what stacks through compiled Java code lack, and says it once.
    pub(super) fn update_java_advice(&mut self) {
        let found = JavaAdvice::find(&self.model.profile, &self.model.names, self.model.clock);
        self.generated.java = found.and_then(|advice| advice.without_names(writes_map_at_exit(advice.pid)));
        let is_live = matches!(self.feed, SampleSource::Live(_)) && self.ended.is_none();
        let Some(advice) = self.generated.java.filter(|_| is_live) else { return };
        // Stacks may turn out to be truncated when more of the program is compiled.
        let announced = self.generated.announced.replace(advice);
        if announced.is_none_or(|before| before.truncated_percent.is_none() && advice.truncated_percent.is_some()) {
            self.warn(advice.to_string());
        }
    }
}

/// Whether the arguments of a Java program have it write a perf map at its end.
fn writes_map_at_exit(pid: u32) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|&byte| byte == 0).any(|argument| argument == b"-XX:+DumpPerfMapAtExit")
}
