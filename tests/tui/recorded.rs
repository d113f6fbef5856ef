//! Goldens of panes on recordings of real programs, whose names are as they are.
//!
//! `tests/recordings/make.sh` makes the recordings, which have names. What they leave nameless stays
//! so: the files of this machine are not read.

use std::fs::File;
use std::io::BufReader;

use sigtop::session::{Command, Notice, PlaybackSource, Question, Settings};
use sigtop::symbols::source::SourceFinder;
use sigtop::symbols::worker::SymbolOptions;
use sigtop::tui::Options;

use crate::goldens::compare;
use crate::session::Session;
use crate::stage::Region::Body;
use crate::stage::{Stage, options};

/// Plays a recording to its end, and shows it on a screen of this size.
fn play(name: &str, size: (u16, u16)) -> Stage {
    let path = format!("{}/tests/recordings/{name}.sigtop", env!("CARGO_MANIFEST_DIR"));
    let file = BufReader::new(File::open(path).expect("a recording"));
    let source = PlaybackSource::open(Box::new(file)).expect("a recording");
    let Options { clock, engine, period_ns, question, .. } = options();
    let question = Question { window_ns: None, ..question };
    let settings = Settings {
        command: name.to_owned(),
        answer_ns: 1,
        name: name.to_owned(),
        clock,
        engine,
        period_ns,
        interval_bytes: 512 << 10,
        question: question.clone(),
        follow: true,
        sources: SourceFinder { directories: Vec::new(), current: None, embedded: &[] },
        symbols: SymbolOptions { reads_files: false, ..SymbolOptions::default() },
        budget: 0.01,
        memory_bytes: 512 << 20,
        interpreter_view: Default::default(),
        sample_times: false,
    };
    let session = sigtop::session::Session::play(source, false, settings).expect("threads");
    let (mut is_played, mut is_symbolized) = (false, false);
    while !is_played || !is_symbolized {
        match session.notices.recv().expect("an answer") {
            Notice::Answer(answer) => is_symbolized = answer.facts.symbolizing.0 == 0,
            Notice::Played => is_played = true,
            _ => {}
        }
    }
    let _ = session.commands.send(Command::Leave);
    let finished = session.finish().expect("a finished session");
    Stage::new(Options { question, ..options() }, Session::of_model(finished.model), size)
}

fn golden(name: &str) {
    let mut text = String::new();
    for (size, keys) in [((140, 45), ""), ((100, 30), ""), ((80, 24), "2"), ((80, 24), "3")] {
        let mut stage = play(name, size);
        stage.press(keys);
        text.push_str(&stage.regions(&[Body]));
    }
    compare(&format!("recorded-{name}"), &text);
}

#[test]
fn redis() {
    golden("redis");
}

#[test]
fn python() {
    golden("python");
}

#[test]
fn gxx() {
    golden("g++");
}

/// It was built with line tables.
#[test]
fn ripgrep() {
    golden("ripgrep");
}

#[test]
fn rustc() {
    golden("rustc");
}

#[test]
fn lambdas() {
    let text = play("lambdas", (140, 45)).regions(&[Body]);
    for name in ["index::{lambda} lambdas.cc:16", "main::{lambda} lambdas.cc:24"] {
        assert!(text.contains(name), "{text}");
    }
}
