//! The one thread of the agent: calls the viewer, drains the ring onto the wire, notices new threads and modules.
//!
//! It is no thread of libc's: made by a raw clone, it calls no libc function that has thread state,
//! has all signals blocked and a descriptor table of its own, in which is nothing but what it
//! opened itself. While ticks flow it looks every [`NAP_NS`]. While none does it sleeps longer, and
//! a timer of the process's CPU clock wakes it. Where nothing has moved it only glances.

mod records;

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

use super::aside;
use super::collector::Collector;
use super::credentials;
use super::engine::Ticker;
use super::maps;
use super::modules::Modules;
use super::order;
use super::ring::{Handle, Ring};
use super::slot::Pool;
use super::socket::{Address, Gone, Socket};
use super::start;
use super::state;
use super::status::{self, Status};
use super::sys;
use super::threads;
use super::unseen::{self, Balance};
use super::{handler, timer};
use crate::link::wire::ring::word;
use crate::link::wire::{Account, Birth, Clock, Engine, Hello, MAX_FRAMES, Request, StoredStack, Thread, stack_memory};

/// Between two looks while ticks flow, ns. A sample is this old at most when it is sent; half a thousandth of a core is
/// what it costs.
const NAP_NS: u64 = 100_000_000;
/// Between two glances, at most, while nothing moves, ns.
const LONG_NAP_NS: u64 = 400_000_000;
/// Between two accounts, and two inspections of the process as a whole, ns.
const ACCOUNT_NS: u64 = 1_000_000_000;
/// How long a viewer may take to say what it wants, ns.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Between two readings of the maps that handlers or the target asked for, ns.
const MODULES_NS: u64 = 5_000_000;
/// Estimated cost of a tick's delivery and return in the kernel, and of the handler but for its walk, ns; and of a frame.
const TICK_COST_NS: u64 = 2_500;
const FRAME_COST_NS: u64 = 40;

/// The viewer called last, by the pid it knows itself by: a fork child of a process that was knocked at calls it too.
static VIEWER: AtomicU32 = AtomicU32::new(0);

/// The viewer called last.
pub(super) fn viewer() -> u32 {
    VIEWER.load(Ordering::Relaxed)
}

/// What the agent thread has at hand for the whole of its life.
pub(super) struct Agent {
    pub(super) ring: &'static Ring,
    pool: &'static Pool,
    modules: Modules,
    pub(super) ticker: Ticker,
    memory: Box<[StoredStack]>,
    sent: u64,
    pub(super) balance: Balance,
    /// What goes into a file.
    pub(super) collector: Option<Collector>,
    /// What the viewer asked for last: clock, engine, period.
    pub(super) asked: Option<(Clock, Engine, u64)>,
    /// No sample has been sent since the engine was engaged.
    first_is_due: bool,
    /// How long the next nap is, ns: longer and longer while nobody wakes it.
    nap_ns: u64,
    /// The process is on its way out.
    leaving: bool,
    last_look_ns: u64,
    last_modules_ns: u64,
    last_inspection_ns: u64,
    /// CPU time of the target then.
    inspected_at_ns: u64,
    last_account_ns: u64,
    credentials: Option<Status>,
    /// Thread whose sandbox was looked at last.
    looked_at: u32,
    /// Where the agent's own code is.
    own_code: core::ops::Range<u64>,
}

/// Why a connection ended.
#[derive(PartialEq, Eq)]
pub(super) enum End {
    /// The viewer left, or is no viewer.
    Left,
    /// The process changed its credentials: an agent with the new ones must be born.
    Credentials,
    /// The target makes a call that wants one thread alone; it sees to the next birth.
    Aside,
    /// Every other thread has ended; with this exit code.
    LastThread(u32),
}

/// Runs the agent. Called once at birth, on the agent thread's own stack; the caller ends the thread with the code returned.
pub(super) fn live(epoch: u32) -> u32 {
    let tid = sys::gettid();
    let own = Status::own();
    let filtered = own.is_none_or(|status| status.seccomp != 0) || state::FILTERED.load(Ordering::SeqCst);
    state::MAY_CALL.store(!filtered, Ordering::Relaxed);
    let Some(mut agent) = Agent::new(tid, epoch, own) else { return 0 };
    let mut end = End::Left;
    let mut called = false;
    loop {
        let knocked = state::KNOCK.swap(0, Ordering::Acquire);
        // Who launched this process is called once in a life.
        let link = start::link().filter(|_| !core::mem::replace(&mut called, true));
        let socket = match (knocked, link) {
            (0, Some(link)) => {
                VIEWER.store(link.viewer, Ordering::Relaxed);
                Address::path(link.path)
                    .and_then(|address| Socket::connect(&address))
                    .or_else(|| Socket::connect(&Address::of_viewer(link.viewer)))
            }
            (0, None) => None,
            (viewer, _) => {
                VIEWER.store(viewer, Ordering::Relaxed);
                Socket::connect(&Address::of_viewer(viewer))
            }
        };
        if let Some(socket) = socket {
            end = agent.serve(socket, if knocked == 0 { Birth::Tick } else { Birth::Knock });
        }
        let is_knocked_at = || state::KNOCK.load(Ordering::Relaxed) != 0;
        if end == End::Left && !is_knocked_at() && order::needs_agent() {
            end = agent.serve_nobody();
        }
        if end != End::Left || !(is_knocked_at() || order::needs_agent()) {
            break;
        }
    }
    agent.ticker.retire();
    match end {
        End::LastThread(code) => code,
        End::Credentials => {
            timer::arm_for_birth(agent.ticker.epoch(), state::config(agent.ticker.epoch()));
            0
        }
        End::Aside => 0,
        End::Left => {
            state::WATCHED.store(false, Ordering::Relaxed);
            0
        }
    }
}

impl Agent {
    fn new(tid: u32, epoch: u32, credentials: Option<Status>) -> Option<Agent> {
        let mut ticker = Ticker::new(tid, epoch);
        ticker.begin();
        let pool = pool()?;
        pool.grow(ticker.threads.count().0 as usize);
        let ring = ring()?;
        if state::LATER.load(Ordering::Acquire).is_null() {
            handler::room_for_later();
        }
        state::CURIOUS.store(true, Ordering::Relaxed);
        let mut modules = Modules::new(pool);
        modules.refresh();
        Some(Agent {
            ring,
            pool,
            modules,
            ticker,
            memory: stack_memory(),
            sent: 0,
            balance: Balance::default(),
            collector: None,
            asked: None,
            first_is_due: true,
            nap_ns: NAP_NS,
            leaving: false,
            last_look_ns: 0,
            last_modules_ns: 0,
            last_inspection_ns: sys::monotonic_ns(),
            inspected_at_ns: 0,
            last_account_ns: 0,
            credentials,
            looked_at: 0,
            own_code: own_code(),
        })
    }

    /// Serves one viewer until it leaves.
    fn serve(&mut self, mut socket: Socket, birth: Birth) -> End {
        self.modules.forget_announcements();
        self.ticker.threads.forget_announcements();
        self.memory.fill(StoredStack::EMPTY);
        (self.sent, self.first_is_due, self.asked) = (0, true, None);
        state::begin_unhandled();
        if let Some(collector) = &mut self.collector {
            collector.look_at_losses(true);
        }
        if let Some(handle) = self.fresh_ring() {
            socket.hand_over(handle);
        }
        let introduced = socket.write(|w| w.hello(&hello(birth))).is_ok();
        if !introduced || self.await_request(&mut socket).is_err() {
            return End::Left;
        }
        state::WATCHED.store(true, Ordering::Relaxed);
        loop {
            match self.turn(&mut socket) {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(Gone) => {
                    self.ticker.disengage();
                    return End::Left;
                }
            }
        }
    }

    /// Begins with an empty ring and counters at 0. Returns its memory's file, if it has one.
    fn fresh_ring(&mut self) -> Option<Handle> {
        state::RING.store(core::ptr::null_mut(), Ordering::SeqCst);
        let mut busy = self.pool.observe();
        // Handlers take microseconds; one whose thread was stopped in it may never return.
        let mut patience = 100;
        while !self.pool.all_returned(&mut busy) && patience > 0 {
            sys::futex_wait(&AtomicU32::new(0), 0, 1_000_000);
            patience -= 1;
        }
        let handle = if patience > 0 { self.ring.renew() } else { None };
        if handle.is_none() {
            // The old memory, without what an earlier agent's last ticks left behind.
            let mut frames = [0; MAX_FRAMES];
            while self.ring.take(&mut frames).is_some() {}
            self.ring.release();
            (word::TICKS..word::CONFIGS).for_each(|index| self.ring.header(index).store(0, Ordering::Relaxed));
        }
        state::RING.store(core::ptr::from_ref(self.ring).cast_mut(), Ordering::SeqCst);
        state::show_configs();
        state::settle_counters();
        handle
    }

    /// Waits for the first request.
    fn await_request(&mut self, socket: &mut Socket) -> Result<(), Gone> {
        let deadline = sys::monotonic_ns() + PATIENCE_NS;
        loop {
            socket.flush()?;
            if let Some(request) = socket.receive()? {
                return self.obey(socket, request);
            }
            let now = sys::monotonic_ns();
            if now >= deadline {
                return Err(Gone);
            }
            self.ticker.release();
            socket.wait(deadline - now);
            self.ticker.hold(false);
        }
    }

    pub(super) fn obey(&mut self, socket: &mut Socket, request: Request) -> Result<(), Gone> {
        match request {
            Request::Engage { clock, engine, period_ns } => {
                self.asked = Some((clock, engine, period_ns));
                if let Some(order) = self.collector.as_ref().map(Collector::order)
                    && (order.clock != clock || order.by_hand)
                {
                    self.refuse(socket, clock, engine, period_ns, order);
                    return Ok(());
                }
                self.ticker.engage(clock, engine, period_ns);
                self.balance = Balance::begin();
                start::remember_epoch(self.ticker.epoch());
                let engaged = self.ticker.engaged.clone();
                socket.write(|w| w.engaged(&engaged)).map_err(|_| Gone)
            }
            Request::Leave => Err(Gone),
        }
    }

    /// Takes what is there, looks around if it is time to, and sleeps.
    pub(super) fn turn(&mut self, socket: &mut Socket) -> Result<Option<End>, Gone> {
        let now_ns = sys::monotonic_ns();
        self.ring.header(word::LOOKED_NS).store(now_ns, Ordering::Relaxed);
        let keeps_up = credentials::keep_up(&mut self.credentials);
        if keeps_up && self.may_glance(socket, now_ns) {
            match (socket.receive()?, self.last_one()) {
                (None, None) => {
                    self.sleep(false, now_ns);
                    return Ok(None);
                }
                (Some(request), _) => self.obey(socket, request)?,
                (None, Some(_)) => {}
            }
        }
        self.look_for_filter();
        let due = self.is_due(now_ns) || !keeps_up;
        self.read_modules(now_ns, due);
        // Before the samples, which say at which generation their addresses hold.
        self.announce(socket);
        let drained = self.drain(socket, now_ns);
        self.ticker.change_phases();
        self.wall(socket, now_ns);
        self.look_at_orders(socket, now_ns);
        if aside::is_wanted() {
            if socket.flush().is_ok() && socket.is_flushed() {
                self.ring.release();
            }
            self.write_all();
            return Ok(Some(End::Aside));
        }
        let leaving = state::LEAVING.swap(false, Ordering::SeqCst);
        self.leaving |= leaving;
        // Between wall ticks that come faster, only their records are taken. A viewer's first sample does not wait.
        let is_first = self.first_is_due && self.sent > 0;
        self.first_is_due &= !is_first;
        let wall_ticks = self.ticker.until_wall_tick(now_ns).is_some();
        let hurried = wall_ticks && now_ns - self.last_look_ns < NAP_NS && !is_first && !self.ring.is_crowded();
        if leaving || !hurried {
            self.last_look_ns = now_ns;
            let end = self.look_around(socket, now_ns, due, leaving || drained == 0)?;
            if leaving || end.is_some() {
                self.write_all();
            }
            if leaving {
                let account = self.account(now_ns);
                let _ = socket.write(|w| w.account(&account));
            }
            let sent = socket.flush();
            // What a viewer that does not read has not taken waits in the socket's buffer; there is
            // room for more of it than here.
            if socket.is_flushed() || self.ring.is_crowded() {
                self.ring.release();
            }
            if end.is_some() {
                return Ok(end);
            }
            sent?;
            if socket.is_flushed() && !self.ring.has_record() {
                state::DRAINED.fetch_add(1, Ordering::Release);
                if self.leaving {
                    sys::futex_wake(&state::DRAINED);
                }
            }
        }
        self.sleep(drained > 0, now_ns);
        Ok(None)
    }

    /// Whether a request, or the end of the last thread, is all that there can be to see.
    fn may_glance(&self, socket: &Socket, now_ns: u64) -> bool {
        self.nap_ns > NAP_NS
            && self.collector.is_none()
            && now_ns - self.last_account_ns < ACCOUNT_NS
            && !self.ring.has_record()
            && socket.is_flushed()
            && self.ticker.is_at_rest(now_ns)
            && !self.ticker.is_to_move()
    }

    /// Whether the process is to be inspected: once a second, if it has run since.
    fn is_due(&mut self, now_ns: u64) -> bool {
        let hurried = self.ticker.until_wall_tick(now_ns).is_some() && now_ns - self.last_look_ns < NAP_NS;
        if now_ns - self.last_inspection_ns < ACCOUNT_NS || hurried {
            return false;
        }
        self.last_inspection_ns = now_ns;
        let used_ns = unseen::used_ns();
        core::mem::replace(&mut self.inspected_at_ns, used_ns) != used_ns
    }

    /// Requests and threads, and the process as a whole when it is `due`.
    fn look_around(&mut self, socket: &mut Socket, now_ns: u64, due: bool, quiet: bool) -> Result<Option<End>, Gone> {
        while let Some(request) = socket.receive()? {
            self.obey(socket, request)?;
        }
        match if socket.is_to_nobody() { 0 } else { state::KNOCK.swap(0, Ordering::Acquire) } {
            // Knocked at while this one was calling already.
            0 => {}
            again if again == viewer() => {}
            other => decline(other, socket.viewer),
        }
        let balance = &self.balance;
        let is_short = |ticker: &Ticker| balance.is_short(&ticker.engaged, ticker.threads.count().0);
        if self.ticker.look_after(now_ns, due, is_short) {
            let engaged = self.ticker.engaged.clone();
            // If there is no room now, the next account shows that nothing ticks.
            let _ = socket.write(|w| w.engaged(&engaged));
        }
        self.pool.grow(self.ticker.threads.count().0 as usize);
        let account_is_due = now_ns - self.last_account_ns >= ACCOUNT_NS;
        let end = match (due, quiet) {
            (true, _) => self.inspect(),
            (false, true) => self.last_one(),
            (false, false) => None,
        };
        if account_is_due || end.is_some() {
            self.last_account_ns = now_ns;
            let account = self.account(now_ns);
            let _ = socket.write(|w| w.account(&account));
        }
        Ok(end)
    }

    /// Reads the maps when a handler met something unknown, and now and then. Code made at run time is never known: what
    /// finds nothing new is not done again before its time.
    fn read_modules(&mut self, now_ns: u64, due: bool) {
        let wanted = modules_are_wanted() && now_ns - self.last_modules_ns >= MODULES_NS;
        if wanted || due {
            state::WANT_MODULES.store(false, Ordering::SeqCst);
            let changed = self.modules.refresh();
            if changed && let Some(collector) = &mut self.collector {
                collector.map_is_old();
            }
            state::CURIOUS.store(changed || !wanted, Ordering::Relaxed);
            self.last_modules_ns = now_ns;
        }
        self.modules.learn();
    }

    /// Threads and modules that the viewer does not know yet; what has no room is said next time.
    fn announce(&mut self, socket: &mut Socket) {
        self.modules.announce_gone(|unload| socket.write(|w| w.unload(unload)).is_ok());
        self.modules.announce(|module| socket.write(|w| w.module(module)).is_ok());
        self.ticker.threads.announce_ended(|tid| socket.write(|w| w.thread_end(tid)).is_ok());
        self.ticker
            .threads
            .announce(|thread| socket.write(|w| w.thread(&Thread { tid: thread.tid, name: thread.name() })).is_ok());
    }

    fn account(&self, now_ns: u64) -> Account {
        state::settle_counters();
        self.balance.settle(&self.ticker.engaged, self.ticker.threads.count().0);
        let (lost_ticks, lost_ns) = state::losses();
        let read = |index| state::counter(index).load(Ordering::Relaxed);
        let ticks = read(word::TICKS);
        let (threads, timers) = self.ticker.threads.count();
        Account {
            monotonic_ns: now_ns,
            ticks,
            sent: self.sent,
            lost_ticks,
            lost_ns,
            agent_cpu_ns: sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
            handler_cpu_ns: ticks.saturating_sub(state::unhandled()) * TICK_COST_NS
                + read(word::FRAMES) * FRAME_COST_NS,
            process_cpu_ns: sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
            threads,
            timers,
            foreign_signals: read(word::FOREIGN),
        }
    }

    /// A look at the process as a whole, once a second.
    fn inspect(&mut self) -> Option<End> {
        if let Some(end) = self.last_one() {
            return Some(end);
        }
        let status = Status::of_first()?;
        let mut changed = self.credentials.is_some_and(|own| !own.same_credentials(&status));
        if changed
            && self.collector.is_some()
            && let Some(own) = credentials::follow(sys::getpid())
        {
            self.credentials = Some(own);
            changed = false;
        }
        changed.then_some(End::Credentials)
    }

    /// Looks whether a thread has come under seccomp: the first one at every look, and one other.
    /// From then on handlers and hooks make no system call.
    fn look_for_filter(&mut self) {
        if state::FILTERED.load(Ordering::Relaxed) {
            return;
        }
        let first = Status::of_first().is_some_and(|status| status.seccomp != 0);
        let next = self.ticker.threads.next_after(self.looked_at).unwrap_or(0);
        self.looked_at = next;
        if first || Status::of(next).is_some_and(|status| status.seccomp != 0) {
            state::FILTERED.store(true, Ordering::SeqCst);
            state::MAY_CALL.store(false, Ordering::SeqCst);
            timer::delete_birth_timers();
        }
    }

    /// Whether all other threads have ended: then this one must not keep the process.
    fn last_one(&mut self) -> Option<End> {
        match self.ticker.threads.alive() {
            1 => Some(End::LastThread(0)),
            2 => threads::first_thread_ended().map(End::LastThread),
            _ => None,
        }
    }

    /// Until a first tick, a request's latest time, or the next wall tick.
    fn sleep(&mut self, ticks_flow: bool, now_ns: u64) {
        let nap_ns = if modules_are_wanted() { MODULES_NS } else { self.nap_ns };
        let timeout_ns = self.ticker.until_wall_tick(now_ns).map_or(nap_ns, |wall_ns| wall_ns.min(nap_ns.min(NAP_NS)));
        state::ASLEEP.store(1, Ordering::SeqCst);
        let nothing = ticks_flow || !self.ring.has_record();
        let slept = nothing && !self.ticker.are_threads_wanted() && timeout_ns > 0;
        let mut woken = false;
        if slept {
            woken = self.nap(ticks_flow, now_ns + timeout_ns);
        }
        state::ASLEEP.store(0, Ordering::SeqCst);
        let undisturbed = slept && !woken && !ticks_flow;
        self.nap_ns = if undisturbed { (2 * self.nap_ns).min(LONG_NAP_NS) } else { NAP_NS };
    }
}

impl Agent {
    /// Sleeps until `until_ns`, or is woken: while ticks flow only by somebody who asks for it, or
    /// by a thread that came or went.
    fn nap(&mut self, ticks_flow: bool, until_ns: u64) -> bool {
        loop {
            let left_ns = until_ns.saturating_sub(sys::monotonic_ns());
            if left_ns == 0 {
                return false;
            }
            self.ticker.release();
            let woken = sys::await_wake(left_ns);
            self.ticker.hold(self.ring.has_record());
            let asked = state::ASLEEP.load(Ordering::Relaxed) == 0;
            if woken && (asked || !ticks_flow || self.ticker.has_other_threads()) {
                return true;
            }
        }
    }
}

/// Where the agent's own code is; empty where the maps cannot be read.
fn own_code() -> core::ops::Range<u64> {
    let here = own_code as *const () as u64;
    let text = maps::read();
    let own = maps::entries(&text).find(|entry| (entry.start..entry.end).contains(&here));
    own.map_or(0..0, |entry| entry.start..entry.end)
}

/// Whether the maps are to be read before their time.
fn modules_are_wanted() -> bool {
    state::WANT_MODULES.load(Ordering::SeqCst) && state::CURIOUS.load(Ordering::Relaxed)
}

/// The pool, made at the first birth of a process.
fn pool() -> Option<&'static Pool> {
    let mut pool = state::POOL.load(Ordering::Acquire);
    if pool.is_null() {
        pool = Box::into_raw(Box::new(Pool::new()?));
        state::POOL.store(pool, Ordering::Release);
    }
    // SAFETY: boxed here or at an earlier birth, and never freed.
    Some(unsafe { &*pool })
}

/// The ring, made at the first birth of a process; handlers see it when it is [fresh](Agent::fresh_ring).
fn ring() -> Option<&'static Ring> {
    let ring = state::RING.load(Ordering::Acquire);
    // SAFETY: boxed at an earlier birth, and never freed.
    if ring.is_null() { Some(Box::leak(Box::new(Ring::new()?))) } else { Some(unsafe { &*ring }) }
}

fn hello(birth: Birth) -> Hello<alloc::vec::Vec<u8>> {
    let (parent, start_ticks) = status::parent_and_start();
    Hello {
        token: start::link().map_or(0, |link| link.token),
        pid: sys::getpid(),
        parent,
        start_ticks,
        monotonic_ns: sys::monotonic_ns(),
        cpu_ns: sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
        birth,
        executable: status::executable(),
        argv: status::argv(),
    }
}

/// Tells a second viewer that there is a first.
fn decline(viewer: u32, first: u32) {
    if let Some(mut socket) = Socket::connect(&Address::of_viewer(viewer)) {
        let _ = socket.write(|w| w.hello(&hello(Birth::Knock)));
        let _ = socket.write(|w| w.busy(first));
        let _ = socket.flush();
    }
}
