//! What a command would run, and whether the agent can be preloaded into it: the search on the PATH, scripts and their
//! interpreters, permissions that make the loader distrust its environment. [`elf`](super::elf) reads the bytes. It says no
//! only where a preload surely fails; what it cannot tell (an unreadable file, a strange loader) is tried.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, eaccess, getegid, geteuid};

use super::elf::{self, Image};
use super::{AttachError, quote, wrapper};

/// Scripts that interpret scripts, as deep as the kernel goes.
const MAX_SCRIPTS: usize = 5;
/// Bytes of a first line that the kernel reads.
const MAX_FIRST_LINE: u64 = 256;
/// Where commands are looked for without a PATH, as execvp(3) does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program that can carry the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that is executed.
    pub path: PathBuf,
    /// How.
    pub form: Form,
    /// What the user should know all the same, a sentence each.
    pub warnings: Vec<String>,
}

/// How a file becomes a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// By itself.
    Binary,
    /// Through the interpreter of its first line, at last.
    Script {
        /// A binary.
        interpreter: PathBuf,
    },
    /// Text without such a line: execvp(3) has it run by `/bin/sh`.
    Shell,
    /// In some other format; the kernel decides.
    Unknown,
}

/// What `command` (its words, the first one a name or a path) would run.
pub fn of_command(command: &[OsString]) -> Result<Program, AttachError> {
    wrapper::check(command)?;
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    examine(&find(name, std::env::var_os("PATH").as_deref())?)
}

/// The file that execvp(3) would take for `name`; `search` is a PATH.
pub fn find(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, AttachError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let missing = AttachError::NotFound { name: quote::name(name) };
    if name.is_empty() {
        return Err(missing);
    }
    let mut refused = None;
    for place in std::env::split_paths(search.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        let path = if place.as_os_str().is_empty() { Path::new(".").join(name) } else { place.join(name) };
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() && eaccess(&path, AccessFlags::X_OK).is_ok() => return Ok(path),
            Ok(metadata) if metadata.is_file() => refused = refused.or(Some(path)),
            _ => {}
        }
    }
    Err(refused.map_or(missing, |path| not_executable(&path, "is not executable (chmod +x)")))
}

/// Looks at a file that is to be executed.
pub fn examine(path: &Path) -> Result<Program, AttachError> {
    let mut warnings = Vec::new();
    let (form, _) = follow(path, path, MAX_SCRIPTS, &mut warnings)?;
    Ok(Program { path: path.to_owned(), form, warnings })
}

/// `top` is the file of the command, `path` the one looked at: itself, or an interpreter.
fn follow(top: &Path, path: &Path, depth: usize, warnings: &mut Vec<String>) -> Result<(Form, PathBuf), AttachError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if top != path => {
            return Err(not_executable(top, format!("wants {} as its interpreter: {error}", quote::name(path))));
        }
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Err(AttachError::NotFound { name: with_slash(path) });
        }
        Err(error) => return Err(not_executable(path, format!("cannot be executed: {error}"))),
    };
    if metadata.is_dir() {
        return Err(not_executable(path, "is a directory"));
    }
    if !metadata.is_file() {
        return Err(not_executable(path, "is not a regular file"));
    }
    if eaccess(path, AccessFlags::X_OK).is_err() {
        return Err(not_executable(path, "is not executable (chmod +x)"));
    }
    let Ok(mut file) = File::open(path) else {
        warnings.push(format!("{} cannot be read: sigtop cannot tell whether it can be watched", quote::name(path)));
        return Ok((Form::Unknown, path.to_owned()));
    };
    let broken = |error: io::Error| not_executable(path, format!("cannot be read: {error}"));
    let mut head = Vec::new();
    file.by_ref().take(MAX_FIRST_LINE).read_to_end(&mut head).map_err(broken)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        return script(top, path, line, depth, warnings);
    }
    let image = elf::inspect(&file).map_err(broken)?;
    let form = match image {
        Image::Other if head.contains(&0) => Form::Unknown,
        Image::Other => Form::Shell,
        Image::NoProgram => return Err(not_executable(path, "is ELF, but not a program (an object file, or broken)")),
        image => {
            binary(path, &metadata, image, warnings)?;
            Form::Binary
        }
    };
    Ok((form, path.to_owned()))
}

/// Bash calls it "bad interpreter", the kernel ENOENT, ELOOP or ENOEXEC.
fn script(
    top: &Path,
    path: &Path,
    line: &[u8],
    depth: usize,
    warnings: &mut Vec<String>,
) -> Result<(Form, PathBuf), AttachError> {
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
    let (interpreter, argument) = (Path::new(OsStr::from_bytes(&line[..end])), line[end..].trim_ascii());
    if interpreter.as_os_str().is_empty() {
        return Err(not_executable(path, "has a first line that names no interpreter"));
    }
    if depth == 0 {
        return Err(not_executable(top, "is a script of a script of a script, deeper than the kernel goes"));
    }
    let interpreter = if interpreter.file_name() == Some(OsStr::new("env")) {
        match wrapper::env_command(argument) {
            Some(name) => find(&name, std::env::var_os("PATH").as_deref()).map_err(|_| {
                not_executable(path, format!("wants {} as its interpreter: not found", quote::name(&name)))
            })?,
            None => {
                let obstacle =
                    "has a first line (env -i) that drops LD_PRELOAD: name the interpreter there by its path"
                        .to_owned();
                return Err(AttachError::NotPreloadable { name: quote::name(path), obstacle });
            }
        }
    } else {
        interpreter.to_owned()
    };
    let (_, interpreter) = follow(top, &interpreter, depth - 1, warnings)?;
    Ok((Form::Script { interpreter: interpreter.clone() }, interpreter))
}

fn binary(path: &Path, metadata: &Metadata, image: Image, warnings: &mut Vec<String>) -> Result<(), AttachError> {
    let refuse = |obstacle: String| Err(AttachError::NotPreloadable { name: quote::name(path), obstacle });
    let (interpreter, go, needed) = match image {
        Image::Bits32 => {
            return refuse("is a 32-bit program, and sigtop's agent is x86-64: build it for x86-64".into());
        }
        Image::Foreign(machine) => {
            return refuse(format!(
                "is a program for {}, and sigtop's agent is x86-64: build it for x86-64",
                machine_name(machine)
            ));
        }
        Image::Program { interpreter, go, needed } => (interpreter, go, needed),
        Image::Other | Image::NoProgram => return Ok(()),
    };
    // A loader run by its own name (`ld-linux-x86-64.so.2 ./app`) has no interpreter, and preloads.
    let loader = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-"));
    match interpreter {
        None if loader => {}
        None if go => {
            return refuse("is a static Go program, so nothing can be preloaded into it: use Go's own pprof".into());
        }
        None => {
            return refuse(
                "is statically linked, so nothing can be preloaded into it: link it dynamically, or use perf".into(),
            );
        }
        Some(loader) if loader.windows(7).any(|part| part == b"ld-musl") => {
            warnings.push(format!(
                "{} uses musl, whose own functions have no unwind tables: stacks through them are cut",
                quote::name(path)
            ));
        }
        Some(_) if go => {
            warnings
                .push(format!("{} is a Go program: Go's own frames may be missing from its stacks", quote::name(path)));
        }
        Some(_) => {}
    }
    if let Some(why) = distrusted(path, metadata) {
        return refuse(why);
    }
    // Its runtime ends the program unless it is the first library loaded, and a preload comes before it.
    let runtime = |name: &[u8]| name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan");
    if needed.iter().any(|name| runtime(name)) && !allows_asan_behind() {
        return refuse("needs AddressSanitizer's runtime loaded first, which a preload prevents: set ASAN_OPTIONS=verify_asan_link_order=0, or put the runtime in LD_PRELOAD".into());
    }
    Ok(())
}

/// Whether AddressSanitizer's runtime comes first, or its check of the link order is off.
fn allows_asan_behind() -> bool {
    let says = |variable: &str, text: &[u8]| {
        std::env::var_os(variable).is_some_and(|value| value.as_bytes().windows(text.len()).any(|part| part == text))
    };
    says("LD_PRELOAD", b"libasan.so")
        || says("LD_PRELOAD", b"libclang_rt.asan")
        || says("ASAN_OPTIONS", b"verify_asan_link_order=0")
}

/// Why the kernel would set AT_SECURE, on which the loader ignores LD_PRELOAD.
fn distrusted(path: &Path, metadata: &Metadata) -> Option<String> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let (setuid, setgid) = (metadata.mode() & 0o4000 != 0, metadata.mode() & 0o2010 == 0o2010);
    let why = if setuid && metadata.uid() != user {
        format!("is setuid, so the loader ignores LD_PRELOAD: run sigtop as its user (uid {})", metadata.uid())
    } else if setgid && metadata.gid() != group {
        format!("is setgid, so the loader ignores LD_PRELOAD: run sigtop with its group (gid {})", metadata.gid())
    } else if user != 0 && has_capabilities(path) {
        "has file capabilities, so the loader ignores LD_PRELOAD: run a copy of it, or run sigtop as root".to_owned()
    } else {
        return None;
    };
    let ignored = statvfs(path).is_ok_and(|place| place.flags().contains(FsFlags::ST_NOSUID)) || no_new_privileges();
    if ignored { None } else { Some(why) }
}

fn no_new_privileges() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.lines().any(|line| line == "NoNewPrivs:\t1"))
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end with a NUL and live through the call; with a size of 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "x86",
        8 => "MIPS",
        20 | 21 => "PowerPC",
        22 => "S/390",
        40 => "ARM",
        183 => "AArch64",
        243 => "RISC-V",
        258 => "LoongArch",
        other => return format!("another machine (ELF machine {other})"),
    };
    name.to_owned()
}

fn not_executable(path: &Path, cause: impl Into<String>) -> AttachError {
    AttachError::NotExecutable { name: quote::name(path), cause: cause.into() }
}

/// A name without a slash would read like a command in the message.
fn with_slash(path: &Path) -> String {
    let name = quote::name(path);
    if name.contains('/') { name } else { format!("./{name}") }
}
