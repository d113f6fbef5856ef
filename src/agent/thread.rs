//! The agent's only thread: connects to the viewer, sends the records of the ring, and notices new
//! threads and modules.
//!
//! libc does not know this thread, which is made by a raw clone. It calls no libc function that has
//! thread state, blocks all signals, and has its own descriptor table with nothing but what it has
//! opened itself. While ticks come it runs every [`NAP_NS`]. Without ticks it sleeps longer, up
//! to [`LONG_NAP_NS`]. An iteration in which nothing has changed is cheap.

mod account;
mod cpu_profile;
mod hello;
mod inspection;
mod records;
mod sleep;

use crate::agent::allocations::countdown::Spacing;
use crate::agent::allocations::sampler::AllocationSampler;
use crate::agent::cpuprofile::aggregate::ProfileAggregate;
use crate::agent::cpuprofile::control;
use crate::agent::interpreter::finder::InterpreterFinder;
use crate::agent::os::memory::{self, MemoryFile};
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::socket::{Address, PeerGone, Socket};
use crate::agent::os::status::{OwnProgram, Status};
use crate::agent::os::syscall;
use crate::agent::sampling::deferred::{self, DEFERRED};
use crate::agent::sampling::ring::{RING, Ring};
use crate::agent::sampling::slot::{POOL, SlotPool};
use crate::agent::sampling::snapshots::Publisher;
use crate::agent::sampling::unaccounted::CpuBalance;
use crate::agent::sampling::{counters, deepest};
use crate::agent::timers::engine::{TimerEngine, crowd};
use crate::agent::timers::first_tick;
use crate::agent::{launch, requests, state};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::process::cpython::functions::FunctionTable;
use crate::wire::ring::word;
use crate::wire::{
    Clock, Engine, EngineState, MAX_FRAMES, Module, Request, STACK_SLOTS, SpawnCause, StoredStack, Thread,
};

/// Interval between two checks until the first sample is sent, ns. It doubles while there is none.
const FIRST_NAP_NS: u64 = 10_000_000;
/// Sleep between two iterations after a viewer's first sample, so that its screen fills, and the
/// time for which it is so short, ns.
const EARLY_NAP_NS: u64 = 20_000_000;
const EARLY_NS: u64 = 400_000_000;
/// Sleep between two iterations while ticks come, ns. A sample is at most this old when it is sent;
/// it costs half a thousandth of a core.
const NAP_NS: u64 = 100_000_000;
/// Maximum sleep while nothing happens, ns.
const LONG_NAP_NS: u64 = 400_000_000;
/// Time between two accounts, and between two inspections of the process at least, ns.
const ACCOUNT_NS: u64 = 1_000_000_000;
/// Iterations that inspect the process take at most this part of the time: a process of many
/// threads and mappings is inspected less often.
const INSPECTIONS_PART: u64 = 100;
/// Time within which a viewer has to send its first request, ns.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Maximum time for sending the last messages of a process that exits, ns.
const LAST_FLUSH_NS: u64 = 200_000_000;
/// Minimum time between two readings of the maps on request of a handler or of the target, ns.
const MODULES_NS: u64 = 5_000_000;

/// The agent thread's data.
pub(super) struct Agent {
    pub(super) ring: &'static Ring,
    pool: &'static SlotPool,
    publisher: Publisher,
    finder: InterpreterFinder,
    functions: FunctionTable<ProcessMemory>,
    pub(super) ticker: TimerEngine,
    memory: Box<[StoredStack]>,
    sent: u64,
    pub(super) balance: CpuBalance,
    pub(super) allocations: AllocationSampler,
    /// The profile that is being written into a file.
    pub(super) collector: Option<ProfileAggregate>,
    /// Clock, engine and period of the viewer's last request.
    pub(super) requested: Option<Request>,
    /// Whether no sample has been sent since the engine was engaged.
    first_is_due: bool,
    /// Time until which samples are sent more often, ns.
    early_until_ns: u64,
    /// Duration of the next sleep, ns. It grows while nothing wakes the thread.
    nap_ns: u64,
    /// Whether the process is about to exit.
    leaving: bool,
    last_look_ns: u64,
    last_modules_ns: u64,
    /// Time of the next inspection at the earliest, ns.
    next_inspection_ns: u64,
    /// CPU time of the target at the last inspection, ns.
    inspected_at_ns: u64,
    last_account_ns: u64,
    credentials: Option<Status>,
    program: OwnProgram,
    /// Thread whose seccomp state was read last.
    seccomp_checked_tid: u32,
    last_seccomp_check_ns: u64,
}

/// Reason why a connection ended.
#[derive(PartialEq, Eq)]
pub(super) enum EndReason {
    /// The viewer left, or is not a viewer.
    Left,
    /// The process changed its credentials: an agent thread with the new ones has to be spawned.
    Credentials,
    /// The target makes a call that requires a process with one thread; it arranges for the next
    /// spawn.
    Aside,
    /// The first thread of the process has ended, and others may end at any time.
    FirstThread,
    /// Every other thread has ended.
    LastThread,
}

/// Runs the agent. Called once per agent thread, on its own stack; the caller ends the thread with
/// the returned code.
pub(super) fn run(epoch: u32) -> u32 {
    let tid = syscall::gettid();
    let own = Status::own();
    let filtered = own.is_none_or(|status| status.seccomp != 0) || state::FILTERED.load(Ordering::SeqCst);
    state::SYSCALLS_ALLOWED.store(!filtered, Ordering::Relaxed);
    let Some(mut agent) = Agent::new(tid, epoch, own) else { return 0 };
    let mut end = EndReason::Left;
    let mut called = false;
    loop {
        let knocked = state::KNOCK.swap(0, Ordering::Acquire);
        // The viewer that launched this process is called once per agent thread.
        let link = launch::link().filter(|_| !core::mem::replace(&mut called, true));
        let socket = match (knocked, link) {
            (0, Some(link)) => {
                state::VIEWER.store(link.viewer, Ordering::Relaxed);
                Address::path(link.path)
                    .and_then(|address| Socket::connect(&address))
                    .or_else(|| Socket::connect_to_viewer(link.viewer))
            }
            (0, None) => None,
            (viewer, _) => {
                state::VIEWER.store(viewer, Ordering::Relaxed);
                Socket::connect_to_viewer(viewer)
            }
        };
        if let Some(socket) = socket {
            end = agent.serve(socket, if knocked == 0 { SpawnCause::Tick } else { SpawnCause::Knock });
        }
        let is_knocked_at = || state::KNOCK.load(Ordering::Relaxed) != 0;
        if end == EndReason::Left && !is_knocked_at() && control::needs_agent() {
            end = agent.serve_without_viewer();
        }
        if end != EndReason::Left || !(is_knocked_at() || control::needs_agent()) {
            break;
        }
    }
    agent.ticker.retire();
    agent.allocations.disengage(&agent.publisher.modules);
    match end {
        EndReason::Credentials => {
            first_tick::arm(agent.ticker.epoch(), counters::config(agent.ticker.epoch()));
        }
        EndReason::Left => state::WATCHED.store(false, Ordering::Relaxed),
        EndReason::Aside | EndReason::FirstThread | EndReason::LastThread => {}
    }
    // Since Linux 5.17 the thread that ends last gives the process its exit code.
    agent.ticker.threads.code_of_last_thread()
}

impl Agent {
    fn new(tid: u32, epoch: u32, credentials: Option<Status>) -> Option<Agent> {
        let mut ticker = TimerEngine::new(tid, epoch);
        ticker.begin();
        let pool = pool()?;
        pool.grow(ticker.threads.len());
        let ring = ring()?;
        if DEFERRED.load(Ordering::Acquire).is_null() {
            deferred::allocate();
        }
        state::REREAD_MAPS_ON_MISS.store(true, Ordering::Relaxed);
        let mut publisher = Publisher::new(pool);
        publisher.refresh();
        let mut finder = InterpreterFinder::default();
        finder.update(&publisher.modules);
        Some(Agent {
            ring,
            pool,
            publisher,
            finder,
            functions: FunctionTable::new(ProcessMemory::open()),
            ticker,
            // SAFETY: a stack of zero bytes is an empty one.
            memory: unsafe { memory::zeroed::<[StoredStack; STACK_SLOTS]>() },
            sent: 0,
            balance: CpuBalance::default(),
            allocations: AllocationSampler::default(),
            collector: None,
            requested: None,
            first_is_due: true,
            early_until_ns: 0,
            nap_ns: NAP_NS,
            leaving: false,
            last_look_ns: 0,
            last_modules_ns: 0,
            next_inspection_ns: syscall::monotonic_ns() + ACCOUNT_NS,
            inspected_at_ns: 0,
            last_account_ns: 0,
            credentials,
            program: OwnProgram::own(),
            seccomp_checked_tid: 0,
            last_seccomp_check_ns: 0,
        })
    }

    /// Serves one viewer until it leaves.
    fn serve(&mut self, mut socket: Socket, birth: SpawnCause) -> EndReason {
        self.publisher.modules.forget_announcements();
        self.functions = FunctionTable::new(ProcessMemory::open());
        self.ticker.threads.forget_announcements();
        deepest::forget_all();
        if self.sent > 0 {
            self.memory.fill(StoredStack::EMPTY);
        }
        (self.sent, self.first_is_due, self.requested) = (0, true, None);
        self.nap_ns = FIRST_NAP_NS;
        counters::reset_unhandled();
        if let Some(collector) = &mut self.collector {
            collector.update_losses(true);
        }
        if let Some(handle) = self.fresh_ring() {
            socket.attach_file(handle);
        }
        let introduced = socket.write(|w| w.write_hello(&hello::hello(birth, &self.program))).is_ok();
        if !introduced || self.await_request(&mut socket).is_err() {
            return EndReason::Left;
        }
        state::WATCHED.store(true, Ordering::Relaxed);
        loop {
            match self.run_once(&mut socket) {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(PeerGone) => {
                    self.ticker.disengage();
                    self.allocations.disengage(&self.publisher.modules);
                    return EndReason::Left;
                }
            }
        }
    }

    /// Starts with an empty ring and counters at 0. Returns the file of the ring's memory, if it
    /// has one.
    fn fresh_ring(&mut self) -> Option<MemoryFile> {
        RING.store(core::ptr::null_mut(), Ordering::SeqCst);
        let mut busy = self.pool.observe();
        // Handlers take microseconds, but one whose thread was stopped may never return.
        let mut patience = 100;
        while !self.pool.all_returned(&mut busy) && patience > 0 {
            syscall::futex_wait(&AtomicU32::new(0), 0, 1_000_000);
            patience -= 1;
        }
        let handle = if patience > 0 { self.ring.renew() } else { None };
        if handle.is_none() {
            // The old memory stays, without the records of an earlier agent thread's last ticks.
            let mut frames = [0; MAX_FRAMES];
            while self.ring.take(&mut frames).is_some() {}
            self.ring.release();
            (word::TICKS..word::CONFIGS).for_each(|index| self.ring.header(index).store(0, Ordering::Relaxed));
        }
        RING.store(core::ptr::from_ref(self.ring).cast_mut(), Ordering::SeqCst);
        counters::copy_configs_to_ring();
        counters::move_early_counters();
        handle
    }

    /// Waits for the first request.
    fn await_request(&mut self, socket: &mut Socket) -> Result<(), PeerGone> {
        let deadline = syscall::monotonic_ns() + PATIENCE_NS;
        loop {
            socket.flush()?;
            if let Some(request) = socket.receive()? {
                return self.handle_request(socket, request);
            }
            let now = syscall::monotonic_ns();
            if now >= deadline {
                return Err(PeerGone);
            }
            self.ticker.release();
            socket.wait(deadline - now);
            self.ticker.hold(false);
        }
    }

    pub(super) fn handle_request(&mut self, socket: &mut Socket, request: Request) -> Result<(), PeerGone> {
        match request {
            // The viewer samples from outside, or leaves.
            Request::Engage { engine: Engine::External | Engine::Events | Engine::Ptrace, .. } | Request::Leave => {
                self.send_last_samples(socket);
                Err(PeerGone)
            }
            Request::Engage { clock, engine, period_ns, per_second, is_continued } => {
                self.requested = Some(Request::Engage { clock, engine, period_ns, per_second, is_continued: false });
                if let Some(order) = self.collector.as_ref().map(ProfileAggregate::request)
                    && (order.clock != clock || order.manual)
                {
                    self.refuse_clock(socket, clock, engine, period_ns, order);
                    return Ok(());
                }
                self.ticker.preferred_signal = control::tick_signal();
                self.allocations.disengage(&self.publisher.modules);
                // Time up to now is that of the clock before.
                self.wall(socket, syscall::monotonic_ns(), true);
                if is_continued {
                    self.ticker.miss_nothing_before();
                }
                self.ticker.engage(clock, engine, period_ns);
                self.balance = CpuBalance::begin();
                counters::remember_epoch(self.ticker.epoch());
                let spacing = Spacing { interval: period_ns, per_second };
                let counts = clock != Clock::Alloc
                    || self.allocations.engage(spacing, self.ticker.epoch(), &self.publisher.modules, self.ring);
                if clock == Clock::Live || !counts {
                    self.ticker.engaged.state = EngineState::Unsupported;
                }
                let engaged = self.ticker.engaged.clone();
                socket.write(|w| w.write_engaged(&engaged)).map_err(|_| PeerGone)
            }
        }
    }

    /// Runs one iteration: sends the records, checks the process if it is time to, and sleeps.
    pub(super) fn run_once(&mut self, socket: &mut Socket) -> Result<Option<EndReason>, PeerGone> {
        let now_ns = syscall::monotonic_ns();
        self.ring.header(word::DRAINED_NS).store(now_ns, Ordering::Relaxed);
        self.ticker.preferred_signal = control::tick_signal();
        let keeps_up = requests::keep_up(&mut self.credentials);
        if keeps_up && self.is_idle(socket, now_ns) {
            match (socket.receive()?, self.end_with_first_thread()) {
                (None, None) => {
                    self.sleep(false, now_ns);
                    return Ok(None);
                }
                (Some(request), _) => self.handle_request(socket, request)?,
                (None, Some(_)) => {}
            }
        }
        self.check_seccomp(now_ns);
        let due = self.is_due(now_ns) || !keeps_up;
        let begun_ns = syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        self.read_modules(now_ns, due);
        // These come before the samples, which name the generation at which their addresses are
        // valid.
        self.announce(socket);
        let leaving = state::EXITING.swap(false, Ordering::SeqCst);
        self.leaving |= leaving;
        if self.ticker.engaged.clock == Clock::Prof {
            self.balance.read_clock(&mut self.ticker.threads);
        }
        let drained = self.drain(socket, now_ns);
        self.send_deepest_stacks(socket);
        self.wall(socket, now_ns, leaving || requests::is_to_leave());
        self.update_profile(socket, now_ns);
        if requests::take_leave_request() {
            if socket.flush().is_ok() && socket.is_flushed() {
                crowd::publish_counted(0, 0);
                self.ring.release();
            }
            self.flush_profile();
            return Ok(Some(EndReason::Aside));
        }
        // When wall ticks come faster, only their records are sent in between. A viewer's first
        // sample is not delayed.
        let is_first = self.first_is_due && self.sent > 0;
        self.first_is_due &= !is_first;
        if is_first {
            self.early_until_ns = now_ns + EARLY_NS;
        }
        let wall_ticks = self.ticker.until_wall_tick(now_ns).is_some();
        let hurried = wall_ticks
            && now_ns - self.last_look_ns < self.usual_nap_ns(now_ns)
            && !is_first
            && !self.ring.is_crowded();
        if leaving || !hurried {
            self.last_look_ns = now_ns;
            self.ticker.change_phases();
            let end = self.check_process(socket, now_ns, due)?;
            if due {
                self.delay_inspection(now_ns, syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - begun_ns);
            }
            if leaving || end.is_some() {
                self.flush_profile();
            }
            if leaving {
                self.write_account(socket, now_ns);
            }
            let sent = if leaving { socket.flush_within(LAST_FLUSH_NS) } else { socket.flush() };
            if leaving && socket.is_flushed() {
                // All wall-clock time up to now is counted, or counted as lost.
                crowd::publish_counted(0, 0);
            }
            // What a viewer does not read stays in the socket's buffer, which has more room than
            // the ring.
            if socket.is_flushed() || self.ring.is_crowded() {
                self.ring.release();
            }
            if end.is_some() {
                return Ok(end);
            }
            sent?;
            if self.leaving && socket.is_flushed() && !self.ring.has_record() {
                state::DRAINED.fetch_add(1, Ordering::Release);
                syscall::futex_wake(&state::DRAINED);
            }
        }
        self.sleep(drained > 0, now_ns);
        Ok(None)
    }

    /// Reads the maps when a handler met something unknown, and regularly. Code made at run time
    /// never becomes known, so a reading that found nothing new is not repeated before its time.
    fn read_modules(&mut self, now_ns: u64, due: bool) {
        let wanted = state::is_reread_wanted() && now_ns - self.last_modules_ns >= MODULES_NS;
        if wanted || due {
            state::WANT_MODULES.store(false, Ordering::SeqCst);
            let changed = self.publisher.refresh();
            if changed {
                self.finder.update(&self.publisher.modules);
            }
            if changed && let Some(collector) = &mut self.collector {
                collector.invalidate_map();
            }
            state::REREAD_MAPS_ON_MISS.store(changed || !wanted, Ordering::Relaxed);
            self.last_modules_ns = now_ns;
            self.allocations.keep_up(&self.publisher.modules, changed);
        }
        self.publisher.compile_rules();
    }

    /// Announces threads and modules that the viewer does not know yet. Those without room are
    /// announced next time.
    fn announce(&mut self, socket: &mut Socket) {
        self.publisher.modules.announce_gone(|unload| socket.write(|w| w.write_unload(unload)).is_ok());
        self.publisher.modules.announce(|module| {
            let module = Module { path: self.program.path_of(module.path), ..*module };
            socket.write(|w| w.write_module(&module)).is_ok()
        });
        self.ticker.threads.announce_ended(|tid| {
            deepest::forget(tid);
            socket.write(|w| w.write_thread_end(tid)).is_ok()
        });
        self.ticker.threads.announce(|thread| {
            socket.write(|w| w.write_thread(&Thread { tid: thread.tid, name: thread.name() })).is_ok()
        });
    }
}

/// Returns the pool, which is made at the first spawn in a process.
fn pool() -> Option<&'static SlotPool> {
    let mut pool = POOL.load(Ordering::Acquire);
    if pool.is_null() {
        pool = Box::into_raw(Box::new(SlotPool::new()?));
        POOL.store(pool, Ordering::Release);
    }
    // SAFETY: boxed here or at an earlier spawn, and never freed.
    Some(unsafe { &*pool })
}

/// Returns the ring, which is made at the first spawn in a process. Handlers see it once it is
/// [fresh](Agent::fresh_ring).
fn ring() -> Option<&'static Ring> {
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: boxed at an earlier spawn, and never freed.
    if ring.is_null() { Some(Box::leak(Box::new(Ring::new()?))) } else { Some(unsafe { &*ring }) }
}
