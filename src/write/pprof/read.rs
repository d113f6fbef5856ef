//! `profile.proto` to a saved profile. Every message is taken apart as soon as it is there; only what names others by number
//! waits for the end, where the table of strings is.

use std::collections::HashMap;
use std::io::Read;

use super::wire::{Held, field, number, numbers};
use crate::tally::saved::{
    Function, Label, LabelValue, Line, Location, Mapping, Samples, Saved, ValueType, put_varint,
};
use crate::tally::text::Text;
use crate::write::error::ReadError;
use crate::write::feed::Feed;

/// Bytes of one message, at most; a sample has some hundred.
const MAX_MESSAGE: usize = 64 << 20;

/// Reads a profile, gzipped or not.
///
/// # Errors
/// What is wrong with it.
pub fn read(from: impl Read) -> Result<Saved, ReadError> {
    read_fed(&mut Feed::open(from)?)
}

/// The same, of bytes that somebody looked at before.
pub(in crate::write) fn read_fed(feed: &mut Feed) -> Result<Saved, ReadError> {
    let mut reader = Reader::default();
    while take_field(feed, &mut reader)? {}
    reader.done()
}

fn take_field(feed: &mut Feed, reader: &mut Reader) -> Result<bool, ReadError> {
    // Longest tag, and longest number.
    let mut seen = feed.want(20)?;
    if seen.is_empty() {
        return Ok(false);
    }
    let before = seen.len();
    let tag = number(&mut seen)?;
    if tag & 7 != 2 {
        let mut whole = feed.seen();
        let before = whole.len();
        if let Some((field, held)) = field(&mut whole)? {
            let passed = before - whole.len();
            reader.field(field, held)?;
            feed.pass(passed);
        }
        return Ok(true);
    }
    let length = usize::try_from(number(&mut seen)?).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        return Err(ReadError::malformed(format!("a message of {length} bytes")));
    }
    let passed = before - seen.len();
    let bytes = feed.want(passed + length)?.get(passed..passed + length);
    let bytes = bytes.ok_or_else(|| ReadError::malformed("it ends in the middle; was it copied whole?"))?;
    reader.field(tag >> 3, Held::Bytes(bytes))?;
    feed.pass(passed + length);
    Ok(true)
}

/// Index in the table of strings.
type Word = i64;

struct RawMapping {
    mapping: Mapping,
    file: Word,
    build_id: Word,
}

struct RawFunction {
    id: u64,
    name: Word,
    system_name: Word,
    file: Word,
    start_line: i64,
}

struct RawLocation {
    id: u64,
    mapping: u64,
    address: u64,
    /// End of its lines; they begin where the last one's end.
    lines_end: usize,
    folded: bool,
}

/// Key, text, number, unit.
type RawLabel = [i64; 4];

#[derive(Default)]
struct Reader {
    types: Vec<(Word, Word)>,
    period_type: (Word, Word),
    words: Vec<Text>,
    mappings: Vec<RawMapping>,
    functions: Vec<RawFunction>,
    locations: Vec<RawLocation>,
    /// Function by id, line, column.
    lines: Vec<(u64, i64, i64)>,
    samples: Samples,
    /// Values of the first sample.
    width: Option<usize>,
    /// The largest id of a location in a stack, and whether one was 0.
    largest: u64,
    any_zero: bool,
    label_sets: Vec<Box<[RawLabel]>>,
    label_ids: HashMap<Box<[RawLabel]>, u32>,
    comments: Vec<Word>,
    drop_frames: Word,
    keep_frames: Word,
    default_sample_type: Word,
    doc_url: Word,
    saved: Saved,
    stack: Vec<u8>,
    values: Vec<i64>,
    labels: Vec<RawLabel>,
}

impl Reader {
    fn field(&mut self, field: u64, held: Held) -> Result<(), ReadError> {
        match field {
            1 => self.types.push(value_type(held.bytes()?)?),
            2 => self.sample(held.bytes()?)?,
            3 => self.mapping(held.bytes()?)?,
            4 => self.location(held.bytes()?)?,
            5 => self.function(held.bytes()?)?,
            6 => {
                let word = String::from_utf8_lossy(held.bytes()?);
                if self.words.is_empty() && !word.is_empty() {
                    return Err(ReadError::malformed("string_table[0] must be ''"));
                }
                self.words.push(Text::from(&*word));
            }
            7 => self.drop_frames = held.signed()?,
            8 => self.keep_frames = held.signed()?,
            9 if self.saved.time_ns != 0 => {
                return Err(ReadError::malformed("concatenated profiles detected; keep them in files of their own"));
            }
            9 => self.saved.time_ns = held.signed()?,
            10 => self.saved.duration_ns = held.signed()?,
            11 => self.period_type = value_type(held.bytes()?)?,
            12 => self.saved.period = held.signed()?,
            13 => numbers(held, |word| self.comments.push(word as i64))?,
            14 => self.default_sample_type = held.signed()?,
            15 => self.doc_url = held.signed()?,
            _ => {}
        }
        Ok(())
    }

    fn sample(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        self.stack.clear();
        self.values.clear();
        self.labels.clear();
        while let Some((number, held)) = field(&mut bytes)? {
            match number {
                1 => {
                    let (largest, any_zero) = (&mut self.largest, &mut self.any_zero);
                    let mut see = |id: u64| {
                        *largest = (*largest).max(id);
                        *any_zero |= id == 0;
                    };
                    if let Held::Bytes(packed) = held {
                        // As it will be kept: most files number their locations from 1 on.
                        numbers(held, see)?;
                        self.stack.extend_from_slice(packed);
                    } else {
                        let id = held.number()?;
                        see(id);
                        put_varint(&mut self.stack, id);
                    }
                }
                2 => numbers(held, |value| self.values.push(value as i64))?,
                3 => self.labels.push(label(held.bytes()?)?),
                _ => {}
            }
        }
        let width = *self.width.get_or_insert_with(|| {
            self.samples = Samples::of_width(self.values.len());
            self.values.len()
        });
        if self.values.len() != width {
            let count = self.values.len();
            return Err(ReadError::malformed(format!("mismatch: sample has {count} values vs. {width} types")));
        }
        let labels = self.label_set();
        self.samples.push_packed(&self.stack, &self.values, labels);
        Ok(())
    }

    fn label_set(&mut self) -> u32 {
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

    fn mapping(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        let mut raw = RawMapping { mapping: Mapping::default(), file: 0, build_id: 0 };
        while let Some((number, held)) = field(&mut bytes)? {
            let of = &mut raw.mapping;
            match number {
                1 => of.id = held.number()?,
                2 => of.start = held.number()?,
                3 => of.limit = held.number()?,
                4 => of.offset = held.number()?,
                5 => raw.file = held.signed()?,
                6 => raw.build_id = held.signed()?,
                7 => of.has_functions = held.number()? != 0,
                8 => of.has_filenames = held.number()? != 0,
                9 => of.has_line_numbers = held.number()? != 0,
                10 => of.has_inline_frames = held.number()? != 0,
                _ => {}
            }
        }
        if raw.mapping.id == 0 {
            return Err(ReadError::malformed("found mapping with reserved ID=0"));
        }
        self.mappings.push(raw);
        Ok(())
    }

    fn location(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        let mut raw = RawLocation { id: 0, mapping: 0, address: 0, lines_end: 0, folded: false };
        while let Some((number, held)) = field(&mut bytes)? {
            match number {
                1 => raw.id = held.number()?,
                2 => raw.mapping = held.number()?,
                3 => raw.address = held.number()?,
                4 => {
                    let mut line = (0, 0, 0);
                    let mut bytes = held.bytes()?;
                    while let Some((number, held)) = field(&mut bytes)? {
                        match number {
                            1 => line.0 = held.number()?,
                            2 => line.1 = held.signed()?,
                            3 => line.2 = held.signed()?,
                            _ => {}
                        }
                    }
                    self.lines.push(line);
                }
                5 => raw.folded = held.number()? != 0,
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

    fn function(&mut self, mut bytes: &[u8]) -> Result<(), ReadError> {
        let mut raw = RawFunction { id: 0, name: 0, system_name: 0, file: 0, start_line: 0 };
        while let Some((number, held)) = field(&mut bytes)? {
            match number {
                1 => raw.id = held.number()?,
                2 => raw.name = held.signed()?,
                3 => raw.system_name = held.signed()?,
                4 => raw.file = held.signed()?,
                5 => raw.start_line = held.signed()?,
                _ => {}
            }
        }
        if raw.id == 0 {
            return Err(ReadError::malformed("found function with reserved ID=0"));
        }
        self.functions.push(raw);
        Ok(())
    }

    fn word(&self, word: Word) -> Result<Text, ReadError> {
        let known = usize::try_from(word).ok().and_then(|index| self.words.get(index));
        match known {
            Some(text) => Ok(text.clone()),
            None if word == 0 => Ok(Text::default()),
            None => Err(ReadError::malformed(format!("there is no string {word}"))),
        }
    }

    fn value_type(&self, (kind, unit): (Word, Word)) -> Result<ValueType, ReadError> {
        Ok(ValueType { kind: self.word(kind)?, unit: self.word(unit)? })
    }

    fn done(mut self) -> Result<Saved, ReadError> {
        if self.words.is_empty() {
            return Err(ReadError::malformed("it has no table of strings"));
        }
        let mut saved = std::mem::take(&mut self.saved);
        let types: Result<_, ReadError> = self.types.iter().map(|&of| self.value_type(of)).collect();
        saved.sample_types = types?;
        saved.period_type = self.value_type(self.period_type)?;
        saved.drop_frames = self.word(self.drop_frames)?;
        saved.keep_frames = self.word(self.keep_frames)?;
        saved.default_sample_type = self.word(self.default_sample_type)?;
        saved.doc_url = self.word(self.doc_url)?;
        let comments: Result<_, ReadError> = self.comments.iter().map(|&word| self.word(word)).collect();
        saved.comments = comments?;
        let width = saved.sample_types.len();
        saved.samples = std::mem::take(&mut self.samples);
        match self.width {
            None => saved.samples = Samples::of_width(width),
            Some(_) if width == 0 => return Err(ReadError::malformed("missing sample type information")),
            Some(own) if own != width => {
                return Err(ReadError::malformed(format!("mismatch: sample has {own} values vs. {width} types")));
            }
            Some(_) => {}
        }
        self.name_places(&mut saved)?;
        self.place_stacks(&mut saved)?;
        saved.labels = self.named_labels()?;
        Ok(saved)
    }

    fn name_places(&mut self, saved: &mut Saved) -> Result<(), ReadError> {
        for raw in &self.mappings {
            let (file, build_id) = (self.word(raw.file)?, self.word(raw.build_id)?);
            saved.mappings.push(Mapping { file, build_id, ..raw.mapping.clone() });
        }
        for raw in &self.functions {
            let [name, system_name, file] = [raw.name, raw.system_name, raw.file].map(|word| self.word(word));
            let (name, system_name, file) = (name?, system_name?, file?);
            saved.functions.push(Function { name, system_name, file, start_line: raw.start_line });
        }
        let mappings = Ids::of("mapping", saved.mappings.iter().map(|of| of.id))?;
        let functions = Ids::of("function", self.functions.iter().map(|of| of.id))?;
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
            saved.locations.push(Location { id, mapping: mappings.index(raw.mapping), address, lines, folded });
        }
        Ok(())
    }

    fn place_stacks(&mut self, saved: &mut Saved) -> Result<(), ReadError> {
        let ids = Ids::of("location", self.locations.iter().map(|of| of.id))?;
        let missing = || ReadError::malformed("sample has nil location");
        if self.any_zero {
            return Err(missing());
        }
        // What is named as it is kept needs no other place.
        if matches!(ids, Ids::Dense(_)) && self.largest <= saved.locations.len() as u64 {
            return Ok(());
        }
        saved.samples.place(|id| ids.index(id)).map_err(|_| missing())
    }

    fn named_labels(&mut self) -> Result<Vec<Box<[Label]>>, ReadError> {
        let mut sets = Vec::with_capacity(self.label_sets.len().max(1));
        for raw in &self.label_sets {
            let mut set = Vec::with_capacity(raw.len());
            for &[key, text, number, unit] in raw {
                let key = self.word(key)?;
                let value = match (text, number, unit) {
                    (0, 0, 0) => continue,
                    (0, number, unit) => LabelValue::Number(number, self.word(unit)?),
                    (text, ..) => LabelValue::Text(self.word(text)?),
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

fn value_type(mut bytes: &[u8]) -> Result<(Word, Word), ReadError> {
    let mut raw = (0, 0);
    while let Some((number, held)) = field(&mut bytes)? {
        match number {
            1 => raw.0 = held.signed()?,
            2 => raw.1 = held.signed()?,
            _ => {}
        }
    }
    Ok(raw)
}

fn label(mut bytes: &[u8]) -> Result<RawLabel, ReadError> {
    let mut raw = [0; 4];
    while let Some((number, held)) = field(&mut bytes)? {
        if let Some(place) = usize::try_from(number).ok().and_then(|number| raw.get_mut(number.wrapping_sub(1))) {
            *place = held.signed()?;
        }
    }
    Ok(raw)
}

/// Where the thing with an id is.
enum Ids {
    /// At id − 1; there are so many.
    Dense(u64),
    Sparse(HashMap<u64, u32>),
}

impl Ids {
    fn of(what: &str, ids: impl ExactSizeIterator<Item = u64> + Clone) -> Result<Ids, ReadError> {
        let count = ids.len() as u64;
        if ids.clone().enumerate().all(|(index, id)| id == index as u64 + 1) {
            return Ok(Ids::Dense(count));
        }
        let mut known = HashMap::new();
        for (index, id) in ids.enumerate() {
            if known.insert(id, index as u32).is_some() {
                return Err(ReadError::malformed(format!("multiple {what}s with same id: {id}")));
            }
        }
        Ok(Ids::Sparse(known))
    }

    fn index(&self, id: u64) -> Option<u32> {
        match self {
            Ids::Dense(count) => (1..=*count).contains(&id).then(|| id as u32 - 1),
            Ids::Sparse(known) => known.get(&id).copied(),
        }
    }
}
