//! The header of a file, and what it says of the recording as a whole: its events, the build ids of
//! files, and the machine.

use std::collections::HashMap;

use super::attribute::EventAttribute;
use super::fields::{ByteFields, ByteOrder, FileWords, until_zero};

/// First bytes of a file, in both byte orders. No other format starts with them.
pub const MAGIC: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];
/// Length of the header of a stream and of a file, bytes.
pub(super) const STREAM_HEADER: usize = 16;
pub(super) const FILE_HEADER: usize = 104;
/// Maximum number of events, and of ids of all of them.
const MAX_EVENTS: usize = 1024;
const MAX_IDS: usize = 1 << 20;
/// Maximum number of build ids.
const MAX_BUILD_IDS: usize = 1 << 16;
/// Length of a build id with its padding in a file, and of one that does not say its length.
const BUILD_ID_FIELD: u64 = 24;
const BUILD_ID_BYTES: usize = 20;
/// The flag of a build id that says its length.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;
/// The kind of an update of an event that has its name.
const UPDATE_NAME: u64 = 2;

/// Numbers of sections with facts.
pub(super) mod feature {
    pub(in super::super) const BUILD_ID: u32 = 2;
    pub(in super::super) const HOSTNAME: u32 = 3;
    pub(in super::super) const OS_RELEASE: u32 = 4;
    pub(in super::super) const ARCH: u32 = 6;
    pub(in super::super) const CMDLINE: u32 = 11;
    pub(in super::super) const EVENT_DESC: u32 = 12;
}

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileSection {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl FileSection {
    pub(super) fn decode(fields: &mut ByteFields<'_>) -> Option<FileSection> {
        Some(FileSection { offset: fields.u64()?, size: fields.u64()? })
    }
}

/// The header of a file that is not a stream.
pub(super) struct FileHeader {
    /// Size of the attributes of an event with the section of its ids, bytes.
    pub(super) attribute_size: u64,
    pub(super) attributes: FileSection,
    pub(super) data: FileSection,
    /// Numbers of the sections with facts. Their table follows the data.
    pub(super) features: Vec<u32>,
}

impl FileHeader {
    /// Decodes the header behind the magic and the size.
    pub(super) fn decode(fields: &mut ByteFields<'_>) -> Option<FileHeader> {
        let attribute_size = fields.u64()?;
        let attributes = FileSection::decode(fields)?;
        let data = FileSection::decode(fields)?;
        FileSection::decode(fields)?;
        let mut features = Vec::new();
        for word in 0..4 {
            let bits = fields.u64()?;
            features.extend((0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| 64 * word + bit));
        }
        Some(FileHeader { attribute_size, attributes, data, features })
    }
}

/// The facts about a recording that are not records of it.
#[derive(Debug)]
pub(super) struct FileFacts {
    pub(super) order: ByteOrder,
    pub(super) attributes: Vec<EventAttribute>,
    /// Paths of files with samples, and their build ids.
    pub(super) build_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) host: String,
    /// The release of the kernel.
    pub(super) release: String,
    /// The machine, such as `x86_64`.
    pub(super) machine: String,
    /// The words of the command line of perf.
    pub(super) command: Vec<String>,
    /// The event of each id. An event has one for each CPU or thread.
    events: HashMap<u64, usize>,
}

fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl FileFacts {
    pub(super) fn new(order: ByteOrder) -> FileFacts {
        FileFacts {
            order,
            attributes: Vec::new(),
            build_ids: Vec::new(),
            host: String::new(),
            release: String::new(),
            machine: String::new(),
            command: Vec::new(),
            events: HashMap::new(),
        }
    }

    /// Adds an event.
    pub(super) fn add_event(&mut self, bytes: &[u8], ids: &[u8]) {
        let Some(attribute) = EventAttribute::decode(bytes, self.order) else { return };
        if self.attributes.len() < MAX_EVENTS {
            self.add_ids(self.attributes.len(), ids);
            self.attributes.push(attribute);
        }
    }

    fn add_ids(&mut self, event: usize, ids: &[u8]) {
        let words = ByteFields::new(ids, self.order).words(ids.len() as u64 / 8);
        for id in words.into_iter().flat_map(FileWords::iter) {
            if self.events.len() < MAX_IDS {
                self.events.insert(id, event);
            }
        }
    }

    /// Adds the event of a record of a stream: its attributes, whose second number is their size,
    /// and its ids.
    pub(super) fn add_event_record(&mut self, body: &[u8]) {
        let mut fields = ByteFields::new(body, self.order);
        let size = fields.u32().and(fields.u32()).unwrap_or(0);
        let Some((attribute, ids)) = body.split_at_checked(size as usize) else { return };
        self.add_event(attribute, ids);
    }

    /// Names an event by one of its ids.
    pub(super) fn update_event(&mut self, body: &[u8]) {
        let mut fields = ByteFields::new(body, self.order);
        let (Some(UPDATE_NAME), Some(id)) = (fields.u64(), fields.u64()) else { return };
        if let Some(attribute) = self.event_of(id).and_then(|event| self.attributes.get_mut(event)) {
            attribute.recorded_name = string(until_zero(fields.rest()));
        }
    }

    /// Adds the build id of a record.
    pub(super) fn add_build_id(&mut self, misc: u16, body: &[u8]) {
        let mut fields = ByteFields::new(body, self.order);
        let Some(id) = fields.u32().and_then(|_| fields.bytes(BUILD_ID_FIELD)) else { return };
        let is_sized = misc & MISC_BUILD_ID_SIZE != 0;
        let length = if is_sized { usize::from(id[BUILD_ID_BYTES]).min(BUILD_ID_BYTES) } else { BUILD_ID_BYTES };
        if self.build_ids.len() < MAX_BUILD_IDS && id.iter().any(|&byte| byte != 0) {
            self.build_ids.push((until_zero(fields.rest()).to_vec(), id[..length].to_vec()));
        }
    }

    /// Returns the event that has an id.
    pub(super) fn event_of(&self, id: u64) -> Option<usize> {
        self.events.get(&id).copied()
    }

    /// Returns the build id of a file, if the recording says it for its path.
    pub(super) fn build_id(&self, path: &[u8]) -> &[u8] {
        self.build_ids.iter().find(|(known, _)| known == path).map_or(&[], |(_, id)| id)
    }

    /// Reads a section with facts. What is malformed or not known here says nothing.
    pub(super) fn add_feature(&mut self, feature: u32, bytes: &[u8]) {
        let mut fields = ByteFields::new(bytes, self.order);
        match feature {
            feature::BUILD_ID => {
                while let (Some(_), Some(misc), Some(size)) = (fields.u32(), fields.u16(), fields.u16()) {
                    let Some(body) = fields.bytes(u64::from(size).saturating_sub(8)) else { break };
                    self.add_build_id(misc, body);
                }
            }
            feature::HOSTNAME => self.host = fields.text().map(string).unwrap_or_default(),
            feature::OS_RELEASE => self.release = fields.text().map(string).unwrap_or_default(),
            feature::ARCH => self.machine = fields.text().map(string).unwrap_or_default(),
            feature::CMDLINE => {
                let count = fields.u32().unwrap_or(0);
                self.command = (0..count).map_while(|_| fields.text().map(string)).collect();
            }
            feature::EVENT_DESC => drop(self.name_events(fields)),
            _ => {}
        }
    }

    /// Names the events, which are in the same order. In a stream, this section has the ids, too.
    fn name_events(&mut self, mut fields: ByteFields<'_>) -> Option<()> {
        let (count, size) = (fields.u32()?, fields.u32()?);
        for index in 0..count as usize {
            fields.bytes(size.into())?;
            let ids = fields.u32()?;
            let name = string(fields.text()?);
            let ids = fields.bytes(u64::from(ids) * 8)?;
            self.attributes.get_mut(index)?.recorded_name = name;
            self.add_ids(index, ids);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_have_a_length_or_twenty_bytes() {
        let mut facts = FileFacts::new(ByteOrder::Little);
        let body = |length: u8| [&[0; 4], &[7; 20][..], &[length, 0, 0, 0], b"/bin/a\0\0"].concat();
        facts.add_build_id(0, &body(16));
        facts.add_build_id(MISC_BUILD_ID_SIZE, &[&body(16)[..28], b"/bin/b\0"].concat());
        facts.add_build_id(0, &[0; 60]);
        facts.add_build_id(0, &[1; 27]);
        assert_eq!(facts.build_ids.len(), 2);
        assert_eq!((facts.build_id(b"/bin/a"), facts.build_id(b"/bin/b")), (&[7; 20][..], &[7; 16][..]));
        assert!(facts.build_id(b"/bin/c").is_empty());
    }
}
