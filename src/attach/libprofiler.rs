//! Fills a directory in which programs linked with gperftools' `-lprofiler` find the agent under
//! that library's name. The directory holds the agent's library and links to it, so it can be moved
//! as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::error::AttachError;
use super::library::{AgentDirectories, PREFIX};
use super::quote;

/// The name that programs were linked with; the name that a linker looks for (`-lprofiler`); and
/// the agent's own, for programs that were linked with the agent.
const NAMES: [&str; 3] = ["libprofiler.so.0", "libprofiler.so", "libsigtop-agent.so"];

/// Fills a directory, which is created if it does not exist. Returns its absolute path.
///
/// # Errors
/// If the directory cannot be written, or holds a library of that name that is not sigtop's.
pub fn fill(directory: &Path) -> Result<PathBuf, AttachError> {
    let library = AgentDirectories::of_user().library()?;
    fill_with(directory, &library).map_err(|error| {
        let cause = io::Error::new(error.kind(), format!("{}: {error}", quote::name(directory)));
        AttachError::system("cannot put the agent where libprofiler.so.0 is looked for", cause)
    })
}

fn fill_with(directory: &Path, library: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let directory = directory.canonicalize()?;
    if directory.as_os_str().as_bytes().iter().any(|byte| b":;$".contains(byte)) {
        return Err(io::Error::other("LD_LIBRARY_PATH cannot name a path with a colon, a semicolon or a dollar sign"));
    }
    let is_ours = |target: &PathBuf| target.to_str().is_some_and(|target| target.starts_with(PREFIX));
    for name in NAMES {
        match fs::read_link(directory.join(name)) {
            Ok(target) if is_ours(&target) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            _ => return Err(io::Error::other(format!("{name} is there, and is not sigtop's; take another directory"))),
        }
    }
    let name = library.file_name().unwrap_or_default();
    // The files are written under another name and renamed, as programs may be starting with the
    // present ones.
    let temporary = directory.join(format!(".tmp-{}", std::process::id()));
    let mut result = fs::copy(library, &temporary)
        .and_then(|_| OpenOptions::new().read(true).open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, directory.join(name)));
    for link in NAMES {
        result =
            result.and_then(|()| symlink(name, &temporary)).and_then(|()| fs::rename(&temporary, directory.join(link)));
    }
    result.inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    Ok(directory)
}

/// Returns the shell command that makes programs look in this directory first.
pub fn shell_command(directory: &Path, existing: Option<&std::ffi::OsStr>) -> String {
    let mut paths = directory.as_os_str().to_owned();
    for path in existing.into_iter().flat_map(std::env::split_paths).filter(|path| path != directory) {
        paths.push(":");
        paths.push(path);
    }
    format!("export LD_LIBRARY_PATH={}", quote::command(&[paths]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_filled_again_but_never_over_another_library() {
        let scratch = std::env::temp_dir().join(format!("sigtop-stand-in-{}", std::process::id()));
        let directory = scratch.join("lib");
        let library = scratch.join(format!("{PREFIX}0123.so"));
        fs::create_dir_all(&scratch).expect("writable");
        fs::write(&library, b"agent").expect("writable");
        for _ in 0..2 {
            let path = fill_with(&directory, &library).expect("filled");
            for name in NAMES {
                assert_eq!(fs::read(path.join(name)).expect("it leads to the agent"), b"agent");
            }
            assert_eq!(fs::read_dir(&path).expect("there").count(), 4);
        }
        for name in NAMES {
            fs::remove_file(directory.join(name)).expect("ours");
            fs::write(directory.join(name), b"another").expect("writable");
            let error = fill_with(&directory, &library).expect_err("it is another's");
            assert!(error.to_string().contains(&format!("{name} is there, and is not sigtop's")), "{error}");
            fs::remove_file(directory.join(name)).expect("ours");
        }
        fs::remove_dir_all(&scratch).expect("ours");
    }

    #[test]
    fn a_shell_reads_the_line_back() {
        let command =
            |existing: Option<&str>| super::shell_command(Path::new("/a b"), existing.map(std::ffi::OsStr::new));
        assert_eq!(command(None), "export LD_LIBRARY_PATH='/a b'");
        assert_eq!(command(Some("/x:/a b:/y")), "export LD_LIBRARY_PATH='/a b:/x:/y'");
    }
}
