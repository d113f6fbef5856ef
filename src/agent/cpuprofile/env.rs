//! The environment variables of gperftools' CPU profiler, as they are when the library is loaded,
//! and the file names that follow from them.
//!
//! `CPUPROFILE` is the name of the file, `CPUPROFILE_FREQUENCY` the sampling frequency in Hz,
//! `CPUPROFILE_REALTIME` selects the wall clock, `CPUPROFILE_PER_THREAD_TIMERS` all threads,
//! `CPUPROFILE_TIMER_SIGNAL` the signal of ticks, and `CPUPROFILESIGNAL` a signal that starts and
//! stops profiles. [`control`](crate::agent::cpuprofile::control) acts on them.

use core::ffi::{CStr, c_char, c_int};

use crate::agent::os::syscall::{self, PathBuffer};
use crate::agent::os::text;
use crate::arch::weak_address;

/// Maximum length of a path in bytes.
pub(crate) const MAX_PATH: usize = 4096;
/// Maximum sampling frequency, Hz.
const MAX_FREQUENCY: u64 = 4_000;
/// Default sampling frequency, Hz.
const DEFAULT_FREQUENCY: u64 = 100;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Returns whether libc has set the environment, which it does in its own constructor.
pub(crate) fn is_loaded() -> bool {
    // SAFETY: a word of libc's.
    unsafe { !environ.is_null() }
}

/// Returns the value of a variable.
///
/// # Safety
/// The program must have one thread or not change its environment. For constructors.
pub(crate) unsafe fn value(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: libc has set it before constructors run; it ends with a null pointer.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            // The length of the texts is not asked for: there may be many, and long ones.
            if text::starts_with(*at, name) && *(*at).add(name.len()).cast::<u8>() == b'=' {
                return Some(CStr::from_ptr((*at).add(name.len() + 1)).to_bytes());
            }
            at = at.add(1);
        }
    }
    None
}

/// Settings for profiles from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnvSettings {
    /// Sampling period, µs.
    pub(crate) period_us: u64,
    /// `true` if to sample by the wall clock.
    pub(crate) wall_clock: bool,
    /// `true` if to sample all threads by the wall clock, not only the first.
    pub(crate) all_threads: bool,
    /// The signal of ticks, if one is requested; otherwise 0.
    pub(crate) signal: i32,
}

impl EnvSettings {
    /// Reads the environment.
    ///
    /// # Safety
    /// The caller keeps the contract of [`value`].
    pub(crate) unsafe fn from_environment() -> EnvSettings {
        // SAFETY: the caller is a constructor.
        let [frequency, real, threads, signal] = unsafe {
            [
                value(b"CPUPROFILE_FREQUENCY"),
                value(b"CPUPROFILE_REALTIME"),
                value(b"CPUPROFILE_PER_THREAD_TIMERS"),
                value(b"CPUPROFILE_TIMER_SIGNAL"),
            ]
        };
        let frequency =
            frequency.and_then(number).filter(|&hz| hz > 0).map_or(DEFAULT_FREQUENCY, |hz| hz.min(MAX_FREQUENCY));
        EnvSettings {
            period_us: 1_000_000 / frequency,
            wall_clock: real.is_some(),
            all_threads: threads.is_some() || signal.is_some(),
            signal: signal.and_then(number).filter(|signal| (1..=64).contains(signal)).unwrap_or(0) as i32,
        }
    }
}

/// Parses a decimal number without anything after it.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.trim_ascii_start().parse().ok()
}

/// Returns the file that `CPUPROFILE` names, with the rank of a process of a parallel job, and
/// whether to append the process id, because this is a child of a process with the same name. Sets
/// `CPUPROFILE_USE_PID` for children. Returns `None` if no file is named.
///
/// # Safety
/// The program must have one thread. For constructors.
pub(crate) unsafe fn file() -> Option<(PathBuffer<MAX_PATH>, bool)> {
    // SAFETY: the caller is a constructor.
    let value = |name: &[u8]| unsafe { value(name) }.filter(|value| !value.is_empty());
    let name = value(b"CPUPROFILE")?;
    let mut path = PathBuffer::new().text(name);
    // SAFETY: the caller is a constructor. An empty value means yes too.
    let mut has_pid = is_true(unsafe { self::value(b"CPUPROFILE_USE_PID") });
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
        // SAFETY: libc's function of this name and type, called while there is one thread.
        unsafe {
            let setenv: Setenv = core::mem::transmute(address);
            setenv(c"CPUPROFILE_USE_PID".as_ptr(), c"1".as_ptr(), 1);
        }
    }
    Some((path, has_pid))
}

/// Returns whether a variable means yes, as gperftools reads it.
fn is_true(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.first().is_none_or(|first| b"tTyY1".contains(first)))
}

/// Makes a path absolute. A relative path starts at the current directory.
pub(crate) fn absolute(path: &[u8]) -> PathBuffer<MAX_PATH> {
    if path.first() == Some(&b'/') {
        return PathBuffer::new().text(path);
    }
    let mut directory = [0u8; MAX_PATH];
    // SAFETY: the kernel writes at most the buffer's length, including a NUL.
    let length = unsafe { syscall::syscall!(libc::SYS_getcwd, directory.as_mut_ptr(), directory.len()) };
    let directory = &directory[..(length.max(1) as usize) - 1];
    PathBuffer::new().text(directory).text(b"/").text(path)
}

/// Prints a warning to stderr: something that a variable requests is not possible. gperftools ends
/// the program in these cases.
pub(crate) fn warn(parts: &[&[u8]]) {
    let mut line = PathBuffer::<{ MAX_PATH + 256 }>::new().text(b"sigtop: ");
    for part in parts {
        line = line.text(part);
    }
    let line = line.text(b"\n");
    // SAFETY: the bytes outlive the call.
    unsafe { syscall::syscall!(libc::SYS_write, 2, line.as_bytes().as_ptr(), line.as_bytes().len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_parsed() {
        assert_eq!(number(b"250"), Some(250));
        assert_eq!(number(b" 9"), Some(9));
        assert_eq!((number(b"12x"), number(b""), number(b"-3")), (None, None, None));
    }

    #[test]
    fn boolean_variables_are_read_as_gperftools_reads_them() {
        assert!(is_true(Some(b"1")) && is_true(Some(b"yes")) && is_true(Some(b"")));
        assert!(!is_true(Some(b"0")) && !is_true(None));
    }

    #[test]
    fn relative_paths_become_absolute() {
        assert_eq!(absolute(b"/a/b").as_bytes(), b"/a/b");
        let here = std::env::current_dir().expect("somewhere").join("x.prof");
        assert_eq!(absolute(b"x.prof").as_bytes(), here.as_os_str().as_encoded_bytes());
    }
}
