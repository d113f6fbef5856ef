//! The profile as a whole: what agents say, and what is then known.

use crate::link::wire::{Account, Birth, Malformed, Module, Thread as Said, Unload};

use super::*;

/// A profile, and what its agents say to it.
#[derive(Default)]
struct Session {
    profile: Profile,
    /// Of the viewer's clock.
    now_ns: u64,
}

impl Session {
    fn say(&mut self, source: u32, message: Message) {
        self.event(source, Event::Said(message));
    }

    fn event(&mut self, source: u32, event: Event) {
        let source = SourceId(source);
        self.profile.apply(Arrival { source, pid: 100, at_ns: self.now_ns, event });
    }

    fn hello(&mut self, source: u32, start_ticks: u64, monotonic_ns: u64) {
        let (executable, argv) = (b"/bin/a"[..].into(), b"a\0-x\0\0"[..].into());
        let (pid, parent) = (7, 1);
        let hello =
            Hello { token: 0, pid, parent, start_ticks, monotonic_ns, cpu_ns: 0, birth: Birth::Tick, executable, argv };
        self.say(source, Message::Hello(hello));
    }

    fn module(&mut self, source: u32, id: u32, generation: u32, path: &str) {
        let (path, build_id) = (path.as_bytes().into(), [].into());
        let (start, end, bias) = (0x1000, 0x2000, 0x1000);
        self.say(
            source,
            Message::Module(Module { id, generation, start, end, bias, device: 1, inode: 1, path, build_id }),
        );
    }

    /// A sample of 5 ns, leaf first.
    fn sample(&mut self, source: u32, generation: u32, flags: u32, frames: &[u64]) {
        let (tid, clock, monotonic_ns) = (70, Clock::Prof, self.now_ns);
        let sample = Sample { tid, clock, flags, generation, monotonic_ns, weight_ns: 5, slot: 0 };
        self.say(source, Message::Sample(sample, leaf_first(frames)));
    }

    /// Files and addresses of all stacks, leaf first.
    fn stacks(&self, span: Span) -> Vec<(String, u64)> {
        let mut stacks = Vec::new();
        self.profile.visit(Clock::Prof, span, |(_, stack), weight| {
            let frame = |id| match self.profile.frame(id) {
                Frame::Code { module, address } => {
                    format!("{}+{address:#x}", self.profile.modules.file(module).name())
                }
                Frame::Unmapped(address) => format!("{address:#x}"),
                Frame::Truncated => "[truncated]".to_owned(),
                Frame::LeftOut => "[frames left out]".to_owned(),
                Frame::Thread(_) | Frame::Process(_) => unreachable!("no stack has it"),
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

fn owned<const N: usize>(stacks: [(&str, u64); N]) -> Vec<(String, u64)> {
    stacks.map(|(stack, ns)| (stack.to_owned(), ns)).into()
}

#[test]
fn a_stack_is_its_files_addresses_without_bias() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 1, "/bin/a");
    session.sample(0, 1, 0, &[0x1010, 0x1020, 0x9000]);
    session.sample(0, 1, 0, &[0x1010, 0x1020, 0x9000]);
    assert_eq!(session.total(), owned([("a+0x10 a+0x20 0x9000", 10)]));
}

#[test]
fn frames_that_were_left_out_are_marked_where_they_were() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    let sample = Sample {
        tid: 70,
        clock: Clock::Prof,
        flags: 0,
        generation: 0,
        monotonic_ns: session.now_ns,
        weight_ns: 5,
        slot: 0,
    };
    let frames = [FrameAddress::Instruction(1).pack(), FRAMES_LEFT_OUT, FrameAddress::Return(3).pack()];
    session.say(0, Message::Sample(sample, frames.into()));
    assert_eq!(session.total(), owned([("0x1 [frames left out] 0x2", 5)]));
    assert_eq!(session.profile.truncated(), (0, 1), "it has its root");
}

#[test]
fn the_mark_of_a_cut_stack_is_its_root() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, flag::TRUNCATED, &[1, 2]);
    session.sample(0, 0, flag::UNREADABLE, &[1]);
    session.sample(0, 0, flag::SIGNAL_FRAME, &[3]);
    assert_eq!(session.total(), owned([("0x1 0x2 [truncated]", 5), ("0x1 [truncated]", 5), ("0x3", 5)]));
    assert_eq!(session.profile.truncated(), (2, 3));
}

#[test]
fn an_address_that_is_used_again_is_the_file_of_the_samples_generation() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 1, "/old.so");
    session.sample(0, 1, 0, &[0x1010]);
    session.say(0, Message::Unload(Unload { id: 1, generation: 2 }));
    session.sample(0, 2, 0, &[0x1010]);
    session.module(0, 2, 3, "/new.so");
    session.sample(0, 3, 0, &[0x1010]);
    // One that was under way.
    session.sample(0, 1, 0, &[0x1010]);
    session.sample(0, 3, 0, &[0x1010]);
    assert_eq!(session.total(), owned([("0x1010", 5), ("new.so+0x10", 10), ("old.so+0x10", 10)]));
}

#[test]
fn an_exec_is_a_new_image_of_the_process_and_a_reused_pid_is_not() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    session.module(0, 1, 0, "/bin/sh");
    session.sample(0, 0, 0, &[0x1010]);
    session.event(0, Event::Closed);
    session.hello(1, 1, 0);
    session.sample(1, 0, 0, &[0x1010]);
    session.event(1, Event::Cut(Malformed::Short));
    session.hello(2, 9, 0);
    let images: Vec<_> = session.profile.processes().iter().map(|image| (image.image, image.connected)).collect();
    assert_eq!(images, [(0, false), (1, false), (0, true)]);
    assert_eq!(session.total(), owned([("0x1010", 5), ("sh+0x10", 5)]));
    assert_eq!(session.profile.processes()[0].argv, ["a", "-x", ""]);
}

#[test]
fn nothing_comes_from_those_who_left_or_never_came() {
    let mut session = Session::default();
    session.sample(0, 0, 0, &[1]);
    session.hello(0, 1, 0);
    session.event(0, Event::Closed);
    session.sample(0, 0, 0, &[1]);
    assert_eq!(session.total(), []);
    // A second Hello on one stream ends the first.
    session.hello(1, 1, 0);
    session.hello(1, 1, 0);
    let connected: Vec<bool> = session.profile.processes().iter().map(|process| process.connected).collect();
    assert_eq!(connected, [false, false, true]);
}

#[test]
fn threads_have_their_latest_name_and_a_tid_that_comes_again_is_another_thread() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    for name in ["server", "worker-0"] {
        session.say(0, Message::Thread(Said { tid: 70, name: name.as_bytes().into() }));
    }
    session.sample(0, 0, 0, &[1]);
    session.say(0, Message::ThreadEnd { tid: 70 });
    session.sample(0, 0, 0, &[1]);
    let threads: Vec<_> = session.profile.threads().iter().map(|thread| (thread.name.as_str(), thread.ended)).collect();
    assert_eq!(threads, [("worker-0", true), ("", false)]);
    assert_eq!(session.total(), owned([("0x1", 5), ("0x1", 5)]));
}

#[test]
fn samples_lie_where_they_were_taken_on_the_viewers_clock() {
    const S: u64 = 1_000_000_000;
    let mut session = Session { now_ns: 1000 * S, ..Session::default() };
    // The target's clock is 900 s behind, and its Hello took 2 s; the Account shows that.
    session.hello(0, 1, 98 * S);
    session.now_ns = 1010 * S;
    session.say(0, Message::Account(Account { monotonic_ns: 110 * S, ..Account::default() }));
    let sample = |monotonic_ns| Sample {
        tid: 70,
        clock: Clock::Prof,
        flags: 0,
        generation: 0,
        monotonic_ns,
        weight_ns: 1,
        slot: 0,
    };
    session.say(0, Message::Sample(sample(105 * S), leaf_first(&[1])));
    assert_eq!([5 * S, 5 * S + 100_000_000].map(|ns| session.last(ns)), [0, 1]);
    // One that claims to come from the future is taken when it came, and pushes nothing out.
    session.say(0, Message::Sample(sample(u64::MAX), leaf_first(&[1])));
    session.say(0, Message::Sample(sample(9000 * S), leaf_first(&[1])));
    assert_eq!([100_000_000, 6 * S].map(|ns| session.last(ns)), [2, 3]);
}

#[test]
fn the_past_of_a_process_that_left_is_emptied_by_what_comes_after_ten_minutes() {
    const S: u64 = 1_000_000_000;
    let mut session = Session::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, 0, &[1]);
    session.event(0, Event::Closed);
    session.now_ns = 599 * S;
    session.hello(1, 2, 599 * S);
    assert_eq!(session.last(600 * S), 5);
    session.now_ns = 601 * S;
    session.hello(2, 3, 601 * S);
    let everything = Span::Last { ns: u64::MAX, now_ns: session.now_ns };
    assert_eq!((session.stacks(everything), session.total()), (Vec::new(), owned([("0x1", 5)])));
}

#[test]
fn clocks_have_books_of_their_own() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    session.sample(0, 0, 0, &[1]);
    session.profile.clear_window(Clock::Real);
    session.profile.reset(Clock::Real);
    assert_eq!((session.last(1), session.total().len()), (5, 1));
    session.profile.clear_window(Clock::Prof);
    assert_eq!((session.last(1), session.total().len()), (0, 1));
    session.profile.reset(Clock::Prof);
    assert_eq!(session.total(), []);
}

#[test]
fn threads_beyond_the_limit_are_one_and_counted() {
    let mut session = Session::default();
    session.hello(0, 1, 0);
    let named = |tid| Message::Thread(Said { tid, name: (*b"x").into() });
    (1..MAX_THREADS as u32 + 10).for_each(|tid| session.say(0, named(tid)));
    let sample =
        |tid| Sample { tid, clock: Clock::Prof, flags: 0, generation: 0, monotonic_ns: 0, weight_ns: 1, slot: 0 };
    for tid in [3, MAX_THREADS as u32 + 3, MAX_THREADS as u32 + 5] {
        session.say(0, Message::Sample(sample(tid), leaf_first(&[1])));
    }
    assert_eq!(session.profile.threads().len(), MAX_THREADS + 1);
    assert_eq!(session.profile.threads()[MAX_THREADS].name, OTHER_THREADS);
    assert_eq!(session.profile.overflows(), Overflows { threads: 2, ..Overflows::default() });
    assert_eq!(session.total(), owned([("0x1", 1), ("0x1", 2)]));
}
