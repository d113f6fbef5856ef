//! The attributes of an event (`struct perf_event_attr`), which say what its samples have.

use super::fields::{ByteFields, ByteOrder};

/// Bits of `sample_type`.
pub(super) mod has {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const BRANCH_STACK: u64 = 1 << 11;
    pub(in super::super) const REGS_USER: u64 = 1 << 12;
    pub(in super::super) const STACK_USER: u64 = 1 << 13;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// The fields at the end of records other than samples, in this order.
const TRAILER: [u64; 6] = [has::TID, has::TIME, has::ID, has::STREAM_ID, has::CPU, has::IDENTIFIER];
/// The fields in front of the time of a sample.
const BEFORE_TIME: u64 = has::IDENTIFIER | has::IP | has::TID;
/// The bit of the flags that says that records other than samples have a trailer.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// The bit of the flags that says that there is a frequency in place of the period.
const FREQUENCY: u64 = 1 << 10;

/// Kinds of events.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HARDWARE_NAMES: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE_NAMES: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// An event, as far as readers of its samples need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventAttribute {
    kind: u32,
    config: u64,
    /// Period of samples that have none, in the unit of the event.
    pub(super) period: u64,
    /// Number of samples in a second, in place of a fixed period.
    pub(super) is_frequency: bool,
    /// The fields of samples: bits of [`has`].
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_type: u64,
    /// The user registers of a sample, by perf's numbers.
    pub(super) user_registers: u64,
    has_trailer: bool,
    /// The name in the file; empty if it has none.
    pub(super) recorded_name: String,
}

impl EventAttribute {
    /// Decodes the attributes without the ids, which follow elsewhere. ByteFields that an old file
    /// lacks are 0.
    pub(super) fn decode(bytes: &[u8], order: ByteOrder) -> Option<EventAttribute> {
        let mut fields = ByteFields::new(bytes, order);
        let kind = fields.u32()?;
        fields.u32()?;
        let (config, period) = (fields.u64()?, fields.u64()?);
        let (sample_type, read_format) = (fields.u64()?, fields.u64()?);
        let flags = fields.bit_fields()?;
        // Wake-up, kind of breakpoint, and two numbers of the configuration.
        fields.bytes(24)?;
        let branch_type = fields.u64().unwrap_or(0);
        let user_registers = fields.u64().unwrap_or(0);
        Some(EventAttribute {
            kind,
            config,
            period,
            is_frequency: flags & FREQUENCY != 0,
            sample_type,
            read_format,
            branch_type,
            user_registers,
            has_trailer: flags & SAMPLE_ID_ALL != 0,
            recorded_name: String::new(),
        })
    }

    /// The name: that of the file, or else that of perf for the numbers.
    pub(super) fn name(&self) -> String {
        if !self.recorded_name.is_empty() {
            return self.recorded_name.clone();
        }
        let names: &[&str] = match self.kind {
            HARDWARE => &HARDWARE_NAMES,
            SOFTWARE => &SOFTWARE_NAMES,
            _ => &[],
        };
        let known = usize::try_from(self.config).ok().and_then(|config| names.get(config));
        known.map_or_else(|| format!("event-{}-{:#x}", self.kind, self.config), |name| (*name).to_owned())
    }

    /// Whether periods of the event are nanoseconds: it is a clock.
    pub(super) fn is_clock(&self) -> bool {
        self.kind == SOFTWARE && self.config < 2
    }

    /// The number of samples that the event has in a time; `None` if that depends on what it counts.
    pub(super) fn samples_in(&self, ns: u64) -> Option<u64> {
        match (self.is_frequency, self.is_clock()) {
            (true, _) => Some((u128::from(ns) * u128::from(self.period) / 1_000_000_000) as u64),
            (false, true) => Some(ns / self.period.max(1)),
            (false, false) => None,
        }
    }

    /// Whether samples have a field.
    pub(super) fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Returns the time of a record, ns; `None` if it has none.
    pub(super) fn time_ns(&self, is_sample: bool, bytes: &[u8], order: ByteOrder) -> Option<u64> {
        let offset = if is_sample { self.count(BEFORE_TIME) * 8 } else { self.trailer_offset(bytes, has::TIME)? };
        self.word_at(bytes, self.has(has::TIME).then_some(offset)?, order)
    }

    /// Returns the id of the event of a record, if it says one.
    pub(super) fn id(&self, is_sample: bool, bytes: &[u8], order: ByteOrder) -> Option<u64> {
        let field = if self.has(has::IDENTIFIER) { has::IDENTIFIER } else { has::ID };
        let offset = match is_sample {
            true if field == has::IDENTIFIER => 0,
            true => self.count(BEFORE_TIME | has::TIME | has::ADDR) * 8,
            false => self.trailer_offset(bytes, field)?,
        };
        self.word_at(bytes, self.has(field).then_some(offset)?, order)
    }

    /// The offset of a field in the trailer of a record.
    fn trailer_offset(&self, bytes: &[u8], field: u64) -> Option<usize> {
        let from = TRAILER.iter().position(|&known| known == field)?;
        let behind = TRAILER[from..].iter().filter(|&&field| self.has(field)).count();
        self.has_trailer.then(|| bytes.len().checked_sub(8 * behind)).flatten()
    }

    fn word_at(&self, bytes: &[u8], offset: usize, order: ByteOrder) -> Option<u64> {
        ByteFields::new(bytes.get(offset..)?, order).u64()
    }

    fn count(&self, fields: u64) -> usize {
        (self.sample_type & fields).count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_a_name_in_the_file_have_perfs() {
        let of = |kind, config| EventAttribute { kind, config, ..EventAttribute::default() };
        assert_eq!(of(HARDWARE, 0).name(), "cycles");
        assert_eq!((of(SOFTWARE, 1).name().as_str(), of(SOFTWARE, 1).is_clock()), ("task-clock", true));
        assert_eq!(of(4, 0x1c2).name(), "event-4-0x1c2");
        assert!(!of(SOFTWARE, 2).is_clock() && !of(HARDWARE, 0).is_clock());
    }

    #[test]
    fn frequencies_and_clocks_have_a_number_of_samples_in_a_time() {
        let of = |kind, is_frequency, period| EventAttribute { kind, is_frequency, period, ..Default::default() };
        assert_eq!(of(HARDWARE, true, 4000).samples_in(10_000_000), Some(40));
        assert_eq!(
            (of(SOFTWARE, false, 250_000).samples_in(1_000_000), of(HARDWARE, false, 9).samples_in(9)),
            (Some(4), None)
        );
        assert_eq!(
            (of(SOFTWARE, false, 0).samples_in(9), of(HARDWARE, true, u64::MAX).samples_in(0)),
            (Some(9), Some(0))
        );
    }

    #[test]
    fn time_and_id_are_found_from_both_ends() {
        let sample_type = has::TID | has::TIME | has::ID | has::CPU;
        let attribute = EventAttribute { sample_type, has_trailer: true, ..EventAttribute::default() };
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (little, record) = (ByteOrder::Little, words(&[9, 9, 1, 2, 3, 4]));
        assert_eq!(attribute.time_ns(true, &words(&[1, 2, 3]), little), Some(2));
        assert_eq!(attribute.id(true, &words(&[1, 2, 3]), little), Some(3));
        assert_eq!(
            (attribute.time_ns(false, &record, little), attribute.id(false, &record, little)),
            (Some(2), Some(3))
        );
        assert_eq!((attribute.time_ns(true, &[0; 8], little), attribute.id(false, &[0; 8], little)), (None, None));
    }
}
