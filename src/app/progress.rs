//! One line on stderr that says what a subcommand does and how far it is, once it takes longer than
//! a second. Without a terminal there is none.

use std::fmt::{self, Display, Formatter};
use std::io::{self, IsTerminal, Read, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::symbols::download::DebuginfodClient;
use crate::symbols::sanitize::sanitize;
use crate::tally::measure;
use crate::tui::{terminal_columns, text};

/// Time for which nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(200);
/// Columns of a terminal that does not tell its size.
const DEFAULT_COLUMNS: usize = 80;

/// Whether the line is on the terminal now. There is one terminal.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Returns what clears the line, if it is shown.
pub(super) fn clear_code() -> &'static str {
    if IS_SHOWN.swap(false, Ordering::Relaxed) { "\r\x1b[K" } else { "" }
}

/// Shows this line in place of the last one. A failed write is ignored.
pub(super) fn show_line(line: &str) {
    let columns = terminal_columns().filter(|&columns| columns > 0).unwrap_or(DEFAULT_COLUMNS) - 1;
    IS_SHOWN.store(true, Ordering::Relaxed);
    let line = sanitize(line);
    let mut stderr = stderr();
    let _ = write!(stderr, "\r{}\x1b[K", text::cut_right(&line, columns)).and_then(|()| stderr.flush());
}

/// The size of a file in bytes; `None` of a pipe and of `-`.
pub(super) fn file_size(name: &str) -> Option<u64> {
    std::fs::metadata(name).ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
}

/// The stage that a subcommand is in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// It reads a file: the bytes so far, and the size if the file has one.
    Read { name: String, bytes: u64, size_bytes: Option<u64> },
    /// It looks for names: how many are found, and of how many.
    Symbolize { found: usize, all: usize },
    /// It writes a file or a report.
    Write { name: String },
}

impl Display for Stage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Read { name, bytes, size_bytes } => {
                write!(f, "reading {name}: {}", measure::bytes(*bytes))?;
                size_bytes.map_or(Ok(()), |size_bytes| write!(f, " of {}", measure::bytes(size_bytes)))
            }
            Stage::Symbolize { found, all } => {
                let [found, all] = [found, all].map(|&number| measure::count(number as u64));
                write!(f, "looking for names: {found} of {all} found")
            }
            Stage::Write { name } => write!(f, "writing {name}"),
        }
    }
}

/// The stage, shared with the thread that shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressState(Arc<Mutex<Option<Stage>>>);

impl ProgressState {
    /// Sets what is done now.
    pub(super) fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
    }

    /// Counts the bytes that are read from `from`, a file of this name.
    pub(super) fn count<R: Read>(&self, from: R, name: &str, size_bytes: Option<u64>) -> CountedRead<R> {
        let state = self.clone();
        let name = if name == "-" { "stdin" } else { name }.to_owned();
        state.set(Stage::Read { name, bytes: 0, size_bytes });
        CountedRead { from, state }
    }

    /// Sets that names are looked for: how many are missing, and of how many.
    pub(super) fn set_symbolizing(&self, (missing, all): (usize, usize)) {
        self.set(Stage::Symbolize { found: all.saturating_sub(missing), all });
    }

    fn add_bytes(&self, read: u64) {
        if let Some(Stage::Read { bytes, .. }) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            *bytes = bytes.saturating_add(read);
        }
    }

    fn get(&self) -> Option<Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A reader that counts its bytes.
pub(super) struct CountedRead<R> {
    from: R,
    state: ProgressState,
}

impl<R: Read> Read for CountedRead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.state.add_bytes(read as u64);
        Ok(read)
    }
}

/// The line, drawn by a thread of its own until this is dropped.
pub(super) struct ProgressLine {
    state: ProgressState,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ProgressLine {
    /// Shows the progress, also of these downloads, unless `is_quiet`. Downloads are stopped after
    /// `max_download`.
    pub(super) fn start(is_quiet: bool, downloads: Option<(DebuginfodClient, Duration)>) -> ProgressLine {
        let state = ProgressState::default();
        let is_shown = !is_quiet && stderr().is_terminal();
        if !is_shown && downloads.is_none() {
            return ProgressLine { state, thread: None };
        }
        let (end, ended) = channel();
        let stages = state.clone();
        let draw = move || {
            let started = Instant::now();
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let elapsed = started.elapsed();
                let download = downloads.as_ref().and_then(|(client, max_time)| {
                    if elapsed > *max_time {
                        client.stop();
                    }
                    client.progress().map(|progress| progress.to_string())
                });
                let words = download.or_else(|| stages.get().map(|stage| stage.to_string()));
                if let Some(words) = words.filter(|_| is_shown && elapsed >= PATIENCE) {
                    show_line(&format!("sigtop: {words}"));
                }
            }
            let _ = write!(stderr(), "{}", clear_code());
        };
        // Without the thread there is no line, and no limit of the downloads.
        let thread = Builder::new().name("progress".to_owned()).spawn(draw).ok();
        ProgressLine { state, thread: thread.map(|thread| (end, thread)) }
    }

    /// The stage that is shown.
    pub(super) fn state(&self) -> &ProgressState {
        &self.state
    }

    /// Removes the line, so that other text can follow.
    pub(super) fn clear(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_say_how_far_they_are() {
        let state = ProgressState::default();
        assert_eq!(state.get(), None);
        let mut from = state.count(io::Cursor::new(vec![0; 3 << 20]), "a.sigtop", Some(6 << 20));
        from.read_to_end(&mut Vec::new()).expect("read");
        let words = || state.get().map(|stage| stage.to_string());
        assert_eq!(words().as_deref(), Some("reading a.sigtop: 3.0 MiB of 6.0 MiB"));
        state.set(Stage::Symbolize { found: 312, all: 1480 });
        assert_eq!(words().as_deref(), Some("looking for names: 312 of 1 480 found"));
        state.set(Stage::Write { name: "a.svg".to_owned() });
        assert_eq!(words().as_deref(), Some("writing a.svg"));
    }
}
