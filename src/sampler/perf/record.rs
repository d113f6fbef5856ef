//! The records that the kernel writes into a ring (`perf_event_open(2)`, section "MMAP layout").

use super::record_bytes::RecordBytes;
use crate::arch;
use crate::process::unwind::ThreadRegisters;

/// Length of the header of a record: kind, flags and length, bytes.
pub(super) const RECORD_HEADER: usize = 8;
/// Length of what follows the fields of all records but samples: process, thread, time, CPU.
const TRAILER: usize = 24;
/// Maximum number of the kernel's functions in a sample.
const MAX_KERNEL_FRAMES: usize = 128;
/// Values in a call chain from this one on are not addresses.
const FIRST_MARKER: u64 = -4095_i64 as u64;

mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const FORK: u32 = 7;
    pub(super) const READ: u32 = 8;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
}

/// Flag of a [`kind::COMM`] record: the process has executed a program.
const COMM_EXEC: u16 = 1 << 13;

/// A process and a thread of it, in the namespace of pids of this process. Both are 0 for those
/// that it does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ThreadNumbers {
    pub(in super::super) pid: u32,
    pub(in super::super) tid: u32,
}

/// A record.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and most are samples")]
pub(in super::super) enum Record<'a> {
    /// A sample.
    Sample(SampleRecord<'a>),
    /// A thread has made this thread, perhaps in a process of its own.
    Started { thread: ThreadNumbers, maker: ThreadNumbers },
    /// A thread ends.
    Ended(ThreadNumbers),
    /// A thread has used this CPU time on one CPU, ns. It is written at its end, by
    /// some kernels.
    Used { thread: ThreadNumbers, cpu_ns: u64 },
    /// A thread has this name now.
    Named { thread: ThreadNumbers, name: Vec<u8> },
    /// A process has executed another program.
    Executed(ThreadNumbers),
    /// A process has mapped code.
    Mapped(ThreadNumbers),
    /// There was no room for this number of records. The thread is the one that had the next one.
    Lost { thread: ThreadNumbers, records: u64 },
    /// The kernel takes fewer samples for a while, because they cost too much.
    Throttled,
    /// Anything else.
    Other,
}

/// A sample.
#[derive(Debug)]
pub(in super::super) struct SampleRecord<'a> {
    pub(in super::super) thread: ThreadNumbers,
    pub(in super::super) cpu: u32,
    pub(in super::super) period_ns: u64,
    /// The functions of the kernel, leaf first.
    pub(in super::super) kernel: Vec<u64>,
    /// The registers of the user code; `None` for a thread of the kernel.
    pub(in super::super) registers: Option<ThreadRegisters>,
    bytes: RecordBytes<'a>,
    /// Offset and length of the copied stack.
    stack: (usize, usize),
}

impl SampleRecord<'_> {
    /// Number of bytes of the stack that were copied, from the stack pointer on.
    pub(in super::super) fn stack_length(&self) -> usize {
        self.stack.1
    }

    /// Copies the copied bytes of the stack to a buffer. Returns how many.
    pub(in super::super) fn copy_stack(&self, buffer: &mut [u8]) -> usize {
        let length = self.stack.1.min(buffer.len());
        self.bytes.copy(self.stack.0, &mut buffer[..length])
    }
}

/// Reads the fields of a record one after another.
struct Fields<'a> {
    bytes: RecordBytes<'a>,
    offset: usize,
}

impl Fields<'_> {
    fn word(&mut self) -> Option<u64> {
        let word = self.bytes.word(self.offset)?;
        self.offset += 8;
        Some(word)
    }

    fn half_word(&mut self) -> Option<u32> {
        let word = self.bytes.half_word(self.offset)?;
        self.offset += 4;
        Some(word)
    }

    fn thread(&mut self) -> Option<ThreadNumbers> {
        Some(ThreadNumbers { pid: self.half_word()?, tid: self.half_word()? })
    }
}

/// Returns the time at which a record was written, ns; 0 if it is malformed.
pub(super) fn time_ns(bytes: &RecordBytes<'_>) -> u64 {
    let is_sample = bytes.half_word(0) == Some(kind::SAMPLE);
    let offset = if is_sample { Some(RECORD_HEADER + 8) } else { bytes.len().checked_sub(TRAILER - 8) };
    offset.and_then(|offset| bytes.word(offset)).unwrap_or(0)
}

impl Record<'_> {
    /// Decodes a record with its header.
    pub(super) fn decode(bytes: RecordBytes<'_>) -> Record<'_> {
        Record::try_decode(bytes).unwrap_or(Record::Other)
    }

    fn try_decode(bytes: RecordBytes<'_>) -> Option<Record<'_>> {
        let kind = bytes.half_word(0)?;
        let misc = bytes.half_word(4)? as u16;
        let mut fields = Fields { bytes, offset: RECORD_HEADER };
        if kind == kind::SAMPLE {
            return SampleRecord::decode(fields);
        }
        let trailer = bytes.len().checked_sub(TRAILER)?;
        let writer = Fields { bytes, offset: trailer }.thread()?;
        let record = match kind {
            kind::FORK | kind::EXIT => {
                let (pid, parent) = (fields.half_word()?, fields.half_word()?);
                let (tid, maker) = (fields.half_word()?, fields.half_word()?);
                let thread = ThreadNumbers { pid, tid };
                match kind {
                    kind::FORK => Record::Started { thread, maker: ThreadNumbers { pid: parent, tid: maker } },
                    _ => Record::Ended(thread),
                }
            }
            kind::READ => Record::Used { thread: fields.thread()?, cpu_ns: fields.word()? },
            kind::COMM if misc & COMM_EXEC != 0 => Record::Executed(fields.thread()?),
            kind::COMM => {
                let thread = fields.thread()?;
                let mut name = [0; 16];
                let length = bytes.copy(fields.offset, &mut name).min(trailer.saturating_sub(fields.offset));
                let name = name[..length].split(|&byte| byte == 0).next()?;
                Record::Named { thread, name: name.to_vec() }
            }
            kind::MMAP2 => Record::Mapped(fields.thread()?),
            kind::LOST => {
                fields.word()?;
                Record::Lost { thread: writer, records: fields.word()? }
            }
            kind::LOST_SAMPLES => Record::Lost { thread: writer, records: fields.word()? },
            kind::THROTTLE => Record::Throttled,
            _ => Record::Other,
        };
        Some(record)
    }
}

impl SampleRecord<'_> {
    fn decode(mut fields: Fields<'_>) -> Option<Record<'_>> {
        let thread = fields.thread()?;
        // The time.
        fields.word()?;
        let cpu = fields.half_word()?;
        fields.half_word()?;
        let period_ns = fields.word()?;
        let mut kernel = Vec::new();
        for _ in 0..fields.word()?.min(fields.bytes.len() as u64 / 8) {
            let address = fields.word()?;
            if address < FIRST_MARKER && kernel.len() < MAX_KERNEL_FRAMES {
                kernel.push(address);
            }
        }
        let has_registers = fields.word()? != 0;
        let mut values = [0; arch::SAMPLED_REGISTERS.count_ones() as usize];
        if has_registers {
            for value in &mut values {
                *value = fields.word()?;
            }
        }
        let room = usize::try_from(fields.word()?).ok()?;
        let start = fields.offset;
        let copied = if room > 0 { fields.bytes.word(start.checked_add(room)?)? } else { 0 };
        Some(Record::Sample(SampleRecord {
            thread,
            cpu,
            period_ns,
            kernel,
            registers: has_registers.then(|| ThreadRegisters::of_all(arch::sampled_registers(&values))),
            bytes: fields.bytes,
            stack: (start, usize::try_from(copied).ok()?.min(room)),
        }))
    }
}
