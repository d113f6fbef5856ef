//! A line of `/proc/PID/task/TID/syscall`: where a thread sleeps.

use crate::wire::{BlockingCall, parse_number};

/// Instruction and stack pointer of a sleeping thread, and its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepLocation {
    /// The address of the next instruction.
    pub(crate) ip: u64,
    /// The stack pointer.
    pub(crate) sp: u64,
    /// The system call that it is in, if the kernel tells.
    pub(crate) call: Option<BlockingCall>,
}

impl SleepLocation {
    /// Parses `NUMBER ARGUMENTS… SP PC`, or `-1 SP PC` outside of a system call. Returns `None` for
    /// `running`, and for a thread that has ended, whose pointers are 0.
    pub(crate) fn parse(line: &[u8]) -> Option<SleepLocation> {
        let hex = |word: &[u8]| parse_number(word.strip_prefix(b"0x")?, 16).filter(|&address| address != 0);
        let mut words = line.trim_ascii_end().rsplit(|&byte| byte == b' ').map(hex);
        Some(SleepLocation { ip: words.next()??, sp: words.next()??, call: BlockingCall::parse(line) })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sleeper_has_an_instruction_and_a_stack_pointer() {
        for line in ["230 0x0 0x0 0x7ffc 0x0 0x0 0x0 0x7ffd0010 0x7f12\n", "-1 0x7ffd0010 0x7f12"] {
            let call = BlockingCall::parse(line.as_bytes());
            assert!(call.is_some());
            let location = SleepLocation { ip: 0x7f12, sp: 0x7ffd_0010, call };
            assert_eq!(SleepLocation::parse(line.as_bytes()), Some(location));
        }
        for line in ["running\n", "", "0 0x0 0x0", "-1 0x0 0x0\n", "202 x y"] {
            assert_eq!(SleepLocation::parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lines_of_the_kernel_do_no_harm(
            line in "(-1|running|[0-9]{1,12})?( (0x)?[0-9a-fA-F]{0,18}){0,10}\\n?|.{0,80}",
        ) {
            let words = line.trim_end().split(' ').rev().take(2).collect::<Vec<_>>();
            if let Some(location) = SleepLocation::parse(line.as_bytes()) {
                let word = |at: usize| u64::from_str_radix(words[at].trim_start_matches("0x"), 16);
                prop_assert_eq!((Ok(location.ip), Ok(location.sp)), (word(0), word(1)));
            }
        }
    }
}
