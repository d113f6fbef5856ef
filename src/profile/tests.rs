//! Tests of the profile as a whole: messages of agents in, totals out.

mod waits;

use crate::wire::{
    AgentCounters, Allocation, Arrival, BlockingCall, ConnectionEvent, DeepestStack, FRAMES_LEFT_OUT, FrameAddress,
    Hello, Malformed, Message, Module, Sample, SourceId, SpawnCause, StackFrame, Thread as NamedThread, Unload, Wait,
    flag,
};

use super::apply::{MAX_THREADS, OTHER_THREADS};
use super::ids::{ProcessId, ThreadId};
use super::interpreter_view::InterpreterView;
use super::loss::Overflows;
use super::stack::Frame;
use super::totals::Span;
use super::*;

/// A profile and the current time of the agents that send to it.
#[derive(Default)]
struct TestSession {
    profile: Profile,
    /// The time on the viewer's clock.
    now_ns: u64,
}

impl TestSession {
    fn send(&mut self, source: u32, message: Message) {
        self.event(source, ConnectionEvent::Received(message));
    }

    fn event(&mut self, source: u32, event: ConnectionEvent) {
        let source = SourceId(source);
        self.profile.apply(Arrival { source, pid: 100, at_ns: self.now_ns, event });
    }

    fn hello(&mut self, source: u32, start_ticks: u64, monotonic_ns: u64) {
        self.hello_of(source, (7, 1), b"a\0-x\0\0", (start_ticks, monotonic_ns));
    }

    fn hello_of(&mut self, source: u32, (pid, parent): (u32, u32), argv: &[u8], times: (u64, u64)) {
        let (executable, argv) = (b"/bin/a"[..].into(), argv.into());
        let (start_ticks, monotonic_ns) = times;
        let hello = Hello {
            token: 0,
            pid,
            parent,
            start_ticks,
            monotonic_ns,
            cpu_ns: 0,
            spawn_cause: SpawnCause::Tick,
            executable,
            argv,
        };
        self.send(source, Message::Hello(hello));
    }

    fn module(&mut self, source: u32, id: u32, generation: u32, path: &str) {
        let (path, build_id) = (path.as_bytes().into(), [].into());
        let (start, end, bias) = (0x1000, 0x2000, 0x1000);
        self.send(
            source,
            Message::Module(Module { id, generation, start, end, bias, device: 1, inode: 1, path, build_id }),
        );
    }

    /// Sends a sample of 5 ns. Frames are leaf first.
    fn sample(&mut self, source: u32, generation: u32, flags: u32, frames: &[u64]) {
        let (tid, clock, monotonic_ns) = (70, Clock::Prof, self.now_ns);
        let sample = Sample {
            tid,
            clock,
            flags,
            generation,
            monotonic_ns,
            weight_ns: 5,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        self.send(source, Message::Sample(sample, leaf_first(frames)));
    }

    /// The files and addresses of all stacks, leaf first, with their weights.
    fn stacks(&self, span: Span) -> Vec<(String, u64)> {
        let mut stacks = Vec::new();
        self.profile.visit(Clock::Prof, span, |(_, stack), weight| {
            let frame = |id| match self.profile.frame(id) {
                Frame::Code { module, address } => {
                    format!("{}+{address:#x}", self.profile.modules.file(module).name())
                }
                Frame::Unmapped { address, .. } => format!("{address:#x}"),
                Frame::Script { line, .. } => format!("line {line}"),
                Frame::Truncated => "[truncated]".to_owned(),
                Frame::LeftOut => "[frames left out]".to_owned(),
                Frame::MemoryLimit => "[memory limit]".to_owned(),
                Frame::Wait(wait) => {
                    let known = self.profile.waits.get(wait);
                    let holder = known.holder.map(|holder| self.profile.thread(holder).tid);
                    format!("[{} {} {holder:?}]", known.reason.word(), known.object)
                }
                Frame::Title(title) => format!("[{}]", self.profile.titles.get(title)),
                Frame::Thread(_) | Frame::Process(_) | Frame::Recording(_) => unreachable!("no stack has it"),
            };
            let frames: Vec<String> = self.profile.stacks.leaf_first(stack).map(frame).collect();
            stacks.push((frames.join(" "), weight.ns));
        });
        stacks.sort();
        stacks
    }

    fn total(&self) -> Vec<(String, u64)> {
        self.stacks(Span::Total)
    }

    fn last(&self, ns: u64) -> u64 {
        self.stacks(Span::Last { ns, now_ns: self.now_ns }).iter().map(|stack| stack.1).sum()
    }
}

fn leaf_first(frames: &[u64]) -> Box<[u64]> {
    let kind = |(index, &address)| match index {
        0 => FrameAddress::Instruction(address),
        _ => FrameAddress::Return(address + 1),
    };
    frames.iter().enumerate().map(kind).map(FrameAddress::pack).collect()
}

fn quality(truncated: u64, samples: u64, unreadable: u64) -> StackQuality {
    StackQuality { samples, truncated, unreadable }
}

fn owned<const N: usize>(stacks: [(&str, u64); N]) -> Vec<(String, u64)> {
    stacks.map(|(stack, ns)| (stack.to_owned(), ns)).into()
}

#[test]
fn frames_are_file_addresses_without_the_load_bias() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 1, "/bin/a");
    session.sample(0, 1, 0, &[0x1010, 0x1020, 0x9000]);
    session.sample(0, 1, 0, &[0x1010, 0x1020, 0x9000]);
    assert_eq!(session.total(), owned([("a+0x10 a+0x20 0x9000", 10)]));
}

#[test]
fn samples_belong_to_the_title_that_their_process_had() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 1, "/bin/a");
    let mut sample = |title: &str| {
        session.profile.set_title(ProcessId(0), title.split('|').map(str::to_owned).collect());
        session.sample(0, 1, 0, &[0x1010, 0x1020]);
    };
    sample("a|-x|");
    sample("a: UPDATE waiting");
    sample("a: UPDATE  waiting");
    sample("a: idle");
    sample("a|-x|");
    let (code, update, idle, first) = ("a+0x10 a+0x20", "[a: UPDATE waiting]", "[a: idle]", "[a -x]");
    let titled = |title: &str, ns| (format!("{title} {code}"), ns);
    let expected = vec![titled(first, 5), titled(update, 10), titled(idle, 5), (code.to_owned(), 5)];
    assert_eq!(session.total(), expected);
    session.profile.visit(Clock::Prof, Span::Total, |(_, stack), _| {
        let code: Vec<Frame> = session
            .profile
            .stacks
            .leaf_first(session.profile.stacks.code(stack))
            .map(|frame| session.profile.frame(frame))
            .collect();
        assert!(code.len() == 2 && code.iter().all(|frame| matches!(frame, Frame::Code { .. })), "{code:?}");
    });
}

#[test]
fn frames_of_an_interpreter_replace_its_own() {
    use crate::wire::interpreter::{InterpreterFrame, InterpreterFunction, LineFormat};

    let shown = |view, known: u32| {
        let mut session = TestSession::default();
        session.profile.interpreter_view = view;
        session.hello(0, 1, 0);
        session.module(0, 1, 1, "/lib/libpython.so");
        // The code units of the function are two on line 8 and one on line 9.
        let line_table = [0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3, 0, 0];
        let (name, file, line_table) = (b"f"[..].into(), b"/a.py"[..].into(), line_table.as_slice().into());
        let function = InterpreterFunction {
            id: known,
            first_line: 7,
            name,
            file,
            line_format: LineFormat::Locations,
            line_table,
        };
        session.send(0, Message::Function(function));
        let sample = Sample {
            tid: 70,
            clock: Clock::Prof,
            flags: 0,
            generation: 1,
            monotonic_ns: 0,
            weight_ns: 5,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        let frame = |offset| InterpreterFrame { function: 3, offset }.pack();
        let native = |address: u64| FrameAddress::Return(address + 1).pack();
        let frames = [native(0x9000), native(0x1010), frame(2), frame(0), native(0x1020), native(0x9100)];
        session.send(0, Message::Sample(sample, frames.into()));
        session.total()[0].0.clone()
    };
    let native = "0x9000 libpython.so+0x10 libpython.so+0x20 0x9100";
    assert_eq!(shown(InterpreterView::Functions, 3), "0x9000 line 9 line 8 0x9100");
    assert_eq!(shown(InterpreterView::Mixed, 3), "0x9000 libpython.so+0x10 line 9 line 8 libpython.so+0x20 0x9100");
    assert_eq!(shown(InterpreterView::Native, 3), native);
    assert_eq!(shown(InterpreterView::Functions, 4), native, "a function that was not announced");
}

#[test]
fn left_out_frames_are_marked_at_their_position() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    let sample = Sample {
        tid: 70,
        clock: Clock::Prof,
        flags: 0,
        generation: 0,
        monotonic_ns: session.now_ns,
        weight_ns: 5,
        allocation: Default::default(),
        age_ms: 0,
        slot: 0,
    };
    let frames = [FrameAddress::Instruction(1).pack(), FRAMES_LEFT_OUT, FrameAddress::Return(3).pack()];
    session.send(0, Message::Sample(sample, frames.into()));
    assert_eq!(session.total(), owned([("0x1 [frames left out] 0x2", 5)]));
    assert_eq!(session.profile.stack_quality(), quality(0, 1, 0), "it has its root");
}

#[test]
fn a_truncated_stack_has_the_truncated_frame_as_its_root() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, flag::TRUNCATED, &[1, 2]);
    session.sample(0, 0, flag::UNREADABLE, &[1]);
    session.sample(0, 0, flag::SIGNAL_FRAME, &[3]);
    assert_eq!(session.total(), owned([("0x1 0x2 [truncated]", 5), ("0x1 [truncated]", 5), ("0x3", 5)]));
    assert_eq!(session.profile.stack_quality(), quality(2, 3, 1));
}

#[test]
fn a_reused_address_resolves_to_the_file_of_the_samples_module_generation() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 1, "/old.so");
    session.sample(0, 1, 0, &[0x1010]);
    session.send(0, Message::Unload(Unload { id: 1, generation: 2 }));
    session.sample(0, 2, 0, &[0x1010]);
    session.module(0, 2, 3, "/new.so");
    session.sample(0, 3, 0, &[0x1010]);
    // A late sample of the first generation.
    session.sample(0, 1, 0, &[0x1010]);
    session.sample(0, 3, 0, &[0x1010]);
    assert_eq!(session.total(), owned([("0x1010", 5), ("new.so+0x10", 10), ("old.so+0x10", 10)]));
}

#[test]
fn an_exec_is_a_new_image_of_the_process_and_a_reused_pid_is_not() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 0, "/bin/sh");
    session.sample(0, 0, 0, &[0x1010]);
    session.event(0, ConnectionEvent::Closed);
    session.hello(1, 1, 0);
    session.sample(1, 0, 0, &[0x1010]);
    session.event(1, ConnectionEvent::Aborted(Malformed::Short));
    session.hello(2, 9, 0);
    let images: Vec<_> = session.profile.processes().iter().map(|image| (image.image, image.connected)).collect();
    assert_eq!(images, [(0, false), (1, false), (0, true)]);
    assert_eq!(session.total(), owned([("0x1010", 5), ("sh+0x10", 5)]));
    assert_eq!(session.profile.processes()[0].argv, ["a", "-x", ""]);
}

/// Regression test: a thread that an agent goes on to sample was shown as an ended one beside it.
#[test]
fn an_agent_goes_on_with_the_threads_of_a_sampler() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, 0, &[0x1010]);
    session.hello(1, 1, 0);
    session.event(0, ConnectionEvent::Closed);
    session.sample(1, 0, 0, &[0x1010]);
    let images: Vec<_> = session.profile.processes().iter().map(|image| (image.image, image.connected)).collect();
    assert_eq!(images, [(0, false), (0, true)]);
    let threads: Vec<_> = session.profile.threads().iter().map(|thread| (thread.process.0, thread.ended)).collect();
    assert_eq!(threads, [(1, false)]);
}

#[test]
fn messages_of_disconnected_and_unknown_sources_have_no_effect() {
    let mut session = TestSession::default();
    session.sample(0, 0, 0, &[1]);
    session.hello(0, 1, 0);
    session.event(0, ConnectionEvent::Closed);
    session.sample(0, 0, 0, &[1]);
    assert_eq!(session.total(), []);
    // A second Hello on one stream ends the first.
    session.hello(1, 1, 0);
    session.hello(1, 1, 0);
    let connected: Vec<bool> = session.profile.processes().iter().map(|process| process.connected).collect();
    assert_eq!(connected, [false, false, true]);
}

#[test]
fn threads_have_their_latest_name_and_a_reused_tid_is_another_thread() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    for name in ["server", "worker-0"] {
        session.send(0, Message::Thread(NamedThread { tid: 70, name: name.as_bytes().into() }));
    }
    session.sample(0, 0, 0, &[1]);
    session.send(0, Message::ThreadEnd { tid: 70 });
    session.sample(0, 0, 0, &[1]);
    let threads: Vec<_> = session.profile.threads().iter().map(|thread| (thread.name.as_str(), thread.ended)).collect();
    assert_eq!(threads, [("worker-0", true), ("", false)]);
    assert_eq!(session.total(), owned([("0x1", 5), ("0x1", 5)]));
}

/// A fork child that names itself is called so, whether its agent or its parent's comes first. One
/// that has executed a program is not.
#[test]
fn a_fork_child_has_the_name_that_it_gives_itself() {
    let first_thread = |tid, name: &[u8]| Message::Thread(NamedThread { tid, name: name.into() });
    for (order, argv, name) in [([8, 7], b"a\0", "kid"), ([7, 8], b"a\0", "kid"), ([8, 7], b"b\0", "b")] {
        let mut session = TestSession::default();
        for (source, pid) in order.into_iter().enumerate() {
            let (parent, argv) = if pid == 7 { (1, b"a\0") } else { (7, argv) };
            session.hello_of(source as u32, (pid, parent), argv, (pid.into(), 0));
            session.send(source as u32, first_thread(pid, if pid == 7 { b"a" } else { b"kid" }));
        }
        let names =
            |own_pid| session.profile.processes().iter().find(|process| process.own_pid == own_pid).unwrap().name();
        assert_eq!((names(7), names(8)), ("a", name), "{order:?}, {argv:?}");
    }
}

#[test]
fn sample_times_are_converted_to_the_viewers_clock() {
    const S: u64 = 1_000_000_000;
    let mut session = TestSession { now_ns: 1000 * S, ..TestSession::default() };
    // The target's clock is 900 s behind, and its Hello took 2 s; the AgentCounters shows that.
    session.hello(0, 1, 98 * S);
    session.now_ns = 1010 * S;
    session.send(0, Message::Counters(AgentCounters { monotonic_ns: 110 * S, ..AgentCounters::default() }));
    let sample = |monotonic_ns| Sample {
        tid: 70,
        clock: Clock::Prof,
        flags: 0,
        generation: 0,
        monotonic_ns,
        weight_ns: 1,
        allocation: Default::default(),
        age_ms: 0,
        slot: 0,
    };
    session.send(0, Message::Sample(sample(105 * S), leaf_first(&[1])));
    assert_eq!([5 * S, 5 * S + 100_000_000].map(|ns| session.last(ns)), [0, 1]);
    // A sample with a time in the future gets its time of arrival and drops no history.
    session.send(0, Message::Sample(sample(u64::MAX), leaf_first(&[1])));
    session.send(0, Message::Sample(sample(9000 * S), leaf_first(&[1])));
    assert_eq!([100_000_000, 6 * S].map(|ns| session.last(ns)), [2, 3]);
}

#[test]
fn the_history_of_a_disconnected_process_is_cleared_after_ten_minutes() {
    const S: u64 = 1_000_000_000;
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, 0, &[1]);
    session.event(0, ConnectionEvent::Closed);
    session.now_ns = 599 * S;
    session.hello(1, 2, 599 * S);
    assert_eq!(session.last(600 * S), 5);
    session.now_ns = 601 * S;
    session.hello(2, 3, 601 * S);
    let everything = Span::Last { ns: u64::MAX, now_ns: session.now_ns };
    assert_eq!((session.stacks(everything), session.total()), (Vec::new(), owned([("0x1", 5)])));
}

#[test]
fn every_clock_has_its_own_totals_and_history() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, 0, &[1]);
    session.profile.clear_history(Clock::Real);
    session.profile.reset(Clock::Real);
    assert_eq!((session.last(1), session.total().len()), (5, 1));
    session.profile.clear_history(Clock::Prof);
    assert_eq!((session.last(1), session.total().len()), (0, 1));
    session.profile.reset(Clock::Prof);
    assert_eq!(session.total(), []);
}

#[test]
fn threads_beyond_the_limit_share_one_entry_and_are_counted() {
    let mut session = TestSession::default();
    session.hello(0, 1, 0);
    let named = |tid| Message::Thread(NamedThread { tid, name: (*b"x").into() });
    (1..MAX_THREADS as u32 + 10).for_each(|tid| session.send(0, named(tid)));
    let sample = |tid| Sample {
        tid,
        clock: Clock::Prof,
        flags: 0,
        generation: 0,
        monotonic_ns: 0,
        weight_ns: 1,
        allocation: Default::default(),
        age_ms: 0,
        slot: 0,
    };
    for tid in [3, MAX_THREADS as u32 + 3, MAX_THREADS as u32 + 5] {
        session.send(0, Message::Sample(sample(tid), leaf_first(&[1])));
    }
    assert_eq!(session.profile.threads().len(), MAX_THREADS + 1);
    assert_eq!(session.profile.threads()[MAX_THREADS].name, OTHER_THREADS);
    assert_eq!(session.profile.overflows(), Overflows { threads: 2, ..Overflows::default() });
    assert_eq!(session.total(), owned([("0x1", 1), ("0x1", 2)]));
}

#[test]
fn the_deepest_stack_of_a_thread_is_kept() {
    let mut session = TestSession::default();
    session.threads(70..71);
    let mut deepest = |tid, used, frames: &[(u64, u64)]| {
        let frames = frames.iter().map(|&(address, bytes)| StackFrame { address, bytes }).collect();
        session.send(0, Message::DeepestStack(DeepestStack { tid, generation: 1, used, size: 8192, frames }));
        session.profile.threads()[0].deepest.clone()
    };
    let code = |address| FrameAddress::Return(address).pack();
    let first = deepest(70, 100, &[(code(0x1011), 60), (FRAMES_LEFT_OUT, 40)]).expect("a stack");
    assert_eq!((first.used, first.size), (100, 8192));
    assert_eq!(deepest(70, 90, &[(code(0x1011), 90)]).as_ref(), Some(&first), "a smaller one");
    assert_eq!(deepest(71, 200, &[]), Some(first.clone()), "another thread");
    let second = deepest(70, 120, &[(code(0x1011), 120)]).expect("a stack");
    assert_eq!((second.used, second.frames.len()), (120, 1));
    let module = match session.profile.frame(first.frames[0].0) {
        Frame::Code { address, .. } => address,
        other => panic!("{other:?}"),
    };
    assert_eq!((module, session.profile.frame(first.frames[1].0)), (0x10, Frame::LeftOut));
    assert_eq!(second.frames[0].0, first.frames[0].0);
}
