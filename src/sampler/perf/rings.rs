//! The rings of all CPUs, whose records are read in the order of their times.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use super::attributes;
use super::record::Record;
use super::ring::CpuRing;

/// Maximum number of CPUs.
const MAX_CPUS: u32 = 4096;

/// The rings of all CPUs.
pub(in super::super) struct Rings {
    rings: Vec<CpuRing>,
}

impl Rings {
    /// Makes a ring for each CPU.
    ///
    /// # Errors
    /// If the kernel does not let this user open an event, or lock memory.
    pub(in super::super) fn open() -> io::Result<Rings> {
        let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let mut rings = Vec::new();
        for cpu in parse_cpus(&text) {
            match attributes::open_owner(cpu) {
                Ok(owner) => rings.push(CpuRing::map(cpu, owner)?),
                // It has gone offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        if rings.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(Rings { rings }) }
    }

    /// The CPUs and the events that own their rings.
    pub(super) fn owners(&self) -> impl ExactSizeIterator<Item = (u32, BorrowedFd<'_>)> {
        self.rings.iter().map(|ring| (ring.cpu, ring.owner()))
    }

    /// Descriptors that are readable when there are records.
    pub(in super::super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(CpuRing::owner)
    }

    /// Returns the earliest record of all rings up to a time, ns, with its time and the index of
    /// its ring. A later one may be in a ring while an earlier one is not yet in another.
    pub(in super::super) fn peek(&self, until_ns: u64) -> Option<(usize, u64, Record<'_>)> {
        let times = self.rings.iter().enumerate().filter_map(|(index, ring)| Some((ring.peek_time()?, index)));
        let (time_ns, index) = times.min().filter(|&(time_ns, _)| time_ns <= until_ns)?;
        Some((index, time_ns, self.rings[index].peek()?))
    }

    /// Removes the next record of a ring.
    pub(in super::super) fn advance(&mut self, index: usize) {
        if let Some(ring) = self.rings.get_mut(index) {
            ring.advance();
        }
    }
}

/// Parses a list of CPUs such as `0-3,6`.
fn parse_cpus(text: &str) -> Vec<u32> {
    let range = |words: &str| {
        let (first, last) = words.split_once('-').unwrap_or((words, words));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(MAX_CPUS))
    };
    text.trim().split(',').filter_map(range).flatten().take(MAX_CPUS as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_listed() {
        assert_eq!(parse_cpus("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_cpus("0\n"), [0]);
        assert!(parse_cpus("").is_empty() && parse_cpus("x,4-,9-1").is_empty());
        assert!(parse_cpus("0-4294967295").len() <= MAX_CPUS as usize);
    }
}
