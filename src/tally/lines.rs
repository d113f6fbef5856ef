//! Flat and cum of one row by source line and by address, as pprof's `-list` and `-disasm` print
//! them.
//!
//! The cum of a line is the weight of the samples that contain the row at this line, each counted
//! once. Its flat is the weight of the samples that end there, so the flats of all lines add up to
//! the row's. The flat of an address is the weight of the samples that end at the address with the
//! row in the frame, even if the innermost function is inlined into the row: pprof's `-disasm` does
//! not distinguish inlined functions either. If a row is not a function, the lines are those of all
//! functions in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::change::{Change, Changes};
use super::query::without_owner;
use super::rows::{RowId, RowTable};
use super::stacks::PREFETCH;
use super::stacks::neighbors::{Neighbors, StackIndex};
use super::stacks::owner_stacks::OwnerStacks;
use super::text::Text;
use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::profile::stack::{Frame, FrameId, StackId};
use crate::symbols::{FrameLine, FunctionId, Names};

/// A callee of a source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// The full name; rows are merged by it.
    pub full: Text,
    /// The short name.
    pub short: Text,
    /// The weight of the samples in which the line calls it, ns.
    pub weight_ns: u64,
    /// The kind of the difference, if the weight is the size of a difference.
    pub change: Option<Change>,
}

/// A call site that a line is inlined into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineCall {
    /// The short name of the calling function.
    pub short: Text,
    /// Its source file; empty if unknown.
    pub file: Text,
    /// The line of the call; 0 if unknown.
    pub line: u32,
}

/// A source line of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineWeight {
    /// The source file as the debug information names it; empty if unknown.
    pub file: Text,
    /// The source line; 0 if unknown.
    pub line: u32,
    /// The weight of samples that end there, ns.
    pub flat_ns: u64,
    /// The weight of samples that contain it, each counted once, ns.
    pub cum_ns: u64,
    /// Its callees, by weight, then name.
    pub callees: Vec<Callee>,
    /// The call sites that its heaviest copy is inlined into, the nearest first; empty if it is
    /// not inlined.
    pub inlined_into: Vec<InlineCall>,
    /// The kind of the differences, if the weights are sizes of differences.
    pub changes: Option<Changes>,
}

/// An address of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressWeight {
    /// The file that contains the code.
    pub module: ModuleId,
    /// The address in the file. That of a call lies within the instruction.
    pub address: u64,
    /// The weight of samples that end there, in the row or in a function inlined into it, ns.
    pub flat_ns: u64,
    /// The weight of samples that contain it, ns.
    pub cum_ns: u64,
    /// The kind of the differences, if the weights are sizes of differences.
    pub changes: Option<Changes>,
}

/// The lines and addresses of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowLines {
    /// The full name of the row, as the query has it.
    pub full: String,
    /// The full name of its function: the same without the owner.
    pub function: Text,
    /// Its short name; empty if no sample that the filters keep contains it.
    pub short: Text,
    /// The last component of its module's path.
    pub module: Text,
    /// The weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// The weight of samples that contain it, ns.
    pub cum_ns: u64,
    /// The kind of the differences, if the weights are sizes of differences.
    pub changes: Option<Changes>,
    /// The lines, by file, then line. Code without a line table has one entry without file and
    /// line.
    pub lines: Vec<LineWeight>,
    /// The addresses, by module, then address. Code that is in no file has none.
    pub addresses: Vec<AddressWeight>,
}

/// The index of a source file of the row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FileId(u32);

/// A line of a file.
type FileLine = (FileId, u32);

/// An item that is counted once per stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum LineItem {
    Row,
    Line(FileLine),
    Address(FrameId),
    Callee(FileLine, RowId),
}

/// The lines and addresses of one row, the center, on every stack.
#[derive(Default)]
pub(super) struct LineHits {
    center: Option<RowId>,
    neighbors: Neighbors<LineItem>,
    files: Vec<Text>,
    file_ids: HashMap<Text, FileId>,
    by_function: HashMap<FunctionId, FileId>,
    /// The weight of samples that end in a line of the row, and of those that end in a frame that
    /// contains the row, ns. Both are those of the last update.
    line_flats: HashMap<FileLine, u64>,
    frame_flats: HashMap<FrameId, u64>,
}

impl LineHits {
    /// Drops what was derived from all nodes but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.neighbors.truncate(kept);
    }

    /// Visits new nodes, or all nodes near the row if it is another one, and sums the flats.
    pub(super) fn update(&mut self, full: &str, names: &Names, stacks: StackIndex<'_>, rows: &RowTable) {
        let center = rows.find(full);
        if center != self.center {
            *self = LineHits { center, ..LineHits::default() };
        }
        let Some(center) = center else { return };
        let mut found = Vec::new();
        for nodes in self.neighbors.find_new_nodes(center, stacks).chunks(PREFETCH) {
            stacks.prefetch(nodes);
            for &node in nodes {
                self.find_items(center, node as usize, names, stacks, &mut found);
                self.neighbors.visit(center, node, stacks, found.drain(..).map(|item| (item, false)));
            }
        }
        self.sum_flats(center, names, stacks);
    }

    /// Finds the lines, addresses and callees of the row that a node adds.
    fn find_items(
        &mut self,
        center: RowId,
        index: usize,
        names: &Names,
        stacks: StackIndex<'_>,
        found: &mut Vec<LineItem>,
    ) {
        let node = stacks.nodes[index];
        let (above, rows) = stacks.facts.rows_at(index, node, stacks.filter);
        let calling = innermost_line(node.parent, stacks).filter(|_| above == center);
        let mut caller = calling.map(|(_, line)| self.file_line(names, line));
        for (&row, &line) in rows.iter().zip(stacks.filter.row_lines(node.frame)) {
            found.extend(caller.take().map(|line| LineItem::Callee(line, row)));
            if row == center {
                let line = self.file_line(names, line);
                found.extend([LineItem::Row, LineItem::Line(line), LineItem::Address(node.frame)]);
                caller = Some(line);
            }
        }
    }

    fn file_line(&mut self, names: &Names, line: FrameLine) -> FileLine {
        let file = *self.by_function.entry(line.function).or_insert_with(|| {
            let file = names.function(line.function).file.as_str();
            self.file_ids.get(file).copied().unwrap_or_else(|| {
                let id = FileId(self.files.len() as u32);
                self.files.push(Text::from(file));
                self.file_ids.insert(Text::from(file), id);
                id
            })
        });
        (file, line.line)
    }

    fn sum_flats(&mut self, center: RowId, names: &Names, stacks: StackIndex<'_>) {
        self.line_flats.clear();
        self.frame_flats.clear();
        let weighted = self.neighbors.near().map(|node| (node, stacks.weights.own_ns(node)));
        let weighted: Vec<(usize, u64)> = weighted.filter(|&(_, weight_ns)| weight_ns != 0).collect();
        for (node, weight_ns) in weighted {
            let stack = StackId::from_index(node);
            let Some(flat_row) = stacks.facts.flat_row(stack) else { continue };
            let Some((frame, line)) = innermost_line(stack, stacks) else { continue };
            if stacks.filter.frame(frame).1.contains(&center) {
                let flat_ns = self.frame_flats.entry(frame).or_default();
                *flat_ns = flat_ns.saturating_add(weight_ns);
            }
            if flat_row == center {
                let line = self.file_line(names, line);
                let flat_ns = self.line_flats.entry(line).or_default();
                *flat_ns = flat_ns.saturating_add(weight_ns);
            }
        }
    }

    /// Builds the answer from the current weights.
    pub(super) fn build(
        &self,
        full: &str,
        (profile, names): (&Profile, &Names),
        owner_stacks: &OwnerStacks,
        stacks: StackIndex<'_>,
        rows: &RowTable,
    ) -> RowLines {
        let function = if rows.has_owners() { without_owner(full) } else { full };
        let mut answer = RowLines { full: full.to_owned(), function: Text::from(function), ..RowLines::default() };
        let Some(center) = self.center else { return answer };
        let code = |frame: FrameId| profile.stacks.frame(owner_stacks.frame(frame).frame);
        let mut lines: BTreeMap<FileLine, LineWeight> = BTreeMap::new();
        let mut addresses: BTreeMap<(ModuleId, u64), AddressWeight> = BTreeMap::new();
        // The heaviest frame of each line; of equally heavy ones the first in the profile.
        let mut copies: HashMap<FileLine, (u64, Reverse<FrameId>, FrameId)> = HashMap::new();
        for (item, weight_ns, _) in self.neighbors.sums(stacks.weights) {
            match item {
                LineItem::Row => answer.cum_ns = weight_ns,
                LineItem::Line(line) => self.entry(&mut lines, line).cum_ns = weight_ns,
                LineItem::Callee(line, row) => {
                    let (full, short) = (rows.label(row).full.clone(), rows.label(row).short.clone());
                    self.entry(&mut lines, line).callees.push(Callee { full, short, weight_ns, change: None });
                }
                LineItem::Address(frame) => {
                    if let Frame::Code { module, address } = code(frame) {
                        let weight = AddressWeight { module, address, flat_ns: 0, cum_ns: weight_ns, changes: None };
                        addresses.insert((module, address), weight);
                    }
                    let frame_rows = stacks.filter.frame(frame).1.iter().zip(stacks.filter.row_lines(frame));
                    for (_, line) in frame_rows.filter(|(row, _)| **row == center) {
                        let Some(&file) = self.by_function.get(&line.function) else { continue };
                        let this = (weight_ns, Reverse(owner_stacks.frame(frame).frame), frame);
                        let copy = copies.entry((file, line.line)).or_insert(this);
                        *copy = (*copy).max(this);
                    }
                }
            }
        }
        for (&line, &flat_ns) in &self.line_flats {
            answer.flat_ns = answer.flat_ns.saturating_add(flat_ns);
            self.entry(&mut lines, line).flat_ns = flat_ns;
        }
        for (&frame, &flat_ns) in &self.frame_flats {
            if let Frame::Code { module, address } = code(frame)
                && let Some(known) = addresses.get_mut(&(module, address))
            {
                known.flat_ns = flat_ns;
            }
        }
        for (key, line) in &mut lines {
            line.callees.sort_unstable_by(|a, b| b.weight_ns.cmp(&a.weight_ns).then_with(|| a.full.cmp(&b.full)));
            if let Some(&(_, _, frame)) = copies.get(key) {
                line.inlined_into = self.call_sites(*key, stacks.filter.row_lines(frame), names);
            }
        }
        if answer.cum_ns > 0 {
            let label = rows.label(center);
            answer.function = label.own_name();
            (answer.short, answer.module) = (label.short.clone(), label.module.clone());
        }
        answer.lines = lines.into_values().collect();
        answer.lines.sort_by(|a, b| a.file.cmp(&b.file));
        answer.addresses = addresses.into_values().collect();
        answer
    }

    fn entry<'l>(&self, lines: &'l mut BTreeMap<FileLine, LineWeight>, key: FileLine) -> &'l mut LineWeight {
        lines.entry(key).or_insert_with(|| LineWeight {
            file: self.files[key.0.0 as usize].clone(),
            line: key.1,
            flat_ns: 0,
            cum_ns: 0,
            callees: Vec::new(),
            inlined_into: Vec::new(),
            changes: None,
        })
    }

    /// The call sites that a line is inlined into, the nearest first. `frame_lines` are the lines
    /// of its frame, outermost first.
    fn call_sites(&self, (file, line): FileLine, frame_lines: &[FrameLine], names: &Names) -> Vec<InlineCall> {
        let is_line = |known: &FrameLine| self.by_function.get(&known.function) == Some(&file) && known.line == line;
        let position = frame_lines.iter().rposition(is_line).unwrap_or(0);
        let call = |line: &FrameLine| {
            let function = names.function(line.function);
            InlineCall {
                short: Text::from(function.short.as_str()),
                file: Text::from(function.file.as_str()),
                line: line.line,
            }
        };
        frame_lines[..position].iter().rev().map(call).collect()
    }
}

/// The innermost line that the filters leave of a stack, and its frame.
fn innermost_line(stack: StackId, stacks: StackIndex<'_>) -> Option<(FrameId, FrameLine)> {
    let mut at = stack;
    while at != StackId::EMPTY {
        let node = stacks.nodes[at.index()];
        if !stacks.facts.rows_at(at.index(), node, stacks.filter).1.is_empty() {
            return stacks.filter.row_lines(node.frame).last().map(|&line| (node.frame, line));
        }
        at = node.parent;
    }
    None
}
