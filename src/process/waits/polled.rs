//! The descriptors that a thread polls: those in the array of poll(2), in the sets of select(2),
//! or in an epoll. The caller reads memory and files, whose contents are hostile.

use alloc::vec::Vec;

use super::source::WaitSource;
use crate::wire::{BlockingCall, MAX_OBJECT};

/// Maximum number of descriptors of one wait that are looked at. A socket is looked for among them.
const MAX_POLLED: usize = 8;
/// Bytes of an array, of a set, or of the text about an epoll that are read: 64 elements of an
/// array, some 50 of an epoll.
const READ: usize = 4096;
const MAX_ARRAY: u64 = 64;
const MAX_SET: u64 = 1024;
const POLLFD: usize = 8;
/// Maximum length of ` and at least 1234 more`, with any number.
const SUFFIX: usize = 40;

/// Some descriptors that are polled, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PolledDescriptors {
    first: [u32; MAX_POLLED],
    count: u64,
    /// Whether there may be more than were counted.
    is_cut: bool,
}

impl PolledDescriptors {
    /// Reads the descriptors that the call of a thread polls. There are none if it polls nothing,
    /// or if the memory cannot be read.
    pub(super) fn read(call: &BlockingCall, tid: u32, source: &impl WaitSource) -> PolledDescriptors {
        let mut all = PolledDescriptors::default();
        let mut buffer = [0; READ];
        match call.polls() {
            None => {}
            Some(Polls::Array { address, count }) => {
                let length = count.min(MAX_ARRAY) as usize * POLLFD;
                let length = source.memory(address, &mut buffer[..length]);
                let (words, _) = buffer[..length].as_chunks::<POLLFD>();
                for &[a, b, c, d, ..] in words {
                    // A negative descriptor is not polled.
                    u32::try_from(i32::from_le_bytes([a, b, c, d])).into_iter().for_each(|fd| all.add(fd));
                }
                all.is_cut = count > MAX_ARRAY;
            }
            Some(Polls::Sets { sets, count }) => {
                let mut wanted = [0; MAX_SET as usize / 8];
                for set in sets.into_iter().filter(|&set| set != 0) {
                    let length = source.memory(set, &mut buffer[..wanted.len()]);
                    wanted.iter_mut().zip(&buffer[..length]).for_each(|(wanted, byte)| *wanted |= byte);
                }
                let is_in = |fd: &u32| wanted[*fd as usize / 8] >> (fd % 8) & 1 == 1;
                (0..count.min(MAX_SET) as u32).filter(is_in).for_each(|fd| all.add(fd));
            }
            Some(Polls::Epoll(epoll)) => {
                let length = source.description(tid, epoll, &mut buffer).min(READ);
                // The last line may be cut.
                let lines = buffer[..length].split_inclusive(|&byte| byte == b'\n');
                lines.filter(|line| line.ends_with(b"\n")).filter_map(epoll_target).for_each(|fd| all.add(fd));
                all.is_cut = length == READ;
            }
        }
        all
    }

    fn add(&mut self, descriptor: u32) {
        if let Some(place) = self.first.get_mut(self.count as usize) {
            *place = descriptor;
        }
        self.count += 1;
    }

    /// Names the file behind one descriptor, a socket if there is one, and the number of the
    /// others: `socket:[1234] and 3 more`. The text is empty without descriptors.
    pub(super) fn describe(&self, tid: u32, source: &impl WaitSource) -> Vec<u8> {
        let first = &self.first[..self.first.len().min(self.count as usize)];
        let mut object = Vec::new();
        for &descriptor in first {
            let (file, _) = source.file(tid, descriptor);
            let is_socket = file.starts_with(b"socket:[");
            if object.is_empty() || is_socket {
                object = file;
            }
            if is_socket {
                break;
            }
        }
        let others = self.count.saturating_sub(1);
        if others > 0 && !object.is_empty() {
            let more = if self.is_cut { "at least " } else { "" };
            object.truncate(MAX_OBJECT - SUFFIX);
            [b" and ", more.as_bytes()].into_iter().for_each(|words| object.extend_from_slice(words));
            push_number(&mut object, others);
            object.extend_from_slice(b" more");
        }
        object
    }
}

/// Appends a number. The agent has no `format!`, which needs code for unwinding panics.
fn push_number(text: &mut Vec<u8>, number: u64) {
    if number > 9 {
        push_number(text, number / 10);
    }
    text.push(b'0' + (number % 10) as u8);
}

/// Parses a line of `/proc/PID/fdinfo/FD` about a descriptor in an epoll: `tfd:  5 events: …`.
fn epoll_target(line: &[u8]) -> Option<u32> {
    let rest = line.strip_prefix(b"tfd:")?.trim_ascii_start();
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// The descriptors that a call polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polls {
    /// An array of `struct pollfd`.
    Array { address: u64, count: u64 },
    /// Sets of descriptors below a number.
    Sets { sets: [u64; 2], count: u64 },
    /// The descriptors in an epoll.
    Epoll(u32),
}

impl BlockingCall {
    /// Whether the call polls an epoll.
    pub(super) fn polls_epoll(&self) -> bool {
        matches!(self.polls(), Some(Polls::Epoll(_)))
    }

    fn polls(&self) -> Option<Polls> {
        let [first, second, third] = self.arguments;
        Some(match self.number? {
            7 | 271 => Polls::Array { address: first, count: second },
            23 | 270 => Polls::Sets { sets: [second, third], count: first },
            232 | 281 | 441 => Polls::Epoll(first as u32),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::{format, vec};

    use proptest::prelude::*;

    use super::*;

    /// Memory from address 0x1000 on, and the text about every descriptor.
    struct Fake(Vec<u8>, Vec<u8>);

    impl WaitSource for Fake {
        fn memory(&self, address: u64, buffer: &mut [u8]) -> usize {
            let from = (address as usize).wrapping_sub(0x1000).min(self.0.len());
            let length = buffer.len().min(self.0.len() - from);
            buffer[..length].copy_from_slice(&self.0[from..from + length]);
            length
        }

        fn description(&self, _: u32, _: u32, buffer: &mut [u8]) -> usize {
            let length = buffer.len().min(self.1.len());
            buffer[..length].copy_from_slice(&self.1[..length]);
            length
        }

        fn file(&self, _: u32, descriptor: u32) -> (Vec<u8>, bool) {
            let file = if descriptor < 10 { "anon_inode:[eventfd]".into() } else { format!("socket:[{descriptor}]") };
            (file.into_bytes(), false)
        }

        fn kernel_function(&self, _: u32, _: &mut [u8]) -> usize {
            0
        }

        fn is_thread(&self, _: u32) -> bool {
            false
        }
    }

    fn describe(number: u32, arguments: [u64; 3], source: &Fake) -> String {
        let call = BlockingCall { number: Some(number), arguments };
        let object = PolledDescriptors::read(&call, 1, source).describe(1, source);
        String::from_utf8(object).unwrap()
    }

    #[test]
    fn one_descriptor_is_named_and_the_others_are_counted() {
        let array = |fds: &[i32]| fds.iter().flat_map(|fd| [fd.to_le_bytes(), [1, 0, 0, 0]]).flatten().collect();
        let source = Fake(array(&[3, -1, 12, 13]), Vec::new());
        assert_eq!(describe(7, [0x1000, 4, 0], &source), "socket:[12] and 2 more");
        assert_eq!(describe(271, [0x1000, 1, 0], &source), "anon_inode:[eventfd]");
        assert_eq!(describe(7, [0x1008, 1, 0], &source), "", "none is polled");
        assert_eq!(describe(7, [0, 0, 100], &source), "", "it only sleeps");
        assert_eq!(describe(7, [0x1000, 100, 0], &source), "socket:[12] and at least 2 more");
        let sets = Fake(vec![0b10_0000, 0b1000, 0, 0, 0, 0, 0, 0], Vec::new());
        assert_eq!(describe(23, [12, 0x1000, 0], &sets), "socket:[11] and 1 more");
        assert_eq!(describe(270, [6, 0, 0x1000], &sets), "anon_inode:[eventfd]");
        let text =
            b"pos:\t0\nflags:\t02\ntfd:        4 events: 1 data: 4  pos:0\ntfd:       14 events: 19\ntfd:      5";
        assert_eq!(describe(232, [3, 0, 0], &Fake(Vec::new(), text.to_vec())), "socket:[14] and 1 more");
        assert_eq!(describe(0, [3, 0, 0], &source), "", "read(2) polls nothing");
    }

    proptest! {
        #[test]
        fn hostile_memory_and_texts_do_no_harm(
            number in prop::sample::select(vec![7u32, 23, 232, 270, 271, 281, 441]),
            arguments in prop::array::uniform3(prop_oneof![0u64..0x2000, any::<u64>()]),
            memory in prop::collection::vec(any::<u8>(), 0..5000),
            text in "(tfd: *[0-9]{1,12}[ x]|pos:|.){0,300}(\n|tfd:1\n){0,20}",
        ) {
            let source = Fake(memory, text.into_bytes());
            prop_assert!(describe(number, arguments, &source).len() <= MAX_OBJECT);
        }
    }
}
