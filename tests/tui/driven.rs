//! The event loop with real channels, on a surface that only counts frames.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use sigtop::session::{Command, Notice, TargetExit};
use sigtop::tui::TuiError;
use sigtop::tui::action::Departure;
use sigtop::tui::app::App;
use sigtop::tui::run::{EventSources, run_loop};
use sigtop::tui::surface::Surface;
use sigtop::tui::term::input::{Input, KeyDecoder};
use sigtop::tui::term::signals::SignalEvent;

use crate::session::Session;
use crate::stage::{SCREEN, options};

/// A surface without a terminal. It fails after `last` frames.
struct Counting<'a> {
    frames: &'a AtomicUsize,
    last: usize,
    size: (u16, u16),
}

impl Surface for Counting<'_> {
    fn size(&mut self) -> Result<(u16, u16), TuiError> {
        Ok(self.size)
    }

    fn draw(&mut self, _: &App) -> Result<(), TuiError> {
        if self.frames.fetch_add(1, Ordering::SeqCst) >= self.last {
            return Err(TuiError::NotATerminal { what: "a surface that is gone" });
        }
        Ok(())
    }

    fn copy(&mut self, _: &str) -> Result<(), TuiError> {
        Ok(())
    }

    fn redraw(&mut self) -> Result<(), TuiError> {
        Ok(())
    }

    fn suspend(&mut self) -> Result<(), TuiError> {
        Ok(())
    }
}

struct Ends {
    inputs: Sender<Input>,
    heard: Sender<SignalEvent>,
    notices: Sender<Notice>,
    output: Sender<Vec<u8>>,
    commands: Receiver<Command>,
}

/// Runs the loop on its own thread while `act` drives its channels; returns the way in which the
/// screen was left.
fn driven(frames: &AtomicUsize, last: usize, act: impl FnOnce(Ends)) -> Departure {
    let ((inputs, from_keys), (heard, from_signals)) = (unbounded(), unbounded());
    let ((notices, from_session), (to_session, commands)) = (unbounded(), bounded(4));
    let (output, from_target) = bounded(1);
    thread::scope(|scope| {
        let screen = scope.spawn(move || {
            let mut app = App::new(options());
            let mut surface = Counting { frames, last, size: (100, 30) };
            let sources = EventSources {
                inputs: Some(from_keys),
                signals: Some(from_signals),
                notices: Some(from_session),
                output: Some(from_target),
                successor: None,
            };
            run_loop(&mut surface, &mut app, sources, &to_session)
        });
        act(Ends { inputs, heard, notices, output, commands });
        screen.join().expect("no panic").expect("a departure")
    })
}

fn press(ends: &Ends, keys: &str) {
    let mut heard = Vec::new();
    KeyDecoder::default().feed(keys.as_bytes(), &mut heard);
    heard.into_iter().for_each(|input| ends.inputs.send(input).expect("somebody listens"));
}

fn next(ends: &Ends) -> Command {
    ends.commands.recv_timeout(Duration::from_secs(20)).expect("a command")
}

#[test]
fn it_asks_shows_and_leaves() {
    let frames = AtomicUsize::new(0);
    let departure = driven(&frames, usize::MAX, |ends| {
        assert_eq!(next(&ends), Command::Resize(100, 25));
        let mut session = Session::new(SCREEN);
        let question = next(&ends);
        let answer = session.obey(question).expect("a question");
        ends.notices.send(Notice::Answer(answer)).expect("somebody listens");
        let question = next(&ends);
        assert!(
            matches!(&question, Command::Ask(question) if question.centre.is_some()),
            "now that something is selected, its callers are asked for: {question:?}"
        );
        press(&ends, "ql");
        assert_eq!(next(&ends), Command::Leave);
    });
    assert_eq!(departure, Departure::Left);
}

#[test]
fn a_flood_does_not_drown_the_keys_nor_the_eye() {
    let frames = AtomicUsize::new(0);
    let departure = driven(&frames, usize::MAX, |ends| {
        let output = ends.output.clone();
        let (stop, stopped) = bounded::<()>(0);
        let flood = thread::spawn(move || {
            let pieces = std::iter::repeat_n(b"y\r\n".repeat(20_000), 2_000);
            for piece in pieces.take_while(|_| stopped.try_recv() != Err(TryRecvError::Disconnected)) {
                output.send(piece).expect("somebody listens");
            }
            stopped.try_recv() == Err(TryRecvError::Disconnected)
        });
        // The flood has begun, and its channel is never empty for long.
        while !ends.output.is_full() {
            thread::yield_now();
        }
        press(&ends, "\x03\x03");
        let end = std::iter::repeat_with(|| next(&ends)).find(|command| *command == Command::End);
        assert_eq!(end, Some(Command::End));
        drop(stop);
        assert!(flood.join().expect("no panic"), "it was heard before the flood was over");
        ends.notices.send(Notice::Ended(TargetExit::Killed(15))).expect("somebody listens");
    });
    assert_eq!(departure, Departure::Ended);
}

#[test]
fn a_signal_and_a_terminal_that_is_gone_leave_the_target_running() {
    let frames = AtomicUsize::new(0);
    let departure = driven(&frames, usize::MAX, |ends| {
        ends.heard.send(SignalEvent::Leave(15)).expect("somebody listens");
        assert!(std::iter::repeat_with(|| next(&ends)).any(|command| command == Command::Leave));
    });
    assert_eq!(departure, Departure::Signal(15));
    let departure = driven(&frames, frames.load(Ordering::SeqCst), |ends| {
        assert!(std::iter::repeat_with(|| next(&ends)).any(|command| command == Command::Leave));
    });
    assert_eq!(departure, Departure::Signal(1));
}

#[test]
fn a_session_that_takes_nothing_does_not_stop_the_screen() {
    let frames = AtomicUsize::new(0);
    let departure = driven(&frames, usize::MAX, |ends| {
        press(&ends, &"wWc".repeat(500));
        press(&ends, "ql");
        // No command is received until the screen wants to leave.
        while !ends.inputs.is_empty() {
            thread::yield_now();
        }
        let all: Vec<Command> = std::iter::repeat_with(|| next(&ends)).take_while(|it| *it != Command::Leave).collect();
        assert!(all.len() < 20, "a question takes the place of the one before: {}", all.len());
    });
    assert_eq!(departure, Departure::Left);
}

#[test]
fn a_session_that_is_gone_is_no_end() {
    let frames = AtomicUsize::new(0);
    let departure = driven(&frames, usize::MAX, |Ends { inputs, notices, output, commands, heard }| {
        drop((notices, commands));
        // The keys come after the session has gone, however fast the loop is.
        let (notices, _) = unbounded();
        let (_, commands) = unbounded();
        let ends = Ends { inputs, heard, notices, output, commands };
        press(&ends, "jjwq");
    });
    assert!(matches!(departure, Departure::Left), "{departure:?}");
}
