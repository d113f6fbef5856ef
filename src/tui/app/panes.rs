//! Views, the active pane, and cursor movement, by keys and by mouse.

use super::{App, Mode};
use crate::session::Command;
use crate::symbols::WaitLabel;
use crate::symbols::simplify::tidy;
use crate::tui::action::{Effect, Motion};
use crate::tui::filters;
use crate::tui::layout::{self, Layout, OutputRows, Pane, View};
use crate::tui::pane::callers::draw as callers;
use crate::tui::pane::flame::state::FlameEnter;
use crate::tui::pane::header;
use crate::tui::pane::help::pages::{self, HelpPage, PageFacts};
use crate::tui::pane::source::draw as source;
use crate::tui::pane::source::state::ListingKind;
use crate::tui::pane::threads::draw as threads;
use crate::tui::pane::threads::state::EnterResult;
use crate::tui::pane::timeline::draw as timeline;
use crate::tui::pane::top::draw as top_draw;
use crate::wire::Clock;

/// Rows per wheel step.
const WHEEL_ROWS: i16 = 3;

impl App {
    pub(super) fn resize(&mut self, size: (u16, u16)) -> Vec<Effect> {
        self.size = size;
        let target = layout::target_size(size);
        if self.sent_size == Some(target) {
            return Vec::new();
        }
        self.sent_size = Some(target);
        self.emulator.resize(target);
        if self.options.output { vec![Effect::Send(Command::Resize(target.0, target.1))] } else { Vec::new() }
    }

    /// The layout of the screen; `None` if it is too small.
    pub(in crate::tui) fn layout(&self) -> Option<Layout> {
        let rows = self.emulator.shown_rows();
        let output = OutputRows::new(self.options.output, matches!(self.mode, Mode::Typing), rows);
        Layout::new(self.size, self.view, output, self.flame_rows.levels())
    }

    /// Whether the card is shown, see [`PaneContext::shows_card`](crate::tui::pane::context::PaneContext).
    pub(super) fn shows_card(&self) -> bool {
        !self.is_diff && self.pane != Pane::Callers && self.layout().is_some_and(|layout| layout.bar.is_some())
    }

    pub(super) fn resize_panes(&mut self) {
        let Some(layout) = self.layout() else { return };
        if layout.pane(self.pane).is_none() {
            match self.mode {
                // The output pane stays visible while text is typed into it.
                Mode::Typing => self.view = View::Alone(self.pane),
                _ => self.pane = Pane::Top,
            }
        }
        let Some(layout) = self.layout() else { return };
        // The row of the idle threads is below the functions.
        let idle_rows = usize::from(self.context().idle().is_some());
        let top = layout.pane(Pane::Top).map(|area| self.context().top_table(area));
        let with_total = top.is_some_and(|area| top_draw::shows_total(&self.context(), area));
        self.top.fit(top.map_or(0, layout::top_rows).saturating_sub(idle_rows), with_total);
        if let Some(area) = layout.pane(Pane::Callers) {
            let rows = callers::rows(area);
            self.callers.fit(rows.above.into(), rows.below.into());
        }
        if let Some(area) = layout.pane(Pane::Threads) {
            self.threads.fit(layout::top_rows(area));
        }
        self.fit_flame();
        if let Some(area) = layout.pane(Pane::Source)
            && let Some(listing) = self.answer.as_ref().and_then(|answer| answer.listing.as_ref())
        {
            let (source, assembly) = source::Areas::new(area, &self.source, listing).rows();
            self.source.fit(source, assembly);
        }
    }

    pub(super) fn fit_flame(&mut self) {
        if let Some(area) = self.layout().and_then(|layout| layout.pane(Pane::Flame)) {
            self.flame.fit(area.width, area.height.saturating_sub(1).into());
        }
    }

    pub(super) fn leave_page(&mut self) {
        self.card = false;
        if matches!(self.mode, Mode::Help(..)) {
            self.mode = Mode::Panes;
        }
    }

    pub(super) fn toggle_page(&mut self, page: HelpPage) {
        self.mode = match self.mode {
            Mode::Help(shown, _) if shown == page => Mode::Panes,
            _ => Mode::Help(page, 0),
        };
    }

    /// Opens or closes the page of the selected thread's deepest stack.
    pub(super) fn toggle_deepest_stack(&mut self) {
        if !matches!(self.mode, Mode::Help(HelpPage::Stack, _)) && !self.threads.request_deepest() {
            return self.note("no thread is selected");
        }
        self.toggle_page(HelpPage::Stack);
    }

    /// Opens or closes the page with the stacks of a thread that waits for a lock and its holder.
    pub(super) fn toggle_holder(&mut self) {
        if !matches!(self.mode, Mode::Help(HelpPage::Holder, _)) && !self.threads.request_chain() {
            return self.note("no thread waits for a lock whose holder is known");
        }
        self.toggle_page(HelpPage::Holder);
    }

    pub(super) fn show_view(&mut self, view: View) {
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
        // Tab cycles through the visible panes; if only one is visible, through all panes.
        let around = if shown.len() > 1 { &shown[..] } else { &Pane::ALL[..] };
        let at = around.iter().position(|pane| *pane == self.pane).unwrap_or(0) as isize;
        self.pane = around[(at + isize::from(step)).rem_euclid(around.len() as isize) as usize];
        if shown.len() <= 1 {
            self.view = View::Alone(self.pane);
        }
    }

    /// Activates a pane, maximized if it is not visible.
    pub(super) fn focus_pane(&mut self, pane: Pane) {
        self.pane = pane;
        if self.layout().is_none_or(|layout| layout.pane(pane).is_none()) {
            self.view = View::Alone(pane);
        }
    }

    pub(super) fn move_cursor(&mut self, motion: Motion) {
        if let Mode::Help(shown, scroll) = &mut self.mode {
            let facts = PageFacts {
                table: self.options.keys.bindings(),
                facts: self.answer.as_ref().map(|answer| &answer.facts),
                explanation: self.explanation.as_ref(),
                thread: self.threads.deepest(),
                chain: self.threads.chain(),
                now_ns: 0,
            };
            let rows = pages::columns(*shown, &facts, self.size.0).iter().map(Vec::len).max().unwrap_or(0);
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
            Pane::Top => self.top.go(motion),
            Pane::Callers => {
                // On the center, truncated names scroll in both panes together.
                match motion {
                    Motion::Columns(steps) if steps > 0 && self.callers.step_out() => {}
                    Motion::Columns(steps) if steps < 0 && self.callers.step_in() => {}
                    motion => self.top.pan_by(motion),
                }
                self.callers.go(motion);
            }
            Pane::Flame => {
                if let Some(flame) = &answer.flame
                    && let Some(full) = self.flame.go(motion, flame, self.top.selected_name())
                {
                    self.top.select_name(&full);
                }
            }
            Pane::Threads => self.threads.go(motion),
            Pane::Source => {
                if let Some(listing) = &answer.listing {
                    self.source.go(motion, listing);
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

    pub(super) fn activate_selection(&mut self) {
        let answer = self.answer.clone();
        let flame = answer.as_ref().and_then(|answer| answer.flame.as_ref());
        match self.pane {
            Pane::Top if !self.card => self.card = !self.enter_wait(),
            Pane::Top => {
                self.card = false;
                self.focus_pane(Pane::Callers);
            }
            Pane::Callers => {
                if !self.callers.toggle() {
                    self.note("select a caller or a callee to unfold it");
                }
            }
            Pane::Flame => {
                let Some(flame) = flame else { return };
                let (entered, selected) = self.flame.enter(flame, self.top.selected_name());
                match entered {
                    FlameEnter::Nothing => self.note("this box already has full width; Backspace zooms out"),
                    FlameEnter::Zoomed | FlameEnter::Folded => {}
                }
                if let Some(full) = selected {
                    self.top.select_name(&full);
                }
            }
            Pane::Threads => self.enter_threads(),
            Pane::Source => self.enter_listing(),
            Pane::Output if !self.options.output => {
                self.note("the target has its own terminal: type there");
            }
            Pane::Output if self.ended.is_some() => self.note("the target has ended"),
            Pane::Output => self.mode = Mode::Typing,
        }
    }

    /// Shows the stacks of a thread that waits as the selected row says, and of the holder of its
    /// lock. Returns false if the row is no wait for a lock whose holder is known.
    fn enter_wait(&mut self) -> bool {
        let row = self.top.selected_names().map_or("", |(short, _)| short);
        let holder = Some(row).filter(|_| self.shows_waits()).and_then(|row| WaitLabel::parse(row).holder_tid());
        let is_shown = holder.is_some_and(|tid| self.threads.request_chain_to(tid));
        if is_shown {
            self.toggle_page(HelpPage::Holder);
        }
        is_shown
    }

    /// Folds idle threads, or shows them.
    pub(super) fn toggle_idle(&mut self) {
        self.fold_idle = !self.fold_idle;
        self.note(match (self.fold_idle, self.clock.value()) {
            (_, Clock::Alloc | Clock::Live) => "idle threads allocate nothing: they count by the wall clock (r) only",
            (_, Clock::Prof | Clock::Virtual) => "idle threads use no CPU time: they count by the wall clock (r) only",
            (true, Clock::Real) => "idle threads are folded: shares are of the other threads' time",
            (false, Clock::Real) => "idle threads are shown: shares are of all threads' time",
        });
    }

    /// Shows the functions of the kernel, or hides them.
    pub(super) fn toggle_kernel(&mut self) {
        self.hides_kernel = !self.hides_kernel;
        self.note(match self.hides_kernel {
            true => "functions of the kernel are hidden: their time is that of the function that called it",
            false => "functions of the kernel are shown",
        });
    }

    /// Folds foreign code into own code, or unfolds it.
    pub(super) fn toggle_own_code(&mut self) {
        self.own.folds = !self.own.folds;
        if self.own.folds {
            self.top.leave_foreign();
        }
        self.note(match self.own.folds {
            true => "own code: library time belongs to its caller",
            false => "all code: foreign functions are dim",
        });
    }

    /// Makes the caller or callee under the cursor the center.
    pub(super) fn center_selection(&mut self) {
        let answer = self.answer.clone();
        let Some(callers) = answer.as_ref().and_then(|answer| answer.callers.as_ref()) else { return };
        if let Some(edge) = self.callers.edge(callers) {
            self.callers.leave(self.top.selected_name());
            self.top.select_name(&edge.full);
        }
    }

    fn enter_threads(&mut self) {
        match self.threads.enter() {
            EnterResult::Filter(tag) => {
                let filters = filters::toggle_tag(self.filters.now(), tag);
                if !filters.tagfocus.is_empty() {
                    let name = self.threads.name().unwrap_or_default();
                    self.note(format!("filtered to {name}; Enter, u or U removes the filter"));
                }
                self.filters.set(filters);
            }
            EnterResult::Unfolded => {}
            EnterResult::ShowIdle => self.toggle_idle(),
            EnterResult::Nothing => self.note("this row cannot be used as a filter"),
        }
    }

    /// Follows the call of a source line, or the jump or call of an instruction.
    fn enter_listing(&mut self) {
        let answer = self.answer.clone();
        let Some(answer) = answer.as_deref() else { return };
        let Some(listing) = &answer.listing else { return };
        let callee = match self.source.side(listing) {
            ListingKind::Source => {
                let line = self.source.scroll(ListingKind::Source).row() as u32 + 1;
                let weight = self.source.line_weight(listing, line);
                weight.and_then(|weight| weight.callees.first()).map(|callee| callee.full.to_string())
            }
            ListingKind::Assembly => {
                if let Some(row) = self.source.jump() {
                    return self.source.stand(ListingKind::Assembly, row);
                }
                let here = self.source.rows().instruction(self.source.scroll(ListingKind::Assembly).row());
                let called = here.and_then(|(_, at)| at.text.strip_prefix("call "));
                let called =
                    called.map(|name| name.trim_start_matches('*').trim_end_matches("@GOT").trim_end_matches("@plt"));
                let called = called.map(tidy);
                let row = called.and_then(|name| answer.window.rows.iter().find(|row| row.short == name));
                row.map(|row| row.full.to_string())
            }
        };
        match callee {
            Some(full) => {
                self.callers.leave(self.top.selected_name());
                self.top.select_name(&full);
            }
            None => self.note("no calls sampled here"),
        }
    }

    pub(super) fn go_back(&mut self) {
        let selected = self.top.selected_name();
        if self.pane == Pane::Flame {
            if !self.flame.zoom_out(selected) {
                self.note("already zoomed out");
            }
            return;
        }
        match self.callers.back(selected) {
            Some(full) => self.top.select_name(&full),
            None if self.pane == Pane::Callers => self.focus_pane(Pane::Top),
            None => self.note("no previous function"),
        }
    }

    pub(super) fn go_forward(&mut self) {
        match self.callers.forward(self.top.selected_name()) {
            Some(full) => self.top.select_name(&full),
            None => self.note("no next function"),
        }
    }

    pub(super) fn click(&mut self, column: u16, row: u16) {
        if !matches!(self.mode, Mode::Panes) {
            return;
        }
        if row == 1
            && let Some((subject, index)) = header::chip_at(&self.context(), column)
        {
            self.filters.set(filters::without(self.filters.now(), subject, index));
            return;
        }
        let Some(layout) = self.layout() else { return };
        if row == layout.status.y && self.frozen {
            let back = timeline::time_at(layout.status, &self.context(), column);
            back.into_iter().for_each(|back| self.show_time(back));
            return;
        }
        let Some((pane, area)) = layout.at(column, row) else { return };
        self.pane = pane;
        let Some(answer) = self.answer.clone() else { return };
        match pane {
            Pane::Top => {
                let area = self.context().top_table(area);
                if let Some(index) = layout::top_row(area, row).map(|row| row + self.top.offset())
                    && index < self.top.len()
                {
                    self.top.select(index);
                }
            }
            Pane::Callers => {
                let Some(callers) = &answer.callers else { return };
                let hit = callers::row_at(area, row, self.callers.scrolled());
                match hit.filter(|row| *row == 0 || self.callers.edge_at(callers, *row).is_some()) {
                    // A second click on the selected row unfolds or folds it.
                    Some(row) if row == self.callers.row() => drop(self.callers.toggle()),
                    Some(row) => self.callers.move_to(row),
                    None => {}
                }
            }
            Pane::Flame => {
                let Some(flame) = &answer.flame else { return };
                let Some(line) = row.checked_sub(area.y + 1) else { return };
                let Some(tile) = self.flame.tile_at(flame, column - area.x, line.into()) else { return };
                if let Some(full) = self.flame.stand(flame, tile, self.top.selected_name()) {
                    self.top.select_name(&full);
                }
            }
            Pane::Source => {
                let Some(listing) = &answer.listing else { return };
                if let Some((side, row)) = source::Areas::new(area, &self.source, listing).at(column, row) {
                    self.source.stand(side, self.source.scroll(side).offset() + row);
                }
            }
            Pane::Threads => {
                let Some((line, on_mark)) = threads::line_at(area, column, row) else { return };
                let index = line + self.threads.offset();
                if index >= self.threads.len() {
                    return;
                }
                let again = self.threads.selection().is_some_and(|(selected, _)| selected == index);
                self.threads.select(index);
                match () {
                    () if on_mark => self.threads.toggle_fold(),
                    // A second click on the selected row activates it.
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
            Mode::Help(..) => self.move_cursor(motion),
            Mode::Panes | Mode::Typing | Mode::Prompt(..) | Mode::Command(_) | Mode::Save(_) => {
                match self.layout().and_then(|layout| layout.at(column, row)) {
                    Some((Pane::Top, _)) => self.top.go(motion),
                    Some((Pane::Callers, _)) => {
                        self.callers.go(motion);
                    }
                    Some((Pane::Flame, _)) => {
                        if let Some(flame) = self.answer.as_ref().and_then(|answer| answer.flame.as_ref()) {
                            self.flame.scroll(rows, flame);
                        }
                    }
                    Some((Pane::Threads, _)) => self.threads.go(motion),
                    Some((Pane::Source, _)) => {
                        if let Some(listing) = self.answer.as_ref().and_then(|answer| answer.listing.as_ref()) {
                            self.source.go(motion, listing);
                        }
                    }
                    Some((Pane::Output, _)) => self.scroll_output(motion),
                    None => {}
                }
            }
            Mode::ConfirmQuit | Mode::ConfirmItimer(_) | Mode::Ending(_) => {}
        }
    }
}
