//! `sigtop report --stacks`: prints the deepest stack of each thread with the sizes of its frames.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};

use serde_json::{Value, json};

use super::args::report::{Report, Symbolize};
use super::downloads::Downloads;
use super::failure::Failure;
use super::progress::file_size;
use super::replay::{self, FileKind, ReplayOptions};
use crate::link::atomic_file::{AtomicFile, AtomicFileError};
use crate::session::FinishedSession;
use crate::tally::measure;
use crate::tally::text::Text;
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
        let from = how.progress.count(from, name, file_size(name));
        let about = |message: String| failure(format!("{name} {message}"));
        let (kind, from) = FileKind::read(from).map_err(|error| about(format!("cannot be read: {error}")))?;
        if kind == FileKind::PerfData {
            let remedy = "record the program with sigtop record -- COMMAND";
            return Err(about(format!("is a recording of perf, which has no sizes of stacks: {remedy}")));
        }
        let mut session = replay::finish(Box::new(from), name, &how).map_err(about)?;
        sections.extend(stacks(&mut session));
    }
    downloads.finish();
    if sections.is_empty() {
        return Err(failure("no stack was measured: record with the agent, not from outside".to_owned()));
    }
    sections.sort_by_key(|section| std::cmp::Reverse(section.used));
    let text = if args.json {
        let threads: Vec<Value> = sections.iter().map(StackSection::json).collect();
        format!("{}\n", json!({"schema": "sigtop.stacks.v1", "unit": "bytes", "threads": threads}))
    } else {
        sections.iter().map(StackSection::text).collect::<Vec<String>>().join("\n")
    };
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

/// The deepest stack of a thread.
struct StackSection {
    process: (u32, String),
    thread: (u32, String),
    /// Its size in words of the screen, such as `12 KiB of 8 MiB`.
    size_words: String,
    /// Its size in bytes.
    used: u64,
    /// The size to which it may grow, in bytes; 0 if that is not known.
    limit: u64,
    /// The functions, leaf first, with the sizes of their frames and the numbers of calls.
    /// Recursive calls of one size are one.
    frames: Vec<(Text, u64, usize)>,
}

/// Returns the deepest stack of each thread.
fn stacks(session: &mut FinishedSession) -> Vec<StackSection> {
    let table = session.deepest_stacks();
    let threads =
        table.processes.iter().flat_map(|process| process.threads.iter().map(move |thread| (process, thread)));
    threads.filter_map(|(process, thread)| Some((process, thread, thread.deepest.as_ref()?))).map(section).collect()
}

fn section((process, thread, stack): (&ProcessRow, &ThreadRow, &DeepestRow)) -> StackSection {
    let calls = stack.frames.chunk_by(|a, b| a == b);
    StackSection {
        process: (process.pid, process.name.clone()),
        thread: (thread.tid, thread.name.clone()),
        size_words: stack.size_words(),
        used: stack.used,
        limit: stack.size,
        frames: calls.map(|calls| (calls[0].0.full.clone(), calls[0].1, calls.len())).collect(),
    }
}

impl StackSection {
    fn text(&self) -> String {
        let StackSection { process: (pid, process), thread: (tid, thread), size_words, .. } = self;
        let mut text = format!("{size_words}  thread {thread} ({tid}) of {process} ({pid})\n");
        for (name, bytes, calls) in &self.frames {
            let size = if *bytes > 0 { measure::bytes(*bytes) } else { "–".to_owned() };
            let times = if *calls > 1 { format!(" × {}", measure::count(*calls as u64)) } else { String::new() };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{size:>12}  {name}{times}");
        }
        text
    }

    /// Sizes that are not known are null.
    fn json(&self) -> Value {
        let known = |bytes: u64| Some(bytes).filter(|&bytes| bytes > 0);
        let frame =
            |(name, bytes, calls): &(Text, u64, usize)| json!({"name": &**name, "size": known(*bytes), "calls": calls});
        json!({
            "pid": self.process.0, "process": self.process.1, "tid": self.thread.0, "thread": self.thread.1,
            "used": self.used, "limit": known(self.limit),
            "frames": self.frames.iter().map(frame).collect::<Vec<Value>>(),
        })
    }
}
