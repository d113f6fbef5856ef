//! Records a session while it runs: into a spool, from which it can be saved at any time, and into
//! a file or a stream if that is requested.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::black_box::{BlackBox, KeptSpan};
use super::generated_code::generated_file;
use super::header_facts::TargetExit;
use super::recording_spool::Spool;
use super::recording_writer::{Piece, PieceReader, RecordingOutput, RecordingWriter, SavedFile};
use super::unsampled_time::Unsampled;
use crate::link::atomic_file::AtomicFileError;
use crate::link::recording::{
    self, CpuReading, Encoder, FileSymbols, RecordedFile, RecordedFunction, RecordingInfo, SymbolStatus,
    UnsampledReading,
};
use crate::profile::Profile;
use crate::profile::module::ModuleFile;
use crate::profile::process::ProcessId;
use crate::profile::stack::{Frame, FrameId};
use crate::symbols::jit::worker::JitReply;
use crate::symbols::worker::{ResolvedLine, SymbolReply, SymbolState};
use crate::symbols::{Function, Names};
use crate::wire::{Arrival, KERNEL_PATH};

/// Time after which an open block is closed and written, ns: for a file, and for a stream that is
/// watched remotely.
const FILE_NS: u64 = 250_000_000;
const STREAM_NS: u64 = 100_000_000;
/// Interval at which the current time is recorded if nothing else is, ns.
const HEARTBEAT_NS: u64 = 1_000_000_000;

/// The contents and the destination of a recording.
#[derive(Debug, Default)]
pub struct RecordingOptions {
    /// The destination that is written during the session.
    pub output: Option<RecordingOutput>,
    /// Whether symbols of files are recorded, too.
    pub names: bool,
    /// Whether the recording is kept so that it can be saved later.
    pub keep: bool,
    /// The time that is kept in memory, instead of all that, for [`Command::SaveKept`](super::Command).
    pub black_box: Option<Duration>,
}

/// The recorder of a session.
pub(super) struct Recorder {
    /// `None` while a recording is played: its blocks are kept as they were read.
    encoder: Option<Encoder>,
    /// The last minutes, which are written without the encoder above.
    black_box: Option<BlackBox>,
    names: bool,
    kept: Option<Spool>,
    writer: Option<RecordingWriter>,
    /// The time when the last block was closed.
    flushed_ns: u64,
    interval_ns: u64,
}

impl Recorder {
    /// Starts to record.
    pub(super) fn start(recording: RecordingOptions, about: &RecordingInfo) -> std::io::Result<Recorder> {
        let RecordingOptions { output, names, keep, black_box } = recording;
        let writer = output.map(RecordingWriter::start).transpose()?;
        let is_used = keep || writer.is_some();
        let about = RecordingInfo { names, ..about.clone() };
        let encoder =
            is_used.then(|| if writer.is_some() { Encoder::new(&about) } else { Encoder::uncompressed(&about) });
        let is_stream = writer.as_ref().is_some_and(|writer| writer.is_stream);
        Ok(Recorder {
            encoder,
            black_box: black_box.map(|keep| BlackBox::new(keep, &about)),
            names,
            kept: keep.then(Spool::default),
            writer,
            flushed_ns: 0,
            interval_ns: if is_stream { STREAM_NS } else { FILE_NS },
        })
    }

    /// A recorder that keeps the blocks of a recording that is played.
    pub(super) fn of_recording() -> Recorder {
        let mut kept = Spool::default();
        kept.push(recording::header().as_slice().into());
        Recorder {
            encoder: None,
            black_box: None,
            names: false,
            kept: Some(kept),
            writer: None,
            flushed_ns: 0,
            interval_ns: FILE_NS,
        }
    }

    /// The encoder of what arrives, if that is recorded.
    fn encoder(&mut self) -> Option<&mut Encoder> {
        match &mut self.black_box {
            Some(black_box) => Some(black_box.encoder()),
            None => self.encoder.as_mut(),
        }
    }

    pub(super) fn record(&mut self, arrivals: &[Arrival]) {
        if let Some(encoder) = self.encoder() {
            encoder.write_events(arrivals);
        }
    }

    pub(super) fn named(&mut self, reply: &SymbolReply, profile: &Profile) {
        // Nothing can tell the names of a kernel once it has been started again.
        let is_kernel = profile.modules.file(reply.module).path.as_os_str().as_encoded_bytes() == KERNEL_PATH;
        if let (Some(encoder), true) = (&mut self.encoder, self.names || is_kernel) {
            encoder.write_symbols(&named(reply, profile));
        }
    }

    /// Records names of generated code, which nothing can tell later, and which addresses have
    /// other code from now on, which is needed to add samples to their frames.
    pub(super) fn named_generated(&mut self, reply: &JitReply, profile: &Profile) {
        let is_black_box = self.black_box.is_some();
        let Some(encoder) = self.encoder() else { return };
        for &(address, version) in &reply.replaced {
            let addresses = vec![(address, Vec::new())];
            let file = generated_file(reply.process, version);
            encoder.write_symbols(&FileSymbols { file, status: SymbolStatus::Reading, addresses });
        }
        // A black box has the names at the end.
        for (id, lines) in reply.frames.iter().filter(|(_, lines)| !lines.is_empty() && !is_black_box) {
            let Frame::Unmapped { process, code_version, address } = profile.frame(*id) else { continue };
            let addresses = vec![(address, lines.iter().map(line).collect())];
            let file = generated_file(process, code_version);
            encoder.write_symbols(&FileSymbols { file, status: SymbolStatus::Symbols, addresses });
        }
    }

    pub(super) fn cpu(&mut self, cpu: &CpuReading) {
        if let Some(encoder) = self.encoder() {
            encoder.write_cpu(cpu);
        }
    }

    /// Records the CPU time that has neither samples nor counted losses, and what is said of it.
    pub(super) fn unsampled(&mut self, at_ns: u64, uncounted_ns: u64, found: Option<&Unsampled>) {
        let Some(encoder) = self.encoder() else { return };
        let (ns, share) = found.map_or((0, 0.0), |found| (found.ns, found.share));
        let reason = found.and_then(|found| found.why.clone()).unwrap_or_default();
        encoder.write_unsampled(&UnsampledReading { at_ns, uncounted_ns, ns, share, reason });
    }

    pub(super) fn ended(&mut self, at_ns: u64, how: TargetExit) {
        if let Some(encoder) = self.encoder() {
            encoder.write_exit(at_ns, how);
        }
    }

    /// Passes on complete blocks, and closes the open block when it is due.
    ///
    /// # Errors
    /// If the destination cannot be written any more.
    pub(super) fn flush_due(&mut self, now_ns: u64) -> Result<(), ()> {
        if let Some(black_box) = &mut self.black_box {
            black_box.advance(now_ns);
        }
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        let since_ns = now_ns.saturating_sub(self.flushed_ns);
        if since_ns >= self.interval_ns {
            let is_silent = encoder.is_flushed();
            if !is_silent || since_ns >= HEARTBEAT_NS {
                encoder.write_time(now_ns);
                encoder.flush();
                self.flushed_ns = now_ns;
            }
        }
        self.pass_on()
    }

    fn pass_on(&mut self) -> Result<(), ()> {
        let blocks = self.encoder.as_mut().map(Encoder::take_blocks).unwrap_or_default();
        let mut is_taken = true;
        for block in blocks {
            let piece: Piece = block.into();
            is_taken &= self.writer.as_ref().is_none_or(|writer| writer.write(Piece::clone(&piece)));
            self.keep(piece);
        }
        if is_taken { Ok(()) } else { Err(()) }
    }

    /// Keeps a block of a recording that is played.
    pub(super) fn keep(&mut self, piece: Piece) {
        if let Some(kept) = &mut self.kept {
            kept.push(piece);
        }
    }

    /// Returns the writer's warnings since the last call.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.writer.iter().flat_map(RecordingWriter::warnings).collect()
    }

    /// Returns a complete recording of the session so far, with all known symbols. It may be
    /// uncompressed, see [`compress`].
    ///
    /// # Errors
    /// If the spool was given up or cannot be read: one sentence with a remedy.
    pub(super) fn snapshot(&mut self, now_ns: u64, profile: &Profile, names: &Names) -> Result<Vec<Piece>, String> {
        let mut extra = Vec::new();
        if let Some(encoder) = &mut self.encoder {
            encoder.write_time(now_ns);
            encoder.flush();
            let known = if self.names { Vec::new() } else { all_names(profile, names, Function::has_name) };
            extra = encoder.finish(&known);
            // The writer reports its own errors.
            let _ = self.pass_on();
        }
        let mut pieces = self.kept.as_ref().map_or(Ok(Vec::new()), Spool::pieces)?;
        pieces.extend(extra.into_iter().map(Piece::from));
        Ok(pieces)
    }

    /// Takes a copy of what the black box has kept since a time, with all known names.
    ///
    /// # Errors
    /// If the session has no black box: one sentence.
    pub(super) fn kept_span(
        &mut self,
        (since_ns, now_ns): (u64, u64),
        profile: &Profile,
        names: &Names,
    ) -> Result<KeptSpan, String> {
        let names = all_names(profile, names, Function::has_name);
        let black_box = self.black_box.as_mut().ok_or("this session keeps no recording in memory")?;
        Ok(black_box.span(since_ns, now_ns, names))
    }

    /// Completes the recording.
    pub(super) fn finish(mut self, now_ns: u64) -> Option<Result<SavedFile, AtomicFileError>> {
        if let Some(encoder) = &mut self.encoder {
            encoder.write_time(now_ns);
        }
        let end = self.encoder.as_mut().map(|encoder| encoder.finish(&[])).unwrap_or_default();
        let _ = self.pass_on();
        let writer = self.writer?;
        let _ = end.into_iter().all(|block| writer.write(block.into()));
        Some(writer.finish())
    }
}

/// Compresses a recording.
///
/// # Errors
/// If the recording is malformed: one sentence.
pub(super) fn compress(pieces: Vec<Piece>) -> Result<Vec<Piece>, String> {
    let compressed =
        recording::compress_blocks(PieceReader::new(pieces)).map_err(|error| format!("the recording {error}"))?;
    Ok(compressed.into_iter().map(Piece::from).collect())
}

/// Returns the symbols of every frame whose function `is_wanted`.
pub(super) fn all_names(profile: &Profile, names: &Names, is_wanted: impl Fn(&Function) -> bool) -> Vec<FileSymbols> {
    let mut all: Vec<FileSymbols> = names
        .states()
        .map(|(module, state)| FileSymbols {
            file: file(profile.modules.file(module)),
            status: found(state),
            addresses: vec![],
        })
        .collect();
    let places: HashMap<_, usize> = names.states().enumerate().map(|(at, (module, _))| (module, at)).collect();
    let mut generated: HashMap<(ProcessId, u16), usize> = HashMap::new();
    for (index, frame) in profile.stacks.frames().iter().enumerate() {
        let resolved = names.lines(FrameId(index as u32));
        let is_named = resolved.first().is_some_and(|line| is_wanted(names.function(line.function)));
        let (at, address) = match *frame {
            Frame::Code { module, address } if is_named => match places.get(&module) {
                Some(&at) => (at, address),
                None => continue,
            },
            Frame::Unmapped { process, code_version, address } if is_named => {
                let file = generated_file(process, code_version);
                let at = *generated.entry((process, code_version)).or_insert(all.len());
                if at == all.len() {
                    all.push(FileSymbols { file, status: SymbolStatus::Symbols, addresses: vec![] });
                }
                (at, address)
            }
            _ => continue,
        };
        let lines = resolved.iter().map(|line| {
            let function = names.function(line.function);
            RecordedFunction {
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

fn named(reply: &SymbolReply, profile: &Profile) -> FileSymbols {
    let addresses = reply.frames.iter().filter_map(|(id, lines)| match profile.frame(*id) {
        Frame::Code { address, .. } => Some((address, lines.iter().map(line).collect())),
        Frame::Wait(wait) => Some((profile.waits.get(wait).data?.1, lines.iter().map(line).collect())),
        _ => None,
    });
    let file = file(profile.modules.file(reply.module));
    FileSymbols { file, status: found(&reply.state), addresses: addresses.collect() }
}

fn line(line: &ResolvedLine) -> RecordedFunction {
    let ResolvedLine { full, short, file, line, inlined } = line.clone();
    RecordedFunction { full, short, file, line, inlined }
}

fn file(file: &ModuleFile) -> RecordedFile {
    use std::os::unix::ffi::OsStrExt;
    let path: &Path = &file.path;
    let (device, inode, build_id) = (file.device, file.inode, file.build_id.clone());
    RecordedFile { path: path.as_os_str().as_bytes().into(), build_id, device, inode }
}

fn found(state: &SymbolState) -> SymbolStatus {
    match state {
        SymbolState::Reading => SymbolStatus::Reading,
        SymbolState::Lines => SymbolStatus::Lines,
        SymbolState::Symbols => SymbolStatus::Symbols,
        SymbolState::Exports => SymbolStatus::Exports,
        SymbolState::Missing(why) => SymbolStatus::Missing(why.clone()),
    }
}
