//! State of the source pane: whether source, assembly or both are shown, the file, and the cursors.
//! When another function is selected, the cursor moves to its hottest line. After that only keys
//! move it, in source and assembly together.

use std::collections::HashMap;
use std::sync::Arc;

use crate::session::Answer;
use crate::session::SourceListing;
use crate::symbols::assembly::{Code, Instruction, LocationLine};
use crate::symbols::source::SourceFile;
use crate::tally::change::{Change, Changes};
use crate::tally::lines::{AddressWeight, LineWeight};
use crate::tally::query::Pattern;
use crate::tally::text::Text;
use crate::tui::action::Motion;
use crate::tui::pane::source::arrows::{Arrow, arrows};
use crate::tui::scroll::Scroll;

/// Samples of a function after which its hottest line is kept. With fewer, it is random.
const FIRM_SAMPLES: u64 = 20;
/// Columns per horizontal scroll step.
const PAN_STEP: u16 = 8;
/// Maximum columns of horizontal scrolling; longer lines are cut when the file is read.
const MAX_PAN: u16 = 500;

/// The listings that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingMode {
    /// Source only.
    #[default]
    Source,
    /// Assembly only.
    Assembly,
    /// Source and assembly.
    Both,
}

/// One of the two listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingKind {
    /// The source.
    #[default]
    Source,
    /// The assembly.
    Assembly,
}

/// A row of the assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssemblyRow {
    /// Title of a copy of the function: index of the code.
    Copy(usize),
    /// Source line of the instruction that follows: indices of code and instruction.
    Location(usize, usize),
    /// An instruction: indices of code and instruction.
    Instruction(usize, usize),
}

/// Weight of an instruction. Samples of its calls have return addresses, so an instruction collects
/// several addresses. Weights may be differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowWeight {
    flat_ns: i128,
    cum_ns: i128,
    /// Changes of the heaviest address.
    changes: Option<Changes>,
    most_ns: u64,
}

impl RowWeight {
    fn add(&mut self, spot: &AddressWeight) {
        let signed = |ns: u64, change: Option<Change>| {
            i128::from(ns) * if change.is_some_and(|change| change.negative) { -1 } else { 1 }
        };
        self.flat_ns += signed(spot.flat_ns, spot.changes.map(|changes| changes.flat));
        self.cum_ns += signed(spot.cum_ns, spot.changes.map(|changes| changes.cum));
        if self.changes.is_none() || spot.cum_ns > self.most_ns {
            (self.changes, self.most_ns) = (spot.changes, spot.cum_ns);
        }
    }

    /// Absolute value of flat, ns, and its change if it is a difference.
    pub fn flat(&self) -> (u64, Option<Change>) {
        absolute(self.flat_ns, self.changes.map(|changes| changes.flat))
    }

    /// Absolute value of cum, ns, and its change if it is a difference.
    pub fn cum(&self) -> (u64, Option<Change>) {
        absolute(self.cum_ns, self.changes.map(|changes| changes.cum))
    }

    /// Key for the hottest row: cum, then flat.
    fn size(&self) -> (u128, u128) {
        (self.cum_ns.unsigned_abs(), self.flat_ns.unsigned_abs())
    }
}

fn absolute(ns: i128, change: Option<Change>) -> (u64, Option<Change>) {
    let size = u64::try_from(ns.unsigned_abs()).unwrap_or(u64::MAX);
    (size, change.map(|change| Change { negative: ns < 0, ..change }))
}

/// All copies of a function as rows.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The copies, by module and address.
    pub codes: Vec<Arc<Code>>,
    /// Their rows.
    pub rows: Box<[AssemblyRow]>,
    /// Jumps from row to row.
    pub arrows: Box<[Arrow]>,
    /// Rows of instructions, by code and index in it.
    of_instruction: Vec<Vec<usize>>,
}

impl Assembly {
    /// Builds the rows. `has_text` returns whether the text of a file is available; a source line
    /// without text gets a row only where another function begins.
    fn new(codes: Vec<Arc<Code>>, has_text: impl Fn(&str) -> bool) -> Assembly {
        let mut rows = Vec::new();
        let mut jumps = Vec::new();
        let mut rows_of = Vec::with_capacity(codes.len());
        for (index, code) in codes.iter().enumerate() {
            if codes.len() > 1 {
                rows.push(AssemblyRow::Copy(index));
            }
            let (mut place, mut before): (_, &[LocationLine]) = (None, &[]);
            let mut of_instruction = Vec::with_capacity(code.instructions.len());
            for (at, instruction) in code.instructions.iter().enumerate() {
                let lines = code.place(instruction);
                if let Some(first) = lines.first().filter(|_| instruction.place != place) {
                    if has_text(&first.file) || !is_in(lines, before) {
                        rows.push(AssemblyRow::Location(index, at));
                    }
                    (place, before) = (instruction.place, lines);
                }
                of_instruction.push(rows.len());
                rows.push(AssemblyRow::Instruction(index, at));
            }
            let jump = |(at, instruction): (usize, &Instruction)| {
                let to =
                    code.at(instruction.jump?).filter(|&to| Some(code.instructions[to].address) == instruction.jump)?;
                Some((of_instruction[at], of_instruction[to]))
            };
            jumps.extend(code.instructions.iter().enumerate().filter_map(jump));
            rows_of.push(of_instruction);
        }
        Assembly { codes, rows: rows.into(), arrows: arrows(jumps.into_iter()), of_instruction: rows_of }
    }

    /// The instruction at a row, with its code.
    pub fn instruction(&self, row: usize) -> Option<(&Code, &Instruction)> {
        match *self.rows.get(row)? {
            AssemblyRow::Instruction(code, at) => Some((&self.codes[code], &self.codes[code].instructions[at])),
            AssemblyRow::Copy(_) | AssemblyRow::Location(..) => None,
        }
    }

    /// The instruction at a row, or the one that the row belongs to.
    fn near(&self, row: usize) -> Option<(&Code, &Instruction)> {
        match *self.rows.get(row)? {
            AssemblyRow::Instruction(code, at) | AssemblyRow::Location(code, at) => {
                Some((&self.codes[code], &self.codes[code].instructions[at]))
            }
            AssemblyRow::Copy(code) => Some((&self.codes[code], self.codes[code].instructions.first()?)),
        }
    }
}

/// Whether two locations are in the same functions, so that only their lines differ.
fn is_in(place: &[LocationLine], before: &[LocationLine]) -> bool {
    let functions = |place: &[LocationLine]| place.iter().map(|line| Arc::clone(&line.full)).collect::<Vec<_>>();
    functions(place) == functions(before)
}

/// The state of the pane.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// The requested listings.
    pub mode: ListingMode,
    side: ListingKind,
    /// Full name of the selected row, and of its function.
    full: String,
    function: Text,
    file: Option<String>,
    source: Scroll,
    assembly: Scroll,
    /// Whether the cursor is final, in source and assembly.
    placed: (bool, bool),
    rows: Arc<Assembly>,
    /// Number of source files available when the rows were built.
    files: usize,
    /// Index of the weight, by line of the file.
    of_line: HashMap<u32, usize>,
    /// Weight by row of the assembly.
    of_row: HashMap<usize, RowWeight>,
    /// Columns of horizontal scrolling.
    pan: u16,
}

impl SourceState {
    /// Updates the listings for a new answer; `selected` is whether the selection is final.
    pub fn apply_answer(&mut self, answer: &Answer, selected: bool) {
        if let Some(listing) = &answer.listing {
            let enough = listing.lines.cum_ns >= FIRM_SAMPLES.saturating_mul(answer.facts.period_ns);
            self.take(listing, selected && enough);
        }
    }

    /// Updates the listings. Until a call with `firm`, the hottest line may change.
    fn take(&mut self, listing: &SourceListing, firm: bool) {
        if listing.lines.full != self.full {
            let (mode, heights) = (self.mode, (self.source.height(), self.assembly.height()));
            *self = SourceState { mode, side: self.side, full: listing.lines.full.clone(), ..SourceState::default() };
            self.source.fit(heights.0);
            self.assembly.fit(heights.1);
        }
        self.function = listing.lines.function.clone();
        let is_line_firm = firm && has_most_lines(&listing.lines.lines);
        if self.file.is_none() || !is_line_firm {
            self.file = heaviest_file(&listing.lines.lines).or(self.file.take());
        }
        let file = self.file.as_deref().unwrap_or_default();
        let of_file = listing.lines.lines.iter().enumerate().filter(|(_, line)| *line.file == *file && line.line > 0);
        self.of_line = of_file.map(|(index, line)| (line.line, index)).collect();
        self.update_codes(listing);
        self.of_row.clear();
        for spot in &listing.lines.addresses {
            let codes = self.rows.codes.iter().enumerate().filter(|(_, code)| code.module == spot.module);
            let found =
                codes.filter_map(|(index, code)| self.rows.of_instruction[index].get(code.at(spot.address)?)).next();
            if let Some(&row) = found {
                self.of_row.entry(row).or_default().add(spot);
            }
        }
        if let Some(source) = self.text(listing) {
            self.source.set_length(source.lines.len());
            let hottest = self.of_line.iter().filter(|(line, _)| **line as usize <= source.lines.len());
            let weight = |index: usize| (listing.lines.lines[index].cum_ns, listing.lines.lines[index].flat_ns);
            let hottest = hottest.max_by_key(|&(&line, &index)| (weight(index), std::cmp::Reverse(line)));
            if let Some((&line, _)) = hottest.filter(|_| !self.placed.0) {
                self.source.centre(line as usize - 1);
                self.placed.0 = is_line_firm;
            }
        }
        let hottest = self.of_row.iter().max_by_key(|&(&row, weight)| (weight.size(), std::cmp::Reverse(row)));
        if let Some((&row, _)) = hottest.filter(|_| !self.placed.1) {
            self.assembly.centre(row);
            self.placed.1 = firm;
        }
    }

    fn update_codes(&mut self, listing: &SourceListing) {
        let (known, codes) = (&self.rows.codes, &listing.codes);
        let is_known =
            known.len() == codes.len() && known.iter().zip(codes).all(|(one, other)| Arc::ptr_eq(one, other));
        if is_known && self.files == listing.sources.len() {
            return;
        }
        self.files = listing.sources.len();
        let here = self.rows.near(self.assembly.row()).map(|(code, at)| (code.module, at.address));
        self.rows = Arc::new(Assembly::new(codes.clone(), |file| matches!(listing.source(file), Some(Ok(_)))));
        let is_here =
            |row: &usize| self.rows.instruction(*row).is_some_and(|(code, at)| Some((code.module, at.address)) == here);
        let length = self.rows.rows.len();
        let row = (0..length).find(is_here).unwrap_or(0);
        self.assembly.follow(row, length);
    }

    /// The path of the shown file in the debug information.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The text of the shown file.
    pub fn text<'a>(&self, listing: &'a SourceListing) -> Option<&'a Arc<SourceFile>> {
        listing.source(self.file.as_deref()?)?.as_ref().ok()
    }

    /// The assembly.
    pub fn rows(&self) -> &Assembly {
        &self.rows
    }

    /// Cursor and visible rows of a listing.
    pub fn scroll(&self, side: ListingKind) -> &Scroll {
        match side {
            ListingKind::Source => &self.source,
            ListingKind::Assembly => &self.assembly,
        }
    }

    fn scroll_mut(&mut self, side: ListingKind) -> &mut Scroll {
        match side {
            ListingKind::Source => &mut self.source,
            ListingKind::Assembly => &mut self.assembly,
        }
    }

    /// The weight of a line of the shown file.
    pub fn line_weight<'a>(&self, listing: &'a SourceListing, line: u32) -> Option<&'a LineWeight> {
        self.of_line.get(&line).and_then(|&index| listing.lines.lines.get(index))
    }

    /// The weight of a row of the assembly.
    pub fn row_weight(&self, row: usize) -> RowWeight {
        self.of_row.get(&row).copied().unwrap_or_default()
    }

    /// Columns of horizontal scrolling.
    pub fn pan(&self) -> u16 {
        self.pan
    }

    /// The listing that has the keys, of those available.
    pub fn side(&self, listing: &SourceListing) -> ListingKind {
        let (source, assembly) = (self.text(listing).is_some(), !self.rows.rows.is_empty());
        let wanted = match self.mode {
            ListingMode::Source => ListingKind::Source,
            ListingMode::Assembly => ListingKind::Assembly,
            ListingMode::Both => self.side,
        };
        match wanted {
            ListingKind::Source if !source && assembly => ListingKind::Assembly,
            ListingKind::Assembly if !assembly && source => ListingKind::Source,
            side => side,
        }
    }

    /// Whether both listings are requested and available.
    pub fn shows_both(&self, listing: &SourceListing) -> bool {
        self.mode == ListingMode::Both && self.text(listing).is_some() && !self.rows.rows.is_empty()
    }

    /// Switches to the next mode.
    pub fn cycle_mode(&mut self) {
        self.mode = match self.mode {
            ListingMode::Source => ListingMode::Assembly,
            ListingMode::Assembly => ListingMode::Both,
            ListingMode::Both => ListingMode::Source,
        };
    }

    /// Sets the number of visible rows of both listings.
    pub fn fit(&mut self, source: usize, assembly: usize) {
        self.source.fit(source);
        self.assembly.fit(assembly);
    }

    /// Moves the cursor of the active listing; the other one follows.
    pub fn go(&mut self, motion: Motion, listing: &SourceListing) {
        let side = self.side(listing);
        if let Motion::Columns(steps) = motion {
            if self.shows_both(listing) {
                self.side = if steps > 0 { ListingKind::Assembly } else { ListingKind::Source };
            } else {
                let moved = i32::from(self.pan) + i32::from(steps) * i32::from(PAN_STEP);
                self.pan = moved.clamp(0, MAX_PAN.into()) as u16;
            }
            return;
        }
        self.scroll_mut(side).go(motion);
        self.sync_other(side);
    }

    /// Activates a listing and moves its cursor to a row.
    pub fn stand(&mut self, side: ListingKind, row: usize) {
        self.side = side;
        self.scroll_mut(side).stand(row);
        self.sync_other(side);
    }

    /// Moves the cursor of the other listing to the corresponding row.
    fn sync_other(&mut self, side: ListingKind) {
        match side {
            ListingKind::Source => {
                self.placed.0 = true;
                let line = self.source.row() as u32 + 1;
                let rows = (0..self.rows.rows.len()).filter(|&row| self.line_of(row) == Some(line));
                let row = rows.max_by_key(|&row| (self.row_weight(row).size(), std::cmp::Reverse(row)));
                if let Some(row) = row {
                    self.placed.1 = true;
                    self.assembly.stand(row);
                }
            }
            ListingKind::Assembly => {
                self.placed.1 = true;
                let near = self.rows.near(self.assembly.row());
                let line = near.and_then(|(code, at)| self.line_in_file(code, at));
                if let Some(line) = line {
                    self.placed.0 = true;
                    self.source.stand(line as usize - 1);
                }
            }
        }
    }

    /// The line of the shown file that an instruction belongs to, directly or through inlining.
    fn line_in_file(&self, code: &Code, at: &Instruction) -> Option<u32> {
        let file = self.file.as_deref()?;
        let place = code.place(at);
        let own = place.iter().find(|line| *line.full == *self.function && &*line.file == file && line.line > 0);
        own.or_else(|| place.iter().find(|line| &*line.file == file && line.line > 0)).map(|line| line.line)
    }

    /// The line of the shown file that a row of the assembly belongs to.
    pub fn line_of(&self, row: usize) -> Option<u32> {
        let (code, at) = self.rows.instruction(row)?;
        self.line_in_file(code, at)
    }

    /// Whether a row of the assembly belongs to the function and not to a function that it is
    /// inlined into.
    pub fn is_own(&self, row: usize) -> bool {
        self.rows.instruction(row).is_none_or(|(code, at)| {
            let place = code.place(at);
            place.is_empty() || *code.full == *self.function || place.iter().any(|line| *line.full == *self.function)
        })
    }

    /// The target row of the jump at the cursor.
    pub fn jump(&self) -> Option<usize> {
        let (code, at) = self.rows.instruction(self.assembly.row())?;
        let (module, to) = (code.module, at.jump?);
        let is_it = |(code, at): (&Code, &Instruction)| code.module == module && at.address == to;
        (0..self.rows.rows.len()).find(|&row| self.rows.instruction(row).is_some_and(is_it))
    }

    /// Moves the cursor to the next row of the active listing whose text matches, wrapping around
    /// at the end; returns whether there is one. Direction 0 starts at the cursor.
    pub fn find(&mut self, pattern: &Pattern, direction: i8, listing: &SourceListing) -> bool {
        let side = self.side(listing);
        let length = self.length(side, listing);
        let step = if direction < 0 { length.saturating_sub(1) } else { 1 };
        let here = self.scroll(side).row();
        let start = if direction == 0 { here } else { here + step };
        let rows = (0..length).map(|count| (start + count * step) % length);
        let found = rows.into_iter().find(|&row| self.matches(pattern, side, row, listing));
        found.inspect(|&row| self.stand(side, row)).is_some()
    }

    /// Number of rows of the active listing whose text matches.
    pub fn count(&self, pattern: &Pattern, listing: &SourceListing) -> usize {
        let side = self.side(listing);
        (0..self.length(side, listing)).filter(|&row| self.matches(pattern, side, row, listing)).count()
    }

    fn length(&self, side: ListingKind, listing: &SourceListing) -> usize {
        match side {
            ListingKind::Source => self.text(listing).map_or(0, |source| source.lines.len()),
            ListingKind::Assembly => self.rows.rows.len(),
        }
    }

    fn matches(&self, pattern: &Pattern, side: ListingKind, row: usize, listing: &SourceListing) -> bool {
        match side {
            ListingKind::Source => self.text(listing).is_some_and(|source| pattern.matches(&source.lines[row])),
            ListingKind::Assembly => self.rows.instruction(row).is_some_and(|(_, at)| pattern.matches(&at.text)),
        }
    }
}

/// Whether no line can be hotter than the hottest known one. Line tables are read after names, a
/// part of the addresses at a time.
fn has_most_lines(lines: &[LineWeight]) -> bool {
    let most = |known: bool| lines.iter().filter(|line| (line.line > 0) == known).map(|line| line.cum_ns).max();
    most(false) <= most(true)
}

/// The file with the greatest weight.
fn heaviest_file(lines: &[LineWeight]) -> Option<String> {
    let mut files: Vec<(&str, (u64, u64))> = Vec::new();
    for line in lines.iter().filter(|line| !line.file.is_empty()) {
        match files.iter_mut().find(|(file, _)| *file == &*line.file) {
            Some((_, (flat_ns, cum_ns))) => {
                *flat_ns = flat_ns.saturating_add(line.flat_ns);
                *cum_ns = cum_ns.saturating_add(line.cum_ns);
            }
            None => files.push((&line.file, (line.flat_ns, line.cum_ns))),
        }
    }
    files.into_iter().rev().max_by_key(|(_, (flat_ns, cum_ns))| (*cum_ns, *flat_ns)).map(|(file, _)| file.to_owned())
}
