//! Plays a recording: passes its entries to the model as if they had just arrived. Symbols are
//! taken from the recording if it has them. The remaining ones are looked up in local files, once
//! no further symbols can come from the recording.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io::{Cursor, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, bounded};

use super::cpu_meter::HISTORY;
use super::generated_code::generated_code;
use super::header_facts::TargetExit;
use super::import::{ImportedRecording, import};
use super::model::Model;
use super::shown_samples::ShownSamples;
use super::unsampled_time::Unsampled;
use super::warning::warning;
use crate::link::recording::{
    self, Block, BlockReader, CpuReading, Decoder, FileSymbols, RecordingEntry, RecordingError, RecordingInfo,
    SymbolStatus, UnsampledReading,
};
use crate::pprof::profile::SavedProfile;
use crate::profile::module::ModuleFile;
use crate::profile::stack::{Frame, FrameId};
use crate::symbols::jit::worker::JitReply;
use crate::symbols::worker::{ResolvedLine, SymbolReply, SymbolRequest, SymbolState};
use crate::wire::{Clock, ConnectionEvent, Engaged, Engine, Malformed, Message, SourceId};

/// Maximum number of blocks that are read ahead.
const BLOCKS: usize = 4;
/// The bit that tells the connections of a baseline from those of the recording itself.
const BASE_SOURCES: u32 = 1 << 31;
/// Maximum time by which the clock of a live recording may run ahead of its last entry, ns: twice
/// the interval of its time entries.
const AHEAD_NS: u64 = 2_000_000_000;

/// A recording or an imported profile, ready to be played.
pub struct PlaybackSource {
    /// The description of the recording.
    pub about: RecordingInfo,
    first: Block,
    blocks: BlockReader<Box<dyn Read + Send>>,
    /// Remarks on an imported profile, for the user.
    remark: Option<String>,
    /// The recording or profile that is the baseline.
    base: Option<Box<PlaybackSource>>,
}

impl PlaybackSource {
    /// Reads the start of a recording.
    ///
    /// # Errors
    /// If it is not a recording, has another version, or is cut off before its first entry.
    pub fn open(from: Box<dyn Read + Send>) -> Result<PlaybackSource, RecordingError> {
        let mut blocks = BlockReader::open(from)?;
        let Some(first) = blocks.read()? else {
            return Err(RecordingError::CutOff { whole_bytes: blocks.whole_bytes() });
        };
        let mut about = None;
        let entries = Decoder::default().decode_block(&first.plain, |entry| {
            if let RecordingEntry::Info(entry) = entry {
                about = Some(entry);
            }
        });
        match (about, entries) {
            (Some(about), _) => Ok(PlaybackSource { about, first, blocks, remark: None, base: None }),
            (None, fault) => {
                let fault = fault.err().unwrap_or(Malformed::Short);
                Err(RecordingError::Malformed { at_bytes: first.at_bytes, fault })
            }
        }
    }

    /// Imports a saved profile called `name`. Profiles that are played together have different
    /// numbers: an address in a file may have another function in each.
    ///
    /// # Errors
    /// If the profile has no values that can be shown as time: a sentence without its subject.
    pub fn import(saved: &SavedProfile, name: &str, number: u32) -> Result<PlaybackSource, String> {
        let ImportedRecording { bytes, remark } = import(saved, name, number)?;
        let opened = PlaybackSource::open(Box::new(Cursor::new(bytes))).map_err(|fault| fault.to_string())?;
        Ok(PlaybackSource { remark, ..opened })
    }

    /// Adds remarks. They are sentences without their subject.
    pub fn add_remarks(&mut self, remarks: Vec<String>) {
        let all: Vec<String> = self.remark.take().into_iter().chain(remarks).collect();
        self.remark = (!all.is_empty()).then(|| all.join("; "));
    }

    /// Adds what is played before as the baseline.
    pub fn set_base(&mut self, base: PlaybackSource) {
        self.base = Some(Box::new(base));
    }

    /// Takes the baseline.
    pub(super) fn base(&mut self) -> Option<PlaybackSource> {
        self.base.take().map(|base| *base)
    }

    /// Takes the remarks.
    pub(super) fn remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    /// Starts a thread that reads the blocks.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn read(self) -> std::io::Result<(RecordingInfo, Receiver<Result<Block, RecordingError>>)> {
        let PlaybackSource { about, first, mut blocks, .. } = self;
        let (tell, read) = bounded(BLOCKS);
        let work = move || {
            let mut next = Ok(Some(first));
            while let Some(block) = next.transpose() {
                let is_last = block.is_err();
                if tell.send(block).is_err() || is_last {
                    return;
                }
                next = blocks.read();
            }
        };
        std::thread::Builder::new().name("recording".to_owned()).spawn(work)?;
        Ok((about, read))
    }
}

/// The state of playing a recording.
pub(super) struct Player {
    pub(super) about: RecordingInfo,
    decoder: Decoder,
    /// The time of the last played entry on the recorder's clock, ns.
    at_ns: u64,
    /// The viewer's time at which that entry was played, ns, if the recording is live.
    read_ns: Option<u64>,
    /// Whether the recording may still be written while it is read.
    is_live: bool,
    /// Size of all complete blocks in bytes.
    whole_bytes: u64,
    /// Whether everything was played.
    pub(super) is_over: bool,
    cpu: Option<CpuReading>,
    unsampled: Option<UnsampledReading>,
    history: VecDeque<f32>,
    pub(super) ended: Option<(TargetExit, u64)>,
    /// The last sampling that an agent had started.
    pub(super) engaged: Option<Engaged>,
    /// Requests for symbols that may still come from the recording.
    requests: VecDeque<SymbolRequest>,
    /// Frames whose symbols came from the recording.
    named: HashSet<FrameId>,
    /// The samples to play.
    pub(super) shown: ShownSamples,
    /// The number of the first connection. Those of two recordings are different.
    first_source: u32,
}

impl Player {
    /// Starts at the beginning. `is_live` says that the recording may still be written while it is
    /// read.
    pub(super) fn new(about: RecordingInfo, is_live: bool) -> Player {
        Player {
            at_ns: about.started_ns,
            about,
            decoder: Decoder::default(),
            read_ns: None,
            is_live,
            whole_bytes: 0,
            is_over: false,
            cpu: None,
            unsampled: None,
            history: VecDeque::new(),
            ended: None,
            engaged: None,
            requests: VecDeque::new(),
            named: HashSet::new(),
            shown: ShownSamples::default(),
            first_source: 0,
        }
    }

    /// Starts at the beginning of the recording that is the baseline.
    pub(super) fn of_base(about: RecordingInfo) -> Player {
        Player { first_source: BASE_SOURCES, ..Player::new(about, false) }
    }

    /// Ends, and passes the requests for symbols that the recording does not answer to another
    /// player.
    pub(super) fn pass_requests(mut self, to: &mut Player) {
        self.is_over = true;
        while let Some(request) = self.next_request() {
            to.requests.push_back(request);
        }
    }

    /// The time of the last played entry, ns.
    pub(super) fn last_ns(&self) -> u64 {
        self.at_ns
    }

    /// Returns whether entries that are in the recording already are still to be played.
    pub(super) fn has_more(&self) -> bool {
        !self.is_over && !self.is_live
    }

    /// Plays a block and returns warnings.
    ///
    /// # Errors
    /// If the block is malformed. The entries before the malformed one are played.
    pub(super) fn play(
        &mut self,
        block: &Block,
        model: &mut Model,
        now_ns: u64,
    ) -> Result<Vec<String>, RecordingError> {
        let mut words = Vec::new();
        let mut names = Vec::new();
        let first_source = self.first_source;
        let number = |source: SourceId| SourceId(source.0 | first_source);
        let Player { decoder, at_ns, cpu, unsampled, history, ended, engaged, shown, .. } = self;
        let played = decoder.decode_block(&block.plain, |entry| match entry {
            RecordingEntry::Sample(sampled) => {
                *at_ns = sampled.at_ns.max(*at_ns);
                if shown.count(sampled.sample.clock) {
                    let source = number(sampled.source);
                    model.apply_recorded(source, sampled.at_ns, &sampled.sample, sampled.stack, sampled.frames);
                }
            }
            RecordingEntry::Event(mut arrival) => {
                arrival.source = number(arrival.source);
                *at_ns = arrival.at_ns.max(*at_ns);
                words.extend(warning(&arrival));
                // Besides agents, a sampler may sample processes that sleep.
                if let ConnectionEvent::Received(Message::Engaged(said)) = &arrival.event
                    && (!said.engine.is_external() || engaged.as_ref().is_none_or(|last| last.engine.is_external()))
                {
                    *engaged = Some(said.clone());
                }
                model.apply_all(vec![arrival]);
            }
            RecordingEntry::Cpu(now) => {
                *at_ns = now.at_ns.max(*at_ns);
                if let Some((user, system)) = now.now {
                    history.push_back(user + system);
                    if history.len() > HISTORY {
                        history.pop_front();
                    }
                }
                *cpu = Some(now);
            }
            RecordingEntry::Unsampled(reading) => {
                *at_ns = reading.at_ns.max(*at_ns);
                *unsampled = Some(reading);
            }
            RecordingEntry::Exited { at_ns, exit } => *ended = Some((exit, at_ns)),
            RecordingEntry::Time(now_ns) => *at_ns = now_ns.max(*at_ns),
            // Symbols follow their frames, but may do so in the same block. They are applied after
            // it.
            RecordingEntry::Symbols(named) => {
                // Later samples of the same block need the version.
                if let Some((process, version)) = generated_code(&named.file) {
                    let addresses = named.addresses.iter().map(|(address, _)| *address);
                    addresses.for_each(|address| model.profile.set_code_version(process, address, version));
                }
                names.push(named);
            }
            RecordingEntry::Merged { source, name } => model.profile.set_recording(number(source), &name),
            RecordingEntry::Info(_) | RecordingEntry::End => {}
        });
        self.whole_bytes = block.at_bytes + block.raw.len() as u64;
        self.read_ns = self.is_live.then_some(now_ns);
        if !names.is_empty() {
            model.request_symbols(|request| {
                self.requests.push_back(request);
                Ok(())
            });
            names.into_iter().for_each(|named| self.name(named, model));
        }
        played.map(|()| words).map_err(|fault| RecordingError::Malformed { at_bytes: block.at_bytes, fault })
    }

    /// Applies names of frames that were played.
    pub(super) fn name(&mut self, named: FileSymbols, model: &mut Model) {
        let FileSymbols { file, status: found, addresses } = named;
        if let Some((process, code_version)) = generated_code(&file) {
            let frames = addresses.into_iter().filter_map(|(address, lines)| {
                let id = model.profile.stacks.find(Frame::Unmapped { process, code_version, address })?;
                Some((id, lines.into_iter().map(resolved_line).collect()))
            });
            let frames = frames.collect();
            return model.apply_generated(JitReply {
                process,
                frames,
                replaced: Vec::new(),
                is_last: false,
                unread_bytes: 0,
            });
        }
        let path = Path::new(OsStr::from_bytes(&file.path)).to_path_buf();
        let file = ModuleFile { path, build_id: file.build_id, device: file.device, inode: file.inode };
        let Some(module) = model.profile.modules.find(&file) else { return };
        let state = match found {
            SymbolStatus::Reading => SymbolState::Reading,
            SymbolStatus::Lines => SymbolState::Lines,
            SymbolStatus::Symbols => SymbolState::Symbols,
            SymbolStatus::Exports => SymbolState::Exports,
            SymbolStatus::Missing(why) => SymbolState::Missing(why),
        };
        let frames = addresses.into_iter().filter_map(|(address, lines)| {
            let code = model.profile.stacks.find(Frame::Code { module, address });
            let id = code.or_else(|| model.names.wait_at(module, address))?;
            Some((id, lines.into_iter().map(resolved_line).collect()))
        });
        let frames: Vec<(FrameId, Vec<ResolvedLine>)> = frames.collect();
        if state != SymbolState::Reading {
            self.named.extend(frames.iter().map(|(id, _)| *id));
        }
        model.apply_symbols(SymbolReply { module, state, frames });
    }

    /// Notes that everything was played. Returns an error if the recording is incomplete.
    pub(super) fn end(&mut self) -> Option<RecordingError> {
        self.is_over = true;
        self.read_ns = None;
        (!self.decoder.is_complete()).then_some(RecordingError::CutOff { whole_bytes: self.whole_bytes })
    }

    /// Adds a request for symbols. [`next_request`](Self::next_request) returns those that the
    /// recording does not answer.
    pub(super) fn add_request(&mut self, request: SymbolRequest) {
        self.requests.push_back(request);
    }

    /// Returns the next request to look up in local files. Its pid is 0, because a recorded pid
    /// says nothing about the processes of this machine.
    pub(super) fn next_request(&mut self) -> Option<SymbolRequest> {
        if self.about.names && !self.is_over {
            return None;
        }
        loop {
            let mut request = self.requests.pop_front()?;
            request.addresses.retain(|(id, _)| !self.named.contains(id));
            if !request.addresses.is_empty() {
                return Some(SymbolRequest { pid: 0, recorded_at: self.recorded_at(), ..request });
            }
        }
    }

    /// The time of the last played entry in UTC, if the recording tells when it was made.
    fn recorded_at(&self) -> Option<SystemTime> {
        let since_start_ns = self.at_ns.saturating_sub(self.about.started_ns);
        let unix_ns = self.about.started_unix_ns.checked_add(since_start_ns)?;
        (self.about.started_unix_ns > 0).then(|| UNIX_EPOCH + Duration::from_nanos(unix_ns))
    }

    /// Puts back a request that could not be sent yet.
    pub(super) fn put_back(&mut self, request: SymbolRequest) {
        self.requests.push_front(request);
    }

    /// The current time on the recorder's clock, ns.
    pub(super) fn now_ns(&self, now_ns: u64) -> u64 {
        let ahead_ns = self.read_ns.map_or(0, |read_ns| now_ns.saturating_sub(read_ns).min(AHEAD_NS));
        self.at_ns.saturating_add(ahead_ns)
    }

    /// CPU time of the target so far.
    pub(super) fn cpu_used(&self) -> Duration {
        Duration::from_nanos(self.cpu.map_or(0, |cpu| cpu.used_ns))
    }

    /// CPU time that has neither samples nor counted losses, ns, and what was said of it.
    pub(super) fn unsampled(&self) -> (u64, Option<Unsampled>) {
        let Some(UnsampledReading { uncounted_ns, ns, share, reason, .. }) = &self.unsampled else { return (0, None) };
        let why = (!reason.is_empty()).then(|| reason.clone());
        (*uncounted_ns, (*share > 0.0).then_some(Unsampled { ns: *ns, share: *share, why }))
    }

    /// CPU use in each of the last seconds, in percent of one core, oldest first.
    pub(super) fn cpu_history(&self) -> Vec<f32> {
        self.history.iter().copied().collect()
    }

    /// User and system time of the last second, in percent of one core.
    pub(super) fn cpu_now(&self) -> Option<(f32, f32)> {
        self.cpu.and_then(|cpu| cpu.now)
    }

    /// The last known clock, engine and period in ns.
    pub(super) fn sampling(&self) -> (Clock, Engine, u64) {
        match &self.engaged {
            Some(Engaged { clock, engine, period_ns, .. }) => (*clock, *engine, *period_ns),
            None => (self.about.clock, self.about.engine, self.about.period_ns),
        }
    }
}

fn resolved_line(line: recording::RecordedFunction) -> ResolvedLine {
    let recording::RecordedFunction { full, short, file, line, inlined } = line;
    ResolvedLine { full, short, file, line, inlined }
}
