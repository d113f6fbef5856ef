//! Another process as a source of waits. The thread is not stopped.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use super::ptrace;
use crate::process::waits::{WaitReader, WaitSource};
use crate::wire::BlockingCall;

/// Memory and files of a process.
pub(super) struct ProcessWaits {
    pid: u32,
}

impl ProcessWaits {
    /// Makes a reader of the waits of a process.
    pub(super) fn reader(pid: u32) -> WaitReader<ProcessWaits> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own_pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let knows_threads = own_pids.is_some_and(|pids| pids.split_ascii_whitespace().count() == 1);
        WaitReader::new(ProcessWaits { pid }, knows_threads)
    }

    /// Counts the threads of the process.
    pub(super) fn count_threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, Iterator::count)
    }

    /// Returns whether a thread is stopped, by a signal, a debugger or the freezer.
    pub(super) fn is_stopped(&self, tid: u32) -> bool {
        let mut function = [0; 64];
        let length = self.kernel_function(tid, &mut function);
        BlockingCall::is_stop(&function[..length])
    }

    /// Fills the start of the buffer with a file about a thread. Returns the number of bytes.
    fn read_file(&self, tid: u32, name: &str, buffer: &mut [u8]) -> usize {
        let path = format!("/proc/{}/task/{tid}/{name}", self.pid);
        fs::File::open(path).and_then(|file| file.read_at(buffer, 0)).unwrap_or(0)
    }
}

impl WaitSource for ProcessWaits {
    fn memory(&self, address: u64, buffer: &mut [u8]) -> usize {
        ptrace::read_memory(self.pid, address, buffer)
    }

    fn kernel_function(&self, tid: u32, buffer: &mut [u8]) -> usize {
        self.read_file(tid, "wchan", buffer)
    }

    fn description(&self, tid: u32, descriptor: u32, buffer: &mut [u8]) -> usize {
        self.read_file(tid, &format!("fdinfo/{descriptor}"), buffer)
    }

    fn file(&self, tid: u32, descriptor: u32) -> (Vec<u8>, bool) {
        let path = format!("/proc/{}/task/{tid}/fd/{descriptor}", self.pid);
        let object = fs::read_link(&path).map_or(Vec::new(), |target| target.as_os_str().as_bytes().to_vec());
        let is_file = object.first() == Some(&b'/') && is_regular_file(&path);
        (object, is_file)
    }

    fn is_thread(&self, tid: u32) -> bool {
        fs::exists(format!("/proc/{}/task/{tid}", self.pid)).unwrap_or(false)
    }
}

/// Returns whether a path leads to a regular file.
fn is_regular_file(path: &str) -> bool {
    attributes(path).is_some_and(|file| u32::from(file.stx_mode) & libc::S_IFMT == libc::S_IFREG)
}

/// Returns the attributes of a file, as far as they are known: the file system is not asked,
/// because it may hang, and all samples would wait with it. statx(2)
pub(super) fn attributes(path: &str) -> Option<libc::statx> {
    let path = CString::new(path).ok()?;
    let mut file = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path ends with a NUL and the kernel writes one structure; both live through the
    // call.
    let done = unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), libc::AT_STATX_DONT_SYNC, libc::STATX_TYPE, file.as_mut_ptr())
    };
    // SAFETY: all bytes zero are a structure, too.
    (done == 0).then(|| unsafe { file.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::arch::recorded_call;
    use crate::process::waits::SleeperWait;

    #[test]
    fn descriptors_and_holders_of_another_process_are_read() {
        let reader = ProcessWaits::reader(std::process::id());
        let tid = nix::unistd::gettid().as_raw() as u32;
        let file = fs::File::open("/proc/self/exe").unwrap();
        let read = |tid, number: libc::c_long, arguments| {
            let mut wait = SleeperWait::default();
            let call = BlockingCall { number: Some(recorded_call(number as u32)), arguments };
            reader.read(&mut wait, tid, Some(call), ProcessWaits::count_threads);
            wait.unsent().cloned().unwrap()
        };
        let wait = read(tid, libc::SYS_read, [file.as_raw_fd() as u64, 0, 0]);
        let executable = std::env::current_exe().unwrap();
        assert_eq!((wait.object, wait.is_file), (executable.as_os_str().as_bytes().to_vec(), true));
        // Without a live thread of that number there is no holder.
        let lock = [2, 0, std::process::id(), 1, 0, 0, 0, 0, 0, 0u32];
        let futex = [lock.as_ptr() as u64, 0x80, 2];
        assert_eq!(read(tid, libc::SYS_futex, futex).holder, std::process::id());
        assert_eq!(read(std::process::id(), libc::SYS_futex, futex).holder, 0);
        let ended = [2, 0, u32::MAX >> 2, 1, 0, 0, 0, 0, 0, 0u32];
        assert_eq!(read(tid, libc::SYS_futex, [ended.as_ptr() as u64, 0x80, 2]).holder, 0);
    }

    /// Serves a file system with one file, whose attributes it answers with once.
    fn serve(device: fs::File) {
        use std::io::{Read, Write};
        let number = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        // Number, size and times as pairs of words; mode, links, owner.
        let attributes =
            |id: u32, mode| words(&[id, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]);
        let mut request = vec![0; 1 << 17];
        while let Ok(40..) = (&device).read(&mut request) {
            let (code, node) = (number(&request, 4), number(&request, 16));
            let answer = match code {
                // The version, looking up the file, attributes of the directory, and opening the
                // file.
                26 => words(&[7, 31, 1 << 16, 0, 0, 1 << 16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                1 => [words(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]), attributes(2, libc::S_IFREG | 0o644)].concat(),
                3 if node == 1 => [words(&[9, 0, 0, 0]), attributes(1, libc::S_IFDIR | 0o755)].concat(),
                14 => words(&[1, 0, 0, 0]),
                // Closing.
                18 | 25 => Vec::new(),
                _ => continue,
            };
            let head = [&words(&[16 + answer.len() as u32, 0])[..], &request[8..16]].concat();
            (&device).write_all(&[head, answer].concat()).unwrap();
        }
    }

    /// Regression test: one thread that read from a file system that hung made all samples of all
    /// processes wait for it.
    #[test]
    fn a_file_system_that_hangs_is_not_asked() {
        use std::time::Duration;
        let directory = std::env::temp_dir().join(format!("sigtop-waits-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let target = CString::new(directory.as_os_str().as_bytes()).unwrap();
        let Ok(device) = fs::File::options().read(true).write(true).open("/dev/fuse") else { return };
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).unwrap();
        // SAFETY: all strings end with a NUL and live through the call.
        let mounted =
            unsafe { libc::mount(c"sigtop".as_ptr(), target.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast()) };
        if mounted != 0 {
            // It takes a privilege.
            return;
        }
        std::thread::spawn(move || serve(device));
        let file = fs::File::open(directory.join("file")).unwrap();
        let (sender, answer) = std::sync::mpsc::channel();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        std::thread::spawn(move || sender.send(is_regular_file(&path)));
        let is_file = answer.recv_timeout(Duration::from_secs(20));
        // SAFETY: the string ends with a NUL and lives through the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        assert_eq!(is_file, Ok(true));
    }
}
