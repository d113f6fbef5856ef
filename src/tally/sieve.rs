//! What the filters make of a frame, in pprof's sense: whether it lets a sample in (focus, ignore), which of its lines
//! stay (hide, show), and whether a stack may begin here (show_from).
//!
//! A frame is pprof's *location*: its lines are the functions inlined at one address, and the module belongs to all of
//! them. focus and ignore see every line, also those that hide takes away; hide, then show, then show_from take lines.
//! A regular expression is asked once for each function.

use super::grove::{Grove, Sight};
use super::query::{Pattern, Query};
use super::rows::{RowId, Rows};
use crate::profile::Profile;
use crate::profile::stack::FrameId;
use crate::symbols::{Function, FunctionId, Line, Names};

/// A frame matches focus (or there is none) and not ignore.
pub(super) const FOCUSED: u8 = 1;
/// A frame matches ignore.
pub(super) const IGNORED: u8 = 2;
/// A frame matches show_from, or there is none.
pub(super) const STARTED: u8 = 4;
/// Something of the frame is left.
pub(super) const PRESENT: u8 = 8;

/// A function's name or file matches.
const NAME: u8 = 1;
/// Its module matches.
const MODULE: u8 = 2;

/// The answers of one kind of filter.
#[derive(Default)]
struct Memo {
    patterns: Vec<Pattern>,
    /// By function.
    matches: Vec<u8>,
}

impl Memo {
    /// Takes over `patterns` and the functions that are new; says whether patterns changed.
    fn catch_up(&mut self, patterns: &[Pattern], names: &Names) -> bool {
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

    fn matches_any(&self, lines: &[Line]) -> bool {
        lines.iter().any(|line| self.matches(line.function, NAME | MODULE))
    }

    fn matches_module(&self, lines: &[Line]) -> bool {
        lines.first().is_some_and(|line| self.matches(line.function, MODULE))
    }
}

/// What is left of a frame.
struct View {
    bits: u8,
    /// End of its lines in `lines`, and of its rows in `rows`; they begin where the last frame's end.
    lines_end: u32,
    rows_end: u32,
    sight: Sight,
    /// Its owner as it was last called.
    owner: Option<FunctionId>,
}

/// What of the conclusions from earlier frames is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Void {
    /// Nothing: there are only new ones.
    Nothing,
    /// What comes from this frame or a later one. Names mostly change for the latest.
    From(FrameId),
    /// Everything.
    All,
}

/// Frames as the filters leave them.
#[derive(Default)]
pub(super) struct Sieve {
    focus: Memo,
    ignore: Memo,
    hide: Memo,
    show: Memo,
    show_from: Memo,
    names_version: Option<u64>,
    views: Vec<View>,
    /// Of every frame, innermost first, as last seen in the names.
    lines: Vec<Line>,
    /// Of every frame, what is left, outermost first.
    rows: Vec<RowId>,
    /// The lines behind `rows`, each in the place of its row.
    left: Vec<Line>,
    /// By row: whether it is, or was, anywhere left, and anywhere inlined.
    seen: Vec<(bool, bool)>,
}

impl Sieve {
    /// Takes in filters and names, and looks at the frames; names new rows.
    pub(super) fn catch_up(
        &mut self,
        query: &Query,
        (profile, grove): (&Profile, &Grove),
        names: &Names,
        rows: &mut Rows,
    ) -> Void {
        let filters = &query.filters;
        let kinds = [
            (&mut self.focus, &filters.focus),
            (&mut self.ignore, &filters.ignore),
            (&mut self.hide, &filters.hide),
            (&mut self.show, &filters.show),
            (&mut self.show_from, &filters.show_from),
        ];
        let mut asked_anew = rows.turn_to(query.group);
        for (memo, patterns) in kinds {
            asked_anew |= memo.catch_up(patterns, names);
        }
        let mut void = Void::Nothing;
        if asked_anew {
            (void, self.seen) = (Void::All, Vec::new());
            self.truncate(0);
        } else if self.names_version != Some(names.version())
            && let Some(first) = self.first_renamed(names)
        {
            void = Void::From(FrameId(first as u32));
            self.truncate(first);
        }
        self.names_version = Some(names.version());
        for index in self.views.len()..grove.frames(profile) {
            if self.view(profile, names, rows, grove.sight(FrameId(index as u32))) {
                void = Void::All;
            }
        }
        rows.sort();
        void
    }

    fn first_renamed(&self, names: &Names) -> Option<usize> {
        let mut start = 0;
        self.views.iter().position(|view| {
            let known = &self.lines[start..view.lines_end as usize];
            start = view.lines_end as usize;
            names.lines(view.sight.frame) != known || owner(names, view.sight) != view.owner
        })
    }

    fn truncate(&mut self, length: usize) {
        self.views.truncate(length);
        let (lines, rows) = self.views.last().map_or((0, 0), |view| (view.lines_end, view.rows_end));
        self.lines.truncate(lines as usize);
        self.rows.truncate(rows as usize);
        self.left.truncate(rows as usize);
    }

    /// Adds the next frame. Says whether it inlines a row that was there before, and never inlined.
    fn view(&mut self, profile: &Profile, names: &Names, rows: &mut Rows, sight: Sight) -> bool {
        let start = self.lines.len();
        let (frame, owner) = (profile.frame(sight.frame), owner(names, sight));
        let owned_by: Option<&Function> = owner.map(|owner| names.function(owner));
        self.lines.extend_from_slice(names.lines(sight.frame));
        let all = &self.lines[start..];
        let mut left = all.to_vec();
        let mut bits = 0;
        if !self.ignore.is_off() && self.ignore.matches_any(all) {
            bits |= IGNORED;
        } else if self.focus.is_off() || self.focus.matches_any(all) {
            bits |= FOCUSED;
        }
        if !self.hide.is_off() {
            let module = self.hide.matches_module(&left);
            left.retain(|line| !module && !self.hide.matches(line.function, NAME));
        }
        if !self.show.is_off() && !self.show.matches_module(&left) {
            left.retain(|line| self.show.matches(line.function, NAME));
        }
        // A frame that the names have not caught up with cannot match: hide leaves it, show does not.
        if !left.is_empty() || all.is_empty() && self.show.is_off() {
            bits |= PRESENT;
        }
        if self.show_from.is_off() || self.show_from.matches_module(&left) {
            bits |= STARTED;
        } else if let Some(outermost) = left.iter().rposition(|line| self.show_from.matches(line.function, NAME)) {
            bits |= STARTED;
            left.truncate(outermost + 1);
        }
        let start = self.rows.len();
        self.left.extend(left.iter().rev());
        let outermost_first = left.iter().rev().enumerate();
        self.rows.extend(
            outermost_first
                .map(|(place, &line)| rows.of(names, (frame, owned_by), Line { inlined: place > 0, ..line })),
        );
        self.seen.resize(rows.len(), (false, false));
        let mut news = false;
        for (place, row) in self.rows[start..].iter().enumerate() {
            let (seen, inlined) = &mut self.seen[row.index()];
            news |= place > 0 && *seen && !*inlined;
            (*seen, *inlined) = (true, *inlined || place > 0);
        }
        let (lines_end, rows_end) = (self.lines.len() as u32, self.rows.len() as u32);
        self.views.push(View { bits, lines_end, rows_end, sight, owner });
        news
    }

    /// What is left of a frame: its bits, and its rows, outermost first. All but the first are inlined into the one before.
    pub(super) fn frame(&self, frame: FrameId) -> (u8, &[RowId]) {
        let index = frame.0 as usize;
        let start = if index == 0 { 0 } else { self.views[index - 1].rows_end as usize };
        (self.views[index].bits, &self.rows[start..self.views[index].rows_end as usize])
    }

    /// By frame: whether a row is left of it.
    pub(super) fn having(&self, row: RowId) -> Vec<bool> {
        let mut start = 0;
        let has = |view: &View| {
            let end = view.rows_end as usize;
            self.rows[std::mem::replace(&mut start, end)..end].contains(&row)
        };
        self.views.iter().map(has).collect()
    }

    /// The lines behind the rows that are left of a frame, outermost first.
    pub(super) fn left(&self, frame: FrameId) -> &[Line] {
        let index = frame.0 as usize;
        let start = if index == 0 { 0 } else { self.views[index - 1].rows_end as usize };
        &self.left[start..self.views[index].rows_end as usize]
    }

    /// Whether a row is (or was) inlined anywhere, in what is left.
    pub(super) fn is_inlined(&self, row: RowId) -> bool {
        self.seen[row.index()].1
    }

    /// What the stack without frames has: it passes where nothing is asked.
    pub(super) fn empty_stack(&self) -> u8 {
        let name_filters = [&self.focus, &self.ignore, &self.hide, &self.show];
        let by_name = if name_filters.iter().all(|memo| memo.is_off()) { FOCUSED } else { 0 };
        match (by_name, self.show_from.is_off()) {
            (FOCUSED, true) => FOCUSED | STARTED | PRESENT,
            (bits, true) => bits | STARTED,
            (bits, false) => bits,
        }
    }
}

/// What the owner of a frame's rows is called.
fn owner(names: &Names, sight: Sight) -> Option<FunctionId> {
    names.lines(sight.owner?).first().map(|line| line.function)
}
