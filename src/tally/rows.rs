//! The rows of all views. Frames whose [grouping](Grouping) gives them the same full name share a
//! row, whatever module or process they come from.

use std::collections::{HashMap, HashSet};

use super::query::{Grouping, without_owner};
use super::text::Text;
use crate::profile::stack::{Frame, FrameId};
use crate::symbols::{FrameLine, Function, FunctionId, Names, WaitLabel};

/// A frame as a query sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnedFrame {
    /// The frame of the profile.
    pub(crate) frame: FrameId,
    /// The frame of the thread or process that its rows belong to, where rows have an owner.
    pub(crate) owner: Option<FrameId>,
}

/// The index of a row in the [`RowTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowId(pub(super) u32);

impl RowId {
    /// No row.
    pub(crate) const NONE: RowId = RowId(u32::MAX);

    /// The index, for tables by row.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The names of a row.
pub(crate) struct RowLabel {
    /// The first function that was seen in it.
    pub(crate) function: FunctionId,
    pub(crate) full: Text,
    pub(crate) short: Text,
    /// The last component of its module's path.
    pub(crate) module: Text,
    /// The thread or process that the row belongs to, where rows have an owner; else empty.
    pub(crate) owner: Text,
    /// Whether it stands for a thread or process itself.
    pub(crate) is_owner: bool,
    /// Whether it has (or had) an own function, or stands for no function.
    pub(crate) is_own: bool,
    /// Whether views mark it as inlined. Rows of files are not marked: their names say it.
    pub(crate) shows_inline: bool,
}

impl RowLabel {
    /// The full name without the owner.
    pub(crate) fn own_name(&self) -> Text {
        match self.owner.is_empty() {
            true => self.full.clone(),
            false => Text::from(without_owner(&self.full)),
        }
    }
}

/// All rows of one grouping. The table only grows, as names do, until the grouping changes.
#[derive(Default)]
pub(crate) struct RowTable {
    grouping: Grouping,
    by_name: HashMap<Text, RowId>,
    /// The row of each function, where rows are functions.
    by_function: Vec<RowId>,
    labels: Vec<RowLabel>,
    modules: HashSet<Text>,
    /// All rows in the order of their names.
    sorted: Vec<RowId>,
    /// The position of each row in `sorted`. A name is compared when it is new, not at every sort.
    rank: Vec<u32>,
}

impl RowTable {
    /// Empties the table if rows have another grouping. Returns whether they had.
    pub(crate) fn set_grouping(&mut self, grouping: Grouping) -> bool {
        let changed = self.grouping != grouping;
        if changed {
            *self = RowTable { grouping, ..RowTable::default() };
        }
        changed
    }

    /// Returns the row of one line of a frame, and adds it if it is new. `line.inlined` must say
    /// whether the line is inlined among the lines that filters left.
    pub(crate) fn intern(
        &mut self,
        names: &Names,
        (frame, owner): (Frame, Option<&Function>),
        line: FrameLine,
    ) -> RowId {
        let function = names.function(line.function);
        if matches!(frame, Frame::Thread(_) | Frame::Process(_) | Frame::Title(_) | Frame::Recording(_)) {
            return self.add(line.function, function, (&function.full, &function.short), "", true);
        }
        if let Some(owner) = owner {
            // `without_owner` cuts at the last " [".
            let owner = owner.short.replace(" [", " (").replace(']', ")");
            let full = format!("{} [{owner}]", function.full);
            return self.add(line.function, function, (&full, &function.short), &owner, false);
        }
        if self.grouping == Grouping::Function {
            for index in self.by_function.len()..=line.function.0 as usize {
                let id = FunctionId(index as u32);
                let function = names.function(id);
                let row = self.add(id, function, (&function.full, &function.short), "", false);
                self.by_function.push(row);
            }
            return self.by_function[line.function.0 as usize];
        }
        let is_wait = matches!(frame, Frame::Wait(_));
        let (full, short) = match self.grouping {
            Grouping::WaitReason if is_wait => named_wait(WaitLabel::parse(&function.short).reason()),
            Grouping::WaitHolder if is_wait => named_wait(WaitLabel::parse(&function.short).holder()),
            Grouping::Function
            | Grouping::Thread
            | Grouping::Process
            | Grouping::Title
            | Grouping::Wait
            | Grouping::WaitReason
            | Grouping::WaitHolder => (function.full.clone(), function.short.clone()),
            Grouping::Module => module_name(frame, function),
            Grouping::File => file_name(frame, function, line.inlined),
            Grouping::Line => (
                line_name(&function.full, function, line.line, false),
                line_name(&function.short, function, line.line, true),
            ),
            Grouping::Address => address_name(frame, function, line.line),
        };
        self.add(line.function, function, (&full, &short), "", false)
    }

    fn add(
        &mut self,
        id: FunctionId,
        function: &Function,
        (full, short): (&str, &str),
        owner: &str,
        is_owner: bool,
    ) -> RowId {
        if let Some(&row) = self.by_name.get(full) {
            return row;
        }
        let row = RowId(self.labels.len() as u32);
        let module = last_component(&function.module);
        let module = self.modules.get(module).cloned().unwrap_or_else(|| {
            let module = Text::from(module);
            self.modules.insert(module.clone());
            module
        });
        let full = Text::from(full);
        let short = if *full == *short { full.clone() } else { Text::from(short) };
        self.by_name.insert(full.clone(), row);
        let (owner, shows_inline) = (Text::from(owner), self.grouping != Grouping::File);
        self.labels.push(RowLabel { function: id, full, short, module, owner, is_owner, is_own: false, shows_inline });
        row
    }

    /// Records that a row has an own function.
    pub(crate) fn mark_own(&mut self, row: RowId) {
        self.labels[row.index()].is_own = true;
    }

    /// Forgets which rows have own functions.
    pub(crate) fn forget_own(&mut self) {
        self.labels.iter_mut().for_each(|label| label.is_own = false);
    }

    /// Ranks new rows by name. Many new rows are sorted with the others, few are inserted.
    pub(crate) fn rank_new_rows(&mut self) {
        let new = self.sorted.len()..self.labels.len();
        if new.is_empty() {
            return;
        }
        let name = |row: RowId| self.labels[row.index()].full.as_str();
        if new.len() > 64 {
            self.sorted.extend(new.map(|index| RowId(index as u32)));
            self.sorted.sort_by(|&a, &b| name(a).cmp(name(b)));
        } else {
            for row in new.map(|index| RowId(index as u32)) {
                let position = self.sorted.partition_point(|&other| name(other) < name(row));
                self.sorted.insert(position, row);
            }
        }
        self.rank.resize(self.sorted.len(), 0);
        for (rank, row) in self.sorted.iter().enumerate() {
            self.rank[row.index()] = rank as u32;
        }
    }

    /// The row with this full name.
    pub(crate) fn find(&self, full: &str) -> Option<RowId> {
        self.by_name.get(full).copied()
    }

    pub(crate) fn label(&self, row: RowId) -> &RowLabel {
        &self.labels[row.index()]
    }

    /// Whether each row belongs to one thread or process.
    pub(crate) fn has_owners(&self) -> bool {
        self.grouping.owner().is_some()
    }

    /// The position of a row in the order of names.
    pub(crate) fn rank(&self, row: RowId) -> u32 {
        self.rank[row.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }
}

/// pprof's name for code that is in no file.
const UNKNOWN: &str = "<unknown>";

/// The full and the short name of a row of waits.
fn named_wait(short: String) -> (String, String) {
    (format!("wait:{short}"), short)
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// pprof's name for code of unknown source: its module in brackets.
fn bracketed_module(function: &Function) -> String {
    match last_component(&function.module) {
        "" => UNKNOWN.to_owned(),
        module => format!("[{module}]"),
    }
}

fn module_name(frame: Frame, function: &Function) -> (String, String) {
    match (frame, function.module.as_str()) {
        (Frame::Truncated | Frame::LeftOut | Frame::MemoryLimit | Frame::Wait(_), _) => {
            (function.full.clone(), function.short.clone())
        }
        (_, "") => (UNKNOWN.to_owned(), UNKNOWN.to_owned()),
        (_, path) => (path.to_owned(), last_component(path).to_owned()),
    }
}

fn file_name(frame: Frame, function: &Function, inlined: bool) -> (String, String) {
    let suffix = if inlined { " (inline)" } else { "" };
    match (frame, function.file.as_str()) {
        (Frame::Truncated | Frame::LeftOut | Frame::MemoryLimit | Frame::Wait(_), _) => {
            (function.full.clone(), function.short.clone())
        }
        (_, "") => (bracketed_module(function) + suffix, bracketed_module(function) + suffix),
        (_, path) => (format!("{path}{suffix}"), format!("{}{suffix}", last_component(path))),
    }
}

fn line_name(name: &str, function: &Function, line: u32, short: bool) -> String {
    let file = if short { last_component(&function.file) } else { &function.file };
    match (file, line) {
        ("", _) => name.to_owned(),
        (_, 0) => format!("{name} {file}"),
        _ => format!("{name} {file}:{line}"),
    }
}

fn address_name(frame: Frame, function: &Function, line: u32) -> (String, String) {
    let address = match frame {
        Frame::Code { address, .. } | Frame::Unmapped { address, .. } => address,
        Frame::Script { .. } => {
            return (
                line_name(&function.full, function, line, false),
                line_name(&function.short, function, line, true),
            );
        }
        Frame::Truncated
        | Frame::LeftOut
        | Frame::MemoryLimit
        | Frame::Wait(_)
        | Frame::Title(_)
        | Frame::Thread(_)
        | Frame::Process(_)
        | Frame::Recording(_) => {
            return (function.full.clone(), function.short.clone());
        }
    };
    let nameless = !function.has_name();
    let text = |name: &str, short: bool| match nameless {
        true => format!("{address:016x} {}", bracketed_module(function)),
        false => format!("{address:016x} {}", line_name(name, function, line, short)),
    };
    (text(&function.full, false), text(&function.short, true))
}
