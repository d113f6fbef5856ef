//! Goldens of panes on recordings of real programs, whose names are as they are.
//!
//! `tests/recordings/make.sh` makes the recordings, which have names. What they leave nameless stays
//! so: the files of this machine are not read.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::mpsc::{Receiver, channel};

use sigtop::pprof::format::SaveFormat;
use sigtop::session::{Command, Notice, PlaybackSource, Question, SaveRequest, Settings};
use sigtop::symbols::source::SourceFinder;
use sigtop::symbols::worker::SymbolOptions;
use sigtop::tui::Options;

use crate::goldens::compare;
use crate::session::Session;
use crate::stage::Region::Body;
use crate::stage::{Stage, options};

fn path(name: &str) -> String {
    format!("{}/tests/recordings/{name}.sigtop", env!("CARGO_MANIFEST_DIR"))
}

fn question() -> Question {
    Question { window_ns: None, ..options().question }
}

/// Starts to play a recording.
fn start(name: &str, file: impl Read + Send + 'static) -> sigtop::session::Session {
    start_source(name, PlaybackSource::open(Box::new(file)).expect("a recording"))
}

fn start_source(name: &str, source: PlaybackSource) -> sigtop::session::Session {
    let Options { clock, engine, period_ns, .. } = options();
    let settings = Settings {
        command: name.to_owned(),
        answer_ns: 1,
        name: name.to_owned(),
        clock,
        engine,
        period_ns,
        interval_bytes: 512 << 10,
        question: question(),
        follow: true,
        sources: SourceFinder { directories: Vec::new(), current: None, embedded: &[] },
        symbols: SymbolOptions { reads_files: false, ..SymbolOptions::default() },
        budget: 0.01,
        memory_bytes: 512 << 20,
        interpreter_view: Default::default(),
        keeps_kernel: false,
        base: None,
        sample_times: false,
    };
    sigtop::session::Session::play(source, false, settings).expect("threads")
}

fn open(name: &str) -> PlaybackSource {
    let file = BufReader::new(File::open(path(name)).expect("a recording"));
    PlaybackSource::open(Box::new(file)).expect("a recording")
}

/// Plays a recording to its end, and shows it on a screen of this size.
fn play(name: &str, size: (u16, u16)) -> Stage {
    show(start(name, BufReader::new(File::open(path(name)).expect("a recording"))), None, size)
}

/// Waits until a recording was played, and shows it.
fn show(session: sigtop::session::Session, base: Option<&str>, size: (u16, u16)) -> Stage {
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
    let base = base.map(str::to_owned);
    Stage::new(Options { question: question(), base, ..options() }, Session::of_model(finished.model), size)
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

/// Returns the rows of the difference between two recordings.
fn differences(old: &str, new: &str) -> Vec<String> {
    let mut source = open(new);
    source.set_base(open(old));
    let mut stage = show(start_source(new, source), Some(old), (140, 45));
    assert!(stage.line(1).contains(&format!("baseline {old}")), "{}", stage.text());
    assert!(stage.line(2).contains(&format!("diff against {old}, flat")), "{}", stage.text());
    stage.press("1");
    // Regression test: the file was lost as baseline once differences had been off.
    let rows = |stage: &Stage| -> Vec<String> {
        stage.text().lines().filter(|line| line.contains(" → ")).map(str::to_owned).collect()
    };
    let shown = rows(&stage);
    stage.press("d");
    assert!(!stage.text().contains(" → ") && stage.status().contains(&format!("d compares with {old} again")));
    stage.press("d");
    assert_eq!(rows(&stage), shown);
    shown
}

#[test]
fn a_recording_is_compared_with_another() {
    let same = differences("redis", "redis");
    assert!(same.len() > 20 && same.iter().all(|row| row.contains("%          0 ")), "{same:#?}");
    let (other, back) = (differences("redis", "ripgrep"), differences("ripgrep", "redis"));
    let points = |rows: &[String], name: &str| {
        let row = rows.iter().find(|row| row.contains(&format!("  {name} "))).unwrap_or_else(|| panic!("{rows:#?}"));
        row.trim_start_matches('▸')
            .split_whitespace()
            .nth(3)
            .and_then(|points| points.parse::<f64>().ok())
            .expect("points")
    };
    // Both read files; one does so for three quarters of its time, the other for a quarter.
    assert_eq!((points(&other, "__libc_read"), points(&back, "__libc_read")), (26.07 - 73.33, 73.33 - 26.07));
    assert!(other.iter().any(|row| row.contains("gone")) && other.iter().any(|row| row.contains("new")), "{other:#?}");
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
    let mut stage = play("lambdas", (140, 45));
    let dashboard = stage.regions(&[Body]);
    stage.press("1");
    let text = dashboard + &stage.regions(&[Body]);
    for name in ["index::{lambda} lambdas.cc:16", "main::{lambda} lambdas.cc:24"] {
        assert!(text.contains(name), "{text}");
    }
}

/// The end of a recording that is read when it may be.
struct Awaited {
    may_read: Receiver<()>,
    rest: Cursor<Vec<u8>>,
}

impl Read for Awaited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest.position() == 0 {
            let _it_may_be_read = self.may_read.recv();
        }
        self.rest.read(into)
    }
}

/// Regression test: what was saved before the first block was played was cut off behind its header.
#[test]
fn what_is_saved_before_a_recording_is_played_is_whole() {
    let bytes = std::fs::read(path("redis")).expect("a recording");
    let (release, may_read) = channel();
    let (first, rest) = bytes.split_at(bytes.len() / 10);
    let file = Cursor::new(first.to_vec()).chain(Awaited { may_read, rest: Cursor::new(rest.to_vec()) });
    let session = start("redis", file);
    let saved = std::env::temp_dir().join(format!("sigtop-saved-{}.sigtop", std::process::id()));
    let save = SaveRequest { path: saved.clone(), format: SaveFormat::Recording, is_shown: false };
    session.commands.send(Command::Save(save)).expect("it runs");
    // The command has been read by the fifth answer.
    let mut answers = 0;
    while answers < 5 {
        match session.notices.recv().expect("it runs") {
            Notice::Answer(_) => answers += 1,
            Notice::Saved(_) => panic!("saved before it was played"),
            _ => {}
        }
    }
    release.send(()).expect("it waits");
    let written = session.notices.iter().find_map(|notice| match notice {
        Notice::Saved(written) => Some(written),
        _ => None,
    });
    let written = written.expect("it is saved").expect("it can be").bytes;
    let _ = session.commands.send(Command::Leave);
    let _ = session.finish();
    let again = std::fs::read(&saved).expect("it was saved");
    std::fs::remove_file(&saved).expect("ours");
    assert_eq!(again.len() as u64, written);
    assert!(again.len() * 10 > bytes.len() * 9, "{} of {} bytes", again.len(), bytes.len());
}
