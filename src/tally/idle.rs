//! Finds idle threads: those that sit in the same wait for nearly the whole period of a query. By
//! wall-clock time a server's pools of waiting threads outweigh all work. A query that folds them
//! counts their samples apart: they are in no row, and shares do not refer to them. If all threads
//! are idle, none is folded. Where two periods are compared, a thread is idle if it is in both.
//!
//! A wait is a stack whose leaf is a function that blocks by itself, such as `epoll_wait`. `read`
//! and `write` are not among them, because a thread can spend its CPU time there.

use std::sync::Arc;

use super::query::{BusyThreads, Query};
use super::stacks::{LATENCY, SPAN, TOTAL};
use crate::profile::Profile;
use crate::profile::change_log::LogPosition;
use crate::profile::thread::ThreadId;
use crate::profile::totals::{Span, ThreadStack};

/// The share of its time in one wait from which a thread is idle, and below which an idle thread is
/// so no more, in percent. They differ so that rows do not come and go.
const IDLE_PERCENT: [u64; 2] = [95, 90];
/// The fewest samples of an idle thread. Of fewer, all may be of one wait by chance.
const LEAST_SAMPLES: u64 = 20;

/// Functions that block, without leading underscores, prefixes and suffixes of libc.
const WAITS: &[&str] = &[
    "accept",
    "accept4",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "do_futex_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "futex_abstimed_wait_cancelable64",
    "futex_abstimed_wait_common",
    "futex_abstimed_wait_common64",
    "futex_wait",
    "futex_wait_cancelable",
    "internal_syscall_cancel",
    "io_getevents",
    "lll_lock_wait",
    "mq_timedreceive",
    "msgrcv",
    "nanosleep",
    "new_sem_wait_slow64",
    "pause",
    "poll",
    "ppoll",
    "pselect",
    "pthread_clockjoin_ex",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "recv",
    "recvfrom",
    "recvmsg",
    "runtime.epollwait",
    "runtime.futex",
    "select",
    "sem_timedwait",
    "sem_wait",
    "semop",
    "semtimedop",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "syscall",
    "syscall_cancel",
    "syscall_cancel_arch",
    "usleep",
    "wait",
    "wait4",
    "waitid",
    "waitpid",
];

/// Whether a function blocks by itself.
fn is_wait(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let name = name.strip_prefix("GI_").or_else(|| name.strip_prefix("libc_")).unwrap_or(name);
    let name = name.trim_start_matches('_').split('@').next().unwrap_or_default();
    let name = name.strip_suffix("_nocancel").or_else(|| name.strip_suffix(".abi0")).unwrap_or(name);
    WAITS.binary_search(&name).is_ok()
}

/// Whether a thread is idle in each sum.
type InSums = [bool; LATENCY];

/// The samples of one thread in a period.
#[derive(Clone, Copy, Default)]
struct ThreadTime {
    ns: u64,
    samples: u64,
    /// The stack that has the majority, if one has it (Boyer and Moore), and its lead.
    stack: Option<ThreadStack>,
    lead_ns: u64,
    /// The weight of that stack.
    stack_ns: u64,
}

/// The idle threads of a query.
#[derive(Default)]
pub(crate) struct IdleThreads {
    /// The threads that wait.
    waiting: Vec<InSums>,
    /// Those of them that are not busy elsewhere.
    idle: Vec<InSums>,
    /// The threads that do something else than to wait.
    busy: BusyThreads,
    /// The query without its order, and the position up to which samples were read.
    source: Option<(Query, LogPosition)>,
}

impl IdleThreads {
    /// Finds the idle threads of a query. `leaf` returns the name of a stack's leaf. Returns
    /// whether the result for any thread has changed.
    pub(super) fn update<'a>(
        &mut self,
        profile: &Profile,
        query: &Query,
        leaf: impl Fn(ThreadStack) -> Option<&'a str>,
    ) -> bool {
        if !query.folds_idle() {
            return has_any(&std::mem::take(self).idle);
        }
        let asked = Query { sort: Default::default(), busy_elsewhere: Default::default(), ..query.clone() };
        let log = profile.change_log(query.generation, query.clock);
        let source = log.map(|log| (asked, log.position()));
        if source.is_none() || self.source != source {
            self.find_waiting(profile, query, leaf);
            self.source = source;
        }
        let is_idle = |(index, waiting): (usize, &InSums)| {
            let busy = at(&query.busy_elsewhere, index);
            std::array::from_fn(|sum| waiting[sum] && !busy[sum])
        };
        let idle: Vec<InSums> = self.waiting.iter().enumerate().map(is_idle).collect();
        let changed = (has_any(&self.idle) || has_any(&idle))
            && (0..idle.len().max(self.idle.len())).any(|index| at(&self.idle, index) != at(&idle, index));
        self.idle = idle;
        changed
    }

    /// Finds the threads that wait and those that do not.
    fn find_waiting<'a>(&mut self, profile: &Profile, query: &Query, leaf: impl Fn(ThreadStack) -> Option<&'a str>) {
        let count = profile.threads().len();
        let (mut waiting, mut busy) = (vec![[false; LATENCY]; count], vec![[false; LATENCY]; count]);
        for (sum, span) in [(SPAN, query.span), (TOTAL, Span::Total)] {
            if sum == TOTAL && query.span == Span::Total {
                waiting.iter_mut().chain(&mut busy).for_each(|sums| sums[TOTAL] = sums[SPAN]);
                break;
            }
            let times = majorities(profile, query, span);
            for (index, time) in times.iter().enumerate() {
                let percent = u128::from(IDLE_PERCENT[usize::from(at(&self.waiting, index)[sum])]);
                let is_most = u128::from(time.stack_ns) * 100 > u128::from(time.ns) * percent;
                waiting[index][sum] =
                    time.samples >= LEAST_SAMPLES && is_most && time.stack.and_then(&leaf).is_some_and(is_wait);
            }
            // Where no thread does anything else, the waits are what there is to see.
            if times.iter().zip(&waiting).all(|(time, waiting)| time.ns == 0 || waiting[sum]) {
                waiting.iter_mut().for_each(|waiting| waiting[sum] = false);
            }
            for ((busy, time), waiting) in busy.iter_mut().zip(&times).zip(&waiting) {
                busy[sum] = time.ns > 0 && !waiting[sum];
            }
        }
        (self.waiting, self.busy) = (waiting, busy.into());
    }

    /// The threads that do something else than to wait.
    pub(super) fn busy(&self) -> BusyThreads {
        Arc::clone(&self.busy)
    }

    /// Whether a thread is idle in each sum.
    pub(super) fn sums(&self, thread: ThreadId) -> InSums {
        at(&self.idle, thread.0 as usize)
    }

    /// The number of idle threads in a sum.
    pub(super) fn count(&self, sum: usize) -> usize {
        self.idle.iter().filter(|idle| idle[sum]).count()
    }
}

fn has_any(idle: &[InSums]) -> bool {
    idle.iter().any(|idle| *idle != [false; LATENCY])
}

fn at(idle: &[InSums], index: usize) -> InSums {
    idle.get(index).copied().unwrap_or_default()
}

/// Sums the samples of each thread, and those of the stack that has most of them.
fn majorities(profile: &Profile, query: &Query, span: Span) -> Vec<ThreadTime> {
    let mut times = vec![ThreadTime::default(); profile.threads().len()];
    profile.visit_generation(query.generation, query.clock, span, |key, weight| {
        let time = &mut times[key.0.0 as usize];
        time.ns = time.ns.saturating_add(weight.ns);
        time.samples = time.samples.saturating_add(weight.samples);
        if time.stack == Some(key) {
            time.lead_ns = time.lead_ns.saturating_add(weight.ns);
        } else if time.lead_ns >= weight.ns {
            time.lead_ns -= weight.ns;
        } else {
            (time.stack, time.lead_ns) = (Some(key), weight.ns - time.lead_ns);
        }
    });
    profile.visit_generation(query.generation, query.clock, span, |key, weight| {
        let time = &mut times[key.0.0 as usize];
        if time.stack == Some(key) {
            time.stack_ns = time.stack_ns.saturating_add(weight.ns);
        }
    });
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_recognized_whatever_libc_calls_them() {
        assert!(WAITS.is_sorted());
        for name in [
            "epoll_wait",
            "__libc_accept4",
            "__GI___nanosleep",
            "__futex_abstimed_wait_common64",
            "pthread_cond_wait@@GLIBC_2.3.2",
            "__poll_nocancel",
            "runtime.futex.abi0",
        ] {
            assert!(is_wait(name), "{name}");
        }
        for name in ["read", "__libc_read", "write", "parse", "", "epoll_waiter"] {
            assert!(!is_wait(name), "{name}");
        }
    }
}
