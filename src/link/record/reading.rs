//! Blocks into entries. The bytes are hostile: nothing here panics, loops past its input, or allocates past a limit.

use std::collections::HashMap;

use super::stacks::Stacks;
use super::{
    About, Cpu, Ending, Entry, Found, MAX_ADDRESSES, MAX_LINES, MAX_SOURCES, MAX_TEXT, Named, NamedFile, NamedLine,
    SAMPLE, Sampled, kind, with,
};
use crate::link::wire::{
    self, Arrival, Clock, Engine, Event, MAX_BUILD_ID, MAX_FRAMES, MAX_MESSAGE, MAX_PATH, Malformed, Message, Reader,
    Sample, SourceId, unzigzag,
};

/// Takes a recording apart. Blocks are to be given in order.
#[derive(Default)]
pub struct Decoder {
    at_ns: u64,
    begun: bool,
    ended: bool,
    streams: HashMap<SourceId, Stream>,
    /// Of the last sample, which is not among the others then.
    current: Option<(SourceId, Stream)>,
    stacks: Stacks,
    fresh: Vec<u64>,
}

/// What is as it was with the last sample of a source.
#[derive(Default)]
struct Stream {
    pid: u32,
    setting: Option<(Clock, u32, u32)>,
    tid: u32,
    weight_ns: u64,
    monotonic_ns: u64,
    late_ns: u64,
    stack: Option<u32>,
}

impl Decoder {
    /// Hands out the entries of a block.
    ///
    /// # Errors
    /// What is wrong with the first that is not understood; those before were handed out.
    pub fn entries(&mut self, plain: &[u8], mut each: impl FnMut(Entry<'_>)) -> Result<(), Malformed> {
        let mut r = Reader::new(plain);
        while !r.rest().is_empty() {
            if self.ended {
                return Err(Malformed::Trailing);
            }
            let kind = r.byte()?;
            if self.begun != (kind != kind::ABOUT) {
                return Err(Malformed::Field("place of an entry"));
            }
            if kind & SAMPLE != 0 {
                each(Entry::Sampled(self.sample(kind, &mut r)?));
            } else if let Some(entry) = self.entry(kind, &mut r)? {
                each(entry);
            }
        }
        Ok(())
    }

    /// Whether the recording is whole.
    pub fn is_whole(&self) -> bool {
        self.ended
    }

    fn entry(&mut self, kind: u8, r: &mut Reader<'_>) -> Result<Option<Entry<'static>>, Malformed> {
        Ok(Some(match kind {
            kind::ABOUT => {
                self.begun = true;
                Entry::About(self.about(r)?)
            }
            kind::SAID | kind::CLOSED | kind::CUT => {
                let (source, pid) = (SourceId(r.small("source")?), r.small("pid")?);
                let at_ns = self.time(r)?;
                let event = match kind {
                    kind::SAID => {
                        self.stream(source)?.pid = pid;
                        Event::Said(said(r)?)
                    }
                    kind::CLOSED => Event::Closed,
                    _ => Event::Cut(cause(r)?),
                };
                if kind != kind::SAID {
                    self.streams.remove(&source);
                    self.current.take_if(|(current, _)| *current == source);
                }
                Entry::Arrived(Arrival { source, pid, at_ns, event })
            }
            kind::NOW => Entry::Now(self.time(r)?),
            kind::NAMES => Entry::Named(named(r)?),
            kind::CPU => {
                let (at_ns, used_ns) = (self.time(r)?, r.number()?);
                let now = match r.byte()? {
                    0 => None,
                    _ => Some((f32::from_le_bytes(r.array()?), f32::from_le_bytes(r.array()?))),
                };
                let is_share = |share: f32| share.is_finite() && share >= 0.0;
                if now.is_some_and(|(user, system)| !is_share(user) || !is_share(system)) {
                    return Err(Malformed::Field("share of CPU"));
                }
                Entry::Cpu(Cpu { at_ns, used_ns, now })
            }
            kind::ENDED => {
                let at_ns = self.time(r)?;
                let (word, value) = (r.byte()?, unzigzag(r.number()?) as i64);
                let value = i32::try_from(value).map_err(|_| Malformed::Field("status"))?;
                let how = match word {
                    0 => Ending::Exited(value),
                    1 => Ending::Killed(value),
                    2 => Ending::Gone,
                    _ => return Err(Malformed::Field("ending")),
                };
                Entry::Ended { at_ns, how }
            }
            kind::STACKS => {
                self.stacks.clear();
                let current = self.current.iter_mut().map(|(_, stream)| stream);
                self.streams.values_mut().chain(current).for_each(|stream| stream.stack = None);
                return Ok(None);
            }
            kind::END => {
                self.ended = true;
                Entry::End
            }
            _ => return Err(Malformed::Kind(kind)),
        }))
    }

    fn about(&mut self, r: &mut Reader<'_>) -> Result<About, Malformed> {
        let (version, command, host) = (text(r)?, text(r)?, text(r)?);
        let flags = r.byte()?;
        let about = About {
            version,
            command,
            host,
            names: flags & 1 != 0,
            launched: flags & 2 != 0,
            pid: r.small("pid")?,
            clock: clock(r.byte()?)?,
            engine: match r.byte()? {
                0 => Engine::Threads,
                1 => Engine::Itimer,
                _ => return Err(Malformed::Field("engine")),
            },
            period_ns: r.number()?,
            started_ns: r.number()?,
            started_unix_ns: r.number()?,
            origin: if flags & 4 == 0 { None } else { Some(text(r)?) },
        };
        self.at_ns = about.started_ns;
        Ok(about)
    }

    fn time(&mut self, r: &mut Reader<'_>) -> Result<u64, Malformed> {
        self.at_ns = self.at_ns.wrapping_add(unzigzag(r.number()?));
        Ok(self.at_ns)
    }

    fn stream(&mut self, source: SourceId) -> Result<&mut Stream, Malformed> {
        if self.current.as_ref().is_some_and(|(current, _)| *current == source) {
            return Ok(&mut self.current.as_mut().expect("it was there").1);
        }
        if self.streams.len() >= MAX_SOURCES && !self.streams.contains_key(&source) {
            return Err(Malformed::Field("number of sources"));
        }
        Ok(self.streams.entry(source).or_default())
    }

    fn turn_to(&mut self, source: SourceId, pid: u32) -> Result<(), Malformed> {
        if let Some((earlier, stream)) = self.current.take() {
            if self.streams.len() >= MAX_SOURCES {
                return Err(Malformed::Field("number of sources"));
            }
            self.streams.insert(earlier, stream);
        }
        let stream = self.streams.remove(&source).unwrap_or_default();
        self.current = Some((source, Stream { pid, ..stream }));
        Ok(())
    }

    fn sample(&mut self, tag: u8, r: &mut Reader<'_>) -> Result<Sampled<'_>, Malformed> {
        if tag & !(SAMPLE | with::ALL) != 0 {
            return Err(Malformed::Kind(tag));
        }
        if tag & with::SOURCE != 0 {
            self.turn_to(SourceId(r.small("source")?), r.small("pid")?)?;
        }
        let Decoder { current: Some((source, stream)), stacks, fresh, .. } = self else {
            return Err(Malformed::Field("source"));
        };
        if tag & with::SETTING != 0 {
            stream.setting = Some((clock(r.byte()?)?, r.small("flags")?, r.small("generation")?));
        }
        let (clock, flags, generation) = stream.setting.ok_or(Malformed::Field("clock"))?;
        if tag & with::WEIGHT != 0 {
            stream.weight_ns = r.number()?;
        }
        let tid = u64::from(stream.tid).wrapping_add(unzigzag(r.number()?));
        stream.tid = u32::try_from(tid).map_err(|_| Malformed::Field("thread id"))?;
        let number =
            if tag & with::STACK != 0 { stack(r, stacks, fresh, stream.stack)? } else { r.small("number of a stack")? };
        stream.stack = Some(number);
        stream.monotonic_ns = stream.monotonic_ns.wrapping_add(unzigzag(r.number()?));
        stream.late_ns = stream.late_ns.wrapping_add(unzigzag(r.number()?));
        let frames = stacks.get(number).ok_or(Malformed::Field("number of a stack"))?;
        self.at_ns = stream.monotonic_ns.wrapping_add(stream.late_ns);
        let sample = Sample {
            tid: stream.tid,
            clock,
            flags,
            generation,
            monotonic_ns: stream.monotonic_ns,
            weight_ns: stream.weight_ns,
            slot: 0,
        };
        let stack = stacks.unique(number);
        Ok(Sampled { source: *source, pid: stream.pid, at_ns: self.at_ns, sample, stack, frames })
    }
}

fn stack(
    r: &mut Reader<'_>,
    stacks: &mut Stacks,
    fresh: &mut Vec<u64>,
    earlier: Option<u32>,
) -> Result<u32, Malformed> {
    let (kept, count) = (r.number()?, r.number()?);
    let depth = kept.saturating_add(count);
    if depth == 0 || depth > MAX_FRAMES as u64 {
        return Err(Malformed::Field("depth"));
    }
    fresh.clear();
    let mut last = 0u64;
    for _ in 0..count {
        last = last.wrapping_add(unzigzag(r.number()?));
        fresh.push(last);
    }
    stacks.add(fresh, earlier, kept as usize).ok_or(Malformed::Field("depth"))
}

/// A message of the wire. A sample is an entry of its own.
fn said(r: &mut Reader<'_>) -> Result<Message, Malformed> {
    let framed = r.borrowed(MAX_MESSAGE, "message")?;
    let (&kind, body) = framed.split_first().ok_or(Malformed::Short)?;
    wire::message(kind, body, &mut [])
}

fn cause(r: &mut Reader<'_>) -> Result<Malformed, Malformed> {
    let (word, value) = (r.byte()?, r.number()?);
    let value = u32::try_from(value).map_err(|_| Malformed::Field("cause"))?;
    Ok(match word {
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

fn clock(byte: u8) -> Result<Clock, Malformed> {
    [Clock::Prof, Clock::Real, Clock::Virtual].get(byte as usize).copied().ok_or(Malformed::Field("clock"))
}

fn text(r: &mut Reader<'_>) -> Result<String, Malformed> {
    let bytes = r.borrowed(MAX_TEXT, "text")?;
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::Field("text"))
}

fn named(r: &mut Reader<'_>) -> Result<Named, Malformed> {
    let file = NamedFile {
        path: r.bytes(MAX_PATH, "path")?,
        build_id: r.bytes(MAX_BUILD_ID, "build id")?,
        device: r.number()?,
        inode: r.number()?,
    };
    let (state, why) = (r.byte()?, text(r)?);
    let found = match state {
        0 => Found::Reading,
        1 => Found::Lines,
        2 => Found::Symbols,
        3 => Found::Exports,
        4 => Found::Missing(why),
        _ => return Err(Malformed::Field("what was found")),
    };
    let count = r.number()?;
    if count > MAX_ADDRESSES as u64 {
        return Err(Malformed::Field("number of addresses"));
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        let (address, lines) = (r.number()?, r.number()?);
        if lines > MAX_LINES as u64 {
            return Err(Malformed::Field("number of functions"));
        }
        addresses.push((address, (0..lines).map(|_| line(r)).collect::<Result<_, _>>()?));
    }
    Ok(Named { file, found, addresses })
}

fn line(r: &mut Reader<'_>) -> Result<NamedLine, Malformed> {
    let (full, short, file) = (text(r)?, text(r)?, text(r)?);
    let line = r.number()?;
    let inlined = line & 1 != 0;
    let line = u32::try_from(line >> 1).map_err(|_| Malformed::Field("line"))?;
    Ok(NamedLine { full, short, file, line, inlined })
}
