//! The line of commands: keys that edit it, and what its orders do.

use super::{App, Mode};
use crate::tally::query::Pattern;
use crate::track::Command;
use crate::tui::action::{Action, Effect, Motion};
use crate::tui::colon::Colon;
use crate::tui::filters;
use crate::tui::layout::{Pane, View};
use crate::tui::listing::Form;
use crate::tui::order::Order;

impl App {
    pub(super) fn open_colon(&mut self) {
        self.leave_page();
        self.mode = Mode::Colon(Colon::default());
    }

    /// What an action is to the line of commands, while it is open; `None` if nothing.
    pub(super) fn colon(&mut self, action: &Action) -> Option<Vec<Effect>> {
        let Mode::Colon(colon) = &mut self.mode else { return None };
        match action {
            Action::Insert(c) => colon.insert(c.encode_utf8(&mut [0; 4])),
            Action::Paste(text) => colon.insert(text),
            Action::Edit(edit) => colon.edit(*edit),
            Action::Complete => {
                let lines = (0..self.list.len()).filter_map(|index| self.list.line(index));
                let names: Vec<&str> = lines.map(|line| line.row.short.as_str()).collect();
                colon.complete(names.into_iter());
            }
            Action::Recall(step) => colon.recall(&self.colon_history, *step),
            Action::Accept => {
                let line = colon.line().text();
                let Some(order) = colon.order() else { return Some(Vec::new()) };
                self.mode = Mode::Panes;
                self.colon_history.keep(line);
                return Some(self.obey(order));
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn obey(&mut self, order: Order) -> Vec<Effect> {
        match order {
            Order::Act(action) => self.act(action),
            Order::ClearFilters => {
                self.note("no filters now; u takes them back");
                self.act(Action::ClearFilters)
            }
            Order::Filter(kind, pattern) => {
                let mut filters = self.filters.now().clone();
                *kind.of(&mut filters) = pattern.into_iter().collect();
                self.filters.set(filters);
                Vec::new()
            }
            Order::Tag(kind, tag) => {
                let mut filters = self.filters.now().clone();
                *kind.of(&mut filters) = tag.into_iter().collect();
                self.filters.set(filters);
                Vec::new()
            }
            Order::Top { rows, sort, focus, ignore } => {
                let mut filters = self.filters.now().clone();
                filters.focus.extend(focus);
                filters.ignore.extend(ignore);
                self.sort = sort.unwrap_or(self.sort);
                self.show(View::Alone(Pane::Top));
                self.list.show_at_most(rows);
                self.list.go(Motion::First);
                if let Some(rows) = rows {
                    self.note(format!("the first {rows} rows; :top shows all"));
                }
                self.filters.set(filters);
                Vec::new()
            }
            Order::Peek(pattern) => {
                if self.select_first(&pattern) {
                    self.turn_to_pane(Pane::Callers);
                }
                Vec::new()
            }
            Order::List(pattern) => self.list_of(&pattern, Form::Source),
            Order::Disasm(pattern) => self.list_of(&pattern, Form::Assembly),
            Order::Clock(clock) => self.switch_clock(clock),
            Order::Engine(engine) => self.sample_by(Command::Engine(engine)),
            Order::Period(period_ns) => {
                self.period_ns.want(period_ns);
                vec![Effect::Send(Command::Period(period_ns))]
            }
            Order::Window(window_ns) => {
                self.window_ns = window_ns;
                Vec::new()
            }
            Order::Sort(sort) => {
                self.sort = sort;
                Vec::new()
            }
            Order::Group(group) => {
                self.turn_group(group);
                Vec::new()
            }
            Order::Roots(roots) => {
                self.turn_roots(roots);
                Vec::new()
            }
            Order::Names(names) => {
                self.names = names;
                Vec::new()
            }
        }
    }

    /// Source or assembly of the first function that matches.
    fn list_of(&mut self, pattern: &Pattern, form: Form) -> Vec<Effect> {
        if self.select_first(pattern) {
            self.listing.form = form;
            self.turn_to_pane(Pane::Source);
        }
        Vec::new()
    }

    /// Selects the first function that matches; if there is none, says so.
    fn select_first(&mut self, pattern: &Pattern) -> bool {
        let found = self.list.select_first(pattern);
        if !found {
            let chips: Vec<String> = filters::chips(self.filters.now()).collect();
            self.note(match chips[..] {
                [] => format!("no function matches {}", pattern.text()),
                _ => format!("no function matches {} under {}", pattern.text(), chips.join(" ")),
            });
        }
        found
    }
}
