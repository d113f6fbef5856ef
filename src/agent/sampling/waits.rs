//! Tells what a sleeping thread waits for: the descriptor behind its system call, and the thread
//! that holds the lock it wants. Only the kernel is asked; the thread is not woken.

use alloc::vec::Vec;

use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::status;
use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::wire::{BlockingCall, LOCK_WORDS, MAX_OBJECT, PolledDescriptors, PolledSource, Wait, WaitReason};

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
    /// The wait, if the viewer does not know it yet.
    pub(crate) fn unsent(&self) -> Option<&Wait<Vec<u8>>> {
        self.wait.as_ref().filter(|_| !self.is_sent)
    }

    /// Notes that the viewer knows the wait.
    pub(crate) fn set_sent(&mut self, is_sent: bool) {
        self.is_sent = is_sent;
    }

    /// Whether the viewer knows what the thread waits for.
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

/// Finds out what threads wait for.
pub(crate) struct WaitReader {
    memory: ProcessMemory,
    /// Whether `/proc` numbers the threads as the process itself does.
    knows_threads: bool,
}

impl WaitReader {
    /// Makes a reader for this process.
    pub(crate) fn new() -> WaitReader {
        WaitReader { memory: ProcessMemory::open(), knows_threads: status::own_pid() == syscall::getpid() }
    }

    /// Reads what a thread waits for in a call. `threads` is the number of threads of the process.
    pub(crate) fn read(&self, wait: &mut SleeperWait, tid: u32, call: Option<BlockingCall>, threads: usize) {
        let earlier = wait.wait.as_ref().map(|known| known.call);
        let read = call.map(|call| call.or_restarted(earlier)).map(|call| {
            let (object, is_file) = match call.reason() {
                WaitReason::Poll => (self.describe_polled(wait, tid, &call), false),
                _ if call.opened_path().is_some() => self.describe_opened(tid, &call),
                _ => call.descriptor().map(|fd| describe_descriptor(tid, fd)).unwrap_or_default(),
            };
            Wait { tid, call, holder: self.holder(tid, &call, threads), is_file, object }
        });
        wait.set(read);
    }

    /// Describes what a thread opens. The file system, which may hang, is not asked.
    /// /proc/PID/wchan
    fn describe_opened(&self, tid: u32, call: &BlockingCall) -> (Vec<u8>, bool) {
        let (mut path, mut function) = ([0; MAX_OBJECT - 8], [0; 32]);
        let length = call.opened_path().map_or(0, |address| self.memory.read_some(address, &mut path));
        let file = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/wchan");
        let read = File::open(file.terminated(), 0).map_or(0, |file| file.read_at(&mut function, 0));
        BlockingCall::describe_opened(&path[..length], &function[..read])
    }

    /// Describes what a thread polls. What was found before is kept while it polls the same.
    fn describe_polled(&self, wait: &mut SleeperWait, tid: u32, call: &BlockingCall) -> Vec<u8> {
        let source = OwnPolls { memory: &self.memory, tid };
        let known = wait.wait.as_ref().filter(|known| known.call == *call);
        wait.repeats = if known.is_some() { wait.repeats.wrapping_add(1) % REPEATS } else { 0 };
        let polled = match known {
            Some(_) if call.polls_epoll() && wait.repeats > 0 => wait.polled,
            _ => PolledDescriptors::read(call, &source),
        };
        match known.filter(|_| polled == wait.polled && wait.repeats > 0) {
            Some(known) => known.object.clone(),
            None => {
                wait.polled = polled;
                polled.describe(&source)
            }
        }
    }

    /// Reads the holder of the lock again for which a thread has waited before: it may be another.
    pub(crate) fn read_holder(&self, wait: &mut SleeperWait, threads: usize) {
        let Some(known) = wait.wait.as_mut().filter(|wait| wait.call.holder_words().is_some()) else { return };
        let holder = self.holder(known.tid, &known.call, threads);
        if core::mem::replace(&mut known.holder, holder) != holder {
            wait.is_sent = false;
        }
    }

    /// Returns the other thread of this process that holds the lock; 0 if there is none, or it is
    /// not the same in two readings.
    fn holder(&self, tid: u32, call: &BlockingCall, threads: usize) -> u32 {
        let Some((address, count)) = call.holder_words().filter(|_| self.knows_threads) else { return 0 };
        let read = || {
            let mut bytes = [0; 4 * LOCK_WORDS];
            self.memory.read(address, bytes.get_mut(..4 * count)?)?;
            let (words, _) = bytes.as_chunks::<4>();
            let mut lock = [0; LOCK_WORDS];
            lock.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_ne_bytes(*bytes));
            call.holder(lock.get(..count)?, threads)
        };
        let first = read();
        first.filter(|&holder| holder != tid && is_thread(holder) && read() == first).unwrap_or(0)
    }
}

/// Reads what a thread of this process polls.
struct OwnPolls<'a> {
    memory: &'a ProcessMemory,
    tid: u32,
}

impl PolledSource for OwnPolls<'_> {
    fn memory(&self, address: u64, buffer: &mut [u8]) -> usize {
        self.memory.read_some(address, buffer)
    }

    /// /proc/PID/fdinfo
    fn description(&self, descriptor: u32, buffer: &mut [u8]) -> usize {
        let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(self.tid.into());
        let path = path.text(b"/fdinfo/").number(descriptor.into());
        File::open(path.terminated(), 0).map_or(0, |file| file.read_at(buffer, 0))
    }

    fn file(&self, descriptor: u32) -> Vec<u8> {
        describe_descriptor(self.tid, descriptor).0
    }
}

/// Whether this process has a thread with that id.
fn is_thread(tid: u32) -> bool {
    let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into());
    File::open(path.terminated(), libc::O_PATH).is_some()
}

/// Returns the file behind a descriptor of a thread, and whether it is a regular one.
/// /proc/PID/fd
fn describe_descriptor(tid: u32, fd: u32) -> (Vec<u8>, bool) {
    let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/fd/").number(fd.into());
    let mut object = alloc::vec![0; MAX_OBJECT];
    let length = syscall::read_link(path.terminated(), &mut object);
    object.truncate(length);
    let is_file = object.first() == Some(&b'/') && syscall::is_regular_file(path.terminated());
    (object, is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_described_by_their_files() {
        let tid = syscall::gettid();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file) as u32;
        let executable = std::env::current_exe().unwrap();
        assert_eq!(describe_descriptor(tid, fd), (executable.as_os_str().as_encoded_bytes().to_vec(), true));
        let (reader, _writer) = std::io::pipe().unwrap();
        let (object, is_file) = describe_descriptor(tid, std::os::fd::AsRawFd::as_raw_fd(&reader) as u32);
        assert!(object.starts_with(b"pipe:[") && !is_file);
        assert_eq!(describe_descriptor(tid, 1_000_000), (Vec::new(), false));
    }

    #[test]
    fn the_holder_of_a_lock_is_another_live_thread() {
        let reader = WaitReader::new();
        let call = |lock: &[u32; 10]| {
            let arguments = [lock.as_ptr() as u64, 0x80, 2];
            BlockingCall { number: Some(libc::SYS_futex as u32), arguments }
        };
        let (tell, received) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(syscall::gettid()).unwrap();
            let _ = wait.recv();
        });
        let holder = received.recv().unwrap();
        let lock = [2, 0, holder, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(reader.holder(syscall::gettid(), &call(&lock), 8), holder);
        assert_eq!(reader.holder(holder, &call(&lock), 8), 0, "a thread does not wait for itself");
        drop(done);
        other.join().unwrap();
        while is_thread(holder) {
            std::thread::yield_now();
        }
        assert_eq!(reader.holder(syscall::gettid(), &call(&lock), 8), 0, "it has ended");
        let unmapped = BlockingCall { number: Some(libc::SYS_futex as u32), arguments: [8, 0x80, 2] };
        assert_eq!(reader.holder(syscall::gettid(), &unmapped, 8), 0);
    }
}
