//! Opens recordings and saved profiles, and converts a recording into a profile.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::time::Duration;

use crossbeam_channel::{after, never, select};

use super::args::WatchArgs;
use super::downloads;
use super::failure::print_message;
use super::progress::ProgressState;
use super::settings::session_settings;
use crate::link::recording::{self, RecordingInfo};
use crate::perf_data;
use crate::pprof::format;
use crate::pprof::profile::SavedProfile;
use crate::profile::kernel_frames::KernelFrames;
use crate::session::{Command, FinishedSession, Notice, PlaybackSource, Session, Settings, to_saved_profile};
use crate::symbols::download::DebuginfodClient;
use crate::symbols::sanitize::sanitize;
use crate::symbols::worker::SymbolOptions;

/// Maximum time to wait for symbols after the last sample.
const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(20);

/// A recording or a saved profile.
pub(super) struct OpenedFile {
    pub(super) source: PlaybackSource,
    pub(super) kind: FileKind,
}

/// The kind of a file, as its first bytes tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A recording.
    Recording,
    /// A recording of perf.
    PerfData,
    /// A profile in another format.
    Profile,
}

impl FileKind {
    /// Reads the first bytes of a file. Returns its kind and all of its bytes.
    pub(super) fn read(mut from: impl Read) -> io::Result<(FileKind, impl Read)> {
        let mut first = Vec::new();
        from.by_ref().take(recording::MAGIC.len() as u64).read_to_end(&mut first)?;
        let kind = match first.first_chunk() {
            // No other format starts with this byte.
            _ if first.first() == Some(&recording::MAGIC[0]) => FileKind::Recording,
            Some(magic) if perf_data::MAGIC.contains(&magic) => FileKind::PerfData,
            _ => FileKind::Profile,
        };
        Ok((kind, Cursor::new(first).chain(from)))
    }
}

/// Opens the file of this name once more, if it is one, to read its parts out of order.
fn reopen(name: &str) -> Option<File> {
    std::fs::metadata(name).ok().filter(|metadata| metadata.is_file() && name != "-")?;
    File::open(name).ok()
}

/// Opens a recording, or a saved profile in any format as if it were a recording. Files that are
/// shown together have different numbers.
///
/// # Errors
/// A predicate that continues the file's name: `cannot be read: …`.
pub(super) fn open(from: Box<dyn Read + Send>, name: &str, number: u32) -> Result<OpenedFile, String> {
    let (kind, from) = FileKind::read(from).map_err(|error| format!("cannot be read: {error}"))?;
    let source = match kind {
        FileKind::Recording => PlaybackSource::open(Box::new(from)).map_err(|error| error.to_string())?,
        FileKind::PerfData => open_perf_data(Box::new(from), name)?,
        FileKind::Profile => {
            let mut warnings = Vec::new();
            let profile = format::read_with_warnings(from, &mut warnings);
            let mut profile = profile.map_err(|error| format!("cannot be shown: {error}"))?;
            profile.demangle();
            let mut source = PlaybackSource::import(&profile, name.rsplit('/').next().unwrap_or(name), number)?;
            source.add_remarks(warnings);
            source
        }
    };
    Ok(OpenedFile { source, kind })
}

/// Opens the first event of a recording of perf.
fn open_perf_data(from: Box<dyn Read + Send>, name: &str) -> Result<PlaybackSource, String> {
    let perf_data::ImportedFile { events, mut remarks } = perf_data::import(from, reopen(name))?;
    let mut events = events.into_iter();
    let first = events.next().ok_or("has no samples")?;
    if !first.is_clock {
        remarks.push(format!("has no times: of {} each one is shown as 1 ns", sanitize(&first.name)));
    }
    let others: Vec<String> = events.map(|event| sanitize(&event.name)).collect();
    if !others.is_empty() {
        remarks.push(format!("also has samples of {}: sigtop report --sample_index prints them", others.join(", ")));
    }
    let mut source = PlaybackSource::open(Box::new(Cursor::new(first.bytes))).map_err(|error| error.to_string())?;
    source.add_remarks(remarks);
    Ok(source)
}

/// The settings of a session that replays `source`.
pub(super) fn playback_settings(source: &PlaybackSource, name: &str, settings: Settings) -> Settings {
    let RecordingInfo { command, clock, engine, period_ns, .. } = source.about.clone();
    let mut settings = Settings { command, name: name.to_owned(), clock, engine, ..settings };
    settings.set_period(period_ns);
    settings
}

/// The options of replaying a recording to its end.
#[derive(Clone, Default)]
pub(super) struct ReplayOptions {
    /// Whether the profile has the time of every sample.
    pub(super) sample_times: bool,
    /// The client that downloads missing debug files.
    pub(super) servers: Option<DebuginfodClient>,
    /// Whether names come from the recording alone, not from files on this machine.
    pub(super) keeps_names: bool,
    /// Whether stacks keep the functions of the kernel. By default, those of perf do.
    pub(super) kernel: Option<KernelFrames>,
    /// The stage that is shown.
    pub(super) progress: ProgressState,
}

/// Converts a recording into a profile. Warnings go to stderr.
///
/// # Errors
/// A predicate that continues the file's name.
pub(super) fn convert(from: Box<dyn Read + Send>, name: &str, how: &ReplayOptions) -> Result<SavedProfile, String> {
    let source = PlaybackSource::open(from).map_err(|error| error.to_string())?;
    let (host, kernel) = (sanitize(&source.about.host), sanitize(&source.about.kernel));
    let mut profile = play_to_end(source, name, how)?.export(to_saved_profile)?;
    for facts in &mut profile.recordings {
        (facts.host, facts.kernel) = (host.as_str().into(), kernel.as_str().into());
    }
    Ok(profile)
}

/// Converts a recording of perf into a profile that has every event as a sample type. Adds warnings
/// without the file's name.
///
/// # Errors
/// A predicate that continues the file's name.
pub(super) fn convert_perf_data(
    from: Box<dyn Read + Send>,
    name: &str,
    how: &ReplayOptions,
    warnings: &mut Vec<String>,
) -> Result<SavedProfile, String> {
    let perf_data::ImportedFile { events, remarks } = perf_data::import(from, reopen(name))?;
    warnings.extend(remarks);
    let how = ReplayOptions { kernel: how.kernel.or(Some(KernelFrames::On)), ..how.clone() };
    let mut profiles = Vec::new();
    for event in events {
        let mut profile = convert(Box::new(Cursor::new(event.bytes)), name, &how)?;
        profile.name_values(&sanitize(&event.name), event.is_clock);
        profiles.push(profile);
    }
    SavedProfile::combine(profiles)
}

/// Replays a recording to its end. Warnings go to stderr.
///
/// # Errors
/// A predicate that continues the file's name.
pub(super) fn finish(from: Box<dyn Read + Send>, name: &str, how: &ReplayOptions) -> Result<FinishedSession, String> {
    play_to_end(PlaybackSource::open(from).map_err(|error| error.to_string())?, name, how)
}

pub(super) fn play_to_end(source: PlaybackSource, name: &str, how: &ReplayOptions) -> Result<FinishedSession, String> {
    let settings = playback_settings(&source, name, session_settings(&WatchArgs::default(), &[]));
    let sample_times = how.sample_times;
    // The session stops its own downloads when it ends.
    let servers = how.servers.as_ref().map(DebuginfodClient::share);
    let patience = if servers.is_some() { downloads::MAX_TIME } else { Duration::ZERO };
    let symbols = SymbolOptions { servers, reads_files: !how.keeps_names, ..settings.symbols };
    let settings = Settings { sample_times, symbols, keeps_kernel: how.kernel == Some(KernelFrames::On), ..settings };
    let session = Session::play(source, false, settings).map_err(|error| format!("cannot be replayed: {error}"))?;
    wait_for_playback(&session, patience + MAX_SYMBOL_WAIT, &how.progress);
    let stopped = || "cannot be replayed: the session stopped early".to_owned();
    session.finish().ok_or_else(stopped)
}

/// Waits until the recording has been read and its symbols are resolved; for symbols no longer than
/// `patience`.
fn wait_for_playback(session: &Session, patience: Duration, progress: &ProgressState) {
    let mut is_played = false;
    let mut is_symbolized = false;
    let mut deadline = never();
    while !is_played || !is_symbolized {
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => {
                    is_symbolized = answer.facts.symbolizing.0 == 0;
                    // Until then, the progress is that of reading.
                    if is_played {
                        progress.set_symbolizing(answer.facts.symbolizing);
                    }
                }
                Ok(Notice::Banner(warning)) => print_message(&warning),
                Ok(Notice::Played) => (is_played, deadline) = (true, after(patience)),
                Ok(_) => {}
                Err(_) => break,
            },
            recv(deadline) -> _ => break,
        }
    }
    let _ = session.commands.send(Command::Leave);
}
