//! The key table. Dispatch, footer, help page and man page read it.

use std::borrow::Cow;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::{Action, Edit, Motion, StepSize, Subject};
use super::layout::Pane;
use crate::tally::query::Sort;
use crate::wire::Clock;

/// The part of the screen in which a key has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyContext {
    /// Everywhere, except while typing into the target.
    Everywhere,
    /// The panes, and the pages over them.
    Screen,
    /// Every pane, and the pages; keys that move and scroll.
    Panes,
    /// One pane.
    Pane(Pane),
    /// The input line of a prompt.
    Prompt,
    /// The `:` line, in addition to [`KeyContext::Prompt`].
    Colon,
    /// The line that asks for a file name, in addition to [`KeyContext::Prompt`].
    Save,
    /// The question whether to quit.
    Question,
    /// The question whether to sample with setitimer.
    Confirm,
    /// The wait for a target that was asked to terminate.
    Ending,
    /// A page over the panes.
    Page,
    /// Typing into the target.
    Typing,
    /// The panes, once a new process with the name of the ended target runs.
    Successor,
    /// The list of processes.
    Picker,
}

impl KeyContext {
    /// The contexts of a pane's keys.
    pub fn of_pane(pane: Pane) -> Vec<KeyContext> {
        let typing = (pane == Pane::Output).then_some(KeyContext::Typing);
        [KeyContext::Pane(pane)].into_iter().chain(typing).collect()
    }
}

/// A key. Shift is not a modifier of a character: it selects the character.
pub type Key = (KeyCode, KeyModifiers);

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The keys, any of which triggers the action.
    pub keys: Cow<'static, [Key]>,
    /// The keys in text, separated by spaces.
    pub label: Cow<'static, str>,
    /// The context in which they trigger it.
    pub context: KeyContext,
    /// The action that they trigger.
    pub action: Action,
    /// The description for the help page. Consecutive rows with the same text are one entry there.
    pub help: &'static str,
    /// The text for the footer, and its priority (0: not in the footer).
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
    context: KeyContext,
    keys: &'static [Key],
    label: &'static str,
    action: Action,
    help: &'static str,
    hint: (&'static str, u8),
) -> Binding {
    Binding { keys: Cow::Borrowed(keys), label: Cow::Borrowed(label), context, action, help, hint }
}

use Action as A;
use KeyCode as K;
use KeyContext as P;

const NO_HINT: (&str, u8) = ("", 0);
const PANES: &str = "next, previous pane";
const SHOW: &str = "dashboard; or one pane alone: Top, Callers, Flame, Source, Threads, Output";
const UP_DOWN: &str = "down, up one row";
const SIDE: &str = "scroll a truncated name; Callers, Threads: unfold (a thread: its stacks), fold; Flame: next, previous box; Source: other side";
const ENDS: &str = "first, last row; Flame: root, leaf";
const BACK: &str = "back to the previous function, forward";
const CLOCKS: &str = "clock: CPU time (PROF), wall time (REAL), user time (VIRTUAL)";
const ALLOCATIONS: &str = "memory: allocated bytes (ALLOC); again: those not freed yet (LIVE)";
const RATE: &str = "increase, decrease the sampling frequency";
const PROMPTS: &str = "focus: keep samples that match; ignore: drop them";
const FRAMES: &str = "hide: remove frames that match; show: keep only those; show_from: start stacks there";
const TAKE: &str = "focus, ignore, hide the selected function; hide its module";
const KINDS: &str = "next, previous format";
const RECALL: &str = "older, newer line of the history";
const HISTORY: &str = "undo, redo, clear filters";
const FIND: &str = "find; next, previous match";
const SORT: &str = "sort by the column to the left, to the right";
const TIME: &str = "back, forward in the last ten minutes by a tenth of the window; 30[ makes 30 steps";
const WINDOW_TIME: &str = "the same by a whole window";
const FINE_TIME: &str = "the same in steps of 0.1 s";
const PICK: &str = "move the selection";
const WINDOW: &str = "longer, shorter window: 2 s, 10 s, 60 s, all";

/// All keys, in the order of the help page and the footer.
pub static TABLE: &[Binding] = &[
    bind(P::Question, &[char('e')], "e", A::End, "terminate the target", ("end it", 9)),
    bind(P::Question, &[char('l')], "l", A::LetRun, "detach and leave it running", ("leave it running", 9)),
    bind(P::Question, &[char('c')], "c", A::Back, "do not quit", ("cancel", 9)),
    bind(P::Confirm, &[char('y')], "y", A::Confirm, "sample with setitimer anyway", ("use it", 9)),
    bind(P::Confirm, &[char('c')], "c", A::Back, "keep one timer per thread", ("cancel", 9)),
    bind(P::Ending, &[char('e')], "e", A::End, "kill the target (SIGKILL)", ("kill it", 9)),
    bind(P::Ending, &[char('l')], "l", A::LetRun, "detach without waiting", ("leave without waiting", 8)),
    bind(
        P::Successor,
        &[char('r')],
        "r",
        A::Attach,
        "watch the new process with the name of the one that has ended",
        ("attach", 9),
    ),
    bind(P::Colon, &[code(K::Enter)], "Enter", A::Accept, "execute the command", ("execute", 9)),
    bind(P::Colon, &[code(K::Tab)], "Tab", A::Complete, "complete; again: next completion", ("complete", 8)),
    bind(P::Colon, &[code(K::Up), control('p')], "Up", A::Recall(-1), RECALL, ("older", 6)),
    bind(P::Colon, &[code(K::Down), control('n')], "Down", A::Recall(1), RECALL, NO_HINT),
    bind(
        P::Picker,
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "profile the marked processes, or the selected one; its children are profiled with it",
        ("profile", 9),
    ),
    bind(P::Picker, &[char(' ')], "Space", A::Mark, "mark a process; mark all that match the filter", ("mark", 6)),
    bind(P::Picker, &[char('a')], "a", A::MarkAll, "mark a process; mark all that match the filter", ("mark all", 5)),
    bind(P::Picker, &[code(K::Left)], "Left", A::Out, "select the server that started this worker", ("parent", 7)),
    bind(
        P::Picker,
        &[char('/')],
        "/",
        A::Prompt(Subject::Find),
        "filter; any other letter starts a filter too",
        ("filter", 8),
    ),
    bind(P::Picker, &[code(K::Down)], "Down", A::Move(Motion::Rows(1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::Up)], "Up", A::Move(Motion::Rows(-1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::PageDown)], "PgDn", A::Move(Motion::Pages(1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::PageUp)], "PgUp", A::Move(Motion::Pages(-1)), PICK, NO_HINT),
    bind(P::Picker, &[code(K::Home)], "Home", A::Move(Motion::First), PICK, NO_HINT),
    bind(P::Picker, &[code(K::End)], "End", A::Move(Motion::Last), PICK, NO_HINT),
    bind(P::Picker, &[code(K::Backspace)], "Backspace", A::Edit(Edit::Backspace), "delete a character", NO_HINT),
    bind(P::Picker, &[control('w')], "Ctrl-w", A::Edit(Edit::Word), "delete the word, the line", NO_HINT),
    bind(P::Picker, &[control('u')], "Ctrl-u", A::Edit(Edit::All), "delete the word, the line", NO_HINT),
    bind(P::Picker, &[code(K::Esc)], "Esc", A::Back, "clear the filter, or leave", ("clear filter", 7)),
    bind(P::Picker, &[char('q')], "q", A::Quit, "leave (a letter while a filter is typed)", ("leave", 10)),
    bind(P::Save, &[code(K::Enter)], "Enter", A::Accept, "save", ("save", 9)),
    bind(P::Save, &[code(K::Tab)], "Tab", A::SaveFormat(1), KINDS, ("format", 8)),
    bind(P::Save, &[code(K::BackTab)], "Shift-Tab", A::SaveFormat(-1), KINDS, NO_HINT),
    bind(
        P::Save,
        &[code(K::Up), code(K::Down)],
        "Up Down",
        A::SaveSpan,
        "save everything, or only the window or span shown",
        ("all or shown", 7),
    ),
    bind(P::Prompt, &[code(K::Enter)], "Enter", A::Accept, "apply", ("apply", 9)),
    bind(P::Prompt, &[code(K::Backspace)], "Backspace", A::Edit(Edit::Backspace), "delete a character", NO_HINT),
    bind(P::Prompt, &[code(K::Delete), control('d')], "Del", A::Edit(Edit::Delete), "delete a character", NO_HINT),
    bind(P::Prompt, &[control('w')], "Ctrl-w", A::Edit(Edit::Word), "delete the word, the line", ("delete word", 3)),
    bind(P::Prompt, &[control('u')], "Ctrl-u", A::Edit(Edit::All), "delete the word, the line", ("delete line", 4)),
    bind(P::Prompt, &[code(K::Left), control('b')], "Left", A::Edit(Edit::Left), "move the cursor", NO_HINT),
    bind(P::Prompt, &[code(K::Right), control('f')], "Right", A::Edit(Edit::Right), "move the cursor", NO_HINT),
    bind(P::Prompt, &[code(K::Home), control('a')], "Home", A::Edit(Edit::Home), "move the cursor", NO_HINT),
    bind(P::Prompt, &[code(K::End), control('e')], "End", A::Edit(Edit::End), "move the cursor", NO_HINT),
    bind(P::Screen, &[code(K::Tab)], "Tab", A::NextPane(1), PANES, ("pane", 5)),
    bind(P::Screen, &[code(K::BackTab)], "Shift-Tab", A::NextPane(-1), PANES, NO_HINT),
    bind(P::Screen, &[char('0')], "0", A::Dashboard, SHOW, NO_HINT),
    bind(P::Screen, &[char('1')], "1", A::Alone(Pane::Top), SHOW, NO_HINT),
    bind(P::Screen, &[char('2')], "2", A::Alone(Pane::Callers), SHOW, NO_HINT),
    bind(P::Screen, &[char('3')], "3", A::Alone(Pane::Flame), SHOW, NO_HINT),
    bind(P::Screen, &[char('4')], "4", A::Alone(Pane::Source), SHOW, NO_HINT),
    bind(P::Screen, &[char('5')], "5", A::Alone(Pane::Threads), SHOW, NO_HINT),
    bind(P::Screen, &[char('6')], "6", A::Alone(Pane::Output), SHOW, NO_HINT),
    bind(P::Screen, &[char('z')], "z", A::Zoom, "maximize or restore this pane", ("max", 3)),
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
    bind(
        P::Pane(Pane::Top),
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "show its details; again: its callers",
        ("details", 5),
    ),
    bind(
        P::Pane(Pane::Callers),
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "unfold or fold its callers or callees",
        ("unfold", 8),
    ),
    bind(P::Pane(Pane::Callers), &[char('c')], "c", A::Center, "center on this function", ("center", 7)),
    bind(
        P::Pane(Pane::Flame),
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "zoom in; on a folded row (⋯): unfold it, or fold it again",
        ("zoom", 8),
    ),
    bind(P::Pane(Pane::Flame), &[code(K::Backspace)], "Backspace", A::Out, "zoom out", ("out", 8)),
    bind(P::Pane(Pane::Flame), &[char('|')], "|", A::TurnFlame, "root at the top or the bottom", ("flip", 5)),
    bind(
        P::Pane(Pane::Flame),
        &[char('O')],
        "O",
        A::BottomUp,
        "bottom-up: leaves first, then their callers",
        ("bottom-up", 6),
    ),
    bind(P::Pane(Pane::Flame), &[char('C')], "C", A::Colour, "color by module or by heat", ("colour", 5)),
    bind(
        P::Pane(Pane::Threads),
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "filter by this thread or process, on or off",
        ("filter", 8),
    ),
    bind(
        P::Pane(Pane::Threads),
        &[char('K')],
        "K",
        A::DeepestStack,
        "frame sizes of the thread's deepest stack",
        ("stack", 5),
    ),
    bind(
        P::Pane(Pane::Threads),
        &[char('H')],
        "H",
        A::Holder,
        "stacks of a thread that waits for a lock and of its holder",
        NO_HINT,
    ),
    bind(P::Pane(Pane::Threads), &[char('<')], "<", A::SortColumn(-1), SORT, NO_HINT),
    bind(P::Pane(Pane::Threads), &[char('>')], ">", A::SortColumn(1), SORT, ("sort", 5)),
    bind(P::Pane(Pane::Source), &[char('a')], "a", A::TurnListing, "source, assembly or both", ("source/assembly", 8)),
    bind(
        P::Pane(Pane::Source),
        &[code(K::Enter)],
        "Enter",
        A::Enter,
        "go to the callee of the line, the target of the jump",
        ("go to callee", 7),
    ),
    bind(P::Panes, &[code(K::Backspace)], "Backspace", A::Out, BACK, ("back", 7)),
    bind(P::Panes, &[(K::Right, ALT)], "Alt-Right", A::Forward, BACK, NO_HINT),
    bind(P::Pane(Pane::Output), &[code(K::Enter)], "Enter", A::Enter, "type into the target", ("type", 8)),
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
    bind(P::Pane(Pane::Top), &[char('<')], "<", A::SortColumn(-1), SORT, NO_HINT),
    bind(P::Pane(Pane::Top), &[char('>')], ">", A::SortColumn(1), SORT, NO_HINT),
    bind(
        P::Pane(Pane::Top),
        &[(K::Char('l'), ALT)],
        "Alt-l",
        A::Sort(Sort::Latency),
        "sort by lat%: the share of the wall-clock time in which the process ran",
        NO_HINT,
    ),
    bind(P::Pane(Pane::Top), &[char('c')], "c", A::FlatOrCum, "sort by flat or by cum", ("flat/cum", 6)),
    bind(
        P::Screen,
        &[char('b')],
        "b",
        A::Group,
        "group rows by function, file, line, address, module, thread, process, title",
        NO_HINT,
    ),
    bind(
        P::Screen,
        &[char('B')],
        "B",
        A::GroupWaits,
        "what threads wait for (wall-clock time): by reason, object, holder; off",
        NO_HINT,
    ),
    bind(
        P::Screen,
        &[char('T')],
        "T",
        A::Roots,
        "thread, process, both, the wait, or the file at the root of all stacks (tagroot)",
        NO_HINT,
    ),
    bind(P::Screen, &[char('t')], "t", A::Names, "function names short, full or bare", ("names", 2)),
    bind(P::Screen, &[char('%')], "%", A::Base, "percentages of the total or of what is shown", NO_HINT),
    bind(P::Screen, &[char('Z')], "Z", A::Idle, "wall-clock time: show idle threads, or fold them", NO_HINT),
    bind(P::Screen, &[char('V')], "V", A::Kernel, "functions of the kernel, shown or hidden", NO_HINT),
    bind(
        P::Screen,
        &[char('o')],
        "o",
        A::OwnCode,
        "own code: the time of libraries and runtimes belongs to its caller, on or off",
        ("own code", 8),
    ),
    bind(P::Screen, &[char('D')], "D", A::Card, "details of the selected function, on or off", NO_HINT),
    bind(P::Screen, &[char('w')], "w", A::Window(1), WINDOW, ("window", 6)),
    bind(P::Screen, &[char('W')], "W", A::Window(-1), WINDOW, NO_HINT),
    bind(P::Screen, &[char('p')], "p", A::Clock(Clock::Prof), CLOCKS, ("CPU time", 4)),
    bind(P::Screen, &[char('r')], "r", A::Clock(Clock::Real), CLOCKS, ("wall time", 4)),
    bind(P::Screen, &[char('v')], "v", A::Clock(Clock::Virtual), CLOCKS, NO_HINT),
    bind(P::Screen, &[char('A')], "A", A::Clock(Clock::Alloc), ALLOCATIONS, ("memory", 3)),
    bind(P::Screen, &[char('E')], "E", A::Engine, "timer source: one timer per thread, setitimer", NO_HINT),
    bind(P::Screen, &[char('+')], "+", A::Rate(1), RATE, NO_HINT),
    bind(P::Screen, &[char('-')], "-", A::Rate(-1), RATE, NO_HINT),
    bind(P::Screen, &[char('R')], "R", A::Reset, "reset totals", NO_HINT),
    bind(P::Screen, &[char(' ')], "Space", A::Freeze, "pause or resume the display (sampling continues)", ("pause", 7)),
    bind(P::Screen, &[char('[')], "[", A::Step { newer: false, size: StepSize::Tenth }, TIME, NO_HINT),
    bind(P::Screen, &[char(']')], "]", A::Step { newer: true, size: StepSize::Tenth }, TIME, NO_HINT),
    bind(P::Screen, &[char('{')], "{", A::Step { newer: false, size: StepSize::Tick }, FINE_TIME, NO_HINT),
    bind(P::Screen, &[char('}')], "}", A::Step { newer: true, size: StepSize::Tick }, FINE_TIME, NO_HINT),
    bind(
        P::Screen,
        &[(K::PageUp, ALT)],
        "Alt-PgUp",
        A::Step { newer: false, size: StepSize::Window },
        WINDOW_TIME,
        NO_HINT,
    ),
    bind(
        P::Screen,
        &[(K::PageDown, ALT)],
        "Alt-PgDn",
        A::Step { newer: true, size: StepSize::Window },
        WINDOW_TIME,
        NO_HINT,
    ),
    bind(P::Screen, &[char('m')], "m", A::Mark, "mark the start, then the end of a time span; then clear it", NO_HINT),
    bind(P::Screen, &[char('d')], "d", A::Baseline, "diff against the current view, on or off", NO_HINT),
    bind(P::Screen, &[char('L')], "L", A::Losses, "lost samples and the agent's overhead", NO_HINT),
    bind(P::Screen, &[char('e')], "e", A::Save, "save a recording, a profile or a table", ("save", 2)),
    bind(P::Screen, &[char(':')], ":", A::Colon, "command line with pprof's commands", ("command", 1)),
    bind(P::Screen, &[char('y')], "y", A::Copy, "copy the selected name", NO_HINT),
    bind(P::Screen, &[char('Y')], "Y", A::Why, "explain the name of the selected function", NO_HINT),
    bind(P::Everywhere, &[code(K::Esc)], "Esc", A::Back, "close or cancel; never quits", ("back", 9)),
    bind(P::Everywhere, &[control('l')], "Ctrl-L", A::Redraw, "redraw, suspend", NO_HINT),
    bind(P::Everywhere, &[control('z')], "Ctrl-Z", A::Suspend, "redraw, suspend", NO_HINT),
    bind(P::Screen, &[char('?'), code(K::F(1))], "? F1", A::Help, "keys and commands", ("help", 9)),
    bind(
        P::Screen,
        &[char('q')],
        "q",
        A::Quit,
        "quit; asks if a launched target still runs (Ctrl-C again terminates it)",
        ("quit", 10),
    ),
    bind(
        P::Everywhere,
        &[code(K::F(10))],
        "F10",
        A::Quit,
        "quit; asks if a launched target still runs (Ctrl-C again terminates it)",
        NO_HINT,
    ),
    bind(
        P::Everywhere,
        &[control('c')],
        "Ctrl-C",
        A::Interrupt,
        "quit; asks if a launched target still runs (Ctrl-C again terminates it)",
        NO_HINT,
    ),
];

/// Returns the action of `key` in the first of `contexts` (innermost first) that binds it.
pub fn find_action(table: &[Binding], contexts: &[KeyContext], key: KeyEvent) -> Option<Action> {
    let pressed = (key.code, key.modifiers - KeyModifiers::SHIFT);
    let in_context = |context: KeyContext| table.iter().filter(move |binding| binding.context == context);
    let mut bindings = contexts.iter().flat_map(|&context| in_context(context));
    bindings.find(|binding| binding.keys.contains(&pressed)).map(|binding| binding.action.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_key_is_bound_twice_in_a_context() {
        let mut seen = HashSet::new();
        for binding in TABLE {
            for key in binding.keys.iter() {
                assert!(seen.insert((format!("{:?}", binding.context), *key)), "{} twice", binding.label);
            }
        }
    }

    #[test]
    fn inner_contexts_take_precedence() {
        let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        let screen = [KeyContext::Pane(Pane::Top), KeyContext::Panes, KeyContext::Screen, KeyContext::Everywhere];
        assert!(matches!(find_action(TABLE, &screen, key('c')), Some(Action::FlatOrCum)));
        assert!(matches!(
            find_action(TABLE, &[KeyContext::Question, KeyContext::Everywhere], key('c')),
            Some(Action::Back)
        ));
        assert!(find_action(TABLE, &[KeyContext::Prompt, KeyContext::Everywhere], key('q')).is_none());
        let quit = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(matches!(
            find_action(TABLE, &[KeyContext::Prompt, KeyContext::Everywhere], quit),
            Some(Action::Interrupt)
        ));
        assert!(find_action(TABLE, &[KeyContext::Typing], quit).is_none());
    }

    #[test]
    fn every_key_has_a_help_text() {
        assert!(TABLE.iter().all(|binding| !binding.help.is_empty() && !binding.keys.is_empty()));
        assert!(TABLE.iter().all(|binding| binding.hint.0.is_empty() == (binding.hint.1 == 0)));
    }
}
