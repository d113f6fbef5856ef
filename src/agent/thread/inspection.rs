//! Inspections of the process: requests, threads, credentials and seccomp filters.

use core::sync::atomic::Ordering;

use crate::agent::interpreter;
use crate::agent::os::socket::{PeerGone, Socket};
use crate::agent::os::status::{OwnProgram, Status};
use crate::agent::os::{credentials, syscall};
use crate::agent::sampling::unaccounted;
use crate::agent::state;
use crate::agent::thread::hello::hello;
use crate::agent::thread::{ACCOUNT_NS, Agent, EndReason, INSPECTIONS_PART, NAP_NS};
use crate::agent::timers::engine::TimerEngine;
use crate::agent::timers::new_threads;
use crate::wire::SpawnCause;

impl Agent {
    /// Returns whether the process is to be inspected: once a second, if it has run since.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let hurried = self.ticker.until_wall_tick(now_ns).is_some() && now_ns - self.last_look_ns < NAP_NS;
        if now_ns < self.next_inspection_ns || hurried {
            return false;
        }
        self.next_inspection_ns = now_ns + ACCOUNT_NS;
        let used_ns = unaccounted::used_ns();
        core::mem::replace(&mut self.inspected_at_ns, used_ns) != used_ns
    }

    /// Makes the next inspection later after one that took so much CPU time, ns.
    pub(super) fn delay_inspection(&mut self, now_ns: u64, took_ns: u64) {
        self.next_inspection_ns = now_ns + (took_ns * INSPECTIONS_PART).max(ACCOUNT_NS);
    }

    /// Handles requests and checks the threads, and the whole process when it is `due`.
    pub(super) fn check_process(
        &mut self,
        socket: &mut Socket,
        now_ns: u64,
        due: bool,
    ) -> Result<Option<EndReason>, PeerGone> {
        while let Some(request) = socket.receive()? {
            self.handle_request(socket, request)?;
        }
        match if socket.is_unconnected() { 0 } else { state::KNOCK.swap(0, Ordering::Acquire) } {
            // The wake signal came while the agent thread was calling already.
            0 => {}
            again if again == state::viewer() => {}
            other => decline_viewer(other, socket.viewer),
        }
        let balance = &self.balance;
        let is_short = |ticker: &TimerEngine| balance.is_short(&ticker.engaged, ticker.threads.len());
        if self.ticker.look_after(now_ns, due, is_short) {
            let engaged = self.ticker.engaged.clone();
            // If there is no room now, the next account shows that nothing ticks.
            let _ = socket.write(|w| w.write_engaged(&engaged));
        }
        self.pool.grow(self.ticker.threads.len());
        let account_is_due = now_ns - self.last_account_ns >= ACCOUNT_NS || self.has_other_access();
        let end = if due { self.inspect() } else { self.end_with_first_thread() };
        if account_is_due || end.is_some() {
            self.last_account_ns = now_ns;
            self.write_account(socket, now_ns);
        }
        Ok(end)
    }

    /// Inspects the process as a whole, once a second.
    pub(super) fn inspect(&mut self) -> Option<EndReason> {
        if let Some(end) = self.end_with_first_thread() {
            return Some(end);
        }
        let status = Status::of_first()?;
        let mut changed = self.credentials.is_some_and(|own| !own.same_credentials(&status));
        if changed
            && self.collector.is_some()
            && let Some(own) = credentials::follow(syscall::getpid())
        {
            self.credentials = Some(own);
            changed = false;
        }
        changed.then_some(EndReason::Credentials)
    }

    /// Checks whether a thread is under seccomp: the first one each time, and one other. From then
    /// on neither handlers nor interposed functions make system calls. Wall ticks do not make it
    /// more frequent, because the kernel takes long to write a status.
    pub(super) fn check_seccomp(&mut self, now_ns: u64) {
        let is_early = now_ns - self.last_seccomp_check_ns < self.usual_nap_ns(now_ns) / 2;
        if is_early || state::FILTERED.load(Ordering::Relaxed) {
            return;
        }
        self.last_seccomp_check_ns = now_ns;
        let is_filtered = |status: Option<Status>| status.is_some_and(|status| status.seccomp != 0);
        let next = self.ticker.threads.next_after(self.seccomp_checked_tid).unwrap_or(0);
        self.seccomp_checked_tid = next;
        let is_first = next == syscall::getpid();
        if is_filtered(Status::of_first()) || !is_first && is_filtered(Status::of(next)) {
            state::FILTERED.store(true, Ordering::SeqCst);
            state::SYSCALLS_ALLOWED.store(false, Ordering::SeqCst);
            new_threads::stop_awaiting_first_tick();
        }
    }

    /// Returns whether the access to the interpreter's frames differs from the one that the viewer
    /// knows. A process that exits under a seccomp filter sends nothing, so this does not wait.
    fn has_other_access(&self) -> bool {
        let access = self.finder.found().map(|found| interpreter::access(found.is_readable));
        access.is_some() && access != self.functions.last_access()
    }

    /// Returns the end if the first thread has ended. If it was the last one, this thread must not
    /// keep the process alive, and otherwise it must not end after the last one. It stays as long
    /// as there are others if libc gives the exit code of the process, or while a profile is
    /// written into a file.
    pub(super) fn end_with_first_thread(&mut self) -> Option<EndReason> {
        let threads = &mut self.ticker.threads;
        if threads.first_exit_code().is_none() && threads.alive() != 1 {
            return None;
        }
        if threads.alive() <= 2 {
            return Some(EndReason::LastThread);
        }
        if self.collector.is_some() || state::FIRST_LEFT_BY_LIBC.load(Ordering::SeqCst) {
            return None;
        }
        state::FIRST_ENDED.store(true, Ordering::SeqCst);
        Some(EndReason::FirstThread)
    }
}

/// Tells a second viewer that another one is connected.
fn decline_viewer(viewer: u32, first: u32) {
    if let Some(mut socket) = Socket::connect_to_viewer(viewer) {
        let _ = socket.write(|w| w.write_hello(&hello(SpawnCause::Knock, &OwnProgram::own())));
        let _ = socket.write(|w| w.write_busy(first));
        let _ = socket.flush();
    }
}
