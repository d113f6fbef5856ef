//! Decodes messages. The bytes are not trusted: nothing here panics, loops past its input, or
//! allocates past a limit.

use alloc::boxed::Box;

use super::deepest_stack::{DeepestStack, StackFrame};
use super::interpreter::{FrameAccess, Interpreter, InterpreterFunction, LineFormat};
use super::malformed::Malformed;
use super::messages::{
    AgentCounters, Allocation, BlockingCall, Clock, Engaged, Engine, EngineState, Hello, Message, Module, Request,
    Sample, SpawnCause, Thread, Unload, Wait,
};
use super::protocol::{
    MAGIC, MAX_ARGV, MAX_BUILD_ID, MAX_COMM, MAX_FRAMES, MAX_FUNCTION_NAME, MAX_LINE_TABLE, MAX_MESSAGE, MAX_OBJECT,
    MAX_PATH, OLDEST_VERSION, VERSION, kind,
};
use super::stack_memory::StackMemory;
use crate::wire::varint::{self, VarintError, unzigzag};

/// A complete message in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramedMessage<'a> {
    /// Kind of the message.
    pub kind: u8,
    /// Body of the message.
    pub body: &'a [u8],
    /// Length of the frame in the stream, bytes.
    pub size: usize,
}

/// Splits the first complete frame off a stream; `None` if more bytes have to arrive first.
pub fn split_frame(stream: &[u8]) -> Result<Option<FramedMessage<'_>>, Malformed> {
    let Some((head, rest)) = stream.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head);
    if length == 0 || length as usize > MAX_MESSAGE {
        return Err(Malformed::Length(length));
    }
    match rest.get(..length as usize) {
        Some(body) => Ok(Some(FramedMessage { kind: body[0], body: &body[1..], size: 4 + length as usize })),
        None => Ok(None),
    }
}

/// Decodes a message of an agent. A sample's stack is also stored in `memory`.
pub fn decode_message(kind: u8, body: &[u8], memory: &mut StackMemory) -> Result<Message, Malformed> {
    let mut r = Reader::new(body);
    let message = match kind {
        kind::HELLO => Message::Hello(hello(&mut r)?),
        kind::MODULE => Message::Module(module(&mut r)?),
        kind::UNLOAD => {
            Message::Unload(Unload { id: r.varint_as("module id")?, generation: r.varint_as("generation")? })
        }
        kind::THREAD => {
            Message::Thread(Thread { tid: r.varint_as("thread id")?, name: r.boxed_bytes(MAX_COMM, "name")? })
        }
        kind::THREAD_END => Message::ThreadEnd { tid: r.varint_as("thread id")? },
        kind::WAIT => Message::Wait(wait(&mut r)?),
        kind::SAMPLE => return sample(r, memory),
        kind::COUNTERS => Message::Counters(counters(&mut r)?),
        kind::ENGAGED => Message::Engaged(Engaged {
            clock: Clock::from_wire(r.byte()?)?,
            engine: Engine::from_wire(r.byte()?)?,
            state: EngineState::from_wire(r.byte()?)?,
            period_ns: r.varint()?,
            signal: r.varint_as("signal")?,
        }),
        kind::BUSY => Message::Busy { viewer: r.varint_as("viewer")? },
        kind::FUNCTION => Message::Function(InterpreterFunction {
            id: r.varint_as("function id")?,
            first_line: r.varint_as("first line")?,
            name: r.boxed_bytes(MAX_FUNCTION_NAME, "function name")?,
            file: r.boxed_bytes(MAX_PATH, "source file")?,
            line_format: LineFormat::from_wire(r.byte()?).ok_or(Malformed::Field("line format"))?,
            line_table: r.boxed_bytes(MAX_LINE_TABLE, "line table")?,
        }),
        kind::DEEPEST_STACK => Message::DeepestStack(deepest_stack(&mut r)?),
        kind::INTERPRETER => Message::Interpreter(Interpreter {
            major: r.byte()?,
            minor: r.byte()?,
            access: FrameAccess::from_wire(r.byte()?).ok_or(Malformed::Field("frame access"))?,
            merged: r.varint()?,
            unnamed: r.varint()?,
            unmerged: r.varint()?,
        }),
        kind::FREED => Message::Freed {
            id: r.varint_as("allocation")?,
            left: if r.is_empty() { 0 } else { r.varint_as("part of an allocation")? },
        },
        _ => return Err(Malformed::Kind(kind)),
    };
    r.expect_end()?;
    Ok(message)
}

/// Decodes a request of a viewer.
pub fn decode_request(kind: u8, body: &[u8]) -> Result<Request, Malformed> {
    let mut r = Reader::new(body);
    let request = match kind {
        kind::ENGAGE => {
            let (clock, engine) = (Clock::from_wire(r.byte()?)?, Engine::from_wire(r.byte()?)?);
            let is_continued = r.byte()? != 0;
            let period_ns = r.varint()?;
            if !clock.periods().contains(&period_ns) {
                return Err(Malformed::Field("period"));
            }
            let per_second = r.varint_as("number of samples")?;
            Request::Engage { clock, engine, period_ns, per_second, is_continued }
        }
        kind::LEAVE => Request::Leave,
        _ => return Err(Malformed::Kind(kind)),
    };
    r.expect_end()?;
    Ok(request)
}

fn hello(r: &mut Reader<'_>) -> Result<Hello<Box<[u8]>>, Malformed> {
    let magic = u32::from_le_bytes(r.array()?);
    if magic != MAGIC {
        return Err(Malformed::Magic(magic));
    }
    let version = u16::from_le_bytes(r.array()?);
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(Malformed::Version(version));
    }
    Ok(Hello {
        token: r.varint()?,
        pid: r.varint_as("pid")?,
        parent: r.varint_as("parent")?,
        start_ticks: r.varint()?,
        monotonic_ns: r.varint()?,
        cpu_ns: r.varint()?,
        spawn_cause: match r.varint()? {
            0 => SpawnCause::Tick,
            1 => SpawnCause::Knock,
            2 => SpawnCause::External,
            _ => return Err(Malformed::Field("birth")),
        },
        executable: r.boxed_bytes(MAX_PATH, "executable")?,
        argv: r.boxed_bytes(MAX_ARGV, "argv")?,
    })
}

fn module(r: &mut Reader<'_>) -> Result<Module<Box<[u8]>>, Malformed> {
    let module = Module {
        id: r.varint_as("module id")?,
        generation: r.varint_as("generation")?,
        start: r.varint()?,
        end: r.varint()?,
        bias: r.varint()?,
        device: r.varint()?,
        inode: r.varint()?,
        path: r.boxed_bytes(MAX_PATH, "path")?,
        build_id: r.boxed_bytes(MAX_BUILD_ID, "build id")?,
    };
    if module.start >= module.end { Err(Malformed::Field("address range")) } else { Ok(module) }
}

fn wait(r: &mut Reader<'_>) -> Result<Wait<Box<[u8]>>, Malformed> {
    Ok(Wait {
        tid: r.varint_as("thread id")?,
        call: BlockingCall {
            number: match r.varint()? {
                0 => None,
                number => Some(u32::try_from(number - 1).map_err(|_| Malformed::Field("system call"))?),
            },
            arguments: [r.varint()?, r.varint()?, r.varint()?],
        },
        holder: r.varint_as("holder")?,
        is_file: match r.byte()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed::Field("kind of descriptor")),
        },
        object: r.boxed_bytes(MAX_OBJECT, "object")?,
    })
}

fn deepest_stack(r: &mut Reader<'_>) -> Result<DeepestStack<Box<[StackFrame]>>, Malformed> {
    let (tid, generation) = (r.varint_as("thread id")?, r.varint_as("generation")?);
    let (used, size, depth) = (r.varint()?, r.varint()?, r.varint()?);
    if depth > MAX_FRAMES as u64 {
        return Err(Malformed::Field("depth"));
    }
    let mut last = 0u64;
    let frames = (0..depth).map(|_| {
        last = last.wrapping_add(unzigzag(r.varint()?));
        Ok(StackFrame { address: last, bytes: r.varint()? })
    });
    Ok(DeepestStack { tid, generation, used, size, frames: frames.collect::<Result<_, _>>()? })
}

fn sample(mut r: Reader<'_>, memory: &mut StackMemory) -> Result<Message, Malformed> {
    let tid = r.varint_as("thread id")?;
    let (clock, slot) = (Clock::from_wire(r.byte()?)?, r.byte()?);
    if clock != clock.sampled() {
        return Err(Malformed::Field("clock"));
    }
    let stored = memory.get_mut(slot as usize).ok_or(Malformed::Field("stack slot"))?;
    let mut sample = Sample {
        tid,
        clock,
        flags: r.varint_as("flags")?,
        generation: r.varint_as("generation")?,
        monotonic_ns: r.varint()?,
        age_ms: 0,
        weight_ns: r.varint()?,
        allocation: match clock {
            Clock::Alloc => Allocation::unpack(r.varint()?),
            _ => Allocation::default(),
        },
        slot,
    };
    let kept: usize = r.varint_as::<u32>("kept frames")? as usize;
    let fresh: usize = r.varint_as::<u32>("fresh frames")? as usize;
    let depth = kept.saturating_add(fresh);
    if kept > stored.depth || depth > MAX_FRAMES || depth == 0 {
        return Err(Malformed::Field("depth"));
    }
    let start = stored.depth - kept;
    stored.frames.copy_within(start..stored.depth, fresh);
    stored.depth = depth;
    let mut last = 0u64;
    for frame in &mut stored.frames[..fresh] {
        last = last.wrapping_add(unzigzag(r.varint()?));
        *frame = last;
    }
    // Agents of earlier versions do not tell it.
    if !r.is_empty() {
        sample.age_ms = r.varint_as("age")?;
    }
    r.expect_end()?;
    Ok(Message::Sample(sample, stored.frames().into()))
}

fn counters(r: &mut Reader<'_>) -> Result<AgentCounters, Malformed> {
    let (monotonic_ns, ticks, sent) = (r.varint()?, r.varint()?, r.varint()?);
    let mut counters = AgentCounters { monotonic_ns, ticks, sent, ..AgentCounters::default() };
    for value in counters.lost_ticks.iter_mut().chain(&mut counters.lost_ns) {
        *value = r.varint()?;
    }
    counters.agent_cpu_ns = r.varint()?;
    counters.handler_cpu_ns = r.varint()?;
    counters.process_cpu_ns = r.varint()?;
    counters.threads = r.varint_as("threads")?;
    counters.timers = r.varint_as("timers")?;
    counters.foreign_signals = r.varint()?;
    // Older recordings end here.
    if !r.is_empty() {
        for value in &mut counters.lost_bytes {
            *value = r.varint()?;
        }
    }
    Ok(counters)
}

/// Reads fields from the front of a body.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The bytes that were not read yet.
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Reads a varint.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        varint::decode(&mut self.rest).map_err(|error| match error {
            VarintError::Truncated => Malformed::Short,
            VarintError::Overflow => Malformed::Field("number"),
        })
    }

    /// Reads a varint of a smaller type. `name` is the field's name in an error.
    pub fn varint_as<T: TryFrom<u64>>(&mut self, name: &'static str) -> Result<T, Malformed> {
        T::try_from(self.varint()?).map_err(|_| Malformed::Field(name))
    }

    /// Reads a byte string of at most `limit` bytes into a box.
    pub fn boxed_bytes(&mut self, limit: usize, name: &'static str) -> Result<Box<[u8]>, Malformed> {
        self.bytes(limit, name).map(Box::from)
    }

    /// Reads a byte string of at most `limit` bytes in place.
    pub fn bytes(&mut self, limit: usize, name: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.varint()?;
        if length > limit as u64 {
            return Err(Malformed::Field(name));
        }
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that all bytes were read.
    pub fn expect_end(&self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}
