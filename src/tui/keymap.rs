//! The key table as the user wants it: actions have names, and names can be given other keys. Dispatch, footer and help page
//! read the result; the names of keys and actions are the ones that the config file and the man page use.

use std::borrow::Cow;
use std::fmt;

use crossterm::event::{KeyCode, KeyModifiers};

use super::action::{Action, Motion, Subject};
use super::keys::{Binding, Key, Place, TABLE};
use super::layout::Pane;
use super::nearest::nearest;
use crate::link::wire::Clock;

/// Keys of one action, at most.
const MAX_KEYS: usize = 8;

/// A key table.
#[derive(Clone, Debug)]
pub struct Keymap(Vec<Binding>);

impl Default for Keymap {
    fn default() -> Keymap {
        Keymap(TABLE.to_vec())
    }
}

/// Why an action cannot have a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeymapError {
    /// No action has this name.
    UnknownAction {
        /// As written.
        name: String,
        /// What may have been meant.
        meant: Option<&'static str>,
    },
    /// This is no key that a terminal tells.
    UnknownKey {
        /// As written.
        key: String,
        /// What is wrong, or how keys are written.
        remedy: &'static str,
    },
    /// A character, where characters are typed.
    Typed {
        /// As written.
        key: String,
    },
    /// Another action has the key, where both are heard.
    Taken {
        /// The key.
        key: String,
        /// The other action.
        by: String,
    },
    /// No key, or more than anybody needs.
    Count,
}

impl fmt::Display for KeymapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeymapError::UnknownAction { name, meant: Some(meant) } => {
                write!(f, "no action is called `{name}`; did you mean `{meant}`?")
            }
            KeymapError::UnknownAction { name, meant: None } => {
                write!(f, "no action is called `{name}`; man sigtop lists their names")
            }
            KeymapError::UnknownKey { key, remedy } => write!(f, "`{key}` is no key: {remedy}"),
            KeymapError::Typed { key } => {
                write!(f, "`{key}` is a character that is typed where this key is heard; use one with Ctrl- or Alt-")
            }
            KeymapError::Taken { key, by } => write!(f, "`{key}` is the key of `{by}`; give that one another key too"),
            KeymapError::Count => write!(f, "an action has 1 to {MAX_KEYS} keys"),
        }
    }
}

impl std::error::Error for KeymapError {}

impl Keymap {
    /// The rows, in the order of the table.
    pub fn bindings(&self) -> &[Binding] {
        &self.0
    }

    /// Gives the action of this name these keys instead of its own. Call [`Keymap::check`] when all are given.
    ///
    /// # Errors
    /// An unknown name, an unknown key, a key that cannot be heard there.
    pub fn rebind(&mut self, wanted: &str, keys: &[&str]) -> Result<(), KeymapError> {
        let Some(row) = self.0.iter().position(|binding| name(binding) == Some(wanted)) else {
            let meant = nearest(wanted, TABLE.iter().filter_map(name));
            return Err(KeymapError::UnknownAction { name: wanted.to_owned(), meant });
        };
        if keys.is_empty() || keys.len() > MAX_KEYS {
            return Err(KeymapError::Count);
        }
        let binding = &mut self.0[row];
        let keys = keys.iter().map(|text| key(text)).collect::<Result<Vec<Key>, _>>()?;
        let typed = |(code, modifiers): &&Key| matches!(code, KeyCode::Char(_)) && modifiers.is_empty();
        if let Some(key) =
            keys.iter().find(typed).filter(|_| matches!(binding.place, Place::Everywhere | Place::Typing))
        {
            return Err(KeymapError::Typed { key: label(*key) });
        }
        binding.label = Cow::Owned(keys.iter().map(|key| label(*key)).collect::<Vec<_>>().join(" "));
        binding.keys = Cow::Owned(keys);
        Ok(())
    }

    /// Whether the action of this name has its keys for itself wherever it is heard.
    ///
    /// # Errors
    /// A key that another action has too.
    pub fn check(&self, wanted: &str) -> Result<(), KeymapError> {
        for mine in self.0.iter().filter(|binding| name(binding) == Some(wanted)) {
            let others = self.0.iter().filter(|other| !std::ptr::eq(*other, mine) && meet(mine.place, other.place));
            for other in others {
                if let Some(key) = mine.keys.iter().find(|key| other.keys.contains(key)) {
                    let by = name(other).unwrap_or(other.words).to_owned();
                    return Err(KeymapError::Taken { key: label(*key), by });
                }
            }
        }
        Ok(())
    }
}

/// Whether a key can be heard at both places at once, one hiding the other.
fn meet(one: Place, other: Place) -> bool {
    let overlay = |place| is_fixed(place) || place == Place::Typing;
    let pane = |place| {
        matches!(place, Place::Top | Place::Callers | Place::Flame | Place::Source | Place::Threads | Place::Output)
    };
    if one == other {
        return true;
    }
    match (overlay(one), overlay(other)) {
        (false, false) => !(pane(one) && pane(other)),
        // Over the panes only what is heard everywhere is heard too, and nothing but its own while typing.
        (true, false) => other == Place::Everywhere && one != Place::Typing,
        (false, true) => one == Place::Everywhere && other != Place::Typing,
        (true, true) => false,
    }
}

/// Whether the keys of a place are as they are.
fn is_fixed(place: Place) -> bool {
    matches!(
        place,
        Place::Prompt | Place::Colon | Place::Save | Place::Question | Place::Confirm | Place::Ending | Place::Picker
    )
}

/// What an action is called in the config file; `None` where its keys are fixed (prompts, questions, the way out).
pub fn name(binding: &Binding) -> Option<&'static str> {
    if is_fixed(binding.place) {
        return None;
    }
    Some(match &binding.action {
        Action::NextPane(1) => "next-pane",
        Action::NextPane(_) => "previous-pane",
        Action::Dashboard => "dashboard",
        Action::Alone(Pane::Top) => "top",
        Action::Alone(Pane::Callers) => "callers",
        Action::Alone(Pane::Flame) => "flame",
        Action::Alone(Pane::Source) => "source",
        Action::Alone(Pane::Threads) => "threads",
        Action::Alone(Pane::Output) => "output",
        Action::Zoom => "full",
        Action::Move(Motion::Rows(1)) => "down",
        Action::Move(Motion::Rows(_)) => "up",
        Action::Move(Motion::Columns(1)) => "right",
        Action::Move(Motion::Columns(_)) => "left",
        Action::Move(Motion::Pages(1)) => "page-down",
        Action::Move(Motion::Pages(_)) => "page-up",
        Action::Move(Motion::First) => "first",
        Action::Move(Motion::Last) => "last",
        Action::Enter => match binding.place {
            Place::Top => "callers-of",
            Place::Callers => "centre",
            Place::Flame => "zoom-in",
            Place::Source => "into-call",
            Place::Threads => "filter-thread",
            _ => "type",
        },
        Action::Out if binding.place == Place::Flame => "zoom-out",
        Action::Out => "back",
        Action::Forward => "forward",
        Action::TurnListing => "source-or-assembly",
        Action::TurnFlame => "turn",
        Action::BottomUp => "bottom-up",
        Action::Colour => "colour",
        Action::StopTyping => "stop-typing",
        Action::Prompt(subject) => subject.word(),
        Action::Colon => "command",
        Action::Save => "save",
        Action::FilterSelected(Subject::Focus) => "focus-selected",
        Action::FilterSelected(Subject::Ignore) => "ignore-selected",
        Action::FilterSelected(Subject::Hide) => "hide-selected",
        Action::HideModule => "hide-module",
        Action::Group => "group",
        Action::Roots => "roots",
        Action::Undo => "undo",
        Action::Redo => "redo",
        Action::ClearFilters => "clear-filters",
        Action::FindNext(1) => "find-next",
        Action::FindNext(_) => "find-previous",
        Action::SortColumn(1) if binding.place == Place::Threads => "sort-threads-right",
        Action::SortColumn(_) if binding.place == Place::Threads => "sort-threads-left",
        Action::SortColumn(1) => "sort-right",
        Action::SortColumn(_) => "sort-left",
        Action::FlatOrCum => "flat-or-cum",
        Action::Names => "names",
        Action::Base => "base",
        Action::Window(1) => "window-longer",
        Action::Window(_) => "window-shorter",
        Action::Clock(Clock::Prof) => "prof",
        Action::Clock(Clock::Real) => "real",
        Action::Clock(Clock::Virtual) => "virtual",
        Action::Engine => "engine",
        Action::Rate(1) => "rate-up",
        Action::Rate(_) => "rate-down",
        Action::Reset => "reset",
        Action::Freeze => "freeze",
        Action::Step { newer: false, fine: false } => "older",
        Action::Step { newer: true, fine: false } => "newer",
        Action::Step { newer: false, fine: true } => "older-finely",
        Action::Step { newer: true, fine: true } => "newer-finely",
        Action::Mark => "mark",
        Action::Baseline => "baseline",
        Action::Losses => "losses",
        Action::Copy => "copy",
        Action::Why => "why",
        Action::Redraw => "redraw",
        Action::Suspend => "suspend",
        Action::Help => "help",
        Action::Quit if binding.place == Place::Screen => "quit",
        Action::Quit => "quit-anywhere",
        _ => return None,
    })
}

/// Keys with a name, as they are written.
const NAMED: &[(&str, KeyCode)] = &[
    ("Space", KeyCode::Char(' ')),
    ("Tab", KeyCode::Tab),
    ("Shift-Tab", KeyCode::BackTab),
    ("Enter", KeyCode::Enter),
    ("Backspace", KeyCode::Backspace),
    ("Del", KeyCode::Delete),
    ("Ins", KeyCode::Insert),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("PgUp", KeyCode::PageUp),
    ("PgDn", KeyCode::PageDown),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
];

/// A key as it is written: `f`, `Space`, `F5`, `Ctrl-x`, `Alt-Left`.
fn key(text: &str) -> Result<Key, KeymapError> {
    let unknown = |remedy| Err(KeymapError::UnknownKey { key: text.to_owned(), remedy });
    const WAYS: &str = "keys are written f, F, Space, Tab, PgUp, F5, Ctrl-x, Alt-x";
    let (modifiers, rest) = match text.split_once('-').filter(|(_, rest)| !rest.is_empty()) {
        Some((word, rest)) if word.eq_ignore_ascii_case("ctrl") => (KeyModifiers::CONTROL, rest),
        Some((word, rest)) if word.eq_ignore_ascii_case("alt") => (KeyModifiers::ALT, rest),
        _ => (KeyModifiers::NONE, text),
    };
    let named = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(rest)).map(|(_, code)| *code);
    let function = || rest.strip_prefix(['F', 'f'])?.parse().ok().filter(|number| (1..=12).contains(number));
    let mut characters = rest.chars();
    let code = match (named, characters.next(), characters.next()) {
        (Some(code), ..) => code,
        (None, Some(c), None) if !c.is_control() => KeyCode::Char(c),
        _ => match function() {
            Some(number) => KeyCode::F(number),
            None => return unknown(WAYS),
        },
    };
    let code = match code {
        KeyCode::Char(c) if modifiers == KeyModifiers::CONTROL => KeyCode::Char(c.to_ascii_lowercase()),
        code => code,
    };
    match code {
        KeyCode::Char('h' | 'i' | 'j' | 'm' | '[') if modifiers == KeyModifiers::CONTROL => {
            unknown("terminals send it as Backspace, Tab, Enter or Esc")
        }
        KeyCode::Char('c') if modifiers == KeyModifiers::CONTROL => unknown("Ctrl-C always quits"),
        KeyCode::Char(c)
            if modifiers == KeyModifiers::CONTROL
                && !(c.is_ascii_lowercase() || [' ', '\\', ']', '^', '_'].contains(&c)) =>
        {
            unknown("terminals send Ctrl- with letters, Space and \\ ] ^ _ only")
        }
        code => Ok((code, modifiers)),
    }
}

/// How a key is written.
fn label((code, modifiers): Key) -> String {
    let named = NAMED.iter().find(|(_, named)| *named == code).map(|(name, _)| (*name).to_owned());
    let name = named.unwrap_or_else(|| match code {
        KeyCode::Char(c) => c.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::Esc => "Esc".to_owned(),
        other => format!("{other:?}"),
    });
    let before = match modifiers {
        KeyModifiers::CONTROL => "Ctrl-",
        KeyModifiers::ALT => "Alt-",
        _ => "",
    };
    format!("{before}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keys;
    use crossterm::event::KeyEvent;
    use std::collections::HashSet;

    #[test]
    fn actions_have_names_of_their_own() {
        let mut seen = HashSet::new();
        for binding in TABLE {
            let fixed = is_fixed(binding.place) || matches!(binding.action, Action::Back | Action::Interrupt);
            match name(binding) {
                Some(name) => assert!(seen.insert(name), "{name} twice"),
                None => assert!(fixed, "{:?} has no name", binding.action),
            }
        }
    }

    #[test]
    fn every_key_of_the_table_can_be_written_and_read() {
        for (code, modifiers) in TABLE.iter().flat_map(|binding| binding.keys.iter()) {
            let written = label((*code, *modifiers));
            if *code != KeyCode::Esc && written != "Ctrl-c" {
                assert_eq!(key(&written), Ok((*code, *modifiers)), "{written}");
            }
        }
    }

    #[test]
    fn another_key_does_what_the_first_one_did() {
        let mut keymap = Keymap::default();
        keymap.rebind("freeze", &["Ctrl-S", "F5"]).unwrap();
        keymap.check("freeze").unwrap();
        let action =
            |code, modifiers| keys::action(keymap.bindings(), &[Place::Screen], KeyEvent::new(code, modifiers));
        assert!(matches!(action(KeyCode::Char('s'), KeyModifiers::CONTROL), Some(Action::Freeze)));
        assert!(matches!(action(KeyCode::F(5), KeyModifiers::NONE), Some(Action::Freeze)));
        assert!(action(KeyCode::Char(' '), KeyModifiers::NONE).is_none());
        assert!(keymap.bindings().iter().any(|binding| binding.label == "Ctrl-s F5"));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let refused = |name: &str, keys: &[&str]| {
            let mut keymap = Keymap::default();
            let rebound = keymap.rebind(name, keys).map_err(|error| error.to_string());
            rebound.and_then(|()| keymap.check(name).map_err(|error| error.to_string())).unwrap_err()
        };
        assert!(refused("freze", &["a"]).contains("did you mean `freeze`?"));
        assert!(refused("freeze", &["Hyper-x"]).contains("keys are written"));
        assert!(refused("freeze", &["Ctrl-i"]).contains("Tab"));
        assert!(refused("freeze", &["Ctrl-ß"]).contains("letters"));
        assert!(refused("freeze", &["\u{7}"]).contains("keys are written"));
        assert!(refused("freeze", &["f"]).contains("`focus`"));
        assert!(refused("freeze", &["c"]).contains("`flat-or-cum`"), "an inner place would hide it");
        assert!(refused("freeze", &[]).contains("1 to"));
        assert!(refused("stop-typing", &["x"]).contains("Ctrl-"));
        assert!(refused("redraw", &["Ctrl-w"]).contains("is the key of"));
    }

    #[test]
    fn keys_can_be_swapped() {
        let mut keymap = Keymap::default();
        keymap.rebind("focus", &["i"]).unwrap();
        assert!(keymap.check("focus").is_err());
        keymap.rebind("ignore", &["f"]).unwrap();
        keymap.check("focus").and_then(|()| keymap.check("ignore")).unwrap();
    }
}
