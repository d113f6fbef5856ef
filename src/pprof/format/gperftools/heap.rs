//! Reads heap profiles in the text formats of gperftools, Go (`?debug=1`) and jemalloc: lines of
//! counts and addresses, followed by the memory map.
//!
//! gperftools and Go write a stack in one line, `266: 2198784 [4317: 25643136] @ 0x55f9 0x55fa`:
//! objects and bytes in use, and those ever allocated. jemalloc writes the addresses in a line
//! `@ 0x55f9 0x55fa` and the counts in lines behind it, `t*: 266: 2198784 [0: 0]` for all threads.

use std::collections::HashMap;

use super::maps;
use super::read::MAX_TEXT;
use super::stacks::{LocationTable, is_map_heading};
use crate::pprof::error::ReadError;
use crate::pprof::format::input::ProfileInput;
use crate::pprof::profile::{Label, LabelValue, SavedProfile, ValueType};
use crate::pprof::samples::Samples;

/// The counts of a line: objects and bytes in use, and objects and bytes ever allocated.
type Counts = [i64; 4];

/// The meaning of the counts, from the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Mean number of bytes between two samples; 1 if all allocations were counted.
    interval: i64,
    /// Whether the counts are those of the samples and have to be scaled.
    is_sampled: bool,
    /// Whether those ever allocated are counted.
    has_allocated: bool,
    is_jemalloc: bool,
}

/// The header in the first line. That of jemalloc does not tell whether it has counted what was
/// ever allocated.
fn parse_header(line: &str) -> Option<Header> {
    if let Some(interval) = line.strip_prefix("heap_v2/") {
        let interval = interval.trim().parse().ok().filter(|&interval| interval > 0)?;
        return Some(Header { interval, is_sampled: true, has_allocated: false, is_jemalloc: true });
    }
    let (_, counts) = line.split_once("heap profile:")?;
    let ([objects, bytes, all_objects, all_bytes], rest) = parse_counts(counts)?;
    let kind = rest.trim_start().strip_prefix('@')?.trim();
    let (kind, interval) = kind.split_once('/').unwrap_or((kind, ""));
    let interval = if interval.is_empty() { 0 } else { interval.parse().ok()? };
    let has_allocated = all_objects != objects && all_objects != 0 || all_bytes != bytes && all_bytes != 0;
    let (interval, is_sampled) = match kind {
        "heapprofile" => (1, false),
        // Where the heap grew, and where its free memory was allocated.
        "growth" | "growthz" | "fragmentation" | "fragmentationz" => {
            return Some(Header { interval: 1, is_sampled: false, has_allocated: false, is_jemalloc: false });
        }
        "heapz_v2" | "heap_v2" => (interval, true),
        "heap" => (interval / 2, true),
        _ => return None,
    };
    Some(Header { interval, is_sampled, has_allocated, is_jemalloc: false })
}

/// Whether a text that starts so is a heap profile that can be read.
pub(in crate::pprof) fn is_heap(start: &str) -> bool {
    let first = start.lines().map(str::trim).find(|line| !line.is_empty());
    first.is_some_and(|line| parse_header(line).is_some())
}

/// Whether there is a heap profile in a text, perhaps behind lines of a log.
pub(in crate::pprof) fn has_heap(text: &str) -> bool {
    text.lines().any(|line| parse_header(line.trim()).is_some())
}

/// Parses `266: 2198784 [4317: 25643136]`, and returns the rest of the line, too.
fn parse_counts(line: &str) -> Option<(Counts, &str)> {
    let (in_use, rest) = line.split_once('[')?;
    let (allocated, rest) = rest.split_once(']')?;
    let pair = |text: &str| {
        let (objects, bytes) = text.split_once(':')?;
        Some([objects.trim().parse().ok()?, bytes.trim().parse().ok()?])
    };
    let ([objects, bytes], [all_objects, all_bytes]) = (pair(in_use)?, pair(allocated)?);
    Some(([objects, bytes, all_objects, all_bytes], rest))
}

/// Reads a profile.
pub(in crate::pprof) fn read(input: &mut ProfileInput) -> Result<SavedProfile, ReadError> {
    let mut skipped_lines = 0u64;
    let header = loop {
        let line = input.read_line()?.ok_or(ReadError::UnknownFormat)?;
        if let Some(header) = parse_header(line.trim()) {
            break header;
        }
        skipped_lines += u64::from(!line.trim().is_empty());
    };
    let mut reader = HeapReader::new(header);
    if skipped_lines > 0 {
        let comment = format!("{skipped_lines} lines ahead of the heap profile were skipped");
        reader.profile.comments.push(comment.into());
    }
    while let Some(line) = input.read_line()? {
        let line = line.trim();
        if is_map_heading(line) {
            break;
        }
        if !line.is_empty() && !line.starts_with('#') {
            reader.read_line(line)?;
        }
    }
    let text = String::from_utf8_lossy(input.fill_to(MAX_TEXT)?).into_owned();
    Ok(reader.build(&text))
}

struct HeapReader {
    header: Header,
    profile: SavedProfile,
    locations: LocationTable,
    /// The stack of the next counts, if they are in a line of their own.
    stack: Vec<u32>,
    has_stack: bool,
    /// The stacks, and what was counted.
    samples: Vec<(Box<[u32]>, Counts)>,
}

impl HeapReader {
    fn new(header: Header) -> HeapReader {
        let profile = SavedProfile {
            period_type: ValueType::new("space", "bytes"),
            period: header.interval,
            drop_frames: ALLOCATORS.into(),
            keep_frames: r"runtime\.panic|runtime\.reflectcall|runtime\.call[0-9]*".into(),
            ..SavedProfile::default()
        };
        let (locations, stack, samples) = (LocationTable::default(), Vec::new(), Vec::new());
        HeapReader { header, profile, locations, stack, has_stack: false, samples }
    }

    fn read_line(&mut self, line: &str) -> Result<(), ReadError> {
        let malformed = || ReadError::malformed(format!("not a line of a heap profile: {line}"));
        if !self.header.is_jemalloc {
            let (counts, rest) = parse_counts(line).ok_or_else(malformed)?;
            let addresses = rest.trim_start().strip_prefix('@').ok_or_else(malformed)?;
            self.read_stack(addresses)?;
            self.samples.push((self.stack.as_slice().into(), counts));
        } else if let Some(addresses) = line.strip_prefix('@') {
            self.read_stack(addresses)?;
            self.has_stack = true;
        } else if let Some(counts) = line.strip_prefix("t*:") {
            // Those before the first stack are the sums.
            let (counts, _) = parse_counts(counts).ok_or_else(malformed)?;
            self.header.has_allocated |= counts[2] != 0;
            if std::mem::take(&mut self.has_stack) {
                self.samples.push((self.stack.as_slice().into(), counts));
            }
        }
        Ok(())
    }

    fn read_stack(&mut self, addresses: &str) -> Result<(), ReadError> {
        self.stack.clear();
        self.locations.push_all(addresses, &mut self.profile, &mut self.stack)
    }

    fn build(self, maps: &str) -> SavedProfile {
        let HeapReader { header, mut profile, samples, .. } = self;
        let [objects, space] = match header.has_allocated {
            true => ["inuse_objects", "inuse_space"],
            false => ["objects", "space"],
        };
        let in_use = [ValueType::new(objects, "count"), ValueType::new(space, "bytes")];
        let allocated = [ValueType::new("alloc_objects", "count"), ValueType::new("alloc_space", "bytes")];
        profile.sample_types = allocated.into_iter().filter(|_| header.has_allocated).chain(in_use).collect();
        profile.samples = Samples::with_width(profile.sample_types.len());
        profile.labels = vec![[].into()];
        let mut label_ids = HashMap::new();
        for (stack, [objects, bytes, all_objects, all_bytes]) in samples {
            let in_use = header.scale(objects, bytes);
            let values = [header.scale(all_objects, all_bytes), in_use].concat();
            // As in pprof, the mean size of those in use, or else of all, is a label.
            let size = bytes.checked_div(objects);
            let size =
                size.or_else(|| all_bytes.checked_div(all_objects).filter(|_| header.has_allocated)).unwrap_or(0);
            let labels = &mut profile.labels;
            let id = *label_ids.entry(size).or_insert_with(|| {
                labels.push([Label { key: "bytes".into(), value: LabelValue::Number(size, "".into()) }].into());
                labels.len() as u32 - 1
            });
            profile.samples.push(&stack, &values[if header.has_allocated { 0 } else { 2 }..], id);
        }
        maps::assign(&mut profile, maps::parse(maps));
        profile
    }
}

impl Header {
    /// The numbers of objects and bytes for which those of the samples stand.
    fn scale(self, objects: i64, bytes: i64) -> [i64; 2] {
        if !self.is_sampled || self.interval <= 1 {
            return [objects, bytes];
        }
        if objects == 0 || bytes == 0 {
            return [0, 0];
        }
        let mean = bytes as f64 / objects as f64;
        let scale = 1.0 / -f64::exp_m1(-mean / self.interval as f64);
        [objects, bytes].map(|count| (count as f64 * scale) as i64)
    }
}

/// The functions of allocators, which pprof leaves out with all that they call.
const ALLOCATORS: &str = concat!(
    "calloc|cfree|malloc|free|memalign|do_memalign|(__)?posix_memalign|pvalloc|valloc|realloc|",
    "tcmalloc::.*|tc_calloc|tc_cfree|tc_malloc|tc_free|tc_memalign|tc_posix_memalign|tc_pvalloc|tc_valloc|",
    "tc_realloc|tc_new|tc_delete|tc_newarray|tc_deletearray|tc_new_nothrow|tc_newarray_nothrow|",
    "malloc_zone_malloc|malloc_zone_calloc|malloc_zone_valloc|malloc_zone_realloc|malloc_zone_memalign|",
    r"malloc_zone_free|runtime\..*|BaseArena::.*|(::)?do_malloc_no_errno|(::)?do_malloc_pages|(::)?do_malloc|",
    "DoSampledAllocation|MallocedMemBlock::MallocedMemBlock|_M_allocate|__builtin_(vec_)?delete|",
    "__builtin_(vec_)?new|__gnu_cxx::new_allocator::allocate|__libc_malloc|",
    r"__malloc_alloc_template::allocate|allocate|cpp_alloc|operator new(\[\])?|simple_alloc::allocate",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SavedProfile, ReadError> {
        super::read(&mut ProfileInput::open(text.as_bytes())?)
    }

    fn types(profile: &SavedProfile) -> Vec<&str> {
        profile.sample_types.iter().map(|of| &*of.kind).collect()
    }

    #[test]
    fn counts_of_jemalloc_are_scaled_by_its_interval() {
        let text = "heap_v2/524288\n  t*: 27: 263378 [0: 0]\n  t1: 10: 100404 [0: 0]\n@ 0x1001 0x2001\n  \
                    t*: 2: 25006 [0: 0]\n  t2: 2: 25006 [0: 0]\n@ 0x1001\n  t*: 1: 524288 [0: 0]\n\n\
                    MAPPED_LIBRARIES:\n1000-3000 r-xp 00000000 00:00 7    /srv/app\n";
        let profile = read(text).unwrap();
        assert_eq!((types(&profile), profile.period), (vec!["objects", "space"], 524_288));
        let mut samples = Vec::new();
        profile.samples.for_each(|sample| samples.push((sample.stack.to_vec(), sample.values.to_vec())));
        // 1 / (1 − e^(−12503 / 524288)) and 1 / (1 − e^−1)
        assert_eq!(samples, [(vec![0, 1], vec![84, 1_061_128]), (vec![0], vec![1, 829_411])]);
        assert_eq!(profile.locations[1].address, 0x2000);
        assert_eq!(&*profile.mappings[0].file, "/srv/app");
    }

    #[test]
    fn what_was_ever_allocated_comes_first() {
        let text = "heap profile: 1: 8 [ 3: 24] @ heapprofile\n 1: 8 [ 3: 24] @ 0x1001\n";
        let profile = read(text).unwrap();
        assert_eq!(types(&profile), ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
        let mut values = Vec::new();
        profile.samples.for_each(|sample| values.extend_from_slice(sample.values));
        assert_eq!(values, [3, 24, 1, 8]);
    }

    #[test]
    fn lines_of_a_log_ahead_are_skipped_and_counted() {
        let text = "Log file created at: 2024/05/01\nRunning on machine: a\n\n\
                    heap profile: 1: 8 [ 3: 24] @ heapprofile\n 1: 8 [ 3: 24] @ 0x1001\n";
        assert!(has_heap(text) && !is_heap(text));
        let profile = read(text).unwrap();
        assert_eq!((profile.samples.len(), profile.comments.len()), (1, 1));
        assert_eq!(&*profile.comments[0], "2 lines ahead of the heap profile were skipped");
    }

    #[test]
    fn what_is_no_heap_profile_is_refused() {
        for text in ["heap_v2/0\n", "heap_v2/x\n", "heap profile: 1: 8 [1: 8] @ shrinkz\n", "heap profile: 1\n"] {
            assert!(!is_heap(text), "{text}");
        }
        for line in ["1: 8 [1: 8]", "1: 8 @ 0x1", "1: 8 [1: 8] @ 0xg", "1: 99999999999999999999 [1: 8] @ 0x1"] {
            assert!(read(&format!("heap profile: 1: 8 [1: 8] @ heap/2\n{line}\n")).is_err(), "{line}");
        }
    }
}
