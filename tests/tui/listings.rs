//! Source and assembly panes: the initial position of the cursor, which only keys change, and the
//! effects of those keys. Also hostile listings.

use std::sync::Arc;

use proptest::prelude::*;
use sigtop::profile::module::ModuleId;
use sigtop::session::{Answer, SourceListing};
use sigtop::symbols::assembly::{Code, Instruction, LineState, LocationLine, SourceLocation};
use sigtop::symbols::source::SourceFile;
use sigtop::symbols::worker::SymbolState;
use sigtop::tally::change::{Change, Changes};
use sigtop::tally::lines::{AddressWeight, Callee, InlineCall, LineWeight, RowLines};
use sigtop::tui::action::{Action, Effect};
use sigtop::tui::app::App;
use sigtop::tui::layout::Pane;

use crate::arbitrary::{name, number};
use crate::session::Session;
use crate::stage::{Stage, options};

const LISTING: &str = include_str!("../scenarios/listing.txt");

/// A line number, mostly a small one.
fn line() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..30_u32, 1 => any::<u32>()]
}

fn code() -> BoxedStrategy<Code> {
    let place_line = (name(), 0..3_u8, line()).prop_map(|(short, file, line)| LocationLine {
        full: short.as_str().into(),
        short: short.into(),
        file: format!("{file}.c").into(),
        line,
    });
    let place = prop::collection::vec(place_line, 0..4).prop_map(|lines| SourceLocation(lines.into()));
    let instruction = (name(), any::<u8>(), prop::option::of(0..70_u64), prop::option::of(0..6_u32));
    let parts = (prop::collection::vec(place, 0..5), prop::collection::vec(instruction, 0..40));
    (parts, name(), 0..3_u32, prop_oneof![Just(0), Just(u64::MAX - 50)])
        .prop_map(|((places, instructions), short, module, start)| {
            let instructions = (0_u64..).zip(instructions).map(|(at, (text, length, jump, place))| Instruction {
                address: start + at,
                length,
                text: text.into(),
                jump: jump.map(|jump| start.wrapping_add(jump)),
                place,
            });
            Code {
                module: ModuleId(module),
                path: short.as_str().into(),
                full: short.as_str().into(),
                short: short.into(),
                start,
                end: u64::MAX,
                instructions: instructions.collect(),
                places: places.into(),
                lines: LineState::Known,
                is_cut: true,
                modified: None,
            }
        })
        .boxed()
}

/// Half of all weights are differences.
fn changes(ns: u64) -> Option<Changes> {
    let change = |odd: u64| Change { negative: ns / 2 % 2 == odd, significant: ns / 4 % 2 == odd };
    ns.is_multiple_of(2).then(|| Changes { before_ns: (0, 0), flat: change(0), cum: change(1) })
}

fn lines() -> BoxedStrategy<RowLines> {
    let callee = (name(), number()).prop_map(|(full, weight_ns)| Callee {
        full: full.as_str().into(),
        short: full.as_str().into(),
        weight_ns,
        change: changes(weight_ns).map(|changes| changes.flat),
    });
    let call =
        (name(), line()).prop_map(|(short, line)| InlineCall { short: short.as_str().into(), file: "f".into(), line });
    let ties = (prop::collection::vec(callee, 0..3), prop::collection::vec(call, 0..3));
    let weight = (0..4_u8, line(), number(), number(), ties).prop_map(
        |(file, line, flat_ns, cum_ns, (callees, inlined_into))| LineWeight {
            file: if file == 3 { "".into() } else { format!("{file}.c").as_str().into() },
            line,
            flat_ns,
            cum_ns,
            callees,
            inlined_into,
            changes: changes(cum_ns),
        },
    );
    let spot = (0..3_u32, prop_oneof![0..70_u64, any::<u64>()], number(), number()).prop_map(
        |(module, address, flat_ns, cum_ns)| AddressWeight {
            module: ModuleId(module),
            address,
            flat_ns,
            cum_ns,
            changes: changes(flat_ns),
        },
    );
    (name(), name(), number(), number(), prop::collection::vec(weight, 0..9), prop::collection::vec(spot, 0..9))
        .prop_map(|(full, short, flat_ns, cum_ns, lines, addresses)| RowLines {
            function: full.as_str().into(),
            full,
            short: short.as_str().into(),
            module: "server".into(),
            flat_ns,
            cum_ns,
            changes: changes(flat_ns),
            lines,
            addresses,
        })
        .boxed()
}

/// An inconsistent listing.
pub(crate) fn listing() -> BoxedStrategy<SourceListing> {
    let text = prop_oneof![any::<String>(), "[a-z\t\n\r]{0,90}", Just("x".repeat(1 << 20))];
    let found = prop_oneof![
        text.prop_map(|text| Ok(Arc::new(SourceFile::new(&text, text.as_bytes(), None)))),
        name().prop_map(Err)
    ];
    let sources = prop::collection::vec((0..3_u8, found), 0..4);
    let state =
        prop_oneof![Just(SymbolState::Reading), Just(SymbolState::Exports), name().prop_map(SymbolState::Missing)];
    let about = (prop::option::of((name(), state)), 0..2_usize, number(), prop::collection::vec(name(), 0..2));
    (lines(), prop::collection::vec(code(), 0..3), sources, about)
        .prop_map(|(lines, codes, sources, (module, waiting, beyond_ns, refused))| SourceListing {
            lines,
            codes: codes.into_iter().map(Arc::new).collect(),
            refused,
            waiting,
            beyond_ns,
            sources: sources.into_iter().map(|(file, found)| (format!("{file}.c"), found)).collect(),
            module,
        })
        .boxed()
}

fn stage(keys: &str) -> Stage {
    let mut stage = Stage::new(options(), Session::new(LISTING), (100, 30));
    stage.press(keys);
    stage
}

/// Returns the row with the cursor.
fn cursor(stage: &Stage) -> String {
    let rows = stage.buffer().0.area.height;
    let row = (3..rows - 2).map(|y| stage.line(y)).find(|line| line.starts_with('▸'));
    row.unwrap_or_else(|| panic!("no cursor\n{}", stage.text()))
}

#[test]
fn the_cursor_is_on_the_hottest_line_and_stays_where_keys_put_it() {
    let mut stage = stage("4");
    assert!(cursor(&stage).contains(" 115 "), "{}", cursor(&stage));
    stage.press("jjjj");
    let before = stage.text();
    assert!(cursor(&stage).contains(" 119 "));
    (0..3).for_each(|_| stage.refresh());
    assert_eq!(stage.text(), before, "new numbers move nothing");
    // Another function is shown at its hottest line.
    stage.press("\r");
    assert!(stage.line(2).contains("parse_string") && cursor(&stage).contains(" 129 "), "{}", stage.text());
    stage.press("\x7f");
    assert!(stage.line(2).contains("parse_value") && cursor(&stage).contains(" 115 "), "{}", stage.text());
}

#[test]
fn the_cursor_stays_once_most_lines_are_known() {
    let mut stage = stage("4");
    let whole = stage.session.answer().expect("a question was asked");
    // Of the lines of the function, one that is not the hottest is the first whose line is read.
    let mut early = Answer::clone(&whole);
    let listing = early.listing.as_mut().expect("a listing");
    for line in listing.lines.lines.iter_mut().filter(|line| line.line != 119) {
        (line.file, line.line) = ("".into(), 0);
    }
    stage.app = App::new(options());
    stage.app.start((100, 30));
    stage.app.update(Action::Alone(Pane::Source));
    for (answer, line) in [(Arc::new(early), " 119 "), (whole, " 115 ")] {
        stage.app.update(Action::Answer(answer));
        assert!(cursor(&stage).contains(line), "{}", stage.text());
    }
}

#[test]
fn without_lines_the_cursor_stays_on_the_instruction() {
    let mut stage = stage("4");
    let mut first = Answer::clone(&stage.session.answer().expect("a question was asked"));
    let listing = first.listing.as_mut().expect("a listing");
    listing.lines.lines.iter_mut().for_each(|line| (line.file, line.line) = ("".into(), 0));
    // Another instruction is the hottest afterwards.
    let mut second = first.clone();
    let addresses = &mut second.listing.as_mut().expect("a listing").lines.addresses;
    let hottest = addresses.iter_mut().max_by_key(|address| address.cum_ns).expect("addresses");
    (hottest.flat_ns, hottest.cum_ns) = (0, 0);
    stage.app = App::new(options());
    stage.app.start((100, 30));
    stage.app.update(Action::Alone(Pane::Source));
    for answer in [first, second] {
        stage.app.update(Action::Answer(Arc::new(answer)));
        assert!(cursor(&stage).contains("incq"), "{}", stage.text());
    }
}

#[test]
fn both_sides_move_together() {
    let mut stage = stage("4aa");
    stage.resize((140, 45));
    stage.press("jjjj");
    assert!(cursor(&stage).contains(" 119  "), "{}", cursor(&stage));
    // Go to the end of the assembly, and back to the source, whose cursor has followed.
    stage.press("l");
    assert!(stage.text().contains("▸           1.97s  10000048"), "{}", stage.text());
    stage.press("Gh");
    assert!(cursor(&stage).contains(" 113  "), "{}", cursor(&stage));
}

#[test]
fn enter_follows_jumps_and_calls() {
    let mut stage = stage("4a");
    assert!(cursor(&stage).contains("incq"), "{}", cursor(&stage));
    stage.press("j\r");
    assert!(cursor(&stage).contains("mov 0x18(%rbx),%rax"), "{}", cursor(&stage));
    stage.press("/call json\r");
    assert!(cursor(&stage).contains("call json"), "{}", stage.text());
    stage.press("\r");
    assert!(stage.line(2).contains("parse_string"), "{}", stage.text());
    stage.press("\x7f4");
    assert!(stage.line(2).contains("parse_value"), "{}", stage.text());
}

#[test]
fn lines_are_found_and_copied() {
    let mut stage = stage("4/while is\r");
    assert!(cursor(&stage).contains(" 114 "), "{}", cursor(&stage));
    stage.press("y");
    let copied = |line: &str| Effect::Copy(line.to_owned());
    assert_eq!(stage.effects, [copied("/home/me/server/src/json/parser.rs:114")]);
    assert!(stage.status().contains("asked the terminal to copy"), "{}", stage.status());
    stage.press("/nowhere to be found");
    assert!(stage.text().contains("no lines"), "{}", stage.text());
    stage.press("\x1b");
    assert!(cursor(&stage).contains(" 114 "), "{}", cursor(&stage));
}

#[test]
fn the_line_of_commands_lists_and_disassembles() {
    let mut stage = stage(":list parse_string\r");
    assert!(stage.line(2).contains("4 Source  json::Parser::parse_string"), "{}", stage.line(2));
    stage.press(":disasm parse_value\r");
    assert!(stage.line(2).contains("4 Assembly  json::Parser::parse_value"), "{}", stage.line(2));
    stage.press(":list nobody\r");
    assert!(stage.status().contains("no function matches nobody"), "{}", stage.status());
}

#[test]
fn the_mouse_stands_and_scrolls() {
    let mut stage = stage("4");
    let row = (4..28).find(|&y| stage.line(y).contains(" 119 ")).expect("the line is in view");
    stage.press(&format!("\x1b[<0;30;{}M", row + 1));
    assert!(cursor(&stage).contains(" 119 "), "{}", cursor(&stage));
    stage.press("\x1b[<65;30;20M");
    assert!(cursor(&stage).contains(" 122 "), "{}", cursor(&stage));
}

#[test]
fn percentages_and_windows_do_not_lose_the_place() {
    let mut stage = stage("4jj");
    for keys in ["%", "w", "w", "W", "r", "p", "t", "z", "4"] {
        stage.press(keys);
        stage.refresh();
        if stage.line(2).contains("Source") {
            assert!(cursor(&stage).contains(" 117 "), "after {keys}\n{}", stage.text());
        }
    }
}
