//! The recording that runs along with a watch: kept, so that it can be saved at any time, and written to a file where that is
//! asked for.

use std::io::{self, Read};
use std::path::Path;

use super::facts::Ending;
use super::saver::{Output, Piece, Saved, Saver};
use super::spool::Spool;
use crate::link::aside::AsideError;
use crate::link::record::{self, About, Cpu, Encoder, Found, Named, NamedFile, NamedLine};
use crate::link::wire::Arrival;
use crate::profile::Profile;
use crate::profile::module::ModuleFile;
use crate::profile::stack::{Frame, FrameId};
use crate::symbols::Names;
use crate::symbols::clean::clean;
use crate::symbols::worker::{Reply, ResolvedLine, SymbolState};

/// How long what is recorded stays in memory alone, ns: for a file, and for someone who watches from afar.
const FILE_NS: u64 = 2_000_000_000;
const STREAM_NS: u64 = 100_000_000;
/// How often somebody who watches from afar hears that time passes, ns.
const HEARTBEAT_NS: u64 = 1_000_000_000;

/// What to record, and where to.
#[derive(Debug, Default)]
pub struct Recording {
    /// Where it is written while the watch goes on.
    pub output: Option<Output>,
    /// Whether names are recorded too.
    pub names: bool,
    /// Whether it is kept, to be saved later.
    pub keep: bool,
}

/// The recording.
pub(super) struct Tape {
    /// None where a recording is played: what is kept is as it was read.
    encoder: Option<Encoder>,
    names: bool,
    kept: Option<Spool>,
    saver: Option<Saver>,
    /// When a block was closed last.
    flushed_ns: u64,
    interval_ns: u64,
}

impl Tape {
    /// Begins to record.
    pub(super) fn start(recording: Recording, about: &About) -> std::io::Result<Tape> {
        let Recording { output, names, keep } = recording;
        let saver = output.map(Saver::start).transpose()?;
        let is_used = keep || saver.is_some();
        let about = About { names, ..about.clone() };
        let encoder = is_used.then(|| if saver.is_some() { Encoder::new(&about) } else { Encoder::loose(&about) });
        let is_stream = saver.as_ref().is_some_and(|saver| saver.is_stream);
        Ok(Tape {
            encoder,
            names,
            kept: keep.then(Spool::default),
            saver,
            flushed_ns: 0,
            interval_ns: if is_stream { STREAM_NS } else { FILE_NS },
        })
    }

    /// Keeps what is read of a recording.
    pub(super) fn of_recording() -> Tape {
        let mut kept = Spool::default();
        kept.keep(record::head().as_slice().into());
        Tape { encoder: None, names: false, kept: Some(kept), saver: None, flushed_ns: 0, interval_ns: FILE_NS }
    }

    /// Reads what [`arrive`](Self::arrive) will ask for, of many at once.
    pub(super) fn look_ahead(&self, marks: &[u64]) {
        self.encoder.iter().for_each(|encoder| encoder.look_ahead(marks));
    }

    pub(super) fn arrive(&mut self, arrival: &Arrival, mark: u64) {
        if let Some(encoder) = &mut self.encoder {
            encoder.arrival(arrival, mark);
        }
    }

    pub(super) fn named(&mut self, reply: &Reply, profile: &Profile) {
        if let (Some(encoder), true) = (&mut self.encoder, self.names) {
            encoder.named(&named(reply, profile));
        }
    }

    pub(super) fn cpu(&mut self, cpu: &Cpu) {
        if let Some(encoder) = &mut self.encoder {
            encoder.cpu(cpu);
        }
    }

    pub(super) fn ended(&mut self, at_ns: u64, how: Ending) {
        if let Some(encoder) = &mut self.encoder {
            encoder.ended(
                at_ns,
                match how {
                    Ending::Exited(status) => record::Ending::Exited(status),
                    Ending::Killed(signal) => record::Ending::Killed(signal),
                    Ending::Gone => record::Ending::Gone,
                },
            );
        }
    }

    /// Hands on what is whole, and closes a block when it is time to.
    ///
    /// # Errors
    /// When it cannot be written on.
    pub(super) fn beat(&mut self, now_ns: u64) -> Result<(), ()> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        let since_ns = now_ns.saturating_sub(self.flushed_ns);
        if since_ns >= self.interval_ns {
            let is_silent = encoder.is_flushed();
            if !is_silent || since_ns >= HEARTBEAT_NS {
                encoder.now(now_ns);
                encoder.flush();
                self.flushed_ns = now_ns;
            }
        }
        self.hand_on()
    }

    fn hand_on(&mut self) -> Result<(), ()> {
        let blocks = self.encoder.as_mut().map(Encoder::take).unwrap_or_default();
        let mut is_taken = true;
        for block in blocks {
            let piece: Piece = block.into();
            is_taken &= self.saver.as_ref().is_none_or(|saver| saver.take(Piece::clone(&piece)));
            self.keep(piece);
        }
        if is_taken { Ok(()) } else { Err(()) }
    }

    /// Keeps a block that was read.
    pub(super) fn keep(&mut self, piece: Piece) {
        if let Some(kept) = &mut self.kept {
            kept.keep(piece);
        }
    }

    /// What the saver has to say.
    pub(super) fn words(&self) -> Vec<String> {
        self.saver.iter().flat_map(Saver::words).collect()
    }

    /// A whole recording of everything so far, with all names that are known. It may have to be [packed].
    ///
    /// # Errors
    /// Why there is none, and what helps.
    pub(super) fn so_far(&mut self, now_ns: u64, profile: &Profile, names: &Names) -> Result<Vec<Piece>, String> {
        let mut extra = Vec::new();
        if let Some(encoder) = &mut self.encoder {
            encoder.now(now_ns);
            encoder.flush();
            let known = if self.names { Vec::new() } else { all_names(profile, names) };
            extra = encoder.end(&known);
            // What goes wrong there is said elsewhere.
            let _ = self.hand_on();
        }
        let mut pieces = self.kept.as_ref().map_or(Ok(Vec::new()), Spool::pieces)?;
        pieces.extend(extra.into_iter().map(Piece::from));
        Ok(pieces)
    }

    /// Ends the recording.
    pub(super) fn finish(mut self, now_ns: u64) -> Option<Result<Saved, AsideError>> {
        if let Some(encoder) = &mut self.encoder {
            encoder.now(now_ns);
        }
        let end = self.encoder.as_mut().map(|encoder| encoder.end(&[])).unwrap_or_default();
        let _ = self.hand_on();
        let saver = self.saver?;
        let _ = end.into_iter().all(|block| saver.take(block.into()));
        Some(saver.finish())
    }
}

/// Pieces, read one behind the other.
struct Reel<'a> {
    rest: &'a [Piece],
    /// In the first of them.
    at: usize,
}

impl Read for Reel<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some((first, rest)) = self.rest.split_first() {
            let count = (&first[self.at..]).read(into)?;
            if count > 0 || into.is_empty() {
                self.at += count;
                return Ok(count);
            }
            *self = Reel { rest, at: 0 };
        }
        Ok(0)
    }
}

/// The pieces of a recording, packed.
///
/// # Errors
/// What is wrong with it: one sentence.
pub(super) fn packed(pieces: &[Piece]) -> Result<Vec<Piece>, String> {
    let packed =
        record::pack_again(Reel { rest: pieces, at: 0 }).map_err(|error| format!("what was recorded {error}"))?;
    Ok(packed.into_iter().map(Piece::from).collect())
}

/// Every name that is known.
fn all_names(profile: &Profile, names: &Names) -> Vec<Named> {
    let mut all: Vec<Named> = names
        .states()
        .map(|(module, state)| Named {
            file: file(profile.modules.file(module)),
            found: found(state),
            addresses: vec![],
        })
        .collect();
    let places: std::collections::HashMap<_, usize> =
        names.states().enumerate().map(|(at, (module, _))| (module, at)).collect();
    for (index, frame) in profile.stacks.frames().iter().enumerate() {
        let Frame::Code { module, address } = *frame else { continue };
        let Some(&at) = places.get(&module) else { continue };
        let id = FrameId(index as u32);
        let told = names.lines(id);
        let provisional = format!("{}+{address:#x}", profile.modules.file(module).name());
        if told.first().is_none_or(|line| names.function(line.function).full == clean(&provisional)) {
            continue;
        }
        let lines = told.iter().map(|line| {
            let function = names.function(line.function);
            NamedLine {
                full: function.full.clone(),
                short: function.short.clone(),
                file: function.file.clone(),
                line: line.line,
                inlined: line.inlined,
            }
        });
        all[at].addresses.push((address, lines.collect()));
    }
    all
}

fn named(reply: &Reply, profile: &Profile) -> Named {
    let addresses = reply.frames.iter().filter_map(|(id, lines)| match profile.frame(*id) {
        Frame::Code { address, .. } => Some((address, lines.iter().map(line).collect())),
        _ => None,
    });
    let file = file(profile.modules.file(reply.module));
    Named { file, found: found(&reply.state), addresses: addresses.collect() }
}

fn line(line: &ResolvedLine) -> NamedLine {
    let ResolvedLine { full, short, file, line, inlined } = line.clone();
    NamedLine { full, short, file, line, inlined }
}

fn file(file: &ModuleFile) -> NamedFile {
    use std::os::unix::ffi::OsStrExt;
    let path: &Path = &file.path;
    let (device, inode, build_id) = (file.device, file.inode, file.build_id.clone());
    NamedFile { path: path.as_os_str().as_bytes().into(), build_id, device, inode }
}

fn found(state: &SymbolState) -> Found {
    match state {
        SymbolState::Reading => Found::Reading,
        SymbolState::Lines => Found::Lines,
        SymbolState::Symbols => Found::Symbols,
        SymbolState::Exports => Found::Exports,
        SymbolState::Missing(why) => Found::Missing(why.clone()),
    }
}
