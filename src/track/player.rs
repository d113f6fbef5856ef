//! A recording that is watched: what it holds goes to the desk as if it had just come. Names are taken from it where it has
//! them; the rest is looked for in the files here, once it is clear that no more will come.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io::{Cursor, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use super::desk::Desk;
use super::facts::Ending;
use super::meter::HISTORY;
use super::remark::remark;
use super::transcript::{Transcript, transcript};
use crate::link::record::{self, About, Block, Blocks, Cpu, Decoder, Entry, Found, Named, RecordError};
use crate::link::wire::{Clock, Engaged, Engine, Event, Malformed, Message};
use crate::profile::module::ModuleFile;
use crate::profile::stack::{Frame, FrameId};
use crate::symbols::worker::{Reply, Request, ResolvedLine, SymbolState};
use crate::tally::saved::Saved;

/// Blocks that are read before they are wanted, at most.
const BLOCKS: usize = 4;
/// How far the time of a recording that is still written runs ahead of what has come of it, ns: twice the time between two
/// signs of life.
const AHEAD_NS: u64 = 2_000_000_000;

/// A recording whose beginning was read.
pub struct Opened {
    /// What it is.
    pub about: About,
    first: Block,
    blocks: Blocks<Box<dyn Read + Send>>,
    /// What there is to say of it, if it was no recording before.
    remark: Option<String>,
}

impl Opened {
    /// Reads the beginning.
    ///
    /// # Errors
    /// If it is no recording, one of another version, or cut off before anything was in it.
    pub fn open(from: Box<dyn Read + Send>) -> Result<Opened, RecordError> {
        let mut blocks = Blocks::open(from)?;
        let Some(first) = blocks.read()? else {
            return Err(RecordError::CutOff { whole_bytes: blocks.whole_bytes() });
        };
        let mut about = None;
        let entries = Decoder::default().entries(&first.plain, |entry| {
            if let Entry::About(entry) = entry {
                about = Some(entry);
            }
        });
        match (about, entries) {
            (Some(about), _) => Ok(Opened { about, first, blocks, remark: None }),
            (None, fault) => {
                let fault = fault.err().unwrap_or(Malformed::Short);
                Err(RecordError::Malformed { at_bytes: first.at_bytes, fault })
            }
        }
    }

    /// A saved profile called `name`, as if it had been recorded.
    ///
    /// # Errors
    /// A sentence, without its subject, if nothing in the profile can be shown as time.
    pub fn of_saved(saved: &Saved, name: &str) -> Result<Opened, String> {
        let Transcript { bytes, remark } = transcript(saved, name)?;
        let opened = Opened::open(Box::new(Cursor::new(bytes))).map_err(|fault| fault.to_string())?;
        Ok(Opened { remark, ..opened })
    }

    /// Adds sentences, without their subject, to what there is to say of it.
    pub fn add_remarks(&mut self, remarks: Vec<String>) {
        let all: Vec<String> = self.remark.take().into_iter().chain(remarks).collect();
        self.remark = (!all.is_empty()).then(|| all.join("; "));
    }

    /// What there is to say of it.
    pub(super) fn remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    /// Reads on, on a thread of its own.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn read(self) -> std::io::Result<(About, Receiver<Result<Block, RecordError>>)> {
        let Opened { about, first, mut blocks, .. } = self;
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

/// What was recorded, as far as it is played.
pub(super) struct Player {
    pub(super) about: About,
    decoder: Decoder,
    /// Time of what was played last, on the recorder's clock, ns.
    at_ns: u64,
    /// When that was, on ours, if it is still written.
    read_ns: Option<u64>,
    /// Whether it may still be written while it is read.
    is_live: bool,
    /// Bytes of whole blocks.
    whole_bytes: u64,
    /// Whether nothing more will come.
    pub(super) is_over: bool,
    cpu: Option<Cpu>,
    history: VecDeque<f32>,
    pub(super) ended: Option<(Ending, u64)>,
    /// What was in force last.
    pub(super) engaged: Option<Engaged>,
    /// Names that may still come.
    owed: VecDeque<Request>,
    /// Frames that have their names.
    named: HashSet<FrameId>,
}

impl Player {
    /// Nothing played yet. `is_live` says that what is read may still be written.
    pub(super) fn new(about: About, is_live: bool) -> Player {
        Player {
            at_ns: about.started_ns,
            about,
            decoder: Decoder::default(),
            read_ns: None,
            is_live,
            whole_bytes: 0,
            is_over: false,
            cpu: None,
            history: VecDeque::new(),
            ended: None,
            engaged: None,
            owed: VecDeque::new(),
            named: HashSet::new(),
        }
    }

    /// Plays a block; returns what there is to say about it.
    ///
    /// # Errors
    /// What does not make sense; the entries before are played.
    pub(super) fn play(&mut self, block: &Block, desk: &mut Desk, now_ns: u64) -> Result<Vec<String>, RecordError> {
        let mut words = Vec::new();
        let mut names = Vec::new();
        let Player { decoder, at_ns, cpu, history, ended, engaged, .. } = self;
        let played = decoder.entries(&block.plain, |entry| match entry {
            Entry::Sampled(sampled) => {
                *at_ns = sampled.at_ns.max(*at_ns);
                desk.sampled(sampled.source, sampled.at_ns, &sampled.sample, sampled.stack, sampled.frames);
            }
            Entry::Arrived(arrival) => {
                *at_ns = arrival.at_ns.max(*at_ns);
                words.extend(remark(&arrival));
                if let Event::Said(Message::Engaged(said)) = &arrival.event {
                    *engaged = Some(said.clone());
                }
                desk.arrive(arrival, 0);
            }
            Entry::Cpu(now) => {
                *at_ns = now.at_ns.max(*at_ns);
                if let Some((user, system)) = now.now {
                    history.push_back(user + system);
                    if history.len() > HISTORY {
                        history.pop_front();
                    }
                }
                *cpu = Some(now);
            }
            Entry::Ended { at_ns, how } => {
                let how = match how {
                    record::Ending::Exited(status) => Ending::Exited(status),
                    record::Ending::Killed(signal) => Ending::Killed(signal),
                    record::Ending::Gone => Ending::Gone,
                };
                *ended = Some((how, at_ns));
            }
            Entry::Now(now_ns) => *at_ns = now_ns.max(*at_ns),
            // Their frames come before them, in this block or an earlier one.
            Entry::Named(named) => names.push(named),
            Entry::About(_) | Entry::End => {}
        });
        self.whole_bytes = block.at_bytes + block.raw.len() as u64;
        self.read_ns = self.is_live.then_some(now_ns);
        if !names.is_empty() {
            desk.ask_names(|request| {
                self.owed.push_back(request);
                Ok(())
            });
            names.into_iter().for_each(|named| self.name(named, desk));
        }
        played.map(|()| words).map_err(|fault| RecordError::Malformed { at_bytes: block.at_bytes, fault })
    }

    fn name(&mut self, named: Named, desk: &mut Desk) {
        let Named { file, found, addresses } = named;
        let path = Path::new(OsStr::from_bytes(&file.path)).to_path_buf();
        let file = ModuleFile { path, build_id: file.build_id, device: file.device, inode: file.inode };
        let Some(module) = desk.profile.modules.find(&file) else { return };
        let state = match found {
            Found::Reading => SymbolState::Reading,
            Found::Lines => SymbolState::Lines,
            Found::Symbols => SymbolState::Symbols,
            Found::Exports => SymbolState::Exports,
            Found::Missing(why) => SymbolState::Missing(why),
        };
        let frames = addresses.into_iter().filter_map(|(address, lines)| {
            let id = desk.profile.stacks.find(Frame::Code { module, address })?;
            let lines = lines.into_iter().map(|line| {
                let record::NamedLine { full, short, file, line, inlined } = line;
                ResolvedLine { full, short, file, line, inlined }
            });
            Some((id, lines.collect()))
        });
        let frames: Vec<(FrameId, Vec<ResolvedLine>)> = frames.collect();
        if state != SymbolState::Reading {
            self.named.extend(frames.iter().map(|(id, _)| *id));
        }
        desk.named(Reply { module, state, frames });
    }

    /// Nothing more will come.
    pub(super) fn end(&mut self) -> Option<RecordError> {
        self.is_over = true;
        self.read_ns = None;
        (!self.decoder.is_whole()).then_some(RecordError::CutOff { whole_bytes: self.whole_bytes })
    }

    /// Names that are wanted; those to be asked for here come out of [`request`](Self::request).
    pub(super) fn owe(&mut self, request: Request) {
        self.owed.push_back(request);
    }

    /// The next file that names are to be looked for in here. No process of here is meant by the pid of another time.
    pub(super) fn request(&mut self) -> Option<Request> {
        if self.about.names && !self.is_over {
            return None;
        }
        loop {
            let mut request = self.owed.pop_front()?;
            request.addresses.retain(|(id, _)| !self.named.contains(id));
            if !request.addresses.is_empty() {
                return Some(Request { pid: 0, ..request });
            }
        }
    }

    /// Takes a request back that could not be asked yet.
    pub(super) fn put_back(&mut self, request: Request) {
        self.owed.push_front(request);
    }

    /// The time, on the recorder's clock, ns.
    pub(super) fn now_ns(&self, now_ns: u64) -> u64 {
        let ahead_ns = self.read_ns.map_or(0, |read_ns| now_ns.saturating_sub(read_ns).min(AHEAD_NS));
        self.at_ns.saturating_add(ahead_ns)
    }

    /// CPU time that the target had used.
    pub(super) fn cpu_used(&self) -> Duration {
        Duration::from_nanos(self.cpu.map_or(0, |cpu| cpu.used_ns))
    }

    /// Percent of one core in each of the last seconds, oldest first.
    pub(super) fn cpu_history(&self) -> Vec<f32> {
        self.history.iter().copied().collect()
    }

    /// The last second's user and system time, percent of one core.
    pub(super) fn cpu_now(&self) -> Option<(f32, f32)> {
        self.cpu.and_then(|cpu| cpu.now)
    }

    /// Clock, engine and period in force last, ns.
    pub(super) fn sampling(&self) -> (Clock, Engine, u64) {
        match &self.engaged {
            Some(Engaged { clock, engine, period_ns, .. }) => (*clock, *engine, *period_ns),
            None => (self.about.clock, self.about.engine, self.about.period_ns),
        }
    }
}
