//! Raw system calls. libc's wrappers set errno, take locks and are cancellation points, none of
//! which the agent may touch. Every call here returns the kernel's result; a negative number is an
//! error.
//!
//! These functions are the kernel's interface only; the callers document the purpose of their
//! calls.

use crate::process::cpython::memory::MAX_GATHERED;

macro_rules! syscall {
    ($number:expr) => { $crate::arch::raw_syscall($number, [0; 6]) };
    ($number:expr, $a:expr) => { $crate::arch::raw_syscall($number, [$a as usize, 0, 0, 0, 0, 0]) };
    ($number:expr, $a:expr, $b:expr) => { $crate::arch::raw_syscall($number, [$a as usize, $b as usize, 0, 0, 0, 0]) };
    ($number:expr, $a:expr, $b:expr, $c:expr) => {
        $crate::arch::raw_syscall($number, [$a as usize, $b as usize, $c as usize, 0, 0, 0])
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::arch::raw_syscall($number, [$a as usize, $b as usize, $c as usize, $d as usize, 0, 0])
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        $crate::arch::raw_syscall($number, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0])
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::arch::raw_syscall($number, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize])
    };
}
pub(crate) use syscall;

/// Returns the process id, as this process sees it. getpid(2)
pub(crate) fn getpid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { syscall!(libc::SYS_getpid) as u32 }
}

/// Returns the thread id of the caller. gettid(2)
pub(crate) fn gettid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { syscall!(libc::SYS_gettid) as u32 }
}

/// Returns whether this process has a thread with this id. tgkill(2)
pub(crate) fn has_thread(tid: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    unsafe { syscall!(libc::SYS_tgkill, getpid(), tid, 0) == 0 }
}

/// Returns the time of a clock, ns; 0 if the kernel does not have the clock. clock_gettime(2)
pub(crate) fn clock_ns(clock: i32) -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes one timespec.
    let result = unsafe { syscall!(libc::SYS_clock_gettime, clock, time.as_mut_ptr()) };
    if result < 0 { 0 } else { time[0] * 1_000_000_000 + time[1] }
}

/// Returns the time of `CLOCK_MONOTONIC`, ns.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the time since the last scheduler tick, ns, which is when the coarse clock was updated.
/// clock_gettime(2)
pub(crate) fn since_tick_ns() -> u64 {
    monotonic_ns().saturating_sub(clock_ns(libc::CLOCK_MONOTONIC_COARSE))
}

/// Returns the period of the scheduler tick, ns: the resolution of the kernel's coarse clocks.
/// clock_getres(2)
pub(crate) fn tick_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes one timespec.
    unsafe { syscall!(libc::SYS_clock_getres, libc::CLOCK_REALTIME_COARSE, time.as_mut_ptr()) };
    time[1]
}

/// Lets other threads run. sched_yield(2)
pub(crate) fn yield_now() {
    // SAFETY: no arguments.
    unsafe { syscall!(libc::SYS_sched_yield) };
}

/// Returns the number of processors that the calling thread may run on; 1 if it cannot be read.
/// sched_getaffinity(2)
pub(crate) fn processors() -> usize {
    let mut set = [0u64; 128];
    // SAFETY: the kernel writes at most as many bytes, and returns how many.
    let result = unsafe { syscall!(libc::SYS_sched_getaffinity, 0, size_of_val(&set), set.as_mut_ptr()) };
    let count: u32 = set.iter().map(|word| word.count_ones()).sum();
    if result < 0 { 1 } else { count.max(1) as usize }
}

/// Returns the soft limit of a resource; 0 if it cannot be read. prlimit(2)
pub(crate) fn limit(resource: i32) -> u64 {
    let mut limits = [0u64; 2];
    // SAFETY: the kernel writes one pair of limits of this process.
    unsafe { syscall!(libc::SYS_prlimit64, 0, resource, 0usize, limits.as_mut_ptr()) };
    limits[0]
}

/// Returns the user CPU time of the process without that of the calling thread, ns. getrusage(2)
pub(crate) fn user_ns() -> u64 {
    const RUSAGE_SELF: i32 = 0;
    const RUSAGE_THREAD: i32 = 1;
    let [process, thread] = [RUSAGE_SELF, RUSAGE_THREAD].map(|who| {
        let mut usage = [0u64; 18];
        // SAFETY: the kernel writes one struct rusage of 144 bytes; its first two words are seconds
        // and microseconds of user time.
        unsafe { syscall!(libc::SYS_getrusage, who, usage.as_mut_ptr()) };
        usage[0] * 1_000_000_000 + usage[1] * 1_000
    });
    process.saturating_sub(thread)
}

/// Closes a descriptor of the calling thread's table. close(2)
pub(crate) fn close(descriptor: i32) {
    // SAFETY: the agent closes only what it opened, in its own table.
    unsafe { syscall!(libc::SYS_close, descriptor) };
}

/// A file, closed on drop.
pub(crate) struct File(i32);

impl File {
    /// Opens a path that ends with a NUL. openat(2)
    pub(crate) fn open(path: &[u8], flags: i32) -> Option<File> {
        File::try_open(path, flags).ok()
    }

    /// Opens a path that ends with a NUL. Returns the error's number on failure. openat(2)
    pub(crate) fn try_open(path: &[u8], flags: i32) -> Result<File, i32> {
        debug_assert_eq!(path.last(), Some(&0));
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = unsafe {
            syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | flags, 0)
        };
        if result < 0 { Err(-result as i32) } else { Ok(File(result as i32)) }
    }

    /// Opens a path that ends with a NUL for writing, and creates the file if there is none.
    /// Returns the error's number on failure. openat(2)
    pub(crate) fn create(path: &[u8], flags: i32) -> Result<File, i32> {
        debug_assert_eq!(path.last(), Some(&0));
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY | flags;
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = unsafe { syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o666) };
        if result < 0 { Err(-result as i32) } else { Ok(File(result as i32)) }
    }

    /// Writes all bytes at `offset`. Returns the error's number on failure. pwrite(2)
    pub(crate) fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), i32> {
        while !bytes.is_empty() {
            // SAFETY: the kernel reads as many bytes.
            let result = unsafe { syscall!(libc::SYS_pwrite64, self.0, bytes.as_ptr(), bytes.len(), offset) };
            match usize::try_from(result) {
                Ok(0) => return Err(libc::ENOSPC),
                Ok(written) => {
                    bytes = &bytes[written.min(bytes.len())..];
                    offset += written as u64;
                }
                Err(_) if -result as i32 == libc::EINTR => {}
                Err(_) => return Err(-result as i32),
            }
        }
        Ok(())
    }

    /// Returns the file's status. fstat(2)
    pub(crate) fn status(&self) -> Option<libc::stat> {
        let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the kernel writes one structure, whose bytes may also all be zero.
        unsafe { (syscall!(libc::SYS_fstat, self.0, status.as_mut_ptr()) >= 0).then(|| status.assume_init()) }
    }

    /// Truncates the file. ftruncate(2)
    pub(crate) fn cut(&self, length: u64) {
        // SAFETY: plain values.
        unsafe { syscall!(libc::SYS_ftruncate, self.0, length) };
    }

    /// Returns the descriptor's number in the calling thread's table.
    pub(crate) fn descriptor(&self) -> i32 {
        self.0
    }

    /// Reads into `buffer` from the file position on. Returns the number of bytes; 0 at the end and
    /// on errors. read(2)
    pub(crate) fn read(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into it.
        let result = unsafe { syscall!(libc::SYS_read, self.0, buffer.as_mut_ptr(), buffer.len()) };
        result.max(0) as usize
    }

    /// Reads into `buffer` from `offset` on. Returns the number of bytes; 0 at the end and on
    /// errors. pread(2)
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into it.
        let result = unsafe { syscall!(libc::SYS_pread64, self.0, buffer.as_mut_ptr(), buffer.len(), offset) };
        result.max(0) as usize
    }

    /// Fills `buffer` from `offset` on. Returns whether all of it could be read.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64) {
                0 => return false,
                read => done += read,
            }
        }
        true
    }
}

impl Drop for File {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Writes the target of a symbolic link, whose path ends with a NUL, to `target`. Returns its
/// length, cut off at that of `target`; 0 on errors. readlink(2)
pub(crate) fn read_link(path: &[u8], target: &mut [u8]) -> usize {
    debug_assert_eq!(path.last(), Some(&0));
    // SAFETY: the path is NUL-terminated, and the kernel writes at most the buffer's length.
    let result =
        unsafe { syscall!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), target.as_mut_ptr(), target.len()) };
    result.max(0) as usize
}

/// Returns whether a path, which ends with a NUL, leads to a regular file. stat(2)
pub(crate) fn is_regular_file(path: &[u8]) -> bool {
    debug_assert_eq!(path.last(), Some(&0));
    let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path is NUL-terminated, and the kernel writes one structure.
    let result = unsafe { syscall!(libc::SYS_newfstatat, libc::AT_FDCWD, path.as_ptr(), status.as_mut_ptr(), 0) };
    // SAFETY: all bytes zero are a structure too.
    result == 0 && unsafe { status.assume_init() }.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// A path made of parts and numbers, NUL-terminated, without allocation.
pub(crate) struct PathBuffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> PathBuffer<N> {
    /// Creates an empty path.
    pub(crate) const fn new() -> Self {
        PathBuffer { bytes: [0; N], length: 0 }
    }

    /// Appends bytes. Those that do not fit (with the NUL) are cut off.
    pub(crate) fn text(mut self, text: &[u8]) -> Self {
        let room = N - 1 - self.length;
        let text = &text[..text.len().min(room)];
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
        self
    }

    /// Appends a decimal number.
    pub(crate) fn number(self, mut value: u64) -> Self {
        let mut digits = [0; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return self.text(&digits[start..]);
            }
        }
    }

    /// Returns the path with its NUL.
    pub(crate) fn terminated(&self) -> &[u8] {
        &self.bytes[..self.length + 1]
    }

    /// Returns the path without its NUL.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The action of a signal as the kernel has it (not libc's `struct sigaction`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelAction {
    /// `SIG_DFL`, `SIG_IGN` or an address.
    pub(crate) handler: usize,
    /// `SA_*`.
    pub(crate) flags: u64,
    /// The address that the handler returns to.
    pub(crate) restorer: usize,
    /// Signals that are blocked while the handler runs, bit `signal − 1`.
    pub(crate) mask: u64,
}

/// Returns the present action of a signal. rt_sigaction(2)
pub(crate) fn signal_action(signal: i32) -> KernelAction {
    let mut old = KernelAction::default();
    // SAFETY: a null new action changes nothing; the kernel writes one old action.
    unsafe { syscall!(libc::SYS_rt_sigaction, signal, 0usize, &raw mut old, 8) };
    old
}

/// Sets the action of a signal for the whole process and returns the previous one. rt_sigaction(2)
///
/// # Safety
/// The handler must be a signal handler with a restorer, and stay mapped.
pub(crate) unsafe fn set_signal_action(signal: i32, action: &KernelAction) -> KernelAction {
    let mut old = KernelAction::default();
    // SAFETY: both point to one action; the caller vouches for the handler.
    unsafe { syscall!(libc::SYS_rt_sigaction, signal, &raw const *action, &raw mut old, 8) };
    old
}

/// Blocks every signal for the calling thread and returns the previous mask. rt_sigprocmask(2)
pub(crate) fn block_all() -> u64 {
    let (all, mut old) = (!0u64, 0u64);
    // SAFETY: one mask in, one mask out.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut old, 8) };
    old
}

/// Sets the calling thread's mask. rt_sigprocmask(2)
pub(crate) fn set_mask(mask: u64) {
    // SAFETY: one mask in.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, 0usize, 8) };
}

/// Returns the mask of the calling thread. rt_sigprocmask(2)
pub(crate) fn mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: one mask out.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, &raw mut mask, 8) };
    mask
}

/// Returns the signals that the calling thread blocks and that are pending for it or the process.
/// rt_sigpending(2)
pub(crate) fn pending_signals() -> u64 {
    let mut pending = 0u64;
    // SAFETY: one mask out.
    unsafe { syscall!(libc::SYS_rt_sigpending, &raw mut pending, 8) };
    pending
}

/// Returns whether the 8 bytes at `address` can be read. With an invalid `how`, rt_sigprocmask(2)
/// copies the mask in and then fails: with EFAULT if the address is unreadable, with EINVAL if it
/// is readable. It changes nothing, needs no descriptor, and sandboxes allow it.
pub(crate) fn is_readable(address: usize) -> bool {
    // SAFETY: the kernel only reads 8 bytes, and checks them.
    let result = unsafe { syscall!(libc::SYS_rt_sigprocmask, -1isize, address, 0usize, 8) };
    result == -(libc::EINVAL as isize)
}

/// The signal that wakes the agent thread, which blocks it permanently and waits for it. libc
/// reserves it for itself (SIGSETXID of glibc, SIGCANCEL of musl) and sends it to threads it knows,
/// never to a process, so that no other code takes it or sends it to the agent thread.
pub(crate) const WAKE_SIGNAL: i32 = 33;

/// Sends the wake signal to a thread of this process that blocks it. tgkill(2)
pub(crate) fn send_wake(process: u32, tid: u32) {
    // SAFETY: plain values; the signal is blocked where it goes.
    unsafe { syscall!(libc::SYS_tgkill, process, tid, WAKE_SIGNAL) };
}

/// Waits for the wake signal, at most `timeout_ns`; returns whether it came. rt_sigtimedwait(2)
pub(crate) fn await_wake(timeout_ns: u64) -> bool {
    let set = 1u64 << (WAKE_SIGNAL - 1);
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    // SAFETY: one mask and one timespec in; the signal's information is not asked for.
    unsafe { syscall!(libc::SYS_rt_sigtimedwait, &raw const set, 0usize, timeout.as_ptr(), 8) > 0 }
}

/// Fills a buffer from an address of this process on. Returns whether all of it could be read.
/// process_vm_readv(2)
pub(crate) fn read_own_memory(address: u64, buffer: &mut [u8]) -> bool {
    let local = [buffer.as_mut_ptr() as usize, buffer.len()];
    let remote = [address as usize, buffer.len()];
    // SAFETY: the kernel writes at most the buffer's length into it, and checks the other address.
    let read = unsafe { syscall!(libc::SYS_process_vm_readv, getpid(), local.as_ptr(), 1, remote.as_ptr(), 1, 0) };
    usize::try_from(read).is_ok_and(|read| read == buffer.len())
}

/// Fills a buffer with the same number of bytes from each of some addresses of this process, of
/// which there are at most [`MAX_GATHERED`]. Returns whether all of them could be read.
/// process_vm_readv(2)
pub(crate) fn gather_own_memory(addresses: &[u64], buffer: &mut [u8]) -> bool {
    let count = addresses.len().min(MAX_GATHERED);
    let Some(each) = buffer.len().checked_div(count) else { return true };
    let local = [buffer.as_mut_ptr() as usize, each * count];
    let mut remote = [[0usize; 2]; MAX_GATHERED];
    for (range, &address) in remote.iter_mut().zip(addresses) {
        *range = [address as usize, each];
    }
    // SAFETY: the kernel writes at most the buffer's length into it, and checks the other
    // addresses.
    let read = unsafe { syscall!(libc::SYS_process_vm_readv, getpid(), local.as_ptr(), 1, remote.as_ptr(), count, 0) };
    count == addresses.len() && usize::try_from(read).is_ok_and(|read| read == each * count)
}

/// Wakes one sleeper on a futex of this process. futex(2)
pub(crate) fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the address is valid; nothing else is touched.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Sleeps like [`futex_wait`], but on a word that the kernel itself wakes (CLONE_CHILD_CLEARTID),
/// which does not use private futexes. futex(2)
pub(crate) fn shared_futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, timeout_ns: u64) {
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    // SAFETY: the address is valid and the timeout outlives the call.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, timeout.as_ptr()) };
}

/// Sleeps while the word holds `value`, at most `timeout_ns`. futex(2)
pub(crate) fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, timeout_ns: u64) {
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the address is valid and the timeout outlives the call.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), operation, value, timeout.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_and_terminated() {
        let path = PathBuffer::<12>::new().text(b"/proc/").number(1234567).text(b"/maps");
        assert_eq!(path.terminated(), b"/proc/12345\0");
        assert_eq!(PathBuffer::<32>::new().text(b"/t/").number(0).as_bytes(), b"/t/0");
    }

    #[test]
    fn readable_tells_mapped_from_unmapped() {
        let value = 1u64;
        assert!(is_readable(&raw const value as usize));
        assert!(!is_readable(8));
        assert!(!is_readable(usize::MAX - 4095));
    }

    #[test]
    fn own_memory_is_read_where_it_is_mapped() {
        let (word, mut copy) = (0x1122_3344u32, [0u8; 4]);
        assert!(read_own_memory(&raw const word as u64, &mut copy));
        assert_eq!(u32::from_ne_bytes(copy), word);
        assert!(!read_own_memory(8, &mut copy));
        let (words, mut all) = ([1u16, 2, 3], [0u8; 4]);
        let at = |index: usize| &raw const words[index] as u64;
        assert!(gather_own_memory(&[at(2), at(0)], &mut all));
        assert_eq!(all, [3, 0, 1, 0]);
        assert!(!gather_own_memory(&[at(2), 8], &mut all));
        assert!(!gather_own_memory(&[at(0); MAX_GATHERED + 1], &mut [0; 2 * (MAX_GATHERED + 1)]));
    }

    #[test]
    fn files_are_read_where_asked() {
        let file = File::open(b"/proc/self/exe\0", 0).expect("own executable");
        let mut magic = [0; 4];
        assert!(file.read_exact_at(&mut magic, 0));
        assert_eq!(&magic, b"\x7fELF");
        assert!(!file.read_exact_at(&mut magic, u64::MAX >> 2));
        assert!(File::open(b"/no such file\0", 0).is_none());
    }
}
