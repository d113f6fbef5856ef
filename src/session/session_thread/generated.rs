//! Names of code that programs generate while they run, and what Java lacks of it.

use crossbeam_channel::{Sender, TrySendError};

use super::{SampleSource, SessionThread};
use crate::profile::process::ProcessId;
use crate::session::java_advice::JavaAdvice;
use crate::symbols::jit::worker::{GeneratingProcess, JitReply, JitRequest};
use crate::tally::measure;

/// Number of bytes of a perf map that may be missing without a word: a line that is being written.
const MAX_UNREAD_BYTES: u64 = 1 << 20;

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
        if reply.is_last && reply.unread_bytes > MAX_UNREAD_BYTES {
            let pid = self.model.profile.process(reply.process).pid;
            self.warn(format!(
                "the perf map of process {pid} is too large: {} of it were not read, and code that only they name is \
                 [JIT]",
                measure::bytes(reply.unread_bytes)
            ));
        }
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
        let is_live = matches!(self.feed, SampleSource::Live(_)) && self.ended.is_none();
        // A program that has just ended may have written its map, which is read soon.
        let come_later = |pid| writes_map_at_exit(pid).unwrap_or(is_live);
        self.generated.java = found.and_then(|advice| advice.without_names(come_later(advice.pid)));
        let Some(advice) = self.generated.java.filter(|_| is_live) else { return };
        // Stacks may turn out to be truncated when more of the program is compiled.
        let announced = self.generated.announced.replace(advice);
        if announced.is_none_or(|before| before.truncated_percent.is_none() && advice.truncated_percent.is_some()) {
            self.warn(advice.to_string());
        }
    }
}

/// Whether the arguments of a Java program have it write a perf map at its end; `None` if it has
/// ended.
fn writes_map_at_exit(pid: u32) -> Option<bool> {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = arguments.split(|&byte| byte == 0);
    (!arguments.is_empty()).then(|| words.any(|argument| argument == b"-XX:+DumpPerfMapAtExit"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Regression test: of a program that had just ended, its arguments are empty, and it was said
    /// that its code had no names although it had written its map.
    #[test]
    fn an_ended_program_does_not_say_whether_it_writes_its_map() {
        for (arguments, writes) in [(&["-XX:+DumpPerfMapAtExit"][..], true), (&[], false)] {
            let mut command = Command::new("sh");
            command.args(["-c", "echo; read end", "sh"]).args(arguments);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
            let mut byte = [0];
            let mut out = child.stdout.take().expect("piped");
            std::io::Read::read_exact(&mut out, &mut byte).expect("a line");
            assert_eq!(writes_map_at_exit(child.id()), Some(writes));
            drop(child.stdin.take());
            // Its end of the pipe is closed before it is a zombie.
            let stat = format!("/proc/{}/stat", child.id());
            while !std::fs::read_to_string(&stat).expect("not waited for").contains(") Z") {
                std::thread::yield_now();
            }
            assert_eq!(writes_map_at_exit(child.id()), None);
            child.wait().expect("a child");
        }
    }
}
