//! The `:` line: the keys that edit it, and the execution of its commands.

use super::{App, Mode};
use crate::session::Command;
use crate::tally::query::{OwnCode, Pattern};
use crate::tui::action::{Action, Effect, Motion};
use crate::tui::command::colon_command::ColonCommand;
use crate::tui::command::command_line::CommandLine;
use crate::tui::filters;
use crate::tui::layout::{Pane, View};
use crate::tui::name_parts::bare_name;
use crate::tui::pane::source::state::ListingMode;

impl App {
    pub(super) fn open_colon(&mut self) {
        self.screen.leave_page();
        self.screen.mode = Mode::Command(CommandLine::default());
    }

    /// Applies an action to the open `:` line; returns `None` if the action does not concern it.
    pub(super) fn update_command_line(&mut self, action: &Action) -> Option<Vec<Effect>> {
        let Mode::Command(line) = &mut self.screen.mode else { return None };
        match action {
            Action::Insert(c) => line.insert(c.encode_utf8(&mut [0; 4])),
            Action::Paste(text) => line.insert(text),
            Action::Edit(edit) => line.edit(*edit),
            Action::Complete => {
                let rows = (0..self.panes.top.len()).filter_map(|index| self.panes.top.line(index));
                let names: Vec<&str> = rows.map(|row| matching_name(&row.row.full, &row.row.short)).collect();
                line.complete(names.into_iter());
            }
            Action::Recall(step) => line.recall(&self.command_history, *step),
            Action::Accept => {
                let text = line.line().text();
                let Some(command) = line.parse() else { return Some(Vec::new()) };
                self.screen.mode = Mode::Panes;
                self.command_history.push(text);
                return Some(self.execute(command));
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn execute(&mut self, command: ColonCommand) -> Vec<Effect> {
        match command {
            ColonCommand::Act(action) => self.act(action),
            ColonCommand::ClearFilters => {
                self.screen.note("filters cleared; u undoes that");
                self.act(Action::ClearFilters)
            }
            ColonCommand::Filter(kind, pattern) => {
                let mut filters = self.filters.now().clone();
                *kind.patterns_mut(&mut filters) = pattern.into_iter().collect();
                self.filters.set(filters);
                Vec::new()
            }
            ColonCommand::Tag(kind, tag) => {
                let mut filters = self.filters.now().clone();
                *kind.tags_mut(&mut filters) = tag.into_iter().collect();
                self.filters.set(filters);
                Vec::new()
            }
            ColonCommand::Top { rows, sort, focus, ignore } => {
                let mut filters = self.filters.now().clone();
                filters.focus.extend(focus);
                filters.ignore.extend(ignore);
                self.question.sort = sort.unwrap_or(self.question.sort);
                self.screen.show_view(View::Alone(Pane::Top));
                self.panes.top.show_at_most(rows);
                self.panes.top.go(Motion::First);
                if let Some(rows) = rows {
                    self.screen.note(format!("showing the first {rows} rows; :top shows all"));
                }
                self.filters.set(filters);
                Vec::new()
            }
            ColonCommand::Peek(pattern) => {
                if self.select_first(&pattern) {
                    self.focus_pane(Pane::Callers);
                }
                Vec::new()
            }
            ColonCommand::List(pattern) => self.show_listing(&pattern, ListingMode::Source),
            ColonCommand::Disasm(pattern) => self.show_listing(&pattern, ListingMode::Assembly),
            ColonCommand::Clock(clock) => self.switch_clock(clock),
            ColonCommand::Engine(engine) => self.switch_sampling(Command::Engine(engine)),
            ColonCommand::Period(period_ns) => {
                self.session.period_ns.request(period_ns);
                vec![Effect::Send(Command::Period(period_ns))]
            }
            ColonCommand::Window(window_ns) => {
                self.question.window_ns = window_ns;
                Vec::new()
            }
            ColonCommand::At(time) => self.go_to_time(time),
            ColonCommand::Sort(sort) => {
                self.question.sort = sort;
                Vec::new()
            }
            ColonCommand::Group(group) => {
                self.set_group(group);
                Vec::new()
            }
            ColonCommand::Roots(roots) => {
                self.set_roots(roots);
                Vec::new()
            }
            ColonCommand::OwnCode(pattern) => {
                self.question.own = OwnCode { folds: true, pattern };
                Vec::new()
            }
            ColonCommand::Names(names) => {
                self.screen.names = names;
                Vec::new()
            }
        }
    }

    /// Shows the source or the assembly of the first matching function.
    fn show_listing(&mut self, pattern: &Pattern, form: ListingMode) -> Vec<Effect> {
        if self.select_first(pattern) {
            self.panes.source.mode = form;
            self.focus_pane(Pane::Source);
        }
        Vec::new()
    }

    /// Selects the first matching function. If there is none, a message says so.
    fn select_first(&mut self, pattern: &Pattern) -> bool {
        let found = self.panes.top.select_first(pattern);
        if !found {
            let chips: Vec<String> = filters::chips(self.filters.now()).collect();
            self.screen.note(match chips[..] {
                [] => format!("no function matches {}", pattern.text()),
                _ => format!("no function matches {} under {}", pattern.text(), chips.join(" ")),
            });
        }
        found
    }
}

/// Returns the form of a name that its full name contains, so that a filter for it matches.
fn matching_name<'a>(full: &'a str, short: &'a str) -> &'a str {
    [short, bare_name(short)].into_iter().find(|name| full.contains(name)).unwrap_or(full)
}
