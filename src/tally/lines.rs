//! Flat and cum of one row by source line and by address: what pprof's `-list` and `-disasm` stand on.
//!
//! A line's cum is the weight of the samples that have the row at this line anywhere on their stack, each counted once; its
//! flat that of the samples that end there, so that the flats of all lines add up to the row's. An address has as its flat
//! what ends there with the row in it, also where that ends in something inlined into the row: pprof's `-disasm` knows no
//! inlined functions either. The filters are the table's. Where rows are no functions, the lines are those of whatever is
//! in the row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::diff::{Change, Changes};
use super::grove::Grove;
use super::query::Query;
use super::rows::{RowId, Rows, without_owner};
use super::sieve::Sieve;
use super::tallier::Tallier;
use super::text::Text;
use super::ties::{Forest, Ties};
use super::weights::{AHEAD, Weights};
use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::profile::stack::{Frame, FrameId, StackId};
use crate::symbols::{FunctionId, Line, Names};

/// What a line calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// Full name: rows are merged by it.
    pub full: Text,
    /// Short name.
    pub short: Text,
    /// Weight of the samples in which this line calls it, ns.
    pub weight_ns: u64,
    /// Where the weight is the size of a difference: which.
    pub change: Option<Change>,
}

/// A call that an inlined line stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Short name of the function that makes the call.
    pub short: Text,
    /// Its source file; empty when unknown.
    pub file: Text,
    /// Line of the call; 0 when unknown.
    pub line: u32,
}

/// A source line of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineWeight {
    /// Source file, as the debug information has it; empty when unknown.
    pub file: Text,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Weight of samples that end there, ns.
    pub flat_ns: u64,
    /// Weight of samples that it is in, each counted once, ns.
    pub cum_ns: u64,
    /// What it calls, by weight, then name.
    pub callees: Vec<Callee>,
    /// Where its heaviest copy was inlined, the nearest call first; empty where it stands for itself.
    pub inlined_into: Vec<Call>,
    /// Where the weights are sizes of differences: which.
    pub changes: Option<Changes>,
}

/// An address of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressWeight {
    /// The file.
    pub module: ModuleId,
    /// The file's own address; of a call, one that lies within the instruction.
    pub address: u64,
    /// Weight of samples that end there, in the row or in what is inlined into it, ns.
    pub flat_ns: u64,
    /// Weight of samples that it is in, ns.
    pub cum_ns: u64,
    /// Where the weights are sizes of differences: which.
    pub changes: Option<Changes>,
}

/// One row by line and by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Full name of the row, as asked.
    pub full: String,
    /// Full name of the function in it: the same without a thread or process.
    pub function: Text,
    /// Its short name; empty when no sample that the filters left has it.
    pub short: Text,
    /// Last part of its module's path.
    pub module: Text,
    /// Weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// Weight of samples it is in, ns.
    pub cum_ns: u64,
    /// Where these are sizes of differences: which.
    pub changes: Option<Changes>,
    /// By file, then line. What has no line table has one entry, without file and line.
    pub lines: Vec<LineWeight>,
    /// By module, then address. Code in no file has none.
    pub addresses: Vec<AddressWeight>,
}

/// Answers `query` for the row with this full name. Who asks again and again keeps a [`Tallier`].
pub fn lines(profile: &Profile, names: &Names, query: &Query, full: &str) -> Lines {
    Tallier::default().lines(profile, names, query, full)
}

/// Index of a source file among those of the row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FileId(u32);

/// A line of a file.
type Place = (FileId, u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Tie {
    Itself,
    Line(Place),
    Code(FrameId),
    Callee(Place, RowId),
}

/// Where the lines of the centre are on every stack.
#[derive(Default)]
pub(super) struct Spots {
    centre: Option<RowId>,
    ties: Ties<Tie>,
    files: Vec<Text>,
    file_ids: HashMap<Text, FileId>,
    of_function: HashMap<FunctionId, FileId>,
    /// Weight of samples that end in a line of the centre, and at a frame that has it, ns. Of one answer.
    line_flats: HashMap<Place, u64>,
    frame_flats: HashMap<FrameId, u64>,
}

impl Spots {
    /// Gives up what was concluded about nodes from this one on.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.ties.truncate(kept);
    }

    fn place(&mut self, names: &Names, line: Line) -> Place {
        let file = *self.of_function.entry(line.function).or_insert_with(|| {
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

    /// Looks at the nodes that are new, or at all around another centre.
    pub(super) fn turn_to(&mut self, full: &str, names: &Names, forest: Forest<'_>, rows: &Rows) {
        let centre = rows.named(full);
        if centre != self.centre {
            *self = Spots { centre, ..Spots::default() };
        }
        let Some(centre) = centre else { return };
        let mut found = Vec::new();
        for all in self.ties.unseen(centre, forest).chunks(AHEAD) {
            forest.look_ahead(all);
            for &index in all {
                self.ties_at(centre, index as usize, names, forest, &mut found);
                self.ties.look(centre, index, forest, found.drain(..).map(|tie| (tie, false)));
            }
        }
    }

    /// What a node has to do with the centre.
    fn ties_at(&mut self, centre: RowId, index: usize, names: &Names, forest: Forest<'_>, found: &mut Vec<Tie>) {
        let node = forest.nodes[index];
        let (above, rows) = forest.paths.step(index, node, forest.sieve);
        let calling = innermost(node.parent, forest).filter(|_| above == centre);
        let mut caller = calling.map(|(_, line)| self.place(names, line));
        for (&row, &line) in rows.iter().zip(forest.sieve.left(node.frame)) {
            found.extend(caller.take().map(|place| Tie::Callee(place, row)));
            if row == centre {
                let place = self.place(names, line);
                found.extend([Tie::Itself, Tie::Line(place), Tie::Code(node.frame)]);
                caller = Some(place);
            }
        }
    }

    /// Finds where samples end.
    pub(super) fn end(&mut self, names: &Names, forest: Forest<'_>) {
        self.line_flats.clear();
        self.frame_flats.clear();
        let Some(centre) = self.centre else { return };
        let ends = self.ties.around().map(|node| (node, forest.weights.own_of(node)));
        let ends: Vec<(usize, u64)> = ends.filter(|&(_, weight_ns)| weight_ns != 0).collect();
        for (node, weight_ns) in ends {
            let stack = StackId::of(node);
            let Some(end) = forest.paths.lets_in(stack) else { continue };
            let Some((frame, line)) = innermost(stack, forest) else { continue };
            if forest.sieve.frame(frame).1.contains(&centre) {
                let flat_ns = self.frame_flats.entry(frame).or_default();
                *flat_ns = flat_ns.saturating_add(weight_ns);
            }
            if end == centre {
                let place = self.place(names, line);
                let flat_ns = self.line_flats.entry(place).or_default();
                *flat_ns = flat_ns.saturating_add(weight_ns);
            }
        }
    }

    /// Adds up.
    pub(super) fn told(
        &self,
        full: &str,
        (profile, names): (&Profile, &Names),
        grove: &Grove,
        sieve: &Sieve,
        weights: &Weights,
        rows: &Rows,
    ) -> Lines {
        let code = |frame: FrameId| profile.stacks.frame(grove.sight(frame).frame);
        let function = if rows.has_owners() { without_owner(full) } else { full };
        let mut told = Lines { full: full.to_owned(), function: Text::from(function), ..Lines::default() };
        let Some(centre) = self.centre else { return told };
        let mut lines: BTreeMap<Place, LineWeight> = BTreeMap::new();
        let mut addresses: BTreeMap<(ModuleId, u64), AddressWeight> = BTreeMap::new();
        // By place: the heaviest frame, of equals the first of the profile.
        let mut copies: HashMap<Place, (u64, Reverse<FrameId>, FrameId)> = HashMap::new();
        let file = |(file, _): Place| self.files[file.0 as usize].clone();
        for (tie, weight_ns, _) in self.ties.sums(weights) {
            match tie {
                Tie::Itself => told.cum_ns = weight_ns,
                Tie::Line(place) => line(&mut lines, place, file(place)).cum_ns = weight_ns,
                Tie::Callee(place, row) => {
                    let (full, short) = (rows.label(row).full.clone(), rows.label(row).short.clone());
                    line(&mut lines, place, file(place)).callees.push(Callee { full, short, weight_ns, change: None });
                }
                Tie::Code(frame) => {
                    if let Frame::Code { module, address } = code(frame) {
                        let weight = AddressWeight { module, address, flat_ns: 0, cum_ns: weight_ns, changes: None };
                        addresses.insert((module, address), weight);
                    }
                    let left = sieve.frame(frame).1.iter().zip(sieve.left(frame));
                    for (_, of_centre) in left.filter(|(row, _)| **row == centre) {
                        let Some(&file) = self.of_function.get(&of_centre.function) else { continue };
                        let place = (file, of_centre.line);
                        let this = (weight_ns, Reverse(grove.sight(frame).frame), frame);
                        let copy = copies.entry(place).or_insert(this);
                        *copy = (*copy).max(this);
                    }
                }
            }
        }
        for (&place, &flat_ns) in &self.line_flats {
            told.flat_ns = told.flat_ns.saturating_add(flat_ns);
            line(&mut lines, place, file(place)).flat_ns = flat_ns;
        }
        for (&frame, &flat_ns) in &self.frame_flats {
            if let Frame::Code { module, address } = code(frame)
                && let Some(known) = addresses.get_mut(&(module, address))
            {
                known.flat_ns = flat_ns;
            }
        }
        for (place, line) in &mut lines {
            line.callees.sort_unstable_by(|a, b| b.weight_ns.cmp(&a.weight_ns).then_with(|| a.full.cmp(&b.full)));
            if let Some(&(_, _, frame)) = copies.get(place) {
                line.inlined_into = self.inlined_into(*place, frame, names, sieve);
            }
        }
        if told.cum_ns > 0 {
            let label = rows.label(centre);
            (told.function, told.short, told.module) = (label.own_name(), label.short.clone(), label.module.clone());
        }
        told.lines = lines.into_values().collect();
        told.lines.sort_by(|a, b| a.file.cmp(&b.file));
        told.addresses = addresses.into_values().collect();
        told
    }

    /// The calls that a line of a frame was inlined into, the nearest first.
    fn inlined_into(&self, place: Place, frame: FrameId, names: &Names, sieve: &Sieve) -> Vec<Call> {
        let left = sieve.left(frame);
        let is_it = |line: &Line| self.of_function.get(&line.function) == Some(&place.0) && line.line == place.1;
        let at = left.iter().rposition(is_it).unwrap_or(0);
        let call = |line: &Line| {
            let function = names.function(line.function);
            Call {
                short: Text::from(function.short.as_str()),
                file: Text::from(function.file.as_str()),
                line: line.line,
            }
        };
        left[..at].iter().rev().map(call).collect()
    }
}

fn line(lines: &mut BTreeMap<Place, LineWeight>, place: Place, file: Text) -> &mut LineWeight {
    lines.entry(place).or_insert_with(|| LineWeight {
        file,
        line: place.1,
        flat_ns: 0,
        cum_ns: 0,
        callees: Vec::new(),
        inlined_into: Vec::new(),
        changes: None,
    })
}

/// The innermost line that is left of a stack, and its frame.
fn innermost(stack: StackId, forest: Forest<'_>) -> Option<(FrameId, Line)> {
    let mut at = stack;
    while at != StackId::EMPTY {
        let node = forest.nodes[at.index()];
        if !forest.paths.step(at.index(), node, forest.sieve).1.is_empty() {
            return forest.sieve.left(node.frame).last().map(|&line| (node.frame, line));
        }
        at = node.parent;
    }
    None
}
