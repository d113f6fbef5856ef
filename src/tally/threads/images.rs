//! Processes by their images: a process has one for each exec.

use std::collections::HashMap;

use crate::profile::Profile;
use crate::profile::hash::IdMap;
use crate::profile::process::ProcessId;
use crate::profile::thread::ThreadId;

/// Maximum number of generations between a process and its nearest ancestor that has a row.
const MAX_GENERATIONS: usize = 64;

/// The first and the newest image of one process, and the threads of all its images.
pub(super) struct ProcessImages {
    pub(super) first: ProcessId,
    pub(super) newest: ProcessId,
    pub(super) threads: Vec<ThreadId>,
}

/// All processes.
#[derive(Default)]
pub(super) struct ImageGroups {
    /// The processes in the order of their first images.
    pub(super) processes: Vec<ProcessImages>,
    /// The process of each image.
    by_image: Vec<u32>,
    /// The processes by their ids in their own namespaces.
    pids: HashMap<u32, u32>,
}

impl ImageGroups {
    /// Groups the images of a profile.
    pub(super) fn of(profile: &Profile) -> ImageGroups {
        let mut groups = ImageGroups::default();
        let mut known: IdMap<(u32, u64), u32> = IdMap::default();
        for (index, process) in profile.processes().iter().enumerate() {
            let id = ProcessId(index as u32);
            let group = *known.entry((process.pid, process.start_ticks)).or_insert_with(|| {
                groups.processes.push(ProcessImages { first: id, newest: id, threads: Vec::new() });
                groups.processes.len() as u32 - 1
            });
            groups.processes[group as usize].newest = id;
            groups.by_image.push(group);
            groups.pids.insert(process.own_pid, group);
        }
        for (index, thread) in profile.threads().iter().enumerate() {
            let process = groups.by_image[thread.process.0 as usize];
            groups.processes[process as usize].threads.push(ThreadId(index as u32));
        }
        groups
    }

    /// Returns the index of the process of an image.
    pub(super) fn process_of(&self, image: ProcessId) -> u32 {
        self.by_image[image.0 as usize]
    }

    /// Returns whether a process of this id, in its own namespace, is among them.
    pub(super) fn has_pid(&self, pid: u32) -> bool {
        self.pids.contains_key(&pid)
    }

    /// The nearest ancestor of a process that has a row. Process ids may be reused, so an ancestor
    /// is only one that started before; it may have reported later.
    pub(super) fn ancestor(
        &self,
        profile: &Profile,
        process: &ProcessImages,
        has_row: impl Fn(&ProcessImages) -> bool,
    ) -> Option<ProcessId> {
        let mut at = process;
        for _ in 0..MAX_GENERATIONS {
            let parent = self.pids.get(&profile.process(at.newest).parent)?;
            let started = |process: &ProcessImages| profile.process(process.newest).start_ticks;
            let is_older = |parent: &&ProcessImages| parent.first != at.first && started(parent) <= started(at);
            let parent = self.processes.get(*parent as usize).filter(is_older)?;
            if has_row(parent) {
                return Some(parent.first);
            }
            at = parent;
        }
        None
    }
}
