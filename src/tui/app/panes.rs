//! Which panes are shown, which one has the keys, and moving in it.

use super::{App, Mode};
use crate::track::Command;
use crate::tui::action::{Effect, Motion};
use crate::tui::layout::{self, Layout, Pane, View};
use crate::tui::listing::Side;
use crate::tui::page::{self, Page};
use crate::tui::pane::{callers, header, source, threads};
use crate::tui::roster::Entered;
use crate::tui::{filters, neighbours};

/// Rows that a step of the wheel moves.
const WHEEL_ROWS: i16 = 3;

impl App {
    pub(super) fn resize(&mut self, size: (u16, u16)) -> Vec<Effect> {
        self.size = size;
        let target = layout::target_size(size);
        if self.told_size == Some(target) {
            return Vec::new();
        }
        self.told_size = Some(target);
        self.emulator.resize(target);
        if self.options.output { vec![Effect::Send(Command::Resize(target.0, target.1))] } else { Vec::new() }
    }

    /// Where everything is.
    pub(in crate::tui) fn layout(&self) -> Option<Layout> {
        Layout::new(self.size, self.view, self.options.output)
    }

    pub(super) fn fit(&mut self) {
        let Some(layout) = self.layout() else { return };
        if layout.pane(self.pane).is_none() {
            match self.mode {
                // What is typed into stays in sight.
                Mode::Typing => self.view = View::Alone(self.pane),
                _ => self.pane = Pane::Top,
            }
        }
        let Some(layout) = self.layout() else { return };
        self.list.fit(layout.pane(Pane::Top).map_or(0, layout::top_rows), self.shows_both());
        if let Some(area) = layout.pane(Pane::Callers) {
            let rows = callers::rows(area);
            self.neighbours.fit(rows.above.into(), rows.below.into());
        }
        if let Some(area) = layout.pane(Pane::Threads) {
            self.roster.fit(layout::top_rows(area));
        }
        if let Some(area) = layout.pane(Pane::Flame) {
            self.flame.fit(area.width, area.height.saturating_sub(1).into());
        }
        if let Some(area) = layout.pane(Pane::Source)
            && let Some(listing) = self.answer.as_ref().and_then(|answer| answer.listing.as_ref())
        {
            let (source, assembly) = source::Areas::new(area, &self.listing, listing).rows();
            self.listing.fit(source, assembly);
        }
    }

    pub(super) fn leave_page(&mut self) {
        if matches!(self.mode, Mode::Page(..)) {
            self.mode = Mode::Panes;
        }
    }

    pub(super) fn turn_to(&mut self, page: Page) {
        self.mode = match self.mode {
            Mode::Page(shown, _) if shown == page => Mode::Panes,
            _ => Mode::Page(page, 0),
        };
    }

    pub(super) fn show(&mut self, view: View) {
        self.leave_page();
        self.view = view;
        if let View::Alone(pane) = view {
            self.pane = pane;
        }
    }

    pub(super) fn next_pane(&mut self, step: i8) {
        self.leave_page();
        let shown: Vec<Pane> =
            self.layout().map(|layout| layout.panes.iter().map(|(pane, _)| *pane).collect()).unwrap_or_default();
        // Tab goes around what is on the screen; where that is one pane, through all of them.
        let around = if shown.len() > 1 { &shown[..] } else { &Pane::ALL[..] };
        let at = around.iter().position(|pane| *pane == self.pane).unwrap_or(0) as isize;
        self.pane = around[(at + isize::from(step)).rem_euclid(around.len() as isize) as usize];
        if shown.len() <= 1 {
            self.view = View::Alone(self.pane);
        }
    }

    /// To a pane: where it stands on the screen, or alone.
    pub(super) fn turn_to_pane(&mut self, pane: Pane) {
        self.pane = pane;
        if self.layout().is_none_or(|layout| layout.pane(pane).is_none()) {
            self.view = View::Alone(pane);
        }
    }

    pub(super) fn go(&mut self, motion: Motion) {
        if let Mode::Page(shown, scroll) = &mut self.mode {
            let facts = self.answer.as_ref().map(|answer| &answer.facts);
            let table = self.options.keys.bindings();
            let rows = page::columns(*shown, table, facts, self.why.as_ref(), self.size.0)
                .iter()
                .map(Vec::len)
                .max()
                .unwrap_or(0);
            let page = layout::page_rows(self.size);
            *scroll = match motion {
                Motion::Rows(rows) => scroll.saturating_add_signed(rows.into()),
                Motion::Pages(pages) => scroll.saturating_add_signed(isize::from(pages) * page.max(1) as isize),
                Motion::First => 0,
                Motion::Last => usize::MAX,
                Motion::Columns(_) => *scroll,
            }
            .min(rows.saturating_sub(page));
            return;
        }
        let Some(answer) = self.answer.clone().filter(|_| self.pane != Pane::Output) else {
            return self.scroll_output(motion);
        };
        match self.pane {
            Pane::Top => self.list.go(motion),
            Pane::Callers => {
                // A cut name is read to its head in both panes at once.
                self.list.pan_by(motion);
                if let Some(callers) = &answer.callers {
                    self.neighbours.go(motion, callers);
                }
            }
            Pane::Flame => {
                if let Some(flame) = &answer.flame
                    && let Some(full) = self.flame.go(motion, flame, self.list.selected_name())
                {
                    self.list.select_name(&full);
                }
            }
            Pane::Threads => self.roster.go(motion),
            Pane::Source => {
                if let Some(listing) = &answer.listing {
                    self.listing.go(motion, listing);
                }
            }
            Pane::Output => {}
        }
    }

    pub(super) fn scroll_output(&mut self, motion: Motion) {
        let page = isize::try_from(self.emulator.size().1).unwrap_or(1).max(2) - 1;
        match motion {
            Motion::Rows(rows) => self.emulator.scroll(rows.into()),
            Motion::Pages(pages) => self.emulator.scroll(isize::from(pages) * page),
            Motion::First => self.emulator.scroll_to_end(false),
            Motion::Last => self.emulator.scroll_to_end(true),
            Motion::Columns(_) => {}
        }
    }

    pub(super) fn enter(&mut self) {
        let answer = self.answer.clone();
        let flame = answer.as_ref().and_then(|answer| answer.flame.as_ref());
        match self.pane {
            Pane::Top => self.turn_to_pane(Pane::Callers),
            Pane::Callers => self.enter_callers(),
            Pane::Flame => {
                let Some(flame) = flame else { return };
                if !self.flame.zoom_in(flame, self.list.selected_name()) {
                    self.note("this box is as wide as it can be: move to another, or Backspace zooms out");
                }
            }
            Pane::Threads => self.enter_threads(),
            Pane::Source => self.enter_listing(),
            Pane::Output if !self.options.output => {
                self.note("the target writes to a terminal of its own: type there");
            }
            Pane::Output if self.ended.is_some() => self.note("the target has ended"),
            Pane::Output => self.mode = Mode::Typing,
        }
    }

    fn enter_callers(&mut self) {
        let answer = self.answer.clone();
        let Some(callers) = answer.as_ref().and_then(|answer| answer.callers.as_ref()) else { return };
        if let Some(edge) = self.neighbours.edge(callers) {
            self.neighbours.leave(self.list.selected_name());
            self.list.select_name(&edge.full);
        }
    }

    fn enter_threads(&mut self) {
        match self.roster.enter() {
            Entered::Filter(tag) => {
                let filters = filters::turned_to(self.filters.now(), tag);
                if !filters.tagfocus.is_empty() {
                    let name = self.roster.name().unwrap_or_default();
                    self.note(format!("everything is of {name} alone; Enter again, u or U ends that"));
                }
                self.filters.set(filters);
            }
            Entered::Unfolded => {}
            Entered::Nothing => self.note("this line is no thread that could be filtered by"),
        }
    }

    /// To what the line calls, or to where the instruction jumps.
    fn enter_listing(&mut self) {
        let answer = self.answer.clone();
        let Some(answer) = answer.as_deref() else { return };
        let Some(listing) = &answer.listing else { return };
        let callee = match self.listing.side(listing) {
            Side::Source => {
                let line = self.listing.scroll(Side::Source).row() as u32 + 1;
                let weight = self.listing.line_weight(listing, line);
                weight.and_then(|weight| weight.callees.first()).map(|callee| callee.full.to_string())
            }
            Side::Assembly => {
                if let Some(row) = self.listing.jump() {
                    return self.listing.stand(Side::Assembly, row);
                }
                let here = self.listing.rows().instruction(self.listing.scroll(Side::Assembly).row());
                let called = here.and_then(|(_, at)| at.text.strip_prefix("call "));
                let called =
                    called.map(|name| name.trim_start_matches('*').trim_end_matches("@GOT").trim_end_matches("@plt"));
                let row = called.and_then(|name| answer.window.rows.iter().find(|row| row.short == name));
                row.map(|row| row.full.to_string())
            }
        };
        match callee {
            Some(full) => {
                self.neighbours.leave(self.list.selected_name());
                self.list.select_name(&full);
            }
            None => self.note("no sample went into a call from here"),
        }
    }

    pub(super) fn out(&mut self) {
        let selected = self.list.selected_name();
        if self.pane == Pane::Flame {
            if !self.flame.zoom_out(selected) {
                self.note("this is all of the flame");
            }
            return;
        }
        match self.neighbours.back(selected) {
            Some(full) => self.list.select_name(&full),
            None if self.pane == Pane::Callers => self.turn_to_pane(Pane::Top),
            None => self.note("there is nothing to go back to"),
        }
    }

    pub(super) fn forward(&mut self) {
        match self.neighbours.forward(self.list.selected_name()) {
            Some(full) => self.list.select_name(&full),
            None => self.note("there is nothing to go forward to"),
        }
    }

    pub(super) fn click(&mut self, column: u16, row: u16) {
        if !matches!(self.mode, Mode::Panes) {
            return;
        }
        if row == 1
            && let Some((subject, index)) = header::chip_at(self, column)
        {
            self.filters.set(filters::without(self.filters.now(), subject, index));
            return;
        }
        let Some((pane, area)) = self.layout().and_then(|layout| layout.at(column, row)) else { return };
        self.pane = pane;
        let Some(answer) = self.answer.clone() else { return };
        match pane {
            Pane::Top => {
                if let Some(index) = layout::top_row(area, row).map(|row| row + self.list.offset())
                    && index < self.list.len()
                {
                    self.list.select(index);
                }
            }
            Pane::Callers => {
                let Some(callers) = &answer.callers else { return };
                let hit = callers::row_at(area, row, self.neighbours.scrolled());
                match hit.filter(|row| *row == 0 || neighbours::edge(callers, *row).is_some()) {
                    // A second click on a row goes in.
                    Some(row) if row != 0 && row == self.neighbours.row() => self.enter_callers(),
                    Some(row) => self.neighbours.stand(callers, row),
                    None => {}
                }
            }
            Pane::Flame => {
                let Some(flame) = &answer.flame else { return };
                let Some(line) = row.checked_sub(area.y + 1) else { return };
                let Some(tile) = self.flame.tile_at(flame, column - area.x, line.into()) else { return };
                if let Some(full) = self.flame.stand(flame, tile, self.list.selected_name()) {
                    self.list.select_name(&full);
                }
            }
            Pane::Source => {
                let Some(listing) = &answer.listing else { return };
                if let Some((side, row)) = source::Areas::new(area, &self.listing, listing).at(column, row) {
                    self.listing.stand(side, self.listing.scroll(side).offset() + row);
                }
            }
            Pane::Threads => {
                let Some((line, on_mark)) = threads::line_at(area, column, row) else { return };
                let index = line + self.roster.offset();
                if index >= self.roster.len() {
                    return;
                }
                let again = self.roster.selection().is_some_and(|(selected, _)| selected == index);
                self.roster.select(index);
                match () {
                    () if on_mark => self.roster.turn(),
                    // A second click goes in.
                    () if again => self.enter_threads(),
                    () => {}
                }
            }
            Pane::Output => {}
        }
    }

    pub(super) fn wheel(&mut self, column: u16, row: u16, step: i8) {
        let rows = WHEEL_ROWS * i16::from(step);
        let motion = Motion::Rows(rows);
        match self.mode {
            Mode::Page(..) => self.go(motion),
            Mode::Panes | Mode::Typing | Mode::Prompt(..) | Mode::Colon(_) | Mode::Save(_) => {
                match self.layout().and_then(|layout| layout.at(column, row)) {
                    Some((Pane::Top, _)) => self.list.go(motion),
                    Some((Pane::Callers, _)) => {
                        if let Some(callers) = self.answer.as_ref().and_then(|answer| answer.callers.as_ref()) {
                            self.neighbours.go(motion, callers);
                        }
                    }
                    Some((Pane::Flame, _)) => {
                        if let Some(flame) = self.answer.as_ref().and_then(|answer| answer.flame.as_ref()) {
                            self.flame.scroll(rows, flame);
                        }
                    }
                    Some((Pane::Threads, _)) => self.roster.go(motion),
                    Some((Pane::Source, _)) => {
                        if let Some(listing) = self.answer.as_ref().and_then(|answer| answer.listing.as_ref()) {
                            self.listing.go(motion, listing);
                        }
                    }
                    Some((Pane::Output, _)) => self.scroll_output(motion),
                    None => {}
                }
            }
            Mode::Question | Mode::ConfirmItimer(_) | Mode::Ending(_) => {}
        }
    }
}
