//! System calls that a stop has cut short and that are made again from their start without anybody
//! noticing.
//!
//! A stop ends a long call early, as a signal would: the call reports the part that it has done. A
//! program that does not expect a signal may take that for the whole. Where nothing outside of the
//! buffer of the call has changed, the call is made again: random bytes, zeros, and what is read at
//! a place that the call names. Everything else (pipes, sockets, terminals, copies between files)
//! has moved data that cannot be taken back.
//!
//! A call that takes longer than the time between two stops would never end. So its thread is left
//! alone for a while after each repetition ([`Patience`]): for one period at first, and for twice as
//! long each time that the same call is made again.
//!
//! A thread whose call has lost its rest is likely to be in such a call again. It is left alone for
//! eight periods at first, and for longer the more of its calls stops have met. A stop that meets
//! none makes up for a third of one that does, so that a thread that is seldom in such calls is
//! stopped as often as others.

use super::ptrace::read_memory;
use super::waits::attributes;
use crate::arch::StoppedRegisters;

/// Major number of the devices of memory, and the minor ones of those that give as many bytes as
/// are asked for: zero, full, random, urandom.
const MEMORY_DEVICES: u32 = 1;
const ENDLESS: [u32; 4] = [5, 7, 8, 9];
/// Maximum number of buffers of a call that are added up.
const MAX_BUFFERS: usize = 64;
/// Maximum time for which a thread is left alone, ns: while a call is made again, and after one has
/// lost its rest.
const LONGEST_NS: u64 = 2_000_000_000;
const LONGEST_AFTER_LOSS_NS: u64 = 1_000_000_000;
/// Number by which a call that has lost its rest moves the exponent of the pause after it.
const LOSS: u32 = 3;

/// The time for which a thread is not stopped, so that a call that was made again ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    until_ns: u64,
    /// Number of repetitions of one call.
    repetitions: u32,
    /// Number of calls that had read when it was made again last.
    reads: Option<u64>,
    /// The exponent of the last pause after a call that has lost its rest.
    losses: u32,
    /// Whether it was left alone since its last sample.
    is_late: bool,
}

impl Patience {
    /// Whether the thread is left alone.
    pub(super) fn lasts(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }

    /// Notes a stop that has cut no call short.
    pub(super) fn note_harmless(&mut self) {
        self.repetitions = 0;
        self.losses = self.losses.saturating_sub(1);
    }

    /// Notes a stop by which a call has lost its rest.
    pub(super) fn note_loss(&mut self, now_ns: u64, period_ns: u64) {
        self.repetitions = 0;
        self.losses = (self.losses + LOSS).min(20);
        self.pause(now_ns, period_ns.saturating_mul(1 << self.losses).min(LONGEST_AFTER_LOSS_NS));
    }

    /// Returns whether the thread was left alone before the sample that is taken now.
    pub(super) fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.is_late)
    }

    fn pause(&mut self, now_ns: u64, pause_ns: u64) {
        (self.until_ns, self.is_late) = (now_ns + pause_ns, true);
    }

    /// Notes a stop that has made a call again. `reads` is the number of calls by which the thread
    /// has read, this one included.
    pub(super) fn note_repetition(&mut self, reads: Option<u64>, now_ns: u64, period_ns: u64) {
        let is_other = reads.zip(self.reads).is_some_and(|(now, before)| now > before + 1);
        if is_other {
            self.repetitions = 0;
        }
        self.reads = reads;
        let pause_ns = period_ns.saturating_mul(1 << self.repetitions.min(20));
        self.pause(now_ns, pause_ns.min(LONGEST_NS));
        self.repetitions += 1;
    }
}

/// Returns whether a stopped thread of a process is at the end of a call that was cut short and can
/// be made again.
pub(super) fn is_repeatable(pid: u32, tid: u32, registers: &StoppedRegisters) -> bool {
    let (Some(call), result) = (registers.system_call(), registers.result()) else { return false };
    let [first, second, third, _] = registers.arguments();
    let is_short = |asked: Option<u64>| asked.is_some_and(|asked| (0..asked as i64).contains(&result));
    let buffers = || buffers_length(pid, second, third);
    match call {
        libc::SYS_read => is_short(Some(third)) && is_endless(tid, first),
        libc::SYS_readv => is_short(buffers()) && is_endless(tid, first),
        libc::SYS_pread64 => is_short(Some(third)) && (is_regular(tid, first) || is_endless(tid, first)),
        libc::SYS_preadv | libc::SYS_preadv2 => {
            is_short(buffers()) && (is_regular(tid, first) || is_endless(tid, first))
        }
        libc::SYS_getrandom => is_short(Some(second)),
        libc::SYS_process_vm_readv => is_short(buffers()),
        _ => false,
    }
}

/// Returns whether a thread was stopped at the end of a call that has moved a part of its data and
/// cannot be made again. A call that may move a part without a stop, as it does not wait, counts as
/// whole.
pub(super) fn has_lost_rest(pid: u32, tid: u32, registers: &StoppedRegisters) -> bool {
    let (Some(call), result) = (registers.system_call(), registers.result()) else { return false };
    let [first, second, third, fourth] = registers.arguments();
    let (asked, descriptor, flags) = match call {
        libc::SYS_write | libc::SYS_pwrite64 => (Some(third), first, 0),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => (buffers_length(pid, second, third), first, 0),
        libc::SYS_sendto => (Some(third), first, fourth),
        libc::SYS_recvfrom if fourth & libc::MSG_WAITALL as u64 != 0 => (Some(third), first, fourth),
        libc::SYS_sendfile => (Some(fourth), first, 0),
        libc::SYS_copy_file_range => (Some(registers.fifth_argument()), third, 0),
        libc::SYS_splice => (Some(registers.fifth_argument()), third, 0),
        libc::SYS_process_vm_writev => (buffers_length(pid, second, third), u64::MAX, 0),
        _ => return false,
    };
    let is_short = asked.is_some_and(|asked| (1..asked as i64).contains(&result));
    is_short && flags & libc::MSG_DONTWAIT as u64 == 0 && !is_nonblocking(tid, descriptor)
}

/// Returns whether calls on a descriptor of a thread do not wait.
fn is_nonblocking(tid: u32, descriptor: u64) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// Returns the number of calls by which a thread has read, if the kernel counts them.
pub(super) fn reads(tid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/task/{tid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: ")?.trim().parse().ok())
}

/// Returns the sum of the lengths of the buffers of a call, bytes.
fn buffers_length(pid: u32, address: u64, count: u64) -> Option<u64> {
    let count = usize::try_from(count).ok().filter(|&count| count <= MAX_BUFFERS)?;
    let mut bytes = [0; 16 * MAX_BUFFERS];
    let bytes = &mut bytes[..16 * count];
    if read_memory(pid, address, bytes) < bytes.len() {
        return None;
    }
    let (words, _) = bytes.as_chunks::<8>();
    let lengths = words.iter().skip(1).step_by(2).map(|word| u64::from_ne_bytes(*word));
    lengths.reduce(u64::saturating_add)
}

fn is_regular(tid: u32, descriptor: u64) -> bool {
    file_of(tid, descriptor).is_some_and(|file| u32::from(file.stx_mode) & libc::S_IFMT == libc::S_IFREG)
}

/// Returns whether a descriptor is a device that gives as many bytes as are asked for.
fn is_endless(tid: u32, descriptor: u64) -> bool {
    file_of(tid, descriptor).is_some_and(|file| {
        let is_device = u32::from(file.stx_mode) & libc::S_IFMT == libc::S_IFCHR;
        is_device && file.stx_rdev_major == MEMORY_DEVICES && ENDLESS.contains(&file.stx_rdev_minor)
    })
}

/// Returns the attributes of the file behind a descriptor of a thread.
fn file_of(tid: u32, descriptor: u64) -> Option<libc::statx> {
    attributes(&format!("/proc/{tid}/fd/{descriptor}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn devices_and_files_are_told_apart() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let open = |path: &str| File::open(path).unwrap();
        for (path, endless, regular) in [
            ("/dev/urandom", true, false),
            ("/dev/zero", true, false),
            ("/dev/null", false, false),
            ("/proc/self/exe", false, true),
        ] {
            let file = open(path);
            let descriptor = file.as_raw_fd() as u64;
            assert_eq!((is_endless(tid, descriptor), is_regular(tid, descriptor)), (endless, regular), "{path}");
        }
        assert!(!is_regular(tid, 1 << 40) && !is_endless(tid, u64::MAX));
    }

    #[test]
    fn the_lengths_of_buffers_are_added_up() {
        let pid = std::process::id();
        let buffers = [[0x1000_u64, 5], [0x2000, 7], [0x3000, u64::MAX]];
        let address = buffers.as_ptr() as u64;
        assert_eq!(buffers_length(pid, address, 2), Some(12));
        assert_eq!(buffers_length(pid, address, 3), Some(u64::MAX));
        assert_eq!((buffers_length(pid, address, 1 << 20), buffers_length(pid, 8, 1)), (None, None));
    }

    #[test]
    fn a_thread_is_left_alone_for_longer_while_it_makes_the_same_call() {
        let mut patience = Patience::default();
        assert!(!patience.lasts(0));
        patience.note_repetition(Some(7), 1_000, 10);
        assert!(patience.lasts(1_009) && !patience.lasts(1_010));
        patience.note_repetition(Some(8), 2_000, 10);
        assert!(patience.lasts(2_019) && !patience.lasts(2_020));
        patience.note_repetition(Some(10), 3_000, 10);
        assert!(!patience.lasts(3_010), "another call has ended meanwhile");
        patience.note_repetition(None, 4_000, 10);
        assert!(patience.lasts(4_019));
        patience.note_harmless();
        patience.note_repetition(None, 5_000, 10);
        assert!(!patience.lasts(5_010));
        (0..100).for_each(|_| patience.note_repetition(None, 6_000, 10_000_000));
        assert!(patience.lasts(6_000 + LONGEST_NS - 1) && !patience.lasts(6_000 + LONGEST_NS));
    }

    #[test]
    fn a_thread_is_left_alone_for_longer_the_more_of_its_calls_are_cut_short() {
        let pause_after = |patience: &mut Patience| {
            patience.note_loss(1_000, 10);
            assert!(patience.take_late() && !patience.take_late());
            (0..62).map(|exponent| 1 << exponent).find(|&pause| !patience.lasts(1_000 + pause)).unwrap()
        };
        let mut patience = Patience::default();
        assert_eq!([(); 3].map(|()| pause_after(&mut patience)), [128, 1_024, 8_192]);
        (0..3).for_each(|_| patience.note_harmless());
        assert_eq!(pause_after(&mut patience), 8_192);
        (0..100).for_each(|_| patience.note_harmless());
        assert_eq!(pause_after(&mut patience), 128);
        (0..10).for_each(|_| patience.note_loss(0, 10_000_000));
        assert!(patience.lasts(LONGEST_AFTER_LOSS_NS - 1) && !patience.lasts(LONGEST_AFTER_LOSS_NS));
    }

    #[test]
    fn descriptors_that_do_not_wait_are_known() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        assert!(is_nonblocking(tid, one.as_raw_fd() as u64));
        assert!(!is_nonblocking(tid, other.as_raw_fd() as u64) && !is_nonblocking(tid, u64::MAX));
    }
}
