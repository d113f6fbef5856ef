//! Presses every key of the key table in every context where it has a meaning, on a live target and
//! at two sizes. The table is the program's own, so no key is forgotten: the text that a key must
//! show appears, and the screen remains usable after every key.

use crossterm::event::{KeyCode, KeyModifiers};
use sigtop::tui::keys::{Binding, KeyContext, TABLE};
use sigtop::tui::layout::Pane;

use std::process::Command;

use crate::harness::run::SIGTOP;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// The bytes that a terminal sends for a key.
fn bytes(&(code, modifiers): &(KeyCode, KeyModifiers)) -> String {
    let plain = match code {
        KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => char::from(c as u8 & 0x1f).to_string(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Enter => "\r".to_owned(),
        KeyCode::Tab => "\t".to_owned(),
        KeyCode::BackTab => "\x1b[Z".to_owned(),
        KeyCode::Backspace => "\x7f".to_owned(),
        KeyCode::Delete => "\x1b[3~".to_owned(),
        KeyCode::Up => "\x1b[A".to_owned(),
        KeyCode::Down => "\x1b[B".to_owned(),
        KeyCode::Right if modifiers.contains(KeyModifiers::ALT) => return "\x1b[1;3C".to_owned(),
        KeyCode::Right => "\x1b[C".to_owned(),
        KeyCode::Left => "\x1b[D".to_owned(),
        KeyCode::Home => "\x1b[H".to_owned(),
        KeyCode::End => "\x1b[F".to_owned(),
        KeyCode::PageUp => "\x1b[5~".to_owned(),
        KeyCode::PageDown => "\x1b[6~".to_owned(),
        KeyCode::Esc => "\x1b".to_owned(),
        KeyCode::F(1) => "\x1bOP".to_owned(),
        KeyCode::F(10) => "\x1b[21~".to_owned(),
        other => panic!("how does a terminal send {other:?}?"),
    };
    if modifiers.contains(KeyModifiers::ALT) { format!("\x1b{plain}") } else { plain }
}

/// Keys that lead from the dashboard to a view, and texts of which one is on the screen then.
fn way(place: KeyContext) -> Option<(&'static str, &'static str)> {
    Some(match format!("{place:?}").as_str() {
        "Everywhere" | "Screen" | "Panes" => ("", "CPU time"),
        "Top" => ("1", "1 Top"),
        "Callers" => ("2", "2 Callers"),
        "Flame" => ("3", "3 Flame"),
        "Source" => ("4", "4 Source|4 Assembly"),
        "Threads" => ("5", "5 Threads"),
        "Output" => ("6", "6 Output"),
        "Prompt" => ("f", "focus"),
        "Colon" => (":", ":"),
        "Question" => ("q", "[e] end"),
        "Page" => ("?", "Keys and terms"),
        "Typing" => ("6\r", "Ctrl-]"),
        // Other tests reach these views, by ending the target.
        _ => return None,
    })
}

/// The text on the screen at 140×45 after a key; `None` for keys whose effect depends on the view.
fn telltale(binding: &Binding) -> Option<&'static str> {
    Some(match format!("{:?}", binding.action).as_str() {
        "Help" => "Keys and terms",
        "Dashboard" => "6 Output",
        "Alone(Top)" => "1 Top",
        "Alone(Callers)" => "2 Callers",
        "Alone(Flame)" => "3 Flame",
        "Alone(Source)" => "4 Source|4 Assembly",
        "Alone(Threads)" => "5 Threads",
        "Alone(Output)" => "6 Output",
        "Clock(Real)" => "● wall time",
        "Clock(Prof)" => "● CPU time",
        "Clock(Alloc)" => "● ALLOC",
        "Engine" => "setitimer",
        "Rate(1)" => "249 Hz",
        "Rate(-1)" => "49 Hz",
        "Freeze" => "paused",
        "Prompt(Focus)" => "focus",
        "Prompt(Ignore)" => "ignore",
        "Prompt(Hide)" => "hide",
        "Prompt(ShowFrom)" => "show_from",
        "Prompt(Find)" => "find",
        "FilterSelected(Focus)" => "focus=",
        "FilterSelected(Ignore)" => "ignore=",
        "FilterSelected(Hide)" | "HideModule" => "hide=",
        "FlatOrCum" | "SortColumn(1)" if binding.context == KeyContext::Pane(Pane::Top) => "▼cum",
        "Sort(Latency)" => "▼lat%",
        "Window(1)" => " of 60 s",
        "Window(-1)" => "samples in 2 s",
        "Roots" => "stack roots: ",
        "Copy" => "asked the terminal to copy",
        "Quit" | "Interrupt" if binding.context == KeyContext::Everywhere || binding.context == KeyContext::Screen => {
            "[e] end"
        }
        "Suspend" => "no shell",
        _ => return None,
    })
}

/// Returns the key that undoes a lasting effect of another.
fn undo(binding: &Binding) -> &'static str {
    match format!("{:?}", binding.action).as_str() {
        "Clock(Real)" | "Clock(Virtual)" | "Clock(Alloc)" => "p",
        "Rate(1)" => "-",
        "Rate(-1)" => "+",
        "Window(1)" => "W",
        "Window(-1)" => "w",
        "FlatOrCum" | "SortColumn(1)" | "Sort(Latency)" if binding.context == KeyContext::Pane(Pane::Top) => "1c",
        "Group" => "bbbbbb",
        "Roots" => "TTT",
        "Base" => "%",
        "BottomUp" => "3O",
        _ => "",
    }
}

/// Returns to the dashboard from any view, once every earlier key has been handled. Esc followed by
/// Home is not an Alt key.
fn home(terminal: &mut Terminal) {
    terminal.keys("\x1b\x1b[H0U?");
    terminal.see("Keys and terms");
    terminal.keys("?");
    terminal.wait("the panes", |screen| !screen.contents().contains("Keys and terms"));
    // Whether a key froze the screen or started a diff depends on the earlier state.
    for (state, key) in [("baseline", "d"), ("‖", " ")] {
        let mut is_so = false;
        terminal.wait("the header", |screen| {
            is_so = screen.contents().contains(state);
            true
        });
        if is_so {
            terminal.keys(key);
            terminal.wait(&format!("no {state}"), |screen| !screen.contents().contains(state));
        }
    }
}

/// Keys that end the screen or the target: other tests press them.
fn leaves(binding: &Binding) -> bool {
    matches!(format!("{:?}", binding.action).as_str(), "End" | "LetRun")
        || binding.context == KeyContext::Question && format!("{:?}", binding.action) == "Interrupt"
}

fn see_one_of(terminal: &mut Terminal, words: &str) {
    terminal.wait(words, |screen| words.split('|').any(|words| screen.contents().contains(words)));
}

fn walk(columns: u16, rows: u16) -> usize {
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--on-quit", "ask", "--"]).arg(targets::c("shares")).args(["60", "30", "10", "600"]);
    let mut terminal = Terminal::start(columns, rows, &command);
    terminal.see("burn_a");
    let is_large = columns >= 140 && rows >= 45;
    let mut pressed = 0;
    for binding in TABLE.iter().filter(|binding| !leaves(binding)) {
        let Some((keys, there)) = way(binding.context) else { continue };
        for key in binding.keys.iter() {
            terminal.keys(keys);
            see_one_of(&mut terminal, there);
            terminal.keys(&bytes(key));
            match telltale(binding) {
                Some(words) if is_large => see_one_of(&mut terminal, words),
                _ => {}
            }
            pressed += 1;
            if matches!(binding.context, KeyContext::Pane(Pane::Output) | KeyContext::Typing) {
                // If typed text goes to the target, only this key leads back.
                terminal.keys("\x1d");
            }
            home(&mut terminal);
            terminal.keys(undo(binding));
        }
    }
    // The keys did not change the numbers: the same three functions are shown.
    home(&mut terminal);
    terminal.see("burn_a");
    terminal.keys("q");
    terminal.see("[e] end");
    terminal.keys("e");
    terminal.finish();
    pressed
}

#[test]
fn every_key_on_a_large_screen() {
    assert!(walk(140, 45) > 60);
}

#[test]
fn every_key_on_a_small_screen() {
    assert!(walk(60, 12) > 60);
}
