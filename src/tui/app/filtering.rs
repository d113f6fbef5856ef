//! Filters, prompts and searches: which samples count, and which row has the cursor.

use super::{App, Mode, Stand};
use crate::tally::query::{Group, Pattern, without_owner};
use crate::track::Command;
use crate::tui::action::{Effect, Subject};
use crate::tui::filters::{self, FilterHistory};
use crate::tui::layout::Pane;
use crate::tui::listing::Side;
use crate::tui::page::Page;
use crate::tui::prompt::Prompt;
use crate::tui::why::Why;
use crate::tui::{text, typing};

/// Characters of a name that are copied, at most.
const MAX_COPY: usize = 4096;

impl App {
    pub(super) fn travel(&mut self, step: fn(&mut FilterHistory) -> bool, otherwise: &str) {
        if !step(&mut self.filters) {
            self.note(otherwise);
        }
    }

    /// Full name and module of the function that the keys stand on.
    pub(in crate::tui) fn pointed(&self) -> Option<(&str, &str)> {
        let answer = self.answer.as_ref()?;
        let here = match self.pane {
            Pane::Callers => answer.callers.as_ref().and_then(|callers| self.neighbours.edge(callers)),
            _ => None,
        };
        let selected = || {
            let module = self.list.selected_names().map_or("", |(_, module)| module);
            Some((self.list.selected_name()?, module))
        };
        here.map(|edge| (edge.full.as_str(), edge.module.as_str())).or_else(selected)
    }

    /// The line that the keys stand on, as an editor takes it (`src/main.rs:12`), or the instruction.
    fn pointed_line(&self) -> Option<String> {
        let listing = self.answer.as_ref()?.listing.as_ref()?;
        let row = self.listing.scroll(self.listing.side(listing)).row();
        match self.listing.side(listing) {
            Side::Source => self.listing.text(listing).map(|source| format!("{}:{}", source.path, row + 1)),
            Side::Assembly => {
                self.listing.rows().instruction(row).map(|(_, at)| format!("{:x} {}", at.address, at.text))
            }
        }
    }

    pub(super) fn filter_selected(&mut self, subject: Subject) {
        if self.pane == Pane::Threads {
            let kind = match subject {
                Subject::Focus => Subject::TagFocus,
                Subject::Ignore => Subject::TagIgnore,
                _ => return self.note("a thread has no frames to hide; F and I choose by thread"),
            };
            match self.roster.tag() {
                Some(tag) => self.filters.set(filters::with_tag(self.filters.now(), kind, tag)),
                None => self.note("this line is no thread that could be filtered by"),
            }
            return;
        }
        let Some((full, _)) = self.pointed() else { return self.note("nothing is selected") };
        let name = match self.group {
            Group::Function | Group::Module => full,
            Group::Thread | Group::Process => without_owner(full),
            Group::File => full.strip_suffix(" (inline)").unwrap_or(full),
            // Filters look at names, files and modules; a line or an address is none of them.
            Group::Line | Group::Address => return self.note("b groups by function: that can be a filter"),
        };
        match filters::exactly(name) {
            Some(pattern) => self.filters.set(filters::with(self.filters.now(), subject, pattern)),
            None => self.note("this name is too long for a filter"),
        }
    }

    pub(super) fn hide_module(&mut self) {
        let Some((_, module)) = self.pointed() else { return self.note("no function is selected") };
        match filters::module(module) {
            Some(pattern) => self.filters.set(filters::with(self.filters.now(), Subject::Hide, pattern)),
            None => self.note("the module of this function is not known"),
        }
    }

    /// Where selection and cursors stand, to come back to it.
    pub(super) fn stand(&self) -> Stand {
        Stand {
            list: self.list.mark(),
            neighbours: self.neighbours.clone(),
            flame: self.flame.clone(),
            listing: self.listing.clone(),
        }
    }

    pub(super) fn return_to(&mut self, stand: Stand) {
        self.list.return_to(stand.list);
        (self.neighbours, self.flame, self.listing) = (stand.neighbours, stand.flame, stand.listing);
        if let Some(callers) = self.answer.as_ref().and_then(|answer| answer.callers.as_ref()) {
            self.neighbours.take(callers);
        }
        if let Some(answer) = &self.answer {
            self.listing.hear(answer, self.list.is_firm());
        }
    }

    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Prompt)) {
        let Mode::Prompt(prompt, stand) = &mut self.mode else { return };
        let before = prompt.pattern().cloned();
        change(prompt);
        if prompt.pattern() == before.as_ref() || prompt.subject != Subject::Find {
            return;
        }
        let (pattern, stand) = (prompt.pattern().cloned(), Stand::clone(stand));
        self.return_to(stand);
        if let Some(pattern) = pattern {
            self.find(&pattern, 0);
        }
    }

    pub(super) fn accept(&mut self) {
        let Mode::Prompt(prompt, _) = &self.mode else { return };
        if prompt.fault().is_some() {
            return;
        }
        let (subject, pattern) = (prompt.subject, prompt.pattern().cloned());
        self.mode = Mode::Panes;
        match pattern {
            Some(pattern) if subject == Subject::Find => self.found = Some(pattern),
            Some(pattern) => self.filters.set(filters::with(self.filters.now(), subject, pattern)),
            None => {}
        }
    }

    pub(super) fn find_next(&mut self, direction: i8) {
        let Some(pattern) = self.found.clone() else {
            return self.note("nothing was searched for yet: / asks what");
        };
        if !self.find(&pattern, direction) {
            self.note(match self.pane {
                Pane::Flame => "no box has this name now",
                Pane::Source => "no line has this text",
                _ => "no row has this name now",
            });
        }
    }

    /// Moves to the next match in the pane that has the keys; whether there is one.
    fn find(&mut self, pattern: &Pattern, direction: i8) -> bool {
        let answer = self.answer.clone();
        let answer = answer.as_deref();
        match self.pane {
            Pane::Top | Pane::Output => self.list.find(pattern, self.names, direction),
            Pane::Callers => answer
                .and_then(|answer| answer.callers.as_ref())
                .is_some_and(|callers| self.neighbours.find(pattern, self.names, direction, callers)),
            Pane::Threads => self.roster.find(pattern, direction),
            Pane::Source => answer
                .and_then(|answer| answer.listing.as_ref())
                .is_some_and(|listing| self.listing.find(pattern, direction, listing)),
            Pane::Flame => {
                let Some(flame) = answer.and_then(|answer| answer.flame.as_ref()) else { return false };
                let found = self.flame.find(pattern, self.names, direction, flame, self.list.selected_name());
                found.inspect(|full| self.list.select_name(full)).is_some()
            }
        }
    }

    pub(super) fn paste(&mut self, pasted: &str) -> Vec<Effect> {
        match self.mode {
            Mode::Prompt(..) => {
                self.edit(|prompt| prompt.insert(pasted));
                Vec::new()
            }
            Mode::Typing => vec![Effect::Send(Command::Input(typing::paste(pasted, &self.emulator)))],
            _ => Vec::new(),
        }
    }

    /// Opens the page on the selected name, or closes it.
    pub(super) fn ask_why(&mut self) -> Vec<Effect> {
        if matches!(self.mode, Mode::Page(Page::Why, _)) {
            self.leave_page();
            return Vec::new();
        }
        let pointed = if self.pane == Pane::Threads { self.roster.function() } else { self.pointed() };
        let Some((full, module)) = pointed.map(|(full, module)| (full.to_owned(), module.to_owned())) else {
            self.note("no function is selected");
            return Vec::new();
        };
        let full = match self.group.owner() {
            Some(_) => without_owner(&full).to_owned(),
            None => full,
        };
        self.why = Some(Why { full, module: module.clone(), found: None });
        self.mode = Mode::Page(Page::Why, 0);
        if module.is_empty() { Vec::new() } else { vec![Effect::Send(Command::Why { module })] }
    }

    pub(super) fn copy(&mut self) -> Vec<Effect> {
        if let Some(line) = self.pointed_line().filter(|_| self.pane == Pane::Source) {
            let line: String = line.chars().take(MAX_COPY).map(text::shown).collect();
            self.note(format!("copied: {line}"));
            return vec![Effect::Copy(line)];
        }
        let own = if self.pane == Pane::Threads { self.roster.name() } else { self.pointed().map(|(full, _)| full) };
        let Some(full) = own else {
            self.note("nothing is selected");
            return Vec::new();
        };
        let name: String = full.chars().take(MAX_COPY).map(text::shown).collect();
        self.note("name copied");
        vec![Effect::Copy(name)]
    }
}
