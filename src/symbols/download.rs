//! Downloads debug files and source files from debuginfod servers into the cache of debuginfod's
//! clients. Nothing is downloaded unless the user asks for it: a request tells the server which
//! programs run here. An answer must be an ELF file with the build id that was asked for, or it is
//! deleted. Source files are text, of which only the size is checked.
//!
//! The environment variables are those of debuginfod's own clients: `DEBUGINFOD_URLS`,
//! `DEBUGINFOD_CACHE_PATH`, `DEBUGINFOD_TIMEOUT`, `DEBUGINFOD_MAXTIME`, `DEBUGINFOD_MAXSIZE`.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::debuginfod;
use super::elf::Elf;
use super::error::{Error, catch_panic, hex};
use super::object;
use super::sanitize::sanitize;
use super::transfer::{RunningTransfer, TransferLimits, transfer};

/// Maximum number of servers.
const MAX_SERVERS: usize = 16;
/// Maximum size of a file by default: what is read of debug information at all.
const MAX_BYTES: u64 = 2 << 30;
/// Maximum size of a source file: what is read of one at all.
const MAX_SOURCE_BYTES: u64 = 8 << 20;
/// Maximum time of a source file, which somebody looks at and waits for.
const MAX_SOURCE_TIME: Duration = Duration::from_secs(60);
/// Maximum time of one file by default, in seconds.
const MAX_SECONDS: u64 = 1_800;
/// Maximum time without data by default, in seconds.
const STALL_SECONDS: u64 = 90;
/// Lengths of build ids in bytes: a linker writes 8 to 32.
const BUILD_ID_BYTES: std::ops::RangeInclusive<usize> = 4..=64;

/// A client of debuginfod servers. Clones share one state.
#[derive(Clone, Debug)]
pub struct DebuginfodClient(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    servers: Vec<String>,
    limits: TransferLimits,
    running: RunningTransfer,
    running_source: RunningTransfer,
    memory: Arc<Mutex<ClientMemory>>,
}

/// The results that a client remembers for the session.
#[derive(Debug, Default)]
struct ClientMemory {
    /// The results by build id.
    results: HashMap<Box<[u8]>, Result<(), String>>,
    /// The files whose debug information was not downloaded, and why.
    failures: Vec<(String, String)>,
    /// Servers that cannot be used, and why.
    down: HashMap<String, String>,
    progress: Option<DownloadProgress>,
}

/// The progress of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadProgress {
    /// The name of the file whose debug information it is.
    pub file: String,
    /// Bytes so far.
    pub bytes: u64,
    /// Its size, if the server says it.
    pub size_bytes: Option<u64>,
}

impl fmt::Display for DownloadProgress {
    /// Writes `downloading debug information of libc.so.6: 12 of 30 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes.div_ceil(1 << 20);
        write!(f, "downloading debug information of {}", self.file)?;
        match self.size_bytes {
            Some(size) => write!(f, ": {} of {} MB", mb(self.bytes.min(size)), mb(size)),
            None if self.bytes > 0 => write!(f, ": {} MB", mb(self.bytes)),
            None => Ok(()),
        }
    }
}

impl DebuginfodClient {
    /// Returns a client of the servers that the environment names.
    pub fn from_environment() -> DebuginfodClient {
        DebuginfodClient::new(|name| env::var(name).ok())
    }

    fn new(variable: impl Fn(&str) -> Option<String>) -> DebuginfodClient {
        let number =
            |name: &str| variable(name).and_then(|text| text.trim().parse().ok()).filter(|&number: &u64| number > 0);
        let seconds = |name: &str, default| Duration::from_secs(number(name).unwrap_or(default));
        let urls = variable("DEBUGINFOD_URLS").unwrap_or_default();
        let limits = TransferLimits {
            bytes: number("DEBUGINFOD_MAXSIZE").unwrap_or(MAX_BYTES).min(MAX_BYTES),
            time: seconds("DEBUGINFOD_MAXTIME", MAX_SECONDS),
            stall: seconds("DEBUGINFOD_TIMEOUT", STALL_SECONDS),
        };
        let servers = urls.split_whitespace().filter(|url| is_server(url)).take(MAX_SERVERS);
        DebuginfodClient(Arc::new(ClientState {
            servers: servers.map(|url| url.trim_end_matches('/').to_owned()).collect(),
            limits,
            running: RunningTransfer::default(),
            running_source: RunningTransfer::default(),
            memory: Arc::default(),
        }))
    }

    /// Returns a client that is stopped on its own, and that shares all results.
    pub fn share(&self) -> DebuginfodClient {
        let ClientState { servers, limits, memory, .. } = &*self.0;
        DebuginfodClient(Arc::new(ClientState {
            servers: servers.clone(),
            limits: *limits,
            running: RunningTransfer::default(),
            running_source: RunningTransfer::default(),
            memory: Arc::clone(memory),
        }))
    }

    /// A sentence if there is no server that could be asked.
    pub fn problem(&self) -> Option<&'static str> {
        let sentence = "no debuginfod server is known: set DEBUGINFOD_URLS to the http or https URL of one";
        self.0.servers.is_empty().then_some(sentence)
    }

    /// The progress of the current download.
    pub fn progress(&self) -> Option<DownloadProgress> {
        self.memory().progress.clone()
    }

    /// Kills the current downloads. Later ones fail.
    pub fn stop(&self) {
        self.0.running.stop();
        self.0.running_source.stop();
    }

    /// The reason why the debug file of a build id was not downloaded, if it was tried.
    pub(super) fn failure(&self, build_id: &[u8]) -> Option<String> {
        self.memory().results.get(build_id).and_then(|result| result.clone().err())
    }

    /// A sentence about the files whose debug information was not downloaded, if there are any.
    pub fn failures(&self) -> Option<String> {
        let failures = &self.memory().failures;
        let (file, why) = failures.first()?;
        let others = match failures.len() - 1 {
            0 => String::new(),
            1 => " and of another file".to_owned(),
            others => format!(" and of {others} other files"),
        };
        Some(format!("debug information of {file}{others} was not downloaded: {why}"))
    }

    /// Downloads the debug file of a build id, and the one with the debug information that it
    /// shares with others, unless process `pid` sees that. `file` is shown in the progress. What
    /// failed once is not tried again.
    pub(super) fn fetch(&self, build_id: &[u8], file: &str, pid: u32) -> Result<(), String> {
        let path = self.fetch_one(build_id, file)?;
        let shared = catch_panic(|| {
            let elf = Elf::open(&path).ok()?;
            let build_id = object::shared_build_id(&elf)?;
            object::shared_debug_file(&elf, pid).is_none().then_some(build_id)
        });
        match shared.flatten() {
            Some(shared) => self.fetch_one(&shared, file).map(drop),
            None => Ok(()),
        }
    }

    /// Downloads a source file that debug information of a build id names by an absolute path, and
    /// returns its path in the cache. It may run beside [`fetch`](Self::fetch).
    pub(super) fn fetch_source(&self, build_id: &[u8], path: &str) -> Result<PathBuf, String> {
        let artifact = Artifact::Source { path };
        let cached = cache_directory(build_id)?.join(artifact.cache_name());
        self.ask_servers(build_id, &artifact, &cached).map(|()| cached)
    }

    fn fetch_one(&self, build_id: &[u8], file: &str) -> Result<PathBuf, String> {
        let artifact = Artifact::DebugFile { file };
        let path = cache_directory(build_id)?.join(artifact.cache_name());
        let known = self.memory().results.get(build_id).cloned();
        let result = known.unwrap_or_else(|| {
            self.set_progress(file, 0, None);
            let result = self.ask_servers(build_id, &artifact, &path);
            let mut memory = self.memory();
            memory.progress = None;
            memory.failures.extend(result.clone().err().map(|why| (sanitize(file), why)));
            memory.results.insert(build_id.into(), result.clone());
            result
        });
        result.map(|()| path)
    }

    /// Asks each server until one has the file.
    fn ask_servers(&self, build_id: &[u8], artifact: &Artifact<'_>, path: &Path) -> Result<(), String> {
        if let Some(problem) = self.problem() {
            return Err(problem.to_owned());
        }
        if !BUILD_ID_BYTES.contains(&build_id.len()) {
            return Err("its build id is none that a server knows".to_owned());
        }
        let mut failures = Vec::new();
        for server in &self.0.servers {
            let known = self.memory().down.get(server).cloned();
            if let Some(why) = known {
                failures.push(format!("{}: {why}", sanitize(server)));
                continue;
            }
            match self.download(server, build_id, artifact, path) {
                Ok(()) => return Ok(()),
                Err(why) => failures.push(format!("{}: {why}", sanitize(server))),
            }
        }
        Err(failures.join("; "))
    }

    /// Downloads one file beside its place, checks it, and renames it.
    fn download(&self, server: &str, build_id: &[u8], artifact: &Artifact<'_>, path: &Path) -> Result<(), String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = path.parent().unwrap_or(path);
        let unwritable =
            |error: std::io::Error| format!("the cache {} cannot be written: {error}", directory.display());
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unwritable)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{}.sigtop-{}-{number}", artifact.cache_name(), std::process::id());
        let temporary = TemporaryFile(directory.join(temporary));
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary.0);
        let mut into: File = options.map_err(unwritable)?;
        let url = format!("{server}/buildid/{}/{}", hex(build_id), artifact.url_path());
        let limits = self.0.limits;
        let transferred = match artifact {
            Artifact::DebugFile { file } => {
                let report = |bytes, size| self.set_progress(file, bytes, size);
                transfer(&url, &mut into, limits, &self.0.running, report)
            }
            Artifact::Source { .. } => {
                let (bytes, time) = (limits.bytes.min(MAX_SOURCE_BYTES), limits.time.min(MAX_SOURCE_TIME));
                let limits = TransferLimits { bytes, time, ..limits };
                transfer(&url, &mut into, limits, &self.0.running_source, |_, _| {})
            }
        };
        transferred.map_err(|error| {
            if error.is_server_down {
                self.memory().down.insert(server.to_owned(), error.message.clone());
            }
            error.message
        })?;
        if let Artifact::DebugFile { .. } = artifact {
            check(&temporary.0, build_id)?;
        }
        into.sync_all().map_err(unwritable)?;
        fs::rename(&temporary.0, path).map_err(unwritable)
    }

    fn set_progress(&self, file: &str, bytes: u64, size_bytes: Option<u64>) {
        self.memory().progress = Some(DownloadProgress { file: sanitize(file), bytes, size_bytes });
    }

    fn memory(&self) -> MutexGuard<'_, ClientMemory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that a server may have for a build id.
enum Artifact<'a> {
    /// The debug file; `file` is shown in the progress.
    DebugFile { file: &'a str },
    /// The source file at an absolute path. Nothing but its size can be checked.
    Source { path: &'a str },
}

impl Artifact<'_> {
    /// The end of its URL. The path comes from debug information, so nothing of it may end the URL.
    fn url_path(&self) -> String {
        let Artifact::Source { path } = self else { return "debuginfo".to_owned() };
        path.bytes().fold("source".to_owned(), |mut url, byte| {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'~' => url.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
                _ => url.push_str(&format!("%{byte:02X}")),
            }
            url
        })
    }

    fn cache_name(&self) -> String {
        match self {
            Artifact::DebugFile { .. } => "debuginfo".to_owned(),
            Artifact::Source { path } => debuginfod::source_name(path),
        }
    }
}

/// The directory of the cache for a build id.
fn cache_directory(build_id: &[u8]) -> Result<PathBuf, String> {
    let directory = debuginfod::directory().ok_or("the cache has no directory: set DEBUGINFOD_CACHE_PATH or HOME")?;
    Ok(directory.join(hex(build_id)))
}

/// A file that is removed at the end, unless it was renamed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After a success it has another name.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a word of `DEBUGINFOD_URLS` is a server that may be asked.
fn is_server(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Checks that a file is the debug file of a build id.
fn check(path: &Path, build_id: &[u8]) -> Result<(), String> {
    let opened = catch_panic(|| Elf::open(path).map(|elf| elf.build_id()));
    match opened {
        Some(Ok(found)) if *found == *build_id => Ok(()),
        Some(Ok(found)) if found.is_empty() => Err("its answer was thrown away: it has no build id".to_owned()),
        Some(Ok(found)) => Err(format!("its answer was thrown away: it has build id {}", hex(&found))),
        Some(Err(Error::Malformed { what, .. })) => Err(format!("its answer was thrown away: {what}")),
        Some(Err(_)) | None => Err("its answer was thrown away: it cannot be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(variables: &[(&str, &str)]) -> DebuginfodClient {
        DebuginfodClient::new(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_http_servers_are_asked() {
        let urls = "ima:enforcing https://a.example/ file:///tmp http:// ftp://b -o http://c.example:8002";
        assert_eq!(client(&[("DEBUGINFOD_URLS", urls)]).0.servers, ["https://a.example", "http://c.example:8002"]);
        assert!(client(&[("DEBUGINFOD_URLS", "file:///tmp")]).problem().unwrap().contains("DEBUGINFOD_URLS"));
        assert_eq!(client(&[("DEBUGINFOD_URLS", "http://a")]).problem(), None);
    }

    #[test]
    fn limits_come_from_the_environment_but_have_a_maximum() {
        let limits = |size, time| client(&[("DEBUGINFOD_MAXSIZE", size), ("DEBUGINFOD_MAXTIME", time)]).0.limits;
        let low = limits("1000", "7");
        assert_eq!((low.bytes, low.time, low.stall), (1000, Duration::from_secs(7), Duration::from_secs(90)));
        let high = limits("99999999999999", "0");
        assert_eq!((high.bytes, high.time), (MAX_BYTES, Duration::from_secs(MAX_SECONDS)));
    }

    #[test]
    fn paths_of_sources_cannot_end_a_url() {
        let url = |path| Artifact::Source { path }.url_path();
        assert_eq!(url("/usr/src/a-b_c~1.c"), "source/usr/src/a-b_c~1.c");
        assert_eq!(url("/a b?c#d%e\n\u{e9}[1-9]"), "source/a%20b%3Fc%23d%25e%0A%C3%A9%5B1-9%5D");
    }

    #[test]
    fn progress_names_file_and_size() {
        let words =
            |bytes, size_bytes| DownloadProgress { file: "libc.so.6".to_owned(), bytes, size_bytes }.to_string();
        let start = "downloading debug information of libc.so.6";
        assert_eq!(words(12 << 20, Some(30 << 20)), format!("{start}: 12 of 30 MB"));
        assert_eq!(words(12 << 20, None), format!("{start}: 12 MB"));
        assert_eq!(words(0, None), start);
    }
}
