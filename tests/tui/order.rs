//! The order of rows is that of the numbers beside them, in every frame: Top, Callers, differences
//! and Threads, while samples come and go and the cursor moves.

use std::fmt::Write;

use sigtop::tui::action::Action;

use crate::session::Session;
use crate::stage::{Stage, options};

/// A generator of numbers that chance would draw.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns the scenario of a load that changes all the time: functions of nearly equal weight.
pub(crate) fn changing_load(random: &mut Random) -> String {
    let mut text = "process 7 ./load\n".to_owned();
    for thread in 0..4 {
        let _ = writeln!(text, "thread {} worker-{thread}", 10 + thread);
        for half_second in 0..40 {
            let (from, to) = (500 * half_second, 500 * half_second + 500);
            for leaf in 0..16 {
                let (caller, count) = (random.below(4), random.below(4));
                let stack = format!("main;caller{caller};f{leaf:02}");
                let _ = writeln!(text, "at {from}ms..{to}ms prof 10ms {stack} x {}", count + 1);
            }
        }
    }
    text + "now 20s\n"
}

/// Returns the size of the number that ends in column `end` of a line, if one does.
fn number_before(line: &str, end: usize) -> Option<f64> {
    let cells: Vec<char> = line.chars().take(end).collect();
    let number: String =
        cells.iter().rev().take_while(|cell| **cell != ' ').collect::<Vec<_>>().into_iter().rev().collect();
    number.trim_matches(|letter: char| "+-−%s".contains(letter)).parse().ok()
}

/// Returns the numbers in the column whose title starts with this, below the title.
fn column(text: &str, title: &str) -> Vec<f64> {
    let is_title = |line: &&str| line.contains(title) && !line.starts_with('─');
    let mut lines = text.lines().skip_while(|line| !is_title(line));
    let Some(head) = lines.next() else { panic!("no column {title} in\n{text}") };
    let before = &head[..head.find(title).expect("it is there")];
    let rest = head[before.len() + title.len()..].split(' ').next().unwrap_or_default();
    let end = before.chars().count() + title.chars().count() + rest.chars().count();
    lines.map_while(|line| number_before(line, end)).collect()
}

/// Returns the numbers at the start of the lines of callers, and of callees.
fn neighbours(text: &str) -> Option<[Vec<f64>; 2]> {
    let first = |line: &str| line.trim_start_matches(['▸', ' ']).split(['%', 's']).next()?.parse().ok();
    let lines: Vec<&str> = text.lines().collect();
    let row_with = |word: &str| lines.iter().position(|line| line.starts_with("──") && line.contains(word));
    let (above, below) = (row_with(" caller")?, row_with(" callee")?);
    let callers = lines[..above].iter().rev().map_while(|line| first(line)).collect();
    Some([callers, lines[below + 1..].iter().map_while(|line| first(line)).collect()])
}

fn assert_falling(numbers: &[f64], what: &str, text: &str) {
    assert!(!numbers.is_empty(), "{what}: no number in\n{text}");
    assert!(numbers.is_sorted_by(|a, b| a >= b), "{what} is not in order: {numbers:?}\n{text}");
}

/// Checks that the share before and the points are the share now, and that the times agree.
fn assert_adds_up(line: &str) {
    let number = |word: &str| word.trim_end_matches(['%', 's']).parse::<f64>().ok();
    let words: Vec<&str> = line.trim_start_matches('▸').split_whitespace().collect();
    let [before, "→", now, points, was, "→", is, ..] = words[..] else { panic!("{line}") };
    let shares = number(before).zip(number(now)).zip(number(points));
    let ((before, now), points) = shares.unwrap_or_else(|| panic!("{line}"));
    assert!((before + points - now).abs() < 0.011, "{line}");
    assert_eq!(number(was) == Some(0.0), before == 0.0, "{line}");
    assert_eq!(number(is) == Some(0.0), now == 0.0, "{line}");
}

#[test]
fn every_frame_is_in_the_order_of_its_numbers() {
    let mut random = Random(88_172_645_463_325_252);
    let mut checked = 0;
    for (keys, what) in
        [("1", "▼flat"), ("1c", "▼cum"), ("1d", "▼Δ points"), ("1dc", "▼Δ points"), ("2", ""), ("5", "cpu%")]
    {
        let mut stage = Stage::new(options(), Session::new(&changing_load(&mut random)), (140, 45));
        stage.press(keys);
        for _ in 0..40 {
            stage.session.pass(1_000_000 * (50 + random.below(150)));
            stage.refresh();
            if random.below(3) == 0 && keys != "2" {
                stage.press(["\x1b[B", "\x1b[A", "\x1b[6~"][random.below(3) as usize]);
            }
            let text = stage.text();
            match what {
                "" => {
                    let [callers, callees] = neighbours(&text).unwrap_or_else(|| panic!("no callers in\n{text}"));
                    assert!(!callers.is_empty() || !callees.is_empty(), "{text}");
                    assert!(callers.is_sorted_by(|a, b| a >= b) && callees.is_sorted_by(|a, b| a >= b), "{text}");
                }
                "cpu%" => assert_falling(&column(&text, what)[1..], what, &text),
                "▼Δ points" => {
                    let sizes: Vec<f64> = column(&text, what).iter().map(|points| points.abs()).collect();
                    assert_falling(&sizes, what, &text);
                    assert!(text.contains("windows overlap by "), "{text}");
                    let numbers = text.lines().filter(|line| line.contains("% → ") && line.contains("s → "));
                    numbers.for_each(assert_adds_up);
                }
                _ => assert_falling(&column(&text, what), what, &text),
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 240);
}

/// Regression test: after a look at the last rows, the largest differences were above the screen.
#[test]
fn differences_begin_with_the_largest() {
    let load = changing_load(&mut Random(88_172_645_463_325_252));
    let first_row = |rows, keys| {
        let mut stage = Stage::new(options(), Session::new(&load), (140, rows));
        stage.press(keys);
        stage.session.pass(2_000_000_000);
        stage.refresh();
        let text = stage.text();
        let row = text.lines().skip_while(|line| !line.contains("▼Δ points")).nth(1).expect("a row").to_owned();
        row.trim_start_matches(['▸', ' ']).split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(first_row(20, "1\x1b[Fd"), first_row(45, "1d"));
}

/// Numbers that move under the cursor cannot be read, so the session holds them.
#[test]
fn a_move_of_the_cursor_holds_the_numbers() {
    let mut stage = Stage::usual((140, 45));
    let held = stage.session.holds;
    stage.press("\x1b[B\x1b[B");
    assert_eq!(stage.session.holds, held + 2);
    stage.press("5\x1b[B");
    assert_eq!(stage.session.holds, held + 3, "in every pane");
    stage.act(Action::Resize(100, 30));
    stage.press("c");
    assert_eq!(stage.session.holds, held + 3, "other keys do not");
}
