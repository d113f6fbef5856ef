//! The threads of the process as the agent thread knows them: found in /proc/self/task, named, and
//! given timers.

use crate::agent::os::status::{self, Status};
use crate::agent::os::syscall::{self, File, PathBuffer, syscall};
use crate::agent::os::user_dispatch;
use crate::agent::timers::phase::Phase;
use crate::agent::timers::thread::Thread;
use crate::agent::timers::timer::{self, Timer};
use crate::agent::timers::{first_tick, new_threads};
use crate::wire::parse_number;
use alloc::vec::Vec;

/// Maximum number of threads. Further threads are not sampled.
const MAX_THREADS: usize = 16_384;
/// CPU time within which a starting thread arms its own timer, if it does, ns.
const STARTING_NS: u64 = 500_000;
/// CPU time of a thread up to which it keeps the timer that it armed for itself, ns.
const NEW_THREAD_NS: u64 = 20_000_000;
/// Maximum CPU time before its timer was armed that a thread's first sample stands for, ns: the
/// time that is used until a new thread is found.
const MAX_BEFORE_NS: u64 = 30_000_000;
/// Maximum number of threads whose scheduling statistics are kept open.
const MAX_OPEN: usize = 256;
/// Maximum number of known threads whose names are read in one scan, at some 4 µs each. Further
/// names are read in the following scans.
const MAX_NAMES: usize = 256;

/// All threads except the agent's.
#[derive(Default)]
pub(crate) struct Threads {
    /// The threads, sorted by id.
    list: Vec<Thread>,
    ended: Vec<u32>,
    /// Threads that have ended since the last wall tick, which had found them asleep.
    ended_asleep: Vec<Thread>,
    directory: Option<File>,
    /// The `stat` of the first thread.
    first: Option<File>,
    /// Whether some threads still have the timers that they armed for themselves as they started.
    pub(crate) has_new_threads: bool,
    /// Number of threads for which the kernel refused a timer at the last call of
    /// [`arm_cpu`](Threads::arm_cpu).
    refused: usize,
    /// Id of the last thread whose name was read again.
    named_to: u32,
}

impl Threads {
    /// Finds the threads of the process, and returns whether one came or went. `names` also reads
    /// the names of known threads again, up to [`MAX_NAMES`] of them per scan.
    pub(crate) fn scan(&mut self, agent: u32, names: bool) -> bool {
        let Some(directory) = File::open(b"/proc/self/task\0", libc::O_DIRECTORY) else { return false };
        self.list.iter_mut().for_each(|thread| thread.alive = false);
        user_dispatch::sweep();
        let mut fresh = Vec::new();
        each_number(&directory, |tid| {
            if tid == agent {
                return;
            }
            match self.list.binary_search_by_key(&tid, |thread| thread.tid) {
                Ok(place) => self.list[place].alive = true,
                Err(_) => fresh.push(tid),
            }
        });
        let (before, few) = (self.list.len(), self.are_few());
        for mut thread in self.list.extract_if(.., |thread| !thread.alive) {
            if !few {
                thread.lose_uncounted();
            }
            thread.lose_owed();
            thread.timer.take().inspect(|timer| timer.delete());
            match thread.sleeping_since {
                Some(_) => self.ended_asleep.push(thread),
                None if thread.announced => self.ended.push(thread.tid),
                None => {}
            }
        }
        for thread in self.list.iter_mut().filter(|thread| user_dispatch::excludes(thread.tid)) {
            thread.timer.take().inspect(|timer| timer.delete());
        }
        let changed = !fresh.is_empty() || self.list.len() < before;
        fresh.truncate(MAX_THREADS - self.list.len().min(MAX_THREADS));
        // Younger threads have higher ids, except after a wrap of the ids, so nearly all go to the
        // end.
        for tid in fresh {
            let place = self.list.partition_point(|thread| thread.tid < tid);
            self.list.insert(place, Thread::new(tid));
        }
        new_threads::sweep();
        self.list.iter_mut().filter(|thread| !thread.named).for_each(Thread::read_name);
        if names {
            self.read_names();
        }
        changed
    }

    /// Reads the names of the threads that follow those that were read last, and starts over after
    /// the last thread.
    fn read_names(&mut self) {
        let start = self.list.partition_point(|thread| thread.tid <= self.named_to);
        let count = self.list.len().min(MAX_NAMES);
        for step in 0..count {
            let place = (start + step) % self.list.len();
            self.list[place].read_name();
            self.named_to = self.list[place].tid;
        }
    }

    /// Gives every thread without a timer one of its CPU clock, with a random first phase. If the
    /// threads `came` since the last call, the first sample of each also stands for its CPU time up
    /// to now, provided that is little; more is left to be counted as unsampled.
    pub(crate) fn arm_cpu(
        &mut self,
        epoch: u32,
        signal: i32,
        period_ns: u64,
        came: bool,
        random: &mut impl FnMut() -> u64,
    ) {
        let birth_left_ns = first_tick::left_ns();
        // /proc may be of another pid namespace than the process, and number its threads
        // differently.
        let is_foreign = status::own_pid() != syscall::getpid();
        (self.has_new_threads, self.refused) = (false, 0);
        // A thread that was given a timer before it armed its own would be sampled by both.
        for thread in self.list.iter().filter(|thread| thread.is_timed() && !is_foreign) {
            new_threads::replace(thread.tid);
        }
        for thread in self.list.iter_mut().filter(|thread| thread.may_have_timer()) {
            let tid = if is_foreign {
                Status::of(thread.tid).map_or(thread.tid, |status| status.own_tid)
            } else {
                thread.tid
            };
            let used_ns = if came { syscall::clock_ns(timer::thread_clock(tid)) } else { u64::MAX };
            // A thread that has not armed its timer yet is about to.
            if used_ns < NEW_THREAD_NS && new_threads::has_timer(tid) || used_ns < STARTING_NS && new_threads::may_arm()
            {
                self.has_new_threads = true;
                continue;
            }
            let had_own_timer = new_threads::replace(tid);
            if let Some(timer) = Timer::of_thread(tid, thread.tid, epoch, signal) {
                if came && !had_own_timer {
                    thread.used_before_ns = if used_ns <= MAX_BEFORE_NS { used_ns } else { 0 };
                }
                // If a tick was the reason for this call, another phase would bring the next tick
                // too early.
                let goes_on = birth_left_ns > 0 && tid == syscall::getpid();
                let first_ns = if goes_on { birth_left_ns } else { timer::first_ns(random(), period_ns) };
                timer.arm(first_ns, period_ns);
                (thread.timer, thread.phase, thread.clock) = (Some(timer), Phase::default(), timer::thread_clock(tid));
                (thread.sampled_to_ns, thread.overdue_at_ns) = (syscall::clock_ns(thread.clock), 0);
            } else {
                self.refused += 1;
            }
        }
    }

    /// Reads the CPU time of threads whose timer is overdue: the kernel notices that only at a
    /// scheduler tick that finds the thread running. Among others that compete for the CPU, a
    /// thread may lose it before each of several.
    pub(crate) fn read_overdue(&mut self) {
        let few = self.are_few();
        for thread in &mut self.list {
            let is_overdue = few && thread.timer.is_some_and(Timer::is_overdue);
            thread.overdue_at_ns = if is_overdue { syscall::clock_ns(thread.clock) } else { 0 };
        }
    }

    /// Returns the CPU time for which overdue ticks are still to come, beyond `usual_ns` of each
    /// thread.
    pub(crate) fn overdue_ns(&self, usual_ns: u64) -> u64 {
        let owed = |thread: &Thread| thread.overdue_at_ns.saturating_sub(thread.sampled_to_ns + usual_ns);
        self.list.iter().map(owed).sum()
    }

    /// Changes the phases of the timers whose threads have ticked since the last call. Does nothing
    /// if the scheduler's tick is longer than the period, because it then determines the phases.
    pub(crate) fn change_phases(&mut self, period_ns: u64, random: &mut impl FnMut() -> u64) {
        if period_ns <= timer::tick_ns() {
            return;
        }
        for thread in self.list.iter_mut().filter(|thread| thread.phase.has_ticked()) {
            let Some(timer) = thread.timer else { continue };
            if let Some((first_ns, interval_ns)) = thread.phase.change(timer.left_ns(), period_ns, random) {
                timer.arm(first_ns, interval_ns);
            }
        }
    }

    /// Deletes every timer.
    pub(crate) fn disarm(&mut self) {
        new_threads::disarm();
        self.sample_ended(|_| {});
        for thread in &mut self.list {
            if let Some(timer) = thread.timer.take() {
                timer.delete();
            }
            thread.lose_owed();
            (thread.used_before_ns, thread.owed_ns, thread.owed_ticks, thread.sleeping_since) = (0, 0, 0, None);
            (thread.delayed_ns, thread.stopped_ns, thread.known_delay_ns) = (0, 0, None);
            (thread.counted_to_ns, thread.rests, thread.next_look_ns) = (0, 0, 0);
        }
    }

    /// Calls `last_sample` with each thread that has ended since the last wall tick, which had
    /// found it asleep. After that its end is announced.
    pub(crate) fn sample_ended(&mut self, mut last_sample: impl FnMut(&mut Thread)) {
        for mut thread in self.ended_asleep.drain(..) {
            last_sample(&mut thread);
            if thread.announced {
                self.ended.push(thread.tid);
            }
        }
    }

    /// Returns the threads that were found since the last call.
    pub(crate) fn new_ones(&mut self) -> impl Iterator<Item = &Thread> {
        self.list.iter_mut().filter_map(|thread| core::mem::take(&mut thread.is_new).then_some(&*thread))
    }

    /// Returns the thread with an id.
    pub(crate) fn find(&mut self, tid: u32) -> Option<&mut Thread> {
        let place = self.list.binary_search_by_key(&tid, |thread| thread.tid).ok()?;
        Some(&mut self.list[place])
    }

    /// Returns the id of the thread after `tid`, or of the first thread if there is none.
    pub(crate) fn next_after(&self, tid: u32) -> Option<u32> {
        let place = self.list.partition_point(|thread| thread.tid <= tid);
        self.list.get(place).or(self.list.first()).map(|thread| thread.tid)
    }

    /// Returns the signals that at least one of the first [`MAX_NAMES`] threads blocks, as a mask.
    pub(crate) fn blocked(&self) -> u64 {
        let blocked = |thread: &Thread| Status::of(thread.tid).map_or(0, |status| status.blocked);
        self.list.iter().take(MAX_NAMES).fold(0, |all, thread| all | blocked(thread))
    }

    /// Returns every thread, beginning with one.
    pub(crate) fn iter_mut_from(&mut self, tid: u32) -> impl Iterator<Item = &mut Thread> {
        let place = self.list.partition_point(|thread| thread.tid < tid);
        let (before, after) = self.list.split_at_mut(place);
        after.iter_mut().chain(before)
    }

    /// Returns whether there are few enough to keep their statistics open, and to look at each in
    /// every wall tick.
    pub(crate) fn are_few(&self) -> bool {
        self.list.len() <= MAX_OPEN
    }

    /// Returns the number of threads.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the number of threads, and the number of those that have a timer.
    pub(crate) fn count(&self) -> (u32, u32) {
        let timed = self.list.iter().filter(|thread| thread.timer.is_some()).count();
        (self.list.len() as u32, timed as u32)
    }

    /// Returns whether the kernel refuses a timer for every thread.
    pub(crate) fn are_timers_refused(&self) -> bool {
        self.refused > 0 && self.count().1 == 0
    }

    /// Returns the number of threads of the process, including the agent's; 0 if it cannot be read.
    /// It is the link count of /proc/self/task minus 2. The directory stays open because it is
    /// queried often, and resolving the path takes four fifths of a stat(2). fstat(2)
    pub(crate) fn alive(&mut self) -> u64 {
        let directory = self.directory.take().or_else(|| File::open(b"/proc/self/task\0", libc::O_DIRECTORY));
        let Some(directory) = directory else { return 0 };
        let Some(status) = directory.status() else { return 0 };
        self.directory = Some(directory);
        let links: u64 = status.st_nlink as _;
        links.saturating_sub(2)
    }

    /// Returns the exit code of the first thread if it has ended while others live. The file stays
    /// open, because it is read in every iteration of the agent thread.
    pub(crate) fn first_exit_code(&mut self) -> Option<u32> {
        if self.first.is_none() {
            let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(status::own_pid().into());
            self.first = File::open(path.text(b"/stat").terminated(), 0);
        }
        let mut text = [0; 1024];
        let length = self.first.as_ref()?.read_at(&mut text, 0);
        exit_code(&text[..length])
    }

    /// Returns the exit code with which the agent thread has to end. If no other thread is left,
    /// the kernel makes it that of the process; so it is that of the first thread, the only one
    /// that leaves its code behind.
    pub(crate) fn code_of_last_thread(&mut self) -> u32 {
        if self.alive() > 2 { 0 } else { self.first_exit_code().unwrap_or(0) }
    }

    /// Announces the names that the viewer does not know yet, each once. Stops if one cannot be
    /// sent.
    pub(crate) fn announce(&mut self, mut announce: impl FnMut(&Thread) -> bool) {
        for thread in self.list.iter_mut().filter(|thread| !thread.announced) {
            if !announce(thread) {
                return;
            }
            thread.announced = true;
        }
    }

    /// Announces the ended threads that the viewer does not know yet, each once.
    pub(crate) fn announce_ended(&mut self, mut announce: impl FnMut(u32) -> bool) {
        let announced = self.ended.iter().position(|&tid| !announce(tid)).unwrap_or(self.ended.len());
        self.ended.drain(..announced);
    }

    /// Forgets what was announced, for a new viewer.
    pub(crate) fn forget_announcements(&mut self) {
        for thread in &mut self.list {
            thread.announced = false;
            thread.wait.set_sent(false);
        }
        self.ended.clear();
        self.ended_asleep.clear();
    }
}

/// Calls `each` with every numeric name in a directory. getdents64(2)
fn each_number(directory: &File, mut each: impl FnMut(u32)) {
    let mut buffer = [0u8; 8192];
    loop {
        // SAFETY: the kernel writes at most the buffer's length.
        let result =
            unsafe { syscall!(libc::SYS_getdents64, directory.descriptor(), buffer.as_mut_ptr(), buffer.len()) };
        let Ok(length @ 1..) = usize::try_from(result) else { return };
        let mut rest = &buffer[..length.min(buffer.len())];
        while rest.len() > 19 {
            let size = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
            let Some(entry) = rest.get(19..size) else { return };
            let end = entry.iter().position(|&byte| byte == 0).unwrap_or(entry.len());
            if let Some(number) = parse_number(&entry[..end], 10) {
                each(number as u32);
            }
            rest = &rest[size..];
        }
    }
}

/// Returns the exit code in the `stat` of a thread that has ended, as wait(2) would return it:
/// field 52.
fn exit_code(text: &[u8]) -> Option<u32> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    if text.get(end + 2) != Some(&b'Z') {
        return None;
    }
    let last = text.trim_ascii_end().rsplit(|&byte| byte == b' ').next()?;
    parse_number(last, 10).map(|code| code as u32 >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_named_and_lost() {
        let mut threads = Threads::default();
        let me = syscall::gettid();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (tell, received) = std::sync::mpsc::channel();
        let other = std::thread::Builder::new()
            .name("a-known-name".to_owned())
            .spawn(move || {
                tell.send(syscall::gettid()).expect("listened to");
                let _ = wait.recv();
            })
            .expect("thread");
        let tid = received.recv().expect("a thread id");
        threads.scan(0, false);
        assert_eq!(threads.find(tid).map(|thread| thread.name().to_vec()), Some(b"a-known-name".to_vec()));
        assert!(threads.find(me).is_some());
        assert!(Threads::default().alive() >= 2);
        assert!(threads.find(tid).and_then(|thread| thread.schedule(true)).is_some());
        threads.announce(|_| true);
        drop(done);
        other.join().expect("no panic");
        // The kernel removes its directory a little later.
        while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
            std::thread::yield_now();
        }
        threads.scan(me, false);
        assert!(threads.find(tid).is_none() && threads.find(me).is_none(), "the agent's own thread is left out");
        let mut ended = Vec::new();
        threads.announce_ended(|tid| {
            ended.push(tid);
            true
        });
        assert!(ended.contains(&tid));
    }

    #[test]
    fn the_exit_code_of_an_ended_thread_is_read() {
        let line = |state: &str| format!("7 (a) Z 3) {state} 1 7 7 0 -1 4194560 0 0 3328\n");
        assert_eq!(exit_code(line("Z").as_bytes()), Some(13));
        assert_eq!(exit_code(line("S").as_bytes()), None);
        assert_eq!(Threads::default().first_exit_code(), None, "the first thread waits for the tests");
    }

    #[test]
    fn of_many_threads_each_new_name_is_found_in_turn() {
        const MANY: usize = 600;
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(MANY + 1));
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let crew: Vec<_> = (0..MANY)
            .map(|index| {
                let (barrier, wait) = (barrier.clone(), wait.clone());
                let run = move || {
                    barrier.wait();
                    let name = format!("late-{index}\0");
                    // SAFETY: prctl(2) reads a string that ends in 0.
                    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                    let tid = syscall::gettid();
                    barrier.wait();
                    let _ = wait.lock().map(|wait| wait.recv());
                    (tid, name)
                };
                std::thread::Builder::new().name("early".to_owned()).stack_size(64 << 10).spawn(run).expect("a thread")
            })
            .collect();
        let mut threads = Threads::default();
        threads.scan(0, true);
        barrier.wait();
        barrier.wait();
        let looks = (MANY + 100).div_ceil(MAX_NAMES);
        (0..looks).for_each(|_| {
            threads.scan(0, true);
        });
        drop(done);
        let named = crew.into_iter().map(|thread| thread.join().expect("no panic"));
        let named: Vec<(u32, String)> = named.collect();
        for (tid, name) in &named {
            let found = threads.find(*tid).map(|thread| thread.name().to_vec()).expect("it was there");
            assert_eq!(String::from_utf8_lossy(&found), name.trim_end_matches('\0'));
        }
    }
}
