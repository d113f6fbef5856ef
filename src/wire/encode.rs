//! Encodes messages. Nothing here allocates: the agent writes into a buffer that it provides.

use super::deepest_stack::{DeepestStack, StackFrame};
use super::interpreter::{Interpreter, InterpreterFunction};
use super::messages::{AgentCounters, Clock, Engaged, Hello, Module, Request, Sample, Thread, Unload, Wait};
use super::protocol::{
    MAGIC, MAX_ARGV, MAX_BUILD_ID, MAX_COMM, MAX_FRAMES, MAX_FUNCTION_NAME, MAX_LINE_TABLE, MAX_MESSAGE, MAX_OBJECT,
    MAX_PATH, STACK_SLOTS, VERSION, kind,
};
use super::stack_memory::StackMemory;
#[cfg(feature = "viewer")]
use crate::wire::Message;
use crate::wire::varint::{self, zigzag};

/// The buffer has no room for the message. Its content is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFull;

/// Writes whole messages into a fixed buffer.
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    /// End of the last complete message.
    length: usize,
    /// End of the incomplete message.
    cursor: usize,
    is_full: bool,
}

impl<'a> Writer<'a> {
    /// Creates a writer that appends to `buffer[..length]`.
    pub fn new(buffer: &'a mut [u8], length: usize) -> Writer<'a> {
        Writer { buffer, length, cursor: length, is_full: false }
    }

    /// Length of the complete messages in the buffer in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Self)) -> Result<(), BufferFull> {
        self.cursor = self.length;
        self.is_full = false;
        self.raw(&[0; 4]);
        self.raw(&[kind]);
        body(self);
        let size = self.cursor - self.length - if self.is_full { 0 } else { 4 };
        if self.is_full || size > MAX_MESSAGE {
            self.cursor = self.length;
            return Err(BufferFull);
        }
        self.buffer[self.length..self.length + 4].copy_from_slice(&(size as u32).to_le_bytes());
        self.length = self.cursor;
        Ok(())
    }

    fn raw(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.cursor..self.cursor + bytes.len()) {
            Some(target) if !self.is_full => {
                target.copy_from_slice(bytes);
                self.cursor += bytes.len();
            }
            _ => self.is_full = true,
        }
    }

    fn varint(&mut self, value: u64) {
        let (mut bytes, mut count) = ([0; varint::MAX_BYTES], 0);
        varint::encode(value, |byte| {
            bytes[count] = byte;
            count += 1;
        });
        self.raw(&bytes[..count]);
    }

    fn bytes(&mut self, bytes: &[u8], limit: usize) {
        let bytes = &bytes[..bytes.len().min(limit)];
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Writes any message but a [`Sample`], which needs the stack memory of a connection.
    #[cfg(feature = "viewer")]
    pub fn write_message(&mut self, message: &Message) -> Result<(), BufferFull> {
        match message {
            Message::Hello(hello) => self.write_hello(hello),
            Message::Module(module) => self.write_module(module),
            Message::Unload(unload) => self.write_unload(unload),
            Message::Thread(thread) => self.write_thread(thread),
            Message::ThreadEnd { tid } => self.write_thread_end(*tid),
            Message::Wait(wait) => self.write_wait(wait),
            Message::Counters(counters) => self.write_counters(counters),
            Message::Engaged(engaged) => self.write_engaged(engaged),
            Message::Busy { viewer } => self.write_busy(*viewer),
            Message::Function(function) => self.write_function(function),
            Message::DeepestStack(stack) => self.write_deepest_stack(stack),
            Message::Interpreter(interpreter) => self.write_interpreter(interpreter),
            Message::Freed { id, left } => self.write_freed(*id, *left),
            Message::Sample(..) => Ok(()),
        }
    }

    /// Writes a [`Hello`]; strings past their limit are truncated.
    pub fn write_hello<B: AsRef<[u8]>>(&mut self, hello: &Hello<B>) -> Result<(), BufferFull> {
        self.message(kind::HELLO, |w| {
            w.raw(&MAGIC.to_le_bytes());
            w.raw(&VERSION.to_le_bytes());
            for value in [hello.token, hello.pid.into(), hello.parent.into(), hello.start_ticks] {
                w.varint(value);
            }
            for value in [hello.monotonic_ns, hello.cpu_ns, hello.spawn_cause as u64] {
                w.varint(value);
            }
            w.bytes(hello.executable.as_ref(), MAX_PATH);
            w.bytes(hello.argv.as_ref(), MAX_ARGV);
        })
    }

    /// Writes a [`Module`]; strings past their limit are truncated.
    pub fn write_module<B: AsRef<[u8]>>(&mut self, module: &Module<B>) -> Result<(), BufferFull> {
        self.message(kind::MODULE, |w| {
            for value in [module.id.into(), module.generation.into(), module.start, module.end, module.bias] {
                w.varint(value);
            }
            w.varint(module.device);
            w.varint(module.inode);
            w.bytes(module.path.as_ref(), MAX_PATH);
            w.bytes(module.build_id.as_ref(), MAX_BUILD_ID);
        })
    }

    /// Writes an [`Unload`].
    pub fn write_unload(&mut self, unload: &Unload) -> Result<(), BufferFull> {
        self.message(kind::UNLOAD, |w| {
            w.varint(unload.id.into());
            w.varint(unload.generation.into());
        })
    }

    /// Writes a [`Thread`]; a name past its limit is truncated.
    pub fn write_thread<B: AsRef<[u8]>>(&mut self, thread: &Thread<B>) -> Result<(), BufferFull> {
        self.message(kind::THREAD, |w| {
            w.varint(thread.tid.into());
            w.bytes(thread.name.as_ref(), MAX_COMM);
        })
    }

    /// Writes a [`Message::ThreadEnd`](super::Message::ThreadEnd).
    pub fn write_thread_end(&mut self, tid: u32) -> Result<(), BufferFull> {
        self.message(kind::THREAD_END, |w| w.varint(tid.into()))
    }

    /// Writes a [`Wait`]; an object past its limit is truncated.
    pub fn write_wait<B: AsRef<[u8]>>(&mut self, wait: &Wait<B>) -> Result<(), BufferFull> {
        self.message(kind::WAIT, |w| {
            w.varint(wait.tid.into());
            w.varint(wait.call.number.map_or(0, |number| u64::from(number) + 1));
            wait.call.arguments.iter().for_each(|&argument| w.varint(argument));
            w.varint(wait.holder.into());
            w.raw(&[u8::from(wait.is_file)]);
            w.bytes(wait.object.as_ref(), MAX_OBJECT);
        })
    }

    /// Writes a sample and its packed frames, leaf first, as the difference from the stack last
    /// stored at `sample.slot`, and stores it there. Frames past [`MAX_FRAMES`] on the root side
    /// are omitted.
    pub fn write_sample(
        &mut self,
        sample: &Sample,
        frames: &[u64],
        memory: &mut StackMemory,
    ) -> Result<(), BufferFull> {
        let frames = &frames[..frames.len().min(MAX_FRAMES)];
        let stored = &mut memory[sample.slot as usize % STACK_SLOTS];
        let kept = stored.frames().iter().rev().zip(frames.iter().rev()).take_while(|(old, new)| old == new).count();
        let fresh = &frames[..frames.len() - kept];
        self.message(kind::SAMPLE, |w| {
            w.varint(sample.tid.into());
            w.raw(&[sample.clock as u8, sample.slot % STACK_SLOTS as u8]);
            w.varint(sample.flags.into());
            w.varint(sample.generation.into());
            w.varint(sample.monotonic_ns);
            w.varint(sample.weight_ns);
            if sample.clock == Clock::Alloc {
                w.varint(sample.allocation.pack());
            }
            w.varint(kept as u64);
            w.varint(fresh.len() as u64);
            let mut last = 0u64;
            for &frame in fresh {
                w.varint(zigzag(frame.wrapping_sub(last)));
                last = frame;
            }
            if sample.age_ms != 0 {
                w.varint(sample.age_ms.into());
            }
        })?;
        stored.frames[..frames.len()].copy_from_slice(frames);
        stored.depth = frames.len();
        Ok(())
    }

    /// Writes a [`Message::Freed`](super::Message::Freed).
    pub fn write_freed(&mut self, id: u32, left: u32) -> Result<(), BufferFull> {
        self.message(kind::FREED, |w| {
            w.varint(id.into());
            if left != 0 {
                w.varint(left.into());
            }
        })
    }

    /// Writes [`AgentCounters`].
    pub fn write_counters(&mut self, counters: &AgentCounters) -> Result<(), BufferFull> {
        self.message(kind::COUNTERS, |w| {
            w.varint(counters.monotonic_ns);
            w.varint(counters.ticks);
            w.varint(counters.sent);
            for value in counters.lost_ticks.iter().chain(&counters.lost_ns) {
                w.varint(*value);
            }
            for value in [counters.agent_cpu_ns, counters.handler_cpu_ns, counters.process_cpu_ns] {
                w.varint(value);
            }
            for value in [counters.threads.into(), counters.timers.into(), counters.foreign_signals] {
                w.varint(value);
            }
            for value in counters.lost_bytes {
                w.varint(value);
            }
        })
    }

    /// Writes an [`Engaged`].
    pub fn write_engaged(&mut self, engaged: &Engaged) -> Result<(), BufferFull> {
        self.message(kind::ENGAGED, |w| {
            w.raw(&[engaged.clock as u8, engaged.engine as u8, engaged.state as u8]);
            w.varint(engaged.period_ns);
            w.varint(engaged.signal.into());
        })
    }

    /// Writes a [`Message::Busy`](super::Message::Busy).
    pub fn write_busy(&mut self, viewer: u32) -> Result<(), BufferFull> {
        self.message(kind::BUSY, |w| w.varint(viewer.into()))
    }

    /// Writes an [`InterpreterFunction`]; a name, path or line table past its limit is truncated.
    pub fn write_function<B: AsRef<[u8]>>(&mut self, function: &InterpreterFunction<B>) -> Result<(), BufferFull> {
        self.message(kind::FUNCTION, |w| {
            w.varint(function.id.into());
            w.varint(function.first_line.into());
            w.bytes(function.name.as_ref(), MAX_FUNCTION_NAME);
            w.bytes(function.file.as_ref(), MAX_PATH);
            w.raw(&[function.line_format as u8]);
            w.bytes(function.line_table.as_ref(), MAX_LINE_TABLE);
        })
    }

    /// Writes a [`DeepestStack`]; frames past [`MAX_FRAMES`] are omitted.
    pub fn write_deepest_stack<F: AsRef<[StackFrame]>>(&mut self, stack: &DeepestStack<F>) -> Result<(), BufferFull> {
        let frames = stack.frames.as_ref();
        let frames = &frames[..frames.len().min(MAX_FRAMES)];
        self.message(kind::DEEPEST_STACK, |w| {
            w.varint(stack.tid.into());
            w.varint(stack.generation.into());
            for value in [stack.used, stack.size, frames.len() as u64] {
                w.varint(value);
            }
            let mut last = 0u64;
            for frame in frames {
                w.varint(zigzag(frame.address.wrapping_sub(last)));
                w.varint(frame.bytes);
                last = frame.address;
            }
        })
    }

    /// Writes an [`Interpreter`].
    pub fn write_interpreter(&mut self, interpreter: &Interpreter) -> Result<(), BufferFull> {
        self.message(kind::INTERPRETER, |w| {
            w.raw(&[interpreter.major, interpreter.minor, interpreter.access as u8]);
            w.varint(interpreter.merged);
            w.varint(interpreter.unnamed);
            w.varint(interpreter.unmerged);
        })
    }

    /// Writes a [`Request`].
    pub fn write_request(&mut self, request: &Request) -> Result<(), BufferFull> {
        match *request {
            Request::Engage { clock, engine, period_ns, per_second, is_continued } => self.message(kind::ENGAGE, |w| {
                w.raw(&[clock as u8, engine as u8, u8::from(is_continued)]);
                w.varint(period_ns);
                w.varint(per_second.into());
            }),
            Request::Leave => self.message(kind::LEAVE, |_| {}),
        }
    }
}
