//! What to watch, chosen from a list: its state and what keys do to it. Nothing here reads a clock, a key or `/proc`.

use crossterm::event::KeyCode;

use super::action::{Action, Motion};
use super::input::Input;
use super::keys::{self, Binding, Place};
use super::line::Line;
use crate::attach::Refusal;
use crate::attach::survey::Candidate;

/// What follows from a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Watch this process.
    Watch(u32),
    /// Watch nothing.
    Leave,
    /// Draw everything anew.
    Redraw,
    /// Stop, as a shell's job does.
    Suspend,
}

/// The list and the line that filters it.
#[derive(Default)]
pub struct Picker {
    all: Vec<Candidate>,
    /// Indices of those shown, in their order.
    shown: Vec<usize>,
    filter: Line,
    /// Letters are for the filter, whatever they do else.
    typing: bool,
    /// The process that is selected.
    selected: Option<u32>,
    offset: usize,
    rows: usize,
    /// Whether there was a look at the processes.
    looked: bool,
    /// Whether the selection was moved by hand: before, it stays on the first row.
    moved: bool,
}

impl Picker {
    /// A list that shows what matches `filter` to begin with.
    pub fn new(filter: &str) -> Picker {
        let mut picker = Picker { typing: !filter.is_empty(), ..Picker::default() };
        picker.filter.set(filter);
        picker
    }

    /// What is there now. The selected process stays selected.
    pub fn hear(&mut self, candidates: Vec<Candidate>) {
        self.all = candidates;
        self.looked = true;
        self.sort();
    }

    /// So many rows are shown.
    pub fn fit(&mut self, rows: usize) {
        self.rows = rows.max(1);
        self.follow();
    }

    /// The line that filters.
    pub fn filter(&self) -> &Line {
        &self.filter
    }

    /// Whether letters are for the filter.
    pub fn is_typing(&self) -> bool {
        self.typing
    }

    /// Whether nothing is known yet.
    pub fn is_waiting(&self) -> bool {
        !self.looked
    }

    /// Processes that match, and all.
    pub fn counts(&self) -> (usize, usize) {
        (self.shown.len(), self.all.len())
    }

    /// Processes that can be watched, of those that match.
    pub fn watchable(&self) -> usize {
        self.shown.iter().filter(|&&index| self.all[index].obstacle.is_none()).count()
    }

    /// The rows in view, and whether each is the selected one.
    pub fn view(&self) -> impl Iterator<Item = (&Candidate, bool)> {
        let rows = self.shown.iter().skip(self.offset).take(self.rows);
        rows.map(|&index| (&self.all[index], Some(self.all[index].pid) == self.selected))
    }

    /// The selected process.
    pub fn selection(&self) -> Option<&Candidate> {
        self.all.iter().find(|candidate| Some(candidate.pid) == self.selected)
    }

    /// What can be watched comes first, then what it would take least for; the busiest of each first.
    fn sort(&mut self) {
        let wanted = self.filter.text().to_lowercase();
        let matches = |candidate: &Candidate| {
            wanted.split_whitespace().all(|word| {
                candidate.comm.to_lowercase().contains(word)
                    || candidate.command().to_lowercase().contains(word)
                    || candidate.pid.to_string().starts_with(word)
            })
        };
        self.shown = (0..self.all.len()).filter(|&index| matches(&self.all[index])).collect();
        let rank = |candidate: &Candidate| match candidate.obstacle.as_ref().map(|obstacle| obstacle.refusal) {
            None => 0,
            Some(Refusal::WithoutAgent) => 1,
            Some(Refusal::Kernel) => 3,
            Some(_) => 2,
        };
        let busy = |candidate: &Candidate| std::cmp::Reverse((candidate.cpu.unwrap_or(0.0) * 10.0) as u64);
        let all = &self.all;
        self.shown.sort_by_key(|&index| (rank(&all[index]), busy(&all[index]), all[index].pid));
        let is_shown = |pid: u32| self.shown.iter().any(|&index| self.all[index].pid == pid);
        if !self.moved || !self.selected.is_some_and(is_shown) {
            self.selected = self.shown.first().map(|&index| self.all[index].pid);
            self.moved = false;
        }
        self.follow();
    }

    fn place(&self) -> usize {
        self.shown.iter().position(|&index| Some(self.all[index].pid) == self.selected).unwrap_or(0)
    }

    /// Brings the selection into view.
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

    /// What a key, a paste or the mouse does; `first_row` is the screen's row of the first process.
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
                    code => match (keys::action(table, &[Place::Picker, Place::Everywhere], event), code) {
                        (Some(action), _) => return self.act(action),
                        (None, KeyCode::Char(c)) if plain => self.insert(c.encode_utf8(&mut [0; 4])),
                        _ => {}
                    },
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
        self.selection().filter(|candidate| candidate.obstacle.is_none()).map(|candidate| Choice::Watch(candidate.pid))
    }

    fn act(&mut self, action: Action) -> Option<Choice> {
        match action {
            Action::Enter => return self.enter(),
            Action::Move(motion) => self.go(motion),
            Action::Prompt(_) => self.typing = true,
            Action::Edit(edit) => {
                if self.filter.edit(edit) {
                    self.sort();
                }
                self.typing &= !self.filter.characters().is_empty();
            }
            Action::Back if self.typing || !self.filter.characters().is_empty() => {
                self.filter = Line::default();
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
