//! What is ordered: a profile in a file, by the environment (`CPUPROFILE`), by the program (`ProfilerStart`) or by a signal
//! (`CPUPROFILESIGNAL`). Threads of the target order, the agent thread delivers; this is the counter between them.
//!
//! An order goes through [states](State): whoever gives one owns the rest of it until it says [`Asked`](State::Asked), the agent thread
//! from there on. Nobody holds a lock: an order may come from a signal handler, and finds the counter free or taken.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::state::{self, BIRTH};
use super::sys::{self, File, PathBuffer};
use super::variables::{self, Manner, PATH};
use super::{guard, start};
use crate::link::legacy;
use crate::link::wire::Clock;

/// Where an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// There is none.
    Nothing = 0,
    /// Somebody is giving one.
    Opening = 1,
    /// The agent thread is to begin. (In a fork child: as soon as there is one.)
    Asked = 2,
    /// It has begun.
    On = 3,
    /// It is to write the rest, and end.
    Ending = 4,
}

/// A [`State`]; a futex. Moved from `Nothing` and `On` by who orders, and by the agent thread from `Asked` and `Ending`.
static STATE: AtomicU32 = AtomicU32::new(State::Nothing as u32);
/// Path of the file. Written by who moved `STATE` to `Opening`, read from `Asked` on.
static FILE: Path = Path(UnsafeCell::new([0; PATH]), AtomicUsize::new(0));
/// The same as it was given, for programs that ask. Written like it.
static GIVEN: Path = Path(UnsafeCell::new([0; PATH]), AtomicUsize::new(0));
/// The name in `CPUPROFILE`, from the root on, for a signal. Written by the constructor.
static NAME: Path = Path(UnsafeCell::new([0; PATH]), AtomicUsize::new(0));
/// Whether the process id is appended to each: this is a child. Written like them.
static FILE_HAS_PID: AtomicBool = AtomicBool::new(false);
static NAME_HAS_PID: AtomicBool = AtomicBool::new(false);
/// How: as in [`Manner`]. Written by the constructor alone.
static PERIOD_US: AtomicU64 = AtomicU64::new(10_000);
static REAL: AtomicBool = AtomicBool::new(false);
static EVERY_THREAD: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// No tick, but what the program samples itself. Written like the path.
static BY_HAND: AtomicBool = AtomicBool::new(false);
/// Asked by handlers whether a sample counts, with its argument; 0 for all. Written like the path, the function last.
static FILTER: AtomicUsize = AtomicUsize::new(0);
static FILTER_ARGUMENT: AtomicUsize = AtomicUsize::new(0);
/// Seconds since 1970 at the start.
static STARTED: AtomicU64 = AtomicU64::new(0);
/// Samples in the profile. Written by the agent thread.
static SAMPLES: AtomicU64 = AtomicU64::new(0);
/// Where the records in the file end: an agent that is born again goes on there. 0: there are none. Written by the agent thread.
static RECORDS_END: AtomicU64 = AtomicU64::new(0);
/// How often it was asked to write what it has, and how often it did; the second is a futex.
static FLUSHES: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// The signal that starts and stops, or 0; and how often it came since the agent thread looked.
static SWITCH: AtomicI32 = AtomicI32::new(0);
static SWITCHED: AtomicU32 = AtomicU32::new(0);

/// How long an order is waited for, ns: the agent thread is born within some milliseconds, and writes for some.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Files tried with a signal, at most.
const MAX_NUMBER: u64 = 100_000;

struct Path(UnsafeCell<[u8; PATH]>, AtomicUsize);

// SAFETY: one writer at a time, and no reader meanwhile: see where they are.
unsafe impl Sync for Path {}

impl Path {
    /// The bytes.
    ///
    /// # Safety
    /// Nobody may be writing.
    unsafe fn get(&self) -> &[u8] {
        // SAFETY: the caller vouches.
        unsafe { &(&*self.0.get())[..self.1.load(Ordering::Acquire)] }
    }

    /// # Safety
    /// Nobody may be reading or writing.
    unsafe fn set(&self, path: &[u8]) {
        // SAFETY: the caller vouches.
        unsafe { (&mut *self.0.get())[..path.len()].copy_from_slice(path) };
        self.1.store(path.len(), Ordering::Release);
    }
}

/// What the agent thread has to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Which clock.
    pub(super) clock: Clock,
    /// Its period, µs.
    pub(super) period_us: u64,
    /// By the wall clock: the first thread alone.
    pub(super) first_thread: bool,
    /// No tick.
    pub(super) by_hand: bool,
}

/// A function of the target's that is asked whether a sample counts.
pub(super) type Filter = extern "C" fn(*mut ()) -> i32;

fn is(state: State) -> bool {
    STATE.load(Ordering::Acquire) == state as u32
}

fn go(from: State, to: State) -> bool {
    STATE.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Whether a profile is to be written or being written.
pub(super) fn is_there() -> bool {
    !is(State::Nothing)
}

/// Whether one is on, as programs see it.
pub(super) fn is_on() -> bool {
    is(State::On) || is(State::Asked)
}

/// Whether the filter, asked on this very thread, leaves its sample out.
#[inline]
pub(super) fn is_left_out() -> bool {
    match FILTER.load(Ordering::Acquire) {
        0 => false,
        address => {
            // SAFETY: the target gave a function of this type, and one that may be called in a handler.
            let filter: Filter = unsafe { core::mem::transmute(address) };
            filter(core::ptr::with_exposed_provenance_mut(FILTER_ARGUMENT.load(Ordering::Relaxed))) == 0
        }
    }
}

/// The signal that ticks are to come by, or 0.
pub(super) fn signal() -> i32 {
    if is_there() { SIGNAL.load(Ordering::Relaxed) } else { 0 }
}

/// A path with the process id that is to be appended to it.
fn full(path: &[u8], has_pid: bool) -> PathBuffer<PATH> {
    let path = PathBuffer::new().text(path);
    if has_pid { path.text(b"_").number(sys::getpid().into()) } else { path }
}

/// The path of the file, which an order stands for.
fn file() -> PathBuffer<PATH> {
    // SAFETY: not written while an order stands.
    full(unsafe { FILE.get() }, FILE_HAS_PID.load(Ordering::Relaxed))
}

/// Makes a file of a profile without records, so that there is one from the beginning. Returns the error's number.
fn make(path: &PathBuffer<PATH>, flags: i32) -> Result<File, i32> {
    let file = File::create(path.terminated(), flags)?;
    let mut words = [0u64; 8];
    words[..5].copy_from_slice(&legacy::head(PERIOD_US.load(Ordering::Relaxed)));
    words[5..].copy_from_slice(&legacy::END);
    // SAFETY: plain words, as bytes.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(&words)) };
    file.write_at(bytes, 0).map(|()| file)
}

/// Orders a profile into a file, whose name begins where this thread is. The error's number when there is no such file, or 0 when a
/// profile is on already, or none can be.
pub(super) fn begin(path: &[u8], by_hand: bool, filter: Option<Filter>, argument: *mut ()) -> Result<(), i32> {
    begin_as(path, false, by_hand, filter, argument)
}

fn begin_as(path: &[u8], has_pid: bool, by_hand: bool, filter: Option<Filter>, argument: *mut ()) -> Result<(), i32> {
    let impossible = state::DISABLED.load(Ordering::Relaxed) || state::FILTERED.load(Ordering::Relaxed);
    if impossible || !state::is_at_home() || path.len() > PATH - 32 || !go(State::Nothing, State::Opening) {
        return Err(0);
    }
    // SAFETY: whoever opens is alone.
    unsafe { GIVEN.set(path) };
    let path = variables::absolute(path);
    if let Err(number) = make(&full(path.as_bytes(), has_pid), libc::O_TRUNC) {
        go(State::Opening, State::Nothing);
        return Err(number);
    }
    FILE_HAS_PID.store(has_pid, Ordering::Relaxed);
    take(path.as_bytes(), by_hand, filter, argument);
    let mask = sys::block_all();
    call_agent();
    sys::set_mask(mask);
    if state::AGENT.load(Ordering::Acquire) == 0 && go(State::Asked, State::Nothing) {
        return Err(0);
    }
    Ok(())
}

/// Fills in the order that was begun.
fn take(path: &[u8], by_hand: bool, filter: Option<Filter>, argument: *mut ()) {
    // SAFETY: whoever opens is alone.
    unsafe { FILE.set(path) };
    BY_HAND.store(by_hand, Ordering::Relaxed);
    FILTER_ARGUMENT.store(argument.expose_provenance(), Ordering::Relaxed);
    FILTER.store(filter.map_or(0, |filter| filter as *const () as usize), Ordering::Release);
    STARTED.store(sys::clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000, Ordering::Relaxed);
    SAMPLES.store(0, Ordering::Relaxed);
    RECORDS_END.store(0, Ordering::Relaxed);
    state::WATCHED.store(true, Ordering::Relaxed);
    STATE.store(State::Asked as u32, Ordering::Release);
}

/// Has the agent thread look. Called with every signal blocked.
fn call_agent() {
    match state::AGENT.load(Ordering::Acquire) {
        0 => start::give_birth(),
        _ => state::wake(),
    }
}

/// Waits until a word has changed as wanted, where waiting is allowed.
fn await_change(word: &AtomicU32, wanted: impl Fn(u32) -> bool) -> bool {
    let deadline_ns = sys::monotonic_ns() + PATIENCE_NS;
    loop {
        let value = word.load(Ordering::Acquire);
        if wanted(value) {
            return true;
        }
        if state::AGENT.load(Ordering::Acquire) == 0 || sys::monotonic_ns() > deadline_ns {
            return false;
        }
        sys::futex_wait(word, value, 20_000_000);
    }
}

/// Waits until what was ordered is under way, or was given up; true when it is.
pub(super) fn await_begin() -> bool {
    await_change(&STATE, |state| state != State::Asked as u32) && is(State::On)
}

/// Ends the profile, if one is on: when this returns, the file is whole.
pub(super) fn end() {
    if !state::is_at_home() {
        return;
    }
    if state::AGENT.load(Ordering::Acquire) == 0 {
        // A fork child that has not ticked yet.
        go(State::Asked, State::Nothing);
    } else if is(State::Asked) {
        await_begin();
    }
    if !go(State::On, State::Ending) {
        return;
    }
    state::wake();
    if !state::FILTERED.load(Ordering::Relaxed) {
        await_change(&STATE, |state| state != State::Ending as u32);
    }
}

/// Writes what is there, if a profile is on: when this returns, it is in the file.
pub(super) fn flush() {
    let agent = state::AGENT.load(Ordering::Acquire);
    if !is_on() || matches!(agent, 0 | BIRTH) || state::FILTERED.load(Ordering::Relaxed) || !state::is_at_home() {
        return;
    }
    let [asked, done] = &FLUSHES;
    let number = asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    state::wake();
    await_change(done, |done| done.wrapping_sub(number) < 1 << 31);
}

/// Samples in the profile so far.
pub(super) fn samples() -> u64 {
    SAMPLES.load(Ordering::Relaxed)
}

/// What programs are told: seconds since 1970 at the start, samples so far, and the file's name as it was given.
pub(super) fn told() -> Option<(u64, u64, PathBuffer<PATH>)> {
    is_on().then(|| {
        // SAFETY: not written while an order stands.
        let name = full(unsafe { GIVEN.get() }, FILE_HAS_PID.load(Ordering::Relaxed));
        (STARTED.load(Ordering::Relaxed), samples(), name)
    })
}

/// In a fork child: what its parent writes it writes too, into a file of its own, from its first tick on.
pub(super) fn inherit() {
    if is_on() {
        FILE_HAS_PID.store(true, Ordering::Relaxed);
        RECORDS_END.store(0, Ordering::Relaxed);
        SAMPLES.store(0, Ordering::Relaxed);
        STATE.store(State::Asked as u32, Ordering::Release);
    } else {
        STATE.store(State::Nothing as u32, Ordering::Release);
    }
    NAME_HAS_PID.store(true, Ordering::Relaxed);
    SWITCHED.store(0, Ordering::Relaxed);
}

/// Does what the environment says; for the constructor, once.
///
/// # Safety
/// As [`variables::value`].
pub(super) unsafe fn obey_environment(another_has_switch: bool) {
    // SAFETY: the caller vouches.
    let named = unsafe { variables::file() };
    let Some((name, has_pid)) = named else { return };
    // SAFETY: likewise.
    let switch = unsafe { variables::value(b"CPUPROFILESIGNAL") };
    NAME_HAS_PID.store(has_pid, Ordering::Relaxed);
    let Some(switch) = switch else {
        if let Err(number @ 1..) = begin_as(name.as_bytes(), has_pid, false, None, core::ptr::null_mut()) {
            let reason = PathBuffer::<32>::new().text(b" (error ").number(number as u64).text(b")");
            let path = full(name.as_bytes(), has_pid);
            variables::complain(&[b"cannot write the profile ", path.as_bytes(), reason.as_bytes()]);
        }
        return;
    };
    // SAFETY: nobody reads it yet.
    unsafe { NAME.set(variables::absolute(name.as_bytes()).as_bytes()) };
    match variables::number(switch).filter(|signal| (1..=64).contains(signal)) {
        Some(signal) => {
            SWITCH.store(signal as i32, Ordering::Relaxed);
            if !guard::take_switch(signal as i32) {
                SWITCH.store(0, Ordering::Relaxed);
                if !another_has_switch {
                    variables::complain(&[
                        b"CPUPROFILESIGNAL=",
                        switch,
                        b": the signal is in use, so nothing is profiled",
                    ]);
                }
            }
        }
        None => variables::complain(&[b"CPUPROFILESIGNAL=", switch, b" is no signal, so nothing is profiled"]),
    }
}

/// Remembers how profiles are to be taken; for the constructor.
pub(super) fn adopt(manner: Manner) {
    PERIOD_US.store(manner.period_us, Ordering::Relaxed);
    REAL.store(manner.real, Ordering::Relaxed);
    EVERY_THREAD.store(manner.every_thread, Ordering::Relaxed);
    // What nobody can catch, and libc's own, are no signals for ticks.
    if manner.signal != 0 && ![libc::SIGKILL, libc::SIGSTOP, 32, 33].contains(&manner.signal) {
        guard::allow(manner.signal);
        SIGNAL.store(manner.signal, Ordering::Relaxed);
    }
}

/// Whether a signal is the one that starts and stops.
pub(super) fn is_switch(signal: i32) -> bool {
    SWITCH.load(Ordering::Relaxed) == signal
}

/// The signal that starts and stops has come. In a handler, with every signal blocked.
pub(super) fn switch() {
    if state::is_at_home() && !state::DISABLED.load(Ordering::Relaxed) {
        SWITCHED.fetch_add(1, Ordering::AcqRel);
        if !state::FILTERED.load(Ordering::Relaxed) {
            call_agent();
        }
    }
}

/// Whether there is something for an agent thread to live for: a profile, or a signal that it has not looked at.
pub(super) fn needs_agent() -> bool {
    is_there() || SWITCHED.load(Ordering::Acquire) != 0
}

/// What the agent thread finds on the counter.
pub(super) enum Now {
    /// Nothing is to be written.
    Nothing,
    /// One is to be begun.
    Begin,
    /// This is being written.
    Going,
    /// It is to end.
    End,
}

/// Looks at the counter; for the agent thread, like all that follows.
pub(super) fn look() -> Now {
    // Twice in a row is never.
    if SWITCHED.swap(0, Ordering::AcqRel) & 1 == 1 && !go(State::On, State::Ending) {
        begin_numbered();
    }
    match STATE.load(Ordering::Acquire) {
        asked if asked == State::Asked as u32 => Now::Begin,
        on if on == State::On as u32 => Now::Going,
        ending if ending == State::Ending as u32 => Now::End,
        _ => Now::Nothing,
    }
}

/// What stands ordered.
pub(super) fn order() -> Order {
    let real = REAL.load(Ordering::Relaxed);
    Order {
        clock: if real { Clock::Real } else { Clock::Prof },
        period_us: PERIOD_US.load(Ordering::Relaxed),
        first_thread: real && !EVERY_THREAD.load(Ordering::Relaxed),
        by_hand: BY_HAND.load(Ordering::Relaxed),
    }
}

/// A profile into the first file of the name's that is not there yet: `NAME.0`, `NAME.1`, …
fn begin_numbered() {
    if !go(State::Nothing, State::Opening) {
        return;
    }
    // SAFETY: not written after the constructor.
    let name = full(unsafe { NAME.get() }, NAME_HAS_PID.load(Ordering::Relaxed));
    for number in 0..MAX_NUMBER {
        let path = PathBuffer::<PATH>::new().text(name.as_bytes()).text(b".").number(number);
        match make(&path, libc::O_EXCL) {
            Ok(_) => {
                // Its name is complete.
                FILE_HAS_PID.store(false, Ordering::Relaxed);
                // SAFETY: whoever opens is alone.
                unsafe { GIVEN.set(path.as_bytes()) };
                return take(path.as_bytes(), false, None, core::ptr::null_mut());
            }
            Err(libc::EEXIST) => {}
            Err(_) => break,
        }
    }
    go(State::Opening, State::Nothing);
}

/// Opens the file, to be gone on with at the second: where its records end, or 0 for a new one. Made where it is not yet.
pub(super) fn open() -> Option<(File, u64)> {
    let end = RECORDS_END.load(Ordering::Relaxed);
    let flags = if end == 0 { libc::O_TRUNC } else { 0 };
    Some((File::create(file().terminated(), flags).ok()?, end))
}

/// The agent thread has begun.
pub(super) fn is_begun() {
    go(State::Asked, State::On);
    sys::futex_wake(&STATE);
}

/// It has ended, or could not begin.
pub(super) fn is_over() {
    FILTER.store(0, Ordering::Release);
    STATE.store(State::Nothing as u32, Ordering::Release);
    sys::futex_wake(&STATE);
}

/// So many samples are in the profile.
pub(super) fn note_samples(samples: u64) {
    SAMPLES.store(samples, Ordering::Relaxed);
}

/// So far go the records in the file.
pub(super) fn note_end(records_end: u64) {
    RECORDS_END.store(records_end, Ordering::Relaxed);
}

/// Whether somebody waits for the file to be written; the answer is for [`is_flushed`].
pub(super) fn flush_is_asked() -> Option<u32> {
    let [asked, done] = &FLUSHES;
    let asked = asked.load(Ordering::Acquire);
    (asked != done.load(Ordering::Relaxed)).then_some(asked)
}

/// It was written.
pub(super) fn is_flushed(number: u32) {
    let [_, done] = &FLUSHES;
    done.store(number, Ordering::Release);
    sys::futex_wake(done);
}

/// Sets libc's errno to the number of an error.
pub(super) fn tell_errno(number: i32) {
    let address = super::loader::weak_address!("__errno_location");
    if address != 0 && number > 0 {
        // SAFETY: libc's function of this name and type, on a thread of the target's.
        unsafe { *core::mem::transmute::<usize, extern "C" fn() -> *mut i32>(address)() = number };
    }
}
