//! Finds the second part of a function that the compiler has split in two. GCC moves what it
//! takes for rarely run elsewhere; of the interpreter's loop that can be nearly everything. Only
//! the first part has an exported symbol. Its jumps lead into the middle of the second, whose
//! bounds are in the index of the unwind tables (`.eh_frame_hdr`).

use core::ops::Range;

use super::memory::{TargetMemory, half};

/// Version of the index, and encodings of its fields: relative numbers of four bytes, sorted.
const INDEX_HEADER: [u8; 4] = [1, 0x1b, 3, 0x3b];
const HEADER_BYTES: u64 = 12;
const ENTRY_BYTES: u64 = 8;
/// Maximum number of entries, and maximum size of a function's first part.
const MAX_ENTRIES: u32 = 1 << 22;
const MAX_FUNCTION_BYTES: u64 = 1 << 20;
/// Number of bytes that are read at a time, and of those that the next time are read again: an
/// instruction may lie in both.
const WINDOW: usize = 2048;
const OVERLAP: usize = 5;
/// Maximum number of functions among which jumps choose.
const MAX_CANDIDATES: usize = 8;
/// Minimum number of jumps. Bytes that only look like a jump hardly ever agree.
const MIN_JUMPS: u32 = 2;

/// Returns the address range of the second part of a function; an empty one if it has none.
pub(super) fn find_rest(memory: &impl TargetMemory, function: &Range<u64>, index: u64) -> Range<u64> {
    UnwindIndex::read(memory, index).and_then(|index| index.find_rest(function)).unwrap_or(0..0)
}

struct UnwindIndex<'a, M> {
    memory: &'a M,
    start: u64,
    count: u32,
}

impl<'a, M: TargetMemory> UnwindIndex<'a, M> {
    fn read(memory: &'a M, start: u64) -> Option<UnwindIndex<'a, M>> {
        let mut header = [0; HEADER_BYTES as usize];
        memory.read(start, &mut header)?;
        let count = half(&header, 8).filter(|&count| count <= MAX_ENTRIES)?;
        (start != 0 && header[..4] == INDEX_HEADER).then_some(UnwindIndex { memory, start, count })
    }

    /// The start of a function.
    fn entry(&self, number: u32) -> Option<u64> {
        let at = self.start.checked_add(HEADER_BYTES + ENTRY_BYTES * u64::from(number))?;
        let distance = self.memory.half(at)? as i32;
        Some(self.start.wrapping_add_signed(distance.into()))
    }

    /// The function that contains an address, up to the next one.
    fn function(&self, address: u64) -> Option<Range<u64>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle)? <= address {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        // The end of the last one is not known.
        let (start, end) = (self.entry(low.checked_sub(1)?)?, (low < self.count).then(|| self.entry(low))??);
        (start..end).contains(&address).then_some(start..end)
    }

    fn find_rest(&self, function: &Range<u64>) -> Option<Range<u64>> {
        let (first, last) = (self.entry(0)?, self.entry(self.count.checked_sub(1)?)?);
        let mut candidates: [(Range<u64>, u32); MAX_CANDIDATES] = Default::default();
        let mut at = function.start;
        let end = function.end.min(function.start.saturating_add(MAX_FUNCTION_BYTES));
        while at < end {
            let mut bytes = [0; WINDOW];
            let bytes = bytes.get_mut(..(end - at).min(WINDOW as u64) as usize)?;
            self.memory.read(at, bytes)?;
            for (offset, jump) in bytes.windows(OVERLAP + 1).enumerate() {
                let Some((distance, size)) = jump_distance(jump) else { continue };
                let target = (at + offset as u64 + size).wrapping_add_signed(distance.into());
                if function.contains(&target) || !(first..last).contains(&target) {
                    continue;
                }
                let known = candidates.iter_mut().find(|(range, _)| range.contains(&target));
                if let Some((_, jumps)) = known {
                    *jumps += 1;
                } else if let Some(free) = candidates.iter_mut().find(|(_, jumps)| *jumps == 0)
                    && let Some(range) = self.function(target)
                    // A jump to the start of a function calls it.
                    && range.start != target
                {
                    *free = (range, 1);
                }
            }
            at += (bytes.len().saturating_sub(OVERLAP)).max(1) as u64;
        }
        let (range, jumps) = candidates.into_iter().max_by_key(|(_, jumps)| *jumps)?;
        (jumps >= MIN_JUMPS).then_some(range)
    }
}

/// Returns the distance of a jump with four bytes for it, and the size of the instruction.
fn jump_distance(bytes: &[u8]) -> Option<(i32, u64)> {
    match *bytes {
        [0x0f, 0x80..=0x8f, a, b, c, d] => Some((i32::from_le_bytes([a, b, c, d]), 6)),
        [0xe9, a, b, c, d, _] => Some((i32::from_le_bytes([a, b, c, d]), 5)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl TargetMemory for Bytes {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            let start = usize::try_from(address).ok()?;
            buffer.copy_from_slice(self.0.get(start..)?.get(..buffer.len())?);
            Some(())
        }
    }

    const INDEX: u64 = 0x10;
    /// The first part, and the starts of all functions. The second one is the second part.
    const LOOP: Range<u64> = 0x3000..0x5000;
    const STARTS: [u64; 5] = [0x1000, 0x2000, 0x2800, 0x3000, 0x5000];

    /// A process whose loop has jumps, each at an address and to one.
    fn process(jumps: &[(u64, u64)]) -> Bytes {
        let mut bytes = vec![0; 0x6000];
        let mut write = |at: u64, new: &[u8]| bytes[at as usize..at as usize + new.len()].copy_from_slice(new);
        write(INDEX, &INDEX_HEADER);
        write(INDEX + 8, &(STARTS.len() as u32).to_le_bytes());
        for (entry, start) in STARTS.iter().enumerate() {
            write(INDEX + HEADER_BYTES + ENTRY_BYTES * entry as u64, &((start - INDEX) as u32).to_le_bytes());
        }
        for (number, &(from, to)) in jumps.iter().enumerate() {
            let (code, size): (&[u8], u64) = if number % 2 == 0 { (&[0x0f, 0x84], 6) } else { (&[0xe9], 5) };
            write(from, code);
            write(from + code.len() as u64, &(to.wrapping_sub(from + size) as u32).to_le_bytes());
        }
        Bytes(bytes)
    }

    #[test]
    fn the_rest_is_where_jumps_lead() {
        // One of them lies on the border of two readings, and others call functions.
        let jumps = [(0x3004, 0x2010), (0x37fd, 0x2400), (0x3100, 0x2800), (0x3200, 0x2800), (0x3300, 0x1004)];
        assert_eq!(find_rest(&process(&jumps), &LOOP, INDEX), 0x2000..0x2800);
        assert_eq!(find_rest(&process(&jumps[2..]), &LOOP, INDEX), 0..0, "calls, and a single jump");
        assert_eq!(find_rest(&process(&[(0x3004, 0x4000), (0x3104, 0x4000)]), &LOOP, INDEX), 0..0);
        assert_eq!(find_rest(&process(&jumps), &LOOP, 0), 0..0, "no index");
    }

    proptest::proptest! {
        /// Whatever the index and the code say, the search ends.
        #[test]
        fn hostile_bytes_are_survived(
            changes in proptest::collection::vec((0usize..0x6000, proptest::num::u8::ANY), 0..40),
            function in (0u64..0x7000, 0u64..0x7000),
        ) {
            let Bytes(mut bytes) = process(&[(0x3004, 0x2010), (0x37fd, 0x2400)]);
            // Half of them hit the index.
            changes.into_iter().enumerate().for_each(|(number, (at, byte))| {
                bytes[if number % 2 == 0 { at % 0x60 } else { at }] = byte;
            });
            let rest = find_rest(&Bytes(bytes), &(function.0..function.1), INDEX);
            proptest::prop_assert!(rest.start <= rest.end);
        }
    }
}
