//! Reads gperftools CPU profiles with words of 32 or 64 bits in either byte order, and version 1,
//! which Java profilers write and which has names instead of a memory map.

use std::collections::HashMap;

use super::maps;
use crate::pprof::error::ReadError;
use crate::pprof::format::input::ProfileInput;
use crate::pprof::path::base;
use crate::pprof::profile::{Function, Line, Location, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::tally::text::Text;

/// Size and byte order of the words in a file.
#[derive(Clone, Copy)]
struct WordLayout {
    bytes: usize,
    is_big_endian: bool,
}

/// The layouts to try, in pprof's order.
const WORD_LAYOUTS: [WordLayout; 4] = [
    WordLayout { bytes: 4, is_big_endian: false },
    WordLayout { bytes: 4, is_big_endian: true },
    WordLayout { bytes: 8, is_big_endian: false },
    WordLayout { bytes: 8, is_big_endian: true },
];

/// Number of words in the header.
const HEADER_WORDS: usize = 5;
/// Maximum number of addresses in a record.
pub(super) const MAX_STACK: u64 = 1 << 16;
/// Maximum number of distinct addresses.
pub(super) const MAX_LOCATIONS: usize = 1 << 24;
/// Maximum length of the text after the records, in bytes.
pub(super) const MAX_TEXT: usize = 16 << 20;

impl WordLayout {
    /// Decodes the first word.
    fn decode(self, bytes: &[u8]) -> u64 {
        let byte = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        let word = &bytes[..self.bytes];
        if self.is_big_endian { word.iter().fold(0, byte) } else { word.iter().rev().fold(0, byte) }
    }

    /// Decodes the header; `None` if it is not that of a CPU profile.
    fn decode_header(self, start: &[u8]) -> Option<[u64; HEADER_WORDS]> {
        let bytes = start.get(..HEADER_WORDS * self.bytes)?;
        let mut header = [0; HEADER_WORDS];
        header.iter_mut().zip(bytes.chunks_exact(self.bytes)).for_each(|(word, bytes)| *word = self.decode(bytes));
        (matches!(header, [0, 3, 0 | 1, _, 0]) && header[3] > 0).then_some(header)
    }
}

/// Whether a file that starts with these bytes is a gperftools CPU profile.
pub(in crate::pprof) fn is_gperftools(start: &[u8]) -> bool {
    WORD_LAYOUTS.into_iter().any(|layout| layout.decode_header(start).is_some())
}

/// Reads a profile.
pub(in crate::pprof) fn read(input: &mut ProfileInput) -> Result<SavedProfile, ReadError> {
    let start = input.fill_to(HEADER_WORDS * 8)?;
    let found = WORD_LAYOUTS.into_iter().find_map(|layout| Some((layout, layout.decode_header(start)?)));
    let (layout, [_, _, version, period_us, _]) = found.ok_or(ReadError::UnknownFormat)?;
    input.consume(HEADER_WORDS * layout.bytes);
    let period_us = i64::try_from(period_us).unwrap_or(i64::MAX);
    let mut reader = RecordReader { period_ns: period_us.saturating_mul(1000), ..RecordReader::default() };
    reader.read_records(input, layout, version == 0)?;
    let text = String::from_utf8_lossy(input.fill_to(MAX_TEXT)?).into_owned();
    if version == 0 { Ok(reader.build_cpu_profile(&text)) } else { Ok(reader.build_java_profile(&text)) }
}

#[derive(Default)]
struct RecordReader {
    period_ns: i64,
    /// The distinct addresses; stacks name them by index.
    addresses: Vec<u64>,
    ids: HashMap<u64, u32>,
    /// Stack (leaf first) and count of each record.
    stacks: Vec<(Box<[u32]>, i64)>,
}

impl RecordReader {
    /// Reads all records. With `adjust`, return addresses become addresses of their calls.
    fn read_records(&mut self, input: &mut ProfileInput, layout: WordLayout, adjust: bool) -> Result<(), ReadError> {
        let truncated = || ReadError::malformed("unexpected end of file in a record; is the copy complete?");
        let mut stack = Vec::new();
        loop {
            let head = input.fill_to(2 * layout.bytes)?;
            if head.is_empty() {
                return Ok(());
            }
            if head.len() < 2 * layout.bytes {
                return Err(truncated());
            }
            let (count, length) = (layout.decode(head), layout.decode(&head[layout.bytes..]));
            if length > MAX_STACK {
                return Err(ReadError::malformed(format!("a stack of {length} frames")));
            }
            let size = (2 + length as usize) * layout.bytes;
            let record = input.fill_to(size)?.get(2 * layout.bytes..size).ok_or_else(truncated)?;
            let addresses = record.chunks_exact(layout.bytes).map(|bytes| layout.decode(bytes));
            if (count, length) == (0, 1) && addresses.clone().next() == Some(0) {
                input.consume(size);
                return Ok(());
            }
            stack.clear();
            for (depth, address) in addresses.enumerate() {
                // A call ends right before its return address.
                let address = if adjust && depth > 0 { address.wrapping_sub(1) } else { address };
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
            input.consume(size);
        }
    }

    /// Removes the frames of the signal handler: those that are second in nearly every stack.
    fn remove_signal_frames(&mut self) {
        const MAX_FRAMES: usize = 2;
        let margin = self.stacks.len() / 32;
        for _ in 0..MAX_FRAMES {
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

    /// Creates the profile with its locations in order of their first use. Returns the location of
    /// each address, too.
    fn create_profile(&self) -> (SavedProfile, Vec<u32>) {
        let mut profile = SavedProfile {
            sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
            samples: Samples::with_width(2),
            period_type: ValueType::new("cpu", "nanoseconds"),
            period: self.period_ns,
            drop_frames: PROFILERS.into(),
            labels: vec![[].into()],
            ..SavedProfile::default()
        };
        let mut locations = vec![u32::MAX; self.addresses.len()];
        for &id in self.stacks.iter().flat_map(|(stack, _)| stack.iter()) {
            let location = &mut locations[id as usize];
            if *location == u32::MAX {
                *location = profile.locations.len() as u32;
                let (number, address) = (u64::from(*location) + 1, self.addresses[id as usize]);
                profile.locations.push(Location { id: number, address, ..Location::default() });
            }
        }
        (profile, locations)
    }

    fn add_samples(&self, profile: &mut SavedProfile, locations: &[u32]) {
        let mut located = Vec::new();
        for (stack, count) in &self.stacks {
            located.clear();
            located.extend(stack.iter().map(|&id| locations[id as usize]));
            profile.samples.push(&located, &[*count, count.wrapping_mul(self.period_ns)], 0);
        }
    }

    fn build_cpu_profile(mut self, text: &str) -> SavedProfile {
        self.remove_signal_frames();
        let (mut profile, locations) = self.create_profile();
        maps::assign(&mut profile, maps::parse(text));
        // The handler may have recorded the leaf twice.
        let addresses = &self.addresses;
        for (stack, _) in &mut self.stacks {
            if let [leaf, second, ..] = **stack
                && addresses[leaf as usize] == addresses[second as usize].wrapping_add(1)
            {
                *stack = without_second(stack);
            }
        }
        self.add_samples(&mut profile, &locations);
        profile
    }

    fn build_java_profile(self, text: &str) -> SavedProfile {
        let (mut profile, locations) = self.create_profile();
        let mut functions: HashMap<Text, u32> = HashMap::new();
        for line in text.lines() {
            let Some((address, symbol)) =
                line.trim().strip_prefix("0x").and_then(|rest| rest.split_once(char::is_whitespace))
            else {
                continue;
            };
            let known = u64::from_str_radix(address, 16).ok().and_then(|address| self.ids.get(&address));
            let Some(location) = known.and_then(|&id| profile.locations.get_mut(locations[id as usize] as usize))
            else {
                continue;
            };
            let (name, file, line) = parse_java_symbol(symbol.trim_start());
            let name = Text::from(name);
            let all = &mut profile.functions;
            let function = *functions.entry(name.clone()).or_insert_with(|| {
                all.push(Function { name: name.clone(), system_name: name, file: file.into(), start_line: 0 });
                all.len() as u32 - 1
            });
            location.lines = vec![Line { function, line, column: 0 }];
        }
        // pprof numbers functions in the order of the locations that name them.
        let mut order = vec![u32::MAX; profile.functions.len()];
        let mut sorted = Vec::new();
        for line in profile.locations.iter_mut().flat_map(|location| &mut location.lines) {
            let index = &mut order[line.function as usize];
            if *index == u32::MAX {
                *index = sorted.len() as u32;
                sorted.push(profile.functions[line.function as usize].clone());
            }
            line.function = *index;
        }
        profile.functions = sorted;
        // A location with a name loses its address and its mapping.
        for location in profile.locations.iter_mut().filter(|location| !location.lines.is_empty()) {
            location.address = 0;
        }
        maps::assign(&mut profile, Vec::new());
        profile.locations.iter_mut().for_each(|location| location.address = 0);
        self.add_samples(&mut profile, &locations);
        profile
    }
}

/// The frames of the profiler itself.
const PROFILERS: &str =
    "ProfileData::Add|ProfileData::prof_handler|CpuProfiler::prof_handler|__pthread_sighandler|__restore";

fn without_second(stack: &[u32]) -> Box<[u32]> {
    stack.iter().enumerate().filter(|(depth, _)| *depth != 1).map(|(_, &id)| id).collect()
}

/// Parses `f (F.java:12)`, `f (/lib/libx.so)`, `generated stub/JIT` or a name into function, file
/// and line.
fn parse_java_symbol(symbol: &str) -> (&str, &str, i64) {
    if let Some((name, source)) = symbol.strip_suffix(')').and_then(|symbol| symbol.rsplit_once('('))
        && name.ends_with(char::is_whitespace)
    {
        let name = name.trim_end();
        if let Some((file, line)) = source.rsplit_once(':')
            && let Ok(line) = line.parse::<i64>()
        {
            return (name, file, line.max(0));
        }
        return (name, base(source), 0);
    }
    if symbol.contains("generated stub/JIT") { ("STUB", "", 0) } else { (symbol, "", 0) }
}
