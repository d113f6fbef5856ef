//! A screen for tests: keys go in as bytes, and the visible screen comes out, with a fake session
//! behind it.

use ratatui::backend::{CrosstermBackend, TestBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use ratatui::{Terminal, TerminalOptions, Viewport};
use sigtop::session::Question;
use sigtop::tally::query::{Filters, Sort};
use sigtop::tui::action::{Action, Departure, Effect};
use sigtop::tui::app::App;
use sigtop::tui::term::input::KeyDecoder;
use sigtop::tui::theme::Depth;
use sigtop::tui::{Device, OnQuit, Options, Theme, screen};
use sigtop::wire::{Clock, Engine};

use crate::session::Session;

pub(crate) const SCREEN: &str = include_str!("../scenarios/screen.txt");

/// The options that tests start with.
pub(crate) fn options() -> Options {
    Options {
        command: "./server --port 8080".to_owned(),
        launched: true,
        recording: None,
        successor: None,
        base: None,
        output: true,
        on_quit: OnQuit::Ask,
        mouse: true,
        device: Device::Stdout,
        theme: Theme::new(Depth::True, false),
        keys: sigtop::tui::Keymap::default(),
        names: sigtop::tui::NameStyle::default(),
        question: Question {
            window_ns: Some(10_000_000_000),
            filters: Filters::default(),
            sort: Sort::Flat,
            ..Question::default()
        },
        clock: Clock::Prof,
        engine: Engine::Threads,
        period_ns: 10_101_010,
    }
}

/// A part of the screen.
#[derive(Clone, Copy)]
pub(crate) enum Region {
    /// The header.
    Header,
    /// Panes, or the page over them.
    Body,
    /// The status line and the footer.
    Status,
}

/// A screen, and the session behind it.
pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) session: Session,
    size: (u16, u16),
    /// The way in which the screen was left, if it was.
    pub(crate) left: Option<Departure>,
    /// Effects that are not for the session.
    pub(crate) effects: Vec<Effect>,
    decoder: KeyDecoder,
}

impl Stage {
    /// Creates a screen of this size that has asked its first question.
    pub(crate) fn new(options: Options, session: Session, size: (u16, u16)) -> Stage {
        let (left, effects, decoder) = (None, Vec::new(), KeyDecoder::default());
        let mut stage = Stage { app: App::new(options), session, size, left, effects, decoder };
        let start = stage.app.start(size);
        stage.follow(start);
        stage
    }

    /// Creates the usual screen of this size.
    pub(crate) fn usual(size: (u16, u16)) -> Stage {
        Stage::new(options(), Session::new(SCREEN), size)
    }

    /// Applies an action.
    pub(crate) fn act(&mut self, action: Action) {
        let effects = self.app.update(action);
        self.follow(effects);
    }

    /// Passes the session's newest answer to the screen.
    pub(crate) fn refresh(&mut self) {
        let answer = self.session.answer().expect("a question was asked");
        self.act(Action::Answer(answer));
    }

    /// Presses keys, given as the bytes that a terminal sends.
    pub(crate) fn press(&mut self, keys: &str) {
        let mut heard = Vec::new();
        self.decoder.feed(keys.as_bytes(), &mut heard);
        self.decoder.flush(&mut heard);
        for input in heard {
            let effects = self.app.input(input);
            self.follow(effects);
        }
    }

    fn follow(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(command) => {
                    if let Some(answer) = self.session.obey(command) {
                        self.act(Action::Answer(answer));
                    }
                }
                Effect::Leave(departure) => self.left = Some(departure),
                other => self.effects.push(other),
            }
        }
    }

    /// Changes the size of the screen.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.act(Action::Resize(size.0, size.1));
    }

    /// Returns the cells of the screen, and the position of the cursor.
    pub(crate) fn buffer(&self) -> (Buffer, Option<(u16, u16)>) {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).expect("a terminal");
        let mut cursor = None;
        let frame = terminal.draw(|frame| screen::draw(frame, &self.app)).expect("a frame");
        let buffer = frame.buffer.clone();
        if terminal.backend().cursor_visible() {
            let at = terminal.backend().cursor_position();
            cursor = Some((at.x, at.y));
        }
        (buffer, cursor)
    }

    /// Returns the bytes that draw this screen on a blank terminal.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let viewport = Viewport::Fixed(Rect::new(0, 0, self.size.0, self.size.1));
        let mut bytes = Vec::new();
        let backend = CrosstermBackend::new(&mut bytes);
        let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport }).expect("a terminal");
        terminal.draw(|frame| screen::draw(frame, &self.app)).expect("a frame");
        drop(terminal);
        bytes
    }

    /// Returns the screen's text, with the position of the cursor.
    pub(crate) fn text(&self) -> String {
        let (buffer, cursor) = self.buffer();
        let mut text = String::new();
        for y in 0..buffer.area.height {
            text.push_str(row(&buffer, y).trim_end());
            text.push('\n');
        }
        if let Some((x, y)) = cursor {
            text.push_str(&format!("cursor at {x},{y}\n"));
        }
        text
    }

    /// Returns these regions as text, each below a line with its name and the size of the screen.
    pub(crate) fn regions(&self, regions: &[Region]) -> String {
        let rows = usize::from(self.size.1);
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        let region = |region: &Region| {
            let (name, lines) = match region {
                Region::Header => ("header", &lines[..2]),
                Region::Body => ("panes", &lines[2..rows - 2]),
                // Includes the position of the cursor, if it is visible.
                Region::Status => ("status", &lines[rows - 2..]),
            };
            format!("== {}x{} {name}\n{}\n", self.size.0, self.size.1, lines.join("\n"))
        };
        regions.iter().map(region).collect()
    }

    /// Returns one line of the visible text.
    pub(crate) fn line(&self, y: u16) -> String {
        row(&self.buffer().0, y).trim_end().to_owned()
    }

    /// Returns the status line, above the footer.
    pub(crate) fn status(&self) -> String {
        self.line(self.size.1 - 2)
    }

    /// Returns the screen's text and its styles: runs of one style, a line for each row.
    pub(crate) fn styled(&self) -> String {
        let (buffer, _) = self.buffer();
        let mut text = String::new();
        for y in 0..buffer.area.height {
            let mut runs: Vec<(String, String)> = Vec::new();
            let mut skip = 0;
            for x in 0..buffer.area.width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let cell = &buffer[(x, y)];
                skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
                let style = describe(cell.fg, cell.bg, cell.modifier);
                match runs.last_mut() {
                    Some((text, last)) if *last == style => text.push_str(cell.symbol()),
                    _ => runs.push((cell.symbol().to_owned(), style)),
                }
            }
            let blank = |(text, style): &&(String, String)| !(text.trim().is_empty() && style == "plain");
            let runs = runs.iter().filter(blank).map(|(text, style)| format!("{style}‹{}›", text.trim_end()));
            text.push_str(&runs.collect::<Vec<_>>().join(" "));
            text.push('\n');
        }
        text
    }
}

fn row(buffer: &Buffer, y: u16) -> String {
    let mut text = String::new();
    let mut skip = 0;
    for x in 0..buffer.area.width {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let symbol = buffer[(x, y)].symbol();
        skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
        text.push_str(symbol);
    }
    text
}

fn describe(fg: Color, bg: Color, modifier: Modifier) -> String {
    let mut words = Vec::new();
    if fg != Color::Reset {
        words.push(fg.to_string().to_lowercase());
    }
    if bg != Color::Reset {
        words.push(format!("on {}", bg.to_string().to_lowercase()));
    }
    if !modifier.is_empty() {
        words.push(format!("{modifier:?}").to_lowercase());
    }
    if words.is_empty() { "plain".to_owned() } else { words.join(" ") }
}
