//! Trends of live loads: a steady load has no trend marks, whatever its pattern; a function that
//! doubles is marked within two windows. Each tenth of a second of a recording is evaluated as the
//! screen would have.

use std::fs;
use std::path::Path;
use std::process::Command;

use crossbeam_channel::unbounded;
use sigtop::link::recording::{BlockReader, Decoder, RecordingEntry};
use sigtop::profile::Profile;
use sigtop::profile::totals::{BUCKET_NS, Span};
use sigtop::symbols::Names;
use sigtop::symbols::worker;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Extras, Tallier};
use sigtop::tally::trend::Direction;
use sigtop::wire::Clock;

use crate::harness::quiet::alone;
use crate::harness::run::{SIGTOP, run, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Length of the window, in ticks, where the target has a CPU of its own.
const WINDOW: u64 = 20;
/// The number of samples that a window must have to show a doubled function. A target that shares
/// its CPU with many gets longer windows: its samples come in bursts, and have unequal weights.
const SAMPLES: u64 = 400;

fn read(path: &Path) -> (Profile, Names) {
    let (mut profile, mut names, mut decoder) = (Profile::default(), Names::default(), Decoder::default());
    let mut blocks = BlockReader::open(fs::File::open(path).expect("a recording")).expect("a recording");
    while let Some(block) = blocks.read().expect("a whole recording") {
        let played = decoder.decode_block(&block.plain, |entry| match entry {
            RecordingEntry::Event(arrival) => profile.apply(arrival),
            RecordingEntry::Sample(sampled) => {
                profile.apply_recorded(sampled.source, sampled.at_ns, &sampled.sample, sampled.stack, sampled.frames);
            }
            _ => {}
        });
        played.expect("entries");
    }
    let (ask, asked) = unbounded();
    let (reply, replies) = unbounded();
    names.catch_up(&profile).into_iter().for_each(|request| ask.send(request).expect("a worker"));
    drop(ask);
    let worker = worker::spawn(asked, reply).expect("a thread");
    replies.iter().for_each(|reply| names.absorb(reply));
    worker.join().expect("no panic");
    (profile, names)
}

/// Returns, for each tick from the first, the functions that are marked in the window that ends
/// with it, once there are two windows.
struct Marks {
    window: u64,
    first: u64,
    marks: Vec<Vec<(String, Direction)>>,
}

impl Marks {
    fn of(turn_ms: &str, before: &str, after: &str) -> (Marks, u64) {
        alone();
        let path = std::env::temp_dir().join(format!("sigtop-turns-{}-{turn_ms}.sigtop", std::process::id()));
        let target = targets::c("turns");
        let mut command = Command::new(SIGTOP);
        command.args(["record", "--hz", "249", "-o"]).arg(&path).args(["--", text(&target), turn_ms, before, after]);
        let ran = run(&mut command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let (profile, names) = read(&path);
        let _ = fs::remove_file(&path);
        let (oldest, newest) = profile.history_range(Clock::Prof).expect("samples");
        let window = WINDOW.max(SAMPLES * (newest - oldest) / profile.stack_quality().samples);
        let (mut tallier, first) = (Tallier::default(), oldest + 2 * window);
        let marks = (first..newest).map(|tick| {
            let span = Span::Last { ns: window * BUCKET_NS, now_ns: tick * BUCKET_NS };
            let query = Query { span, ..Query::default() };
            let answer = tallier.answer(&profile, &names, &query, Extras { trends: true, ..Extras::default() });
            let rows = answer.table.rows.iter().zip(&answer.trends.rows);
            rows.filter(|(_, trend)| trend.direction != Direction::Steady)
                .map(|(row, trend)| (row.short.to_string(), trend.direction))
                .collect()
        });
        (Marks { window, first, marks: marks.collect() }, ran.number("doubled"))
    }
}

/// Windows at successive tenths of a second share most of their samples, so one marked window is
/// followed by others. 44 s contain 400 windows, of which 20 are independent: two of them may be
/// marked, with the windows that follow them. Another test with drawn samples proves that 95 of 100
/// independent windows have no mark.
#[test]
fn a_constant_load_has_no_marks_also_in_bursts_and_a_doubled_function_has_one_within_two_windows() {
    // What comes after the change is judged of short turns alone.
    for (turn_ms, after) in [("1", "6"), ("40", "0.3")] {
        let (marks, doubled_ns) = Marks::of(turn_ms, "44", after);
        let change = doubled_ns / BUCKET_NS;
        let before = &marks.marks[..(change - marks.first) as usize];
        let wrong = before.iter().filter(|marks| !marks.is_empty()).count();
        println!("turns of {turn_ms} ms: {wrong} of {} windows marked", before.len());
        assert!(wrong * 10 <= before.len(), "{wrong} of {}: {before:?}", before.len());
        if turn_ms == "1" {
            let after = marks.marks.iter().zip(marks.first..).skip(before.len()).take(2 * marks.window as usize);
            let rises = |marks: &[(String, Direction)]| marks.contains(&("burn_b".to_owned(), Direction::Rising));
            let seen: Vec<u64> = after.filter(|(marks, _)| rises(marks)).map(|(_, tick)| tick - change).collect();
            println!("the doubled function is marked {:?} tenths of a second after", seen.first());
            assert!(!seen.is_empty(), "{:?}", &marks.marks[before.len()..]);
        }
    }
}

/// The trends that the user sees. The window is longer than the mark takes to come, as the screen
/// changes once a second.
#[test]
fn a_doubled_function_gets_its_mark_on_the_screen_and_its_sign_in_the_differences() {
    alone();
    let mut command = Command::new(SIGTOP);
    command.args(["--on-quit", "end", "--hz", "249", "--window", "5s", "--"]).arg(targets::c("turns"));
    command.args(["1", "8", "60"]);
    let mut terminal = Terminal::start(140, 40, &command);
    terminal.see("burn_b");
    terminal.wait_up_to(std::time::Duration::from_millis(5200), |_| false);
    let row = |screen: &vt100::Screen, has: &[&str]| {
        let text = screen.contents();
        text.lines().any(|line| has.iter().all(|part| line.contains(part)))
    };
    terminal.keys("d");
    terminal.see("diff, last");
    terminal.see("doubled");
    // That layout has room for trends, however long the numbers are.
    terminal.keys("1");
    terminal.wait("a mark of what rises", |screen| row(screen, &["burn_b", "▲"]));
    let less = |screen: &vt100::Screen, name: &str| {
        let text = screen.contents();
        let row = text.lines().find(|line| line.contains(name) && line.contains('%'));
        row.is_some_and(|row| row.contains(" -") || row.contains("▸-"))
    };
    terminal.wait("signs", |screen| less(screen, "burn_a") && row(screen, &["burn_b"]) && !less(screen, "burn_b"));
    terminal.keys("5");
    terminal.wait("threads are compared", |screen| row(screen, &["turns", "running"]));
    terminal.keys("d1");
    terminal.wait("no differences", |screen| !screen.contents().contains("baseline"));
    terminal.keys("q");
    terminal.finish();
}
