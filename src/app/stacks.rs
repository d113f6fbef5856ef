//! `sigtop report --stacks`: prints the deepest stack of each thread with the sizes of its frames.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};

use super::args::report::{Report, Symbolize};
use super::downloads::Downloads;
use super::failure::Failure;
use super::progress::file_size;
use super::replay::{self, ReplayOptions};
use crate::link::atomic_file::{AtomicFile, AtomicFileError};
use crate::session::FinishedSession;
use crate::tally::measure;
use crate::tally::threads::{DeepestRow, ProcessRow, ThreadRow};

/// Prints the deepest stacks of recordings. Those of all files are in one list.
pub(super) fn run(args: &Report, downloads: Downloads) -> Result<u8, Failure> {
    let servers = downloads.client().filter(|_| args.symbolize == Symbolize::Local);
    let keeps_names = args.symbolize == Symbolize::None;
    let progress = downloads.progress().clone();
    let how = ReplayOptions { servers: servers.cloned(), keeps_names, progress, ..ReplayOptions::default() };
    let mut sections = Vec::new();
    for name in &args.files {
        let from: Box<dyn Read + Send> = match name.as_str() {
            "-" => Box::new(io::stdin()),
            path => Box::new(File::open(path).map_err(|error| failure(format!("{name} cannot be read: {error}")))?),
        };
        let from = Box::new(how.progress.count(from, name, file_size(name)));
        let about = |message: String| failure(format!("{name} {message}"));
        let mut session = replay::finish(from, name, &how).map_err(about)?;
        sections.extend(stacks(&mut session));
    }
    downloads.finish();
    if sections.is_empty() {
        return Err(failure("no stack was measured: record with the agent, not from outside".to_owned()));
    }
    sections.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
    let text: Vec<String> = sections.into_iter().map(|(_, text)| text).collect();
    let text = text.join("\n");
    let Some(path) = &args.output else {
        let mut out = io::stdout().lock();
        // A closed pipe is not an error: the reader has seen enough.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        return Ok(0);
    };
    let broken = |cause| AtomicFileError { path: path.to_owned(), cause };
    let write = || -> Result<(), AtomicFileError> {
        let mut file = AtomicFile::create(path)?;
        file.write_all(text.as_bytes()).map_err(broken)?;
        file.commit()
    };
    write().map(|()| 0).map_err(|error| failure(error.to_string()))
}

fn failure(message: String) -> Failure {
    Failure::new(Failure::INTERNAL, message)
}

/// Returns the size of each thread's deepest stack, in bytes, and what is printed of it.
fn stacks(session: &mut FinishedSession) -> Vec<(u64, String)> {
    let table = session.deepest_stacks();
    let threads =
        table.processes.iter().flat_map(|process| process.threads.iter().map(move |thread| (process, thread)));
    threads.filter_map(|(process, thread)| Some((process, thread, thread.deepest.as_ref()?))).map(section).collect()
}

fn section((process, thread, stack): (&ProcessRow, &ThreadRow, &DeepestRow)) -> (u64, String) {
    let size = stack.size_words();
    let mut text = format!("{size}  thread {} ({}) of {} ({})\n", thread.name, thread.tid, process.name, process.pid);
    // Recursive calls are one line.
    for calls in stack.frames.chunk_by(|a, b| a == b) {
        let (row, bytes) = &calls[0];
        let size = if *bytes > 0 { measure::bytes(*bytes) } else { "–".to_owned() };
        let times = if calls.len() > 1 { format!(" × {}", measure::count(calls.len() as u64)) } else { String::new() };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{size:>12}  {}{times}", row.full);
    }
    (stack.used, text)
}
