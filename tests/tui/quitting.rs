//! Leaving the screen, and the end of the target or the session.

use sigtop::session::{Command, TargetExit};
use sigtop::tui::action::{Action, Departure, Effect};
use sigtop::tui::{OnQuit, Options};
use sigtop::wire::Clock;

use crate::keys::ESC;
use crate::session::Session;
use crate::stage::{SCREEN, Stage, options};

fn leave(keys: &str, set: impl FnOnce(Options) -> Options) -> Stage {
    let mut stage = Stage::new(set(options()), Session::new(SCREEN), (80, 24));
    stage.press(keys);
    stage
}

#[test]
fn quitting_asks_while_a_launched_target_lives() {
    for (keys, left, heard) in [
        ("q", None, None),
        ("qc", None, None),
        ("q\x1b", None, None),
        ("qlq", Some(Departure::Left), Some(Command::Leave)),
        ("qe", None, Some(Command::End)),
        ("\x03\x03", None, Some(Command::End)),
        ("\x1b[21~e", None, Some(Command::End)),
    ] {
        let stage = leave(keys, |options| options);
        assert_eq!(stage.left, left, "{keys:?}");
        assert_eq!(stage.session.heard.get(1), heard.as_ref(), "{keys:?}");
    }
}

#[test]
fn ending_waits_for_the_end() {
    let mut stage = leave("qe", |options| options);
    assert!(stage.status().contains("was asked to terminate"), "{}", stage.status());
    stage.press("\x03");
    assert!(stage.status().contains("is being killed"), "{}", stage.status());
    assert_eq!(stage.session.heard[1..], [Command::End, Command::End]);
    stage.act(Action::Ended(TargetExit::Killed(9)));
    assert_eq!(stage.left, Some(Departure::Ended));
    let mut stage = leave("qe", |options| options);
    stage.press("l");
    assert_eq!(stage.left, Some(Departure::Left));
}

#[test]
fn quitting_does_not_ask_where_there_is_nothing_to_ask() {
    let attached = leave("q", |options| Options { launched: false, ..options });
    assert_eq!((attached.left, attached.session.heard.last()), (Some(Departure::Left), Some(&Command::Leave)));
    let end = leave("q", |options| Options { on_quit: OnQuit::End, ..options });
    assert_eq!((end.left, end.session.heard.last()), (None, Some(&Command::End)));
    let leave_it = leave("q", |options| Options { on_quit: OnQuit::LetRun, ..options });
    assert_eq!(leave_it.left, Some(Departure::Left));
    let mut over = leave("", |options| options);
    over.act(Action::Ended(TargetExit::Exited(0)));
    over.press("jq");
    assert_eq!(over.left, Some(Departure::Over));
    assert!(!over.session.heard.contains(&Command::Leave));
    let mut gone = leave("", |options| Options { launched: false, ..options });
    gone.act(Action::Ended(TargetExit::Gone));
    assert!(gone.status().starts_with(" ./server ended after 2m14s"), "{}", gone.status());
    gone.press("q");
    assert_eq!(gone.left, Some(Departure::Over));
}

#[test]
fn escape_never_quits() {
    let mut stage = Stage::usual((80, 24));
    stage.act(Action::Banner("the target uses SIGPROF itself".to_owned()));
    stage.press("?");
    stage.press(ESC);
    assert!(stage.status().contains("SIGPROF"));
    stage.press(ESC);
    assert!(!stage.status().contains("SIGPROF"));
    stage.press("6");
    (0..5).for_each(|_| stage.press(ESC));
    assert_eq!(stage.left, None);
    assert!(stage.text().contains("1 Top"));
}

#[test]
fn a_session_that_goes_away_is_told() {
    let mut stage = Stage::usual((80, 24));
    stage.act(Action::SessionOver);
    assert!(stage.status().contains("session has ended"), "{}", stage.status());
    stage.press("jq");
    assert_eq!(stage.left, Some(Departure::Left));
    assert!(!stage.session.heard.contains(&Command::Leave), "nobody would hear it");
}

/// Regression test: after a restart of a server, its profiler had to be left and started again.
#[test]
fn a_new_process_of_the_name_can_be_watched_after_the_end() {
    let attached = |options: Options| Options { launched: false, successor: Some("server".to_owned()), ..options };
    let mut stage = leave("", attached);
    stage.act(Action::Ended(TargetExit::Gone));
    assert_eq!(stage.effects, [Effect::FindSuccessor("server".to_owned())]);
    assert!(stage.status().contains("server ended after 2m14s · waiting for a new one"), "{}", stage.status());
    stage.press("r");
    assert_eq!((stage.left, stage.session.heard.last()), (None, Some(&Command::Clock(Clock::Real))), "r is a clock");
    stage.act(Action::Successor(4711));
    assert!(stage.status().contains(" · a new one runs (4711): r attaches"), "{}", stage.status());
    assert!(stage.line(23).contains("r attach"), "{}", stage.line(23));
    stage.press("?r");
    assert_eq!(stage.left, None, "r of a page is the clock");
    stage.press("?r");
    assert_eq!(stage.left, Some(Departure::Attach(4711)));
    let mut launched = leave("", |options| options);
    launched.act(Action::Ended(TargetExit::Gone));
    assert!(launched.effects.is_empty() && !launched.status().contains("waiting"));
}
