//! Bytes into messages. The bytes are hostile: nothing here panics, loops past its input, or allocates past a limit.

use alloc::boxed::Box;

use super::messages::{
    Account, Birth, Clock, Engaged, Engine, EngineState, Hello, Malformed, Message, Module, Request, Sample, Thread,
    Unload,
};
use super::stacks::StackMemory;
use super::{MAGIC, MAX_ARGV, MAX_BUILD_ID, MAX_COMM, MAX_FRAMES, MAX_MESSAGE, MAX_PATH, PERIODS_NS, VERSION, kind};

/// A whole message in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// What kind.
    pub kind: u8,
    /// Its body.
    pub body: &'a [u8],
    /// Bytes it takes of the stream.
    pub size: usize,
}

/// Splits the first whole frame off a stream; `None` until more bytes come.
pub fn frame(stream: &[u8]) -> Result<Option<Framed<'_>>, Malformed> {
    let Some((head, rest)) = stream.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head);
    if length == 0 || length as usize > MAX_MESSAGE {
        return Err(Malformed::Length(length));
    }
    match rest.get(..length as usize) {
        Some(body) => Ok(Some(Framed { kind: body[0], body: &body[1..], size: 4 + length as usize })),
        None => Ok(None),
    }
}

/// Reads the body of a frame that an agent sent.
pub fn message(kind: u8, body: &[u8], memory: &mut StackMemory) -> Result<Message, Malformed> {
    let mut r = Reader { rest: body };
    let message = match kind {
        kind::HELLO => Message::Hello(hello(&mut r)?),
        kind::MODULE => Message::Module(module(&mut r)?),
        kind::UNLOAD => Message::Unload(Unload { id: r.small("module id")?, generation: r.small("generation")? }),
        kind::THREAD => Message::Thread(Thread { tid: r.small("thread id")?, name: r.bytes(MAX_COMM, "name")? }),
        kind::THREAD_END => Message::ThreadEnd { tid: r.small("thread id")? },
        kind::SAMPLE => return sample(r, memory),
        kind::ACCOUNT => Message::Account(account(&mut r)?),
        kind::ENGAGED => Message::Engaged(Engaged {
            clock: clock(r.byte()?)?,
            engine: engine(r.byte()?)?,
            state: engine_state(r.byte()?)?,
            period_ns: r.number()?,
            signal: r.small("signal")?,
        }),
        kind::BUSY => Message::Busy { viewer: r.small("viewer")? },
        _ => return Err(Malformed::Kind(kind)),
    };
    r.end()?;
    Ok(message)
}

/// Reads the body of a frame that a viewer sent.
pub fn request(kind: u8, body: &[u8]) -> Result<Request, Malformed> {
    let mut r = Reader { rest: body };
    let request = match kind {
        kind::ENGAGE => {
            let (clock, engine) = (clock(r.byte()?)?, engine(r.byte()?)?);
            let period_ns = r.number()?;
            if !PERIODS_NS.contains(&period_ns) {
                return Err(Malformed::Field("period"));
            }
            Request::Engage { clock, engine, period_ns }
        }
        kind::LEAVE => Request::Leave,
        _ => return Err(Malformed::Kind(kind)),
    };
    r.end()?;
    Ok(request)
}

fn hello(r: &mut Reader<'_>) -> Result<Hello<Box<[u8]>>, Malformed> {
    let magic = u32::from_le_bytes(r.array()?);
    if magic != MAGIC {
        return Err(Malformed::Magic(magic));
    }
    let version = u16::from_le_bytes(r.array()?);
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    Ok(Hello {
        token: r.number()?,
        pid: r.small("pid")?,
        parent: r.small("parent")?,
        start_ticks: r.number()?,
        monotonic_ns: r.number()?,
        cpu_ns: r.number()?,
        birth: match r.number()? {
            0 => Birth::Tick,
            1 => Birth::Knock,
            _ => return Err(Malformed::Field("birth")),
        },
        executable: r.bytes(MAX_PATH, "executable")?,
        argv: r.bytes(MAX_ARGV, "argv")?,
    })
}

fn module(r: &mut Reader<'_>) -> Result<Module<Box<[u8]>>, Malformed> {
    let module = Module {
        id: r.small("module id")?,
        generation: r.small("generation")?,
        start: r.number()?,
        end: r.number()?,
        bias: r.number()?,
        device: r.number()?,
        inode: r.number()?,
        path: r.bytes(MAX_PATH, "path")?,
        build_id: r.bytes(MAX_BUILD_ID, "build id")?,
    };
    if module.start >= module.end { Err(Malformed::Field("address range")) } else { Ok(module) }
}

fn sample(mut r: Reader<'_>, memory: &mut StackMemory) -> Result<Message, Malformed> {
    let tid = r.small("thread id")?;
    let (clock, slot) = (clock(r.byte()?)?, r.byte()?);
    let stored = memory.get_mut(slot as usize).ok_or(Malformed::Field("stack slot"))?;
    let sample = Sample {
        tid,
        clock,
        flags: r.small("flags")?,
        generation: r.small("generation")?,
        monotonic_ns: r.number()?,
        weight_ns: r.number()?,
        slot,
    };
    let kept: usize = r.small::<u32>("kept frames")? as usize;
    let fresh: usize = r.small::<u32>("fresh frames")? as usize;
    let depth = kept.saturating_add(fresh);
    if kept > stored.depth || depth > MAX_FRAMES || depth == 0 {
        return Err(Malformed::Field("depth"));
    }
    let start = stored.depth - kept;
    stored.frames.copy_within(start..stored.depth, fresh);
    stored.depth = depth;
    let mut last = 0u64;
    for frame in &mut stored.frames[..fresh] {
        last = last.wrapping_add(unzigzag(r.number()?));
        *frame = last;
    }
    r.end()?;
    Ok(Message::Sample(sample, stored.frames().into()))
}

fn account(r: &mut Reader<'_>) -> Result<Account, Malformed> {
    let (monotonic_ns, ticks, sent) = (r.number()?, r.number()?, r.number()?);
    let mut account = Account { monotonic_ns, ticks, sent, ..Account::default() };
    for value in account.lost_ticks.iter_mut().chain(&mut account.lost_ns) {
        *value = r.number()?;
    }
    account.agent_cpu_ns = r.number()?;
    account.handler_cpu_ns = r.number()?;
    account.process_cpu_ns = r.number()?;
    account.threads = r.small("threads")?;
    account.timers = r.small("timers")?;
    account.foreign_signals = r.number()?;
    Ok(account)
}

fn clock(byte: u8) -> Result<Clock, Malformed> {
    [Clock::Prof, Clock::Real, Clock::Virtual].get(byte as usize).copied().ok_or(Malformed::Field("clock"))
}

fn engine(byte: u8) -> Result<Engine, Malformed> {
    [Engine::Threads, Engine::Itimer].get(byte as usize).copied().ok_or(Malformed::Field("engine"))
}

fn engine_state(byte: u8) -> Result<EngineState, Malformed> {
    use EngineState::{ClockTaken, Off, Running, SignalTaken, TimerRefused, TimerTaken, Unsupported};
    let states = [Off, Running, SignalTaken, TimerTaken, Unsupported, TimerRefused, ClockTaken];
    states.get(byte as usize).copied().ok_or(Malformed::Field("engine state"))
}

/// Takes fields off the front of bytes.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins with the first of these.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// So many bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// A varint.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Field("number"))
    }

    /// A varint of a smaller type; `name` is the field's.
    pub fn small<T: TryFrom<u64>>(&mut self, name: &'static str) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed::Field(name))
    }

    /// A byte string, at most so long.
    pub fn bytes(&mut self, limit: usize, name: &'static str) -> Result<Box<[u8]>, Malformed> {
        self.borrowed(limit, name).map(Box::from)
    }

    /// The same where it lies.
    pub fn borrowed(&mut self, limit: usize, name: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        if length > limit as u64 {
            return Err(Malformed::Field(name));
        }
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

/// The inverse of the writer's zigzag.
pub fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}
