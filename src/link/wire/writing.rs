//! Messages into bytes. Nothing here allocates: the agent writes into a buffer that it has.

use super::messages::{Account, Engaged, Hello, Module, Request, Sample, Thread, Unload};
use super::stacks::StackMemory;
use super::{MAGIC, MAX_ARGV, MAX_BUILD_ID, MAX_COMM, MAX_FRAMES, MAX_MESSAGE, MAX_PATH, STACK_SLOTS, VERSION, kind};

/// The buffer has no room for the message; it is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Writes whole messages into a fixed buffer.
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    /// End of the last whole message.
    length: usize,
    /// End of what is written of the message under way.
    cursor: usize,
    full: bool,
}

impl<'a> Writer<'a> {
    /// Appends to `buffer[..length]`.
    pub fn new(buffer: &'a mut [u8], length: usize) -> Writer<'a> {
        Writer { buffer, length, cursor: length, full: false }
    }

    /// Bytes of whole messages in the buffer.
    pub fn length(&self) -> usize {
        self.length
    }

    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Self)) -> Result<(), Full> {
        self.cursor = self.length;
        self.full = false;
        self.raw(&[0; 4]);
        self.raw(&[kind]);
        body(self);
        let size = self.cursor - self.length - if self.full { 0 } else { 4 };
        if self.full || size > MAX_MESSAGE {
            self.cursor = self.length;
            return Err(Full);
        }
        self.buffer[self.length..self.length + 4].copy_from_slice(&(size as u32).to_le_bytes());
        self.length = self.cursor;
        Ok(())
    }

    fn raw(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.cursor..self.cursor + bytes.len()) {
            Some(place) if !self.full => {
                place.copy_from_slice(bytes);
                self.cursor += bytes.len();
            }
            _ => self.full = true,
        }
    }

    fn number(&mut self, mut value: u64) {
        let mut bytes = [0; 10];
        let mut count = 0;
        loop {
            bytes[count] = value as u8 & 0x7f | if value > 0x7f { 0x80 } else { 0 };
            count += 1;
            value >>= 7;
            if value == 0 {
                break;
            }
        }
        self.raw(&bytes[..count]);
    }

    fn bytes(&mut self, bytes: &[u8], limit: usize) {
        let bytes = &bytes[..bytes.len().min(limit)];
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Writes a [`Hello`]; strings past their limit are cut.
    pub fn hello<B: AsRef<[u8]>>(&mut self, hello: &Hello<B>) -> Result<(), Full> {
        self.message(kind::HELLO, |w| {
            w.raw(&MAGIC.to_le_bytes());
            w.raw(&VERSION.to_le_bytes());
            for value in [hello.token, hello.pid.into(), hello.parent.into(), hello.start_ticks] {
                w.number(value);
            }
            for value in [hello.monotonic_ns, hello.cpu_ns, hello.birth as u64] {
                w.number(value);
            }
            w.bytes(hello.executable.as_ref(), MAX_PATH);
            w.bytes(hello.argv.as_ref(), MAX_ARGV);
        })
    }

    /// Writes a [`Module`]; strings past their limit are cut.
    pub fn module<B: AsRef<[u8]>>(&mut self, module: &Module<B>) -> Result<(), Full> {
        self.message(kind::MODULE, |w| {
            for value in [module.id.into(), module.generation.into(), module.start, module.end, module.bias] {
                w.number(value);
            }
            w.number(module.device);
            w.number(module.inode);
            w.bytes(module.path.as_ref(), MAX_PATH);
            w.bytes(module.build_id.as_ref(), MAX_BUILD_ID);
        })
    }

    /// Writes an [`Unload`].
    pub fn unload(&mut self, unload: &Unload) -> Result<(), Full> {
        self.message(kind::UNLOAD, |w| {
            w.number(unload.id.into());
            w.number(unload.generation.into());
        })
    }

    /// Writes a [`Thread`]; a name past its limit is cut.
    pub fn thread<B: AsRef<[u8]>>(&mut self, thread: &Thread<B>) -> Result<(), Full> {
        self.message(kind::THREAD, |w| {
            w.number(thread.tid.into());
            w.bytes(thread.name.as_ref(), MAX_COMM);
        })
    }

    /// Writes a [`Message::ThreadEnd`](super::Message::ThreadEnd).
    pub fn thread_end(&mut self, tid: u32) -> Result<(), Full> {
        self.message(kind::THREAD_END, |w| w.number(tid.into()))
    }

    /// Writes a sample and its packed frames, leaf first, as the difference to the last stack of `sample.slot`, and
    /// remembers it there. Frames past [`MAX_FRAMES`] on the root side are cut.
    pub fn sample(&mut self, sample: &Sample, frames: &[u64], memory: &mut StackMemory) -> Result<(), Full> {
        let frames = &frames[..frames.len().min(MAX_FRAMES)];
        let stored = &mut memory[sample.slot as usize % STACK_SLOTS];
        let kept = stored.frames().iter().rev().zip(frames.iter().rev()).take_while(|(old, new)| old == new).count();
        let fresh = &frames[..frames.len() - kept];
        self.message(kind::SAMPLE, |w| {
            w.number(sample.tid.into());
            w.raw(&[sample.clock as u8, sample.slot % STACK_SLOTS as u8]);
            w.number(sample.flags.into());
            w.number(sample.generation.into());
            w.number(sample.monotonic_ns);
            w.number(sample.weight_ns);
            w.number(kept as u64);
            w.number(fresh.len() as u64);
            let mut last = 0u64;
            for &frame in fresh {
                w.number(zigzag(frame.wrapping_sub(last)));
                last = frame;
            }
        })?;
        stored.frames[..frames.len()].copy_from_slice(frames);
        stored.depth = frames.len();
        Ok(())
    }

    /// Writes an [`Account`].
    pub fn account(&mut self, account: &Account) -> Result<(), Full> {
        self.message(kind::ACCOUNT, |w| {
            w.number(account.monotonic_ns);
            w.number(account.ticks);
            w.number(account.sent);
            for value in account.lost_ticks.iter().chain(&account.lost_ns) {
                w.number(*value);
            }
            for value in [account.agent_cpu_ns, account.handler_cpu_ns, account.process_cpu_ns] {
                w.number(value);
            }
            for value in [account.threads.into(), account.timers.into(), account.foreign_signals] {
                w.number(value);
            }
        })
    }

    /// Writes an [`Engaged`].
    pub fn engaged(&mut self, engaged: &Engaged) -> Result<(), Full> {
        self.message(kind::ENGAGED, |w| {
            w.raw(&[engaged.clock as u8, engaged.engine as u8, engaged.state as u8]);
            w.number(engaged.period_ns);
            w.number(engaged.signal.into());
        })
    }

    /// Writes a [`Message::Busy`](super::Message::Busy).
    pub fn busy(&mut self, viewer: u32) -> Result<(), Full> {
        self.message(kind::BUSY, |w| w.number(viewer.into()))
    }

    /// Writes a [`Request`].
    pub fn request(&mut self, request: &Request) -> Result<(), Full> {
        match *request {
            Request::Engage { clock, engine, period_ns } => self.message(kind::ENGAGE, |w| {
                w.raw(&[clock as u8, engine as u8]);
                w.number(period_ns);
            }),
            Request::Leave => self.message(kind::LEAVE, |_| {}),
        }
    }
}

/// Small numbers for small differences of either sign.
pub fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ (difference as i64 >> 63) as u64
}
