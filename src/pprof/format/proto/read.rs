//! Reads `profile.proto`. Each message is decoded as soon as it has arrived. References by id and
//! by string index are resolved at the end, because the string table may come last.

use std::collections::HashMap;
use std::io::Read;

use super::wire::{FieldValue, read_field, read_number, read_numbers};
use crate::pprof::error::ReadError;
use crate::pprof::format::input::ProfileInput;
use crate::pprof::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::tally::text::Text;
use crate::wire::varint;

/// Maximum length of a message, in bytes. A sample has some hundred.
const MAX_MESSAGE: usize = 64 << 20;

/// Reads a profile, gzipped or not.
///
/// # Errors
/// If the profile is malformed.
pub fn read(from: impl Read) -> Result<SavedProfile, ReadError> {
    read_input(&mut ProfileInput::open(from)?)
}

/// Reads a profile from input whose start may be buffered already.
pub(in crate::pprof) fn read_input(input: &mut ProfileInput) -> Result<SavedProfile, ReadError> {
    let mut reader = ProtoReader::default();
    while read_top_level_field(input, &mut reader)? {}
    reader.finish()
}

/// Reads a field of the `Profile` message; false at the end of the input.
fn read_top_level_field(input: &mut ProfileInput, reader: &mut ProtoReader) -> Result<bool, ReadError> {
    // Two varints of maximum length: a tag, and a number or length.
    let mut head = input.fill_to(20)?;
    if head.is_empty() {
        return Ok(false);
    }
    let before = head.len();
    let tag = read_number(&mut head)?;
    if tag & 7 != 2 {
        let mut rest = input.buffered();
        let before = rest.len();
        if let Some((field, value)) = read_field(&mut rest)? {
            let length = before - rest.len();
            reader.read_field(field, value)?;
            input.consume(length);
        }
        return Ok(true);
    }
    let length = usize::try_from(read_number(&mut head)?).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        return Err(ReadError::malformed(format!("a message of {length} bytes")));
    }
    let start = before - head.len();
    let bytes = input.fill_to(start + length)?.get(start..start + length);
    let bytes = bytes.ok_or_else(|| ReadError::malformed("unexpected end of file; is the copy complete?"))?;
    reader.read_field(tag >> 3, FieldValue::Bytes(bytes))?;
    input.consume(start + length);
    Ok(true)
}

/// An index into the string table.
type StringIndex = i64;

struct RawMapping {
    mapping: Mapping,
    file: StringIndex,
    build_id: StringIndex,
}

struct RawFunction {
    id: u64,
    name: StringIndex,
    system_name: StringIndex,
    file: StringIndex,
    start_line: i64,
}

struct RawLocation {
    id: u64,
    mapping: u64,
    address: u64,
    /// The end of its lines in [`ProtoReader::lines`]. They start where those of the location
    /// before it end.
    lines_end: usize,
    folded: bool,
}

/// Key, text, number and unit of a label, as in the schema.
type RawLabel = [i64; 4];

#[derive(Default)]
struct ProtoReader {
    types: Vec<(StringIndex, StringIndex)>,
    period_type: (StringIndex, StringIndex),
    strings: Vec<Text>,
    mappings: Vec<RawMapping>,
    functions: Vec<RawFunction>,
    locations: Vec<RawLocation>,
    /// Function id, line and column.
    lines: Vec<(u64, i64, i64)>,
    samples: Samples,
    /// The number of values of the first sample.
    width: Option<usize>,
    /// The largest location id in a stack.
    max_location_id: u64,
    /// Whether a stack has the invalid location id 0.
    has_zero_id: bool,
    label_sets: Vec<Box<[RawLabel]>>,
    label_ids: HashMap<Box<[RawLabel]>, u32>,
    comments: Vec<StringIndex>,
    drop_frames: StringIndex,
    keep_frames: StringIndex,
    default_sample_type: StringIndex,
    doc_url: StringIndex,
    profile: SavedProfile,
    stack: Vec<u8>,
    values: Vec<i64>,
    labels: Vec<RawLabel>,
}

impl ProtoReader {
    fn read_field(&mut self, field: u64, value: FieldValue) -> Result<(), ReadError> {
        match field {
            1 => self.types.push(read_value_type(value.bytes()?)?),
            2 => self.read_sample(value.bytes()?)?,
            3 => self.read_mapping(value.bytes()?)?,
            4 => self.read_location(value.bytes()?)?,
            5 => self.read_function(value.bytes()?)?,
            6 => {
                let text = String::from_utf8_lossy(value.bytes()?);
                if self.strings.is_empty() && !text.is_empty() {
                    return Err(ReadError::malformed("string_table[0] must be ''"));
                }
                self.strings.push(Text::from(&*text));
            }
            7 => self.drop_frames = value.signed()?,
            8 => self.keep_frames = value.signed()?,
            9 if self.profile.time_ns != 0 => {
                return Err(ReadError::malformed("concatenated profiles detected; store each in its own file"));
            }
            9 => self.profile.time_ns = value.signed()?,
            10 => self.profile.duration_ns = value.signed()?,
            11 => self.period_type = read_value_type(value.bytes()?)?,
            12 => self.profile.period = value.signed()?,
            13 => read_numbers(value, |index| self.comments.push(index as i64))?,
            14 => self.default_sample_type = value.signed()?,
            15 => self.doc_url = value.signed()?,
            _ => {}
        }
        Ok(())
    }

    fn read_sample(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        self.stack.clear();
        self.values.clear();
        self.labels.clear();
        while let Some((number, value)) = read_field(&mut bytes)? {
            match number {
                1 => {
                    let (max_id, has_zero) = (&mut self.max_location_id, &mut self.has_zero_id);
                    let mut note = |id: u64| {
                        *max_id = (*max_id).max(id);
                        *has_zero |= id == 0;
                    };
                    if let FieldValue::Bytes(packed) = value {
                        // The bytes are kept as they are: most files number their locations from 1.
                        read_numbers(value, note)?;
                        self.stack.extend_from_slice(packed);
                    } else {
                        let id = value.number()?;
                        note(id);
                        varint::push(&mut self.stack, id);
                    }
                }
                2 => read_numbers(value, |value| self.values.push(value as i64))?,
                3 => self.labels.push(read_label(value.bytes()?)?),
                _ => {}
            }
        }
        let width = *self.width.get_or_insert_with(|| {
            self.samples = Samples::with_width(self.values.len());
            self.values.len()
        });
        if self.values.len() != width {
            let count = self.values.len();
            return Err(ReadError::malformed(format!("mismatch: sample has {count} values vs. {width} types")));
        }
        let labels = self.intern_label_set();
        self.samples.push_packed(&self.stack, &self.values, labels);
        Ok(())
    }

    fn intern_label_set(&mut self) -> u32 {
        if self.label_sets.is_empty() {
            self.label_sets.push([].into());
        }
        if self.labels.is_empty() {
            return 0;
        }
        if let Some(&known) = self.label_ids.get(self.labels.as_slice()) {
            return known;
        }
        let id = self.label_sets.len() as u32;
        self.label_sets.push(self.labels.as_slice().into());
        self.label_ids.insert(self.labels.as_slice().into(), id);
        id
    }

    fn read_mapping(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        let mut raw = RawMapping { mapping: Mapping::default(), file: 0, build_id: 0 };
        while let Some((number, value)) = read_field(&mut bytes)? {
            let of = &mut raw.mapping;
            match number {
                1 => of.id = value.number()?,
                2 => of.start = value.number()?,
                3 => of.limit = value.number()?,
                4 => of.offset = value.number()?,
                5 => raw.file = value.signed()?,
                6 => raw.build_id = value.signed()?,
                7 => of.has_functions = value.number()? != 0,
                8 => of.has_filenames = value.number()? != 0,
                9 => of.has_line_numbers = value.number()? != 0,
                10 => of.has_inline_frames = value.number()? != 0,
                _ => {}
            }
        }
        if raw.mapping.id == 0 {
            return Err(ReadError::malformed("found mapping with reserved ID=0"));
        }
        self.mappings.push(raw);
        Ok(())
    }

    fn read_location(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        let mut raw = RawLocation { id: 0, mapping: 0, address: 0, lines_end: 0, folded: false };
        while let Some((number, value)) = read_field(&mut bytes)? {
            match number {
                1 => raw.id = value.number()?,
                2 => raw.mapping = value.number()?,
                3 => raw.address = value.number()?,
                4 => {
                    let mut line = (0, 0, 0);
                    let mut bytes = value.bytes()?;
                    while let Some((number, value)) = read_field(&mut bytes)? {
                        match number {
                            1 => line.0 = value.number()?,
                            2 => line.1 = value.signed()?,
                            3 => line.2 = value.signed()?,
                            _ => {}
                        }
                    }
                    self.lines.push(line);
                }
                5 => raw.folded = value.number()? != 0,
                _ => {}
            }
        }
        if raw.id == 0 {
            return Err(ReadError::malformed("found location with reserved id=0"));
        }
        raw.lines_end = self.lines.len();
        self.locations.push(raw);
        Ok(())
    }

    fn read_function(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        let mut raw = RawFunction { id: 0, name: 0, system_name: 0, file: 0, start_line: 0 };
        while let Some((number, value)) = read_field(&mut bytes)? {
            match number {
                1 => raw.id = value.number()?,
                2 => raw.name = value.signed()?,
                3 => raw.system_name = value.signed()?,
                4 => raw.file = value.signed()?,
                5 => raw.start_line = value.signed()?,
                _ => {}
            }
        }
        if raw.id == 0 {
            return Err(ReadError::malformed("found function with reserved ID=0"));
        }
        self.functions.push(raw);
        Ok(())
    }

    fn string(&self, index: StringIndex) -> Result<Text, ReadError> {
        match usize::try_from(index).ok().and_then(|index| self.strings.get(index)) {
            Some(text) => Ok(text.clone()),
            None if index == 0 => Ok(Text::default()),
            None => Err(ReadError::malformed(format!("string index {index} is out of range"))),
        }
    }

    fn value_type(&self, (kind, unit): (StringIndex, StringIndex)) -> Result<ValueType, ReadError> {
        Ok(ValueType { kind: self.string(kind)?, unit: self.string(unit)? })
    }

    fn finish(mut self) -> Result<SavedProfile, ReadError> {
        if self.strings.is_empty() {
            return Err(ReadError::malformed("it has no string table"));
        }
        let mut profile = std::mem::take(&mut self.profile);
        let types: Result<_, ReadError> = self.types.iter().map(|&of| self.value_type(of)).collect();
        profile.sample_types = types?;
        profile.period_type = self.value_type(self.period_type)?;
        profile.drop_frames = self.string(self.drop_frames)?;
        profile.keep_frames = self.string(self.keep_frames)?;
        profile.default_sample_type = self.string(self.default_sample_type)?;
        profile.doc_url = self.string(self.doc_url)?;
        let comments: Result<_, ReadError> = self.comments.iter().map(|&index| self.string(index)).collect();
        profile.comments = comments?;
        let width = profile.sample_types.len();
        profile.samples = std::mem::take(&mut self.samples);
        match self.width {
            None => profile.samples = Samples::with_width(width),
            Some(_) if width == 0 => return Err(ReadError::malformed("missing sample type information")),
            Some(own) if own != width => {
                return Err(ReadError::malformed(format!("mismatch: sample has {own} values vs. {width} types")));
            }
            Some(_) => {}
        }
        self.resolve_locations(&mut profile)?;
        self.resolve_stacks(&mut profile)?;
        profile.labels = self.resolve_labels()?;
        Ok(profile)
    }

    fn resolve_locations(&mut self, profile: &mut SavedProfile) -> Result<(), ReadError> {
        for raw in &self.mappings {
            let (file, build_id) = (self.string(raw.file)?, self.string(raw.build_id)?);
            profile.mappings.push(Mapping { file, build_id, ..raw.mapping.clone() });
        }
        for raw in &self.functions {
            let [name, system_name, file] = [raw.name, raw.system_name, raw.file].map(|index| self.string(index));
            let (name, system_name, file) = (name?, system_name?, file?);
            profile.functions.push(Function { name, system_name, file, start_line: raw.start_line });
        }
        let mappings = IdIndex::build("mapping", profile.mappings.iter().map(|of| of.id))?;
        let functions = IdIndex::build("function", self.functions.iter().map(|of| of.id))?;
        let mut start = 0;
        for raw in &self.locations {
            let mut lines = Vec::with_capacity(raw.lines_end - start);
            for &(function, line, column) in &self.lines[start..raw.lines_end] {
                let function = functions.index(function).ok_or_else(|| {
                    ReadError::malformed(format!("location id: {} has a line with nil function", raw.id))
                })?;
                lines.push(Line { function, line, column });
            }
            start = raw.lines_end;
            let RawLocation { id, address, folded, .. } = *raw;
            profile.locations.push(Location { id, mapping: mappings.index(raw.mapping), address, lines, folded });
        }
        Ok(())
    }

    fn resolve_stacks(&mut self, profile: &mut SavedProfile) -> Result<(), ReadError> {
        let ids = IdIndex::build("location", self.locations.iter().map(|of| of.id))?;
        let missing = || ReadError::malformed("sample has nil location");
        if self.has_zero_id {
            return Err(missing());
        }
        // Dense ids are index + 1, which is how samples are kept.
        if matches!(ids, IdIndex::Dense(_)) && self.max_location_id <= profile.locations.len() as u64 {
            return Ok(());
        }
        profile.samples.remap_locations(|id| ids.index(id)).map_err(|_| missing())
    }

    fn resolve_labels(&mut self) -> Result<Vec<Box<[Label]>>, ReadError> {
        let mut sets = Vec::with_capacity(self.label_sets.len().max(1));
        for raw in &self.label_sets {
            let mut set = Vec::with_capacity(raw.len());
            for &[key, text, number, unit] in raw {
                let key = self.string(key)?;
                let value = match (text, number, unit) {
                    (0, 0, 0) => continue,
                    (0, number, unit) => LabelValue::Number(number, self.string(unit)?),
                    (text, ..) => LabelValue::Text(self.string(text)?),
                };
                set.push(Label { key, value });
            }
            sets.push(set.into());
        }
        if sets.is_empty() {
            sets.push([].into());
        }
        Ok(sets)
    }
}

fn read_value_type(mut bytes: &[u8]) -> Result<(StringIndex, StringIndex), ReadError> {
    let mut raw = (0, 0);
    while let Some((number, value)) = read_field(&mut bytes)? {
        match number {
            1 => raw.0 = value.signed()?,
            2 => raw.1 = value.signed()?,
            _ => {}
        }
    }
    Ok(raw)
}

fn read_label(mut bytes: &[u8]) -> Result<RawLabel, ReadError> {
    let mut raw = [0; 4];
    while let Some((number, value)) = read_field(&mut bytes)? {
        if let Some(field) = usize::try_from(number).ok().and_then(|number| raw.get_mut(number.wrapping_sub(1))) {
            *field = value.signed()?;
        }
    }
    Ok(raw)
}

/// Maps ids to indices.
enum IdIndex {
    /// The ids are 1 to this number, in order.
    Dense(u64),
    Sparse(HashMap<u64, u32>),
}

impl IdIndex {
    fn build(what: &str, ids: impl ExactSizeIterator<Item = u64> + Clone) -> Result<IdIndex, ReadError> {
        let count = ids.len() as u64;
        if ids.clone().enumerate().all(|(index, id)| id == index as u64 + 1) {
            return Ok(IdIndex::Dense(count));
        }
        let mut indices = HashMap::new();
        for (index, id) in ids.enumerate() {
            if indices.insert(id, index as u32).is_some() {
                return Err(ReadError::malformed(format!("multiple {what}s with same id: {id}")));
            }
        }
        Ok(IdIndex::Sparse(indices))
    }

    fn index(&self, id: u64) -> Option<u32> {
        match self {
            IdIndex::Dense(count) => (1..=*count).contains(&id).then(|| id as u32 - 1),
            IdIndex::Sparse(indices) => indices.get(&id).copied(),
        }
    }
}
