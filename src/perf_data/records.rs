//! The records of a recording, one after another: from a file or a stream, unpacked, and in the
//! order of their times.
//!
//! perf writes the rings of all processors in turns, and a mark after each round. A round has
//! nothing that is older than the newest record of the round before the last. What perf compresses
//! is out of step with the marks: there the records are sorted as far as memory allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::attribute::EventAttribute;
use super::fields::{ByteFields, ByteOrder};
use super::header::{FILE_HEADER, FileFacts, FileHeader, FileSection, MAGIC, STREAM_HEADER};
use super::record::kind;
use super::unpack::Unpacker;

/// Records that perf adds to those of the kernel begin with this kind.
const FIRST_OF_PERF: u32 = 64;
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const HEADER_BUILD_ID: u32 = 67;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const EVENT_UPDATE: u32 = 78;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED_SIZED: u32 = 83;
/// Length of the header of a record: kind, flags and length, bytes.
const RECORD_HEADER: usize = 8;
/// Maximum size of a section with facts, bytes.
const MAX_SECTION: u64 = 64 << 20;
/// Maximum size of a recording in the format of a file that comes through a pipe, bytes.
const MAX_PIPED: u64 = 2 << 30;
/// Maximum number of bytes of records that wait for older ones.
const MAX_WAITING: usize = 128 << 20;

/// A record that is not decoded yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawRecord {
    /// Its time, ns; 0 if it has none.
    pub(super) time_ns: u64,
    /// Its place among all records.
    number: u64,
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// The index of its event; `None` if the recording does not have that event.
    pub(super) event: Option<usize>,
    pub(super) body: Vec<u8>,
}

impl Ord for RawRecord {
    fn cmp(&self, other: &RawRecord) -> std::cmp::Ordering {
        (self.time_ns, self.number).cmp(&(other.time_ns, other.number))
    }
}

impl PartialOrd for RawRecord {
    fn partial_cmp(&self, other: &RawRecord) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A recording that is being read.
pub(super) struct PerfRecordReader<'a> {
    from: Box<dyn Read + 'a>,
    pub(super) facts: FileFacts,
    /// Number of bytes of records that are not read; `None` if they end with the file.
    left: Option<u64>,
    unpacker: Unpacker,
    /// Unpacked bytes, and how many of them are read.
    unpacked: (Vec<u8>, usize),
    is_packed: bool,
    waiting: BinaryHeap<Reverse<RawRecord>>,
    waiting_bytes: usize,
    numbers: u64,
    /// The newest time of all records, and that at the end of the last round.
    newest_ns: u64,
    round_ns: u64,
    /// Records up to this time wait for nothing.
    ready_ns: u64,
    is_at_end: bool,
    /// The defect of the file, as a predicate. The records before it are read.
    pub(super) fault: Option<String>,
}

fn read_up_to(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The parts of a file that are not read in order.
enum Sections {
    File(File),
    Memory(Vec<u8>),
}

impl Sections {
    /// Returns a section, as far as it is in the file.
    fn read(&self, section: FileSection) -> Vec<u8> {
        let size = section.size.min(MAX_SECTION);
        match self {
            Sections::Memory(bytes) => {
                let start = usize::try_from(section.offset).unwrap_or(usize::MAX).min(bytes.len());
                bytes[start..][..(size as usize).min(bytes.len() - start)].to_vec()
            }
            Sections::File(file) => {
                // The size in the file is not trusted.
                let end = file.metadata().map_or(0, |metadata| metadata.len());
                let mut bytes = vec![0; size.min(end.saturating_sub(section.offset)) as usize];
                let is_read = file.read_exact_at(&mut bytes, section.offset).is_ok();
                if is_read { bytes } else { Vec::new() }
            }
        }
    }
}

impl<'a> PerfRecordReader<'a> {
    /// Reads the start of a recording. `file` is the same file, if it is one and not a pipe.
    ///
    /// # Errors
    /// If it is not a recording, or cannot be read: a predicate.
    pub(super) fn open(mut from: Box<dyn Read + 'a>, file: Option<File>) -> Result<PerfRecordReader<'a>, String> {
        let unreadable = |error: io::Error| format!("cannot be read: {error}");
        let cut_off = || "ends in its header: record it again".to_owned();
        let start = read_up_to(&mut from, STREAM_HEADER).map_err(unreadable)?;
        let order = match start.first_chunk() {
            Some(magic) if magic == MAGIC[0] => ByteOrder::Little,
            Some(magic) if magic == MAGIC[1] => ByteOrder::Big,
            _ => return Err("is not a recording of perf".to_owned()),
        };
        let size = ByteFields::new(start.get(8..).unwrap_or_default(), order).u64().ok_or_else(cut_off)?;
        let mut facts = FileFacts::new(order);
        if size == STREAM_HEADER as u64 {
            return Ok(PerfRecordReader::new(from, facts, None));
        }
        let rest = read_up_to(&mut from, FILE_HEADER - STREAM_HEADER).map_err(unreadable)?;
        let header = FileHeader::decode(&mut ByteFields::new(&rest, order)).ok_or_else(cut_off)?;
        let data = header.data;
        if data.offset < FILE_HEADER as u64 {
            return Err("has a malformed header: its data begin before its end".to_owned());
        }
        let (sections, mut from): (Sections, Box<dyn Read + 'a>) = match file {
            Some(file) => {
                io::copy(&mut from.by_ref().take(data.offset - FILE_HEADER as u64), &mut io::sink())
                    .map_err(unreadable)?;
                (Sections::File(file), from)
            }
            None => {
                let mut all = [start, rest].concat();
                from.take(MAX_PIPED).read_to_end(&mut all).map_err(unreadable)?;
                if all.len() as u64 >= MAX_PIPED {
                    return Err("is too large for a pipe: name the file".to_owned());
                }
                let end = data.offset.saturating_add(if data.size > 0 { data.size } else { u64::MAX });
                let records = all.get(data.offset as usize..(end as usize).min(all.len())).unwrap_or_default().to_vec();
                (Sections::Memory(all), Box::new(io::Cursor::new(records)))
            }
        };
        read_events(&mut facts, &header, &sections);
        let table_at = data.offset.saturating_add(data.size);
        let table = sections.read(FileSection { offset: table_at, size: 16 * header.features.len() as u64 });
        let mut table = ByteFields::new(&table, order);
        for &feature in header.features.iter().filter(|_| data.size > 0) {
            let Some(section) = FileSection::decode(&mut table) else { break };
            facts.add_feature(feature, &sections.read(section));
        }
        if facts.attributes.is_empty() {
            return Err("has no events: its header is malformed".to_owned());
        }
        if data.size > 0 {
            from = Box::new(from.take(data.size));
        }
        let mut reader = PerfRecordReader::new(from, facts, (data.size > 0).then_some(data.size));
        if data.size == 0 {
            reader.fault =
                Some("was not completed: perf was killed, and file names of build ids are missing".to_owned());
        }
        Ok(reader)
    }

    fn new(from: Box<dyn Read + 'a>, facts: FileFacts, left: Option<u64>) -> PerfRecordReader<'a> {
        PerfRecordReader {
            from: Box::new(io::BufReader::with_capacity(256 << 10, from)),
            facts,
            left,
            unpacker: Unpacker::default(),
            unpacked: (Vec::new(), 0),
            is_packed: false,
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            numbers: 0,
            newest_ns: 0,
            round_ns: 0,
            ready_ns: 0,
            is_at_end: false,
            fault: None,
        }
    }

    /// Returns the next record of the kernel; `None` after the last.
    pub(super) fn next(&mut self) -> Option<RawRecord> {
        loop {
            let is_ready = |first: &Reverse<RawRecord>| first.0.time_ns <= self.ready_ns;
            if self.is_at_end || self.waiting_bytes > MAX_WAITING || self.waiting.peek().is_some_and(is_ready) {
                let Reverse(record) = self.waiting.pop()?;
                self.waiting_bytes -= record.body.len();
                return Some(record);
            }
            match self.read_record() {
                Ok(Some((kind, misc, body))) => {
                    if let Some(record) = self.place(kind, misc, body) {
                        return Some(record);
                    }
                }
                Ok(None) => self.is_at_end = true,
                Err(fault) => (self.is_at_end, self.fault) = (true, Some(fault)),
            }
        }
    }

    /// Reads a record of the file, or an unpacked one. `None` at the end.
    fn read_record(&mut self) -> Result<Option<(u32, u16, Vec<u8>)>, String> {
        loop {
            if let Some(record) = self.unpacked_record()? {
                return Ok(Some(record));
            }
            if self.unpacker.unpack_block(&mut self.unpacked.0)? {
                continue;
            }
            match self.file_record()? {
                Some((COMPRESSED, _, body)) => self.push_packed(&body),
                Some((COMPRESSED_SIZED, _, body)) => {
                    let mut fields = ByteFields::new(&body, self.facts.order);
                    let packed = fields.u64().and_then(|size| fields.bytes(size));
                    self.push_packed(packed.ok_or("has a malformed compressed record")?);
                }
                Some(record) => return Ok(Some(record)),
                None => {
                    self.unpacker.end(&mut self.unpacked.0)?;
                    return self.unpacked_record();
                }
            }
        }
    }

    fn push_packed(&mut self, packed: &[u8]) {
        self.is_packed = true;
        self.unpacker.push(packed);
    }

    fn unpacked_record(&mut self) -> Result<Option<(u32, u16, Vec<u8>)>, String> {
        let (bytes, start) = &mut self.unpacked;
        let rest = &bytes[*start..];
        let header = rest.first_chunk().map(|header| self.facts.decode_record_header(header)).transpose()?;
        match header.and_then(|(kind, misc, length)| Some((kind, misc, rest.get(RECORD_HEADER..length)?.to_vec()))) {
            Some(record) => {
                *start += RECORD_HEADER + record.2.len();
                Ok(Some(record))
            }
            None => {
                bytes.drain(..*start);
                *start = 0;
                Ok(None)
            }
        }
    }

    fn file_record(&mut self) -> Result<Option<(u32, u16, Vec<u8>)>, String> {
        let unreadable = |error: io::Error| format!("cannot be read to its end: {error}");
        let cut_off = || "ends in the middle of a record: what is before it is shown".to_owned();
        if self.left == Some(0) {
            return Ok(None);
        }
        let header = read_up_to(&mut self.from, RECORD_HEADER).map_err(unreadable)?;
        if header.is_empty() && self.left.is_none() {
            return Ok(None);
        }
        let header = header.first_chunk().ok_or_else(cut_off)?;
        let (kind, misc, length) = self.facts.decode_record_header(header)?;
        let body = read_up_to(&mut self.from, length - RECORD_HEADER).map_err(unreadable)?;
        if body.len() < length - RECORD_HEADER {
            return Err(cut_off());
        }
        let mut all = length as u64;
        let mut fields = ByteFields::new(&body, self.facts.order);
        // Data of these records follow them and are not in their lengths.
        let behind = match kind {
            AUXTRACE => fields.u64().unwrap_or(0),
            HEADER_TRACING_DATA => fields.u32().map_or(0, |size| u64::from(size).next_multiple_of(8)),
            _ => 0,
        };
        if behind > 0 {
            all = all.saturating_add(behind);
            io::copy(&mut self.from.by_ref().take(behind), &mut io::sink()).map_err(unreadable)?;
        }
        self.left = self.left.map(|left| left.saturating_sub(all));
        Ok(Some((kind, misc, body)))
    }

    /// Puts a record of the kernel in its place. Returns it if it waits for nothing. Records of
    /// perf are followed here.
    fn place(&mut self, kind: u32, misc: u16, body: Vec<u8>) -> Option<RawRecord> {
        match kind {
            FINISHED_ROUND if !self.is_packed => {
                self.ready_ns = self.ready_ns.max(self.round_ns);
                self.round_ns = self.newest_ns;
            }
            HEADER_ATTR => self.facts.add_event_record(&body),
            HEADER_BUILD_ID => self.facts.add_build_id(misc, &body),
            EVENT_UPDATE => self.facts.update_event(&body),
            HEADER_FEATURE => {
                let mut fields = ByteFields::new(&body, self.facts.order);
                let feature = fields.u64().and_then(|feature| u32::try_from(feature).ok());
                feature.into_iter().for_each(|feature| self.facts.add_feature(feature, fields.rest()));
            }
            _ => {}
        }
        if kind >= FIRST_OF_PERF {
            return None;
        }
        let is_sample = kind == kind::SAMPLE;
        let order = self.facts.order;
        let event = self.event(is_sample, &body);
        // Records that perf made itself have the id 0.
        let layout = self.facts.attributes.get(event.unwrap_or(0));
        let time_ns = layout.and_then(|layout| layout.time_ns(is_sample, &body, order)).unwrap_or(0);
        self.numbers += 1;
        let record = RawRecord { time_ns, number: self.numbers, kind, misc, event, body };
        if time_ns == 0 || time_ns == u64::MAX {
            return Some(RawRecord { time_ns: 0, ..record });
        }
        self.newest_ns = self.newest_ns.max(time_ns);
        self.waiting_bytes += record.body.len();
        self.waiting.push(Reverse(record));
        None
    }

    /// Returns the event of a record. All events have the id at one place, or there is one event.
    fn event(&self, is_sample: bool, body: &[u8]) -> Option<usize> {
        let first: &EventAttribute = self.facts.attributes.first()?;
        if self.facts.attributes.len() == 1 {
            return Some(0);
        }
        first.id(is_sample, body, self.facts.order).map_or(Some(0), |id| self.facts.event_of(id))
    }
}

/// Reads the events of a file, with their ids.
fn read_events(facts: &mut FileFacts, header: &FileHeader, sections: &Sections) {
    let bytes = sections.read(header.attributes);
    let size = usize::try_from(header.attribute_size).unwrap_or(0);
    if size <= 16 {
        return;
    }
    for event in bytes.chunks_exact(size) {
        let (attribute, ids) = event.split_at(size - 16);
        let ids = FileSection::decode(&mut ByteFields::new(ids, facts.order)).unwrap_or_default();
        facts.add_event(attribute, &sections.read(ids));
    }
}

impl FileFacts {
    fn decode_record_header(&self, header: &[u8; RECORD_HEADER]) -> Result<(u32, u16, usize), String> {
        let mut fields = ByteFields::new(header, self.order);
        match (fields.u32(), fields.u16(), fields.u16().map(usize::from)) {
            (Some(kind), Some(misc), Some(length)) if length >= RECORD_HEADER => Ok((kind, misc, length)),
            _ => Err("has a malformed record: what is before it is shown".to_owned()),
        }
    }
}
