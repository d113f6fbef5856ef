//! A file that is there whole or not at all: written beside its place, synced, then put there by its name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file by `write`. Whoever reads it at the same time has the old one or the new one. What is no plain file (a pipe,
/// `/dev/stdout`) is written as it is.
///
/// # Errors
/// When it cannot be written; the old one is then as it was.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Through links: the file is what changes, not the link.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if fs::metadata(&place).is_ok_and(|known| !known.is_file()) {
        return write(&mut File::options().write(true).open(&place)?);
    }
    let aside = beside(&place);
    let done = (|| {
        let mut file = File::options().write(true).create_new(true).open(&aside)?;
        let mut out = io::BufWriter::new(&mut file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        if let Ok(known) = fs::metadata(&place) {
            fs::set_permissions(&aside, known.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&aside, &place)
    })();
    if done.is_err() {
        let _ = fs::remove_file(&aside);
    }
    done
}

fn beside(place: &Path) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    place.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_leaves_the_old_file() {
        let directory = std::env::temp_dir().join(format!("sigtop-save-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.txt");
        save(&path, |out| out.write_all(b"one")).unwrap();
        let failed = save(&path, |out| out.write_all(b"two").and(Err(io::Error::other("full"))));
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        save(&path, |out| out.write_all(b"three")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }
}
