//! Views, the active pane, and cursor movement, by keys and by mouse.

use super::{App, Mode};
use crate::session::Command;
use crate::symbols::WaitLabel;
use crate::symbols::simplify::tidy;
use crate::tui::action::{Effect, Motion};
use crate::tui::filters;
use crate::tui::layout::{self, Layout, Pane, View};
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
        self.screen.size = size;
        let target = layout::target_size(size);
        if self.sent_size == Some(target) {
            return Vec::new();
        }
        self.sent_size = Some(target);
        self.panes.emulator.resize(target);
        if self.options.output { vec![Effect::Send(Command::Resize(target.0, target.1))] } else { Vec::new() }
    }

    /// The layout of the screen; `None` if it is too small.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.context().layout()
    }

    /// Whether the card is shown, see [`PaneContext::shows_card`](crate::tui::pane::context::PaneContext).
    pub(super) fn shows_card(&self) -> bool {
        !self.session.is_diff
            && self.screen.pane != Pane::Callers
            && self.layout().is_some_and(|layout| layout.bar.is_some())
    }

    pub(super) fn resize_panes(&mut self) {
        let Some(layout) = self.layout() else { return };
        if layout.pane(self.screen.pane).is_none() {
            match self.screen.mode {
                // The output pane stays visible while text is typed into it.
                Mode::Typing => self.screen.view = View::Alone(self.screen.pane),
                _ => self.screen.pane = Pane::Top,
            }
        }
        let Some(layout) = self.layout() else { return };
        // The row of the idle threads is below the functions.
        let idle_rows = usize::from(self.context().idle().is_some());
        let top = layout.pane(Pane::Top).map(|area| self.context().top_table(area));
        let with_total = top.is_some_and(|area| top_draw::shows_total(&self.context(), area));
        self.panes.top.fit(top.map_or(0, layout::top_rows).saturating_sub(idle_rows), with_total);
        if let Some(area) = layout.pane(Pane::Callers) {
            let rows = callers::rows(area);
            self.panes.callers.fit(rows.above.into(), rows.below.into());
        }
        if let Some(area) = layout.pane(Pane::Threads) {
            self.panes.threads.fit(layout::top_rows(area));
        }
        self.fit_flame();
        if let Some(area) = layout.pane(Pane::Source)
            && let Some(listing) = self.session.answer.as_ref().and_then(|answer| answer.listing.as_ref())
        {
            let (source, assembly) = source::Areas::new(area, &self.panes.source, listing).rows();
            self.panes.source.fit(source, assembly);
        }
    }

    pub(super) fn fit_flame(&mut self) {
        if let Some(area) = self.layout().and_then(|layout| layout.pane(Pane::Flame)) {
            self.panes.flame.fit(area.width, area.height.saturating_sub(1).into());
        }
    }

    /// Opens or closes the page of the selected thread's deepest stack.
    pub(super) fn toggle_deepest_stack(&mut self) {
        if !matches!(self.screen.mode, Mode::Help(HelpPage::Stack, _)) && !self.panes.threads.request_deepest() {
            return self.screen.note("no thread is selected");
        }
        self.screen.toggle_page(HelpPage::Stack);
    }

    /// Opens or closes the page with the stacks of a thread that waits for a lock and its holder.
    pub(super) fn toggle_holder(&mut self) {
        if !matches!(self.screen.mode, Mode::Help(HelpPage::Holder, _)) && !self.panes.threads.request_chain() {
            return self.screen.note("no thread waits for a lock whose holder is known");
        }
        self.screen.toggle_page(HelpPage::Holder);
    }

    pub(super) fn next_pane(&mut self, step: i8) {
        self.screen.leave_page();
        let shown: Vec<Pane> =
            self.layout().map(|layout| layout.panes.iter().map(|(pane, _)| *pane).collect()).unwrap_or_default();
        // Tab cycles through the visible panes; if only one is visible, through all panes.
        let around = if shown.len() > 1 { &shown[..] } else { &Pane::ALL[..] };
        let at = around.iter().position(|pane| *pane == self.screen.pane).unwrap_or(0) as isize;
        self.screen.pane = around[(at + isize::from(step)).rem_euclid(around.len() as isize) as usize];
        if shown.len() <= 1 {
            self.screen.view = View::Alone(self.screen.pane);
        }
    }

    /// Activates a pane, maximized if it is not visible.
    pub(super) fn focus_pane(&mut self, pane: Pane) {
        self.screen.pane = pane;
        if self.layout().is_none_or(|layout| layout.pane(pane).is_none()) {
            self.screen.view = View::Alone(pane);
        }
    }

    pub(super) fn move_cursor(&mut self, motion: Motion) {
        if let Mode::Help(shown, scroll) = &mut self.screen.mode {
            let facts = PageFacts {
                table: self.options.keys.bindings(),
                facts: self.session.answer.as_ref().map(|answer| &answer.facts),
                explanation: self.panes.explanation.as_ref(),
                summary: self.panes.summary.as_ref(),
                thread: self.panes.threads.deepest(),
                chain: self.panes.threads.chain(),
                now_ns: 0,
            };
            let rows = pages::columns(*shown, &facts, self.screen.size.0).iter().map(Vec::len).max().unwrap_or(0);
            let page = layout::page_rows(self.screen.size);
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
        self.panes.go(self.screen.pane, motion, self.session.answer.as_deref());
    }

    pub(super) fn activate_selection(&mut self) {
        if self.screen.pane == Pane::Output {
            return self.enter_output();
        }
        let answer = self.session.answer.clone();
        let flame = answer.as_ref().and_then(|answer| answer.flame.as_ref());
        match self.screen.pane {
            Pane::Top if !self.screen.card => self.screen.card = !self.enter_wait(),
            Pane::Top => {
                self.screen.card = false;
                self.focus_pane(Pane::Callers);
            }
            Pane::Callers => {
                let is_toggled = self.panes.callers.toggle();
                if !is_toggled {
                    self.screen.note("select a caller or a callee to unfold it");
                }
            }
            Pane::Flame => {
                let Some(flame) = flame else { return };
                let (entered, selected) = self.panes.flame.enter(flame, self.panes.top.selected_name());
                match entered {
                    FlameEnter::Nothing => self.screen.note("this box already has full width; Backspace zooms out"),
                    FlameEnter::Zoomed | FlameEnter::Folded => {}
                }
                if let Some(full) = selected {
                    self.panes.top.select_name(&full);
                }
            }
            Pane::Threads => self.enter_threads(),
            Pane::Source => self.enter_listing(),
            _ => {}
        }
    }

    fn enter_output(&mut self) {
        match (self.options.output, self.session.ended) {
            (false, _) => self.screen.note("the target has its own terminal: type there"),
            (true, Some(_)) => self.screen.note("the target has ended"),
            (true, None) => self.screen.mode = Mode::Typing,
        }
    }

    /// Shows the stacks of a thread that waits as the selected row says, and of the holder of its
    /// lock. Returns false if the row is no wait for a lock whose holder is known.
    fn enter_wait(&mut self) -> bool {
        let row = self.panes.top.selected_names().map_or("", |(short, _)| short);
        let holder = Some(row).filter(|_| self.shows_waits()).and_then(|row| WaitLabel::parse(row).holder_tid());
        let is_shown = holder.is_some_and(|tid| self.panes.threads.request_chain_to(tid));
        if is_shown {
            self.screen.toggle_page(HelpPage::Holder);
        }
        is_shown
    }

    /// Folds idle threads, or shows them.
    pub(super) fn toggle_idle(&mut self) {
        self.question.fold_idle = !self.question.fold_idle;
        self.screen.note(match (self.question.fold_idle, self.session.clock.value()) {
            (_, clock) if clock.is_memory() => "idle threads allocate nothing: they count by the wall clock (r) only",
            (true, Clock::Real) => "idle threads are folded: shares are of the other threads' time",
            (false, Clock::Real) => "idle threads are shown: shares are of all threads' time",
            _ => "idle threads use no CPU time: they count by the wall clock (r) only",
        });
    }

    /// Shows the functions of the kernel, or hides them.
    pub(super) fn toggle_kernel(&mut self) {
        self.question.hides_kernel = !self.question.hides_kernel;
        self.screen.note(match self.question.hides_kernel {
            true => "functions of the kernel are hidden: their time is that of the function that called it",
            false => "functions of the kernel are shown",
        });
    }

    /// Folds foreign code into own code, or unfolds it.
    pub(super) fn toggle_own_code(&mut self) {
        self.question.own.folds = !self.question.own.folds;
        if self.question.own.folds {
            self.panes.top.leave_foreign();
        }
        self.screen.note(match self.question.own.folds {
            true => "own code: library time belongs to its caller",
            false => "all code: foreign functions are dim",
        });
    }

    /// Makes the caller or callee under the cursor the center.
    pub(super) fn center_selection(&mut self) {
        let answer = self.session.answer.clone();
        let Some(callers) = answer.as_ref().and_then(|answer| answer.callers.as_ref()) else { return };
        if let Some(edge) = self.panes.callers.edge(callers) {
            self.panes.callers.leave(self.panes.top.selected_name());
            self.panes.top.select_name(&edge.full);
        }
    }

    fn enter_threads(&mut self) {
        match self.panes.threads.enter() {
            EnterResult::Filter(tag) => {
                let filters = filters::toggle_tag(self.filters.now(), tag);
                if !filters.tagfocus.is_empty() {
                    let name = self.panes.threads.name().unwrap_or_default();
                    self.screen.note(format!("filtered to {name}; Enter, u or U removes the filter"));
                }
                self.filters.set(filters);
            }
            EnterResult::Unfolded => {}
            EnterResult::ShowIdle => self.toggle_idle(),
            EnterResult::Nothing => self.screen.note("this row cannot be used as a filter"),
        }
    }

    /// Follows the call of a source line, or the jump or call of an instruction.
    fn enter_listing(&mut self) {
        let answer = self.session.answer.clone();
        let Some(answer) = answer.as_deref() else { return };
        let Some(listing) = &answer.listing else { return };
        let callee = match self.panes.source.side(listing) {
            ListingKind::Source => {
                let line = self.panes.source.scroll(ListingKind::Source).row() as u32 + 1;
                let weight = self.panes.source.line_weight(listing, line);
                weight.and_then(|weight| weight.callees.first()).map(|callee| callee.full.to_string())
            }
            ListingKind::Assembly => {
                if let Some(row) = self.panes.source.jump() {
                    return self.panes.source.stand(ListingKind::Assembly, row);
                }
                let here = self.panes.source.rows().instruction(self.panes.source.scroll(ListingKind::Assembly).row());
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
                self.panes.callers.leave(self.panes.top.selected_name());
                self.panes.top.select_name(&full);
            }
            None => self.screen.note("no calls sampled here"),
        }
    }

    pub(super) fn go_back(&mut self) {
        let selected = self.panes.top.selected_name();
        if self.screen.pane == Pane::Flame {
            if !self.panes.flame.zoom_out(selected) {
                self.screen.note("already zoomed out");
            }
            return;
        }
        match self.panes.callers.back(selected) {
            Some(full) => self.panes.top.select_name(&full),
            None if self.screen.pane == Pane::Callers => self.focus_pane(Pane::Top),
            None => self.screen.note("no previous function"),
        }
    }

    pub(super) fn go_forward(&mut self) {
        match self.panes.callers.forward(self.panes.top.selected_name()) {
            Some(full) => self.panes.top.select_name(&full),
            None => self.screen.note("no next function"),
        }
    }

    pub(super) fn click(&mut self, column: u16, row: u16) {
        if !matches!(self.screen.mode, Mode::Panes) {
            return;
        }
        if row == 1
            && let Some((subject, index)) = header::chip_at(&self.context(), column)
        {
            self.filters.set(filters::without(self.filters.now(), subject, index));
            return;
        }
        let Some(layout) = self.layout() else { return };
        if row == layout.status.y && self.panes.timeline.is_frozen() {
            let back = timeline::time_at(layout.status, &self.context(), column);
            back.into_iter().for_each(|back| self.show_time(back));
            return;
        }
        let Some((pane, area)) = layout.at(column, row) else { return };
        self.screen.pane = pane;
        let Some(answer) = self.session.answer.clone() else { return };
        match pane {
            Pane::Top => {
                let area = self.context().top_table(area);
                if let Some(index) = layout::top_row(area, row).map(|row| row + self.panes.top.offset())
                    && index < self.panes.top.len()
                {
                    self.panes.top.select(index);
                }
            }
            Pane::Callers => {
                let Some(callers) = &answer.callers else { return };
                let hit = callers::row_at(area, row, self.panes.callers.scrolled());
                match hit.filter(|row| *row == 0 || self.panes.callers.edge_at(callers, *row).is_some()) {
                    // A second click on the selected row unfolds or folds it.
                    Some(row) if row == self.panes.callers.row() => drop(self.panes.callers.toggle()),
                    Some(row) => self.panes.callers.move_to(row),
                    None => {}
                }
            }
            Pane::Flame => {
                let Some(flame) = &answer.flame else { return };
                let Some(line) = row.checked_sub(area.y + 1) else { return };
                let Some(tile) = self.panes.flame.tile_at(flame, column - area.x, line.into()) else { return };
                if let Some(full) = self.panes.flame.stand(flame, tile, self.panes.top.selected_name()) {
                    self.panes.top.select_name(&full);
                }
            }
            Pane::Source => {
                let Some(listing) = &answer.listing else { return };
                if let Some((side, row)) = source::Areas::new(area, &self.panes.source, listing).at(column, row) {
                    self.panes.source.stand(side, self.panes.source.scroll(side).offset() + row);
                }
            }
            Pane::Threads => {
                let Some((line, on_mark)) = threads::line_at(area, column, row) else { return };
                let index = line + self.panes.threads.offset();
                if index >= self.panes.threads.len() {
                    return;
                }
                let again = self.panes.threads.selection().is_some_and(|(selected, _)| selected == index);
                self.panes.threads.select(index);
                match () {
                    () if on_mark => self.panes.threads.toggle_fold(),
                    // A second click on the selected row activates it.
                    () if again => self.enter_threads(),
                    () => {}
                }
            }
            _ => {}
        }
    }

    pub(super) fn wheel(&mut self, column: u16, row: u16, step: i8) {
        let rows = WHEEL_ROWS * i16::from(step);
        let motion = Motion::Rows(rows);
        match self.screen.mode {
            Mode::Help(..) => self.move_cursor(motion),
            Mode::Panes | Mode::Typing | Mode::Prompt(..) | Mode::Command(_) | Mode::Save(_) => {
                if let Some((pane, _)) = self.layout().and_then(|layout| layout.at(column, row)) {
                    self.panes.scroll(pane, rows, self.session.answer.as_deref());
                }
            }
            Mode::ConfirmQuit | Mode::ConfirmItimer(_) | Mode::Ending(_) => {}
        }
    }
}
