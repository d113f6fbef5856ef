//! The thread that names generated code. Every request is answered once at least; frames that get
//! a name later are in a later answer, as are addresses whose code was replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::function_name;
use super::map_file::{GeneratedCode, MapFile};
use crate::profile::process::ProcessId;
use crate::profile::stack::FrameId;
use crate::symbols::resolved::ResolvedLine;
use crate::symbols::sanitize::sanitize;

pub use super::map_file::GeneratingProcess;

/// Interval at which files are looked at.
const INTERVAL: Duration = Duration::from_millis(200);
/// Least and greatest interval at which a process's maps are searched for a jitdump. Reading the
/// maps of a large process takes milliseconds.
const SEARCH: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Time for which a file that grows fast is read before other requests are answered; the second is
/// for the end.
const READ_TIME: Duration = Duration::from_millis(100);
const LAST_READ_TIME: Duration = Duration::from_millis(800);
/// Number of versions of an address. Code that is replaced more often keeps its last name.
const MAX_VERSION: u16 = u16::MAX - 1;

/// Addresses of a process that are in no file.
#[derive(Clone, Debug)]
pub struct JitRequest {
    /// The process image.
    pub process: ProcessId,
    /// Its identity.
    pub identity: GeneratingProcess,
    /// The frames, their addresses, and the versions of the code.
    pub frames: Vec<(FrameId, u64, u16)>,
    /// Whether the process has ended, so that its files are read for the last time.
    pub is_last: bool,
}

/// An answer to a [`JitRequest`].
#[derive(Clone, Debug)]
pub struct JitReply {
    /// The process image.
    pub process: ProcessId,
    /// The frames and their functions; an empty vector if nothing names the code so far.
    pub frames: Vec<(FrameId, Vec<ResolvedLine>)>,
    /// The addresses that have other code from now on, and the new version.
    pub replaced: Vec<(u64, u16)>,
    /// Whether it answers the last request for the process.
    pub is_last: bool,
    /// Number of bytes of its files that are not read yet.
    pub unread_bytes: u64,
}

/// Starts the thread. It ends when `requests` is closed.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn(requests: Receiver<JitRequest>, replies: Sender<JitReply>) -> io::Result<JoinHandle<()>> {
    let run = move || run(&requests, &replies);
    Builder::new().name("jit".to_owned()).spawn(run)
}

fn run(requests: &Receiver<JitRequest>, replies: &Sender<JitReply>) {
    let mut processes: HashMap<ProcessId, GeneratedNames> = HashMap::new();
    loop {
        let next = match processes.is_empty() {
            true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false if processes.values().any(GeneratedNames::has_more) => requests.recv_timeout(Duration::ZERO),
            false => requests.recv_timeout(INTERVAL),
        };
        match next {
            Ok(request) => {
                let names = processes.entry(request.process).or_insert_with(|| GeneratedNames::new(request.identity));
                if replies.send(names.answer(request)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                // What a process wrote before its end is read after it.
                let gone: Vec<ProcessId> =
                    processes.iter().filter(|(_, names)| names.is_gone()).map(|(&process, _)| process).collect();
                for (&process, names) in &mut processes {
                    let reply = names.update(process, READ_TIME);
                    let has_news = !reply.frames.is_empty() || !reply.replaced.is_empty();
                    if has_news && replies.send(reply).is_err() {
                        return;
                    }
                }
                processes.retain(|process, names| names.has_more() || !gone.contains(process));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A sampled address.
struct SampledAddress {
    /// The frame of the current version.
    frame: FrameId,
    version: u16,
    function: Option<ResolvedLine>,
}

/// The names of one process's generated code.
struct GeneratedNames {
    identity: GeneratingProcess,
    perf_map: Option<MapFile>,
    jitdump: Option<MapFile>,
    addresses: BTreeMap<u64, SampledAddress>,
    search_at: Instant,
    search_interval: Duration,
}

impl GeneratedNames {
    fn new(identity: GeneratingProcess) -> GeneratedNames {
        GeneratedNames {
            identity: identity.in_own_namespace(),
            perf_map: None,
            jitdump: None,
            addresses: BTreeMap::new(),
            search_at: Instant::now(),
            search_interval: SEARCH.0,
        }
    }

    fn answer(&mut self, request: JitRequest) -> JitReply {
        let mut reply = self.update(request.process, if request.is_last { LAST_READ_TIME } else { READ_TIME });
        reply.is_last = request.is_last;
        for (frame, address, version) in request.frames {
            let function = self.function(address);
            reply.frames.push((frame, function.clone().into_iter().collect()));
            self.addresses.insert(address, SampledAddress { frame, version, function });
        }
        reply
    }

    /// Reads what the files have more, in this time, and names the sampled addresses in it.
    fn update(&mut self, process: ProcessId, time: Duration) -> JitReply {
        let until = Instant::now() + time;
        if self.perf_map.is_none() {
            self.perf_map = MapFile::perf_map(&self.identity);
        }
        if self.jitdump.is_none() && Instant::now() >= self.search_at {
            self.jitdump = MapFile::jitdump(&self.identity);
            self.search_at = Instant::now() + self.search_interval;
            self.search_interval = (self.search_interval * 2).min(SEARCH.1);
        }
        let mut affected: BTreeSet<u64> = BTreeSet::new();
        for file in [&mut self.perf_map, &mut self.jitdump].into_iter().flatten() {
            for (start, end) in file.read_more(until) {
                affected.extend(self.addresses.range(start..end).map(|(&address, _)| address));
            }
        }
        let unread_bytes = self.files().map(|file| file.unread_bytes).sum();
        let mut reply = JitReply { process, frames: Vec::new(), replaced: Vec::new(), is_last: false, unread_bytes };
        for address in affected {
            let function = self.function(address);
            let Some(sampled) = self.addresses.get_mut(&address) else { continue };
            match (&sampled.function, function) {
                (_, None) => {}
                (None, Some(function)) => {
                    reply.frames.push((sampled.frame, vec![function.clone()]));
                    sampled.function = Some(function);
                }
                (Some(known), Some(function)) if known.full != function.full && sampled.version < MAX_VERSION => {
                    sampled.version += 1;
                    sampled.function = Some(function);
                    reply.replaced.push((address, sampled.version));
                }
                (Some(_), Some(_)) => {}
            }
        }
        reply
    }

    /// The function at an address. A jitdump says more than a perf map.
    fn function(&self, address: u64) -> Option<ResolvedLine> {
        let GeneratedCode { name, line } = self.files().find_map(|file| file.find(address))?;
        let function = function_name::function(&name);
        Some(match line {
            Some((file, line)) => ResolvedLine { file: sanitize(&String::from_utf8_lossy(&file)), line, ..function },
            None => function,
        })
    }

    fn files(&self) -> impl Iterator<Item = &MapFile> {
        [&self.jitdump, &self.perf_map].into_iter().flatten()
    }

    /// Whether the last reading of a file ended early.
    fn has_more(&self) -> bool {
        self.files().any(MapFile::has_more)
    }

    /// Whether the process has ended.
    fn is_gone(&self) -> bool {
        !std::path::Path::new(&format!("/proc/{}", self.identity.pid)).exists()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use crossbeam_channel::{bounded, unbounded};

    use super::*;

    fn short_names(reply: &JitReply) -> Vec<(u32, String)> {
        let name = |(frame, lines): &(FrameId, Vec<ResolvedLine>)| {
            (frame.0, lines.first().map(|line| line.short.clone()).unwrap_or_default())
        };
        reply.frames.iter().map(name).collect()
    }

    #[test]
    fn code_is_named_when_its_entry_appears_and_gets_a_version_when_it_is_replaced() {
        let own_pid = 1_100_000_000 + std::process::id();
        let path = format!("/tmp/perf-{own_pid}.map");
        fs::write(&path, "1000 10 first\n").unwrap();
        let append =
            |line: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
        let (ask, requests) = bounded(8);
        let (replies, answers) = unbounded();
        let thread = spawn(requests, replies).unwrap();
        let (process, pid) = (ProcessId(3), std::process::id());
        let identity = GeneratingProcess { pid, own_pid, start_ticks: 0 };
        let request = |frames: &[(u32, u64, u16)]| {
            let frames = frames.iter().map(|&(frame, address, version)| (FrameId(frame), address, version)).collect();
            ask.send(JitRequest { process, identity, frames, is_last: false }).unwrap();
            answers.recv().unwrap()
        };
        let reply = request(&[(0, 0x1004, 0), (1, 0x2004, 0), (2, 0x100f, 0)]);
        assert_eq!(short_names(&reply), [(0, "first".to_owned()), (1, String::new()), (2, "first".to_owned())]);
        assert!(reply.process == process && reply.replaced.is_empty());

        append("2000 10 second\n");
        let late = answers.recv().unwrap();
        assert_eq!((short_names(&late), late.replaced), (vec![(1, "second".to_owned())], vec![]));

        // The same function in another tier is not another one; other code is.
        append("1000 8 third\n2000 10 second\n");
        let replaced = answers.recv().unwrap();
        assert_eq!((replaced.frames.len(), replaced.replaced), (0, vec![(0x1004, 1)]));
        let reply = request(&[(7, 0x1004, 1)]);
        assert_eq!(short_names(&reply), [(7, "third".to_owned())]);
        drop(ask);
        thread.join().unwrap();
        fs::remove_file(&path).unwrap();
    }
}
