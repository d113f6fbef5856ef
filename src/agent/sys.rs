//! System calls, raw. libc's wrappers set errno, take locks and are cancellation points; the agent may touch none of
//! these. Every call here returns what the kernel returned: a negative number is an error.
//!
//! It ends at the kernel's interface; what calls are for is said where they are made.

use core::arch::asm;

/// Makes one system call.
///
/// # Safety
/// The arguments must be valid for that call, as its manual page says.
#[inline(always)]
pub(super) unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel preserves everything but rax, rcx and r11; the caller vouches for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

macro_rules! syscall {
    ($number:expr) => { $crate::agent::sys::call($number, [0; 6]) };
    ($number:expr, $a:expr) => { $crate::agent::sys::call($number, [$a as usize, 0, 0, 0, 0, 0]) };
    ($number:expr, $a:expr, $b:expr) => { $crate::agent::sys::call($number, [$a as usize, $b as usize, 0, 0, 0, 0]) };
    ($number:expr, $a:expr, $b:expr, $c:expr) => {
        $crate::agent::sys::call($number, [$a as usize, $b as usize, $c as usize, 0, 0, 0])
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::agent::sys::call($number, [$a as usize, $b as usize, $c as usize, $d as usize, 0, 0])
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        $crate::agent::sys::call($number, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0])
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::agent::sys::call($number, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize])
    };
}
pub(super) use syscall;

/// Process id, as this process sees it. getpid(2)
pub(super) fn getpid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { syscall!(libc::SYS_getpid) as u32 }
}

/// Thread id of the caller. gettid(2)
pub(super) fn gettid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { syscall!(libc::SYS_gettid) as u32 }
}

/// Whether this process has a thread of this id. tgkill(2)
pub(super) fn has_thread(tid: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    unsafe { syscall!(libc::SYS_tgkill, getpid(), tid, 0) == 0 }
}

/// Nanoseconds of a clock; 0 when the kernel does not have it. clock_gettime(2)
pub(super) fn clock_ns(clock: i32) -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes one timespec.
    let result = unsafe { syscall!(libc::SYS_clock_gettime, clock, time.as_mut_ptr()) };
    if result < 0 { 0 } else { time[0] * 1_000_000_000 + time[1] }
}

/// `CLOCK_MONOTONIC`, ns.
pub(super) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// How long ago the scheduler ticked, ns: the coarse clock shows when. clock_gettime(2)
pub(super) fn since_tick_ns() -> u64 {
    monotonic_ns().saturating_sub(clock_ns(libc::CLOCK_MONOTONIC_COARSE))
}

/// The scheduler's tick, ns, as the kernel's coarse clocks tell. clock_getres(2)
pub(super) fn tick_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes one timespec.
    unsafe { syscall!(libc::SYS_clock_getres, libc::CLOCK_REALTIME_COARSE, time.as_mut_ptr()) };
    time[1]
}

/// Lets others run. sched_yield(2)
pub(super) fn yield_now() {
    // SAFETY: no arguments.
    unsafe { syscall!(libc::SYS_sched_yield) };
}

/// Processors that the calling thread may run on; 1 when it cannot be asked. sched_getaffinity(2)
pub(super) fn processors() -> usize {
    let mut set = [0u64; 128];
    // SAFETY: the kernel writes at most as many bytes, and returns how many.
    let result = unsafe { syscall!(libc::SYS_sched_getaffinity, 0, size_of_val(&set), set.as_mut_ptr()) };
    let count: u32 = set.iter().map(|word| word.count_ones()).sum();
    if result < 0 { 1 } else { count.max(1) as usize }
}

/// The soft limit of a resource; 0 when it cannot be asked. prlimit(2)
pub(super) fn limit(resource: i32) -> u64 {
    let mut limits = [0u64; 2];
    // SAFETY: the kernel writes one pair of limits of this process.
    unsafe { syscall!(libc::SYS_prlimit64, 0, resource, 0usize, limits.as_mut_ptr()) };
    limits[0]
}

/// User CPU time of the process without the calling thread's, ns. getrusage(2)
pub(super) fn user_ns() -> u64 {
    const RUSAGE_SELF: i32 = 0;
    const RUSAGE_THREAD: i32 = 1;
    let [process, thread] = [RUSAGE_SELF, RUSAGE_THREAD].map(|who| {
        let mut usage = [0u64; 18];
        // SAFETY: the kernel writes one struct rusage of 144 bytes; its first two words are seconds and microseconds of user time.
        unsafe { syscall!(libc::SYS_getrusage, who, usage.as_mut_ptr()) };
        usage[0] * 1_000_000_000 + usage[1] * 1_000
    });
    process.saturating_sub(thread)
}

/// Closes a descriptor of the calling thread's table. close(2)
pub(super) fn close(descriptor: i32) {
    // SAFETY: the agent closes only what it opened, in its own table.
    unsafe { syscall!(libc::SYS_close, descriptor) };
}

/// A file, closed on drop.
pub(super) struct File(i32);

impl File {
    /// Opens a path that ends with a NUL. openat(2)
    pub(super) fn open(path: &[u8], flags: i32) -> Option<File> {
        debug_assert_eq!(path.last(), Some(&0));
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = unsafe {
            syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | flags, 0)
        };
        if result < 0 { None } else { Some(File(result as i32)) }
    }

    /// Opens a path that ends with a NUL for writing, and makes the file if there is none; else the error's number. openat(2)
    pub(super) fn create(path: &[u8], flags: i32) -> Result<File, i32> {
        debug_assert_eq!(path.last(), Some(&0));
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY | flags;
        // SAFETY: the path is NUL-terminated and outlives the call.
        let result = unsafe { syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o666) };
        if result < 0 { Err(-result as i32) } else { Ok(File(result as i32)) }
    }

    /// Writes all bytes from `offset` on; else the error's number. pwrite(2)
    pub(super) fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), i32> {
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

    /// Cuts it off. ftruncate(2)
    pub(super) fn cut(&self, length: u64) {
        // SAFETY: plain values.
        unsafe { syscall!(libc::SYS_ftruncate, self.0, length) };
    }

    /// Its number, in the calling thread's table.
    pub(super) fn descriptor(&self) -> i32 {
        self.0
    }

    /// Bytes read into `buffer` from where the last read ended; 0 at the end and on errors. read(2)
    pub(super) fn read(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into it.
        let result = unsafe { syscall!(libc::SYS_read, self.0, buffer.as_mut_ptr(), buffer.len()) };
        result.max(0) as usize
    }

    /// Bytes read into `buffer` from `offset` on; 0 at the end and on errors. pread(2)
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into it.
        let result = unsafe { syscall!(libc::SYS_pread64, self.0, buffer.as_mut_ptr(), buffer.len(), offset) };
        result.max(0) as usize
    }

    /// Whether all of `buffer` could be read at `offset`.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> bool {
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

/// A path made of parts and numbers, NUL-terminated, without allocation.
pub(super) struct PathBuffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> PathBuffer<N> {
    /// An empty path.
    pub(super) const fn new() -> Self {
        PathBuffer { bytes: [0; N], length: 0 }
    }

    /// Appends bytes; what does not fit (with the NUL) is cut.
    pub(super) fn text(mut self, text: &[u8]) -> Self {
        let room = N - 1 - self.length;
        let text = &text[..text.len().min(room)];
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
        self
    }

    /// Appends a decimal number.
    pub(super) fn number(self, mut value: u64) -> Self {
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

    /// The path with its NUL.
    pub(super) fn terminated(&self) -> &[u8] {
        &self.bytes[..self.length + 1]
    }

    /// The path without its NUL.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The action of a signal as the kernel has it (not libc's `struct sigaction`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelAction {
    /// `SIG_DFL`, `SIG_IGN` or an address.
    pub(super) handler: usize,
    /// `SA_*`.
    pub(super) flags: u64,
    /// Where the handler returns to.
    pub(super) restorer: usize,
    /// Signals blocked while it runs, bit `signal − 1`.
    pub(super) mask: u64,
}

/// The present action of a signal. rt_sigaction(2)
pub(super) fn action_of(signal: i32) -> KernelAction {
    let mut old = KernelAction::default();
    // SAFETY: a null new action changes nothing; the kernel writes one old action.
    unsafe { syscall!(libc::SYS_rt_sigaction, signal, 0usize, &raw mut old, 8) };
    old
}

/// Sets the action of a signal for the whole process and returns the one before. rt_sigaction(2)
///
/// # Safety
/// A handler must be one, with a restorer, and stay mapped.
pub(super) unsafe fn set_action(signal: i32, action: &KernelAction) -> KernelAction {
    let mut old = KernelAction::default();
    // SAFETY: both point to one action; the caller vouches for the handler.
    unsafe { syscall!(libc::SYS_rt_sigaction, signal, &raw const *action, &raw mut old, 8) };
    old
}

/// Blocks every signal for the calling thread and returns the mask before. rt_sigprocmask(2)
pub(super) fn block_all() -> u64 {
    let (all, mut old) = (!0u64, 0u64);
    // SAFETY: one mask in, one mask out.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut old, 8) };
    old
}

/// Sets the calling thread's mask. rt_sigprocmask(2)
pub(super) fn set_mask(mask: u64) {
    // SAFETY: one mask in.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, 0usize, 8) };
}

/// Whether the 8 bytes at `address` can be read. An invalid `how` makes rt_sigprocmask(2) copy the mask in and then fail:
/// EFAULT tells an unreadable address, EINVAL a readable one; nothing is changed, no descriptor is needed, and sandboxes let it pass.
pub(super) fn readable(address: usize) -> bool {
    // SAFETY: the kernel only reads 8 bytes, and checks them.
    let result = unsafe { syscall!(libc::SYS_rt_sigprocmask, -1isize, address, 0usize, 8) };
    result == -(libc::EINVAL as isize)
}

/// The signal that wakes the agent thread, which blocks it for good and waits for it. libc keeps it
/// for itself (SIGSETXID of glibc, SIGCANCEL of musl) and sends it to threads it knows, never to a
/// process: nobody else can take it or send it to the agent thread.
pub(super) const WAKE_SIGNAL: i32 = 33;

/// Sends the wake signal to a thread of this process that blocks it. tgkill(2)
pub(super) fn send_wake(process: u32, tid: u32) {
    // SAFETY: plain values; the signal is blocked where it goes.
    unsafe { syscall!(libc::SYS_tgkill, process, tid, WAKE_SIGNAL) };
}

/// Waits for the wake signal, at most `timeout_ns`; returns whether it came. rt_sigtimedwait(2)
pub(super) fn await_wake(timeout_ns: u64) -> bool {
    let set = 1u64 << (WAKE_SIGNAL - 1);
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    // SAFETY: one mask and one timespec in; the signal's information is not asked for.
    unsafe { syscall!(libc::SYS_rt_sigtimedwait, &raw const set, 0usize, timeout.as_ptr(), 8) > 0 }
}

/// Fills a buffer from an address of this process on; whether all of it could be read.
/// process_vm_readv(2)
pub(super) fn read_own_memory(address: u64, buffer: &mut [u8]) -> bool {
    let local = [buffer.as_mut_ptr() as usize, buffer.len()];
    let remote = [address as usize, buffer.len()];
    // SAFETY: the kernel writes at most the buffer's length into it, and checks the other address.
    let read = unsafe { syscall!(libc::SYS_process_vm_readv, getpid(), local.as_ptr(), 1, remote.as_ptr(), 1, 0) };
    usize::try_from(read).is_ok_and(|read| read == buffer.len())
}

/// Wakes one sleeper on a futex of this process. futex(2)
pub(super) fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the address is valid; nothing else is touched.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// The same for a word that the kernel itself wakes (CLONE_CHILD_CLEARTID), which knows no private futexes. futex(2)
pub(super) fn shared_futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, timeout_ns: u64) {
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    // SAFETY: the address is valid and the timeout outlives the call.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, timeout.as_ptr()) };
}

/// Sleeps while the word holds `value`, at most `timeout_ns`. futex(2)
pub(super) fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, timeout_ns: u64) {
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
        assert!(readable(&raw const value as usize));
        assert!(!readable(8));
        assert!(!readable(usize::MAX - 4095));
    }

    #[test]
    fn own_memory_is_read_where_it_is_mapped() {
        let (word, mut copy) = (0x1122_3344u32, [0u8; 4]);
        assert!(read_own_memory(&raw const word as u64, &mut copy));
        assert_eq!(u32::from_ne_bytes(copy), word);
        assert!(!read_own_memory(8, &mut copy));
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
