//! Rows by name: what has one full name is one row, whatever module or process it comes from. What has a name is a matter
//! of the question: functions, or coarser and finer things.

use std::collections::{HashMap, HashSet};

use super::query::Group;
use super::text::Text;
use crate::profile::stack::Frame;
use crate::symbols::{Function, FunctionId, Line, Names};

/// Index of a row, before it is known which rows are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowId(pub(super) u32);

impl RowId {
    /// No row.
    pub(super) const NONE: RowId = RowId(u32::MAX);

    /// Position, for side tables.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is said of a row.
pub(super) struct Label {
    /// The first function in it that was seen.
    pub(super) function: FunctionId,
    /// Full name.
    pub(super) full: Text,
    /// Short name.
    pub(super) short: Text,
    /// Last part of its module's path.
    pub(super) module: Text,
    /// The thread or process that it is of, where rows are one's alone; else empty.
    pub(super) owner: Text,
    /// Whether it is a thread or process itself.
    pub(super) is_owner: bool,
    /// Whether it needs a mark where it is inlined: its name does not say so already.
    pub(super) takes_mark: bool,
}

impl Label {
    /// Full name without the owner.
    pub(super) fn own_name(&self) -> Text {
        match self.owner.is_empty() {
            true => self.full.clone(),
            false => Text::from(without_owner(&self.full)),
        }
    }
}

/// The full name of the function of a row that is one thread's or process's alone.
pub fn without_owner(full: &str) -> &str {
    full.rsplit_once(" [").map_or(full, |(function, _)| function)
}

/// All rows that there are names for. It only grows, as names do, until they are asked for by another group.
#[derive(Default)]
pub(super) struct Rows {
    group: Group,
    by_name: HashMap<Text, RowId>,
    /// Where rows are functions.
    of_function: Vec<RowId>,
    labels: Vec<Label>,
    modules: HashSet<Text>,
    /// In order of their names.
    sorted: Vec<RowId>,
    /// Where a row stands in `sorted`: names are compared when they are new, not at every sort.
    rank: Vec<u32>,
}

impl Rows {
    /// Turns to a group; says whether it was another one, and all rows are new.
    pub(super) fn turn_to(&mut self, group: Group) -> bool {
        let turned = self.group != group;
        if turned {
            *self = Rows { group, ..Rows::default() };
        }
        turned
    }

    /// The row of one line of a frame; whether it is inlined is a matter of the lines that are left.
    pub(super) fn of(&mut self, names: &Names, (frame, owner): (Frame, Option<&Function>), line: Line) -> RowId {
        let function = names.function(line.function);
        if matches!(frame, Frame::Thread(_) | Frame::Process(_)) {
            return self.add(line.function, function, (&function.full, &function.short), "", true);
        }
        if let Some(owner) = owner {
            // What follows the last of these brackets is the owner.
            let owner = owner.short.replace(" [", " (");
            let full = format!("{} [{owner}]", function.full);
            return self.add(line.function, function, (&full, &function.short), &owner, false);
        }
        if self.group == Group::Function {
            for index in self.of_function.len()..=line.function.0 as usize {
                let id = FunctionId(index as u32);
                let function = names.function(id);
                let row = self.row(id, function, &function.full, &function.short);
                self.of_function.push(row);
            }
            return self.of_function[line.function.0 as usize];
        }
        let (full, short) = match self.group {
            Group::Function | Group::Thread | Group::Process => (function.full.clone(), function.short.clone()),
            Group::Module => module_name(frame, function),
            Group::File => file_name(frame, function, line.inlined),
            Group::Line => {
                (placed(&function.full, function, line.line, false), placed(&function.short, function, line.line, true))
            }
            Group::Address => address_name(frame, function, line.line),
        };
        self.row(line.function, function, &full, &short)
    }

    fn row(&mut self, id: FunctionId, function: &Function, full: &str, short: &str) -> RowId {
        self.add(id, function, (full, short), "", false)
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
        let module = last_part(&function.module);
        let module = self.modules.get(module).cloned().unwrap_or_else(|| {
            let module = Text::from(module);
            self.modules.insert(module.clone());
            module
        });
        let full = Text::from(full);
        let short = if *full == *short { full.clone() } else { Text::from(short) };
        self.by_name.insert(full.clone(), row);
        let (owner, takes_mark) = (Text::from(owner), self.group != Group::File);
        self.labels.push(Label { function: id, full, short, module, owner, is_owner, takes_mark });
        row
    }

    /// Puts new rows in their places. The many that come at the start are sorted, the few that come later inserted.
    pub(super) fn sort(&mut self) {
        let fresh = self.sorted.len()..self.labels.len();
        if fresh.is_empty() {
            return;
        }
        let name = |row: RowId| self.labels[row.index()].full.as_str();
        if fresh.len() > 64 {
            self.sorted.extend(fresh.map(|index| RowId(index as u32)));
            self.sorted.sort_by(|&a, &b| name(a).cmp(name(b)));
        } else {
            for row in fresh.map(|index| RowId(index as u32)) {
                let place = self.sorted.partition_point(|&other| name(other) < name(row));
                self.sorted.insert(place, row);
            }
        }
        self.rank.resize(self.sorted.len(), 0);
        for (rank, row) in self.sorted.iter().enumerate() {
            self.rank[row.index()] = rank as u32;
        }
    }

    /// The row of this full name.
    pub(super) fn named(&self, full: &str) -> Option<RowId> {
        self.by_name.get(full).copied()
    }

    /// What is said of a row.
    pub(super) fn label(&self, row: RowId) -> &Label {
        &self.labels[row.index()]
    }

    /// Whether rows are threads' or processes' alone.
    pub(super) fn has_owners(&self) -> bool {
        self.group.owner().is_some()
    }

    /// Order of names, as numbers.
    pub(super) fn rank(&self, row: RowId) -> u32 {
        self.rank[row.index()]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }
}

/// What is in no file, and what is in a file of unknown source, as pprof calls them.
const UNKNOWN: &str = "<unknown>";

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn bracketed(function: &Function) -> String {
    match last_part(&function.module) {
        "" => UNKNOWN.to_owned(),
        module => format!("[{module}]"),
    }
}

fn module_name(frame: Frame, function: &Function) -> (String, String) {
    match (frame, function.module.as_str()) {
        (Frame::Truncated | Frame::LeftOut, _) => (function.full.clone(), function.short.clone()),
        (_, "") => (UNKNOWN.to_owned(), UNKNOWN.to_owned()),
        (_, path) => (path.to_owned(), last_part(path).to_owned()),
    }
}

fn file_name(frame: Frame, function: &Function, inlined: bool) -> (String, String) {
    let mark = if inlined { " (inline)" } else { "" };
    match (frame, function.file.as_str()) {
        (Frame::Truncated | Frame::LeftOut, _) => (function.full.clone(), function.short.clone()),
        (_, "") => (bracketed(function) + mark, bracketed(function) + mark),
        (_, path) => (format!("{path}{mark}"), format!("{}{mark}", last_part(path))),
    }
}

fn placed(name: &str, function: &Function, line: u32, short: bool) -> String {
    let file = if short { last_part(&function.file) } else { &function.file };
    match (file, line) {
        ("", _) => name.to_owned(),
        (_, 0) => format!("{name} {file}"),
        _ => format!("{name} {file}:{line}"),
    }
}

fn address_name(frame: Frame, function: &Function, line: u32) -> (String, String) {
    let address = match frame {
        Frame::Code { address, .. } | Frame::Unmapped(address) => address,
        Frame::Truncated | Frame::LeftOut | Frame::Thread(_) | Frame::Process(_) => {
            return (function.full.clone(), function.short.clone());
        }
    };
    let module = last_part(&function.module);
    let nameless = matches!(frame, Frame::Unmapped(_)) || function.full == format!("{module}+{address:#x}");
    let text = |name: &str, short: bool| match nameless {
        true => format!("{address:016x} {}", bracketed(function)),
        false => format!("{address:016x} {}", placed(name, function, line, short)),
    };
    (text(&function.full, false), text(&function.short, true))
}
