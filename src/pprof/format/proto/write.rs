//! Writes `profile.proto`, gzipped, with the fields in the order in which pprof writes them.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::wire::{put, put_bytes, put_number};
use crate::pprof::profile::{Label, LabelValue, SavedProfile, ValueType};
use crate::tally::text::Text;
use crate::wire::varint;

/// Writes a profile.
///
/// # Errors
/// If `out` fails.
pub fn write(out: impl Write, profile: &SavedProfile) -> io::Result<()> {
    let mut out = GzEncoder::new(io::BufWriter::new(out), Compression::default());
    let mut writer = ProtoWriter { string_ids: HashMap::from([(Text::default(), 0)]), strings: vec![Text::default()] };
    writer.write_profile(&mut out, profile)?;
    out.finish()?.flush()
}

struct ProtoWriter {
    string_ids: HashMap<Text, u64>,
    strings: Vec<Text>,
}

impl ProtoWriter {
    fn string_id(&mut self, text: &Text) -> u64 {
        if let Some(&known) = self.string_ids.get(text) {
            return known;
        }
        let index = self.strings.len() as u64;
        self.string_ids.insert(text.clone(), index);
        self.strings.push(text.clone());
        index
    }

    fn encode_value_type(&mut self, of: &ValueType) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (kind, unit) = (self.string_id(&of.kind), self.string_id(&of.unit));
        put(&mut bytes, 1, kind);
        put(&mut bytes, 2, unit);
        bytes
    }

    fn encode_labels(&mut self, labels: &[Label]) -> Vec<u8> {
        let mut sorted: Vec<&Label> = labels.iter().collect();
        let is_number = |label: &Label| matches!(label.value, LabelValue::Number(..));
        sorted.sort_by(|a, b| (is_number(a), &a.key).cmp(&(is_number(b), &b.key)));
        let mut bytes = Vec::new();
        for label in sorted {
            let mut own = Vec::new();
            put(&mut own, 1, self.string_id(&label.key));
            match &label.value {
                LabelValue::Text(text) => put(&mut own, 2, self.string_id(text)),
                LabelValue::Number(number, unit) => {
                    put(&mut own, 3, *number as u64);
                    put(&mut own, 4, self.string_id(unit));
                }
            }
            put_bytes(&mut bytes, 3, &own);
        }
        bytes
    }

    fn write_profile(&mut self, out: &mut impl Write, profile: &SavedProfile) -> io::Result<()> {
        let mut bytes = Vec::new();
        for of in &profile.sample_types {
            let own = self.encode_value_type(of);
            put_bytes(&mut bytes, 1, &own);
        }
        out.write_all(&bytes)?;
        let sets: Vec<Vec<u8>> = profile.labels.iter().map(|labels| self.encode_labels(labels)).collect();
        self.write_samples(out, profile, &sets)?;
        let mut bytes = Vec::new();
        self.encode_tables(&mut bytes, profile);
        let frames = [&profile.drop_frames, &profile.keep_frames].map(|text| self.string_id(text));
        let period_type = self.encode_value_type(&profile.period_type);
        let comments: Vec<u64> = profile.comments.iter().map(|comment| self.string_id(comment)).collect();
        let last = [&profile.default_sample_type, &profile.doc_url].map(|text| self.string_id(text));
        for text in &self.strings {
            put_bytes(&mut bytes, 6, text.as_bytes());
        }
        put(&mut bytes, 7, frames[0]);
        put(&mut bytes, 8, frames[1]);
        put(&mut bytes, 9, profile.time_ns as u64);
        put(&mut bytes, 10, profile.duration_ns as u64);
        if !period_type.is_empty() {
            put_bytes(&mut bytes, 11, &period_type);
        }
        put(&mut bytes, 12, profile.period as u64);
        if !comments.is_empty() {
            let mut packed = Vec::new();
            comments.iter().for_each(|&comment| varint::push(&mut packed, comment));
            put_bytes(&mut bytes, 13, &packed);
        }
        put_number(&mut bytes, 14, last[0]);
        put(&mut bytes, 15, last[1]);
        out.write_all(&bytes)
    }

    fn write_samples(&mut self, out: &mut impl Write, profile: &SavedProfile, sets: &[Vec<u8>]) -> io::Result<()> {
        // The packed stacks can be copied if every id is index + 1.
        let is_dense = profile.locations.iter().enumerate().all(|(index, of)| of.id == index as u64 + 1);
        let (mut bytes, mut own, mut packed, mut failed) = (Vec::new(), Vec::new(), Vec::new(), None);
        let mut put_sample = |stack: &[u8], values: &[i64], labels: u32| {
            own.clear();
            bytes.clear();
            if !stack.is_empty() {
                put_bytes(&mut own, 1, stack);
            }
            packed.clear();
            values.iter().for_each(|&value| varint::push(&mut packed, value as u64));
            put_bytes(&mut own, 2, &packed);
            own.extend_from_slice(sets.get(labels as usize).map_or(&[], |set| set));
            put_bytes(&mut bytes, 2, &own);
            if failed.is_none() {
                failed = out.write_all(&bytes).err();
            }
        };
        if is_dense {
            profile.samples.for_each_packed(put_sample);
        } else {
            let mut ids = Vec::new();
            profile.samples.for_each(|sample| {
                ids.clear();
                let id = |&location: &u32| varint::push(&mut ids, profile.locations[location as usize].id);
                sample.stack.iter().for_each(id);
                put_sample(&ids, sample.values, sample.labels);
            });
        }
        failed.map_or(Ok(()), Err)
    }

    /// Appends mappings, locations and functions.
    fn encode_tables(&mut self, bytes: &mut Vec<u8>, profile: &SavedProfile) {
        for of in &profile.mappings {
            let mut own = Vec::new();
            put(&mut own, 1, of.id);
            put(&mut own, 2, of.start);
            put(&mut own, 3, of.limit);
            put(&mut own, 4, of.offset);
            put(&mut own, 5, self.string_id(&of.file));
            put(&mut own, 6, self.string_id(&of.build_id));
            let flags = [of.has_functions, of.has_filenames, of.has_line_numbers, of.has_inline_frames];
            (7..).zip(flags).for_each(|(field, flag)| put(&mut own, field, flag.into()));
            put_bytes(bytes, 3, &own);
        }
        for of in &profile.locations {
            let mut own = Vec::new();
            put(&mut own, 1, of.id);
            put(&mut own, 2, of.mapping.map_or(0, |mapping| profile.mappings[mapping as usize].id));
            put(&mut own, 3, of.address);
            for line in &of.lines {
                let mut bytes = Vec::new();
                put(&mut bytes, 1, u64::from(line.function) + 1);
                put(&mut bytes, 2, line.line as u64);
                put(&mut bytes, 3, line.column as u64);
                put_bytes(&mut own, 4, &bytes);
            }
            put(&mut own, 5, of.folded.into());
            put_bytes(bytes, 4, &own);
        }
        for (index, of) in profile.functions.iter().enumerate() {
            let mut own = Vec::new();
            put(&mut own, 1, index as u64 + 1);
            put(&mut own, 2, self.string_id(&of.name));
            put(&mut own, 3, self.string_id(&of.system_name));
            put(&mut own, 4, self.string_id(&of.file));
            put(&mut own, 5, of.start_line as u64);
            put_bytes(bytes, 5, &own);
        }
    }
}
