//! `sigtop record`

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;

use sigtop::attach::launch::Stdio;
use sigtop::cli::Watch;
use sigtop::cli::record::Record;
use sigtop::record::{self, Goal};
use sigtop::track::Recording;
use sigtop::track::session::Target;

use super::starting::{Chosen, attach, begin, carriers, interrupts, start_command};
use super::watching::check_bare_word;
use super::{Failure, complain, configured};

/// `sigtop record`
pub(crate) fn record(asked: &Record) -> Result<u8, Failure> {
    let watch = configured(asked.watch())?;
    if let Some(word) = watch.command.first() {
        check_bare_word(word)?;
    }
    let is_stream = asked.output == Path::new("-");
    let (goal, output) = match is_stream {
        true => Goal::of_stream(own_stdout()?, asked.format),
        false => Goal::of_file(&asked.output, asked.format)?,
    };
    let recording = Recording { output, names: watch.symbols || is_stream, keep: false };
    let mut begun = if watch.pid.is_empty() {
        start_command(&watch, Stdio::Inherit)?
    } else {
        match carriers(&Watch { batch: true, ..watch.clone() })? {
            Chosen::These(carriers) => attach(&watch, carriers)?,
            Chosen::Nobody(status) => return Ok(status),
        }
    };
    begun.settings.answer_ns = record::PROGRESS_NS;
    begun.settings.sample_times = goal.needs_sample_times();
    let launched = matches!(begun.target, Target::Launched(_));
    let session = begin(begun, recording)?;
    let options = record::Options {
        launched,
        names: watch.symbols || is_stream || goal.needs_names(),
        duration: asked.duration,
        interrupt: interrupts()?,
        progress: !asked.quiet && std::io::stderr().is_terminal(),
        quiet: asked.quiet,
    };
    let done = record::run(&session, &options);
    let finished = session.finish();
    match finished.map_or(Ok(None), |finished| goal.reach(finished)) {
        Ok(Some(saved)) if !asked.quiet && !is_stream => complain(&record::summary(&done, &saved)),
        // Whoever read it has seen enough.
        Err(error) if is_stream && error.is_hangup() => {}
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    Ok(match (done.ending, done.interrupted) {
        (Some(ending), _) if launched => ending.exit_status(),
        (None, Some(signal)) if launched => 128u8.saturating_add(signal as u8),
        _ => 0,
    })
}

/// Stdout for the recording alone: from here on what the target writes goes to stderr.
fn own_stdout() -> Result<File, Failure> {
    if std::io::stdout().is_terminal() {
        let sentence = "a recording is not for a terminal: -o FILE, or pipe it into sigtop view -".to_owned();
        return Err(Failure { sentence, status: 2 });
    }
    let cannot = |error: std::io::Error| Failure::own("cannot keep stdout for the recording", error);
    let own = std::io::stdout().as_fd().try_clone_to_owned().map_err(cannot)?;
    nix::unistd::dup2_stdout(std::io::stderr()).map_err(|error| cannot(error.into()))?;
    Ok(File::from(own))
}
