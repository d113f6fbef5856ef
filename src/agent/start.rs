//! Beginning and end: the constructor, birth of the agent thread, fork, exit.
//!
//! The constructor of an unwatched process installs a handler for SIGURG, whose default is to be ignored, and looks up a
//! few functions; nothing else. That of a launched one also arms one timer, whose first tick gives birth to the thread (or, where wall
//! time is asked for, makes the thread itself).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::exports::{self, Another};
use super::loader::weak_address;
use super::state::{self, BIRTH, Config};
use super::sys::{self, syscall};
use super::variables::{self, Manner};
use super::{
    credentials, guard, mask, memory, order, sender, setuid, sigaltstack, signals, timer, user_dispatch, young,
};
use crate::link::wire::{Clock, LINK_VARIABLE, PERIODS_NS};

/// Bytes of the agent thread's stack.
const STACK: usize = 256 * 1024;
/// Births tried before giving up (RLIMIT_NPROC).
const ATTEMPTS: u32 = 16;

/// What the environment says of the viewer that launched this process.
#[derive(Clone, Copy)]
pub(super) struct Link<'a> {
    /// To be given back in the Hello.
    pub(super) token: u64,
    /// The viewer's pid, as it knows itself.
    pub(super) viewer: u32,
    /// What to begin with.
    config: Config,
    /// Its socket.
    pub(super) path: &'a [u8],
}

struct LinkStore(UnsafeCell<(Link<'static>, [u8; 108])>);

// SAFETY: written by the constructor alone, before any thread or handler of ours.
unsafe impl Sync for LinkStore {}

const NO_LINK: Link<'static> =
    Link { token: 0, viewer: 0, config: Config { clock: Clock::Prof, period_ns: 10_101_010 }, path: &[] };
static LINK: LinkStore = LinkStore(UnsafeCell::new((NO_LINK, [0; 108])));

/// The viewer that launched this process.
pub(super) fn link() -> Option<Link<'static>> {
    // SAFETY: not written after the constructor.
    let (link, _) = unsafe { &*LINK.0.get() };
    (!link.path.is_empty()).then_some(*link)
}

/// `TOKEN:VIEWER_PID:PERIOD_NS:CLOCK:PATH`, the first four as decimal numbers.
fn parse(text: &[u8]) -> Option<Link<'_>> {
    let mut parts = text.splitn(5, |&byte| byte == b':');
    let mut number = || core::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (token, viewer, period_ns, clock) = (number()?, number()?, number()?, number()?);
    let path = parts.next().filter(|path| !path.is_empty() && path.len() < 108)?;
    let clock = match clock {
        0 => Clock::Prof,
        1 => Clock::Real,
        2 => Clock::Virtual,
        _ => return None,
    };
    PERIODS_NS.contains(&period_ns).then_some(Link {
        token,
        viewer: viewer as u32,
        config: Config { clock, period_ns },
        path,
    })
}

/// Reads what a viewer has put into the environment.
///
/// # Safety
/// For the constructor alone.
unsafe fn read_link() {
    // SAFETY: the caller vouches; nobody reads the link yet.
    unsafe {
        if let Some(link) = variables::value(LINK_VARIABLE.as_bytes()).and_then(parse) {
            // Kept apart: programs write over their environment.
            let (store, bytes) = &mut *LINK.0.get();
            bytes[..link.path.len()].copy_from_slice(link.path);
            *store = Link { path: &bytes[..link.path.len()], ..link };
        }
    }
}

/// Whether the loader is running a program with more rights than its user's; then nothing of ours happens.
fn secure() -> bool {
    let address = weak_address!("getauxval");
    if address == 0 {
        return false;
    }
    // SAFETY: libc's function of this name and type.
    let getauxval = unsafe { core::mem::transmute::<usize, extern "C" fn(u64) -> u64>(address) };
    getauxval(libc::AT_SECURE) != 0
}

/// Whether Valgrind runs the program: its own way to ask. Its threads and signals are not the kernel's.
fn under_valgrind() -> bool {
    let request: [u64; 6] = [0x1001, 0, 0, 0, 0, 0];
    let mut answer = 0u64;
    // SAFETY: without Valgrind these instructions change nothing.
    unsafe {
        core::arch::asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inlateout("rdx") answer, in("rax") request.as_ptr(), options(nostack));
    }
    answer != 0
}

/// How far the agent is in getting ready: not begun, under way, ready, staying out for good.
static READY: AtomicU32 = AtomicU32::new(0);

/// The environment has been read. The runtime of a sanitizer that is linked into the program sets
/// its handlers before libc knows the environment; then the constructor finds it. Written while
/// constructors run.
static ENVIRONMENT_READ: AtomicBool = AtomicBool::new(false);

/// Gets ready, once: by the constructor, or by a call of this library's functions from a constructor that runs before. False when the
/// agent stays out of this process.
pub(super) fn prepare() -> bool {
    if READY.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        guard::look_up();
        setuid::look_up();
        let out = secure() || under_valgrind();
        if !out {
            state::OWNER.store(sys::getpid(), Ordering::Relaxed);
            mask::adopt_inherited();
            guard::take(signals::tick());
            register_fork_hook();
        }
        READY.store(if out { 3 } else { 2 }, Ordering::Release);
    }
    let is_ready = READY.load(Ordering::Acquire) == 2;
    if is_ready && !ENVIRONMENT_READ.load(Ordering::Relaxed) && variables::are_there() {
        ENVIRONMENT_READ.store(true, Ordering::Relaxed);
        // SAFETY: constructors run.
        unsafe {
            read_link();
            order::adopt(Manner::of_environment());
        }
    }
    is_ready
}

/// The address of a function that an interposed one calls, as the constructor looked it up.
/// Constructors of the libraries that the program is linked with run before the agent's, and may
/// call interposed functions: the first of these calls gets ready. 0 when there is no such
/// function.
pub(super) fn real(function: &AtomicUsize) -> usize {
    if function.load(Ordering::Relaxed) == 0 {
        prepare();
    }
    function.load(Ordering::Relaxed)
}

/// When this program was loaded or forked to be sampled, ns; 0 once its first agent has asked.
static WATCHED_SINCE: AtomicU64 = AtomicU64::new(0);

/// Since when this process is to be sampled, ns of CLOCK_MONOTONIC, for its first agent; else 0.
pub(super) fn take_watched_since() -> u64 {
    WATCHED_SINCE.swap(0, Ordering::Relaxed)
}

/// Runs when the library is loaded.
pub(super) extern "C" fn constructor() {
    if !prepare() {
        return;
    }
    ENVIRONMENT_READ.store(true, Ordering::Relaxed);
    if let Some(link) = link() {
        state::WATCHED.store(true, Ordering::Relaxed);
        WATCHED_SINCE.store(sys::monotonic_ns(), Ordering::Relaxed);
        arm_for_birth(link.config);
    }
    // SAFETY: this is the constructor.
    unsafe {
        let another = exports::settle_with_another();
        if another != Another::First && !order::is_there() {
            order::obey_environment(another == Another::Behind);
        }
    }
    if state::WATCHED.load(Ordering::Relaxed) {
        sigaltstack::lend_to_own_thread();
    }
}

/// The first tick of the process's CPU clock gives birth, whatever the clock asked for: a process
/// that ends before it costs next to nothing, and one that sleeps from the start is knocked at.
fn arm_for_birth(config: Config) {
    timer::arm_for_birth(EPOCH.load(Ordering::Relaxed), config);
}

/// Has the first tick come by the signal that is in use now.
pub(super) fn move_birth() {
    let epoch = EPOCH.load(Ordering::Relaxed);
    if timer::is_birth_awaited() {
        timer::arm_for_birth(epoch, state::config(epoch));
    }
}

/// The configuration with which a fork child begins: what its parent's agent had in force. Period and clock as in
/// `state`; 0 before an engine was.
static EPOCH: AtomicU32 = AtomicU32::new(0);
static STACK_START: AtomicUsize = AtomicUsize::new(0);
static TLS_START: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicU32 = AtomicU32::new(0);
/// The kernel, or a sandbox, cannot give the agent thread a table of descriptors of its own after
/// its birth. Written by the agent thread, read at the next birth.
static COPIES_DESCRIPTORS: AtomicBool = AtomicBool::new(false);
/// Futex: 1 as soon as the agent thread holds nothing of the target's any more. Written by both
/// sides of a birth.
static SETTLED: AtomicU32 = AtomicU32::new(0);
/// How long a birth waits for that, ns. It takes some ten microseconds where a processor is free.
const SETTLING_NS: u64 = 20_000_000;

fn register_fork_hook() {
    type Hook = Option<extern "C" fn()>;
    let (glibc, posix) = (weak_address!("__register_atfork"), weak_address!("pthread_atfork"));
    // SAFETY: libc's functions of these names and types; the hook stays mapped (-z nodelete).
    unsafe {
        if glibc != 0 {
            let register: extern "C" fn(Hook, Hook, Hook, *const u8) -> i32 = core::mem::transmute(glibc);
            register(None, None, Some(in_fork_child), core::ptr::null());
        } else if posix != 0 {
            let register: extern "C" fn(Hook, Hook, Hook) -> i32 = core::mem::transmute(posix);
            register(None, None, Some(in_fork_child));
        }
    }
}

/// In a fork child there is one thread, and no timer. A watched process's child waits for its own first tick.
extern "C" fn in_fork_child() {
    if state::FILTERED.load(Ordering::Relaxed) {
        // Not one call may be made here: without an owner that it could be, the agent sleeps in this process.
        state::AGENT.store(BIRTH, Ordering::Relaxed);
        state::ASLEEP.store(0, Ordering::Relaxed);
        return;
    }
    sigaltstack::forget_other_threads();
    user_dispatch::forget();
    young::forget();
    if state::AGENT.load(Ordering::Relaxed) != 0 || !state::RING.load(Ordering::Relaxed).is_null() {
        state::forget();
        timer::forget_classic();
        STACK_START.store(0, Ordering::Relaxed);
        #[cfg(sigtop_agent)]
        // SAFETY: no agent thread exists in this process, and what the parent's had is left alone.
        unsafe {
            super::ARENA.forget();
        }
    }
    order::inherit();
    timer::forget_birth_timers();
    // Last: a viewer that sees this process may knock already, and an agent that is born of that
    // needs everything above.
    state::OWNER.store(sys::getpid(), Ordering::Release);
    if state::WATCHED.load(Ordering::Relaxed) {
        WATCHED_SINCE.store(sys::monotonic_ns(), Ordering::Relaxed);
        come_back();
    }
}

/// Prepares the birth of an agent that calls the viewer its predecessor (or parent) called, with what was in force then.
pub(super) fn come_back() {
    if link().is_none() {
        state::KNOCK.store(sender::viewer(), Ordering::Relaxed);
    }
    let config = state::config(EPOCH.load(Ordering::Relaxed));
    arm_for_birth(if config.period_ns == 0 { NO_LINK.config } else { config });
}

/// Makes ready for a filter of system calls: the agent thread, which it will not bind, is there before it, and handlers make no call
/// from now on. The target's own thread runs this.
pub(super) fn be_born_before_a_filter() {
    let mask = sys::block_all();
    if state::WATCHED.load(Ordering::Relaxed) && !state::DISABLED.load(Ordering::Relaxed) {
        give_birth();
    }
    timer::delete_birth_timers();
    state::FILTERED.store(true, Ordering::SeqCst);
    state::MAY_CALL.store(false, Ordering::SeqCst);
    sys::set_mask(mask);
}

/// The agent stays out of this process, and of its children, for good: its thread has left, and no
/// system call is made any more.
pub(super) fn stay_away() {
    state::WATCHED.store(false, Ordering::SeqCst);
    state::FILTERED.store(true, Ordering::SeqCst);
    state::MAY_CALL.store(false, Ordering::SeqCst);
}

/// Makes ready for a filter that may be installed unseen: the agent thread, which will find it, is
/// there before it, and the end of the program is not waited with.
pub(super) fn be_born_before_a_surprise() {
    state::CONFINED.store(true, Ordering::SeqCst);
    if state::WATCHED.load(Ordering::Relaxed)
        && !state::DISABLED.load(Ordering::Relaxed)
        && !state::FILTERED.load(Ordering::Relaxed)
    {
        let mask = sys::block_all();
        give_birth();
        sys::set_mask(mask);
    }
}

/// Of the configuration in force.
pub(super) fn epoch() -> u32 {
    EPOCH.load(Ordering::Relaxed)
}

/// Remembers the configuration in force, for fork children and the next birth.
pub(super) fn remember_epoch(epoch: u32) {
    EPOCH.store(epoch, Ordering::Relaxed);
}

/// Runs when the process exits by itself: what the ring still holds is sent first. Bounded; a process that is not watched
/// passes through.
pub(super) extern "C" fn destructor() {
    // A profile's file is to be whole.
    let patience_ns = if order::is_there() { 2_000_000_000 } else { 20_000_000 };
    // Where a filter forbids to wait, the viewer finds the rest in the ring.
    if matches!(state::AGENT.load(Ordering::Acquire), 0 | BIRTH)
        || state::must_not_call()
        || state::CONFINED.load(Ordering::Relaxed)
        || sys::getpid() != state::OWNER.load(Ordering::Relaxed)
    {
        return;
    }
    let before = state::DRAINED.load(Ordering::Acquire);
    state::LEAVING.store(true, Ordering::SeqCst);
    state::wake();
    sys::futex_wait(&state::DRAINED, before, patience_ns);
}

/// Makes the agent thread, born with every signal blocked. Four handlers at once make one thread.
pub(super) fn give_birth() {
    if state::AGENT.compare_exchange(0, BIRTH, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let mask = sys::block_all();
    let is_born = clone_agent();
    sys::set_mask(mask);
    if !is_born {
        state::AGENT.store(0, Ordering::Release);
        if FAILED.fetch_add(1, Ordering::Relaxed) >= ATTEMPTS {
            state::DISABLED.store(true, Ordering::Relaxed);
            timer::delete_birth_timers();
        }
    }
}

fn clone_agent() -> bool {
    // Kept for the next birth: the kernel clears AGENT when the thread has left its stack for good.
    let mut stack = STACK_START.load(Ordering::Acquire);
    if stack == 0 {
        stack = memory::pages(STACK) as usize;
        TLS_START.store(memory::pages(4096) as usize, Ordering::Relaxed);
        STACK_START.store(stack, Ordering::Release);
    }
    let tls = TLS_START.load(Ordering::Relaxed);
    if stack == 0 || tls == 0 {
        STACK_START.store(0, Ordering::Release);
        return false;
    }
    // A block of its own for thread-local storage, which it does not use: debuggers look there, and the target's is not
    // to be touched by accident. First and third word point to itself, as the ABI wants.
    // SAFETY: fresh pages, or those of an agent that has ended.
    unsafe {
        *(tls as *mut usize) = tls;
        *((tls + 16) as *mut usize) = tls;
    }
    // A table of descriptors that is copied by the clone would hold every open file until the new
    // thread runs and closes it: locks would outlive their close(2), and pipes their last writer. A
    // shared one holds nothing.
    let table = if COPIES_DESCRIPTORS.load(Ordering::Relaxed) { 0 } else { libc::CLONE_FILES };
    let flags = table
        | libc::CLONE_VM
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    SETTLED.store(0, Ordering::Relaxed);
    let result: isize;
    // SAFETY: the child has a stack and a block of its own, runs `agent_thread` and never returns; the parent goes on.
    unsafe {
        core::arch::asm!(
            "syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "call {main}", "ud2", "2:",
            inlateout("rax") libc::SYS_clone as isize => result, in("rdi") flags as usize, in("rsi") stack + STACK,
            in("rdx") state::AGENT.as_ptr(), in("r10") state::AGENT.as_ptr(), in("r8") tls,
            lateout("rcx") _, lateout("r11") _, main = sym agent_thread,
        );
    }
    if result > 0 {
        // While the new thread empties its table it may hold a file that this one closes next.
        sys::futex_wait(&SETTLED, 0, SETTLING_NS);
    }
    result > 0
}

extern "C" fn agent_thread() -> ! {
    // The thread has a working directory of its own, which would keep the file system that it is on
    // from being unmounted. It uses absolute paths alone. pivot_root(2) takes along who is at the
    // root.
    // SAFETY: a string that ends.
    unsafe { syscall!(libc::SYS_chdir, c"/".as_ptr()) };
    let is_alone = leave_descriptors();
    SETTLED.store(1, Ordering::Release);
    sys::futex_wake(&SETTLED);
    if !is_alone {
        // The next tick gives birth in the other way.
        let epoch = EPOCH.load(Ordering::Relaxed);
        let config = state::config(epoch);
        timer::arm_for_birth(epoch, if config.period_ns == 0 { NO_LINK.config } else { config });
        exit(0);
    }
    credentials::reduce();
    // SAFETY: a string that ends.
    unsafe { syscall!(libc::SYS_prctl, libc::PR_SET_NAME, c"sigtop".as_ptr()) };
    exit(sender::live(EPOCH.load(Ordering::Relaxed)))
}

fn exit(code: u32) -> ! {
    // SAFETY: ends this thread; nothing of it is needed after.
    unsafe { syscall!(libc::SYS_exit, code) };
    unreachable!("exit does not return")
}

/// Gives the agent thread an empty table of descriptors of its own. False when it still shares the
/// target's; then it must not live, and the next one is born with a copy. close_range(2)
fn leave_descriptors() -> bool {
    const CLOSE_RANGE_UNSHARE: u32 = 2;
    /// Numbers that are closed one by one where the kernel has no close_range(2).
    const MOST: u64 = 1 << 16;
    // SAFETY: plain values. Where all that is unshared is closed, the kernel copies no descriptor
    // to begin with: this thread never holds a file of the target's. A copied table is this
    // thread's own, and may be emptied.
    unsafe {
        if !COPIES_DESCRIPTORS.load(Ordering::Relaxed) {
            let is_alone = syscall!(libc::SYS_close_range, 0, u32::MAX, CLOSE_RANGE_UNSHARE) >= 0;
            COPIES_DESCRIPTORS.store(!is_alone, Ordering::Relaxed);
            return is_alone;
        }
        if syscall!(libc::SYS_close_range, 0, u32::MAX, 0) < 0 {
            (0..sys::limit(libc::RLIMIT_NOFILE as i32).min(MOST)).for_each(|number| sys::close(number as i32));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_read_or_refused() {
        let link = parse(b"77:41:10101010:0:/run/user/0/a:b.sock").expect("valid");
        assert_eq!((link.token, link.viewer, link.path), (77, 41, &b"/run/user/0/a:b.sock"[..]));
        assert_eq!(link.config, Config { clock: Clock::Prof, period_ns: 10_101_010 });
        let refused: [&[u8]; 5] =
            [b"", b"77:41:10101010:0:", b"77:41:10:0:/x", b"x:41:10101010:0:/x", b"7:4:10101010:9:/x"];
        for text in refused {
            assert!(parse(text).is_none());
        }
        let long = [b"77:41:10101010:0:".as_slice(), &[b'/'; 108]].concat();
        assert!(parse(&long).is_none());
    }
}
