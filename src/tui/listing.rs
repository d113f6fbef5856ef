//! The Source pane as it is looked at: whether source, assembly or both are shown, which file, and where the reader stands.
//! The cursor is put on the hottest line when another function is looked at; from then on it moves by keys alone, and on
//! both sides at once.

use std::collections::HashMap;
use std::sync::Arc;

use super::action::Motion;
use super::arrows::{Arrow, arrows};
use super::scroll::Scroll;
use crate::symbols::assembly::{Code, Instruction, PlaceLine};
use crate::symbols::source::Source;
use crate::tally::diff::{Change, Changes};
use crate::tally::lines::{AddressWeight, LineWeight};
use crate::tally::query::Pattern;
use crate::tally::text::Text;
use crate::track::Answer;
use crate::track::listing::Listing;

/// Samples of a function that make its hottest line firm. Before, it is chance.
const FIRM_SAMPLES: u64 = 20;
/// Columns that a step to the side moves the text.
const PAN_STEP: u16 = 8;
/// Columns that it can be moved at most: as many as a line has.
const MAX_PAN: u16 = 500;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The source.
    #[default]
    Source,
    /// The assembly.
    Assembly,
    /// Both.
    Both,
}

/// One of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// The source.
    #[default]
    Source,
    /// The assembly.
    Assembly,
}

/// A row of the assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A copy of the function begins: index of the code.
    Copy(usize),
    /// Source line of the instruction that follows: indices of code and instruction.
    Place(usize, usize),
    /// An instruction: indices of code and instruction.
    Instruction(usize, usize),
}

/// What an instruction weighs: calls from it are found within it, so that it has several addresses. Weights may be differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowWeight {
    flat_ns: i128,
    cum_ns: i128,
    /// Those of the address that is most of it.
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

    /// The size of its flat, ns, and which difference that is, if it is one.
    pub fn flat(&self) -> (u64, Option<Change>) {
        told(self.flat_ns, self.changes.map(|changes| changes.flat))
    }

    /// The same of its cum.
    pub fn cum(&self) -> (u64, Option<Change>) {
        told(self.cum_ns, self.changes.map(|changes| changes.cum))
    }

    /// How much it stands out: cum, then flat.
    fn size(&self) -> (u128, u128) {
        (self.cum_ns.unsigned_abs(), self.flat_ns.unsigned_abs())
    }
}

fn told(ns: i128, change: Option<Change>) -> (u64, Option<Change>) {
    let size = u64::try_from(ns.unsigned_abs()).unwrap_or(u64::MAX);
    (size, change.map(|change| Change { negative: ns < 0, ..change }))
}

/// All copies of a function, as rows.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The copies, by module and address.
    pub codes: Vec<Arc<Code>>,
    /// Their rows.
    pub rows: Box<[Row]>,
    /// Jumps from row to row.
    pub arrows: Box<[Arrow]>,
    /// Rows of instructions, by code and place in it.
    of_instruction: Vec<Vec<usize>>,
}

impl Assembly {
    /// `has_text` says of which files the text is there. A line without text is worth a row where another function begins.
    fn new(codes: Vec<Arc<Code>>, has_text: impl Fn(&str) -> bool) -> Assembly {
        let mut rows = Vec::new();
        let mut jumps = Vec::new();
        let mut rows_of = Vec::with_capacity(codes.len());
        for (index, code) in codes.iter().enumerate() {
            if codes.len() > 1 {
                rows.push(Row::Copy(index));
            }
            let (mut place, mut before): (_, &[PlaceLine]) = (None, &[]);
            let mut of_instruction = Vec::with_capacity(code.instructions.len());
            for (at, instruction) in code.instructions.iter().enumerate() {
                let lines = code.place(instruction);
                if let Some(first) = lines.first().filter(|_| instruction.place != place) {
                    if has_text(&first.file) || !is_in(lines, before) {
                        rows.push(Row::Place(index, at));
                    }
                    (place, before) = (instruction.place, lines);
                }
                of_instruction.push(rows.len());
                rows.push(Row::Instruction(index, at));
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
            Row::Instruction(code, at) => Some((&self.codes[code], &self.codes[code].instructions[at])),
            Row::Copy(_) | Row::Place(..) => None,
        }
    }

    /// The instruction at a row, or the one that it is about.
    fn near(&self, row: usize) -> Option<(&Code, &Instruction)> {
        match *self.rows.get(row)? {
            Row::Instruction(code, at) | Row::Place(code, at) => {
                Some((&self.codes[code], &self.codes[code].instructions[at]))
            }
            Row::Copy(code) => Some((&self.codes[code], self.codes[code].instructions.first()?)),
        }
    }
}

/// Whether a place is in the functions that the one before it is in: its line alone is another.
fn is_in(place: &[PlaceLine], before: &[PlaceLine]) -> bool {
    let functions = |place: &[PlaceLine]| place.iter().map(|line| Arc::clone(&line.full)).collect::<Vec<_>>();
    functions(place) == functions(before)
}

/// The state of the pane.
#[derive(Clone, Debug, Default)]
pub struct ListingView {
    /// What was asked for.
    pub form: Form,
    side: Side,
    /// Full name of the row that the rest is about, and that of its function.
    full: String,
    function: Text,
    file: Option<String>,
    source: Scroll,
    assembly: Scroll,
    /// Whether the cursor was put on the hottest row for good, on each side.
    placed: (bool, bool),
    rows: Arc<Assembly>,
    /// Source files that had come when the rows were made.
    files: usize,
    /// By line of the file: index of its weight.
    of_line: HashMap<u32, usize>,
    /// By row of the assembly.
    of_row: HashMap<usize, RowWeight>,
    /// Columns by which texts are moved.
    pan: u16,
}

impl ListingView {
    /// Takes in an answer; `selected` is whether the function is there to stay.
    pub fn hear(&mut self, answer: &Answer, selected: bool) {
        if let Some(listing) = &answer.listing {
            let enough = listing.lines.cum_ns >= FIRM_SAMPLES.saturating_mul(answer.facts.period_ns);
            self.take(listing, selected && enough);
        }
    }

    /// Takes in new numbers. Until they are `firm`, the hottest line may be another one the next time.
    fn take(&mut self, listing: &Listing, firm: bool) {
        if listing.lines.full != self.full {
            let (form, heights) = (self.form, (self.source.height(), self.assembly.height()));
            *self = ListingView { form, side: self.side, full: listing.lines.full.clone(), ..ListingView::default() };
            self.source.fit(heights.0);
            self.assembly.fit(heights.1);
        }
        self.function = listing.lines.function.clone();
        if self.file.is_none() || !firm {
            self.file = heaviest_file(&listing.lines.lines).or(self.file.take());
        }
        let file = self.file.as_deref().unwrap_or_default();
        let of_file = listing.lines.lines.iter().enumerate().filter(|(_, line)| *line.file == *file && line.line > 0);
        self.of_line = of_file.map(|(index, line)| (line.line, index)).collect();
        self.take_codes(listing);
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
                self.placed.0 = firm;
            }
        }
        let hottest = self.of_row.iter().max_by_key(|&(&row, weight)| (weight.size(), std::cmp::Reverse(row)));
        if let Some((&row, _)) = hottest.filter(|_| !self.placed.1) {
            self.assembly.centre(row);
            self.placed.1 = firm;
        }
    }

    fn take_codes(&mut self, listing: &Listing) {
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

    /// The file that is shown, as the debug information calls it.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The text of the file that is shown.
    pub fn text<'a>(&self, listing: &'a Listing) -> Option<&'a Arc<Source>> {
        listing.source(self.file.as_deref()?)?.as_ref().ok()
    }

    /// The assembly.
    pub fn rows(&self) -> &Assembly {
        &self.rows
    }

    /// Where the reader stands on one side.
    pub fn scroll(&self, side: Side) -> &Scroll {
        match side {
            Side::Source => &self.source,
            Side::Assembly => &self.assembly,
        }
    }

    fn scroll_mut(&mut self, side: Side) -> &mut Scroll {
        match side {
            Side::Source => &mut self.source,
            Side::Assembly => &mut self.assembly,
        }
    }

    /// The weight of a line of the file that is shown.
    pub fn line_weight<'a>(&self, listing: &'a Listing, line: u32) -> Option<&'a LineWeight> {
        self.of_line.get(&line).and_then(|&index| listing.lines.lines.get(index))
    }

    /// What a row of the assembly weighs.
    pub fn row_weight(&self, row: usize) -> RowWeight {
        self.of_row.get(&row).copied().unwrap_or_default()
    }

    /// Columns by which texts are moved.
    pub fn pan(&self) -> u16 {
        self.pan
    }

    /// The side that has the keys, of those that can be shown.
    pub fn side(&self, listing: &Listing) -> Side {
        let (source, assembly) = (self.text(listing).is_some(), !self.rows.rows.is_empty());
        let wanted = match self.form {
            Form::Source => Side::Source,
            Form::Assembly => Side::Assembly,
            Form::Both => self.side,
        };
        match wanted {
            Side::Source if !source && assembly => Side::Assembly,
            Side::Assembly if !assembly && source => Side::Source,
            side => side,
        }
    }

    /// Whether both sides have something to show, and are to be shown.
    pub fn shows_both(&self, listing: &Listing) -> bool {
        self.form == Form::Both && self.text(listing).is_some() && !self.rows.rows.is_empty()
    }

    /// The next form.
    pub fn turn(&mut self) {
        self.form = match self.form {
            Form::Source => Form::Assembly,
            Form::Assembly => Form::Both,
            Form::Both => Form::Source,
        };
    }

    /// The views have so many rows.
    pub fn fit(&mut self, source: usize, assembly: usize) {
        self.source.fit(source);
        self.assembly.fit(assembly);
    }

    /// Moves in the side that has the keys; the other one follows.
    pub fn go(&mut self, motion: Motion, listing: &Listing) {
        let side = self.side(listing);
        if let Motion::Columns(steps) = motion {
            if self.shows_both(listing) {
                self.side = if steps > 0 { Side::Assembly } else { Side::Source };
            } else {
                let moved = i32::from(self.pan) + i32::from(steps) * i32::from(PAN_STEP);
                self.pan = moved.clamp(0, MAX_PAN.into()) as u16;
            }
            return;
        }
        self.scroll_mut(side).go(motion);
        self.link(side);
    }

    /// Puts the cursor on a row of a side, and gives that the keys.
    pub fn stand(&mut self, side: Side, row: usize) {
        self.side = side;
        self.scroll_mut(side).stand(row);
        self.link(side);
    }

    /// Moves the cursor of the other side to what is the same there.
    fn link(&mut self, side: Side) {
        match side {
            Side::Source => {
                self.placed.0 = true;
                let line = self.source.row() as u32 + 1;
                let rows = (0..self.rows.rows.len()).filter(|&row| self.line_of(row) == Some(line));
                let row = rows.max_by_key(|&row| (self.row_weight(row).size(), std::cmp::Reverse(row)));
                if let Some(row) = row {
                    self.placed.1 = true;
                    self.assembly.stand(row);
                }
            }
            Side::Assembly => {
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

    /// The line of the file that is shown that an instruction belongs to, directly or by what is inlined there.
    fn line_in_file(&self, code: &Code, at: &Instruction) -> Option<u32> {
        let file = self.file.as_deref()?;
        let place = code.place(at);
        let own = place.iter().find(|line| *line.full == *self.function && &*line.file == file && line.line > 0);
        own.or_else(|| place.iter().find(|line| &*line.file == file && line.line > 0)).map(|line| line.line)
    }

    /// The same, of a row of the assembly.
    pub fn line_of(&self, row: usize) -> Option<u32> {
        let (code, at) = self.rows.instruction(row)?;
        self.line_in_file(code, at)
    }

    /// Whether an instruction at a row belongs to the function, and not to what it is inlined into.
    pub fn is_own(&self, row: usize) -> bool {
        self.rows.instruction(row).is_none_or(|(code, at)| {
            let place = code.place(at);
            place.is_empty() || *code.full == *self.function || place.iter().any(|line| *line.full == *self.function)
        })
    }

    /// The row that the jump at the cursor goes to.
    pub fn jump(&self) -> Option<usize> {
        let (code, at) = self.rows.instruction(self.assembly.row())?;
        let (module, to) = (code.module, at.jump?);
        let is_it = |(code, at): (&Code, &Instruction)| code.module == module && at.address == to;
        (0..self.rows.rows.len()).find(|&row| self.rows.instruction(row).is_some_and(is_it))
    }

    /// Puts the cursor on the next row of the side that has the keys whose text matches, around the end; whether there is
    /// one. Direction 0 looks at the cursor's row first.
    pub fn find(&mut self, pattern: &Pattern, direction: i8, listing: &Listing) -> bool {
        let side = self.side(listing);
        let length = self.length(side, listing);
        let step = if direction < 0 { length.saturating_sub(1) } else { 1 };
        let here = self.scroll(side).row();
        let start = if direction == 0 { here } else { here + step };
        let rows = (0..length).map(|count| (start + count * step) % length);
        let found = rows.into_iter().find(|&row| self.matches(pattern, side, row, listing));
        found.inspect(|&row| self.stand(side, row)).is_some()
    }

    /// Rows of the side that has the keys whose text matches.
    pub fn count(&self, pattern: &Pattern, listing: &Listing) -> usize {
        let side = self.side(listing);
        (0..self.length(side, listing)).filter(|&row| self.matches(pattern, side, row, listing)).count()
    }

    fn length(&self, side: Side, listing: &Listing) -> usize {
        match side {
            Side::Source => self.text(listing).map_or(0, |source| source.lines.len()),
            Side::Assembly => self.rows.rows.len(),
        }
    }

    fn matches(&self, pattern: &Pattern, side: Side, row: usize, listing: &Listing) -> bool {
        match side {
            Side::Source => self.text(listing).is_some_and(|source| pattern.matches(&source.lines[row])),
            Side::Assembly => self.rows.instruction(row).is_some_and(|(_, at)| pattern.matches(&at.text)),
        }
    }
}

/// The file that has most of the weight.
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
