//! A saved profile to `profile.proto`, gzipped, field by field in the order that pprof writes them.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::tally::saved::{Label, LabelValue, Saved, ValueType, put_varint};
use crate::tally::text::Text;

/// Writes it.
///
/// # Errors
/// When `out` fails.
pub fn write(out: impl Write, saved: &Saved) -> io::Result<()> {
    let mut out = GzEncoder::new(io::BufWriter::new(out), Compression::default());
    let mut writer = Writer { words: HashMap::from([(Text::default(), 0)]), table: vec![Text::default()] };
    writer.all(&mut out, saved)?;
    out.finish()?.flush()
}

struct Writer {
    words: HashMap<Text, u64>,
    table: Vec<Text>,
}

fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(out, field << 3);
    put_varint(out, number);
}

/// A number that goes without saying when it is 0.
fn put(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_number(out, field, number);
    }
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

impl Writer {
    fn word(&mut self, word: &Text) -> u64 {
        if let Some(&known) = self.words.get(word) {
            return known;
        }
        let index = self.table.len() as u64;
        self.words.insert(word.clone(), index);
        self.table.push(word.clone());
        index
    }

    fn value_type(&mut self, of: &ValueType) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (kind, unit) = (self.word(&of.kind), self.word(&of.unit));
        put(&mut bytes, 1, kind);
        put(&mut bytes, 2, unit);
        bytes
    }

    fn labels(&mut self, labels: &[Label]) -> Vec<u8> {
        let mut sorted: Vec<&Label> = labels.iter().collect();
        let is_number = |label: &Label| matches!(label.value, LabelValue::Number(..));
        sorted.sort_by(|a, b| (is_number(a), &a.key).cmp(&(is_number(b), &b.key)));
        let mut bytes = Vec::new();
        for label in sorted {
            let mut own = Vec::new();
            put(&mut own, 1, self.word(&label.key));
            match &label.value {
                LabelValue::Text(text) => put(&mut own, 2, self.word(text)),
                LabelValue::Number(number, unit) => {
                    put(&mut own, 3, *number as u64);
                    put(&mut own, 4, self.word(unit));
                }
            }
            put_bytes(&mut bytes, 3, &own);
        }
        bytes
    }

    fn all(&mut self, out: &mut impl Write, saved: &Saved) -> io::Result<()> {
        let mut bytes = Vec::new();
        for of in &saved.sample_types {
            let own = self.value_type(of);
            put_bytes(&mut bytes, 1, &own);
        }
        out.write_all(&bytes)?;
        let sets: Vec<Vec<u8>> = saved.labels.iter().map(|labels| self.labels(labels)).collect();
        self.samples(out, saved, &sets)?;
        let mut bytes = Vec::new();
        self.places(&mut bytes, saved);
        let words = [&saved.drop_frames, &saved.keep_frames].map(|word| self.word(word));
        let period_type = self.value_type(&saved.period_type);
        let comments: Vec<u64> = saved.comments.iter().map(|comment| self.word(comment)).collect();
        let last = [&saved.default_sample_type, &saved.doc_url].map(|word| self.word(word));
        for word in &self.table {
            put_bytes(&mut bytes, 6, word.as_bytes());
        }
        put(&mut bytes, 7, words[0]);
        put(&mut bytes, 8, words[1]);
        put(&mut bytes, 9, saved.time_ns as u64);
        put(&mut bytes, 10, saved.duration_ns as u64);
        if !period_type.is_empty() {
            put_bytes(&mut bytes, 11, &period_type);
        }
        put(&mut bytes, 12, saved.period as u64);
        if !comments.is_empty() {
            let mut packed = Vec::new();
            comments.iter().for_each(|&comment| put_varint(&mut packed, comment));
            put_bytes(&mut bytes, 13, &packed);
        }
        put_number(&mut bytes, 14, last[0]);
        put(&mut bytes, 15, last[1]);
        out.write_all(&bytes)
    }

    fn samples(&mut self, out: &mut impl Write, saved: &Saved, sets: &[Vec<u8>]) -> io::Result<()> {
        // Samples name locations by what the file calls them.
        let is_dense = saved.locations.iter().enumerate().all(|(index, of)| of.id == index as u64 + 1);
        let (mut bytes, mut own, mut packed, mut failed) = (Vec::new(), Vec::new(), Vec::new(), None);
        let mut put_sample = |stack: &[u8], values: &[i64], labels: u32| {
            own.clear();
            bytes.clear();
            if !stack.is_empty() {
                put_bytes(&mut own, 1, stack);
            }
            packed.clear();
            values.iter().for_each(|&value| put_varint(&mut packed, value as u64));
            put_bytes(&mut own, 2, &packed);
            own.extend_from_slice(sets.get(labels as usize).map_or(&[], |set| set));
            put_bytes(&mut bytes, 2, &own);
            if failed.is_none() {
                failed = out.write_all(&bytes).err();
            }
        };
        if is_dense {
            saved.samples.each_packed(put_sample);
        } else {
            let mut ids = Vec::new();
            saved.samples.each(|sample| {
                ids.clear();
                let id = |&location: &u32| put_varint(&mut ids, saved.locations[location as usize].id);
                sample.stack.iter().for_each(id);
                put_sample(&ids, sample.values, sample.labels);
            });
        }
        failed.map_or(Ok(()), Err)
    }

    fn places(&mut self, bytes: &mut Vec<u8>, saved: &Saved) {
        for of in &saved.mappings {
            let mut own = Vec::new();
            put(&mut own, 1, of.id);
            put(&mut own, 2, of.start);
            put(&mut own, 3, of.limit);
            put(&mut own, 4, of.offset);
            put(&mut own, 5, self.word(&of.file));
            put(&mut own, 6, self.word(&of.build_id));
            let marks = [of.has_functions, of.has_filenames, of.has_line_numbers, of.has_inline_frames];
            (7..).zip(marks).for_each(|(field, mark)| put(&mut own, field, mark.into()));
            put_bytes(bytes, 3, &own);
        }
        for of in &saved.locations {
            let mut own = Vec::new();
            put(&mut own, 1, of.id);
            put(&mut own, 2, of.mapping.map_or(0, |mapping| saved.mappings[mapping as usize].id));
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
        for (index, of) in saved.functions.iter().enumerate() {
            let mut own = Vec::new();
            put(&mut own, 1, index as u64 + 1);
            put(&mut own, 2, self.word(&of.name));
            put(&mut own, 3, self.word(&of.system_name));
            put(&mut own, 4, self.word(&of.file));
            put(&mut own, 5, of.start_line as u64);
            put_bytes(bytes, 5, &own);
        }
    }
}
