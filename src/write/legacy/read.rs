//! A gperftools CPU profile to a saved one: of 32 or 64 bits, of either byte order, and version 1, which Java made and which has
//! names instead of a memory map.

use std::collections::HashMap;

use super::maps;
use crate::tally::saved::{Function, Line, Location, Samples, Saved, ValueType};
use crate::tally::text::Text;
use crate::write::error::ReadError;
use crate::write::feed::Feed;

/// How a machine wrote its words.
#[derive(Clone, Copy)]
struct Words {
    bytes: usize,
    is_big: bool,
}

/// In pprof's order.
const ALL_WORDS: [Words; 4] = [
    Words { bytes: 4, is_big: false },
    Words { bytes: 4, is_big: true },
    Words { bytes: 8, is_big: false },
    Words { bytes: 8, is_big: true },
];

/// Words before the first record.
const HEAD: usize = 5;
/// Words of one record, at most.
const MAX_STACK: u64 = 1 << 16;
/// Distinct addresses, at most.
const MAX_LOCATIONS: usize = 1 << 24;
/// Bytes of the text behind the records, at most.
const MAX_TEXT: usize = 16 << 20;

impl Words {
    fn take(self, bytes: &[u8]) -> u64 {
        let byte = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        let word = &bytes[..self.bytes];
        if self.is_big { word.iter().fold(0, byte) } else { word.iter().rev().fold(0, byte) }
    }

    /// The head, if it is one.
    fn head(self, seen: &[u8]) -> Option<[u64; HEAD]> {
        let bytes = seen.get(..HEAD * self.bytes)?;
        let mut head = [0; HEAD];
        head.iter_mut().zip(bytes.chunks_exact(self.bytes)).for_each(|(word, bytes)| *word = self.take(bytes));
        (matches!(head, [0, 3, 0 | 1, _, 0]) && head[3] > 0).then_some(head)
    }
}

/// Whether a file that begins like this is one.
pub(in crate::write) fn is_legacy(seen: &[u8]) -> bool {
    ALL_WORDS.into_iter().any(|words| words.head(seen).is_some())
}

/// Reads it.
pub(in crate::write) fn read(feed: &mut Feed) -> Result<Saved, ReadError> {
    let seen = feed.want(HEAD * 8)?;
    let found = ALL_WORDS.into_iter().find_map(|words| Some((words, words.head(seen)?)));
    let (words, [_, _, version, period_us, _]) = found.ok_or(ReadError::Unknown)?;
    feed.pass(HEAD * words.bytes);
    let period_us = i64::try_from(period_us).unwrap_or(i64::MAX);
    let mut reader = Reader { period_ns: period_us.saturating_mul(1000), ..Reader::default() };
    reader.records(feed, words, version == 0)?;
    let text = String::from_utf8_lossy(feed.want(MAX_TEXT)?).into_owned();
    if version == 0 { Ok(reader.cpu(&text)) } else { Ok(reader.java(&text)) }
}

#[derive(Default)]
struct Reader {
    period_ns: i64,
    addresses: Vec<u64>,
    ids: HashMap<u64, u32>,
    stacks: Vec<(Box<[u32]>, i64)>,
}

impl Reader {
    fn records(&mut self, feed: &mut Feed, words: Words, adjusts: bool) -> Result<(), ReadError> {
        let cut = || ReadError::malformed("it ends in the middle of a record; was it copied whole?");
        let mut stack = Vec::new();
        loop {
            let seen = feed.want(2 * words.bytes)?;
            if seen.is_empty() {
                return Ok(());
            }
            if seen.len() < 2 * words.bytes {
                return Err(cut());
            }
            let (count, length) = (words.take(seen), words.take(&seen[words.bytes..]));
            if length > MAX_STACK {
                return Err(ReadError::malformed(format!("a stack of {length} frames")));
            }
            let wanted = (2 + length as usize) * words.bytes;
            let record = feed.want(wanted)?.get(2 * words.bytes..wanted).ok_or_else(cut)?;
            let addresses = record.chunks_exact(words.bytes).map(|bytes| words.take(bytes));
            if (count, length) == (0, 1) && addresses.clone().next() == Some(0) {
                feed.pass(wanted);
                return Ok(());
            }
            stack.clear();
            for (place, address) in addresses.enumerate() {
                // What was called from is before where it returns to.
                let address = if adjusts && place > 0 { address.wrapping_sub(1) } else { address };
                let next = self.addresses.len() as u32;
                let id = *self.ids.entry(address).or_insert(next);
                if id == next {
                    self.addresses.push(address);
                }
                stack.push(id);
            }
            if self.addresses.len() > MAX_LOCATIONS {
                return Err(ReadError::malformed(format!("more than {MAX_LOCATIONS} addresses")));
            }
            self.stacks.push((stack.as_slice().into(), i64::try_from(count).unwrap_or(i64::MAX)));
            feed.pass(wanted);
        }
    }

    /// Takes out the frames of the signal handler: those that stand second in nearly every stack.
    fn strip(&mut self) {
        const MOST: usize = 2;
        let margin = self.stacks.len() / 32;
        for _ in 0..MOST {
            let mut seconds: HashMap<u32, usize> = HashMap::new();
            for (stack, _) in &self.stacks {
                if let Some(&second) = stack.get(1) {
                    *seconds.entry(second).or_default() += 1;
                }
            }
            let enough = self.stacks.len() - margin;
            let Some((&common, _)) = seconds.iter().find(|(_, count)| **count >= enough) else { continue };
            for (stack, _) in self.stacks.iter_mut().filter(|(stack, _)| stack.get(1) == Some(&common)) {
                *stack = without_second(stack);
            }
        }
    }

    /// With the locations that stacks have, in their order.
    fn saved(&self) -> (Saved, Vec<u32>) {
        let mut saved = Saved {
            sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
            samples: Samples::of_width(2),
            period_type: ValueType::new("cpu", "nanoseconds"),
            period: self.period_ns,
            drop_frames: PROFILERS.into(),
            labels: vec![[].into()],
            ..Saved::default()
        };
        let mut places = vec![u32::MAX; self.addresses.len()];
        for &id in self.stacks.iter().flat_map(|(stack, _)| stack.iter()) {
            let place = &mut places[id as usize];
            if *place == u32::MAX {
                *place = saved.locations.len() as u32;
                let (number, address) = (u64::from(*place) + 1, self.addresses[id as usize]);
                saved.locations.push(Location { id: number, address, ..Location::default() });
            }
        }
        (saved, places)
    }

    fn fill(&self, saved: &mut Saved, places: &[u32]) {
        let mut placed = Vec::new();
        for (stack, count) in &self.stacks {
            placed.clear();
            placed.extend(stack.iter().map(|&id| places[id as usize]));
            saved.samples.push(&placed, &[*count, count.wrapping_mul(self.period_ns)], 0);
        }
    }

    fn cpu(mut self, text: &str) -> Saved {
        self.strip();
        let (mut saved, places) = self.saved();
        maps::place(&mut saved, maps::read(text));
        // The handler may have told the leaf twice.
        let addresses = &self.addresses;
        for (stack, _) in &mut self.stacks {
            if let [leaf, second, ..] = **stack
                && addresses[leaf as usize] == addresses[second as usize].wrapping_add(1)
            {
                *stack = without_second(stack);
            }
        }
        self.fill(&mut saved, &places);
        saved
    }

    fn java(self, text: &str) -> Saved {
        let (mut saved, places) = self.saved();
        let mut functions: HashMap<Text, u32> = HashMap::new();
        for line in text.lines() {
            let Some((address, told)) =
                line.trim().strip_prefix("0x").and_then(|rest| rest.split_once(char::is_whitespace))
            else {
                continue;
            };
            let known = u64::from_str_radix(address, 16).ok().and_then(|address| self.ids.get(&address));
            let Some(location) = known.and_then(|&id| saved.locations.get_mut(places[id as usize] as usize)) else {
                continue;
            };
            let (name, file, line) = java_place(told.trim_start());
            let name = Text::from(name);
            let all = &mut saved.functions;
            let function = *functions.entry(name.clone()).or_insert_with(|| {
                all.push(Function { name: name.clone(), system_name: name, file: file.into(), start_line: 0 });
                all.len() as u32 - 1
            });
            location.lines = vec![Line { function, line, column: 0 }];
        }
        // In the order of the locations that name them.
        let mut order = vec![u32::MAX; saved.functions.len()];
        let mut sorted = Vec::new();
        for line in saved.locations.iter_mut().flat_map(|location| &mut location.lines) {
            let place = &mut order[line.function as usize];
            if *place == u32::MAX {
                *place = sorted.len() as u32;
                sorted.push(saved.functions[line.function as usize].clone());
            }
            line.function = *place;
        }
        saved.functions = sorted;
        // What has a name has no address any more, and lies nowhere.
        for location in saved.locations.iter_mut().filter(|location| !location.lines.is_empty()) {
            location.address = 0;
        }
        maps::place(&mut saved, Vec::new());
        saved.locations.iter_mut().for_each(|location| location.address = 0);
        self.fill(&mut saved, &places);
        saved
    }
}

/// Frames of the profilers that made such files.
const PROFILERS: &str =
    "ProfileData::Add|ProfileData::prof_handler|CpuProfiler::prof_handler|__pthread_sighandler|__restore";

fn without_second(stack: &[u32]) -> Box<[u32]> {
    stack.iter().enumerate().filter(|(place, _)| *place != 1).map(|(_, &id)| id).collect()
}

/// `f (F.java:12)`, `f (/lib/libx.so)`, `generated stub/JIT`, or a name.
fn java_place(told: &str) -> (&str, &str, i64) {
    if let Some((name, place)) = told.strip_suffix(')').and_then(|told| told.rsplit_once('('))
        && name.ends_with(char::is_whitespace)
    {
        let name = name.trim_end();
        if let Some((file, line)) = place.rsplit_once(':')
            && let Ok(line) = line.parse::<i64>()
        {
            return (name, file, line.max(0));
        }
        return (name, crate::tally::saved::graph::base(place), 0);
    }
    if told.contains("generated stub/JIT") { ("STUB", "", 0) } else { (told, "", 0) }
}
