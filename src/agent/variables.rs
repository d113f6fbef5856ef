//! The environment as it is when the library is loaded: what the variables of gperftools' CPU profiler say, and how it names files.
//!
//! `CPUPROFILE` is the file's name, `CPUPROFILE_FREQUENCY` how often is sampled, `CPUPROFILE_REALTIME` by the wall clock,
//! `CPUPROFILE_PER_THREAD_TIMERS` on every thread, `CPUPROFILE_TIMER_SIGNAL` by another signal, `CPUPROFILESIGNAL` a signal that starts
//! and stops. It ends at their meaning; [`order`](super::order) does what they say.

use core::ffi::{CStr, c_char, c_int};

use super::loader::weak_address;
use super::sys::{self, PathBuffer};

/// Bytes of a path.
pub(super) const PATH: usize = 4096;
/// Ticks a second, at most; and where nothing is said.
const FREQUENCIES: [u64; 2] = [4_000, 100];

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether libc has filled in the environment: it does so in its own constructor.
pub(super) fn are_there() -> bool {
    // SAFETY: a word of libc's, which is read as it is.
    unsafe { !environ.is_null() }
}

/// The value of a variable.
///
/// # Safety
/// While the program has one thread, or does not change its environment: for constructors.
pub(super) unsafe fn value(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: libc has filled it in before constructors run; it ends with a null.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let text = CStr::from_ptr(*at).to_bytes();
            if let Some(value) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

/// How a profile is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// Time between two ticks, µs.
    pub(super) period_us: u64,
    /// By the wall clock.
    pub(super) real: bool,
    /// By the wall clock: of every thread, and not of the first alone.
    pub(super) every_thread: bool,
    /// The signal that ticks come by, if one is asked for; else 0.
    pub(super) signal: i32,
}

impl Manner {
    /// As the environment says.
    ///
    /// # Safety
    /// As [`value`].
    pub(super) unsafe fn of_environment() -> Manner {
        // SAFETY: the caller vouches.
        let [frequency, real, threads, signal] = unsafe {
            [
                value(b"CPUPROFILE_FREQUENCY"),
                value(b"CPUPROFILE_REALTIME"),
                value(b"CPUPROFILE_PER_THREAD_TIMERS"),
                value(b"CPUPROFILE_TIMER_SIGNAL"),
            ]
        };
        let [most, usual] = FREQUENCIES;
        let frequency = frequency.and_then(number).filter(|&hz| hz > 0).map_or(usual, |hz| hz.min(most));
        Manner {
            period_us: 1_000_000 / frequency,
            real: real.is_some(),
            every_thread: threads.is_some() || signal.is_some(),
            signal: signal.and_then(number).filter(|signal| (1..=64).contains(signal)).unwrap_or(0) as i32,
        }
    }
}

/// A decimal number, and nothing behind it.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.trim_ascii_start().parse().ok()
}

/// The file that `CPUPROFILE` names, and whether this process's id is to be appended: it is a child of one that had the same name. Where
/// many processes of one job run, their rank tells them apart. From then on children are told that they are. `None` without a name.
///
/// # Safety
/// For constructors, while the program has one thread.
pub(super) unsafe fn file() -> Option<(PathBuffer<PATH>, bool)> {
    // SAFETY: the caller vouches.
    let value = |name: &[u8]| unsafe { value(name) }.filter(|value| !value.is_empty());
    let name = value(b"CPUPROFILE")?;
    let mut path = PathBuffer::new().text(name);
    // SAFETY: likewise; empty says yes too.
    let mut has_pid = child(unsafe { self::value(b"CPUPROFILE_USE_PID") });
    if let Some(rank) = value(b"PMIX_RANK") {
        path = path.text(b".rank-").text(rank);
    } else if value(b"SLURM_JOB_ID").is_some() {
        match value(b"SLURM_PROCID") {
            Some(id) => path = path.text(b".slurmid-").text(id),
            None => has_pid = true,
        }
    } else if value(b"OMPI_HOME").is_some() {
        has_pid = true;
    } else if let Some(rank) = value(b"PMI_RANK") {
        path = path.text(b".rank-").text(rank);
    }
    let address = weak_address!("setenv");
    if !has_pid && address != 0 {
        type Setenv = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;
        // SAFETY: libc's function of this name and type, while one thread runs.
        unsafe {
            let setenv: Setenv = core::mem::transmute(address);
            setenv(c"CPUPROFILE_USE_PID".as_ptr(), c"1".as_ptr(), 1);
        }
    }
    Some((path, has_pid))
}

/// Whether the variable says yes, as gperftools reads it.
fn child(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.first().is_none_or(|first| b"tTyY1".contains(first)))
}

/// A path from the root on: what is relative begins where the process is now.
pub(super) fn absolute(path: &[u8]) -> PathBuffer<PATH> {
    if path.first() == Some(&b'/') {
        return PathBuffer::new().text(path);
    }
    let mut here = [0u8; PATH];
    // SAFETY: the kernel writes at most the buffer's length, a NUL included.
    let length = unsafe { sys::syscall!(libc::SYS_getcwd, here.as_mut_ptr(), here.len()) };
    let here = &here[..(length.max(1) as usize) - 1];
    PathBuffer::new().text(here).text(b"/").text(path)
}

/// Says a sentence on stderr: for what was asked for by a variable and cannot be done, where gperftools ends the program.
pub(super) fn complain(parts: &[&[u8]]) {
    let mut line = PathBuffer::<{ PATH + 256 }>::new().text(b"sigtop: ");
    for part in parts {
        line = line.text(part);
    }
    let line = line.text(b"\n");
    // SAFETY: the bytes outlive the call.
    unsafe { sys::syscall!(libc::SYS_write, 2, line.as_bytes().as_ptr(), line.as_bytes().len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whole_or_not() {
        assert_eq!(number(b"250"), Some(250));
        assert_eq!(number(b" 9"), Some(9));
        assert_eq!((number(b"12x"), number(b""), number(b"-3")), (None, None, None));
    }

    #[test]
    fn children_are_known_as_gperftools_tells_them() {
        assert!(child(Some(b"1")) && child(Some(b"yes")) && child(Some(b"")));
        assert!(!child(Some(b"0")) && !child(None));
    }

    #[test]
    fn paths_begin_at_the_root() {
        assert_eq!(absolute(b"/a/b").as_bytes(), b"/a/b");
        let here = std::env::current_dir().expect("somewhere").join("x.prof");
        assert_eq!(absolute(b"x.prof").as_bytes(), here.as_os_str().as_encoded_bytes());
    }
}
