//! Inspects a process through /proc, for everything that an agent must not leave there.

use std::fs;

/// The properties of a process that a guest could change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Number of threads.
    pub(crate) threads: usize,
    /// The open descriptors.
    pub(crate) descriptors: Vec<u32>,
    /// Number of POSIX timers.
    pub(crate) timers: usize,
}

/// Inspects a process.
pub(crate) fn look(pid: u32) -> Seen {
    let entries = |part: &str| {
        let path = format!("/proc/{pid}/{part}");
        let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    let timers = fs::read_to_string(format!("/proc/{pid}/timers")).unwrap_or_default();
    Seen {
        threads: entries("task").len(),
        descriptors: entries("fd"),
        timers: timers.lines().filter(|line| line.starts_with("ID:")).count(),
    }
}

/// Returns the peak resident memory of a process in bytes.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    1024 * peak.unwrap_or_else(|| panic!("no VmHWM of {pid}: {status}"))
}

/// Returns whether a process has used enough CPU time to be past its start.
pub(crate) fn is_at_work(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may contain anything. User time in hundredths of a second is the twelfth word after
    // it.
    let after = stat.rsplit(')').next().unwrap_or("");
    after.split_whitespace().nth(11).and_then(|word| word.parse::<u64>().ok()).is_some_and(|ticks| ticks >= 5)
}
