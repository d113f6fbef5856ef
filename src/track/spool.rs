//! What is recorded in case somebody wants to save it: the latest in memory, what is more than a little in a file without a name, which
//! is gone with the process. Where no directory takes such a file, memory must do, and it is given up sooner.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::fcntl::OFlag;

use super::saver::Piece;

/// Bytes kept at most, and those of them that stay in memory.
const MAX_KEPT: u64 = 1 << 30;
const MAX_IN_MEMORY: usize = 4 << 20;
/// Bytes kept at most where there is no file.
const MAX_WITHOUT_FILE: usize = 32 << 20;
/// Read at once.
const PIECE: usize = 1 << 20;

/// The recording so far, from its first byte on.
#[derive(Default)]
pub(super) struct Spool {
    file: Option<File>,
    in_file: u64,
    /// Behind what is in the file.
    pieces: Vec<Piece>,
    in_memory: usize,
    /// Whether a file was tried and could not be had.
    has_no_file: bool,
    /// Why nothing is kept any more: one sentence.
    given_up: Option<String>,
}

impl Spool {
    /// Keeps one more piece.
    pub(super) fn keep(&mut self, piece: Piece) {
        if self.given_up.is_some() {
            return;
        }
        self.in_memory += piece.len();
        self.pieces.push(piece);
        if self.in_memory > MAX_IN_MEMORY && !self.has_no_file {
            self.has_no_file = self.move_to_file().is_err();
        }
        if self.in_memory > MAX_WITHOUT_FILE || self.in_file > MAX_KEPT {
            let kept_mib = (self.in_file + self.in_memory as u64) >> 20;
            let given_up =
                Some(format!("more than {kept_mib} MiB were recorded and not kept; --save FILE writes as it goes"));
            *self = Spool { given_up, ..Spool::default() };
        }
    }

    /// All pieces, in order.
    ///
    /// # Errors
    /// Why there are none, and what helps.
    pub(super) fn pieces(&self) -> Result<Vec<Piece>, String> {
        if let Some(why) = &self.given_up {
            return Err(why.clone());
        }
        let mut pieces = Vec::new();
        if let Some(file) = &self.file {
            let mut at = 0;
            while at < self.in_file {
                let mut piece = vec![0; PIECE.min((self.in_file - at) as usize)];
                let read = file.read_exact_at(&mut piece, at);
                read.map_err(|error| format!("what was recorded cannot be read again: {error}"))?;
                at += piece.len() as u64;
                pieces.push(piece.into());
            }
        }
        pieces.extend(self.pieces.iter().cloned());
        Ok(pieces)
    }

    /// What was written stays where it is if the disk is full in the middle: the rest is behind it in memory.
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

/// Where files without a name may be: on a disk rather than in memory.
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
    fn what_is_kept_comes_back_in_order_from_file_and_memory() {
        let (mut spool, mut expected) = (Spool::default(), Vec::new());
        for number in 0..600u32 {
            let piece: Vec<u8> = number.to_le_bytes().repeat(number as usize * 10);
            expected.extend_from_slice(&piece);
            spool.keep(piece.into());
            assert!(spool.in_memory <= MAX_IN_MEMORY + 24_000);
        }
        assert!(spool.in_file > 0 && !spool.pieces.is_empty(), "both are used");
        assert!(all(&spool) == expected);
    }

    #[test]
    fn without_a_file_memory_is_given_up_at_its_limit_and_that_is_said() {
        let mut spool = Spool { has_no_file: true, ..Spool::default() };
        let piece: Piece = vec![7; 1 << 20].into();
        (0..32).for_each(|_| spool.keep(Piece::clone(&piece)));
        assert_eq!(all(&spool).len(), 32 << 20);
        spool.keep(piece);
        assert!(spool.pieces().unwrap_err().starts_with("more than 33 MiB"));
        assert_eq!(spool.in_memory, 0);
    }

    #[test]
    fn where_no_directory_takes_a_file_the_last_error_is_told() {
        assert!(unnamed(&["/nowhere", "/proc"].map(PathBuf::from)).is_err());
        assert!(unnamed(&["/nowhere".into(), std::env::temp_dir()]).is_ok());
    }
}
