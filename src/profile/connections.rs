//! Connections that introduce a process image, and that end.

use super::Profile;
use super::ids::RecordingId;
use super::process::{Process, ProcessId};
use super::totals::{BUCKET_NS, BUCKETS, Totals};
use crate::wire::{Hello, SourceId};

/// Maximum number of process images, each with its command line. A long build starts some 10 000.
const MAX_PROCESSES: usize = 65_536;

impl Profile {
    pub(super) fn add_process(&mut self, source: SourceId, pid: u32, at_ns: u64, hello: &Hello<Box<[u8]>>) {
        if self.processes.len() >= MAX_PROCESSES {
            self.overflows.processes += 1;
            return;
        }
        let id = ProcessId(self.processes.len() as u32);
        let recording = self.recording_of.remove(&source);
        let same = |process: &&mut Process| {
            process.recording == recording && process.pid == pid && process.start_ticks == hello.start_ticks
        };
        let last = self.processes.iter_mut().rfind(same);
        let image = last.as_ref().map_or(0, |last| last.image + 1);
        let mut process = Process::new(source, pid, image, at_ns, hello);
        process.recording = recording;
        // The agent takes over from a sampler, which is connected until then. The threads go on.
        if let Some(sampled) = last.filter(|last| last.connected && last.executable == process.executable) {
            (process.image, process.threads) = (sampled.image, std::mem::take(&mut sampled.threads));
        }
        for thread in process.threads.values() {
            self.threads[thread.0 as usize].process = id;
        }
        self.sources.insert(source, id);
        self.processes.push(process);
    }

    /// Says that the process which introduces itself next on a connection comes from the recording
    /// of this name.
    pub fn set_recording(&mut self, source: SourceId, name: &str) {
        let known = self.recordings.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.recordings.push(name.to_owned());
            self.recordings.len() - 1
        });
        self.recording_of.insert(source, RecordingId(index as u32));
    }

    pub(super) fn disconnect(&mut self, source: SourceId, at_ns: u64) {
        if let Some(id) = self.sources.remove(&source) {
            self.settle_process(id, true);
            let process = &mut self.processes[id.0 as usize];
            process.totals.values_mut().for_each(Totals::end_running);
            process.disconnect();
            self.disconnected.push_back((id, at_ns));
        }
    }

    /// Clears the history of processes that disconnected so long ago that it is older than every
    /// window. Otherwise only a new sample would clear it, and they send none.
    pub(super) fn expire_disconnected(&mut self, now_ns: u64) {
        const LONGEST_NS: u64 = (BUCKETS as u64 + 1) * BUCKET_NS;
        while let Some(&(id, left_ns)) = self.disconnected.front()
            && left_ns.saturating_add(LONGEST_NS) < now_ns
        {
            self.disconnected.pop_front();
            self.processes[id.0 as usize].totals.values_mut().for_each(Totals::clear_history);
        }
    }
}
