//! The thread that writes a recording, so that a slow disk keeps nobody waiting. A full disk loses nothing at once: what
//! cannot be written waits, up to [`MAX_WAITING`], and is tried again every second.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use nix::errno::Errno;

use crate::link::aside::{Aside, AsideError};

/// Bytes of a recording that wait for room on the disk, at most.
const MAX_WAITING: usize = 64 << 20;
/// Blocks on their way to the thread, at most; then who records waits.
const BLOCKS: usize = 256;
/// Between two tries to write to a full disk.
const RETRY: Duration = Duration::from_secs(1);

/// Where a recording goes.
#[derive(Debug)]
pub enum Output {
    /// Into a file, which is put in its place at the end.
    File(Aside),
    /// Into the part of a file that will be of another format: whoever makes that puts it in its place. A watch that is killed
    /// leaves the part, which is a recording.
    Draft(Aside),
    /// Into a pipe or whatever stdout is; block by block, as it comes.
    Stream(File),
}

/// A recording or a report that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Where; nowhere for a stream.
    pub path: Option<PathBuf>,
    /// How much.
    pub bytes: u64,
}

/// A piece of a recording.
pub(super) type Piece = Arc<[u8]>;

/// The thread, seen from the other side.
pub(super) struct Saver {
    pieces: Sender<Piece>,
    /// Sentences on what goes wrong.
    words: Receiver<String>,
    thread: JoinHandle<Result<Saved, AsideError>>,
    pub(super) is_stream: bool,
}

impl Saver {
    /// Starts it.
    pub(super) fn start(output: Output) -> io::Result<Saver> {
        let (pieces, come) = bounded(BLOCKS);
        let (tell, words) = bounded(BLOCKS);
        let is_stream = matches!(output, Output::Stream(_));
        let work = move || Writing { output, waiting: Vec::new(), written: 0, trouble: None, tell }.run(&come);
        let thread = std::thread::Builder::new().name("saver".to_owned()).spawn(work)?;
        Ok(Saver { pieces, words, thread, is_stream })
    }

    /// Hands over a piece; whether it is taken. It is not when nothing can be written any more.
    pub(super) fn take(&self, piece: Piece) -> bool {
        self.pieces.send(piece).is_ok()
    }

    /// What there is to say.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        self.words.try_iter()
    }

    /// Waits until all is written and in its place.
    pub(super) fn finish(self) -> Result<Saved, AsideError> {
        drop(self.pieces);
        drop(self.words);
        let gone = |_| Err(AsideError { path: PathBuf::new(), cause: io::Error::other("its thread is gone") });
        self.thread.join().unwrap_or_else(gone)
    }
}

struct Writing {
    output: Output,
    /// What is not written yet.
    waiting: Vec<u8>,
    written: u64,
    /// Why not, and when that was seen last.
    trouble: Option<(io::Error, Instant)>,
    tell: Sender<String>,
}

impl Writing {
    fn run(mut self, pieces: &Receiver<Piece>) -> Result<Saved, AsideError> {
        loop {
            let due = self.trouble.as_ref().map(|(_, seen)| *seen + RETRY);
            let piece = match due {
                None => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => pieces.recv_deadline(due),
            };
            match piece {
                Ok(piece) => self.waiting.extend_from_slice(&piece),
                Err(RecvTimeoutError::Timeout) => self.trouble.as_mut().expect("it was due").1 = Instant::now(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if due.is_none_or(|due| Instant::now() >= due) {
                self.write();
            }
            let is_hopeless = self.trouble.as_ref().is_some_and(|(cause, _)| !is_full(cause));
            if is_hopeless || self.waiting.len() > MAX_WAITING {
                if matches!(self.output, Output::Draft(_)) {
                    // It was for the worst case alone. The watch goes on, and what it is to become can still be written.
                    pieces.iter().for_each(drop);
                    self.trouble = None;
                    self.waiting.clear();
                }
                break;
            }
        }
        self.write();
        if let Some((cause, _)) = self.trouble {
            return Err(AsideError { path: self.output.path(), cause });
        }
        let saved = Saved { path: self.output.place(), bytes: self.written };
        match self.output {
            Output::File(aside) => aside.put()?,
            Output::Draft(_) | Output::Stream(_) => {}
        }
        Ok(saved)
    }

    fn write(&mut self) {
        let had_trouble = self.trouble.take().is_some();
        let mut done = 0;
        while done < self.waiting.len() {
            match self.output.write(&self.waiting[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.trouble = Some((error, Instant::now()));
                    break;
                }
            }
        }
        self.waiting.drain(..done);
        self.written += done as u64;
        match &self.trouble {
            Some((cause, _)) if !had_trouble => {
                let path = self.output.path();
                let error = AsideError { path, cause: copy(cause) };
                let then = match self.output {
                    Output::Draft(_) => "a watch that is killed leaves no more than is there",
                    _ => "what is recorded waits for it",
                };
                let _ = self.tell.try_send(format!("{error}; {then}"));
            }
            None if had_trouble => drop(self.tell.try_send("the recording is written on".to_owned())),
            _ => {}
        }
    }
}

/// Whether it may go on when somebody makes room.
fn is_full(cause: &io::Error) -> bool {
    let number = cause.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::ENOSPC | Errno::EDQUOT))
}

fn copy(cause: &io::Error) -> io::Error {
    cause.raw_os_error().map_or_else(|| io::Error::other(cause.to_string()), io::Error::from_raw_os_error)
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(aside) | Output::Draft(aside) => aside.write(bytes),
            Output::Stream(file) => file.write(bytes),
        }
    }

    /// What it is called in an error: where the bytes lie now.
    fn path(&self) -> PathBuf {
        match self {
            Output::File(aside) | Output::Draft(aside) => aside.part().unwrap_or(aside.place()).to_owned(),
            Output::Stream(_) => PathBuf::from("stdout"),
        }
    }

    fn place(&self) -> Option<PathBuf> {
        match self {
            Output::File(aside) => Some(aside.place().to_owned()),
            Output::Draft(aside) => aside.part().map(Path::to_owned),
            Output::Stream(_) => None,
        }
    }
}
