//! The rights of the agent thread. It is born with fewer than the target: no real-time scheduling,
//! no new privileges, and of the capabilities those alone that it needs to read the target's files,
//! to lock as much memory as the target and to follow it.
//!
//! It takes on what the process becomes: libc's `setuid` and its kin change every thread that libc
//! knows, and this is none. Where libc is asked ([`setuid`](super::setuid)), the target waits until
//! the agent thread has followed. What a raw system call changed is found at the next look at the
//! process. Then the agent leaves, and is born again by a tick, with the target's credentials; but
//! not while it writes a profile into a file that the old user opened, and that could not be opened
//! again: then it follows too.

use core::sync::atomic::{AtomicU32, Ordering};

use super::state;
use super::status::Status;
use super::sys::{self, File, PathBuffer, syscall};

/// Supplementary groups, at most; a process with more is not followed.
const MAX_GROUPS: usize = 256;

/// Capabilities that the agent thread keeps where the target has them, as bits: CAP_DAC_OVERRIDE
/// and CAP_DAC_READ_SEARCH (a profile in a directory of another user's, a program that only root
/// can read), CAP_SETGID and CAP_SETUID (to follow), CAP_IPC_LOCK (a target without a limit to what
/// it locks).
const KEPT: u64 = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 14;

/// How long the target waits for the agent thread to follow, ns. That takes less than a thousandth
/// of it.
const PATIENCE_NS: u64 = 100_000_000;
/// Between two attempts to wake an agent thread that was about to sleep, ns.
const AGAIN_NS: u64 = 1_000_000;

/// How often the agent thread was asked to follow. Written by the target's threads.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// Which request was served last; a futex. Written by the agent thread.
static SERVED: AtomicU32 = AtomicU32::new(0);
/// The thread that asked last. Written like the requests, before them.
static LEADER: AtomicU32 = AtomicU32::new(0);

/// Takes from the calling thread, the agent's, what it does not need of the rights it was born
/// with. capset(2), prctl(2), sched_setscheduler(2): each for the calling thread alone
pub(super) fn reduce() {
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

/// A header of capget(2) and capset(2): version 3, the calling thread.
const CAPABILITIES: [u32; 2] = [0x2008_0522, 0];

/// Effective and permitted capabilities of the calling thread. capget(2)
fn capabilities() -> [u64; 2] {
    let mut words = [0u32; 6];
    // SAFETY: the kernel writes two triples of words.
    unsafe { syscall!(libc::SYS_capget, CAPABILITIES.as_ptr(), words.as_mut_ptr()) };
    [0, 1].map(|at| u64::from(words[at]) | u64::from(words[at + 3]) << 32)
}

/// Sets them; none is inheritable. capset(2)
fn limit_capabilities([effective, permitted]: [u64; 2]) {
    let words = [effective as u32, permitted as u32, 0, (effective >> 32) as u32, (permitted >> 32) as u32, 0];
    // SAFETY: the kernel reads two triples of words.
    unsafe { syscall!(libc::SYS_capset, CAPABILITIES.as_ptr(), words.as_ptr()) };
}

/// The calling thread, one of the target's, has changed the credentials of the process: returns
/// when the agent thread has the same, or has ended. An agent that is born afterwards has them from
/// the start.
pub(super) fn await_following() {
    let is_there = || state::AGENT.load(Ordering::Acquire) != 0;
    if !is_there() || state::FILTERED.load(Ordering::Relaxed) || !state::is_at_home() {
        return;
    }
    LEADER.store(sys::gettid(), Ordering::Relaxed);
    let request = REQUESTS.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    let deadline_ns = sys::monotonic_ns() + PATIENCE_NS;
    while is_there() && sys::monotonic_ns() < deadline_ns {
        let served = SERVED.load(Ordering::Acquire);
        if served.wrapping_sub(request) as i32 >= 0 {
            break;
        }
        state::wake();
        sys::futex_wait(&SERVED, served, AGAIN_NS);
    }
}

/// Follows if a thread of the target's waits for that; what the agent thread has then goes into
/// `own`. False when it has not become the same: then it has to leave. For the agent thread.
pub(super) fn keep_up(own: &mut Option<Status>) -> bool {
    let requests = REQUESTS.load(Ordering::Acquire);
    if SERVED.load(Ordering::Relaxed) == requests {
        return true;
    }
    let followed = follow(LEADER.load(Ordering::Relaxed));
    if followed.is_some() {
        *own = followed;
    }
    SERVED.store(requests, Ordering::Release);
    sys::futex_wake(&SERVED);
    followed.is_some()
}

/// What /proc tells of a thread's rights.
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

/// Takes on the credentials of another thread; what this thread has then, or `None` if it has not
/// become the same. capset(2), prctl(2), setresuid(2), setfsuid(2), setgroups(2): each for the
/// calling thread alone
pub(super) fn follow(leader: u32) -> Option<Status> {
    let target = Rights::of(leader)?;
    let [user, effective, saved, files] = target.users;
    let [group, effective_group, saved_group, files_group] = target.groups;
    let [_, permitted] = capabilities();
    limit_capabilities([permitted; 2]);
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
    let [effective, permitted] = target.capabilities;
    let [_, own_permitted] = capabilities();
    limit_capabilities([effective & permitted & own_permitted, permitted & own_permitted]);
    let tid = sys::gettid();
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
        assert!(Rights::of(sys::gettid()).is_some());
    }

    #[test]
    fn who_is_the_same_already_stays_so() {
        // On a thread that is no other's: nothing changes, whoever runs this.
        let before = Status::of(sys::gettid()).expect("told");
        let after = std::thread::spawn(|| follow(sys::getpid())).join().expect("no panic").expect("the same");
        assert!(before.same_credentials(&after));
    }
}
