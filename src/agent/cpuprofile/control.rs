//! Requests for a profile in a file, made by the environment (`CPUPROFILE`), by the program
//! (`ProfilerStart`) or by a signal (`CPUPROFILESIGNAL`). Threads of the target make requests, and
//! the agent thread carries them out; this module is between them.
//!
//! A request goes through [states](ProfileState). The thread that makes it owns its fields until
//! the state is [`Requested`](ProfileState::Requested); from then on the agent thread owns them.
//! There is no lock: a request may come from a signal handler, and either gets the slot or does
//! not.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::agent::cpuprofile::env::{self, EnvSettings, MAX_PATH};
use crate::agent::cpuprofile::static_path::StaticPath;
use crate::agent::os::memory::PageAligned;
use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::agent::signals::actions;
use crate::agent::state::{self, SPAWNING};
use crate::wire::Clock;
use crate::wire::gperftools;

/// The state of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum ProfileState {
    /// There is no profile.
    Idle = 0,
    /// A thread is making a request.
    Opening = 1,
    /// The agent thread has to start the profile. In a fork child there may be no agent thread yet.
    Requested = 2,
    /// The profile is being written.
    Running = 3,
    /// The agent thread has to write the rest and stop.
    Stopping = 4,
}

/// The current [`ProfileState`]; a futex. Requesting threads change it from `Idle` and `Running`,
/// the agent thread from `Requested` and `Stopping`.
static STATE: AtomicU32 = AtomicU32::new(ProfileState::Idle as u32);
/// Absolute path of the file. Written in state `Opening`, read from `Requested` on.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static FILE: PageAligned<StaticPath> = PageAligned(StaticPath::new());
/// Path of the file as the program gave it, for programs that ask. Written like `FILE`.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static GIVEN: PageAligned<StaticPath> = PageAligned(StaticPath::new());
/// Absolute path in `CPUPROFILE`, for profiles started by a signal. Written by the constructor.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static NAME: PageAligned<StaticPath> = PageAligned(StaticPath::new());
/// `true` if the process id is appended to `FILE` and `GIVEN`, because this is a child.
static FILE_HAS_PID: AtomicBool = AtomicBool::new(false);
/// `true` if the process id is appended to `NAME`.
static NAME_HAS_PID: AtomicBool = AtomicBool::new(false);
/// Fields of [`EnvSettings`]. Only the constructor writes them.
static PERIOD_US: AtomicU64 = AtomicU64::new(10_000);
static WALL_CLOCK: AtomicBool = AtomicBool::new(false);
static ALL_THREADS: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// `true` if there are no ticks, only samples that the program takes itself. Written like `FILE`.
static MANUAL: AtomicBool = AtomicBool::new(false);
/// The program's filter and its argument. Handlers call it to decide whether a sample counts; 0 if
/// there is none. Written like `FILE`, the function last.
static FILTER: AtomicUsize = AtomicUsize::new(0);
static FILTER_ARGUMENT: AtomicUsize = AtomicUsize::new(0);
/// Start of the profile, seconds since 1970.
static STARTED: AtomicU64 = AtomicU64::new(0);
/// Number of samples in the profile. Written by the agent thread.
static SAMPLES: AtomicU64 = AtomicU64::new(0);
/// Offset of the end of the records in the file, where a newly spawned agent thread continues; 0 if
/// there are no records. Written by the agent thread.
static RECORDS_END: AtomicU64 = AtomicU64::new(0);
/// Numbers of requested and of completed flushes. The second is a futex.
static FLUSHES: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// The signal that starts and stops a profile; 0 if there is none.
static TOGGLE_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Number of toggle signals since the agent thread last looked.
static TOGGLES: AtomicU32 = AtomicU32::new(0);

/// Maximum time to wait for the agent thread, ns. It is spawned within milliseconds and writes for
/// some more.
const TIMEOUT_NS: u64 = 5_000_000_000;
/// Maximum number of files tried for a profile that is started by a signal.
const MAX_NUMBER: u64 = 100_000;

/// The profile that the agent thread has to take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProfileRequest {
    /// The clock.
    pub(crate) clock: Clock,
    /// The period, µs.
    pub(crate) period_us: u64,
    /// `true` if only the first thread counts, as gperftools does with the wall clock.
    pub(crate) first_thread: bool,
    /// `true` if there are no ticks, only samples that the program takes itself.
    pub(crate) manual: bool,
}

/// A function of the target's that decides whether a sample counts.
pub(crate) type Filter = extern "C" fn(*mut ()) -> i32;

fn is_in(state: ProfileState) -> bool {
    STATE.load(Ordering::Acquire) == state as u32
}

fn transition(from: ProfileState, to: ProfileState) -> bool {
    STATE.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Returns whether there is a profile or a request for one.
pub(crate) fn is_active() -> bool {
    !is_in(ProfileState::Idle)
}

/// Returns whether a profile is running, as programs see it.
pub(crate) fn is_running() -> bool {
    is_in(ProfileState::Running) || is_in(ProfileState::Requested)
}

/// Calls the program's filter on the calling thread. Returns whether it excludes the sample.
#[inline]
pub(crate) fn is_excluded_by_filter() -> bool {
    match FILTER.load(Ordering::Acquire) {
        0 => false,
        address => {
            // SAFETY: the target gave a function of this type that may be called in a handler.
            let filter: Filter = unsafe { core::mem::transmute(address) };
            filter(core::ptr::with_exposed_provenance_mut(FILTER_ARGUMENT.load(Ordering::Relaxed))) == 0
        }
    }
}

/// The signal that the environment asks for ticks, or 0.
pub(crate) fn tick_signal() -> i32 {
    if is_active() { SIGNAL.load(Ordering::Relaxed) } else { 0 }
}

/// Appends the process id to a path if it needs it.
fn with_pid(path: &[u8], has_pid: bool) -> PathBuffer<MAX_PATH> {
    let path = PathBuffer::new().text(path);
    if has_pid { path.text(b"_").number(syscall::getpid().into()) } else { path }
}

/// Creates a file with a profile without records, so that there is one from the start.
///
/// # Errors
/// The errno value.
fn create_file(path: &PathBuffer<MAX_PATH>, flags: i32) -> Result<File, i32> {
    let file = File::create(path.terminated(), flags)?;
    let mut words = [0u64; 8];
    words[..5].copy_from_slice(&gperftools::header(PERIOD_US.load(Ordering::Relaxed)));
    words[5..].copy_from_slice(&gperftools::TRAILER);
    // SAFETY: the bytes of an array of words.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(&words)) };
    file.write_at(bytes, 0).map(|()| file)
}

/// Requests a profile in a file. A relative path starts at the current directory. The caller wakes
/// the agent thread and then calls [`confirm`].
///
/// # Errors
/// The errno value if the file cannot be created; 0 if a profile is running already, or none is
/// possible.
pub(crate) fn start(
    path: &[u8],
    has_pid: bool,
    manual: bool,
    filter: Option<Filter>,
    argument: *mut (),
) -> Result<(), i32> {
    let is_impossible = state::DISABLED.load(Ordering::Relaxed)
        || state::FILTERED.load(Ordering::Relaxed)
        || !state::in_own_process()
        || path.len() > MAX_PATH - 32;
    if is_impossible || !transition(ProfileState::Idle, ProfileState::Opening) {
        return Err(0);
    }
    // SAFETY: only the thread that has moved the state to `Opening` gets here.
    unsafe { GIVEN.set(path) };
    let path = env::absolute(path);
    if let Err(errno) = create_file(&with_pid(path.as_bytes(), has_pid), libc::O_TRUNC) {
        transition(ProfileState::Opening, ProfileState::Idle);
        return Err(errno);
    }
    FILE_HAS_PID.store(has_pid, Ordering::Relaxed);
    publish_request(path.as_bytes(), manual, filter, argument);
    Ok(())
}

/// Withdraws the request if there is no agent thread. Returns false then.
pub(crate) fn confirm() -> bool {
    state::AGENT.load(Ordering::Acquire) != 0 || !transition(ProfileState::Requested, ProfileState::Idle)
}

/// Fills in the request and moves the state from `Opening` to `Requested`.
fn publish_request(path: &[u8], manual: bool, filter: Option<Filter>, argument: *mut ()) {
    // SAFETY: only the thread that has moved the state to `Opening` gets here.
    unsafe { FILE.set(path) };
    MANUAL.store(manual, Ordering::Relaxed);
    FILTER_ARGUMENT.store(argument.expose_provenance(), Ordering::Relaxed);
    FILTER.store(filter.map_or(0, |filter| filter as *const () as usize), Ordering::Release);
    STARTED.store(syscall::clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000, Ordering::Relaxed);
    SAMPLES.store(0, Ordering::Relaxed);
    RECORDS_END.store(0, Ordering::Relaxed);
    state::WATCHED.store(true, Ordering::Relaxed);
    STATE.store(ProfileState::Requested as u32, Ordering::Release);
}

/// Waits until a futex has a wanted value. Returns false after a timeout or without an agent
/// thread.
fn await_change(word: &AtomicU32, is_wanted: impl Fn(u32) -> bool) -> bool {
    let deadline_ns = syscall::monotonic_ns() + TIMEOUT_NS;
    loop {
        let value = word.load(Ordering::Acquire);
        if is_wanted(value) {
            return true;
        }
        if state::AGENT.load(Ordering::Acquire) == 0 || syscall::monotonic_ns() > deadline_ns {
            return false;
        }
        syscall::futex_wait(word, value, 20_000_000);
    }
}

/// Waits until the agent thread has started the requested profile or given it up. Returns whether
/// it is running.
pub(crate) fn await_start() -> bool {
    await_change(&STATE, |state| state != ProfileState::Requested as u32) && is_in(ProfileState::Running)
}

/// Stops the profile, if one is running. The file is complete when this returns.
pub(crate) fn stop() {
    if !state::in_own_process() {
        return;
    }
    if state::AGENT.load(Ordering::Acquire) == 0 {
        // A fork child without a tick so far.
        transition(ProfileState::Requested, ProfileState::Idle);
    } else if is_in(ProfileState::Requested) {
        await_start();
    }
    if !transition(ProfileState::Running, ProfileState::Stopping) {
        return;
    }
    state::wake();
    if !state::FILTERED.load(Ordering::Relaxed) {
        await_change(&STATE, |state| state != ProfileState::Stopping as u32);
    }
}

/// Writes all samples to the file, if a profile is running. They are there when this returns.
pub(crate) fn flush() {
    let agent = state::AGENT.load(Ordering::Acquire);
    if !is_running()
        || matches!(agent, 0 | SPAWNING)
        || state::FILTERED.load(Ordering::Relaxed)
        || !state::in_own_process()
    {
        return;
    }
    let [requested, completed] = &FLUSHES;
    let number = requested.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    state::wake();
    await_change(completed, |completed| completed.wrapping_sub(number) < 1 << 31);
}

/// Number of samples in the profile so far.
pub(crate) fn samples() -> u64 {
    SAMPLES.load(Ordering::Relaxed)
}

/// A running profile, for programs that ask.
pub(crate) struct CurrentProfile {
    /// Start, seconds since 1970.
    pub(crate) started: u64,
    /// Number of samples so far.
    pub(crate) samples: u64,
    /// Path of the file as the program gave it.
    pub(crate) path: PathBuffer<MAX_PATH>,
}

/// Returns the running profile.
pub(crate) fn current() -> Option<CurrentProfile> {
    is_running().then(|| {
        // SAFETY: no thread writes it while there is a request.
        let path = with_pid(unsafe { GIVEN.get() }, FILE_HAS_PID.load(Ordering::Relaxed));
        CurrentProfile { started: STARTED.load(Ordering::Relaxed), samples: samples(), path }
    })
}

/// Continues the parent's profile in a fork child, in a file of the child's own, from its first
/// tick on.
pub(crate) fn inherit() {
    if is_running() {
        FILE_HAS_PID.store(true, Ordering::Relaxed);
        RECORDS_END.store(0, Ordering::Relaxed);
        SAMPLES.store(0, Ordering::Relaxed);
        STATE.store(ProfileState::Requested as u32, Ordering::Release);
    } else {
        STATE.store(ProfileState::Idle as u32, Ordering::Release);
    }
    if TOGGLE_SIGNAL.load(Ordering::Relaxed) != 0 {
        NAME_HAS_PID.store(true, Ordering::Relaxed);
    }
    TOGGLES.store(0, Ordering::Relaxed);
}

/// Claims the signal that starts profiles if the environment names one. Otherwise returns the file
/// of the profile to start, and whether to append the process id to its name. The constructor calls
/// it once.
///
/// # Safety
/// The caller keeps the contract of [`env::value`].
pub(crate) unsafe fn apply_environment(other_has_toggle_signal: bool) -> Option<(PathBuffer<MAX_PATH>, bool)> {
    // SAFETY: the caller is the constructor.
    let named = unsafe { env::file() };
    let (name, has_pid) = named?;
    // SAFETY: the caller is the constructor.
    let toggle = unsafe { env::value(b"CPUPROFILESIGNAL") };
    NAME_HAS_PID.store(has_pid, Ordering::Relaxed);
    let Some(toggle) = toggle else {
        return Some((name, has_pid));
    };
    // SAFETY: no thread reads it yet.
    unsafe { NAME.set(env::absolute(name.as_bytes()).as_bytes()) };
    match env::number(toggle).filter(|signal| (1..=64).contains(signal)) {
        Some(signal) => {
            TOGGLE_SIGNAL.store(signal as i32, Ordering::Relaxed);
            if !actions::claim_toggle(signal as i32) {
                TOGGLE_SIGNAL.store(0, Ordering::Relaxed);
                if !other_has_toggle_signal {
                    env::warn(&[b"CPUPROFILESIGNAL=", toggle, b": the signal is in use, nothing is profiled"]);
                }
            }
        }
        None => env::warn(&[b"CPUPROFILESIGNAL=", toggle, b" is not a signal number, nothing is profiled"]),
    }
    None
}

/// Warns that the profile that the environment asks for cannot be written.
pub(crate) fn warn_not_writable(name: &[u8], has_pid: bool, errno: i32) {
    let reason = PathBuffer::<32>::new().text(b" (error ").number(errno as u64).text(b")");
    let path = with_pid(name, has_pid);
    env::warn(&[b"cannot write the profile ", path.as_bytes(), reason.as_bytes()]);
}

/// Stores how profiles are to be taken. For the constructor.
pub(crate) fn configure(settings: EnvSettings) {
    PERIOD_US.store(settings.period_us, Ordering::Relaxed);
    WALL_CLOCK.store(settings.wall_clock, Ordering::Relaxed);
    ALL_THREADS.store(settings.all_threads, Ordering::Relaxed);
    // Ticks cannot use signals that cannot be caught, or those of libc.
    if settings.signal != 0 && ![libc::SIGKILL, libc::SIGSTOP, 32, 33].contains(&settings.signal) {
        actions::allow_signal(settings.signal);
        SIGNAL.store(settings.signal, Ordering::Relaxed);
    }
}

/// Returns whether a signal starts and stops profiles.
pub(crate) fn is_toggle_signal(signal: i32) -> bool {
    TOGGLE_SIGNAL.load(Ordering::Relaxed) == signal
}

/// Records a toggle signal. Returns whether the handler has to wake the agent thread. For handlers,
/// with all signals blocked.
pub(crate) fn toggle() -> bool {
    if state::in_own_process() && !state::DISABLED.load(Ordering::Relaxed) {
        TOGGLES.fetch_add(1, Ordering::AcqRel);
        return !state::FILTERED.load(Ordering::Relaxed);
    }
    false
}

/// Returns whether the agent thread has something to do: a profile, or a toggle signal.
pub(crate) fn needs_agent() -> bool {
    is_active() || TOGGLES.load(Ordering::Acquire) != 0
}

/// The next step of the agent thread.
pub(crate) enum NextStep {
    /// There is no profile.
    Nothing,
    /// Start the requested profile.
    Start,
    /// Continue the running profile.
    Continue,
    /// Stop the profile.
    Stop,
}

/// Returns what the agent thread has to do. This function and all below are for the agent thread.
pub(crate) fn next_step() -> NextStep {
    // An even number of toggle signals changes nothing.
    if TOGGLES.swap(0, Ordering::AcqRel) & 1 == 1 && !transition(ProfileState::Running, ProfileState::Stopping) {
        start_numbered();
    }
    match STATE.load(Ordering::Acquire) {
        state if state == ProfileState::Requested as u32 => NextStep::Start,
        state if state == ProfileState::Running as u32 => NextStep::Continue,
        state if state == ProfileState::Stopping as u32 => NextStep::Stop,
        _ => NextStep::Nothing,
    }
}

/// Returns the request.
pub(crate) fn request() -> ProfileRequest {
    let wall_clock = WALL_CLOCK.load(Ordering::Relaxed);
    ProfileRequest {
        clock: if wall_clock { Clock::Real } else { Clock::Prof },
        period_us: PERIOD_US.load(Ordering::Relaxed),
        first_thread: wall_clock && !ALL_THREADS.load(Ordering::Relaxed),
        manual: MANUAL.load(Ordering::Relaxed),
    }
}

/// Requests a profile in the first of the files `NAME.0`, `NAME.1`, … that does not exist.
fn start_numbered() {
    if !transition(ProfileState::Idle, ProfileState::Opening) {
        return;
    }
    // SAFETY: no thread writes it after the constructor.
    let name = with_pid(unsafe { NAME.get() }, NAME_HAS_PID.load(Ordering::Relaxed));
    for number in 0..MAX_NUMBER {
        let path = PathBuffer::<MAX_PATH>::new().text(name.as_bytes()).text(b".").number(number);
        match create_file(&path, libc::O_EXCL) {
            Ok(_) => {
                // The path is complete.
                FILE_HAS_PID.store(false, Ordering::Relaxed);
                // SAFETY: only the thread that has moved the state to `Opening` gets here.
                unsafe { GIVEN.set(path.as_bytes()) };
                return publish_request(path.as_bytes(), false, None, core::ptr::null_mut());
            }
            Err(libc::EEXIST) => {}
            Err(_) => break,
        }
    }
    transition(ProfileState::Opening, ProfileState::Idle);
}

/// Opens or creates the file. Returns it with the offset of the end of its records; 0 for a new
/// file.
pub(crate) fn open_file() -> Option<(File, u64)> {
    let end = RECORDS_END.load(Ordering::Relaxed);
    let flags = if end == 0 { libc::O_TRUNC } else { 0 };
    // SAFETY: no thread writes it while there is a request.
    let path = with_pid(unsafe { FILE.get() }, FILE_HAS_PID.load(Ordering::Relaxed));
    Some((File::create(path.terminated(), flags).ok()?, end))
}

/// Moves the state to `Running`.
pub(crate) fn set_running() {
    transition(ProfileState::Requested, ProfileState::Running);
    syscall::futex_wake(&STATE);
}

/// Moves the state to `Idle`: the profile has ended, or could not be started.
pub(crate) fn set_idle() {
    FILTER.store(0, Ordering::Release);
    STATE.store(ProfileState::Idle as u32, Ordering::Release);
    syscall::futex_wake(&STATE);
}

/// Stores the number of samples in the profile.
pub(crate) fn set_samples(samples: u64) {
    SAMPLES.store(samples, Ordering::Relaxed);
}

/// Stores the offset of the end of the records in the file.
pub(crate) fn set_records_end(records_end: u64) {
    RECORDS_END.store(records_end, Ordering::Relaxed);
}

/// Returns the number of a flush that threads wait for, for [`complete_flush`].
pub(crate) fn requested_flush() -> Option<u32> {
    let [requested, completed] = &FLUSHES;
    let requested = requested.load(Ordering::Acquire);
    (requested != completed.load(Ordering::Relaxed)).then_some(requested)
}

/// Wakes the threads that wait for a flush.
pub(crate) fn complete_flush(number: u32) {
    let [_, completed] = &FLUSHES;
    completed.store(number, Ordering::Release);
    syscall::futex_wake(completed);
}
