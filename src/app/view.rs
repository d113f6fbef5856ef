//! `sigtop view`: replays recordings, or shows saved profiles, on the screen or as a table.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::args::ViewArgs;
use super::batch::TableSink;
use super::failure::Failure;
use super::progress::{ProgressLine, file_size};
use super::replay::{FileKind, OpenedFile, open, playback_settings};
use super::screen::{ScreenExit, explain_missing_screen, print_summary, run_screen, uses_screen};
use super::settings::{apply_config, session_settings};
use super::watch::print_tables;
use crate::keyword::Keyword;
use crate::profile::kernel_frames::KernelFrames;
use crate::session::{NamedSource, PlaybackSource, Session, merge};
use crate::wire::Clock;

/// Runs `sigtop view`.
pub(super) fn run(view: &ViewArgs) -> Result<u8, Failure> {
    let args = apply_config(view.watch())?;
    if view.files.iter().chain(&view.diff_base).filter(|file| *file == Path::new("-")).count() > 1 {
        return Err(Failure::new(Failure::USAGE, "stdin can be read once: `-` is there several times"));
    }
    let mut progress = ProgressLine::start(args.screen.quiet, None);
    let mut base_name = None;
    let base = view.diff_base.as_ref().map(|base| open_file(base, 0, &progress)).transpose()?;
    let files = (1..).zip(&view.files).map(|(number, file)| open_file(file, number, &progress));
    let files = files.collect::<Result<Vec<ViewedFile>, Failure>>()?;
    let is_live = files.iter().any(|file| file.is_live);
    let is_of_perf = files.iter().any(|file| file.opened.kind == FileKind::PerfData);
    let name = files.iter().map(|file| file.name.as_str()).collect::<Vec<&str>>().join(", ");
    let mut source = merge_files(files)?;
    if let Some(base) = base {
        compare_with(&mut source, &name, base, &mut base_name)?;
        if !uses_screen(&args) {
            let remedy = "for a table: sigtop report --diff-base OLD NEW";
            return Err(Failure::new(Failure::USAGE, format!("--diff-base needs a terminal to draw on; {remedy}")));
        }
    }
    let mut settings = playback_settings(&source, &name, session_settings(&args, &[]));
    settings.keeps_kernel |= is_of_perf && args.stacks.kernel != Some(KernelFrames::Off);
    if !is_live && args.display.window.is_none() {
        // Whoever opens a file wants to see all of it. Besides, most profiles do not say when their
        // samples were taken.
        settings.question.window_ns = None;
    }
    settings.base = base_name;
    let screen_settings = settings.clone();
    let mut session =
        Session::play(source, is_live, settings).map_err(|error| Failure::internal("cannot start a thread", error))?;
    if !uses_screen(&args) {
        explain_missing_screen(&args);
        print_tables(&session, &args, TableSink::Stdout, (None, Some(progress)))?;
        session.finish();
        return Ok(0);
    }
    progress.clear();
    let closed = run_screen(&mut session, &args, screen_settings, false, Some(name), None)?;
    if let Some(mut finished) = session.finish() {
        print_summary(&closed, &finished.summarize(), &args);
    }
    Ok(match closed.exit {
        ScreenExit::Signalled(signal) => 128u8.saturating_add(signal as u8),
        _ => 0,
    })
}

/// A file of the command line.
struct ViewedFile {
    opened: OpenedFile,
    /// Its path, or `stdin`.
    name: String,
    /// Whether it is a recording that may still be written.
    is_live: bool,
}

impl ViewedFile {
    /// The name that tells it from the others: the host of a recording that arrives through a pipe,
    /// or the name of the file without its extension.
    fn short_name(&self) -> String {
        let host = &self.opened.source.about.host;
        if self.is_live && !host.is_empty() {
            return host.clone();
        }
        let path = self.name.strip_suffix(".gz").unwrap_or(&self.name);
        Path::new(path).file_stem().map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
    }
}

/// Opens a file, or stdin if it is `-`.
fn open_file(file: &Path, number: u32, progress: &ProgressLine) -> Result<ViewedFile, Failure> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin { "stdin".to_owned() } else { file.display().to_string() };
    let mut is_pipe = is_stdin;
    let from: Box<dyn Read + Send> = if is_stdin {
        Box::new(std::io::stdin())
    } else {
        let failure = |error| Failure::internal(&format!("cannot read {name}"), error);
        let opened = File::open(file).map_err(failure)?;
        is_pipe = opened.metadata().map_err(failure)?.file_type().is_fifo();
        Box::new(std::io::BufReader::new(opened))
    };
    let from = Box::new(progress.state().count(from, &name, file_size(&name)));
    let failure = |error| Failure::new(Failure::INTERNAL, format!("{name} {error}"));
    let opened = open(from, &name, number).map_err(failure)?;
    let is_live = is_pipe && opened.kind == FileKind::Recording;
    Ok(ViewedFile { opened, name, is_live })
}

/// Returns the only file, or all of them as one recording.
fn merge_files(files: Vec<ViewedFile>) -> Result<PlaybackSource, Failure> {
    let short_names: Vec<String> = files.iter().map(ViewedFile::short_name).collect();
    let clock = |file: &ViewedFile| file.opened.source.about.clock;
    if let Some(other) = files.iter().find(|file| clock(file) != clock(&files[0])) {
        return Err(different_clocks((&files[0].name, clock(&files[0])), (&other.name, clock(other))));
    }
    let mut sources: Vec<NamedSource> = Vec::new();
    for (index, file) in files.into_iter().enumerate() {
        let is_shared = short_names.iter().filter(|name| **name == short_names[index]).count() > 1;
        let name = match is_shared {
            true => format!("{}#{}", short_names[index], index + 1),
            false => short_names[index].clone(),
        };
        sources.push(NamedSource { name, is_live: file.is_live, source: file.opened.source });
    }
    match sources.len() {
        1 => Ok(sources.remove(0).source),
        _ => merge(sources).map_err(|error| Failure::internal("cannot merge the recordings", error)),
    }
}

/// Makes another file the baseline of a recording.
fn compare_with(
    source: &mut PlaybackSource,
    name: &str,
    base: ViewedFile,
    base_name: &mut Option<String>,
) -> Result<(), Failure> {
    let (old, new) = (base.opened.source.about.clock, source.about.clock);
    if old != new {
        return Err(different_clocks((&base.name, old), (name, new)));
    }
    *base_name = Some(base.name);
    source.set_base(base.opened.source);
    Ok(())
}

/// The error of two files whose samples are by different clocks.
fn different_clocks((one, of_one): (&str, Clock), (other, of_other): (&str, Clock)) -> Failure {
    let [of_one, of_other] = [of_one, of_other].map(|clock| clock.word().name);
    let message =
        format!("{one} has samples by the {of_one} clock and {other} by the {of_other} clock: both must have the same");
    Failure::new(Failure::USAGE, message)
}
