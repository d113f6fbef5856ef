//! Decodes blocks into entries. The bytes are not trusted: nothing here panics, loops past its
//! input, or allocates past a limit.

use std::collections::HashMap;

use super::entry::{
    CpuReading, FileSymbols, RecordedFile, RecordedFunction, RecordedSample, RecordingEntry, RecordingInfo,
    SymbolStatus, TargetExit, UnsampledReading,
};
use super::format::{MAX_ADDRESSES, MAX_FUNCTIONS, MAX_SOURCES, MAX_TEXT, SAMPLE, kind, sample_field};
use super::stack_numbers::NumberedStacks;
use crate::wire::varint::unzigzag;
use crate::wire::{
    self, Allocation, Arrival, Clock, ConnectionEvent, Engine, MAX_BUILD_ID, MAX_FRAMES, MAX_MESSAGE, MAX_PATH,
    Malformed, Message, Reader, Sample, SourceId, TIME_UNIT_NS,
};

/// Decodes the blocks of a recording, in order.
#[derive(Default)]
pub struct Decoder {
    at_ns: u64,
    has_info: bool,
    is_complete: bool,
    sources: HashMap<SourceId, LastDecoded>,
    /// Source of the last sample. It is not in `sources` meanwhile.
    current: Option<(SourceId, LastDecoded)>,
    stacks: NumberedStacks,
    fresh: Vec<u64>,
}

/// Fields of the last sample of a source. The next sample is read as the difference.
#[derive(Default)]
struct LastDecoded {
    pid: u32,
    context: Option<(Clock, u32, u32)>,
    tid: u32,
    weight_ns: u64,
    monotonic_ns: u64,
    delay_ns: u64,
    stack: Option<u32>,
}

impl Decoder {
    /// Calls `each` with every entry of a block.
    ///
    /// # Errors
    /// What is wrong with the first malformed entry. `each` was called with the entries before it.
    pub fn decode_block(&mut self, plain: &[u8], mut each: impl FnMut(RecordingEntry<'_>)) -> Result<(), Malformed> {
        let mut r = Reader::new(plain);
        while !r.remaining().is_empty() {
            if self.is_complete {
                return Err(Malformed::Trailing);
            }
            let kind = r.byte()?;
            if self.has_info != (kind != kind::INFO) {
                return Err(Malformed::Field("position of an entry"));
            }
            if kind & SAMPLE != 0 {
                each(RecordingEntry::Sample(self.sample(kind, &mut r)?));
            } else if let Some(entry) = self.entry(kind, &mut r)? {
                each(entry);
            }
        }
        Ok(())
    }

    /// Returns whether the end marker was read.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn entry(&mut self, kind: u8, r: &mut Reader<'_>) -> Result<Option<RecordingEntry<'static>>, Malformed> {
        Ok(Some(match kind {
            kind::INFO => {
                self.has_info = true;
                RecordingEntry::Info(self.info(r)?)
            }
            kind::MESSAGE | kind::CLOSED | kind::ABORTED => RecordingEntry::Event(self.event(kind, r)?),
            kind::TIME => RecordingEntry::Time(self.time(r)?),
            kind::SYMBOLS => RecordingEntry::Symbols(symbols(r)?),
            kind::MERGED => RecordingEntry::Merged { source: SourceId(r.varint_as("source")?), name: text(r)? },
            kind::CPU => RecordingEntry::Cpu(self.cpu(r)?),
            kind::UNSAMPLED => RecordingEntry::Unsampled(self.unsampled(r)?),
            kind::EXIT => {
                let at_ns = self.time(r)?;
                let (code, value) = (r.byte()?, unzigzag(r.varint()?) as i64);
                let value = i32::try_from(value).map_err(|_| Malformed::Field("status"))?;
                let exit = match code {
                    0 => TargetExit::Exited(value),
                    1 => TargetExit::Killed(value),
                    2 => TargetExit::Gone,
                    _ => return Err(Malformed::Field("kind of exit")),
                };
                RecordingEntry::Exited { at_ns, exit }
            }
            kind::RESET_STACKS => {
                self.stacks.clear();
                let current = self.current.iter_mut().map(|(_, last)| last);
                self.sources.values_mut().chain(current).for_each(|last| last.stack = None);
                return Ok(None);
            }
            kind::END => {
                self.is_complete = true;
                RecordingEntry::End
            }
            _ => return Err(Malformed::Kind(kind)),
        }))
    }

    fn info(&mut self, r: &mut Reader<'_>) -> Result<RecordingInfo, Malformed> {
        let (version, command, host) = (text(r)?, text(r)?, text(r)?);
        let flags = r.byte()?;
        let info = RecordingInfo {
            version,
            command,
            host,
            names: flags & 1 != 0,
            launched: flags & 2 != 0,
            pid: r.varint_as("pid")?,
            clock: Clock::from_wire(r.byte()?)?,
            engine: Engine::from_wire(r.byte()?)?,
            period_ns: r.varint()?,
            started_ns: r.varint()?,
            started_unix_ns: r.varint()?,
            origin: if flags & 4 == 0 { None } else { Some(text(r)?) },
            kernel: if flags & 8 == 0 { String::new() } else { text(r)? },
        };
        self.at_ns = info.started_ns;
        Ok(info)
    }

    fn event(&mut self, kind: u8, r: &mut Reader<'_>) -> Result<Arrival, Malformed> {
        let (source, pid) = (SourceId(r.varint_as("source")?), r.varint_as("pid")?);
        let at_ns = self.time(r)?;
        let event = match kind {
            kind::MESSAGE => {
                self.last_of(source)?.pid = pid;
                ConnectionEvent::Received(message(r)?)
            }
            kind::CLOSED => ConnectionEvent::Closed,
            _ => ConnectionEvent::Aborted(cause(r)?),
        };
        if kind != kind::MESSAGE {
            self.sources.remove(&source);
            self.current.take_if(|(current, _)| *current == source);
        }
        Ok(Arrival { source, pid, at_ns, event })
    }

    fn cpu(&mut self, r: &mut Reader<'_>) -> Result<CpuReading, Malformed> {
        let (at_ns, used_ns) = (self.time(r)?, r.varint()?);
        let now = match r.byte()? {
            0 => None,
            _ => Some((f32::from_le_bytes(r.array()?), f32::from_le_bytes(r.array()?))),
        };
        let is_share = |share: f32| share.is_finite() && share >= 0.0;
        if now.is_some_and(|(user, system)| !is_share(user) || !is_share(system)) {
            return Err(Malformed::Field("share of CPU"));
        }
        Ok(CpuReading { at_ns, used_ns, now })
    }

    fn unsampled(&mut self, r: &mut Reader<'_>) -> Result<UnsampledReading, Malformed> {
        let (at_ns, uncounted_ns, ns) = (self.time(r)?, r.varint()?, r.varint()?);
        let share = f64::from_le_bytes(r.array()?);
        if !(0.0..=1.0).contains(&share) {
            return Err(Malformed::Field("share of CPU time"));
        }
        Ok(UnsampledReading { at_ns, uncounted_ns, ns, share, reason: text(r)? })
    }

    fn time(&mut self, r: &mut Reader<'_>) -> Result<u64, Malformed> {
        self.at_ns = self.at_ns.wrapping_add(unzigzag(r.varint()?));
        Ok(self.at_ns)
    }

    fn last_of(&mut self, source: SourceId) -> Result<&mut LastDecoded, Malformed> {
        if self.current.as_ref().is_some_and(|(current, _)| *current == source) {
            return Ok(&mut self.current.as_mut().expect("checked above").1);
        }
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            return Err(Malformed::Field("number of sources"));
        }
        Ok(self.sources.entry(source).or_default())
    }

    fn select_source(&mut self, source: SourceId, pid: u32) -> Result<(), Malformed> {
        if let Some((earlier, last)) = self.current.take() {
            if self.sources.len() >= MAX_SOURCES {
                return Err(Malformed::Field("number of sources"));
            }
            self.sources.insert(earlier, last);
        }
        let last = self.sources.remove(&source).unwrap_or_default();
        self.current = Some((source, LastDecoded { pid, ..last }));
        Ok(())
    }

    fn sample(&mut self, kind: u8, r: &mut Reader<'_>) -> Result<RecordedSample<'_>, Malformed> {
        let unit_ns = match kind & (sample_field::SAME_TIMES | sample_field::MICROSECONDS) {
            0 => 1,
            sample_field::SAME_TIMES => 0,
            sample_field::MICROSECONDS => TIME_UNIT_NS,
            _ => return Err(Malformed::Kind(kind)),
        };
        if kind & sample_field::SOURCE != 0 {
            self.select_source(SourceId(r.varint_as("source")?), r.varint_as("pid")?)?;
        }
        let Decoder { current: Some((source, last)), stacks, fresh, .. } = self else {
            return Err(Malformed::Field("source"));
        };
        if kind & sample_field::CONTEXT != 0 {
            last.context = Some((Clock::from_wire(r.byte()?)?, r.varint_as("flags")?, r.varint_as("generation")?));
        }
        let (clock, flags, generation) = last.context.ok_or(Malformed::Field("clock"))?;
        if kind & sample_field::WEIGHT != 0 {
            last.weight_ns = r.varint()?;
        }
        let allocation = match clock {
            Clock::Alloc => Allocation::unpack(r.varint()?),
            Clock::Live => return Err(Malformed::Field("clock")),
            _ => Allocation::default(),
        };
        let tid = u64::from(last.tid).wrapping_add(unzigzag(r.varint()?));
        last.tid = u32::try_from(tid).map_err(|_| Malformed::Field("thread id"))?;
        let number = match kind & sample_field::STACK {
            0 => r.varint_as("stack number")?,
            _ => new_stack(r, stacks, fresh, last.stack)?,
        };
        last.stack = Some(number);
        if unit_ns > 0 {
            last.monotonic_ns = last.monotonic_ns.wrapping_add(unzigzag(r.varint()?).wrapping_mul(unit_ns));
            last.delay_ns = last.delay_ns.wrapping_add(unzigzag(r.varint()?).wrapping_mul(unit_ns));
        }
        let age_ms = if kind & sample_field::AGE == 0 { 0 } else { r.varint_as("age")? };
        let frames = stacks.get(number).ok_or(Malformed::Field("stack number"))?;
        self.at_ns = last.monotonic_ns.wrapping_add(last.delay_ns);
        let sample = Sample {
            tid: last.tid,
            clock,
            flags,
            generation,
            monotonic_ns: last.monotonic_ns,
            age_ms,
            weight_ns: last.weight_ns,
            allocation,
            slot: 0,
        };
        let stack = stacks.unique(number);
        Ok(RecordedSample { source: *source, pid: last.pid, at_ns: self.at_ns, sample, stack, frames })
    }
}

/// Reads a stack, written as the difference from `earlier`, and assigns a number to it.
fn new_stack(
    r: &mut Reader<'_>,
    stacks: &mut NumberedStacks,
    fresh: &mut Vec<u64>,
    earlier: Option<u32>,
) -> Result<u32, Malformed> {
    let (kept, count) = (r.varint()?, r.varint()?);
    let depth = kept.saturating_add(count);
    if depth == 0 || depth > MAX_FRAMES as u64 {
        return Err(Malformed::Field("depth"));
    }
    fresh.clear();
    let mut last = 0u64;
    for _ in 0..count {
        last = last.wrapping_add(unzigzag(r.varint()?));
        fresh.push(last);
    }
    stacks.add(fresh, earlier, kept as usize).ok_or(Malformed::Field("depth"))
}

/// Reads a message of the wire. Samples are entries of their own, so the stack memory is empty.
fn message(r: &mut Reader<'_>) -> Result<Message, Malformed> {
    let framed = r.bytes(MAX_MESSAGE, "message")?;
    let (&kind, body) = framed.split_first().ok_or(Malformed::Short)?;
    wire::decode_message(kind, body, &mut [])
}

fn cause(r: &mut Reader<'_>) -> Result<Malformed, Malformed> {
    let (code, value) = (r.byte()?, r.varint()?);
    let value = u32::try_from(value).map_err(|_| Malformed::Field("cause"))?;
    Ok(match code {
        0 => Malformed::Length(value),
        1 => Malformed::Kind(value as u8),
        2 => Malformed::Short,
        3 => Malformed::Trailing,
        4 => Malformed::Field("field"),
        5 => Malformed::Magic(value),
        6 => Malformed::Version(value as u16),
        _ => return Err(Malformed::Field("cause")),
    })
}

fn text(r: &mut Reader<'_>) -> Result<String, Malformed> {
    let bytes = r.bytes(MAX_TEXT, "text")?;
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::Field("text"))
}

fn symbols(r: &mut Reader<'_>) -> Result<FileSymbols, Malformed> {
    let file = RecordedFile {
        path: r.boxed_bytes(MAX_PATH, "path")?,
        build_id: r.boxed_bytes(MAX_BUILD_ID, "build id")?,
        device: r.varint()?,
        inode: r.varint()?,
    };
    let (code, reason) = (r.byte()?, text(r)?);
    let status = match code {
        0 => SymbolStatus::Reading,
        1 => SymbolStatus::Lines,
        2 => SymbolStatus::Symbols,
        3 => SymbolStatus::Exports,
        4 => SymbolStatus::Missing(reason),
        _ => return Err(Malformed::Field("status of symbols")),
    };
    let count = r.varint()?;
    if count > MAX_ADDRESSES as u64 {
        return Err(Malformed::Field("number of addresses"));
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        let (address, functions) = (r.varint()?, r.varint()?);
        if functions > MAX_FUNCTIONS as u64 {
            return Err(Malformed::Field("number of functions"));
        }
        addresses.push((address, (0..functions).map(|_| function(r)).collect::<Result<_, _>>()?));
    }
    Ok(FileSymbols { file, status, addresses })
}

fn function(r: &mut Reader<'_>) -> Result<RecordedFunction, Malformed> {
    let (full, short, file) = (text(r)?, text(r)?, text(r)?);
    let line = r.varint()?;
    let inlined = line & 1 != 0;
    let line = u32::try_from(line >> 1).map_err(|_| Malformed::Field("line"))?;
    Ok(RecordedFunction { full, short, file, line, inlined })
}
