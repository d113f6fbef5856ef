//! Modules whose debug files are being downloaded. Their frames have provisional names until then;
//! the requests are kept here and answered again.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::thread::Builder;

use crossbeam_channel::{Receiver, Sender, never, unbounded};

use super::download::DebuginfodClient;
use super::kallsyms;
use super::messages::SymbolRequest;
use crate::profile::module::ModuleId;

/// The awaited files, and the thread `debuginfod` that downloads them one after the other.
pub(super) struct AwaitedFiles {
    jobs: Option<Sender<DownloadJob>>,
    /// The modules whose download has ended, well or not.
    pub(super) ended: Receiver<ModuleId>,
    tried: HashSet<ModuleId>,
    waiting: HashMap<ModuleId, Vec<SymbolRequest>>,
}

/// A debug file to download.
struct DownloadJob {
    module: ModuleId,
    build_id: Box<[u8]>,
    name: String,
    pid: u32,
}

impl AwaitedFiles {
    /// Starts the thread, if there is a client. It ends when this is dropped, after the current
    /// download.
    pub(super) fn new(client: Option<DebuginfodClient>) -> AwaitedFiles {
        let mut files = AwaitedFiles { jobs: None, ended: never(), tried: HashSet::new(), waiting: HashMap::new() };
        let Some(client) = client else { return files };
        // Bounded by the number of modules.
        let (jobs, received) = unbounded::<DownloadJob>();
        let (done, ended) = unbounded();
        let download = move || {
            for DownloadJob { module, build_id, name, pid } in received {
                // The client remembers failures; see `explain`.
                let _ = client.fetch(&build_id, &name, pid);
                if done.send(module).is_err() {
                    return;
                }
            }
        };
        // Without a thread there are no downloads.
        if Builder::new().name("debuginfod".to_owned()).spawn(download).is_ok() {
            (files.jobs, files.ended) = (Some(jobs), ended);
        }
        files
    }

    /// Whether the debug file of a module is being downloaded. Starts that when it is first asked.
    pub(super) fn is_awaited(&mut self, request: &SymbolRequest, build_id: &[u8]) -> bool {
        let SymbolRequest { module, file, pid, .. } = request;
        if self.waiting.contains_key(module) {
            return true;
        }
        let is_file = !build_id.is_empty() && file.path != Path::new("[vdso]") && !kallsyms::is_kernel(file);
        let Some(jobs) = self.jobs.as_ref().filter(|_| is_file) else { return false };
        if !self.tried.insert(*module) {
            return false;
        }
        let job = DownloadJob { module: *module, build_id: build_id.into(), name: file.name(), pid: *pid };
        let is_started = jobs.send(job).is_ok();
        if is_started {
            self.waiting.insert(*module, Vec::new());
        }
        is_started
    }

    /// Keeps a request until its file is there.
    pub(super) fn keep(&mut self, request: SymbolRequest) {
        self.waiting.entry(request.module).or_default().push(request);
    }

    /// Returns the requests of a module, which waits no more.
    pub(super) fn take(&mut self, module: ModuleId) -> Vec<SymbolRequest> {
        self.waiting.remove(&module).unwrap_or_default()
    }

    /// Returns all requests, and awaits nothing from now on.
    pub(super) fn give_up(&mut self) -> Vec<SymbolRequest> {
        self.jobs = None;
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }
}
