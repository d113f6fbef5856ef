//! Writes a file atomically. Data goes to a temporary file next to the target, which is renamed
//! into place once it is complete and synced. The temporary file is named `NAME.part`, so that the
//! output of a killed writer can be found. What is not a regular file (a pipe, a terminal,
//! `/dev/null`) is written directly.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Maximum number of temporary files per target: `NAME.part`, `NAME.part2`, ….
const MAX_TEMPORARY_FILES: u32 = 99;

/// A file being written. If it is dropped without [`commit`](AtomicFile::commit), the temporary
/// file stays, unless it is empty.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    target: PathBuf,
    /// Path of the temporary file; `None` if the target is not a regular file.
    temporary: Option<PathBuf>,
}

/// The reason why a file could not be written.
#[derive(Debug)]
pub struct AtomicFileError {
    /// Path of the file.
    pub path: PathBuf,
    /// The system's error.
    pub cause: io::Error,
}

impl fmt::Display for AtomicFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AtomicFileError { path, cause } = self;
        write!(f, "cannot write {}: {}", path.display(), describe(cause))?;
        match remedy(cause) {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for AtomicFileError {}

impl AtomicFileError {
    /// Returns whether the reader of a pipe has closed it.
    pub fn is_hangup(&self) -> bool {
        self.cause.kind() == ErrorKind::BrokenPipe
    }
}

/// The system's words for an error, without its number.
fn describe(cause: &io::Error) -> String {
    cause.raw_os_error().map_or_else(|| cause.to_string(), |number| Errno::from_raw(number).desc().to_lowercase())
}

fn remedy(cause: &io::Error) -> Option<&'static str> {
    Some(match cause.raw_os_error().map(Errno::from_raw)? {
        Errno::ENOSPC | Errno::EDQUOT => "free some space, or write to another file system",
        Errno::EFBIG => "raise the limit (ulimit -f), or write less",
        Errno::EROFS | Errno::EACCES | Errno::EPERM => "write to a directory that you own, such as /tmp",
        Errno::ENOENT | Errno::ENOTDIR => "create its directory first (mkdir -p)",
        Errno::EISDIR => "give the name of a file in it",
        _ => return None,
    })
}

impl AtomicFile {
    /// Creates the temporary file, or opens a target that is not a regular file.
    ///
    /// # Errors
    /// If the directory does not exist or is not writable, or an existing target is not writable.
    pub fn create(path: &Path) -> Result<AtomicFile, AtomicFileError> {
        AtomicFile::open(path).map_err(|cause| AtomicFileError { path: path.to_owned(), cause })
    }

    fn open(path: &Path) -> io::Result<AtomicFile> {
        // The target of a symbolic link is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match OpenOptions::new().write(true).open(&target) {
            Ok(file) if !file.metadata()?.is_file() => return Ok(AtomicFile { file, target, temporary: None }),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if target.file_name().is_none() {
            return Err(Errno::EISDIR.into());
        }
        let mut last = None;
        for number in 1..=MAX_TEMPORARY_FILES {
            let mut name = OsString::from(&target);
            name.push(if number == 1 { ".part".to_owned() } else { format!(".part{number}") });
            let temporary = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    if let Ok(old) = fs::metadata(&target) {
                        // A private file stays private. If the mode cannot be set, the file belongs
                        // to another user.
                        let _ = file.set_permissions(old.permissions());
                    }
                    return Ok(AtomicFile { file, target, temporary: Some(temporary) });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| ErrorKind::AlreadyExists.into()))
    }

    /// Path of the finished file.
    pub fn target_path(&self) -> &Path {
        &self.target
    }

    /// Path of the temporary file; `None` if the target is not a regular file.
    pub fn temporary_path(&self) -> Option<&Path> {
        self.temporary.as_deref()
    }

    /// Syncs the temporary file and renames it to the target.
    ///
    /// # Errors
    /// If that fails. The temporary file stays.
    pub fn commit(mut self) -> Result<(), AtomicFileError> {
        self.rename().map_err(|cause| AtomicFileError { path: self.target.clone(), cause })
    }

    fn rename(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(temporary, &self.target)?;
        self.temporary = None;
        // The new name is on the disk once the directory is synced. Not every file system can.
        if let Some(directory) = self.target.parent() {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            let _ = File::open(directory).and_then(|directory| directory.sync_all());
        }
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let is_empty = || self.file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if let Some(temporary) = self.temporary.as_ref().filter(|_| is_empty()) {
            // An empty file that cannot be removed does no harm.
            let _ = fs::remove_file(temporary);
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file and returns its length in bytes.
///
/// # Errors
/// If that fails. The temporary file is removed, and an existing target is unchanged.
pub fn write(path: &Path, pieces: &[impl AsRef<[u8]>]) -> Result<u64, AtomicFileError> {
    let mut file = AtomicFile::create(path)?;
    let temporary = file.temporary.clone();
    let mut write_all = || pieces.iter().try_for_each(|piece| file.write_all(piece.as_ref()));
    let written = match write_all() {
        Ok(()) => file.commit(),
        Err(cause) => Err(AtomicFileError { path: path.to_owned(), cause }),
    };
    if let (Err(_), Some(temporary)) = (&written, temporary) {
        let _ = fs::remove_file(temporary);
    }
    written.map(|()| pieces.iter().map(|piece| piece.as_ref().len() as u64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("sigtop-atomic-file-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_committed() {
        let directory = directory("whole");
        let target = directory.join("a.sigtop");
        fs::write(&target, "old").expect("written");
        let mut file = AtomicFile::create(&target).expect("created");
        file.write_all(b"new").expect("written");
        assert_eq!((fs::read_to_string(&target).expect("read"), names(&directory).len()), ("old".to_owned(), 2));
        file.commit().expect("put");
        assert_eq!((fs::read_to_string(&target).expect("read"), names(&directory).len()), ("new".to_owned(), 1));
        write(&target, &["new", "er"]).expect("written");
        assert_eq!((fs::read_to_string(&target).expect("read"), names(&directory).len()), ("newer".to_owned(), 1));
    }

    #[test]
    fn the_temporary_file_of_a_killed_writer_stays() {
        let directory = directory("killed");
        let target = directory.join("a");
        AtomicFile::create(&target).expect("created").write_all(b"half").expect("written");
        write(&target, &["new"]).expect("written");
        assert_eq!(names(&directory), ["a", "a.part"]);
    }

    #[test]
    fn an_empty_temporary_file_is_removed() {
        let directory = directory("empty");
        let target = directory.join("a");
        drop(AtomicFile::create(&target).expect("created"));
        assert!(names(&directory).is_empty(), "{:?}", names(&directory));
        fs::write(&target, "old").expect("written");
        drop(AtomicFile::create(&target).expect("created"));
        assert_eq!(names(&directory), ["a"]);
        // A committed file stays even if it is empty.
        AtomicFile::create(&target).expect("created").commit().expect("put");
        assert_eq!((names(&directory), fs::read(&target).expect("read")), (vec!["a".to_owned()], Vec::new()));
    }

    #[test]
    fn a_symbolic_link_stays_a_link() {
        let directory = directory("link");
        let (target, link) = (directory.join("a"), directory.join("link"));
        fs::write(&target, "old").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        write(&link, &["new"]).expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&target).expect("read"), b"new");
    }

    #[test]
    fn errors_suggest_a_remedy() {
        let directory = directory("errors");
        let error = |path: &Path| write(path, &["x"]).expect_err("it cannot be written").to_string();
        assert!(error(&directory.join("no/a")).contains("no such file or directory; create its directory first"));
        assert!(error(&directory).contains("is a directory; give the name of a file in it"));
        assert!(error(Path::new("/dev/full")).contains("/dev/full: no space left on device; free some space"));
        write(Path::new("/dev/null"), &["x"]).expect("/dev/null accepts everything");
    }
}
