//! `sigtop view`, and recordings as profiles.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sigtop::batch::Sink;
use sigtop::cli::Watch;
use sigtop::cli::record::View;
use sigtop::link::record::About;
use sigtop::record::{self, Found};
use sigtop::tally;
use sigtop::track::Opened;
use sigtop::track::session::{Session, Settings};

use super::screen::{Shown, has_screen, show};
use super::watching::print;
use super::{Failure, complain, configured, settings};

/// `sigtop view`
pub(crate) fn view(asked: &View) -> Result<u8, Failure> {
    let watch = configured(asked.watch())?;
    let is_live = asked.file == Path::new("-");
    let name = if is_live { "stdin".to_owned() } else { asked.file.display().to_string() };
    let from: Box<dyn Read + Send> = if is_live {
        Box::new(std::io::stdin())
    } else {
        let cannot = |error| Failure::own(&format!("cannot read {name}"), error);
        Box::new(std::io::BufReader::new(File::open(&asked.file).map_err(cannot)?))
    };
    let Found { opened, is_recording } =
        record::open(from, &name).map_err(|fault| Failure { sentence: format!("{name} {fault}"), status: 125 })?;
    let mut settings = played(&opened, &name, settings(&watch, &[]));
    if !is_recording && watch.shown.window.is_none() {
        // It is a whole, and few say when its parts were.
        settings.question.window_ns = None;
    }
    let screen = has_screen(&watch);
    let given = settings.clone();
    let mut session = Session::play(opened, is_live && is_recording, settings)
        .map_err(|error| Failure::own("cannot start a thread", error))?;
    if screen {
        let shown = show(&mut session, &watch, given, false, Some(name))?;
        session.finish();
        return Ok(if let Shown::Signalled(signal) = shown { 128u8.saturating_add(signal as u8) } else { 0 });
    }
    print(&session, &watch, Sink::Stdout)?;
    session.finish();
    Ok(0)
}

/// A recording as a profile; `sample_times` says whether it is to have the time of every sample.
pub(super) fn play(from: Box<dyn Read + Send>, name: &str, sample_times: bool) -> Result<tally::saved::Saved, String> {
    let opened = Opened::open(from).map_err(|fault| fault.to_string())?;
    let settings = Settings { sample_times, ..played(&opened, name, settings(&Watch::default(), &[])) };
    let session = Session::play(opened, false, settings).map_err(|error| format!("cannot be played: {error}"))?;
    record::played(session, complain)
}

/// Settings for what was recorded.
fn played(opened: &Opened, name: &str, settings: Settings) -> Settings {
    let About { command, clock, engine, period_ns, .. } = opened.about.clone();
    Settings { command, name: name.to_owned(), clock, engine, period_ns, ..settings }
}
