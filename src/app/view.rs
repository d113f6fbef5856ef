//! `sigtop view`: replays a recording, or shows a saved profile, on the screen or as a table.

use std::fs::File;
use std::io::Read;
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
use crate::session::{PlaybackSource, Session};

/// Runs `sigtop view`.
pub(super) fn run(view: &ViewArgs) -> Result<u8, Failure> {
    let args = apply_config(view.watch())?;
    let is_stdin = view.file == Path::new("-");
    let mut progress = ProgressLine::start(args.screen.quiet, None);
    let (OpenedFile { mut source, kind }, name) = open_file(&view.file, &progress)?;
    let mut base_name = None;
    if let Some(base) = &view.diff_base {
        let (base, base_name) = (open_file(base, &progress)?, base_name.insert(base.display().to_string()));
        compare_with(&mut source, &name, base, base_name)?;
        if !uses_screen(&args) {
            let remedy = "for a table: sigtop report --diff-base OLD NEW";
            return Err(Failure::new(Failure::USAGE, format!("--diff-base needs a terminal to draw on; {remedy}")));
        }
    }
    let mut settings = playback_settings(&source, &name, session_settings(&args, &[]));
    let is_live = is_stdin && kind == FileKind::Recording;
    settings.keeps_kernel |= kind == FileKind::PerfData && args.stacks.kernel != Some(KernelFrames::Off);
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

/// Opens a file, or stdin if it is `-`. Returns it with its name.
fn open_file(file: &Path, progress: &ProgressLine) -> Result<(OpenedFile, String), Failure> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin { "stdin".to_owned() } else { file.display().to_string() };
    let from: Box<dyn Read + Send> = if is_stdin {
        Box::new(std::io::stdin())
    } else {
        let failure = |error| Failure::internal(&format!("cannot read {name}"), error);
        Box::new(std::io::BufReader::new(File::open(file).map_err(failure)?))
    };
    let from = Box::new(progress.state().count(from, &name, file_size(&name)));
    let opened = open(from, &name).map_err(|error| Failure::new(Failure::INTERNAL, format!("{name} {error}")))?;
    Ok((opened, name))
}

/// Makes another file the baseline of a recording.
fn compare_with(
    source: &mut PlaybackSource,
    name: &str,
    (base, _): (OpenedFile, String),
    base_name: &str,
) -> Result<(), Failure> {
    let [old, new] = [base.source.about.clock, source.about.clock].map(|clock| clock.word().name);
    if old != new {
        let message = format!(
            "{base_name} has samples by the {old} clock and {name} by the {new} clock: both must have the same"
        );
        return Err(Failure::new(Failure::USAGE, message));
    }
    source.set_base(base.source);
    Ok(())
}
