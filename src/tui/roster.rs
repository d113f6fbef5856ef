//! The threads pane as it is looked at: processes and their threads as lines, what of them is folded, which one is selected,
//! and what part is in view.
//!
//! The selection is a thread or a process, not a row: it stays when the list is sorted anew. Nothing scrolls by itself.

use std::sync::Arc;

use super::action::Motion;
use crate::profile::process::ProcessId;
use crate::profile::thread::{State, ThreadId};
use crate::tally::query::Pattern;
use crate::tally::tag::Tag;
use crate::tally::threads::{Folded, ProcessRow, ThreadRow, ThreadSort, Threads, ThreadsQuery};
use crate::track::Answer;

/// Samples from which on the selection stays where it is: before, ranks are chance.
const FIRM_SAMPLES: u64 = 20;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A process.
    Process(ProcessId),
    /// A thread.
    Thread(ThreadId),
    /// A process's ended threads, folded into one line.
    EndedThreads(ProcessId),
    /// Ended processes, likewise.
    EndedProcesses,
}

/// A line and what it shows.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A process, and whether its threads are folded.
    Process(&'a ProcessRow, bool),
    /// A thread of a process.
    Thread(&'a ThreadRow, &'a ProcessRow),
    /// A process's ended threads.
    EndedThreads(Folded),
    /// Ended processes.
    EndedProcesses(Folded),
}

#[derive(Clone, Copy, Debug)]
struct Line {
    item: Item,
    /// Where its process is among the answer's.
    process: usize,
    /// Where its thread is among the process's.
    thread: usize,
}

/// What Enter makes of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Entered {
    /// Filter by this.
    Filter(Tag),
    /// Lines were unfolded.
    Unfolded,
    /// There is nothing to filter by.
    Nothing,
}

/// The list.
#[derive(Debug, Default)]
pub struct Roster {
    answer: Option<Arc<Answer>>,
    lines: Vec<Line>,
    /// Processes whose threads are not shown.
    folded: Vec<ProcessId>,
    query: ThreadsQuery,
    selected: Option<Item>,
    /// Whether the selection was made by the user, or stands on enough samples.
    firm: bool,
    /// Where the selection is, or was when it was last seen.
    row: usize,
    /// First line in view.
    offset: usize,
    /// Lines in view.
    height: usize,
}

impl Roster {
    /// What to ask for.
    pub fn query(&self) -> ThreadsQuery {
        self.query.clone()
    }

    /// In which order.
    pub fn sort(&self) -> ThreadSort {
        self.query.sort
    }

    fn threads(&self) -> Option<&Threads> {
        self.answer.as_ref()?.threads.as_ref()
    }

    /// Takes in new numbers.
    pub fn take(&mut self, answer: Arc<Answer>) {
        let samples = answer.window.samples;
        self.answer = Some(answer);
        self.lay_out();
        if !self.firm {
            self.row = 0;
            self.selected = self.lines.first().map(|line| line.item);
            self.firm = samples >= FIRM_SAMPLES;
        }
        self.follow();
    }

    fn lay_out(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        if let Some(threads) = self.threads() {
            // Of a single process nothing needs to be said that the header does not say.
            let single = threads.processes.len() == 1 && threads.folded.count == 0;
            for (process, row) in threads.processes.iter().enumerate() {
                if !single {
                    lines.push(Line { item: Item::Process(row.id), process, thread: 0 });
                    if self.folded.contains(&row.id) {
                        continue;
                    }
                }
                let own = row.threads.iter().enumerate();
                lines.extend(own.map(|(index, thread)| Line { item: Item::Thread(thread.id), process, thread: index }));
                if row.folded.count > 0 {
                    lines.push(Line { item: Item::EndedThreads(row.id), process, thread: 0 });
                }
            }
            if threads.folded.count > 0 {
                lines.push(Line { item: Item::EndedProcesses, process: 0, thread: 0 });
            }
        }
        self.lines = lines;
    }

    fn follow(&mut self) {
        // Most often it is where it was.
        let is_it = |line: &Line| Some(line.item) == self.selected;
        let there = self.lines.get(self.row).is_some_and(is_it);
        if !there && let Some(row) = self.lines.iter().position(is_it) {
            self.row = row;
        }
        self.row = self.row.min(self.lines.len().saturating_sub(1));
        // Where a line was unfolded, what came out of it stands there.
        let folds = matches!(self.selected, Some(Item::EndedThreads(_) | Item::EndedProcesses));
        if folds && !self.lines.iter().any(is_it) {
            self.selected = self.lines.get(self.row).map(|line| line.item);
        }
        self.offset = self.offset.min(self.lines.len().saturating_sub(self.height));
    }

    /// The view has so many lines.
    pub fn fit(&mut self, height: usize) {
        if height != self.height {
            self.height = height;
            self.follow();
            self.reveal();
        }
    }

    /// Scrolls as little as it takes to see the selection.
    fn reveal(&mut self) {
        self.offset = self.offset.min(self.row).max((self.row + 1).saturating_sub(self.height.max(1)));
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// First line in view.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether there are more lines than fit into the view.
    pub fn is_cut(&self) -> bool {
        self.lines.len() > self.height
    }

    fn entry(&self, index: usize) -> Option<Entry<'_>> {
        let threads = self.threads()?;
        let line = self.lines.get(index)?;
        let process = threads.processes.get(line.process);
        Some(match line.item {
            Item::Process(id) => Entry::Process(process?, self.folded.contains(&id)),
            Item::Thread(_) => Entry::Thread(process?.threads.get(line.thread)?, process?),
            Item::EndedThreads(_) => Entry::EndedThreads(process?.folded),
            Item::EndedProcesses => Entry::EndedProcesses(threads.folded),
        })
    }

    /// The lines in view, with their indices: no other is looked at.
    pub fn view(&self) -> impl Iterator<Item = (usize, Entry<'_>)> {
        (self.offset..self.offset.saturating_add(self.height)).map_while(|index| Some((index, self.entry(index)?)))
    }

    /// The selected line.
    pub fn selection(&self) -> Option<(usize, Entry<'_>)> {
        let line = self.lines.get(self.row)?;
        if Some(line.item) != self.selected {
            return None;
        }
        Some((self.row, self.entry(self.row)?))
    }

    /// Selects a line.
    pub fn select(&mut self, index: usize) {
        let index = index.min(self.lines.len().saturating_sub(1));
        let Some(line) = self.lines.get(index) else { return };
        (self.selected, self.row, self.firm) = (Some(line.item), index, true);
        self.reveal();
    }

    /// Moves the selection; to the side, what is selected is unfolded or folded.
    pub fn go(&mut self, motion: Motion) {
        let page = self.height.saturating_sub(1).max(1);
        let target = match motion {
            Motion::Rows(rows) => self.row.saturating_add_signed(rows.into()),
            Motion::Pages(pages) => self.row.saturating_add_signed(isize::from(pages) * page as isize),
            Motion::First => 0,
            Motion::Last => self.lines.len(),
            Motion::Columns(step) if step > 0 => return self.unfold(),
            Motion::Columns(_) => return self.fold(),
        };
        self.select(target);
    }

    fn unfold(&mut self) {
        match self.selected {
            Some(Item::Process(id)) => self.folded.retain(|folded| *folded != id),
            Some(Item::EndedThreads(id)) if !self.query.ended_threads_of.contains(&id) => {
                self.query.ended_threads_of.push(id);
            }
            Some(Item::EndedProcesses) => self.query.ended_processes = true,
            _ => return,
        }
        self.lay_out();
        self.follow();
    }

    fn fold(&mut self) {
        let Some((row, entry)) = self.selection() else { return };
        match entry {
            Entry::Process(process, true) if process.ended && self.query.ended_processes => {
                self.query.ended_processes = false;
            }
            Entry::Process(process, false) => {
                let id = process.id;
                self.folded.push(id);
            }
            Entry::Thread(thread, process) => {
                let (id, ended) = (process.id, thread.state == State::Ended && !process.ended);
                if ended && self.query.ended_threads_of.contains(&id) {
                    self.query.ended_threads_of.retain(|unfolded| *unfolded != id);
                } else if let Some(own) = self.lines[..row].iter().rposition(|line| line.item == Item::Process(id)) {
                    return self.select(own);
                }
            }
            Entry::Process(..) | Entry::EndedThreads(_) | Entry::EndedProcesses(_) => return,
        }
        self.lay_out();
        self.follow();
    }

    /// Folds or unfolds the selected process.
    pub fn turn(&mut self) {
        match self.selection() {
            Some((_, Entry::Process(_, false))) => self.fold(),
            _ => self.unfold(),
        }
    }

    /// Into the selected line.
    pub fn enter(&mut self) -> Entered {
        match self.tag() {
            Some(tag) => Entered::Filter(tag),
            None if matches!(self.selected, Some(Item::EndedThreads(_) | Item::EndedProcesses)) => {
                self.unfold();
                Entered::Unfolded
            }
            None => Entered::Nothing,
        }
    }

    /// What the selected thread or process is filtered by.
    pub fn tag(&self) -> Option<Tag> {
        match self.selection()?.1 {
            Entry::Process(process, _) => Some(Tag::of_process(process.pid)),
            Entry::Thread(thread, _) if thread.tid != 0 => Some(Tag::of_thread(thread.tid)),
            _ => None,
        }
    }

    /// Name of the selected thread or process.
    pub fn name(&self) -> Option<&str> {
        match self.selection()?.1 {
            Entry::Process(process, _) => Some(&process.name),
            Entry::Thread(thread, _) => Some(&thread.name),
            _ => None,
        }
    }

    /// Full name and module of the function that the selected line shows.
    pub fn function(&self) -> Option<(&str, &str)> {
        let load = match self.selection()?.1 {
            Entry::Process(process, _) => &process.load,
            Entry::Thread(thread, _) => &thread.load,
            Entry::EndedThreads(_) | Entry::EndedProcesses(_) => return None,
        };
        (!load.top_full.is_empty()).then(|| (load.top_full.as_str(), load.top_module.as_str()))
    }

    /// Sorts by the column this many to the right.
    pub fn step_sort(&mut self, step: i8) {
        const SORTS: [ThreadSort; 6] = [
            ThreadSort::Id,
            ThreadSort::Name,
            ThreadSort::State,
            ThreadSort::Weight,
            ThreadSort::Samples,
            ThreadSort::Function,
        ];
        let at = SORTS.iter().position(|sort| *sort == self.query.sort).unwrap_or(0);
        self.query.sort = SORTS[at.saturating_add_signed(step.into()).min(SORTS.len() - 1)];
    }

    /// Selects the next line in a direction that matches, around the end; whether there is one. Direction 0 looks at the
    /// selected line first.
    pub fn find(&mut self, pattern: &Pattern, direction: i8) -> bool {
        let length = self.lines.len();
        let step = if direction < 0 { length.saturating_sub(1) } else { 1 };
        let start = if direction == 0 { self.row } else { self.row + step };
        let found =
            (0..length).map(|count| (start + count * step) % length).find(|&index| self.matches(pattern, index));
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Lines that match.
    pub fn count(&self, pattern: &Pattern) -> usize {
        (0..self.lines.len()).filter(|&index| self.matches(pattern, index)).count()
    }

    fn matches(&self, pattern: &Pattern, index: usize) -> bool {
        match self.entry(index) {
            Some(Entry::Process(process, _)) => {
                pattern.matches(&process.command) || pattern.matches(&process.pid.to_string())
            }
            Some(Entry::Thread(thread, _)) => pattern.matches(&thread.name) || pattern.matches(&thread.tid.to_string()),
            _ => false,
        }
    }
}
