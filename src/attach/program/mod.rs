//! Finds the file that a command executes and decides whether the agent can be preloaded into it:
//! the search on the PATH, scripts and their interpreters, and permissions that make the loader
//! ignore its environment. [`elf`](elf) reads the file. A command is refused only where a preload
//! surely fails; what cannot be determined (an unreadable file, an unknown loader) is tried.

pub mod elf;
mod wrapper;

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, eaccess, getegid, geteuid};

use self::elf::ElfKind;
use super::error::AttachError;
use super::quote;
use crate::arch::MACHINE;

/// Maximum depth of scripts that interpret scripts, as in the kernel.
const MAX_SCRIPTS: usize = 5;
/// Maximum number of bytes of a first line that the kernel reads.
const MAX_FIRST_LINE: u64 = 256;
/// The PATH that execvp(3) uses if none is set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program that can be launched and watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that is executed.
    pub path: PathBuf,
    /// The way in which the kernel executes the file.
    pub form: ProgramKind,
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
    /// The reason why the agent cannot be preloaded into it, as a clause about the program, if so:
    /// it has to be sampled from outside.
    pub obstacle: Option<String>,
    /// The reason why its stacks are cut with the agent and not from outside, as a clause about the
    /// program, if so.
    pub weakness: Option<String>,
}

/// The findings on the way to the binary that is executed.
#[derive(Default)]
struct Findings {
    warnings: Vec<String>,
    obstacle: Option<String>,
    weakness: Option<String>,
}

/// The way in which a file is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// The kernel executes the file itself.
    Binary,
    /// The interpreter in its first line executes it.
    Script {
        /// The last interpreter, which is a binary.
        interpreter: PathBuf,
    },
    /// The file is text without such a line: execvp(3) has `/bin/sh` execute it.
    Shell,
    /// The file has another format; the kernel decides.
    Unknown,
}

/// Finds the program that `command` would execute. Its first word is a name or a path.
pub fn resolve_command(command: &[OsString]) -> Result<Program, AttachError> {
    wrapper::check(command)?;
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    examine(&find(name, std::env::var_os("PATH").as_deref())?)
}

/// Returns the file that execvp(3) would execute for `name`; `search` is a PATH.
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

/// Inspects a file that is to be executed.
pub fn examine(path: &Path) -> Result<Program, AttachError> {
    let mut found = Findings::default();
    let (form, _) = inspect_path(path, path, MAX_SCRIPTS, &mut found)?;
    let Findings { warnings, obstacle, weakness } = found;
    Ok(Program { path: path.to_owned(), form, warnings, obstacle, weakness })
}

/// Inspects `path`, which is the file of the command (`top`) or an interpreter.
fn inspect_path(
    top: &Path,
    path: &Path,
    depth: usize,
    found: &mut Findings,
) -> Result<(ProgramKind, PathBuf), AttachError> {
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
        found
            .warnings
            .push(format!("{} cannot be read: sigtop cannot tell whether it can be watched", quote::name(path)));
        return Ok((ProgramKind::Unknown, path.to_owned()));
    };
    let broken = |error: io::Error| not_executable(path, format!("cannot be read: {error}"));
    let mut head = Vec::new();
    file.by_ref().take(MAX_FIRST_LINE).read_to_end(&mut head).map_err(broken)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        return inspect_script(top, path, line, depth, found);
    }
    let image = elf::inspect(&file).map_err(broken)?;
    let form = match image {
        ElfKind::Other if head.contains(&0) => ProgramKind::Unknown,
        ElfKind::Other => ProgramKind::Shell,
        ElfKind::NoProgram => {
            return Err(not_executable(path, "is ELF, but not a program (an object file, or broken)"));
        }
        image => {
            check_binary(path, &metadata, image, found)?;
            ProgramKind::Binary
        }
    };
    Ok((form, path.to_owned()))
}

/// Inspects a script. The kernel reports a bad interpreter as ENOENT, ELOOP or ENOEXEC.
fn inspect_script(
    top: &Path,
    path: &Path,
    line: &[u8],
    depth: usize,
    found: &mut Findings,
) -> Result<(ProgramKind, PathBuf), AttachError> {
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
    let (_, interpreter) = inspect_path(top, &interpreter, depth - 1, found)?;
    Ok((ProgramKind::Script { interpreter: interpreter.clone() }, interpreter))
}

fn check_binary(path: &Path, metadata: &Metadata, image: ElfKind, found: &mut Findings) -> Result<(), AttachError> {
    let refuse = |obstacle: String| Err(AttachError::NotPreloadable { name: quote::name(path), obstacle });
    let (interpreter, go, needed) = match image {
        ElfKind::Bits32 => {
            return refuse(format!("is a 32-bit program, and sigtop's agent is {MACHINE}: build it for {MACHINE}"));
        }
        ElfKind::Foreign(machine) => {
            return refuse(format!(
                "is a program for {}, and sigtop's agent is {MACHINE}: build it for {MACHINE}",
                machine_name(machine)
            ));
        }
        ElfKind::Program { interpreter, go, needed } => (interpreter, go, needed),
        ElfKind::Other | ElfKind::NoProgram => return Ok(()),
    };
    // A loader that is run by its own name (`ld-linux-x86-64.so.2 ./app`) has no interpreter, and
    // preloads.
    let loader = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-"));
    match interpreter {
        None if loader => {}
        None if go => {
            found.obstacle = Some("is a static Go program, so nothing can be preloaded into it".into());
        }
        None => {
            found.obstacle = Some("is statically linked, so nothing can be preloaded into it".into());
        }
        Some(loader) if loader.windows(7).any(|part| part == b"ld-musl") => {
            // Frames of Python are read by the agent, whatever is below them.
            if !path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"python")) {
                found.weakness = Some("uses musl, whose own functions have no unwind tables".into());
            }
        }
        Some(_) if go => {
            found
                .warnings
                .push(format!("{} is a Go program: Go's own frames may be missing from its stacks", quote::name(path)));
        }
        Some(_) => {}
    }
    if let Some(why) = explain_distrust(path, metadata) {
        return refuse(why);
    }
    // AddressSanitizer's runtime ends the program unless it is the first library loaded, and a
    // preloaded library comes before it.
    let runtime = |name: &[u8]| name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan");
    if needed.iter().any(|name| runtime(name)) && !allows_late_asan() {
        return refuse("needs AddressSanitizer's runtime loaded first, which a preload prevents: set ASAN_OPTIONS=verify_asan_link_order=0, or put the runtime in LD_PRELOAD".into());
    }
    Ok(())
}

/// Returns whether AddressSanitizer's runtime comes first, or its check of the link order is off.
fn allows_late_asan() -> bool {
    let says = |variable: &str, text: &[u8]| {
        std::env::var_os(variable).is_some_and(|value| value.as_bytes().windows(text.len()).any(|part| part == text))
    };
    says("LD_PRELOAD", b"libasan.so")
        || says("LD_PRELOAD", b"libclang_rt.asan")
        || says("ASAN_OPTIONS", b"verify_asan_link_order=0")
}

/// Returns why the kernel would set AT_SECURE, which makes the loader ignore LD_PRELOAD.
fn explain_distrust(path: &Path, metadata: &Metadata) -> Option<String> {
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
    // SAFETY: both strings end with a NUL and live through the call; with a size of 0 nothing is
    // written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "x86",
        8 => "MIPS",
        20 | 21 => "PowerPC",
        22 => "S/390",
        40 => "ARM",
        62 => "x86-64",
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

/// Adds a directory to a name that would read like a command in a message.
fn with_slash(path: &Path) -> String {
    let name = quote::name(path);
    if name.contains('/') { name } else { format!("./{name}") }
}
