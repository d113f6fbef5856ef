//! The threads of the process as the agent thread knows them: found in /proc/self/task, named, and given timers.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::asleep::Place;
use super::memory;
use super::sys::{self, File, PathBuffer, syscall};
use super::timer::Timer;
use super::user_dispatch;
use crate::link::wire::MAX_COMM;

/// Threads watched, at most; what more there are is seen through the process timer.
const MAX_THREADS: usize = 16_384;
/// Entries of the set that handlers ask.
const TIMED: usize = 2 * MAX_THREADS;
/// Places looked at for one thread.
const PROBES: usize = 8;
/// Threads whose scheduling statistics are kept open.
const MAX_OPEN: usize = 256;
/// Names of known threads that are read in one look, at some 4 us each: all of them are in as many looks as it takes.
const MAX_NAMES: usize = 256;

const _: () = assert!(TIMED.is_power_of_two());

/// Threads that have a CPU timer: a hash set, written by the agent thread, read by handlers. 0 is free.
static TIMED_SET: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

fn timed_set() -> &'static [AtomicU32] {
    let start = TIMED_SET.load(Ordering::Acquire);
    if start.is_null() {
        return &[];
    }
    // SAFETY: published with this length, never freed.
    unsafe { core::slice::from_raw_parts(start, TIMED) }
}

fn places(tid: u32) -> impl Iterator<Item = &'static AtomicU32> {
    let set = timed_set();
    let start = tid.wrapping_mul(0x9e37_79b1) as usize >> 7;
    (0..if set.is_empty() { 0 } else { PROBES }).map(move |step| &set[(start + step) & (TIMED - 1)])
}

/// Whether a thread has a CPU timer of its own.
pub(super) fn has_timer(tid: u32) -> bool {
    places(tid).any(|place| place.load(Ordering::Relaxed) == tid)
}

fn note_timer(tid: u32) -> bool {
    // One writer: no race for a free place.
    places(tid)
        .find(|place| place.load(Ordering::Relaxed) == 0)
        .map(|place| place.store(tid, Ordering::Relaxed))
        .is_some()
}

fn unnote_timer(tid: u32) {
    places(tid)
        .filter(|place| place.load(Ordering::Relaxed) == tid)
        .for_each(|place| place.store(0, Ordering::Relaxed));
}

/// A fork child starts without.
pub(super) fn forget() {
    TIMED_SET.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// A stack as it was last seen, packed.
#[derive(Default)]
pub(super) struct LastStack {
    /// Leaf first.
    pub(super) frames: Vec<u64>,
    /// Bits of [`flag`](crate::link::wire::flag).
    pub(super) flags: u32,
    /// Of the frames.
    pub(super) generation: u32,
}

impl LastStack {
    /// Keeps this one instead.
    pub(super) fn remember(&mut self, flags: u32, generation: u32, frames: &[u64]) {
        self.frames.clear();
        self.frames.extend_from_slice(frames);
        (self.flags, self.generation) = (flags, generation);
    }
}

/// One thread.
pub(super) struct Thread {
    /// Its id.
    pub(super) tid: u32,
    name: [u8; MAX_COMM],
    named: bool,
    announced: bool,
    timer: Option<Timer>,
    is_refused: bool,
    alive: bool,
    /// Wall time that no sample stands for yet, ns.
    pub(super) owed_ns: u64,
    /// Wall ticks that the time is made of.
    pub(super) owed_ticks: u64,
    /// A wall tick was sent and its record has not come.
    pub(super) in_flight: bool,
    /// What was seen when it was last looked at or sent a wall tick.
    pub(super) at_last: Schedule,
    /// Whether that was a tick, which wakes a sleeper once.
    pub(super) was_woken: bool,
    /// Where it slept then, if it could not be followed from there without a tick.
    pub(super) asked_at: Option<Place>,
    /// What the last wall tick found; empty before.
    pub(super) last: LastStack,
    statistics: Option<File>,
}

/// What the scheduler tells of a thread. /proc/PID/task/TID/schedstat
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Time it ran, ns; for a running thread as of the last scheduler tick.
    ran_ns: u64,
    /// How often it was put on a CPU.
    slices: u64,
}

impl Schedule {
    /// Whether a thread has been asleep since `then`: put on a CPU not more often than a tick of ours has woken it, and no
    /// longer than a handler and a system call take.
    pub(super) fn slept_since(self, then: Schedule, was_woken: bool) -> bool {
        self.slices <= then.slices + u64::from(was_woken) && self.ran_ns - then.ran_ns.min(self.ran_ns) < 200_000
    }
}

impl Thread {
    fn new(tid: u32) -> Thread {
        Thread {
            tid,
            name: [0; MAX_COMM],
            named: false,
            announced: false,
            timer: None,
            is_refused: false,
            alive: true,
            owed_ns: 0,
            owed_ticks: 0,
            in_flight: false,
            at_last: Schedule::default(),
            was_woken: false,
            asked_at: None,
            last: LastStack::default(),
            statistics: None,
        }
    }

    /// Whether it has no timer, and nothing speaks against one.
    fn may_have_timer(&self) -> bool {
        self.timer.is_none() && !user_dispatch::excludes(self.tid)
    }

    fn path(&self, file: &[u8]) -> PathBuffer<64> {
        PathBuffer::new().text(b"/proc/self/task/").number(self.tid.into()).text(file)
    }

    fn read_name(&mut self) {
        let mut name = [0; MAX_COMM];
        let length = File::open(self.path(b"/comm").terminated(), 0).map_or(0, |file| file.read(&mut name));
        let end = name[..length].iter().position(|&byte| byte == b'\n').unwrap_or(length);
        name[end..].fill(0);
        if !self.named || name != self.name {
            self.name = name;
            self.named = true;
            self.announced = false;
        }
    }

    /// Its name, without padding.
    pub(super) fn name(&self) -> &[u8] {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(MAX_COMM);
        &self.name[..end]
    }

    /// What the scheduler tells now; `None` when that cannot be read.
    pub(super) fn schedule(&mut self, keep_open: bool) -> Option<Schedule> {
        if self.statistics.is_none() {
            self.statistics = File::open(self.path(b"/schedstat").terminated(), 0);
        }
        let mut text = [0; 96];
        // The first byte of the file exists whenever the thread does; the rest is as long as its numbers.
        let file = self.statistics.as_ref()?;
        let length = file.read_at(&mut text, 0);
        let mut fields = text[..length].split(|byte| byte.is_ascii_whitespace()).map(parse);
        let schedule = Schedule { ran_ns: fields.next()??, slices: fields.nth(1)?? };
        if !keep_open {
            self.statistics = None;
        }
        Some(schedule)
    }

    /// Sends it a wall tick; false when it has no timer.
    pub(super) fn fire(&mut self) -> bool {
        self.timer.map(Timer::fire).is_some()
    }
}

fn parse(digits: &[u8]) -> Option<u64> {
    let digit = |value: u64, &byte: &u8| byte.is_ascii_digit().then(|| value.wrapping_mul(10) + u64::from(byte - b'0'));
    if digits.is_empty() { None } else { digits.iter().try_fold(0, digit) }
}

/// All threads but the agent's.
#[derive(Default)]
pub(super) struct Threads {
    /// Sorted by id.
    list: Vec<Thread>,
    ended: Vec<u32>,
    directory: Option<File>,
    /// Names of threads up to this id were read again in the last looks.
    named_to: u32,
    /// Some have no timer, because the kernel refuses it again and again.
    pub(super) some_refused: bool,
}

impl Threads {
    /// Room for the set that handlers ask.
    pub(super) fn prepare() {
        if TIMED_SET.load(Ordering::Relaxed).is_null() {
            TIMED_SET.store(memory::pages(TIMED * 4).cast(), Ordering::Release);
        }
    }

    /// Looks which threads there are, and returns whether one came or went. `names` asks again for the names of known ones: of many, each
    /// time the next.
    pub(super) fn scan(&mut self, agent: u32, names: bool) -> bool {
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
        let before = self.list.len();
        self.list.retain(|thread| {
            if !thread.alive {
                thread.timer.inspect(|timer| timer.delete());
                unnote_timer(thread.tid);
                if thread.announced {
                    self.ended.push(thread.tid);
                }
            }
            thread.alive
        });
        for thread in self.list.iter_mut().filter(|thread| user_dispatch::excludes(thread.tid)) {
            thread.timer.take().inspect(|timer| timer.delete());
            thread.in_flight = false;
            unnote_timer(thread.tid);
        }
        let changed = !fresh.is_empty() || self.list.len() < before;
        fresh.truncate(MAX_THREADS - self.list.len().min(MAX_THREADS));
        // Younger threads have higher ids, but for the time when the ids begin anew: nearly all go to the end.
        for tid in fresh {
            let place = self.list.partition_point(|thread| thread.tid < tid);
            self.list.insert(place, Thread::new(tid));
        }
        self.list.iter_mut().filter(|thread| !thread.named).for_each(Thread::read_name);
        if names {
            self.read_names();
        }
        changed
    }

    /// Reads the names of the threads behind those that were read last, and of the first ones when these are at their end.
    fn read_names(&mut self) {
        let start = self.list.partition_point(|thread| thread.tid <= self.named_to);
        let count = self.list.len().min(MAX_NAMES);
        for step in 0..count {
            let place = (start + step) % self.list.len();
            self.list[place].read_name();
            self.named_to = self.list[place].tid;
        }
    }

    /// Gives every thread that has none a timer of its CPU clock, with a random first phase.
    pub(super) fn arm_cpu(&mut self, epoch: u32, signal: i32, period_ns: u64, random: &mut impl FnMut() -> u64) {
        self.some_refused = false;
        for thread in self.list.iter_mut().filter(|thread| thread.may_have_timer()) {
            match Timer::of_thread(thread.tid, epoch, signal) {
                // A thread that the set has no place for is left to the process timer.
                Some(timer) if !note_timer(thread.tid) => timer.delete(),
                Some(timer) => {
                    timer.arm(random() % period_ns + 1, period_ns);
                    thread.timer = Some(timer);
                }
                // The first time it may have ended since it was seen. The first thread's entry stays when it has ended.
                None => {
                    let again = core::mem::replace(&mut thread.is_refused, true);
                    let has_ended = || thread.tid == sys::getpid() && first_thread_ended().is_some();
                    self.some_refused |= again && !has_ended();
                }
            }
        }
    }

    /// Gives every thread that has none a timer that can be fired.
    pub(super) fn arm_wall(&mut self, epoch: u32, signal: i32) {
        for thread in self.list.iter_mut().filter(|thread| thread.may_have_timer()) {
            thread.timer = Timer::of_wall(thread.tid, epoch, signal);
        }
    }

    /// Takes every timer away.
    pub(super) fn disarm(&mut self) {
        for thread in &mut self.list {
            if let Some(timer) = thread.timer.take() {
                timer.delete();
            }
            unnote_timer(thread.tid);
            (thread.owed_ns, thread.owed_ticks, thread.in_flight) = (0, 0, false);
            thread.last.frames.clear();
            thread.asked_at = None;
        }
    }

    /// The thread with an id.
    pub(super) fn find(&mut self, tid: u32) -> Option<&mut Thread> {
        let place = self.list.binary_search_by_key(&tid, |thread| thread.tid).ok()?;
        Some(&mut self.list[place])
    }

    /// Every thread, and whether there are few enough to keep their statistics open.
    pub(super) fn iter_mut(&mut self) -> (impl Iterator<Item = &mut Thread>, bool) {
        let few = self.list.len() <= MAX_OPEN;
        (self.list.iter_mut(), few)
    }

    /// How many there are, and how many have a timer.
    pub(super) fn count(&self) -> (u32, u32) {
        let timed = self.list.iter().filter(|thread| thread.timer.is_some()).count();
        (self.list.len() as u32, timed as u32)
    }

    /// How many the process has, the agent's included; 0 when that cannot be read. fstat(2) of /proc/self/task, which stays open: it is
    /// asked all the time, and a path is four fifths of a stat. Links − 2.
    pub(super) fn alive(&mut self) -> u64 {
        let directory = self.directory.take().or_else(|| File::open(b"/proc/self/task\0", libc::O_DIRECTORY));
        let Some(directory) = directory else { return 0 };
        let mut status = [0u64; 18];
        // SAFETY: the kernel writes one struct stat of 144 bytes; its third word is the number of links.
        let result = unsafe { syscall!(libc::SYS_fstat, directory.descriptor(), status.as_mut_ptr()) };
        if result < 0 {
            return 0;
        }
        self.directory = Some(directory);
        status[2].saturating_sub(2)
    }

    /// Names that the viewer has not heard of, each once; ends when it could not be told.
    pub(super) fn announce(&mut self, mut announce: impl FnMut(&Thread) -> bool) {
        for thread in self.list.iter_mut().filter(|thread| !thread.announced) {
            if !announce(thread) {
                return;
            }
            thread.announced = true;
        }
    }

    /// Ended threads that the viewer has not heard of, each once.
    pub(super) fn announce_ended(&mut self, mut announce: impl FnMut(u32) -> bool) {
        let told = self.ended.iter().position(|&tid| !announce(tid)).unwrap_or(self.ended.len());
        self.ended.drain(..told);
    }

    /// A new viewer knows nothing.
    pub(super) fn forget_announcements(&mut self) {
        self.list.iter_mut().for_each(|thread| thread.announced = false);
        self.ended.clear();
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
            if let Some(number) = parse(&entry[..end]) {
                each(number as u32);
            }
            rest = &rest[size..];
        }
    }
}

/// The exit code of the first thread if it has ended while others live, as wait(2) would tell: field 52 of its stat.
pub(super) fn first_thread_ended() -> Option<u32> {
    let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(sys::getpid().into()).text(b"/stat");
    let mut text = [0; 1024];
    let length = File::open(path.terminated(), 0)?.read(&mut text);
    let text = &text[..length];
    let end = text.iter().rposition(|&byte| byte == b')')?;
    if text.get(end + 2) != Some(&b'Z') {
        return None;
    }
    let last = text.trim_ascii_end().rsplit(|&byte| byte == b' ').next()?;
    parse(last).map(|code| code as u32 >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_named_and_lost() {
        let mut threads = Threads::default();
        let me = sys::gettid();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::Builder::new()
            .name("a-known-name".to_owned())
            .spawn(move || {
                tell.send(sys::gettid()).expect("listened to");
                let _ = wait.recv();
            })
            .expect("thread");
        let tid = told.recv().expect("told");
        threads.scan(0, false);
        assert_eq!(threads.find(tid).map(|thread| thread.name().to_vec()), Some(b"a-known-name".to_vec()));
        assert!(threads.find(me).is_some());
        assert!(Threads::default().alive() >= 2);
        assert!(threads.find(tid).and_then(|thread| thread.schedule(true)).is_some());
        threads.announce(|_| true);
        drop(done);
        other.join().expect("no panic");
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
                    let tid = sys::gettid();
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

    #[test]
    fn the_set_of_timed_threads_remembers_and_forgets() {
        Threads::prepare();
        assert!(!has_timer(4711));
        assert!(note_timer(4711));
        assert!(has_timer(4711));
        unnote_timer(4711);
        assert!(!has_timer(4711));
    }

    #[test]
    fn a_thread_that_was_woken_once_has_slept() {
        let sent = Schedule { ran_ns: 1_000_000, slices: 7 };
        let woken = Schedule { ran_ns: 1_050_000, slices: 8 };
        assert!(woken.slept_since(sent, true) && !woken.slept_since(sent, false));
        assert!(!Schedule { ran_ns: 1_050_000, slices: 9 }.slept_since(sent, true));
        assert!(!Schedule { ran_ns: 5_000_000, slices: 7 }.slept_since(sent, true), "it ran all the while");
    }
}
