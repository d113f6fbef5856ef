//! Keeps the last minutes of a session in bounded memory, and makes recordings of them.
//!
//! The stream of messages is cut into segments, each of which is a small recording of its own. The
//! oldest segment is dropped once the later ones cover the time to keep, or when all of them exceed
//! [`MAX_BYTES`]. What later samples need of a dropped segment (processes, modules, names of
//! threads, counters) goes on in a [`StreamState`]. The recording of a span is that state at its
//! start, the entries of the span, and the names of functions; it is an ordinary recording.

mod stream_state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use stream_state::StreamState;

use super::recording_writer::{Piece, PieceReader};
use crate::link::recording::{
    BlockReader, CpuReading, Decoder, Encoder, FileSymbols, RecordingEntry, RecordingError, RecordingInfo,
    UnsampledReading,
};
use crate::wire::{Arrival, ConnectionEvent, Message};

/// Maximum size of all segments in bytes. 16 threads that are sampled at 99 Hz for ten minutes
/// take about 10 MiB.
const MAX_BYTES: usize = 64 << 20;
/// Minimum and maximum length of a segment, ns, and number of segments in the time to keep.
const SEGMENT_NS: (u64, u64) = (1_000_000_000, 20_000_000_000);
const SEGMENTS: u64 = 32;

/// The last minutes of a session.
pub struct BlackBox {
    about: RecordingInfo,
    keep_ns: u64,
    segment_ns: u64,
    max_bytes: usize,
    /// The state that entries before the first segment have left.
    base: StreamState,
    segments: VecDeque<KeptSegment>,
    /// The segment that is being written, and its blocks so far.
    encoder: Encoder,
    open: KeptSegment,
}

/// A complete recording of a few seconds.
struct KeptSegment {
    pieces: Vec<Piece>,
    since_ns: u64,
    bytes: usize,
}

impl KeptSegment {
    fn starting(since_ns: u64) -> KeptSegment {
        KeptSegment { pieces: Vec::new(), since_ns, bytes: 0 }
    }

    fn push(&mut self, blocks: Vec<Vec<u8>>) {
        for block in blocks {
            self.bytes += block.len();
            self.pieces.push(block.into());
        }
    }

    /// Calls `each` with every entry.
    fn read(&self, each: impl FnMut(RecordingEntry<'_>)) -> Result<(), RecordingError> {
        read_entries(self.pieces.clone(), each)
    }
}

fn read_entries(pieces: Vec<Piece>, mut each: impl FnMut(RecordingEntry<'_>)) -> Result<(), RecordingError> {
    let mut decoder = Decoder::default();
    let mut blocks = BlockReader::open(PieceReader::new(pieces))?;
    while let Some(block) = blocks.read()? {
        let at_bytes = block.at_bytes;
        decoder.decode_block(&block.plain, &mut each).map_err(|fault| RecordingError::Malformed { at_bytes, fault })?;
    }
    Ok(())
}

impl BlackBox {
    /// Keeps at least this time, unless that takes more than [`MAX_BYTES`].
    pub fn new(keep: Duration, about: &RecordingInfo) -> BlackBox {
        let keep_ns = keep.as_nanos().try_into().unwrap_or(u64::MAX);
        // The names are written at the end of each recording.
        let about = RecordingInfo { names: true, ..about.clone() };
        BlackBox {
            keep_ns,
            segment_ns: (keep_ns / SEGMENTS).clamp(SEGMENT_NS.0, SEGMENT_NS.1),
            max_bytes: MAX_BYTES,
            base: StreamState::default(),
            segments: VecDeque::new(),
            encoder: Encoder::new(&about),
            open: KeptSegment::starting(about.started_ns),
            about,
        }
    }

    /// The encoder of the open segment.
    pub(super) fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// Adds events of connections.
    pub fn record(&mut self, arrivals: &[Arrival]) {
        self.encoder.write_events(arrivals);
    }

    /// Closes the open segment if it is long or large enough, and drops old ones.
    pub fn advance(&mut self, now_ns: u64) {
        self.open.push(self.encoder.take_blocks());
        let is_long = now_ns.saturating_sub(self.open.since_ns) >= self.segment_ns;
        let is_large = self.open.bytes as u64 >= self.max_bytes as u64 / SEGMENTS;
        if is_long || is_large {
            self.close_segment(now_ns);
        }
    }

    fn close_segment(&mut self, now_ns: u64) {
        self.encoder.write_time(now_ns);
        let end = self.encoder.finish(&[]);
        self.open.push(self.encoder.take_blocks());
        self.open.push(end);
        self.encoder = Encoder::new(&RecordingInfo { started_ns: now_ns, ..self.about.clone() });
        self.segments.push_back(std::mem::replace(&mut self.open, KeptSegment::starting(now_ns)));
        let mut bytes = self.bytes();
        while let Some(oldest) = self.segments.front() {
            let next_ns = self.segments.get(1).map_or(now_ns, |next| next.since_ns);
            if now_ns.saturating_sub(next_ns) < self.keep_ns && bytes <= self.max_bytes {
                break;
            }
            bytes -= oldest.bytes;
            // This encoder has written it, so that it can be read.
            let _ = oldest.read(|entry| self.base.apply(&entry));
            self.segments.pop_front();
        }
    }

    /// Size of what is kept in bytes.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum::<usize>() + self.open.bytes
    }

    /// The time since which everything is kept, ns.
    pub fn kept_since_ns(&self) -> u64 {
        self.segments.front().map_or(self.open.since_ns, |oldest| oldest.since_ns)
    }

    /// Takes a copy of what was kept since a time, with these names.
    pub fn span(&mut self, since_ns: u64, now_ns: u64, names: Vec<FileSymbols>) -> KeptSpan {
        if now_ns > self.open.since_ns {
            self.close_segment(now_ns);
        }
        let since_ns = since_ns.max(self.kept_since_ns());
        let segments = self.segments.iter().map(|segment| segment.pieces.clone()).collect();
        KeptSpan { about: self.about.clone(), base: self.base.clone(), segments, since_ns, names }
    }
}

/// A copy of the segments since a time, apart from the session.
pub struct KeptSpan {
    about: RecordingInfo,
    base: StreamState,
    segments: Vec<Vec<Piece>>,
    since_ns: u64,
    names: Vec<FileSymbols>,
}

impl KeptSpan {
    /// Makes the recording, from its header to its end.
    ///
    /// # Errors
    /// If a segment is malformed: one sentence.
    pub fn encode(self) -> Result<Vec<u8>, String> {
        let KeptSpan { about, base: mut state, segments, since_ns, names } = self;
        let started_unix_ns = about.started_unix_ns.saturating_add(since_ns.saturating_sub(about.started_ns));
        let mut encoder = Encoder::new(&RecordingInfo { started_ns: since_ns, started_unix_ns, ..about });
        let mut span: Option<SpanWriter> = None;
        let mut recording = Vec::new();
        for pieces in segments {
            let read = read_entries(pieces, |entry| {
                if span.is_none() && time_of(&entry).is_some_and(|at_ns| at_ns >= since_ns) {
                    span = Some(SpanWriter::start(&state, since_ns, &mut encoder));
                }
                match &mut span {
                    Some(span) => span.write(entry, &mut encoder),
                    None => state.apply(&entry),
                }
            });
            read.map_err(|error| format!("what was kept {error}"))?;
            recording.extend(encoder.take_blocks());
        }
        let span = span.unwrap_or_else(|| SpanWriter::start(&state, since_ns, &mut encoder));
        let names: Vec<FileSymbols> = names.into_iter().filter_map(|named| span.state.translate(named)).collect();
        let end = encoder.finish(&names);
        recording.extend(encoder.take_blocks());
        recording.extend(end);
        Ok(recording.concat())
    }
}

/// The time of an entry, ns, if it has one.
fn time_of(entry: &RecordingEntry<'_>) -> Option<u64> {
    match entry {
        RecordingEntry::Event(arrival) => Some(arrival.at_ns),
        RecordingEntry::Sample(sampled) => Some(sampled.at_ns),
        RecordingEntry::Cpu(reading) => Some(reading.at_ns),
        RecordingEntry::Unsampled(reading) => Some(reading.at_ns),
        RecordingEntry::Exited { at_ns, .. } | RecordingEntry::Time(at_ns) => Some(*at_ns),
        RecordingEntry::Info(_) | RecordingEntry::Symbols(_) | RecordingEntry::Merged { .. } | RecordingEntry::End => {
            None
        }
    }
}

/// Writes the entries of a span. Counters count from its start on.
struct SpanWriter {
    /// The state at the start of the span, then at the last entry.
    state: StreamState,
    /// The CPU time at the start of the span, and what of it was not sampled.
    cpu_before_ns: u64,
    unsampled_before: (u64, u64),
}

impl SpanWriter {
    fn start(state: &StreamState, since_ns: u64, encoder: &mut Encoder) -> SpanWriter {
        let mut state = state.clone();
        state.write(since_ns, encoder);
        let cpu_before_ns = state.cpu_used_ns;
        let unsampled_before = (state.uncounted_ns, state.unsampled_ns);
        SpanWriter { state, cpu_before_ns, unsampled_before }
    }

    fn write(&mut self, entry: RecordingEntry<'_>, encoder: &mut Encoder) {
        match entry {
            RecordingEntry::Event(mut arrival) => {
                match &mut arrival.event {
                    ConnectionEvent::Received(Message::Hello(_)) => self.state.number_process(arrival.source),
                    ConnectionEvent::Received(message) => self.state.subtract_base(arrival.source, message),
                    ConnectionEvent::Closed | ConnectionEvent::Aborted(_) => {}
                }
                encoder.write_event(&arrival);
            }
            RecordingEntry::Sample(sampled) => {
                let message = Message::Sample(sampled.sample, sampled.frames.into());
                let event = ConnectionEvent::Received(message);
                encoder.write_event(&Arrival { source: sampled.source, pid: sampled.pid, at_ns: sampled.at_ns, event });
            }
            RecordingEntry::Cpu(reading) => {
                let used_ns = reading.used_ns.saturating_sub(self.cpu_before_ns);
                self.state.cpu_used_ns = reading.used_ns;
                encoder.write_cpu(&CpuReading { used_ns, ..reading });
            }
            RecordingEntry::Unsampled(reading) => {
                let (uncounted_ns, ns) = self.unsampled_before;
                let (uncounted_ns, ns) =
                    (reading.uncounted_ns.saturating_sub(uncounted_ns), reading.ns.saturating_sub(ns));
                let used_ns = self.state.cpu_used_ns.saturating_sub(self.cpu_before_ns).max(ns).max(1);
                let share = ns as f64 / used_ns as f64;
                let reason = if ns > 0 { reading.reason } else { String::new() };
                encoder.write_unsampled(&UnsampledReading { uncounted_ns, ns, share, reason, ..reading });
            }
            RecordingEntry::Symbols(symbols) => {
                self.state.translate(symbols).iter().for_each(|symbols| encoder.write_symbols(symbols));
            }
            RecordingEntry::Exited { at_ns, exit } => encoder.write_exit(at_ns, exit),
            RecordingEntry::Time(at_ns) => encoder.write_time(at_ns),
            // A running target is of no other recording.
            RecordingEntry::Info(_) | RecordingEntry::Merged { .. } | RecordingEntry::End => {}
        }
    }
}
