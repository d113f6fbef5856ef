//! Reads what the threads of a process wait for.

use alloc::vec::Vec;

use super::calls::LOCK_WORDS;
use super::polled::PolledDescriptors;
use super::reason::WaitReason;
use super::source::WaitSource;
use crate::wire::{BlockingCall, MAX_OBJECT, Wait};

/// Maximum length of the name of a function of the kernel in bytes.
const MAX_FUNCTION: usize = 64;

/// The wait of a thread, as it was last found.
#[derive(Default)]
pub(crate) struct SleeperWait {
    /// The wait; `None` before the first, and where the kernel does not tell.
    wait: Option<Wait<Vec<u8>>>,
    /// Whether the viewer knows it.
    is_sent: bool,
    /// The descriptors that it polls.
    polled: PolledDescriptors,
    /// Number of readings of the same call since the descriptors of an epoll were read.
    repeats: u8,
}

/// Number of readings of a wait for an epoll after which its descriptors are read again. The kernel
/// lists them all, which takes longer than everything else that is read of a wait.
const REPEATS: u8 = 64;

impl SleeperWait {
    /// Returns the wait, if the viewer does not know it yet.
    pub(crate) fn unsent(&self) -> Option<&Wait<Vec<u8>>> {
        self.wait.as_ref().filter(|_| !self.is_sent)
    }

    /// Notes that the viewer knows the wait.
    pub(crate) fn set_sent(&mut self, is_sent: bool) {
        self.is_sent = is_sent;
    }

    /// Returns whether the viewer knows what the thread waits for.
    pub(crate) fn is_known(&self) -> bool {
        self.wait.is_some() && self.is_sent
    }

    fn set(&mut self, wait: Option<Wait<Vec<u8>>>) {
        if self.wait != wait {
            self.wait = wait;
            self.is_sent = false;
        }
    }
}

/// Finds out what the threads of a process wait for.
pub(crate) struct WaitReader<S> {
    /// The process.
    pub(crate) source: S,
    /// Whether `/proc` numbers the threads as the process itself does.
    knows_threads: bool,
}

impl<S: WaitSource> WaitReader<S> {
    /// Makes a reader for a process. `knows_threads` says whether `/proc` numbers its threads as
    /// the process itself does.
    pub(crate) fn new(source: S, knows_threads: bool) -> WaitReader<S> {
        WaitReader { source, knows_threads }
    }

    /// Reads what a thread waits for in a call. `threads` counts the threads of the process.
    pub(crate) fn read(
        &self,
        wait: &mut SleeperWait,
        tid: u32,
        call: Option<BlockingCall>,
        threads: impl Fn(&S) -> usize,
    ) {
        let earlier = wait.wait.as_ref().map(|known| known.call);
        let read = call.map(|call| call.or_restarted(earlier)).map(|call| {
            let (object, is_file) = match call.reason() {
                WaitReason::Poll => (self.describe_polled(wait, tid, &call), false),
                _ => match (call.opened_path(), call.descriptor()) {
                    (Some(path), _) => self.describe_opened(tid, path),
                    (None, Some(descriptor)) => self.source.file(tid, descriptor),
                    (None, None) => (Vec::new(), false),
                },
            };
            Wait { tid, call, holder: self.holder(tid, &call, threads), is_file, object }
        });
        wait.set(read);
    }

    /// Describes what a thread opens. The file system, which may hang, is not asked.
    fn describe_opened(&self, tid: u32, address: u64) -> (Vec<u8>, bool) {
        let (mut path, mut function) = ([0; MAX_OBJECT - 8], [0; MAX_FUNCTION]);
        let length = self.source.memory(address, &mut path);
        let read = self.source.kernel_function(tid, &mut function);
        BlockingCall::describe_opened(&path[..length], &function[..read])
    }

    /// Describes what a thread polls. What was found before is kept while it polls the same.
    fn describe_polled(&self, wait: &mut SleeperWait, tid: u32, call: &BlockingCall) -> Vec<u8> {
        let known = wait.wait.as_ref().filter(|known| known.call == *call);
        wait.repeats = if known.is_some() { wait.repeats.wrapping_add(1) % REPEATS } else { 0 };
        let polled = match known {
            Some(_) if call.polls_epoll() && wait.repeats > 0 => wait.polled,
            _ => PolledDescriptors::read(call, tid, &self.source),
        };
        match known.filter(|_| polled == wait.polled && wait.repeats > 0) {
            Some(known) => known.object.clone(),
            None => {
                wait.polled = polled;
                polled.describe(tid, &self.source)
            }
        }
    }

    /// Reads the holder of the lock again for which a thread has waited before: it may be another.
    pub(crate) fn read_holder(&self, wait: &mut SleeperWait, threads: impl Fn(&S) -> usize) {
        let Some(known) = &mut wait.wait else { return };
        let holder = self.holder(known.tid, &known.call, threads);
        if core::mem::replace(&mut known.holder, holder) != holder {
            wait.is_sent = false;
        }
    }

    /// Returns the other thread of this process that holds the lock; 0 if there is none, or it is
    /// not the same in two readings.
    fn holder(&self, tid: u32, call: &BlockingCall, threads: impl Fn(&S) -> usize) -> u32 {
        let Some((address, count)) = call.holder_words().filter(|_| self.knows_threads) else { return 0 };
        let threads = threads(&self.source);
        let read = || {
            let mut bytes = [0; 4 * LOCK_WORDS];
            let wanted = bytes.get_mut(..4 * count)?;
            if self.source.memory(address, wanted) != wanted.len() {
                return None;
            }
            let (words, _) = bytes.as_chunks::<4>();
            let mut lock = [0; LOCK_WORDS];
            lock.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_ne_bytes(*bytes));
            call.holder(lock.get(..count)?, threads)
        };
        let first = read();
        first.filter(|&holder| holder != tid && self.source.is_thread(holder) && read() == first).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    /// Memory from address 0x1000 on, one thread, and a file behind every descriptor.
    struct FakeProcess {
        memory: Vec<u8>,
        thread: u32,
        function: &'static [u8],
    }

    impl WaitSource for FakeProcess {
        fn memory(&self, address: u64, buffer: &mut [u8]) -> usize {
            let bytes = self.memory.get((address as usize).wrapping_sub(0x1000)..).unwrap_or_default();
            let length = buffer.len().min(bytes.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
            length
        }

        fn kernel_function(&self, _: u32, buffer: &mut [u8]) -> usize {
            buffer[..self.function.len()].copy_from_slice(self.function);
            self.function.len()
        }

        fn description(&self, _: u32, _: u32, _: &mut [u8]) -> usize {
            0
        }

        fn file(&self, _: u32, _: u32) -> (Vec<u8>, bool) {
            (b"/data".to_vec(), true)
        }

        fn is_thread(&self, tid: u32) -> bool {
            tid == self.thread
        }
    }

    fn call(number: u32, arguments: [u64; 3]) -> Option<BlockingCall> {
        Some(BlockingCall { number: Some(number), arguments })
    }

    #[test]
    fn the_holder_of_a_lock_is_another_live_thread() {
        let memory = [2u32, 0, 7, 1, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut reader = WaitReader::new(FakeProcess { memory, thread: 7, function: b"" }, true);
        let holder = |reader: &WaitReader<FakeProcess>, tid, address| {
            reader.holder(tid, &call(202, [address, 0x80, 2]).unwrap(), |_| 8)
        };
        assert_eq!(holder(&reader, 6, 0x1000), 7);
        assert_eq!(holder(&reader, 7, 0x1000), 0, "a thread does not wait for itself");
        assert_eq!(holder(&reader, 6, 8), 0, "it is not mapped");
        assert_eq!(holder(&reader, 6, 0x1004), 0, "it is not whole");
        reader.source.thread = 9;
        assert_eq!(holder(&reader, 6, 0x1000), 0, "it has ended");
        (reader.source.thread, reader.knows_threads) = (7, false);
        assert_eq!(holder(&reader, 6, 0x1000), 0, "the process is in another namespace");
    }

    #[test]
    fn a_wait_is_sent_once_and_again_when_it_changes() {
        let memory = [2u32, 0, 7, 1, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut reader = WaitReader::new(FakeProcess { memory, thread: 7, function: b"wait_for_partner" }, true);
        let mut wait = SleeperWait::default();
        assert!(wait.unsent().is_none() && !wait.is_known());
        reader.read(&mut wait, 6, call(202, [0x1000, 0x80, 2]), |_| 8);
        assert_eq!(wait.unsent().map(|wait| wait.holder), Some(7));
        wait.set_sent(true);
        reader.read_holder(&mut wait, |_| 8);
        assert!(wait.unsent().is_none() && wait.is_known());
        reader.source.memory[8] = 9;
        reader.read_holder(&mut wait, |_| 8);
        assert_eq!(wait.unsent().map(|wait| wait.holder), Some(0));
        reader.read(&mut wait, 6, call(0, [3, 0, 0]), |_| 8);
        assert_eq!(wait.unsent().map(|wait| (&*wait.object, wait.is_file)), Some((&b"/data"[..], true)));
        reader.source.memory = vec![b'f', 0];
        reader.read(&mut wait, 6, call(257, [0, 0x1000, 0]), |_| 8);
        assert_eq!(wait.unsent().map(|wait| (&*wait.object, wait.is_file)), Some((&b"pipe f"[..], false)));
        reader.read(&mut wait, 6, None, |_| 8);
        assert!(wait.unsent().is_none() && !wait.is_known());
    }
}
