//! A file that is written aside and put in its place when it is whole: under its name lies the old one or the new one, never
//! a part. Until then it is `NAME.part` beside it, so that what a killed writer leaves can be found. What is no regular file
//! (a pipe, a terminal, `/dev/null`) is written as it is.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Files `NAME.part`, `NAME.part2`, … that may lie there already.
const MAX_PARTS: u32 = 99;

/// A file being written. Dropped before it is put in its place it stays in its part, unless nothing
/// was written to it.
#[derive(Debug)]
pub struct Aside {
    file: File,
    /// Where it is to be.
    place: PathBuf,
    /// Where it is; nowhere else if it is no regular file.
    part: Option<PathBuf>,
}

/// Why a file could not be written.
#[derive(Debug)]
pub struct AsideError {
    /// Which file.
    pub path: PathBuf,
    /// The system's word.
    pub cause: io::Error,
}

impl fmt::Display for AsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AsideError { path, cause } = self;
        write!(f, "cannot write {}: {}", path.display(), sentence(cause))?;
        match remedy(cause) {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for AsideError {}

impl AsideError {
    /// Whether it is only that nobody reads any more.
    pub fn is_hangup(&self) -> bool {
        self.cause.kind() == ErrorKind::BrokenPipe
    }
}

/// The system's words, without its number.
fn sentence(cause: &io::Error) -> String {
    cause.raw_os_error().map_or_else(|| cause.to_string(), |number| Errno::from_raw(number).desc().to_lowercase())
}

fn remedy(cause: &io::Error) -> Option<&'static str> {
    Some(match cause.raw_os_error().map(Errno::from_raw)? {
        Errno::ENOSPC | Errno::EDQUOT => "make room, or write to another file system",
        Errno::EFBIG => "raise the limit (ulimit -f), or write less",
        Errno::EROFS | Errno::EACCES | Errno::EPERM => "write to a directory of yours, such as /tmp",
        Errno::ENOENT | Errno::ENOTDIR => "make its directory first (mkdir -p)",
        Errno::EISDIR => "name a file in it",
        _ => return None,
    })
}

impl Aside {
    /// Opens it.
    ///
    /// # Errors
    /// If there is no such directory, or it cannot be written to, or a file of this name may not be written.
    pub fn create(path: &Path) -> Result<Aside, AsideError> {
        Aside::open(path).map_err(|cause| AsideError { path: path.to_owned(), cause })
    }

    fn open(path: &Path) -> io::Result<Aside> {
        // Where a link leads: the link stays one.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match OpenOptions::new().write(true).open(&place) {
            Ok(file) if !file.metadata()?.is_file() => return Ok(Aside { file, place, part: None }),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if place.file_name().is_none() {
            return Err(Errno::EISDIR.into());
        }
        let mut last = None;
        for number in 1..=MAX_PARTS {
            let mut name = OsString::from(&place);
            name.push(if number == 1 { ".part".to_owned() } else { format!(".part{number}") });
            let part = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).open(&part) {
                Ok(file) => {
                    if let Ok(old) = fs::metadata(&place) {
                        // A file that only its owner reads stays so. Where that cannot be, it is another file.
                        let _ = file.set_permissions(old.permissions());
                    }
                    return Ok(Aside { file, place, part: Some(part) });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| ErrorKind::AlreadyExists.into()))
    }

    /// Where it is to be.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Where it is until it is put in its place.
    pub fn part(&self) -> Option<&Path> {
        self.part.as_deref()
    }

    /// Puts it in its place, on the disk and for good.
    ///
    /// # Errors
    /// If it cannot; it lies where it was then, as far as it was written.
    pub fn put(mut self) -> Result<(), AsideError> {
        self.rename().map_err(|cause| AsideError { path: self.place.clone(), cause })
    }

    fn rename(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(part) = &self.part else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(part, &self.place)?;
        self.part = None;
        // The name is on the disk when its directory is. Not every file system can say so.
        if let Some(directory) = self.place.parent() {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            let _ = File::open(directory).and_then(|directory| directory.sync_all());
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let is_empty = || self.file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if let Some(part) = self.part.as_ref().filter(|_| is_empty()) {
            // It holds nothing; if it stays, nothing is lost either.
            let _ = fs::remove_file(part);
        }
    }
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a file in one go; returns its length.
///
/// # Errors
/// If it cannot be written; nothing of it is left then, and what lay there lies there still.
pub fn write(path: &Path, pieces: &[impl AsRef<[u8]>]) -> Result<u64, AsideError> {
    let mut aside = Aside::create(path)?;
    let part = aside.part.clone();
    let mut all = || pieces.iter().try_for_each(|piece| aside.write_all(piece.as_ref()));
    let written = match all() {
        Ok(()) => aside.put(),
        Err(cause) => Err(AsideError { path: path.to_owned(), cause }),
    };
    if let (Err(_), Some(part)) = (&written, part) {
        let _ = fs::remove_file(part);
    }
    written.map(|()| pieces.iter().map(|piece| piece.as_ref().len() as u64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("sigtop-aside-{name}-{}", std::process::id()));
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
    fn the_old_file_lies_there_until_the_new_one_is_whole() {
        let directory = directory("whole");
        let place = directory.join("a.sigtop");
        fs::write(&place, "old").expect("written");
        let mut aside = Aside::create(&place).expect("created");
        aside.write_all(b"new").expect("written");
        assert_eq!((fs::read_to_string(&place).expect("read"), names(&directory).len()), ("old".to_owned(), 2));
        aside.put().expect("put");
        assert_eq!((fs::read_to_string(&place).expect("read"), names(&directory).len()), ("new".to_owned(), 1));
        write(&place, &["new", "er"]).expect("written");
        assert_eq!((fs::read_to_string(&place).expect("read"), names(&directory).len()), ("newer".to_owned(), 1));
    }

    #[test]
    fn what_a_killed_writer_left_is_left() {
        let directory = directory("killed");
        let place = directory.join("a");
        Aside::create(&place).expect("created").write_all(b"half").expect("written");
        write(&place, &["new"]).expect("written");
        assert_eq!(names(&directory), ["a", "a.part"]);
    }

    #[test]
    fn a_part_to_which_nothing_was_written_is_removed() {
        let directory = directory("empty");
        let place = directory.join("a");
        drop(Aside::create(&place).expect("created"));
        assert!(names(&directory).is_empty(), "{:?}", names(&directory));
        fs::write(&place, "old").expect("written");
        drop(Aside::create(&place).expect("created"));
        assert_eq!(names(&directory), ["a"]);
        // What is put in its place is there to stay, however empty.
        Aside::create(&place).expect("created").put().expect("put");
        assert_eq!((names(&directory), fs::read(&place).expect("read")), (vec!["a".to_owned()], Vec::new()));
    }

    #[test]
    fn a_link_stays_a_link() {
        let directory = directory("link");
        let (place, link) = (directory.join("a"), directory.join("link"));
        fs::write(&place, "old").expect("written");
        std::os::unix::fs::symlink(&place, &link).expect("a link");
        write(&link, &["new"]).expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&place).expect("read"), b"new");
    }

    #[test]
    fn errors_say_what_helps() {
        let directory = directory("errors");
        let said = |path: &Path| write(path, &["x"]).expect_err("it cannot be written").to_string();
        assert!(said(&directory.join("no/a")).contains("no such file or directory; make its directory first"));
        assert!(said(&directory).contains("is a directory; name a file in it"));
        assert!(said(Path::new("/dev/full")).contains("/dev/full: no space left on device; make room"));
        write(Path::new("/dev/null"), &["x"]).expect("it takes everything");
    }
}
