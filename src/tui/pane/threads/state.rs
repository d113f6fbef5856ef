//! State of the threads pane: processes and their threads as rows, folding, the selection, and the
//! visible rows.
//!
//! The selection is a thread or a process, not a row: it survives re-sorting. Nothing scrolls by
//! itself. A thread can be unfolded: its newest stack is below it, the leaf first.

use std::sync::Arc;

use crate::profile::process::ProcessId;
use crate::profile::thread::{ThreadId, ThreadState};
use crate::session::Answer;
use crate::tally::query::Pattern;
use crate::tally::query::tags::TagFilter;
use crate::tally::threads::{
    DeepestRow, FoldedRows, FrameRequest, ProcessRow, StackRow, ThreadRow, ThreadSort, ThreadTable, ThreadsQuery,
};
use crate::tui::action::Motion;

/// Samples after which the automatic selection is kept. With fewer, ranks are random.
const FIRM_SAMPLES: u64 = 20;

/// Maximum number of threads of a chain of locks whose stacks are compared.
const MAX_CHAIN: usize = 4;

/// Identity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemId {
    /// A process.
    Process(ProcessId),
    /// A thread.
    Thread(ThreadId),
    /// A function of a thread's newest stack, counted from the leaf.
    StackRow(ThreadId, usize),
    /// The deepest stack of a thread.
    DeepestStack(ThreadId),
    /// The idle threads of a process, folded into one row.
    IdleThreads(ProcessId),
    /// The ended threads of a process, folded into one row.
    EndedThreads(ProcessId),
    /// Ended processes, folded into one row.
    EndedProcesses,
}

/// Contents of a row.
#[derive(Clone, Copy, Debug)]
pub enum ListItem<'a> {
    /// A process, and whether its threads are folded.
    Process(&'a ProcessRow, bool),
    /// A thread of a process.
    Thread(&'a ThreadRow, &'a ProcessRow),
    /// A function of a thread's newest stack, counted from the leaf; `None` if there is no stack.
    StackRow(Option<&'a StackRow>, usize),
    /// The deepest stack of a thread.
    DeepestStack(&'a DeepestRow),
    /// The idle threads of a process.
    IdleThreads(FoldedRows),
    /// The ended threads of a process.
    EndedThreads(FoldedRows),
    /// Ended processes.
    EndedProcesses(FoldedRows),
}

#[derive(Clone, Copy, Debug)]
struct ItemIndex {
    item: ItemId,
    /// Index of the process in the answer.
    process: usize,
    /// Index of the thread in the process.
    thread: usize,
}

/// Result of pressing Enter on a row.
#[derive(Clone, Debug, PartialEq)]
pub enum EnterResult {
    /// Filter by this tag.
    Filter(TagFilter),
    /// Rows were unfolded.
    Unfolded,
    /// Idle threads are to be shown.
    ShowIdle,
    /// The row cannot be used as a filter.
    Nothing,
}

/// State of the threads pane.
#[derive(Debug, Default)]
pub struct ThreadsState {
    answer: Option<Arc<Answer>>,
    lines: Vec<ItemIndex>,
    /// Processes whose threads are hidden.
    folded: Vec<ProcessId>,
    query: ThreadsQuery,
    selected: Option<ItemId>,
    /// Whether the selection was made by the user or from enough samples.
    firm: bool,
    /// Current or last known row of the selection.
    row: usize,
    /// First visible row.
    offset: usize,
    /// Visible rows.
    height: usize,
}

impl ThreadsState {
    /// The query for the session.
    pub fn query(&self) -> ThreadsQuery {
        self.query.clone()
    }

    /// The sort order.
    pub fn sort(&self) -> ThreadSort {
        self.query.sort
    }

    fn threads(&self) -> Option<&ThreadTable> {
        self.answer.as_ref()?.threads.as_ref()
    }

    /// Updates rows and selection for a new answer.
    pub fn take(&mut self, answer: Arc<Answer>) {
        let samples = answer.window.samples;
        self.answer = Some(answer);
        self.follow_chain();
        self.build_rows();
        if !self.firm {
            self.row = 0;
            self.selected = self.lines.first().map(|line| line.item);
            self.firm = samples >= FIRM_SAMPLES;
        }
        self.follow();
    }

    fn build_rows(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        if let Some(threads) = self.threads() {
            // A single process has no row of its own: the header describes it.
            let single = threads.processes.len() == 1 && threads.folded.count == 0;
            for (process, row) in threads.processes.iter().enumerate() {
                if !single {
                    lines.push(ItemIndex { item: ItemId::Process(row.id), process, thread: 0 });
                    if self.folded.contains(&row.id) {
                        continue;
                    }
                }
                let own = row.threads.iter().enumerate();
                for (index, thread) in own {
                    lines.push(ItemIndex { item: ItemId::Thread(thread.id), process, thread: index });
                    if self.query.stacks_of.contains(&thread.id) {
                        let deepest = thread.deepest.as_ref().map(|_| ItemId::DeepestStack(thread.id));
                        lines.extend(deepest.map(|item| ItemIndex { item, process, thread: index }));
                        let rows = 0..thread.stack.len().max(1);
                        let item = |row| ItemId::StackRow(thread.id, row);
                        lines.extend(rows.map(|row| ItemIndex { item: item(row), process, thread: index }));
                    }
                }
                if row.idle.count > 0 {
                    lines.push(ItemIndex { item: ItemId::IdleThreads(row.id), process, thread: 0 });
                }
                if row.folded.count > 0 {
                    lines.push(ItemIndex { item: ItemId::EndedThreads(row.id), process, thread: 0 });
                }
            }
            if threads.folded.count > 0 {
                lines.push(ItemIndex { item: ItemId::EndedProcesses, process: 0, thread: 0 });
            }
        }
        self.lines = lines;
    }

    fn follow(&mut self) {
        // Usually the row is unchanged.
        let is_it = |line: &ItemIndex| Some(line.item) == self.selected;
        let there = self.lines.get(self.row).is_some_and(is_it);
        if !there && let Some(row) = self.lines.iter().position(is_it) {
            self.row = row;
        }
        self.row = self.row.min(self.lines.len().saturating_sub(1));
        // After unfolding, the first unfolded row takes the selection.
        let folds = matches!(self.selected, Some(ItemId::EndedThreads(_) | ItemId::EndedProcesses));
        if folds && !self.lines.iter().any(is_it) {
            self.selected = self.lines.get(self.row).map(|line| line.item);
        }
        self.offset = self.offset.min(self.lines.len().saturating_sub(self.height));
    }

    /// Sets the number of visible rows.
    pub fn fit(&mut self, height: usize) {
        if height != self.height {
            self.height = height;
            self.follow();
            self.reveal();
        }
    }

    /// Scrolls to the selection by the least amount.
    fn reveal(&mut self) {
        self.offset = self.offset.min(self.row).max((self.row + 1).saturating_sub(self.height.max(1)));
    }

    /// Number of rows, visible or not.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// First visible row.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether there are more rows than are visible.
    pub fn is_cut(&self) -> bool {
        self.lines.len() > self.height
    }

    fn entry(&self, index: usize) -> Option<ListItem<'_>> {
        let threads = self.threads()?;
        let line = self.lines.get(index)?;
        let process = threads.processes.get(line.process);
        Some(match line.item {
            ItemId::Process(id) => ListItem::Process(process?, self.folded.contains(&id)),
            ItemId::Thread(_) => ListItem::Thread(process?.threads.get(line.thread)?, process?),
            ItemId::StackRow(_, row) => ListItem::StackRow(process?.threads.get(line.thread)?.stack.get(row), row),
            ItemId::DeepestStack(_) => ListItem::DeepestStack(process?.threads.get(line.thread)?.deepest.as_ref()?),
            ItemId::IdleThreads(_) => ListItem::IdleThreads(process?.idle),
            ItemId::EndedThreads(_) => ListItem::EndedThreads(process?.folded),
            ItemId::EndedProcesses => ListItem::EndedProcesses(threads.folded),
        })
    }

    /// The visible rows with their indices.
    pub fn view(&self) -> impl Iterator<Item = (usize, ListItem<'_>)> {
        (self.offset..self.offset.saturating_add(self.height)).map_while(|index| Some((index, self.entry(index)?)))
    }

    /// The selected row.
    pub fn selection(&self) -> Option<(usize, ListItem<'_>)> {
        let line = self.lines.get(self.row)?;
        if Some(line.item) != self.selected {
            return None;
        }
        Some((self.row, self.entry(self.row)?))
    }

    /// Selects a row.
    pub fn select(&mut self, index: usize) {
        let index = index.min(self.lines.len().saturating_sub(1));
        let Some(line) = self.lines.get(index) else { return };
        (self.selected, self.row, self.firm) = (Some(line.item), index, true);
        self.reveal();
    }

    /// Moves the selection. Horizontal motions unfold or fold the selected row.
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
            Some(ItemId::Process(id)) => self.folded.retain(|folded| *folded != id),
            Some(ItemId::EndedThreads(id)) if !self.query.ended_threads_of.contains(&id) => {
                self.query.ended_threads_of.push(id);
            }
            Some(ItemId::EndedProcesses) => self.query.ended_processes = true,
            Some(ItemId::Thread(id)) if !self.query.stacks_of.contains(&id) => self.query.stacks_of.push(id),
            _ => return,
        }
        self.build_rows();
        self.follow();
    }

    fn fold(&mut self) {
        let Some((row, entry)) = self.selection() else { return };
        match entry {
            ListItem::Process(process, true) if process.ended && self.query.ended_processes => {
                self.query.ended_processes = false;
            }
            ListItem::Process(process, false) => {
                let id = process.id;
                self.folded.push(id);
            }
            ListItem::StackRow(..) | ListItem::DeepestStack(_) => {
                let above = self.lines[..row].iter().rposition(|line| matches!(line.item, ItemId::Thread(_)));
                return above.map_or((), |thread| self.select(thread));
            }
            ListItem::Thread(thread, _) if self.query.stacks_of.contains(&thread.id) => {
                let id = thread.id;
                self.query.stacks_of.retain(|unfolded| *unfolded != id);
            }
            ListItem::Thread(thread, process) => {
                let (id, ended) = (process.id, thread.state == ThreadState::Ended && !process.ended);
                if ended && self.query.ended_threads_of.contains(&id) {
                    self.query.ended_threads_of.retain(|unfolded| *unfolded != id);
                } else if let Some(own) = self.lines[..row].iter().rposition(|line| line.item == ItemId::Process(id)) {
                    return self.select(own);
                }
            }
            ListItem::Process(..)
            | ListItem::IdleThreads(_)
            | ListItem::EndedThreads(_)
            | ListItem::EndedProcesses(_) => return,
        }
        self.build_rows();
        self.follow();
    }

    /// Toggles folding of the selected process.
    pub fn toggle_fold(&mut self) {
        match self.selection() {
            Some((_, ListItem::Process(_, false))) => self.fold(),
            _ => self.unfold(),
        }
    }

    /// Handles Enter on the selected row.
    pub fn enter(&mut self) -> EnterResult {
        match self.tag() {
            Some(tag) => EnterResult::Filter(tag),
            None if matches!(self.selected, Some(ItemId::IdleThreads(_))) => EnterResult::ShowIdle,
            None if matches!(self.selected, Some(ItemId::EndedThreads(_) | ItemId::EndedProcesses)) => {
                self.unfold();
                EnterResult::Unfolded
            }
            None => EnterResult::Nothing,
        }
    }

    /// The tag that filters by the selected thread or process.
    pub fn tag(&self) -> Option<TagFilter> {
        match self.selection()?.1 {
            ListItem::Process(process, _) => Some(TagFilter::for_process(process.pid)),
            ListItem::Thread(thread, _) if thread.tid != 0 => Some(TagFilter::for_thread(thread.tid)),
            _ => None,
        }
    }

    /// Name of the selected thread or process.
    pub fn name(&self) -> Option<&str> {
        match self.selection()?.1 {
            ListItem::Process(process, _) => Some(&process.name),
            ListItem::Thread(thread, _) => Some(&thread.name),
            _ => None,
        }
    }

    /// Requests the frames of the deepest stack of the selected thread, or of the thread whose rows
    /// are selected. Returns false if no thread is.
    pub fn request_deepest(&mut self) -> bool {
        let Some(row) = self.selection().map(|(row, _)| row) else { return false };
        let thread = self.lines[..=row].iter().rev().find_map(|line| match line.item {
            ItemId::StackRow(..) | ItemId::DeepestStack(_) => None,
            ItemId::Thread(id) => Some(Some(id)),
            _ => Some(None),
        });
        let Some(id) = thread.flatten() else { return false };
        self.query.deepest_of = FrameRequest::One(id);
        true
    }

    /// Requests the stacks of the selected thread and of the thread for whose lock it waits; if it
    /// does not wait, of one that waits for it, or of any that waits so. Returns false without one.
    pub fn request_chain(&mut self) -> bool {
        let selected = self.selection().and_then(|(_, item)| match item {
            ListItem::Thread(thread, _) => Some(thread.id),
            _ => None,
        });
        let holder = |thread: &ThreadRow| thread.wait.as_ref().and_then(|wait| wait.holder);
        let own = self.rows().find(|thread| Some(thread.id) == selected && holder(thread).is_some());
        let waiter = own
            .or_else(|| self.rows().find(|thread| selected.is_some() && holder(thread) == selected))
            .or_else(|| self.rows().find(|thread| holder(thread).is_some()));
        let Some(first) = waiter.map(|thread| thread.id) else { return false };
        self.query.chain = vec![first];
        self.follow_chain();
        true
    }

    /// Requests the stacks of a thread that waits for a lock of this thread, and of those that hold
    /// it. Returns false without one.
    pub fn request_chain_to(&mut self, holder: u32) -> bool {
        let holds = |id: ThreadId| self.rows().any(|thread| thread.id == id && thread.tid == holder);
        let waiter = self.rows().find(|thread| thread.wait.as_ref().and_then(|wait| wait.holder).is_some_and(holds));
        let Some(first) = waiter.map(|thread| thread.id) else { return false };
        self.query.chain = vec![first];
        self.follow_chain();
        true
    }

    /// Follows the holders of locks from the first thread of the chain.
    fn follow_chain(&mut self) {
        let Some(&first) = self.query.chain.first() else { return };
        let mut chain = vec![first];
        while chain.len() < MAX_CHAIN
            && let Some(thread) = self.rows().find(|thread| chain.last() == Some(&thread.id))
            && let Some(holder) = thread.wait.as_ref().and_then(|wait| wait.holder)
            && !chain.contains(&holder)
        {
            chain.push(holder);
        }
        self.query.chain = chain;
    }

    /// The threads whose stacks are compared, each of which may wait for the next.
    pub fn chain(&self) -> Vec<&ThreadRow> {
        self.query.chain.iter().filter_map(|id| self.rows().find(|thread| thread.id == *id)).collect()
    }

    fn rows(&self) -> impl Iterator<Item = &ThreadRow> {
        self.threads().into_iter().flat_map(|threads| &threads.processes).flat_map(|process| &process.threads)
    }

    /// Whether the deepest stack of any thread is known.
    pub fn has_deepest(&self) -> bool {
        self.rows().any(|thread| thread.deepest.is_some())
    }

    /// The thread whose deepest stack was requested.
    pub fn deepest(&self) -> Option<&ThreadRow> {
        let FrameRequest::One(id) = self.query.deepest_of else { return None };
        self.rows().find(|thread| thread.id == id)
    }

    /// Full name and module of the function that the selected line shows.
    pub fn function(&self) -> Option<(&str, &str)> {
        if let ListItem::StackRow(row, _) = self.selection()?.1 {
            return row.map(|row| (row.full.as_str(), row.module.as_str()));
        }
        let load = match self.selection()?.1 {
            ListItem::Process(process, _) => &process.load,
            ListItem::Thread(thread, _) => &thread.load,
            _ => return None,
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

    /// Selects the next line in a direction that matches, around the end; whether there is one.
    /// Direction 0 looks at the selected line first.
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
            Some(ListItem::Process(process, _)) => {
                pattern.matches(&process.command) || pattern.matches(&process.pid.to_string())
            }
            Some(ListItem::StackRow(Some(row), _)) => pattern.matches(&row.short),
            Some(ListItem::Thread(thread, _)) => {
                pattern.matches(&thread.name) || pattern.matches(&thread.tid.to_string())
            }
            _ => false,
        }
    }
}
