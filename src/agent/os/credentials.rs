//! The rights of the agent thread. It starts with fewer than the target: no real-time scheduling,
//! no new privileges, and only the capabilities that it needs to read the target's files, to lock
//! as much memory as the target, and to follow the target's credentials.
//!
//! It adopts the credentials that the process changes to: libc's `setuid` and its relatives change
//! every thread that libc knows, and the agent thread is not one of them. If the change goes
//! through libc ([`setuid`](crate::agent::interpose::setuid)), the target waits until the agent
//! thread has followed. A change by a raw system call is found at the next check of the process.
//! Then the agent ends, and a tick starts it again with the target's credentials. It follows
//! instead while it writes a profile into a file that the old user opened and that could not be
//! opened again.

use crate::agent::os::status::Status;
use crate::agent::os::syscall::{self, File, PathBuffer, syscall};

/// Maximum number of supplementary groups. The agent does not follow a process with more.
const MAX_GROUPS: usize = 256;

/// Capabilities that the agent thread keeps if the target has them, as bits: CAP_DAC_OVERRIDE and
/// CAP_DAC_READ_SEARCH (for a profile in another user's directory, or a program that only root can
/// read), CAP_SETGID and CAP_SETUID (to follow the target's credentials), CAP_IPC_LOCK (for a
/// target whose locked memory is not limited).
const KEPT: u64 = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 14;

/// Drops the rights of the calling thread, the agent's, that it does not need. capset(2), prctl(2),
/// sched_setscheduler(2): each for the calling thread alone
pub(crate) fn reduce() {
    const RESET_ON_FORK: isize = 0x4000_0000;
    let [effective, permitted] = capabilities();
    limit_capabilities([effective & KEPT, permitted & KEPT]);
    // SAFETY: plain values, and one sched_param.
    unsafe {
        syscall!(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let policy = syscall!(libc::SYS_sched_getscheduler, 0) & !RESET_ON_FORK;
        if [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy as i32)) {
            let ordinary = 0i32;
            syscall!(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const ordinary);
        }
    }
}

/// Header for capget(2) and capset(2): version 3, the calling thread.
const CAPABILITIES: [u32; 2] = [0x2008_0522, 0];

/// Returns the effective and permitted capabilities of the calling thread. capget(2)
fn capabilities() -> [u64; 2] {
    let mut words = [0u32; 6];
    // SAFETY: the kernel writes two triples of words.
    unsafe { syscall!(libc::SYS_capget, CAPABILITIES.as_ptr(), words.as_mut_ptr()) };
    [0, 1].map(|at| u64::from(words[at]) | u64::from(words[at + 3]) << 32)
}

/// Sets the capabilities of the calling thread; none is inheritable. capset(2)
fn limit_capabilities([effective, permitted]: [u64; 2]) {
    let words = [effective as u32, permitted as u32, 0, (effective >> 32) as u32, (permitted >> 32) as u32, 0];
    // SAFETY: the kernel reads two triples of words.
    unsafe { syscall!(libc::SYS_capset, CAPABILITIES.as_ptr(), words.as_ptr()) };
}

/// A thread's credentials and capabilities, read from `/proc`.
struct Rights {
    users: [u32; 4],
    groups: [u32; 4],
    others: [u32; MAX_GROUPS],
    count: usize,
    /// Effective and permitted capabilities.
    capabilities: [u64; 2],
}

impl Rights {
    fn of(tid: u32) -> Option<Rights> {
        let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/status");
        let mut text = [0; 8192];
        let length = File::open(path.terminated(), 0)?.read(&mut text);
        Rights::parse(&text[..length])
    }

    fn parse(text: &[u8]) -> Option<Rights> {
        let mut rights =
            Rights { users: [0; 4], groups: [0; 4], others: [0; MAX_GROUPS], count: 0, capabilities: [0; 2] };
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
                    rights.capabilities[usize::from(name == b"CapPrm:")] = words.next().and_then(hexadecimal)?;
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

/// Adopts the credentials of another thread. Returns the credentials that the calling thread has
/// then, or `None` if they differ from the other thread's. capset(2), prctl(2), setresuid(2),
/// setfsuid(2), setgroups(2): each for the calling thread alone
pub(crate) fn follow(leader: u32) -> Option<Status> {
    let target = Rights::of(leader)?;
    let [user, effective, saved, files] = target.users;
    let [group, effective_group, saved_group, files_group] = target.groups;
    let [_, permitted] = capabilities();
    limit_capabilities([permitted; 2]);
    // A change makes the whole process one that may not be looked into; the target's own has done
    // so already, and what it has decided since stays. SAFETY: plain values, and a list that
    // outlives the call.
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
    let [effective, permitted] = target.capabilities;
    let [_, own_permitted] = capabilities();
    limit_capabilities([effective & permitted & own_permitted, permitted & own_permitted]);
    let tid = syscall::gettid();
    let own = Rights::of(tid)?;
    let same = own.users == target.users
        && own.groups == target.groups
        && own.others[..own.count] == target.others[..target.count]
        && own.capabilities.iter().zip(target.capabilities).all(|(own, target)| own & !target == 0);
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
        assert_eq!((&rights.others[..rights.count], rights.capabilities), (&[4, 24][..], [0x10, 1]));
        assert!(Rights::parse(&text[..60]).is_none());
        assert!(Rights::of(syscall::gettid()).is_some());
    }

    #[test]
    fn who_is_the_same_already_stays_so() {
        // On a thread that is no other's: nothing changes, whoever runs this.
        let before = Status::of(syscall::gettid()).expect("a status");
        let after = std::thread::spawn(|| follow(syscall::getpid())).join().expect("no panic").expect("the same");
        assert!(before.same_credentials(&after));
    }
}
