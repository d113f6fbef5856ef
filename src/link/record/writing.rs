//! Entries into blocks.

use std::collections::HashMap;
use std::mem;

use super::block::{Packer, head};
use super::stacks::Numbers;
use super::{
    About, Cpu, Ending, FULL, Found, MAX_ADDRESSES, MAX_LINES, MAX_TEXT, NAMES_BYTES, Named, NamedFile, SAMPLE, kind,
    with,
};
use crate::link::wire::{
    Arrival, Clock, Event, FrameAddress, MAX_FRAMES, MAX_MESSAGE, Malformed, Message, Sample, SourceId, Writer, zigzag,
};

/// Makes a recording. It keeps the bytes until they are [taken](Encoder::take).
pub struct Encoder {
    /// Entries of the block under way.
    plain: Vec<u8>,
    /// Whole blocks, and the head.
    ready: Vec<Vec<u8>>,
    packer: Packer,
    /// Time of the last entry, ns.
    at_ns: u64,
    streams: HashMap<SourceId, Stream>,
    /// Of the last sample.
    source: Option<SourceId>,
    numbers: Numbers,
}

/// What is as it was with the last sample of a source.
#[derive(Default)]
struct Stream {
    setting: Option<(Clock, u32, u32)>,
    tid: u32,
    weight_ns: u64,
    monotonic_ns: u64,
    late_ns: u64,
    /// Leaf first; empty before the first, and when numbers begin anew.
    frames: Vec<u64>,
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let bytes = &bytes[..bytes.len().min(limit)];
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A text, cut between two characters.
fn text(out: &mut Vec<u8>, text: &str) {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    bytes(out, &text.as_bytes()[..end], MAX_TEXT);
}

impl Encoder {
    /// Begins a recording.
    pub fn new(about: &About) -> Encoder {
        let mut encoder = Encoder {
            plain: Vec::with_capacity(2 * FULL),
            ready: vec![head().to_vec()],
            packer: Packer::default(),
            at_ns: about.started_ns,
            streams: HashMap::new(),
            source: None,
            numbers: Numbers::default(),
        };
        encoder.about(about);
        encoder
    }

    /// Begins one that is [packed](super::pack_again) when it is wanted.
    pub fn loose(about: &About) -> Encoder {
        Encoder { packer: Packer::loose(), ..Encoder::new(about) }
    }

    /// Whole blocks since the last call, the head before the first of them.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        mem::take(&mut self.ready)
    }

    /// Closes the block under way, if there is anything in it.
    pub fn flush(&mut self) {
        if !self.plain.is_empty() {
            self.ready.push(self.packer.pack(&self.plain));
            self.plain.clear();
        }
    }

    /// Whether there is nothing in the block under way.
    pub fn is_flushed(&self) -> bool {
        self.plain.is_empty()
    }

    /// Blocks that end the recording, with these names, if they follow all that was flushed; what is recorded goes on
    /// without them.
    pub fn end(&mut self, names: &[Named]) -> Vec<Vec<u8>> {
        self.flush();
        let before = mem::take(&mut self.ready);
        names.iter().for_each(|named| self.named(named));
        self.plain.push(kind::END);
        self.flush();
        mem::replace(&mut self.ready, before)
    }

    fn close_if_full(&mut self) {
        if self.plain.len() >= FULL {
            self.flush();
        }
    }

    fn about(&mut self, about: &About) {
        let out = &mut self.plain;
        out.push(kind::ABOUT);
        for words in [&about.version, &about.command, &about.host] {
            text(out, words);
        }
        out.push(u8::from(about.names) | u8::from(about.launched) << 1 | u8::from(about.origin.is_some()) << 2);
        number(out, about.pid.into());
        out.extend([about.clock as u8, about.engine as u8]);
        for value in [about.period_ns, about.started_ns, about.started_unix_ns] {
            number(out, value);
        }
        about.origin.iter().for_each(|origin| text(out, origin));
    }

    fn time(&mut self, at_ns: u64) {
        number(&mut self.plain, zigzag(at_ns.wrapping_sub(self.at_ns)));
        self.at_ns = at_ns;
    }

    /// Reads what [`arrival`](Self::arrival) will ask for, of many at once.
    pub fn look_ahead(&self, marks: &[u64]) {
        self.numbers.look_ahead(marks);
    }

    /// Keeps what came from an agent. `mark` stands for the stack of a sample: a hash of all its frames that nobody can choose; it tells
    /// nothing about anything else.
    pub fn arrival(&mut self, arrival: &Arrival, mark: u64) {
        let Arrival { source, pid, at_ns, event } = arrival;
        let mut head = |kind: u8, source: SourceId| {
            self.plain.push(kind);
            number(&mut self.plain, source.0.into());
            number(&mut self.plain, (*pid).into());
            self.time(*at_ns);
        };
        match event {
            Event::Said(Message::Sample(sample, frames)) => {
                let nothing = [FrameAddress::Instruction(0).pack()];
                let frames = if frames.is_empty() { &nothing } else { &frames[..frames.len().min(MAX_FRAMES)] };
                self.sample((*source, *pid, *at_ns), sample, mark, frames);
            }
            Event::Said(message) => {
                let mut buffer = [0; 4 + MAX_MESSAGE];
                let length = written(message, &mut buffer);
                if length > 4 {
                    head(kind::SAID, *source);
                    bytes(&mut self.plain, &buffer[4..length], MAX_MESSAGE);
                }
            }
            Event::Closed => {
                head(kind::CLOSED, *source);
                self.forget(*source);
            }
            Event::Cut(fault) => {
                head(kind::CUT, *source);
                let (cause, value) = cause(*fault);
                self.plain.push(cause);
                number(&mut self.plain, value);
                self.forget(*source);
            }
        }
        self.close_if_full();
    }

    fn forget(&mut self, source: SourceId) {
        self.streams.remove(&source);
        self.source.take_if(|last| *last == source);
    }

    fn sample(&mut self, (source, pid, at_ns): (SourceId, u32, u64), sample: &Sample, mark: u64, frames: &[u64]) {
        let known = self.numbers.find(mark);
        if known.is_none() && !self.numbers.takes(frames) {
            self.plain.push(kind::STACKS);
            self.numbers.clear();
            self.streams.values_mut().for_each(|stream| stream.frames.clear());
        }
        let stream = self.streams.entry(source).or_default();
        let setting = (sample.clock, sample.flags, sample.generation);
        let mut tag = SAMPLE;
        for (bit, is_new) in [
            (with::SOURCE, self.source != Some(source)),
            (with::SETTING, stream.setting != Some(setting)),
            (with::WEIGHT, stream.weight_ns != sample.weight_ns),
            (with::STACK, known.is_none()),
        ] {
            tag |= if is_new { bit } else { 0 };
        }
        let out = &mut self.plain;
        out.push(tag);
        if tag & with::SOURCE != 0 {
            number(out, source.0.into());
            number(out, pid.into());
        }
        if tag & with::SETTING != 0 {
            out.push(sample.clock as u8);
            number(out, sample.flags.into());
            number(out, sample.generation.into());
        }
        if tag & with::WEIGHT != 0 {
            number(out, sample.weight_ns);
        }
        number(out, zigzag(u64::from(sample.tid).wrapping_sub(stream.tid.into())));
        match known {
            Some(known) => number(out, known.into()),
            None => {
                let same = stream.frames.iter().rev().zip(frames.iter().rev()).take_while(|(old, new)| old == new);
                let kept = same.count();
                let fresh = &frames[..frames.len() - kept];
                number(out, kept as u64);
                number(out, fresh.len() as u64);
                let mut last = 0u64;
                for &frame in fresh {
                    number(out, zigzag(frame.wrapping_sub(last)));
                    last = frame;
                }
                self.numbers.add(mark, frames.len());
            }
        }
        let late_ns = at_ns.wrapping_sub(sample.monotonic_ns);
        number(out, zigzag(sample.monotonic_ns.wrapping_sub(stream.monotonic_ns)));
        number(out, zigzag(late_ns.wrapping_sub(stream.late_ns)));
        (stream.setting, stream.tid, stream.weight_ns) = (Some(setting), sample.tid, sample.weight_ns);
        (stream.monotonic_ns, stream.late_ns) = (sample.monotonic_ns, late_ns);
        stream.frames.clear();
        stream.frames.extend_from_slice(frames);
        self.source = Some(source);
        self.at_ns = at_ns;
    }

    /// Keeps names.
    pub fn named(&mut self, named: &Named) {
        let Named { file, found, addresses } = named;
        let mut rest = &addresses[..];
        loop {
            let mut body = Vec::new();
            let count = rest.iter().take(MAX_ADDRESSES).take_while(|(address, lines)| {
                let is_room = body.len() < NAMES_BYTES;
                if is_room {
                    number(&mut body, *address);
                    let lines = &lines[..lines.len().min(MAX_LINES)];
                    number(&mut body, lines.len() as u64);
                    for line in lines {
                        [&line.full, &line.short, &line.file].into_iter().for_each(|words| text(&mut body, words));
                        number(&mut body, u64::from(line.line) << 1 | u64::from(line.inlined));
                    }
                }
                is_room
            });
            let count = count.count();
            self.plain.push(kind::NAMES);
            self.file(file);
            let (state, why) = match found {
                Found::Reading => (0, ""),
                Found::Lines => (1, ""),
                Found::Symbols => (2, ""),
                Found::Exports => (3, ""),
                Found::Missing(why) => (4, why.as_str()),
            };
            self.plain.push(state);
            text(&mut self.plain, why);
            number(&mut self.plain, count as u64);
            self.plain.extend(body);
            self.close_if_full();
            rest = &rest[count..];
            if rest.is_empty() {
                return;
            }
        }
    }

    fn file(&mut self, file: &NamedFile) {
        bytes(&mut self.plain, &file.path, MAX_TEXT);
        bytes(&mut self.plain, &file.build_id, MAX_TEXT);
        number(&mut self.plain, file.device);
        number(&mut self.plain, file.inode);
    }

    /// Keeps the target's CPU time.
    pub fn cpu(&mut self, cpu: &Cpu) {
        self.plain.push(kind::CPU);
        self.time(cpu.at_ns);
        number(&mut self.plain, cpu.used_ns);
        self.plain.push(cpu.now.is_some().into());
        if let Some((user, system)) = cpu.now {
            self.plain.extend(user.to_le_bytes());
            self.plain.extend(system.to_le_bytes());
        }
        self.close_if_full();
    }

    /// Keeps how the target ended.
    pub fn ended(&mut self, at_ns: u64, how: Ending) {
        self.plain.push(kind::ENDED);
        self.time(at_ns);
        let (word, value) = match how {
            Ending::Exited(status) => (0, status),
            Ending::Killed(signal) => (1, signal),
            Ending::Gone => (2, 0),
        };
        self.plain.push(word);
        number(&mut self.plain, zigzag(i64::from(value) as u64));
    }

    /// Keeps how late it is.
    pub fn now(&mut self, at_ns: u64) {
        self.plain.push(kind::NOW);
        self.time(at_ns);
    }
}

/// Writes a message as the wire has it; returns its length in its frame.
fn written(message: &Message, buffer: &mut [u8]) -> usize {
    let mut writer = Writer::new(buffer, 0);
    // Every message came off the wire, and fits.
    let _ = match message {
        Message::Hello(hello) => writer.hello(hello),
        Message::Module(module) => writer.module(module),
        Message::Unload(unload) => writer.unload(unload),
        Message::Thread(thread) => writer.thread(thread),
        Message::ThreadEnd { tid } => writer.thread_end(*tid),
        Message::Account(account) => writer.account(account),
        Message::Engaged(engaged) => writer.engaged(engaged),
        Message::Busy { viewer } => writer.busy(*viewer),
        Message::Sample(..) => Ok(()),
    };
    writer.length()
}

/// A cause as two numbers; a field loses its name.
fn cause(fault: Malformed) -> (u8, u64) {
    match fault {
        Malformed::Length(length) => (0, length.into()),
        Malformed::Kind(kind) => (1, kind.into()),
        Malformed::Short => (2, 0),
        Malformed::Trailing => (3, 0),
        Malformed::Field(_) => (4, 0),
        Malformed::Magic(magic) => (5, magic.into()),
        Malformed::Version(version) => (6, version.into()),
    }
}
