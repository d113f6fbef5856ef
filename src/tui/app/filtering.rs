//! Filters, prompts and searches.

use super::{App, Mode};
use crate::explain;
use crate::session::{Command, HistoryWindow, Question};
use crate::tally::query::tags::TagFilter;
use crate::tally::query::{Grouping, Pattern, without_owner};
use crate::tui::action::{Effect, Subject};
use crate::tui::filters::{self, FilterHistory};
use crate::tui::layout::Pane;
use crate::tui::pane::help::explain::NameQuestion;
use crate::tui::pane::help::pages::HelpPage;
use crate::tui::pane::mode::SavedCursors;
use crate::tui::pane::prompt::state::Prompt;
use crate::tui::pane::source::state::ListingKind;
use crate::tui::term::key_bytes;
use crate::tui::text;

/// Maximum number of characters copied to the clipboard.
const MAX_COPY: usize = 4096;

impl App {
    pub(super) fn step_filters(&mut self, step: fn(&mut FilterHistory) -> bool, otherwise: &str) {
        if !step(&mut self.filters) {
            self.screen.note(otherwise);
        }
    }

    /// Full name and module of the function under the cursor.
    fn function_under_cursor(&self) -> Option<(&str, &str)> {
        self.panes.function_under_cursor(self.screen.pane, self.session.answer.as_ref()?)
    }

    /// The source line under the cursor in the form that editors accept (`src/main.rs:12`), or the
    /// instruction.
    fn line_under_cursor(&self) -> Option<String> {
        let listing = self.session.answer.as_ref()?.listing.as_ref()?;
        let row = self.panes.source.scroll(self.panes.source.side(listing)).row();
        match self.panes.source.side(listing) {
            ListingKind::Source => self.panes.source.text(listing).map(|source| format!("{}:{}", source.path, row + 1)),
            ListingKind::Assembly => {
                self.panes.source.rows().instruction(row).map(|(_, at)| format!("{:x} {}", at.address, at.text))
            }
        }
    }

    pub(super) fn filter_selected(&mut self, subject: Subject) {
        if self.screen.pane == Pane::Threads {
            let kind = match subject {
                Subject::Focus => Subject::TagFocus,
                Subject::Ignore => Subject::TagIgnore,
                _ => return self.screen.note("threads have no frames to hide; F and I filter by thread"),
            };
            match self.panes.threads.tag() {
                Some(tag) => self.filters.set(filters::with_tag(self.filters.now(), kind, tag)),
                None => self.screen.note("this row cannot be used as a filter"),
            }
            return;
        }
        let Some((full, _)) = self.function_under_cursor() else { return self.screen.note("nothing is selected") };
        if let Some(tag) = Some(full).filter(|_| self.shows_waits()).and_then(TagFilter::for_wait) {
            let kind = if subject == Subject::Ignore { Subject::TagIgnore } else { Subject::TagFocus };
            if !matches!(subject, Subject::Focus | Subject::Ignore) {
                return self.screen.note("waits are not hidden: F and I filter by them, B shows functions");
            }
            return self.filters.set(filters::with_tag(self.filters.now(), kind, tag));
        }
        let name = match self.question.group {
            Grouping::Function | Grouping::Module | Grouping::Wait | Grouping::WaitReason | Grouping::WaitHolder => {
                full
            }
            Grouping::Thread | Grouping::Process | Grouping::Title => without_owner(full),
            Grouping::File => full.strip_suffix(" (inline)").unwrap_or(full),
            // Filters match names, files and modules, not lines or addresses.
            Grouping::Line | Grouping::Address => {
                return self.screen.note("lines and addresses cannot be filters; b groups by function");
            }
        };
        match filters::exactly(name) {
            Some(pattern) => self.filters.set(filters::with(self.filters.now(), subject, pattern)),
            None => self.screen.note("this name is too long for a filter"),
        }
    }

    pub(super) fn hide_module(&mut self) {
        let Some((_, module)) = self.function_under_cursor() else {
            return self.screen.note("no function is selected");
        };
        match filters::module(module) {
            Some(pattern) => self.filters.set(filters::with(self.filters.now(), Subject::Hide, pattern)),
            None => self.screen.note("the module of this function is unknown"),
        }
    }

    pub(super) fn edit_prompt(&mut self, change: impl FnOnce(&mut Prompt)) {
        let Mode::Prompt(prompt, stand) = &mut self.screen.mode else { return };
        let before = prompt.pattern().cloned();
        change(prompt);
        if prompt.pattern() == before.as_ref() || prompt.subject != Subject::Find {
            return;
        }
        let (pattern, stand) = (prompt.pattern().cloned(), SavedCursors::clone(stand));
        self.panes.restore_cursors(stand, self.session.answer.as_deref());
        if let Some(pattern) = pattern {
            self.find(&pattern, 0);
        }
    }

    pub(super) fn accept_prompt(&mut self) {
        let Mode::Prompt(prompt, _) = &self.screen.mode else { return };
        if prompt.fault().is_some() {
            return;
        }
        let (subject, pattern) = (prompt.subject, prompt.pattern().cloned());
        self.screen.mode = Mode::Panes;
        match pattern {
            Some(pattern) if subject == Subject::Find => self.screen.last_search = Some(pattern),
            Some(pattern) => self.filters.set(filters::with(self.filters.now(), subject, pattern)),
            None => {}
        }
    }

    pub(super) fn find_next(&mut self, direction: i8) {
        let Some(pattern) = self.screen.last_search.clone() else {
            return self.screen.note("no search pattern; / sets one");
        };
        if !self.find(&pattern, direction) {
            self.screen.note(match self.screen.pane {
                Pane::Flame => "no box matches",
                Pane::Source => "no line matches",
                _ => "no row matches",
            });
        }
    }

    /// Moves the cursor of the active pane to the next match; returns whether there is one.
    fn find(&mut self, pattern: &Pattern, direction: i8) -> bool {
        let (pane, names) = (self.screen.pane, self.screen.names);
        self.panes.find(pane, (pattern, direction), names, self.session.answer.as_deref())
    }

    pub(super) fn paste(&mut self, pasted: &str) -> Vec<Effect> {
        match self.screen.mode {
            Mode::Prompt(..) => {
                self.edit_prompt(|prompt| prompt.insert(pasted));
                Vec::new()
            }
            Mode::Typing => vec![Effect::Send(Command::Input(key_bytes::of_paste(pasted, &self.panes.emulator)))],
            _ => Vec::new(),
        }
    }

    /// Opens or closes the page that explains the selected name.
    pub(super) fn toggle_explanation(&mut self) -> Vec<Effect> {
        if matches!(self.screen.mode, Mode::Help(HelpPage::Explain, _)) {
            self.screen.leave_page();
            return Vec::new();
        }
        let pointed = if self.screen.pane == Pane::Threads {
            self.panes.threads.function()
        } else {
            self.function_under_cursor()
        };
        let Some((full, module)) = pointed.map(|(full, module)| (full.to_owned(), module.to_owned())) else {
            self.screen.note("no function is selected");
            return Vec::new();
        };
        let full = match self.question.group.owner() {
            Some(_) => without_owner(&full).to_owned(),
            None => full,
        };
        self.panes.explanation = Some(NameQuestion { full, module: module.clone(), found: None });
        self.screen.mode = Mode::Help(HelpPage::Explain, 0);
        if module.is_empty() { Vec::new() } else { vec![Effect::Send(Command::Why { module })] }
    }

    /// Opens the page that says where the time of what is shown goes.
    pub(super) fn explain_time(&mut self) -> Vec<Effect> {
        let Some(answer) = self.session.answer.as_ref().filter(|_| !self.session.is_diff) else {
            self.screen.note(if self.session.is_diff {
                "differences have no explanation: d"
            } else {
                "no samples yet"
            });
            return Vec::new();
        };
        let of_functions = self.question.group == Grouping::Function;
        let hottest = answer.window.rows.iter().filter(|_| of_functions).max_by_key(|row| row.flat_ns);
        let hottest = hottest.map(|row| row.full.to_string());
        let all_ns = self.question.window_ns.unwrap_or(answer.facts.up.as_nanos() as u64);
        let recent = self.question.past.map(|past| HistoryWindow { buckets: (past.buckets / 2).max(1), ..past });
        let shown = |window_ns, past, hot| Question {
            filters: self.question.filters.clone(),
            hides_kernel: self.question.hides_kernel,
            past,
            ..explain::question(window_ns, hot)
        };
        let questions = vec![
            shown(self.question.window_ns, self.question.past, hottest.as_deref()),
            shown(Some(explain::recent_ns(all_ns)), recent, None),
        ];
        self.panes.summary = None;
        self.screen.mode = Mode::Help(HelpPage::Summary, 0);
        vec![Effect::Send(Command::AskOnce(questions))]
    }

    pub(super) fn copy(&mut self) -> Vec<Effect> {
        if let Some(line) = self.line_under_cursor().filter(|_| self.screen.pane == Pane::Source) {
            let line: String = line.chars().take(MAX_COPY).map(text::shown).collect();
            self.screen.note(format!("asked the terminal to copy (OSC 52): {line}"));
            return vec![Effect::Copy(line)];
        }
        let own = if self.screen.pane == Pane::Threads {
            self.panes.threads.name()
        } else {
            self.function_under_cursor().map(|(full, _)| full)
        };
        let Some(full) = own else {
            self.screen.note("nothing is selected");
            return Vec::new();
        };
        let name: String = full.chars().take(MAX_COPY).map(text::shown).collect();
        self.screen.note("asked the terminal to copy the name (OSC 52)");
        vec![Effect::Copy(name)]
    }
}
