//! Writes the embedded agent as a file that can be preloaded, into a private directory where the
//! viewer's socket lives too. The directory must be writable by this user alone (another user could
//! replace the library), must allow execution, and its path must survive LD_PRELOAD, which splits
//! at blanks and colons. The first directory of several that fits is used.
//!
//! The file's name contains a hash of its content, so versions can coexist. A file found under that
//! name is used only if this user owns it and its content is equal byte for byte. It is never
//! removed: a process may still start a child with it.
//!
//! A program that root starts may become another user, whose programs load the file and whose
//! agents connect to the socket. So root's directory must be accessible to every user, which its
//! home seldom is; if there is none, one that only root can enter is used.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;

use super::error::AttachError;

/// The prefix of the library's file name; [`find`](super::find) looks for it in the mappings of
/// processes.
pub const PREFIX: &str = "libsigtop-agent-";

const AGENT: &[u8] = include_bytes!(env!("SIGTOP_AGENT_SO"));
/// Maximum number of temporary names that are tried.
const ATTEMPTS: usize = 16;

/// The directories in which sigtop may keep files, in order of preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentDirectories(Vec<AgentDirectory>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct AgentDirectory {
    directory: PathBuf,
    /// Whether the parent is created too: a cache directory may be missing in a new home, but the
    /// system creates the runtime directory.
    creates_parent: bool,
    /// Whether the directory is used only if every user can search all directories above it.
    for_all_users: bool,
}

impl AgentDirectories {
    /// Returns the directories for this user and environment.
    pub fn of_user() -> AgentDirectories {
        AgentDirectories::new(|name| env::var_os(name), geteuid().as_raw())
    }

    /// Lists the runtime directory, the cache, root's `/var/cache`, and `/tmp`. A variable that is
    /// not an absolute path counts as unset.
    fn new(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> AgentDirectories {
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let candidate =
            |directory, creates_parent| AgentDirectory { directory, creates_parent, for_all_users: user == 0 };
        let within = |parent: PathBuf, creates_parent| candidate(parent.join("sigtop"), creates_parent);
        let runtime = absolute("XDG_RUNTIME_DIR").map(|parent| within(parent, false));
        let cache = cache.map(|parent| within(parent, true));
        let system = (user == 0).then(|| within("/var/cache".into(), false));
        let last = candidate(format!("/tmp/sigtop-{user}").into(), false);
        let mut directories: Vec<AgentDirectory> = [runtime, cache, system, Some(last)].into_iter().flatten().collect();
        if user == 0 {
            let for_root_alone =
                |candidate: &AgentDirectory| AgentDirectory { for_all_users: false, ..candidate.clone() };
            directories.extend(directories.iter().map(for_root_alone).collect::<Vec<AgentDirectory>>());
        }
        AgentDirectories(directories)
    }

    /// Returns the path of the agent's library, which is written if it does not exist yet.
    pub fn library(&self) -> Result<PathBuf, AttachError> {
        if AGENT.is_empty() {
            return Err(AttachError::NoAgent);
        }
        self.find_first("the agent's library", |candidate| write_library(candidate, AGENT))
    }

    /// Creates the agent's library as a file in memory, for a system without a writable directory.
    /// Its path leads through this process, which keeps the file open until it ends: programs find
    /// it until then, if they run as the same user and see this process in `/proc`. memfd_create(2)
    ///
    /// # Errors
    /// [`AttachError::NoAgent`], or [`AttachError::System`] if the kernel gives no such file.
    pub fn library_in_memory() -> Result<PathBuf, AttachError> {
        if AGENT.is_empty() {
            return Err(AttachError::NoAgent);
        }
        let name = CString::new(file_name(AGENT)).unwrap_or_default();
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let executable = MFdFlags::from_bits_retain(libc::MFD_EXEC);
        // Kernels before 6.3 do not know the flag, and make every such file executable.
        let file = memfd_create(name.as_c_str(), flags | executable).or_else(|_| memfd_create(name.as_c_str(), flags));
        let cannot = |error: io::Error| AttachError::system("cannot hold the agent's library in memory", error);
        let mut file = File::from(file.map_err(|error| cannot(error.into()))?);
        file.write_all(AGENT).map_err(cannot)?;
        let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(|error| cannot(error.into()))?;
        Ok(format!("/proc/{}/fd/{}", std::process::id(), file.into_raw_fd()).into())
    }

    /// Returns a private directory whose path has at most `longest` bytes, for a socket, whose
    /// address is short.
    pub fn directory(&self, longest: usize) -> Result<PathBuf, AttachError> {
        self.find_first("the socket", |candidate| {
            if candidate.directory.as_os_str().len() > longest {
                return Err(format!("its path is longer than {longest} bytes"));
            }
            make_private(candidate)?;
            Ok(candidate.directory.clone())
        })
    }

    fn find_first(
        &self,
        what: &'static str,
        take: impl Fn(&AgentDirectory) -> Result<PathBuf, String>,
    ) -> Result<PathBuf, AttachError> {
        let mut tried = Vec::new();
        for candidate in &self.0 {
            match take(candidate) {
                Ok(path) => return Ok(path),
                Err(why) => {
                    // Root's directories are tried a second time, with weaker requirements.
                    tried.retain(|(directory, _)| *directory != candidate.directory);
                    tried.push((candidate.directory.clone(), why));
                }
            }
        }
        Err(AttachError::NoDirectory { what, tried })
    }
}

/// Returns the value of LD_PRELOAD that adds `library` to the user's own libraries. It comes before
/// them, as the user's may be found through it, but after a sanitizer's runtime, which ends the
/// program unless it is first. The agent of another sigtop (from `sigtop env`) is replaced.
pub fn preload_value(existing: Option<&OsStr>, library: &Path) -> OsString {
    let is_agent = |entry: &&[u8]| {
        entry.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(PREFIX.as_bytes()))
    };
    let existing = existing.unwrap_or_default().as_bytes();
    let entries: Vec<&[u8]> =
        existing.split(|byte| b" :".contains(byte)).filter(|entry| !entry.is_empty() && !is_agent(entry)).collect();
    let runtime =
        |entry: &&&[u8]| [&b"libasan.so"[..], b"libtsan.so", b"libclang_rt."].iter().any(|name| contains(entry, name));
    let (first, rest) = entries.split_at(entries.iter().take_while(runtime).count());
    let all: Vec<&[u8]> =
        first.iter().copied().chain([library.as_os_str().as_bytes()]).chain(rest.iter().copied()).collect();
    OsString::from_vec(all.join(&b':'))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Returns the name of the library's file.
fn file_name(content: &[u8]) -> String {
    format!("{PREFIX}{:016x}.so", hash(content))
}

/// Computes FNV-1a, for a name. It is not relied upon: files are compared byte for byte.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn write_library(candidate: &AgentDirectory, content: &[u8]) -> Result<PathBuf, String> {
    let directory = &candidate.directory;
    if directory.as_os_str().as_bytes().iter().any(|&byte| byte.is_ascii_whitespace() || b":$".contains(&byte)) {
        return Err("LD_PRELOAD cannot name a path with a blank, a colon or a dollar sign".to_owned());
    }
    make_private(candidate)?;
    if statvfs(directory).map_err(|error| error.to_string())?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err("it is mounted noexec".to_owned());
    }
    let path = directory.join(file_name(content));
    if !is_intact(&path, content).unwrap_or(false) {
        write_atomically(directory, &path, content).map_err(|error| format!("cannot write the library: {error}"))?;
    }
    Ok(path)
}

/// Creates a directory that only this user can change, or verifies an existing one. Other users can
/// search root's directory, because a target that root starts may become another user and must
/// still load the library for its children.
fn make_private(candidate: &AgentDirectory) -> Result<(), String> {
    let directory = &candidate.directory;
    let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
    let words = |error: io::Error| error.to_string();
    let make = |directory: &Path, mode| match DirBuilder::new().mode(mode).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(format!("cannot make it: {error}")),
        _ => Ok(()),
    };
    let parent = directory.parent().ok_or("it has no parent")?;
    if candidate.creates_parent {
        make(parent, 0o700)?;
    }
    if candidate.for_all_users
        && let Some(closed) = parent.ancestors().find(|above| !is_open_to_all(above))
    {
        return Err(format!("other users cannot enter {}", closed.display()));
    }
    // The owner of the parent could replace the directory, unless the parent is sticky as `/tmp`
    // is.
    let above = fs::metadata(parent).map_err(|error| format!("its parent: {error}"))?;
    if ![0, geteuid().as_raw()].contains(&above.uid()) {
        return Err(format!("its parent belongs to uid {}", above.uid()));
    }
    if above.mode() & 0o022 != 0 && above.mode() & 0o1000 == 0 {
        return Err("others can write to its parent".to_owned());
    }
    make(directory, mode)?;
    let found = fs::symlink_metadata(directory).map_err(words)?;
    if !found.is_dir() {
        return Err("it is not a directory (a symbolic link is not followed)".to_owned());
    }
    if found.uid() != geteuid().as_raw() {
        return Err(format!("it belongs to uid {}", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return Err("others can write to it".to_owned());
    }
    if found.mode() & mode != mode {
        fs::set_permissions(directory, Permissions::from_mode(mode)).map_err(words)?;
    }
    Ok(())
}

/// Returns whether the mode of a directory lets every user search it.
fn is_open_to_all(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|found| found.mode() & 0o001 != 0)
}

fn is_intact(path: &Path, content: &[u8]) -> io::Result<bool> {
    // O_NONBLOCK: opening a FIFO would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    let right = found.is_file()
        && found.uid() == geteuid().as_raw()
        && found.mode() & 0o777 == 0o555
        && found.len() == content.len() as u64;
    Ok(right && has_content(file, content)?)
}

fn has_content(file: File, content: &[u8]) -> io::Result<bool> {
    let mut found = Vec::with_capacity(content.len() + 1);
    file.take(content.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == content)
}

/// Writes a file atomically: several sigtops may start concurrently, and a target may be loading
/// the file.
fn write_atomically(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let temporary = directory.join(format!(".tmp-{}-{attempt}", std::process::id()));
        let created =
            OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&temporary);
        match created {
            Ok(mut file) => {
                let written = file
                    .write_all(content)
                    .and_then(|()| file.set_permissions(Permissions::from_mode(0o555)))
                    .and_then(|()| fs::rename(&temporary, path));
                return written.inspect_err(|_| drop(fs::remove_file(&temporary)));
            }
            // The name is left over from a sigtop that died with this pid, or another thread is
            // writing it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A temporary directory that is removed at the end of its test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = env::temp_dir().join(format!("sigtop-library-{}-{name}", std::process::id()));
            drop(fs::remove_dir_all(&path));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Scratch(path)
        }

        fn candidate(&self) -> AgentDirectory {
            AgentDirectory { directory: self.0.join("sigtop"), creates_parent: false, for_all_users: false }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn refusal(candidate: &AgentDirectory) -> String {
        write_library(candidate, b"agent").unwrap_err()
    }

    #[test]
    fn directories_are_tried_in_order_and_only_if_absolute() {
        let of_user = |user: u32, runtime: &str, cache: &str, home: &str| {
            let known = [("XDG_RUNTIME_DIR", runtime), ("XDG_CACHE_HOME", cache), ("HOME", home)];
            let value = |name: &str| {
                known.iter().find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value.into())
            };
            let all = AgentDirectories::new(value, user)
                .0
                .into_iter()
                .map(|candidate| candidate.directory.into_os_string().into_string().unwrap());
            all.collect::<Vec<_>>().join(" ")
        };
        let of = |runtime: &str, cache: &str, home: &str| of_user(7, runtime, cache, home);
        assert_eq!(of("/run/user/7", "/c", "/h"), "/run/user/7/sigtop /c/sigtop /tmp/sigtop-7");
        assert_eq!(of("", "", "/h"), "/h/.cache/sigtop /tmp/sigtop-7");
        assert_eq!(of("run", "cache", "home"), "/tmp/sigtop-7");
        assert_eq!(of("", "", ""), "/tmp/sigtop-7");
        let of_root = "/root/.cache/sigtop /var/cache/sigtop /tmp/sigtop-0";
        assert_eq!(of_user(0, "", "", "/root"), format!("{of_root} {of_root}"));
    }

    /// Root's home is usually closed to other users, and a program that root starts may become one.
    #[test]
    fn a_directory_below_a_closed_one_is_passed_over_for_all_users() {
        let scratch = Scratch::new("closed");
        let closed = AgentDirectory { for_all_users: true, ..scratch.candidate() };
        assert!(refusal(&closed).contains("other users cannot enter"), "{}", refusal(&closed));
        let directories = AgentDirectories(vec![closed.clone(), scratch.candidate()]);
        assert!(
            directories.find_first("it", |candidate| write_library(candidate, b"agent")).is_ok(),
            "rather this than none"
        );
        fs::set_permissions(&scratch.0, Permissions::from_mode(0o711)).unwrap();
        // The directory for temporary files may be inside a home.
        let is_open = env::temp_dir().ancestors().all(is_open_to_all);
        assert_eq!(write_library(&closed, b"agent").is_ok(), is_open);
    }

    #[test]
    fn the_library_is_written_once_and_found_again() {
        let scratch = Scratch::new("once");
        let path = write_library(&scratch.candidate(), b"agent").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"agent");
        let first = fs::metadata(&path).unwrap();
        assert_eq!(first.mode() & 0o7777, 0o555);
        assert_eq!(write_library(&scratch.candidate(), b"agent").unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first.ino());
        assert_ne!(write_library(&scratch.candidate(), b"agent 2").unwrap(), path);
        assert_eq!(fs::read_dir(scratch.candidate().directory).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_is_not_the_agent_is_replaced() {
        let scratch = Scratch::new("replaced");
        let path = write_library(&scratch.candidate(), b"agent").unwrap();
        let victim = scratch.0.join("victim");
        let spoil: [&dyn Fn(); 4] = [
            &|| fs::write(&path, b"spoil").unwrap(),
            &|| symlink(&victim, &path).unwrap(),
            &|| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            &|| {
                fs::write(&path, b"agent").unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
            },
        ];
        for spoil in spoil {
            fs::remove_file(&path).unwrap();
            fs::write(&victim, b"agent").unwrap();
            fs::set_permissions(&victim, Permissions::from_mode(0o555)).unwrap();
            spoil();
            assert_eq!(write_library(&scratch.candidate(), b"agent").unwrap(), path);
            let found = fs::symlink_metadata(&path).unwrap();
            assert!(found.is_file() && found.mode() & 0o777 == 0o555 && fs::read(&path).unwrap() == b"agent");
            fs::remove_file(&victim).unwrap();
        }
    }

    #[test]
    fn a_directory_that_is_not_ours_alone_is_refused_and_left() {
        let scratch = Scratch::new("refused");
        let candidate = scratch.candidate();
        symlink(&scratch.0, &candidate.directory).unwrap();
        assert!(refusal(&candidate).contains("not a directory"));
        assert!(fs::symlink_metadata(&candidate.directory).unwrap().is_symlink());
        fs::remove_file(&candidate.directory).unwrap();

        fs::write(&candidate.directory, b"").unwrap();
        assert!(refusal(&candidate).contains("not a directory"));
        fs::remove_file(&candidate.directory).unwrap();

        fs::create_dir(&candidate.directory).unwrap();
        fs::set_permissions(&candidate.directory, Permissions::from_mode(0o770)).unwrap();
        assert!(refusal(&candidate).contains("others can write"));
        fs::set_permissions(&candidate.directory, Permissions::from_mode(0o700)).unwrap();

        fs::set_permissions(&scratch.0, Permissions::from_mode(0o777)).unwrap();
        assert!(refusal(&candidate).contains("write to its parent"));
        fs::set_permissions(&scratch.0, Permissions::from_mode(0o1777)).unwrap();
        assert!(write_library(&candidate, b"agent").is_ok());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&candidate.directory, Some(1), None).unwrap();
            assert!(refusal(&candidate).contains("belongs to uid 1"));
        }
    }

    #[test]
    fn a_path_that_ld_preload_would_split_is_passed_over() {
        let scratch = Scratch::new("blank");
        for name in ["a b", "a:b", "a$b", "a\nb"] {
            let bad = AgentDirectory { directory: scratch.0.join(name), ..scratch.candidate() };
            let directories = AgentDirectories(vec![bad.clone(), scratch.candidate()]);
            assert!(
                directories
                    .find_first("it", |candidate| write_library(candidate, b"agent"))
                    .unwrap()
                    .starts_with(scratch.candidate().directory)
            );
            assert!(!bad.directory.exists());
        }
    }

    #[test]
    fn if_no_directory_fits_each_is_named_with_its_reason() {
        let scratch = Scratch::new("none");
        let missing = AgentDirectory { directory: scratch.0.join("no/sigtop"), ..scratch.candidate() };
        let blank = AgentDirectory { directory: scratch.0.join("a b"), ..scratch.candidate() };
        let error = AgentDirectories(vec![missing, blank])
            .find_first("it", |candidate| write_library(candidate, b"agent"))
            .unwrap_err();
        let said = error.to_string();
        assert!(said.contains("no/sigtop: its parent: No such file"), "{said}");
        assert!(said.contains("a b: LD_PRELOAD cannot name"), "{said}");
        assert_eq!(error.exit_status(), 125);
        assert!(
            AgentDirectories(vec![scratch.candidate()])
                .directory(10)
                .unwrap_err()
                .to_string()
                .contains("longer than 10 bytes")
        );
    }

    #[test]
    fn a_library_in_memory_is_complete_and_cannot_change() {
        let path = AgentDirectories::library_in_memory().unwrap();
        assert!(fs::read(&path).unwrap() == AGENT);
        assert!(OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(b"x")).is_err());
    }

    #[test]
    fn many_at_once_make_one_file() {
        let scratch = Scratch::new("many");
        let content = vec![7; 1 << 16];
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let path = write_library(&scratch.candidate(), &content).unwrap();
                    assert!(fs::read(path).unwrap() == content);
                });
            }
        });
        assert_eq!(fs::read_dir(scratch.candidate().directory).unwrap().count(), 1);
    }

    #[test]
    fn the_users_own_preload_is_kept() {
        let value = |existing: &str| {
            let library = Path::new("/run/libsigtop-agent-1.so");
            preload_value(Some(OsStr::new(existing)), library).into_string().unwrap()
        };
        assert_eq!(preload_value(None, Path::new("/a.so")), "/a.so");
        assert_eq!(value(""), "/run/libsigtop-agent-1.so");
        assert_eq!(value("/x.so y.so"), "/run/libsigtop-agent-1.so:/x.so:y.so");
        assert_eq!(value("/x.so:/run/libsigtop-agent-1.so"), "/run/libsigtop-agent-1.so:/x.so");
        assert_eq!(value("/old/libsigtop-agent-0.so"), "/run/libsigtop-agent-1.so");
        assert_eq!(value("/l/libasan.so.8:/x.so"), "/l/libasan.so.8:/run/libsigtop-agent-1.so:/x.so");
    }
}
