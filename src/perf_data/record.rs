//! The records of the kernel and those that perf adds, each with the attributes of its event.
//! Everything that a file says is hostile: a record that is cut short or contradicts itself is
//! [`Record::Malformed`], and its reader counts it.

use super::attribute::{EventAttribute, has};
use super::fields::{ByteFields, ByteOrder, FileWords, until_zero};

/// Kinds of records.
pub(super) mod kind {
    pub(in super::super) const MMAP: u32 = 1;
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const EXIT: u32 = 4;
    pub(in super::super) const THROTTLE: u32 = 5;
    pub(in super::super) const UNTHROTTLE: u32 = 6;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const MMAP2: u32 = 10;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
}

/// Bits of the flags of a record.
const MISC_CPU_MODE: u16 = 7;
const MISC_KERNEL: u16 = 1;
const MISC_USER: u16 = 2;
const MISC_MMAP_DATA: u16 = 1 << 13;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;
/// Bits of `read_format`.
const READ_TIMES: u64 = 1 | 2;
const READ_ID: u64 = 4;
const READ_GROUP: u64 = 8;
const READ_LOST: u64 = 16;
/// Bits of `branch_sample_type`.
const BRANCH_CALL_STACK: u64 = 1 << 11;
const BRANCH_HW_INDEX: u64 = 1 << 17;
/// Size of a branch, bytes: its source, its target and its flags.
const BRANCH_BYTES: u64 = 24;
/// Longest build id in a record, bytes.
const BUILD_ID_BYTES: usize = 20;

/// The mode of the processor at a sample or of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuMode {
    Kernel,
    User,
    /// A hypervisor or a guest.
    Other,
}

impl CpuMode {
    fn of(misc: u16) -> CpuMode {
        match misc & MISC_CPU_MODE {
            MISC_KERNEL => CpuMode::Kernel,
            MISC_USER => CpuMode::User,
            _ => CpuMode::Other,
        }
    }
}

/// A process and a thread of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadNumbers {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// A record.
#[derive(Debug)]
pub(super) enum Record<'a> {
    Sample(SampleRecord<'a>),
    Named {
        thread: ThreadNumbers,
        name: &'a [u8],
        is_exec: bool,
    },
    Started {
        thread: ThreadNumbers,
        maker: ThreadNumbers,
    },
    Ended(ThreadNumbers),
    Mapped(MappingRecord<'a>),
    /// The kernel had no room for this number of records.
    Lost(u64),
    /// The kernel did not write this number of samples of one event.
    LostSamples(u64),
    /// The kernel takes no samples of a counter for a while, because they cost too much.
    Throttled(ThrottleRecord),
    /// The kernel takes samples of a counter again.
    Unthrottled(ThrottleRecord),
    Malformed,
    Other,
}

/// The begin or the end of a time without samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThrottleRecord {
    pub(super) at_ns: u64,
    /// The id of the event.
    pub(super) id: u64,
    /// The id of its counter for one CPU or thread.
    pub(super) counter: u64,
}

impl ThrottleRecord {
    fn decode(mut fields: ByteFields<'_>) -> Option<ThrottleRecord> {
        Some(ThrottleRecord { at_ns: fields.u64()?, id: fields.u64()?, counter: fields.u64()? })
    }
}

/// A mapping of a file.
#[derive(Debug)]
pub(super) struct MappingRecord<'a> {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    /// Offset in the file; of the kernel, the address of a symbol in it.
    pub(super) offset: u64,
    pub(super) path: &'a [u8],
    pub(super) mode: CpuMode,
    pub(super) is_executable: bool,
    /// Device, as `major << 32 | minor`, and inode of the file; 0 if they are not known.
    pub(super) device: u64,
    pub(super) inode: u64,
    /// The build id of the file; empty if it is not known.
    pub(super) build_id: &'a [u8],
}

/// A sample.
#[derive(Debug)]
pub(super) struct SampleRecord<'a> {
    pub(super) thread: ThreadNumbers,
    pub(super) ip: Option<u64>,
    pub(super) mode: CpuMode,
    /// The weight, in the unit of the event.
    pub(super) period: u64,
    /// The counters of a group, which the sample has read, if their events are known.
    pub(super) counters: Option<CounterValues<'a>>,
    /// The call chain, leaf first, with the kernel's markers between its parts.
    pub(super) chain: Option<FileWords<'a>>,
    /// Sources and targets of the last calls that have not returned, if the processor records them.
    pub(super) calls: Option<FileWords<'a>>,
    /// The user registers by perf's numbers, and which of them there are.
    pub(super) registers: Option<(u64, FileWords<'a>)>,
    /// The copied stack.
    pub(super) stack: &'a [u8],
}

impl<'a> Record<'a> {
    /// Decodes the body of a record.
    pub(super) fn decode(
        (kind, misc): (u32, u16),
        body: &'a [u8],
        attribute: &EventAttribute,
        order: ByteOrder,
    ) -> Record<'a> {
        Record::try_decode((kind, misc), ByteFields::new(body, order), attribute).unwrap_or(Record::Malformed)
    }

    fn try_decode(
        (kind, misc): (u32, u16),
        mut fields: ByteFields<'a>,
        attribute: &EventAttribute,
    ) -> Option<Record<'a>> {
        Some(match kind {
            kind::SAMPLE => Record::Sample(SampleRecord::decode(misc, fields, attribute)?),
            kind::COMM => {
                let thread = thread(&mut fields)?;
                Record::Named { thread, name: until_zero(fields.rest()), is_exec: misc & MISC_COMM_EXEC != 0 }
            }
            kind::FORK | kind::EXIT => {
                let (pid, maker_pid) = (fields.u32()?, fields.u32()?);
                let (tid, maker_tid) = (fields.u32()?, fields.u32()?);
                let thread = ThreadNumbers { pid, tid };
                match kind {
                    kind::FORK => Record::Started { thread, maker: ThreadNumbers { pid: maker_pid, tid: maker_tid } },
                    _ => Record::Ended(thread),
                }
            }
            kind::MMAP | kind::MMAP2 => Record::Mapped(MappingRecord::decode((kind, misc), fields)?),
            kind::LOST => {
                fields.u64()?;
                Record::Lost(fields.u64()?)
            }
            kind::LOST_SAMPLES => Record::LostSamples(fields.u64()?),
            kind::THROTTLE => Record::Throttled(ThrottleRecord::decode(fields)?),
            kind::UNTHROTTLE => Record::Unthrottled(ThrottleRecord::decode(fields)?),
            _ => Record::Other,
        })
    }
}

fn thread(fields: &mut ByteFields<'_>) -> Option<ThreadNumbers> {
    Some(ThreadNumbers { pid: fields.u32()?, tid: fields.u32()? })
}

impl<'a> MappingRecord<'a> {
    fn decode((kind, misc): (u32, u16), mut fields: ByteFields<'a>) -> Option<MappingRecord<'a>> {
        let ThreadNumbers { pid, .. } = thread(&mut fields)?;
        let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (mut device, mut inode, mut build_id) = (0, 0, &[][..]);
        let mut is_executable = misc & MISC_MMAP_DATA == 0;
        if kind == kind::MMAP2 {
            let mut identity = ByteFields::new(fields.bytes(24)?, ByteOrder::Little);
            if misc & MISC_MMAP_BUILD_ID != 0 {
                let length = usize::from(*identity.rest().first()?).min(BUILD_ID_BYTES);
                build_id = &identity.rest()[4..][..length];
            } else {
                // In another byte order they are of another machine, and say nothing here.
                let (major, minor) = (identity.u32()?, identity.u32()?);
                (device, inode) = (u64::from(major) << 32 | u64::from(minor), identity.u64()?);
            }
            let protection = fields.u32()?;
            fields.u32()?;
            // Mappings that perf found when it began may have no rights in the record.
            is_executable &= protection == 0 || protection & PROT_EXEC != 0;
        }
        let (path, mode) = (until_zero(fields.rest()), CpuMode::of(misc));
        Some(MappingRecord { pid, start, length, offset, path, mode, is_executable, device, inode, build_id })
    }
}

impl<'a> SampleRecord<'a> {
    fn decode(misc: u16, mut fields: ByteFields<'a>, attribute: &EventAttribute) -> Option<SampleRecord<'a>> {
        let has = |field| attribute.has(field);
        let word_if = |fields: &mut ByteFields<'a>, field| match has(field) {
            true => fields.u64().map(Some),
            false => Some(None),
        };
        word_if(&mut fields, has::IDENTIFIER)?;
        let ip = word_if(&mut fields, has::IP)?;
        let thread = if has(has::TID) { thread(&mut fields)? } else { ThreadNumbers::default() };
        for field in [has::TIME, has::ADDR, has::ID, has::STREAM_ID, has::CPU] {
            word_if(&mut fields, field)?;
        }
        let period = word_if(&mut fields, has::PERIOD)?.unwrap_or(attribute.period);
        let mut counters = None;
        if has(has::READ) {
            counters = Some(CounterValues::decode(&mut fields, attribute.read_format)?);
        }
        let counters = counters.filter(|_| attribute.read_format & READ_ID != 0);
        let mut chain = None;
        if has(has::CALLCHAIN) {
            let count = fields.u64()?;
            chain = Some(fields.words(count)?);
        }
        if has(has::RAW) {
            let length = fields.u32()?;
            fields.bytes(length.into())?;
        }
        let mut calls = None;
        if has(has::BRANCH_STACK) {
            let count = fields.u64()?;
            if attribute.branch_type & BRANCH_HW_INDEX != 0 {
                fields.u64()?;
            }
            let branches = fields.words(count.checked_mul(BRANCH_BYTES / 8)?)?;
            calls = (attribute.branch_type & BRANCH_CALL_STACK != 0).then_some(branches);
        }
        let mut registers = None;
        if has(has::REGS_USER) && fields.u64()? != 0 {
            let mask = attribute.user_registers;
            registers = Some((mask, fields.words(mask.count_ones().into())?));
        }
        let mut stack = &[][..];
        if has(has::STACK_USER) {
            let room = fields.u64()?;
            if room > 0 {
                stack = fields.bytes(room)?;
                let copied = usize::try_from(fields.u64()?).ok()?;
                stack = &stack[..copied.min(stack.len())];
            }
        }
        Some(SampleRecord { thread, ip, mode: CpuMode::of(misc), period, counters, chain, calls, registers, stack })
    }
}

/// The values of counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterValues<'a> {
    words: FileWords<'a>,
    /// Number of words before the first value and of each value, and the place of the id in it.
    layout: (usize, usize, usize),
}

impl<'a> CounterValues<'a> {
    fn decode(fields: &mut ByteFields<'a>, format: u64) -> Option<CounterValues<'a>> {
        let times = (format & READ_TIMES).count_ones() as usize;
        let each = 1 + (format & (READ_ID | READ_LOST)).count_ones() as usize;
        let is_group = format & READ_GROUP != 0;
        let count = if is_group { fields.u64()? } else { 1 };
        let words = fields.words(count.checked_mul(each as u64)?.checked_add(times as u64)?)?;
        // A counter alone has its times behind its value.
        let layout = if is_group { (times, each, 1) } else { (0, each + times, 1 + times) };
        Some(CounterValues { words, layout })
    }

    /// Returns the id of each counter, and its value.
    pub(super) fn values(self) -> Vec<(u64, u64)> {
        let (before, each, id_at) = self.layout;
        let words: Vec<u64> = self.words.iter().skip(before).collect();
        words.chunks_exact(each).filter_map(|value| Some((*value.get(id_at)?, value[0]))).collect()
    }
}
