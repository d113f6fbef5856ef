//! The key table. It is the only place that knows which key does what: dispatch, footer and help page are made from it.

use std::borrow::Cow;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::{Action, Edit, Motion, Subject};
use super::layout::Pane;
use crate::link::wire::Clock;

/// Where a key has its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Everywhere but while typing into the target.
    Everywhere,
    /// Where panes are shown, and on pages over them.
    Screen,
    /// In every pane, and on pages.
    Panes,
    /// In the top list.
    Top,
    /// Among callers and callees.
    Callers,
    /// In the flame.
    Flame,
    /// In source and assembly.
    Source,
    /// Among processes and threads.
    Threads,
    /// In the target's output.
    Output,
    /// On the line of a prompt.
    Prompt,
    /// On the line of commands, besides what is meant on the line of any prompt.
    Colon,
    /// On the line that says what to save, likewise.
    Save,
    /// Where quitting is in question.
    Question,
    /// Where sampling by setitimer is in question.
    Confirm,
    /// While the target is told to end.
    Ending,
    /// On a page of words over the panes.
    Page,
    /// While typing into the target.
    Typing,
    /// In the list of what can be watched.
    Picker,
}

/// A key, without the modifiers that its character says already.
pub type Key = (KeyCode, KeyModifiers);

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The keys.
    pub keys: Cow<'static, [Key]>,
    /// How they are written.
    pub label: Cow<'static, str>,
    /// Where they have this meaning.
    pub place: Place,
    /// What they do.
    pub action: Action,
    /// What they do, in words; rows with the words of the row before continue it.
    pub words: &'static str,
    /// The word for the footer, and how important it is there (0: not there).
    pub hint: (&'static str, u8),
}

const NONE: KeyModifiers = KeyModifiers::NONE;
pub(super) const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
pub(super) const ALT: KeyModifiers = KeyModifiers::ALT;

const fn char(c: char) -> Key {
    (KeyCode::Char(c), NONE)
}

const fn control(c: char) -> Key {
    (KeyCode::Char(c), CONTROL)
}

const fn code(code: KeyCode) -> Key {
    (code, NONE)
}

const fn bind(
    place: Place,
    keys: &'static [Key],
    label: &'static str,
    action: Action,
    words: &'static str,
    hint: (&'static str, u8),
) -> Binding {
    Binding { keys: Cow::Borrowed(keys), label: Cow::Borrowed(label), place, action, words, hint }
}

use Action as A;
use KeyCode as K;
use Place as P;

const NO_HINT: (&str, u8) = ("", 0);
const PANES: &str = "next, previous pane";
const SHOW: &str = "dashboard; Top, Callers, Flame, Source, Threads, Output alone";
const UP_DOWN: &str = "one row down, up";
const SIDE: &str =
    "read a cut name to its end, to its head; Flame: next, previous box; Source: the other side; Threads: unfold, fold";
const ENDS: &str = "first, last row; Flame: root, leaf";
const BACK: &str = "back to the function before, forward again";
const CLOCKS: &str = "clock PROF (cpu), REAL (wall), VIRTUAL (user)";
const RATE: &str = "higher, lower rate";
const PROMPTS: &str = "focus: keep samples with a match; ignore: drop them";
const FRAMES: &str = "hide frames with a match; show no others; show_from: begin stacks at one";
const TAKE: &str = "focus, ignore, hide the selected function; hide its module";
const KINDS: &str = "next, previous format";
const RECALL: &str = "older, newer line";
const HISTORY: &str = "filters: undo, redo, clear";
const FIND: &str = "find, next, previous";
const SORT: &str = "sort by the column to the left, to the right";
const TIME: &str = "frozen: back, forward in the last ten minutes";
const FINE_TIME: &str = "the same by a tenth of a second";
const PICK: &str = "move in the list";
const WINDOW: &str = "window longer, shorter: 2 s, 10 s, 60 s, all";

/// Every key. Order is the order of the help page and of the footer.
pub static TABLE: &[Binding] = &[
    bind(P::Question, &[char('e')], "e", A::End, "end the target", ("end it", 9)),
    bind(P::Question, &[char('l')], "l", A::LetRun, "leave it running", ("let it run", 9)),
    bind(P::Question, &[char('c')], "c", A::Back, "stay", ("cancel", 9)),
    bind(P::Confirm, &[char('y')], "y", A::Confirm, "sample by setitimer all the same", ("use it", 9)),
    bind(P::Confirm, &[char('c')], "c", A::Back, "stay with a timer per thread", ("cancel", 9)),
    bind(P::Ending, &[char('e')], "e", A::End, "end it the hard way (SIGKILL)", ("kill it", 9)),
    bind(P::Ending, &[char('l')], "l", A::LetRun, "leave without waiting", ("leave without waiting", 8)),
    bind(P::Colon, &[code(K::Enter)], "Enter", A::Accept, "do what the line says", ("do it", 9)),
    bind(P::Colon, &[code(K::Tab)], "Tab", A::Complete, "go on with the word; the next that fits", ("complete", 8)),
    bind(P::Colon, &[code(K::Up), control('p')], "Up", A::Recall(-1), RECALL, ("older", 6)),
    bind(P::Colon, &[code(K::Down), control('n')], "Down", A::Recall(1), RECALL, NO_HINT),
    bind(P::Picker, &[code(K::Enter)], "Enter", A::Enter, "watch the selected process", ("watch it", 9)),
    bind(
        P::Picker,
        &[char('/')],
        "/",
        A::Prompt(Subject::Find),
        "type to filter; any other letter begins too",
        ("filter", 8),
    ),
    bind(P::Picker, &[code(K::Down)], "Down", A::Move(Motion::Rows(1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::Up)], "Up", A::Move(Motion::Rows(-1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::PageDown)], "PgDn", A::Move(Motion::Pages(1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::PageUp)], "PgUp", A::Move(Motion::Pages(-1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::Home)], "Home", A::Move(Motion::First), PICK, NO_HINT),
    bind(P::Picker, &[code(K::End)], "End", A::Move(Motion::Last), PICK, NO_HINT),
    bind(P::Picker, &[code(K::Backspace)], "Backspace", A::Edit(Edit::Backspace), "erase", NO_HINT),
    bind(P::Picker, &[control('w')], "Ctrl-w", A::Edit(Edit::Word), "erase a word, all", NO_HINT),
    bind(P::Picker, &[control('u')], "Ctrl-u", A::Edit(Edit::All), "erase a word, all", NO_HINT),
    bind(P::Picker, &[code(K::Esc)], "Esc", A::Back, "no filter; without one, leave", ("no filter", 7)),
    bind(P::Picker, &[char('q')], "q", A::Quit, "leave; while a filter is typed it is a letter", ("leave", 10)),
    bind(P::Save, &[code(K::Enter)], "Enter", A::Accept, "save it", ("save", 9)),
    bind(P::Save, &[code(K::Tab)], "Tab", A::SaveFormat(1), KINDS, ("format", 8)),
    bind(P::Save, &[code(K::BackTab)], "Shift-Tab", A::SaveFormat(-1), KINDS, NO_HINT),
    bind(
        P::Save,
        &[code(K::Up), code(K::Down)],
        "Up Down",
        A::SaveSpan,
        "all, or the window or span that is shown",
        ("all or shown", 7),
    ),
    bind(P::Prompt, &[code(K::Enter)], "Enter", A::Accept, "keep what the prompt says", ("keep", 9)),
    bind(P::Prompt, &[code(K::Backspace)], "Backspace", A::Edit(Edit::Backspace), "erase", NO_HINT),
    bind(P::Prompt, &[code(K::Delete), control('d')], "Del", A::Edit(Edit::Delete), "erase", NO_HINT),
    bind(P::Prompt, &[control('w')], "Ctrl-w", A::Edit(Edit::Word), "erase a word, all", ("erase word", 3)),
    bind(P::Prompt, &[control('u')], "Ctrl-u", A::Edit(Edit::All), "erase a word, all", ("erase all", 4)),
    bind(P::Prompt, &[code(K::Left), control('b')], "Left", A::Edit(Edit::Left), "move on the line", NO_HINT),
    bind(P::Prompt, &[code(K::Right), control('f')], "Right", A::Edit(Edit::Right), "move on the line", NO_HINT),
    bind(P::Prompt, &[code(K::Home), control('a')], "Home", A::Edit(Edit::Home), "move on the line", NO_HINT),
    bind(P::Prompt, &[code(K::End), control('e')], "End", A::Edit(Edit::End), "move on the line", NO_HINT),
    bind(P::Screen, &[code(K::Tab)], "Tab", A::NextPane(1), PANES, ("pane", 5)),
    bind(P::Screen, &[code(K::BackTab)], "Shift-Tab", A::NextPane(-1), PANES, NO_HINT),
    bind(P::Screen, &[char('0')], "0", A::Dashboard, SHOW, NO_HINT),
    bind(P::Screen, &[char('1')], "1", A::Alone(Pane::Top), SHOW, NO_HINT),
    bind(P::Screen, &[char('2')], "2", A::Alone(Pane::Callers), SHOW, NO_HINT),
    bind(P::Screen, &[char('3')], "3", A::Alone(Pane::Flame), SHOW, NO_HINT),
    bind(P::Screen, &[char('4')], "4", A::Alone(Pane::Source), SHOW, NO_HINT),
    bind(P::Screen, &[char('5')], "5", A::Alone(Pane::Threads), SHOW, NO_HINT),
    bind(P::Screen, &[char('6')], "6", A::Alone(Pane::Output), SHOW, NO_HINT),
    bind(P::Screen, &[char('z')], "z", A::Zoom, "this pane full, and back", ("full", 3)),
    bind(P::Panes, &[code(K::Down), char('j')], "Down j", A::Move(Motion::Rows(1)), UP_DOWN, NO_HINT),
    bind(P::Panes, &[code(K::Up), char('k')], "Up k", A::Move(Motion::Rows(-1)), UP_DOWN, NO_HINT),
    bind(P::Panes, &[code(K::Right), char('l')], "Right l", A::Move(Motion::Columns(1)), SIDE, NO_HINT),
    bind(P::Panes, &[code(K::Left), char('h')], "Left h", A::Move(Motion::Columns(-1)), SIDE, NO_HINT),
    bind(P::Panes, &[code(K::PageUp), control('u')], "PgUp Ctrl-u", A::Move(Motion::Pages(-1)), "one page up", NO_HINT),
    bind(
        P::Panes,
        &[code(K::PageDown), control('d')],
        "PgDn Ctrl-d",
        A::Move(Motion::Pages(1)),
        "one page down",
        NO_HINT,
    ),
    bind(P::Panes, &[code(K::Home), char('g')], "Home g", A::Move(Motion::First), ENDS, NO_HINT),
    bind(P::Panes, &[code(K::End), char('G')], "End G", A::Move(Motion::Last), ENDS, NO_HINT),
    bind(P::Top, &[code(K::Enter)], "Enter", A::Enter, "to its callers", ("callers", 5)),
    bind(P::Callers, &[code(K::Enter)], "Enter", A::Enter, "make this row the centre", ("to it", 8)),
    bind(P::Flame, &[code(K::Enter)], "Enter", A::Enter, "zoom into the box", ("zoom", 8)),
    bind(P::Flame, &[code(K::Backspace)], "Backspace", A::Out, "zoom out", ("out", 8)),
    bind(P::Flame, &[char('o')], "o", A::TurnFlame, "root on top, at the bottom", ("turn", 5)),
    bind(P::Flame, &[char('O')], "O", A::BottomUp, "bottom-up: leaves first, who calls them behind", ("bottom-up", 6)),
    bind(P::Flame, &[char('C')], "C", A::Colour, "colour by module, by heat", ("colour", 5)),
    bind(
        P::Threads,
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "filter everything to this thread or process, and no more",
        ("filter", 8),
    ),
    bind(P::Threads, &[char('<')], "<", A::SortColumn(-1), SORT, NO_HINT),
    bind(P::Threads, &[char('>')], ">", A::SortColumn(1), SORT, ("sort", 5)),
    bind(P::Source, &[char('a')], "a", A::TurnListing, "source, assembly, both", ("source/assembly", 8)),
    bind(
        P::Source,
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "to what the line calls, to where the instruction jumps",
        ("into the call", 7),
    ),
    bind(P::Panes, &[code(K::Backspace)], "Backspace", A::Out, BACK, ("back", 7)),
    bind(P::Panes, &[(K::Right, ALT)], "Alt-Right", A::Forward, BACK, NO_HINT),
    bind(P::Output, &[code(K::Enter)], "Enter", A::Enter, "type into the target", ("type into it", 8)),
    bind(P::Typing, &[control(']')], "Ctrl-]", A::StopTyping, "stop typing into the target", ("stop typing", 9)),
    bind(P::Screen, &[char('f')], "f", A::Prompt(Subject::Focus), PROMPTS, ("focus", 8)),
    bind(P::Screen, &[char('i')], "i", A::Prompt(Subject::Ignore), PROMPTS, ("ignore", 7)),
    bind(P::Screen, &[char('x')], "x", A::Prompt(Subject::Hide), FRAMES, NO_HINT),
    bind(P::Screen, &[char('s')], "s", A::Prompt(Subject::Show), FRAMES, NO_HINT),
    bind(P::Screen, &[char('S')], "S", A::Prompt(Subject::ShowFrom), FRAMES, NO_HINT),
    bind(P::Screen, &[char('F')], "F", A::FilterSelected(Subject::Focus), TAKE, NO_HINT),
    bind(P::Screen, &[char('I')], "I", A::FilterSelected(Subject::Ignore), TAKE, NO_HINT),
    bind(P::Screen, &[char('X')], "X", A::FilterSelected(Subject::Hide), TAKE, NO_HINT),
    bind(P::Screen, &[char('M')], "M", A::HideModule, TAKE, NO_HINT),
    bind(P::Screen, &[char('u')], "u", A::Undo, HISTORY, NO_HINT),
    bind(P::Screen, &[control('r')], "Ctrl-r", A::Redo, HISTORY, NO_HINT),
    bind(P::Screen, &[char('U')], "U", A::ClearFilters, HISTORY, NO_HINT),
    bind(P::Screen, &[char('/')], "/", A::Prompt(Subject::Find), FIND, ("find", 5)),
    bind(P::Screen, &[char('n')], "n", A::FindNext(1), FIND, NO_HINT),
    bind(P::Screen, &[char('N')], "N", A::FindNext(-1), FIND, NO_HINT),
    bind(P::Top, &[char('<')], "<", A::SortColumn(-1), SORT, NO_HINT),
    bind(P::Top, &[char('>')], ">", A::SortColumn(1), SORT, NO_HINT),
    bind(P::Top, &[char('c')], "c", A::FlatOrCum, "sort by flat, by cum", ("flat/cum", 6)),
    bind(
        P::Screen,
        &[char('b')],
        "b",
        A::Group,
        "rows by function, file, line, address, module; by thread, process",
        NO_HINT,
    ),
    bind(
        P::Screen,
        &[char('T')],
        "T",
        A::Roots,
        "threads, processes, both at the root of all stacks (tagroot)",
        NO_HINT,
    ),
    bind(P::Screen, &[char('t')], "t", A::Names, "names short, full, bare", ("names", 2)),
    bind(P::Screen, &[char('%')], "%", A::Base, "percent of the total, of what is shown", NO_HINT),
    bind(P::Screen, &[char('w')], "w", A::Window(1), WINDOW, ("window", 6)),
    bind(P::Screen, &[char('W')], "W", A::Window(-1), WINDOW, NO_HINT),
    bind(P::Screen, &[char('p')], "p", A::Clock(Clock::Prof), CLOCKS, ("PROF", 4)),
    bind(P::Screen, &[char('r')], "r", A::Clock(Clock::Real), CLOCKS, ("REAL", 4)),
    bind(P::Screen, &[char('v')], "v", A::Clock(Clock::Virtual), CLOCKS, NO_HINT),
    bind(P::Screen, &[char('E')], "E", A::Engine, "engine: a timer per thread, setitimer", NO_HINT),
    bind(P::Screen, &[char('+')], "+", A::Rate(1), RATE, NO_HINT),
    bind(P::Screen, &[char('-')], "-", A::Rate(-1), RATE, NO_HINT),
    bind(P::Screen, &[char('R')], "R", A::Reset, "forget this clock's totals", NO_HINT),
    bind(P::Screen, &[char(' ')], "Space", A::Freeze, "stand still (sampling goes on), and go on", ("freeze", 7)),
    bind(P::Screen, &[char('[')], "[", A::Step { newer: false, fine: false }, TIME, NO_HINT),
    bind(P::Screen, &[char(']')], "]", A::Step { newer: true, fine: false }, TIME, NO_HINT),
    bind(P::Screen, &[char('{')], "{", A::Step { newer: false, fine: true }, FINE_TIME, NO_HINT),
    bind(P::Screen, &[char('}')], "}", A::Step { newer: true, fine: true }, FINE_TIME, NO_HINT),
    bind(P::Screen, &[char('m')], "m", A::Mark, "mark one end of a span, then the other; then none", NO_HINT),
    bind(P::Screen, &[char('d')], "d", A::Baseline, "differences from what is shown now (-base); no more", NO_HINT),
    bind(P::Screen, &[char('L')], "L", A::Losses, "account of losses and of the agent's cost", NO_HINT),
    bind(P::Screen, &[char('e')], "e", A::Save, "save a recording, a profile, a table", ("save", 2)),
    bind(P::Screen, &[char(':')], ":", A::Colon, "command line in pprof's words", ("command", 1)),
    bind(P::Screen, &[char('y')], "y", A::Copy, "copy the selected name", NO_HINT),
    bind(P::Screen, &[char('Y')], "Y", A::Why, "why the selected function has no better name", NO_HINT),
    bind(P::Everywhere, &[code(K::Esc)], "Esc", A::Back, "leave the innermost thing; never quits", ("back", 9)),
    bind(P::Everywhere, &[control('l')], "Ctrl-L", A::Redraw, "redraw, suspend", NO_HINT),
    bind(P::Everywhere, &[control('z')], "Ctrl-Z", A::Suspend, "redraw, suspend", NO_HINT),
    bind(P::Screen, &[char('?'), code(K::F(1))], "? F1", A::Help, "keys and words explained", ("help", 9)),
    bind(P::Screen, &[char('q')], "q", A::Quit, "quit; a launched target: asks, a second Ctrl-C ends it", ("quit", 10)),
    bind(
        P::Everywhere,
        &[code(K::F(10))],
        "F10",
        A::Quit,
        "quit; a launched target: asks, a second Ctrl-C ends it",
        NO_HINT,
    ),
    bind(
        P::Everywhere,
        &[control('c')],
        "Ctrl-C",
        A::Interrupt,
        "quit; a launched target: asks, a second Ctrl-C ends it",
        NO_HINT,
    ),
];

/// What `key` means in a table at the first of `places` (innermost first) that knows it.
pub fn action(table: &[Binding], places: &[Place], key: KeyEvent) -> Option<Action> {
    let pressed = (key.code, key.modifiers - KeyModifiers::SHIFT);
    let at = |place: Place| table.iter().filter(move |binding| binding.place == place);
    let mut bindings = places.iter().flat_map(|&place| at(place));
    bindings.find(|binding| binding.keys.contains(&pressed)).map(|binding| binding.action.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_place_gives_a_key_two_meanings() {
        let mut seen = HashSet::new();
        for binding in TABLE {
            for key in binding.keys.iter() {
                assert!(seen.insert((format!("{:?}", binding.place), *key)), "{} twice", binding.label);
            }
        }
    }

    #[test]
    fn inner_places_win() {
        let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        let screen = [Place::Top, Place::Panes, Place::Screen, Place::Everywhere];
        assert!(matches!(action(TABLE, &screen, key('c')), Some(Action::FlatOrCum)));
        assert!(matches!(action(TABLE, &[Place::Question, Place::Everywhere], key('c')), Some(Action::Back)));
        assert!(action(TABLE, &[Place::Prompt, Place::Everywhere], key('q')).is_none());
        let quit = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(matches!(action(TABLE, &[Place::Prompt, Place::Everywhere], quit), Some(Action::Interrupt)));
        assert!(action(TABLE, &[Place::Typing], quit).is_none());
    }

    #[test]
    fn every_key_has_words() {
        assert!(TABLE.iter().all(|binding| !binding.words.is_empty() && !binding.keys.is_empty()));
        assert!(TABLE.iter().all(|binding| binding.hint.0.is_empty() == (binding.hint.1 == 0)));
    }
}
