//! The agent thread takes on what the process has become: libc's `setuid` and its kin change every thread that libc knows, and this is none.
//!
//! Without a profile to be written the agent leaves instead, and is born again by a tick, with the target's credentials. A file that the old
//! user opened could then not be opened again, so with one it stays and follows: users, groups, no capability that the target has not.

use super::status::Status;
use super::sys::{self, File, PathBuffer, syscall};

/// Supplementary groups, at most; a process with more is not followed.
const MAX_GROUPS: usize = 256;

/// What /proc tells of a thread's rights.
struct Rights {
    users: [u32; 4],
    groups: [u32; 4],
    others: [u32; MAX_GROUPS],
    count: usize,
    /// Permitted and effective capabilities.
    capabilities: u64,
}

impl Rights {
    fn of(tid: u32) -> Option<Rights> {
        let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/status");
        let mut text = [0; 8192];
        let length = File::open(path.terminated(), 0)?.read(&mut text);
        Rights::parse(&text[..length])
    }

    fn parse(text: &[u8]) -> Option<Rights> {
        let mut rights = Rights { users: [0; 4], groups: [0; 4], others: [0; MAX_GROUPS], count: 0, capabilities: 0 };
        let mut seen = 0;
        for line in text.split(|&byte| byte == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let name = words.next().unwrap_or_default();
            let mut numbers = words.clone().map(number);
            match name {
                b"Uid:" | b"Gid:" => {
                    let mut four = [0; 4];
                    for place in &mut four {
                        *place = numbers.next()??;
                    }
                    if name == b"Uid:" {
                        rights.users = four
                    } else {
                        rights.groups = four
                    }
                    seen += 1;
                }
                b"Groups:" => {
                    for group in numbers {
                        *rights.others.get_mut(rights.count)? = group?;
                        rights.count += 1;
                    }
                    seen += 1;
                }
                b"CapPrm:" | b"CapEff:" => {
                    rights.capabilities |= words.next().and_then(hexadecimal)?;
                    seen += 1;
                }
                _ => {}
            }
        }
        (seen == 5).then_some(rights)
    }
}

fn number(word: &[u8]) -> Option<u32> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(word).ok()?, 16).ok()
}

/// Takes on the credentials of the process's first thread; what this thread has then, or `None` if it has not become the same. prctl(2),
/// setresuid(2), setfsuid(2), setgroups(2): each for the calling thread alone
pub(super) fn follow() -> Option<Status> {
    let target = Rights::of(sys::getpid())?;
    let [user, effective, saved, files] = target.users;
    let [group, effective_group, saved_group, files_group] = target.groups;
    // A change makes the whole process one that may not be looked into; the target's own has done so already, and what it has
    // decided since stays.
    // SAFETY: plain values, and a list that outlives the call.
    unsafe {
        let dumpable = syscall!(libc::SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0);
        syscall!(libc::SYS_setgroups, target.count, target.others.as_ptr());
        syscall!(libc::SYS_setresgid, group, effective_group, saved_group);
        syscall!(libc::SYS_setfsgid, files_group);
        syscall!(libc::SYS_setresuid, user, effective, saved);
        syscall!(libc::SYS_setfsuid, files);
        if dumpable == 0 || dumpable == 1 {
            syscall!(libc::SYS_prctl, libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0);
        }
    }
    let tid = sys::gettid();
    let own = Rights::of(tid)?;
    let same = own.users == target.users
        && own.groups == target.groups
        && own.others[..own.count] == target.others[..target.count]
        && own.capabilities & !target.capabilities == 0;
    if same { Status::of(tid) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_whole_or_not() {
        let text = b"Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\nGroups:\t4 24 \nCapPrm:\t0000000000000001\nCapEff:\t0000000000000010\n";
        let rights = Rights::parse(text).expect("whole");
        assert_eq!((rights.users, rights.groups), ([1000, 1001, 1002, 1003], [5, 6, 7, 8]));
        assert_eq!((&rights.others[..rights.count], rights.capabilities), (&[4, 24][..], 0x11));
        assert!(Rights::parse(&text[..60]).is_none());
        assert!(Rights::of(sys::gettid()).is_some());
    }

    #[test]
    fn who_is_the_same_already_stays_so() {
        // On a thread that is no other's: nothing changes, whoever runs this.
        let before = Status::of(sys::gettid()).expect("told");
        let after = std::thread::spawn(follow).join().expect("no panic").expect("the same");
        assert!(before.same_credentials(&after));
    }
}
