//! Keeps the recording of a session, so that it can be saved at any time: a few MiB in memory and
//! the rest in an unnamed file, which vanishes with the process. If no directory supports unnamed
//! files, the spool stays in memory and has a lower limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::fcntl::OFlag;

use super::recording_writer::Piece;

/// Maximum size of the file in bytes.
const MAX_IN_FILE: u64 = 1 << 30;
/// Maximum size in memory in bytes, before it is moved to the file.
const MAX_IN_MEMORY: usize = 4 << 20;
/// Maximum size in bytes without a file.
const MAX_WITHOUT_FILE: usize = 32 << 20;
/// Number of bytes that are read back at a time.
const READ_BYTES: usize = 1 << 20;

/// The recording so far, from its first byte.
#[derive(Default)]
pub(super) struct Spool {
    file: Option<File>,
    in_file: u64,
    /// The pieces after those in the file.
    pieces: Vec<Piece>,
    in_memory: usize,
    /// Whether no file could be created.
    has_no_file: bool,
    /// The reason why the spool was given up, as one sentence.
    given_up: Option<String>,
}

impl Spool {
    /// Adds a piece.
    pub(super) fn push(&mut self, piece: Piece) {
        if self.given_up.is_some() {
            return;
        }
        self.in_memory += piece.len();
        self.pieces.push(piece);
        if self.in_memory > MAX_IN_MEMORY && !self.has_no_file {
            self.has_no_file = self.move_to_file().is_err();
        }
        if self.in_memory > MAX_WITHOUT_FILE || self.in_file > MAX_IN_FILE {
            let kept_mib = (self.in_file + self.in_memory as u64) >> 20;
            let given_up = Some(format!(
                "the recording exceeded {kept_mib} MiB and was dropped; --save FILE writes it while recording"
            ));
            *self = Spool { given_up, ..Spool::default() };
        }
    }

    /// Returns all pieces in order.
    ///
    /// # Errors
    /// If the spool was given up or cannot be read: one sentence with a remedy.
    pub(super) fn pieces(&self) -> Result<Vec<Piece>, String> {
        if let Some(why) = &self.given_up {
            return Err(why.clone());
        }
        let mut pieces = Vec::new();
        if let Some(file) = &self.file {
            let mut at = 0;
            while at < self.in_file {
                let mut piece = vec![0; READ_BYTES.min((self.in_file - at) as usize)];
                let read = file.read_exact_at(&mut piece, at);
                read.map_err(|error| format!("cannot read the recording back: {error}"))?;
                at += piece.len() as u64;
                pieces.push(piece.into());
            }
        }
        pieces.extend(self.pieces.iter().cloned());
        Ok(pieces)
    }

    /// Moves pieces to the file. If the disk is full, the remaining pieces stay in memory.
    fn move_to_file(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(unnamed(&directories())?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut moved = 0;
        let written = self.pieces.iter().try_for_each(|piece| {
            file.write_all(piece)?;
            moved += 1;
            self.in_file += piece.len() as u64;
            self.in_memory -= piece.len();
            Ok(())
        });
        self.pieces.drain(..moved);
        written
    }
}

/// Directories for the unnamed file. Those that are usually on a disk come first.
fn directories() -> Vec<PathBuf> {
    let chosen = std::env::var_os("TMPDIR").map(PathBuf::from);
    chosen.into_iter().chain(["/var/tmp", "/tmp"].map(PathBuf::from)).collect()
}

fn unnamed(directories: &[PathBuf]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(OFlag::O_TMPFILE.bits());
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in directories {
        match options.open(directory) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &Spool) -> Vec<u8> {
        spool.pieces().unwrap().concat()
    }

    #[test]
    fn pieces_come_back_in_order_from_file_and_memory() {
        let (mut spool, mut expected) = (Spool::default(), Vec::new());
        for number in 0..600u32 {
            let piece: Vec<u8> = number.to_le_bytes().repeat(number as usize * 10);
            expected.extend_from_slice(&piece);
            spool.push(piece.into());
            assert!(spool.in_memory <= MAX_IN_MEMORY + 24_000);
        }
        assert!(spool.in_file > 0 && !spool.pieces.is_empty(), "both are used");
        assert!(all(&spool) == expected);
    }

    #[test]
    fn without_a_file_the_spool_is_given_up_at_the_memory_limit() {
        let mut spool = Spool { has_no_file: true, ..Spool::default() };
        let piece: Piece = vec![7; 1 << 20].into();
        (0..32).for_each(|_| spool.push(Piece::clone(&piece)));
        assert_eq!(all(&spool).len(), 32 << 20);
        spool.push(piece);
        assert!(spool.pieces().unwrap_err().starts_with("the recording exceeded 33 MiB"));
        assert_eq!(spool.in_memory, 0);
    }

    #[test]
    fn the_last_error_is_returned_if_no_directory_supports_unnamed_files() {
        assert!(unnamed(&["/nowhere", "/proc"].map(PathBuf::from)).is_err());
        assert!(unnamed(&["/nowhere".into(), std::env::temp_dir()]).is_ok());
    }
}
