//! The frame filters of a query, with pprof's semantics: whether a frame keeps a sample (focus,
//! ignore), which of its lines remain (hide, show), and whether a stack may begin at it
//! (show_from).
//!
//! A frame is pprof's *location*: its lines are the functions inlined at one address, and the
//! module is that of all of them. focus and ignore see every line, including those that hide
//! removes. hide, then show, then show_from remove lines. Own code is folded behind them: own lines
//! remain, and of the foreign ones it is known which were folded.

use super::own_functions::OwnFunctions;
use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::profile::stack::{Frame, FrameId};
use crate::symbols::{FrameLine, Function, FunctionId, Names};
use crate::tally::query::{Owner, Pattern, Query};
use crate::tally::rows::{OwnedFrame, RowId, RowTable};
use crate::wire::{KERNEL_PATH, KERNEL_START};

/// The frame matches focus (or there is no focus) and does not match ignore.
pub(crate) const FOCUSED: u8 = 1;
/// The frame matches ignore.
pub(crate) const IGNORED: u8 = 2;
/// The frame matches show_from, or there is no show_from.
pub(crate) const STARTED: u8 = 4;
/// Some of the frame remains, if only folded.
pub(crate) const PRESENT: u8 = 8;
/// A row of own code remains of the frame, and foreign frames are folded.
pub(crate) const OWN: u8 = 32;

/// The name or the file of a function matches.
const NAME: u8 = 1;
/// The module of a function matches.
const MODULE: u8 = 2;

/// The patterns of one kind of filter, and which functions match.
#[derive(Default)]
struct PatternCache {
    patterns: Vec<Pattern>,
    /// [`NAME`] and [`MODULE`] bits by function.
    matches: Vec<u8>,
}

impl PatternCache {
    /// Evaluates the patterns for new functions, or for all if the patterns have changed. Returns
    /// whether they have.
    fn update(&mut self, patterns: &[Pattern], names: &Names) -> bool {
        let changed = self.patterns != patterns;
        if changed {
            self.patterns = patterns.to_vec();
            self.matches.clear();
        }
        if !self.patterns.is_empty() {
            let any = |text: &str| self.patterns.iter().any(|pattern| pattern.matches(text));
            let (mut last, mut last_matches) = (None, false);
            for function in &names.functions()[self.matches.len()..] {
                if last != Some(&function.module) {
                    last = Some(&function.module);
                    last_matches = !function.module.is_empty() && any(&function.module);
                }
                let name = if any(&function.full) || any(&function.file) { NAME } else { 0 };
                self.matches.push(name | if last_matches { MODULE } else { 0 });
            }
        }
        changed
    }

    fn is_off(&self) -> bool {
        self.patterns.is_empty()
    }

    fn matches(&self, function: FunctionId, what: u8) -> bool {
        self.matches[function.0 as usize] & what != 0
    }

    fn matches_any(&self, lines: &[FrameLine]) -> bool {
        lines.iter().any(|line| self.matches(line.function, NAME | MODULE))
    }

    fn matches_module(&self, lines: &[FrameLine]) -> bool {
        lines.first().is_some_and(|line| self.matches(line.function, MODULE))
    }
}

/// The foreign rows of a frame that are folded; [`RowId::NONE`] if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LibraryRows {
    /// The outermost of those that the innermost own row calls, or of all if no own row remains.
    pub(crate) outer: RowId,
    /// The innermost, if no own row remains.
    pub(crate) inner: RowId,
}

impl LibraryRows {
    const NONE: LibraryRows = LibraryRows { outer: RowId::NONE, inner: RowId::NONE };
}

/// The filtered form of one frame.
struct FilteredFrame {
    bits: u8,
    folded: LibraryRows,
    /// The end of its lines in `all_lines`, and of its rows in `rows`. They begin where those of
    /// the previous frame end.
    lines_end: u32,
    rows_end: u32,
    source: OwnedFrame,
    /// The name of its owner when the frame was added.
    owner: Option<FunctionId>,
}

/// The results derived from earlier frames that have become invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalidation {
    /// No result; there are only new frames.
    None,
    /// Results of this frame and later ones. Names mostly change for the latest frames.
    From(FrameId),
    /// All results.
    All,
}

/// All frames as the filters leave them.
#[derive(Default)]
pub(crate) struct FrameFilter {
    focus: PatternCache,
    ignore: PatternCache,
    hide: PatternCache,
    show: PatternCache,
    show_from: PatternCache,
    names_version: Option<u64>,
    /// Whether waits are frames.
    shows_waits: bool,
    shows_titles: bool,
    /// Whether the functions of the kernel are frames.
    shows_kernel: bool,
    own: OwnFunctions,
    /// Whether foreign frames are folded into own ones.
    folds: bool,
    frames: Vec<FilteredFrame>,
    /// The lines of every frame, innermost first, as the names had them.
    all_lines: Vec<FrameLine>,
    /// The rows that remain of every frame, outermost first.
    rows: Vec<RowId>,
    /// The lines of these rows.
    row_lines: Vec<FrameLine>,
    /// Whether each row remains (or remained) in any frame, and whether it is inlined in any.
    seen: Vec<(bool, bool)>,
}

impl FrameFilter {
    /// Brings the filters, names, frames and rows up to date. The query has `count` frames, and
    /// `frame` returns each.
    pub(crate) fn update(
        &mut self,
        query: &Query,
        profile: &Profile,
        names: &Names,
        rows: &mut RowTable,
        (count, frame): (usize, impl Fn(FrameId) -> OwnedFrame),
    ) -> Invalidation {
        let filters = &query.filters;
        let kinds = [
            (&mut self.focus, &filters.focus),
            (&mut self.ignore, &filters.ignore),
            (&mut self.hide, &filters.hide),
            (&mut self.show, &filters.show),
            (&mut self.show_from, &filters.show_from),
        ];
        let mut query_changed = rows.set_grouping(query.group);
        query_changed |= std::mem::replace(&mut self.shows_waits, query.shows_waits()) != query.shows_waits();
        let shows_titles = query.group.owner() == Some(Owner::Title);
        query_changed |= std::mem::replace(&mut self.shows_titles, shows_titles) != shows_titles;
        query_changed |= std::mem::replace(&mut self.shows_kernel, query.shows_kernel) != query.shows_kernel;
        query_changed |= std::mem::replace(&mut self.folds, query.own.folds) != query.own.folds;
        query_changed |= self.own.update(&query.own, profile, names);
        for (cache, patterns) in kinds {
            query_changed |= cache.update(patterns, names);
        }
        let mut invalid = Invalidation::None;
        if query_changed {
            (invalid, self.seen) = (Invalidation::All, Vec::new());
            rows.forget_own();
            self.truncate(0);
        } else if self.names_version != Some(names.version())
            && let Some(first) = self.find_first_renamed(names)
        {
            invalid = Invalidation::From(FrameId(first as u32));
            self.truncate(first);
        }
        self.names_version = Some(names.version());
        for index in self.frames.len()..count {
            if self.add(profile, names, rows, frame(FrameId(index as u32))) {
                invalid = Invalidation::All;
            }
        }
        rows.rank_new_rows();
        invalid
    }

    fn find_first_renamed(&self, names: &Names) -> Option<usize> {
        let mut start = 0;
        self.frames.iter().position(|frame| {
            let known = &self.all_lines[start..frame.lines_end as usize];
            start = frame.lines_end as usize;
            names.lines(frame.source.frame) != known || owner_name(names, frame.source) != frame.owner
        })
    }

    fn truncate(&mut self, length: usize) {
        self.frames.truncate(length);
        let (lines, rows) = self.frames.last().map_or((0, 0), |frame| (frame.lines_end, frame.rows_end));
        self.all_lines.truncate(lines as usize);
        self.rows.truncate(rows as usize);
        self.row_lines.truncate(rows as usize);
    }

    /// Adds the next frame. Returns whether it is the first to inline a row of an earlier frame.
    fn add(&mut self, profile: &Profile, names: &Names, rows: &mut RowTable, source: OwnedFrame) -> bool {
        let start = self.all_lines.len();
        let (frame, owner) = (profile.frame(source.frame), owner_name(names, source));
        let owner_function: Option<&Function> = owner.map(|owner| names.function(owner));
        self.all_lines.extend_from_slice(names.lines(source.frame));
        let (mut bits, remaining) = match frame {
            Frame::Wait(_) if !self.shows_waits => (self.absent_bits(), Vec::new()),
            Frame::Title(_) if !self.shows_titles => (self.absent_bits(), Vec::new()),
            Frame::Code { module, address } if !self.shows_kernel && is_called(profile, module, address) => {
                (self.absent_bits(), Vec::new())
            }
            _ => self.apply(&self.all_lines[start..]),
        };
        let mut depth = 0;
        let lines = remaining.iter().rev().map(|&line| {
            // What is no function, such as a thread, is never folded.
            let is_own = !frame.is_function() || self.own.is_own(line.function);
            let is_kept = is_own || !self.folds;
            let row = rows.intern(names, (frame, owner_function), FrameLine { inlined: is_kept && depth > 0, ..line });
            depth += usize::from(is_kept);
            (row, line, is_own)
        });
        let lines: Vec<(RowId, FrameLine, bool)> = lines.collect();
        self.seen.resize(rows.len(), (false, false));
        lines.iter().filter(|(.., is_own)| *is_own).for_each(|&(row, ..)| rows.mark_own(row));
        let folded = if self.folds { fold(&lines) } else { LibraryRows::NONE };
        let start = self.rows.len();
        for &(row, line, is_own) in lines.iter().filter(|(.., is_own)| *is_own || !self.folds) {
            self.rows.push(row);
            self.row_lines.push(line);
            bits |= if is_own && self.folds && frame.is_function() { OWN } else { 0 };
        }
        let mut newly_inlined = false;
        for (depth, row) in self.rows[start..].iter().enumerate() {
            let (seen, inlined) = &mut self.seen[row.index()];
            newly_inlined |= depth > 0 && *seen && !*inlined;
            (*seen, *inlined) = (true, *inlined || depth > 0);
        }
        let (lines_end, rows_end) = (self.all_lines.len() as u32, self.rows.len() as u32);
        self.frames.push(FilteredFrame { bits, folded, lines_end, rows_end, source, owner });
        newly_inlined
    }

    /// Applies the filters to the lines of one frame. Returns its bits and the lines that remain,
    /// innermost first.
    fn apply(&self, lines: &[FrameLine]) -> (u8, Vec<FrameLine>) {
        let mut remaining = lines.to_vec();
        let mut bits = 0;
        if !self.ignore.is_off() && self.ignore.matches_any(lines) {
            bits |= IGNORED;
        } else if self.focus.is_off() || self.focus.matches_any(lines) {
            bits |= FOCUSED;
        }
        if !self.hide.is_off() {
            let module = self.hide.matches_module(&remaining);
            remaining.retain(|line| !module && !self.hide.matches(line.function, NAME));
        }
        if !self.show.is_off() && !self.show.matches_module(&remaining) {
            remaining.retain(|line| self.show.matches(line.function, NAME));
        }
        // A frame without lines has no names yet and matches nothing: hide keeps it, show does not.
        if !remaining.is_empty() || lines.is_empty() && self.show.is_off() {
            bits |= PRESENT;
        }
        if self.show_from.is_off() || self.show_from.matches_module(&remaining) {
            bits |= STARTED;
        } else if let Some(outermost) = remaining.iter().rposition(|line| self.show_from.matches(line.function, NAME)) {
            bits |= STARTED;
            remaining.truncate(outermost + 1);
        }
        (bits, remaining)
    }

    /// The bits of a frame that is not there: it matches nothing, and nothing remains of it.
    fn absent_bits(&self) -> u8 {
        let bit = |is_off, bit| if is_off { bit } else { 0 };
        bit(self.focus.is_off(), FOCUSED) | bit(self.show_from.is_off(), STARTED)
    }

    fn row_range(&self, frame: FrameId) -> std::ops::Range<usize> {
        let index = frame.0 as usize;
        let start = if index == 0 { 0 } else { self.frames[index - 1].rows_end as usize };
        start..self.frames[index].rows_end as usize
    }

    /// The bits of a frame and the rows that remain of it, outermost first. All but the first are
    /// inlined into the one before.
    pub(crate) fn frame(&self, frame: FrameId) -> (u8, &[RowId]) {
        (self.frames[frame.0 as usize].bits, &self.rows[self.row_range(frame)])
    }

    /// The foreign rows of a frame that are folded.
    pub(crate) fn folded(&self, frame: FrameId) -> LibraryRows {
        self.frames[frame.0 as usize].folded
    }

    /// The lines of the rows that remain of a frame, outermost first.
    pub(crate) fn row_lines(&self, frame: FrameId) -> &[FrameLine] {
        &self.row_lines[self.row_range(frame)]
    }

    /// Whether foreign frames are folded into own ones.
    pub(crate) fn folds(&self) -> bool {
        self.folds
    }

    /// Whether a row remains in each frame, by frame.
    pub(crate) fn frames_with(&self, row: RowId) -> Vec<bool> {
        let mut start = 0;
        let has = |frame: &FilteredFrame| {
            let end = frame.rows_end as usize;
            self.rows[std::mem::replace(&mut start, end)..end].contains(&row)
        };
        self.frames.iter().map(has).collect()
    }

    /// Whether a row is (or was) inlined in any frame, as far as it remains.
    pub(crate) fn is_inlined(&self, row: RowId) -> bool {
        self.seen[row.index()].1
    }

    /// The bits of the stack without frames. It passes if there are no filters.
    pub(crate) fn empty_stack_bits(&self) -> u8 {
        let name_filters = [&self.focus, &self.ignore, &self.hide, &self.show];
        let by_name = if name_filters.iter().all(|cache| cache.is_off()) { FOCUSED } else { 0 };
        match (by_name, self.show_from.is_off()) {
            (FOCUSED, true) => FOCUSED | STARTED | PRESENT,
            (bits, true) => bits | STARTED,
            (bits, false) => bits,
        }
    }
}

/// The folded rows of a frame with these lines, outermost first, each with whether it is own.
fn fold(lines: &[(RowId, FrameLine, bool)]) -> LibraryRows {
    let row = |line: Option<&(RowId, FrameLine, bool)>| line.map_or(RowId::NONE, |(row, ..)| *row);
    match lines.iter().rposition(|(.., is_own)| *is_own) {
        Some(innermost) => LibraryRows { outer: row(lines.get(innermost + 1)), inner: RowId::NONE },
        None => LibraryRows { outer: row(lines.first()), inner: row(lines.last()) },
    }
}

/// Whether a frame is a function of the kernel that a program has called. Time of which no more is
/// known than that it is the kernel's has no other frame.
fn is_called(profile: &Profile, module: ModuleId, address: u64) -> bool {
    address != KERNEL_START && profile.modules.file(module).path.as_os_str().as_encoded_bytes() == KERNEL_PATH
}

/// The function that names the owner of a frame.
fn owner_name(names: &Names, frame: OwnedFrame) -> Option<FunctionId> {
    names.lines(frame.owner?).first().map(|line| line.function)
}
