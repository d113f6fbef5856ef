//! The thread that writes a recording to a file or a pipe, so that a slow disk does not delay the
//! session. When the disk is full, up to [`MAX_PENDING`] bytes are kept and written again every
//! second.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use nix::errno::Errno;

use crate::link::atomic_file::{AtomicFile, AtomicFileError};

/// Maximum number of bytes that wait for space on the disk.
const MAX_PENDING: usize = 64 << 20;
/// Capacity of the channel to the thread, in blocks. When it is full, the session waits.
const BLOCKS: usize = 256;
/// Time between two attempts to write to a full disk.
const RETRY: Duration = Duration::from_secs(1);

/// The destination of a recording.
#[derive(Debug)]
pub enum RecordingOutput {
    /// A file, which is renamed to its final path at the end.
    File(AtomicFile),
    /// The temporary file of a file in another format, which replaces it at the end. If sigtop is
    /// killed, the temporary file stays behind and is a recording.
    Draft(AtomicFile),
    /// A pipe or another stream, which gets every block as soon as it is complete.
    Stream(File),
}

/// A recording or a report that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// The path of the file, or `None` for a stream.
    pub path: Option<PathBuf>,
    /// The size in bytes.
    pub bytes: u64,
}

/// Consecutive bytes of a recording.
pub(super) type Piece = Arc<[u8]>;

/// Reads pieces one after the other.
pub(super) struct PieceReader {
    pieces: VecDeque<Piece>,
    /// The position in the first piece.
    at: usize,
}

impl PieceReader {
    pub(super) fn new(pieces: Vec<Piece>) -> PieceReader {
        PieceReader { pieces: pieces.into(), at: 0 }
    }
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(first) = self.pieces.front() {
            let count = (&first[self.at..]).read(into)?;
            if count > 0 || into.is_empty() {
                self.at += count;
                return Ok(count);
            }
            self.pieces.pop_front();
            self.at = 0;
        }
        Ok(0)
    }
}

/// A handle of the thread.
pub(super) struct RecordingWriter {
    pieces: Sender<Piece>,
    /// Warnings, one sentence each.
    warnings: Receiver<String>,
    thread: JoinHandle<Result<SavedFile, AtomicFileError>>,
    pub(super) is_stream: bool,
}

impl RecordingWriter {
    /// Starts the thread.
    pub(super) fn start(output: RecordingOutput) -> io::Result<RecordingWriter> {
        let (pieces, received) = bounded(BLOCKS);
        let (warn, warnings) = bounded(BLOCKS);
        let is_stream = matches!(output, RecordingOutput::Stream(_));
        let work = move || WriterThread { output, pending: Vec::new(), written: 0, failure: None, warn }.run(&received);
        let thread = std::thread::Builder::new().name("saver".to_owned()).spawn(work)?;
        Ok(RecordingWriter { pieces, warnings, thread, is_stream })
    }

    /// Sends a piece to the thread. Returns whether the thread still writes.
    pub(super) fn write(&self, piece: Piece) -> bool {
        self.pieces.send(piece).is_ok()
    }

    /// Returns the warnings since the last call.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.warnings.try_iter()
    }

    /// Waits until the recording is written completely.
    pub(super) fn finish(self) -> Result<SavedFile, AtomicFileError> {
        drop(self.pieces);
        drop(self.warnings);
        let gone = |_| {
            Err(AtomicFileError {
                path: PathBuf::new(),
                cause: io::Error::other("the thread that writes it has crashed"),
            })
        };
        self.thread.join().unwrap_or_else(gone)
    }
}

struct WriterThread {
    output: RecordingOutput,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    written: u64,
    /// The last error and its time.
    failure: Option<(io::Error, Instant)>,
    warn: Sender<String>,
}

impl WriterThread {
    fn run(mut self, pieces: &Receiver<Piece>) -> Result<SavedFile, AtomicFileError> {
        loop {
            let due = self.failure.as_ref().map(|(_, seen)| *seen + RETRY);
            let piece = match due {
                None => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => pieces.recv_deadline(due),
            };
            match piece {
                Ok(piece) => self.pending.extend_from_slice(&piece),
                Err(RecvTimeoutError::Timeout) => self.failure.as_mut().expect("it was due").1 = Instant::now(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if due.is_none_or(|due| Instant::now() >= due) {
                self.write();
            }
            let is_hopeless = self.failure.as_ref().is_some_and(|(cause, _)| !is_full(cause));
            if is_hopeless || self.pending.len() > MAX_PENDING {
                if matches!(self.output, RecordingOutput::Draft(_)) {
                    // The draft only matters if sigtop is killed. The session goes on, and the
                    // final file can still be written.
                    pieces.iter().for_each(drop);
                    self.failure = None;
                    self.pending.clear();
                }
                break;
            }
        }
        self.write();
        if let Some((cause, _)) = self.failure {
            return Err(AtomicFileError { path: self.output.path(), cause });
        }
        let saved = SavedFile { path: self.output.saved_path(), bytes: self.written };
        match self.output {
            RecordingOutput::File(file) => file.commit()?,
            RecordingOutput::Draft(_) | RecordingOutput::Stream(_) => {}
        }
        Ok(saved)
    }

    fn write(&mut self) {
        let had_failure = self.failure.take().is_some();
        let mut done = 0;
        while done < self.pending.len() {
            match self.output.write(&self.pending[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some((error, Instant::now()));
                    break;
                }
            }
        }
        self.pending.drain(..done);
        self.written += done as u64;
        match &self.failure {
            Some((cause, _)) if !had_failure => {
                let path = self.output.path();
                let error = AtomicFileError { path, cause: copy(cause) };
                let then = match self.output {
                    RecordingOutput::Draft(_) => "a watch that is killed leaves no more than is there",
                    _ => "what is recorded waits for it",
                };
                let _ = self.warn.try_send(format!("{error}; {then}"));
            }
            None if had_failure => drop(self.warn.try_send("writing the recording again".to_owned())),
            _ => {}
        }
    }
}

/// Whether writing may succeed once there is space on the disk.
fn is_full(cause: &io::Error) -> bool {
    let number = cause.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::ENOSPC | Errno::EDQUOT))
}

fn copy(cause: &io::Error) -> io::Error {
    cause.raw_os_error().map_or_else(|| io::Error::other(cause.to_string()), io::Error::from_raw_os_error)
}

impl RecordingOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            RecordingOutput::File(file) | RecordingOutput::Draft(file) => file.write(bytes),
            RecordingOutput::Stream(file) => file.write(bytes),
        }
    }

    /// The path for error messages: where the bytes are now.
    fn path(&self) -> PathBuf {
        match self {
            RecordingOutput::File(file) | RecordingOutput::Draft(file) => {
                file.temporary_path().unwrap_or(file.target_path()).to_owned()
            }
            RecordingOutput::Stream(_) => PathBuf::from("stdout"),
        }
    }

    fn saved_path(&self) -> Option<PathBuf> {
        match self {
            RecordingOutput::File(file) => Some(file.target_path().to_owned()),
            RecordingOutput::Draft(file) => file.temporary_path().map(Path::to_owned),
            RecordingOutput::Stream(_) => None,
        }
    }
}
