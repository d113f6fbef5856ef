//! The kernel's scheduler: the figures that it tells of a thread, and its tick.

use super::digits::parse_number;

/// The longest scheduler tick in use (100 Hz), ns.
pub const SCHEDULER_TICK_NS: u64 = 10_000_000;

/// The scheduler's figures of a thread. /proc/PID/task/TID/schedstat
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Time it ran, ns; for a running thread as of the last scheduler tick.
    pub ran_ns: u64,
    /// Time it waited for a CPU, ns; as of when it was last put on one.
    pub delayed_ns: u64,
    /// Number of times that it was put on a CPU.
    pub slices: u64,
}

impl Schedule {
    /// Parses three numbers.
    pub fn parse(text: &[u8]) -> Option<Schedule> {
        let mut fields = text.split(|byte| byte.is_ascii_whitespace()).map(|digits| parse_number(digits, 10));
        Some(Schedule { ran_ns: fields.next()??, delayed_ns: fields.next()??, slices: fields.next()?? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_read_or_refused() {
        let schedule = Schedule { ran_ns: 118_342, delayed_ns: 20_193, slices: 7 };
        assert_eq!(Schedule::parse(b"118342 20193 7\n"), Some(schedule));
        for text in [&b""[..], b"\n", b"1 2", b"1 2 x", b"1 -2 3", b"99999999999999999999 0 0"] {
            assert_eq!(Schedule::parse(text), None);
        }
    }
}
