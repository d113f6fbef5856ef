//! `sigtop report`: profiles are read, merged, compared, and printed as pprof prints them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::link::aside::{Aside, AsideError};
use crate::link::record::MAGIC;
use crate::tally::saved::Saved;
use crate::tally::saved::merge::Subtraction;
use crate::write::binaries;
use crate::write::error::ReadError;
use crate::write::fetch::{self, FetchError};
use crate::write::formats;
use crate::write::report::{Form, Options, ReportError, prepare, report};

/// What is reported, and where it goes.
#[derive(Clone)]
pub struct Asked<'a> {
    /// Profiles, merged.
    pub files: &'a [String],
    /// Profiles that are taken away.
    pub bases: &'a [String],
    /// How they are taken away.
    pub how: Subtraction,
    /// How it is printed.
    pub options: Options,
    /// Where to; `None` is stdout.
    pub output: Option<&'a Path>,
    /// Whether places without names get those that the files here have.
    pub symbolize: bool,
    /// What makes a profile of a recording with this name.
    pub play: Play<'a>,
}

/// Makes a profile of a recording with this name, or says in a sentence why not.
pub type Play<'a> = &'a dyn Fn(Box<dyn Read + Send>, &str) -> Result<Saved, String>;

/// Why there is no report.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read.
    Read(String, ReadError),
    /// It could not be fetched.
    Fetch(String, FetchError),
    /// A recording could not be played.
    Play(String, String),
    /// Profiles do not go together.
    Merge(String),
    /// There is nothing to print.
    Report(ReportError),
    /// A file could not be written.
    Write(AsideError),
    /// Graphviz is not there, or failed: one sentence.
    Graphviz(String),
}

impl Error {
    /// Whether it is only that nobody reads any more.
    pub fn is_hangup(&self) -> bool {
        matches!(self, Error::Report(ReportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(name, error) => write!(f, "{name}: {error}"),
            Error::Fetch(name, error) => write!(f, "{name}: {error}"),
            Error::Play(name, why) => write!(f, "{name} {why}"),
            Error::Merge(why) => write!(f, "the profiles do not go together: {why}"),
            Error::Report(error) => write!(f, "{error}"),
            Error::Write(error) => write!(f, "{error}"),
            Error::Graphviz(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// Reports. Returns sentences for stderr.
///
/// # Errors
/// Why there is no report.
pub fn run(asked: &Asked) -> Result<Vec<String>, Error> {
    let mut doubts = Vec::new();
    let mut read = |names: &[String]| -> Result<Saved, Error> {
        let all: Result<Vec<Saved>, Error> = names.iter().map(|name| read(name, asked.play, &mut doubts)).collect();
        Saved::combined(all?).map_err(Error::Merge)
    };
    let mut saved = read(asked.files)?;
    if !asked.bases.is_empty() {
        saved = saved.without(read(asked.bases)?, asked.how).map_err(Error::Merge)?;
    }
    let unsure = if asked.symbolize { binaries::symbolize(&mut saved) } else { Vec::new() };
    let doubt = |file: &String| {
        format!("{file}: names are of the file as it is here now; the profile does not say which it was")
    };
    doubts.extend(unsure.iter().map(doubt));
    prepare(&mut saved);
    let Some(path) = asked.output else {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let told = report(&mut out, saved, &asked.options).and_then(|told| Ok(out.flush().map(|()| told)?));
        return told.map(|told| [doubts, told].concat()).map_err(Error::Report);
    };
    let mut text = Vec::new();
    let told = report(&mut text, saved, &asked.options).map_err(Error::Report)?;
    if asked.options.form == Form::Dot
        && let Some(kind) = drawn(path)
    {
        text = draw(&text, kind)?;
    }
    let mut file = Aside::create(path).map_err(Error::Write)?;
    let cannot = |cause| Error::Write(AsideError { path: path.to_owned(), cause });
    file.write_all(&text).map_err(cannot)?;
    file.put().map_err(Error::Write)?;
    Ok([doubts, told].concat())
}

/// Reads one profile: a file, or what is said to stdin. Sentences on what was skipped go to
/// `doubts`.
fn read(name: &str, play: Play<'_>, doubts: &mut Vec<String>) -> Result<Saved, Error> {
    let failed = |error| Error::Read(name.to_owned(), error);
    let mut from: Box<dyn Read + Send> = match name {
        "-" => Box::new(io::stdin()),
        name if fetch::is_address(name) => fetch::fetch(name).map_err(|error| Error::Fetch(name.to_owned(), error))?,
        name => Box::new(File::open(name).map_err(|error| failed(ReadError::Read(error)))?),
    };
    let mut first = Vec::new();
    from.by_ref().take(1).read_to_end(&mut first).map_err(|error| failed(ReadError::Read(error)))?;
    // No other format begins with it.
    let is_recording = first.first() == Some(&MAGIC[0]);
    let from = io::Cursor::new(first).chain(from);
    match is_recording {
        true => play(Box::new(from), name).map_err(|why| Error::Play(name.to_owned(), why)),
        false => {
            let mut remarks = Vec::new();
            let saved = formats::read_with_remarks(from, &mut remarks).map_err(failed)?;
            doubts.extend(remarks.iter().map(|remark| format!("{name}: {remark}")));
            Ok(saved)
        }
    }
}

/// The kind of picture that a file's name means.
fn drawn(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?;
    ["svg", "png", "pdf", "ps"].into_iter().find(|kind| *kind == ending)
}

/// Has graphviz draw a graph.
fn draw(text: &[u8], kind: &str) -> Result<Vec<u8>, Error> {
    let drawing = Command::new("dot").arg(format!("-T{kind}")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut drawing = drawing.map_err(|error| {
        let why =
            if error.kind() == io::ErrorKind::NotFound { "is not installed".to_owned() } else { error.to_string() };
        Error::Graphviz(format!("a .{kind} is drawn by graphviz's dot, which {why}; a .dot needs nothing"))
    })?;
    let input = drawing.stdin.take();
    let text = text.to_vec();
    let feeding = std::thread::spawn(move || input.map(|mut input| input.write_all(&text)));
    let done = drawing.wait_with_output().map_err(|error| Error::Graphviz(format!("graphviz's dot: {error}")))?;
    let _ = feeding.join();
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(Error::Graphviz(format!("graphviz's dot ended with {}", done.status)))
}
