//! The embedded agent made a file that can be preloaded, and the private directory in which that file and the viewer's
//! socket live. The directory must be ours alone (nobody else may put a library there), must allow execution, and its path
//! must survive LD_PRELOAD, which splits at blanks and colons. The first of several places that is all this is taken.
//!
//! The file's name holds a hash of its content, so that versions live side by side; what is found under the name is believed
//! only if it is ours and equal byte for byte. It is never removed: a process may yet start a child with it.
//!
//! What root starts may become another user, whose programs load the file and whose agents connect
//! to the socket. So root's directory is one that every user can reach, which its home seldom is;
//! if there is none, one that only root can reach.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;

use super::AttachError;

/// How the file's name begins; [`find`](super::find) looks for it in the mappings of processes.
pub const PREFIX: &str = "libsigtop-agent-";

const AGENT: &[u8] = include_bytes!(env!("SIGTOP_AGENT_SO"));
/// Names for the file being written, tried before giving up.
const ATTEMPTS: usize = 16;

/// Where sigtop may keep files: the directories that hold its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<Place>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    directory: PathBuf,
    /// A cache may be the first thing in a new home; a runtime directory is made by the system or not at all.
    makes_parent: bool,
    /// Whether it is taken only if every user can search all directories above it.
    for_all_users: bool,
}

impl Places {
    /// Of this user and environment.
    pub fn of_user() -> Places {
        Places::new(|name| env::var_os(name), geteuid().as_raw())
    }

    /// In order of preference: the runtime directory, the cache, root's `/var/cache`, `/tmp`. A
    /// variable that is no absolute path is as if unset.
    fn new(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> Places {
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let place = |directory, makes_parent| Place { directory, makes_parent, for_all_users: user == 0 };
        let within = |parent: PathBuf, makes_parent| place(parent.join("sigtop"), makes_parent);
        let runtime = absolute("XDG_RUNTIME_DIR").map(|parent| within(parent, false));
        let cache = cache.map(|parent| within(parent, true));
        let system = (user == 0).then(|| within("/var/cache".into(), false));
        let last = place(format!("/tmp/sigtop-{user}").into(), false);
        let mut places: Vec<Place> = [runtime, cache, system, Some(last)].into_iter().flatten().collect();
        if user == 0 {
            let for_root_alone = |place: &Place| Place { for_all_users: false, ..place.clone() };
            places.extend(places.iter().map(for_root_alone).collect::<Vec<Place>>());
        }
        Places(places)
    }

    /// The agent's file, written where it is not there yet.
    pub fn library(&self) -> Result<PathBuf, AttachError> {
        if AGENT.is_empty() {
            return Err(AttachError::NoAgent);
        }
        self.first("the agent's library", |place| library_in(place, AGENT))
    }

    /// A private directory whose path is at most `longest` bytes: for a socket, whose address is short.
    pub fn directory(&self, longest: usize) -> Result<PathBuf, AttachError> {
        self.first("the socket", |place| {
            if place.directory.as_os_str().len() > longest {
                return Err(format!("its path is longer than {longest} bytes"));
            }
            private(place)?;
            Ok(place.directory.clone())
        })
    }

    fn first(
        &self,
        what: &'static str,
        take: impl Fn(&Place) -> Result<PathBuf, String>,
    ) -> Result<PathBuf, AttachError> {
        let mut tried = Vec::new();
        for place in &self.0 {
            match take(place) {
                Ok(path) => return Ok(path),
                Err(why) => {
                    // Root's are tried a second time, with less asked of them.
                    tried.retain(|(directory, _)| *directory != place.directory);
                    tried.push((place.directory.clone(), why));
                }
            }
        }
        Err(AttachError::NoPlace { what, tried })
    }
}

/// The value of LD_PRELOAD that adds `library` to what the user preloads already: before it, as the user's own may be found
/// through it; but behind a sanitizer's runtime, which ends the program unless it is first. An agent of another sigtop
/// (from `sigtop env`) is replaced.
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

/// FNV-1a. Not for trust, which comes from comparing: for a name.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn library_in(place: &Place, content: &[u8]) -> Result<PathBuf, String> {
    let directory = &place.directory;
    if directory.as_os_str().as_bytes().iter().any(|&byte| byte.is_ascii_whitespace() || b":$".contains(&byte)) {
        return Err("LD_PRELOAD cannot name a path with a blank, a colon or a dollar sign".to_owned());
    }
    private(place)?;
    if statvfs(directory).map_err(|error| error.to_string())?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err("it is mounted noexec".to_owned());
    }
    let path = directory.join(format!("{PREFIX}{:016x}.so", hash(content)));
    if !is_ours(&path, content).unwrap_or(false) {
        write(directory, &path, content).map_err(|error| format!("cannot write the library: {error}"))?;
    }
    Ok(path)
}

/// Makes a directory that only we can change, or finds that it is one. Root's can be passed through by others, because a
/// target that root starts may become another user and must still load the library for its children.
fn private(place: &Place) -> Result<(), String> {
    let directory = &place.directory;
    let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
    let words = |error: io::Error| error.to_string();
    let make = |directory: &Path, mode| match DirBuilder::new().mode(mode).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(format!("cannot make it: {error}")),
        _ => Ok(()),
    };
    let parent = directory.parent().ok_or("it has no parent")?;
    if place.makes_parent {
        make(parent, 0o700)?;
    }
    if place.for_all_users
        && let Some(closed) = parent.ancestors().find(|above| !is_open_to_all(above))
    {
        return Err(format!("other users cannot enter {}", closed.display()));
    }
    // Whoever owns the parent could put another directory in our place, unless it is sticky as /tmp is.
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

/// Whether every user can search a directory, as far as its mode says.
fn is_open_to_all(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|found| found.mode() & 0o001 != 0)
}

fn is_ours(path: &Path, content: &[u8]) -> io::Result<bool> {
    // Not a FIFO that would make us wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    let right = found.is_file()
        && found.uid() == geteuid().as_raw()
        && found.mode() & 0o777 == 0o555
        && found.len() == content.len() as u64;
    Ok(right && same(file, content)?)
}

fn same(file: File, content: &[u8]) -> io::Result<bool> {
    let mut found = Vec::with_capacity(content.len() + 1);
    file.take(content.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == content)
}

/// Whole or not at all: several sigtops may start at once, and a target may be loading the file.
fn write(place: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let temporary = place.join(format!(".tmp-{}-{attempt}", std::process::id()));
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
            // Left by a sigtop that died with this pid, or being written by another thread of this one.
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

    /// A directory of its own for a test, gone with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = env::temp_dir().join(format!("sigtop-library-{}-{name}", std::process::id()));
            drop(fs::remove_dir_all(&path));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Scratch(path)
        }

        fn place(&self) -> Place {
            Place { directory: self.0.join("sigtop"), makes_parent: false, for_all_users: false }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn refusal(place: &Place) -> String {
        library_in(place, b"agent").unwrap_err()
    }

    #[test]
    fn places_come_in_order_and_only_if_absolute() {
        let of_user = |user: u32, runtime: &str, cache: &str, home: &str| {
            let known = [("XDG_RUNTIME_DIR", runtime), ("XDG_CACHE_HOME", cache), ("HOME", home)];
            let value = |name: &str| {
                known.iter().find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value.into())
            };
            let all = Places::new(value, user)
                .0
                .into_iter()
                .map(|place| place.directory.into_os_string().into_string().unwrap());
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

    /// Root's home is closed to other users as a rule, and what root starts may become one of them.
    #[test]
    fn a_directory_below_a_closed_one_is_passed_over_for_all_users() {
        let scratch = Scratch::new("closed");
        let closed = Place { for_all_users: true, ..scratch.place() };
        assert!(refusal(&closed).contains("other users cannot enter"), "{}", refusal(&closed));
        let places = Places(vec![closed.clone(), scratch.place()]);
        assert!(places.first("it", |place| library_in(place, b"agent")).is_ok(), "rather this than none");
        fs::set_permissions(&scratch.0, Permissions::from_mode(0o711)).unwrap();
        // The directory for temporary files may lie in a home.
        let is_open = env::temp_dir().ancestors().all(is_open_to_all);
        assert_eq!(library_in(&closed, b"agent").is_ok(), is_open);
    }

    #[test]
    fn the_library_is_written_once_and_found_again() {
        let scratch = Scratch::new("once");
        let path = library_in(&scratch.place(), b"agent").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"agent");
        let first = fs::metadata(&path).unwrap();
        assert_eq!(first.mode() & 0o7777, 0o555);
        assert_eq!(library_in(&scratch.place(), b"agent").unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first.ino());
        assert_ne!(library_in(&scratch.place(), b"agent 2").unwrap(), path);
        assert_eq!(fs::read_dir(scratch.place().directory).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_the_agent_is_replaced() {
        let scratch = Scratch::new("replaced");
        let path = library_in(&scratch.place(), b"agent").unwrap();
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
            assert_eq!(library_in(&scratch.place(), b"agent").unwrap(), path);
            let found = fs::symlink_metadata(&path).unwrap();
            assert!(found.is_file() && found.mode() & 0o777 == 0o555 && fs::read(&path).unwrap() == b"agent");
            fs::remove_file(&victim).unwrap();
        }
    }

    #[test]
    fn a_directory_that_is_not_ours_alone_is_refused_and_left() {
        let scratch = Scratch::new("refused");
        let place = scratch.place();
        symlink(&scratch.0, &place.directory).unwrap();
        assert!(refusal(&place).contains("not a directory"));
        assert!(fs::symlink_metadata(&place.directory).unwrap().is_symlink());
        fs::remove_file(&place.directory).unwrap();

        fs::write(&place.directory, b"").unwrap();
        assert!(refusal(&place).contains("not a directory"));
        fs::remove_file(&place.directory).unwrap();

        fs::create_dir(&place.directory).unwrap();
        fs::set_permissions(&place.directory, Permissions::from_mode(0o770)).unwrap();
        assert!(refusal(&place).contains("others can write"));
        fs::set_permissions(&place.directory, Permissions::from_mode(0o700)).unwrap();

        fs::set_permissions(&scratch.0, Permissions::from_mode(0o777)).unwrap();
        assert!(refusal(&place).contains("write to its parent"));
        fs::set_permissions(&scratch.0, Permissions::from_mode(0o1777)).unwrap();
        assert!(library_in(&place, b"agent").is_ok());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&place.directory, Some(1), None).unwrap();
            assert!(refusal(&place).contains("belongs to uid 1"));
        }
    }

    #[test]
    fn a_path_that_ld_preload_would_split_is_passed_over() {
        let scratch = Scratch::new("blank");
        for name in ["a b", "a:b", "a$b", "a\nb"] {
            let bad = Place { directory: scratch.0.join(name), ..scratch.place() };
            let places = Places(vec![bad.clone(), scratch.place()]);
            assert!(
                places.first("it", |place| library_in(place, b"agent")).unwrap().starts_with(scratch.place().directory)
            );
            assert!(!bad.directory.exists());
        }
    }

    #[test]
    fn when_no_place_will_do_each_is_named_with_its_reason() {
        let scratch = Scratch::new("none");
        let missing = Place { directory: scratch.0.join("no/sigtop"), ..scratch.place() };
        let blank = Place { directory: scratch.0.join("a b"), ..scratch.place() };
        let error = Places(vec![missing, blank]).first("it", |place| library_in(place, b"agent")).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("no/sigtop: its parent: No such file"), "{said}");
        assert!(said.contains("a b: LD_PRELOAD cannot name"), "{said}");
        assert_eq!(error.exit_status(), 125);
        assert!(Places(vec![scratch.place()]).directory(10).unwrap_err().to_string().contains("longer than 10 bytes"));
    }

    #[test]
    fn many_at_once_make_one_file() {
        let scratch = Scratch::new("many");
        let content = vec![7; 1 << 16];
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let path = library_in(&scratch.place(), &content).unwrap();
                    assert!(fs::read(path).unwrap() == content);
                });
            }
        });
        assert_eq!(fs::read_dir(scratch.place().directory).unwrap().count(), 1);
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
