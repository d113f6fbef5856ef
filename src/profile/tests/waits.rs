//! Tests of waits: what sleeping threads wait for, and deadlocks.

use super::*;

impl TestSession {
    /// Sends what a thread waits for: a futex with this operation, and its holder.
    fn futex_wait(&mut self, tid: u32, operation: u64, holder: u32) {
        let call = BlockingCall { number: Some(202), arguments: [0x7000 + u64::from(tid), operation, 2] };
        self.send(0, Message::Wait(Wait { tid, call, holder, is_file: false, object: [].into() }));
    }

    /// Sends a sample of a thread, in its last wait if it `waits`.
    fn thread_sample(&mut self, tid: u32, waits: bool, frames: &[u64]) {
        let (clock, monotonic_ns, flags) = (Clock::Prof, self.now_ns, if waits { flag::WAITS } else { 0 });
        let sample = Sample {
            tid,
            clock,
            flags,
            generation: 1,
            monotonic_ns,
            weight_ns: 5,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        self.send(0, Message::Sample(sample, leaf_first(frames)));
    }

    pub(super) fn threads(&mut self, tids: std::ops::Range<u32>) {
        self.hello(0, 1, 0);
        self.module(0, 1, 1, "/bin/a");
        for tid in tids {
            self.send(0, Message::Thread(NamedThread { tid, name: format!("t{tid}").into_bytes().into() }));
        }
    }
}

#[test]
fn a_wait_lasts_until_the_thread_runs() {
    let mut session = TestSession::default();
    session.threads(70..72);
    let thread = ThreadId(0);
    let sample = |session: &mut TestSession, now_ns, flags| {
        session.now_ns = now_ns;
        let (clock, generation) = (Clock::Real, 1);
        let sample = Sample {
            tid: 70,
            clock,
            flags,
            generation,
            monotonic_ns: now_ns,
            weight_ns: 5,
            allocation: Allocation::default(),
            age_ms: 0,
            slot: 0,
        };
        session.send(0, Message::Sample(sample, leaf_first(&[0x1010])));
        session.profile.waits_since(thread)
    };
    session.futex_wait(70, 0x80, 71);
    assert_eq!(sample(&mut session, 100, flag::WAITS), Some(100));
    assert_eq!(sample(&mut session, 200, flag::WAITS | flag::REPEAT), Some(100));
    // The lock has another holder, but the thread sleeps on.
    session.futex_wait(70, 0x80, 0);
    assert_eq!(sample(&mut session, 300, flag::WAITS | flag::REPEAT), Some(100));
    assert_eq!(sample(&mut session, 400, flag::WAITS), Some(400), "it ran, and waits again");
    assert_eq!(sample(&mut session, 500, 0), None);
    assert_eq!(sample(&mut session, 600, flag::WAITS | flag::REPEAT), Some(600));
    session.profile.freeze();
    assert_eq!(session.profile.waits_since(thread), None, "frozen");
}

#[test]
fn a_sleeping_thread_has_what_it_waits_for_as_its_leaf() {
    let mut session = TestSession::default();
    session.threads(70..72);
    session.futex_wait(70, 0x80, 71);
    session.thread_sample(70, true, &[0x1010]);
    // The holder changes while it sleeps on.
    session.futex_wait(70, 0x80, 0);
    session.thread_sample(70, true, &[0x1010]);
    session.thread_sample(70, false, &[0x1010]);
    session.thread_sample(71, true, &[0x1010]);
    let expected =
        [("[lock 0x7046 None] a+0x10", 5), ("[lock 0x7046 Some(71)] a+0x10", 5), ("a+0x10", 5), ("a+0x10", 5)];
    assert_eq!(session.total(), owned(expected), "a thread of which no wait was sent has none");
}

#[test]
fn a_cut_stack_keeps_the_function_that_waits() {
    let mut session = TestSession::default();
    session.profile.set_memory_limit(MIN_MEMORY_BYTES);
    session.threads(70..71);
    session.futex_wait(70, 0x80, 0);
    for number in 0..2_000_000 {
        session.now_ns += 1_000_000;
        session.thread_sample(70, true, &[0x1010, 0x1020 + number % 0xf00, 0x10_0000 + number]);
        if session.profile.has_reached_memory_limit() {
            break;
        }
    }
    assert!(session.profile.has_reached_memory_limit());
    let cut: Vec<_> = session.total().into_iter().filter(|(stack, _)| stack.contains("[memory limit]")).collect();
    assert!(!cut.is_empty());
    for (stack, _) in cut {
        assert!(stack.starts_with("[lock 0x7046 None] a+0x10 "), "{stack}");
    }
}

#[test]
fn threads_that_wait_for_each_others_locks_are_a_deadlock() {
    let deadlock = |session: &TestSession| -> Vec<u32> {
        let cycle = session.profile.deadlock(session.now_ns, |_| None);
        cycle.into_iter().map(|thread| session.profile.thread(thread).tid).collect()
    };
    let mut session = TestSession::default();
    session.threads(70..75);
    // 70 waits for a cycle that it is not part of, 74 for a thread that runs.
    for (tid, holder) in [(70, 71), (73, 71), (71, 72), (72, 73), (74, 75)] {
        session.futex_wait(tid, 0x80, holder);
        session.thread_sample(tid, true, &[0x1010]);
    }
    assert_eq!(deadlock(&session), [71, 72, 73]);
    // One of them has run since.
    session.thread_sample(72, false, &[0x1010]);
    assert_eq!(deadlock(&session), [0; 0]);
    session.thread_sample(72, true, &[0x1010]);
    assert_eq!(deadlock(&session), [71, 72, 73]);
    // Nothing is known of them any more.
    session.now_ns += 3_000_000_000;
    assert_eq!(deadlock(&session), [0; 0]);
    // A condition variable has no holder, whatever is sent.
    for tid in 71..74 {
        session.futex_wait(tid, 0x189, 71);
        session.thread_sample(tid, true, &[0x1010]);
    }
    assert_eq!(deadlock(&session), [0; 0]);
}
