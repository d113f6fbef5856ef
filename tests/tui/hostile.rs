//! Any keys, any answers and any screen size: the screen does not panic, and no cell contains
//! anything that is unsafe to send to a terminal.

use std::sync::Arc;

use crate::property::property;
use proptest::prelude::*;
use sigtop::session::{Answer, TargetExit};
use sigtop::symbols::FunctionId;
use sigtop::tally::top::{InlineState, TopRow, TopTable};
use sigtop::tui::action::Action;
use sigtop::tui::theme::Depth;
use sigtop::tui::{OnQuit, Options, Theme};
use unicode_width::UnicodeWidthStr;

use crate::arbitrary::{HOSTILE, answer, name};
use crate::escapes::Guard;
use crate::session::Session;
use crate::stage::{SCREEN, Stage, options};

fn check(stage: &Stage) {
    let (buffer, cursor) = stage.buffer();
    let area = buffer.area;
    if let Some((x, y)) = cursor {
        assert!(x < area.width && y < area.height, "the cursor is outside");
    }
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let symbol = buffer[(x, y)].symbol();
            let harmless = |c: char| match c {
                '\u{300}'..='\u{36f}' => true,
                c if c.is_control() => false,
                '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => {
                    false
                }
                '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => false,
                _ => true,
            };
            assert!(symbol.chars().all(harmless), "{symbol:?} at {x},{y}");
            // A letter and its combining marks.
            assert!(symbol.chars().count() <= 5, "{symbol:?} at {x},{y}");
            let width = symbol.width() as u16;
            assert!((1..=2).contains(&width) && x + width <= area.width, "{symbol:?} at {x},{y}");
            x += width;
        }
    }
}

/// Panics if the screen sends the terminal bytes that [`Guard`] refuses.
fn check_bytes(stage: &Stage) {
    let bytes = stage.bytes();
    if let Err(fault) = Guard::default().read(&bytes) {
        panic!("never to a terminal: {fault}, in {}", bytes.escape_ascii());
    }
}

/// An event that a screen has to survive.
#[derive(Clone, Debug)]
enum Step {
    Keys(String),
    Resize(u16, u16),
    Answer(Box<Answer>),
    Output(Vec<u8>),
    Banner(String),
    Ended(TargetExit),
    SessionOver,
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop_oneof![(1..12_u16, 1..12_u16), (36..44_u16, 5..11_u16), (1..=400_u16, 1..=120_u16)];
    let named = prop::sample::select(vec![
        "\x1b",
        "\t",
        "\x1b[Z",
        "\r",
        "\x1b[A",
        "\x1b[B",
        "\x1b[5~",
        "\x1b[6~",
        "\x1b[H",
        "\x1b[F",
        "\x15",
        "\x04",
        "\x12",
        "\x1d",
        "\x0c",
        "\x7f",
        "\x1bOP",
        "\x1b[<0;5;5M",
        "\x1b[<65;9;9M",
        "\x1b[200~a\u{202e}b\x1b[201~",
        "f(",
        "fpa",
        "i.*",
        "/ar",
        "?jjj",
        "6\r",
        "L",
        "\x03",
        "qc",
        "qe",
        "2",
        "3",
        "4",
        "4a",
        "4aajl\rk\rG\r",
        "4/a\rny",
        "0",
        "3jjhl\r",
        "3\rjG\r\x7f",
        "oOC",
        "2kkjj\r\x7f\x1b[1;3C",
        "xa\r",
        "s.\r",
        "Sm\r",
        "XMFIuU",
        "bt%",
        "/e\rnN",
        "\x1b[<0;70;8M\x1b[<0;70;8M",
        "\x1b[<0;30;20M\x1b[<64;30;20M",
        "\x1b[<0;90;2M",
    ]);
    prop_oneof![
        4 => named.prop_map(|keys| Step::Keys(keys.to_owned())),
        4 => "[ -~]{1,3}".prop_map(Step::Keys),
        1 => any::<String>().prop_map(Step::Keys),
        2 => sizes.prop_map(|(columns, rows)| Step::Resize(columns, rows)),
        3 => answer().prop_map(|answer| Step::Answer(Box::new(answer))),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Step::Output),
        1 => prop::sample::select(HOSTILE).prop_map(|text| Step::Output(text.as_bytes().to_vec())),
        1 => name().prop_map(Step::Banner),
        1 => any::<i32>().prop_map(|status| Step::Ended(TargetExit::Exited(status))),
        1 => Just(Step::SessionOver),
    ]
}

fn settings() -> impl Strategy<Value = Options> {
    let depth = prop::sample::select(vec![Depth::None, Depth::Sixteen, Depth::True]);
    let on_quit = prop::sample::select(vec![OnQuit::Ask, OnQuit::End, OnQuit::LetRun]);
    (depth, any::<bool>(), on_quit, any::<bool>(), any::<bool>(), name()).prop_map(
        |(depth, ascii, on_quit, launched, output, command)| Options {
            theme: Theme::new(depth, ascii),
            on_quit,
            launched,
            output,
            command,
            ..options()
        },
    )
}

proptest! {
    #![proptest_config(property(60))]

    #[test]
    fn nothing_breaks_the_screen(settings in settings(), steps in prop::collection::vec(step(), 1..25)) {
        let mut stage = Stage::new(settings, Session::new(SCREEN), (80, 24));
        for step in steps {
            match step {
                Step::Keys(keys) => stage.press(&keys),
                Step::Resize(columns, rows) => stage.resize((columns, rows)),
                Step::Output(bytes) => stage.act(Action::Output(bytes)),
                Step::Banner(words) => stage.act(Action::Banner(words)),
                Step::Ended(ending) => stage.act(Action::Ended(ending)),
                Step::SessionOver => stage.act(Action::SessionOver),
                Step::Answer(answer) => {
                    let mut answer = *answer;
                    answer.question = stage.session.answer().expect("a question was asked").question.clone();
                    // Most of the time, the center is the selection.
                    if let (Some(callers), Some(centre)) = (&mut answer.callers, &answer.question.centre) {
                        callers.full = centre.as_str().into();
                    }
                    if let Some(root) = answer.flame.as_mut().and_then(|flame| Arc::make_mut(flame).boxes.first_mut()) {
                        root.full = "".into();
                    }
                    stage.act(Action::Answer(Arc::new(answer)));
                }
            }
            check(&stage);
            check_bytes(&stage);
        }
    }
}

#[test]
fn every_size_can_be_drawn() {
    let mut stage = Stage::usual((80, 24));
    stage.act(Action::Output(b"some output\r\nand more".to_vec()));
    for keys in ["", "?", "\x1bL", "\x1b\x1bfpar(", "\x1bq", "c2j", "3jjj", "oC\r", "5j\r>>hl", "6\r", "\x1d"] {
        stage.press(keys);
        for columns in (1..=140).step_by(7).chain([39, 40, 41, 119, 120, 400]) {
            for rows in (1..=50).step_by(11).chain([7, 8, 9, 27, 28, 120]) {
                stage.resize((columns, rows));
                check(&stage);
            }
        }
    }
}

#[test]
fn hostile_names_stay_in_their_row() {
    let rows = HOSTILE.iter().map(|name| TopRow {
        function: FunctionId(0),
        full: (*name).into(),
        short: (*name).into(),
        module: (*name).into(),
        owner: (*name).into(),
        inline: InlineState::Yes,
        flat_ns: 10,
        cum_ns: 20,
        latency_ns: 1,
        library_ns: 5,
        library_call: (*name).into(),
        is_own: true,
        changes: None,
    });
    let window = TopTable {
        rows: rows.collect(),
        total_ns: 1000,
        kept_ns: 1000,
        samples: 9,
        kept_samples: 9,
        ..TopTable::default()
    };
    let window = Arc::new(window);
    let mut stage = Stage::usual((140, 45));
    let question = stage.session.answer().expect("a question was asked").question.clone();
    let facts = stage.session.facts.clone();
    stage.act(Action::Answer(Arc::new(Answer {
        question,
        window: Arc::clone(&window),
        total: window,
        listing: None,
        callers: None,
        activity: None,
        flame: None,
        timeline: None,
        baseline_ns: None,
        overlap_ns: 0,
        threads: None,
        waits: Vec::new(),
        tagged: Vec::new(),
        now_ns: 0,
        measured_ns: 0,
        trends: Default::default(),
        facts,
    })));
    for _ in HOSTILE {
        check(&stage);
        check_bytes(&stage);
        assert!(stage.line(44).ends_with("q quit"), "the footer is where it was");
        stage.press("j");
    }
}
