//! State of the process picker, and the effect of keys on it. Nothing here reads a clock, a key or
//! `/proc`.

use std::collections::BTreeSet;

use crossterm::event::KeyCode;

use crate::attach::Refusal;
use crate::attach::survey::{SurveyedProcess, first_of_name, watchable_descendants};
use crate::tui::action::{Action, Motion};
use crate::tui::keys::{self, Binding, KeyContext};
use crate::tui::line_editor::LineEditor;
use crate::tui::term::input::Input;

/// Result of an input event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Watch these processes.
    Watch(Vec<u32>),
    /// Quit.
    Leave,
    /// Redraw the screen.
    Redraw,
    /// Suspend sigtop.
    Suspend,
}

/// The list of processes and its filter.
#[derive(Default)]
pub struct Picker {
    all: Vec<SurveyedProcess>,
    /// Indices of the listed processes, in order.
    shown: Vec<usize>,
    filter: LineEditor,
    /// Whether letters edit the filter.
    typing: bool,
    /// PID of the selected process.
    selected: Option<u32>,
    /// PIDs of the processes that are marked to be watched together.
    marked: BTreeSet<u32>,
    offset: usize,
    rows: usize,
    /// Whether the processes have been scanned.
    looked: bool,
    /// Whether `/proc` hides the processes of other users.
    pub(super) hides_others: bool,
    /// Whether the children of a process are watched with it.
    follows: bool,
    /// Whether the user has moved the selection; before, it stays on the first row.
    moved: bool,
}

impl Picker {
    /// Creates a list with an initial filter. `hides_others` says that `/proc` hides the processes
    /// of other users, `follows` that the children of a process are watched with it.
    pub fn new(filter: &str, hides_others: bool, follows: bool) -> Picker {
        let mut picker = Picker { hides_others, follows, ..Picker::default() };
        picker.filter.set(filter);
        picker
    }

    /// Replaces the processes. The selected process stays selected.
    pub fn set_processes(&mut self, candidates: Vec<SurveyedProcess>) {
        self.all = candidates;
        self.looked = true;
        let is_open = |pid: &u32| self.all.iter().any(|one| one.pid == *pid && one.obstacle.is_none());
        self.marked.retain(is_open);
        self.sort();
    }

    /// Sets the number of visible rows.
    pub fn fit(&mut self, rows: usize) {
        self.rows = rows.max(1);
        self.follow();
    }

    /// The filter.
    pub fn filter(&self) -> &LineEditor {
        &self.filter
    }

    /// Whether letters edit the filter.
    pub fn is_typing(&self) -> bool {
        self.typing
    }

    /// Whether the first scan is not complete.
    pub fn is_waiting(&self) -> bool {
        !self.looked
    }

    /// Number of matching processes, and of all processes.
    pub fn counts(&self) -> (usize, usize) {
        (self.shown.len(), self.all.len())
    }

    /// Number of matching processes that can be watched.
    pub fn watchable(&self) -> usize {
        self.shown.iter().filter(|&&index| self.all[index].obstacle.is_none()).count()
    }

    /// The visible processes, each with whether it is selected, and whether it is marked.
    pub fn view(&self) -> impl Iterator<Item = (&SurveyedProcess, bool, bool)> {
        let rows = self.shown.iter().skip(self.offset).take(self.rows).map(|&index| &self.all[index]);
        rows.map(|one| (one, Some(one.pid) == self.selected, self.marked.contains(&one.pid)))
    }

    /// The marked processes.
    pub fn marked(&self) -> &BTreeSet<u32> {
        &self.marked
    }

    /// Number of the processes that are watched with the selected one, because they are its
    /// descendants.
    pub fn children(&self) -> usize {
        let parent = self.selection().filter(|one| self.follows && one.obstacle.is_none());
        parent.map_or(0, |parent| watchable_descendants(parent.pid, &self.all).len())
    }

    /// The server that started the selected process as one of its workers.
    pub fn server(&self) -> Option<&SurveyedProcess> {
        let selected = self.selected.filter(|_| self.follows)?;
        let server = first_of_name(selected, &self.all);
        self.all.iter().find(|one| one.pid == server && server != selected)
    }

    /// The selected process.
    pub fn selection(&self) -> Option<&SurveyedProcess> {
        self.all.iter().find(|candidate| Some(candidate.pid) == self.selected)
    }

    /// Sorts processes that can be watched first, then by how hard the obstacle is; within each
    /// group by CPU share.
    fn sort(&mut self) {
        let wanted = self.filter.text().to_lowercase();
        let matches = |candidate: &SurveyedProcess| {
            wanted.split_whitespace().all(|word| {
                candidate.comm.to_lowercase().contains(word)
                    || candidate.command().to_lowercase().contains(word)
                    || candidate.pid.to_string().starts_with(word)
            })
        };
        self.shown = (0..self.all.len()).filter(|&index| matches(&self.all[index])).collect();
        let rank = |candidate: &SurveyedProcess| match candidate.obstacle.as_ref().map(|obstacle| obstacle.refusal) {
            None => 0,
            Some(Refusal::NotTraceable) => 1,
            Some(Refusal::Kernel) => 3,
            Some(_) => 2,
        };
        let busy = |candidate: &SurveyedProcess| std::cmp::Reverse((candidate.cpu.unwrap_or(0.0) * 10.0) as u64);
        let all = &self.all;
        self.shown.sort_by_key(|&index| (rank(&all[index]), busy(&all[index]), all[index].pid));
        let is_shown = |pid: u32| self.shown.iter().any(|&index| self.all[index].pid == pid);
        if !self.moved || !self.selected.is_some_and(is_shown) {
            let first = self.shown.first().map(|&index| self.all[index].pid);
            // Of a server that was named, the parent is proposed: its workers are watched with it.
            let is_named = |one: &&SurveyedProcess| one.obstacle.is_none() && one.comm.to_lowercase().contains(&wanted);
            let named = self.shown.iter().map(|&index| &self.all[index]).find(is_named);
            let named = named.filter(|_| !wanted.is_empty()).map(|one| one.pid);
            let proposed = named.map(|pid| if self.follows { first_of_name(pid, &self.all) } else { pid });
            self.selected = proposed.filter(|&pid| is_shown(pid)).or(first);
            self.moved = false;
        }
        self.follow();
    }

    fn place(&self) -> usize {
        self.shown.iter().position(|&index| Some(self.all[index].pid) == self.selected).unwrap_or(0)
    }

    /// Scrolls to the selection.
    fn follow(&mut self) {
        let place = self.place();
        self.offset = self.offset.min(self.shown.len().saturating_sub(self.rows)).min(place);
        self.offset = self.offset.max((place + 1).saturating_sub(self.rows.max(1)));
    }

    fn go(&mut self, motion: Motion) {
        let (place, page) = (self.place(), self.rows.max(2) as isize - 1);
        let place = match motion {
            Motion::Rows(rows) => place.saturating_add_signed(rows.into()),
            Motion::Pages(pages) => place.saturating_add_signed(isize::from(pages) * page),
            Motion::First => 0,
            Motion::Last => usize::MAX,
            Motion::Columns(_) => place,
        };
        if let Some(&index) = self.shown.get(place.min(self.shown.len().saturating_sub(1))) {
            self.selected = Some(self.all[index].pid);
            self.moved = true;
        }
        self.follow();
    }

    /// Handles an input event; `first_row` is the screen row of the first process.
    pub fn input(&mut self, table: &[Binding], input: Input, first_row: u16) -> Option<Choice> {
        match input {
            Input::Gone => return Some(Choice::Leave),
            Input::Paste(text) => self.insert(&text),
            Input::Wheel(_, _, step) => self.go(Motion::Rows(3 * i16::from(step))),
            Input::Click(_, row) => {
                let there = row.checked_sub(first_row).map(|row| usize::from(row) + self.offset);
                let there = there.filter(|_| usize::from(row) < usize::from(first_row) + self.rows);
                let index = *self.shown.get(there?)?;
                let again = self.selected == Some(self.all[index].pid);
                (self.selected, self.moved) = (Some(self.all[index].pid), true);
                if again {
                    return self.enter();
                }
            }
            Input::Key(event, _) => {
                let plain = !event.modifiers.intersects(keys::CONTROL | keys::ALT);
                match event.code {
                    KeyCode::Char(c) if plain && self.typing => self.insert(c.encode_utf8(&mut [0; 4])),
                    code => {
                        match (keys::find_action(table, &[KeyContext::Picker, KeyContext::Everywhere], event), code) {
                            // It begins a filter as other letters do.
                            (Some(Action::MarkAll), KeyCode::Char(c)) if !self.can_mark_all() => {
                                self.insert(c.encode_utf8(&mut [0; 4]));
                            }
                            (Some(action), _) => return self.act(action),
                            (None, KeyCode::Char(c)) if plain => self.insert(c.encode_utf8(&mut [0; 4])),
                            _ => {}
                        }
                    }
                }
            }
        }
        None
    }

    fn insert(&mut self, text: &str) {
        self.typing = true;
        self.filter.insert(text);
        self.sort();
    }

    fn enter(&self) -> Option<Choice> {
        if !self.marked.is_empty() {
            return Some(Choice::Watch(self.marked.iter().copied().collect()));
        }
        let selected = self.selection().filter(|candidate| candidate.obstacle.is_none())?;
        Some(Choice::Watch(vec![selected.pid]))
    }

    /// Marks the selected process, or removes its mark, and selects the next one.
    fn toggle_mark(&mut self) {
        let Some(pid) = self.selection().filter(|one| one.obstacle.is_none()).map(|one| one.pid) else { return };
        if !self.marked.remove(&pid) {
            self.marked.insert(pid);
        }
        self.go(Motion::Rows(1));
    }

    /// Whether all listed processes can be marked: those that a filter has left.
    pub fn can_mark_all(&self) -> bool {
        !self.typing && (!self.filter.characters().is_empty() || !self.marked.is_empty())
    }

    /// Marks all listed processes that can be watched. If they are marked, removes the marks.
    fn toggle_all_marks(&mut self) {
        let listed = self.shown.iter().map(|&index| &self.all[index]);
        let open: BTreeSet<u32> = listed.filter(|one| one.obstacle.is_none()).map(|one| one.pid).collect();
        if open.is_subset(&self.marked) {
            self.marked.retain(|pid| !open.contains(pid));
        } else {
            self.marked.extend(open);
        }
    }

    fn act(&mut self, action: Action) -> Option<Choice> {
        match action {
            Action::Enter => return self.enter(),
            Action::Move(motion) => {
                self.typing = false;
                self.go(motion);
            }
            Action::Mark => self.toggle_mark(),
            Action::MarkAll => self.toggle_all_marks(),
            Action::Out => {
                if let Some(server) = self.server().map(|server| server.pid) {
                    (self.selected, self.moved) = (Some(server), true);
                    self.follow();
                }
            }
            Action::Prompt(_) => self.typing = true,
            Action::Edit(edit) => {
                if self.filter.edit(edit) {
                    self.sort();
                }
                self.typing &= !self.filter.characters().is_empty();
            }
            Action::Back if !self.typing && !self.marked.is_empty() => self.marked.clear(),
            Action::Back if self.typing || !self.filter.characters().is_empty() => {
                self.filter = LineEditor::default();
                self.typing = false;
                self.sort();
            }
            Action::Back | Action::Quit | Action::Interrupt => return Some(Choice::Leave),
            Action::Redraw => return Some(Choice::Redraw),
            Action::Suspend => return Some(Choice::Suspend),
            _ => {}
        }
        None
    }
}
