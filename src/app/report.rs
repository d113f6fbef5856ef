//! `sigtop report`: reads profiles, merges and subtracts them, and prints a report.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::args::report::{Report, Symbolize};
use super::downloads::Downloads;
use super::failure::{Failure, print_message};
use super::progress::{Stage, file_size};
use super::replay::{self, FileKind, ReplayOptions};
use super::stacks;
use crate::link::atomic_file::{AtomicFile, AtomicFileError};
use crate::pprof::error::ReadError;
use crate::pprof::format;
use crate::pprof::merge::Subtraction;
use crate::pprof::profile::SavedProfile;
use crate::pprof::report::{ReportError, ReportKind, ReportOptions, generate, prepare};
use crate::pprof::symbolize::{locate_binaries, symbolize_locations};

/// Runs `sigtop report`.
pub(super) fn run(args: &Report) -> Result<u8, Failure> {
    if args.normalize && args.base.is_empty() && args.diff_base.is_empty() {
        let message = "--normalize needs a profile to subtract: --base FILE or --diff-base FILE";
        return Err(Failure::new(Failure::USAGE, message));
    }
    let downloads = Downloads::new(&args.debug_information, &args.config)?;
    if args.kinds.stacks {
        return stacks::run(args, downloads);
    }
    match write_report(args, downloads) {
        Ok(warnings) => warnings.iter().for_each(|warning| print_message(warning)),
        // A closed pipe is not an error: the reader has seen enough.
        Err(error) if error.is_broken_pipe() => {}
        Err(error) => return Err(Failure::new(Failure::INTERNAL, error)),
    }
    Ok(0)
}

/// The reason why there is no report.
#[derive(Debug)]
pub(super) enum CommandError {
    /// A profile could not be read.
    Read(String, ReadError),
    /// A profile was given as a URL.
    Url(String),
    /// A recording could not be converted. The message continues its name.
    Convert(String, String),
    /// The profiles are incompatible.
    Merge(String),
    /// The report could not be generated.
    Report(ReportError),
    /// The output file could not be written.
    Write(AtomicFileError),
    /// The system could not start a thread.
    Thread(io::Error),
    /// Graphviz could not be run.
    Graphviz(String),
}

impl CommandError {
    fn is_broken_pipe(&self) -> bool {
        matches!(self, CommandError::Report(ReportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Read(name, error) => write!(f, "{name}: {error}"),
            CommandError::Url(url) => write!(f, "cannot fetch {url}; use: curl '{url}' | sigtop report -"),
            CommandError::Convert(name, message) => write!(f, "{name} {message}"),
            CommandError::Merge(message) => write!(f, "cannot merge the profiles: {message}"),
            CommandError::Report(error) => write!(f, "{error}"),
            CommandError::Write(error) => write!(f, "{error}"),
            CommandError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            CommandError::Graphviz(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CommandError {}

/// Reads the profiles and writes the report. Returns warnings.
fn write_report(args: &Report, downloads: Downloads) -> Result<Vec<String>, CommandError> {
    let options = args.options();
    let mut warnings = Vec::new();
    let progress = downloads.progress();
    let is_symbolized = args.symbolize == Symbolize::Local;
    let mut profile = read_profiles(args, &options, &downloads, &mut warnings)?;
    if is_symbolized {
        symbolize(&mut profile, &downloads, &mut warnings)?;
    }
    // A report on stdout may begin at any time; a file is written behind the line.
    let name = args.output.as_ref().map_or_else(|| "the report".to_owned(), |path| path.display().to_string());
    progress.set(Stage::Write { name });
    prepare(&mut profile, is_symbolized);
    let Some(path) = &args.output else {
        downloads.finish();
        let mut out = io::BufWriter::new(io::stdout().lock());
        warnings.extend(generate(&mut out, profile, &options).map_err(CommandError::Report)?);
        out.flush().map_err(|error| CommandError::Report(error.into()))?;
        return Ok(warnings);
    };
    let mut report = Vec::new();
    warnings.extend(generate(&mut report, profile, &options).map_err(CommandError::Report)?);
    if options.kind == ReportKind::Dot
        && let Some(language) = picture_format(path)
    {
        report = run_graphviz(&report, language)?;
    }
    let mut file = AtomicFile::create(path).map_err(CommandError::Write)?;
    file.write_all(&report).map_err(|cause| CommandError::Write(AtomicFileError { path: path.to_owned(), cause }))?;
    file.commit().map_err(CommandError::Write)?;
    downloads.finish();
    Ok(warnings)
}

/// Reads, merges and subtracts the profiles.
fn read_profiles(
    args: &Report,
    options: &ReportOptions,
    downloads: &Downloads,
    warnings: &mut Vec<String>,
) -> Result<SavedProfile, CommandError> {
    let how = ReplayOptions {
        sample_times: matches!(options.kind, ReportKind::Export(format) if format.has_time_axis()),
        servers: downloads.client().filter(|_| args.symbolize == Symbolize::Local).cloned(),
        keeps_names: args.symbolize == Symbolize::None,
        kernel: args.kernel,
        progress: downloads.progress().clone(),
    };
    let mut read_all = |names: &[String]| {
        let profiles: Result<Vec<SavedProfile>, CommandError> =
            names.iter().map(|name| read_profile(name, &how, warnings)).collect();
        SavedProfile::merge(profiles?).map_err(CommandError::Merge)
    };
    let (executable, names) = match args.files.as_slice() {
        [first, rest @ ..] if !rest.is_empty() && is_executable(first) => (Some(first), rest),
        all => (None, all),
    };
    let mut profile = read_all(names)?;
    let is_diff = !args.diff_base.is_empty();
    let bases = if is_diff { &args.diff_base } else { &args.base };
    if !bases.is_empty() {
        let how = Subtraction { is_diff, normalize: args.normalize };
        profile = profile.subtract(read_all(bases)?, how).map_err(CommandError::Merge)?;
    }
    if let Some(executable) = executable
        && let Some(main) = profile.mappings.first_mut()
    {
        main.file = executable.as_str().into();
    }
    Ok(profile)
}

/// The directories with binaries, separated by `:`: `PPROF_BINARY_PATH`, else pprof's default.
fn binary_path() -> String {
    let path = env::var("PPROF_BINARY_PATH").unwrap_or_default();
    if !path.is_empty() {
        return path;
    }
    env::var("HOME").map_or(String::new(), |home| format!("{home}/pprof/binaries"))
}

/// Whether a file is an ELF file, as opposed to a profile.
fn is_executable(name: &str) -> bool {
    let mut magic = [0; 4];
    File::open(name).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Names locations that have none, from files on this machine.
pub(super) fn symbolize(
    profile: &mut SavedProfile,
    downloads: &Downloads,
    warnings: &mut Vec<String>,
) -> Result<(), CommandError> {
    warnings.extend(locate_binaries(profile, &binary_path()));
    let progress = downloads.progress();
    let unverified =
        symbolize_locations(profile, downloads.client().cloned(), &|names| progress.set_symbolizing(names))
            .map_err(CommandError::Thread)?;
    let warning = |file| format!("{file}: the profile has no build id for this file; its names may be wrong");
    warnings.extend(unverified.into_iter().map(warning));
    Ok(())
}

/// Reads one profile from a file, or from stdin if the name is `-`.
pub(super) fn read_profile(
    name: &str,
    how: &ReplayOptions,
    warnings: &mut Vec<String>,
) -> Result<SavedProfile, CommandError> {
    let read_error = |error| CommandError::Read(name.to_owned(), error);
    let from: Box<dyn Read + Send> = match name {
        "-" => Box::new(io::stdin()),
        name if name.starts_with("http://") || name.starts_with("https://") => {
            return Err(CommandError::Url(name.to_owned()));
        }
        name => Box::new(File::open(name).map_err(|error| read_error(ReadError::Read(error)))?),
    };
    let from = how.progress.count(from, name, file_size(name));
    let (kind, from) = FileKind::read(from).map_err(|error| read_error(ReadError::Read(error)))?;
    let mut skipped = Vec::new();
    let convert_error = |message| CommandError::Convert(name.to_owned(), message);
    let profile = match kind {
        FileKind::Recording => replay::convert(Box::new(from), name, how).map_err(convert_error),
        FileKind::PerfData => {
            let profile = replay::convert_perf_data(Box::new(from), name, how, &mut skipped);
            skipped.iter_mut().for_each(|predicate| *predicate = format!("it {predicate}"));
            profile.map_err(convert_error)
        }
        FileKind::Profile => format::read_with_warnings(from, &mut skipped).map_err(read_error),
    };
    warnings.extend(skipped.iter().map(|warning| format!("{name}: {warning}")));
    profile
}

/// The format of a picture, by the extension of its file.
fn picture_format(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?;
    ["svg", "png", "pdf", "ps"].into_iter().find(|format| *format == extension)
}

/// Draws a graph with graphviz' `dot`.
fn run_graphviz(graph: &[u8], language: &str) -> Result<Vec<u8>, CommandError> {
    let dot = Command::new("dot").arg(format!("-T{language}")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut dot = dot.map_err(|error| {
        let why =
            if error.kind() == io::ErrorKind::NotFound { "is not installed".to_owned() } else { error.to_string() };
        CommandError::Graphviz(format!("cannot draw .{language}: graphviz's dot {why}; write a .dot file instead"))
    })?;
    let input = dot.stdin.take();
    let graph = graph.to_vec();
    let writer = std::thread::spawn(move || input.map(|mut input| input.write_all(&graph)));
    let output = dot.wait_with_output().map_err(|error| CommandError::Graphviz(format!("graphviz's dot: {error}")))?;
    let _ = writer.join();
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(CommandError::Graphviz(format!("graphviz's dot failed: {}", output.status)))
}
